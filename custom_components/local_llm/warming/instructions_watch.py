"""Notices when instructions begin to read differently because something that their template shows has changed."""

from collections.abc import Callable, Iterable

from homeassistant.components import conversation
from homeassistant.core import (
    CALLBACK_TYPE,
    Context,
    Event,
    EventStateChangedData,
    HomeAssistant,
    callback,
)
from homeassistant.helpers import llm
from homeassistant.helpers.event import (
    TrackTemplate,
    TrackTemplateResult,
    async_track_template_result,
)
from homeassistant.helpers.template import Template

from ..const import DOMAIN


@callback
def async_watch_instructions(
    hass: HomeAssistant, instructions: Iterable[str], on_change: Callable[[], None]
) -> CALLBACK_TYPE:
    """Call `on_change` whenever one of these templates renders differently, and return what ends that.

    They are rendered for questions from no device; where a device is, registries tell of themselves.
    """

    @callback
    def rendered(
        _: Event[EventStateChangedData] | None, updates: list[TrackTemplateResult]
    ) -> None:
        # There is no result before the first.
        if any(update.last_result is not None for update in updates):
            on_change()

    variables = {
        "ha_name": hass.config.location_name,
        "user_name": None,
        "llm_context": llm.LLMContext(
            platform=DOMAIN,
            context=Context(),
            language=hass.config.language,
            assistant=conversation.DOMAIN,
            device_id=None,
        ),
    }
    templates = [Template(text, hass) for text in dict.fromkeys(instructions)]
    tracker = async_track_template_result(
        hass,
        [
            TrackTemplate(template, variables)
            for template in templates
            if not template.is_static
        ],
        rendered,
        # Whoever asks is told that a template fails.
        log_fn=lambda level, message: None,
    )
    tracker.async_refresh()
    return tracker.async_remove
