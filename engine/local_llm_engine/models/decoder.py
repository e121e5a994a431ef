"""What all architectures have in common: embedding, layers one after the other, norm and head; read top to bottom.

Knows nothing of what a layer is made of, of files, prompts or scheduling.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from ..cache.kv_state import KVState
from ..cache.state import DeltaState, LayerState, SequenceState
from ..config import KvCache
from ..errors import GenerationError
from ..ops.attention import rotary_angles
from ..weights.linear import LinearWeight
from ..weights.loader import WeightLoader
from .attention import Attention, GatedAttention, Rotation
from .config import ModelConfig
from .config_fields import ConfigFields
from .experts import feed_forward_shapes_at, make_feed_forward
from .gated_delta_net import GatedDeltaNet
from .layers import Norm, Shapes, within
from .model import LoadedWeights, ModelSummary, Reading
from .rotary import rotary_frequencies

EMBEDDING = "embed_tokens.weight"

type Mixer = GatedDeltaNet | GatedAttention | Attention


@dataclass(frozen=True, slots=True, kw_only=True)
class Architecture:
    """What one architecture says of itself.

    `read_config` takes a whole config.json. `mixer_shapes` names the tensors of one layer's token mixer,
    by the layer's index, and `make_mixer` takes them from a loader of the layer.
    """

    read_config: Callable[[ConfigFields], ModelConfig]
    norm: type[Norm]
    mixer_shapes: Callable[[ModelConfig, int], Shapes]
    make_mixer: Callable[[ModelConfig, int, WeightLoader], Mixer]


def tensor_shapes(architecture: Architecture, config: ModelConfig) -> Shapes:
    """Name every tensor of the text model, without the prefix that checkpoints put before it and without the head."""
    hidden = (config.hidden_size,)
    shapes: Shapes = {
        EMBEDDING: (config.vocab_size, config.hidden_size),
        "norm.weight": hidden,
    }
    for index in range(config.num_hidden_layers):
        layer = {
            "input_layernorm.weight": hidden,
            "post_attention_layernorm.weight": hidden,
            **architecture.mixer_shapes(config, index),
            **within("mlp.", feed_forward_shapes_at(config, index)),
        }
        shapes.update(within(f"layers.{index}.", layer))
    return shapes


def new_state(
    config: ModelConfig,
    capacity: int,
    *,
    dtype: torch.dtype,
    device: torch.device,
    kv_cache: KvCache = "bf16",
) -> SequenceState:
    """Make the empty state of a model of this configuration, with room for `capacity` tokens."""

    def new_layer_state(layer_type: str) -> LayerState:
        if layer_type == "full_attention":
            return KVState.make(
                num_heads=config.num_key_value_heads,
                head_dim=config.head_dim,
                capacity=capacity,
                dtype=dtype,
                device=device,
                quantized=kv_cache == "int8",
            )
        assert config.delta_net is not None
        return DeltaState(
            num_channels=config.delta_net.num_conv_channels,
            kernel_size=config.delta_net.linear_conv_kernel_dim,
            num_heads=config.delta_net.linear_num_value_heads,
            key_dim=config.delta_net.linear_key_head_dim,
            value_dim=config.delta_net.linear_value_head_dim,
            dtype=dtype,
            device=device,
        )

    return SequenceState(list(map(new_layer_state, config.layer_types)), capacity)


class DecoderLayer:
    """One layer: the rows plus what a token mixer makes of them, plus what the feed-forward network makes of that."""

    def __init__(
        self,
        architecture: Architecture,
        config: ModelConfig,
        index: int,
        loader: WeightLoader,
    ) -> None:
        """Take the weights of one layer."""
        norm, epsilon = architecture.norm, config.rms_norm_eps
        self._mixer_norm = norm(loader, "input_layernorm", epsilon)
        self._mixer = architecture.make_mixer(config, index, loader)
        self._feed_forward_norm = norm(loader, "post_attention_layernorm", epsilon)
        self._feed_forward = make_feed_forward(config, index, loader.within("mlp."))

    def __call__(
        self,
        rows: Tensor,
        rotation: Rotation,
        state: LayerState,
        position: int,
        *,
        only_last: bool = False,
    ) -> Tensor:
        """Map rows [T, H] of tokens position .. position + T - 1 to [T, H]; advances `state`.

        `only_last` leaves out what only the rows before the last would need, and returns that one, [1, H].
        """
        normed = self._mixer_norm(rows).to(rows.dtype)
        match self._mixer, state:
            case GatedDeltaNet() as mixer, DeltaState():
                rows = rows + mixer(normed, state)
            case (GatedAttention() | Attention()) as mixer, KVState():
                rows = rows + mixer(normed, rotation, state, position)
            case _:
                raise TypeError(
                    f"a {type(state).__name__} does not fit a {type(self._mixer).__name__} layer"
                )
        if only_last:
            rows = rows[-1:]
        return rows + self._feed_forward(self._feed_forward_norm(rows).to(rows.dtype))


class DecoderReading:
    """A stretch of tokens between two layers of a model; see `Reading` for what its methods promise."""

    def __init__(
        self,
        layers: Sequence[DecoderLayer],
        rows: Tensor,
        rotation: Rotation,
        state: SequenceState,
        *,
        only_last: bool,
        can_be_taken_back: bool,
    ) -> None:
        """Stand before the first layer with rows [T, H]; what `only_last` leaves out, `DecoderLayer` says."""
        self._layers = layers
        self._rows = rows
        self._num_tokens = rows.shape[0]
        self._rotation = rotation
        self._state = state
        self._only_last = only_last
        self._can_be_taken_back = can_be_taken_back
        self._next = 0
        self._before: list[tuple[DeltaState, Tensor, Tensor]] = []

    @torch.no_grad()
    def advance(self) -> Tensor | None:
        """Pass one more layer; after the last one, hidden rows [T, H] are returned, or the last one's."""
        layer_state = self._state.layers[self._next]
        if self._can_be_taken_back and isinstance(layer_state, DeltaState):
            kept = (layer_state.conv.clone(), layer_state.delta.clone())
            self._before.append((layer_state, *kept))
        is_last = self._next == len(self._layers) - 1
        self._rows = self._layers[self._next](
            self._rows,
            self._rotation,
            layer_state,
            self._state.length,
            only_last=self._only_last and is_last,
        )
        self._next += 1
        if not is_last:
            return None
        self._state.length += self._num_tokens
        return self._rows

    def take_back(self) -> None:
        """Bring the state back; KV past its length is garbage anyway."""
        for layer_state, conv, delta in self._before:
            layer_state.conv.copy_(conv)
            layer_state.delta.copy_(delta)


class DecoderModel:
    """A loaded model; see `Model` for what its methods promise."""

    def __init__(
        self,
        architecture: Architecture,
        config: ModelConfig,
        summary: ModelSummary,
        weights: LoadedWeights,
        loader: WeightLoader,
        head: LinearWeight | None,
        kv_cache: KvCache,
    ) -> None:
        """Take the text model's weights; `head` None takes the embedding as the head."""
        self.summary = summary
        self.weights = weights
        self.device = loader.device
        self.dtype = loader.dtype
        self._config = config
        self._kv_cache: KvCache = kv_cache
        self._embedding = loader.linear(EMBEDDING)
        self._layers = [
            DecoderLayer(architecture, config, index, loader.within(f"layers.{index}."))
            for index in range(config.num_hidden_layers)
        ]
        self._norm = architecture.norm(loader, "norm", config.rms_norm_eps)
        self._head = self._embedding if head is None else head
        self._frequencies = rotary_frequencies(config.rotary).to(self.device)

    def new_state(self, capacity: int) -> SequenceState:
        """Make an empty state with room for `capacity` tokens."""
        return new_state(
            self._config,
            capacity,
            dtype=self.dtype,
            device=self.device,
            kv_cache=self._kv_cache,
        )

    def forward(
        self, token_ids: Tensor, state: SequenceState, *, only_last: bool = False
    ) -> Tensor:
        """Read tokens, int64 [T], and return their hidden rows [T, H], or the last one's; advances `state` in place."""
        reading = self._reading(
            token_ids, state, only_last=only_last, can_be_taken_back=False
        )
        while (hidden := reading.advance()) is None:
            pass
        return hidden

    def begin(self, token_ids: Tensor, state: SequenceState) -> Reading:
        """Begin to read tokens layer by layer."""
        return self._reading(token_ids, state, only_last=True, can_be_taken_back=True)

    @torch.no_grad()
    def _reading(
        self,
        token_ids: Tensor,
        state: SequenceState,
        *,
        only_last: bool,
        can_be_taken_back: bool,
    ) -> DecoderReading:
        """Look up the rows of tokens and the angles of their positions, and stand before the first layer."""
        num_tokens = token_ids.shape[0]
        if not 1 <= num_tokens <= state.capacity - state.length:
            raise GenerationError(
                f"{num_tokens} tokens cannot be read: there must be at least one, and the state has room for "
                f"{state.capacity - state.length} more"
            )
        return DecoderReading(
            self._layers,
            self._embedding.take(token_ids),
            rotary_angles(state.length, num_tokens, self._frequencies),
            state,
            only_last=only_last,
            can_be_taken_back=can_be_taken_back,
        )

    @torch.no_grad()
    def logits(self, hidden: Tensor) -> Tensor:
        """Return the scores of the next token, float32 [T, V], of hidden rows [T, H]."""
        return self._head(self._norm(hidden).to(self.dtype)).float()
