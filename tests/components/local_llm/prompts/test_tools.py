"""The one list of tools."""

from itertools import permutations

import probatio
import pytest

from custom_components.local_llm.prompts.tools import AbsentTool, as_spec, one_list
from homeassistant.helpers import llm


class NamedTool(llm.Tool):
    """A tool with nothing but a name, and a place where it was found."""

    integration = "light"

    def __init__(self, name: str, description: str | None = None) -> None:
        self.name = name
        self.description = description


def test_order_does_not_depend_on_the_order_of_registration() -> None:
    tools = [NamedTool(name) for name in ("light__B", "light__A", "intent__C")]
    orders = [
        [tool.name for tool in one_list(order[:2], order[2:])]
        for order in permutations(tools)
    ]
    assert orders == [["intent__C", "light__A", "light__B"]] * 6


def test_the_devices_own_tool_goes_before_anothers() -> None:
    here, elsewhere = NamedTool("light__A"), NamedTool("light__A")
    assert one_list([here], [elsewhere]) == [here]


def test_an_absent_tool_looks_like_the_present_one() -> None:
    tool = NamedTool("light__A", "Lights up")
    tool.parameters = probatio.Schema({probatio.Required("name"): str})
    (absent,) = one_list([], [tool])
    assert isinstance(absent, AbsentTool)
    assert as_spec(absent, None) == as_spec(tool, None)


def test_a_tool_without_description_is_offered() -> None:
    # A script's name may begin with a digit, and a script may have no description.
    spec = as_spec(NamedTool("script__2_min_rinse"), llm.selector_serializer)
    assert (spec.name, spec.description) == ("script__2_min_rinse", "")
    assert spec.parameters["type"] == "object"


@pytest.mark.parametrize("values", permutations(["cover", "light", "valve"]))
def test_sets_in_a_schema_are_told_in_one_order(values: tuple[str, ...]) -> None:
    tool = NamedTool("light__A")
    tool.parameters = probatio.Schema(
        {
            probatio.Required("domain"): [probatio.In(list(values))],
            probatio.Required("area"): str,
        }
    )
    parameters = as_spec(tool, None).parameters
    assert parameters["properties"]["domain"]["items"]["enum"] == [
        "cover",
        "light",
        "valve",
    ]
    assert parameters["required"] == ["area", "domain"]
    assert list(parameters["properties"]) == ["domain", "area"]


@pytest.mark.parametrize(
    ("parts", "told"),
    [
        pytest.param(
            [probatio.Coerce(int), probatio.Percentage()],
            {"type": "integer", "minimum": 0, "maximum": 100},
            id="narrower first",
        ),
        pytest.param(
            [probatio.Percentage(), probatio.Coerce(int)],
            {"type": "integer", "minimum": 0, "maximum": 100},
            id="narrower last",
        ),
        pytest.param(
            [probatio.In(["a", "b"]), probatio.In(["b", "c"])],
            {
                "allOf": [
                    {"type": "string", "enum": ["a", "b"]},
                    {"type": "string", "enum": ["b", "c"]},
                ]
            },
            id="not to be joined",
        ),
    ],
)
def test_what_all_holds_is_told_in_one(
    parts: list[object], told: dict[str, object]
) -> None:
    """Home Assistant tells a position from 0 to 100 in parts since 2026.11, and in one before."""
    tool = NamedTool("light__A")
    tool.parameters = probatio.Schema(
        {probatio.Required("position"): [probatio.All(*parts)]}
    )
    spec = as_spec(tool, None)
    assert spec.parameters["properties"]["position"]["items"] == told
