"""The warm-up where it meets what it did not ask for: no cache, an agent that goes, an engine that closes, a broken API."""

import asyncio
from collections.abc import Callable
import logging
from typing import Any, override
from unittest.mock import patch

import pytest
from pytest_homeassistant_custom_component.common import MockConfigEntry

from custom_components.local_llm.const import DOMAIN
from homeassistant.components import conversation
from homeassistant.core import HomeAssistant
from homeassistant.helpers import llm
from local_llm_engine.errors import EngineClosedError
from local_llm_engine.types import ChatRequest, Usage

from ..conftest import AGENT, AddScripted, ask, speech
from ..house import device_id
from ..scripted import USAGE, HeldWarmUps, ScriptedEngine, says
from .test_warm_up import KITCHEN, SATELLITES, run_now, warm_up


@pytest.fixture
async def engine(scripted: AddScripted) -> ScriptedEngine:
    return await scripted(says("Yes."))


@pytest.fixture
def entry(hass: HomeAssistant, engine: ScriptedEngine) -> MockConfigEntry:
    (entry,) = hass.config_entries.async_entries(DOMAIN)
    return entry


async def test_without_a_prompt_cache_nothing_is_scheduled_and_that_is_told_once(
    hass: HomeAssistant, scripted: AddScripted, caplog: pytest.LogCaptureFixture
) -> None:
    """Every hour all would be read and none of it kept."""
    engine = await scripted(options={}, prompt_cache_gib=0)
    (entry,) = hass.config_entries.async_entries(DOMAIN)
    hass.config_entries.async_update_entry(entry, title="Engine")
    await hass.async_block_till_done(wait_background_tasks=True)
    assert engine.warmed == []
    told = [record for record in caplog.records if "0 GiB" in record.message]
    assert [record.levelno for record in told] == [logging.WARNING]


async def test_an_agent_that_is_removed_during_a_run_leaves_nothing(
    hass: HomeAssistant, engine: ScriptedEngine, entry: MockConfigEntry
) -> None:
    begun, go_on = asyncio.Event(), asyncio.Event()

    async def wait(_: ChatRequest) -> Usage:
        begun.set()
        await go_on.wait()
        return USAGE

    with patch.object(engine, "warm_up", wait):
        hass.config_entries.async_update_entry(entry, options={})
        await begun.wait()
        (agent,) = entry.subentries
        hass.config_entries.async_remove_subentry(entry, agent)
        await hass.async_block_till_done()
        go_on.set()
        await hass.async_block_till_done(wait_background_tasks=True)
    assert await stored_askers(hass, entry) == []


async def stored_askers(hass: HomeAssistant, entry: MockConfigEntry) -> list[Any]:
    """What stays of an entry's prompts once it is unloaded."""
    stored: dict[str, Any] = {}

    async def save(_: object, data: dict[str, Any]) -> None:
        stored.update(data)

    with patch("homeassistant.helpers.storage.Store.async_save", save):
        await hass.config_entries.async_unload(entry.entry_id)
    return [one["asker"] for one in stored["followed"]]


async def test_the_engine_is_closed_before_the_entry_counts_as_unloaded(
    hass: HomeAssistant,
    engine: ScriptedEngine,
    entry: MockConfigEntry,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """However long that takes: a reload would load another into the same memory."""
    closed: list[bool] = []
    entry.async_on_unload(lambda: closed.append(engine.closed))
    held = HeldWarmUps(engine, EngineClosedError("closed"))
    with patch.object(engine, "warm_up", held):
        hass.config_entries.async_update_entry(entry, options={})
        await held.begun.wait()
        await hass.config_entries.async_unload(entry.entry_id)
    assert closed == [True]
    assert len(engine.warmed) == 1
    assert "Could not warm" not in caplog.text


class OddAPI(llm.API):
    """An API that does something odd before it serves a device."""

    def __init__(
        self, hass: HomeAssistant, device_id: str | None, odd: Callable[[], Any]
    ) -> None:
        super().__init__(hass=hass, id="odd", name="Odd")
        self._device_id = device_id
        self._odd = odd

    @override
    async def async_get_api_instance(
        self, llm_context: llm.LLMContext
    ) -> llm.APIInstance:
        if llm_context.device_id == self._device_id:
            await self._odd()
        return llm.APIInstance(
            api=self, api_prompt="Odd.", llm_context=llm_context, tools=[]
        )


async def use_odd_api(
    hass: HomeAssistant,
    entry: MockConfigEntry,
    device_id: str | None,
    odd: Callable[[], Any],
) -> None:
    llm.async_register_api(hass, OddAPI(hass, device_id, odd))
    (agent,) = entry.subentries.values()
    hass.config_entries.async_update_subentry(
        entry, agent, data={**agent.data, "llm_hass_api": ["assist", "odd"]}
    )
    await hass.async_block_till_done()


async def test_an_api_that_breaks_for_one_satellite_leaves_the_others_warm(
    hass: HomeAssistant, engine: ScriptedEngine, entry: MockConfigEntry
) -> None:
    async def odd() -> None:
        raise KeyError("odd")

    kitchen = device_id(hass, "Kitchen Voice")
    await use_odd_api(hass, entry, kitchen, odd)
    warmed = await warm_up(hass)
    assert {prompt["satellite"] for prompt in warmed} == SATELLITES - {KITCHEN} | {None}
    run = await run_now(hass)
    assert (run.num_targets, run.num_warm) == (4, 3)
    answer = speech(await ask(hass, "hello", "Kitchen Voice"))
    assert "cannot use odd of Home Assistant: 'odd'" in answer


async def test_nothing_is_prefetched_once_a_question_has_come(
    hass: HomeAssistant, engine: ScriptedEngine, entry: MockConfigEntry
) -> None:
    """A prompt may take its time to be put together: some APIs ask other machines."""
    begun, go_on = asyncio.Event(), asyncio.Event()

    async def odd() -> None:
        begun.set()
        await go_on.wait()

    answering, answer = asyncio.Event(), asyncio.Event()
    generate = engine.generate

    async def slowly(request: ChatRequest) -> Any:
        answering.set()
        await answer.wait()
        async for delta in generate(request):
            yield delta

    await use_odd_api(hass, entry, None, odd)
    with patch.object(engine, "generate", slowly):
        await conversation.async_prepare_agent(hass, AGENT, "en")
        await begun.wait()
        with patch.object(OddAPI, "async_get_api_instance", plain):
            asked = hass.async_create_task(ask(hass, "hello", "Kitchen Voice"))
            await answering.wait()
        go_on.set()
        for _ in range(9):
            await asyncio.sleep(0)
        answer.set()
        await asked
    await hass.async_block_till_done(wait_background_tasks=True)
    assert engine.warmed == []


async def plain(api: llm.API, llm_context: llm.LLMContext) -> llm.APIInstance:
    """Serve everybody at once."""
    return llm.APIInstance(
        api=api, api_prompt="Odd.", llm_context=llm_context, tools=[]
    )
