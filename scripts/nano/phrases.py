"""The fixed phrases of Home Assistant's prompts, of tool calls and of results, each of which is one token for nano.

Where Home Assistant words a phrase differently one day, it is read word by word.
"""

from collections.abc import Iterator

from homeassistant.components.homeassistant import llm as house_llm
from homeassistant.components.intent import llm as intent_llm
from homeassistant.helpers.llm import DEFAULT_INSTRUCTIONS_PROMPT

TOOLS = (
    "intent__HassTurnOn", "intent__HassTurnOff", "intent__HassSetPosition", "intent__HassStopMoving", "intent__HassCancelAllTimers",
    "intent__HassStartTimer", "intent__HassCancelTimer", "intent__HassIncreaseTimer", "intent__HassDecreaseTimer", "intent__HassPauseTimer", "intent__HassUnpauseTimer", "intent__HassTimerStatus",
    "light__HassLightSet", "climate__HassClimateSetTemperature", "fan__HassFanSetSpeed", "humidifier__HassHumidifierSetpoint", "humidifier__HassHumidifierMode",
    "media_player__HassSetVolume", "media_player__HassSetVolumeRelative", "media_player__HassMediaPause", "media_player__HassMediaUnpause", "media_player__HassMediaNext", "media_player__HassMediaPrevious",
    "media_player__HassMediaPlayerMute", "media_player__HassMediaPlayerUnmute", "vacuum__HassVacuumStart", "vacuum__HassVacuumReturnToBase", "lawn_mower__HassLawnMowerStartMowing", "lawn_mower__HassLawnMowerDock",
    "todo__HassListAddItem", "todo__HassListCompleteItem", "todo__HassListRemoveItem", "todo__get_items", "calendar__get_events", "assist_satellite__HassBroadcast",
    "homeassistant__GetLiveContext", "llm__GetDateTime", "local_llm__GetWeather",
)  # fmt: skip
PARAMETERS = (
    "name", "area", "floor", "domain", "device_class", "brightness", "color", "temperature", "position", "percentage", "humidity", "volume_level", "volume_step",
    "hours", "minutes", "seconds", "start_hours", "start_minutes", "start_seconds", "item", "message", "todo_list", "forecast", "day",
)  # fmt: skip
_CONTEXT_KEYS = ("domain", "state", "areas")
_ATTRIBUTES = ("brightness", "brightness_pct", "current_position", "percentage", "current_temperature", "temperature", "volume_level", "unit_of_measurement", "device_class", "humidity")  # fmt: skip

# Pieces of what tools answer, as JSON
_RESULTS = (
    '\n{"speech": {}, "response_type": "action_done", "data": {"success": ["',
    '\n{"speech": {}, "response_type": "action_done", "data": {"success": [], "failed": []}}\n',
    '"], "failed": []}}\n',
    '\n{"result": "Live Context: An overview of the areas and the devices in this smart home:\\n- names: ',
    "\\n- names: ",
    '\\n"}\n',
    "'\\n\"}\n",
    "\\n    ",
    '\n{"error": "',
    '", "error_text": "',
    '"}\n',
    '\n{"date": "',
    '", "time": "',
    '", "timezone": "',
    '", "weekday": "',
    '\n{"forecast": [{"day": "',
    '"}, {"day": "',
    '", "date": "',
    '", "condition": "',
    '", "high": "',
    '", "low": "',
    " °C",
    '", "rain": "',
    '"}], "temperature_unit": "',
    '", "wind": "',
    '", "humidity": "',
    '", "temperature": ',
    ', "apparent_temperature": ',
    ', "time": "',
    '\n{"temperature_unit": "',
    '\n{"items": [{"summary": "',
    '", "status": "needs_action"}, {"summary": "',
    '", "status": "needs_action"}]}\n',
    '\n{"items": []}\n',
    '\n{"speech": {}, "response_type": "action_done", "speech_slots": {"timers": [',
    '{"id": "',
    '", "name": "',
    '", "device_id": "',
    '", "language": "',
    '", "start_hours": ',
    ', "start_minutes": ',
    ', "start_seconds": ',
    ', "is_active": true, "hours_left": ',
    ', "minutes_left": ',
    ', "seconds_left": ',
    ', "rounded_hours_left": ',
    ', "rounded_minutes_left": ',
    ', "rounded_seconds_left": ',
    ', "total_seconds_left": ',
    '}], "data": ',
)


def phrases() -> list[str]:
    """List the phrases, the longest first."""
    return sorted(
        set(_prompt()) | set(_calls()) | set(_results()),
        key=lambda phrase: (-len(phrase), phrase),
    )


def _prompt() -> Iterator[str]:
    yield from ("system\n", "user\n", "assistant\n", "\n\n", "- script: script__")
    for text in (DEFAULT_INSTRUCTIONS_PROMPT, house_llm.DYNAMIC_CONTEXT_PROMPT):
        yield from (f"{line}\n" for line in text.split("\n") if line)
    yield "\nStatic Context: An overview of the areas and the devices in this smart home:"
    yield from ("\n- names: ", "\n  domain: ", "\n  areas: ")
    yield f"\n\n{intent_llm.DEVICE_CONTROL_TOOL_USAGE_PROMPT}\n"
    yield "You are in area "
    yield " (floor "
    yield from (
        f"{start} and all generic commands like 'turn on the lights' should target this area."
        for start in ("", ")")
    )
    yield "When a user asks to turn on all devices of a specific type, ask the user to specify an area, unless there is only one device of that type."
    yield "\nThis device is not able to start timers."


def _calls() -> Iterator[str]:
    yield from TOOLS
    yield from (
        "\n<function=",
        ">\n</function>\n",
        "\n</parameter>\n</function>\n",
        '["',
        '"]',
        '", "',
        "script__",
    )
    for name in PARAMETERS:
        yield f">\n<parameter={name}>\n"
        yield f"\n</parameter>\n<parameter={name}>\n"


def _results() -> Iterator[str]:
    yield from _RESULTS
    yield from (f"\\n  {key}: " for key in _CONTEXT_KEYS)
    for name in _ATTRIBUTES:
        yield f"\\n  attributes:\\n    {name}: "
        yield f"\\n    {name}: "
