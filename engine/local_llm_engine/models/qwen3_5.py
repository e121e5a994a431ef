"""Qwen3.5, dense, text: three Gated DeltaNet layers for one of gated attention, read top to bottom.

Knows the architecture and its tensors' names; knows nothing of files, prompts or scheduling.
"""

import torch
from torch import Tensor
from torch.nn import functional

from ..cache.state import DeltaState, KVState, LayerState, SequenceState
from ..errors import GenerationError
from ..ops.attention import rotary_angles
from ..weights.loader import WeightLoader
from .attention import GatedAttention, attention_shapes
from .config import LayerType, ModelConfig
from .gated_delta_net import GatedDeltaNet, gated_delta_net_shapes, num_conv_channels
from .layers import FeedForward, Shapes, ZeroCentredNorm, feed_forward_shapes
from .model import ModelSummary

EMBEDDING = "embed_tokens.weight"


def tensor_shapes(config: ModelConfig) -> Shapes:
    """Name every tensor of the text model, without the prefix that checkpoints put before it and without the head."""
    shapes: Shapes = {
        EMBEDDING: (config.vocab_size, config.hidden_size),
        "norm.weight": (config.hidden_size,),
    }
    for index, layer_type in enumerate(config.layer_types):
        layer = f"layers.{index}."
        shapes[f"{layer}input_layernorm.weight"] = (config.hidden_size,)
        shapes[f"{layer}post_attention_layernorm.weight"] = (config.hidden_size,)
        if layer_type == "linear_attention":
            mixer, mixer_shapes = "linear_attn", gated_delta_net_shapes(config)
        else:
            mixer, mixer_shapes = "self_attn", attention_shapes(config)
        shapes.update(
            {f"{layer}{mixer}.{name}": shape for name, shape in mixer_shapes.items()}
        )
        shapes.update(
            {
                f"{layer}mlp.{name}": shape
                for name, shape in feed_forward_shapes(config).items()
            }
        )
    return shapes


def new_state(
    config: ModelConfig, capacity: int, *, dtype: torch.dtype, device: torch.device
) -> SequenceState:
    """Make the empty state of a model of this configuration, with room for `capacity` tokens."""
    layers: list[LayerState] = [
        KVState(
            num_heads=config.num_key_value_heads,
            head_dim=config.head_dim,
            capacity=capacity,
            dtype=dtype,
            device=device,
        )
        if layer_type == "full_attention"
        else DeltaState(
            num_channels=num_conv_channels(config),
            kernel_size=config.linear_conv_kernel_dim,
            num_heads=config.linear_num_value_heads,
            key_dim=config.linear_key_head_dim,
            value_dim=config.linear_value_head_dim,
            dtype=dtype,
            device=device,
        )
        for layer_type in config.layer_types
    ]
    return SequenceState(layers, capacity)


class Qwen3_5Layer:
    """One layer: the rows plus what a token mixer makes of them, plus what the feed-forward network makes of that."""

    def __init__(
        self, config: ModelConfig, layer_type: LayerType, loader: WeightLoader
    ) -> None:
        """Take the weights of one layer."""
        self._mixer_norm = ZeroCentredNorm(
            loader, "input_layernorm", config.rms_norm_eps
        )
        self._mixer: GatedDeltaNet | GatedAttention
        if layer_type == "linear_attention":
            self._mixer = GatedDeltaNet(config, loader.within("linear_attn."))
        else:
            self._mixer = GatedAttention(config, loader.within("self_attn."))
        self._feed_forward_norm = ZeroCentredNorm(
            loader, "post_attention_layernorm", config.rms_norm_eps
        )
        self._feed_forward = FeedForward(config, loader.within("mlp."))

    def __call__(
        self,
        rows: Tensor,
        rotation: tuple[Tensor, Tensor],
        state: LayerState,
        position: int,
    ) -> Tensor:
        """Map rows [T, H] of tokens position .. position + T - 1 to [T, H]; advances `state`."""
        normed = self._mixer_norm(rows).to(rows.dtype)
        match self._mixer, state:
            case GatedDeltaNet() as mixer, DeltaState():
                rows = rows + mixer(normed, state)
            case GatedAttention() as mixer, KVState():
                rows = rows + mixer(normed, rotation, state, position)
            case _:
                raise TypeError(
                    f"a {type(state).__name__} does not fit a {type(self._mixer).__name__} layer"
                )
        return rows + self._feed_forward(self._feed_forward_norm(rows).to(rows.dtype))


class Qwen3_5Model:
    """A loaded Qwen3.5; see `Model` for what its methods promise."""

    def __init__(
        self,
        config: ModelConfig,
        summary: ModelSummary,
        loader: WeightLoader,
        head: Tensor | None,
    ) -> None:
        """Take the text model's weights; `head` None takes the embedding as the head."""
        self.summary = summary
        self.device = loader.device
        self.dtype = loader.dtype
        self._config = config
        self._embedding = loader.matrix(EMBEDDING)
        self._layers = [
            Qwen3_5Layer(config, layer_type, loader.within(f"layers.{index}."))
            for index, layer_type in enumerate(config.layer_types)
        ]
        self._norm = ZeroCentredNorm(loader, "norm", config.rms_norm_eps)
        self._head = self._embedding if head is None else head
        exponents = (
            torch.arange(0, config.rotary_dim, 2, dtype=torch.float32)
            / config.rotary_dim
        )
        self._frequencies = (1.0 / config.rope_theta**exponents).to(self.device)

    def new_state(self, capacity: int) -> SequenceState:
        """Make an empty state with room for `capacity` tokens."""
        return new_state(self._config, capacity, dtype=self.dtype, device=self.device)

    @torch.no_grad()
    def forward(self, token_ids: Tensor, state: SequenceState) -> Tensor:
        """Read tokens, int64 [T], and return their hidden rows [T, H]; advances `state` in place."""
        num_tokens = token_ids.shape[0]
        if not 1 <= num_tokens <= state.capacity - state.length:
            raise GenerationError(
                f"{num_tokens} tokens cannot be read: there must be at least one, and the state has room for "
                f"{state.capacity - state.length} more"
            )
        rows = functional.embedding(token_ids, self._embedding)
        rotation = rotary_angles(state.length, num_tokens, self._frequencies)
        for layer, layer_state in zip(self._layers, state.layers, strict=True):
            rows = layer(rows, rotation, layer_state, state.length)
        state.length += num_tokens
        return rows

    @torch.no_grad()
    def logits(self, hidden: Tensor) -> Tensor:
        """Return the scores of the next token, float32 [T, V], of hidden rows [T, H]."""
        return functional.linear(self._norm(hidden).to(self.dtype), self._head).float()
