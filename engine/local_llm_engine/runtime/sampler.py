"""Choosing the next token from logits."""

from collections.abc import Sequence

import torch
from torch import Tensor

from local_llm_engine.sampling import SamplingParams

# Nearer to 0, float32 would divide by 0. Only the likeliest token is left long before.
_COLDEST = 1e-30

_BITS = tuple(1 << bit for bit in range(8))


class Sampler:
    """Chooses one sequence's tokens; the same seed and logits give the same tokens on one machine.

    The filters run in the order that is usual since Hugging Face's generate(): penalties,
    temperature, top-k, top-p, min-p.
    """

    def __init__(
        self, params: SamplingParams, prompt_ids: Sequence[int], device: torch.device
    ) -> None:
        """Seed the generator; an unseeded sequence draws its own seed."""
        self._params = params
        self._generator = torch.Generator(device=device)
        if params.seed is None:
            self._generator.seed()
        else:
            self._generator.manual_seed(params.seed)
        self._prompt_ids = frozenset(prompt_ids)

    def sample(
        self, logits: Tensor, answer_ids: Sequence[int], allowed: bytes | None = None
    ) -> int:
        """Choose from logits [V], float32, given the answer so far; writes into `logits`.

        `allowed` has one bit for each token that may be chosen, the lowest first; at least one of them is set.
        """
        if allowed is not None:
            _forbid(logits, allowed)
        self._penalize(logits, answer_ids)
        if self._params.temperature == 0:
            return int(logits.argmax())
        token_ids, logits = self._largest(logits)
        # From the largest on, so that no temperature can make it infinite.
        logits = (logits - logits[0]) / max(self._params.temperature, _COLDEST)
        probabilities = torch.softmax(logits, dim=-1)
        probabilities = _keep_top_p(probabilities, self._params.top_p)
        probabilities = torch.where(
            probabilities < self._params.min_p * probabilities[0], 0.0, probabilities
        )
        return int(
            token_ids[torch.multinomial(probabilities, 1, generator=self._generator)]
        )

    def _penalize(self, logits: Tensor, answer_ids: Sequence[int]) -> None:
        params = self._params
        if params.repetition_penalty != 1:
            seen = self._prompt_ids.union(answer_ids)
            index = torch.tensor(sorted(seen), dtype=torch.int64, device=logits.device)
            scores = logits[index]
            logits[index] = torch.where(
                scores < 0,
                scores * params.repetition_penalty,
                scores / params.repetition_penalty,
            )
        if params.presence_penalty and answer_ids:
            present = torch.tensor(
                sorted(set(answer_ids)), dtype=torch.int64, device=logits.device
            )
            logits[present] -= params.presence_penalty

    def _largest(self, logits: Tensor) -> tuple[Tensor, Tensor]:
        """Token ids and logits, the largest first, top-k of them where that is asked for."""
        count = min(self._params.top_k or len(logits), len(logits))
        values, token_ids = torch.topk(logits, count)
        return token_ids, values


def _forbid(logits: Tensor, allowed: bytes) -> None:
    """Make what is not allowed impossible, rows that pad the vocabulary too."""
    device = logits.device
    masks = torch.frombuffer(bytearray(allowed), dtype=torch.uint8).to(device)
    bits = torch.tensor(_BITS, dtype=torch.uint8, device=device)
    forbidden = (masks[:, None] & bits == 0).view(-1)[: len(logits)]
    logits[: len(forbidden)].masked_fill_(forbidden, -torch.inf)
    logits[len(forbidden) :] = -torch.inf


def _keep_top_p(probabilities: Tensor, top_p: float) -> Tensor:
    """Zero what follows the smallest head of descending `probabilities` that sums to `top_p`; keep at least one."""
    if top_p >= 1:
        return probabilities
    before = probabilities.cumsum(dim=-1) - probabilities
    kept = before < top_p
    # A top_p too small for float32 would keep none.
    kept[0] = True
    return torch.where(kept, probabilities, 0.0)
