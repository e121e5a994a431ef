"""The entities of an engine: which there are, and that Home Assistant can graph them."""

from pytest_homeassistant_custom_component.common import MockConfigEntry

from custom_components.local_llm.sensor import SENSORS
from homeassistant.const import EntityCategory
from homeassistant.core import HomeAssistant
from homeassistant.helpers import entity_registry as er

from .conftest import AddScripted
from .scripted import says

READY = "binary_sensor.local_llm_nano_engine_ready"
OFF_BY_DEFAULT = {
    "prefill_speed",
    "prompt_cache_disk",
    "prompt_cache_prompts",
    "prompts_to_warm",
}


def sensors(hass: HomeAssistant, entry: MockConfigEntry) -> dict[str, er.RegistryEntry]:
    """The sensors of an engine by what they are described with."""
    return {
        entity.unique_id.removeprefix(f"{entry.entry_id}-"): entity
        for entity in er.async_entries_for_config_entry(
            er.async_get(hass), entry.entry_id
        )
        if entity.domain == "sensor"
    }


async def test_sensors_are_diagnostic_and_the_rare_ones_off(
    hass: HomeAssistant, entry: MockConfigEntry
) -> None:
    found = sensors(hass, entry)
    assert set(found) == {description.key for description in SENSORS}
    assert {key for key, entity in found.items() if entity.disabled} == OFF_BY_DEFAULT
    assert {entity.entity_category for entity in found.values()} == {
        EntityCategory.DIAGNOSTIC
    }


async def test_sensors_can_be_graphed_and_have_units(
    hass: HomeAssistant, entry: MockConfigEntry
) -> None:
    for key, entity in sensors(hass, entry).items():
        if key == "last_warm_up" or entity.disabled:
            continue
        attributes = hass.states.get(entity.entity_id).attributes
        assert attributes["state_class"] == "measurement", key
        assert attributes["unit_of_measurement"], key
        assert attributes["friendly_name"].startswith("Local LLM (nano) "), key


async def test_the_engine_is_ready_from_loading_to_its_end(
    hass: HomeAssistant, entry: MockConfigEntry
) -> None:
    assert hass.states.get(READY).state == "on"
    assert hass.states.get(READY).attributes["device_class"] == "running"
    assert await hass.config_entries.async_unload(entry.entry_id)
    assert hass.states.get(READY).state == "unavailable"


async def test_an_engine_that_was_closed_is_not_ready(
    hass: HomeAssistant, scripted: AddScripted
) -> None:
    engine = await scripted(says("Yes."))
    engine.close()
    await hass.services.async_call(
        "button",
        "press",
        {"entity_id": "button.local_llm_nano_warm_up_now"},
        blocking=True,
    )
    await hass.async_block_till_done(wait_background_tasks=True)
    assert hass.states.get(READY).state == "off"
