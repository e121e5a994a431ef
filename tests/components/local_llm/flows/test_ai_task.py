"""Adding and changing AI tasks."""

import pytest
from pytest_homeassistant_custom_component.common import MockConfigEntry

from custom_components.local_llm.const import DOMAIN
from custom_components.local_llm.settings import default_task_data
from homeassistant.config_entries import SOURCE_USER, SubentryFlowResult
from homeassistant.core import HomeAssistant
from homeassistant.data_entry_flow import FlowResultType, InvalidData

from ..conftest import AGENT, AddScripted, suggested_values
from ..scripted import ScriptedEngine, says

TASK_DATA = {
    "prompt": "Be brief.",
    "temperature": 0.2,
    "max_tokens": 200,
    "thinking": True,
}


@pytest.fixture(autouse=True)
async def engine(scripted: AddScripted) -> ScriptedEngine:
    return await scripted(says("Done."))


@pytest.fixture
def entry(hass: HomeAssistant, engine: ScriptedEngine) -> MockConfigEntry:
    (entry,) = hass.config_entries.async_entries(DOMAIN)
    return entry


async def add(hass: HomeAssistant, entry: MockConfigEntry) -> SubentryFlowResult:
    return await hass.config_entries.subentries.async_init(
        (entry.entry_id, "ai_task_data"), context={"source": SOURCE_USER}
    )


async def send(
    hass: HomeAssistant, form: SubentryFlowResult, **user_input: object
) -> SubentryFlowResult:
    result = await hass.config_entries.subentries.async_configure(
        form["flow_id"], user_input
    )
    await hass.async_block_till_done()
    return result


async def test_add_a_task(
    hass: HomeAssistant, entry: MockConfigEntry, engine: ScriptedEngine
) -> None:
    """It is there at once, beside the agents, and the engine stays loaded."""
    form = await add(hass, entry)
    assert (form["type"], form["step_id"]) == (FlowResultType.FORM, "user")
    result = await send(hass, form, name="Chores", **TASK_DATA)
    assert result["type"] is FlowResultType.CREATE_ENTRY
    subentry = list(entry.subentries.values())[-1]
    assert (subentry.title, dict(subentry.data)) == ("Chores", TASK_DATA)
    assert hass.states.get("ai_task.chores") is not None
    assert hass.states.get(AGENT) is not None
    assert not engine.closed


async def test_what_the_form_suggests(
    hass: HomeAssistant, entry: MockConfigEntry
) -> None:
    """What a task is set up with when an entry is added."""
    form = await add(hass, entry)
    assert suggested_values(form) == default_task_data(entry.data["model"])
    await send(
        hass, form, name="Chores", temperature=0, max_tokens=99.0, thinking=False
    )
    subentry = list(entry.subentries.values())[-1]
    assert subentry.data["max_tokens"] == 99
    assert "prompt" not in subentry.data


async def test_change_a_task(hass: HomeAssistant, entry: MockConfigEntry) -> None:
    """The next answer is asked for in the new way."""
    await send(hass, await add(hass, entry), name="Chores", **TASK_DATA)
    subentry = list(entry.subentries.values())[-1]
    form = await entry.start_subentry_reconfigure_flow(hass, subentry.subentry_id)
    assert form["step_id"] == "reconfigure"
    assert "name" not in {str(key) for key in form["data_schema"].schema}
    result = await send(hass, form, **{**TASK_DATA, "max_tokens": 300})
    assert (result["type"], result["reason"]) == (
        FlowResultType.ABORT,
        "reconfigure_successful",
    )
    assert entry.subentries[subentry.subentry_id].data["max_tokens"] == 300
    assert hass.states.get("ai_task.chores") is not None


@pytest.mark.parametrize(
    "wrong", [{"temperature": 2.1}, {"max_tokens": 15}, {"prompt": 5}]
)
async def test_values_out_of_range_are_refused(
    hass: HomeAssistant, entry: MockConfigEntry, wrong: dict[str, object]
) -> None:
    """The form says so, and goes on with a right one."""
    form = await add(hass, entry)
    with pytest.raises(InvalidData):
        await send(hass, form, name="Chores", **{**TASK_DATA, **wrong})
    result = await send(hass, form, name="Chores", **TASK_DATA)
    assert result["type"] is FlowResultType.CREATE_ENTRY


async def test_a_task_that_is_removed_is_gone(
    hass: HomeAssistant, entry: MockConfigEntry
) -> None:
    """Its agents stay."""
    await send(hass, await add(hass, entry), name="Chores", **TASK_DATA)
    subentry = list(entry.subentries.values())[-1]
    hass.config_entries.async_remove_subentry(entry, subentry.subentry_id)
    await hass.async_block_till_done()
    assert hass.states.get("ai_task.chores") is None
    assert hass.states.get(AGENT) is not None
