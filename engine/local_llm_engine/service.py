"""The engine's door: joins the chat room and the runtime, the engine's thread and asyncio."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
import logging
from pathlib import Path
from typing import Self

import torch

from .cache.disk import DiskTier
from .cache.disk_folder import DiskTierError
from .cache.prompt_cache import PromptCache
from .cache.records import CallLog, RecordListener
from .chat import AnswerDecoder, ChatFormat
from .config import Device, EngineConfig, KvCache
from .errors import ContextLengthError, InvalidRequestError, LoadCancelledError
from .models.fingerprint import fingerprint
from .models.location import located
from .models.memory import DeviceMemory, device_memory
from .models.placement import choose_device, choose_num_threads
from .models.registry import (
    EnginePlan,
    IsCancelled,
    Loading,
    Model,
    ModelSummary,
    OnConverted,
    convert_model,
    inspect_model,
    load_model,
    plan_model,
)
from .models.soundness import require_numbers
from .prompts import Inspection, Prompt
from .runtime.background import run_in_background
from .runtime.delivery import deliver, until_ended
from .runtime.loop import EngineLoop
from .runtime.memory_errors import memory_errors_told
from .runtime.runner import Runner
from .runtime.sequence import FinishEvent, Guide, Sequence, SequenceEvent, TokenEvent
from .types import (
    CallRecord,
    ChatRequest,
    Delta,
    FinishDelta,
    FinishReason,
    Purpose,
    Usage,
)

__all__ = ["DeviceMemory", "Engine", "EnginePlan", "EngineStatus"]

_LOGGER = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineStatus:
    """What the engine is and does now. Bytes and tokens as named; records oldest first.

    `weights` is the format of most weights: "int4", "int8", or "bf16" where all are in `dtype`; `weights_bytes` are those of all in memory.
    `kv_cache` is the format of keys and values: "int8", or "bf16" where they are in `dtype`.
    `notices` tell of every slower or poorer path that the engine had to take.
    """

    model: ModelSummary
    device: str
    dtype: str
    weights: str
    weights_bytes: int
    kv_cache: KvCache
    context_length: int
    is_running: bool
    prompt_cache_bytes: int
    prompt_cache_limit_bytes: int
    prompt_cache_prompts: int
    disk_cache_bytes: int
    disk_cache_limit_bytes: int
    active_requests: int
    queued_requests: int
    records: tuple[CallRecord, ...]
    notices: tuple[str, ...]


class Engine:
    """A loaded model, its prompt cache and the thread that runs it."""

    def __init__(
        self, model_path: Path, config: EngineConfig, loading: Loading
    ) -> None:
        """Use `Engine.load`, which says what this may raise."""
        self._plan = plan = plan_model(model_path, config)
        self._summary, self._context_length = plan.model, plan.context_length
        self._chat = ChatFormat.load(model_path)
        self._cache: PromptCache
        self._notices: tuple[str, ...] = ()
        self._log = CallLog(config.record_file)
        self._device = config.device
        self._dtype = ""
        self._loop = EngineLoop(lambda: self._load_runner(model_path, config, loading))

    @classmethod
    def load(
        cls,
        model_path: Path | str,
        config: EngineConfig | None = None,
        on_converted: OnConverted | None = None,
        *,
        is_cancelled: IsCancelled | None = None,
        may_convert: bool = True,
    ) -> Self:
        """Load a model: a folder of Hugging Face's layout, or a GGUF file. Blocks for seconds: call it off the event loop.

        The first load in a format of our own converts the weights, and blocks for minutes: `on_converted`
        is called with the share that is done, on the engine's thread. `is_cancelled` is asked again and again, there too;
        once it says so, the load is given up within seconds and leaves nothing behind.

        Raises:
            ModelLoadError: the folder cannot be loaded; the message says which file, which part and why.
            NotConvertedError: the weights must be converted, which `may_convert` rules out.
            OutOfMemoryError: the device has no room for the model.
            LoadCancelledError: it was given up.
        """
        loading = Loading(
            on_converted=on_converted,
            is_cancelled=is_cancelled,
            may_convert=may_convert,
        )
        engine = cls(located(model_path), config or EngineConfig(), loading)
        try:
            loading.check()
        except LoadCancelledError:
            engine.close()
            raise
        return engine

    @staticmethod
    def convert(
        model_path: Path | str,
        config: EngineConfig | None = None,
        on_converted: OnConverted | None = None,
        *,
        is_cancelled: IsCancelled | None = None,
    ) -> None:
        """Convert the weights as the first load would, and keep them; where that is done or not needed, do nothing.

        Takes little memory. Blocks for minutes, and gives way to all other threads meanwhile; the callables are
        those of `load`, on a thread of their own.

        Raises:
            ModelLoadError: as `load` does, for all that can be seen without loading.
            ConversionError: no folder takes them.
            LoadCancelledError: it was given up.
        """
        path, config = located(model_path), config or EngineConfig()
        num_parameters = inspect_model(path).num_parameters
        loading = Loading(on_converted=on_converted, is_cancelled=is_cancelled)

        def work() -> None:
            torch.set_num_threads(
                choose_num_threads(config.num_threads, num_parameters)
            )
            convert_model(path, config, loading)

        run_in_background(work, "local_llm_conversion")

    @staticmethod
    def check(model_path: Path | str) -> ModelSummary:
        """Check configuration, weight headers, tokenizer and template without reading weights. Blocks briefly.

        Raises:
            ModelLoadError: as `load` would, for all that can be seen without the weights' values.
        """
        summary = inspect_model(folder := located(model_path))
        ChatFormat.load(folder)
        return summary

    @staticmethod
    def plan(model_path: Path | str, config: EngineConfig | None = None) -> EnginePlan:
        """Say what a model will need on the device, without reading weights. Blocks briefly.

        Raises:
            ModelLoadError: as `check`, but for tokenizer and template; also where the device is not there.
        """
        return plan_model(located(model_path), config or EngineConfig())

    @staticmethod
    def memory(device: Device) -> DeviceMemory | None:
        """Tell how much memory a device has; None where nobody can tell. Blocks briefly.

        Raises:
            ModelLoadError: the device is not there.
        """
        return device_memory(choose_device(device))

    async def generate(self, request: ChatRequest) -> AsyncGenerator[Delta]:
        """Answer a request; closing the iterator cancels it.

        Yields content, thinking and tool calls as they are written, then exactly one FinishDelta.

        Raises:
            RequestError: the request cannot be served; nothing was computed.
            OutOfMemoryError: there is no memory for it, even with the prompt cache emptied.
            GenerationError: the engine failed while it computed.
            EngineClosedError: the engine was closed.
        """
        if request.purpose is Purpose.PREFETCH:
            raise InvalidRequestError("a prefetch is for warm_up: it gets no answer")
        prompt, guide = await asyncio.to_thread(self._prepare, request)
        room = self._context_length - len(prompt.token_ids)
        if room < 1:
            raise ContextLengthError(len(prompt.token_ids), self._context_length)
        max_tokens = min(request.sampling.max_tokens, room)
        decoder = self._chat.decoder(request)
        async with self._running(
            request, prompt, len(prompt.token_ids), max_tokens, guide
        ) as events:
            async for event in events:
                for delta in _deltas(decoder, event):
                    yield delta

    async def warm_up(self, request: ChatRequest) -> Usage:
        """Read a prompt up to the words of its last user message, and answer nothing.

        With the purpose of a prefetch it is read in the voice's slot, ready for the question; it ends
        early, and without an error, where any question comes before that.

        Raises:
            RequestError, OutOfMemoryError, GenerationError, EngineClosedError: as `generate` does.
        """
        if request.messages[-1].role != "user":
            raise InvalidRequestError(
                f"a warm-up's last message must be the user's, not the {request.messages[-1].role}'s"
            )
        # The guide is made for nobody here, so that the answer's is compiled before anybody waits for it.
        prompt, _ = await asyncio.to_thread(self._prepare, request)
        if prompt.question_start >= self._context_length:
            raise ContextLengthError(prompt.question_start, self._context_length)
        async with self._running(request, prompt, prompt.question_start, 0) as events:
            return await anext(
                event.usage async for event in events if isinstance(event, FinishEvent)
            )

    async def inspect(self, request: ChatRequest) -> Inspection:
        """Tell what is known of a request's prompt up to the words of its last user message; changes nothing.

        Raises:
            InvalidRequestError, EngineClosedError: as `generate` does.
        """
        prompt = await asyncio.to_thread(self._chat.prepare, request)
        segments = await asyncio.to_thread(self._chat.segments_before_question, prompt)
        token_ids = prompt.token_ids[: prompt.question_start]
        num_known, checkpoints = await asyncio.wrap_future(
            self._loop.ask(lambda runner: runner.known(token_ids))
        )
        return Inspection(
            segments=segments,
            breakpoints=tuple(
                end for end in prompt.breakpoints if end <= prompt.question_start
            ),
            checkpoints=checkpoints,
            num_known_tokens=num_known,
        )

    def status(self) -> EngineStatus:
        """Tell what the engine is and does now; never waits."""
        return EngineStatus(
            model=self._summary,
            device=self._device,
            dtype=self._dtype,
            weights=self._plan.weights,
            weights_bytes=self._plan.weights_bytes,
            kv_cache=self._plan.kv_cache,
            context_length=self._context_length,
            is_running=self._loop.is_running,
            prompt_cache_bytes=self._cache.nbytes,
            prompt_cache_limit_bytes=self._cache.limit_bytes,
            prompt_cache_prompts=self._cache.num_prompts,
            disk_cache_bytes=self._cache.disk_bytes,
            disk_cache_limit_bytes=self._cache.disk_limit_bytes,
            active_requests=self._loop.scheduler.num_running,
            queued_requests=self._loop.scheduler.num_waiting,
            records=self._log.latest(),
            notices=(
                *self._notices,
                *self._cache.notices,
                *self._log.notices,
                *self._chat.notices,
            ),
        )

    def add_record_listener(self, listener: RecordListener) -> Callable[[], None]:
        """Have `listener` called with the call record of every request that ends; return how to end that.

        It is called on the engine's thread, before the request's caller sees its last delta, and must not
        block. What it raises is logged and harms nothing.
        """
        return self._log.add_listener(listener)

    def close(self) -> None:
        """End all requests, stop the threads and free the memory; may be called again.

        Blocks for one step at most, and for what is still to be written to disk, for seconds at most.
        """
        self._loop.close()
        self._cache.close()

    def _load_runner(
        self, model_path: Path, config: EngineConfig, loading: Loading
    ) -> Runner:
        """Load the weights; runs on the engine's thread."""
        if memory := self.memory(config.device):
            self._plan.require_room(memory)
        torch.set_num_threads(
            choose_num_threads(config.num_threads, self._summary.num_parameters)
        )
        with memory_errors_told(config.device):
            model = load_model(model_path, config, loading)
            # What has no room for one slot, or computes no numbers, fails now, not at every question.
            require_numbers(model, model.new_state(self._context_length))
        # Last of all that may fail: a load that ends early, as for weights to be converted first, need not pay for it.
        self._chat.prepare_guides()
        self._notices = model.weights.notices
        self._dtype = str(model.dtype).removeprefix("torch.")
        self._cache = PromptCache(
            config.prompt_cache_bytes,
            half_checkpoints=config.half_checkpoints,
            disk=self._open_disk(model_path, model, config),
        )
        return Runner(
            model,
            self._cache,
            self._log,
            context_length=self._context_length,
            chunk=config.prefill_chunk_tokens,
        )

    def _open_disk(
        self, model_path: Path, model: Model, config: EngineConfig
    ) -> DiskTier | None:
        """Open the disk tier, if there is to be one; where that fails, the engine goes on without."""
        if config.cache_folder is None:
            return None
        try:
            return DiskTier.open(
                config.cache_folder,
                fingerprint=fingerprint(model_path, model, config),
                limit_bytes=config.disk_cache_bytes,
            )
        except DiskTierError as error:
            self._notices = (*self._notices, str(error))
            _LOGGER.warning("Of the prompt cache, %s", error)
            return None

    def _prepare(self, request: ChatRequest) -> tuple[Prompt, Guide | None]:
        """Make the prompt of a request and what its answer is held to."""
        return self._chat.prepare(request), self._chat.guide(request)

    @asynccontextmanager
    async def _running(
        self,
        request: ChatRequest,
        prompt: Prompt,
        target: int,
        max_tokens: int,
        guide: Guide | None = None,
    ) -> AsyncIterator[AsyncIterator[TokenEvent | FinishEvent]]:
        """Submit a sequence and hand out its events up to the last; leaving early cancels it."""
        queue: asyncio.Queue[SequenceEvent] = asyncio.Queue()
        asyncio_loop = asyncio.get_running_loop()
        sequence = Sequence(
            prompt=prompt,
            sampling=request.sampling,
            purpose=request.purpose,
            session=request.session,
            target=target,
            max_tokens=max_tokens,
            end_token_ids=self._chat.end_token_ids,
            emit=lambda event: deliver(asyncio_loop, queue, event),
            guide=guide,
        )
        self._loop.submit(sequence)
        try:
            yield until_ended(queue)
        finally:
            self._loop.cancel(sequence)


def _deltas(decoder: AnswerDecoder, event: TokenEvent | FinishEvent) -> list[Delta]:
    """Turn an event into what the caller sees of it."""
    if isinstance(event, TokenEvent):
        return decoder.feed(event.token_id)
    deltas = decoder.finish()
    calls_tools = event.reason is FinishReason.STOP and decoder.has_tool_calls
    reason = FinishReason.TOOL_CALLS if calls_tools else event.reason
    return [*deltas, FinishDelta(reason, event.usage, event.outcome)]
