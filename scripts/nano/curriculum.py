"""How training gets harder, step by step: from small houses and single commands to whole homes, from English to six languages."""

from collections.abc import Mapping
from dataclasses import dataclass

from .dialogues import KINDS
from .samples import Recipe

_ENGLISH = {"en": 1.0}
_ALL = {"en": 70.0, "de": 7.0, "fr": 7.0, "it": 6.0, "es": 6.0, "ja": 4.0}
# Of random tokens, with each house
_REPEATS = 2
_PLAIN = {"single": 92, "small_talk": 4, "cannot": 4}
# More of what is learned last than homes will ask for
_ALL_KINDS = {**KINDS, "single": 48, "several": 14, "unknown": 12}


@dataclass(frozen=True, slots=True)
class Stage:
    """What is drawn up to a step."""

    until: int
    max_things: int
    languages: Mapping[str, float]
    kinds: Mapping[str, float]
    houses: int
    conversations: int
    recitations: int


STAGES = (
    Stage(150, 6, _ENGLISH, _PLAIN, 4, 0, 24),
    Stage(600, 6, _ENGLISH, _PLAIN, 4, 16, 8),
    Stage(1_200, 14, _ENGLISH, _PLAIN, 4, 16, 6),
    Stage(1_700, 24, _ENGLISH, _ALL_KINDS, 4, 16, 4),
    Stage(2_400, 40, _ENGLISH, _ALL_KINDS, 4, 16, 2),
    Stage(8_000, 80, _ENGLISH, _ALL_KINDS, 4, 16, 1),
    Stage(10**9, 80, _ALL, _ALL_KINDS, 4, 16, 1),
)


def recipe_at(step: int) -> Recipe:
    """Return what is drawn at a step."""
    stage = next(stage for stage in STAGES if step < stage.until)
    return Recipe(
        min_things=3,
        max_things=stage.max_things,
        languages=stage.languages,
        kinds=stage.kinds,
        houses=stage.houses,
        conversations=stage.conversations,
        recitations=stage.recitations,
        repeats=_REPEATS if stage.conversations else 0,
    )
