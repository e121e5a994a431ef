"""Tool calls are mended where their meaning is plain, and never do more than was written."""

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from hypothesis import example, given, settings, strategies as st
import pytest

from custom_components.local_llm.tool_calls.house_names import HouseNames, Place, Thing
from custom_components.local_llm.tool_calls.mending import ENTITY, OfferedTool, mended
from custom_components.local_llm.tool_calls.naming import AREA, FLOOR, Naming
from custom_components.local_llm.tool_calls.targets import TARGETS, UnclearCallError
from local_llm_engine.types import ToolCall, ToolSpec

TEXT = {"type": "string"}
TEXTS = {"type": "array", "items": TEXT}
PERCENT = {"type": "integer", "minimum": 0, "maximum": 100}
PLACE = {"name": TEXT, "area": TEXT, "floor": TEXT}
CLASSES = {"type": "array", "items": {"type": "string", "enum": ["blind", "garage"]}}


@pytest.fixture(autouse=True)
def _use_custom_integrations() -> None:
    """Do without Home Assistant: these are plain functions."""


def only(domain: str) -> dict[str, Any]:
    return {"type": "array", "items": {"type": "string", "enum": [domain]}}


def tool(name: str, properties: Mapping[str, Any], **settings: Any) -> OfferedTool:
    parameters = {
        "type": "object",
        "properties": properties,
        "required": settings.pop("required", []),
        "additionalProperties": False,
        **settings.pop("schema", {}),
    }
    is_aimed = "area" in properties
    return OfferedTool(
        **{
            "spec": ToolSpec(name=name, description="", parameters=parameters),
            "targets": frozenset(properties.keys() & set(TARGETS) if is_aimed else ()),
            "places": {},
            "is_read_only": False,
            "is_absent": False,
            **settings,
        }
    )


TOOLS = (
    tool("intent__HassTurnOn", {**PLACE, "domain": TEXTS, "device_class": CLASSES}),
    tool("intent__HassTurnOff", {**PLACE, "domain": TEXTS, "device_class": CLASSES}),
    tool(
        "light__HassLightSet",
        {**PLACE, "domain": only("light"), "brightness": PERCENT, "temperature": TEXT},
    ),
    tool(
        "climate__HassClimateSetTemperature",
        {"temperature": {"type": "number"}, **PLACE},
        required=["temperature"],
    ),
    tool(
        "cover__HassSetPosition",
        {**PLACE, "domain": only("cover"), "device_class": CLASSES, "at": PERCENT},
    ),
    tool("vacuum__Clean", {**PLACE}, targets=frozenset(PLACE)),
    tool(
        "homeassistant__GetLiveContext",
        {"name": TEXT, "area": TEXT, "domain": {"anyOf": [TEXT, TEXTS]}},
        is_read_only=True,
    ),
    tool(
        "intent__HassStartTimer",
        {"hours": PERCENT, "minutes": PERCENT, "seconds": PERCENT, "name": TEXT},
        schema={"anyOf": [{"required": ["hours"]}, {"required": ["minutes"]}]},
    ),
    tool("intent__HassPauseTimer", {"minutes": PERCENT}, is_absent=True),
    tool(
        "script__clean",
        {"room": TEXT, "storeys": TEXTS, "lamps": TEXTS, "times": PERCENT},
        places={"room": AREA, "storeys": FLOOR, "lamps": ENTITY},
    ),
    tool("one__Search", {"query": TEXT}),
    tool("two__Search", {"query": TEXT}),
    tool("two__Anything", {"query": TEXT}, schema={"additionalProperties": True}),
    tool("Bare", {}),
)


def thing(
    entity_id: str, *names: str, area: str | None = None, kind: str | None = None
) -> Thing:
    return Thing(entity_id=entity_id, names=names, device_class=kind, area=area)


THINGS = (
    thing("light.kitchen_ceiling", "Kitchen Ceiling Light", area="Kitchen"),
    thing("light.kitchen_lamp", "Kitchen Lamp", area="Kitchen"),
    thing("light.attic_lamp", "Attic Lamp", area="Attic"),
    thing("light.one", "Twin", area="Kitchen"),
    thing("light.two", "Twin", area="Attic"),
    thing("light.same", "Spot", area="Attic"),
    thing("light.same_too", "Spot", "Spotlight", area="Attic"),
    thing("switch.kettle", "Kettle", area="Kitchen"),
    thing("switch.sauna_like", "Saunalike"),
    thing("cover.blind", "Left Blind", area="Attic", kind="blind"),
    thing("cover.garage", "Big Door", kind="garage"),
    thing("cover.hatch", "Hatch"),
    thing("lock.front", "Front Door"),
    thing("climate.attic", "Warmth", area="Attic"),
    thing("vacuum.robot", "Robot"),
)


def naming(own_area: str | None = "Kitchen") -> Naming:
    return Naming(
        HouseNames(
            things=THINGS,
            areas=(
                Place(name="Kitchen", other_names=("kitchen", "Küche")),
                Place(name="Attic", other_names=("attic", "Loft")),
                Place(name="Living Room", other_names=("living_room",)),
                Place(name="La Cave", other_names=()),
            ),
            floors=(
                Place(name="Upstairs", other_names=("upstairs",)),
                Place(name="Ground Floor", other_names=("ground_floor",)),
            ),
            own_area=own_area,
            temperature_unit="°C",
        )
    )


def mend(
    name: str, own_area: str | None = "Kitchen", /, **arguments: Any
) -> tuple[str, dict[str, Any]]:
    call = mended(
        ToolCall(id="1", name=name, arguments=arguments), TOOLS, naming(own_area)
    )
    assert call.id == "1"
    return call.name, dict(call.arguments)


def refusal(name: str, own_area: str | None = "Kitchen", /, **arguments: Any) -> str:
    with pytest.raises(UnclearCallError) as raised:
        mend(name, own_area, **arguments)
    return str(raised.value)


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("intent__HassTurnOn", "intent__HassTurnOn"),
        ("HassTurnOn", "intent__HassTurnOn"),
        ("turn_on", "intent__HassTurnOn"),
        ("homeassistant.turn_on", "intent__HassTurnOn"),
        ("GetLiveContext", "homeassistant__GetLiveContext"),
        ("get live context", "homeassistant__GetLiveContext"),
        ("two.search", "two__Search"),
        ("bare", "Bare"),
    ],
)
def test_a_tool_is_known_by_a_plain_name(name: str, meant: str) -> None:
    assert mend(name)[0] == meant


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("Search", "Do you mean"),
        ("turn.it.up", "There is no tool 'turn.it.up'"),
        ("", "There is no tool ''"),
        ("x" * 500, "x" * 60),
    ],
)
def test_a_tool_is_not_guessed(name: str, hint: str) -> None:
    assert hint in refusal(name)
    assert len(refusal(name)) < 200


def test_an_actions_domain_goes_along() -> None:
    assert mend("light.turn_on", area="Kitchen") == (
        "intent__HassTurnOn",
        {"area": "Kitchen", "domain": ["light"]},
    )
    assert mend("switch.turn_on", domain="light", area="Kitchen")[1]["domain"] == [
        "light"
    ]
    assert mend("script.clean", room="Attic") == ("script__clean", {"room": "Attic"})


def test_an_absent_tool_is_called_as_it_is() -> None:
    assert mend("HassPauseTimer", minutes="x", why="y") == (
        "intent__HassPauseTimer",
        {"minutes": "x", "why": "y"},
    )


ON = "intent__HassTurnOn"
SET = "light__HassLightSet"


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"name": "Twin"}, {"name": "Twin"}),
        ({"name": "all", "area": "Attic"}, {"name": "all", "area": "Attic"}),
        ({"name": "Everything", "area": "Attic"}, {"area": "Attic", "name": "all"}),
        ({"name": "kettles"}, {"name": "Kettle"}),
        ({"name": "twins"}, {"name": "light.one"}),
        ({"name": "Light.Attic_Lamp"}, {"name": "Attic Lamp"}),
        ({"name": "lamp"}, {"name": "Kitchen Lamp"}),
        ({"name": "lamp", "area": "Loft"}, {"name": "Attic Lamp", "area": "Loft"}),
        ({"name": "spotlight"}, {"name": "spotlight"}),
        (
            {"name": "kitchen", "area": "Kitchen", "domain": "light"},
            {"area": "Kitchen", "domain": ["light"]},
        ),
        ({"name": "Küche", "domain": "light"}, {"area": "Küche", "domain": ["light"]}),
        (
            {"name": "Upstairs", "domain": "light"},
            {"floor": "Upstairs", "domain": ["light"]},
        ),
        ({"name": "upstairs lights"}, {"floor": "Upstairs", "domain": ["light"]}),
        ({"name": "all the lights"}, {"name": "all", "domain": ["light"]}),
        (
            {"name": "all lights", "area": "Attic"},
            {"area": "Attic", "domain": ["light"]},
        ),
        ({"name": "attic blinds"}, {"area": "Attic", "device_class": ["blind"]}),
        (
            {"name": "Kettle", "domain": "cover", "device_class": "blind"},
            {"name": "Kettle"},
        ),
        ({"name": "Robot", "area": "Attic", "floor": "Upstairs"}, {"name": "Robot"}),
        (
            {"area": "living", "domain": "light"},
            {"area": "Living Room", "domain": ["light"]},
        ),
        (
            {"area": "the kitchen area", "domain": "light"},
            {"area": "Kitchen", "domain": ["light"]},
        ),
        (
            {"area": "KUCHE", "domain": "light"},
            {"area": "Kitchen", "domain": ["light"]},
        ),
        ({"area": "here", "domain": "light"}, {"area": "Kitchen", "domain": ["light"]}),
        (
            {"area": "ground", "domain": "light"},
            {"floor": "Ground Floor", "domain": ["light"]},
        ),
        ({"area": "Kettle", "name": "kettle"}, {"name": "Kettle"}),
        (
            {"floor": "Kitchen", "area": "kitchen", "domain": "light"},
            {"area": "Kitchen", "domain": ["light"]},
        ),
        (
            {"area": "whole house", "domain": "light"},
            {"domain": ["light"], "name": "all"},
        ),
        (
            {"area": "Kitchen", "domain": "lights, switches"},
            {"area": "Kitchen", "domain": ["light", "switch"]},
        ),
        (
            {"area": "Kitchen", "domain": ["light", "Light"]},
            {"area": "Kitchen", "domain": ["light"]},
        ),
        (
            {"area": "Kitchen", "device_class": "light"},
            {"area": "Kitchen", "domain": ["light"]},
        ),
        (
            {"area": "Kitchen", "domain": "light", "transition": 2},
            {"area": "Kitchen", "domain": ["light"]},
        ),
        ({"name": "Kettle", "device_id": "123"}, {"name": "Kettle"}),
        (
            {"name": "Kettle", "area": "", "floor": None, "domain": []},
            {"name": "Kettle"},
        ),
    ],
)
def test_targets(given: dict[str, Any], expected: dict[str, Any]) -> None:
    assert mend(ON, **given) == (ON, expected)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (
            {"name": "Sauna"},
            "There is no device called 'Sauna' that this is for. Do you mean Saunalike?",
        ),
        ({"name": "Cellar"}, "Tell the user so"),
        ({"name": "Kitchen"}, "'Kitchen' is no device: it is the name of the area"),
        ({"name": "Upstairs"}, "'Upstairs' is no device: it is the name of the floor"),
        ({"name": "spots"}, "'spots' can be light.same, Spotlight"),
        ({"name": "door", "domain": "lock"}, "no device called 'door'"),
        ({"name": "the blinds"}, "no device called 'the blinds'"),
        (
            {"name": "kitchen lights", "domain": "switch"},
            "no device called 'kitchen lights'",
        ),
        (
            {"name": ["Kettle", "Robot"]},
            "name must be one text, not \"['Kettle', 'Robot']\". Call the tool once for each.",
        ),
        (
            {"area": "Sauna", "domain": "light"},
            "There is no area 'Sauna'. Tell the user so.",
        ),
        ({"area": "Sauna", "name": "Kettle"}, "There is no area 'Sauna'"),
        (
            {"area": "Upstairs", "floor": "Ground Floor", "domain": "light"},
            "There is no area 'Upstairs'",
        ),
        ({"area": "Robot", "name": "Kettle"}, "There is no area 'Robot'"),
        ({"area": "Twin"}, "There is no area 'Twin'"),
        ({"floor": "2", "domain": "light"}, "There is no floor '2'"),
        (
            {"area": "Kitchen", "domain": "toaster"},
            "There is no domain 'toaster'. Known are climate, cover, light, lock, switch, vacuum.",
        ),
        (
            {"area": "Kitchen", "device_class": "toaster"},
            "There is no device_class 'toaster'. Known are blind, garage.",
        ),
        (
            {"domain": "light", "where": "Sauna"},
            "has no argument 'where'. It has name, area, floor, domain, device_class.",
        ),
        ({"domain": "light", "where": ["Sauna"]}, "has no argument 'where'"),
        (
            {"name": "Kettle", "temperature": 20},
            "intent__HassTurnOn has no temperature. Use light__HassLightSet or climate__HassClimateSetTemperature.",
        ),
    ],
)
def test_targets_that_are_not_there(given: dict[str, Any], words: str) -> None:
    assert words in refusal(ON, **given)


OFF = "intent__HassTurnOff"


@pytest.mark.parametrize(
    ("tool_name", "given"),
    [
        (OFF, {"name": "Front Door", "domain": "light"}),
        (OFF, {"area": "Front Door", "domain": "light"}),
        ("light.turn_off", {"name": "the front door"}),
        (ON, {"name": "Big Door", "device_class": "blind"}),
        ("cover__HassSetPosition", {"name": "Big Door", "domain": "light", "at": 9}),
    ],
)
def test_what_lets_people_in_is_not_meant_by_another_kind(
    tool_name: str, given: dict[str, Any]
) -> None:
    assert "nothing else" in refusal(tool_name, **given)


@pytest.mark.parametrize("name", ["light.front", "switch.front_door", "front"])
def test_what_lets_people_in_goes_by_its_name_or_its_whole_id(name: str) -> None:
    assert "no device called" in refusal(OFF, name=name)
    assert mend(OFF, name="LOCK.FRONT") == (OFF, {"name": "Front Door"})


def test_what_lets_people_in_may_go_by_a_class_where_it_has_none() -> None:
    assert mend(ON, name="Hatch", device_class="garage") == (ON, {"name": "Hatch"})


@pytest.mark.parametrize(
    "given",
    [
        {"name": "all", "domain": "light", "where": "Attic"},
        {"name": "all", "domain": "light", "entity_id": "Kitchen Lamp"},
        {"name": "all lights", "except": "Attic"},
        {"name": "lights", "where": "Attic"},
        {"name": "lamp", "where": "Attic"},
        {"name": "Twin", "where": "Attic"},
        {"domain": "light", "level": 2},
    ],
)
def test_what_could_have_narrowed_the_target_is_not_left_out(
    given: dict[str, Any],
) -> None:
    assert "has no argument" in refusal(OFF, **given)


def test_a_word_for_a_kind_is_no_part_of_a_name() -> None:
    assert "no device called 'light'" in refusal(SET, None, name="light", brightness=4)
    assert "no device called 'light'" in refusal(
        OFF, None, name="light", domain="light"
    )


def test_no_timer_is_ended_that_nobody_named() -> None:
    tools = (
        tool("intent__HassCancelAllTimers", {"area": TEXT}, targets=frozenset()),
        tool("intent__HassCancelTimer", {"name": TEXT}),
    )
    for name, key in (("CancelAllTimers", "name"), ("CancelTimer", "label")):
        call = ToolCall(id="1", name=name, arguments={key: "eggs"})
        with pytest.raises(UnclearCallError, match=f"has no argument '{key}'"):
            mended(call, tools, naming())


def test_what_is_put_on_a_list_may_have_more_said_of_it() -> None:
    tools = (
        tool("switch__HassListAddItem", {"name": TEXT}, targets=frozenset({"name"})),
    )
    arguments = {"name": "Kettle", "quantity": "2 l"}
    call = ToolCall(id="1", name="HassListAddItem", arguments=arguments)
    assert mended(call, tools, naming()).arguments == {"name": "Kettle"}


def test_a_kind_without_a_room_is_not_the_whole_house() -> None:
    assert "no device called 'lights'" in refusal(ON, None, name="lights")
    assert mend(ON, name="lights") == (ON, {"area": "Kitchen", "domain": ["light"]})
    assert "There is no area 'here'" in refusal(ON, None, area="here", domain="light")


def test_turning_on_with_a_value_sets_it() -> None:
    assert mend(ON, name="Kitchen Lamp", brightness="40%") == (
        SET,
        {"name": "Kitchen Lamp", "brightness": 40},
    )


def test_a_value_is_not_set_everywhere() -> None:
    assert mend(SET, brightness=40) == (SET, {"brightness": 40, "area": "Kitchen"})
    assert "Say what to act on" in refusal(SET, None, brightness=40)
    assert mend(SET, area="everywhere", brightness=40) == (
        SET,
        {"brightness": 40, "name": "all"},
    )


def test_a_tool_for_one_domain() -> None:
    assert "this tool is for the domain light" in refusal(
        SET, name="Kettle", brightness=4
    )
    assert "not for switch" in refusal(SET, area="Attic", domain="switch", brightness=4)
    assert mend(SET, name="Kitchen Lamp", domain="switch", brightness=4) == (
        SET,
        {"name": "Kitchen Lamp", "brightness": 4},
    )
    assert "kettle lights" in refusal(SET, name="kettle lights", brightness=4)


def test_one_device_at_a_time() -> None:
    climate = "climate__HassClimateSetTemperature"
    assert "one device at a time" in refusal(climate, name="everything", temperature=20)
    assert mend(climate, name="thermostat", area="Attic", temperature=20) == (
        climate,
        {"area": "Attic", "temperature": 20},
    )
    assert mend(climate, temperature=20) == (climate, {"temperature": 20})


@pytest.mark.parametrize("degrees", ["21.5 °C", "21,5 degrees Celsius", "21.5c", 21.5])
def test_degrees_of_the_house(degrees: Any) -> None:
    _, found = mend(
        "climate__HassClimateSetTemperature", temperature=degrees, name="Warmth"
    )
    assert found["temperature"] == 21.5


def test_degrees_of_another_house() -> None:
    words = refusal(
        "climate__HassClimateSetTemperature", temperature="70 °F", name="Warmth"
    )
    assert words == "temperature must be in °C, not '70 °F'."


def test_reading_may_be_wider_than_asked() -> None:
    live = "homeassistant__GetLiveContext"
    assert mend(live, name="everything", why="x") == (live, {})
    assert mend(live, floor="Upstairs", domain="lights") == (
        live,
        {"domain": ["light"]},
    )
    assert mend(live, area="everywhere") == (live, {})


def test_what_a_tool_cannot_be_aimed_at_is_refused() -> None:
    tools = (tool("intent__Wash", {"name": TEXT, "area": TEXT}),)
    call = ToolCall(id="1", name="Wash", arguments={"floor": "Upstairs"})
    with pytest.raises(UnclearCallError, match="intent__Wash has no floor"):
        mended(call, tools, naming())


def test_places_and_things_in_other_arguments() -> None:
    assert mend(
        "clean", room="loft!", storeys="upstairs", lamps=["attic lamp", "light.one"]
    ) == (
        "script__clean",
        {
            "room": "Attic",
            "storeys": ["upstairs"],
            "lamps": ["light.attic_lamp", "light.one"],
        },
    )
    assert "room: there is no area 'Kichen'. Do you mean Kitchen?" in refusal(
        "clean", room="Kichen"
    )
    assert "lamps: there is no entity 'Twin'" in refusal("clean", lamps="Twin")


def test_what_must_be_there() -> None:
    timer = "intent__HassStartTimer"
    assert mend(timer, duration="5 min", name="eggs", color=None)[1] == {
        "minutes": 5,
        "name": "eggs",
    }
    assert refusal(timer, name="eggs") == f"{timer} needs hours or minutes."
    assert refusal("climate__HassClimateSetTemperature", temperature="") == (
        "climate__HassClimateSetTemperature needs temperature."
    )
    assert (
        refusal("clean", times="often")
        == "times must be a whole number from 0 to 100, not 'often'."
    )


def test_other_arguments_are_kept_where_they_are_allowed() -> None:
    assert mend("two__Anything", query=1, more="x") == (
        "two__Anything",
        {"query": "1", "more": "x"},
    )
    assert mend("one__Search", query=["x"], more="x") == ("one__Search", {"query": "x"})


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.sampled_from(
        ["Kitchen", "kettle", "all", "lights", "everywhere", "", "5 %", "["]
    )
    | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(max_size=8), inner, max_size=3)
    ),
    max_leaves=4,
)
AIMED = ["name", "area", "floor", "entity_id", "room"]
KEYS = st.sampled_from(
    [
        *AIMED,
        *("domain", "device_class", "brightness", "storeys", "lamps", "where"),
        *("temperature", "minutes", "duration", "target", "query"),
    ]
)


def outcome(name: str, arguments: dict[str, Any]) -> ToolCall | None:
    """The mended call; None where it is refused."""
    call = ToolCall(id="1", name=name, arguments=arguments)
    with suppress(UnclearCallError):
        return mended(call, TOOLS, naming())
    return None


@settings(max_examples=300, deadline=None, derandomize=True)
@given(
    name=st.sampled_from([tool.spec.name for tool in TOOLS]),
    arguments=st.dictionaries(KEYS, JSON, max_size=4),
)
def test_whatever_is_written_is_mended_or_refused(
    name: str, arguments: dict[str, Any]
) -> None:
    before = repr(arguments)
    call = outcome(name, arguments)
    assert repr(arguments) == before
    assert call is None or outcome(call.name, dict(call.arguments)) == call


@settings(max_examples=300, deadline=None, derandomize=True)
@given(
    name=st.sampled_from([ON, "intent__HassTurnOff", SET]),
    key=st.sampled_from(AIMED),
    word=st.sampled_from(["Kitchen", "lights", "Sauna", "kettle", "Upstairs", "x"]),
    arguments=st.dictionaries(KEYS, JSON, max_size=3),
)
@example(name=ON, key="entity_id", word="Kitchen", arguments={"target": None})
def test_a_target_is_never_lost(
    name: str, key: str, word: str, arguments: dict[str, Any]
) -> None:
    call = outcome(name, {**arguments, key: word})
    assert call is None or {"name", "area", "floor"} & call.arguments.keys()


@pytest.mark.parametrize(
    ("name", "area"),
    [
        ("La Cave lights", "La Cave"),
        ("lumières de la cave", "la cave"),
        ("Licht in der Küche", "Kitchen"),
        ("Küche Licht", "Kitchen"),
        ("lights in the loft", "Attic"),
    ],
)
def test_a_place_keeps_its_article_and_may_stand_behind_the_kind(
    name: str, area: str
) -> None:
    expected = {"area": area, "domain": ["light"]}
    assert mend("HassTurnOn", name=name)[1] == expected
