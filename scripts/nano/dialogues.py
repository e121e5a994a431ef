"""Makes what is said in a house, turn by turn: commands, several at once, references, refusals and small talk.

Knows what is said and answered, nothing of prompts and tokens.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from random import Random
import re
from typing import Any

from .answers import Replies
from .calls import Call, call_of
from .commands import make_command
from .filling import Command, Scene
from .follow_ups import INTENTS, FollowUps
from .house import House, Speaker
from .several import make_several
from .spoken import as_spoken
from .states import refused
from .templates import UnfitTemplateError, expand
from .words import Words, odd_word, own_sentences

# What a turn is about, for the evaluation, and how often
KINDS = {
    "single": 60,
    "several": 9,
    "follow_up": 11,
    "unknown": 5,
    "cannot": 4,
    "small_talk": 4,
    "which_area": 3,
    "own_room": 4,
    "unrelated": 4,
}
_OFF = re.compile(r"\b(off|out)\b")


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """What a user says, the calls that it asks for, what they answer, and what is said then; `kind` is for the evaluation."""

    text: str
    calls: tuple[Call, ...]
    results: tuple[Mapping[str, Any], ...]
    answer: str
    kind: str
    command: Command | None = None


class Talk:
    """Makes the conversations of one speaker in one house."""

    def __init__(
        self, random: Random, words: Words, house: House, speaker: Speaker, day: date
    ) -> None:
        """Speak on a day."""
        self._random = random
        self._words = words
        self._house = house
        self._scene = Scene(random=random, words=words, house=house, speaker=speaker)
        self._replies = Replies(random, words, house, day)
        self._own = own_sentences(words.language)

    def conversation(self, kind: str | None = None) -> list[Turn]:
        """Make a conversation of one to three turns; its last turn is of the kind.

        Raises:
            UnfitTemplateError: there is nothing of the kind to be said in this house.
        """
        if kind is None:
            kind = self._random.choices(list(KINDS), list(KINDS.values()))[0]
        match kind:
            case "several":
                text, commands = make_several(self._scene)
                return [self._joined(text, commands)]
            case "follow_up":
                return self._follow_up()
            case "unknown":
                return [self._unknown()]
            case "cannot":
                answer = self._replies.say("cannot")
                return [self._said(self._pick("cannot"), answer, kind)]
            case "small_talk":
                return [self._small_talk()]
            case "which_area":
                return [self._which_area()]
            case "own_room":
                return [self._own_room()]
            case "unrelated":
                return [self._single(), replace(self._single(), kind=kind)]
        return [self._single()]

    def failed(self, turn: Turn) -> Turn:
        """Let a turn's calls fail: the tool says why, and the user is told."""
        name = turn.calls[0].arguments.get("name", "that")
        errors = (
            refused(
                f"There is no device called {name!r} that this is for. Tell the user so."
            ),
            refused("No entities matched", "MatchFailedError"),
            refused("Failed to perform the action", "HomeAssistantError"),
        )
        results = tuple(self._random.choice(errors) for _ in turn.calls)
        return replace(turn, results=results, answer=self._replies.say("failed"))

    def _single(self) -> Turn:
        return self._turn(make_command(self._scene), "single")

    def _turn(self, command: Command, kind: str) -> Turn:
        results, answer = self._replies.reply(command)
        return Turn(
            text=as_spoken(self._random, command.text, self._words),
            calls=command.calls,
            results=results,
            answer=answer,
            kind=kind,
            command=command,
        )

    def _joined(self, text: str, commands: Sequence[Command]) -> Turn:
        replies = [self._replies.reply(command) for command in commands]
        return Turn(
            text=as_spoken(self._random, text, self._words),
            calls=tuple(call for command in commands for call in command.calls),
            results=tuple(result for results, _ in replies for result in results),
            answer=" ".join(dict.fromkeys(answer for _, answer in replies)),
            kind="several",
            command=commands[0],
        )

    def _follow_up(self) -> list[Turn]:
        """Say a command, then a reference to it, and sometimes one more."""
        follow_ups = FollowUps(self._scene)
        command = make_command(self._scene, INTENTS)
        turns = [self._turn(command, "single")]
        command = follow_ups.after(command)
        turns.append(self._turn(command, "follow_up"))
        if self._random.random() < 0.25 and (undone := follow_ups.reversed(command)):
            turns.append(self._turn(undone, "follow_up"))
        return turns

    def _said(self, template: str, answer: str, kind: str) -> Turn:
        """Say something that asks for no call."""
        text = expand(
            template,
            self._random,
            self._own.get("rules", {}),
            lambda *_: str(self._random.randint(2, 90)),
            self._words.keeps,
        )
        return Turn(
            text=as_spoken(self._random, text, self._words),
            calls=(),
            results=(),
            answer=answer,
            kind=kind,
        )

    def _pick(self, key: str) -> str:
        """Choose a template.

        Raises:
            UnfitTemplateError: the language has none.
        """
        templates: Sequence[str] = self._own.get(key, ())
        if not templates:
            raise UnfitTemplateError("nothing to say")
        return self._random.choice(templates)

    def _small_talk(self) -> Turn:
        talks = self._own.get("small_talk")
        if not talks:
            raise UnfitTemplateError("nothing to say")
        talk = self._random.choice(talks)
        return self._said(
            self._random.choice(talk["sentences"]), talk["answer"], "small_talk"
        )

    def _unknown(self) -> Turn:
        """Say a command of something that is not there: nothing is called.

        In the words of commands for what is there, or else words alone would tell.
        """
        random, words = self._random, self._words
        command = make_command(self._scene)
        arguments = command.calls[0].arguments if command.calls else {}
        known = str(arguments.get("name" if command.by_name else "area", ""))
        if not command.things or not known or known not in command.text:
            raise UnfitTemplateError("nothing is named")
        area: str = random.choice(words.all("areas"))
        noun = random.choice(words.things(command.things[0].domain))[0]
        name = random.choice((f"{odd_word(random, words)} {noun}", f"{area} {noun}"))
        self._refuse_known(name, area, noun)
        absent = name if command.by_name else area
        return Turn(
            text=as_spoken(random, command.text.replace(known, absent), words),
            calls=(),
            results=(),
            answer=self._replies.say("unknown", name=absent),
            kind="unknown",
        )

    def _refuse_known(self, name: str, area: str, noun: str) -> None:
        """Make sure that nothing in the house can be meant."""
        things = self._house.things
        known = {one.lower() for thing in things for one in thing.names}
        known |= {one.name.lower() for one in self._house.areas}
        place, kind = area.lower(), noun.lower()
        if name.lower() in known or any(
            place in text or text in place or kind == text for text in known
        ):
            raise UnfitTemplateError("it is there")

    def _which_area(self) -> Turn:
        """Ask for all lights where no room is known: the speaker is asked back."""
        lights = [thing for thing in self._house.things if thing.domain == "light"]
        if self._scene.speaker.area is not None or len(lights) < 2:
            raise UnfitTemplateError("it is plain")
        answer = self._replies.say("which_area")
        return self._said(self._pick("which_area"), answer, "which_area")

    def _own_room(self) -> Turn:
        """Say the same where the speaker's room is known: that one is meant."""
        area = self._scene.speaker.area
        lights = tuple(
            thing
            for thing in self._house.things
            if thing.domain == "light" and thing.area == area
        )
        if area is None or not lights:
            raise UnfitTemplateError("no lights here")
        template = self._pick("which_area")
        intent = "HassTurnOff" if _OFF.search(template) else "HassTurnOn"
        slots = {"domain": "light"}
        command = Command(
            text=expand(
                template, self._random, {}, lambda name, _: name, self._words.keeps
            ),
            intent=intent,
            calls=(call_of(intent, {"area": area.name}, slots, self._house),),
            things=lights,
            area=area,
            slots=slots,
        )
        return self._turn(command, "single")
