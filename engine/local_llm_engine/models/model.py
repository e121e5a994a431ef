"""What every architecture offers to the room above: a summary, a state, forward and logits."""

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from ..cache.state import SequenceState


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSummary:
    """A model folder in words and numbers, known without reading any weights.

    `architecture` is config.json's model_type. Parameters and bytes count what the engine uses: no
    vision tower, no layers for multi-token prediction. `context_length` is what the model was made
    for, in tokens.
    """

    name: str
    architecture: str
    num_layers: int
    num_parameters: int
    weights_bytes: int
    context_length: int
    vocab_size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedWeights:
    """In which formats a model's matrices lie in memory.

    `format` is the one of most of its weights: "int4", "int8", or "bf16" where nothing is in a format of our own. Numbers under one `key` are
    equal; `notices` tell of what is slower than it could be.
    """

    format: str
    key: str = ""
    notices: tuple[str, ...] = ()


class Reading(Protocol):
    """A stretch of tokens on its way through the layers of a model; it may rest between two of them."""

    def advance(self) -> Tensor | None:
        """Pass one more layer; after the last one, the state has read the tokens, and the last one's hidden row [1, H] is returned.

        The row equals, bit for bit, what `forward` returns of the last alone. After an exception the state is garbage
        until it is reset.
        """

    def take_back(self) -> None:
        """Bring the state to where it was before the stretch, bit for bit; only before the last layer is passed."""


class Model(Protocol):
    """A loaded model. One thread at a time may call it; equal stops give equal bits on one machine."""

    @property
    def summary(self) -> ModelSummary:
        """What the model is."""

    @property
    def weights(self) -> LoadedWeights:
        """How its weights lie in memory."""

    @property
    def device(self) -> torch.device:
        """Where its weights and states lie."""

    @property
    def dtype(self) -> torch.dtype:
        """The dtype of weights, KV and hidden rows; recurrent states are float32."""

    def new_state(self, capacity: int) -> SequenceState:
        """Make an empty state with room for `capacity` tokens."""

    def forward(
        self, token_ids: Tensor, state: SequenceState, *, only_last: bool = False
    ) -> Tensor:
        """Read T >= 1 tokens, int64 [T], and return their hidden rows [T, H]; advances `state` in place.

        `only_last` returns the last token's row alone, [1, H], for less work: within rounding of what it is among
        all, and the same whenever it is asked for.

        Raises:
            GenerationError: there is no token, or no room for them; `state` is as it was. After any
                other exception `state` is garbage until it is reset.
        """

    def begin(self, token_ids: Tensor, state: SequenceState) -> Reading:
        """Begin to read T >= 1 tokens, int64 [T], layer by layer; until that has ended, `state` is nobody else's.

        Raises:
            GenerationError: there is no token, or no room for them.
        """

    def logits(self, hidden: Tensor) -> Tensor:
        """Return the scores of the next token, float32 [T, V], of hidden rows [T, H]."""
