"""The conversation agents of an entry."""

import asyncio
from collections.abc import AsyncGenerator
from hashlib import sha256
from typing import Literal, override

from homeassistant.components import assist_satellite, conversation
from homeassistant.config_entries import ConfigSubentry
from homeassistant.const import MATCH_ALL
from homeassistant.core import HomeAssistant, callback
from homeassistant.exceptions import HomeAssistantError
from homeassistant.helpers import entity_registry as er, intent
from homeassistant.helpers.entity_platform import AddConfigEntryEntitiesCallback
from local_llm_engine.types import Purpose

from .const import DOMAIN, SUBENTRY_CONVERSATION
from .entity import LocalLlmEntity
from .prompts.history import Asker
from .prompts.prompt import async_provide_prompt, build_request
from .runtime import LocalLlmConfigEntry
from .settings import AgentSettings
from .spoken import async_error_text, async_spoken
from .stream import asks_back

# The engine orders its requests itself.
PARALLEL_UPDATES = 0


async def async_setup_entry(
    hass: HomeAssistant,
    entry: LocalLlmConfigEntry,
    async_add_entities: AddConfigEntryEntitiesCallback,
) -> None:
    """Set up one agent for each conversation sub-entry."""
    for subentry in entry.get_subentries_of_type(SUBENTRY_CONVERSATION):
        async_add_entities(
            [LocalLlmConversationEntity(entry, subentry)],
            config_subentry_id=subentry.subentry_id,
        )


class LocalLlmConversationEntity(LocalLlmEntity, conversation.ConversationEntity):
    """A conversation agent."""

    _attr_supports_streaming = True
    _attr_translation_key = "conversation"

    def __init__(self, entry: LocalLlmConfigEntry, subentry: ConfigSubentry) -> None:
        """Say that the agent controls the house where it was given an API."""
        super().__init__(entry, subentry)
        self._settings = AgentSettings.from_data(subentry.data)
        self._entry = entry
        self._prefetch = entry.runtime_data.prefetch
        if self._settings.api_ids:
            self._attr_supported_features = (
                conversation.ConversationEntityFeature.CONTROL
            )

    @property
    @override
    def supported_languages(self) -> list[str] | Literal["*"]:
        """Every language: what the model speaks, the agent speaks."""
        return MATCH_ALL

    @override
    async def async_prepare(self, language: str | None = None) -> None:
        """Have the prompt ready before the words are known; Home Assistant calls this when somebody begins to speak."""
        # It does so just before the satellite says that it listens.
        await asyncio.sleep(0)
        self._entry.async_create_background_task(
            self.hass,
            self._prefetch.async_prepare(self.entity_id, self._settings, language),
            name=f"{DOMAIN} prefetch",
        )

    @override
    async def _async_handle_message(
        self, user_input: conversation.ConversationInput, chat_log: conversation.ChatLog
    ) -> conversation.ConversationResult:
        """Answer a question, or say in its language why that failed."""
        language = user_input.language
        try:
            return await self._async_converse(user_input, chat_log)
        except conversation.ConverseError as err:
            # The template of the instructions; of the words for it Home Assistant has English ones alone.
            words = await async_spoken(self.hass, language, "template_failed")
            err.response.async_set_error(intent.IntentResponseErrorCode.UNKNOWN, words)
            return err.as_conversation_result()
        except HomeAssistantError as err:
            # What is said of an error is its text, which is English where it has none of its own.
            raise HomeAssistantError(
                await async_error_text(self.hass, language, err),
                translation_domain=err.translation_domain,
                translation_key=err.translation_key,
                translation_placeholders=err.translation_placeholders,
            ) from err

    async def _async_converse(
        self, user_input: conversation.ConversationInput, chat_log: conversation.ChatLog
    ) -> conversation.ConversationResult:
        await async_provide_prompt(self.hass, chat_log, user_input, self._settings)
        session = _session(self.hass, user_input, chat_log)
        with self._prefetch.held_off():
            finish = await self._async_answer(
                chat_log,
                lambda: build_request(
                    chat_log, self._settings, purpose=Purpose.VOICE, session=session
                ),
            )
        if finish is None:
            apology = await async_spoken(
                self.hass, user_input.language, "too_many_rounds"
            )
            async for _ in chat_log.async_add_delta_content_stream(
                self.entity_id, _one_message(apology)
            ):
                pass
        self._note_prompt(user_input, chat_log, session)
        result = conversation.async_get_result_from_chat_log(user_input, chat_log)
        last = chat_log.content[-1]
        result.continue_conversation |= isinstance(
            last, conversation.AssistantContent
        ) and asks_back(last.content)
        return result

    @callback
    def _note_prompt(
        self,
        user_input: conversation.ConversationInput,
        chat_log: conversation.ChatLog,
        session: str,
    ) -> None:
        """Have the prompt of a first question compared with the last one; later ones keep theirs, however old it is."""
        num_questions = sum(content.role == "user" for content in chat_log.content)
        if num_questions > 1:
            return
        asker = Asker(
            self.entity_id,
            session if session.startswith(f"{assist_satellite.DOMAIN}.") else None,
            user_input.language,
            user_input.context.user_id,
        )
        request = build_request(
            chat_log, self._settings, purpose=Purpose.VOICE, session=session
        )
        self._entry.async_create_background_task(
            self.hass,
            self._entry.runtime_data.prompt_history.async_note(
                asker, self._settings, request
            ),
            name=f"{DOMAIN} prompt history",
        )


async def _one_message(
    text: str,
) -> AsyncGenerator[conversation.AssistantContentDeltaDict]:
    """Say a text as a message of its own, so that a speaker that already speaks goes on with it."""
    yield {"role": "assistant", "content": text}


def _session(
    hass: HomeAssistant,
    user_input: conversation.ConversationInput,
    chat_log: conversation.ChatLog,
) -> str:
    """Return what groups this request with others in call records: the satellite, else the conversation."""
    if user_input.satellite_id:
        return user_input.satellite_id
    if user_input.device_id:
        for entry in er.async_entries_for_device(
            er.async_get(hass), user_input.device_id
        ):
            if entry.domain == assist_satellite.DOMAIN:
                return entry.entity_id
    # Whoever starts a conversation may choose its id, so it can hold anything.
    return f"conversation {sha256(chat_log.conversation_id.encode()).hexdigest()[:8]}"
