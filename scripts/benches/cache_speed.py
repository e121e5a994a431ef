"""What the prompt cache itself costs: a lookup among many prompts, and keeping and restoring against a plain copy.

Knows no model: states have the size of a real one's, and tokens are numbers.
"""

import argparse
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
import json
from pathlib import Path
from random import Random
from statistics import median
import tempfile
import time

from demo_house.report import table
import torch

from local_llm_engine.cache.kv_state import KVState
from local_llm_engine.cache.prompt_cache import PromptCache, Slot
from local_llm_engine.cache.ranks import Reader
from local_llm_engine.cache.state import SequenceState
from local_llm_engine.cache.tree import PromptTree
from local_llm_engine.models.architectures import read_config
from local_llm_engine.types import Purpose

from .random_weights import config_of
from .state_sizes import empty_state

NUM_PROMPTS = 1_000
PROMPT_TOKENS = 5_000
LOOKUP_LIMIT_SECONDS = 0.002
COPY_LIMIT = 3.0
_SIZE = "0.8B"
_VOCABULARY = 248_320
# The prompts of one house have this much in common; what follows is a device's own and its question.
_HOUSE_TOKENS = 4_000
_PROMPTS_A_HOUSE = 25
_PIECE_TOKENS = 512
_QUESTION_TOKENS = 17
_ROUNDS = 9
_READER = Reader(Purpose.VOICE, "bench", PROMPT_TOKENS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One duration, in seconds, and the most that it may be."""

    name: str
    seconds: float
    limit_seconds: float
    against: str

    @property
    def ok(self) -> bool:
        """Whether it is within its limit."""
        return self.seconds <= self.limit_seconds

    def cells(self) -> tuple[str, ...]:
        """Write it for a person."""
        return (
            self.name,
            f"{self.seconds * 1000:.2f} ms",
            f"{self.limit_seconds * 1000:.2f} ms",
            self.against,
            "yes" if self.ok else "NO",
        )


def bench(options: argparse.Namespace) -> int:
    """Measure, print, and return 0 where every figure is within its limit."""
    figures = [_lookup(), *_copies()]
    print(f"The prompt cache: {NUM_PROMPTS} prompts of {PROMPT_TOKENS} tokens\n")
    headings = ("to", "takes", "at most", "which is", "ok")
    print("\n".join(table(headings, [figure.cells() for figure in figures])))
    ok = all(figure.ok for figure in figures)
    rows = [asdict(figure) | {"ok": figure.ok} for figure in figures]
    file: Path | None = options.json
    if file:
        text = json.dumps({"figures": rows, "ok": ok}, indent=2)
        file.write_text(f"{text}\n", encoding="utf-8")
    return 0 if ok else 1


def _lookup() -> Figure:
    """Look every cached prompt up once, each with another question at its end."""
    random = Random(0)
    tree: PromptTree[None] = PromptTree()
    prompts = list(_prompts(random))
    for prompt in prompts:
        _add(tree, prompt)
    seconds = []
    for prompt in random.sample(prompts, len(prompts)):
        asked = (*prompt[:-_QUESTION_TOKENS], *_tokens(random, _QUESTION_TOKENS))
        start = time.perf_counter()
        tree.find(asked, len(asked) - 1)
        seconds.append(time.perf_counter() - start)
    return Figure(
        name="look a prompt up (median)",
        seconds=median(seconds),
        limit_seconds=LOOKUP_LIMIT_SECONDS,
        against="the limit",
    )


def _prompts(random: Random) -> Iterator[tuple[int, ...]]:
    house: tuple[int, ...] = ()
    for number in range(NUM_PROMPTS):
        if number % _PROMPTS_A_HOUSE == 0:
            house = _tokens(random, _HOUSE_TOKENS)
        yield (*house, *_tokens(random, PROMPT_TOKENS - _HOUSE_TOKENS))


def _tokens(random: Random, number: int) -> tuple[int, ...]:
    return tuple(random.choices(range(_VOCABULARY), k=number))


def _add(tree: PromptTree[None], prompt: tuple[int, ...]) -> None:
    """Record a prompt as a run over it does: a piece for every checkpoint."""
    piece = None
    for end in _ends():
        piece = tree.at(prompt[:end]) or tree.add(prompt[:end], piece, None, 1)


def _ends() -> list[int]:
    return [*range(_PIECE_TOKENS, PROMPT_TOKENS, _PIECE_TOKENS), PROMPT_TOKENS]


def _copies() -> list[Figure]:
    """Keep a prompt and bring it back, in turns with plain copies of as many bytes."""
    state = _filled_state()
    slot, other = Slot(state), Slot(_filled_state())
    tokens = _tokens(Random(0), PROMPT_TOKENS)
    kept, copied_anew, restored, copied_over, again = [], [], [], [], []
    for _ in range(_ROUNDS):
        cache = PromptCache(2**40)
        kept.append(_seconds(lambda: _keep(cache, tokens, slot)))  # noqa: B023 - called at once
        all_bytes = torch.ones(cache.nbytes, dtype=torch.uint8)
        copied_anew.append(_seconds(all_bytes.clone))
        piece = cache.find(tokens, PROMPT_TOKENS).piece
        assert piece is not None
        restored.append(_seconds(lambda: cache.restore(piece, other, _READER)))  # noqa: B023 - called at once
        # A prefetch has done that while somebody was speaking; this is left for after the question.
        again.append(_seconds(lambda: cache.restore(piece, other, _READER)))  # noqa: B023 - called at once
        source = torch.ones(_state_bytes(state), dtype=torch.uint8)
        target = torch.zeros_like(source)
        copied_over.append(_seconds(lambda: target.copy_(source)))  # noqa: B023 - called at once
        cache.close()
    return [
        _against_copy("keep a prompt", kept, copied_anew, "to new memory"),
        _against_copy("restore a prompt", restored, copied_over, "over old memory"),
        Figure(
            name=f"restore a prefetched prompt of {_SIZE}'s size",
            seconds=median(again),
            limit_seconds=median(restored),
            against="without a prefetch",
        ),
    ]


def _against_copy(
    name: str, seconds: list[float], copies: list[float], where: str
) -> Figure:
    return Figure(
        name=f"{name} of {_SIZE}'s size",
        seconds=median(seconds),
        limit_seconds=COPY_LIMIT * median(copies),
        against=f"{COPY_LIMIT:g} plain copies {where}",
    )


def _filled_state() -> SequenceState:
    """Make a state after a whole prompt, every byte of it written."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "config.json").write_text(json.dumps(config_of(_SIZE)))
        config = read_config(Path(folder))
    state = empty_state(config, PROMPT_TOKENS, torch.bfloat16)
    for layer in state.layers:
        if isinstance(layer, KVState):
            for tensor in layer.tensors:
                tensor.fill_(1)
        else:
            layer.conv.fill_(1)
            layer.delta.fill_(1)
    return state


def _state_bytes(state: SequenceState) -> int:
    return state.checkpoint_nbytes + state.read_kv(0, PROMPT_TOKENS).nbytes


def _keep(cache: PromptCache, tokens: tuple[int, ...], slot: Slot) -> None:
    """Keep what a slot has read as a run leaves it: a piece for every checkpoint."""
    for end in _ends():
        slot.state.length = end
        cache.store(tokens[:end], slot, _READER)


def _seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start
