"""A file that is changed after its header was read is refused: what is mapped of it would end the process, or be of others."""

from collections.abc import Callable
import os
from pathlib import Path

import pytest
from safetensors.torch import save_file
import torch

from local_llm_engine.errors import WeightFormatError
from local_llm_engine.weights.gguf_header import read_gguf_header
from local_llm_engine.weights.gguf_source import GgufSource, Recipe
from local_llm_engine.weights.safetensors import SafetensorsFolder

from . import gguf_bytes

type Open = Callable[[Path], tuple[Path, Callable[[], object]]]


def open_safetensors(folder: Path) -> tuple[Path, Callable[[], object]]:
    file = folder / "model.safetensors"
    save_file({"first": torch.arange(4096.0)}, file)
    opened = SafetensorsFolder.open(folder)
    return file, lambda: float(opened.tensor("first").sum())


def open_gguf(folder: Path) -> tuple[Path, Callable[[], object]]:
    file = folder / "model.gguf"
    file.write_bytes(gguf_bytes.SOUND)
    header = read_gguf_header(file)
    recipes = [
        (name, Recipe(parts=(info,), shape=info.shape))
        for name, info in header.tensors.items()
    ]
    source = GgufSource(header, recipes)
    return file, lambda: float(source.tensor("first").sum())


def truncate(file: Path) -> None:
    os.truncate(file, 100)


def empty(file: Path) -> None:
    file.write_bytes(b"")


def overwrite(file: Path) -> None:
    status = file.stat()
    file.write_bytes(bytes(status.st_size))
    os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns + 1))


def replace(file: Path) -> None:
    """Another file of the same size and time in its place."""
    status = file.stat()
    other = file.with_suffix(".new")
    other.write_bytes(bytes(status.st_size))
    os.utime(other, ns=(status.st_atime_ns, status.st_mtime_ns))
    other.replace(file)


@pytest.mark.parametrize("change", [truncate, empty, overwrite, replace])
@pytest.mark.parametrize("open_model", [open_safetensors, open_gguf])
@pytest.mark.parametrize("is_mapped", [False, True], ids=["not mapped yet", "mapped"])
def test_a_changed_file_is_refused(
    tmp_path: Path,
    open_model: Open,
    change: Callable[[Path], None],
    is_mapped: bool,
) -> None:
    file, read = open_model(tmp_path)
    for _ in range(is_mapped):
        read()
    change(file)
    with pytest.raises(
        WeightFormatError, match="was changed while it was being loaded"
    ):
        read()


@pytest.mark.parametrize("open_model", [open_safetensors, open_gguf])
def test_a_file_that_vanishes_is_refused(tmp_path: Path, open_model: Open) -> None:
    file, read = open_model(tmp_path)
    file.unlink()
    with pytest.raises(WeightFormatError, match="cannot be read: No such file"):
        read()


@pytest.mark.parametrize("open_model", [open_safetensors, open_gguf])
def test_reading_a_file_changes_nothing(tmp_path: Path, open_model: Open) -> None:
    file, read = open_model(tmp_path)
    file.read_bytes()
    assert read() == read()
