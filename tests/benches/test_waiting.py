"""Ours waits in a bench as it does in Home Assistant, and a peer as it does by itself."""

import os
from pathlib import Path
import subprocess
import sys

import pytest

ROOT = Path(__file__).resolve().parents[2]
PATH = os.pathsep.join((str(ROOT / "scripts"), str(ROOT / "engine")))
NAMES = ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT")
LOOK = f"import sys, os, benches; print('torch' in sys.modules, *map(os.environ.get, {NAMES}))"


@pytest.mark.parametrize(
    ("chosen", "expected"),
    [
        ({}, ["ACTIVE", "3000"]),
        ({"OMP_WAIT_POLICY": "PASSIVE"}, ["PASSIVE", "None"]),
        ({"GOMP_SPINCOUNT": "5"}, ["ACTIVE", "5"]),
    ],
    ids=["nothing is chosen", "a policy", "a time"],
)
def test_it_is_settled_before_torch_is_loaded(
    chosen: dict[str, str], expected: list[str]
) -> None:
    """That a peer waits as it likes is what the fake ones see to."""
    environment = {
        name: value for name, value in os.environ.items() if name not in NAMES
    }
    done = subprocess.run(
        [sys.executable, "-P", "-c", LOOK],
        env=environment | chosen | {"PYTHONPATH": PATH},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == ["False", *expected]
