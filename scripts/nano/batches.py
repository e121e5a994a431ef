"""Batches of houses: each house's prompt once, and many conversations that go on from its end.

Knows tokens alone; owns where each stands in the network's rows.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from .chats import Encoded

IGNORED = -100
# The rows before a sequence that the convolution needs
MARGIN = 3
# More pad less, and are slower for being small.
_MOST_GROUPS = 8


@dataclass(frozen=True, slots=True)
class Group:
    """Sequences of about the same length, padded to it: S of length L.

    `num_rows` is the number of its flat rows, N; `places` [N] says where each stands within S * L. `owners` [S] are the prompts that conversations go on from; None for the
    prompts themselves, which are padded in front. `mask` [S, 1, L, LP + L] says what may be attended to, LP being 0 for prompts.
    """

    num_rows: int
    places: Tensor
    num: int
    length: int
    owners: Tensor | None
    mask: Tensor

    def to(self, device: torch.device) -> Group:
        """Return it on a device."""
        return replace(
            self,
            places=self.places.to(device),
            owners=None if self.owners is None else self.owners.to(device),
            mask=self.mask.to(device),
        )


@dataclass(frozen=True, slots=True)
class Batch:
    """Flat rows of tokens, N: the prompts, then the conversations, from short to long.

    A target is the next token, or IGNORED; `weights` says how much each counts. `sources` [N + margins] are the rows,
    counted from 1, of every sequence with the three before it; 0 is none. After a convolution over those, `convolved` [N]
    is where each row's output stands.
    """

    ids: Tensor
    positions: Tensor
    targets: Tensor
    weights: Tensor
    sources: Tensor
    convolved: Tensor
    prompts: Group
    branches: tuple[Group, ...]
    order: tuple[int, ...]

    def to(self, device: torch.device) -> Batch:
        """Return it on a device."""
        return replace(
            self,
            ids=self.ids.to(device),
            positions=self.positions.to(device),
            targets=self.targets.to(device),
            weights=self.weights.to(device),
            sources=self.sources.to(device),
            convolved=self.convolved.to(device),
            prompts=self.prompts.to(device),
            branches=tuple(group.to(device) for group in self.branches),
        )

    def split(self, rows: Tensor) -> tuple[Tensor, ...]:
        """Divide flat rows [N, C] into those of the prompts and those of each group of conversations."""
        return rows.split([group.num_rows for group in (self.prompts, *self.branches)])


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
    columns = _Columns(other_weight)
    ends = []
    for prompt in prompts:
        columns.add(prompt, [False] * len(prompt), 0, [0] * MARGIN)
        ends.append(len(columns.ids))
    for owner, branch in (flat[index] for index in order):
        before = range(ends[owner] - MARGIN + 1, ends[owner] + 1)
        columns.add(branch.ids, branch.own, len(prompts[owner]), before)
    lengths = list(map(len, prompts))
    owned = [(flat[index][0], len(flat[index][1].ids)) for index in order]
    return Batch(
        ids=torch.tensor(columns.ids),
        positions=torch.tensor(columns.positions),
        targets=torch.tensor(columns.targets),
        weights=torch.tensor(columns.weights),
        sources=torch.tensor(columns.sources),
        convolved=_without_margins([*lengths, *(length for _, length in owned)]),
        prompts=_prompt_group(lengths),
        branches=tuple(_branch_groups(owned, lengths)),
        order=tuple(order),
    )


class _Columns:
    """What is known of each row, while sequence after sequence is added."""

    def __init__(self, other_weight: float) -> None:
        self.ids: list[int] = []
        self.positions: list[int] = []
        self.targets: list[int] = []
        self.weights: list[float] = []
        self.sources: list[int] = []
        self._other_weight = other_weight

    def add(
        self,
        ids: Sequence[int],
        own: Sequence[bool],
        start: int,
        before: Iterable[int],
    ) -> None:
        """Add a sequence that begins at position `start`, after the rows `before`."""
        self.sources += [*before, *range(len(self.ids) + 1, len(self.ids) + len(ids) + 1)]  # fmt: skip
        self.positions += range(start, start + len(ids))
        self.ids += ids
        self.targets += [*ids[1:], IGNORED]
        self.weights += [1.0 if one else self._other_weight for one in (*own[1:], False)]  # fmt: skip


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
        num_rows=sum(lengths),
        places=torch.tensor(places),
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
            num_rows=sum(lengths),
            places=torch.tensor(
                [
                    index * length + place
                    for index, own in enumerate(lengths)
                    for place in range(own)
                ]
            ),
            num=len(part),
            length=length,
            owners=owners,
            mask=torch.cat((known[owners][:, None].expand(-1, length, -1), causal), -1)[
                :, None
            ],
        )


def _without_margins(lengths: Iterable[int]) -> Tensor:
    """Say where the rows of sequences stand after a convolution over all of them with their margins.

    The convolution's output at a row stands MARGIN before the row itself.
    """
    places: list[int] = []
    at = 0
    for length in lengths:
        places += range(at, at + length)
        at += length + MARGIN
    return torch.tensor(places)
