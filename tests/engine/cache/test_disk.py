"""The disk tier: what is written, what comes back after a restart, and what goes when it is full."""

from collections.abc import Callable
from contextlib import suppress
import errno
import os
from pathlib import Path
from tempfile import TemporaryDirectory
import threading
import time
from typing import NoReturn, override

from hypothesis import settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
import pytest

from local_llm_engine.cache import disk, disk_writer
from local_llm_engine.cache.disk import DiskTier
from local_llm_engine.cache.disk_folder import DiskFolder, DiskTierError
from local_llm_engine.cache.prompt_cache import PromptCache, Slot
from local_llm_engine.cache.ranks import Reader
from local_llm_engine.types import Purpose
from tests.engine.cache.disks import (
    BEDROOM,
    FINGERPRINT,
    HOUSE,
    KITCHEN,
    WARM_UP,
    assert_right,
    fill,
    flush,
    piece_files,
    started,
    warm_up,
)
from tests.engine.cache.slots import (
    KITCHEN_VOICE,
    assert_same_state,
    make_slot,
    read,
    resume,
)

type Tokens = tuple[int, ...]


def test_after_a_restart_only_the_question_is_read(tmp_path: Path) -> None:
    """From every piece, bit for bit, and nothing lies in RAM before it is asked for."""
    fill(tmp_path)
    with started(tmp_path) as cache:
        assert (cache.nbytes, cache.num_prompts) == (0, 2)
        for prompt in (KITCHEN, BEDROOM):
            restored = assert_right(cache, (*prompt, 50, 51))
            assert (restored.copied_tokens, restored.tier) == (23, "disk")
            again = assert_right(cache, (*prompt, 60, 61))
            assert (again.copied_tokens, again.tier) == (23, "ram")
        cache.check_integrity()
        assert cache.disk_bytes == sum(
            path.stat().st_size for path in piece_files(tmp_path)
        )


@pytest.mark.parametrize("limit", [5, 20, 23])
def test_every_checkpoint_comes_back_from_disk_bit_for_bit(
    tmp_path: Path, limit: int
) -> None:
    """Restore plus rest equals cold."""
    fill(tmp_path)
    with started(tmp_path) as cache:
        prompt = (*KITCHEN[:limit], 900, 901, 902)
        assert assert_right(cache, prompt).copied_tokens == limit


def test_without_room_in_ram_every_resume_comes_from_disk(tmp_path: Path) -> None:
    """No byte is taken that the budget does not have."""
    fill(tmp_path)
    with started(tmp_path, ram_bytes=0) as cache:
        for question in (50, 60):
            assert assert_right(cache, (*KITCHEN, question)).tier == "disk"
        assert cache.nbytes == 0


def test_a_piece_that_leaves_ram_is_still_known(tmp_path: Path) -> None:
    """Evicted from RAM and on disk: zero bytes, and restored as it was."""
    with started(tmp_path, ram_bytes=2_500) as cache:
        warm_up(cache, KITCHEN, 20)
        assert cache.nbytes > 0
        for number in range(4):
            slot = make_slot()
            foreign = tuple(range(200 + 30 * number, 225 + 30 * number))
            read(cache, slot, foreign, 25)
            cache.release(slot)
        kitchen = cache.find(KITCHEN, 23).piece
        assert kitchen is not None
        assert (kitchen.end, kitchen.nbytes, kitchen.payload.content) == (23, 0, None)
        assert assert_right(cache, (*KITCHEN, 50)).tier == "disk"


def test_a_slot_that_holds_the_prefix_needs_only_the_state_from_disk(
    tmp_path: Path,
) -> None:
    """The KV stays where it is."""
    fill(tmp_path)
    with started(tmp_path, ram_bytes=0) as cache:
        slot = make_slot()
        assert resume(cache, slot, KITCHEN, 23).copied_tokens == 23
        assert resume(cache, slot, KITCHEN, 20) == (0, "disk")
        assert resume(cache, slot, BEDROOM, 23) == (3, "disk")


def voice(session: str = "kitchen") -> Reader:
    return Reader(Purpose.VOICE, session, question_start=20)


def test_what_is_used_once_is_not_written(tmp_path: Path) -> None:
    """Not read, not resumed from once; resumed from twice, with all it was computed from."""
    with started(tmp_path) as cache:
        slot = make_slot()
        read(cache, slot, KITCHEN, 5, 20, 23)
        cache.release(slot)
        for expected in (0, 0, 2, 2):
            flush(cache)
            assert len(piece_files(tmp_path)) == expected
            resume(cache, make_slot(), (*HOUSE, 900), 20)


def test_a_pinned_prompt_is_written_at_once_and_once(tmp_path: Path) -> None:
    """A warm-up repeated every hour writes nothing new."""
    with started(tmp_path) as cache:
        for _ in range(3):
            warm_up(cache, KITCHEN, 5, 20)
        files = piece_files(tmp_path)
    assert len(files) == 3
    with started(tmp_path) as cache:
        warm_up(cache, KITCHEN, 5, 20)
        assert piece_files(tmp_path) == files


def test_files_are_named_by_their_bytes_and_name_their_parents(tmp_path: Path) -> None:
    """The same reading gives the same files, in any folder; private to the user."""
    fill(tmp_path / "one")
    fill(tmp_path / "two")
    names = [path.name for path in piece_files(tmp_path / "one")]
    assert names == [path.name for path in piece_files(tmp_path / "two")]
    assert len(names) == 4
    assert (tmp_path / "one").stat().st_mode & 0o077 == 0
    assert all(
        path.stat().st_mode & 0o077 == 0 for path in piece_files(tmp_path / "one")
    )


def test_another_fingerprint_finds_nothing(tmp_path: Path) -> None:
    """Another model, or other settings, never goes on from these numbers."""
    fill(tmp_path)
    with started(tmp_path, fingerprint="1" * 64) as cache:
        assert cache.num_prompts == 0
        assert assert_right(cache, KITCHEN).tier is None
        assert cache.notices == ()
    assert piece_files(tmp_path) == []


def bytes_on_disk(folder: Path) -> int:
    """What two satellites of one house take."""
    fill(folder)
    return sum(path.stat().st_size for path in piece_files(folder))


def test_a_full_disk_tier_lets_the_least_recently_used_leaf_go(tmp_path: Path) -> None:
    """The house stays as long as one of its satellites does."""
    limit = bytes_on_disk(tmp_path / "measured")
    folder = tmp_path / "kept"
    with started(folder, disk_bytes=limit) as cache:
        for number in range(3):
            warm_up(cache, (*HOUSE, 100 + number, 1, 2), 5, 20)
            cache.check_integrity()
        assert cache.disk_bytes <= limit
    with started(folder, disk_bytes=limit) as cache:
        known = [
            cache.find((*HOUSE, 100 + number, 1, 2), 23).piece for number in range(3)
        ]
        assert [piece.end if piece else 0 for piece in known] == [20, 23, 23]


def test_a_smaller_limit_is_kept_to_from_the_start(tmp_path: Path) -> None:
    """What was used last stays, after a restart too."""
    limit = bytes_on_disk(tmp_path)
    for path in piece_files(tmp_path):
        age_by_a_day(path)
    with started(tmp_path) as cache:
        assert_right(cache, (*KITCHEN, 50))
    with started(tmp_path, disk_bytes=limit - 1) as cache:
        flush(cache)
        assert len(piece_files(tmp_path)) == 3
        assert assert_right(cache, (*KITCHEN, 50)).copied_tokens == 23
        assert assert_right(cache, (*BEDROOM, 50)).copied_tokens == 20


def test_a_disk_with_little_left_is_not_filled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What others need stays free; what is there already counts as ours, and goes round."""
    limit = bytes_on_disk(tmp_path)
    monkeypatch.setattr(DiskFolder, "spare_bytes", lambda _: 100)
    with started(tmp_path) as cache:
        assert cache.disk_limit_bytes == limit + 100
        office = (*HOUSE, 103, 1, 2)
        warm_up(cache, office, 5, 20)
        assert cache.disk_bytes <= limit + 100
    with started(tmp_path) as cache:
        assert assert_right(cache, (*office, 50)).tier == "disk"


def test_a_full_disk_is_said_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is written, nothing fails."""
    monkeypatch.setattr(DiskFolder, "spare_bytes", lambda _: 0)
    with started(tmp_path) as cache:
        for prompt in (KITCHEN, BEDROOM):
            warm_up(cache, prompt, 5, 20)
        assert cache.disk_bytes == 0
        [notice] = cache.notices
        assert "no room" in notice


def test_background_work_pushes_no_voice_off_the_disk(tmp_path: Path) -> None:
    """Nor does what is used now and then push out what is pinned, if a warm-up reads it."""
    limit = bytes_on_disk(tmp_path / "measured")
    task = Reader(Purpose.BACKGROUND, "task", question_start=20)
    with started(tmp_path / "kept", disk_bytes=limit) as cache:
        warm_up(cache, KITCHEN, 5, 20, session="kitchen")
        warm_up(cache, BEDROOM, 5, 20, session="bedroom")
        files = piece_files(tmp_path / "kept")
        foreign = tuple(range(300, 320))
        slot = make_slot()
        read(cache, slot, foreign, 20, reader=task)
        for _ in range(3):
            resume(cache, slot, (*foreign, 1), 20, task)
        flush(cache)
        assert not cache.notices
        warm_up(cache, (*HOUSE, 103, 1, 2), 5, 20, session="office")
        assert piece_files(tmp_path / "kept") == files
        [notice] = cache.notices
        assert "no room" in notice


def test_a_prompt_larger_than_the_limit_costs_nothing_else(tmp_path: Path) -> None:
    """What could never fit pushes nothing out, of RAM or disk."""
    limit = bytes_on_disk(tmp_path / "measured")
    with started(tmp_path / "kept", ram_bytes=4_000, disk_bytes=limit // 2) as cache:
        warm_up(cache, KITCHEN, 5)
        kept = (cache.nbytes, cache.disk_bytes)
        slot = make_slot()
        giant = tuple(range(400, 464))
        read(cache, slot, giant, 64, reader=KITCHEN_VOICE)
        assert (cache.nbytes, cache.disk_bytes) == kept
        assert cache.find(giant, 64).piece is None


def test_a_file_is_touched_when_it_is_used_but_not_every_time(tmp_path: Path) -> None:
    """The order of use outlives a restart; the disk is not worn for it."""
    fill(tmp_path)
    for path in piece_files(tmp_path):
        age_by_a_day(path)
    with started(tmp_path) as cache:
        assert_right(cache, (*KITCHEN, 50))
        flush(cache)
        assert sum(is_fresh(path) for path in piece_files(tmp_path)) == 3
        for path in piece_files(tmp_path):
            age_by_a_day(path)
        assert_right(cache, (*KITCHEN, 60))
        flush(cache)
        assert not any(is_fresh(path) for path in piece_files(tmp_path))


def is_fresh(path: Path) -> bool:
    return time.time() - path.stat().st_mtime < 3_600


def age_by_a_day(path: Path) -> None:
    then = time.time() - 86_400
    os.utime(path, (then, then))


def test_two_engines_on_one_folder(tmp_path: Path) -> None:
    """The second is told so, whatever it would have done; after the first it may."""
    fill(tmp_path)
    with started(tmp_path), pytest.raises(DiskTierError, match="another engine"):
        DiskTier.open(tmp_path, fingerprint=FINGERPRINT, limit_bytes=1 << 20)
    with started(tmp_path) as cache:
        assert cache.num_prompts == 2


def file_in_the_way(folder: Path) -> Path:
    path = folder / "file"
    path.write_text("")
    return path


def below_a_file(folder: Path) -> Path:
    return file_in_the_way(folder) / "cache"


@pytest.mark.parametrize("place", [file_in_the_way, below_a_file])
def test_a_folder_that_cannot_be_one(
    tmp_path: Path, place: Callable[[Path], Path]
) -> None:
    """The message names it and says what follows."""
    path = place(tmp_path)
    with pytest.raises(DiskTierError, match=r"no prompts are kept on disk") as caught:
        DiskTier.open(path, fingerprint=FINGERPRINT, limit_bytes=1 << 20)
    assert str(path) in str(caught.value)


def no_space(*_: object) -> NoReturn:
    raise OSError(errno.ENOSPC, "No space left on device")


def read_only(*_: object) -> NoReturn:
    raise OSError(errno.EROFS, "Read-only file system")


@pytest.mark.parametrize("failure", [no_space, read_only])
@pytest.mark.parametrize("operation", ["create_partial", "publish"])
def test_a_disk_that_takes_nothing_is_said_once(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    failure: Callable[..., NoReturn],
    operation: str,
) -> None:
    """The engine goes on: what is there is read, what is new stays in RAM."""
    fill(tmp_path)
    before = sorted(tmp_path.iterdir())
    monkeypatch.setattr(DiskFolder, operation, failure)
    with started(tmp_path) as cache:
        for number in range(3):
            warm_up(cache, (*HOUSE, 103 + number, 1, 2), 5, 20, session="office")
        assert assert_right(cache, (*HOUSE, 105, 1, 2, 3)).tier == "ram"
        assert assert_right(cache, (*KITCHEN, 50)).tier == "disk"
        [notice] = cache.notices
        assert str(tmp_path) in notice
        assert sorted(tmp_path.iterdir()) == before
    assert [record.levelname for record in caplog.records].count("WARNING") == 1


def test_closing_waits_for_what_is_queued_but_not_for_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A slow disk delays a restart by seconds at most, and leaves whole files only."""
    monkeypatch.setattr(disk, "CLOSE_SECONDS", 0.3)
    really_write = disk_writer._write_all
    monkeypatch.setattr(
        disk_writer,
        "_write_all",
        lambda *args: time.sleep(0.02) or really_write(*args),
    )
    begun = time.monotonic()
    with started(tmp_path) as cache:
        slot = make_slot()
        tokens = tuple(range(60))
        read(cache, slot, tokens, *range(1, 61), reader=WARM_UP)
        cache.pin(slot, WARM_UP)
        assert time.monotonic() - begun < 0.5
    assert time.monotonic() - begun < 3
    written = piece_files(tmp_path)
    assert 0 < len(written) < 60
    assert sorted(tmp_path.iterdir()) == written
    with started(tmp_path) as cache:
        assert assert_right(cache, (*tokens, 1)).copied_tokens == len(written)


def test_what_leaves_ram_before_it_is_written_is_not_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The queue outlives no piece, and the books know."""
    gate = threading.Event()
    really_write = disk_writer._write_all
    monkeypatch.setattr(
        disk_writer, "_write_all", lambda *args: gate.wait(5) and really_write(*args)
    )
    with started(tmp_path, ram_bytes=2_500) as cache:
        slot = make_slot()
        read(cache, slot, KITCHEN, 20, 23, reader=WARM_UP)
        cache.pin(slot, WARM_UP)
        cache.release(slot)
        slot = make_slot()
        read(cache, slot, tuple(range(200, 225)), 25)
        assert cache.find(KITCHEN, 23).piece is None
        cache.check_integrity()
        gate.set()
        flush(cache)
        assert piece_files(tmp_path) == []
        assert cache.disk_bytes == 0


def test_a_queue_without_room_is_filled_at_the_next_use(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Dropped work is done later; parents first all the same."""
    with started(tmp_path) as cache:
        monkeypatch.setattr(disk_writer, "MAX_WAITING_JOBS", 0)
        warm_up(cache, KITCHEN, 5, 20)
        assert piece_files(tmp_path) == []
        monkeypatch.setattr(disk_writer, "MAX_WAITING_JOBS", 100)
        warm_up(cache, KITCHEN, 5, 20)
        assert len(piece_files(tmp_path)) == 3


PROMPTS = st.builds(
    lambda house, own: (*HOUSE[:house], *own),
    st.integers(0, 12),
    st.lists(st.integers(0, 2), min_size=1, max_size=6).map(tuple),
)
PURPOSES = st.sampled_from(list(Purpose))


class Machine(RuleBasedStateMachine):
    """Random reading, pinning, cancelling, evicting, damaging and restarting."""

    def __init__(self) -> None:
        super().__init__()
        self.scratch = TemporaryDirectory()
        self.folder = Path(self.scratch.name)
        self.slots: dict[Purpose, Slot] = {}
        self.start()

    def start(self) -> None:
        tier = DiskTier.open(self.folder, fingerprint=FINGERPRINT, limit_bytes=5_000)
        self.cache = PromptCache(3_000, disk=tier)
        self.slots = {purpose: make_slot() for purpose in Purpose}

    @rule(prompt=PROMPTS, purpose=PURPOSES, stops=st.sets(st.integers(1, 18)))
    def answer(self, prompt: Tokens, purpose: Purpose, stops: set[int]) -> None:
        """The state is that of a run that never stopped, wherever it came from."""
        slot, cold = self.slots[purpose], make_slot()
        reader = Reader(purpose, "satellite", question_start=12)
        resume(self.cache, slot, prompt, len(prompt) - 1, reader)
        read(self.cache, slot, prompt, *stops, len(prompt), reader=reader)
        read(PromptCache(0), cold, prompt)
        assert_same_state(slot.state, cold.state)

    @rule(purpose=PURPOSES, session=st.sampled_from(["kitchen", "bedroom"]))
    def pin(self, purpose: Purpose, session: str) -> None:
        self.cache.pin(self.slots[purpose], WARM_UP._replace(session=session))

    @rule(purpose=PURPOSES)
    def fail(self, purpose: Purpose) -> None:
        self.cache.release(self.slots[purpose])

    @rule()
    def wait(self) -> None:
        flush(self.cache)

    @rule(number=st.integers(0, 15))
    def damage(self, number: int) -> None:
        for path in piece_files(self.folder)[number : number + 1]:
            with suppress(FileNotFoundError):
                os.truncate(path, path.stat().st_size - 1)

    @rule()
    def restart(self) -> None:
        self.cache.close()
        self.start()

    @invariant()
    def books_are_in_order(self) -> None:
        self.cache.check_integrity()

    @override
    def teardown(self) -> None:
        self.cache.close()
        self.scratch.cleanup()


class TestRandomOperations(Machine.TestCase):
    settings = settings(max_examples=30, stateful_step_count=30, deadline=None)
