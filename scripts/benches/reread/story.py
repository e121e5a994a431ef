"""The story: which prompt comes after which, what changes in between, and what each may read again at most."""

from collections.abc import Iterator
from dataclasses import dataclass

from local_llm_engine.sampling import SamplingParams
from local_llm_engine.types import (
    ChatRequest,
    ContentDelta,
    Delta,
    Message,
    ToolCall,
    ToolCallDelta,
)

from . import limits
from .asker import Asker
from .house import DINING_ROOM, KITCHEN
from .limits import TEMPLATE_TOKENS
from .report import Subject

LIGHTS = "turn on the lights"
HEAT = "set the thermostat to 21 degrees"
BLINDS = "are the blinds open"
TIMES = ("08:15:07", "08:15:31", "08:16:02")

# West and east of the date line: whatever the time, the day is another.
_WEST, _EAST = "Pacific/Pago_Pago", "Pacific/Kiritimati"

# In the middle of the house's list; the new names keep its place there.
_RENAMED_ENTITY = "light.dining_room_chandelier"
_NEW_NAMES = ("Dining Room Disc", "Dining Room Eyecatcher", "Dining Room Candelabra")
_NEW_SWITCH, _NEW_SWITCH_ROOM = "Hallway Night Light", "Hallway"


async def known_cases(asker: Asker, foreign: ChatRequest) -> None:
    """Ask in the order in which caches are known to lose prompts."""
    await asker.house.set_time_zone(_WEST)
    await asker.ask("first of all", None, LIGHTS, limits.everything)
    await asker.ask("same question", None, LIGHTS)
    await asker.ask("new question", None, HEAT)
    await asker.ask("first time", DINING_ROOM, LIGHTS, limits.device)
    await asker.ask("new question", DINING_ROOM, HEAT)
    await asker.ask("first time", KITCHEN, LIGHTS, limits.device)
    await asker.ask("new question", KITCHEN, HEAT)
    await asker.ask("after another", DINING_ROOM, BLINDS)
    await asker.ask("after another", None, BLINDS)
    await asker.foreign("a chatbot's prompt", foreign)
    await asker.ask("after the chatbot", DINING_ROOM, LIGHTS)
    await asker.foreign("a ping", ping())
    await asker.ask("after the ping", DINING_ROOM, HEAT)


async def times(asker: Asker, interval: int) -> None:
    """Put the time, to the second, in three places, three times each."""
    untimed = await asker.prepare((await asker.house.ask(DINING_ROOM, LIGHTS)).ours)

    async def timed(scenario: str, grid: int, **where: str) -> None:
        asked = await asker.house.ask(DINING_ROOM, LIGHTS, **where)
        limit = limits.follows(
            "time",
            await asker.place(asked, untimed),
            interval=grid,
            template=TEMPLATE_TOKENS,
        )
        subject = Subject(scenario=scenario, satellite=DINING_ROOM, request=LIGHTS)
        await asker.read(subject, asked, limit)

    # Where prompts part for the first time, no checkpoint may stand yet.
    grids = (interval, *(0 for _ in TIMES[1:]))
    for time, grid in zip(TIMES, grids, strict=True):
        await timed("time at the top", grid, before_all=f"It is {time}.\n")
    for time, grid in zip(TIMES, grids, strict=True):
        await timed("time at the end", grid, after_all=f"It is {time}.")
    for time in TIMES:
        await asker.ask("time in the question", DINING_ROOM, f"at {time} {LIGHTS}")


async def midnight(asker: Asker) -> None:
    """Let another day begin."""
    await asker.house.set_time_zone(_EAST)
    await asker.ask("midnight", DINING_ROOM, LIGHTS, limits.date)
    await asker.ask("after midnight", KITCHEN, LIGHTS, limits.device)
    await asker.ask("after midnight, again", DINING_ROOM, HEAT)


async def renamed(asker: Asker, interval: int) -> None:
    """Rename an entity in the middle of the house, three times."""
    before = await asker.prepare((await asker.house.ask(KITCHEN, HEAT)).ours)
    for index, name in enumerate(_NEW_NAMES):
        await asker.house.rename(_RENAMED_ENTITY, name)
        asked = await asker.house.ask(KITCHEN, HEAT)
        limit = limits.follows(
            "name",
            await asker.place(asked, before),
            interval=0 if index else interval,
        )
        before = await asker.prepare(asked.ours)
        subject = Subject(
            scenario="renamed again" if index else "an entity renamed",
            satellite=KITCHEN,
            request=HEAT,
        )
        await asker.read(subject, asked, limit)
    await asker.ask("after the renaming", DINING_ROOM, LIGHTS, limits.device)


async def added(asker: Asker, interval: int) -> None:
    """Add an entity in the middle of the house."""
    before = await asker.prepare((await asker.house.ask(KITCHEN, BLINDS)).ours)
    await asker.house.add_switch(_NEW_SWITCH, _NEW_SWITCH_ROOM)
    asked = await asker.house.ask(KITCHEN, BLINDS)
    limit = limits.follows(
        "entity", await asker.place(asked, before), interval=interval
    )
    subject = Subject(scenario="an entity added", satellite=KITCHEN, request=BLINDS)
    await asker.read(subject, asked, limit)


async def restarted(asker: Asker) -> None:
    """Restart; of the two that ask then, one was warmed up before, the other has only asked."""
    for question in (HEAT, BLINDS, LIGHTS):
        await asker.ask("before a restart", KITCHEN, question)
    await asker.engine.warm_up((await asker.house.ask(DINING_ROOM, LIGHTS)).ours)
    await asker.restart()
    await asker.ask("restarted, warmed up before", DINING_ROOM, HEAT)
    await asker.ask("restarted, only asked before", KITCHEN, HEAT)


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """One turn of the conversation: a question, the call that answers it, and the words that follow."""

    question: str
    tool: str
    arguments: dict[str, str]
    answer: str

    def script(self, number: int) -> Iterator[list[Delta]]:
        """Yield the answers that a model whose weights mean nothing would not give."""
        call = ToolCall(
            id=f"call-{number}", name=self.tool, arguments=dict(self.arguments)
        )
        yield [ToolCallDelta(call)]
        yield [ContentDelta(self.answer)]


def _turned(state: str, name: str) -> Turn:
    return Turn(
        question=f"turn {state} the {name.lower()}",
        tool=f"intent__HassTurn{state.capitalize()}",
        arguments={"name": name},
        answer=f"Turned {state} the {name}.",
    )


_CONVERSATION = (
    _turned("on", "Kitchen Ceiling Light"),
    _turned("off", "Office Desk Lamp"),
    _turned("on", "Kitchen Spotlight"),
    _turned("on", "Bedroom Reading Lamp"),
    _turned("off", "Hallway Ceiling Light"),
    _turned("on", "Garden Lantern"),
    _turned("off", "Kitchen Ceiling Light"),
    _turned("on", "Garage Ceiling Light"),
)


async def conversation(asker: Asker, *, scripted: bool) -> None:
    """Talk, eight turns with tool calls, through Home Assistant."""
    conversation_id: str | None = None
    limit: limits.Limiter = limits.question
    for number, turn in enumerate(_CONVERSATION, 1):
        if scripted:
            asker.engine.script = list(turn.script(number))
        num_known = len(asker.engine.calls)
        answer, conversation_id = await asker.house.converse(
            KITCHEN, turn.question, conversation_id
        )
        for call in asker.engine.calls[num_known:]:
            theirs = await asker.house.peer_request(KITCHEN, call.request.messages[1:])
            subject = Subject(
                scenario="conversation",
                satellite=KITCHEN,
                request=turn.question,
                answer=answer,
            )
            await asker.judge(subject, call, limit, theirs)
            # Words from a script were never the model's own: the cache knows none of them.
            answer_tokens = 0 if scripted else call.usage.completion_tokens
            limit = limits.news(await asker.prepare(call.request), answer_tokens)


def ping() -> ChatRequest:
    """Ask as a dashboard does to see whether anybody is there."""
    return ChatRequest(
        messages=(Message(role="user", content="ping"),),
        sampling=SamplingParams(temperature=0, max_tokens=1),
        session="ping",
    )
