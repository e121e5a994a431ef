"""Puts a weather entity's state and forecast into words and numbers that a small model can read out."""

from collections.abc import Mapping
from math import exp
from typing import Any, Final

from homeassistant.const import (
    STATE_UNAVAILABLE,
    STATE_UNKNOWN,
    UnitOfSpeed,
    UnitOfTemperature,
)
from homeassistant.core import Context, HomeAssistant, State
from homeassistant.helpers.llm import ToolResult
from homeassistant.util import dt as dt_util
from homeassistant.util.unit_conversion import SpeedConverter, TemperatureConverter

from .amounts import amount, known, number, wind
from .days import Days
from .forecast import async_forecast

_FELT: Final = ("temperature", "humidity", "wind_speed")
_UNITS: Final = ("temperature_unit", "wind_speed_unit")


async def async_weather_report(
    hass: HomeAssistant,
    place: State,
    wanted: str | None,
    days: Days | None,
    context: Context | None,
) -> ToolResult:
    """Return the weather of a place: the forecast, then what is now, then the time.

    What matters most stands last, nearest to the answer: where only later days are asked for, nothing is
    said of now. `wanted` is the kind of the forecast; None takes what there is.
    """
    now = dt_util.now()
    if place.state in (STATE_UNAVAILABLE, STATE_UNKNOWN):
        return _refusal(
            "WeatherUnavailable",
            f"{place.name} does not report the weather at the moment.",
        )
    if days and days.last < now.date():
        return _refusal(
            "DayIsOver", f"{days.last} is over. There is no forecast for it."
        )
    report: dict[str, Any] = {
        "forecast": await async_forecast(hass, place, wanted, days, context),
        "temperature_unit": place.attributes.get("temperature_unit"),
    }
    if days is None or days.first <= now.date():
        report |= _current(place)
    return ToolResult(data=known({**report, "time": f"{now:%H:%M}"}))


def _refusal(error: str, text: str) -> ToolResult:
    time = f"{dt_util.now():%H:%M}"
    return ToolResult(
        data={"error": error, "error_text": text, "time": time}, error=True
    )


def _current(place: State) -> dict[str, Any]:
    """Return what the weather is like now."""
    attributes = place.attributes
    return {
        "wind": wind(attributes, attributes.get("wind_speed_unit", "")),
        "humidity": amount(attributes.get("humidity"), "%"),
        "condition": place.state,
        "temperature": number(attributes.get("temperature")),
        "apparent_temperature": _apparent_temperature(attributes),
    }


def _apparent_temperature(attributes: Mapping[str, Any]) -> float | None:
    """Return how warm it feels, in the entity's unit: its own value, else Steadman's for the shade.

    R. G. Steadman 1994, "Norms of apparent temperature in Australia": AT = Ta + 0.33 e - 0.70 ws - 4.00
    with the air temperature Ta in °C, the water vapour pressure e in hPa and the wind speed ws in m/s.
    """
    if (apparent := number(attributes.get("apparent_temperature"))) is not None:
        return apparent
    told: list[Any] = [number(attributes.get(key)) for key in _FELT]
    units: list[Any] = [attributes.get(key) for key in _UNITS]
    if None in (*told, *units):
        return None
    temperature, humidity, speed = told
    unit, speed_unit = units
    celsius = TemperatureConverter.convert(temperature, unit, UnitOfTemperature.CELSIUS)
    metres_per_second = SpeedConverter.convert(
        speed, speed_unit, UnitOfSpeed.METERS_PER_SECOND
    )
    vapour = humidity / 100 * 6.105 * exp(17.27 * celsius / (237.7 + celsius))
    feels = celsius + 0.33 * vapour - 0.70 * metres_per_second - 4.00
    return round(TemperatureConverter.convert(feels, UnitOfTemperature.CELSIUS, unit))
