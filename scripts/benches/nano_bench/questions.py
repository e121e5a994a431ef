"""Asks held-out questions in a generated home, and judges by what became of it.

A command is right where exactly that happened which its own calls do; a question where nothing happened and the answer
says what is asked for. Knows nothing of tables.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
import re
from typing import Any

from nano.calls import Call
from nano.dialogues import Turn
import probatio

from homeassistant.exceptions import HomeAssistantError
from homeassistant.util import dt as dt_util

from .home import NanoHome
from .tellers import condition_on

_TIMER_NEEDS = ("Cancel", "Pause", "Unpause", "Increase", "Decrease", "Status")
_TOLD = re.compile(r"\d+(?:[.:]\d+)?|\w+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """What came of one question. `wrong` says that something happened that was not asked for."""

    text: str
    kind: str
    language: str
    num_things: int
    is_right: bool
    is_wrong: bool
    answer: str


@dataclass(frozen=True, slots=True)
class _World:
    """What happened, and what everything is like then."""

    notes: Counter[tuple[str, str, str]]
    states: dict[str, tuple[str, str]]


async def judge(
    home: NanoHome, turns: Sequence[Turn], language: str, num_things: int
) -> Judgement | None:
    """Ask the turns of a conversation and judge the last; None where what is asked cannot be done in this home."""
    last = turns[-1]
    expected = await _expected(home, turns)
    if expected is None:
        return None
    await _prepare(home, turns)
    answer = ""
    conversation_id = None
    for turn in turns:
        home.notes.clear()
        result = await home.ask(turn.text, conversation_id)
        conversation_id = result.conversation_id
        answer = str(result.response.speech["plain"]["speech"])
    found = _world(home)
    happened = found == expected
    return Judgement(
        text=" / ".join(turn.text for turn in turns),
        kind=_kind(last),
        language=language,
        num_things=num_things,
        is_right=happened and _says_enough(last, answer, home),
        is_wrong=bool(found.notes - expected.notes),
        answer=answer,
    )


async def _expected(home: NanoHome, turns: Sequence[Turn]) -> _World | None:
    """Carry out what is asked for, by its own calls; None where that cannot be done or does nothing."""
    await _prepare(home, turns)
    try:
        for turn in turns:
            home.notes.clear()
            if not _is_question(turn):
                await home.call(turn.calls)
    except HomeAssistantError, probatio.Invalid:
        return None
    if (
        turns[-1].calls
        and not _is_question(turns[-1])
        and not home.notes
        and not turns[-1].calls[0].tool.endswith("CancelAllTimers")
    ):
        return None
    return _world(home)


async def _prepare(home: NanoHome, turns: Sequence[Turn]) -> None:
    """Put everything back, with a timer that runs and an item on the lists where the turns want one."""
    item = next(
        (
            str(call.arguments["item"])
            for turn in turns
            for call in turn.calls
            if call.tool.endswith(("CompleteItem", "RemoveItem"))
        ),
        None,
    )
    await home.put_back(item)
    for turn in turns:
        for call in turn.calls:
            wanted = (
                call.tool.removeprefix("intent__Hass")
                .removesuffix("Timer")
                .removesuffix("Timer")
            )
            if not (
                (
                    call.tool.endswith(("Timer", "TimerStatus"))
                    and wanted.startswith(_TIMER_NEEDS)
                )
                or call.tool.endswith("TimerStatus")
            ):
                continue
            await home.call(
                [Call(tool="intent__HassStartTimer", arguments=_timer(call))]
            )
            if "Unpause" in call.tool:
                await home.call([Call(tool="intent__HassPauseTimer", arguments={})])
    home.notes.clear()


def _timer(call: Call) -> dict[str, Any]:
    """Describe a timer that a call is about."""
    started = {
        key.removeprefix("start_"): value
        for key, value in call.arguments.items()
        if key.startswith("start_")
    }
    name = {"name": call.arguments["name"]} if "name" in call.arguments else {}
    return (started or {"hours": 9}) | name


def _world(home: NanoHome) -> _World:
    return _World(
        Counter(
            (entity_id, what, repr(value)) for entity_id, what, value in home.notes
        ),
        home.states(),
    )


def _kind(turn: Turn) -> str:
    if turn.kind != "single" or turn.command is None:
        return turn.kind
    intent = turn.command.intent.removeprefix("Hass")
    if intent in ("TurnOn", "TurnOff"):
        domain = turn.command.things[0].domain if turn.command.things else "light"
        return f"{domain} {'by name' if turn.command.by_name else 'in area'}"
    return intent


def _is_question(turn: Turn) -> bool:
    return bool(turn.calls) and turn.calls[0].tool in (
        "homeassistant__GetLiveContext",
        "llm__GetDateTime",
        "local_llm__GetWeather",
        "todo__get_items",
        "intent__HassTimerStatus",
    )


def _says_enough(turn: Turn, answer: str, home: NanoHome) -> bool:
    """Tell whether an answer has what was asked for; of what was done, it need not say anything."""
    if not _is_question(turn) or turn.command is None:
        return bool(answer.strip())
    told = set(_TOLD.findall(answer.lower()))
    intent = turn.command.intent
    now = dt_util.now()
    if intent == "HassGetCurrentTime":
        return bool({now.strftime("%H:%M"), now.strftime("%H:%M").lstrip("0")} & told)
    if intent == "HassGetCurrentDate":
        return f"{now:%A}".lower() in told
    if intent == "HassGetWeather":
        return {
            home.weather.state,
            f"{home.weather.attributes['temperature']:g}",
        } <= told
    if intent == "Forecast":
        return condition_on(turn.command.slots["day"], now.date()) in told
    if intent == "TodoGetItems":
        return bool(told)
    if intent == "HassTimerStatus":
        return any(character.isdigit() for character in answer)
    return set(_TOLD.findall(turn.answer.lower())) <= told
