"""Has the model read tokens into a slot: a few in one go, a long stretch one layer at a time.

Knows nothing of who asks or of what is worth keeping.
"""

import torch
from torch import Tensor

from local_llm_engine.cache.prompt_cache import Slot
from local_llm_engine.models.model import Model, Reading

from .sequence import Sequence

# Stretches of so few tokens are read in one step: nobody waits long for them.
_TOKENS_AT_ONCE = 64


class Stretches:
    """The stretches that sequences are in the middle of; a slot whose stretch has begun is nobody else's."""

    def __init__(self, model: Model) -> None:
        """Read with `model`."""
        self._model = model
        self._readings: dict[Sequence, Reading] = {}

    def read(self, token_ids: tuple[int, ...], slot: Slot) -> Tensor:
        """Read tokens into the slot and return the hidden row of the last, [1, H]."""
        hidden = self._model.forward(
            self._tensor(token_ids), slot.state, only_last=True
        )
        slot.cuts.append(slot.state.length)
        return hidden

    def read_on(
        self, sequence: Sequence, token_ids: tuple[int, ...], slot: Slot
    ) -> Tensor | None:
        """Read a stretch, a long one by one layer more; the last token's hidden row, [1, H], when all are passed.

        Until then it is called again and again with the same tokens and slot.
        """
        reading = self._readings.pop(sequence, None)
        if reading is None:
            if len(token_ids) <= _TOKENS_AT_ONCE:
                return self.read(token_ids, slot)
            reading = self._model.begin(self._tensor(token_ids), slot.state)
        hidden = reading.advance()
        if hidden is None:
            self._readings[sequence] = reading
        else:
            slot.cuts.append(slot.state.length)
        return hidden

    def take_back(self, sequence: Sequence) -> None:
        """Bring the slot back to the end of the last stretch that was read whole."""
        if reading := self._readings.pop(sequence, None):
            reading.take_back()

    def forget(self, sequence: Sequence) -> None:
        """Let go of a stretch whose slot is reset."""
        self._readings.pop(sequence, None)

    def _tensor(self, token_ids: tuple[int, ...]) -> Tensor:
        return torch.tensor(token_ids, dtype=torch.int64, device=self._model.device)
