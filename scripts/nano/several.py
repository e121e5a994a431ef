"""Several commands in one sentence: one after the other, or one for two things.

Knows commands, nothing of answers.
"""

from collections.abc import Sequence
from dataclasses import replace

from .commands import make_command
from .filling import Command, Scene
from .follow_ups import OPPOSITES
from .templates import UnfitTemplateError

_ACTIONS = (
    "HassTurnOn",
    "HassTurnOff",
    "HassLightSet",
    "HassSetPosition",
    "HassClimateSetTemperature",
    "HassMediaPause",
    "HassSetVolume",
    "HassFanSetSpeed",
)


def make_several(scene: Scene) -> tuple[str, Sequence[Command]]:
    """Return a sentence and the two or three commands that it is made of.

    Raises:
        UnfitTemplateError: the house has too little in it.
    """
    random = scene.random
    count = 3 if random.random() < 0.15 else 2
    first = make_command(scene, _ACTIONS)
    if random.random() < 0.4 and (found := _for_two(scene, first)):
        return found
    commands = [first, *(make_command(scene, _ACTIONS) for _ in range(count - 1))]
    if len({repr(command.calls) for command in commands}) < count:
        raise UnfitTemplateError("twice the same")
    joints = [random.choice(scene.words.data["and"]) for _ in range(count - 1)]
    if count == 3:
        joints[0] = ", "
    rest = zip(joints, commands[1:], strict=True)
    text = first.text + "".join(joint + command.text for joint, command in rest)
    return text, commands


def _for_two(scene: Scene, first: Command) -> tuple[str, Sequence[Command]] | None:
    """Say the same of another thing in the same breath: "turn on the lamp and the fan"."""
    arguments = first.calls[0].arguments
    if not first.by_name or first.intent not in OPPOSITES or "area" in arguments:
        return None
    names = [thing.name for thing in scene.house.things]
    others = [
        thing
        for thing in scene.house.things
        if thing.domain == first.things[0].domain
        and thing is not first.things[0]
        and names.count(thing.name) == 1
    ]
    name = str(arguments["name"])
    if not others or name not in first.text:
        return None
    other = scene.random.choice(others)
    article = scene.random.choice(scene.words.data.get("articles", [""]))
    joint = scene.words.data["and"][0]
    call = replace(first.calls[0], arguments={**arguments, "name": other.name})
    second = replace(first, things=(other,), calls=(call,))
    return first.text.replace(name, f"{name}{joint}{article}{other.name}", 1), (
        first,
        second,
    )
