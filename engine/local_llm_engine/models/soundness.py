"""What can be seen of a model only by running it: whether it computes numbers.

Knows no architecture.
"""

import torch

from ..cache.state import SequenceState
from ..errors import WeightFormatError
from .model import Model


def require_numbers(model: Model, state: SequenceState) -> None:
    """Read a prompt of two tokens into an empty state, which is of no further use.

    Of one token alone it would not show that a memory is lost without bounds.

    Raises:
        WeightFormatError: what comes out is infinite or no number; so would be all answers.
    """
    with torch.inference_mode():
        token_ids = torch.zeros(2, dtype=torch.int64, device=model.device)
        logits = model.logits(model.forward(token_ids, state))
        if not bool(logits.isfinite().all()):
            raise WeightFormatError(
                f"{model.summary.name}: the model computes no numbers from its weights, which must be damaged; "
                "right is to download it again"
            )
