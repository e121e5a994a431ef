"""Writes the call that an intent asks for: which tool, what it acts on, and what is to become of that.

Knows the tools' names and arguments, nothing of sentences.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from .house import House
from .templates import UnfitTemplateError

TIMERS: Final = (
    "HassStartTimer",
    "HassCancelTimer",
    "HassPauseTimer",
    "HassUnpauseTimer",
    "HassIncreaseTimer",
    "HassDecreaseTimer",
    "HassTimerStatus",
)
_DURATIONS = (
    "hours",
    "minutes",
    "seconds",
    "start_hours",
    "start_minutes",
    "start_seconds",
    "name",
)
# What stands before an intent's name in its tool's
_PLATFORMS = {
    **dict.fromkeys(
        (
            "HassTurnOn",
            "HassTurnOff",
            "HassStopMoving",
            "HassSetPosition",
            "HassCancelAllTimers",
            *TIMERS,
        ),
        "intent",
    ),
    "HassLightSet": "light",
    "HassClimateSetTemperature": "climate",
    "HassFanSetSpeed": "fan",
    "HassHumidifierSetpoint": "humidifier",
    "HassVacuumStart": "vacuum",
    "HassVacuumReturnToBase": "vacuum",
    "HassLawnMowerStartMowing": "lawn_mower",
    "HassLawnMowerDock": "lawn_mower",
    **dict.fromkeys(
        (
            "HassSetVolume",
            "HassSetVolumeRelative",
            "HassMediaPause",
            "HassMediaUnpause",
            "HassMediaNext",
            "HassMediaPrevious",
            "HassMediaPlayerMute",
            "HassMediaPlayerUnmute",
        ),
        "media_player",
    ),
    "HassListAddItem": "todo",
    "HassListCompleteItem": "todo",
    "HassListRemoveItem": "todo",
    "HassBroadcast": "assist_satellite",
}
# What a call says besides, where the sentence says it
_VALUES = {
    "HassSetPosition": ("position",),
    "HassLightSet": ("brightness", "color", "temperature"),
    "HassClimateSetTemperature": ("temperature",),
    "HassFanSetSpeed": ("percentage",),
    "HassHumidifierSetpoint": ("humidity",),
    "HassSetVolume": ("volume_level",),
    "HassSetVolumeRelative": ("volume_step",),
    "HassBroadcast": ("message",),
}
_STATE = (
    "HassGetState",
    "HassClimateGetTemperature",
    "BrightnessState",
    "PositionState",
    "TargetState",
)
_LIVE_CONTEXT = "homeassistant__GetLiveContext"


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One call of a tool."""

    tool: str
    arguments: Mapping[str, Any]


def call_of(
    intent: str, aimed: Mapping[str, Any], slots: Mapping[str, Any], house: House
) -> Call:
    """Write the call for an intent: what it acts on first, then what is to become of it.

    Raises:
        UnfitTemplateError: there is no such call in this house.
    """
    area = {"area": aimed["area"]} if "area" in aimed else {}
    if intent in TIMERS or intent == "HassCancelAllTimers":
        durations = {key: slots[key] for key in _DURATIONS if key in slots}
        arguments = {} if intent == "HassCancelAllTimers" else durations
        return _call(intent, arguments | ({} if intent == "HassStartTimer" else area))
    if intent in _STATE:
        return _question(intent, aimed, slots, area)
    if intent in ("HassVacuumStart", "HassVacuumReturnToBase") and "name" not in aimed:
        raise UnfitTemplateError(intent)
    if intent in _PLATFORMS and not intent.startswith("HassList"):
        kinds = _kinds(intent, aimed, slots, house)
        values = {key: slots[key] for key in _VALUES.get(intent, ()) if key in slots}
        return _call(intent, {**aimed, **kinds, **values})
    return _other(intent, aimed, slots, house)


def _call(intent: str, arguments: Mapping[str, Any]) -> Call:
    return Call(tool=f"{_PLATFORMS[intent]}__{intent}", arguments=arguments)


def _kinds(
    intent: str, aimed: Mapping[str, Any], slots: Mapping[str, Any], house: House
) -> dict[str, Any]:
    """Say of which kind the thing is, for the tools that are for any kind."""
    if intent not in ("HassTurnOn", "HassTurnOff") and (
        intent != "HassSetPosition" or "name" in aimed
    ):
        return {}
    name = aimed.get("name")
    of_name = next((one.domain for one in house.things if name in one.names), None)
    kinds: dict[str, Any] = {}
    if domain := slots.get("domain") or of_name:
        kinds["domain"] = [domain]
    if device_class := slots.get("device_class"):
        kinds["device_class"] = [device_class]
    return kinds


def _question(
    intent: str,
    aimed: Mapping[str, Any],
    slots: Mapping[str, Any],
    area: Mapping[str, Any],
) -> Call:
    """Ask for the state of one thing, or of those of a kind."""
    if "name" in aimed:
        return Call(tool=_LIVE_CONTEXT, arguments={"name": aimed["name"], **area})
    if intent == "HassClimateGetTemperature":
        return Call(
            tool=_LIVE_CONTEXT, arguments={"domain": ["climate", "sensor"], **area}
        )
    if intent != "HassGetState":
        raise UnfitTemplateError(intent)
    return Call(tool=_LIVE_CONTEXT, arguments={"domain": slots["domain"], **area})


def _other(
    intent: str, aimed: Mapping[str, Any], slots: Mapping[str, Any], house: House
) -> Call:
    """Write the calls that act on no device."""
    match intent:
        case "HassListAddItem" | "HassListCompleteItem" | "HassListRemoveItem":
            return _call(intent, {"item": slots["item"], "name": aimed["name"]})
        case "HassShoppingListAddItem":
            lists = [one.name for one in house.things if one.domain == "todo"]
            name = next((name for name in lists if "hopping" in name), None)
            if name is None:
                raise UnfitTemplateError("no shopping list")
            return _call("HassListAddItem", {"item": slots["item"], "name": name})
        case "TodoGetItems":
            return Call(tool="todo__get_items", arguments={"todo_list": aimed["name"]})
        case "Script":
            return Call(tool=f"script__{slots['script']}", arguments={})
        case "HassGetCurrentTime" | "HassGetCurrentDate":
            return Call(tool="llm__GetDateTime", arguments={})
        case "HassGetWeather":
            return Call(tool="local_llm__GetWeather", arguments={})
        case "Forecast":
            return Call(
                tool="local_llm__GetWeather",
                arguments={"forecast": "daily", "day": slots["day"]},
            )
    raise UnfitTemplateError(intent)
