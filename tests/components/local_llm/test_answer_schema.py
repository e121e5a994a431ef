"""What a task's structure becomes for the engine: every selector's data can be held, and passes the structure."""

from collections.abc import Mapping
import json
from typing import Any

import probatio
import pytest

from custom_components.local_llm.answer_schema import as_answer_schema
from homeassistant.helpers import llm, selector
from local_llm_engine.chat import ChatFormat
from local_llm_engine.types import ChatRequest, Message
from tests.engine.chat.answers import gather
from tests.engine.chat.model_folders import write_qwen_like_folder
from tests.engine.chat.walks import draw, refused_at

# What a selector needs to be made at all, by its name.
NEEDED: Mapping[str, Mapping[str, Any]] = {
    "attribute": {"entity_id": "light.desk"},
    "automation_behavior": {"mode": "trigger"},
    "choose": {"choices": {"text": {"selector": {"text": {}}}}},
    "constant": {"value": "only"},
    "device_class": {"domain": "sensor"},
    "file": {"accept": "*"},
    "numeric_threshold": {"mode": "changed"},
    "object": {
        "fields": {
            "amount": {"selector": {"number": {"min": 0, "max": 3}}, "required": True}
        }
    },
    "qr_code": {"data": "x"},
    "select": {"options": ["red", "grün"]},
}


@pytest.fixture(scope="module")
def chat(tmp_path_factory: pytest.TempPathFactory) -> ChatFormat:
    """A model whose tokens spell their own characters, as those of every model but the built-in one."""
    return ChatFormat.load(write_qwen_like_folder(tmp_path_factory.mktemp("qwen")))


def structure(**selectors: Mapping[str, Any]) -> probatio.Schema:
    """A structure as Home Assistant makes one of an action's fields, all of them required."""
    return probatio.Schema(
        {
            probatio.Required(name, description="A field."): selector.selector(
                dict(wanted)
            )
            for name, wanted in selectors.items()
        },
        extra=probatio.PREVENT_EXTRA,
    )


def asking(wanted: probatio.Schema) -> ChatRequest:
    """The request for data of a structure."""
    schema = as_answer_schema(wanted, llm.selector_serializer)
    return ChatRequest(
        messages=(Message(role="user", content="?"),), answer_schema=schema
    )


@pytest.mark.parametrize("name", sorted(set(selector.SELECTORS)))
def test_every_selector_can_be_held(chat: ChatFormat, name: str) -> None:
    """Whatever a task asks for, the engine does not refuse the schema."""
    assert chat.guide(asking(structure(field={name: NEEDED.get(name, {})}))) is not None


@pytest.mark.parametrize(
    ("wanted", "good", "bad"),
    [
        ({"boolean": {}}, True, "yes"),
        ({"number": {"min": 1, "max": 5, "step": 0.5}}, 2.5, 6),
        ({"select": {"options": ["red", "grün"]}}, "grün", "blue"),
        (
            {"select": {"options": ["a", "b"], "multiple": True}},
            ["a", "b"],
            ["a", "a", "b"],
        ),
        ({"text": {}}, "Zwei\nZeilen 🛋️", 3),
        ({"text": {"multiple": True}}, ["one", "two"], "one"),
        ({"entity": {}}, "light.desk_lamp", "Desk lamp"),
        ({"entity": {}}, "input_number.2_a", "_light.desk"),
        ({"entity": {}}, "light.a", "light.desk_"),
        ({"entity": {}}, "light.a", "light__x.desk"),
        ({"entity": {"multiple": True}}, ["light.desk"], ["light"]),
        ({"date": {}}, "2026-11-30", "30.11.2026"),
        ({"time": {}}, "07:05:00", "7 o'clock"),
        ({"datetime": {}}, "2026-11-30 07:05:00", "2026-13-30 07:05:00"),
        ({"duration": {}}, {"minutes": 5}, {"minutes": "five"}),
        ({"color_rgb": {}}, [255, 0, 17], [256, 0, 17]),
        ({"color_temp": {"unit": "kelvin", "min": 2000, "max": 6500}}, 2700, 100),
        ({"country": {}}, "CH", "Switzerland"),
        ({"language": {}}, "de-CH", "German"),
        ({"location": {}}, {"latitude": 46.9, "longitude": 7.4}, {"latitude": 46.9}),
        ({"object": NEEDED["object"]}, {"amount": 2}, {}),
        ({"object": NEEDED["object"]}, {"amount": 2}, {"amount": 2, "unit": "l"}),
        ({"object": {}}, {"anything": [1, {"goes": None}]}, [1]),
        ({"template": {}}, "{{ 1 }}", 1),
        ({"area": {"multiple": True}}, ["kitchen"], "kitchen"),
    ],
    ids=str,
)
def test_data_that_the_engine_allows_passes_the_structure(
    chat: ChatFormat, wanted: Mapping[str, Any], good: Any, bad: Any
) -> None:
    """And what it does not allow is of no use."""
    asked = structure(field=wanted)
    request = asking(asked)
    for value, is_allowed in ((good, True), (bad, False)):
        answer = json.dumps({"field": value}, ensure_ascii=False)
        assert (refused_at(chat, request, answer) is None) is is_allowed
    asked({"field": good})


def test_what_is_drawn_from_a_whole_structure_passes_it(chat: ChatFormat) -> None:
    """Several fields, some of them optional."""
    asked = probatio.Schema(
        {
            probatio.Required("Room"): selector.selector(
                {"select": {"options": ["Küche", "Bad"]}}
            ),
            probatio.Required("at"): selector.selector({"time": {}}),
            probatio.Optional("on"): selector.selector({"boolean": {}}),
            probatio.Optional("levels"): selector.selector(
                {"object": {"multiple": True, **NEEDED["object"]}}
            ),
        },
        extra=probatio.PREVENT_EXTRA,
    )
    walks = [draw(chat, asking(asked), seed) for seed in range(20)]
    ended = [gather(walk.deltas).content for walk in walks if walk.has_ended]
    assert len(ended) > 15
    for content in ended:
        asked(json.loads(content))


def test_combined_schemas_are_held_inside(chat: ChatFormat) -> None:
    """A serializer of an API's own may give anything."""
    options = [{"type": "string", "format": "entity_id"}, {"type": "null"}]

    def serializer(schema: Any) -> Any:
        return {"anyOf": options} if schema is str else probatio.UNSUPPORTED

    schema = as_answer_schema(probatio.Schema({"field": str}), serializer)
    assert "format" not in json.dumps(schema)
    request = ChatRequest(
        messages=(Message(role="user", content="?"),), answer_schema=schema
    )
    assert refused_at(chat, request, '{"field": "light.desk"}') is None
    assert refused_at(chat, request, '{"field": "desk"}') is not None
