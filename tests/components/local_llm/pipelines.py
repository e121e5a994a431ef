"""A question through Home Assistant's own assist pipeline, as a satellite asks once its words are understood."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from inspect import signature

from homeassistant.components.assist_pipeline import PipelineEvent, PipelineStage
from homeassistant.components.assist_pipeline.pipeline import (
    PipelineInput,
    PipelineRun,
    async_get_pipeline,
)
from homeassistant.core import Context, HomeAssistant
from homeassistant.helpers.chat_session import ChatSession, async_get_chat_session

from .house import device_id

# Home Assistant wants to know since 2026.11 on whose behalf a session is.
_WANTS_CONTEXT = "context" in signature(async_get_chat_session).parameters


def chat_session(
    hass: HomeAssistant, context: Context
) -> AbstractContextManager[ChatSession]:
    """Open a session, on either Home Assistant."""
    named = {"context": context} if _WANTS_CONTEXT else {}
    return async_get_chat_session(hass, **named)


async def run_pipeline(
    hass: HomeAssistant,
    text: str,
    satellite: str = "Kitchen Voice",
    on_event: Callable[[PipelineEvent], object] = lambda _: None,
) -> list[PipelineEvent]:
    """Ask the preferred assistant, and return the events up to the run's end."""
    events: list[PipelineEvent] = []

    def keep(event: PipelineEvent) -> None:
        events.append(event)
        on_event(event)

    context = Context()
    with chat_session(hass, context) as session:
        question = PipelineInput(
            session=session,
            intent_input=text,
            device_id=device_id(hass, satellite),
            run=PipelineRun(
                hass,
                context=context,
                pipeline=async_get_pipeline(hass),
                start_stage=PipelineStage.INTENT,
                end_stage=PipelineStage.INTENT,
                event_callback=keep,
            ),
        )
        await question.validate()
        await question.execute()
    return events
