"""An engine that says what a test wants, for what the real one does too seldom."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence

from local_llm_engine.errors import EngineError
from local_llm_engine.models.registry import ModelSummary
from local_llm_engine.prompts import Checkpoint, InspectedSegment, Inspection
from local_llm_engine.service import EngineStatus
from local_llm_engine.types import (
    CallRecord,
    ChatRequest,
    ContentDelta,
    Delta,
    FinishDelta,
    FinishReason,
    Outcome,
    Purpose,
    ToolCall,
    ToolCallDelta,
    Usage,
)

USAGE = Usage(
    prompt_tokens=100,
    question_tokens=5,
    reused_tokens=90,
    reread_tokens=10,
    completion_tokens=3,
    queue_seconds=0.25,
    prefill_seconds=0.5,
    decode_seconds=1.0,
    time_to_first_token_seconds=0.75,
)

# As a spoken question leaves it in which the date had changed
RECORD = CallRecord(
    ended_at=1_796_047_500.0,
    purpose=Purpose.VOICE,
    session="assist_satellite.kitchen_voice",
    adapter=None,
    outcome=Outcome.HISTORY_REWRITTEN,
    resumed_from="ram",
    divergence_token=90,
    divergence_segment="date",
    finish="stop",
    usage=USAGE,
)

type Answer = Sequence[Delta | EngineError]


def says(text: str, reason: FinishReason = FinishReason.STOP) -> Answer:
    """An answer in words."""
    return [
        *([ContentDelta(text)] if text else []),
        FinishDelta(reason, USAGE, Outcome.CONTINUED),
    ]


def calls(tool: str, /, **arguments: object) -> Answer:
    """An answer that calls a tool."""
    call = ToolCall(id="call-1", name=tool, arguments=arguments)
    return [ToolCallDelta(call), FinishDelta(FinishReason.TOOL_CALLS, USAGE)]


class ScriptedEngine:
    """Gives the answers of a script in turn; the last one again and again."""

    def __init__(self, *answers: Answer) -> None:
        self.answers = list(answers)
        self.requests: list[ChatRequest] = []
        self.warmed: list[ChatRequest] = []
        self.inspected: list[ChatRequest] = []
        self.checkpoints: tuple[Checkpoint, ...] = ()
        self.keeps_prompts = True
        self.records: tuple[CallRecord, ...] = ()
        self.num_closed_answers = 0
        self.closed = False
        self.notices: tuple[str, ...] = ()
        self.listeners: list[Callable[[CallRecord], object]] = []
        self.before_delta: Callable[[], None] = lambda: None

    def write(self, *answers: Answer) -> None:
        """Begin a new script."""
        self.requests.clear()
        self.answers = list(answers)

    async def generate(self, request: ChatRequest) -> AsyncGenerator[Delta]:
        self.requests.append(request)
        index = min(len(self.requests), len(self.answers)) - 1
        try:
            for delta in self.answers[index]:
                self.before_delta()
                await asyncio.sleep(0)
                if isinstance(delta, EngineError):
                    raise delta
                yield delta
        finally:
            self.num_closed_answers += 1

    async def warm_up(self, request: ChatRequest) -> Usage:
        self.warmed.append(request)
        for delta in self.answers[0] if self.answers else ():
            if isinstance(delta, EngineError):
                raise delta
        return USAGE

    async def inspect(self, request: ChatRequest) -> Inspection:
        """Take every character for a token, and all tools for a hundred."""
        self.inspected.append(request)
        tools = [InspectedSegment(name="tools", num_tokens=100, text="tools")]
        segments = (
            *(tools if request.tools else ()),
            *(
                InspectedSegment(
                    name=part.segment or "system",
                    num_tokens=len(part.text),
                    text=part.text,
                )
                for part in request.messages[0].parts
            ),
        )
        end = sum(segment.num_tokens for segment in segments)
        is_warm = self.keeps_prompts and request in self.warmed
        return Inspection(
            segments=segments,
            breakpoints=(100,),
            checkpoints=(Checkpoint(end, "ram"),) if is_warm else self.checkpoints,
            num_known_tokens=0,
        )

    def add_record_listener(
        self, listener: Callable[[CallRecord], object]
    ) -> Callable[[], None]:
        self.listeners.append(listener)
        return lambda: self.listeners.remove(listener)

    def tell(self, record: CallRecord) -> None:
        """Tell of a request, as the real engine does of each that ends."""
        for listener in tuple(self.listeners):
            listener(record)

    def status(self) -> EngineStatus:
        return EngineStatus(
            model=ModelSummary(
                name="scripted",
                architecture="scripted",
                num_layers=1,
                num_parameters=1,
                weights_bytes=1,
                context_length=8192,
                vocab_size=8,
            ),
            device="cpu",
            dtype="float32",
            weights="bf16",
            weights_bytes=1,
            kv_cache="bf16",
            context_length=8192,
            is_running=not self.closed,
            prompt_cache_bytes=0,
            prompt_cache_limit_bytes=0,
            prompt_cache_prompts=0,
            disk_cache_bytes=0,
            disk_cache_limit_bytes=0,
            active_requests=0,
            queued_requests=0,
            records=self.records,
            notices=self.notices,
        )

    def close(self) -> None:
        self.closed = True


class HeldWarmUps:
    """Stands in for an engine's `warm_up`: each waits for `go_on`, then fails with `error`."""

    def __init__(self, engine: ScriptedEngine, error: EngineError) -> None:
        self._engine = engine
        self._error = error
        self.begun = asyncio.Event()
        self.go_on = asyncio.Event()

    async def __call__(self, request: ChatRequest) -> Usage:
        self._engine.warmed.append(request)
        self.begun.set()
        await self.go_on.wait()
        raise self._error
