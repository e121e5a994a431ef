"""The Jinja environment that chat templates run in: Hugging Face's conventions, and nothing that could do harm.

Knows nothing of any template or message.
"""

from collections.abc import Callable
from datetime import datetime
import json
import re
from typing import Any, override

import jinja2
from jinja2 import nodes
from jinja2.exceptions import SecurityError
from jinja2.ext import Extension, loopcontrols
from jinja2.parser import Parser
from jinja2.runtime import Context
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import Namespace

# No template multiplies numbers or repeats text beyond these for anybody's good.
MAX_FACTOR = 10**9
MAX_REPEATED_ITEMS = 8_000_000

_WIDE_FORMAT = re.compile(r"%[^a-zA-Z]*(\d{4}|\*)")
_NOT_ASCII = re.compile(r"[^\x00-\x7f\ud800-\udfff]")


class _GenerationTag(Extension):
    """`{% generation %}` marks what a model is trained on; for rendering it is only a scope."""

    tags = {"generation"}  # noqa: RUF012 - Jinja declares it as a plain attribute

    @override
    def parse(self, parser: Parser) -> nodes.Node:
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return nodes.Scope(body, lineno=line)


class _Namespace(Namespace):
    """Jinja's namespace without names that begin with an underscore, which reach into Python."""

    def __init__(*args: Any, **kwargs: Any) -> None:
        self, *rest = args
        values = dict(*rest, **kwargs)
        for name in values:
            _refuse_private(name)
        Namespace.__init__(self, values)

    @override
    def __setitem__(self, name: str, value: Any) -> None:
        _refuse_private(name)
        super().__setitem__(name, value)


def _refuse_private(name: object) -> None:
    if isinstance(name, str) and name.startswith("_"):
        raise SecurityError(f"a template may not store {name!r} in a namespace")


class _Sandbox(ImmutableSandboxedEnvironment):
    """Refuses the operators that compute for ever, or fill the memory, in one step that nothing interrupts."""

    intercepted_binops = frozenset({"**", "*", "%"})

    @override
    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        """Allow products of small numbers, repetitions that stay short, and remainders."""
        if operator == "**":
            raise SecurityError("a template may not raise to a power")
        numbers = isinstance(left, int | float) and isinstance(right, int | float)
        if operator == "*" and numbers and max(abs(left), abs(right)) > MAX_FACTOR:
            raise SecurityError(
                f"a template may not multiply by more than {MAX_FACTOR}"
            )
        if operator == "*" and not numbers:
            _refuse_long(left, right)
        if operator == "%" and isinstance(left, str) and _WIDE_FORMAT.search(left):
            raise SecurityError("a template may not format to a width of thousands")
        return super().call_binop(context, operator, left, right)


def _refuse_long(left: Any, right: Any) -> None:
    for repeated, times in ((left, right), (right, left)):
        is_repetition = isinstance(times, int) and hasattr(repeated, "__len__")
        if is_repetition and len(repeated) * times > MAX_REPEATED_ITEMS:
            raise SecurityError(
                f"a template may not repeat beyond {MAX_REPEATED_ITEMS} characters"
            )


def make_environment() -> ImmutableSandboxedEnvironment:
    """Set up what Hugging Face's chat templates are written for."""
    environment = _Sandbox(
        trim_blocks=True, lstrip_blocks=True, extensions=[_GenerationTag, loopcontrols]
    )
    environment.filters["tojson"] = _to_json
    del environment.globals["lipsum"]  # filler text of any length
    functions: dict[str, Callable[..., Any]] = {
        "raise_exception": _raise_exception,
        "strftime_now": _strftime_now,
        "namespace": _Namespace,
        "dict": _new_dict,
    }
    environment.globals.update(functions)
    return environment


def _to_json(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    """Write JSON as Hugging Face does, not as Jinja does, which escapes for HTML.

    Surrogates are never escaped: the markers of this room are made of them and must be found again.
    """
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


def _raise_exception(message: str) -> None:
    raise jinja2.TemplateError(message)


def _strftime_now(pattern: str) -> str:
    return datetime.now().strftime(pattern)


def _new_dict(*args: Any, **kwargs: Any) -> dict[Any, Any]:
    return dict(*args, **kwargs)
