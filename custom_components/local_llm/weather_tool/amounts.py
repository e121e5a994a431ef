"""Writes the weather's numbers with their units as a voice would read them; pure."""

from collections.abc import Mapping
from math import isfinite
from typing import Any, Final

from homeassistant.util.json import JsonObjectType

_COMPASS: Final = ("N", "NE", "E", "SE", "S", "SW", "W", "NW")


def number(value: object) -> float | None:
    """Return a whole number without its ".0", which a voice would read out; None for what is no number.

    Home Assistant hands on what it cannot convert: "n/a", or a NaN.
    """
    if not isinstance(value, int | float) or not isfinite(value):
        return None
    return int(value) if value == int(value) else value


def amount(value: object, unit: str) -> str | None:
    """Return a number with its unit; None where it is not known."""
    known_value = number(value)
    return None if known_value is None else f"{known_value} {unit}".strip()


def wind(values: Mapping[str, Any], unit: str) -> str | None:
    """Return the wind's speed, and where it comes from if that is known."""
    speed = amount(values.get("wind_speed"), unit)
    bearing = values.get("wind_bearing")
    if (degrees := number(bearing)) is not None:
        bearing = _COMPASS[round(degrees / 45) % len(_COMPASS)]
    if speed is None or not isinstance(bearing, str):
        return speed
    return f"{speed} from {bearing}"


def known(values: Mapping[str, Any]) -> JsonObjectType:
    """Leave out what is not known."""
    return {key: value for key, value in values.items() if value is not None}
