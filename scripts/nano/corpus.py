"""The texts that nano's tokenizer learns from: what is said and answered in houses of all languages, and their names."""

from collections.abc import Iterator, Mapping
from datetime import date
from random import Random

from .building import build_house, random_speaker
from .dialogues import Talk
from .states import as_text
from .templates import UnfitTemplateError
from .words import words_of

_HOUSES = {"en": 600, "de": 200, "fr": 200, "it": 160, "es": 160, "ja": 120}
_CONVERSATIONS = 20
# Sentences count more than names: they have more words that come again.
_REPEATS = 4


def tokenizer_texts(
    random: Random, houses: Mapping[str, int] = _HOUSES
) -> Iterator[str]:
    """Yield the texts of so many houses of each language."""
    for language, count in houses.items():
        words = words_of(language)
        for _ in range(count):
            house = build_house(random, words, random.randint(4, 30))
            yield from (name for thing in house.things for name in thing.names)
            talk = Talk(
                random, words, house, random_speaker(random, house), date(2026, 5, 4)
            )
            for _ in range(_CONVERSATIONS):
                try:
                    turns = talk.conversation()
                except UnfitTemplateError:
                    continue
                for turn in turns:
                    yield from [turn.text, turn.answer] * _REPEATS
                    yield from (as_text(dict(result)) for result in turn.results)
