"""How often nano's answer is right to the token, on houses, names and sentences that were held out.

Every token is compared with the one that nano would have chosen after the right ones before it: where all agree, it
would have written the whole answer. What really happens in a home is measured elsewhere, by `scripts/bench nano`.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from random import Random

import torch
from torch import Tensor

from .batches import Batch, make_batch
from .chats import Chats, Encoded
from .computing import quickest_products
from .network import Nano
from .samples import Recipe, Sample, draw


@dataclass(frozen=True, slots=True)
class Exam:
    """Houses of one size with conversations, laid out once."""

    num_things: int
    kinds: tuple[str, ...]
    batch: Batch
    encoded: tuple[Encoded, ...]
    calls_first: tuple[bool, ...]


def make_exams(
    chats: Chats, *, seed: int, sizes: Sequence[int], houses: int, language: str = "en"
) -> list[Exam]:
    """Draw exams, the same for the same seed."""
    recipe = Recipe(languages={language: 1.0}, conversations=12, held_out=True)
    return [
        _exam(
            [
                draw(
                    Random(f"exam {seed} {language} {size} {number}"),
                    recipe,
                    chats,
                    size,
                )
            ],
            chats,
            size,
        )
        for size in sizes
        for number in range(houses)
    ]


def _exam(samples: Sequence[Sample], chats: Chats, size: int) -> Exam:
    conversations = [turns for sample in samples for turns in sample.conversations]
    encoded = tuple(map(chats.conversation, conversations))
    return Exam(
        num_things=size,
        kinds=tuple(
            _kind(turns[-1].kind, turns[-1].command.intent if turns[-1].command else "")
            for turns in conversations
        ),
        batch=make_batch([sample.prompt for sample in samples], [encoded], 0.0),
        encoded=encoded,
        calls_first=tuple(bool(turns[-1].calls) for turns in conversations),
    )


def _kind(kind: str, intent: str) -> str:
    return intent.removeprefix("Hass") if kind == "single" else kind


@torch.no_grad()
def examine(
    network: Nano, exams: Sequence[Exam]
) -> tuple[dict[str, float], dict[str, tuple[int, int]]]:
    """Return the share of right first answers by size of house and on the whole, and by kind how many of how many."""
    right_of: dict[str, list[bool]] = defaultdict(list)
    kinds: dict[str, list[bool]] = defaultdict(list)
    device = network.lm_head.weight.device
    for exam in exams:
        batch = exam.batch.to(device)
        with quickest_products(device):
            chosen = network.lm_head(network.hidden(batch)).argmax(-1)
        agreed = (chosen == batch.targets).cpu()
        for index, (first, last) in _answers(exam, agreed):
            right_of[f"things {exam.num_things}"].append(first)
            right_of["all"].append(first)
            right_of["with words"].append(first and last)
            kinds[exam.kinds[index]].append(first)
    shares = {name: sum(found) / len(found) for name, found in right_of.items()}
    return shares, {
        name: (sum(found), len(found)) for name, found in sorted(kinds.items())
    }


def _answers(exam: Exam, agreed: Tensor) -> Iterator[tuple[int, tuple[bool, bool]]]:
    """Yield for each conversation whether the last turn's first answer is right, and its last."""
    row = exam.batch.prompts.num_rows
    for index in exam.batch.order:
        encoded = exam.encoded[index]
        runs = _runs(encoded.own)
        first = runs[-2] if exam.calls_first[index] else runs[-1]
        yield index, (_is_right(agreed, row, first), _is_right(agreed, row, runs[-1]))
        row += len(encoded.ids)


def _runs(own: Sequence[bool]) -> list[tuple[int, int]]:
    """Find where nano itself writes."""
    runs = []
    start = None
    for index, is_own in enumerate((*own, False)):
        if is_own and start is None:
            start = index
        if not is_own and start is not None:
            runs.append((start, index))
            start = None
    return runs


def _is_right(agreed: Tensor, row: int, run: tuple[int, int]) -> bool:
    # A token is chosen at the row before its own.
    return bool(agreed[row + run[0] - 1 : row + run[1] - 1].all())
