"""What happens to an engine and its agents while people change, disable, stop and remove things, mid-answer too."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
import shutil
from unittest.mock import patch

import pytest
from pytest_homeassistant_custom_component.common import MockConfigEntry

from custom_components.local_llm.const import DOMAIN
from homeassistant.components import conversation
from homeassistant.components.assist_pipeline import PipelineEvent
from homeassistant.components.assist_pipeline.pipeline import (
    async_get_pipeline,
    async_update_pipeline,
)
from homeassistant.config_entries import ConfigEntryDisabler, ConfigEntryState
from homeassistant.core import Context, HomeAssistant
from homeassistant.helpers import entity_registry as er, issue_registry as ir
from local_llm_engine.builtin import NANO_PATH
from local_llm_engine.errors import OutOfMemoryError
from local_llm_engine.models.decoder import DecoderModel
from local_llm_engine.service import Engine

from .conftest import AGENT, AddEntry, ask, speech
from .pipelines import run_pipeline
from .test_init import engine_threads

TALKATIVE = {"max_tokens": 6_000, "llm_hass_api": []}
STOPPED = "The engine was stopped before the answer was complete."


def spoken(events: list[PipelineEvent]) -> str:
    """What the pipeline would say."""
    (end,) = [event for event in events if event.type == "intent-end"]
    return end.data["intent_output"]["response"]["speech"]["plain"]["speech"]


async def begin_answer(hass: HomeAssistant) -> asyncio.Task[list[PipelineEvent]]:
    """Begin a long answer, and return with its first words."""
    begun = asyncio.Event()

    def on_event(event: PipelineEvent) -> None:
        # The first delta is the role alone, before the engine has begun. The end, too: a test that waits for ever says nothing.
        delta = (event.data or {}).get("chat_log_delta", {})
        if delta.get("content") or event.type == "run-end":
            begun.set()

    task = hass.async_create_task(
        run_pipeline(hass, "Tell me a story", on_event=on_event)
    )
    await begun.wait()
    assert not task.done()
    return task


@pytest.fixture
def endless() -> Iterator[None]:
    """Let no answer end before it is as long as it may be."""
    with patch(
        "local_llm_engine.chat.chat_format._end_token_ids", return_value=frozenset()
    ):
        yield


@pytest.fixture
async def talkative(house: None, add_entry: AddEntry, endless: None) -> MockConfigEntry:
    """An engine whose answers take many seconds."""
    return await add_entry(TALKATIVE)


def assert_no_traceback(caplog: pytest.LogCaptureFixture) -> None:
    assert [record.message for record in caplog.records if record.exc_info] == []
    assert "Traceback" not in caplog.text


async def test_home_assistant_stops_in_the_middle_of_an_answer(
    hass: HomeAssistant,
    talkative: MockConfigEntry,
    caplog: pytest.LogCaptureFixture,
) -> None:
    task = await begin_answer(hass)
    await hass.async_stop(force=True)
    events = await task
    assert events[-1].type == "run-end"
    assert spoken(events) == STOPPED
    assert engine_threads() == []
    assert_no_traceback(caplog)


async def test_an_entry_is_reloaded_in_the_middle_of_an_answer(
    hass: HomeAssistant,
    talkative: MockConfigEntry,
    caplog: pytest.LogCaptureFixture,
) -> None:
    task = await begin_answer(hass)
    hass.config_entries.async_update_entry(
        talkative, data={**talkative.data, "context_length": 4096}
    )
    events = await task
    await hass.async_block_till_done()
    assert spoken(events) == STOPPED
    assert talkative.state is ConfigEntryState.LOADED
    assert talkative.runtime_data.engine.status().context_length == 4096
    assert_no_traceback(caplog)


async def test_an_entry_is_removed_in_the_middle_of_an_answer(
    hass: HomeAssistant,
    talkative: MockConfigEntry,
    caplog: pytest.LogCaptureFixture,
) -> None:
    task = await begin_answer(hass)
    await hass.config_entries.async_remove(talkative.entry_id)
    events = await task
    assert spoken(events) == STOPPED
    assert engine_threads() == []
    assert_no_traceback(caplog)


async def test_an_agents_options_change_in_the_middle_of_its_answer(
    hass: HomeAssistant,
    house: None,
    add_entry: AddEntry,
    endless: None,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The answer is given to its end as it was begun; the next one is asked for as the agent is now."""
    entry = await add_entry({**TALKATIVE, "max_tokens": 800})
    task = await begin_answer(hass)
    (subentry,) = entry.subentries.values()
    hass.config_entries.async_update_subentry(
        entry, subentry, data={**subentry.data, "max_tokens": 16}
    )
    assert (await task)[-1].type == "run-end"
    await hass.async_block_till_done()
    await run_pipeline(hass, "Tell me a story")
    records = entry.runtime_data.engine.status().records
    assert [record.usage.completion_tokens for record in records] == [800, 16]
    assert_no_traceback(caplog)


async def test_a_disabled_entry_is_gone_until_it_is_enabled(
    hass: HomeAssistant, entry: MockConfigEntry
) -> None:
    await hass.config_entries.async_set_disabled_by(
        entry.entry_id, ConfigEntryDisabler.USER
    )
    await hass.async_block_till_done()
    assert engine_threads() == []
    assert entry.state is ConfigEntryState.NOT_LOADED
    await hass.config_entries.async_set_disabled_by(entry.entry_id, None)
    await hass.async_block_till_done()
    assert speech(await ask(hass, "what time is it")) == "It is 14:05."


async def test_a_disabled_agent_is_neither_there_nor_warmed(
    hass: HomeAssistant, entry: MockConfigEntry
) -> None:
    registry = er.async_get(hass)
    registry.async_update_entity(AGENT, disabled_by=er.RegistryEntryDisabler.USER)
    await hass.async_block_till_done()
    assert hass.states.get(AGENT) is None
    assert entry.runtime_data.warm_up.async_targets() == []
    registry.async_update_entity(AGENT, disabled_by=None)
    assert await hass.config_entries.async_reload(entry.entry_id)
    await hass.async_block_till_done()
    assert hass.states.get(AGENT).state == "unknown"
    assert len(entry.runtime_data.warm_up.async_targets()) == 4


async def test_a_renamed_agent_answers_and_is_warmed_by_its_new_name(
    hass: HomeAssistant, entry: MockConfigEntry
) -> None:
    butler = "conversation.butler"
    er.async_get(hass).async_update_entity(AGENT, new_entity_id=butler)
    await hass.async_block_till_done()
    await async_update_pipeline(
        hass, async_get_pipeline(hass), conversation_engine=butler
    )
    assert spoken(await run_pipeline(hass, "what time is it")) == "It is 14:05."
    targets = entry.runtime_data.warm_up.async_targets()
    assert {target.agent_id for target in targets} == {butler}
    assert len(targets) == 4


async def test_a_renamed_satellite_is_warmed_by_its_new_name(
    hass: HomeAssistant, entry: MockConfigEntry
) -> None:
    er.async_get(hass).async_update_entity(
        "assist_satellite.kitchen_voice", new_entity_id="assist_satellite.cook"
    )
    await hass.async_block_till_done()
    satellites = {
        target.speaker.satellite
        for target in entry.runtime_data.warm_up.async_targets()
    }
    assert "assist_satellite.cook" in satellites
    assert "assist_satellite.kitchen_voice" not in satellites


@pytest.fixture
async def two_entries(
    house: None, add_entry: AddEntry, tmp_path: Path
) -> tuple[MockConfigEntry, MockConfigEntry]:
    """The built-in model, and another in a folder."""
    folder = shutil.copytree(NANO_PATH, tmp_path / "other")
    return await add_entry(), await add_entry(model=str(folder))


async def ask_agent(hass: HomeAssistant, agent: str) -> str:
    return speech(
        await conversation.async_converse(
            hass, "what time is it", None, Context(), language="en", agent_id=agent
        )
    )


async def test_two_engines_answer_at_once_and_one_outlives_the_other(
    hass: HomeAssistant, two_entries: tuple[MockConfigEntry, MockConfigEntry]
) -> None:
    agents = sorted(
        entity.entity_id
        for entry in two_entries
        for entity in er.async_entries_for_config_entry(
            er.async_get(hass), entry.entry_id
        )
        if entity.domain == "conversation"
    )
    answers = await asyncio.gather(*(ask_agent(hass, agent) for agent in agents))
    assert answers == ["It is 14:05."] * 2
    for entry in two_entries:
        assert len(entry.runtime_data.engine.status().records) == 2
    await hass.config_entries.async_remove(two_entries[0].entry_id)
    await hass.async_block_till_done()
    assert hass.states.get(agents[0]) is None
    assert await ask_agent(hass, agents[1]) == "It is 14:05."
    assert engine_threads() == ["local_llm_disk", "local_llm_engine"]


def memory_issue(hass: HomeAssistant, entry: MockConfigEntry) -> ir.IssueEntry | None:
    return ir.async_get(hass).async_get_issue(DOMAIN, f"out_of_memory_{entry.entry_id}")


FULL = RuntimeError(
    "DefaultCPUAllocator: can't allocate memory: you tried to allocate 64 bytes."
)


async def test_an_answer_without_memory_raises_an_issue_until_the_next_answer(
    hass: HomeAssistant, entry: MockConfigEntry, caplog: pytest.LogCaptureFixture
) -> None:
    with patch.object(DecoderModel, "forward", side_effect=FULL):
        answer = speech(await ask(hass, "what time is it"))
    assert "no room for this answer" in answer
    await hass.async_block_till_done()
    issue = memory_issue(hass, entry)
    assert issue.translation_key == "out_of_memory"
    assert issue.severity is ir.IssueSeverity.ERROR
    assert issue.translation_placeholders == {
        "title": "Local LLM (nano)",
        "model": "builtin",
        "device": "cpu",
        "context_length": "8192",
        "prompt_cache_gib": "0.0625",
    }
    assert speech(await ask(hass, "what time is it")) == "It is 14:05."
    await hass.async_block_till_done()
    assert memory_issue(hass, entry) is None
    assert_no_traceback(caplog)


async def test_a_model_without_memory_raises_an_issue_until_it_is_loaded(
    hass: HomeAssistant, entry: MockConfigEntry
) -> None:
    with patch.object(Engine, "load", side_effect=OutOfMemoryError("cpu", None)):
        assert not await hass.config_entries.async_reload(entry.entry_id)
    assert entry.error_reason_translation_key == "memory_too_small"
    assert memory_issue(hass, entry) is not None
    assert await hass.config_entries.async_reload(entry.entry_id)
    assert memory_issue(hass, entry) is None


async def test_an_issue_goes_with_its_entry(
    hass: HomeAssistant, entry: MockConfigEntry
) -> None:
    with patch.object(Engine, "load", side_effect=OutOfMemoryError("cpu", None)):
        assert not await hass.config_entries.async_reload(entry.entry_id)
    await hass.config_entries.async_remove(entry.entry_id)
    assert memory_issue(hass, entry) is None
