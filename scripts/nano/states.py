"""The states that things are in, and what Home Assistant's tools tell of them, in the words of the integration.

Knows nothing of sentences.
"""

from collections.abc import Iterable, Sequence
from random import Random
from typing import Any

from custom_components.local_llm.prompts.messages import as_messages
from homeassistant.components import conversation
from homeassistant.helpers import llm
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
_STATES = {
    "lock": ("locked", "unlocked"),
    "vacuum": ("docked", "cleaning", "idle"),
    "lawn_mower": ("docked", "mowing"),
    "valve": ("open", "closed"),
    "media_player": ("playing", "paused", "idle", "off"),
    "scene": ("unknown",),
    "todo": ("0",),
}
_MODES = ("heat", "off", "cool", "auto")
_CONDITIONS = ("sunny", "cloudy", "rainy")
_CONTEXT = "Live Context: An overview of the areas and the devices in this smart home:"


def random_state(random: Random, thing: Thing) -> dict[str, Any]:
    """Draw a state and the attributes that a tool tells, in Home Assistant's order."""
    if thing.domain in ("climate", "sensor", "weather"):
        return _reading(random, thing)
    is_on = random.random() < 0.5
    state = random.choice(_STATES.get(thing.domain, ("on", "off")[not is_on :][:1]))
    attributes: dict[str, Any] = {}
    match thing.domain:
        case "light":
            attributes["brightness"] = random.randint(3, 255) if is_on else None
        case "fan":
            attributes["percentage"] = random.randint(1, 100) if is_on else 0
        case "humidifier":
            attributes["humidity"] = random.randint(30, 70)
        case "binary_sensor":
            attributes["device_class"] = thing.device_class
        case "cover":
            position = random.choice((0, 100, random.randint(1, 99)))
            state = "open" if position else "closed"
            attributes["current_position"] = position
            attributes["device_class"] = thing.device_class
        case "media_player" if state != "off":
            attributes["volume_level"] = random.randint(0, 20) / 20
    return {"state": state, "attributes": attributes}


def _reading(random: Random, thing: Thing) -> dict[str, Any]:
    """Draw what something measures."""
    if thing.domain == "climate":
        names = ("current_temperature", "temperature")
        degrees = {name: random.randint(30, 54) / 2 for name in names}
        return {"state": random.choice(_MODES), "attributes": degrees}
    if thing.domain == "weather":
        attributes = {
            "temperature": float(random.randint(-5, 30)),
            "temperature_unit": "°C",
        }
        return {"state": random.choice(_CONDITIONS), "attributes": attributes}
    kind = thing.device_class or "power"
    value = {
        "temperature": f"{random.randint(-50, 300) / 10}",
        "humidity": str(random.randint(20, 80)),
        "battery": str(random.randint(0, 100)),
        "carbon_dioxide": str(random.randint(400, 1800)),
        "power": str(random.randint(0, 3000)),
        "energy": f"{random.randint(0, 99999) / 100:.2f}",
        "illuminance": str(random.randint(0, 2000)),
    }[kind]
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
    result = conversation.ToolResultContent(
        agent_id="", tool_call_id="", tool_name="", result=llm.ToolResult(data=data)
    )
    message = as_messages((), [result], 1)[-1]
    assert isinstance(message.content, str)
    return message.content


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
