"""What the tests of the benches share."""

from pathlib import Path
import sys

import pytest

from . import fake_llama_server

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(autouse=True)
def benches_on_path(monkeypatch: pytest.MonkeyPatch) -> None:
    """Find the benches where scripts/bench finds them."""
    monkeypatch.syspath_prepend(str(ROOT / "scripts"))


@pytest.fixture
def llama_server(tmp_path: Path) -> Path:
    """A program that looks like llama-server from outside."""
    program = tmp_path / "llama-server"
    program.write_text(
        f'#!/bin/sh\nexec {sys.executable} {fake_llama_server.__file__} "$@"\n'
    )
    program.chmod(0o755)
    return program
