"""What tools answer to the calls of a command, and what is said then.

Knows the integration's form of results, nothing of sentence templates.
"""

from collections.abc import Mapping, Sequence
from datetime import date, datetime
from random import Random
from typing import Any

from .facts import Facts
from .filling import Command
from .house import House, Thing
from .states import action_done, live_context
from .words import Words

type Reply = tuple[tuple[dict[str, Any], ...], str]

_TURNS = {
    "HassTurnOn": ("turn_on", "open", "lock"),
    "HassTurnOff": ("turn_off", "close", "unlock"),
}
_TIMER_ANSWERS = {
    "HassCancelTimer": "timer_cancel",
    "HassPauseTimer": "timer_pause",
    "HassUnpauseTimer": "timer_resume",
    "HassIncreaseTimer": "timer_more",
    "HassDecreaseTimer": "timer_less",
}
_LIST_ANSWERS = {
    "HassListAddItem": "item_added",
    "HassShoppingListAddItem": "item_added",
    "HassListCompleteItem": "item_done",
    "HassListRemoveItem": "item_removed",
}
_STATES = (
    "HassGetState",
    "HassClimateGetTemperature",
    "BrightnessState",
    "PositionState",
    "TargetState",
)
# Of more, nobody wants to hear the names.
_MOST_NAMED = 4
# What a value is called in the answer, and in the slots
_VALUES = {
    "HassClimateSetTemperature": ("degrees", "temperature"),
    "HassSetVolume": ("volume", "volume_level"),
    "HassSetPosition": ("percent", "position"),
    "HassFanSetSpeed": ("percent", "percentage"),
    "HassHumidifierSetpoint": ("percent", "humidity"),
}


class Replies:
    """Answers in the words of one language, for one house on one day."""

    def __init__(self, random: Random, words: Words, house: House, day: date) -> None:
        """Answer at a random time of the day."""
        self._random = random
        self._words = words
        self._house = house
        self._now = datetime(
            day.year,
            day.month,
            day.day,
            random.randint(0, 23),
            random.randint(0, 59),
            random.randint(0, 59),
        )
        self._facts = Facts(random, self._now)
        self._texts: Mapping[str, str] = words.data["answers"]

    def say(self, key: str, **values: Any) -> str:
        """Say a text of the language; "done" where it has none of its own."""
        return self._texts.get(key, self._texts["done"]).format(**values)

    def reply(self, command: Command) -> Reply:
        """Return what the tools answer, and what is said then."""
        if not command.calls:
            return (), self.say("no_timers")
        intent, slots = command.intent, command.slots
        if intent in _STATES:
            return self._state(command)
        if intent in _TIMER_ANSWERS:
            value = self._duration(slots)
            return (action_done(()),), self.say(_TIMER_ANSWERS[intent], value=value)
        if intent in _LIST_ANSWERS:
            name = command.calls[0].arguments["name"]
            text = self.say(_LIST_ANSWERS[intent], name=slots["item"], list=name)
            return (action_done((name,)),), text
        return self._other(command) or (
            (action_done(self._success(command)),),
            self._acted(command),
        )

    def _other(self, command: Command) -> Reply | None:
        """Reply to what acts on no thing; None for what does."""
        slots = command.slots
        match command.intent:
            case "HassGetCurrentTime":
                told = self._facts.clock()
                return (told,), self.say("time", value=told["time"][:5])
            case "HassGetCurrentDate":
                told = self._facts.clock()
                value = f"{told['weekday']}, {told['date']}"
                return (told,), self.say("date", value=value)
            case "HassGetWeather":
                told = self._facts.weather()
                kept = {key: told[key] for key in ("condition", "temperature")}
                return (told,), self.say("weather", **kept)
            case "Forecast":
                told = self._facts.forecast(slots["day"])
                return (told,), self.say("forecast", **told["forecast"][0])
            case "TodoGetItems":
                return self._items(command.calls[0].arguments["todo_list"])
            case "Script":
                name = slots["script"].replace("_", " ")
                return ({"result": {}},), self.say("script", name=name)
            case "HassTimerStatus":
                return self._timers(slots.get("name", ""))
            case "HassCancelAllTimers":
                told = action_done((), canceled=self._random.randint(0, 3))
                return (told,), self.say("timers_cancel")
            case "HassStartTimer":
                key = "timer_named" if "name" in slots else "timer"
                value, name = self._duration(slots), slots.get("name")
                return (action_done(()),), self.say(key, value=value, name=name)
            case "HassBroadcast":
                return (action_done(()),), self.say("broadcast")
        return None

    def _success(self, command: Command) -> Sequence[str]:
        """Name what was changed: a room before its things."""
        if command.intent == "HassSetVolumeRelative":
            return ()
        names = [thing.name for thing in command.things]
        if command.by_name:
            return names
        if command.intent == "HassClimateSetTemperature":
            return names[:1]
        arguments = command.calls[0].arguments
        place = arguments.get("area") or arguments.get("floor")
        return [place, *names] if place else names

    def _acted(self, command: Command) -> str:
        """Say what was done."""
        slots, arguments = command.slots, command.calls[0].arguments
        place = arguments.get("area") or arguments.get("floor")
        domain = command.things[0].domain if command.things else ""
        kinds = self._words.data.get("kinds", {})
        values: dict[str, Any] = {
            "name": command.things[0].name if command.things else "",
            "area": place,
            "kind": kinds.get(slots.get("device_class") or domain, domain),
        }
        ending = "" if command.by_name else "_area"
        if command.intent in _TURNS:
            if domain == "scene":
                return self.say("scene", **values)
            plain, moved, locked = _TURNS[command.intent]
            key = {"cover": moved, "valve": moved, "lock": locked}.get(domain, plain)
            if not command.by_name and not place:
                ending = "_all"
            return self.say(key + ending, **values)
        if command.intent == "HassLightSet":
            for slot, key in (("brightness", "percent"), ("color", "color")):
                if slot in slots:
                    return self.say(key + ending, value=slots[slot], **values)
        if command.intent in _VALUES:
            key, slot = _VALUES[command.intent]
            return self.say(key + ending, value=slots[slot], **values)
        return self.say("done")

    def _duration(self, slots: Mapping[str, Any]) -> str:
        parts = []
        for key in ("hours", "minutes", "seconds"):
            if number := slots.get(key):
                one, many = self._words.data[key]
                parts.append(f"{number} {one if number == 1 else many}")
        return " ".join(parts)

    def _items(self, name: str) -> Reply:
        told = self._facts.items(self._words.all("items"))
        items = ", ".join(item["summary"] for item in told["items"])
        key = "items" if items else "no_items"
        return (told,), self.say(key, list=name, value=items)

    def _timers(self, name: str) -> Reply:
        if self._random.random() < 0.2:
            return (action_done((), timers=[]),), self.say("timer_none")
        timer = self._facts.timer(name, self._words.language)
        keys = ("hours", "minutes", "seconds")
        left = self._duration({key: timer[f"{key}_left"] for key in keys})
        return (action_done((), timers=[timer]),), self.say("timer_left", value=left)

    def _state(self, command: Command) -> Reply:
        """Tell what one thing is like, or those of a kind."""
        things = command.things
        asks_for_warmth = command.intent == "HassClimateGetTemperature"
        if asks_for_warmth and not command.by_name:
            things = tuple(
                thing
                for thing in self._house.things
                if thing.domain in ("climate", "sensor")
                and (command.area is None or thing.area == command.area)
            )
        result = live_context(things)
        if command.by_name:
            return (result,), self._told(command, things[0])
        listed = sorted(things, key=lambda thing: thing.name)
        if asks_for_warmth:
            return (result,), self.say("temperature", value=_temperature(listed))
        wanted = command.slots.get("state")
        names = self._named([thing.name for thing in listed if thing.state == wanted])
        keys = ("which", "which_none") if command.response == "which" else ("any_yes", "any_no")  # fmt: skip
        return (result,), self.say(keys[not names], names=names)

    def _named(self, names: Sequence[str]) -> str:
        """Name the first few, each once; two rooms may have a thing of the same name."""
        known = tuple(dict.fromkeys(names))
        text = ", ".join(known[:_MOST_NAMED])
        return self.say("more", names=text) if known[_MOST_NAMED:] else text

    def _told(self, command: Command, thing: Thing) -> str:
        """Say what one thing is like."""
        name, attributes = thing.name, thing.attributes
        state = self._words.data.get("states", {}).get(thing.state, thing.state)
        brightness = attributes.get("brightness")
        match command.intent:
            case "HassClimateGetTemperature":
                return self.say("temperature", value=attributes["current_temperature"])
            case "TargetState":
                return self.say("target", name=name, value=attributes["temperature"])
            case "PositionState":
                position = attributes["current_position"]
                return self.say("percent_state", name=name, value=position)
            case "BrightnessState" if brightness is not None:
                percent = max(round(brightness / 255 * 100), 1)
                return self.say("percent_state", name=name, value=percent)
        if thing.domain == "sensor":
            value = f"{thing.state} {attributes['unit_of_measurement']}"
            return self.say("value", name=name, value=value)
        wanted = command.slots.get("state")
        key = "state" if wanted is None else "yes" if wanted == thing.state else "no"
        return self.say(key, name=name, state=state)


def _temperature(things: Sequence[Thing]) -> str:
    """Find the temperature of a room: what its thermostat measures, or a sensor."""
    for thing in things:
        if thing.domain == "climate":
            return str(thing.attributes["current_temperature"])
        if thing.device_class == "temperature":
            return thing.state
    return "?"
