"""Measures each speaker's own section of the prompt with the integration's and the engine's own means.

Wants a running Home Assistant, as the integration is imported from its folder.
"""

from importlib import import_module

from homeassistant.core import Context, HomeAssistant
from homeassistant.helpers import llm
from local_llm_engine.chat import ChatFormat
from local_llm_engine.types import ChatRequest, Message, TextPart

_DEVICE = "device"


async def device_section_tokens(
    hass: HomeAssistant, chat: ChatFormat, agent: str, device_id: str | None
) -> int:
    """Count the tokens between what every device's prompt begins with and the first word of the question."""
    house_api = import_module("custom_components.local_llm.prompts.house_api")
    api = house_api.HouseAPI(hass, agent, [llm.LLM_API_ASSIST])
    instance = await api.async_get_api_instance(
        llm.LLMContext(
            platform="local_llm",
            context=Context(),
            language="en",
            assistant="conversation",
            device_id=device_id,
        )
    )
    parts = (
        TextPart(text=f"{instance.house}\n{instance.date}\n"),
        TextPart(text=instance.device, segment=_DEVICE),
    )
    prompt = chat.prepare(
        ChatRequest(
            messages=(
                Message(role="system", content=parts),
                Message(role="user", content="Hello"),
            ),
            tools=instance.specs,
        )
    )
    shared = max(
        segment.end
        for segment in prompt.segments
        if segment.end <= prompt.question_start and segment.name != _DEVICE
    )
    return prompt.question_start - shared
