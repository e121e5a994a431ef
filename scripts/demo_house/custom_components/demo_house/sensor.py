"""Temperature and humidity of the demo house's rooms; each satellite's last answer and next timer."""

from datetime import datetime, timedelta
from typing import override

from homeassistant.components import persistent_notification
from homeassistant.components.intent import TimerEventType, TimerInfo
from homeassistant.components.sensor import (
    SensorDeviceClass,
    SensorEntity,
    SensorStateClass,
)
from homeassistant.config_entries import ConfigEntry
from homeassistant.const import (
    MAX_LENGTH_STATE_STATE,
    PERCENTAGE,
    Platform,
    UnitOfTemperature,
)
from homeassistant.core import HomeAssistant, callback
from homeassistant.helpers.dispatcher import async_dispatcher_connect
from homeassistant.helpers.entity_platform import AddConfigEntryEntitiesCallback
from homeassistant.util import dt as dt_util

from .entity import SatelliteEntity, ThingEntity, answer_signal, things, timer_signal
from .house import SATELLITES, Satellite, Thing

_UNITS = {"temperature": UnitOfTemperature.CELSIUS, "humidity": PERCENTAGE}


async def async_setup_entry(
    hass: HomeAssistant,
    entry: ConfigEntry,
    async_add_entities: AddConfigEntryEntitiesCallback,
) -> None:
    """Put up the sensors."""
    async_add_entities(DemoSensor(thing) for thing in things("temperature", "humidity"))
    async_add_entities(AnswerSensor(satellite) for satellite in SATELLITES)
    async_add_entities(TimerSensor(satellite) for satellite in SATELLITES)


class DemoSensor(ThingEntity, SensorEntity):
    """A sensor whose reading never changes."""

    _attr_state_class = SensorStateClass.MEASUREMENT

    def __init__(self, thing: Thing) -> None:
        """Read what the house says."""
        super().__init__(thing, Platform.SENSOR)
        self._attr_device_class = SensorDeviceClass(thing.kind)
        self._attr_native_unit_of_measurement = _UNITS[thing.kind]
        self._attr_native_value = thing.start


class AnswerSensor(SatelliteEntity, SensorEntity):
    """What a satellite said last; the state holds the beginning, as Home Assistant's states are short."""

    _attr_translation_key = "answer"

    def __init__(self, satellite: Satellite) -> None:
        """Start silent."""
        super().__init__(satellite, Platform.SENSOR, "answer")

    @override
    async def async_added_to_hass(self) -> None:
        """Listen to the satellite."""
        self.async_on_remove(
            async_dispatcher_connect(
                self.hass, answer_signal(self.satellite), self._on_answer
            )
        )

    @callback
    def _on_answer(self, words: str) -> None:
        self._attr_native_value = words[:MAX_LENGTH_STATE_STATE]
        self._attr_extra_state_attributes = {"answer": words}
        self.async_write_ha_state()


class TimerSensor(SatelliteEntity, SensorEntity):
    """When a satellite's next timer ends; rings by a notification."""

    _attr_device_class = SensorDeviceClass.TIMESTAMP
    _attr_translation_key = "timer"

    def __init__(self, satellite: Satellite) -> None:
        """Start without timers."""
        super().__init__(satellite, Platform.SENSOR, "timer")
        self._ends: dict[str, datetime] = {}

    @override
    async def async_added_to_hass(self) -> None:
        """Listen to the satellite's timers."""
        self.async_on_remove(
            async_dispatcher_connect(
                self.hass, timer_signal(self.satellite), self._on_timer
            )
        )

    @callback
    def _on_timer(self, event: TimerEventType, timer: TimerInfo) -> None:
        if event is TimerEventType.FINISHED:
            persistent_notification.async_create(
                self.hass,
                f"{timer.seconds} seconds are over.",
                f"Timer on {self.satellite.name}",
            )
        self._ends.pop(timer.id, None)
        if timer.is_active and event in (
            TimerEventType.STARTED,
            TimerEventType.UPDATED,
        ):
            self._ends[timer.id] = dt_util.utcnow() + timedelta(
                seconds=timer.seconds_left
            )
        self._attr_native_value = min(self._ends.values(), default=None)
        self.async_write_ha_state()
