"""The selects of a voice satellite, under the names that a real Home Assistant Voice PE gives them."""

from typing import override

from homeassistant.components.assist_pipeline import (
    AssistPipelineSelect,
    VadSensitivitySelect,
)
from homeassistant.components.select import SelectEntity
from homeassistant.config_entries import ConfigEntry
from homeassistant.const import EntityCategory, Platform
from homeassistant.core import HomeAssistant
from homeassistant.helpers.entity_platform import AddConfigEntryEntitiesCallback

from .entity import SatelliteEntity
from .house import DOMAIN, SATELLITES, Satellite


async def async_setup_entry(
    hass: HomeAssistant,
    entry: ConfigEntry,
    async_add_entities: AddConfigEntryEntitiesCallback,
) -> None:
    """Give every satellite its selects."""
    for satellite in SATELLITES:
        async_add_entities(
            (
                PipelineSelect(hass, satellite, 0),
                PipelineSelect(hass, satellite, 1),
                SensitivitySelect(hass, satellite),
                WakeWordSelect(satellite, 0),
                WakeWordSelect(satellite, 1),
            )
        )


class PipelineSelect(SatelliteEntity, AssistPipelineSelect):
    """Which assistant answers, per wake word."""

    def __init__(self, hass: HomeAssistant, satellite: Satellite, index: int) -> None:
        """Take the preferred assistant."""
        AssistPipelineSelect.__init__(self, hass, DOMAIN, satellite.mac, index)
        key = self.entity_description.key
        SatelliteEntity.__init__(self, satellite, Platform.SELECT, key)


class SensitivitySelect(SatelliteEntity, VadSensitivitySelect):
    """When a sentence is over."""

    def __init__(self, hass: HomeAssistant, satellite: Satellite) -> None:
        """Take the default."""
        VadSensitivitySelect.__init__(self, hass, satellite.mac)
        key = self.entity_description.key
        SatelliteEntity.__init__(self, satellite, Platform.SELECT, key)


class WakeWordSelect(SatelliteEntity, SelectEntity):
    """What the satellite listens for, in two places."""

    _attr_entity_category = EntityCategory.CONFIG

    def __init__(self, satellite: Satellite, index: int) -> None:
        """Listen in the first place alone."""
        super().__init__(
            satellite, Platform.SELECT, ("wake_word", "wake_word_2")[index]
        )
        self._attr_translation_key = ("wake_word", "wake_word_n")[index]
        self._attr_translation_placeholders = ({}, {"index": "2"})[index]
        self._attr_options = ["okay_nabu", "no_wake_word"]
        self._attr_current_option = self._attr_options[index]

    @override
    async def async_select_option(self, option: str) -> None:
        """Listen for something else."""
        self._attr_current_option = option
        self.async_write_ha_state()
