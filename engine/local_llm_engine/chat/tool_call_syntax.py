"""What the two written forms of a tool call have in common: result, error, and the tools' schemas.

Knows nothing of either form.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from local_llm_engine.types import ToolSpec


@dataclass(frozen=True, slots=True)
class ParsedCall:
    """A call as it was written, its arguments typed."""

    name: str
    arguments: dict[str, Any]


class ToolCallSyntaxError(ValueError):
    """A call that cannot be read; the message continues "the tool call is malformed: ..."."""

    def __init__(self, reason: str, name: str | None = None) -> None:
        """Keep the tool's name where it could be read."""
        super().__init__(reason)
        self.name = name


class Schemas:
    """The JSON schemas of all parameters of a request's tools."""

    def __init__(self, tools: Sequence[ToolSpec]) -> None:
        """Collect them; a tool without properties has none."""
        self._of: dict[str, Mapping[str, Any]] = {}
        for tool in tools:
            properties = tool.parameters.get("properties")
            self._of[tool.name] = properties if isinstance(properties, Mapping) else {}

    def of(self, tool_name: str, parameter: str) -> object:
        """Look up the schema of one parameter; None where the tool or the parameter is unknown."""
        return self._of.get(tool_name, {}).get(parameter)
