"""The two virtual voice satellites: no microphone and no loudspeaker, but timers, pipelines and a room."""

from typing import override

from homeassistant.components.assist_pipeline import PipelineEvent
from homeassistant.components.assist_satellite import (
    AssistSatelliteAnnouncement,
    AssistSatelliteConfiguration,
    AssistSatelliteEntity,
    AssistSatelliteEntityFeature,
    AssistSatelliteWakeWord,
)
from homeassistant.components.intent import (
    TimerEventType,
    TimerInfo,
    async_register_timer_handler,
)
from homeassistant.config_entries import ConfigEntry
from homeassistant.const import Platform
from homeassistant.core import HomeAssistant, callback
from homeassistant.helpers.dispatcher import async_dispatcher_send
from homeassistant.helpers.entity_platform import AddConfigEntryEntitiesCallback

from .entity import SatelliteEntity, answer_signal, timer_signal
from .house import SATELLITES, Satellite


async def async_setup_entry(
    hass: HomeAssistant,
    entry: ConfigEntry,
    async_add_entities: AddConfigEntryEntitiesCallback,
) -> None:
    """Put up the satellites."""
    async_add_entities(DemoSatellite(satellite) for satellite in SATELLITES)


class DemoSatellite(SatelliteEntity, AssistSatelliteEntity):
    """A Home Assistant Voice PE without its hardware."""

    _attr_name = None
    _attr_supported_features = AssistSatelliteEntityFeature.ANNOUNCE

    def __init__(self, satellite: Satellite) -> None:
        """Listen to the usual wake word."""
        super().__init__(satellite, Platform.ASSIST_SATELLITE)
        self._configuration = AssistSatelliteConfiguration(
            available_wake_words=[
                AssistSatelliteWakeWord("okay_nabu", "Okay Nabu", ["en"])
            ],
            active_wake_words=["okay_nabu"],
            max_active_wake_words=2,
        )

    @override
    async def async_added_to_hass(self) -> None:
        """Offer to keep timers; only from now on are the timer tools there for this device."""
        await super().async_added_to_hass()
        assert self.device_entry is not None
        self.async_on_remove(
            async_register_timer_handler(
                self.hass, self.device_entry.id, self._on_timer
            )
        )

    @property
    @override
    def pipeline_entity_id(self) -> str | None:
        """Name the select that says which assistant answers."""
        return self.entity_id_of(Platform.SELECT, "pipeline")

    @property
    @override
    def vad_sensitivity_entity_id(self) -> str | None:
        """Name the select that says when a sentence is over."""
        return self.entity_id_of(Platform.SELECT, "vad_sensitivity")

    @callback
    @override
    def async_get_configuration(self) -> AssistSatelliteConfiguration:
        """Tell the wake words."""
        return self._configuration

    @override
    async def async_set_configuration(
        self, config: AssistSatelliteConfiguration
    ) -> None:
        """Listen to other wake words."""
        self._configuration = config

    @override
    async def async_announce(self, announcement: AssistSatelliteAnnouncement) -> None:
        """Show what a real satellite would say."""
        async_dispatcher_send(
            self.hass, answer_signal(self.satellite), announcement.message
        )

    @callback
    @override
    def on_pipeline_event(self, event: PipelineEvent) -> None:
        """Nothing lights up here."""

    @callback
    def _on_timer(self, event: TimerEventType, timer: TimerInfo) -> None:
        async_dispatcher_send(self.hass, timer_signal(self.satellite), event, timer)
