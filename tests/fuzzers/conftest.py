"""What the tests of the fuzzers share."""

from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(autouse=True)
def fuzzers_on_path(monkeypatch: pytest.MonkeyPatch) -> None:
    """Find the fuzzers where scripts/fuzz finds them."""
    monkeypatch.syspath_prepend(str(ROOT / "scripts"))
