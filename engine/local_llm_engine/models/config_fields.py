"""Typed reading of a JSON file of settings.

Every failure is a ModelLoadError that names file, field, value and what would be right.
"""

import json
from pathlib import Path
from typing import Any, Self

from ..errors import ModelLoadError, shown
from ..weights.bounded_file import read_bounded

_MAX_SIZE = 2**31 - 1
_MAX_NAME_CHARACTERS = 60
# Real ones have some kilobytes, and some hundred where quantization names every tensor.
_MAX_BYTES = 16 << 20


class ConfigFields:
    """Typed reading of one JSON object; every failure names file, field, value and what would be right."""

    def __init__(self, file: Path, path: str, values: dict[str, Any]) -> None:
        """Read `values`; `path` leads to them from the top of `file`, for messages."""
        self.file = file
        self._path = path
        self._values = values

    @classmethod
    def read(cls, file: Path) -> Self:
        """Read a whole file.

        Raises:
            ModelLoadError: it is missing, cannot be read, is larger than any, or holds no JSON object.
        """
        try:
            values = json.loads(read_bounded(file, _MAX_BYTES))
        except FileNotFoundError as err:
            raise ModelLoadError(
                f"{file}: is missing; a model folder needs it"
            ) from err
        except OSError as err:
            raise ModelLoadError(
                f"{file}: cannot be read: {err.strerror or err}"
            ) from err
        except (ValueError, RecursionError) as err:
            raise ModelLoadError(f"{file}: is not valid JSON: {err}") from err
        if not isinstance(values, dict):
            raise ModelLoadError(
                f"{file}: must hold a JSON object, not {type(values).__name__}"
            )
        return cls(file, "", values)

    def __contains__(self, name: str) -> bool:
        """Whether the field is there and not null."""
        return self._values.get(name) is not None

    def names(self) -> tuple[str, ...]:
        """Name all fields, in their order."""
        return tuple(self._values)

    def name_of(self, name: str) -> str:
        """Return the field's full name, for messages."""
        return self._path + (name if _is_plain(name) else shown(name))

    def get(self, name: str) -> Any:
        """Return the raw value, None where there is none."""
        return self._values.get(name)

    def error(self, name: str, right: str) -> ModelLoadError:
        """Say that a field is missing or wrong, and what would be right."""
        problem = (
            f"is {shown(self._values[name])}" if name in self._values else "is missing"
        )
        return ModelLoadError(
            f"{self.file}: {self.name_of(name)} {problem}; right is {right}"
        )

    def section(self, name: str) -> ConfigFields:
        """Read a nested object."""
        value = self.get(name)
        if not isinstance(value, dict):
            raise self.error(name, "an object")
        return ConfigFields(self.file, f"{self.name_of(name)}.", value)

    def text(self, name: str) -> str:
        """Read a string."""
        value = self.get(name)
        if not isinstance(value, str):
            raise self.error(name, "a string")
        return value

    def flag(self, name: str, *, default: bool) -> bool:
        """Read a truth value, `default` where there is none."""
        value = self.get(name)
        if value is None:
            return default
        if not isinstance(value, bool):
            raise self.error(name, "true or false")
        return value

    def whole(self, name: str, *, low: int = 1, high: int = _MAX_SIZE) -> int:
        """Read a whole number from `low` to `high`."""
        value = self.get(name)
        if type(value) is not int or not low <= value <= high:
            raise self.error(name, f"a whole number from {low} to {high}")
        return value

    def number(self, name: str, *, low: float, high: float = 1e12) -> float:
        """Read a number above 0, from `low` to `high`."""
        value = self.get(name)
        if type(value) not in (int, float) or not low <= value <= high or value == 0:
            raise self.error(name, f"a number above 0, from {low} to {high}")
        return float(value)


def _is_plain(name: str) -> bool:
    """Whether a key can stand in a message as it is; that of a rule is any text."""
    return name.isprintable() and len(name) <= _MAX_NAME_CHARACTERS
