"""The warm-up: after it, a question costs its own words."""

import asyncio
from dataclasses import replace
from datetime import timedelta
import logging
from unittest.mock import patch

from freezegun.api import FrozenDateTimeFactory
import pytest
from pytest_homeassistant_custom_component.common import (
    MockConfigEntry,
    async_fire_time_changed,
)

from custom_components.local_llm.const import CONF_WARM_UP, DOMAIN
from custom_components.local_llm.warming.results import WarmUpRun
from homeassistant.core import CoreState, HomeAssistant
from homeassistant.exceptions import HomeAssistantError, ServiceValidationError
from homeassistant.helpers import area_registry as ar, entity_registry as er
from homeassistant.util import dt as dt_util
from local_llm_engine.errors import EngineClosedError, GenerationError
from local_llm_engine.types import ChatRequest, Purpose, Usage

from ..conftest import AGENT, AddEntry, AddScripted, ask, settle, speech
from ..house import area_id
from ..scripted import HeldWarmUps, ScriptedEngine

TEMPLATE_TOKENS = 12
KITCHEN = "assist_satellite.kitchen_voice"
FAILURE = "The engine failed while it computed the answer: nan"
SATELLITES = {
    "assist_satellite.bedroom_voice",
    "assist_satellite.kitchen_voice",
    "assist_satellite.office_voice",
}


async def warm_up(hass: HomeAssistant, **data: object) -> list[dict]:
    response = await hass.services.async_call(
        DOMAIN, "warm_up", data, blocking=True, return_response=True
    )
    assert response is not None
    return response["prompts"]


async def run_now(hass: HomeAssistant) -> WarmUpRun:
    (entry,) = hass.config_entries.async_loaded_entries(DOMAIN)
    entry.runtime_data.warm_up.async_run_now()
    await _background(hass)
    run: WarmUpRun | None = entry.runtime_data.warm_up.last_run
    assert run is not None
    return run


class Picky:
    """Stands in for an engine's `warm_up`: fails for one session."""

    def __init__(self, engine: ScriptedEngine, session: str) -> None:
        self._warm_up = engine.warm_up
        self._session = session

    async def __call__(self, request: ChatRequest) -> Usage:
        usage = await self._warm_up(request)
        if request.session == self._session:
            raise GenerationError("nan")
        return usage


async def test_first_question_of_each_satellite_reads_only_its_own_words(
    hass: HomeAssistant, entry: MockConfigEntry
) -> None:
    warmed = await warm_up(hass)
    assert {prompt["satellite"] for prompt in warmed} == {*SATELLITES, None}
    for satellite in ("Kitchen Voice", "Bedroom Voice", "Office Voice", None):
        num_known = len(entry.runtime_data.engine.status().records)
        await ask(hass, "Turn on the Office Floor Lamp", satellite)
        usage = entry.runtime_data.engine.status().records[num_known].usage
        assert usage.question_tokens < usage.reread_tokens
        assert usage.reread_tokens <= usage.question_tokens + TEMPLATE_TOKENS


async def test_without_warm_up_the_second_satellite_reads_its_own_section(
    hass: HomeAssistant, entry: MockConfigEntry
) -> None:
    await ask(hass, "what time is it", "Kitchen Voice")
    num_known = len(entry.runtime_data.engine.status().records)
    await ask(hass, "what time is it", "Bedroom Voice")
    usage = entry.runtime_data.engine.status().records[num_known].usage
    # The section is "You are in area ..." and that there are no timers.
    assert usage.reread_tokens <= 90 + usage.question_tokens + TEMPLATE_TOKENS
    assert usage.reread_tokens < usage.prompt_tokens // 4


async def test_second_warm_up_has_nothing_left_to_read(
    hass: HomeAssistant, entry: MockConfigEntry
) -> None:
    cold = await warm_up(hass)
    warm = await warm_up(hass)
    assert [prompt["prompt_tokens"] for prompt in warm] == [
        prompt["prompt_tokens"] for prompt in cold
    ]
    assert [prompt["reread_tokens"] for prompt in warm] == [0] * 4
    assert [prompt["already_warm"] for prompt in warm] == [True] * 4
    assert cold[0]["reread_tokens"] == cold[0]["prompt_tokens"]
    assert not any(prompt["already_warm"] for prompt in cold)


async def test_tells_what_it_cost(hass: HomeAssistant, scripted: AddScripted) -> None:
    await scripted()
    assert await warm_up(hass, satellite="assist_satellite.kitchen_voice") == [
        {
            "agent": AGENT,
            "satellite": "assist_satellite.kitchen_voice",
            "language": "en",
            "prompt_tokens": 100,
            "reread_tokens": 10,
            "seconds": 0.75,
            "already_warm": False,
        }
    ]


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        ({}, {*SATELLITES, None}),
        ({"no_device": False}, SATELLITES),
        (
            {"satellite": ["assist_satellite.kitchen_voice"]},
            {"assist_satellite.kitchen_voice"},
        ),
        ({"satellite": list(SATELLITES)}, SATELLITES),
        (
            {"satellite": "assist_satellite.kitchen_voice", "no_device": True},
            {"assist_satellite.kitchen_voice", None},
        ),
        ({"satellite": [], "no_device": True}, {None}),
    ],
    ids=["all", "satellites", "one", "several", "one and none", "none"],
)
async def test_warms_whom_it_is_told(
    hass: HomeAssistant, scripted: AddScripted, data: dict, expected: set
) -> None:
    await scripted()
    assert {prompt["satellite"] for prompt in await warm_up(hass, **data)} == expected


async def test_refuses_a_satellite_that_speaks_to_another(
    hass: HomeAssistant, scripted: AddScripted
) -> None:
    await scripted()
    with pytest.raises(ServiceValidationError, match=r"assist_satellite\.porch is not"):
        await warm_up(hass, satellite=["assist_satellite.porch"])


async def test_refuses_without_an_engine(
    hass: HomeAssistant, scripted: AddScripted
) -> None:
    await scripted()
    (entry,) = hass.config_entries.async_entries(DOMAIN)
    await hass.config_entries.async_unload(entry.entry_id)
    with pytest.raises(ServiceValidationError, match="No engine of Local LLM"):
        await warm_up(hass)


async def test_action_tells_of_a_failure(
    hass: HomeAssistant, scripted: AddScripted
) -> None:
    await scripted([GenerationError("nan")])
    with pytest.raises(HomeAssistantError, match="The engine failed"):
        await warm_up(hass)


async def test_runs_after_start_and_hourly_at_five_past(
    hass: HomeAssistant, scripted: AddScripted, freezer: FrozenDateTimeFactory
) -> None:
    freezer.move_to("2026-11-30 14:30:00")
    hass.set_state(CoreState.starting)
    engine = await scripted(options={})
    await _background(hass)
    assert engine.warmed == []
    hass.set_state(CoreState.running)
    hass.bus.async_fire("homeassistant_started")
    await _background(hass)
    assert len(engine.warmed) == 4
    assert {request.purpose for request in engine.warmed} == {Purpose.WARM_UP}
    freezer.move_to("2026-11-30 15:04:58")
    async_fire_time_changed(hass)
    await _background(hass)
    assert len(engine.warmed) == 4
    for _ in range(2):
        freezer.move_to("2026-11-30 15:05:00")
        async_fire_time_changed(hass)
        await _background(hass)
        assert len(engine.warmed) == 8
    freezer.tick(timedelta(hours=1))
    async_fire_time_changed(hass)
    await _background(hass)
    assert len(engine.warmed) == 12


async def test_schedule_can_be_turned_off_and_on(
    hass: HomeAssistant, scripted: AddScripted, freezer: FrozenDateTimeFactory
) -> None:
    engine = await scripted(options={CONF_WARM_UP: False})
    (entry,) = hass.config_entries.async_entries(DOMAIN)
    freezer.move_to("2026-11-30 15:05:00")
    async_fire_time_changed(hass)
    await _background(hass)
    assert engine.warmed == []
    hass.config_entries.async_update_entry(entry, options={CONF_WARM_UP: True})
    await _background(hass)
    assert len(engine.warmed) == 4
    hass.config_entries.async_update_entry(entry, options={CONF_WARM_UP: False})
    freezer.move_to("2026-11-30 16:05:00")
    async_fire_time_changed(hass)
    await _background(hass)
    assert len(engine.warmed) == 4


@pytest.mark.parametrize(
    ("language", "words"),
    [
        ("en", f"{FAILURE}."),
        (
            "de",
            "Beim Berechnen der Antwort ist in der Engine ein Fehler aufgetreten: nan.",
        ),
    ],
)
async def test_a_failure_leaves_the_others_warm(
    hass: HomeAssistant, scripted: AddScripted, language: str, words: str
) -> None:
    hass.config.language = language
    engine = await scripted()
    with patch.object(engine, "warm_up", Picky(engine, KITCHEN)):
        response = await hass.services.async_call(
            DOMAIN, "warm_up", {}, blocking=True, return_response=True
        )
    assert response is not None
    assert {prompt["satellite"] for prompt in response["prompts"]} == (
        SATELLITES - {KITCHEN} | {None}
    )
    assert response["failures"] == [
        {
            "agent": AGENT,
            "satellite": KITCHEN,
            "language": "en",
            "error": words,
        }
    ]


async def test_a_failure_is_told_where_nobody_looks_at_the_response(
    hass: HomeAssistant, scripted: AddScripted
) -> None:
    engine = await scripted()
    with (
        patch.object(engine, "warm_up", Picky(engine, KITCHEN)),
        pytest.raises(HomeAssistantError, match="The engine failed"),
    ):
        await hass.services.async_call(DOMAIN, "warm_up", {}, blocking=True)
    assert len(engine.warmed) == 4


async def test_a_lasting_failure_is_logged_once(
    hass: HomeAssistant,
    scripted: AddScripted,
    freezer: FrozenDateTimeFactory,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, "custom_components.local_llm")
    freezer.move_to("2026-11-30 14:30:00")
    engine = await scripted(options={})
    await settle(hass, freezer)
    engine.warmed.clear()
    with patch.object(engine, "warm_up", Picky(engine, KITCHEN)):
        for _ in range(2):
            freezer.tick(timedelta(hours=1))
            async_fire_time_changed(hass)
            await _background(hass)
    assert len(engine.warmed) == 8
    freezer.tick(timedelta(hours=1))
    async_fire_time_changed(hass)
    await _background(hass)
    told = [
        (record.levelno, record.message)
        for record in caplog.records
        if KITCHEN in record.message
    ]
    assert told == [
        (
            logging.WARNING,
            f"Could not warm the prompt of {KITCHEN} ({AGENT}, en): {FAILURE}",
        ),
        (logging.INFO, f"The prompt of {KITCHEN} ({AGENT}, en) no longer fails"),
    ]


async def test_tells_what_the_last_run_found(
    hass: HomeAssistant, scripted: AddScripted, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "custom_components.local_llm")
    engine = await scripted()
    runtime = hass.config_entries.async_entries(DOMAIN)[0].runtime_data
    seen: list[WarmUpRun | None] = []
    stop = runtime.warm_up.async_add_listener(
        lambda: seen.append(runtime.warm_up.last_run)
    )
    assert runtime.warm_up.last_run is None
    run = await run_now(hass)
    assert run == WarmUpRun(
        ended_at=dt_util.utcnow(),
        num_targets=4,
        num_warm=4,
        num_skipped=0,
        reread_tokens=40,
        seconds=3.0,
    )
    assert (
        "Of 4 prompts 4 are warm, 0 of them already were; read 40 tokens in 3.0 s"
    ) in caplog.text
    with patch.object(engine, "warm_up", Picky(engine, KITCHEN)):
        await run_now(hass)
    assert seen == [run, replace(run, num_warm=3, reread_tokens=30, seconds=2.25)]
    stop()
    await run_now(hass)
    assert len(seen) == 2
    assert runtime.warm_up.last_run == run


async def test_skips_what_is_warm_and_says_so(
    hass: HomeAssistant, entry: MockConfigEntry
) -> None:
    """The engine is asked: what it still knows is not read, what it lost is."""
    run = await run_now(hass)
    assert (run.num_warm, run.num_skipped) == (4, 0)
    assert run.reread_tokens > 0
    ar.async_get(hass).async_update(area_id(hass, "Kitchen"), aliases={"Cookery"})
    await warm_up(hass, satellite=KITCHEN)
    run = await run_now(hass)
    assert (run.num_warm, run.num_skipped) == (4, 1)
    again = await run_now(hass)
    assert (again.num_warm, again.num_skipped, again.reread_tokens) == (4, 4, 0)


async def test_a_prompt_that_is_not_kept_is_not_warm(
    hass: HomeAssistant, add_entry: AddEntry, house: None
) -> None:
    """The engine reads it, and has no room for it: the next question would read it again."""
    await add_entry(prompt_cache_gib=2**-13, disk_cache_gib=0)
    with pytest.raises(HomeAssistantError, match="no room for this prompt"):
        await warm_up(hass)
    run = await run_now(hass)
    assert (run.num_targets, run.num_warm, run.reread_tokens) == (4, 0, 0)


async def test_reads_the_new_date_line_just_after_midnight(
    hass: HomeAssistant, scripted: AddScripted, freezer: FrozenDateTimeFactory
) -> None:
    await hass.config.async_set_time_zone("Europe/Berlin")
    freezer.move_to("2026-11-30 22:30:00+00:00")
    engine = await scripted(options={})
    await settle(hass, freezer)
    engine.warmed.clear()
    freezer.move_to("2026-11-30 23:00:09+00:00")
    async_fire_time_changed(hass)
    await _background(hass)
    assert engine.warmed == []
    freezer.tick(timedelta(seconds=2))
    async_fire_time_changed(hass)
    await _background(hass)
    texts = [request.messages[0].text for request in engine.warmed]
    assert ["Tuesday, 1 December" in text for text in texts] == [True] * 4


async def test_an_unfinished_run_is_not_begun_again(
    hass: HomeAssistant, scripted: AddScripted, freezer: FrozenDateTimeFactory
) -> None:
    engine = await scripted()
    (entry,) = hass.config_entries.async_entries(DOMAIN)
    held = HeldWarmUps(engine, GenerationError("stopped"))
    with patch.object(engine, "warm_up", held):
        hass.config_entries.async_update_entry(entry, options={})
        await held.begun.wait()
        freezer.move_to("2026-11-30 15:05:00")
        async_fire_time_changed(hass)
        await hass.async_block_till_done()
        assert len(engine.warmed) == 1
        held.go_on.set()
        await _background(hass)
    assert len(engine.warmed) == 4


async def test_settings_changed_during_a_run_are_warmed_after_it(
    hass: HomeAssistant, scripted: AddScripted
) -> None:
    """Not an hour later: people change instructions just when the run after the start is at work."""
    engine = await scripted()
    (entry,) = hass.config_entries.async_entries(DOMAIN)
    (agent,) = entry.subentries.values()
    held = HeldWarmUps(engine, GenerationError("stopped"))
    with patch.object(engine, "warm_up", held):
        hass.config_entries.async_update_entry(entry, options={})
        await held.begun.wait()
        for prompt in ("You are a butler.", "You are a pirate."):
            hass.config_entries.async_update_subentry(
                entry, agent, data={**agent.data, "prompt": prompt}
            )
            await hass.async_block_till_done()
        held.go_on.set()
        await _background(hass)
    texts = [request.messages[0].text for request in engine.warmed]
    assert ["pirate" in text for text in texts] == [False] * 4 + [True] * 4


async def test_actions_that_outlive_their_entry_say_so(
    hass: HomeAssistant, scripted: AddScripted
) -> None:
    """The one at work and the one that waits behind it."""
    engine = await scripted()
    (entry,) = hass.config_entries.async_entries(DOMAIN)
    held = HeldWarmUps(engine, EngineClosedError("closed"))
    with patch.object(engine, "warm_up", held):
        actions = [hass.async_create_task(warm_up(hass)) for _ in range(2)]
        await held.begun.wait()
        await hass.config_entries.async_unload(entry.entry_id)
        held.go_on.set()
        errors = await asyncio.gather(*actions, return_exceptions=True)
    assert [type(error) for error in errors] == [HomeAssistantError] * 2
    keys = [getattr(error, "translation_key", None) for error in errors]
    assert keys == ["engine_closed"] * 2


async def test_a_run_ends_with_its_entry(
    hass: HomeAssistant, scripted: AddScripted
) -> None:
    engine = await scripted()
    (entry,) = hass.config_entries.async_entries(DOMAIN)
    begun, ended = asyncio.Event(), asyncio.Event()

    async def wait(request: object) -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    with patch.object(engine, "warm_up", wait):
        hass.config_entries.async_update_entry(entry, options={})
        await begun.wait()
        await hass.config_entries.async_unload(entry.entry_id)
    assert ended.is_set()
    assert engine.closed


async def test_a_disabled_agent_stays_cold(
    hass: HomeAssistant, scripted: AddScripted
) -> None:
    await scripted()
    er.async_get(hass).async_update_entity(
        AGENT, disabled_by=er.RegistryEntryDisabler.USER
    )
    assert await warm_up(hass) == []


async def test_answers_during_a_warm_up_are_those_without(
    hass: HomeAssistant, entry: MockConfigEntry
) -> None:
    answers = await asyncio.gather(
        ask(hass, "Turn on the Office Floor Lamp", "Kitchen Voice"),
        warm_up(hass),
        ask(hass, "what time is it", "Bedroom Voice"),
    )
    assert speech(answers[0]) == "Turned on the Office Floor Lamp."
    assert speech(answers[2]) == "It is 14:05."
    lit = {
        state.name for state in hass.states.async_all("light") if state.state == "on"
    }
    assert lit == {"Office Floor Lamp"}


async def _background(hass: HomeAssistant) -> None:
    await hass.async_block_till_done(wait_background_tasks=True)
