"""What config.json says about a model, as frozen values; names as in config.json.

Knows nothing of how config.json spells them for one architecture, and no weights.
"""

from dataclasses import dataclass
from typing import Literal

from ..weights.quantized import Scheme

type LayerType = Literal["linear_attention", "full_attention"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Llama3Scaling:
    """How Llama 3.1 and later stretch the rotary embedding beyond the context of their first training."""

    factor: float
    low_freq_factor: float
    high_freq_factor: float
    original_max_position_embeddings: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RotaryConfig:
    """The rotary embedding: it turns the first `dim` of a head's values, the first pair by one radian a position.

    Where a checkpoint holds the results of a scaling and not its numbers, each pair turns slower by one
    of the `divisors`.
    """

    dim: int
    theta: float
    scaling: Llama3Scaling | None = None
    divisors: tuple[float, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeltaNetConfig:
    """The numbers of Gated DeltaNet layers."""

    linear_num_key_heads: int
    linear_num_value_heads: int
    linear_key_head_dim: int
    linear_value_head_dim: int
    linear_conv_kernel_dim: int

    @property
    def key_size(self) -> int:
        """Values of all key heads of one token; as many as of all query heads."""
        return self.linear_num_key_heads * self.linear_key_head_dim

    @property
    def value_size(self) -> int:
        """Values of all value heads of one token."""
        return self.linear_num_value_heads * self.linear_value_head_dim

    @property
    def num_conv_channels(self) -> int:
        """Channels of the convolution: queries, keys and values side by side."""
        return 2 * self.key_size + self.value_size


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpertsConfig:
    """The numbers of layers whose feed-forward network is a choice of experts.

    `sparse_layers` are the indices of these layers. `fused` says that a checkpoint holds all experts of
    a layer in two tensors, and not three for each.
    """

    num_experts: int
    num_experts_per_tok: int
    moe_intermediate_size: int
    norm_topk_prob: bool
    shared_expert_intermediate_size: int | None
    sparse_layers: frozenset[int]
    fused: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelConfig:
    """The numbers of a decoder.

    `intermediate_size` is None where every layer chooses among experts, `quantization` where the weights
    are not quantized.
    """

    model_type: str
    vocab_size: int
    hidden_size: int
    intermediate_size: int | None
    num_hidden_layers: int
    layer_types: tuple[LayerType, ...]
    num_attention_heads: int
    num_key_value_heads: int
    head_dim: int
    rotary: RotaryConfig
    rms_norm_eps: float
    max_position_embeddings: int
    tie_word_embeddings: bool
    qkv_bias: bool = False
    output_bias: bool = False
    mlp_bias: bool = False
    delta_net: DeltaNetConfig | None = None
    experts: ExpertsConfig | None = None
    quantization: Scheme | None = None
