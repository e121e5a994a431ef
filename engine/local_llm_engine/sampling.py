"""How the next token is to be chosen, checked when it is asked for.

Knows nothing of tensors; the choosing itself is the runtime's.
"""

from dataclasses import dataclass
import math

from .errors import InvalidRequestError


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplingParams:
    """How the next token is chosen.

    `temperature` 0 is greedy. `top_k` 0, `top_p` 1 and `min_p` 0 leave their filter out.
    `repetition_penalty` (CTRL, arXiv:1909.05858) scales the logits of every token of prompt and answer,
    `presence_penalty` lowers those of the answer's tokens; 1 and 0 leave them out.

    Raises:
        InvalidRequestError: a value is out of its range; the message names field, value and range.

    """

    temperature: float = 0.7
    top_k: int = 20
    top_p: float = 0.8
    min_p: float = 0.0
    repetition_penalty: float = 1.0
    presence_penalty: float = 0.0
    seed: int | None = None
    max_tokens: int = 512

    def __post_init__(self) -> None:
        """Check every field against its range."""
        _require_number("temperature", self.temperature, 0.0, 5.0)
        _require_number("top_k", self.top_k, 0, 1_000_000, whole=True)
        _require_number("top_p", self.top_p, 0.0, 1.0, above=True)
        _require_number("min_p", self.min_p, 0.0, 1.0)
        # Less would make logits infinite, and means nothing that 0.01 does not.
        _require_number("repetition_penalty", self.repetition_penalty, 0.01, 10.0)
        _require_number("presence_penalty", self.presence_penalty, -10.0, 10.0)
        _require_number("max_tokens", self.max_tokens, 1, 1_000_000, whole=True)
        if self.seed is not None:
            _require_number("seed", self.seed, 0, 2**63 - 1, whole=True)


def _require_number(
    name: str,
    value: float,
    low: float,
    high: float,
    *,
    whole: bool = False,
    above: bool = False,
) -> None:
    """Raise InvalidRequestError unless low <= value <= high (low < value with `above`)."""
    bounds = f"{'above' if above else 'from'} {low} {'and at most' if above else 'to'} {high}"
    kind = "a whole number" if whole else "a number"
    numeric = isinstance(value, int if whole else int | float) and not isinstance(
        value, bool
    )
    if (
        not numeric
        or not math.isfinite(value)
        or not (low < value if above else low <= value)
        or value > high
    ):
        raise InvalidRequestError(f"{name} must be {kind} {bounds}, not {value!r}")
