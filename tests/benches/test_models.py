"""The command that makes model folders."""

from importlib import import_module
from pathlib import Path
import sys
from types import ModuleType

import pytest

SCRIPTS = Path(__file__).parents[2] / "scripts"


@pytest.fixture
def models(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The command's module, which finds its neighbours as it does when it is run."""
    monkeypatch.syspath_prepend(SCRIPTS)
    return import_module("benches.models")


def test_random_makes_a_folder_and_says_where(
    models: ModuleType,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    made = []

    def make(size: str, parent: Path) -> Path:
        made.append((size, parent))
        return parent / size

    monkeypatch.setattr(models, "random_model", make)
    monkeypatch.setattr(
        sys, "argv", ["models", "random", "0.8B", "--into", str(tmp_path)]
    )
    assert models.main() == 0
    assert made == [("0.8B", tmp_path)]
    assert capsys.readouterr().out == f"{tmp_path / '0.8B'}\n"


def test_an_unknown_size_is_refused(
    models: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["models", "random", "9B"])
    with pytest.raises(SystemExit):
        models.main()
