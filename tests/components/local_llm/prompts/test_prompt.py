"""What the engine is asked: the layout of the prompt, and that nothing in it changes without need."""

from collections import Counter
from collections.abc import Callable
from datetime import timedelta
import re

from freezegun.api import FrozenDateTimeFactory
import pytest

from custom_components.local_llm.const import DOMAIN
from custom_components.local_llm.prompts.layout import divide
from custom_components.local_llm.prompts.prompt import (
    async_provide_prompt,
    build_request,
    system_parts,
)
from custom_components.local_llm.settings import AgentSettings
from homeassistant.components import conversation
from homeassistant.core import Context, HomeAssistant
from homeassistant.exceptions import HomeAssistantError, Unauthorized
from homeassistant.helpers import (
    area_registry as ar,
    device_registry as dr,
    entity_registry as er,
    floor_registry as fr,
    intent,
    llm,
)
from local_llm_engine.types import ChatRequest, Purpose

from ..conftest import AGENT, AddScripted, ask, chat_log, speech
from ..house import (
    HOUSE,
    LIGHTS,
    Entities,
    HouseLight,
    area_id,
    async_move_in,
    async_move_in_again,
    default_entities,
    device_id,
)
from ..scripted import says

SATELLITES = ("Kitchen Voice", "Bedroom Voice", "Office Voice")
DATE = "Today is Monday, 30 November 2026."


def context(device: str | None = None, language: str = "en") -> llm.LLMContext:
    return llm.LLMContext(
        platform=DOMAIN,
        context=Context(),
        language=language,
        assistant="conversation",
        device_id=device,
    )


async def request_of(
    hass: HomeAssistant,
    satellite: str | None = None,
    extra: str | None = None,
    language: str = "en",
    **agent: object,
) -> ChatRequest:
    """The request for a question from a satellite, or from nowhere."""
    log = conversation.ChatLog(hass, "test")
    settings = AgentSettings.from_data({"llm_hass_api": ["assist"], **agent})
    question = conversation.ConversationInput(
        text="Hello",
        context=Context(),
        conversation_id=None,
        device_id=device_id(hass, satellite) if satellite else None,
        satellite_id=None,
        language=language,
        agent_id=AGENT,
        extra_system_prompt=extra,
    )
    await async_provide_prompt(hass, log, question, settings)
    log.async_add_user_content(conversation.UserContent("Hello"))
    request = build_request(log, settings, purpose=Purpose.VOICE, session="test")
    assert request.messages[0].text == log.content[0].content
    return request


def segments(request: ChatRequest) -> dict[str, str]:
    return {part.segment or "": part.text for part in request.messages[0].parts}


async def test_segments_from_what_changes_least_to_what_changes_most(
    hass: HomeAssistant, house: None
) -> None:
    parts = segments(await request_of(hass, "Kitchen Voice", extra="It is a party."))
    assert list(parts) == ["instructions", "house", "date", "device", "extra"]
    assert parts["instructions"].startswith("You are a voice assistant for Home")
    assert "- names: Kitchen Floor Lamp" in parts["house"]
    assert parts["date"] == f"{DATE}\n"
    assert parts["device"].startswith("You are in area Kitchen and all generic")
    assert parts["extra"] == "It is a party."


async def test_all_devices_share_all_but_their_own_lines(
    hass: HomeAssistant, house: None
) -> None:
    dr.async_get(hass).async_get_or_create(
        config_entry_id="house", identifiers={(HOUSE, "Tablet")}, name="Tablet"
    )
    requests = [await request_of(hass, name) for name in (None, *SATELLITES, "Tablet")]
    heads = [request.messages[0].parts[:3] for request in requests]
    assert heads == [heads[0]] * len(heads)
    assert [request.tools for request in requests] == [requests[0].tools] * len(heads)
    own = [segments(request)["device"] for request in requests]
    assert [line.split(" (")[0][:22] for text in own for line in text.split("\n")] == [
        "When a user asks to tu",
        "This device is not abl",
        "You are in area Kitche",
        "You are in area Bedroo",
        "This device is not abl",
        "You are in area Office",
        "When a user asks to tu",
        "This device is not abl",
    ]


@pytest.mark.parametrize("satellite", [None, *SATELLITES])
async def test_no_line_of_home_assistants_prompt_is_lost(
    hass: HomeAssistant, house: None, satellite: str | None
) -> None:
    device = device_id(hass, satellite) if satellite else None
    theirs = await llm.async_get_api(hass, "assist", context(device))
    parts = segments(await request_of(hass, satellite))
    ours = f"{parts['house']}{parts['device']}"
    assert Counter(ours.split("\n")) == Counter(theirs.api_prompt.split("\n"))


async def test_lines_of_a_device_are_known_by_their_words(
    hass: HomeAssistant, house: None
) -> None:
    """If this fails, Home Assistant has new words for a device: put them into layout.py."""
    floor = fr.async_get(hass).async_create("Upstairs")
    ar.async_get(hass).async_update(area_id(hass, "Office"), floor_id=floor.floor_id)
    texts = []
    for name in (None, *SATELLITES):
        device = device_id(hass, name) if name else None
        texts.append(
            (await llm.async_get_api(hass, "assist", context(device))).api_prompt
        )
    common = set.intersection(*(set(text.split("\n")) for text in texts))
    for text in texts:
        own = divide(text, text).own.split("\n")
        assert set(text.split("\n")) - common <= set(own)


async def test_tools_stand_in_one_order(hass: HomeAssistant, house: None) -> None:
    names = [tool.name for tool in (await request_of(hass)).tools]
    assert names == sorted(names)
    assert {"intent__HassStartTimer", "intent__HassTurnOn", "llm__GetDateTime"} <= set(
        names
    )


async def test_nothing_tells_the_time_of_day(
    hass: HomeAssistant, house: None, freezer: FrozenDateTimeFactory
) -> None:
    morning = await request_of(hass, "Kitchen Voice")
    freezer.tick(timedelta(hours=5, minutes=7))
    assert await request_of(hass, "Kitchen Voice") == morning
    assert not re.search(r"\d:\d\d", morning.messages[0].text)


async def test_midnight_changes_the_date_alone(
    hass: HomeAssistant, house: None, freezer: FrozenDateTimeFactory
) -> None:
    today = segments(await request_of(hass, "Kitchen Voice"))
    freezer.tick(timedelta(hours=10))
    tomorrow = segments(await request_of(hass, "Kitchen Voice"))
    assert tomorrow == {**today, "date": "Today is Tuesday, 1 December 2026.\n"}


async def test_states_are_not_in_the_prompt(hass: HomeAssistant, house: None) -> None:
    before = await request_of(hass, "Kitchen Voice")
    for state in hass.states.async_all("light"):
        hass.states.async_set(state.entity_id, "unavailable", state.attributes)
    assert await request_of(hass, "Kitchen Voice") == before


def _backwards(hass: HomeAssistant) -> None:
    handlers = hass.data[intent.DATA_KEY]
    hass.data[intent.DATA_KEY] = dict(reversed(handlers.items()))


@pytest.mark.parametrize(
    "reorder", [lambda hass: None, _backwards], ids=["entities", "and intents"]
)
async def test_a_restart_in_another_order_changes_nothing(
    hass: HomeAssistant, home: None, reorder: Callable[[HomeAssistant], None]
) -> None:
    def furniture() -> Entities:
        # Two lamps bear one name, and only their rooms tell them apart.
        hall = HouseLight("Kitchen Ceiling Light", "Hall", "hall")
        lights = [HouseLight(name, room) for name, room in LIGHTS]
        return default_entities(hass) | {"light": [*lights, hall]}

    await async_move_in(hass, furniture())
    before = await request_of(hass, "Kitchen Voice")
    assert "areas: Hall" in segments(before)["house"]
    backwards = {key: value[::-1] for key, value in furniture().items()}
    await async_move_in_again(hass, backwards)
    reorder(hass)
    assert await request_of(hass, "Kitchen Voice") == before


async def test_warm_up_asks_what_a_question_asks(
    hass: HomeAssistant, scripted: AddScripted
) -> None:
    engine = await scripted(says("Hello."))
    await hass.services.async_call(
        DOMAIN, "warm_up", blocking=True, return_response=True
    )
    for name in (*SATELLITES, None):
        await ask(hass, "what time is it", name)

    def prompt(request: ChatRequest) -> tuple[object, ...]:
        return request.messages[:-1], request.tools, request.thinking

    assert {
        request.session: prompt(request)[0] for request in engine.warmed
    }.keys() == {
        "assist_satellite.kitchen_voice",
        "assist_satellite.bedroom_voice",
        "assist_satellite.office_voice",
        "no device",
    }
    warmed = [prompt(request) for request in engine.warmed]
    assert all(prompt(request) in warmed for request in engine.requests)
    assert all(request.purpose is Purpose.WARM_UP for request in engine.warmed)


async def test_the_prompt_stays_for_a_conversation(
    hass: HomeAssistant, scripted: AddScripted
) -> None:
    engine = await scripted(says("Yes."))
    first = await ask(hass, "hello", "Kitchen Voice")
    ar.async_get(hass).async_update(area_id(hass, "Bedroom"), name="Chamber")
    await ask(hass, "again", "Kitchen Voice", conversation_id=first.conversation_id)
    await ask(hass, "hello", "Kitchen Voice")
    texts = [request.messages[0].text for request in engine.requests]
    assert texts[1] == texts[0]
    assert "areas: Chamber" in texts[2]
    log = chat_log(hass, first.conversation_id)
    assert log.content[0].content == texts[0]


def _move(hass: HomeAssistant) -> None:
    dr.async_get(hass).async_update_device(
        device_id(hass, "Kitchen Voice"), area_id=area_id(hass, "Bedroom")
    )


def _rename_room(hass: HomeAssistant) -> None:
    ar.async_get(hass).async_update(area_id(hass, "Kitchen"), name="Cookery")


def _delete_room(hass: HomeAssistant) -> None:
    ar.async_get(hass).async_delete(area_id(hass, "Kitchen"))


def _put_on_a_floor(hass: HomeAssistant) -> None:
    floor = fr.async_get(hass).async_create("Upstairs")
    ar.async_get(hass).async_update(area_id(hass, "Kitchen"), floor_id=floor.floor_id)


def _update_agent(**data: object) -> Callable[[HomeAssistant], None]:
    def change(hass: HomeAssistant) -> None:
        (entry,) = hass.config_entries.async_entries(DOMAIN)
        (agent,) = entry.subentries.values()
        hass.config_entries.async_update_subentry(
            entry, agent, data={**agent.data, **data}
        )

    return change


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (_move, "You are in area Bedroom and"),
        (_rename_room, "You are in area Cookery and"),
        (_put_on_a_floor, "You are in area Kitchen (floor Upstairs)"),
        (_delete_room, "ask the user to specify an area"),
        (_update_agent(prompt="You are a pirate."), "You are a pirate."),
        (_update_agent(llm_hass_api=["assist", "one"]), "Be kind."),
    ],
    ids=["moved", "renamed", "floor", "deleted", "instructions", "APIs"],
)
async def test_a_conversation_goes_on_with_what_is_true_now(
    hass: HomeAssistant,
    scripted: AddScripted,
    change: Callable[[HomeAssistant], None],
    words: str,
) -> None:
    """Tools act where the device is now: a moved satellite must not be told of its old room."""
    llm.async_register_api(hass, OtherAPI(hass=hass, id="one", name="One"))
    engine = await scripted(says("Yes."))
    first = await ask(hass, "hello", "Kitchen Voice")
    change(hass)
    await hass.async_block_till_done()
    await ask(hass, "again", "Kitchen Voice", conversation_id=first.conversation_id)
    before, after = engine.requests
    assert words not in before.messages[0].text
    assert words in after.messages[0].text
    assert [message.text for message in after.messages[1:]] == [
        "hello",
        "Yes.",
        "again",
    ]


async def test_another_device_in_a_conversation_gets_its_own_prompt(
    hass: HomeAssistant, scripted: AddScripted
) -> None:
    engine = await scripted(says("Yes."))
    first = await ask(hass, "hello", "Kitchen Voice")
    await ask(hass, "again", "Bedroom Voice", conversation_id=first.conversation_id)
    assert "You are in area Bedroom" in engine.requests[1].messages[0].text


async def test_an_announcement_goes_with_the_first_question(
    hass: HomeAssistant, scripted: AddScripted
) -> None:
    engine = await scripted(says("Yes."))
    first = await ask(hass, "yes", extra_system_prompt="The door was left open.")
    await ask(hass, "close it", conversation_id=first.conversation_id)
    for request in engine.requests:
        assert request.messages[0].parts[-1].text == "The door was left open."
        assert request.messages[0].parts[-1].segment == "extra"


async def test_instructions_are_a_template(hass: HomeAssistant, house: None) -> None:
    parts = segments(await request_of(hass, prompt="This is {{ ha_name }}."))
    assert parts["instructions"] == f"This is {hass.config.location_name}.\n"


async def test_a_text_that_another_has_changed_is_one_segment(
    hass: HomeAssistant, scripted: AddScripted
) -> None:
    await scripted(says("Yes."))
    result = await ask(hass, "hello", "Kitchen Voice")
    log = chat_log(hass, result.conversation_id)
    log.content[0] = conversation.SystemContent("Be brief.")
    (part,) = system_parts(log)
    assert (part.text, part.segment) == ("Be brief.", "instructions")


async def test_without_an_api_the_date_stands_alone(
    hass: HomeAssistant, house: None
) -> None:
    request = await request_of(hass, "Kitchen Voice", llm_hass_api=[])
    assert list(segments(request)) == ["instructions", "date"]
    assert request.messages[0].text.endswith(DATE)


class OtherAPI(llm.API):
    """A second API, with a tool of its own and one whose name is taken."""

    async def async_get_api_instance(
        self, llm_context: llm.LLMContext
    ) -> llm.APIInstance:
        return llm.APIInstance(
            api=self,
            api_prompt="Be kind.",
            llm_context=llm_context,
            tools=[OtherTool("Search"), OtherTool("Ask")],
        )


class OtherTool(llm.Tool):
    integration = "other"

    def __init__(self, name: str) -> None:
        self.name = name


async def test_several_apis_stand_side_by_side(
    hass: HomeAssistant, house: None
) -> None:
    llm.async_register_api(hass, OtherAPI(hass=hass, id="one", name="One"))
    llm.async_register_api(hass, OtherAPI(hass=hass, id="two", name="Two"))
    request = await request_of(
        hass, "Kitchen Voice", llm_hass_api=["assist", "one", "two"]
    )
    names = [tool.name for tool in request.tools]
    assert {"Search", "Ask", "two__Search", "two__Ask", "intent__HassTurnOn"} <= set(
        names
    )
    assert len(names) == len(set(names))
    parts = segments(request)
    assert parts["house"].endswith("Be kind.\nBe kind.\n")
    assert parts["device"].startswith("You are in area Kitchen")
    assert not any(
        name in request.messages[0].text for name in ("two__", "HassStartTimer")
    )


async def test_devices_share_all_but_their_own_lines_with_several_apis_too(
    hass: HomeAssistant, house: None
) -> None:
    """Home Assistant's own way to merge them parts one device from another near the start."""
    llm.async_register_api(hass, OtherAPI(hass=hass, id="one", name="One"))
    for api_ids in (["assist", "one"], ["one", "assist"]):
        requests = [
            await request_of(hass, name, llm_hass_api=api_ids)
            for name in (None, *SATELLITES)
        ]
        heads = [request.messages[0].parts[:3] for request in requests]
        assert heads == [heads[0]] * len(heads)
        assert [part.segment for part in heads[0]] == ["instructions", "house", "date"]
        assert [request.tools for request in requests] == [requests[0].tools] * 4


class FailingAPI(llm.API):
    """An API that cannot be used."""

    def __init__(self, hass: HomeAssistant, id: str, error: HomeAssistantError) -> None:
        super().__init__(hass=hass, id=id, name=id.title())
        self._error = error

    async def async_get_api_instance(
        self, llm_context: llm.LLMContext
    ) -> llm.APIInstance:
        raise self._error


@pytest.mark.parametrize("place", [0, 1, 2], ids=["first", "second", "last"])
@pytest.mark.parametrize(
    ("api", "error", "words"),
    [
        (
            "cloud",
            HomeAssistantError("it is down"),
            "it is down",
        ),
        ("admin", Unauthorized(), "Unauthorized"),
        ("gone", None, "API gone not found"),
    ],
    ids=["fails", "for administrators", "lost"],
)
async def test_of_several_apis_the_one_that_cannot_be_used_is_named(
    hass: HomeAssistant,
    house: None,
    place: int,
    api: str,
    error: HomeAssistantError | None,
    words: str,
) -> None:
    llm.async_register_api(hass, OtherAPI(hass=hass, id="one", name="One"))
    if error:
        llm.async_register_api(hass, FailingAPI(hass, api, error))
    api_ids = ["assist", "one"]
    api_ids.insert(place, api)
    with pytest.raises(HomeAssistantError) as caught:
        await request_of(hass, "Kitchen Voice", llm_hass_api=api_ids)
    assert caught.value.translation_key == "api_unavailable"
    assert caught.value.translation_placeholders == {"api": api, "detail": words}


async def test_an_agent_with_an_api_for_administrators_says_so_to_everybody(
    hass: HomeAssistant, scripted: AddScripted
) -> None:
    """A satellite speaks for nobody: warm-ups and questions fail alike, and both name the API."""
    llm.async_register_api(hass, FailingAPI(hass, "admin", Unauthorized()))
    engine = await scripted(says("Yes."), agent={"llm_hass_api": ["assist", "admin"]})
    with pytest.raises(HomeAssistantError, match="cannot use admin of Home Assistant"):
        await hass.services.async_call(
            DOMAIN, "warm_up", blocking=True, return_response=True
        )
    result = await ask(hass, "hello", "Kitchen Voice")
    assert "cannot use admin of Home Assistant: Unauthorized" in speech(result)
    assert not engine.requests
    assert not engine.warmed


class DeviceAPI(llm.API):
    """An API that tells a device something that nobody else is told."""

    async def async_get_api_instance(
        self, llm_context: llm.LLMContext
    ) -> llm.APIInstance:
        own = (
            f"Your colour is {llm_context.device_id}.\n"
            if llm_context.device_id
            else ""
        )
        return llm.APIInstance(
            api=self, api_prompt=f"{own}Be kind.", llm_context=llm_context, tools=[]
        )


async def test_what_another_api_tells_a_device_stands_with_its_own_lines(
    hass: HomeAssistant, house: None
) -> None:
    llm.async_register_api(hass, DeviceAPI(hass=hass, id="colour", name="Colour"))
    requests = {
        name: segments(await request_of(hass, name, llm_hass_api=["colour", "assist"]))
        for name in (None, *SATELLITES)
    }
    assert len({parts["house"] for parts in requests.values()}) == 1
    assert requests[None]["house"].startswith("Be kind.\n")
    for name in SATELLITES:
        assert requests[name]["device"].startswith(
            f"Your colour is {device_id(hass, name)}.\nYou are in area"
        )


async def test_names_with_quotes_breaks_and_commas_leave_the_prompt_whole(
    hass: HomeAssistant, house: None
) -> None:
    registry = er.async_get(hass)
    registry.async_update_entity(
        "light.office_floor_lamp",
        aliases=["Upstairs, hall", 'The "big"\nlamp', er.COMPUTED_NAME],
    )
    parts = segments(await request_of(hass, "Kitchen Voice"))
    theirs = await llm.async_get_api(hass, "assist", context())
    for line in theirs.api_prompt.split("\n"):
        assert (
            line in parts["house"] or line in segments(await request_of(hass))["device"]
        )
    assert parts["device"].startswith("You are in area Kitchen")
