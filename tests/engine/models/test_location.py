"""However the path of a model is written, it is one place."""

from pathlib import Path

import pytest

from local_llm_engine.errors import ModelLoadError
from local_llm_engine.models.location import located


def test_home_is_spelled_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "models").mkdir()
    assert located("~/models") == tmp_path / "models"
    assert located("~/models/new.gguf") == tmp_path / "models" / "new.gguf"


def test_links_to_a_folder_are_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = tmp_path / "model"
    model.mkdir()
    (model / "weights.gguf").touch()
    (tmp_path / "link").symlink_to(model)
    (tmp_path / "other").symlink_to(tmp_path / "link")
    monkeypatch.chdir(tmp_path)
    written = ("model", "link", "other/", "./model/../other", str(model))
    assert {located(path) for path in written} == {model}
    assert located("other/weights.gguf") == model / "weights.gguf"


def test_a_file_that_is_a_link_keeps_its_name(tmp_path: Path) -> None:
    """Download tools keep files under names of digits, and what is made of one belongs beside its link."""
    (tmp_path / "blobs").mkdir()
    (tmp_path / "blobs" / "5eb63bbb").touch()
    link = tmp_path / "model.gguf"
    link.symlink_to("blobs/5eb63bbb")
    assert located(link) == link


@pytest.mark.parametrize(
    "path", ["~nobody-of-this-name/model", "a\0b/model"], ids=["no home", "no name"]
)
def test_what_cannot_be_followed_is_refused(path: str) -> None:
    with pytest.raises(ModelLoadError, match="cannot be followed"):
        located(path)
