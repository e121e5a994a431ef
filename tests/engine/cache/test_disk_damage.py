"""Whatever lies in the folder: one clear line, never a crash, never a wrong answer."""

from collections.abc import Callable
import json
import logging
import os
from pathlib import Path
import stat

import pytest
from safetensors.torch import save_file
import torch

from local_llm_engine.cache import piece_header
from local_llm_engine.cache.disk_folder import KEPT_ASIDE
from tests.engine.cache.disks import (
    BEDROOM,
    FINGERPRINT,
    HOUSE,
    KITCHEN,
    assert_right,
    file_of,
    fill,
    flush,
    piece_files,
    started,
    warm_up,
)
from tests.engine.cache.slots import make_slot, read, resume


def truncated(path: Path) -> None:
    os.truncate(path, path.stat().st_size - 1)


def cut_to_a_few_bytes(path: Path) -> None:
    os.truncate(path, 5)


def empty(path: Path) -> None:
    os.truncate(path, 0)


def longer(path: Path) -> None:
    with path.open("ab") as stream:
        stream.write(b"\0" * 64)


def flip(path: Path, position: int) -> None:
    """Flip one bit of the byte at a position counted from the end."""
    data = bytearray(path.read_bytes())
    data[position] ^= 1
    path.write_bytes(data)


def flipped_byte_in_a_state(path: Path) -> None:
    flip(path, -1)


def flipped_byte_in_the_header(path: Path) -> None:
    flip(path, 8)


def flipped_byte_in_the_rank(path: Path) -> None:
    flip(path, path.read_bytes().index(b"SYSTEM") + 1)


def flipped_byte_in_the_tokens(path: Path) -> None:
    header_length = int.from_bytes(path.read_bytes()[:8], "little")
    flip(path, 8 + header_length)


def of_another_model(path: Path) -> None:
    path.write_bytes(path.read_bytes().replace(FINGERPRINT.encode(), b"1" * 64))


def of_an_older_layout(path: Path) -> None:
    path.write_bytes(path.read_bytes().replace(b'"layout":"3"', b'"layout":"2"'))


def of_another_program(path: Path) -> None:
    save_file({"weight": torch.zeros(4)}, path)


def not_safetensors(path: Path) -> None:
    path.write_bytes(b"once upon a time " * 100)


def header_of_huge_length(path: Path) -> None:
    path.write_bytes((2**62).to_bytes(8, "little") + path.read_bytes()[8:])


def header_nested_without_end(path: Path) -> None:
    nested = b"[" * 500_000
    path.write_bytes(len(nested).to_bytes(8, "little") + nested)


def header_of_odd_values(path: Path) -> None:
    header = json.dumps({"__metadata__": {"layout": "3"}, "tokens": 7}).encode()
    path.write_bytes(len(header).to_bytes(8, "little") + header)


def header_of_absurd_tokens(path: Path) -> None:
    path.write_bytes(path.read_bytes().replace(b'"end":"', b'"end":"9999'))


def link_out(path: Path) -> None:
    outside = path.parent.parent / "outside"
    path.rename(outside)
    path.symlink_to(outside)


def link_to_nowhere(path: Path) -> None:
    path.unlink()
    path.symlink_to(path.parent / "nowhere")


def folder_instead(path: Path) -> None:
    path.unlink()
    path.mkdir()


def pipe_instead(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def without_permission(path: Path) -> None:
    path.chmod(0)


DAMAGES = [
    truncated,
    cut_to_a_few_bytes,
    empty,
    longer,
    flipped_byte_in_a_state,
    flipped_byte_in_the_header,
    flipped_byte_in_the_rank,
    of_another_program,
    not_safetensors,
    header_of_huge_length,
    header_nested_without_end,
    header_of_odd_values,
    header_of_absurd_tokens,
    link_out,
    link_to_nowhere,
    folder_instead,
    pipe_instead,
    without_permission,
]


@pytest.fixture(autouse=True)
def permissions_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    """Refuse what a file's mode forbids, for root as well."""
    really_open = os.open

    def open_as_anybody(path: str | Path, flags: int, *rest: int, **named: int) -> int:
        descriptor = really_open(path, flags, *rest, **named)
        if not stat.S_IMODE(os.fstat(descriptor).st_mode) & 0o400:
            os.close(descriptor)
            raise PermissionError(13, "Permission denied")
        return descriptor

    monkeypatch.setattr(piece_header.os, "open", open_as_anybody)


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [
        record.getMessage()
        for record in caplog.records
        if record.levelno >= logging.WARNING
    ]


def damaged_file(folder: Path, end: int) -> Path:
    """Fill a folder, and name the file of the kitchen's piece that ends at a token."""
    fill(folder)
    with started(folder) as cache:
        return file_of(cache, KITCHEN, end)


@pytest.mark.parametrize("end", [20, 23], ids=["parent", "leaf"])
@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.__name__)
def test_a_damaged_file_is_put_aside_and_its_tokens_are_read_again(
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    damage: Callable[[Path], None],
    end: int,
) -> None:
    """Found at the start or when its bytes are needed; what does not depend on it is still used."""
    folder = tmp_path / "cache"
    path = damaged_file(folder, end)
    damage(path)
    with started(folder) as cache:
        restored = assert_right(cache, (*KITCHEN, 50))
        assert restored.copied_tokens == {20: 5, 23: 20}[end]
        bedroom = assert_right(cache, (*BEDROOM, 50))
        assert bedroom.copied_tokens == {20: 5, 23: 23}[end]
        flush(cache)
        [warning] = warnings(caplog)
        assert str(path) in warning
        [notice] = cache.notices
        assert "1" in notice
        assert path not in folder.iterdir()
    caplog.clear()
    with started(folder) as cache:
        warm_up(cache, KITCHEN, 5, 20)
    with started(folder) as cache:
        assert assert_right(cache, (*KITCHEN, 50)).copied_tokens == 23
    assert not warnings(caplog)


@pytest.mark.parametrize("end", [20, 23], ids=["parent", "leaf"])
@pytest.mark.parametrize(
    "change", [of_another_model, of_an_older_layout], ids=lambda change: change.__name__
)
def test_what_another_model_computed_goes_quietly(
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    change: Callable[[Path], None],
    end: int,
) -> None:
    """It is no damage: somebody chose another model, or brought the engine up to date."""
    folder = tmp_path / "cache"
    path = damaged_file(folder, end)
    change(path)
    with started(folder) as cache:
        restored = assert_right(cache, (*KITCHEN, 50))
        assert restored.copied_tokens == {20: 5, 23: 20}[end]
        assert cache.notices == ()
    assert not warnings(caplog)
    assert [file for file in folder.iterdir() if file.name.startswith(path.stem)] == []


def test_altered_tokens_are_found_when_they_are_trusted(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """They hide a piece from those that could use it; nobody gets it under the wrong tokens."""
    path = damaged_file(tmp_path, 23)
    flipped_byte_in_the_tokens(path)
    with started(tmp_path) as cache:
        assert assert_right(cache, (*KITCHEN, 50)).copied_tokens == 20
        altered = (*HOUSE, 100, 7, 8)
        assert assert_right(cache, (*altered, 50)).copied_tokens == 20
        assert len(warnings(caplog)) == 1


@pytest.mark.parametrize(
    "damage",
    [truncated, empty, flipped_byte_in_a_state, link_to_nowhere, Path.unlink],
    ids=lambda damage: damage.__name__,
)
def test_a_file_that_breaks_later_is_noticed_when_it_is_needed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, damage: Callable[[Path], None]
) -> None:
    """Also after it was checked once, and for all that was computed from it."""
    fill(tmp_path)
    with started(tmp_path, ram_bytes=0) as cache:
        assert assert_right(cache, (*KITCHEN, 50)).copied_tokens == 23
        damage(file_of(cache, KITCHEN, 20))
        assert assert_right(cache, (*BEDROOM, 50)).copied_tokens == 5
        assert assert_right(cache, (*KITCHEN, 50)).copied_tokens == 5
        flush(cache)
        assert len(warnings(caplog)) == 1
        assert len(piece_files(tmp_path)) == 1


def test_a_slot_on_a_lost_piece_goes_on_and_keeps_nothing_wrong(tmp_path: Path) -> None:
    """Its numbers are good, and belong to no chain."""
    fill(tmp_path)
    with started(tmp_path, ram_bytes=0) as cache:
        slot = make_slot()
        resume(cache, slot, BEDROOM, 23)
        flipped_byte_in_a_state(file_of(cache, KITCHEN, 20))
        assert assert_right(cache, (*KITCHEN, 50)).copied_tokens == 5
        read(cache, slot, (*BEDROOM, 60, 61), 24, 25)
        assert cache.find((*BEDROOM, 60, 61), 25).piece is not None
        cache.check_integrity()
        assert resume(cache, slot, BEDROOM, 23).copied_tokens == 5


def test_pieces_without_their_parent_are_removed(tmp_path: Path) -> None:
    """Nobody can go on from them."""
    damaged_file(tmp_path, 5).unlink()
    with started(tmp_path) as cache:
        assert cache.num_prompts == 0
        assert piece_files(tmp_path) == []
        assert cache.disk_bytes == 0


@pytest.mark.parametrize("end", [5, 20, 23])
@pytest.mark.parametrize("other_end", [5, 20, 23])
def test_a_file_under_another_ones_name_never_gives_a_wrong_answer(
    tmp_path: Path, end: int, other_end: int
) -> None:
    """A name stands for its bytes, whatever else is in the folder."""
    path = damaged_file(tmp_path, end)
    with started(tmp_path) as cache:
        other = file_of(cache, BEDROOM, other_end)
    path.write_bytes(other.read_bytes())
    with started(tmp_path) as cache:
        for prompt in (KITCHEN, BEDROOM, KITCHEN):
            assert_right(cache, (*prompt, 50))
            cache.check_integrity()
        flush(cache)
    with started(tmp_path) as cache:
        warm_up(cache, KITCHEN, 5, 20)
    with started(tmp_path) as cache:
        assert assert_right(cache, (*KITCHEN, 50)).copied_tokens == 23


def test_leftovers_of_a_crash_are_removed_and_other_files_stay(tmp_path: Path) -> None:
    """Half-written files go; what is not ours is not touched."""
    fill(tmp_path)
    for name in ("123-0.partial", "notes.txt"):
        (tmp_path / name).write_text("half")
    with started(tmp_path) as cache:
        assert cache.num_prompts == 2
    assert not (tmp_path / "123-0.partial").exists()
    assert (tmp_path / "notes.txt").read_text() == "half"


def test_only_the_newest_files_put_aside_are_kept(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A folder full of foreign files costs neither the disk nor the log."""
    for number in range(50):
        (tmp_path / f"{number:064x}.safetensors").write_bytes(b"\0" * 100)
    with started(tmp_path):
        assert len(list(tmp_path.glob("*.aside"))) == KEPT_ASIDE
    assert len(warnings(caplog)) == 20
    (tmp_path / f"{77:064x}.safetensors").write_bytes(b"\0" * 70_000)
    with started(tmp_path):
        aside = sum(path.stat().st_size for path in tmp_path.glob("*.aside"))
        assert aside == 70_000


def test_two_runs_over_the_same_tokens_leave_one(tmp_path: Path) -> None:
    """A crash between writing the new and removing the old leaves a folder that works."""
    fill(tmp_path / "cache")
    with started(tmp_path / "other") as cache:
        warm_up(cache, KITCHEN, 7, 20)
    for path in piece_files(tmp_path / "other"):
        path.rename(tmp_path / "cache" / path.name)
    with started(tmp_path / "cache") as cache:
        flush(cache)
        cache.check_integrity()
        for prompt in (KITCHEN, BEDROOM):
            assert assert_right(cache, (*prompt, 50)).copied_tokens >= 20
    assert len(list((tmp_path / "cache").iterdir())) in (4, 5)
