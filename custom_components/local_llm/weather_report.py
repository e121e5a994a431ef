"""Puts a weather entity's state and forecast into words and numbers that a small model can read out."""

from collections.abc import Mapping
from datetime import datetime
from math import exp
from typing import Any, Final

from homeassistant.components.weather.const import (
    DOMAIN as WEATHER_DOMAIN,
    SERVICE_GET_FORECASTS,
    WeatherEntityFeature,
)
from homeassistant.const import (
    ATTR_ENTITY_ID,
    ATTR_SUPPORTED_FEATURES,
    STATE_UNAVAILABLE,
    STATE_UNKNOWN,
    UnitOfSpeed,
    UnitOfTemperature,
)
from homeassistant.core import Context, HomeAssistant, State
from homeassistant.exceptions import HomeAssistantError
from homeassistant.helpers.llm import ToolResult
from homeassistant.util import dt as dt_util
from homeassistant.util.json import JsonObjectType
from homeassistant.util.unit_conversion import SpeedConverter, TemperatureConverter

FORECASTS: Final = ("daily", "hourly")

# In order of preference, and how many entries of each are short enough to hear
_SUPPORT: Final = {
    "daily": WeatherEntityFeature.FORECAST_DAILY,
    "twice_daily": WeatherEntityFeature.FORECAST_TWICE_DAILY,
    "hourly": WeatherEntityFeature.FORECAST_HOURLY,
}
_LENGTH: Final = {"daily": 3, "twice_daily": 4, "hourly": 5}

_COMPASS: Final = ("N", "NE", "E", "SE", "S", "SW", "W", "NW")
_FELT: Final = (
    "temperature",
    "temperature_unit",
    "humidity",
    "wind_speed",
    "wind_speed_unit",
)
_NO_FORECAST: Final = "not available"


async def async_weather_report(
    hass: HomeAssistant, place: State, wanted: str | None, context: Context | None
) -> ToolResult:
    """Return the weather of a place: the forecast, then what is now, then the time.

    What matters most stands last, nearest to the answer. `wanted` is one of FORECASTS; None takes
    what there is.
    """
    time = dt_util.now().strftime("%H:%M")
    if place.state in (STATE_UNAVAILABLE, STATE_UNKNOWN):
        text = f"{place.name} does not report the weather at the moment."
        return ToolResult(
            data={"error": "WeatherUnavailable", "error_text": text, "time": time},
            error=True,
        )
    now = {
        "forecast": await _async_forecast(hass, place, wanted, context),
        "temperature_unit": place.attributes.get("temperature_unit"),
        "wind": _wind(place.attributes),
        "humidity": _amount(place.attributes.get("humidity"), "%"),
        "condition": place.state,
        "temperature": _number(place.attributes.get("temperature")),
        "apparent_temperature": _apparent_temperature(place.attributes),
        "time": time,
    }
    return ToolResult(data=_known(now))


async def _async_forecast(
    hass: HomeAssistant, place: State, wanted: str | None, context: Context | None
) -> list[JsonObjectType] | str:
    """Return the next entries of the wanted forecast; without a wish, of the first that there is."""
    supported = place.attributes.get(ATTR_SUPPORTED_FEATURES, 0)
    # Days may come in halves, so "daily" is the end of two kinds.
    kinds = (
        kind
        for kind, feature in _SUPPORT.items()
        if supported & feature and kind.endswith(wanted or "")
    )
    if (kind := next(kinds, None)) is None:
        return _NO_FORECAST
    try:
        response: dict[str, Any] | None = await hass.services.async_call(
            WEATHER_DOMAIN,
            SERVICE_GET_FORECASTS,
            {ATTR_ENTITY_ID: place.entity_id, "type": kind},
            blocking=True,
            context=context,
            return_response=True,
        )
    except HomeAssistantError:
        return _NO_FORECAST
    unit = place.attributes.get("temperature_unit", "")
    now = dt_util.now()
    coming: list[JsonObjectType] = []
    for entry in (response or {}).get(place.entity_id, {}).get("forecast", ()):
        begin = dt_util.as_local(
            dt_util.parse_datetime(entry["datetime"], raise_on_error=True)
        )
        # A day counts to its end.
        if begin > now if kind == "hourly" else begin.date() >= now.date():
            coming.append(_forecast_entry(kind, begin, entry, unit))
    return coming[: _LENGTH[kind]] or _NO_FORECAST


def _forecast_entry(
    kind: str, begin: datetime, entry: Mapping[str, Any], unit: str
) -> JsonObjectType:
    low = entry.get("templow")
    night = (
        " night" if kind == "twice_daily" and entry.get("is_daytime") is False else ""
    )
    when = (
        {"hour": begin.strftime("%H:%M")}
        if kind == "hourly"
        else {"day": f"{begin:%A}{night}"}
    )
    return _known(
        {
            **when,
            "condition": entry.get("condition"),
            "temperature" if low is None else "high": _amount(
                entry.get("temperature"), unit
            ),
            "low": _amount(low, unit),
            "rain": _amount(entry.get("precipitation_probability"), "%"),
        }
    )


def _known(values: Mapping[str, Any]) -> JsonObjectType:
    """Leave out what the entity does not tell."""
    return {key: value for key, value in values.items() if value is not None}


def _apparent_temperature(attributes: Mapping[str, Any]) -> float | None:
    """Return how warm it feels, in the entity's unit: its own value, else Steadman's for the shade.

    R. G. Steadman 1994, "Norms of apparent temperature in Australia": AT = Ta + 0.33 e - 0.70 ws - 4.00
    with the air temperature Ta in °C, the water vapour pressure e in hPa and the wind speed ws in m/s.
    """
    if (apparent := attributes.get("apparent_temperature")) is not None:
        return _number(apparent)
    told: list[Any] = [attributes.get(key) for key in _FELT]
    if None in told:
        return None
    temperature, unit, humidity, wind, wind_unit = told
    celsius = TemperatureConverter.convert(temperature, unit, UnitOfTemperature.CELSIUS)
    metres_per_second = SpeedConverter.convert(
        wind, wind_unit, UnitOfSpeed.METERS_PER_SECOND
    )
    vapour = humidity / 100 * 6.105 * exp(17.27 * celsius / (237.7 + celsius))
    feels = celsius + 0.33 * vapour - 0.70 * metres_per_second - 4.00
    return round(TemperatureConverter.convert(feels, UnitOfTemperature.CELSIUS, unit))


def _wind(attributes: Mapping[str, Any]) -> str | None:
    speed = _amount(attributes.get("wind_speed"), attributes.get("wind_speed_unit", ""))
    bearing = attributes.get("wind_bearing")
    if speed is None or bearing is None:
        return speed
    if isinstance(bearing, int | float):
        bearing = _COMPASS[round(bearing / 45) % len(_COMPASS)]
    return f"{speed} from {bearing}"


def _amount(value: float | None, unit: str) -> str | None:
    return None if value is None else f"{_number(value)} {unit}".strip()


def _number(value: float | None) -> float | None:
    """Return a whole number without its ".0", which a voice would read out."""
    return int(value) if isinstance(value, float) and value.is_integer() else value
