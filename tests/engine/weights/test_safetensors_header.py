"""Headers: a sound one is read, every kind of damage is refused in words before anything is allocated."""

from pathlib import Path
import re
import tracemalloc
from typing import Any

import pytest

from local_llm_engine.errors import WeightFormatError
from local_llm_engine.weights.safetensors_header import read_header

from .files import SOUND, SOUND_DATA, safetensors_bytes, write_file

MIB = 1024**2
LFS_POINTER = (
    b"version https://git-lfs.github.com/spec/v1\n"
    b"oid sha256:4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393\nsize 6736192\n"
)


def entry(**changes: Any) -> bytes:
    """Lay out a file of one tensor of 16 bytes whose description is changed."""
    described = {"dtype": "F32", "shape": [2, 2], "data_offsets": [0, 16]} | changes
    return safetensors_bytes({"first": described}, bytes(16))


def test_sound_file(tmp_path: Path) -> None:
    file = write_file(tmp_path, safetensors_bytes())
    first, second = read_header(file)
    assert (first.name, first.file, first.dtype, first.shape, first.start, first.end) == (
        "first", file, "F32", (2, 2), 0, 16,
    )  # fmt: skip
    assert (second.name, second.num_elements, second.nbytes) == ("second", 2, 4)


def test_tensors_come_in_the_order_of_their_bytes(tmp_path: Path) -> None:
    turned = {name: SOUND[name] for name in ("second", "first")}
    infos = read_header(write_file(tmp_path, safetensors_bytes(turned)))
    assert [info.name for info in infos] == ["first", "second"]


@pytest.mark.parametrize(
    ("shape", "dtype", "nbytes"),
    [
        pytest.param([], "F32", 4, id="scalar"),
        pytest.param([0, 7], "F32", 0, id="empty"),
        pytest.param([3, 2], "F4", 3, id="two values a byte"),
    ],
)
def test_unusual_shapes(
    tmp_path: Path, shape: list[int], dtype: str, nbytes: int
) -> None:
    header = {"first": {"dtype": dtype, "shape": shape, "data_offsets": [0, nbytes]}}
    (info,) = read_header(
        write_file(tmp_path, safetensors_bytes(header, bytes(nbytes)))
    )
    assert (info.shape, info.nbytes) == (tuple(shape), nbytes)


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        pytest.param(b"", "is cut short: it has 0 bytes", id="empty file"),
        pytest.param(b"\x01\x02\x03", "is cut short: it has 3 bytes", id="three bytes"),
        pytest.param(LFS_POINTER, "is a Git LFS pointer", id="LFS pointer"),
        pytest.param(b"<!DOCTYPE html><html>", "claims a header of", id="web page"),
        pytest.param(
            (126 * MIB).to_bytes(8, "little") + b"{}",
            "claims a header of 132120576 bytes",
            id="header of 126 MiB",
        ),
        pytest.param(
            (2**64 - 1).to_bytes(8, "little") + b"{}",
            "claims a header of",
            id="header of 2^64 - 1 bytes",
        ),
        pytest.param(
            (50).to_bytes(8, "little") + b"{}",
            "its header needs 50 bytes, the file has 2",
            id="cut header",
        ),
        pytest.param(
            safetensors_bytes()[:-1],
            "is cut short: tensor 'second' ends at byte 20",
            id="cut by one byte",
        ),
        pytest.param(
            safetensors_bytes()[:-12],
            "is cut short: tensor 'first' ends at byte 16",
            id="cut by 12 bytes",
        ),
        pytest.param(
            safetensors_bytes() + bytes(16),
            "has 16 bytes after its last tensor",
            id="16 trailing bytes",
        ),
        pytest.param(
            safetensors_bytes({}, b"x"),
            "has 1 bytes after its last tensor",
            id="no tensor, one byte",
        ),
    ],
)
def test_damaged_file(tmp_path: Path, content: bytes, problem: str) -> None:
    file = write_file(tmp_path, content)
    with pytest.raises(
        WeightFormatError, match=re.escape(f"{file}: ") + ".*" + re.escape(problem)
    ):
        read_header(file)


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        pytest.param(
            safetensors_bytes(b"{'first': 1}"), "is not valid JSON", id="no JSON"
        ),
        pytest.param(
            safetensors_bytes(b'{"first": "\xff"}'), "is not valid JSON", id="no UTF-8"
        ),
        pytest.param(
            safetensors_bytes(b"[" * 100_000), "is not valid JSON", id="too deep"
        ),
        pytest.param(
            safetensors_bytes([1, 2]), "must be a JSON object, not list", id="list"
        ),
        pytest.param(
            safetensors_bytes(b'{"a": 1, "b": 2, "a": 3}'),
            "lists 'a' twice",
            id="name twice",
        ),
        pytest.param(
            safetensors_bytes({"first": 7}),
            "'first' must be described by a JSON object",
            id="number",
        ),
        pytest.param(
            safetensors_bytes({"a" * 256: SOUND["first"]}, SOUND_DATA),
            "right are at most 255 characters",
            id="long name",
        ),
        pytest.param(
            safetensors_bytes({"a\n": SOUND["first"]}, SOUND_DATA),
            "names a tensor 'a\\n'; right are",
            id="name that cannot be printed",
        ),
        pytest.param(
            entry(dtype="F" * 1_000_000),
            "FFF...FFFFFFFFFFFFFFFFFFFFFFFFFFFF'; known are",
            id="endless dtype",
        ),
        pytest.param(
            entry(dtype="F33"),
            "'first' has the unknown dtype 'F33'; known are",
            id="unknown dtype",
        ),
        pytest.param(
            entry(dtype=["F32"]),
            "'first' has the unknown dtype ['F32']",
            id="dtype is a list",
        ),
        pytest.param(entry(shape=None), "'first' has the shape None", id="no shape"),
        pytest.param(
            entry(shape=[-2, -2]), "'first' has the shape [-2, -2]", id="negative shape"
        ),
        pytest.param(
            entry(shape=[2, 2.0]), "'first' has the shape [2, 2.0]", id="broken shape"
        ),
        pytest.param(
            entry(shape=[True, 4]),
            "'first' has the shape [True, 4]",
            id="truth value as size",
        ),
        pytest.param(
            entry(shape=[1] * 17), "at most 16 whole numbers", id="17 dimensions"
        ),
        pytest.param(
            entry(shape=[2**70]),
            "has the shape [1180591620717411303424]",
            id="size beyond 64 bits",
        ),
        pytest.param(
            entry(shape=[2**62] * 16),
            "'first' spans 16 bytes",
            id="product beyond 64 bits",
        ),
        pytest.param(
            entry(shape=[2, 3]),
            "'first' spans 16 bytes; its shape and dtype need 24",
            id="shape too large",
        ),
        pytest.param(
            entry(dtype="F64"),
            "'first' spans 16 bytes; its shape and dtype need 32",
            id="dtype too large",
        ),
        pytest.param(
            entry(data_offsets=[0]), "'first' has the data_offsets [0]", id="one offset"
        ),
        pytest.param(
            entry(data_offsets=[16, 0]),
            "'first' has the data_offsets [16, 0]",
            id="offsets turned",
        ),
        pytest.param(
            entry(data_offsets=[-16, 0]),
            "'first' has the data_offsets [-16, 0]",
            id="negative offset",
        ),
        pytest.param(
            entry(data_offsets=[4, 20]),
            "starts at byte 4 and leaves a hole",
            id="hole at the start",
        ),
        pytest.param(
            safetensors_bytes(
                dict(
                    SOUND,
                    second={"dtype": "BF16", "shape": [2], "data_offsets": [18, 22]},
                )
            ),
            "'second' starts at byte 18 and leaves a hole before it; right would be 16",
            id="hole",
        ),
        pytest.param(
            safetensors_bytes(
                dict(
                    SOUND,
                    second={"dtype": "BF16", "shape": [2], "data_offsets": [14, 18]},
                )
            ),
            "'second' starts at byte 14 and overlaps the tensor before it; right would be 16",
            id="overlap",
        ),
        pytest.param(
            safetensors_bytes(
                {
                    "first": {
                        "dtype": "F32",
                        "shape": [2**40],
                        "data_offsets": [0, 2**42],
                    }
                },
                SOUND_DATA,
            ),
            "is cut short: tensor 'first' ends at byte 4398046511104",
            id="4 TiB claimed",
        ),
    ],
)
def test_damaged_header(tmp_path: Path, content: bytes, problem: str) -> None:
    file = write_file(tmp_path, content)
    with pytest.raises(
        WeightFormatError, match=re.escape(f"{file}: ") + ".*" + re.escape(problem)
    ):
        read_header(file)


def test_missing_file(tmp_path: Path) -> None:
    with pytest.raises(
        WeightFormatError, match=r"model\.safetensors: cannot be read: No such file"
    ):
        read_header(tmp_path / "model.safetensors")


def test_oversized_header_is_refused_before_it_is_read(tmp_path: Path) -> None:
    file = tmp_path / "model.safetensors"
    with file.open("wb") as stream:
        stream.write((126 * MIB).to_bytes(8, "little"))
        stream.truncate(200 * MIB)
    tracemalloc.start()
    with pytest.raises(WeightFormatError, match="at most 100000000 are allowed"):
        read_header(file)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < MIB
