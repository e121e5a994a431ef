"""Where memory ends: what is kept for later goes, the request begins again, and the engine goes on."""

from collections.abc import Callable
import logging
from typing import Any
from unittest.mock import patch

import pytest
import torch
from torch import Tensor

from local_llm_engine.builtin import NANO_PATH
from local_llm_engine.cache.prompt_cache import PromptCache
from local_llm_engine.cache.state import SequenceState
from local_llm_engine.config import EngineConfig
from local_llm_engine.errors import GenerationError, OutOfMemoryError
from local_llm_engine.models.registry import Model, load_model
from local_llm_engine.runtime.memory_errors import memory_errors_told
from local_llm_engine.runtime.sequence import FinishEvent
from local_llm_engine.types import Purpose

from .test_runner import (
    ENOUGH_BYTES,
    Session,
    assert_equal_bits,
    make_prompt,
    random_tokens,
)

# As torch 2.14 says it on a CPU
TORCH_ERROR = RuntimeError(
    "[enforce fail at alloc_cpu.cpp:127] err == 0. DefaultCPUAllocator: can't allocate memory:"
    " you tried to allocate 4503599627370496 bytes. Error code 12 (Cannot allocate memory)"
)
CUDA_ERROR = torch.OutOfMemoryError(
    "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 8.00 GiB"
)
PROMPT = make_prompt(random_tokens(200, 1), [50, 150])
OTHER = make_prompt(random_tokens(200, 2), [50, 150])
IDLE = make_prompt(random_tokens(200, 3), [50, 150])


class SmallMachine(Session):
    """A session on a machine whose memory ends at chosen stretches, counted from `arm` on."""

    def __init__(self, model: Model, cache: PromptCache) -> None:
        super().__init__(model, cache)
        self.cache = cache
        self.failing: set[int] = set()
        self.num_calls = 0
        self.model.forward = self._read_or_fail(self.model.forward)  # type: ignore[method-assign]
        self.model.begin = self._read_or_fail(self.model.begin)  # type: ignore[method-assign]

    def _read_or_fail[Result](
        self, read: Callable[..., Result]
    ) -> Callable[..., Result]:
        def call(*args: Any, **kwargs: Any) -> Result:
            self.num_calls += 1
            if self.num_calls in self.failing:
                raise TORCH_ERROR
            return read(*args, **kwargs)

        return call

    def arm(self, *calls: int) -> None:
        self.failing = set(calls)
        self.num_calls = 0


@pytest.fixture(scope="module")
def model() -> Model:
    return load_model(NANO_PATH, EngineConfig(dtype="float32"))


@pytest.fixture(scope="module")
def cold(model: Model) -> list[Tensor]:
    """Logits of four answer tokens where memory never ends."""
    return Session(model, PromptCache(0)).answer(PROMPT, 4)[0]


@pytest.fixture
def machine(model: Model) -> SmallMachine:
    return SmallMachine(model, PromptCache(ENOUGH_BYTES))


@pytest.mark.parametrize(
    ("error", "requested_bytes"),
    [
        (MemoryError(), None),
        (TORCH_ERROR, 4503599627370496),
        (CUDA_ERROR, 2 << 30),
        (RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling"), None),
        (
            RuntimeError(
                "DefaultCPUAllocator: not enough memory: you tried to allocate 64 bytes."
            ),
            64,
        ),
    ],
    ids=["python", "cpu", "cuda", "cublas", "windows"],
)
def test_the_end_of_memory_is_told_apart(
    error: Exception, requested_bytes: int | None
) -> None:
    """Whoever notices it, it is one error with the facts."""
    with pytest.raises(OutOfMemoryError) as caught, memory_errors_told("cuda"):
        raise error
    assert caught.value.device == "cuda"
    assert caught.value.requested_bytes == requested_bytes
    assert caught.value.__cause__ is error


def test_other_errors_stay_what_they_are() -> None:
    """A wrong shape is no lack of memory."""
    error = RuntimeError("mat1 and mat2 shapes cannot be multiplied")
    with pytest.raises(RuntimeError) as caught, memory_errors_told("cpu"):
        raise error
    assert caught.value is error


@pytest.mark.parametrize("call", [1, 3])
def test_who_has_answered_nothing_begins_again_and_answers_the_same(
    machine: SmallMachine,
    cold: list[Tensor],
    caplog: pytest.LogCaptureFixture,
    call: int,
) -> None:
    """Bit for bit what a run with all the memory says; what was kept for others is gone."""
    machine.answer(OTHER)
    assert machine.cache.num_prompts == 1
    machine.arm(call)
    with caplog.at_level(logging.WARNING):
        logits, usage = machine.answer(PROMPT, 4)
    assert_equal_bits(logits[-4:], cold)
    assert usage.reused_tokens == 0
    assert machine.cache.find(OTHER.token_ids, len(OTHER.token_ids)).piece is None
    assert "begins again" in caplog.text
    machine.cache.check_integrity()


def test_a_second_lack_of_memory_is_told(machine: SmallMachine) -> None:
    """Twice in vain is enough; nothing of the request stays, and the next one is served."""
    machine.arm(1, 2)
    sequence = machine.sequence(PROMPT)
    with pytest.raises(OutOfMemoryError, match="4503599627370496 bytes"):
        machine.run(sequence)
    machine.runner.discard(sequence)
    assert machine.log.latest()[-1].finish == "error"
    machine.answer(PROMPT)
    assert isinstance(machine.events[-1], FinishEvent)


def test_half_an_answer_is_not_begun_again(machine: SmallMachine) -> None:
    """What was spoken cannot be taken back."""
    machine.answer(OTHER)
    machine.arm(machine.num_calls + 2)
    sequence = machine.sequence(PROMPT, max_tokens=8)
    with pytest.raises(OutOfMemoryError):
        machine.run(sequence)
    assert len(sequence.answer) == 2
    assert not sequence.has_begun_again


def test_what_cannot_be_kept_costs_no_answer(
    machine: SmallMachine, cold: list[Tensor], caplog: pytest.LogCaptureFixture
) -> None:
    """Neither a checkpoint on the way nor the one at the end."""
    with patch.object(SequenceState, "read_kv", side_effect=TORCH_ERROR):
        logits, usage = machine.answer(PROMPT, 4)
    assert_equal_bits(logits, cold)
    assert usage.completion_tokens == 4
    assert machine.cache.num_prompts == 0
    assert "is not kept" in caplog.text
    logits, _ = machine.answer(PROMPT, 4)
    assert_equal_bits(logits, cold)
    machine.cache.check_integrity()


def test_slots_that_nobody_uses_go_and_others_stay(machine: SmallMachine) -> None:
    """A request that gave way to the voice goes on where it stood."""
    machine.run(machine.sequence(IDLE, max_tokens=0, purpose=Purpose.WARM_UP))
    running = machine.sequence(OTHER, max_tokens=2, purpose=Purpose.BACKGROUND)
    machine.runner.step(running)
    machine.arm(1)
    machine.answer(PROMPT)
    assert machine.cache.find(IDLE.token_ids, len(IDLE.token_ids)).piece is None
    machine.run(running)
    assert isinstance(machine.events[-1], FinishEvent)
    assert machine.events[-1].usage.completion_tokens == 2
    assert not running.has_begun_again
    machine.cache.check_integrity()


def test_a_model_that_computes_no_numbers_says_so(machine: SmallMachine) -> None:
    """In place of an answer that makes no sense."""
    logits = machine.model.logits
    machine.model.logits = lambda hidden: logits(hidden * torch.nan)  # type: ignore[method-assign]
    with pytest.raises(GenerationError, match=r"no finite numbers.* dtype float32"):
        machine.run(machine.sequence(PROMPT))
