"""A voice satellite of a generated house."""

from typing import override

from homeassistant.components.assist_pipeline import PipelineEvent
from homeassistant.components.assist_satellite import (
    AssistSatelliteAnnouncement,
    AssistSatelliteConfiguration,
    AssistSatelliteEntity,
    AssistSatelliteEntityFeature,
)
from homeassistant.components.intent import (
    TimerEventType,
    TimerInfo,
    async_register_timer_handler,
)
from homeassistant.helpers.device_registry import DeviceInfo

from .things import Note


class Satellite(AssistSatelliteEntity):
    """A voice satellite, with timers or without."""

    _attr_has_entity_name = True
    _attr_name = None
    _attr_supported_features = AssistSatelliteEntityFeature.ANNOUNCE

    def __init__(self, key: str, room: str | None, note: Note, *, timers: bool) -> None:
        """Stand in a room."""
        self.entity_id = f"assist_satellite.{key}"
        self._attr_unique_id = key
        self._attr_device_info = DeviceInfo(
            identifiers={("nano_house", key)}, name=key.title()
        )
        if room:
            self._attr_device_info["suggested_area"] = room
        self._note = note
        self._timers = timers

    @override
    async def async_added_to_hass(self) -> None:
        await super().async_added_to_hass()
        if self._timers:
            assert self.device_entry
            self.async_on_remove(
                async_register_timer_handler(
                    self.hass, self.device_entry.id, self._on_timer
                )
            )

    def _on_timer(self, event: TimerEventType, timer: TimerInfo) -> None:
        self._note(
            self.entity_id,
            f"timer {event}",
            ((timer.name or "").lower(), round(timer.seconds_left / 5)),
        )

    @override
    async def async_announce(self, announcement: AssistSatelliteAnnouncement) -> None:
        self._note(self.entity_id, "announce", announcement.message.lower())

    @override
    def async_get_configuration(self) -> AssistSatelliteConfiguration:
        return AssistSatelliteConfiguration([], [], 1)

    @override
    async def async_set_configuration(
        self, config: AssistSatelliteConfiguration
    ) -> None: ...

    @override
    def on_pipeline_event(self, event: PipelineEvent) -> None: ...
