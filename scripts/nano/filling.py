"""Fills one sentence template in: chooses what it is aimed at, how that is called, and what else is said.

Knows houses and templates; the call that comes of it is written elsewhere.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Any

from .calls import TIMERS, Call, call_of
from .house import Area, House, Speaker, Thing
from .sentences import Block
from .slots import SlotValues
from .templates import UnfitTemplateError, expand, slots_of
from .words import Words

_OWN_DOMAIN = {
    "HassClimateSetTemperature": "climate",
    "HassSetVolume": "media_player",
    "HassSetVolumeRelative": "media_player",
    "HassMediaPause": "media_player",
    "HassMediaUnpause": "media_player",
    "HassMediaNext": "media_player",
    "HassMediaPrevious": "media_player",
    "HassMediaPlayerMute": "media_player",
    "HassMediaPlayerUnmute": "media_player",
    "HassFanSetSpeed": "fan",
    "HassVacuumStart": "vacuum",
    "HassLawnMowerDock": "lawn_mower",
    "HassLawnMowerStartMowing": "lawn_mower",
    "HassClimateGetTemperature": "climate",
}
_OF_WEATHER = ("HassGetWeather", "Forecast")


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """What is said and what it asks for.

    `things` are those that it is about, `area` the room; `slots` what the sentence says besides.
    """

    text: str
    intent: str
    calls: tuple[Call, ...]
    things: tuple[Thing, ...] = ()
    area: Area | None = None
    by_name: bool = False
    response: str | None = None
    slots: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """Who speaks in which house, and the words to be used."""

    random: Random
    words: Words
    house: House
    speaker: Speaker


class Filling:
    """One template while it is filled in."""

    def __init__(self, scene: Scene, block: Block) -> None:
        """Begin with what the block says."""
        self._scene = scene
        self._block = block
        self._random = scene.random
        self._values = SlotValues(scene.random, scene.words, scene.house, block)
        self._slots: dict[str, Any] = dict(block.slots)
        self._target: Thing | None = None
        self._area: Area | None = None
        # What the target is called; nothing where it is not named
        self._called = ""

    def command(self, template: str) -> Command:
        """Fill a template of the block in.

        Raises:
            UnfitTemplateError: there is nothing in this house that it could be about.
        """
        block = self._block
        mentioned = {slot for _, slot in slots_of(template, block.rules)}
        self._aim(mentioned)
        keeps = self._scene.words.keeps
        text = expand(template, self._random, block.rules, self._fill, keeps)
        by_name = "name" in self._slots and bool(self._called)
        return Command(
            text=text,
            intent=block.intent,
            calls=self._calls(),
            things=self._things(by_name=by_name),
            area=self._area,
            by_name=by_name,
            response=block.response,
            slots=self._slots,
        )

    def _aim(self, mentioned: set[str]) -> None:
        """Choose the thing or the room before the sentence is written."""
        block, house, speaker = self._block, self._scene.house, self._scene.speaker
        if block.intent in _OF_WEATHER and not any(
            thing.domain == "weather" for thing in house.things
        ):
            raise UnfitTemplateError("no weather")
        names_thing = "name" in mentioned and block.intent not in TIMERS
        if block.everywhere or not (
            names_thing or block.here or mentioned & {"area", "floor", "device_class"}
        ):
            return
        if block.here and speaker.area is None:
            raise UnfitTemplateError("nowhere")
        self._area = speaker.area if block.here else None
        if block.intent in (*TIMERS, "HassCancelAllTimers"):
            if "area" in mentioned:
                self._area = self._random.choice(house.areas)
            return
        fitting = self._fitting(mentioned)
        if not fitting:
            raise UnfitTemplateError("nothing of that kind")
        self._target = self._random.choice(fitting)
        if names_thing:
            self._called = self._spoken_name(self._target, mentioned)
        self._place(self._target, mentioned)

    def _fitting(self, mentioned: set[str]) -> list[Thing]:
        """List what the sentence could be aimed at."""
        block, speaker = self._block, self._scene.speaker
        own = block.slots.get("domain") or _OWN_DOMAIN.get(block.intent)
        domains = block.domains or ((own,) if own else ())
        if "domain" in mentioned:
            domains = ("fan", "switch")
        fitting = [
            thing for thing in self._scene.house.things if thing.domain in domains
        ]
        if block.here or {"area", "floor"} & mentioned:
            fitting = [
                thing
                for thing in fitting
                if thing.area and (not block.here or thing.area == speaker.area)
            ]
        if "device_class" in mentioned:
            fitting = [thing for thing in fitting if thing.device_class]
        return fitting

    def _place(self, target: Thing, mentioned: set[str]) -> None:
        """Take the target's room, floor and kind, as far as the sentence mentions them."""
        if "floor" in mentioned:
            if target.area is None or target.area.floor is None:
                raise UnfitTemplateError("no floor")
        elif "area" in mentioned:
            self._area = target.area
        if {"device_class", "domain"} & mentioned:
            self._slots["domain"] = target.domain

    def _spoken_name(self, thing: Thing, mentioned: set[str]) -> str:
        """Choose how a thing is called: by any of its names, or by what is left of it in its room."""
        house, speaker = self._scene.house, self._scene.speaker
        same = [other for other in house.things if other.name == thing.name]
        near = thing.area is not None and thing.area == speaker.area
        if len(same) > 1 and not near and "area" not in mentioned:
            raise UnfitTemplateError("ambiguous")
        if (
            thing.area
            and thing.name.lower().startswith(f"{thing.area.name.lower()} ")
            and (near or "area" in mentioned)
        ):
            rest = thing.name[len(thing.area.name) + 1 :]
            if not any(
                other is not thing and rest.lower() in map(str.lower, other.names)
                for other in house.things
            ) and ("area" in mentioned or self._random.random() < 0.3):
                return rest
        return self._random.choice(thing.names)

    def _fill(self, list_name: str, slot: str) -> str:
        target = self._target
        if slot == "name" and target and self._called:
            is_listed = self._called in target.names
            self._slots["name"] = self._called if is_listed else target.name
            return self._called
        if slot == "area" and self._area is not None:
            self._slots["area"] = self._random.choice(
                (self._area.name, self._area.name, *self._area.aliases)
            )
            return str(self._slots["area"])
        if slot == "floor" and target and target.area and target.area.floor:
            self._slots["floor"] = target.area.floor
            return target.area.floor
        wanted = target and (target.domain if slot == "domain" else target.device_class)
        text, self._slots[slot] = self._values.choose(list_name, slot, wanted)
        return text

    def _things(self, *, by_name: bool) -> tuple[Thing, ...]:
        """List what the command is about."""
        if by_name and self._target is not None:
            return (self._target,)
        domain = self._slots.get("domain") or _OWN_DOMAIN.get(self._block.intent)
        if domain is None:
            return ()
        kind = self._slots.get("device_class")
        floor = self._slots.get("floor")
        area = None if self._block.everywhere or floor else self._area
        return tuple(
            thing
            for thing in self._scene.house.things
            if thing.domain == domain
            and (kind is None or thing.device_class == kind)
            and (area is None or thing.area == area)
            and (
                floor is None or (thing.area is not None and thing.area.floor == floor)
            )
        )

    def _calls(self) -> tuple[Call, ...]:
        """Write the call; none where the device keeps no timers."""
        intent = self._block.intent
        if intent in TIMERS and not self._scene.speaker.timers:
            return ()
        return (call_of(intent, self._aimed(), self._slots, self._scene.house),)

    def _aimed(self) -> dict[str, Any]:
        """Say what a call acts on: the name, or the room."""
        if self._block.everywhere:
            return {"name": "all"}
        aimed = {
            key: self._slots[key]
            for key in ("name", "area", "floor")
            if key in self._slots
        }
        if not aimed and self._area is not None:
            aimed["area"] = self._area.name
        return aimed
