"""What may be said after a command, of the same thing or in the same words: "turn it off again", "and the desk lamp".

Knows commands and templates, nothing of answers.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from .filling import Command, Scene
from .templates import UnfitTemplateError, expand
from .words import own_sentences

OPPOSITES = {"HassTurnOn": "HassTurnOff", "HassTurnOff": "HassTurnOn"}
# What a reference can be made to
INTENTS = (
    "HassTurnOn",
    "HassTurnOff",
    "HassLightSet",
    "HassClimateSetTemperature",
    "HassGetState",
)
_VERBS = {
    "cover": ("open", "close"),
    "valve": ("open", "close"),
    "lock": ("lock", "unlock"),
}
_VALUES = {
    "HassLightSet": ("brightness", "percent", 1, 100),
    "HassClimateSetTemperature": ("temperature", "degrees", 14, 28),
}


class FollowUps:
    """Makes commands that refer to the one before."""

    def __init__(self, scene: Scene) -> None:
        """Speak in a scene.

        Raises:
            UnfitTemplateError: there are no templates for this in the language.
        """
        own = own_sentences(scene.words.language)
        self._scene = scene
        self._random = scene.random
        self._rules: Mapping[str, str] = own.get("rules", {})
        self._templates: Mapping[str, Sequence[str]] = own.get("follow_ups", {})
        if not self._templates:
            raise UnfitTemplateError("no templates")

    def after(self, command: Command) -> Command:
        """Make a command that refers to another.

        Raises:
            UnfitTemplateError: nothing can be said of it.
        """
        ways = [self.reversed, self._for_another, self._in_another_area, self._changed]
        self._random.shuffle(ways)
        for way in ways:
            if (found := way(command)) is not None:
                return found
        raise UnfitTemplateError("nothing follows")

    def reversed(self, command: Command) -> Command | None:
        """Undo it: "turn it off again"."""
        things = command.things
        if (
            command.intent not in OPPOSITES
            or not things
            or things[0].domain == "scene"
            or not command.calls
        ):
            return None
        intent = OPPOSITES[command.intent]
        verbs = _VERBS.get(things[0].domain, ("turn_on", "turn_off"))
        calls = tuple(replace(call, tool=f"intent__{intent}") for call in command.calls)
        text = self._expanded(self._templates[verbs[intent == "HassTurnOff"]])
        return replace(command, intent=intent, calls=calls, text=text)

    def _for_another(self, command: Command) -> Command | None:
        """Do the same with another thing: "and the desk lamp"."""
        if not command.by_name or "area" in command.calls[0].arguments:
            return None
        known = self._scene.house.things
        names = [thing.name for thing in known]
        others = [
            thing
            for thing in known
            if thing.domain == command.things[0].domain
            and thing not in command.things
            and names.count(thing.name) == 1
        ]
        if not others:
            return None
        other = self._random.choice(others)
        key = "state" if command.intent == "HassGetState" else "same"
        templates = [text for text in self._templates[key] if "{name}" in text]
        call = command.calls[0]
        return replace(
            command,
            things=(other,),
            calls=(replace(call, arguments={**call.arguments, "name": other.name}),),
            text=self._expanded(templates, name=other.name),
        )

    def _in_another_area(self, command: Command) -> Command | None:
        """Do the same elsewhere: "and in the kitchen"."""
        if (
            command.by_name
            or not command.things
            or "area" not in command.calls[0].arguments
            or "device_class" in command.slots
        ):
            return None
        domain = command.things[0].domain
        others = [
            thing.area
            for thing in self._scene.house.things
            if thing.domain == domain and thing.area and thing.area != command.area
        ]
        if not others:
            return None
        area = self._random.choice(others)
        call = command.calls[0]
        return replace(
            command,
            area=area,
            things=tuple(
                thing
                for thing in self._scene.house.things
                if thing.area == area and thing.domain == domain
            ),
            calls=(replace(call, arguments={**call.arguments, "area": area.name}),),
            text=self._expanded(self._templates["same_area"], area=area.name),
        )

    def _changed(self, command: Command) -> Command | None:
        """Set another value: "no, 40 percent"."""
        slot, key, low, high = _VALUES.get(command.intent, ("", "", 0, 0))
        if slot not in command.slots:
            return None
        value = self._random.randint(low, high)
        call = command.calls[0]
        return replace(
            command,
            calls=(replace(call, arguments={**call.arguments, slot: value}),),
            slots={**command.slots, slot: value},
            text=self._expanded(self._templates[key], **{slot: str(value)}),
        )

    def _expanded(self, templates: Sequence[str], **values: str) -> str:
        return expand(
            self._random.choice(templates),
            self._random,
            self._rules,
            lambda name, _: values.get(name, ""),
            self._scene.words.keeps,
        )
