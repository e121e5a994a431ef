"""What a state or an attribute could be instead: the values with which a template is tried; pure."""

from collections.abc import Iterable
from typing import Any

from homeassistant.core import State, valid_entity_id

_MAX_CONSTANTS = 24
_ALWAYS = (
    "on",
    "off",
    "home",
    "unavailable",
    "1",
    "1000000",
    "-1000000",
    "something else",
)

# They say what an entity is, not how it is: they change with its configuration alone.
_FIXED_ATTRIBUTES = frozenset(
    {
        "assumed_state",
        "attribution",
        "device_class",
        "editable",
        "effect_list",
        "entity_id",
        "fan_modes",
        "friendly_name",
        "hvac_modes",
        "icon",
        "id",
        "max",
        "max_color_temp_kelvin",
        "max_temp",
        "min",
        "min_color_temp_kelvin",
        "min_temp",
        "mode",
        "name",
        "options",
        "passive",
        "preset_modes",
        "radius",
        "source_list",
        "state_class",
        "step",
        "supported_color_modes",
        "supported_features",
        "swing_modes",
        "unit_of_measurement",
        "user_id",
    }
)


_PLACE = ("latitude", "longitude")


def values_to_try(constants: Iterable[str | int | float]) -> list[str]:
    """Return values for a state: those that a template compares with, numbers just beside them, and common ones."""
    values: list[str] = []
    for constant in constants:
        if isinstance(constant, str):
            values += [constant] if _may_be_a_state(constant) else []
        else:
            values += [str(constant), str(constant + 1), str(constant - 1)]
    return list(dict.fromkeys([*_ALWAYS, *values[:_MAX_CONSTANTS]]))


def attributes_with(state: State, value: str, names: Iterable[str]) -> dict[str, Any]:
    """Return other values, each of its own type, for what may be looked up by these names in a state's attributes.

    Names that the state has not are there, too: it may have them one day.
    """
    wanted = dict.fromkeys(names)
    if "attributes" in wanted:
        del wanted["attributes"]
        # They may be gone through without a name.
        wanted |= dict.fromkeys(state.attributes)
    if state.domain == "zone":
        wanted = {name: None for name in wanted if name not in _PLACE}
    return {
        name: _other(state.attributes.get(name), value)
        for name in wanted
        if name not in _FIXED_ATTRIBUTES and not name.endswith("_unit")
    }


def _may_be_a_state(text: str) -> bool:
    """Leave out what is an entity's id, or a format."""
    return 0 < len(text) <= 255 and "%" not in text and not valid_entity_id(text)


def _other(old: Any, value: str) -> Any:
    if isinstance(old, bool):
        return not old
    number = _number(value)
    if isinstance(old, int | float):
        return old + 1 if number is None else number
    return value if number is None or isinstance(old, str) else number


def _number(value: str) -> float | None:
    try:
        return float(value)
    except ValueError:
        return None
