"""The base of all entities that answer from the engine: one sub-entry, one device, one loop of answers and tools."""

from collections.abc import Callable
from contextlib import aclosing

from homeassistant.components import conversation
from homeassistant.config_entries import ConfigSubentry
from homeassistant.exceptions import HomeAssistantError
from homeassistant.helpers import device_registry as dr
from homeassistant.helpers.entity import Entity
from local_llm_engine.errors import EngineError
from local_llm_engine.types import ChatRequest, FinishDelta, FinishReason

from .const import DOMAIN, MAX_TOOL_ROUNDS
from .engine_entity import MANUFACTURER
from .failures import request_failure
from .insight import as_trace_stats
from .runtime import LocalLlmConfigEntry
from .stream import as_chat_log_deltas
from .tool_calls.tool_input import ToolCalls


class LocalLlmEntity(Entity):
    """An agent or an AI task that answers from the entry's engine."""

    _attr_has_entity_name = True
    _attr_name = None

    def __init__(self, entry: LocalLlmConfigEntry, subentry: ConfigSubentry) -> None:
        """Take the engine, and a device under the sub-entry's name."""
        self._engine = entry.runtime_data.engine
        self._attr_unique_id = subentry.subentry_id
        self._attr_device_info = dr.DeviceInfo(
            identifiers={(DOMAIN, subentry.subentry_id)},
            name=subentry.title,
            manufacturer=MANUFACTURER,
            model=self._engine.status().model.name,
            entry_type=dr.DeviceEntryType.SERVICE,
            via_device_id=entry.runtime_data.engine_device_id,
        )

    async def _async_answer(
        self, chat_log: conversation.ChatLog, build_request: Callable[[], ChatRequest]
    ) -> FinishDelta | None:
        """Answer the last message of a chat log, with as many rounds of tools as it takes, up to a limit.

        Returns how the answer ended; None where the rounds did not suffice.

        Raises:
            HomeAssistantError: the engine failed, or said nothing.
        """
        for _ in range(MAX_TOOL_ROUNDS):
            finish = await self._async_generate(chat_log, build_request())
            if not chat_log.unresponded_tool_results:
                break
            if finish.reason is not FinishReason.TOOL_CALLS:
                raise _silence(finish)
        else:
            return None
        last = chat_log.content[-1]
        if not isinstance(last, conversation.AssistantContent) or not last.content:
            raise _silence(finish)
        return finish

    async def _async_generate(
        self, chat_log: conversation.ChatLog, request: ChatRequest
    ) -> FinishDelta:
        """Stream one answer of the engine into the chat log and wait for the tools that it calls."""
        tool_calls = ToolCalls(self.hass, chat_log.llm_api)
        finishes: list[FinishDelta] = []
        try:
            # Closed at once when the question is cancelled, not when the garbage collector comes by.
            async with (
                aclosing(self._engine.generate(request)) as deltas,
                aclosing(
                    as_chat_log_deltas(deltas, tool_calls.async_input, finishes.append)
                ) as stream,
                aclosing(
                    chat_log.async_add_delta_content_stream(self.entity_id, stream)
                ) as added,
            ):
                async for _ in added:
                    pass
        except EngineError as err:
            raise request_failure(err) from err
        chat_log.async_trace({"stats": as_trace_stats(finishes[-1])})
        return finishes[-1]


def _silence(finish: FinishDelta) -> HomeAssistantError:
    """Return the error for an answer without a word in it."""
    key = "answer_cut_short" if finish.reason is FinishReason.LENGTH else "no_answer"
    return HomeAssistantError(translation_domain=DOMAIN, translation_key=key)
