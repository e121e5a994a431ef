"""Damages a JSON value: other kinds, extreme numbers, endless texts, deep nesting, doubled and missing keys."""

from collections.abc import Callable, Iterator, MutableMapping, MutableSequence
import copy
import json
from random import Random
from typing import Any

from .damage_bytes import EXTREMES, damage_bytes

type Place = tuple[MutableMapping[str, Any] | MutableSequence[Any], Any]

# Stands for what no encoder writes, until the text is written.
_DEEP = "\ue000deep"
_DEPTHS = (50, 500, 1_200, 20_000, 200_000)
# So often it stands in one value.
_MAX_DEEP = 4
_LONG = (100, 10_000, 1_000_000)
_LONG_LIST = 100_000


class _Again(str):
    """A key that is no other's equal, so that it stands twice."""

    __slots__ = ()
    __hash__ = object.__hash__

    def __eq__(self, other: object) -> bool:
        return self is other


def damage_json(rng: Random, value: Any) -> bytes:
    """Change a value in a few places, and write it."""
    value = copy.deepcopy(value)
    for _ in range(rng.choice((1, 1, 1, 2, 3, 6))):
        places = list(_places(value))
        if not places:
            break
        container, key = rng.choice(places)
        rng.choice(_WAYS)(rng, container, key, places)
    data = _written(rng, value)
    return damage_bytes(rng, data) if rng.random() < 0.05 else data


def strange_value(rng: Random) -> Any:
    """Make a value of some kind, most of them extreme."""
    return rng.choice(
        (
            lambda: None,
            lambda: rng.choice((True, False)),
            lambda: rng.choice(EXTREMES),
            lambda: -rng.choice(EXTREMES),
            lambda: 10 ** rng.choice((30, 400, 4_000)),
            lambda: rng.choice((0.0, -0.0, 0.5, 1e-308, 1e308, float("inf"), float("-inf"), float("nan"))),
            lambda: strange_text(rng),
            list,
            dict,
            lambda: [strange_value(rng)],
            # Of a list in a list in a list it would fill the memory.
            lambda: [rng.choice(EXTREMES)] * 16,
            lambda: [0] * _LONG_LIST,
            lambda: {strange_text(rng): strange_value(rng)},
            lambda: _DEEP,
        )
    )()  # fmt: skip


def strange_text(rng: Random) -> str:
    """Make a text that is empty, endless, or of characters that seldom stand in names."""
    return rng.choice(
        (
            "", "0", "\0", "\n", "\ud800", "../../etc/passwd", "/", "..", "é\u0301", "\u202e", "🛋️", "{{ 1 }}", "%s",
            "<|im_end|>", "true", "NaN", "a" * rng.choice(_LONG), "\\", "Ġ", "▁", "(t+)+\\d", "\\p{L}*\\p{L}*\\p{N}", "(?:)", "$",
        )
    )  # fmt: skip


def _places(value: Any) -> Iterator[Place]:
    """List every place that holds a value; of a long list only a few."""
    keys: list[Any] = []
    if isinstance(value, dict):
        keys = list(value)
    elif isinstance(value, list):
        keys = list(range(len(value)))
    for key in keys if len(keys) < 64 else [*keys[:24], *keys[-24:]]:
        yield value, key
        yield from _places(value[key])


def _replace(rng: Random, container: Any, key: Any, _: list[Place]) -> None:
    container[key] = strange_value(rng)


def _nudge(rng: Random, container: Any, key: Any, _: list[Place]) -> None:
    match container[key]:
        case bool(flag):
            container[key] = not flag
        case int(number):
            container[key] = rng.choice(
                (number + 1, number - 1, number * 2, number // 2, -number, float(number % (1 << 64)), str(number))
            )  # fmt: skip
        case float(number):
            container[key] = rng.choice((-number, number * 1e6, number / 1e6, int(number) if abs(number) < 1e18 else 0))  # fmt: skip
        case str(text):
            container[key] = rng.choice((text[:-1], text + text, text.upper(), text + "\n", text[1:]))  # fmt: skip
        case list(items):
            container[key] = rng.choice((items[:-1], items + items, items[::-1], {"0": items}, items[1:2]))  # fmt: skip
        case dict(items):
            container[key] = rng.choice(([items], list(items.values()), list(items)))
        case _:
            container[key] = 1


def _remove(_: Random, container: Any, key: Any, places: list[Place]) -> None:
    del container[key]
    places.clear()


def _put_elsewhere(rng: Random, container: Any, key: Any, places: list[Place]) -> None:
    other, other_key = rng.choice(places)
    container[key] = copy.deepcopy(other[other_key])


def _rename(rng: Random, container: Any, key: Any, places: list[Place]) -> None:
    if isinstance(container, dict):
        names = [name for _, name in places if isinstance(name, str)]
        new = strange_text(rng) if rng.random() < 0.3 else rng.choice(names)
        container[new] = container.pop(key)


def _double(rng: Random, container: Any, key: Any, _: list[Place]) -> None:
    if isinstance(container, dict):
        again = container[key] if rng.random() < 0.5 else strange_value(rng)
        container[_Again(key)] = again
    else:
        container.insert(key, container[key])


_WAYS: tuple[Callable[[Random, Any, Any, list[Place]], None], ...] = (
    _replace,
    _replace,
    _nudge,
    _nudge,
    _remove,
    _put_elsewhere,
    _rename,
    _double,
)


def _written(rng: Random, value: Any) -> bytes:
    text = json.dumps(value)
    if _DEEP[1:] in text:
        depth = rng.choice(_DEPTHS)
        opening, closing = rng.choice((("[", "]"), ('{"a":', "}")))
        core = "" if opening == "[" else "0"
        nested = opening * depth + core + closing * rng.choice((depth, depth - 1))
        text = text.replace(json.dumps(_DEEP), nested, _MAX_DEEP)
    if rng.random() < 0.02:
        text = "\ufeff" + text
    return text.encode("utf-8", "surrogatepass")
