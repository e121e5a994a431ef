"""Prompts from one to the next: a line that changes again and again is told, and taken back when it keeps still."""

from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any
from unittest.mock import patch

from freezegun.api import FrozenDateTimeFactory
import pytest
from pytest_homeassistant_custom_component.common import MockConfigEntry

from custom_components.local_llm.const import DOMAIN
from custom_components.local_llm.prompts.history import Asker
from homeassistant.core import HomeAssistant
from homeassistant.helpers import (
    area_registry as ar,
    entity_registry as er,
    issue_registry as ir,
    llm,
)
from local_llm_engine.errors import EngineClosedError

from ..conftest import AGENT, AddScripted, ask
from ..scripted import ScriptedEngine, says

ISSUE = f"restless_prompt_{AGENT}"


@pytest.fixture
async def engine(scripted: AddScripted) -> ScriptedEngine:
    return await scripted(says("Yes."))


@pytest.fixture
def entry(hass: HomeAssistant, engine: ScriptedEngine) -> MockConfigEntry:
    (entry,) = hass.config_entries.async_entries(DOMAIN)
    return entry


type Warm = Callable[[], Awaitable[None]]


@pytest.fixture
def warm(
    hass: HomeAssistant, entry: MockConfigEntry, freezer: FrozenDateTimeFactory
) -> Warm:
    """Warm everything an hour later."""

    async def warm() -> None:
        freezer.tick(timedelta(hours=1))
        await hass.services.async_call(DOMAIN, "warm_up", {}, blocking=True)

    return warm


def issue(hass: HomeAssistant) -> ir.IssueEntry | None:
    return ir.async_get(hass).async_get_issue(DOMAIN, ISSUE)


def rename(hass: HomeAssistant, name: str) -> None:
    er.async_get(hass).async_update_entity("light.office_floor_lamp", name=name)


async def rename_hourly(
    hass: HomeAssistant, warm: Warm, numbers: range = range(4)
) -> None:
    """Warm up, rename a lamp, warm up, and so on."""
    for number in numbers:
        rename(hass, f"Lamp {number}")
        await hass.async_block_till_done()
        await warm()


async def test_an_entity_that_is_renamed_again_and_again_is_told(
    hass: HomeAssistant, warm: Warm, engine: ScriptedEngine
) -> None:
    await rename_hourly(hass, warm, range(3))
    assert issue(hass) is None
    await rename_hourly(hass, warm, range(3, 4))
    told = issue(hass)
    assert told is not None
    assert told.translation_key == "restless_house"
    assert told.is_fixable
    assert not told.is_persistent
    filled = told.translation_placeholders
    assert filled is not None
    assert filled["agent"] == "Local LLM"
    # Home Assistant 2026.11 puts a device's name before its entity's.
    assert filled["line"].startswith("- names: ")
    assert filled["line"].endswith("Lamp 3")
    assert filled["changes"] == "3"
    text = engine.warmed[-1].messages[0].text
    tokens = len(text) - text.index(filled["line"])
    assert filled["cost"].startswith(f"Each time, {tokens} tokens are read again")
    assert len(ir.async_get(hass).issues) == 1


async def test_questions_are_watched_like_warm_ups(
    hass: HomeAssistant, entry: MockConfigEntry, freezer: FrozenDateTimeFactory
) -> None:
    for number in range(4):
        rename(hass, f"Lamp {number}")
        await hass.async_block_till_done()
        freezer.tick(timedelta(minutes=10))
        await ask(hass, "hello", "Kitchen Voice")
        await hass.async_block_till_done(wait_background_tasks=True)
    assert issue(hass) is not None


async def test_a_conversation_that_goes_on_with_its_prompt_is_no_change(
    hass: HomeAssistant, entry: MockConfigEntry, warm: Warm
) -> None:
    first = await ask(hass, "hello", "Kitchen Voice")
    rename(hass, "Another Lamp")
    await hass.async_block_till_done()
    for _ in range(4):
        await warm()
        await ask(hass, "again", "Kitchen Voice", conversation_id=first.conversation_id)
        await hass.async_block_till_done(wait_background_tasks=True)
    assert issue(hass) is None


async def test_a_script_whose_description_has_a_clock_is_told(
    hass: HomeAssistant, warm: Warm, engine: ScriptedEngine
) -> None:
    class ClockAPI(llm.API):
        async def async_get_api_instance(
            self, llm_context: llm.LLMContext
        ) -> llm.APIInstance:
            tool = llm.Tool()
            tool.name = "script__clean"
            tool.integration = "script"
            tool.description = f"Cleans.\nIt is {len(engine.warmed)}."
            return llm.APIInstance(
                api=self, api_prompt="", llm_context=llm_context, tools=[tool]
            )

    llm.async_register_api(hass, ClockAPI(hass=hass, id="clock", name="Clock"))
    (entry,) = hass.config_entries.async_entries(DOMAIN)
    (agent,) = entry.subentries.values()
    hass.config_entries.async_update_subentry(
        entry, agent, data={**agent.data, "llm_hass_api": ["clock"]}
    )
    await hass.async_block_till_done()
    for _ in range(4):
        await warm()
    told = issue(hass)
    assert told is not None
    assert told.translation_key == "restless_tools"
    assert told.translation_placeholders
    assert told.translation_placeholders["line"].startswith("It is 1")
    tokens = 100 + len(engine.warmed[-1].messages[0].text)
    assert f"{tokens} tokens" in told.translation_placeholders["cost"]


async def test_instructions_that_were_saved_all_the_same_are_told(
    hass: HomeAssistant, entry: MockConfigEntry, warm: Warm
) -> None:
    (agent,) = entry.subentries.values()
    hass.config_entries.async_update_subentry(
        entry,
        agent,
        data={**agent.data, "prompt": "Be kind.\n`It is {{ now() }}`"},
    )
    await hass.async_block_till_done()
    for _ in range(4):
        await warm()
    told = issue(hass)
    assert told is not None
    assert told.translation_key == "restless_instructions"
    assert told.translation_placeholders
    assert told.translation_placeholders["line"] == "'It is 2026-11-30 18:05:00+00:00'"
    assert told.data == {
        "entry_id": entry.entry_id,
        "agent_id": AGENT,
        "subentry_id": agent.subentry_id,
        "segment": "instructions",
    }


async def test_midnight_and_a_room_of_another_name_are_no_reason(
    hass: HomeAssistant, warm: Warm, freezer: FrozenDateTimeFactory
) -> None:
    """What is one device's own, and the date, stand where nothing shared follows."""
    area = ar.async_get(hass).async_get_area_by_name("Kitchen")
    assert area
    for number in range(5):
        freezer.tick(timedelta(hours=23))
        await warm()
        assert issue(hass) is None
        ar.async_get(hass).async_update(area.id, name=f"Kitchen {number}")
        await hass.async_block_till_done()


async def test_work_on_the_instructions_is_no_restlessness(
    hass: HomeAssistant, entry: MockConfigEntry, warm: Warm
) -> None:
    (agent,) = entry.subentries.values()
    for number in range(6):
        hass.config_entries.async_update_subentry(
            entry, agent, data={**agent.data, "prompt": f"Be kind. {number}"}
        )
        await hass.async_block_till_done()
        await warm()
    assert issue(hass) is None


async def test_it_goes_when_the_prompt_has_kept_still_for_a_day(
    hass: HomeAssistant, warm: Warm, freezer: FrozenDateTimeFactory
) -> None:
    await rename_hourly(hass, warm)
    await warm()
    assert issue(hass) is not None
    freezer.tick(timedelta(hours=22))
    await warm()
    assert issue(hass) is None


async def test_what_is_ignored_stays_ignored(
    hass: HomeAssistant, warm: Warm, freezer: FrozenDateTimeFactory
) -> None:
    await rename_hourly(hass, warm)
    ir.async_ignore_issue(hass, DOMAIN, ISSUE, True)
    freezer.tick(timedelta(hours=30))
    await warm()
    await rename_hourly(hass, warm, range(4, 9))
    told = issue(hass)
    assert told is not None
    assert told.dismissed_version is not None


async def test_one_silent_satellite_does_not_take_it_back(
    hass: HomeAssistant, warm: Warm, freezer: FrozenDateTimeFactory
) -> None:
    await rename_hourly(hass, warm)
    await ask(hass, "hello", "Bedroom Voice", language="de")
    await hass.async_block_till_done(wait_background_tasks=True)
    assert issue(hass) is not None


async def test_it_goes_with_the_entry_and_what_was_seen_stays(
    hass: HomeAssistant,
    entry: MockConfigEntry,
    warm: Warm,
    hass_storage: dict[str, Any],
) -> None:
    """An entity that is renamed with every start would never be found otherwise."""
    for number in range(4):
        rename(hass, f"Lamp {number}")
        await hass.async_block_till_done()
        await warm()
        if number < 3:
            assert await hass.config_entries.async_reload(entry.entry_id)
            await hass.async_block_till_done()
            assert issue(hass) is None
    assert issue(hass) is not None
    key = f"{DOMAIN}.{entry.entry_id}.prompts"
    await hass.config_entries.async_unload(entry.entry_id)
    await hass.async_block_till_done()
    assert issue(hass) is None
    stored = hass_storage[key]["data"]
    assert "Lamp" not in str(stored)
    # All satellites have the same lines: they are kept once.
    assert (len(stored["versions"]), len(stored["followed"])) == (1, 4)
    await hass.config_entries.async_remove(entry.entry_id)
    await hass.async_block_till_done()
    assert key not in hass_storage


async def test_a_loaded_entry_that_is_removed_leaves_nothing(
    hass: HomeAssistant,
    entry: MockConfigEntry,
    warm: Warm,
    hass_storage: dict[str, Any],
) -> None:
    await rename_hourly(hass, warm)
    await hass.config_entries.async_remove(entry.entry_id)
    await hass.async_block_till_done()
    assert not [key for key in hass_storage if key.startswith(DOMAIN)]
    assert issue(hass) is None


async def test_an_agent_that_is_removed_takes_its_issue_along(
    hass: HomeAssistant, entry: MockConfigEntry, warm: Warm
) -> None:
    await rename_hourly(hass, warm)
    hass.config_entries.async_remove_subentry(entry, next(iter(entry.subentries)))
    await hass.async_block_till_done()
    assert issue(hass) is None


async def test_an_agent_of_another_id_leaves_no_issue_behind(
    hass: HomeAssistant, warm: Warm
) -> None:
    await rename_hourly(hass, warm)
    assert issue(hass) is not None
    er.async_get(hass).async_update_entity(AGENT, new_entity_id="conversation.butler")
    await hass.async_block_till_done()
    await warm()
    assert issue(hass) is None


async def test_nobody_is_told_of_a_closed_engine(
    hass: HomeAssistant, warm: Warm, engine: ScriptedEngine
) -> None:
    await rename_hourly(hass, warm, range(3))
    with patch.object(engine, "inspect", side_effect=EngineClosedError("closed")):
        rename(hass, "Lamp 3")
        await hass.async_block_till_done()
        await ask(hass, "hello", "Kitchen Voice")
        await hass.async_block_till_done(wait_background_tasks=True)
    assert issue(hass) is None


async def test_who_names_ever_new_languages_does_not_fill_the_memory(
    hass: HomeAssistant, entry: MockConfigEntry, hass_storage: dict[str, Any]
) -> None:
    await ask(hass, "hello")
    for number in range(260):
        await ask(hass, "hello", language=f"x{number}")
        if not number % 100:
            await ask(hass, "hello")
    await hass.async_block_till_done(wait_background_tasks=True)
    await hass.config_entries.async_unload(entry.entry_id)
    stored = hass_storage[f"{DOMAIN}.{entry.entry_id}.prompts"]["data"]["followed"]
    languages = {one["asker"][2] for one in stored}
    assert languages == {"en", *(f"x{number}" for number in range(11, 260))}


async def test_lines_that_satellites_share_are_held_once(
    hass: HomeAssistant, entry: MockConfigEntry, warm: Warm
) -> None:
    """A big house has thousands, and dozens of satellites."""
    await warm()
    history = entry.runtime_data.prompt_history
    kitchen, office = (
        history.last(Asker(AGENT, f"assist_satellite.{room}_voice", "en"))
        for room in ("kitchen", "office")
    )
    shared = [line for line in kitchen if line.segment == "house"]
    assert shared
    assert {id(line) for line in shared} <= {id(line) for line in office}
