"""Law 1 for any model: what resumes from a slot, from RAM or from disk equals a cold run, bit for bit."""

from pathlib import Path
import random

from torch import Tensor

from local_llm_engine.cache.prompt_cache import PromptCache
from local_llm_engine.models.registry import Model
from tests.engine.cache.disks import flush, open_cache
from tests.engine.runtime.test_runner import Session, assert_equal_bits, make_prompt

ENOUGH_BYTES = 1 << 30
_RANDOM = random.Random(5)
TOKENS = [_RANDOM.randrange(97) for _ in range(190)]
BREAKPOINTS = [50, 64, 130, 131, 170]
PROMPT = make_prompt(TOKENS, BREAKPOINTS)
NUM_ANSWER_TOKENS = 6
TIERS = ("slot", "ram", "disk")


def start(folder: Path) -> PromptCache:
    return open_cache(folder, ram_bytes=ENOUGH_BYTES, disk_bytes=ENOUGH_BYTES)


def cold_answer(model: Model, chunk: int) -> list[Tensor]:
    """Logits of the answer after reading everything."""
    return Session(model, PromptCache(0), chunk).answer(PROMPT, NUM_ANSWER_TOKENS)[0]


def assert_resumed_equals_cold(
    folder: Path, model: Model, chunk: int, *, tier: str, stop: int, cold: list[Tensor]
) -> None:
    """Read up to the checkpoint at `stop`, and answer from there, from `tier`."""
    cache = start(folder)
    reader = Session(model, cache, chunk)
    reader.read(PROMPT, stop)
    flush(cache)

    def from_disk() -> Session:
        cache.close()
        return Session(model, start(folder), chunk)

    restart = {
        "slot": lambda: reader,
        "ram": lambda: Session(model, cache, chunk),
        "disk": from_disk,
    }
    session = restart[tier]()
    logits, usage = session.answer(PROMPT, NUM_ANSWER_TOKENS)
    assert (usage.reused_tokens, usage.reread_tokens) == (stop, len(TOKENS) - stop)
    assert session.log.latest()[-1].resumed_from == tier
    assert_equal_bits(logits, cold)
    session.runner._cache.check_integrity()
    session.runner._cache.close()
