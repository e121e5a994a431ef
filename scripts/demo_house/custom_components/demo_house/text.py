"""The mouth of a virtual satellite: what is typed here is asked as if it had been spoken there."""

from typing import override

from homeassistant.components import conversation
from homeassistant.components.assist_pipeline import (
    OPTION_PREFERRED,
    async_get_pipeline,
    async_get_pipelines,
)
from homeassistant.components.assist_pipeline.models import Pipeline
from homeassistant.components.text import TextEntity
from homeassistant.config_entries import ConfigEntry
from homeassistant.const import Platform
from homeassistant.core import Context, HomeAssistant
from homeassistant.helpers.dispatcher import async_dispatcher_send
from homeassistant.helpers.entity_platform import AddConfigEntryEntitiesCallback

from .entity import SatelliteEntity, answer_signal
from .house import SATELLITES, Satellite


async def async_setup_entry(
    hass: HomeAssistant,
    entry: ConfigEntry,
    async_add_entities: AddConfigEntryEntitiesCallback,
) -> None:
    """Give every satellite a mouth."""
    async_add_entities(SayText(satellite) for satellite in SATELLITES)


class SayText(SatelliteEntity, TextEntity):
    """Asks the satellite's assistant what is typed; the answer shows in the satellite's answer sensor."""

    _attr_native_value = ""
    _attr_translation_key = "say"

    def __init__(self, satellite: Satellite) -> None:
        """Start without a conversation."""
        super().__init__(satellite, Platform.TEXT, "say")
        self._conversation_id: str | None = None

    @override
    async def async_set_value(self, value: str) -> None:
        """Ask, and go on with the last conversation where Home Assistant still knows it."""
        assert self.device_entry is not None
        self._attr_native_value = value
        self.async_write_ha_state()
        pipeline = self._pipeline()
        result = await conversation.async_converse(
            self.hass,
            value,
            self._conversation_id,
            Context(),
            language=pipeline.language,
            agent_id=pipeline.conversation_engine,
            device_id=self.device_entry.id,
            satellite_id=self.entity_id_of(
                Platform.ASSIST_SATELLITE, "assist_satellite"
            ),
        )
        self._conversation_id = result.conversation_id
        speech = result.response.speech.get("plain", {}).get("speech", "")
        async_dispatcher_send(self.hass, answer_signal(self.satellite), speech)

    def _pipeline(self) -> Pipeline:
        """Find the assistant that the satellite's first select names."""
        state = self.hass.states.get(
            self.entity_id_of(Platform.SELECT, "pipeline") or ""
        )
        if state is not None and state.state != OPTION_PREFERRED:
            for pipeline in async_get_pipelines(self.hass):
                if pipeline.name == state.state:
                    return pipeline
        return async_get_pipeline(self.hass, None)
