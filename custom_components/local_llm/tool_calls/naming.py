"""Finds entities, areas and floors by the names that people and small models give them; pure.

Knows nothing of tools and their arguments.
"""

from collections.abc import Sequence
import re
from typing import Final

from .everyday_words import ALL_OF, ARTICLES, KIND_IN_PLACE
from .house_names import HouseNames, Thing
from .spelling import folded, number_forms, the_one

AREA: Final = "area"
FLOOR: Final = "floor"

# Home Assistant's own word for all that the other arguments leave.
ALL: Final = "all"
ARTICLE: Final = re.compile(rf"^(?:({ALL_OF})|{ARTICLES})", re.IGNORECASE)
_IN_PLACE = tuple(re.compile(pattern, re.IGNORECASE) for pattern in KIND_IN_PLACE)
_ENTITY_ID = re.compile(r"[a-z_]+\.([a-z0-9_]+)")
_WORD_FOR_PLACE = re.compile(r"\s+(?:area|room|floor)$", re.IGNORECASE)
# What lets people in is never guessed: not from a part of its name, nor where another kind is meant.
_GUARDED: Final = frozenset({"lock", "cover", "valve", "alarm_control_panel"})


class Naming:
    """The names of one house."""

    def __init__(self, house: HouseNames) -> None:
        """Take the names as they are now."""
        self.house = house

    def place_names(self, key: str) -> list[str]:
        """Return the names of all areas or floors."""
        places = self.house.areas if key == AREA else self.house.floors
        return [place.name for place in places]

    def place(self, word: str, key: str) -> str | None:
        """Return the area or floor that a word names: as it is spelled where Home Assistant finds it, else by its name."""
        known = self._known_places(key)
        if any(_plain(word) == _plain(name) for name in known):
            return word
        bare = ARTICLE.sub("", word, count=1)
        spellings = [word, bare, _WORD_FOR_PLACE.sub("", bare)]
        spellings += [f"{bare} room", f"{bare} floor"]
        found = (the_one(spelling, known) for spelling in spellings)
        return next(filter(None, found), None)

    def place_and_rest(self, name: str, key: str) -> list[tuple[str, str]]:
        """Return the areas or floors in a name, each with the rest: "Kitchen lights", "lights in the kitchen"."""
        bare = ARTICLE.sub("", name, count=1)
        found = [
            (place, text.removeprefix(folded(spelling)))
            for spelling, place in self._known_places(key).items()
            for text in {folded(name), folded(bare)}
            if text.startswith(folded(spelling)) and text != folded(spelling)
        ]
        matches = filter(None, (pattern.match(bare) for pattern in _IN_PLACE))
        found += [
            (place, match["kind"])
            for match in matches
            if (place := self.place(match["place"], key))
        ]
        return found

    def same_place(self, one: str, other: str, key: str) -> bool:
        """Tell whether two words name the same area or floor."""
        known = self._known_places(key)
        found = self.place(one, key), self.place(other, key)
        return (
            None not in found
            and len({the_one(str(name), known) for name in found}) == 1
        )

    def called(self, name: str) -> list[Thing]:
        """Return the entities that Home Assistant itself finds by this name."""
        return [thing for thing in self.house.things if _is_called(thing, name)]

    def spelled(self, name: str) -> list[Thing]:
        """Return the entities of this name whatever its spelling: by all names in one, too, and by the entity's id."""
        written = name.strip().lower()
        entity_id = _ENTITY_ID.fullmatch(written)
        spellings = [name, ARTICLE.sub("", name, count=1)]
        spellings += [entity_id[1]] if entity_id else []
        keys = set(map(folded, spellings))
        return [
            thing
            for thing in self.house.things
            if (
                thing.entity_id == written
                if entity_id and is_guarded(thing)
                else keys & _spellings(thing)
            )
        ]

    def in_plural(self, name: str) -> list[Thing]:
        """Return the entities that a name means but for the plural."""
        keys = number_forms(folded(ARTICLE.sub("", name, count=1)))
        return [
            thing
            for thing in self.house.things
            if any(keys & number_forms(folded(own)) for own in thing.names)
        ]

    def in_area(self, name: str, area: str | None) -> list[Thing]:
        """Return the entities of an area that are named after it and then like this."""
        key = folded(ARTICLE.sub("", name, count=1))
        return [
            thing
            for thing in self.house.things
            if thing.area is not None
            and area is not None
            and self.same_place(thing.area, area, AREA)
            and any(folded(own) == folded(thing.area) + key for own in thing.names)
        ]

    def in_part(self, name: str) -> list[Thing]:
        """Return the entities that have this as a part of a name with commas, which reads like several names."""
        return [
            thing
            for thing in self.house.things
            if any(
                "," in own and folded(name) in map(folded, own.split(","))
                for own in thing.names
            )
        ]

    def in_words(self, name: str) -> list[Thing]:
        """Return the entities that have all these words in a name, but for those that let people in."""
        words = {folded(word) for word in ARTICLE.sub("", name, count=1).split()}
        return [
            thing
            for thing in self.house.things
            if not is_guarded(thing)
            and any(words <= set(map(folded, own.split())) for own in thing.names)
        ]

    def own_name(self, thing: Thing) -> str:
        """Return a name that no other entity has, else the entity's id, which Home Assistant takes too."""
        return next(
            (name for name in thing.names if self.called(name) == [thing]),
            thing.entity_id,
        )

    def names_thing(self, word: str) -> str | None:
        """Return how to call the one entity that a word names; None where that is nothing, or not one."""
        called = self.called(word)
        if len(called) == 1:
            return word
        found = [] if called else self.spelled(word)
        return self.own_name(found[0]) if len(found) == 1 else None

    def same_thing(self, one: str, other: str) -> bool:
        """Tell whether two words name the same entity."""
        found = [self.called(word) or self.spelled(word) for word in (one, other)]
        return found[0] == found[1] and len(found[0]) == 1

    def _known_places(self, key: str) -> dict[str, str]:
        places = self.house.areas if key == AREA else self.house.floors
        return {
            name: place.name
            for place in places
            for name in (*place.other_names, place.name)
        }


def entity_names(things: Sequence[Thing]) -> list[str]:
    """Return all names of some entities."""
    return [name for thing in things for name in thing.names]


def is_guarded(thing: Thing) -> bool:
    """Tell whether something lets people in."""
    return thing.domain in _GUARDED


def _plain(name: str) -> str:
    """Return a name as Home Assistant compares it."""
    return name.strip().casefold()


def _is_called(thing: Thing, name: str) -> bool:
    return thing.entity_id == name.strip() or any(
        _plain(own) == _plain(name) for own in thing.names
    )


def _spellings(thing: Thing) -> set[str]:
    names = [*thing.names, ", ".join(thing.names)]
    if not is_guarded(thing):
        names.append(thing.entity_id.partition(".")[2])
    return set(map(folded, names))
