"""What a model will need in memory: arithmetic over config.json and the weight files' headers.

Asks no machine, and allocates nothing.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

from ..cache.placement import grid_interval
from ..config import KvCache, Weights
from ..errors import MemoryShortageError
from ..types import Purpose
from ..weights.quantized import StoredInfo
from ..weights.quantizing import Format, format_bytes
from .config import ModelConfig
from .memory import DeviceMemory
from .model import ModelSummary
from .weight_formats import main_format

# A house of a hundred entities with its tools, in tokens.
TYPICAL_PROMPT_TOKENS = 5_000
# What of a prompt is one satellite's alone: where it stands, and how its last message begins
_OWN_TOKENS = 100
# What all prompts of a house have in common ends in so many segments: tools, house, date.
_SHARED_CHECKPOINTS = 3
_NUM_SLOTS = len({purpose.slot for purpose in Purpose})
_FLOAT32_BYTES = 4
_HALF_BYTES = 2
# Of keys and values in 8 bits: one scale for each token and head.
_SCALE_BYTES = 2
# The ends of the names of small tensors that are computed with in float32, whatever the model's dtype.
_IN_FLOAT32 = ("norm.weight", "A_log", "dt_bias", "conv1d.weight", "mlp.gate.weight")
# Stands in the names of all tensors of which a token passes only some experts' part.
_EXPERTS = ".experts."


class WeightsNeed(NamedTuple):
    """What weights take in memory.

    `format` is that of most of them: "int4", "int8", or "bf16" where all are in the model's dtype;
    `bytes_a_token` are those that are read for every token of an answer.
    """

    format: str
    nbytes: int
    bytes_a_token: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StateBytes:
    """Bytes of one sequence's state: the KV of a token, the recurrent state, and a checkpoint of that in RAM."""

    token: int
    recurrent: int
    checkpoint: int

    @classmethod
    def of(
        cls, config: ModelConfig, *, element_bytes: int, half: bool, kv_cache: KvCache
    ) -> StateBytes:
        """Add up the layers' states; `half` keeps checkpoints' delta states in float16."""
        num_full = config.layer_types.count("full_attention")
        num_linear = config.num_hidden_layers - num_full
        row_bytes = (
            config.head_dim + _SCALE_BYTES
            if kv_cache == "int8"
            else config.head_dim * element_bytes
        )
        delta_net = config.delta_net
        inputs = memory = 0
        if delta_net is not None:
            inputs = delta_net.num_conv_channels * (
                delta_net.linear_conv_kernel_dim - 1
            )
            memory = delta_net.value_size * delta_net.linear_key_head_dim
        conv = num_linear * inputs * element_bytes
        return cls(
            token=num_full * 2 * config.num_key_value_heads * row_bytes,
            recurrent=conv + num_linear * memory * _FLOAT32_BYTES,
            checkpoint=conv
            + num_linear * memory * (_HALF_BYTES if half else _FLOAT32_BYTES),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class EnginePlan:
    """What an engine will need. Bytes of RAM, or of the GPU for all that lies on `device`.

    The slots hold the state of live sequences, each with room for the context length.
    `weights` is the format of most weights: "int4", "int8", or "bf16" where all are in `dtype`;
    `weights_by_choice` says what it would be with each choice of `EngineConfig.weights`;
    `is_int4_slow` says that int4 weights save memory here, and no time. `kv_cache` is the format of keys and values,
    and `token_bytes_by_choice` says what those of a token take in each. `prompt_cache_bytes` is what finished prompts may take in RAM. On a CPU, weights in
    a format of our own, or stored in `dtype`, stay in their file and only fill memory that would otherwise
    be free.
    """

    model: ModelSummary
    device: str
    dtype: str
    weights: str
    kv_cache: KvCache
    context_length: int
    weights_bytes: int
    weights_by_choice: Mapping[Weights, WeightsNeed]
    is_int4_slow: bool
    token_bytes_by_choice: Mapping[KvCache, int]
    state: StateBytes
    prompt_cache_bytes: int

    def with_weights(self, choice: Weights) -> EnginePlan:
        """Return the plan with another choice of `EngineConfig.weights`."""
        need = self.weights_by_choice[choice]
        return replace(self, weights=need.format, weights_bytes=need.nbytes)

    def with_kv_cache(self, choice: KvCache) -> EnginePlan:
        """Return the plan with another choice of `EngineConfig.kv_cache`."""
        state = replace(self.state, token=self.token_bytes_by_choice[choice])
        return replace(self, kv_cache=choice, state=state)

    @property
    def kv_bytes_per_1000_tokens(self) -> int:
        """Bytes that the keys and values of 1,000 tokens take."""
        return 1_000 * self.state.token

    @property
    def slots_bytes(self) -> int:
        """Bytes of all slots, on the device."""
        slot = self.context_length * self.state.token + self.state.recurrent
        return _NUM_SLOTS * slot

    @property
    def device_bytes(self) -> int:
        """Bytes of weights and slots, on the device."""
        return self.weights_bytes + self.slots_bytes

    @property
    def ram_bytes(self) -> int:
        """Bytes of all that lies in RAM; on a CPU that is everything."""
        return self.prompt_cache_bytes + (
            self.device_bytes if self.device == "cpu" else 0
        )

    def satellites_bytes(
        self, num_satellites: int, prompt_tokens: int = TYPICAL_PROMPT_TOKENS
    ) -> int:
        """Bytes of the prompt cache that keep the prompts of so many satellites warm, and one of no device.

        All of them share what they have in common; each needs a checkpoint and the KV of its own lines.
        """
        interval = grid_interval(
            checkpoint_bytes=self.state.checkpoint,
            context_length=self.context_length,
            budget_bytes=self.prompt_cache_bytes,
        )
        num_inside = prompt_tokens // interval if interval else 0
        num_prompts = num_satellites + 1
        num_tokens = prompt_tokens + num_prompts * _OWN_TOKENS
        num_checkpoints = _SHARED_CHECKPOINTS + num_inside + num_prompts
        return num_tokens * self.state.token + num_checkpoints * self.state.checkpoint

    def longest_context(self, device_bytes: int) -> int:
        """Return the most tokens of context for which weights and slots fit into so many bytes; 0 where none do."""
        left = device_bytes - self.weights_bytes - _NUM_SLOTS * self.state.recurrent
        if left < 0:
            return 0
        token_bytes = _NUM_SLOTS * self.state.token
        longest = self.model.context_length
        return min(longest, left // token_bytes) if token_bytes else longest

    def require_room(self, memory: DeviceMemory) -> None:
        """Refuse what cannot work on a device with so much memory.

        Raises:
            MemoryShortageError: weights and slots do not fit; the message says what would.
        """
        if self.device_bytes <= memory.total_bytes:
            return
        most = self.longest_context(memory.total_bytes)
        raise MemoryShortageError(
            f"{self.model.name}: the weights need {self.weights_bytes:,} bytes and a context length of "
            f"{self.context_length} tokens {self.slots_bytes:,}; {self.device} has {memory.total_bytes:,}, "
            f"enough for a context length of {most}"
        )


def weights_need(
    tensors: Iterable[StoredInfo],
    formats: Mapping[str, Format],
    config: ModelConfig,
    *,
    element_bytes: int,
    looked_up: str | None,
) -> WeightsNeed:
    """Add up what tensors take once they are loaded: in `formats`, as `_IN_FLOAT32`, or in the model's dtype.

    Of the tensor `looked_up`, one row is read for a token, and of experts those that a token chooses.
    """
    experts = config.experts
    chosen = experts.num_experts_per_tok / experts.num_experts if experts else 1.0
    nbytes, a_token = 0, 0.0
    for tensor in tensors:
        own = _loaded_bytes(tensor, formats, element_bytes)
        nbytes += own
        if tensor.name != looked_up:
            a_token += own * (chosen if _EXPERTS in tensor.name else 1.0)
    return WeightsNeed(main_format(formats) or "bf16", nbytes, int(a_token))


def _loaded_bytes(
    tensor: StoredInfo, formats: Mapping[str, Format], element_bytes: int
) -> int:
    if own := formats.get(tensor.name):
        return format_bytes(own, tensor.shape)
    in_float32 = tensor.name.endswith(_IN_FLOAT32)
    return tensor.num_elements * (_FLOAT32_BYTES if in_float32 else element_bytes)
