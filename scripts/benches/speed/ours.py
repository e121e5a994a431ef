"""Ours: what the engine's runner takes to read prompts and to write answers, whatever they say.

Everything counts that a request costs: the cache's checkpoints, the head and the choice of a token.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
import time

import torch

from local_llm_engine.cache.prompt_cache import PromptCache
from local_llm_engine.cache.records import CallLog
from local_llm_engine.config import EngineConfig
from local_llm_engine.models.placement import choose_num_threads
from local_llm_engine.models.registry import load_model
from local_llm_engine.prompts import Prompt, Segment
from local_llm_engine.runtime.runner import Runner
from local_llm_engine.runtime.sequence import Phase, Sequence, SequenceEvent
from local_llm_engine.sampling import SamplingParams
from local_llm_engine.types import Purpose

from .cases import ANSWER_TOKENS, PROMPT_TOKENS, Case

_WAKING_TOKENS = 16
_CONTEXT_TOKENS = PROMPT_TOKENS + 2 * ANSWER_TOKENS


class Ours:
    """A loaded model and its runner, on the caller's thread."""

    def __init__(self, folder: Path, config: EngineConfig) -> None:
        """Load the model; torch gets the threads that the engine would give it."""
        model = load_model(folder, config)
        torch.set_num_threads(
            choose_num_threads(config.num_threads, model.summary.num_parameters)
        )
        self._vocabulary = range(model.summary.vocab_size)
        self._random = Random(0)
        self._told_at = 0.0
        self._cache = PromptCache(config.prompt_cache_bytes)
        self._runner = Runner(
            model,
            self._cache,
            CallLog(),
            context_length=_CONTEXT_TOKENS,
            chunk=config.prefill_chunk_tokens,
        )

    def close(self) -> None:
        """Let the cache go."""
        self._cache.close()

    @contextmanager
    def ready(self, case: Case) -> Iterator[Callable[[], object]]:
        """Bring a sequence to where a case of prefill or decode begins, and give out the work to measure."""
        if case.kind == "prefill":
            # Nobody has read it before.
            sequence = self._sequence(self._random, case.num_tokens)
            work = self._read
        else:
            # The same prompt every time: but for the first, most of it comes from the cache.
            sequence = self._sequence(Random(case.depth), max(1, case.depth))
            self._read(sequence)
            work = self._write
        try:
            yield lambda: work(sequence)
        finally:
            self._runner.abandon(sequence)

    def seconds(self, case: Case) -> float:
        """Measure a case once: a prompt up to its first token, or an answer without its first.

        It ends when the last token of that goes out. A little is read before: while the peer ran, threads and memory
        have gone to sleep, and it, too, does something before it measures.
        """
        self._read(sequence := self._sequence(self._random, _WAKING_TOKENS))
        self._runner.abandon(sequence)
        with self.ready(case) as work:
            start = time.perf_counter()
            work()
            return self._told_at - start

    def _sequence(self, random: Random, num_tokens: int) -> Sequence:
        tokens = tuple(random.choices(self._vocabulary, k=num_tokens))
        prompt = Prompt(
            token_ids=tokens,
            segments=(Segment(name="prompt", end=num_tokens),),
            breakpoints=(),
            question_start=0,
            question_end=num_tokens,
        )
        return Sequence(
            prompt=prompt,
            sampling=SamplingParams(seed=0),
            purpose=Purpose.VOICE,
            session="bench",
            target=num_tokens,
            # Never the last: that would keep the state, and an answer does so once.
            max_tokens=ANSWER_TOKENS + 2,
            end_token_ids=frozenset(),
            emit=self._note,
        )

    def _note(self, _: SequenceEvent) -> None:
        self._told_at = time.perf_counter()

    def _read(self, sequence: Sequence) -> None:
        while sequence.phase is not Phase.DECODE:
            self._runner.step(sequence)

    def _write(self, sequence: Sequence) -> None:
        for _ in range(ANSWER_TOKENS):
            self._runner.step(sequence)
