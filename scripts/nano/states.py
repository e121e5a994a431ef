"""The states that things are in, and what Home Assistant's tools tell of them, in the words of the integration.

Knows nothing of sentences.
"""

from collections.abc import Iterable, Sequence
import json
from random import Random
from typing import Any

from homeassistant.util import yaml as yaml_util

from .house import Thing

_UNITS = {
    "temperature": "°C",
    "humidity": "%",
    "power": "W",
    "energy": "kWh",
    "battery": "%",
    "illuminance": "lx",
    "carbon_dioxide": "ppm",
}
_CONTEXT = "Live Context: An overview of the areas and the devices in this smart home:"


def random_state(random: Random, thing: Thing) -> dict[str, Any]:
    """Draw a state and the attributes that a tool tells, in Home Assistant's order."""
    is_on = random.random() < 0.5
    on_off = "on" if is_on else "off"
    match thing.domain:
        case "light":
            brightness = random.randint(3, 255) if is_on else None
            return {"state": on_off, "attributes": {"brightness": brightness}}
        case "cover":
            position = random.choice((0, 100, random.randint(1, 99)))
            return {
                "state": "open" if position else "closed",
                "attributes": {
                    "current_position": position,
                    "device_class": thing.device_class,
                },
            }
        case "fan":
            return {
                "state": on_off,
                "attributes": {"percentage": random.randint(1, 100) if is_on else 0},
            }
        case "lock":
            return {"state": "locked" if is_on else "unlocked", "attributes": {}}
        case "climate":
            return {
                "state": random.choice(("heat", "off", "cool", "auto")),
                "attributes": {
                    "current_temperature": random.randint(30, 54) / 2,
                    "temperature": random.randint(30, 54) / 2,
                },
            }
        case "media_player":
            return {
                "state": random.choice(("playing", "paused", "idle", "off")),
                "attributes": {"volume_level": random.randint(0, 20) / 20},
            }
        case "sensor":
            return _reading(random, thing)
        case "binary_sensor":
            return {"state": on_off, "attributes": {"device_class": thing.device_class}}
        case "vacuum":
            return {
                "state": random.choice(("docked", "cleaning", "idle")),
                "attributes": {},
            }
        case "lawn_mower":
            return {"state": random.choice(("docked", "mowing")), "attributes": {}}
        case "humidifier":
            return {"state": on_off, "attributes": {"humidity": random.randint(30, 70)}}
        case "valve":
            return {"state": "open" if is_on else "closed", "attributes": {}}
        case "weather":
            return {
                "state": random.choice(("sunny", "cloudy", "rainy")),
                "attributes": {"temperature": random.randint(-5, 30)},
            }
        case "scene" | "todo":
            return {"state": str(random.randint(0, 9)), "attributes": {}}
    return {"state": on_off, "attributes": {}}


def _reading(random: Random, thing: Thing) -> dict[str, Any]:
    kind = thing.device_class or "power"
    value = {
        "temperature": f"{random.randint(-50, 300) / 10}",
        "humidity": str(random.randint(20, 80)),
        "battery": str(random.randint(0, 100)),
        "carbon_dioxide": str(random.randint(400, 1800)),
    }.get(kind, f"{random.randint(0, 9999) / random.choice((1, 10))}")
    return {
        "state": value,
        "attributes": {"unit_of_measurement": _UNITS[kind], "device_class": kind},
    }


def entity_info(thing: Thing, *, with_state: bool) -> dict[str, Any]:
    """Describe a thing as Home Assistant lists it; with its state where a tool is asked for it."""
    info: dict[str, Any] = {"names": ", ".join(thing.names), "domain": thing.domain}
    if with_state:
        info["state"] = thing.state
    if thing.area:
        info["areas"] = ", ".join((thing.area.name, *sorted(thing.area.aliases)))
    attributes = {
        name: str(value) if isinstance(value, int) else value
        for name, value in thing.attributes.items()
    }
    if with_state and attributes:
        if (
            thing.domain == "light"
            and (brightness := thing.attributes.get("brightness")) is not None
        ):
            attributes["brightness_pct"] = str(max(round(brightness / 255 * 100), 1))
        info["attributes"] = attributes
    return info


def as_text(data: dict[str, Any]) -> str:
    """Write a tool's result as the integration does."""
    return json.dumps(data, ensure_ascii=False, default=str)


def live_context(things: Iterable[Thing]) -> dict[str, Any]:
    """Answer what things are like, sorted by their names as Home Assistant has them."""
    infos = [
        entity_info(thing, with_state=True)
        for thing in sorted(things, key=lambda thing: thing.name)
    ]
    return {"result": "\n".join((_CONTEXT, yaml_util.dump(infos)))}


def action_done(success: Sequence[str], **slots: Any) -> dict[str, Any]:
    """Answer that an intent was carried out on these."""
    extra = {"speech_slots": slots} if slots else {}
    return {
        "speech": {},
        "response_type": "action_done",
        **extra,
        "data": {"success": list(success), "failed": []},
    }


def refused(text: str, error: str = "UnclearCall") -> dict[str, Any]:
    """Answer that a call cannot be carried out."""
    return {"error": error, "error_text": text}
