"""The texts that fill the slots of sentence templates, and what each stands for: numbers, colours, days, items.

Knows lists and words, nothing of what a sentence is aimed at.
"""

from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

from .house import House
from .sentences import Block
from .templates import UnfitTemplateError, expand
from .words import Words, free_text, own_sentences

_WILDCARDS = {
    "message": "messages",
    "timer_name": "timer_names",
    "todo_list_item": "items",
    "shopping_list_item": "items",
}
_RANGES = {
    "humidity": (30, 70),
    "brightness": (1, 100),
    "position": (1, 99),
    "temperature": (14, 28),
    "volume": (0, 100),
    "fan_speed": (1, 100),
}
# States that last a moment only
_PASSING = ("opening", "closing", "jammed", "locking", "unlocking")


class SlotValues:
    """Chooses values for one block's lists, in the words of a language."""

    def __init__(
        self, random: Random, words: Words, house: House, block: Block
    ) -> None:
        """Choose at random."""
        self._random = random
        self._words = words
        self._house = house
        self._block = block

    def choose(self, list_name: str, slot: str, wanted: object) -> tuple[str, Any]:
        """Choose a text of a list and what it stands for; `wanted` is the device class or domain of what is aimed at.

        Raises:
            UnfitTemplateError: there is nothing to choose from.
        """
        if list_name == "script":
            if not self._house.scripts:
                raise UnfitTemplateError("no script")
            script = self._random.choice(self._house.scripts)
            return script.replace("_", " "), script
        if list_name in ("day", "switch_domain"):
            return self._own_pair(list_name, wanted)
        if kind := _WILDCARDS.get(list_name):
            text = free_text(self._random, self._words, kind)
            return text, text
        found = self._block.lists.get(list_name)
        if list_name in _RANGES and (found is None or "range" in found):
            return self._round_number(list_name)
        if found is None or found.get("wildcard"):
            raise UnfitTemplateError(list_name)
        if "range" in found:
            return self._number(list_name, found["range"])
        return self._choice(list_name, slot, found["values"], wanted)

    def _own_pair(self, list_name: str, wanted: object) -> tuple[str, Any]:
        own = own_sentences(self._words.language)
        if list_name == "day":
            text, value = self._random.choice(own["days"])
        else:
            text, value = self._random.choice(
                [pair for pair in own["switch_domain"] if pair[1] == wanted]
            )
        return text, value

    def _round_number(self, list_name: str) -> tuple[str, int]:
        low, high = _RANGES[list_name]
        number = self._random.randint(low, high)
        if self._random.random() < 0.5 and list_name != "temperature":
            number = max(low, number // 10 * 10)
        return str(number), number

    def _number(self, list_name: str, limits: Mapping[str, Any]) -> tuple[str, int]:
        low, high, step = limits["from"], limits["to"], limits.get("step", 1)
        if list_name.startswith("timer_"):
            low, high = max(low, 1), {"timer_hours": 5}.get(list_name, 60)
            number = self._random.choice(
                (
                    self._random.randint(low, high),
                    self._random.choice((1, 2, 5, 10, 15, 20, 30, 45)),
                )
            )
            number = min(number, high)
        else:
            number = self._random.randrange(low, high + 1, step)
        return str(number), number * limits.get("multiplier", 1)

    def _choice(
        self, list_name: str, slot: str, values: Sequence[Any], wanted: object
    ) -> tuple[str, Any]:
        pairs = [
            (value, value)
            if isinstance(value, str)
            else (value["in"], value.get("out", value["in"]))
            for value in values
        ]
        if slot == "device_class":
            pairs = [pair for pair in pairs if pair[1] == wanted]
        if slot == "state":
            pairs = [pair for pair in pairs if pair[1] not in _PASSING]
        if not pairs:
            raise UnfitTemplateError(list_name)
        template, value = self._random.choice(pairs)
        text = expand(
            str(template),
            self._random,
            self._block.rules,
            lambda *_: "",
            lambda _: True,
        )
        return text, value
