"""Tool calls as models write them, and the tools that they call."""

from collections.abc import Callable

import pytest

from local_llm_engine.types import ToolSpec

from .answers import Unit, spelled, with_tokens

type Form = Callable[[str], list[Unit]]


both_forms = pytest.mark.parametrize(
    "form", [with_tokens, spelled], ids=["tokens", "spelled"]
)


TURN_ON = "<function=HassTurnOn>\n<parameter=name>\nFan\n</parameter>\n</function>"


CALL = f"<tool_call>\n{TURN_ON}\n</tool_call>"


TURNED_ON = ("HassTurnOn", {"name": "Fan"})


LIGHT_SET = ToolSpec(
    name="HassLightSet",
    description="Sets a light",
    parameters={
        "type": "object",
        "properties": {
            "name": {"type": "string"},
            "brightness": {"type": "integer"},
            "on": {"type": "boolean"},
        },
    },
)


def light_call(parameter: str, value: str) -> str:
    return (
        f"<tool_call>\n<function=HassLightSet>\n<parameter={parameter}>{value}"
        "</parameter>\n</function>\n</tool_call>"
    )
