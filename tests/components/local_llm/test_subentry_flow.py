"""Adding and changing agents."""

import pytest
from pytest_homeassistant_custom_component.common import MockConfigEntry

from custom_components.local_llm.const import DOMAIN
from custom_components.local_llm.settings import default_agent_data
from homeassistant.config_entries import SOURCE_USER, SubentryFlowResult
from homeassistant.core import HomeAssistant
from homeassistant.data_entry_flow import FlowResultType, InvalidData
from homeassistant.helpers import device_registry as dr, entity_registry as er, llm

from .conftest import AGENT, AddScripted, ask
from .scripted import ScriptedEngine, says

AGENT_DATA = {
    "prompt": "Speak like a butler.",
    "llm_hass_api": ["assist"],
    "temperature": 0.2,
    "top_p": 0.9,
    "max_tokens": 200,
    "history_turns": 4,
    "thinking": True,
}


@pytest.fixture(autouse=True)
async def engine(scripted: AddScripted) -> ScriptedEngine:
    return await scripted(says("Very good."))


@pytest.fixture
def entry(hass: HomeAssistant, engine: ScriptedEngine) -> MockConfigEntry:
    (entry,) = hass.config_entries.async_entries(DOMAIN)
    return entry


async def add(hass: HomeAssistant, entry: MockConfigEntry) -> SubentryFlowResult:
    return await hass.config_entries.subentries.async_init(
        (entry.entry_id, "conversation"), context={"source": SOURCE_USER}
    )


async def send(
    hass: HomeAssistant, form: SubentryFlowResult, **user_input: object
) -> SubentryFlowResult:
    result = await hass.config_entries.subentries.async_configure(
        form["flow_id"], user_input
    )
    await hass.async_block_till_done()
    return result


async def test_add_an_agent(
    hass: HomeAssistant, entry: MockConfigEntry, engine: ScriptedEngine
) -> None:
    form = await add(hass, entry)
    assert (form["type"], form["step_id"]) == (FlowResultType.FORM, "user")
    result = await send(hass, form, name="Butler", **AGENT_DATA)
    assert result["type"] is FlowResultType.CREATE_ENTRY
    subentry = list(entry.subentries.values())[-1]
    assert (subentry.title, dict(subentry.data)) == ("Butler", AGENT_DATA)
    assert hass.states.get("conversation.butler") is not None
    assert hass.states.get(AGENT) is not None
    assert not engine.closed
    assert dr.async_get(hass).async_get_device_by_identifier(
        (DOMAIN, subentry.subentry_id), entry.entry_id
    )


async def test_what_the_form_suggests_is_an_agent_that_controls(
    hass: HomeAssistant, entry: MockConfigEntry
) -> None:
    form = await add(hass, entry)
    suggested = {
        str(key): key.description["suggested_value"]
        for key in form["data_schema"].schema
        if key.description
    }
    assert suggested == default_agent_data(entry.data["model"])


async def test_change_an_agent(
    hass: HomeAssistant, entry: MockConfigEntry, engine: ScriptedEngine
) -> None:
    (subentry,) = entry.subentries.values()
    form = await entry.start_subentry_reconfigure_flow(hass, subentry.subentry_id)
    assert form["step_id"] == "reconfigure"
    assert "name" not in {str(key) for key in form["data_schema"].schema}
    result = await send(hass, form, **AGENT_DATA)
    assert result["reason"] == "reconfigure_successful"
    assert dict(entry.subentries[subentry.subentry_id].data) == AGENT_DATA
    assert not engine.closed
    await ask(hass, "hello")
    request = engine.requests[-1]
    assert request.messages[0].text.startswith("Speak like a butler.\n")
    assert request.sampling.temperature == 0.2


async def test_remove_an_agent(hass: HomeAssistant, entry: MockConfigEntry) -> None:
    await send(hass, await add(hass, entry), name="Butler", **AGENT_DATA)
    butler = list(entry.subentries)[-1]
    hass.config_entries.async_remove_subentry(entry, butler)
    await hass.async_block_till_done()
    assert hass.states.get("conversation.butler") is None
    assert hass.states.get(AGENT) is not None
    assert er.async_get(hass).async_get("conversation.butler") is None


async def test_two_changes_at_once(
    hass: HomeAssistant, entry: MockConfigEntry, engine: ScriptedEngine
) -> None:
    (subentry,) = entry.subentries.values()
    for turns in (1, 2):
        hass.config_entries.async_update_subentry(
            entry, subentry, data={**AGENT_DATA, "history_turns": turns}
        )
    await hass.async_block_till_done()
    assert hass.states.get(AGENT) is not None
    assert not engine.closed


async def test_an_agent_without_instructions_and_control_takes_the_defaults(
    hass: HomeAssistant, entry: MockConfigEntry
) -> None:
    form = await add(hass, entry)
    data = {key: AGENT_DATA[key] for key in list(AGENT_DATA)[2:]}
    await send(hass, form, name="Talker", **data)
    assert hass.states.get("conversation.talker").attributes["supported_features"] == 0


@pytest.mark.parametrize(
    "wrong",
    [
        {"temperature": 3},
        {"top_p": 0},
        {"max_tokens": 0},
        {"history_turns": -1},
        {"prompt": "{{ broken"},
    ],
    ids=str,
)
async def test_wrong_values_are_refused(
    hass: HomeAssistant, entry: MockConfigEntry, wrong: dict[str, object]
) -> None:
    form = await add(hass, entry)
    with pytest.raises(InvalidData):
        await send(hass, form, name="Butler", **AGENT_DATA | wrong)


class AdminAPI(llm.API):
    """An API for administrators, as Home Assistant has them since 2026.11."""

    async def async_get_api_instance(
        self, llm_context: llm.LLMContext
    ) -> llm.APIInstance:
        raise NotImplementedError


async def test_apis_for_administrators_and_lost_ones_are_not_offered(
    hass: HomeAssistant, entry: MockConfigEntry
) -> None:
    api = AdminAPI(hass=hass, id="admin", name="Admin")
    api.requires_admin = True
    llm.async_register_api(hass, api)
    (subentry,) = entry.subentries.values()
    hass.config_entries.async_update_subentry(
        entry, subentry, data={**subentry.data, "llm_hass_api": ["assist", "gone"]}
    )
    await hass.async_block_till_done()
    form = await entry.start_subentry_reconfigure_flow(hass, subentry.subentry_id)
    ((key, selector),) = [
        item for item in form["data_schema"].schema.items() if item[0] == "llm_hass_api"
    ]
    assert [option["value"] for option in selector.config["options"]] == ["assist"]
    assert key.description["suggested_value"] == ["assist"]
