"""The filters that chat templates are written for, held to the bounds of what a template may make.

Knows nothing of the sandbox around them.
"""

from collections.abc import Callable, Iterable, Mapping
from functools import wraps
from itertools import islice
import json
import re
from typing import Any

from jinja2 import Environment, pass_environment, pass_eval_context
from jinja2.filters import make_attrgetter
from jinja2.nodes import EvalContext

from .template_bounds import Bounds, percent_size, refuse, replaced_size, size_of

# They lay out pages, pad without end, or are different every time: of no use to a chat template.
_UNBOUNDED = (
    "batch",
    "center",
    "filesizeformat",
    "pprint",
    "random",
    "slice",
    "urlize",
    "wordwrap",
    "xmlattr",
)
_NOT_ASCII = re.compile(r"[^\x00-\x7f\ud800-\udfff]")
_WIDEST_INDENT = 100
_MOST_DIGITS = 30
_LONGEST_LIST = 100_000

type Filter = Callable[..., Any]


def bounded_filters(
    original: Mapping[str, Filter], bounds: Bounds
) -> dict[str, Filter]:
    """Choose the filters that a template may have; every use of one is a step."""
    chosen = {
        name: own for name, own in original.items() if name not in _UNBOUNDED
    } | _measured_filters(original, bounds)
    return {name: _stepping(own, bounds) for name, own in chosen.items()}


def _stepping(own: Filter, bounds: Bounds) -> Filter:
    # What Jinja notes of a filter that asks for more than its arguments goes with it.
    @wraps(own)
    def stepping(*args: Any, **kwargs: Any) -> Any:
        bounds.step()
        return own(*args, **kwargs)

    return stepping


def _measured_filters(
    original: Mapping[str, Filter], bounds: Bounds
) -> dict[str, Filter]:
    """Put bounds around those filters that can make far more than they are given."""

    def format_(value: Any, *args: Any, **kwargs: Any) -> Any:
        bounds.allow(percent_size(str(value), (*args, *kwargs.values())))
        return original["format"](value, *args, **kwargs)

    def indent(value: Any, width: Any = 4, *args: Any, **kwargs: Any) -> Any:
        lines = len(str(value).splitlines())
        bounds.allow(size_of(value) + lines * _indent(width))
        return original["indent"](value, width, *args, **kwargs)

    @pass_eval_context
    def join(
        context: EvalContext, value: Any, d: Any = "", attribute: Any = None
    ) -> Any:
        if attribute is not None:
            value = map(make_attrgetter(context.environment, attribute), value)
        items = _listed(value)
        bounds.allow(size_of(items) + len(items) * size_of(d))
        return original["join"](context, items, d)

    def list_(value: Iterable[Any]) -> list[Any]:
        return bounds.made(_listed(value))

    @pass_eval_context
    def replace(
        context: EvalContext, s: Any, old: Any, new: Any, count: int | None = None
    ) -> Any:
        bounds.allow(replaced_size(str(s), str(old), str(new)))
        return original["replace"](context, s, old, new, count)

    def round_(value: Any, precision: int = 0, *args: Any, **kwargs: Any) -> Any:
        if abs(precision) > _MOST_DIGITS:
            refuse(f"round to more than {_MOST_DIGITS} digits")
        return original["round"](value, precision, *args, **kwargs)

    @pass_environment
    def sum_(
        environment: Environment, iterable: Any, attribute: Any = None, start: Any = 0
    ) -> Any:
        if not isinstance(start, int | float):
            refuse("add up anything but numbers")
        return original["sum"](environment, iterable, attribute, start)

    return {
        "format": format_,
        "indent": indent,
        "join": join,
        "list": list_,
        "replace": replace,
        "round": round_,
        "sum": sum_,
        "tojson": _to_json,
    }


def _listed(value: Iterable[Any]) -> list[Any]:
    items = list(islice(value, _LONGEST_LIST + 1))
    if len(items) > _LONGEST_LIST:
        refuse(f"list more than {_LONGEST_LIST} elements")
    return items


def _indent(width: Any) -> int:
    """Return how many characters an indentation has."""
    own = width if isinstance(width, int) else size_of(width)
    if own > _WIDEST_INDENT:
        refuse(f"indent by more than {_WIDEST_INDENT}")
    return max(0, own)


def _to_json(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | str | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    """Write JSON as Hugging Face does, not as Jinja does, which escapes for HTML.

    Surrogates are never escaped: the markers of this room are made of them and must be found again.
    """
    if indent is not None:
        _indent(indent)
    if separators is not None and size_of(separators) > _WIDEST_INDENT:
        refuse(f"separate by more than {_WIDEST_INDENT} characters")
    text = json.dumps(
        value,
        ensure_ascii=False,
        indent=indent,
        separators=separators,
        sort_keys=sort_keys,
    )
    return (
        _NOT_ASCII.sub(lambda found: json.dumps(found[0])[1:-1], text)
        if ensure_ascii
        else text
    )
