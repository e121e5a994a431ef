"""The promise as people meet it: through Home Assistant's own assistant, a warm satellite's question costs its own words."""

import asyncio
from collections.abc import Awaitable, Callable

from freezegun.api import FrozenDateTimeFactory
import pytest
from pytest_homeassistant_custom_component.common import (
    MockConfigEntry,
    async_test_home_assistant,
    mock_config_flow,
)

from custom_components.local_llm.const import DOMAIN
from homeassistant.components.assist_pipeline.pipeline import (
    async_get_pipeline,
    async_update_pipeline,
)
from homeassistant.components.intent import async_device_supports_timers
from homeassistant.config_entries import ConfigEntry, ConfigFlow, ConfigSubentryData
from homeassistant.core import HomeAssistant
from homeassistant.helpers import area_registry as ar
from homeassistant.loader import DATA_CUSTOM_COMPONENTS
from homeassistant.setup import async_setup_component
from local_llm_engine.service import Engine
from local_llm_engine.types import CallRecord, Purpose, Usage

from .conftest import AGENT, AddEntry, settle
from .house import HOUSE, area_id, async_move_in, device_id
from .pipelines import run_pipeline
from .warming.test_warm_up import TEMPLATE_TOKENS

SATELLITES = ("Kitchen Voice", "Bedroom Voice", "Office Voice")
QUESTION = "Turn on the Office Floor Lamp"


def records(hass: HomeAssistant) -> tuple[CallRecord, ...]:
    (entry,) = hass.config_entries.async_entries(DOMAIN)
    return entry.runtime_data.engine.status().records


async def ask_pipeline(hass: HomeAssistant, satellite: str) -> Usage:
    """Ask as a satellite whose words were just understood, and return what its first request cost."""
    num_known = len(records(hass))
    events = await run_pipeline(hass, QUESTION, satellite)
    assert [event.type for event in events][-2:] == ["intent-end", "run-end"]
    first = records(hass)[num_known]
    assert first.purpose is Purpose.VOICE
    return first.usage


async def assert_all_are_warm(hass: HomeAssistant) -> None:
    for satellite in SATELLITES:
        usage = await ask_pipeline(hass, satellite)
        assert 0 < usage.question_tokens < usage.reread_tokens
        assert usage.reread_tokens <= usage.question_tokens + TEMPLATE_TOKENS


@pytest.fixture
async def entry(
    hass: HomeAssistant,
    add_entry: AddEntry,
    house: None,
    freezer: FrozenDateTimeFactory,
) -> MockConfigEntry:
    """Load the real engine and let everything become warm by itself."""
    entry = await add_entry(options={})
    await settle(hass, freezer)
    return entry


async def test_after_the_start(hass: HomeAssistant, entry: MockConfigEntry) -> None:
    assert [
        async_device_supports_timers(hass, device_id(hass, satellite))
        for satellite in SATELLITES
    ] == [True, False, True]
    await assert_all_are_warm(hass)


async def test_after_midnight(
    hass: HomeAssistant, entry: MockConfigEntry, freezer: FrozenDateTimeFactory
) -> None:
    warm = await ask_pipeline(hass, "Office Voice")
    freezer.move_to("2026-12-01 00:00:05")
    cold = await ask_pipeline(hass, "Office Voice")
    assert cold.reread_tokens > warm.reread_tokens
    await settle(hass, freezer)
    await assert_all_are_warm(hass)


async def test_after_the_entry_was_loaded_again(
    hass: HomeAssistant, entry: MockConfigEntry, freezer: FrozenDateTimeFactory
) -> None:
    """What was warm before comes back from disk."""
    await hass.config_entries.async_reload(entry.entry_id)
    await settle(hass, freezer)
    assert {record.resumed_from for record in records(hass)} == {"disk"}
    assert entry.runtime_data.warm_up.last_run.num_skipped == 4
    await assert_all_are_warm(hass)


async def _rename(hass: HomeAssistant) -> None:
    ar.async_get(hass).async_update(area_id(hass, "Kitchen"), name="Cookery")


async def _add_an_alias(hass: HomeAssistant) -> None:
    ar.async_get(hass).async_update(area_id(hass, "Bedroom"), aliases={"Chamber"})


@pytest.mark.parametrize("change", [_rename, _add_an_alias])
async def test_after_a_room_was_renamed(
    hass: HomeAssistant,
    entry: MockConfigEntry,
    freezer: FrozenDateTimeFactory,
    change: Callable[[HomeAssistant], Awaitable[None]],
) -> None:
    await change(hass)
    usage = await ask_pipeline(hass, "Office Voice")
    assert usage.reread_tokens > usage.question_tokens + TEMPLATE_TOKENS
    await settle(hass, freezer)
    await assert_all_are_warm(hass)


async def test_after_a_restart_of_home_assistant(
    hass: HomeAssistant, entry: MockConfigEntry, freezer: FrozenDateTimeFactory
) -> None:
    """Another Home Assistant on the same folder, with devices and areas of other ids."""
    await hass.config_entries.async_unload(entry.entry_id)
    async with async_test_home_assistant(config_dir=hass.config.config_dir) as again:
        again.data.pop(DATA_CUSTOM_COMPONENTS)
        await again.config.async_set_time_zone("UTC")
        for component in ("homeassistant", "conversation", "intent", "assist_pipeline"):
            assert await async_setup_component(again, component, {})
        with mock_config_flow(HOUSE, ConfigFlow):
            await async_move_in(again)
            assert device_id(again, SATELLITES[0]) != device_id(hass, SATELLITES[0])
            await _load_again(again, entry)
            await settle(again, freezer)
            await assert_all_are_warm(again)
        first = records(again)[0]
        assert (first.purpose, first.resumed_from) == (Purpose.WARM_UP, "disk")
        await again.async_stop(force=True)


async def _load_again(hass: HomeAssistant, before: ConfigEntry) -> None:
    (agent,) = before.subentries.values()
    entry = MockConfigEntry(
        domain=DOMAIN,
        entry_id=before.entry_id,
        title=before.title,
        data=before.data,
        options={},
        subentries_data=[
            ConfigSubentryData(
                subentry_type=agent.subentry_type,
                data=agent.data,
                title=agent.title,
                unique_id=None,
            )
        ],
    )
    entry.add_to_hass(hass)
    assert await hass.config_entries.async_setup(entry.entry_id)
    await async_update_pipeline(
        hass,
        async_get_pipeline(hass),
        conversation_engine=AGENT,
        conversation_language="en",
    )


async def _until_active(engine: Engine) -> None:
    while True:
        if engine.status().active_requests:
            return
        # The clock stands still, so nothing can be slept through.
        await asyncio.sleep(0)


async def test_a_question_does_not_wait_for_a_warm_up(
    hass: HomeAssistant, house: None, add_entry: AddEntry
) -> None:
    """A long prompt is being read; the question is asked after that began and answered before it ends."""
    for number in range(150):
        hass.states.async_set(f"light.stable_{number}", "off")
    entry = await add_entry()
    engine = entry.runtime_data.engine
    entry.runtime_data.warm_up.async_run_now()
    await _until_active(engine)
    await ask_pipeline(hass, "Kitchen Voice")
    assert {record.purpose for record in records(hass)} == {Purpose.VOICE}
    await hass.async_block_till_done(wait_background_tasks=True)
    assert entry.runtime_data.warm_up.last_run.num_warm == 4
    await assert_all_are_warm(hass)
