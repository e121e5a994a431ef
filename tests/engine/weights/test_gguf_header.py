"""GGUF headers: what is sound is read, and whatever a file claims is refused in one line, in bounded time and memory."""

from collections.abc import Sequence
import io
import os
from pathlib import Path
import time
import tracemalloc

from gguf import GGUFReader
from hypothesis import HealthCheck, given, settings, strategies as st
import pytest

from local_llm_engine.errors import ModelLoadError, WeightFormatError
from local_llm_engine.weights.gguf_header import gguf_file_of, read_gguf_header
from local_llm_engine.weights.gguf_reading import HeaderStream

from .gguf_bytes import (
    ARRAY,
    BOOL,
    SOUND,
    SOUND_DATA,
    SOUND_ENTRIES,
    SOUND_TENSORS,
    STRING,
    U8,
    U32,
    U64,
    array,
    entry,
    gguf_bytes,
    number,
    tensor,
    text,
)

HUGE = 2**64 - 1


def written(folder: Path, content: bytes) -> Path:
    file = folder / "model.gguf"
    file.write_bytes(content)
    return file


def test_a_sound_file_is_read_as_the_package_reads_it(tmp_path: Path) -> None:
    file = written(tmp_path, SOUND)
    header = read_gguf_header(file)
    assert dict(header.metadata) == {
        "general.architecture": "llama",
        "a.number": 7,
        "a.flag": True,
        "an.array": (0.5, 2.0),
        "some.texts": ("Büro", ""),
    }
    described = {
        name: (
            info.dtype,
            info.shape,
            header.parts[0].data_start + info.start,
            info.nbytes,
        )
        for name, info in header.tensors.items()
    }
    assert described == {
        known.name: (
            known.tensor_type.name,
            tuple(map(int, reversed(known.shape))),
            known.data_offset,
            known.n_bytes,
        )
        for known in GGUFReader(file).tensors
    }


@pytest.mark.parametrize("num_trailing", [0, 30])
def test_the_last_tensor_may_be_filled_up(tmp_path: Path, num_trailing: int) -> None:
    content = SOUND[: len(SOUND) - 30 + num_trailing]
    assert len(read_gguf_header(written(tmp_path, content)).tensors) == 2


def with_tensor(*tensors: bytes, data: bytes = SOUND_DATA) -> bytes:
    return gguf_bytes(SOUND_ENTRIES, tensors, data)


def with_entry(*entries: bytes) -> bytes:
    return gguf_bytes((*SOUND_ENTRIES, *entries), SOUND_TENSORS, SOUND_DATA)


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        pytest.param(b"", "cut short: the first word", id="empty"),
        pytest.param(b"GG", "cut short", id="two bytes"),
        pytest.param(b"version https://git-lfs.github.com/spec/v1\n", "Git LFS pointer", id="LFS pointer"),
        pytest.param(b"PK\x03\x04" + bytes(60), "is no GGUF file", id="archive"),
        pytest.param(gguf_bytes(start=b"GGUF\x01\0\0\0"), "of version 1", id="version 1"),
        pytest.param(gguf_bytes(start=b"GGUF\x04\0\0\0"), "of version 4", id="version 4"),
        pytest.param(gguf_bytes(start=b"GGUF\0\0\0\x03"), "big-endian", id="big-endian"),
        pytest.param(gguf_bytes(num_tensors=HUGE), "claims 18446744073709551615 tensors", id="endless tensors"),
        pytest.param(gguf_bytes(num_entries=HUGE), "claims 18446744073709551615 entries", id="endless entries"),
        pytest.param(gguf_bytes(num_tensors=60_000), "cut short", id="tensors that are not there"),
        pytest.param(gguf_bytes(num_entries=60_000), "cut short", id="entries that are not there"),
        pytest.param(with_entry(entry("k", STRING, number(HUGE))), "value of 'k' claims 18446744073709551615 bytes", id="endless string"),
        pytest.param(with_entry(entry("k", STRING, number(10**6))), "cut short: the value of 'k'", id="long string"),
        pytest.param(with_entry(number(HUGE)), "a key of its metadata claims", id="endless key"),
        pytest.param(with_entry(entry(b"\xff", U8, b"1")), "a key of its metadata is not UTF-8", id="key of no text"),
        pytest.param(with_entry(entry("k", STRING, text(b"\xc3"))), "value of 'k' is not UTF-8", id="string of no text"),
        pytest.param(with_entry(entry("k", 13, b"")), "value of 'k' is of the unknown kind 13", id="unknown kind"),
        pytest.param(with_entry(entry("k", ARRAY, array(13, 1, b"1"))), "unknown kind 13", id="array of an unknown kind"),
        pytest.param(with_entry(entry("k", ARRAY, array(ARRAY, 1, array(U8, 1, b"1")))), "array of arrays", id="array of arrays"),
        pytest.param(with_entry(entry("k", ARRAY, array(U8, HUGE, b"1"))), "claims 18446744073709551615 elements", id="endless array"),
        pytest.param(with_entry(entry("k", ARRAY, array(STRING, 10**6, text("a")))), "cut short|claims", id="array of strings that are not there"),
        pytest.param(with_entry(entry("k", ARRAY, array(U64, 2**21, b"1"))), "claims|cut short", id="array that is not there"),
        pytest.param(with_entry(entry("a.flag", BOOL, b"\0")), "'a.flag' twice", id="key twice"),
        pytest.param(with_entry(entry("general.alignment", U32, number(0, "I"))), "general.alignment is 0", id="alignment of 0"),
        pytest.param(with_entry(entry("general.alignment", U32, number(24, "I"))), "general.alignment is 24", id="alignment of 24"),
        pytest.param(with_entry(entry("general.alignment", U32, number(1, "I"))), "general.alignment is 1;", id="alignment of 1"),
        pytest.param(with_entry(entry("general.alignment", U64, number(2**63))), "general.alignment is 9223", id="huge alignment"),
        pytest.param(with_entry(entry("general.alignment", STRING, text("32"))), "general.alignment is '32'; right is", id="alignment in words"),
        pytest.param(with_entry(entry("general.alignment", U32, number(64, "I"))), "starts at byte 32 of the data; right would be 64", id="another alignment"),
        pytest.param(with_tensor(tensor("t", ())), "'t' has 0 dimensions", id="no dimension"),
        pytest.param(with_tensor(tensor("t", (1,) * 5)), "'t' has 5 dimensions", id="five dimensions"),
        pytest.param(with_tensor(text("t") + number(2**32 - 1, "I")), "'t' has 4294967295 dimensions", id="endless dimensions"),
        pytest.param(with_tensor(tensor("t", (2, 0))), r"'t' has the shape \[0, 2\]", id="size 0"),
        pytest.param(with_tensor(tensor("t", (33,), kind=8)), "rows of a multiple of 32", id="row of a part of a block"),
        pytest.param(with_tensor(tensor("t", (2**62, 2**62, 2**62))), "cut short: tensor 't' ends at byte", id="absurd shape"),
        pytest.param(with_tensor(tensor("t", (3,), kind=99)), "unknown format 99", id="unknown format"),
        pytest.param(with_tensor(tensor("t", (3,), kind=4)), "unknown format 4", id="format that was given up"),
        pytest.param(with_tensor(tensor("t", (3,), start=32)), "starts at byte 32 of the data; right would be 0", id="hole"),
        pytest.param(with_tensor(tensor("t", (3, 2)), tensor("u", (3, 2))), "'u' starts at byte 0 of the data; right would be 32", id="overlap"),
        pytest.param(with_tensor(tensor("t", (3, 2)), tensor("u", (3, 2), start=24)), "'u' starts at byte 24", id="wrong alignment"),
        pytest.param(with_tensor(tensor("t", (3, 2)), tensor("u", (3, 2), start=2**63)), "'u' starts at byte 9223372036854775808", id="out of range"),
        pytest.param(with_tensor(tensor("t", (3, 2)), tensor("t", (3, 2), start=32), data=bytes(64)), "bear one name", id="name twice"),
        pytest.param(with_tensor(tensor("t" * 256, (3,))), "the name of a tensor claims 256 bytes; at most 255", id="long name"),
        pytest.param(with_entry(entry("k" * 65_536, BOOL, b"1")), "a key of its metadata claims 65536 bytes", id="long key"),
        pytest.param(with_tensor(tensor(b"\xff", (3,))), "name of a tensor is not UTF-8", id="name of no text"),
        pytest.param(with_tensor(tensor("t\n", (3,))), r"names a tensor 't\\n'; right", id="name that cannot be printed"),
        pytest.param(SOUND[: len(SOUND) - 31], "cut short: tensor 'second' ends at byte 66", id="truncated"),
        pytest.param(SOUND + b"\0", "bytes after its last tensor", id="one trailing byte"),
        pytest.param(SOUND + bytes(1000), "has 1030 bytes after its last tensor", id="trailing bytes"),
    ],
)  # fmt: skip
def test_what_is_unsound_is_refused_in_one_line(
    tmp_path: Path, content: bytes, problem: str
) -> None:
    refused(written(tmp_path, content), problem)


def refused(file: Path, problem: str) -> None:
    started = time.process_time()
    tracemalloc.start()
    with pytest.raises(WeightFormatError, match=problem) as caught:
        read_gguf_header(file)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert time.process_time() - started < 1
    assert peak < 32 << 20
    message = str(caught.value)
    assert message.startswith(f"{file}: ")
    assert "\n" not in message
    assert len(message) < len(str(file)) + 300


def test_no_header_is_larger_than_any_could_be(tmp_path: Path) -> None:
    """Strings that are all there, but for their bytes on the disk."""
    file = tmp_path / "model.gguf"
    length = 4 << 20
    with file.open("wb") as stream:
        stream.write(gguf_bytes(num_entries=100)[:24])
        for index in range(26):
            stream.write(text(f"k{index}") + number(STRING, "I") + number(length))
            stream.seek(length, os.SEEK_CUR)
        stream.truncate(1 << 30)
    with pytest.raises(WeightFormatError, match="header of more than 100000000 bytes"):
        read_gguf_header(file)


def test_no_arrays_are_longer_than_any_could_be(tmp_path: Path) -> None:
    one = array(U8, 100_000, bytes(100_000))
    entries = [entry(f"k{index}", ARRAY, one) for index in range(30)]
    file = written(tmp_path, gguf_bytes(entries))
    refused(file, "claims 100000 elements in the value of 'k20'; at most 97152")


def test_a_file_that_shrinks_while_it_is_read_is_refused(tmp_path: Path) -> None:
    stream = HeaderStream(tmp_path / "model.gguf", io.BytesIO(b"GGUF"), size=24)
    with pytest.raises(WeightFormatError, match="has become shorter"):
        stream.take(8, "a number")


def test_every_truncation_is_refused(tmp_path: Path) -> None:
    for length in range(len(SOUND) - 30):
        with pytest.raises(WeightFormatError):
            read_gguf_header(written(tmp_path, SOUND[:length]))


@settings(
    max_examples=300,
    deadline=1000,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    changes=st.lists(
        st.tuples(st.integers(0, len(SOUND) - 1), st.binary(min_size=1, max_size=9)),
        min_size=1,
        max_size=4,
    ),
    length=st.integers(0, len(SOUND) + 40),
)
def test_changed_bytes_are_read_or_refused(
    tmp_path: Path, changes: Sequence[tuple[int, bytes]], length: int
) -> None:
    """Nothing else is raised, and what is read lies within the file."""
    content = bytearray(SOUND)
    for position, replacement in changes:
        content[position : position + len(replacement)] = replacement
    file = written(tmp_path, bytes(content[: max(length, 1)]))
    try:
        header = read_gguf_header(file)
    except WeightFormatError as err:
        lines = str(err).splitlines()
    else:
        lines = ["read"]
        for info in header.tensors.values():
            assert (
                0 <= info.start < info.end <= len(content) - header.parts[0].data_start
            )
    assert len(lines) == 1


def test_a_folder_that_cannot_be_read_as_a_file(tmp_path: Path) -> None:
    with pytest.raises(WeightFormatError, match="cannot be read"):
        read_gguf_header(tmp_path)


def test_which_file_a_path_means(tmp_path: Path) -> None:
    assert gguf_file_of(tmp_path) is None
    assert gguf_file_of(tmp_path / "nowhere") is None
    file = written(tmp_path, SOUND)
    assert gguf_file_of(tmp_path) == gguf_file_of(file) == file
    (tmp_path / "b.gguf").touch()
    with pytest.raises(ModelLoadError, match="holds 2 GGUF files"):
        gguf_file_of(tmp_path)
    (tmp_path / "config.json").touch()
    assert gguf_file_of(tmp_path) is None
