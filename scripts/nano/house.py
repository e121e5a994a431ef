"""A house as data: floors, areas, things and who asks from where.

Knows nothing of Home Assistant beyond the names of its domains and attributes.
"""

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Area:
    """A room; `aliases` are other names of it."""

    name: str
    aliases: tuple[str, ...] = ()
    floor: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Thing:
    """One entity: its name and then its aliases, as they are listed; `attributes` in Home Assistant's order."""

    names: tuple[str, ...]
    domain: str
    area: Area | None = None
    device_class: str | None = None
    state: str = "unknown"
    attributes: dict[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """What the thing itself is called."""
        return self.names[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class House:
    """Everything that a home's assistant is told of; `scripts` are ids, which only the list of tools names."""

    language: str
    areas: tuple[Area, ...]
    things: tuple[Thing, ...]
    scripts: tuple[str, ...] = ()

    @property
    def floors(self) -> tuple[str, ...]:
        """The floors that have a room, in the rooms' order."""
        return tuple(dict.fromkeys(area.floor for area in self.areas if area.floor))


@dataclass(frozen=True, slots=True, kw_only=True)
class Speaker:
    """From where somebody asks: a device in a room, with timers or without; `device` False is no device at all."""

    area: Area | None = None
    timers: bool = False
    device: bool = True
