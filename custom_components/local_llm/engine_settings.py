"""The settings of an entry's engine as the engine takes them."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from homeassistant.const import CONF_DEVICE
from local_llm_engine.config import GIB, EngineConfig

from .const import (
    CONF_CONTEXT_LENGTH,
    CONF_DISK_CACHE_GIB,
    CONF_KV_CACHE,
    CONF_PROMPT_CACHE_GIB,
    CONF_WEIGHTS,
    DEFAULT_KV_CACHE,
    DEFAULT_WEIGHTS,
)


def engine_config(
    data: Mapping[str, Any], *, weights_folder: Path, cache_folder: Path | None = None
) -> EngineConfig:
    """Read an entry's data; prompts are kept on disk where there is a `cache_folder`.

    Raises:
        ConfigError: a setting is out of its range.
    """
    return EngineConfig(
        device=data[CONF_DEVICE],
        weights=data.get(CONF_WEIGHTS, DEFAULT_WEIGHTS),
        kv_cache=data.get(CONF_KV_CACHE, DEFAULT_KV_CACHE),
        weights_folder=weights_folder,
        context_length=int(data[CONF_CONTEXT_LENGTH]),
        prompt_cache_bytes=int(data[CONF_PROMPT_CACHE_GIB] * GIB),
        cache_folder=cache_folder,
        disk_cache_bytes=int(data[CONF_DISK_CACHE_GIB] * GIB),
    )
