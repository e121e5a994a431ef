"""A model in several GGUF files is the same as in one; parts that do not belong together are refused."""

from collections.abc import Callable
from pathlib import Path
import shutil
import struct

import pytest
import torch

from local_llm_engine.errors import ModelLoadError, WeightFormatError
from local_llm_engine.models.fingerprint import weights_digest
from local_llm_engine.models.registry import inspect_model, load_model
from local_llm_engine.weights.gguf_header import gguf_file_of, read_gguf_header
from tests.engine.gguf_files import write_gguf

from .checkpoints import FLOAT32, random_tokens
from .oracles import make
from .test_qwen3_5 import run

NAMES = [f"model-0000{number}-of-00003.gguf" for number in (1, 2, 3)]


def write_parts(folder: Path) -> Path:
    """Write a model into three files; return the first."""
    oracle = make("llama", {"num_hidden_layers": 2})
    write_gguf(folder / "model.gguf", "llama", oracle, tensors_a_part=8)
    assert sorted(file.name for file in folder.iterdir()) == NAMES
    return folder / NAMES[0]


@pytest.mark.parametrize("kind", ["llama", "qwen3_5_moe_text", "qwen3_next"])
def test_parts_are_one_model(tmp_path: Path, kind: str) -> None:
    """Also where what is joined to one matrix lies in two files."""
    changes = {"mlp_only_layers": []} if kind == "qwen3_next" else {}
    oracle = make(kind, changes)
    whole = write_gguf(tmp_path / "whole.gguf", kind, oracle)
    folder = tmp_path / "parts"
    folder.mkdir()
    write_gguf(folder / "model.gguf", kind, oracle, tensors_a_part=3)
    assert len(list(folder.iterdir())) > 5
    tokens = random_tokens(20)
    expected = run(load_model(whole, FLOAT32), tokens, [20])
    assert torch.equal(run(load_model(folder, FLOAT32), tokens, [20]), expected)
    assert inspect_model(folder).num_parameters == inspect_model(whole).num_parameters


def test_any_part_and_the_folder_mean_the_first(tmp_path: Path) -> None:
    first = write_parts(tmp_path)
    assert {gguf_file_of(tmp_path / name) for name in (".", *NAMES)} == {first}
    assert len(read_gguf_header(first).parts) == 3


def test_a_change_of_any_part_is_told(tmp_path: Path) -> None:
    first = write_parts(tmp_path)
    digests = {weights_digest(first)}
    for name in NAMES:
        content = bytearray((tmp_path / name).read_bytes())
        content[-8] ^= 1
        (tmp_path / name).write_bytes(content)
        digests.add(weights_digest(first))
    assert len(digests) == 4


def remove(folder: Path) -> None:
    (folder / NAMES[1]).unlink()


def remove_first(folder: Path) -> None:
    (folder / NAMES[0]).unlink()


def turn(folder: Path) -> None:
    (folder / NAMES[1]).rename(folder / "other")
    (folder / NAMES[2]).rename(folder / NAMES[1])
    (folder / "other").rename(folder / NAMES[2])


def repeat(folder: Path) -> None:
    shutil.copy(folder / NAMES[1], folder / NAMES[2])


def cut(folder: Path) -> None:
    with (folder / NAMES[2]).open("r+b") as stream:
        stream.truncate(stream.seek(0, 2) - 64)


def mix(folder: Path) -> None:
    """A part of a model of other sizes."""
    other = folder / "other"
    other.mkdir()
    oracle = make("llama", {"num_hidden_layers": 2, "vocab_size": 96})
    write_gguf(other / "model.gguf", "llama", oracle, tensors_a_part=8)
    (other / NAMES[0]).replace(folder / NAMES[0])
    shutil.rmtree(other)


@pytest.mark.parametrize(
    ("spoil", "problem"),
    [
        (remove, f"{NAMES[1]}: cannot be read: No such file"),
        (remove_first, f"{NAMES[0]}: cannot be read: No such file"),
        (turn, rf"{NAMES[1]}: says that it is part 2 of 3, counted from 0; right is 1 of 3"),
        (repeat, rf"{NAMES[2]}: says that it is part 1 of 3, counted from 0; right is 2 of 3"),
        (cut, rf"{NAMES[2]}: is cut short"),
        (mix, "has the shape"),
    ],
)  # fmt: skip
def test_parts_that_do_not_belong_together_are_refused(
    tmp_path: Path, spoil: Callable[[Path], None], problem: str
) -> None:
    write_parts(tmp_path)
    spoil(tmp_path)
    with pytest.raises(WeightFormatError, match=problem):
        inspect_model(tmp_path)


@pytest.mark.parametrize(
    ("key", "stored", "problem"),
    [
        (b"split.tensors.count", struct.pack("<Ii", 5, 23), "its parts hold 22 tensors; split.tensors.count is 23"),
        (b"split.tensors.count", struct.pack("<If", 6, 22.5), "split.tensors.count is 22.5"),
        (b"split.count", struct.pack("<IH", 2, 4), "is one of 4 parts of a model; right are files with the names"),
        (b"split.count", struct.pack("<Ih", 3, -3), "is one of -3 parts of a model"),
        (b"split.count", struct.pack("<IH", 2, 2), "is one of 2 parts of a model"),
        (b"split.count", struct.pack("<IH", 2, 1), "missing from the weights"),
    ],
)  # fmt: skip
def test_a_first_part_that_miscounts_is_refused(
    tmp_path: Path, key: bytes, stored: bytes, problem: str
) -> None:
    """`stored` is the kind of a number, and the number."""
    first = write_parts(tmp_path)
    content = first.read_bytes()
    start = content.index(key) + len(key)
    first.write_bytes(content[:start] + stored + content[start + len(stored) :])
    with pytest.raises(WeightFormatError, match=problem):
        inspect_model(tmp_path)


def test_a_part_under_another_name_is_refused(tmp_path: Path) -> None:
    first = write_parts(tmp_path)
    first.rename(tmp_path / "first.gguf")
    with pytest.raises(
        ModelLoadError, match=r"is one of 3 parts .* llama-gguf-split --merge"
    ):
        inspect_model(tmp_path / "first.gguf")
