"""Disk tiers over the slots of slots.py: an engine that starts, reads and stops, without a model."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from local_llm_engine.cache.disk import DiskTier
from local_llm_engine.cache.prompt_cache import PromptCache, Restored, Slot
from local_llm_engine.cache.ranks import Reader
from local_llm_engine.types import Purpose
from tests.engine.cache.slots import assert_same_state, make_slot, read, resume

ENOUGH_BYTES = 1 << 20
HOUSE = tuple(range(20))
KITCHEN, BEDROOM = (*HOUSE, 101, 7, 8), (*HOUSE, 102, 9, 4)
FINGERPRINT = "0" * 64
WARM_UP = Reader(Purpose.WARM_UP, "kitchen", question_start=23)


def open_cache(
    folder: Path,
    *,
    ram_bytes: int = ENOUGH_BYTES,
    disk_bytes: int = ENOUGH_BYTES,
    fingerprint: str = FINGERPRINT,
) -> PromptCache:
    """An engine's cache at its start."""
    disk = DiskTier.open(folder, fingerprint=fingerprint, limit_bytes=disk_bytes)
    return PromptCache(ram_bytes, disk=disk)


@contextmanager
def started(
    folder: Path,
    *,
    ram_bytes: int = ENOUGH_BYTES,
    disk_bytes: int = ENOUGH_BYTES,
    fingerprint: str = FINGERPRINT,
) -> Iterator[PromptCache]:
    """An engine's cache from its start to its close, its books in order at the end."""
    cache = open_cache(
        folder, ram_bytes=ram_bytes, disk_bytes=disk_bytes, fingerprint=fingerprint
    )
    try:
        yield cache
        cache.check_integrity()
    finally:
        cache.close()


def warm_up(
    cache: PromptCache, tokens: tuple[int, ...], *stops: int, session: str = "kitchen"
) -> None:
    """Read a prompt as a warm-up does, and have it written."""
    slot = make_slot()
    reader = WARM_UP._replace(session=session)
    resume(cache, slot, tokens, len(tokens), reader)
    read(cache, slot, tokens, *stops, len(tokens), reader=reader)
    cache.pin(slot, reader)
    cache.release(slot)
    flush(cache)


def flush(cache: PromptCache) -> None:
    """Wait until the disk has all that it was asked to keep."""
    disk = cache._store.disk
    assert disk is not None
    assert disk.flush(10)


def assert_right(cache: PromptCache, tokens: tuple[int, ...]) -> Restored:
    """Resume as far as the cache can, read the rest, and compare with a run that never stopped."""
    slot, cold = make_slot(), make_slot()
    restored = resume(cache, slot, tokens, len(tokens) - 1)
    read(PromptCache(0), slot, tokens)
    read(PromptCache(0), cold, tokens)
    assert_same_state(slot.state, cold.state)
    cache.release(slot)
    return restored


def fill(folder: Path) -> None:
    """Leave two satellites of one house on disk: pieces that end at 5 and 20, and one for each."""
    with started(folder) as cache:
        warm_up(cache, KITCHEN, 5, 20, session="kitchen")
        warm_up(cache, BEDROOM, 5, 20, session="bedroom")


def piece_files(folder: Path) -> list[Path]:
    """The files of pieces."""
    return sorted(folder.glob("*.safetensors"))


def file_of(cache: PromptCache, tokens: tuple[int, ...], end: int) -> Path:
    """The file of the piece of a prompt that ends at a token."""
    piece = cache.find(tokens, end).piece
    assert piece is not None
    assert piece.end == end
    assert piece.payload.file is not None
    assert piece.payload.file.name is not None
    disk = cache._store.disk
    assert disk is not None
    return disk._folder.file(piece.payload.file.name)


def holder(cache: PromptCache, tokens: tuple[int, ...], end: int) -> Slot:
    """A slot that stands at the end of a piece."""
    slot = make_slot()
    resume(cache, slot, tokens, end)
    return slot
