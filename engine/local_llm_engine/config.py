"""The engine's own configuration, checked when it is made."""

from dataclasses import dataclass
import os
from pathlib import Path
from typing import Literal, get_args

from .errors import ConfigError

type Device = Literal["cpu", "cuda"]
type Dtype = Literal["auto", "bfloat16", "float32"]
type Weights = Literal["auto", "bf16", "int8", "int4"]
type KvCache = Literal["bf16", "int8"]

MINIMUM_CONTEXT_LENGTH = 64
GIB = 1024**3


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineConfig:
    """How a model is run.

    `dtype` "auto" takes what the device computes fastest. `weights` "int8" and "int4" quantize the large
    matrices: less memory, quicker answers, and answers of slightly less quality; "bf16" keeps all of them
    in `dtype`; "auto" does so, too, but for what a checkpoint has in 4-bit codes. Quantized weights are
    kept beside the model, or in `cache_folder` where that cannot be written. Where there is a `weights_folder`,
    which must be this model's alone, they are written there and nowhere else; those that lie beside the model
    already are used all the same. `context_length` is in tokens, prompt and
    answer together; None takes the smaller of 16,384 and what the model was made for.
    `prompt_cache_bytes` bounds what finished prompts may keep in RAM; 0 keeps none. Prompts worth
    keeping are also written to `cache_folder`, `disk_cache_bytes` at most, and outlive a restart; None
    writes nothing. The folder is the engine's own: it removes files there. `half_checkpoints` keeps
    recurrent states in float16: half the bytes, and answers that are no longer exactly the same.
    `prefill_chunk_tokens` is the longest stretch read at once: the longer, the faster, and a spoken question
    waits for one layer of it at most. `num_threads` is at most the machine's; None takes one for a small model, else torch's own choice. `record_file` gets
    every call record appended as a line of JSON, for `python -m local_llm_engine report`; its folder must
    be there, and nothing limits its size. None writes none.

    Raises:
        ConfigError: a field is out of its range; the message names field, value and range.

    """

    device: Device = "cpu"
    dtype: Dtype = "auto"
    weights: Weights = "auto"
    kv_cache: KvCache = "bf16"
    weights_folder: Path | None = None
    context_length: int | None = None
    prompt_cache_bytes: int = 8 * GIB
    cache_folder: Path | None = None
    disk_cache_bytes: int = 16 * GIB
    half_checkpoints: bool = False
    prefill_chunk_tokens: int = 1024
    num_threads: int | None = None
    record_file: Path | None = None

    def __post_init__(self) -> None:
        """Check every field against its range."""
        _require_choice("device", self.device, get_args(Device.__value__))
        _require_choice("dtype", self.dtype, get_args(Dtype.__value__))
        _require_choice("weights", self.weights, get_args(Weights.__value__))
        _require_choice("kv_cache", self.kv_cache, get_args(KvCache.__value__))
        if self.weights_folder is not None:
            _require_type("weights_folder", self.weights_folder, Path)
        if self.context_length is not None:
            _require_at_least(
                "context_length", self.context_length, MINIMUM_CONTEXT_LENGTH
            )
        _require_at_least("prompt_cache_bytes", self.prompt_cache_bytes, 0)
        if self.cache_folder is not None:
            _require_type("cache_folder", self.cache_folder, Path)
        _require_at_least("disk_cache_bytes", self.disk_cache_bytes, 0)
        _require_type("half_checkpoints", self.half_checkpoints, bool)
        _require_at_least("prefill_chunk_tokens", self.prefill_chunk_tokens, 1)
        if self.num_threads is not None:
            _require_at_least("num_threads", self.num_threads, 1)
            _require_at_most("num_threads", self.num_threads, os.cpu_count() or 1)
        if self.record_file is not None:
            _require_type("record_file", self.record_file, Path)


def _require_choice(name: str, value: object, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise ConfigError(f"{name} must be one of {', '.join(choices)}, not {value!r}")


def _require_type(name: str, value: object, kind: type) -> None:
    if not isinstance(value, kind):
        raise ConfigError(f"{name} must be a {kind.__name__}, not {value!r}")


def _require_at_least(name: str, value: object, low: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or value < low:
        raise ConfigError(
            f"{name} must be a whole number of at least {low}, not {value!r}"
        )


def _require_at_most(name: str, value: int, high: int) -> None:
    if value > high:
        raise ConfigError(
            f"{name} must be at most {high}, as many as this machine's processor has, not {value!r}"
        )
