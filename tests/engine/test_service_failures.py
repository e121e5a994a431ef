"""The engine's door where something fails: memory that ends, weights that are no numbers, listeners that raise."""

from dataclasses import replace
from pathlib import Path
import shutil
import threading
from unittest.mock import patch

import pytest
from safetensors.torch import load_file, save_file
import torch
from torch import Tensor

from local_llm_engine.builtin import NANO_PATH
from local_llm_engine.errors import GenerationError, OutOfMemoryError, WeightFormatError
from local_llm_engine.models.decoder import DecoderModel
from local_llm_engine.service import Engine
from local_llm_engine.types import CallRecord, ContentDelta, FinishDelta, Purpose

from .test_service import CONFIG, ask, collect

FULL = RuntimeError(
    "DefaultCPUAllocator: can't allocate memory: you tried to allocate 64 bytes."
)


def test_a_model_too_large_for_the_machine() -> None:
    """An error of its own, and no thread stays."""
    with (
        patch("local_llm_engine.service.load_model", side_effect=FULL),
        pytest.raises(OutOfMemoryError, match="device cpu has no room for 64 bytes"),
    ):
        Engine.load(NANO_PATH, CONFIG)
    assert "local_llm_engine" not in {thread.name for thread in threading.enumerate()}


async def test_a_request_without_memory_fails_and_the_next_is_served() -> None:
    """The engine survives, whoever asks next."""
    engine = Engine.load(NANO_PATH, CONFIG)
    try:
        with (
            patch.object(DecoderModel, "forward", side_effect=FULL),
            pytest.raises(OutOfMemoryError),
        ):
            await collect(engine, ask("what time is it"))
        deltas = await collect(engine, ask("what time is it"))
        assert isinstance(deltas[-1], FinishDelta)
        assert [record.finish for record in engine.status().records] == [
            "out_of_memory",
            "stop",
        ]
    finally:
        engine.close()


def test_weights_that_are_no_numbers_are_refused_at_load(tmp_path: Path) -> None:
    """One NaN is enough."""
    folder = shutil.copytree(NANO_PATH, tmp_path / "model")
    weights = load_file(folder / "model.safetensors")
    next(iter(weights.values())).view(-1)[0] = torch.nan
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(WeightFormatError, match="model: the model computes no numbers"):
        Engine.load(folder, replace(CONFIG, prompt_cache_bytes=0))


async def test_what_is_no_number_gives_no_senseless_answer() -> None:
    """One may show only at some token, and the error says what is wrong."""

    def damaged(model: DecoderModel, hidden: Tensor) -> Tensor:
        return torch.full((hidden.shape[0], model.summary.vocab_size), torch.nan)

    engine = Engine.load(NANO_PATH, replace(CONFIG, prompt_cache_bytes=0))
    try:
        with (
            patch.object(DecoderModel, "logits", damaged),
            pytest.raises(GenerationError, match="weights are damaged"),
        ):
            await collect(engine, ask("what time is it"))
    finally:
        engine.close()


def test_a_model_is_found_by_any_of_its_paths(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "link").symlink_to(NANO_PATH)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert Engine.check("~/link") == Engine.plan("~/link").model
    assert Engine.check("~/link").name == "nano"
    engine = Engine.load("~/link", CONFIG)
    engine.close()


async def test_listeners_hear_of_every_request_until_they_are_removed() -> None:
    """On the engine's thread, before the caller sees the end; one that raises harms nothing."""
    heard: list[tuple[str, CallRecord]] = []
    engine = Engine.load(NANO_PATH, CONFIG)
    try:
        engine.add_record_listener(lambda _: 1 / 0)
        remove = engine.add_record_listener(
            lambda record: heard.append((threading.current_thread().name, record))
        )
        await engine.warm_up(ask("", purpose=Purpose.WARM_UP))
        deltas = await collect(engine, ask("hello"))
        assert any(isinstance(delta, ContentDelta) for delta in deltas)
        assert {name for name, _ in heard} == {"local_llm_engine"}
        assert [record for _, record in heard] == list(engine.status().records)
        remove()
        remove()
        await collect(engine, ask("hello"))
        assert len(heard) == 2
    finally:
        engine.close()
