"""Law 1 at the engine's door: which tier a prompt resumes from changes no answer."""

from dataclasses import replace
from pathlib import Path
import re

from local_llm_engine.config import EngineConfig
from local_llm_engine.service import Engine, EngineStatus
from local_llm_engine.types import CallRecord, Purpose

from . import test_service_architectures as architectures
from .test_service_architectures import ask

QUESTION = "Turn on the lights"


async def answer(engine: Engine, question: str) -> tuple[str, CallRecord]:
    """All that an answer says, without the calls' ids, which are drawn by chance."""
    deltas, record = await architectures.answer(engine, question)
    return re.sub("call_[0-9a-f]+", "", str(deltas)), record


async def assert_every_tier_answers_the_same(
    model: Path, config: EngineConfig, cache_folder: Path
) -> EngineStatus:
    """Ask an engine that keeps nothing, one whose slot is warm, and one that finds the prompt on disk; return the status."""
    forgetful = Engine.load(model, replace(config, prompt_cache_bytes=0))
    expected, record = await answer(forgetful, QUESTION)
    assert expected
    assert record.usage.reused_tokens == 0
    forgetful.close()

    config = replace(config, cache_folder=cache_folder)
    engine = Engine.load(model, config)
    status = engine.status()
    await engine.warm_up(ask("", Purpose.WARM_UP))
    from_slot, _ = await answer(engine, QUESTION)
    assert from_slot == expected
    await answer(engine, "Hello")
    engine.close()

    engine = Engine.load(model, config)
    from_disk, record = await answer(engine, QUESTION)
    engine.close()
    assert from_disk == expected
    assert record.resumed_from == "disk"
    return status
