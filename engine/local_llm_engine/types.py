"""The values that travel between the rooms of the engine, all frozen.

Knows nothing of torch, of templates or of Home Assistant.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Literal, get_args

from .errors import InvalidRequestError
from .prompts import Tier
from .sampling import SamplingParams

type Role = Literal["system", "user", "assistant", "tool"]
ROLES: tuple[str, ...] = get_args(Role.__value__)


class Purpose(StrEnum):
    """What a request is for, in order of precedence: the voice goes first.

    A prefetch brings a prompt to where the voice will go on from it, while somebody is still speaking.
    """

    VOICE = "voice"
    PREFETCH = "prefetch"
    BACKGROUND = "background"
    WARM_UP = "warm_up"

    @property
    def slot(self) -> Purpose:
        """In whose slot it reads: a prefetch has none of its own."""
        return Purpose.VOICE if self is Purpose.PREFETCH else self


@dataclass(frozen=True, slots=True, kw_only=True)
class TextPart:
    """A stretch of a message with one rate of change; its end is a cache breakpoint.

    `segment` names the stretch in call records ("house", "date", "device"); it never reaches the model.
    """

    text: str
    segment: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCall:
    """A call of one tool, as the model wrote it and as it is shown again in the history."""

    id: str
    name: str
    arguments: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolSpec:
    """A tool that the model may call; `parameters` is a JSON schema of an object."""

    name: str
    description: str
    parameters: Mapping[str, Any] = field(
        default_factory=lambda: {"type": "object", "properties": {}}
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """One message of a conversation.

    `content` is plain text, or text parts whose ends are cache breakpoints. `thinking` is what an
    assistant message thought before it spoke. `tool_call_id` ties a tool's result to its call.

    Raises:
        InvalidRequestError: the role is unknown.

    """

    role: Role
    content: str | Sequence[TextPart] | None = None
    thinking: str | None = None
    tool_calls: Sequence[ToolCall] = ()
    tool_call_id: str | None = None

    def __post_init__(self) -> None:
        """Refuse a role that no template knows."""
        if self.role not in ROLES:
            raise InvalidRequestError(
                f"unknown role {self.role!r}; known are {', '.join(ROLES)}"
            )

    @property
    def parts(self) -> tuple[TextPart, ...]:
        """The content as text parts; none where there is no content."""
        if self.content is None:
            return ()
        if isinstance(self.content, str):
            return (TextPart(text=self.content),)
        return tuple(self.content)

    @property
    def text(self) -> str:
        """The whole content as one string."""
        return "".join(part.text for part in self.parts)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatRequest:
    """Everything one answer depends on.

    `answer_schema` is a JSON schema: the answer is then JSON that satisfies it, after what was thought, or
    tool calls where there are tools. `session` groups requests in call records (a satellite, a conversation); it never reaches the model.
    """

    messages: Sequence[Message]
    tools: Sequence[ToolSpec] = ()
    answer_schema: Mapping[str, Any] | None = None
    sampling: SamplingParams = field(default_factory=SamplingParams)
    thinking: bool = False
    purpose: Purpose = Purpose.VOICE
    session: str = ""

    def __post_init__(self) -> None:
        """Refuse a request that no template could render."""
        if not self.messages:
            raise InvalidRequestError("messages must hold at least one message")
        if self.answer_schema is not None and not isinstance(
            self.answer_schema, Mapping
        ):
            raise InvalidRequestError(
                f"answer_schema must be a JSON schema's object, not {self.answer_schema!r}"
            )
        if self.purpose not in Purpose:
            known = ", ".join(Purpose)
            raise InvalidRequestError(
                f"unknown purpose {self.purpose!r}; known are {known}"
            )


class FinishReason(StrEnum):
    """Why an answer ended."""

    STOP = "stop"
    TOOL_CALLS = "tool_calls"
    LENGTH = "length"


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """What one request cost.

    prompt_tokens = reused_tokens + reread_tokens. The time to first token counts from acceptance
    and includes the wait in the queue.
    """

    prompt_tokens: int
    question_tokens: int
    reused_tokens: int
    reread_tokens: int
    completion_tokens: int
    queue_seconds: float
    prefill_seconds: float
    decode_seconds: float
    time_to_first_token_seconds: float


@dataclass(frozen=True, slots=True)
class ContentDelta:
    """Text to speak or show."""

    text: str


@dataclass(frozen=True, slots=True)
class ThinkingDelta:
    """Text that the model thinks and nobody hears."""

    text: str


@dataclass(frozen=True, slots=True)
class ToolCallDelta:
    """One complete tool call."""

    tool_call: ToolCall


@dataclass(frozen=True, slots=True, kw_only=True)
class InvalidToolCallDelta:
    """A tool call that was cut short or malformed; its markup is never content.

    `error` says what is wrong in words that the model can use to try again; `name` is the tool's
    name where it could be read.
    """

    id: str
    name: str | None
    error: str


@dataclass(frozen=True, slots=True)
class FinishDelta:
    """The end of an answer; always the last delta, exactly once. `outcome` is the call record's."""

    reason: FinishReason
    usage: Usage
    outcome: Outcome | None = None


type Delta = (
    ContentDelta | ThinkingDelta | ToolCallDelta | InvalidToolCallDelta | FinishDelta
)


class Outcome(StrEnum):
    """How a request met what its session had read before, by comparing token ids.

    The session read nothing before (first_turn), or nothing since the engine started (after_restart);
    the prompt repeats what was read (regenerated); it parts in the question or goes on (continued); it
    parts earlier, say because the date changed (history_rewritten); the session had read more of it
    than the cache still knows (evicted).
    """

    FIRST_TURN = "first_turn"
    AFTER_RESTART = "after_restart"
    CONTINUED = "continued"
    REGENERATED = "regenerated"
    HISTORY_REWRITTEN = "history_rewritten"
    EVICTED = "evicted"

    @property
    def could_hit(self) -> bool:
        """Whether the session had read something that this request could have reused."""
        return self not in (Outcome.FIRST_TURN, Outcome.AFTER_RESTART)


@dataclass(frozen=True, slots=True, kw_only=True)
class CallRecord:
    """The trace that every accepted request leaves: numbers and names, never anybody's words.

    `resumed_from` is the farthest tier that a part of the state came from. `divergence_token` is the
    first token that differs from the best cached prompt, None where nothing differed;
    `divergence_segment` the segment that holds it. `finish` is the finish reason, "warmed_up",
    "prefetched", "gave_way" to a question, "cancelled", "out_of_memory" or "error". `ended_at` is in seconds
    since 1970. There are no adapters yet; `adapter`
    is None.
    """

    ended_at: float
    purpose: Purpose
    session: str
    adapter: str | None
    outcome: Outcome
    resumed_from: Tier | None
    divergence_token: int | None
    divergence_segment: str | None
    finish: str
    usage: Usage
