"""Reads what kind of thing a tool call is about, domain or device class, from the words that models use for it; pure.

Knows nothing of names and places.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from homeassistant.const import Platform

from .everyday_words import KINDS
from .house_names import Thing
from .spelling import folded, the_one

DOMAIN: Final = "domain"
DEVICE_CLASS: Final = "device_class"

# Kinds of things that integrations do not provide, but people make themselves.
_HOMEMADE: Final = ("automation", "group", "input_boolean", "input_button", "script")
_EVERYDAY: Final = {word: kind for kind, words in KINDS.items() for word in words}


class Kind(NamedTuple):
    """One kind of thing; `key` is DOMAIN or DEVICE_CLASS."""

    key: str
    value: str

    def is_of(self, thing: Thing) -> bool:
        """Tell whether something is of this kind."""
        return self.value in (thing.domain, thing.device_class)


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownKinds:
    """The kinds that one tool can be aimed at.

    `own_domains` are the domains that the tool is for, none where it is for all; `device_classes` are those
    that it tells apart.
    """

    own_domains: frozenset[str]
    device_classes: tuple[str, ...]

    @classmethod
    def of(cls, tool_name: str, properties: Mapping[str, Any]) -> KnownKinds:
        """Read a tool's kinds from its JSON schema, and from the domain that its name begins with."""
        prefix = tool_name.partition("__")[0]
        own = _choices(properties.get(DOMAIN))
        if not own and prefix in list(Platform):
            own = [prefix]
        return cls(
            own_domains=frozenset(own),
            device_classes=tuple(_choices(properties.get(DEVICE_CLASS))),
        )

    def read(self, word: str, first: str = DOMAIN) -> Kind | None:
        """Return the kind that a word names; `first` is tried before the other key."""
        domains: dict[str, str] = {
            str(domain): str(domain)
            for domain in (*Platform, *_HOMEMADE, *self.own_domains)
        }
        known = {
            DOMAIN: domains,
            DEVICE_CLASS: {value: value for value in self.device_classes},
        }
        other = DEVICE_CLASS if first == DOMAIN else DOMAIN
        for meant in (word, the_one(word, _EVERYDAY)):
            for key in (first, other):
                if meant and (value := the_one(meant, known[key])):
                    return Kind(key, value)
        return None


def as_words(value: object) -> list[str]:
    """Return the words in what a model wrote for a list of kinds: a list, one word, or several with commas."""
    items: Iterable[object] = value if isinstance(value, list) else [value]
    return [
        word.strip() for item in items for word in str(item).split(",") if folded(word)
    ]


def _choices(schema: Any) -> list[str]:
    """Return the choices of a list's items; none where there is no list, or everything fits."""
    items = schema.get("items", {}) if isinstance(schema, Mapping) else {}
    choices = items.get("enum", []) if isinstance(items, Mapping) else []
    return [str(choice) for choice in choices]
