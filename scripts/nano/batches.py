"""Batches of houses: each house's prompt once, and many conversations that go on from its end.

Knows tokens alone; owns where each stands in the network's rows.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from .chats import Encoded

IGNORED = -100
# The rows before a sequence that the convolution needs
MARGIN = 3
_MOST_GROUPS = 4


@dataclass(frozen=True, slots=True)
class Group:
    """Sequences of about the same length, padded to it: S of length L.

    `rows` is where its flat rows begin and end; `places` [N] where each stands within S * L; `convolved` [N] where
    each stands among the rows with margins. `owners` [S] are the prompts that conversations go on from; None for the
    prompts themselves, which are padded in front. `mask` [S, 1, L, LP + L] says what may be attended to, LP being 0 for prompts.
    """

    rows: slice
    places: Tensor
    convolved: Tensor
    num: int
    length: int
    owners: Tensor | None
    mask: Tensor


@dataclass(frozen=True, slots=True)
class Batch:
    """Flat rows of tokens, N: the prompts, then the conversations, from short to long.

    A target is the next token, or IGNORED; `weights` says how much each counts. `sources` [N + margins] are the rows,
    counted from 1, of every sequence with the three before it; 0 is none.
    """

    ids: Tensor
    positions: Tensor
    targets: Tensor
    weights: Tensor
    sources: Tensor
    prompts: Group
    branches: tuple[Group, ...]
    order: tuple[int, ...]


def make_batch(
    prompts: Sequence[Sequence[int]],
    branches: Sequence[Sequence[Encoded]],
    other_weight: float,
) -> Batch:
    """Lay out prompts [B] and the conversations of each.

    What nano does not write itself counts `other_weight`. `order` says which conversation, of all in a row, comes where.
    """
    flat = [(owner, branch) for owner, house in enumerate(branches) for branch in house]
    order = sorted(range(len(flat)), key=lambda index: len(flat[index][1].ids))
    ids: list[int] = []
    positions: list[int] = []
    targets: list[int] = []
    weights: list[float] = []
    sources: list[int] = []
    for prompt in prompts:
        sources += [0] * MARGIN
        sources += range(len(ids) + 1, len(ids) + len(prompt) + 1)
        positions += range(len(prompt))
        ids += prompt
        targets += [*prompt[1:], IGNORED]
        weights += [other_weight] * len(prompt)
    ends = [sum(map(len, prompts[: index + 1])) for index in range(len(prompts))]
    for owner, branch in (flat[index] for index in order):
        sources += range(ends[owner] - MARGIN + 1, ends[owner] + 1)
        sources += range(len(ids) + 1, len(ids) + len(branch.ids) + 1)
        start = len(prompts[owner])
        positions += range(start, start + len(branch.ids))
        ids += branch.ids
        targets += [*branch.ids[1:], IGNORED]
        weights += [1.0 if own else other_weight for own in (*branch.own[1:], False)]
    lengths = list(map(len, prompts))
    return Batch(
        ids=torch.tensor(ids),
        positions=torch.tensor(positions),
        targets=torch.tensor(targets),
        weights=torch.tensor(weights),
        sources=torch.tensor(sources),
        prompts=_prompt_group(lengths),
        branches=tuple(
            _branch_groups(
                [(flat[index][0], len(flat[index][1].ids)) for index in order], lengths
            )
        ),
        order=tuple(order),
    )


def _prompt_group(lengths: Sequence[int]) -> Group:
    """Prompts end together; a padding row sees itself, so that nothing is undefined."""
    longest = max(lengths)
    known = torch.arange(longest) >= longest - torch.tensor(lengths)[:, None]
    causal = torch.ones(longest, longest, dtype=torch.bool).tril()
    mask = causal & known[:, None, :] | torch.eye(longest, dtype=torch.bool)
    places = [
        index * longest + longest - length + place
        for index, length in enumerate(lengths)
        for place in range(length)
    ]
    return Group(
        rows=slice(0, sum(lengths)),
        places=torch.tensor(places),
        convolved=_with_margins(lengths, 0),
        num=len(lengths),
        length=longest,
        owners=None,
        mask=mask[:, None],
    )


def _branch_groups(
    branches: Sequence[tuple[int, int]], prompts: Sequence[int]
) -> Iterator[Group]:
    """Divide conversations, given as prompt and length and from short to long, into groups of about the same number of rows."""
    longest = max(prompts)
    known = torch.arange(longest) >= longest - torch.tensor(prompts)[:, None]
    size = -(-len(branches) // _MOST_GROUPS)
    row, extended = sum(prompts), sum(prompts) + MARGIN * len(prompts)
    for start in range(0, len(branches), size):
        part = branches[start : start + size]
        lengths = [length for _, length in part]
        length = max(lengths)
        owners = torch.tensor([owner for owner, _ in part])
        causal = (
            torch.ones(length, length, dtype=torch.bool)
            .tril()
            .expand(len(part), -1, -1)
        )
        yield Group(
            rows=slice(row, row + sum(lengths)),
            places=torch.tensor(
                [
                    index * length + place
                    for index, own in enumerate(lengths)
                    for place in range(own)
                ]
            ),
            convolved=_with_margins(lengths, extended),
            num=len(part),
            length=length,
            owners=owners,
            mask=torch.cat((known[owners][:, None].expand(-1, length, -1), causal), -1)[
                :, None
            ],
        )
        row += sum(lengths)
        extended += sum(lengths) + MARGIN * len(part)


def _with_margins(lengths: Sequence[int], start: int) -> Tensor:
    """Say where the rows of sequences stand after a convolution over all of them with their margins.

    The convolution's output at a row stands MARGIN before the row itself.
    """
    places: list[int] = []
    at = start
    for length in lengths:
        places += range(at, at + length)
        at += length + MARGIN
    return torch.tensor(places)
