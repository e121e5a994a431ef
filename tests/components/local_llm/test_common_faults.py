"""What people report of assistants like this one does not happen here.

Each kind of report, and where it is shown:

- a list of aliases comes back as one name; an alias with a comma, a name with quotes and a line break are not found,
  or break the prompt: the first tests below, and the names in `small_models.py`;
- a time that Home Assistant told itself spoils the next answer: `test_a_time_told_by_home_assistant_is_read_on`;
- an unknown area means everywhere: `test_an_unknown_room_changes_nothing`, and the targets in `small_models.py`;
- brightness is read from 0 to 255 and set from 0 to 100: `test_ten_percent_brighter`;
- conversations mix, between satellites or between a satellite's two assistants: `test_conversations_*`;
- a question at the end is not noticed: `test_entity.py`, `test_listens_on_after_a_question`, and `test_stream.py`;
- lower and upper case are taken for English: `test_names_in_any_script`;
- a device or an area that is missing ends in an error: `test_where_a_question_comes_from_may_be_unknown`, and
  `test_entity.py`, `test_a_satellite_that_lost_its_place_is_answered`;
- the first delta has no role, streaming is not offered: `test_stream.py`, `test_the_role_comes_first_even_before_a_call`,
  and `test_conversation.py`, `test_agent_is_offered_for_every_language_and_for_control`;
- a call that is dropped or cancelled spoils later turns: `test_a_script_that_is_cancelled_spoils_nothing`;
- the weather's unit is guessed, what is not known is made up: `test_llm.py`, `test_unit_is_the_entitys`,
  `test_says_that_the_weather_is_not_known`, `test_says_that_there_is_no_forecast`;
- a tool's name that begins with a digit, a tool without a description: `test_a_script_with_an_unusual_name_is_run`.
"""

import asyncio
from collections.abc import AsyncGenerator
import json
from types import MappingProxyType
from typing import Any
from unittest.mock import patch

import pytest
from pytest_homeassistant_custom_component.common import (
    MockConfigEntry,
    async_capture_events,
)
import yaml

from custom_components.local_llm.settings import default_agent_data
from homeassistant.components import conversation
from homeassistant.components.homeassistant import exposed_entities
from homeassistant.config_entries import ConfigSubentry
from homeassistant.core import Context, Event, HomeAssistant, callback
from homeassistant.helpers import area_registry as ar, device_registry as dr
from local_llm_engine.types import ChatRequest

from .conftest import AGENT, AddEntry, ask, speech
from .furniture import Light, async_furnish, put_back
from .house import HOUSE, async_move_in, device_id
from .scripted import ScriptedEngine, calls, says


@pytest.fixture
async def engine() -> AsyncGenerator[ScriptedEngine]:
    """Be an engine that any entry loads."""
    engine = ScriptedEngine(says("Yes."))
    with patch("custom_components.local_llm.async_load_engine", return_value=engine):
        yield engine


@pytest.fixture
async def entry(
    hass: HomeAssistant, engine: ScriptedEngine, home: None, add_entry: AddEntry
) -> MockConfigEntry:
    """Load the engine in a furnished house."""
    await async_furnish(hass)
    return await add_entry()


def asked(request: ChatRequest) -> list[str]:
    """What users say in a request, oldest first."""
    return [message.text for message in request.messages if message.role == "user"]


def told(engine: ScriptedEngine) -> str:
    """The last tool result that the model sees."""
    message = engine.requests[-1].messages[-1]
    assert message.role == "tool"
    return message.text


async def test_names_with_commas_quotes_and_line_breaks_leave_the_prompt_whole(
    hass: HomeAssistant, engine: ScriptedEngine, entry: MockConfigEntry
) -> None:
    await ask(hass, "hello", "Kitchen Voice")
    house = next(
        part.text
        for part in engine.requests[0].messages[0].parts
        if part.segment == "house"
    )
    entities = yaml.safe_load(
        house.partition("in this smart home:\n")[2]
        .partition("\n\n\n")[0]
        .partition("\nWhen controlling")[0]
    )
    names = {entity["names"] for entity in entities}
    assert 'Porch, Upstairs, hall, The "big"\nlamp' in names
    assert "Plug 2, Salt lamp" in names
    assert len(names) == 18


async def test_an_entity_is_found_by_its_names_alone_or_together(
    hass: HomeAssistant, engine: ScriptedEngine, entry: MockConfigEntry
) -> None:
    found = []
    for name in ("Plug 2, Salt lamp", "Salt lamp", "salt lamp", "Plug 2", "Salt Lamps"):
        put_back(hass)
        engine.write(calls("intent__HassTurnOn", name=name), says("Done."))
        await ask(hass, "salt lamp on")
        found += [name] if hass.states.get("switch.plug_2").state == "on" else []
    assert len(found) == 5


async def test_a_time_told_by_home_assistant_is_read_on(
    hass: HomeAssistant, engine: ScriptedEngine, entry: MockConfigEntry
) -> None:
    local = await conversation.async_converse(
        hass,
        "what time is it",
        None,
        Context(),
        language="en",
        agent_id=conversation.HOME_ASSISTANT_AGENT,
    )
    assert "2:05 PM" in speech(local)
    result = await ask(hass, "thanks", conversation_id=local.conversation_id)
    assert speech(result) == "Yes."
    _, question, call, answer, spoken, thanks = engine.requests[0].messages
    assert (question.text, thanks.text) == ("what time is it", "thanks")
    assert call.tool_calls[0].name == "HassGetCurrentTime"
    assert json.loads(answer.text)["speech_slots"] == {"time": "14:05:00"}
    assert "2:05 PM" in spoken.text


SAUNA: list[dict[str, Any]] = [
    {"area": "Sauna"},
    {"area": "Sauna", "domain": ["light"]},
    {"name": "Sauna", "domain": ["light"]},
    {"floor": "Sauna", "domain": ["light"]},
    {"room": "Sauna", "domain": ["light"]},
    {"where": "Sauna", "domain": ["light"]},
    {"name": "sauna lights"},
]


@pytest.mark.parametrize("satellite", ["Kitchen Voice", None])
@pytest.mark.parametrize("tool", ["intent__HassTurnOn", "light__HassLightSet"])
async def test_an_unknown_room_changes_nothing(
    hass: HomeAssistant,
    engine: ScriptedEngine,
    entry: MockConfigEntry,
    satellite: str | None,
    tool: str,
) -> None:
    before = hass.states.async_all(("light", "switch", "cover", "lock"))
    for target in SAUNA:
        engine.write(calls(tool, **target), says("There is no sauna."))
        result = await ask(hass, "sauna lights on", satellite)
        assert speech(result) == "There is no sauna."
        assert "UnclearCall" in told(engine)
    assert hass.states.async_all(("light", "switch", "cover", "lock")) == before


async def test_ten_percent_brighter(
    hass: HomeAssistant, engine: ScriptedEngine, entry: MockConfigEntry
) -> None:
    await hass.services.async_call(
        "light",
        "turn_on",
        {"entity_id": "light.porch", "brightness": 90},
        blocking=True,
    )
    engine.answers = [calls("GetLiveContext", name="Porch"), says("It is at 35 %.")]
    await ask(hass, "how bright is the porch")
    # The model sees one number, the one that it can set: 90 of 255 are 35 %.
    assert "brightness_pct: '35'" in told(engine)
    assert "'90'" not in told(engine)
    engine.write(calls("HassLightSet", name="Porch", brightness=45), says("Done."))
    await ask(hass, "10 % brighter")
    brightness = hass.states.get("light.porch").attributes["brightness"]
    assert 38 <= brightness / 2.55 <= 45.2


async def test_no_brightness_is_over_the_top(
    hass: HomeAssistant, engine: ScriptedEngine, entry: MockConfigEntry
) -> None:
    for brightness in (90 + 100, "110%", "+10", "10% brighter", 255):
        call = calls("HassLightSet", name="Porch", brightness=brightness)
        engine.write(call, says("I cannot."))
        await ask(hass, "brighter")
        assert "brightness must be a whole number from 0 to 100" in told(engine)
    assert hass.states.get("light.porch").state == "off"


async def test_conversations_of_two_satellites_do_not_mix(
    hass: HomeAssistant, engine: ScriptedEngine, entry: MockConfigEntry
) -> None:
    first = await ask(hass, "apple", "Kitchen Voice")
    second = await ask(hass, "banana", "Bedroom Voice")
    await ask(hass, "cherry", "Kitchen Voice", first.conversation_id)
    await ask(hass, "date", "Bedroom Voice", second.conversation_id)
    assert [asked(request) for request in engine.requests] == [
        ["apple"],
        ["banana"],
        ["apple", "cherry"],
        ["banana", "date"],
    ]
    places = ["Kitchen", "Bedroom"] * 2
    for request, place in zip(engine.requests, places, strict=True):
        assert f"You are in area {place} " in request.messages[0].text


async def test_conversations_of_a_satellites_two_assistants_do_not_mix(
    hass: HomeAssistant, engine: ScriptedEngine, entry: MockConfigEntry
) -> None:
    """Home Assistant keeps one conversation for a satellite, whichever wake word was said."""
    data = {**default_agent_data("builtin"), "prompt": "You are a pirate."}
    hass.config_entries.async_add_subentry(
        entry,
        ConfigSubentry(
            data=MappingProxyType(data),
            subentry_type="conversation",
            title="Pirate",
            unique_id=None,
        ),
    )
    await hass.async_block_till_done()
    engine.answers = [
        calls("intent__HassTurnOn", name="Porch"),
        says("Ahoy!"),
        says("Yes."),
    ]

    async def ask_agent(agent_id: str, text: str) -> None:
        await conversation.async_converse(
            hass,
            text,
            "one for both",
            Context(),
            language="en",
            agent_id=agent_id,
            device_id=device_id(hass, "Kitchen Voice"),
        )

    await ask_agent("conversation.pirate", "X")
    await ask_agent(AGENT, "Y")
    await ask_agent("conversation.pirate", "X again")
    await ask_agent(AGENT, "Y again")
    assert [asked(request) for request in engine.requests[1:]] == [
        ["X"],
        ["Y"],
        ["X", "X again"],
        ["Y", "Y again"],
    ]
    assert [
        "pirate" in request.messages[0].text for request in engine.requests[1:]
    ] == [True, False, True, False]
    # The other's calls and results are gone with its words.
    assert [message.role for message in engine.requests[2].messages] == [
        "system",
        "user",
    ]


LAMPS = (
    ("Işık", "Salon"),
    ("İç Lamba", "Salon"),
    ("Mutfak", "Salon"),
    ("Außenlicht", "Büro"),
    ("ライト２", "寝室"),
    ("寝室のライト３", "寝室"),
)
SPELLINGS = (
    ("Işık", "IŞIK", "Salon"),
    ("Işık", "ışık", "SALON"),
    ("İç Lamba", "iç lamba", "Salon"),
    ("Außenlicht", "AUSSENLICHT", "Büro"),
    ("Außenlicht", "außenlicht", "buro"),
    ("Außenlicht", "Außenlicht", "Bu\u0308ro"),
    ("ライト２", "ライト2", "寝室"),
    ("寝室のライト３", "寝室のライト3", "寝室"),
)


async def test_names_in_any_script(
    hass: HomeAssistant, engine: ScriptedEngine, home: None, add_entry: AddEntry
) -> None:
    lamps = [Light("light", name, room) for name, room in LAMPS]
    await async_move_in(hass, {"light": lamps})
    await add_entry()
    for name, spelled, room in SPELLINGS:
        put_back(hass)
        call = calls("HassTurnOn", name=spelled, area=room, domain="light")
        engine.write(call, says("Done."))
        await ask(hass, "light on")
        lit = [
            state.name
            for state in hass.states.async_all("light")
            if state.state == "on"
        ]
        assert lit == [name]
        # The model reads the name as the family writes it.
        assert f"- names: {name}\n" in engine.requests[0].messages[0].text
        assert f'"{name}"' in told(engine)


@pytest.mark.parametrize("where", ["nowhere", "gone", "no area"])
async def test_where_a_question_comes_from_may_be_unknown(
    hass: HomeAssistant, engine: ScriptedEngine, entry: MockConfigEntry, where: str
) -> None:
    devices = dr.async_get(hass)
    roomless = devices.async_get_or_create(
        config_entry_id="house", identifiers={(HOUSE, "Roomless")}
    )
    ids = {"nowhere": None, "gone": "no such device", "no area": roomless.id}
    engine.answers = [calls("HassLightSet", brightness=40), says("Where?")]
    result = await conversation.async_converse(
        hass,
        "dim",
        None,
        Context(),
        language="en",
        agent_id=AGENT,
        device_id=ids[where],
    )
    assert speech(result) == "Where?"
    assert result.continue_conversation
    assert "ask the user to specify an area" in engine.requests[0].messages[0].text
    assert "give a name or an area" in told(engine)


async def test_a_room_that_was_deleted_is_unknown(
    hass: HomeAssistant, engine: ScriptedEngine, entry: MockConfigEntry
) -> None:
    areas = ar.async_get(hass)
    office = areas.async_get_area_by_name("Office")
    assert office is not None
    areas.async_delete(office.id)
    await hass.async_block_till_done()
    engine.answers = [
        calls("intent__HassTurnOn", area="Office", domain="light"),
        says("Where is that?"),
    ]
    assert speech(await ask(hass, "office lights on", "Office Voice"))
    assert "There is no area 'Office'" in told(engine)


async def test_a_script_that_is_cancelled_spoils_nothing(
    hass: HomeAssistant, engine: ScriptedEngine, entry: MockConfigEntry
) -> None:
    is_running = asyncio.Event()

    @callback
    def on_begun(_: Event) -> None:
        is_running.set()

    hass.bus.async_listen_once("begun", on_begun)
    never = {"wait_for_trigger": {"trigger": "event", "event_type": "never"}}
    script = {"wash": {"sequence": [{"event": "begun"}, never]}}
    with patch(
        "homeassistant.config.load_yaml_config_file", return_value={"script": script}
    ):
        await hass.services.async_call("script", "reload", blocking=True)
    exposed_entities.async_expose_entity(hass, "conversation", "script.wash", True)
    first = await ask(hass, "hello")
    engine.write(calls("script__wash"), says("Yes."))
    question = hass.async_create_task(
        ask(hass, "wash", conversation_id=first.conversation_id)
    )
    await is_running.wait()
    question.cancel()
    with pytest.raises(asyncio.CancelledError):
        await question
    await hass.services.async_call("script", "turn_off", {"entity_id": "script.wash"})
    again = await ask(hass, "and now", conversation_id=first.conversation_id)
    assert speech(again) == "Yes."
    messages = engine.requests[-1].messages
    answered = {message.tool_call_id for message in messages}
    assert {call.id for message in messages for call in message.tool_calls} <= answered


async def test_a_script_with_an_unusual_name_is_run(
    hass: HomeAssistant, engine: ScriptedEngine, entry: MockConfigEntry
) -> None:
    runs = async_capture_events(hass, "rinse")
    engine.answers = [calls("2_min_rinse"), says("Rinsing.")]
    assert speech(await ask(hass, "rinse")) == "Rinsing."
    assert len(runs) == 1
    (tool,) = [
        tool for tool in engine.requests[0].tools if tool.name == "script__2_min_rinse"
    ]
    assert tool.parameters["properties"] == {}
