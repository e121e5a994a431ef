"""The button of an engine."""

from pytest_homeassistant_custom_component.common import MockConfigEntry

from homeassistant.components.button import DOMAIN as BUTTON_DOMAIN, SERVICE_PRESS
from homeassistant.core import HomeAssistant

from .conftest import AddScripted
from .scripted import says
from .warming.test_warm_up import SATELLITES

WARM_UP_NOW = "button.local_llm_nano_warm_up_now"


async def press(hass: HomeAssistant) -> None:
    await hass.services.async_call(
        BUTTON_DOMAIN, SERVICE_PRESS, {"entity_id": WARM_UP_NOW}, blocking=True
    )


async def test_warms_every_prompt_in_the_background(
    hass: HomeAssistant, scripted: AddScripted
) -> None:
    engine = await scripted(says("Yes."))
    await press(hass)
    assert engine.warmed == []
    await hass.async_block_till_done(wait_background_tasks=True)
    assert {request.session for request in engine.warmed} == {*SATELLITES, "no device"}


async def test_is_gone_with_its_entry(
    hass: HomeAssistant, entry: MockConfigEntry
) -> None:
    assert await hass.config_entries.async_unload(entry.entry_id)
    assert hass.states.get(WARM_UP_NOW).state == "unavailable"
