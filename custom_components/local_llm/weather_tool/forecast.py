"""A weather entity's forecast for days or hours, in entries short enough to be read out."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final, NamedTuple

from homeassistant.components.weather.const import (
    DOMAIN as WEATHER_DOMAIN,
    SERVICE_GET_FORECASTS,
    WeatherEntityFeature,
)
from homeassistant.const import ATTR_ENTITY_ID, ATTR_SUPPORTED_FEATURES
from homeassistant.core import Context, HomeAssistant, State
from homeassistant.exceptions import HomeAssistantError
from homeassistant.util import dt as dt_util
from homeassistant.util.json import JsonObjectType

from .amounts import amount, known, wind
from .days import Days

FORECASTS: Final = ("daily", "hourly")
NOT_AVAILABLE: Final = "not available"

# In order of preference, and how many entries of each are short enough to hear
_SUPPORT: Final = {
    "daily": WeatherEntityFeature.FORECAST_DAILY,
    "twice_daily": WeatherEntityFeature.FORECAST_TWICE_DAILY,
    "hourly": WeatherEntityFeature.FORECAST_HOURLY,
}
_LENGTH: Final = {"daily": 3, "twice_daily": 4, "hourly": 5}
# So many hours tell how a day will be.
_HOURS_OF_A_DAY: Final = 8


class _Entry(NamedTuple):
    """One entry of a forecast as the entity gives it, and when it begins, in the house's time."""

    begin: datetime
    values: Mapping[str, Any]


async def async_forecast(
    hass: HomeAssistant,
    place: State,
    wanted: str | None,
    days: Days | None,
    context: Context | None,
) -> list[JsonObjectType] | str:
    """Return the entries of a forecast, or in words why there are none.

    `wanted` is one of FORECASTS, None for the first that there is. Without `days` these are the next entries.
    """
    supported = place.attributes.get(ATTR_SUPPORTED_FEATURES, 0)
    ends: list[datetime] = []
    for kind, feature in _SUPPORT.items():
        # Days may come in halves, so "daily" is the end of two kinds.
        if not supported & feature or not kind.endswith(wanted or ""):
            continue
        coming = await _async_coming(hass, place, kind, context)
        if days is None:
            told = [_told(kind, entry, place, more=False) for entry in coming]
            return told[: _LENGTH[kind]] or NOT_AVAILABLE
        of_days = [
            entry for entry in coming if days.first <= entry.begin.date() <= days.last
        ]
        if of_days:
            return [
                _told(kind, entry, place, more=True)
                for entry in _thinned(kind, of_days)
            ]
        ends += [entry.begin for entry in coming]
    if not ends:
        return NOT_AVAILABLE
    return f"not known; the forecast ends on {max(ends):%A, %Y-%m-%d}"


async def _async_coming(
    hass: HomeAssistant, place: State, kind: str, context: Context | None
) -> list[_Entry]:
    """Return the entries that are not over, the first one first; none where the entity has none."""
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
        return []
    now = dt_util.now()
    entries = [
        _Entry(dt_util.as_local(begin), values)
        for values in (response or {}).get(place.entity_id, {}).get("forecast") or ()
        if (begin := dt_util.parse_datetime(str(values.get("datetime"))))
    ]
    # A day counts to its end.
    return [
        entry
        for entry in sorted(entries, key=lambda entry: entry.begin)
        if (entry.begin > now if kind == "hourly" else entry.begin.date() >= now.date())
    ]


def _thinned(kind: str, entries: Sequence[_Entry]) -> Iterable[_Entry]:
    """Leave out hours so that a day's are few enough to hear."""
    return entries[:: -(-len(entries) // _HOURS_OF_A_DAY) if kind == "hourly" else 1]


def _told(kind: str, entry: _Entry, place: State, *, more: bool) -> JsonObjectType:
    """Return what an entry tells; with `more` also its date and what is not always asked for."""
    units = place.attributes
    degrees = units.get("temperature_unit", "")
    values = entry.values
    low = values.get("templow")
    is_night = kind == "twice_daily" and values.get("is_daytime") is False
    when: dict[str, Any] = {}
    if more or kind != "hourly":
        when["day"] = f"{entry.begin:%A}{' night' if is_night else ''}"
    if more:
        when["date"] = f"{entry.begin:%Y-%m-%d}"
    if kind == "hourly":
        when["hour"] = f"{entry.begin:%H:%M}"
    told = {
        **when,
        "condition": values.get("condition"),
        "temperature" if low is None else "high": amount(
            values.get("temperature"), degrees
        ),
        "low": amount(low, degrees),
        "rain": amount(values.get("precipitation_probability"), "%"),
    }
    if more:
        told |= {
            "feels_like": amount(values.get("apparent_temperature"), degrees),
            "precipitation": amount(
                values.get("precipitation"), units.get("precipitation_unit", "")
            ),
            "wind": wind(values, units.get("wind_speed_unit", "")),
        }
    return known(told)
