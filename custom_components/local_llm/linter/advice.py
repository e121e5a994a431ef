"""Says what was found in an agent's instructions in words for a person at home, and what could stand there instead."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from homeassistant.core import HomeAssistant
from homeassistant.exceptions import HomeAssistantError
from local_llm_engine.errors import EngineError

from ..prompts.cost import (
    async_tokens_from,
    prefill_tokens_per_second,
    with_instructions,
)
from ..prompts.prompt import async_next_request
from ..satellites import Speaker
from ..settings import AgentSettings
from ..spoken import async_spoken
from .findings import Finding, Kind, Lint
from .moments import MINUTES_PER_DAY, SECONDS_PER_DAY
from .rewrite import Replacement, rewrite

if TYPE_CHECKING:
    from ..entry_engine import EntryEngine

# What does the same without the cost: the end of a tool's name, by what a line tells
_CLOCK_TOOL = "GetDateTime"
_STATE_TOOL = "GetLiveContext"
_WEATHER_TOOL = "GetWeather"
_WEATHER_WORDS = ("weather", "forecast")


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """What was found, as a list in Markdown; `instructions` are those with all ready replacements in them, if any."""

    text: str
    instructions: str | None


class _Costs:
    """What is known of the prompt that the instructions are for."""

    def __init__(
        self,
        tools: Iterable[str] = (),
        tokens: dict[int, int] | None = None,
        tokens_per_second: float | None = None,
    ) -> None:
        self.tools = tuple(tools)
        self.tokens = tokens or {}
        self.tokens_per_second = tokens_per_second


async def async_advice(
    hass: HomeAssistant,
    lint: Lint,
    settings: AgentSettings,
    *,
    agent_id: str,
    engine: EntryEngine | None,
) -> Advice:
    """Put findings into words; `engine`, which tells what they cost, is None where it is not loaded."""
    costs = await _async_costs(hass, lint, settings, agent_id, engine)
    lines = [
        await _async_line(hass, finding, costs) for finding in _merged(lint.findings)
    ]
    replacements = [
        replacement
        for finding in lint.findings
        if (replacement := await _async_replacement(hass, finding, costs))
    ]
    instructions = rewrite(settings.instructions, replacements)
    return Advice(
        text="\n".join(lines),
        instructions=instructions if replacements and instructions.strip() else None,
    )


async def _async_costs(
    hass: HomeAssistant,
    lint: Lint,
    settings: AgentSettings,
    agent_id: str,
    engine: EntryEngine | None,
) -> _Costs:
    nobody = Speaker(None, None, hass.config.language)
    try:
        request = await async_next_request(hass, agent_id, settings, nobody)
    except HomeAssistantError:
        # An API that cannot be used now is told of where it is chosen.
        return _Costs()
    tools = [tool.name for tool in request.tools]
    if engine is None:
        return _Costs(tools)
    try:
        tokens = await async_tokens_from(
            engine,
            with_instructions(request, lint.text),
            [finding.position for finding in lint.findings],
        )
    except EngineError:
        tokens = {}
    return _Costs(tools, tokens, prefill_tokens_per_second(engine.status().records))


def _merged(findings: Sequence[Finding]) -> list[Finding]:
    """Leave of several findings in a line for the same reason only the one that changes most often."""
    kept: dict[tuple[object, ...], Finding] = {}
    for finding in findings:
        key = finding.line, finding.kind, finding.source, finding.attribute
        known = kept.get(key)
        if known is None or (finding.changes_per_day or 0) > (
            known.changes_per_day or 0
        ):
            kept[key] = finding
    return list(kept.values())


async def _async_line(hass: HomeAssistant, finding: Finding, costs: _Costs) -> str:
    return await async_spoken(
        hass,
        hass.config.language,
        "finding",
        line=str(finding.line),
        # A backtick would end what is shown as code.
        text=finding.text.replace("`", "'"),
        change=await _async_change(hass, finding),
        cost=await async_cost(
            hass, costs.tokens.get(finding.position), costs.tokens_per_second
        ),
        remedy=await _async_remedy(hass, finding, costs),
    )


async def _async_change(hass: HomeAssistant, finding: Finding) -> str:
    """Say how often a line changes."""
    number = finding.changes_per_day or 0
    clock = {SECONDS_PER_DAY: "second", MINUTES_PER_DAY: "minute"}.get(number, "day")
    key = {
        Kind.CLOCK: f"change_{clock}",
        Kind.STATE: _state_key(finding),
        Kind.ATTRIBUTE: "change_attribute",
    }.get(finding.kind, f"change_{finding.kind}")
    return await async_spoken(
        hass,
        hass.config.language,
        key,
        number=str(number),
        source=finding.source or "",
        attribute=finding.attribute or "",
    )


async def async_cost(
    hass: HomeAssistant, tokens: int | None, tokens_per_second: float | None
) -> str:
    """Say what it costs to read so many tokens again."""
    if tokens is None:
        return await async_spoken(hass, hass.config.language, "cost_unknown")
    if tokens_per_second is None:
        return await async_spoken(
            hass, hass.config.language, "cost_tokens", tokens=str(tokens)
        )
    return await async_spoken(
        hass,
        hass.config.language,
        "cost_seconds",
        tokens=str(tokens),
        seconds=f"{tokens / tokens_per_second:.1f}",
    )


async def _async_remedy(hass: HomeAssistant, finding: Finding, costs: _Costs) -> str:
    """Say which tool or place does the same without the cost."""
    topic = _topic(finding)
    if topic in _TOOLS and _tool(topic, costs) is None:
        topic = f"{topic}_missing"
    return await async_spoken(
        hass, hass.config.language, f"remedy_{topic}", value=finding.value or ""
    )


async def _async_replacement(
    hass: HomeAssistant, finding: Finding, costs: _Costs
) -> Replacement | None:
    """Return what could stand in the place of a finding; None where only a person can tell."""
    if finding.span is None:
        return None
    topic = _topic(finding)
    if topic == Kind.RANDOM and finding.value is not None:
        return Replacement(finding.span, finding.value, whole_sentence=False)
    if topic not in _TOOLS or (tool := _tool(topic, costs)) is None:
        return None
    text = await async_spoken(
        hass, hass.config.language, f"replacement_{topic}", tool=tool
    )
    return Replacement(finding.span, text, whole_sentence=True)


def _topic(finding: Finding) -> str:
    """Name what a line tells, as far as there is another place for it."""
    if finding.kind not in (Kind.STATE, Kind.ATTRIBUTE):
        return finding.kind
    if any(word in (finding.source or "") for word in _WEATHER_WORDS):
        return "weather"
    return "state"


_TOOLS = {"clock": _CLOCK_TOOL, "weather": _WEATHER_TOOL, "state": _STATE_TOOL}


def _tool(topic: str, costs: _Costs) -> str | None:
    named = (name for name in costs.tools if name.endswith(_TOOLS[topic]))
    return next(named, None)


def _state_key(finding: Finding) -> str:
    """Tell a line that shows one entity from one that shows a domain, or all entities."""
    if finding.source is None:
        return "change_all_states"
    return "change_state" if "." in finding.source else "change_states"
