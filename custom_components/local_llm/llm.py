"""What this integration gives to Home Assistant's Assist API: a weather tool."""

from typing import override

import probatio

from homeassistant.components.homeassistant.exposed_entities import async_should_expose
from homeassistant.components.llm import LLMTools
from homeassistant.components.weather.const import DOMAIN as WEATHER_DOMAIN
from homeassistant.core import HomeAssistant, State, callback
from homeassistant.helpers import config_validation as cv, intent
from homeassistant.helpers.llm import (
    LLM_API_ASSIST,
    LLMContext,
    Tool,
    ToolAnnotations,
    ToolInput,
    ToolResult,
)
from homeassistant.util import dt as dt_util

from .const import DOMAIN
from .spoken import async_day_words
from .weather_tool.days import Days, meant_days
from .weather_tool.forecast import FORECASTS
from .weather_tool.report import async_weather_report

_DAY = "day"
_FORECAST = "forecast"
_NAME = "name"


class GetWeatherTool(Tool):
    """Tells the weather, how it feels and what is to come."""

    name = f"{DOMAIN}__GetWeather"
    title = "Get weather"
    description = (
        "Provides the current weather, how warm it feels, a forecast and the time. "
        "Use it for every question about the weather outside."
    )
    annotations = ToolAnnotations(read_only=True, open_world=False)
    integration = DOMAIN

    def __init__(self, num_places: int) -> None:
        """Ask for a name only where there is a choice."""
        schema: dict[probatio.Marker, object] = {
            probatio.Optional(
                _FORECAST,
                description="daily for the next days, hourly for the next hours.",
            ): probatio.In(FORECASTS),
            probatio.Optional(
                _DAY, description="today, tomorrow, a weekday or a date."
            ): cv.string,
        }
        if num_places > 1:
            schema[
                probatio.Optional(
                    _NAME, description="Name of the weather entity, if not the first."
                )
            ] = cv.string
        self.parameters = probatio.Schema(schema)

    @override
    async def async_call(
        self, hass: HomeAssistant, tool_input: ToolInput, llm_context: LLMContext
    ) -> ToolResult:
        """Report the weather of the place that was asked for."""
        args = tool_input.tool_args
        places = _places(hass, llm_context)
        name = args.get(_NAME)
        if len(places) > 1 and name:
            match = intent.async_match_targets(
                hass,
                intent.MatchTargetsConstraints(name=name, allow_duplicate_names=True),
                states=places,
            )
            places = match.states
        if not places:
            text = (
                f"No weather entity is called {name}. There are {_names(hass, llm_context)}."
                if name
                else "No weather entity is exposed."
            )
            return _refusal("NoSuchWeather", text)
        days: Days | None = None
        if day := args.get(_DAY):
            words = await async_day_words(hass, llm_context.language)
            days = meant_days(day, dt_util.now().date(), words)
            if days is None:
                return _refusal(
                    "UnclearDay",
                    f"{day!r} is no day. It must be today, tomorrow, a weekday or a date.",
                )
        return await async_weather_report(
            hass, places[0], args.get(_FORECAST), days, llm_context.context
        )


@callback
def async_get_tools(
    hass: HomeAssistant, llm_context: LLMContext, api_id: str
) -> LLMTools | None:
    """Return the weather tool where a weather entity is exposed."""
    if api_id != LLM_API_ASSIST:
        return None
    places = _places(hass, llm_context)
    return LLMTools(tools=[GetWeatherTool(len(places))]) if places else None


def _places(hass: HomeAssistant, llm_context: LLMContext) -> list[State]:
    """Return the exposed weather entities, always in the same order."""
    return [
        state
        for state in sorted(
            hass.states.async_all(WEATHER_DOMAIN), key=lambda state: state.entity_id
        )
        if async_should_expose(hass, llm_context.assistant, state.entity_id)
    ]


def _names(hass: HomeAssistant, llm_context: LLMContext) -> str:
    return ", ".join(place.name for place in _places(hass, llm_context))


def _refusal(error: str, text: str) -> ToolResult:
    return ToolResult(data={"error": error, "error_text": text}, error=True)
