"""What an engine tells of its requests: events for automations, and sensors that follow without polling."""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
import gc
import json
import threading

from freezegun.api import FrozenDateTimeFactory
import pytest
from pytest_homeassistant_custom_component.common import (
    MockConfigEntry,
    async_capture_events,
    async_fire_time_changed,
)

from custom_components.local_llm.const import DOMAIN, EVENT_REQUEST
from custom_components.local_llm.insight import decode_speed, prefill_speed
from homeassistant.core import HomeAssistant
from homeassistant.helpers import entity_registry as er
from homeassistant.helpers.json import json_bytes
from local_llm_engine.types import Purpose, Usage

from .conftest import AddScripted, ask
from .scripted import RECORD, USAGE, ScriptedEngine, says
from .warming.test_warm_up import warm_up

PREFIX = "sensor.local_llm_nano_"


def state(hass: HomeAssistant, sensor: str) -> str:
    return hass.states.get(f"{PREFIX}{sensor}").state


@pytest.fixture
async def engine(scripted: AddScripted, hass: HomeAssistant) -> ScriptedEngine:
    """An engine with every sensor, those that are off by default, too."""
    engine = await scripted(says("Yes."))
    (entry,) = hass.config_entries.async_entries(DOMAIN)
    registry = er.async_get(hass)
    for entity in er.async_entries_for_config_entry(registry, entry.entry_id):
        registry.async_update_entity(entity.entity_id, disabled_by=None)
    await hass.config_entries.async_reload(entry.entry_id)
    await hass.async_block_till_done()
    return engine


def usage(prompt_tokens: int, reused_tokens: int) -> Usage:
    return replace(
        USAGE,
        prompt_tokens=prompt_tokens,
        reused_tokens=reused_tokens,
        reread_tokens=prompt_tokens - reused_tokens,
    )


async def test_every_request_is_an_event(
    hass: HomeAssistant, entry: MockConfigEntry
) -> None:
    events = async_capture_events(hass, EVENT_REQUEST)
    await warm_up(hass, satellite="assist_satellite.kitchen_voice")
    await ask(hass, "Turn on the Office Floor Lamp", "Kitchen Voice")
    await hass.async_block_till_done()
    warmed, call, answer = [event.data for event in events]
    assert warmed["purpose"] == "warm_up"
    assert warmed["finish"] == "warmed_up"
    assert call["session"] == answer["session"] == "assist_satellite.kitchen_voice"
    assert call["entry_id"] == entry.entry_id
    assert call["reread_tokens"] + call["reused_tokens"] == call["prompt_tokens"]
    assert call["outcome"] == "continued"
    told = json.loads(json_bytes(events[1].data))
    assert {"ended_at", "resumed_from", "divergence_segment", "queue_seconds"} <= set(
        told
    )
    assert not [name for name, value in told.items() if isinstance(value, dict)]
    assert "Lamp" not in json.dumps(told)


async def test_sensors_know_nothing_before_the_first_question(
    hass: HomeAssistant, engine: ScriptedEngine
) -> None:
    for sensor in (
        "tokens_read_again",
        "tokens_reused",
        "time_to_first_token",
        "answering_speed",
        "reading_speed",
        "hit_rate_of_the_last_day",
        "last_warm_up",
        "warm_prompts",
        "prompts_to_keep_warm",
    ):
        assert state(hass, sensor) == "unknown", sensor
    assert state(hass, "prompt_cache_in_memory") == "0.0"
    assert state(hass, "prompt_cache_on_disk") == "0.0"
    assert state(hass, "prompts_in_the_cache") == "0"


async def test_sensors_follow_the_last_spoken_request(
    hass: HomeAssistant, engine: ScriptedEngine
) -> None:
    engine.tell(RECORD)
    await hass.async_block_till_done()
    assert state(hass, "tokens_read_again") == "10"
    assert state(hass, "tokens_reused") == "90"
    assert state(hass, "time_to_first_token") == "0.75"
    assert state(hass, "answering_speed") == "3.0"
    assert state(hass, "reading_speed") == "20.0"
    assert state(hass, "hit_rate_of_the_last_day") == "90.0"


@pytest.mark.parametrize(
    "changes",
    [
        {"purpose": Purpose.WARM_UP, "finish": "warmed_up"},
        {"purpose": Purpose.BACKGROUND},
        {"finish": "cancelled"},
        {"finish": "error"},
    ],
    ids=["warm-up", "background", "cancelled", "failed"],
)
async def test_what_was_not_spoken_and_answered_is_no_news_of_questions(
    hass: HomeAssistant, engine: ScriptedEngine, changes: dict
) -> None:
    events = async_capture_events(hass, EVENT_REQUEST)
    engine.tell(replace(RECORD, **changes))
    await hass.async_block_till_done()
    assert len(events) == 1
    assert state(hass, "tokens_read_again") == "unknown"
    assert state(hass, "hit_rate_of_the_last_day") == "unknown"


async def test_the_hit_rate_is_that_of_all_tokens_in_the_last_24_hours(
    hass: HomeAssistant, scripted: AddScripted, freezer: FrozenDateTimeFactory
) -> None:
    """100 cold tokens, then 300 of which 290 are reused; a day later only these count, then nothing."""
    engine = await scripted(says("Yes."))
    engine.tell(replace(RECORD, usage=usage(100, 0)))
    await hass.async_block_till_done()
    assert state(hass, "hit_rate_of_the_last_day") == "0.0"
    freezer.tick(timedelta(hours=12))
    engine.tell(replace(RECORD, usage=usage(300, 290)))
    await hass.async_block_till_done()
    assert float(state(hass, "hit_rate_of_the_last_day")) == 72.5
    freezer.tick(timedelta(hours=12, minutes=1))
    async_fire_time_changed(hass)
    await hass.async_block_till_done()
    assert float(state(hass, "hit_rate_of_the_last_day")) == pytest.approx(96.67, 1e-3)
    freezer.tick(timedelta(hours=12))
    async_fire_time_changed(hass)
    await hass.async_block_till_done()
    assert state(hass, "hit_rate_of_the_last_day") == "unknown"


async def test_a_run_over_all_prompts_is_news(
    hass: HomeAssistant, engine: ScriptedEngine
) -> None:
    (entry,) = hass.config_entries.async_entries(DOMAIN)
    entry.runtime_data.warm_up.async_run_now()
    await hass.async_block_till_done(wait_background_tasks=True)
    assert state(hass, "last_warm_up") == "2026-11-30T14:05:00+00:00"
    assert state(hass, "warm_prompts") == "4"
    assert state(hass, "prompts_to_keep_warm") == "4"


async def test_sizes_of_the_cache_follow_the_engine(
    hass: HomeAssistant, entry: MockConfigEntry
) -> None:
    assert state(hass, "prompt_cache_in_memory") == "0.0"
    await ask(hass, "what time is it", "Kitchen Voice")
    await hass.async_block_till_done()
    status = entry.runtime_data.engine.status()
    assert float(state(hass, "prompt_cache_in_memory")) == pytest.approx(
        status.prompt_cache_bytes / 1024**2, 1e-6
    )


async def test_a_record_from_the_engines_thread_arrives_on_the_loop(
    hass: HomeAssistant, engine: ScriptedEngine
) -> None:
    events = async_capture_events(hass, EVENT_REQUEST)
    thread = threading.Thread(target=engine.tell, args=(RECORD,))
    thread.start()
    thread.join()
    await hass.async_block_till_done()
    assert len(events) == 1


async def test_a_late_record_of_an_unloaded_entry_is_dropped(
    hass: HomeAssistant, engine: ScriptedEngine
) -> None:
    events = async_capture_events(hass, EVENT_REQUEST)
    (entry,) = hass.config_entries.async_entries(DOMAIN)
    listeners = list(engine.listeners)
    assert await hass.config_entries.async_unload(entry.entry_id)
    for listener in listeners:
        listener(RECORD)
    await hass.async_block_till_done()
    assert events == []
    assert engine.listeners == []


async def test_after_a_reload_nothing_is_known_of_before(
    hass: HomeAssistant, engine: ScriptedEngine
) -> None:
    engine.tell(RECORD)
    await hass.async_block_till_done()
    (entry,) = hass.config_entries.async_entries(DOMAIN)
    assert await hass.config_entries.async_reload(entry.entry_id)
    await hass.async_block_till_done()
    assert state(hass, "tokens_read_again") == "unknown"
    engine.tell(RECORD)
    await hass.async_block_till_done()
    assert state(hass, "tokens_read_again") == "10"


@pytest.mark.parametrize("speed", [decode_speed, prefill_speed])
def test_nothing_read_or_said_has_no_speed(
    speed: Callable[[Usage], float | None],
) -> None:
    nothing = replace(USAGE, completion_tokens=0, reread_tokens=0)
    at_once = replace(USAGE, decode_seconds=0.0, prefill_seconds=0.0)
    assert speed(nothing) is None
    assert speed(at_once) is None


async def test_older_days_are_forgotten_where_no_sensor_looks(
    hass: HomeAssistant, scripted: AddScripted, freezer: FrozenDateTimeFactory
) -> None:
    engine = await scripted(says("Yes."))
    (entry,) = hass.config_entries.async_entries(DOMAIN)
    registry = er.async_get(hass)
    for entity in er.async_entries_for_config_entry(registry, entry.entry_id):
        if entity.domain == "sensor":
            registry.async_update_entity(
                entity.entity_id, disabled_by=er.RegistryEntryDisabler.USER
            )
    await hass.config_entries.async_reload(entry.entry_id)
    await hass.async_block_till_done()
    for _ in range(3):
        engine.tell(replace(RECORD, usage=usage(77_777, 7)))
        await hass.async_block_till_done()
        freezer.tick(timedelta(hours=25))
    engine.tell(replace(RECORD, usage=usage(5, 1)))
    await hass.async_block_till_done()
    kept = [thing for thing in gc.get_objects() if isinstance(thing, Usage)]
    assert not [thing for thing in kept if thing.prompt_tokens == 77_777]
