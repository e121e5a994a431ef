"""Lays the prompt of a house out through the integration's own functions, without a Home Assistant that runs.

What Home Assistant's platforms write into it is taken from their own constants; a test holds the whole to what the
integration sends through a real Home Assistant for the same house.
"""

from collections.abc import Mapping
from datetime import date
from functools import cache
import json
from pathlib import Path

from custom_components.local_llm.prompts.layout import divide
from homeassistant.components.homeassistant import llm as house_llm
from homeassistant.components.intent import llm as intent_llm
from homeassistant.helpers.llm import DEFAULT_INSTRUCTIONS_PROMPT
from homeassistant.util import yaml as yaml_util
from local_llm_engine.types import TextPart

from .house import House, Speaker
from .states import entity_info

_TRANSLATIONS = Path(__file__).parents[2] / "custom_components/local_llm/translations"
_OVERVIEW = (
    "Static Context: An overview of the areas and the devices in this smart home:"
)
_UNLISTED = ("script", "calendar")


def system_parts(
    house: House,
    speaker: Speaker,
    day: date,
    instructions: str = DEFAULT_INSTRUCTIONS_PROMPT,
) -> tuple[TextPart, ...]:
    """Write the system text in the integration's segments.

    `instructions` end in a line break, as Home Assistant's do.
    """
    here = _offered(house, speaker)
    elsewhere = _offered(house, Speaker(device=False))
    shared, own = divide(here, elsewhere)
    named = (
        ("instructions", instructions),
        ("house", shared),
        ("date", date_line(house.language, day)),
        ("device", own),
    )
    last = named[-1][0]
    return tuple(
        TextPart(text=text if name == last else f"{text}\n", segment=name)
        for name, text in (
            (name, text.rstrip("\n") if name == "instructions" else text)
            for name, text in named
        )
        if text
    )


def date_line(language: str, day: date) -> str:
    """Tell the date as the integration does in a language."""
    texts = _texts(language)
    return texts["date_line"].format(
        weekday=texts[f"weekday_{day.isoweekday()}"],
        day=texts["first_day"] if day.day == 1 else str(day.day),
        month=texts[f"month_{day.month}"],
        year=str(day.year),
    )


@cache
def _texts(language: str) -> Mapping[str, str]:
    path = _TRANSLATIONS / f"{language}.json"
    found: Mapping[str, str] = json.loads(path.read_text(encoding="utf-8"))["common"]
    return found


def _offered(house: House, speaker: Speaker) -> str:
    """Write what Home Assistant's platforms say for a speaker, each in its order."""
    listed = [
        thing
        for thing in sorted(house.things, key=lambda thing: thing.name)
        if thing.domain not in _UNLISTED
    ]
    static = "\n".join(
        (
            house_llm.DYNAMIC_CONTEXT_PROMPT,
            _OVERVIEW,
            yaml_util.dump([entity_info(thing, with_state=False) for thing in listed]),
        )
    )
    lines = [static, intent_llm.DEVICE_CONTROL_TOOL_USAGE_PROMPT, _area_line(speaker)]
    if not speaker.timers:
        lines.append("This device is not able to start timers.")
    return "\n".join(lines)


def _area_line(speaker: Speaker) -> str:
    if speaker.area is None:
        return (
            "When a user asks to turn on all devices of a specific type, ask the user to specify an area, "
            "unless there is only one device of that type."
        )
    floor = f" (floor {speaker.area.floor})" if speaker.area.floor else ""
    return f"You are in area {speaker.area.name}{floor} and all generic commands like 'turn on the lights' should target this area."
