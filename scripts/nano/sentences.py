"""The sentence templates of a language, Home Assistant's own and ours, each with what it asks for.

Knows nothing of houses.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from home_assistant_intents import get_intents

from .words import own_sentences

# How often Home Assistant's sentences for an intent are chosen; those that are not here have no tool, or need more
# than a house of names.
_WEIGHTS = {
    "HassTurnOn": 16,
    "HassTurnOff": 16,
    "HassLightSet": 9,
    "HassClimateSetTemperature": 5,
    "HassSetPosition": 3,
    "HassFanSetSpeed": 2,
    "HassSetVolume": 3,
    "HassSetVolumeRelative": 3,
    "HassMediaPause": 2,
    "HassMediaUnpause": 2,
    "HassMediaNext": 1.5,
    "HassMediaPrevious": 1.5,
    "HassMediaPlayerMute": 1,
    "HassMediaPlayerUnmute": 1,
    "HassVacuumStart": 1.5,
    "HassVacuumReturnToBase": 1.5,
    "HassLawnMowerStartMowing": 1,
    "HassLawnMowerDock": 1,
    "HassStartTimer": 4,
    "HassCancelTimer": 1.5,
    "HassPauseTimer": 1,
    "HassUnpauseTimer": 1,
    "HassIncreaseTimer": 1.5,
    "HassDecreaseTimer": 1.5,
    "HassTimerStatus": 1.5,
    "HassCancelAllTimers": 1,
    "HassListAddItem": 2,
    "HassListCompleteItem": 1,
    "HassListRemoveItem": 1,
    "HassShoppingListAddItem": 1,
    "HassBroadcast": 1,
    "HassGetCurrentTime": 2,
    "HassGetCurrentDate": 1,
    "HassGetWeather": 2,
    "HassGetState": 8,
    "HassClimateGetTemperature": 3,
}
_STATE_RESPONSES = (None, "one", "one_yesno", "any", "which")
_OWN_SHARE = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """Templates that ask for one thing.

    `slots` are given, `domains` those that a named thing may be of; `here` takes the speaker's room; `everywhere`
    all of the house. `lists` come before the language's own.
    """

    intent: str
    templates: tuple[str, ...]
    slots: Mapping[str, Any]
    domains: tuple[str, ...]
    here: bool
    response: str | None
    everywhere: bool
    lists: Mapping[str, Any]
    weight: float
    rules: Mapping[str, str]


@cache
def blocks_of(language: str) -> tuple[Block, ...]:
    """List the blocks of a language."""
    own = own_sentences(language)
    known = _known_blocks(language)
    ours = [
        _block(
            entry,
            entry["intent"],
            float(entry.get("weight", 1)),
            own.get("rules", {}),
            {},
        )
        for entry in own.get("blocks", ())
    ]
    return tuple(
        block
        for block in (
            *_scaled(known, 1 - _OWN_SHARE if ours else 1.0),
            *_scaled(ours, _OWN_SHARE),
        )
        if block.templates
    )


def _known_blocks(language: str) -> list[Block]:
    data = get_intents(language)
    assert data is not None
    blocks = []
    for intent, weight in _WEIGHTS.items():
        entries = [
            entry
            for entry in data["intents"].get(intent, {}).get("data", ())
            if _is_usable(intent, entry)
        ]
        blocks += [
            _block(
                entry,
                intent,
                weight / len(entries),
                data["expansion_rules"] | entry.get("expansion_rules", {}),
                data["lists"],
            )
            for entry in entries
        ]
    return blocks


def _is_usable(intent: str, entry: Mapping[str, Any]) -> bool:
    domains = _as_tuple(entry.get("requires_context", {}).get("domain", ()))
    if intent == "HassGetState":
        return (
            entry.get("response") in _STATE_RESPONSES
            and not {"person", "zone"}
            & {*domains, entry.get("slots", {}).get("domain")}
            and "floor" not in entry.get("metadata", {}).get("slot_combination", "")
        )
    return "script" not in domains


def _block(
    entry: Mapping[str, Any],
    intent: str,
    weight: float,
    rules: Mapping[str, str],
    lists: Mapping[str, Any],
) -> Block:
    context = entry.get("requires_context", {})
    combination = entry.get("metadata", {}).get("slot_combination", "")
    return Block(
        intent=intent,
        templates=tuple(entry["sentences"]),
        slots=entry.get("slots", {}),
        domains=_as_tuple(context.get("domain", ())),
        here="area" in context,
        response=entry.get("response"),
        everywhere=bool(entry.get("everywhere")) or combination == "domain_all",
        lists={**lists, **entry.get("lists", {})},
        weight=weight,
        rules=rules,
    )


def _scaled(blocks: Sequence[Block], share: float) -> list[Block]:
    total = sum(block.weight for block in blocks if block.templates)
    return [replace(block, weight=block.weight * share / total) for block in blocks]


def _as_tuple(value: str | Sequence[str]) -> tuple[str, ...]:
    return (value,) if isinstance(value, str) else tuple(value)
