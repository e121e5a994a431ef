"""Builds what the engine is asked: one way for a spoken question and for a warm-up, so that they cannot differ."""

from homeassistant.components import conversation
from homeassistant.core import Context, HomeAssistant
from homeassistant.helpers import (
    area_registry as ar,
    device_registry as dr,
    floor_registry as fr,
    llm,
)
from local_llm_engine.types import ChatRequest, Purpose, TextPart

from ..const import DOMAIN
from ..satellites import Speaker
from ..settings import AgentSettings
from .house_api import HouseAPI, HouseInstance
from .messages import as_messages

# The engine reads up to the question, so the words of this one are never read.
_ANY_QUESTION = "Hello"
_SESSION_WITHOUT_DEVICE = "no device"


async def async_provide_prompt(
    hass: HomeAssistant,
    chat_log: conversation.ChatLog,
    question: conversation.ConversationInput,
    settings: AgentSettings,
) -> None:
    """Give a chat log the system text and the tools for a question.

    They stay as they are for the rest of the conversation, so that its history stays readable from
    the cache; tools run in the context of the latest question. They are built anew where a different
    device or user goes on, where the device is in another room now or its room has another name, or
    the agent was given other instructions or APIs: what the model is told must be what the tools do.

    Raises:
        ConverseError: the instructions are not a valid template.
        HomeAssistantError: one of the LLM APIs is not there, or not for this user.
    """
    api = HouseAPI(
        hass,
        question.agent_id,
        settings.api_ids,
        basis=(settings.instructions, *_place(hass, question.device_id)),
    )
    llm_context = question.as_llm_context(DOMAIN)
    instance = chat_log.llm_api
    if (
        isinstance(instance, HouseInstance)
        and instance.api.id == api.id
        and _asker(instance.llm_context) == _asker(llm_context)
        and question.extra_system_prompt in (None, chat_log.extra_system_prompt)
    ):
        instance.llm_context = llm_context
        chat_log.llm_input_provided_index = len(chat_log.content)
        chat_log.async_trace(
            {"messages": list(chat_log.content), "tools": instance.tools}
        )
        return
    await chat_log.async_provide_llm_data(
        llm_context, api, settings.instructions, question.extra_system_prompt
    )


async def async_next_request(
    hass: HomeAssistant, agent_id: str, settings: AgentSettings, speaker: Speaker
) -> ChatRequest:
    """Return the request that the next question of a speaker will be, up to its words.

    Raises:
        ConverseError: the instructions are not a valid template.
        HomeAssistantError: one of the LLM APIs is not there, or not for anybody.
    """
    question = conversation.ConversationInput(
        text=_ANY_QUESTION,
        context=Context(),
        conversation_id=None,
        device_id=speaker.device_id,
        satellite_id=speaker.satellite,
        language=speaker.language,
        agent_id=agent_id,
    )
    # It stands in no list of conversations, so nobody sees it and nothing is left of it.
    chat_log = conversation.ChatLog(hass, "next question")
    await async_provide_prompt(hass, chat_log, question, settings)
    chat_log.async_add_user_content(conversation.UserContent(question.text))
    return build_request(
        chat_log, settings, purpose=Purpose.WARM_UP, session=speaker_name(speaker)
    )


def speaker_name(speaker: Speaker) -> str:
    """Return what names a speaker in call records and logs."""
    return speaker.satellite or _SESSION_WITHOUT_DEVICE


def build_request(
    chat_log: conversation.ChatLog,
    settings: AgentSettings,
    *,
    purpose: Purpose,
    session: str,
) -> ChatRequest:
    """Return the request for the next answer in a chat log that `async_provide_prompt` prepared.

    Raises:
        HomeAssistantError: a message cannot be shown to the model.
    """
    instance = chat_log.llm_api
    return ChatRequest(
        messages=as_messages(
            system_parts(chat_log),
            chat_log.content,
            settings.history_turns,
            instance.agent_id if isinstance(instance, HouseInstance) else None,
        ),
        tools=instance.specs if isinstance(instance, HouseInstance) else (),
        sampling=settings.sampling,
        thinking=settings.thinking,
        purpose=purpose,
        session=session,
    )


def system_parts(chat_log: conversation.ChatLog) -> tuple[TextPart, ...]:
    """Return the system text of a chat log in segments, from what changes least to what changes most.

    Joined they are the text to the letter, with the line break that parts two segments at the end of the first.
    """
    head = chat_log.content[0]
    assert isinstance(head, conversation.SystemContent)
    text = head.content
    named: list[tuple[str, str]] = []
    if isinstance(instance := chat_log.llm_api, HouseInstance):
        named += [
            ("house", instance.house),
            ("date", instance.date),
            ("device", instance.device),
        ]
    named.append(("extra", chat_log.extra_system_prompt or ""))
    named = [(segment, part) for segment, part in named if part]
    known = "".join(f"\n{part}" for _, part in named)
    if not text.endswith(known):
        return (TextPart(text=text, segment="instructions"),)
    named.insert(0, ("instructions", text.removesuffix(known)))
    return tuple(
        TextPart(text=part if last else f"{part}\n", segment=segment)
        for (segment, part), last in zip(
            named, [False] * (len(named) - 1) + [True], strict=True
        )
    )


def _place(hass: HomeAssistant, device_id: str | None) -> tuple[str, ...]:
    """Where a device is, as far as the prompt says."""
    device = dr.async_get(hass).async_get(device_id) if device_id else None
    area_id = dr.async_get_effective_area_id(hass, device) if device else None
    area = ar.async_get(hass).async_get_area(area_id) if area_id else None
    if area is None:
        return ()
    floor = fr.async_get(hass).async_get_floor(area.floor_id) if area.floor_id else None
    return (area.id, area.name, *((floor.name,) if floor else ()))


def _asker(llm_context: llm.LLMContext) -> tuple[str | None, str | None]:
    """Who asks, as far as the prompt depends on it."""
    return (
        llm_context.device_id,
        llm_context.context.user_id if llm_context.context else None,
    )
