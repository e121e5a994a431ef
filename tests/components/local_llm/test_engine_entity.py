"""The device of an engine: what hangs on it, and what it is called."""

from pytest_homeassistant_custom_component.common import MockConfigEntry

from custom_components.local_llm.const import DOMAIN
from homeassistant.core import HomeAssistant
from homeassistant.helpers import device_registry as dr, entity_registry as er

from .conftest import AGENT
from .test_button import WARM_UP_NOW


def engine_device(hass: HomeAssistant, entry: MockConfigEntry) -> dr.DeviceEntry:
    device = dr.async_get(hass).async_get_device_by_identifier(
        (DOMAIN, entry.entry_id), config_entry_id=entry.entry_id
    )
    assert device is not None
    return device


def device_of(hass: HomeAssistant, entity_id: str) -> dr.DeviceEntry:
    entity = er.async_get(hass).async_get(entity_id)
    return dr.async_get(hass).async_get(entity.device_id)


async def test_agents_are_reached_through_the_engine(
    hass: HomeAssistant, entry: MockConfigEntry
) -> None:
    engine = engine_device(hass, entry)
    assert engine.name == "Local LLM (nano)"
    assert engine.model == "nano"
    assert engine.entry_type is dr.DeviceEntryType.SERVICE
    assert device_of(hass, WARM_UP_NOW) == engine
    assert device_of(hass, AGENT).via_device_id == engine.id


async def test_the_engines_device_is_called_as_its_entry(
    hass: HomeAssistant, entry: MockConfigEntry
) -> None:
    hass.config_entries.async_update_entry(entry, title="Butler")
    await hass.async_block_till_done()
    assert engine_device(hass, entry).name == "Butler"
