"""The demo house as data: its rooms, what stands in them, and its two voice satellites.

Knows nothing of Home Assistant beyond the names of its platforms.
"""

from dataclasses import dataclass
from typing import Literal

DOMAIN = "demo_house"

type Kind = Literal[
    "light",
    "dimmable",
    "outlet",
    "switch",
    "blind",
    "curtain",
    "awning",
    "garage",
    "climate",
    "fan",
    "lock",
    "tv",
    "speaker",
    "temperature",
    "humidity",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Thing:
    """One device with one entity: `name` is both's, `start` its state when the house is built."""

    name: str
    room: str
    kind: Kind
    start: bool | float

    @property
    def key(self) -> str:
        """The name as an identifier."""
        return _key(self.name)


@dataclass(frozen=True, slots=True, kw_only=True)
class Satellite:
    """A virtual Home Assistant Voice PE; `mac` is its identifier, as in a real one."""

    name: str
    room: str
    mac: str

    @property
    def key(self) -> str:
        """The name as an identifier."""
        return _key(self.name)


def _key(name: str) -> str:
    return name.lower().replace(" ", "_")


# What a thing is called within its room, what it is, and how it starts: on, open or unlocked;
# degrees for a thermostat; the reading for a sensor.
_ROOMS: dict[str, tuple[tuple[str, Kind, bool | float], ...]] = {
    "Living Room": (
        ("Ceiling Light", "dimmable", False),
        ("Floor Lamp", "dimmable", True),
        ("Table Lamp", "light", False),
        ("Curtains", "curtain", True),
        ("Thermostat", "climate", 20.0),
        ("TV", "tv", False),
        ("Speaker", "speaker", False),
        ("Fan", "fan", False),
        ("Temperature", "temperature", 20.6),
        ("Humidity", "humidity", 46.0),
    ),
    "Kitchen": (
        ("Ceiling Light", "dimmable", False),
        ("Spotlight", "light", False),
        ("Table Lamp", "dimmable", False),
        ("Blinds", "blind", True),
        ("Coffee Machine", "outlet", False),
        ("Kettle", "outlet", False),
        ("Radio", "speaker", False),
        ("Thermostat", "climate", 20.0),
        ("Temperature", "temperature", 21.3),
    ),
    "Dining Room": (
        ("Chandelier", "dimmable", False),
        ("Floor Lamp", "light", False),
        ("Blinds", "blind", True),
        ("Thermostat", "climate", 20.0),
        ("Temperature", "temperature", 20.1),
    ),
    "Bedroom": (
        ("Ceiling Light", "dimmable", False),
        ("Reading Lamp", "dimmable", False),
        ("Blinds", "blind", False),
        ("Thermostat", "climate", 18.0),
        ("Fan", "fan", False),
        ("Temperature", "temperature", 18.4),
        ("Humidity", "humidity", 49.0),
    ),
    "Nursery": (
        ("Ceiling Light", "dimmable", False),
        ("Lantern", "dimmable", True),
        ("Curtains", "curtain", False),
        ("Heater", "switch", False),
        ("Temperature", "temperature", 19.7),
    ),
    "Bathroom": (
        ("Ceiling Light", "light", False),
        ("Wall Lamp", "light", False),
        ("Ventilator", "fan", False),
        ("Heater", "switch", False),
        ("Temperature", "temperature", 22.2),
        ("Humidity", "humidity", 58.0),
    ),
    "Office": (
        ("Ceiling Light", "dimmable", False),
        ("Desk Lamp", "dimmable", True),
        ("Blinds", "blind", True),
        ("Thermostat", "climate", 21.0),
        ("Printer", "outlet", False),
        ("Charger", "outlet", True),
        ("Temperature", "temperature", 21.0),
    ),
    "Hallway": (
        ("Ceiling Light", "light", True),
        ("Wall Lamp", "light", False),
        ("Lock", "lock", False),
        ("Temperature", "temperature", 18.9),
    ),
    "Garage": (
        ("Ceiling Light", "light", False),
        ("Door", "garage", False),
        ("Plug", "outlet", False),
        ("Temperature", "temperature", 12.5),
    ),
    "Garden": (
        ("Spotlight", "light", False),
        ("Lantern", "light", False),
        ("Awning", "awning", False),
        ("Pump", "switch", False),
        ("Temperature", "temperature", 9.4),
    ),
}

THINGS = tuple(
    Thing(name=f"{room} {name}", room=room, kind=kind, start=start)
    for room, things in _ROOMS.items()
    for name, kind, start in things
)

SATELLITES = (
    Satellite(name="Kitchen Voice", room="Kitchen", mac="20:f8:3b:00:00:01"),
    Satellite(name="Bedroom Voice", room="Bedroom", mac="20:f8:3b:00:00:02"),
)
