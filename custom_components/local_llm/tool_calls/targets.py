"""Finds what a tool call is aimed at, in the words that models use for it; pure.

It may narrow or correct a target, never widen it: what cannot be found is refused. Knows nothing of any
argument but those in TARGETS.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NoReturn

from .everyday_words import EVERYTHING, EVERYWHERE, HERE
from .house_names import Thing
from .kinds import DEVICE_CLASS, DOMAIN, Kind, KnownKinds, as_words
from .naming import ALL, AREA, ARTICLE, FLOOR, Naming, entity_names, is_guarded
from .spelling import folded, like

NAME: Final = "name"
TARGETS: Final = (NAME, AREA, FLOOR, DOMAIN, DEVICE_CLASS)


class UnclearCallError(Exception):
    """A tool call that cannot be carried out as it is; the message tells the model what would be right."""


class Aim:
    """The target of one call while it is read; `parameters` are those that the tool has."""

    def __init__(
        self,
        arguments: Mapping[str, Any],
        parameters: Iterable[str],
        kinds: KnownKinds,
        naming: Naming,
    ) -> None:
        """Take a call's arguments; name, area and floor are texts."""
        self._given = dict(arguments)
        self._parameters = frozenset(parameters)
        self._known = kinds
        self._naming = naming
        self._own_area = naming.house.own_area
        self._kinds: dict[str, list[str]] = {DOMAIN: [], DEVICE_CLASS: []}
        self._foreign: list[str] = []
        self._is_everywhere = False

    def taken(self) -> dict[str, Any]:
        """Return the arguments with the target as Home Assistant understands it.

        Raises:
            UnclearCallError: there is no such target, or more than one.
        """
        self._read_kinds()
        for key in (AREA, FLOOR):
            if key in self._given:
                self._read_place(key)
        if NAME in self._given:
            self._read_name()
        elif self._is_everywhere and not self._is_in_place:
            self._aim_at_all()
        for key in (DOMAIN, DEVICE_CLASS):
            self._given.pop(key, None)
            if self._kinds[key] and key in self._parameters:
                self._given[key] = self._kinds[key]
        return self._given

    @property
    def _has_kind(self) -> bool:
        return any(self._kinds.values()) or bool(self._known.own_domains)

    @property
    def _is_in_place(self) -> bool:
        return AREA in self._given or FLOOR in self._given

    def _read_kinds(self) -> None:
        for key in (DOMAIN, DEVICE_CLASS):
            for word in as_words(self._given.get(key, [])):
                kind = self._known.read(word, key)
                if kind is None:
                    self._refuse_kind(key, word)
                self._add_kind(kind)
        own = self._known.own_domains
        self._foreign = [
            domain for domain in self._kinds[DOMAIN] if own and domain not in own
        ]
        if self._foreign and NAME not in self._given:
            raise UnclearCallError(
                f"This tool is for the domain {_listed(sorted(own))}, not for {_listed(self._foreign)}."
            )
        for domain in self._foreign:
            self._kinds[DOMAIN].remove(domain)

    def _add_kind(self, kind: Kind) -> None:
        if kind.value not in self._kinds[kind.key]:
            self._kinds[kind.key].append(kind.value)

    def _refuse_kind(self, key: str, word: str) -> NoReturn:
        known = (
            sorted({thing.domain for thing in self._naming.house.things})
            if key == DOMAIN
            else list(self._known.device_classes)
        )
        raise UnclearCallError(
            f"There is no {key} {word!r}. Known are {_listed(like(word, known) or known[:8])}."
        )

    def _read_place(self, key: str) -> None:
        """Find the area or floor; what turns out to be the other, or an entity, is moved there."""
        word = self._given.pop(key)
        other = FLOOR if key == AREA else AREA
        if (found := self._naming.place(word, key)) is not None:
            self._given[key] = found
        elif key == AREA and folded(word) in HERE and self._own_area:
            self._given[key] = self._own_area
        elif folded(word) in EVERYWHERE:
            self._is_everywhere = True
        elif (found := self._naming.place(word, other)) and self._is_free(other, found):
            self._given[other] = found
        elif (found := self._naming.names_thing(word)) and self._is_free(NAME, found):
            self._given[NAME] = found
        else:
            near = like(word, self._naming.place_names(key))
            raise UnclearCallError(f"There is no {key} {word!r}. {_hint(near)}")

    def _is_free(self, key: str, value: str) -> bool:
        """Tell whether an argument that the tool has is not given, or says the same."""
        given = self._given.get(key)
        if key not in self._parameters or given is None:
            return key in self._parameters
        if key == NAME:
            return self._naming.same_thing(given, value)
        return self._naming.same_place(given, value, key)

    def _read_name(self) -> None:
        """Find the entity; a name that turns out to be a place, a kind or both is moved there."""
        name = self._given[NAME]
        called = self._naming.called(name)
        if len(called) == 1:
            self._aim_at(called[0], name)
        elif not called and folded(name) in EVERYTHING:
            self._aim_at_all()
        # Home Assistant knows how to tell things of one name apart.
        elif not called and not (
            self._aim_at_one(self._naming.spelled(name))
            or self._aim_at_one(self._of_kind(self._in_its_area(name)))
            or self._aim_at_one(self._of_kind(self._naming.in_plural(name)))
            or self._aim_at_place(name)
            or self._aim_at_kind(name)
            or self._aim_at_one(self._of_kind(self._naming.in_part(name)))
            or self._aim_at_one(self._in_words(name))
        ):
            near = like(name, entity_names(self._of_kind(self._naming.house.things)))
            raise UnclearCallError(
                f"There is no device called {name!r} that this is for. {_hint(near)}"
            )

    def _in_its_area(self, name: str) -> list[Thing]:
        return self._naming.in_area(name, self._given.get(AREA, self._own_area))

    def _in_words(self, name: str) -> list[Thing]:
        """Find things of the kind by a part of their name; a word for a kind means none of several."""
        kind = self._known.read(ARTICLE.sub("", name, count=1))
        is_many = kind and sum(map(kind.is_of, self._naming.house.things)) > 1
        is_clear = self._has_kind and not is_many
        return self._of_kind(self._naming.in_words(name)) if is_clear else []

    def _of_kind(self, things: Iterable[Thing]) -> list[Thing]:
        domains = self._kinds[DOMAIN] or self._known.own_domains
        classes = self._kinds[DEVICE_CLASS]
        return [
            thing
            for thing in things
            if (not domains or thing.domain in domains)
            and (not classes or thing.device_class in classes)
        ]

    def _aim_at_one(self, found: list[Thing]) -> bool:
        """Take the one that is found: of several the one of the kind that is asked for, then the one that is near."""
        if len(found) > 1:
            found = self._of_kind(found) or found
        for area in (self._given.get(AREA), self._own_area):
            near = [thing for thing in found if self._stands_in(thing, area)]
            if len(found) > 1 and near:
                found = near
        if len(found) > 1:
            names = [self._naming.own_name(thing) for thing in found[:4]]
            raise UnclearCallError(
                f"{self._given[NAME]!r} can be {_listed(names)}. Name one of them, or say in which area."
            )
        for thing in found:
            self._aim_at(thing, self._naming.own_name(thing))
        return bool(found)

    def _stands_in(self, thing: Thing, area: str | None) -> bool:
        return (
            thing.area is not None
            and area is not None
            and self._naming.same_place(thing.area, area, AREA)
        )

    def _aim_at(self, thing: Thing, name: str) -> None:
        """Name an entity, and drop what contradicts it: it is the only one of its name."""
        own = self._known.own_domains
        if own and thing.domain not in own:
            raise UnclearCallError(
                f"{name!r} is a {thing.domain}; this tool is for the domain {_listed(sorted(own))}."
            )
        self._given[NAME] = name
        if is_guarded(thing) and self._is_contradicted(thing):
            raise UnclearCallError(f"{name!r} is a {thing.domain}, nothing else.")
        if not self._of_kind([thing]):
            self._kinds = {DOMAIN: [], DEVICE_CLASS: []}
        if thing.area is None:
            self._given.pop(AREA, None)
            self._given.pop(FLOOR, None)

    def _is_contradicted(self, thing: Thing) -> bool:
        """Tell whether another kind of thing was written; what has no class may go by the word for any."""
        domains, classes = self._kinds[DOMAIN], self._kinds[DEVICE_CLASS]
        return bool(
            self._foreign
            or (domains and thing.domain not in domains)
            or (classes and thing.device_class not in (None, *classes))
        )

    def _aim_at_all(self) -> None:
        """Aim at all that the other arguments leave, which the model has said in so many words."""
        self._given.pop(NAME, None)
        if {DOMAIN, FLOOR} <= self._parameters:
            self._given[NAME] = ALL
        elif FLOOR in self._parameters:
            raise UnclearCallError("This tool is for one device at a time. Name it.")

    def _aim_at_place(self, name: str) -> bool:
        """Take a name that is an area's or a floor's, alone or before a kind: "Kitchen", "Kitchen lights"."""
        for key in (AREA, FLOOR):
            if (place := self._naming.place(name, key)) and self._is_free(key, place):
                if not self._has_kind:
                    raise UnclearCallError(
                        f"{name!r} is no device: it is the name of the {key}. Name one device, or say which domain in the {key}."
                    )
                self._move_to(key, place)
                return True
            for place, rest in self._naming.place_and_rest(name, key):
                kind = self._known.read(rest)
                if kind and self._is_free(key, place) and self._agrees(kind):
                    self._add_kind(kind)
                    self._move_to(key, place)
                    return True
        return False

    def _aim_at_kind(self, name: str) -> bool:
        """Take a name that is a kind: "lights" of a place that is known, "all lights" of the house."""
        article = ARTICLE.match(name)
        kind = self._known.read(ARTICLE.sub("", name, count=1))
        if kind is None or not self._agrees(kind):
            return False
        if self._is_in_place:
            del self._given[NAME]
        elif article and article[1]:
            self._aim_at_all()
        elif self._own_area and self._has_near(kind):
            self._move_to(AREA, self._own_area)
        else:
            return False
        self._add_kind(kind)
        return True

    def _has_near(self, kind: Kind) -> bool:
        """Tell whether there is something of a kind where the device is that asks."""
        return any(
            kind.is_of(thing) and self._stands_in(thing, self._own_area)
            for thing in self._of_kind(self._naming.house.things)
        )

    def _agrees(self, kind: Kind) -> bool:
        """Tell whether a kind can be added: the tool is for it, and no other is given."""
        own = self._known.own_domains
        if kind.key == DOMAIN and own:
            return kind.value in own
        return self._kinds[kind.key] in ([], [kind.value])

    def _move_to(self, key: str, place: str) -> None:
        del self._given[NAME]
        self._given.setdefault(key, place)


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names)


def _hint(near: Sequence[str]) -> str:
    return f"Do you mean {_listed(near)}?" if near else "Tell the user so."
