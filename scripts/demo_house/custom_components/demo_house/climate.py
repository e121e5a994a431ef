"""Thermostats of the demo house."""

from typing import Any, override

from homeassistant.components.climate import (
    ClimateEntity,
    ClimateEntityFeature,
    HVACMode,
)
from homeassistant.config_entries import ConfigEntry
from homeassistant.const import ATTR_TEMPERATURE, Platform, UnitOfTemperature
from homeassistant.core import HomeAssistant
from homeassistant.helpers.entity_platform import AddConfigEntryEntitiesCallback

from .entity import ThingEntity, things
from .house import Thing


async def async_setup_entry(
    hass: HomeAssistant,
    entry: ConfigEntry,
    async_add_entities: AddConfigEntryEntitiesCallback,
) -> None:
    """Install the thermostats."""
    async_add_entities(DemoThermostat(thing) for thing in things("climate"))


class DemoThermostat(ThingEntity, ClimateEntity):
    """A thermostat whose room is always as warm as it asks for."""

    _attr_supported_features = (
        ClimateEntityFeature.TARGET_TEMPERATURE
        | ClimateEntityFeature.TURN_ON
        | ClimateEntityFeature.TURN_OFF
    )
    _attr_temperature_unit = UnitOfTemperature.CELSIUS

    def __init__(self, thing: Thing) -> None:
        """Start as the house says."""
        super().__init__(thing, Platform.CLIMATE)
        self._attr_hvac_modes = [HVACMode.HEAT, HVACMode.OFF]
        self._attr_hvac_mode = HVACMode.HEAT
        self._attr_target_temperature = float(thing.start)
        self._attr_current_temperature = float(thing.start)

    @override
    async def async_set_temperature(self, **kwargs: Any) -> None:
        """Heat to a temperature in degrees Celsius."""
        self._attr_target_temperature = self._attr_current_temperature = kwargs[
            ATTR_TEMPERATURE
        ]
        self.async_write_ha_state()

    @override
    async def async_set_hvac_mode(self, hvac_mode: HVACMode) -> None:
        """Heat, or stop heating."""
        self._attr_hvac_mode = hvac_mode
        self.async_write_ha_state()
