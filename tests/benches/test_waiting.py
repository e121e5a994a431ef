"""Ours waits in a bench as it does in Home Assistant, and a peer as it does by itself."""

import os
from pathlib import Path
import subprocess
import sys

ROOT = Path(__file__).resolve().parents[2]
PATH = os.pathsep.join((str(ROOT / "scripts"), str(ROOT / "engine")))
LOOK = "import sys, os, benches; print('torch' in sys.modules, os.environ['OMP_WAIT_POLICY'])"


def test_it_is_settled_before_torch_is_loaded() -> None:
    """That a peer waits as it likes is what the fake ones see to."""
    environment = {
        name: value for name, value in os.environ.items() if name != "OMP_WAIT_POLICY"
    }
    done = subprocess.run(
        [sys.executable, "-P", "-c", LOOK],
        env=environment | {"PYTHONPATH": PATH},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == ["False", "PASSIVE"]
