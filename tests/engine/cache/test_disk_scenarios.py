"""Law 1 over random scenarios: from a slot, from RAM, from disk, after evictions, at learned checkpoints.

200 of them; LOCAL_LLM_SCENARIOS=5000 in the environment runs more.
"""

from collections import Counter
import os
from pathlib import Path
import random

import pytest
import torch
from torch import Tensor

from local_llm_engine.builtin import NANO_PATH
from local_llm_engine.cache.placement import stretch_end
from local_llm_engine.cache.ranks import Rank
from local_llm_engine.config import EngineConfig
from local_llm_engine.models.registry import Model, load_model
from local_llm_engine.prompts import Prompt
from tests.engine.cache.disks import flush, open_cache
from tests.engine.runtime.test_runner import Session, assert_equal_bits, make_prompt

NUM_SCENARIOS = int(os.environ.get("LOCAL_LLM_SCENARIOS", "200"))
SCENARIOS_A_FOLDER = 50
CHUNK = 32
RAM_BYTES = 6 << 20
DISK_BYTES = 20 << 20
NUM_ANSWER_TOKENS = 2


class Home:
    """A house whose text changes now and then, its satellites, and their questions."""

    def __init__(self, generator: random.Random) -> None:
        self._random = generator
        self._house = self._tokens(generator.randint(40, 90))
        self._satellites = [self._tokens(generator.randint(4, 12)) for _ in range(3)]
        self._names = [generator.randrange(12, 36) for _ in range(2)]

    def rename(self) -> None:
        """Change a word in the middle of the house, of which there are few."""
        self._house[self._random.choice(self._names)] = self._random.randrange(9, 1024)

    def prompt(self) -> Prompt:
        satellite = self._random.choice(self._satellites)
        before = [*self._house, *satellite]
        question = self._tokens(self._random.randint(2, 8))
        return make_prompt([*before, *question], [len(self._house), len(before)])

    def _tokens(self, count: int) -> list[int]:
        return [self._random.randrange(9, 1024) for _ in range(count)]


class Engine:
    """A cache on a folder and a session on it; each can be started anew."""

    def __init__(self, model: Model, folder: Path) -> None:
        self._model = model
        self._folder = folder
        self.start()

    def start(self) -> None:
        self.cache = open_cache(
            self._folder, ram_bytes=RAM_BYTES, disk_bytes=DISK_BYTES
        )
        self.other_session()

    def same_session(self) -> None:
        """Go on from the slot."""

    def other_session(self) -> None:
        """Empty the slot."""
        self.session = Session(self._model, self.cache, CHUNK)

    def evict_half(self) -> None:
        """Empty half of RAM and the slot."""
        store = self.cache._store
        flush(self.cache)
        self.other_session()
        store._make_room(store.limit_bytes - self.cache.nbytes // 2, Rank.PINNED)

    def restart(self, warmed_up: Prompt) -> None:
        """Restart after the hourly warm-up."""
        self.session.read(warmed_up, warmed_up.question_start)
        self.cache.close()
        self.start()


@pytest.fixture(scope="module")
def model() -> Model:
    return load_model(NANO_PATH, EngineConfig(dtype="float32"))


@torch.inference_mode()
def cold_logits(
    model: Model, token_ids: tuple[int, ...], stops: set[int]
) -> list[Tensor]:
    """Read everything from the first token on, with the stops of the run to compare with."""
    state = model.new_state(256)
    logits = []
    ordered = sorted(stops)
    while state.length < len(token_ids):
        end = stretch_end(state.length, len(token_ids), ordered, CHUNK)
        hidden = model.forward(torch.tensor(token_ids[state.length : end]), state)
    logits.append(model.logits(hidden[-1:])[0])
    while len(logits) < NUM_ANSWER_TOKENS:
        hidden = model.forward(logits[-1].argmax().reshape(1), state)
        logits.append(model.logits(hidden)[0])
    return logits


def ask(model: Model, engine: Engine, prompt: Prompt) -> tuple[str | None, bool]:
    """Answer as a cold run would; say where the state came from, and whether at a learned checkpoint."""
    session, tokens = engine.session, prompt.token_ids
    piece = engine.cache.find(tokens, len(tokens) - 1).piece
    sequence = session.sequence(prompt, max_tokens=NUM_ANSWER_TOKENS)
    session.model.all_logits.clear()
    session.run(sequence)
    assert sequence.placement is not None
    earlier = {part.end for part in piece.chain()} if piece else set()
    expected = cold_logits(model, tokens, earlier | set(sequence.placement.stops))
    assert_equal_bits([logits[0] for logits in session.model.all_logits], expected)
    assert sequence.reused_tokens == (piece.end if piece else 0)
    learned = piece is not None and piece.end not in prompt.breakpoints
    return sequence.resumed_from, learned


@pytest.mark.parametrize("seed", range(NUM_SCENARIOS // SCENARIOS_A_FOLDER))
def test_every_answer_is_that_of_a_cold_run_bit_for_bit(
    tmp_path: Path, model: Model, seed: int
) -> None:
    """Whatever happened before, and whichever tier the state comes from."""
    generator = random.Random(seed)
    home = Home(generator)
    engine = Engine(model, tmp_path)
    preparations = [
        engine.same_session,
        engine.other_session,
        engine.evict_half,
        lambda: engine.restart(home.prompt()),
        home.rename,
    ]
    seen: Counter[str | None] = Counter()
    for _ in range(SCENARIOS_A_FOLDER):
        generator.choice(preparations)()
        tier, learned = ask(model, engine, home.prompt())
        seen[tier] += 1
        seen["learned"] += learned
        engine.cache.check_integrity()
    engine.cache.close()
    assert min(seen[kind] for kind in ("slot", "ram", "disk", "learned")) > 0
