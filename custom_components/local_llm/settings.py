"""The options of one conversation agent or AI task, read once from its sub-entry."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from homeassistant.const import CONF_LLM_HASS_API, CONF_PROMPT
from homeassistant.helpers import llm
from local_llm_engine.sampling import SamplingParams

from .const import (
    BUILTIN_MODEL,
    CONF_HISTORY_TURNS,
    CONF_MAX_TOKENS,
    CONF_TEMPERATURE,
    CONF_THINKING,
    CONF_TOP_P,
    DEFAULT_HISTORY_TURNS,
    DEFAULT_MAX_TOKENS,
    DEFAULT_TASK_MAX_TOKENS,
    DEFAULT_TEMPERATURE,
    DEFAULT_TOP_P,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentSettings:
    """How one agent asks the engine. `instructions` is a template; `api_ids` name Home Assistant's LLM APIs."""

    instructions: str
    api_ids: tuple[str, ...]
    sampling: SamplingParams
    thinking: bool
    history_turns: int

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> Self:
        """Read a sub-entry's data; what is missing takes its default.

        Raises:
            InvalidRequestError: a sampling value is out of its range.
        """
        return cls(
            instructions=data.get(CONF_PROMPT) or llm.DEFAULT_INSTRUCTIONS_PROMPT,
            api_ids=tuple(data.get(CONF_LLM_HASS_API) or ()),
            sampling=SamplingParams(
                temperature=data.get(CONF_TEMPERATURE, DEFAULT_TEMPERATURE),
                top_p=data.get(CONF_TOP_P, DEFAULT_TOP_P),
                max_tokens=int(data.get(CONF_MAX_TOKENS, DEFAULT_MAX_TOKENS)),
            ),
            thinking=data.get(CONF_THINKING, False),
            history_turns=int(data.get(CONF_HISTORY_TURNS, DEFAULT_HISTORY_TURNS)),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskSettings:
    """How one AI task asks the engine. `instructions` come before each task's own, and may be empty."""

    instructions: str
    sampling: SamplingParams
    thinking: bool

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> Self:
        """Read a sub-entry's data; what is missing takes its default.

        Raises:
            InvalidRequestError: a sampling value is out of its range.
        """
        return cls(
            instructions=data.get(CONF_PROMPT, ""),
            sampling=SamplingParams(
                temperature=data.get(CONF_TEMPERATURE, DEFAULT_TEMPERATURE),
                top_p=DEFAULT_TOP_P,
                max_tokens=int(data.get(CONF_MAX_TOKENS, DEFAULT_TASK_MAX_TOKENS)),
            ),
            thinking=data.get(CONF_THINKING, False),
        )


def default_agent_data(model: str) -> dict[str, Any]:
    """Return the data of a new agent for a model, a folder or BUILTIN_MODEL."""
    return {
        CONF_PROMPT: llm.DEFAULT_INSTRUCTIONS_PROMPT,
        CONF_LLM_HASS_API: [llm.LLM_API_ASSIST],
        CONF_TEMPERATURE: _default_temperature(model),
        CONF_TOP_P: DEFAULT_TOP_P,
        CONF_MAX_TOKENS: DEFAULT_MAX_TOKENS,
        CONF_THINKING: False,
        CONF_HISTORY_TURNS: DEFAULT_HISTORY_TURNS,
    }


def default_task_data(model: str) -> dict[str, Any]:
    """Return the data of a new AI task for a model, a folder or BUILTIN_MODEL."""
    return {
        CONF_TEMPERATURE: _default_temperature(model),
        CONF_MAX_TOKENS: DEFAULT_TASK_MAX_TOKENS,
        CONF_THINKING: False,
    }


def _default_temperature(model: str) -> float:
    """Return how freely a model chooses: the built-in one is too small to be right by chance."""
    return 0.0 if model == BUILTIN_MODEL else DEFAULT_TEMPERATURE
