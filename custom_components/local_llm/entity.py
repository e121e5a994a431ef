"""The base of all entities that answer from the engine: one sub-entry, one device, one loop of answers and tools."""

from collections.abc import AsyncGenerator
from contextlib import aclosing

from homeassistant.components import conversation
from homeassistant.config_entries import ConfigSubentry
from homeassistant.exceptions import HomeAssistantError
from homeassistant.helpers import device_registry as dr
from homeassistant.helpers.entity import Entity
from local_llm_engine.errors import EngineError
from local_llm_engine.types import FinishDelta, FinishReason, Purpose

from .const import DOMAIN, MAX_TOOL_ROUNDS
from .engine_entity import MANUFACTURER
from .failures import request_failure
from .insight import as_trace_stats
from .prompt import build_request
from .runtime import LocalLlmConfigEntry
from .settings import AgentSettings
from .spoken import async_spoken
from .stream import as_chat_log_deltas
from .tool_calls import ToolCalls


class LocalLlmEntity(Entity):
    """An agent that answers from the entry's engine."""

    _attr_has_entity_name = True
    _attr_name = None

    def __init__(self, entry: LocalLlmConfigEntry, subentry: ConfigSubentry) -> None:
        """Take what the sub-entry says of this agent."""
        self._engine = entry.runtime_data.engine
        self._settings = AgentSettings.from_data(subentry.data)
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
        self,
        chat_log: conversation.ChatLog,
        *,
        purpose: Purpose,
        session: str,
        language: str | None,
    ) -> None:
        """Answer the last message of a chat log, with as many rounds of tools as it takes, up to a limit.

        Raises:
            HomeAssistantError: the engine failed, or said nothing.
        """
        for _ in range(MAX_TOOL_ROUNDS):
            finish = await self._async_generate(
                chat_log, purpose=purpose, session=session
            )
            if not chat_log.unresponded_tool_results:
                break
            if finish.reason is not FinishReason.TOOL_CALLS:
                raise _silence(finish)
        else:
            apology = _one_message(
                await async_spoken(self.hass, language, "too_many_rounds")
            )
            async for _ in chat_log.async_add_delta_content_stream(
                self.entity_id, apology
            ):
                pass
        last = chat_log.content[-1]
        if not isinstance(last, conversation.AssistantContent) or not last.content:
            raise _silence(finish)

    async def _async_generate(
        self, chat_log: conversation.ChatLog, *, purpose: Purpose, session: str
    ) -> FinishDelta:
        """Stream one answer of the engine into the chat log and wait for the tools that it calls."""
        request = build_request(
            chat_log, self._settings, purpose=purpose, session=session
        )
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


async def _one_message(
    text: str,
) -> AsyncGenerator[conversation.AssistantContentDeltaDict]:
    """Say a text as a message of its own, so that a speaker that already speaks goes on with it."""
    yield {"role": "assistant", "content": text}
