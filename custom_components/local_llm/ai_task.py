"""The AI task entities of an entry: text, or data of the structure that a task asks for."""

import json
from typing import Any, override

import probatio

from homeassistant.components import ai_task, conversation
from homeassistant.config_entries import ConfigSubentry
from homeassistant.core import HomeAssistant
from homeassistant.exceptions import HomeAssistantError
from homeassistant.helpers import llm
from homeassistant.helpers.entity_platform import AddConfigEntryEntitiesCallback
from local_llm_engine.types import ChatRequest, FinishReason, Purpose, TextPart

from .answer_schema import as_answer_schema
from .const import DOMAIN, SUBENTRY_AI_TASK
from .entity import LocalLlmEntity
from .prompts.messages import as_messages
from .prompts.tools import as_spec, one_list
from .runtime import LocalLlmConfigEntry
from .settings import TaskSettings

# The engine orders its requests itself.
PARALLEL_UPDATES = 0

_DATA_WANTED = (
    "Answer with JSON that satisfies this JSON schema, and with nothing else:"
)


async def async_setup_entry(
    hass: HomeAssistant,
    entry: LocalLlmConfigEntry,
    async_add_entities: AddConfigEntryEntitiesCallback,
) -> None:
    """Set up one entity for each AI task sub-entry."""
    for subentry in entry.get_subentries_of_type(SUBENTRY_AI_TASK):
        async_add_entities(
            [LocalLlmTaskEntity(entry, subentry)],
            config_subentry_id=subentry.subentry_id,
        )


class LocalLlmTaskEntity(LocalLlmEntity, ai_task.AITaskEntity):
    """Answers AI tasks, after everybody who speaks."""

    _attr_supported_features = ai_task.AITaskEntityFeature.GENERATE_DATA
    _attr_translation_key = "ai_task"

    def __init__(self, entry: LocalLlmConfigEntry, subentry: ConfigSubentry) -> None:
        """Take what the sub-entry says of its tasks."""
        super().__init__(entry, subentry)
        self._settings = TaskSettings.from_data(subentry.data)

    @override
    async def _async_generate_data(
        self, task: ai_task.GenDataTask, chat_log: conversation.ChatLog
    ) -> ai_task.GenDataTaskResult:
        """Carry a task out.

        Raises:
            HomeAssistantError: it has attachments, the engine failed, or what it wrote is not what was asked for.
        """
        schema = None
        if task.structure is not None:
            schema = as_answer_schema(task.structure, _serializer(chat_log))
        finish = await self._async_answer(
            chat_log, lambda: self._request(chat_log, schema)
        )
        if finish is None:
            raise HomeAssistantError(
                translation_domain=DOMAIN, translation_key="task_too_many_rounds"
            )
        last = chat_log.content[-1]
        assert isinstance(last, conversation.AssistantContent)
        text = last.content or ""
        if task.structure is None:
            data: Any = text
        elif finish.reason is FinishReason.LENGTH:
            raise HomeAssistantError(
                translation_domain=DOMAIN, translation_key="data_cut_short"
            )
        else:
            data = _read(text, task.structure)
        return ai_task.GenDataTaskResult(
            conversation_id=chat_log.conversation_id, data=data
        )

    def _request(
        self, chat_log: conversation.ChatLog, schema: dict[str, Any] | None
    ) -> ChatRequest:
        """Lay a task out from what changes least to what changes most.

        Raises:
            HomeAssistantError: it has attachments.
        """
        tools = chat_log.llm_api.tools if chat_log.llm_api else []
        return ChatRequest(
            messages=as_messages(
                self._system(chat_log, schema), chat_log.content, history_turns=0
            ),
            tools=tuple(
                as_spec(tool, _serializer(chat_log)) for tool in one_list(tools, [])
            ),
            answer_schema=schema,
            sampling=self._settings.sampling,
            thinking=self._settings.thinking,
            purpose=Purpose.BACKGROUND,
            session=self.entity_id,
        )

    def _system(
        self, chat_log: conversation.ChatLog, schema: dict[str, Any] | None
    ) -> list[TextPart]:
        """Return the sub-entry's instructions, what data is wanted, and Home Assistant's own text, which has the time in it."""
        parts = []
        if self._settings.instructions:
            parts.append(("instructions", self._settings.instructions))
        if schema is not None:
            wanted = json.dumps(schema, ensure_ascii=False)
            parts.append(("data", f"{_DATA_WANTED}\n{wanted}"))
        head = chat_log.content[0]
        assert isinstance(head, conversation.SystemContent)
        return [
            *(TextPart(text=f"{text}\n\n", segment=segment) for segment, text in parts),
            TextPart(text=head.content, segment="task"),
        ]


def _serializer(chat_log: conversation.ChatLog) -> Any:
    """Return what turns the selectors of a task, or of its tools, into JSON schemas."""
    instance = chat_log.llm_api
    return (instance and instance.custom_serializer) or llm.selector_serializer


def _read(text: str, structure: probatio.Schema) -> Any:
    """Return the data in an answer as it was written, once the structure has judged it.

    Raises:
        HomeAssistantError: it is not what the structure asks for.
    """
    try:
        data = json.loads(text)
        structure(data)
    except (ValueError, probatio.Invalid) as err:
        raise HomeAssistantError(
            translation_domain=DOMAIN,
            translation_key="data_invalid",
            translation_placeholders={"detail": str(err)},
        ) from err
    return data
