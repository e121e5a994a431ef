"""A warm-up after changes: one for a series of them, none without, and no listener left behind."""

from collections.abc import Awaitable, Callable

from freezegun.api import FrozenDateTimeFactory
import pytest

from custom_components.local_llm.const import DOMAIN
from homeassistant.components.assist_pipeline.runtime import KEY_ASSIST_PIPELINE
from homeassistant.core import CoreState, HomeAssistant
from homeassistant.helpers import (
    area_registry as ar,
    device_registry as dr,
    entity_registry as er,
)

from ..conftest import AddScripted, settle
from ..house import area_id, device_id
from .test_warm_up import KITCHEN, SATELLITES


async def renames_area(hass: HomeAssistant) -> None:
    ar.async_get(hass).async_update(area_id(hass, "Kitchen"), name="Cookery")


async def deletes_area(hass: HomeAssistant) -> None:
    ar.async_get(hass).async_delete(area_id(hass, "Kitchen"))


async def takes_out_of_its_room(hass: HomeAssistant) -> None:
    dr.async_get(hass).async_update_device(
        device_id(hass, "Kitchen Voice"), area_id=None
    )


async def removes_device(hass: HomeAssistant) -> None:
    dr.async_get(hass).async_remove_device(device_id(hass, "Kitchen Voice"))


async def renames_satellite(hass: HomeAssistant) -> None:
    er.async_get(hass).async_update_entity(
        KITCHEN, new_entity_id="assist_satellite.cookery"
    )


async def adds_satellite_without_device(hass: HomeAssistant) -> None:
    hass.states.async_set("assist_satellite.stray", "idle")


@pytest.mark.parametrize(
    ("change", "sessions"),
    [
        (renames_area, {*SATELLITES, "no device"}),
        (deletes_area, {*SATELLITES, "no device"}),
        (takes_out_of_its_room, {*SATELLITES, "no device"}),
        (removes_device, {*SATELLITES, "no device"} - {KITCHEN}),
        (
            renames_satellite,
            {*SATELLITES, "no device", "assist_satellite.cookery"} - {KITCHEN},
        ),
        (
            adds_satellite_without_device,
            {*SATELLITES, "no device", "assist_satellite.stray"},
        ),
    ],
)
async def test_a_change_of_satellites_is_warmed_once(
    hass: HomeAssistant,
    scripted: AddScripted,
    freezer: FrozenDateTimeFactory,
    caplog: pytest.LogCaptureFixture,
    change: Callable[[HomeAssistant], Awaitable[None]],
    sessions: set[str],
) -> None:
    freezer.move_to("2026-11-30 14:30:00")
    engine = await scripted(options={})
    await settle(hass, freezer)
    engine.warmed.clear()
    caplog.clear()
    await change(hass)
    for _ in range(3):
        await settle(hass, freezer)
        assert sorted(request.session for request in engine.warmed) == sorted(sessions)
    assert "Could not warm" not in caplog.text
    assert not [record for record in caplog.records if record.exc_info]


async def test_steady_changes_are_warmed_all_the_same(
    hass: HomeAssistant, scripted: AddScripted, freezer: FrozenDateTimeFactory
) -> None:
    freezer.move_to("2026-11-30 14:30:00")
    engine = await scripted(options={})
    await settle(hass, freezer)
    engine.warmed.clear()
    for number in range(31):
        ar.async_get(hass).async_update(area_id(hass, "Kitchen"), aliases={f"{number}"})
        await settle(hass, freezer, 2)
    assert len(engine.warmed) == 4


@pytest.mark.parametrize(
    ("instructions", "num_runs"),
    [
        ("Be {{ states('input_select.mood') }}.", 1),
        ("It is {{ now().strftime('%H:%M') }}.", 3),
        ("Be kind {{ 'and' * 1 }} {{ no_such_thing() }}.", 0),
    ],
    ids=["a state", "a clock", "broken"],
)
async def test_instructions_that_read_differently_are_warmed_now_and_then(
    hass: HomeAssistant,
    scripted: AddScripted,
    freezer: FrozenDateTimeFactory,
    instructions: str,
    num_runs: int,
) -> None:
    """A mood that changes once is read soon; a clock does not keep the engine at work all day."""
    freezer.move_to("2026-11-30 14:06:00")
    hass.states.async_set("input_select.mood", "merry")
    engine = await scripted(options={}, agent={"prompt": instructions})
    await settle(hass, freezer)
    engine.warmed.clear()
    hass.states.async_set("input_select.mood", "sad")
    for _ in range(58):
        await settle(hass, freezer, 60)
    assert len(engine.warmed) == num_runs * 4


async def test_nothing_is_watched_before_the_start_nor_after_the_end(
    hass: HomeAssistant, scripted: AddScripted, freezer: FrozenDateTimeFactory
) -> None:
    freezer.move_to("2026-11-30 14:30:00")
    hass.set_state(CoreState.starting)
    engine = await scripted(options={})
    await takes_out_of_its_room(hass)
    await settle(hass, freezer)
    assert engine.warmed == []
    hass.set_state(CoreState.running)
    hass.bus.async_fire("homeassistant_started")
    await settle(hass, freezer)
    assert len(engine.warmed) == 4
    await deletes_area(hass)
    (entry,) = hass.config_entries.async_entries(DOMAIN)
    await hass.config_entries.async_unload(entry.entry_id)
    await settle(hass, freezer)
    assert len(engine.warmed) == 4


async def test_an_unloaded_entry_leaves_no_listener(
    hass: HomeAssistant, scripted: AddScripted, freezer: FrozenDateTimeFactory
) -> None:
    store = hass.data[KEY_ASSIST_PIPELINE].pipeline_store
    await scripted(options={})
    (entry,) = hass.config_entries.async_entries(DOMAIN)
    left = []
    for _ in range(2):
        await settle(hass, freezer)
        assert await hass.config_entries.async_unload(entry.entry_id)
        await hass.async_block_till_done()
        listeners = hass.bus.async_listeners()
        # A delayed write of somebody's store listens, too.
        listeners.pop("homeassistant_final_write", None)
        left.append((listeners, len(store.change_set_listeners)))
        assert await hass.config_entries.async_setup(entry.entry_id)
        assert len(store.change_set_listeners) == left[-1][1] + 1
    assert left[0] == left[1]
