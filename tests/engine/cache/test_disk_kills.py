"""Kill -9 while the disk tier is written: a few of the hundred that the bench does."""

import os
from pathlib import Path
import subprocess
import sys

ROOT = Path(__file__).parents[3]


def test_every_restart_after_a_kill_is_in_order() -> None:
    """It comes up, has all that stood, and answers right; in a process that may be forked."""
    bench = subprocess.run(
        [sys.executable, "-P", ROOT / "scripts/benches/kill_disk_tier.py", "--kills=5"],
        env={**os.environ, "PYTHONPATH": str(ROOT / "engine")},
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )
    assert bench.returncode == 0, bench.stdout + bench.stderr
    assert "5 restarts in order" in bench.stdout
