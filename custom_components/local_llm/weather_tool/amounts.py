"""Writes the weather's numbers with their units as a voice would read them; pure."""

from collections.abc import Mapping
from typing import Any, Final

from homeassistant.util.json import JsonObjectType

_COMPASS: Final = ("N", "NE", "E", "SE", "S", "SW", "W", "NW")


def number(value: float | None) -> float | None:
    """Return a whole number without its ".0", which a voice would read out."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def amount(value: float | None, unit: str) -> str | None:
    """Return a number with its unit; None where it is not known."""
    return None if value is None else f"{number(value)} {unit}".strip()


def wind(values: Mapping[str, Any], unit: str) -> str | None:
    """Return the wind's speed, and where it comes from if that is known."""
    speed = amount(values.get("wind_speed"), unit)
    bearing = values.get("wind_bearing")
    if speed is None or bearing is None:
        return speed
    if isinstance(bearing, int | float):
        bearing = _COMPASS[round(bearing / 45) % len(_COMPASS)]
    return f"{speed} from {bearing}"


def known(values: Mapping[str, Any]) -> JsonObjectType:
    """Leave out what is not known."""
    return {key: value for key, value in values.items() if value is not None}
