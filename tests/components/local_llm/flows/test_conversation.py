"""Adding and changing agents."""

from dataclasses import replace
from unittest.mock import patch

import pytest
from pytest_homeassistant_custom_component.common import MockConfigEntry

from custom_components.local_llm.const import DOMAIN
from custom_components.local_llm.settings import default_agent_data
from homeassistant.config_entries import SOURCE_USER, SubentryFlowResult
from homeassistant.core import HomeAssistant
from homeassistant.data_entry_flow import FlowResultType, InvalidData
from homeassistant.exceptions import HomeAssistantError
from homeassistant.helpers import device_registry as dr, entity_registry as er, llm
from local_llm_engine.errors import InvalidRequestError
from local_llm_engine.types import CallRecord, Outcome, Purpose

from ..conftest import AGENT, AddScripted, ask, suggested_values
from ..scripted import USAGE, ScriptedEngine, says

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
    assert suggested_values(form) == default_agent_data(entry.data["model"])


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


CLASSIC = """\
Speak like a butler.
It is {{ now().strftime('%d/%m/%Y, %H:%M') }}.
- Outside: {{ state_attr('weather.home', 'temperature') }}
- The forecast is {{ states('input_text.forecast') }}. Be brief.
The hall is {{ states('light.hall') }}."""

REPLACED = """\
Speak like a butler.
Use the tool llm__GetDateTime to find out the time.
- Use the tool local_llm__GetWeather to find out the weather.
- Be brief.
Use the tool homeassistant__GetLiveContext to find out the state of a device."""


def record(reread_tokens: int, prefill_seconds: float) -> CallRecord:
    return CallRecord(
        ended_at=0.0,
        purpose=Purpose.WARM_UP,
        session="x",
        adapter=None,
        outcome=Outcome.FIRST_TURN,
        resumed_from=None,
        divergence_token=None,
        divergence_segment=None,
        finish="warmed_up",
        usage=replace(
            USAGE, reread_tokens=reread_tokens, prefill_seconds=prefill_seconds
        ),
    )


async def test_volatile_instructions_are_told_before_they_are_saved(
    hass: HomeAssistant, entry: MockConfigEntry, engine: ScriptedEngine
) -> None:
    engine.records = (record(600, 5.0), record(3, 4.0), record(400, 5.0))
    form = await add(hass, entry)
    menu = await send(hass, form, name="Butler", **AGENT_DATA | {"prompt": CLASSIC})
    assert (menu["type"], menu["step_id"]) == (FlowResultType.MENU, "volatile")
    assert menu["menu_options"] == ["change", "replace", "keep"]
    (request,) = engine.inspected
    tokens = len(request.messages[0].text) - len("Speak like a butler.\nIt is ")
    first, second = menu["description_placeholders"]["findings"].split("\n")[:2]
    assert first == "- **Line 2:** `It is {{ now().strftime('%d/%m/%Y, %H:%M') }}.`"
    assert second == (
        f"  This line changes every minute. Each time, {tokens} tokens are read again before the answer begins,"
        f" which takes this machine about {tokens / 100:.1f} seconds. Leave the time out: the model asks"
        " the tool GetDateTime for it, and the date is in the prompt anyway."
    )
    findings = menu["description_placeholders"]["findings"]
    for line, change, remedy in (
        (3, "the temperature of weather.home changes", "tool GetWeather"),
        (4, "whenever input_text.forecast changes", "tool GetWeather"),
        (5, "whenever light.hall changes", "tool GetLiveContext"),
    ):
        told = findings.split(f"**Line {line}:**")[1].split("**Line")[0]
        assert change in told
        assert remedy in told
    assert len(entry.subentries) == 1


@pytest.mark.parametrize(
    ("choice", "saved"), [("replace", REPLACED), ("keep", CLASSIC)]
)
@pytest.mark.parametrize("is_new", [True, False], ids=["new", "known"])
async def test_the_person_decides_about_volatile_instructions(
    hass: HomeAssistant, entry: MockConfigEntry, choice: str, saved: str, is_new: bool
) -> None:
    (known,) = entry.subentries.values()
    form = await (
        add(hass, entry)
        if is_new
        else entry.start_subentry_reconfigure_flow(hass, known.subentry_id)
    )
    name = {"name": "Butler"} if is_new else {}
    menu = await send(hass, form, **name, **AGENT_DATA | {"prompt": CLASSIC})
    result = await send(hass, menu, next_step_id=choice)
    assert result["type"] is (
        FlowResultType.CREATE_ENTRY if is_new else FlowResultType.ABORT
    )
    subentry = list(entry.subentries.values())[-1]
    assert dict(subentry.data) == AGENT_DATA | {"prompt": saved}
    assert subentry.title == ("Butler" if is_new else "Local LLM")


async def test_volatile_instructions_can_be_changed(
    hass: HomeAssistant, entry: MockConfigEntry
) -> None:
    form = await add(hass, entry)
    menu = await send(hass, form, name="Butler", **AGENT_DATA | {"prompt": CLASSIC})
    form = await send(hass, menu, next_step_id="change")
    assert (form["type"], form["step_id"]) == (FlowResultType.FORM, "user")
    suggested = suggested_values(form)
    assert suggested["prompt"] == CLASSIC
    assert suggested["max_tokens"] == 200
    result = await send(hass, form, name="Butler", **AGENT_DATA)
    assert result["type"] is FlowResultType.CREATE_ENTRY


@pytest.mark.parametrize(
    ("prompt", "words"),
    [
        ("{{ user_name }}", "with the person who asks"),
        ("{{ states | count }}", "whenever an entity comes or goes"),
        ("{{ states.light | map(attribute='state') | list }}", "of the kind light"),
        ("{{ states | map(attribute='state') | list }}", "the state of anything"),
        ("{{ llm_context.context.id }}", "different every time"),
        ("{{ now().second }}", "every second"),
        ("{{ now().hour > 11 }}", "2 times a day"),
        (
            "{% macro m() %}{{ caller() }}{% endmacro %}{% call m() %}{{ now() }}{% endcall %}",
            "every second",
        ),
    ],
)
async def test_says_why_a_line_changes(
    hass: HomeAssistant, entry: MockConfigEntry, prompt: str, words: str
) -> None:
    form = await add(hass, entry)
    menu = await send(hass, form, name="Butler", **AGENT_DATA | {"prompt": prompt})
    findings = menu["description_placeholders"]["findings"]
    assert words in findings
    assert "How long this machine takes for that is not known yet." in findings
    assert findings.count("**Line 1:**") == 1


async def test_a_matter_of_chance_is_decided(
    hass: HomeAssistant, entry: MockConfigEntry
) -> None:
    form = await add(hass, entry)
    text = "Call me {{ ['Ada', 'Bo'] | random }}, {{ user_name }}!"
    menu = await send(hass, form, name="Butler", **AGENT_DATA | {"prompt": text})
    menu = await send(hass, menu, next_step_id="replace")
    # What has no ready replacement is told of again.
    assert menu["menu_options"] == ["change", "keep"]
    assert (
        "`Call me Ada, {{ user_name }}!`"
        in menu["description_placeholders"]["findings"]
    )


async def test_tells_of_a_line_once_for_each_reason(
    hass: HomeAssistant, entry: MockConfigEntry
) -> None:
    form = await add(hass, entry)
    text = "`{{ now().hour }}:{{ now().minute }}:{{ now().hour }}`"
    menu = await send(hass, form, name="Butler", **AGENT_DATA | {"prompt": text})
    findings = menu["description_placeholders"]["findings"]
    assert findings.count("**Line 1:**") == 1
    assert "every minute" in findings
    assert findings.count("`") == 2


async def test_without_control_there_is_no_tool_to_turn_to(
    hass: HomeAssistant, entry: MockConfigEntry
) -> None:
    form = await add(hass, entry)
    data = AGENT_DATA | {"prompt": CLASSIC, "llm_hass_api": []}
    menu = await send(hass, form, name="Butler", **data)
    findings = menu["description_placeholders"]["findings"]
    assert "expose a weather entity" in findings
    assert "let the model control Home Assistant" in findings
    await send(hass, menu, next_step_id="replace")
    # The time has its tool with or without control.
    result = await send(hass, menu, next_step_id="keep")
    assert "llm__GetDateTime" in result["data"]["prompt"]


async def test_costs_are_unknown_without_an_engine_or_a_prompt(
    hass: HomeAssistant, entry: MockConfigEntry, engine: ScriptedEngine
) -> None:
    data = AGENT_DATA | {"prompt": CLASSIC}
    form = await add(hass, entry)
    with patch.object(engine, "inspect", side_effect=InvalidRequestError("no")):
        menu = await send(hass, form, name="Butler", **data)
    unknown = "not known while the engine is not loaded"
    assert unknown in menu["description_placeholders"]["findings"]
    await hass.config_entries.async_unload(entry.entry_id)
    menu = await send(hass, await add(hass, entry), name="Butler", **data)
    assert unknown in menu["description_placeholders"]["findings"]
    assert "replace" in menu["menu_options"]
    with patch(
        "custom_components.local_llm.linter.advice.async_next_request",
        side_effect=HomeAssistantError,
    ):
        menu = await send(hass, await add(hass, entry), name="Butler", **data)
    assert menu["menu_options"] == ["change", "keep"]


@pytest.mark.parametrize(
    ("prompt", "error", "detail"),
    [
        ("{{ 1 / 0 }}", "template_invalid", "ZeroDivisionError: division by zero"),
        ("{{ nobody.knows }}", "template_invalid", "'nobody' is undefined"),
        (
            "{% for a in range(90000) %}{% for b in range(90000) %}{% endfor %}{% endfor %}",
            "template_slow",
            "",
        ),
    ],
)
async def test_instructions_that_fail_are_an_error_at_their_field(
    hass: HomeAssistant, entry: MockConfigEntry, prompt: str, error: str, detail: str
) -> None:
    form = await add(hass, entry)
    with patch("custom_components.local_llm.linter.linter.TIMEOUT_SECONDS", 0.3):
        form = await send(hass, form, name="Butler", **AGENT_DATA | {"prompt": prompt})
    assert form["type"] is FlowResultType.FORM
    assert form["errors"] == {"prompt": error}
    assert detail in form["description_placeholders"]["detail"]
    result = await send(hass, form, name="Butler", **AGENT_DATA)
    assert result["type"] is FlowResultType.CREATE_ENTRY


async def test_an_agent_whose_entity_is_gone_can_be_changed(
    hass: HomeAssistant, entry: MockConfigEntry
) -> None:
    er.async_get(hass).async_remove(AGENT)
    (known,) = entry.subentries.values()
    form = await entry.start_subentry_reconfigure_flow(hass, known.subentry_id)
    menu = await send(hass, form, **AGENT_DATA | {"prompt": CLASSIC})
    assert menu["type"] is FlowResultType.MENU


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
