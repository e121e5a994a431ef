"""What the grammar of tool calls lets through, and that it is read as it was meant."""

import json
from typing import Any

import pytest

from local_llm_engine.chat import ChatFormat
from local_llm_engine.types import ToolCallDelta, ToolSpec

from .answers import gather
from .schemas import satisfies
from .walks import calling, draw, refused_at, token_ids


def tool(name: str, /, *required: str, **properties: object) -> ToolSpec:
    """A tool with these parameters."""
    schema = {
        "type": "object",
        "properties": properties,
        "required": list(required),
        "additionalProperties": False,
    }
    return ToolSpec(name=name, description="", parameters=schema)


STRING = {"type": "string"}
LIGHT_SET = tool(
    "light__HassLightSet",
    name=STRING,
    area=STRING,
    brightness={"type": "integer", "minimum": 0, "maximum": 100},
)
KINDS = (
    tool("llm__GetDateTime"),
    tool(
        "intent__HassTurnOn",
        "name",
        name=STRING,
        domain={"type": "array", "items": STRING, "maxItems": 2},
        device_class={
            "type": "array",
            "items": {"type": "string", "enum": ["tv", "tv box", "Işık", "シェード"]},
        },
    ),
    tool(
        "climate__SetTemperature",
        "temperature",
        temperature={"type": "number", "minimum": -5, "maximum": 30.5},
        mode={"type": "string", "enum": ["heat", "Kühlen", "eco 🛋️", ""]},
    ),
    tool(
        "media__Step",
        "step",
        step={
            "anyOf": [
                {"type": "string", "enum": ["up", "down"]},
                {"type": "integer", "minimum": -3, "maximum": 3},
            ]
        },
        mute={"type": "boolean"},
        level={"type": ["integer", "null"], "minimum": 7},
    ),
    tool(
        "script__plan",
        "plan",
        plan={
            "type": "object",
            "properties": {
                "steps": {
                    "type": "array",
                    "items": {
                        "type": "object",
                        "properties": {
                            "on": {"type": "boolean"},
                            "to": {"enum": [1, "two", None]},
                        },
                        "required": ["on", "to"],
                        "additionalProperties": False,
                    },
                }
            },
            "required": ["steps"],
            "additionalProperties": False,
        },
        who={"anyOf": [STRING, {"type": "array", "items": STRING}]},
        when={"const": "now"},
    ),
)
FORMS = pytest.mark.parametrize("name", ["nano", "qwen", "hermes"])


def call(form: str, name: str, /, **arguments: str) -> str:
    """A call in the form that a model writes, its arguments written as they stand here."""
    if form == "hermes":
        written = ", ".join(f'"{key}": {value}' for key, value in arguments.items())
        return f'<tool_call>\n{{"name": "{name}", "arguments": {{{written}}}}}\n</tool_call>'
    written = "".join(
        f"<parameter={key}>\n{value}\n</parameter>\n"
        for key, value in arguments.items()
    )
    return f"<tool_call>\n<function={name}>\n{written}</function>\n</tool_call>"


def words(form: str, text: str) -> str:
    """A string as the form writes it."""
    return json.dumps(text, ensure_ascii=False) if form == "hermes" else text


@FORMS
@pytest.mark.parametrize(
    "tools",
    [(kind,) for kind in KINDS] + [KINDS],
    ids=lambda tools: tools[0].name if len(tools) == 1 else "all",
)
def test_every_call_that_ends_is_read_and_satisfies_its_schema(
    formats: dict[str, ChatFormat], name: str, tools: tuple[ToolSpec, ...]
) -> None:
    """Whatever is drawn from what is allowed."""
    request = calling(*tools)
    schemas = {tool.name: tool.parameters for tool in tools}
    walks = [draw(formats[name], request, seed, "<tool_call>") for seed in range(50)]
    ended = [gather(walk.deltas) for walk in walks if walk.has_ended]
    assert len(ended) > 10
    for outcome in ended:
        [(called, arguments)] = outcome.calls
        assert satisfies(arguments, schemas[called]), arguments
        assert not outcome.invalid
        assert not outcome.content


@FORMS
@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"name": "Desk"},
        {"area": "Büro", "name": "寝室"},
        {"brightness": "40", "area": "Attic", "name": "Fan"},
    ],
    ids=lambda arguments: " ".join(arguments) or "none",
)
def test_parameters_come_in_any_order(
    formats: dict[str, ChatFormat], name: str, arguments: dict[str, str]
) -> None:
    """And optional ones may be missing."""
    written = {
        key: value if key == "brightness" else words(name, value)
        for key, value in arguments.items()
    }
    answer = call(name, "light__HassLightSet", **written)
    assert refused_at(formats[name], calling(LIGHT_SET), answer) is None


@FORMS
@pytest.mark.parametrize(
    ("called", "arguments", "refused"),
    [
        pytest.param("light__HassLightSe", {}, "HassLightSe", id="unknown tool"),
        pytest.param("light__HassLightSet2", {}, "HassLightSet2", id="longer name"),
        pytest.param(
            "light__HassLightSet", {"floor": "1"}, "f", id="unknown parameter"
        ),
        pytest.param(
            "light__HassLightSet", {"brightness": "101"}, "101", id="out of range"
        ),
        pytest.param(
            "light__HassLightSet", {"brightness": "high"}, "high", id="wrong type"
        ),
        pytest.param("climate__SetTemperature", {}, "", id="required is missing"),
        pytest.param(
            "climate__SetTemperature",
            {"temperature": "20", "mode": "cool"},
            "cool",
            id="no such choice",
        ),
    ],
)
def test_what_a_small_model_gets_wrong_cannot_be_written(
    formats: dict[str, ChatFormat],
    name: str,
    called: str,
    arguments: dict[str, str],
    refused: str,
) -> None:
    """It is refused where it goes wrong, not later."""
    written = {
        key: words(name, value) if key in ("floor", "mode") else value
        for key, value in arguments.items()
    }
    answer = call(name, called, **written)
    found = refused_at(formats[name], calling(*KINDS, LIGHT_SET), answer)
    assert found is not None
    assert not found.endswith("</tool_call>")


@FORMS
def test_no_parameter_comes_twice(formats: dict[str, ChatFormat], name: str) -> None:
    """The parser would not read that."""
    twice = {
        "hermes": '<tool_call>\n{"name": "light__HassLightSet", "arguments": {"area": "a", "area"',
        "nano": "<tool_call>\n<function=light__HassLightSet>\n<parameter=area>\na\n</parameter>\n<parameter=area>",
    }
    answer = twice.get(name, twice["nano"])
    assert (
        refused_at(formats[name], calling(LIGHT_SET), answer) != f"{answer} and its end"
    )


@FORMS
def test_one_of_several_parameters_may_be_required(
    formats: dict[str, ChatFormat], name: str
) -> None:
    """As a timer needs hours, minutes or seconds."""
    number = {"type": "integer", "minimum": 0}
    timer = ToolSpec(
        name="intent__HassStartTimer",
        description="",
        parameters={
            "type": "object",
            "properties": {"hours": number, "minutes": number, "name": STRING},
            "anyOf": [{"required": ["hours"]}, {"required": ["minutes"]}],
        },
    )
    request, chat = calling(timer), formats[name]
    tea = words(name, "tea")
    assert (
        refused_at(chat, request, call(name, timer.name, minutes="5", name=tea)) is None
    )
    assert (
        refused_at(chat, request, call(name, timer.name, hours="1", minutes="5"))
        is None
    )
    assert refused_at(chat, request, call(name, timer.name, name=tea)) is not None


@FORMS
@pytest.mark.parametrize(
    "answer",
    [
        "It is warm.",
        "<tool_call> is how I call.",
        "One moment.\n{call}",
        "{call}\n{call}",
        "{call}{call}",
        "{call}\nDone.",
    ],
    ids=["no call", "prose", "after words", "two", "two together", "before words"],
)
def test_calls_stand_anywhere_and_as_often_as_wanted(
    formats: dict[str, ChatFormat], name: str, answer: str
) -> None:
    """Between them everything is free; also what only looks like a call."""
    one = call(name, "light__HassLightSet", brightness="7")
    as_words = "tool_call> is" in answer
    written = answer.replace("<tool_call> is", "< tool_call> is").replace("{call}", one)
    chat, request = formats[name], calling(LIGHT_SET)
    assert refused_at(chat, request, written) is None
    decoder = chat.decoder(request)
    deltas = [
        delta
        for token_id in token_ids(chat, written)
        for delta in decoder.feed(token_id)
    ]
    outcome = gather([*deltas, *decoder.finish()])
    assert len(outcome.calls) == answer.count("{call}")
    assert as_words == ("tool_call" in outcome.content)


TEXTS = [
    "plain",
    "",
    "\n",
    "\n\n  - milk\n",
    " leading and trailing ",
    "x < 5 <<",
    "<b>bold</b> & <i>",
    "a </p> <p>",
    "ends with <",
    '{"a": 1}',
    "Büro 🛋️ 寝室",
    "5",
]


@pytest.mark.parametrize("name", ["nano", "qwen"])
@pytest.mark.parametrize("text", TEXTS, ids=ascii)
def test_raw_text_is_read_to_the_letter(
    formats: dict[str, ChatFormat], name: str, text: str
) -> None:
    """One newline on each side belongs to the markup, everything else to the value."""
    chat, request = formats[name], calling(LIGHT_SET)
    answer = call("xml", "light__HassLightSet", name=text)
    assert refused_at(chat, request, answer) is None
    decoder = chat.decoder(request)
    deltas = [
        delta
        for token_id in token_ids(chat, answer)
        for delta in decoder.feed(token_id)
    ]
    [called] = [delta for delta in deltas if isinstance(delta, ToolCallDelta)]
    assert called.tool_call.arguments == {"name": text}


@pytest.mark.parametrize(
    "text",
    [
        "a</parameter>",
        "a</param>\n",
        "b\n<parameter=area> c",
        "</function>\n",
        "<function=x>",
    ],
)
def test_raw_text_holds_nothing_that_would_end_it_early(
    formats: dict[str, ChatFormat], text: str
) -> None:
    """The parser would read something else than was written."""
    answer = call("xml", "light__HassLightSet", name=f"{text}x")
    assert refused_at(formats["qwen"], calling(LIGHT_SET), answer) is not None


@FORMS
def test_an_end_token_is_out_of_reach_inside_a_call_only(
    formats: dict[str, ChatFormat], name: str
) -> None:
    """Nor can any other control token come up there, nor a row without a token."""
    chat, request = formats[name], calling(*KINDS)
    whole = call(name, "llm__GetDateTime")
    ids = token_ids(chat, whole)
    guide = chat.guide(request)
    assert guide is not None
    assert guide.allowed() is None
    known = {token.id for token in chat._tokenizer.control_tokens}
    for index, token_id in enumerate(ids):
        guide.accept(token_id)
        mask = guide.allowed()
        if index == len(ids) - 1:
            assert mask is None
            continue
        assert mask is not None
        allowed = {
            8 * i + bit
            for i, byte in enumerate(mask)
            for bit in range(8)
            if byte >> bit & 1
        }
        assert allowed & known <= {ids[-1]}
        assert all(chat._tokenizer.token_bytes(found) for found in allowed - known)


@pytest.mark.parametrize("name", ["qwen", "hermes"])
def test_a_tool_that_takes_anything_is_held_to_its_name(
    formats: dict[str, ChatFormat], name: str
) -> None:
    """What its schema leaves open stays open."""
    anything = ToolSpec(
        name="anything",
        description="",
        parameters={"type": "object", "additionalProperties": True},
    )
    many = tool("many", **{f"p{index}": STRING for index in range(65)})
    chat, request = formats[name], calling(anything, many)
    value = words(name, "x")
    assert (
        refused_at(chat, request, call(name, "anything", sky=value, sea=value)) is None
    )
    assert refused_at(chat, request, call(name, "many", p64=value)) is None
    assert refused_at(chat, request, call(name, "nothing")) is not None


@FORMS
def test_a_required_parameter_may_have_no_schema(
    formats: dict[str, ChatFormat], name: str
) -> None:
    """A schema may require what it does not describe, or describe it as true."""
    odd = ToolSpec(
        name="odd",
        description="",
        parameters={"type": "object", "properties": {"a": True}, "required": ["b"]},
    )
    value = words(name, "x")
    chat, request = formats[name], calling(odd)
    assert refused_at(chat, request, call(name, "odd", a=value, b=value)) is None
    assert refused_at(chat, request, call(name, "odd", a=value)) is not None


@pytest.mark.parametrize("name", ["qwen", "hermes"])
def test_references_are_followed(formats: dict[str, ChatFormat], name: str) -> None:
    """A parameter may refer to a definition of its tool's schema."""
    referring = ToolSpec(
        name="paint",
        description="",
        parameters={
            "type": "object",
            "properties": {
                "color": {
                    "type": "object",
                    "properties": {"red": {"$ref": "#/$defs/byte"}},
                    "additionalProperties": False,
                }
            },
            "$defs": {"byte": {"type": "integer", "minimum": 0, "maximum": 255}},
        },
    )
    chat, request = formats[name], calling(referring)
    assert refused_at(chat, request, call(name, "paint", color='{"red": 255}')) is None
    assert (
        refused_at(chat, request, call(name, "paint", color='{"red": 256}')) is not None
    )


@pytest.mark.parametrize(
    ("properties", "complaint"),
    [
        pytest.param(
            {"a": {"type": "array", "items": {"type": "strin"}}}, "strin", id="no type"
        ),
        pytest.param({"a b": STRING}, "a b", id="no name"),
        pytest.param({"a": {"enum": ["x</parameter>"]}}, "tag", id="a tag"),
        pytest.param(
            {
                "a": {
                    "type": "string",
                    "pattern": "(?=a)b",
                    "anyOf": [{"type": "integer", "enum": []}],
                }
            },
            "",
            id="nothing satisfies it",
        ),
    ],
)
def test_a_tool_that_cannot_be_held_leaves_the_others_held(
    folders: dict[str, Any], properties: dict[str, Any], complaint: str
) -> None:
    """And says so once, by name."""
    chat = ChatFormat.load(folders["qwen"])
    broken = tool("broken", **properties)
    request = calling(LIGHT_SET, broken)
    assert refused_at(chat, request, call("xml", "broken", whatever="x")) is None
    assert (
        refused_at(chat, request, call("xml", "light__HassLightSet", whatever="x"))
        is not None
    )
    assert chat.guide(request) is not None
    [notice] = chat.notices
    assert "broken" in notice
    assert complaint in notice


def test_properties_that_are_none_leave_a_tool_unheld(folders: dict[str, Any]) -> None:
    """Whoever describes a tool may be wrong in any way."""
    chat = ChatFormat.load(folders["qwen"])
    broken = ToolSpec(name="broken", description="", parameters={"properties": [1]})
    assert refused_at(chat, calling(broken), call("xml", "broken", a="x")) is None
    assert "properties" in chat.notices[0]
