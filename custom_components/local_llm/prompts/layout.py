"""Divides Home Assistant's prompt text into what all devices share and what is one device's own; pure text, no Home Assistant."""

from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from typing import NamedTuple

# How the lines begin that Home Assistant's intent component writes for one kind of device. They are
# named because two devices can have one of them in common by chance, and the shared text would then
# differ from a third device's. A test compares them with the installed Home Assistant; a line that
# is not known here is still found by comparing, and costs at most its own tokens.
_DEVICE_LINES = (
    "You are in area ",
    "When a user asks to turn on all devices of a specific type, ask the user to specify an area",
    "This device is not able to start timers.",
)
_ENTITY = "- names: "


class Division(NamedTuple):
    """A prompt in two parts; each keeps the order of its lines, and no line is lost."""

    shared: str
    own: str


def divide(here: str, elsewhere: str) -> Division:
    """Divide the text `here` that a device is given by what it has in common with the text `elsewhere`."""
    lines, others = here.split("\n"), elsewhere.split("\n")
    is_shared = _common_lines(lines, others)
    shared: list[str] = []
    own: list[str] = []
    for line, common in zip(lines, is_shared, strict=True):
        (shared if common and not line.startswith(_DEVICE_LINES) else own).append(line)
    return Division(_sort_entities(shared), "\n".join(own))


def _common_lines(lines: Sequence[str], others: Sequence[str]) -> list[bool]:
    """Tell for each line whether the others have it too, in the same order."""
    limit = min(len(lines), len(others))
    head = next(
        (index for index in range(limit) if lines[index] != others[index]), limit
    )
    limit -= head
    tail = next(
        (index for index in range(limit) if lines[-1 - index] != others[-1 - index]),
        limit,
    )
    # Only what lies between is compared at length: a house has thousands of equal lines.
    middle = lines[head : len(lines) - tail]
    common = [True] * head + [False] * len(middle) + [True] * tail
    matcher = SequenceMatcher(
        None, middle, others[head : len(others) - tail], autojunk=False
    )
    for start, _, size in matcher.get_matching_blocks():
        common[head + start : head + start + size] = [True] * size
    return common


def _sort_entities(lines: Sequence[str]) -> str:
    """Join the lines, the list of entities in an order that depends on its text alone.

    Home Assistant sorts entities by name; those with equal names stand in the order in which they
    were added, which a restart changes.
    """
    text: list[str] = []
    entities: list[str] = []
    for block in _blocks(lines):
        if block.startswith(_ENTITY):
            entities.append(block)
            continue
        text += [*sorted(entities), block]
        entities.clear()
    return "\n".join([*text, *sorted(entities)])


def _blocks(lines: Sequence[str]) -> Iterator[str]:
    """Yield each entity with its indented lines as one block, and every other line by itself."""
    start = 0
    while start < len(lines):
        end = start + 1
        while lines[start].startswith(_ENTITY) and _continues(lines, end):
            end += 1
        yield "\n".join(lines[start:end])
        start = end


def _continues(lines: Sequence[str], index: int) -> bool:
    """Tell whether a line belongs to the entity above; a name's line breaks are empty lines inside its quotes."""
    first_words = next((line for line in lines[index:] if line), "")
    return first_words.startswith("  ")
