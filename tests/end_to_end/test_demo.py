"""The demo itself, in a process of its own: a real Home Assistant, asked over its WebSocket."""

import json
import os
from pathlib import Path
import subprocess
import sys
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
KITCHEN, BEDROOM = "Kitchen Voice", "Bedroom Voice"


def run_demo(folder: Path, *arguments: str) -> dict[str, Any]:
    """Run the demo once on a free port and return what it wrote."""
    file = folder / "demo.json"
    command = [sys.executable, "-P", "-m", "demo_house", "--once", "--port", "0"]
    done = subprocess.run(
        [*command, "--json", str(file), *arguments],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(ROOT / "scripts"), "TMPDIR": str(folder)},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    result: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return result


@pytest.mark.parametrize(
    ("arguments", "limited"),
    [
        pytest.param((), [KITCHEN, BEDROOM, None], id="warm"),
        pytest.param(("--no-warm-up",), [BEDROOM, None], id="cold"),
    ],
)
def test_the_house_answers(
    tmp_path: Path, arguments: tuple[str, ...], limited: list[str | None]
) -> None:
    result = run_demo(tmp_path, *arguments)
    rows = result["rows"]
    assert [row["satellite"] for row in rows] == [
        KITCHEN,
        BEDROOM,
        KITCHEN,
        BEDROOM,
        None,
        None,
    ]
    assert all(row["ok"] for row in rows)
    assert all(
        row["prompt_tokens"] == row["reused_tokens"] + row["reread_tokens"]
        for row in rows
    )
    assert result["faults"] == []
    assert [limit["satellite"] for limit in result["limits"]] == limited
    assert all(limit["ok"] for limit in result["limits"])
    assert result["states"].pop("sensor.kitchen_voice_timer")["before"] == "unknown"
    assert result["states"] == {
        "light.bedroom_ceiling_light": {"before": "off", "after": "on"},
        "light.bedroom_reading_lamp": {"before": "off", "after": "on"},
        "light.kitchen_ceiling_light": {"before": "off", "after": "on"},
        "light.office_desk_lamp": {"before": "on", "after": "off"},
    }
    assert list(tmp_path.iterdir()) == [tmp_path / "demo.json"]
