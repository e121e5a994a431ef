"""The engine's door with keys and values in 8 bits: answers that no tier changes, formats kept apart, and what status says."""

from dataclasses import replace
from pathlib import Path

import pytest

from local_llm_engine.builtin import NANO_PATH
from local_llm_engine.config import EngineConfig, KvCache
from local_llm_engine.errors import ConfigError
from local_llm_engine.service import Engine
from local_llm_engine.types import Purpose

from .test_service_architectures import ask
from .tiers import QUESTION, answer, assert_every_tier_answers_the_same

CONFIG = EngineConfig(
    context_length=2_048, prompt_cache_bytes=256 << 20, kv_cache="int8"
)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
async def test_every_tier_gives_the_answer_of_an_engine_that_keeps_nothing(
    tmp_path: Path, dtype: str
) -> None:
    config = replace(CONFIG, dtype=dtype)
    status = await assert_every_tier_answers_the_same(
        NANO_PATH, config, tmp_path / "cache"
    )
    assert (status.kv_cache, status.notices) == ("int8", ())


async def test_what_was_kept_in_one_format_is_nothing_to_another(
    tmp_path: Path,
) -> None:
    resumed = []
    formats: tuple[KvCache, ...] = ("bf16", "int8", "bf16")
    for kv_cache in formats:
        config = replace(CONFIG, kv_cache=kv_cache, cache_folder=tmp_path)
        engine = Engine.load(NANO_PATH, config)
        _, record = await answer(engine, QUESTION)
        resumed.append(record.usage.reused_tokens)
        engine.close()
    assert resumed == [0, 0, 0]


async def test_prompts_take_less_memory() -> None:
    kept = {}
    formats: tuple[KvCache, ...] = ("bf16", "int8")
    for kv_cache in formats:
        engine = Engine.load(NANO_PATH, replace(CONFIG, kv_cache=kv_cache))
        await engine.warm_up(ask("", Purpose.WARM_UP))
        kept[kv_cache] = engine.status().prompt_cache_bytes
        engine.close()
    assert kept["int8"] < kept["bf16"]


def test_an_unknown_format_is_refused() -> None:
    with pytest.raises(ConfigError, match="kv_cache must be one of bf16, int8"):
        EngineConfig(kv_cache="int4")
