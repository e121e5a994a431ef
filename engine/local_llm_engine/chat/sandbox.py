"""The Jinja environment that chat templates run in: Hugging Face's conventions, and nothing that could do harm.

Knows nothing of any template or message.
"""

from collections.abc import Callable, Iterable
from datetime import datetime
from types import BuiltinMethodType
from typing import Any, cast, override

import jinja2
from jinja2 import nodes, pass_eval_context
from jinja2.exceptions import SecurityError
from jinja2.ext import Extension, loopcontrols
from jinja2.nodes import EvalContext
from jinja2.parser import Parser
from jinja2.runtime import Context, markup_join, str_join
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import Namespace
from jinja2.visitor import NodeTransformer

from .template_bounds import (
    GROWING_METHODS,
    Bounds,
    braces_size,
    percent_size,
    refuse,
    size_of,
)
from .template_filters import bounded_filters

# No template multiplies by more for anybody's good.
MAX_FACTOR = 10**9
_LONGEST_DATE_PATTERN = 200
_SHORT_CHARACTERS = 1_000

# Names of filters that no template can write.
_EACH, _JOINED, _MADE = "each of a loop", "joined texts", "what is made"


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


class _Bounded(NodeTransformer):
    """Puts what counts around everything that a template can have done again and again, or made of parts."""

    def visit_For(self, node: nodes.For) -> nodes.For:
        """Count the rounds of a loop."""
        self.generic_visit(node)
        node.iter = _filtered(node.iter, _EACH)
        return node

    def visit_Concat(self, node: nodes.Concat) -> nodes.Node:
        """Measure what `~` joins."""
        self.generic_visit(node)
        return _filtered(nodes.List(node.nodes, lineno=node.lineno), _JOINED)

    def visit_List(self, node: nodes.List) -> nodes.Node:
        """Measure a list that is more than constants."""
        return self._measured(node, node.items)

    def visit_Tuple(self, node: nodes.Tuple) -> nodes.Node:
        """Measure a tuple, unless it names what is assigned to."""
        return self._measured(node, node.items if node.ctx == "load" else [])

    def visit_Dict(self, node: nodes.Dict) -> nodes.Node:
        """Measure a dictionary."""
        return self._measured(node, [pair.value for pair in node.items])

    def _measured(self, node: nodes.Expr, items: list[nodes.Expr]) -> nodes.Node:
        self.generic_visit(node)
        if all(isinstance(item, nodes.Const) for item in items):
            return node
        return _filtered(node, _MADE)


def _filtered(node: nodes.Node, name: str) -> nodes.Filter:
    return nodes.Filter(
        cast("nodes.Expr", node), name, [], [], None, None, lineno=node.lineno
    )


class Sandbox(ImmutableSandboxedEnvironment):
    """Refuses what computes for ever or fills the memory, be it in one step that nothing interrupts or in many."""

    intercepted_binops = frozenset({"**", "*", "%", "+"})

    def __init__(self, **options: Any) -> None:
        """Take Jinja's options."""
        super().__init__(**options)
        self.bounds = bounds = Bounds()
        self.filters = {
            **bounded_filters(self.filters, bounds),
            _EACH: bounds.each,
            _JOINED: self._joined,
            _MADE: bounds.made,
        }

    @override
    def _parse(
        self, source: str, name: str | None, filename: str | None
    ) -> nodes.Template:
        parsed = super()._parse(source, name, filename)
        bounded: nodes.Template = _Bounded().visit(parsed)
        return bounded

    @override
    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        """Allow sums and products that stay small, and remainders."""
        if operator == "+" and type(left) is str and type(right) is str:
            # What templates do all the time. Short texts add up to nothing that steps do not bound.
            size = len(left) + len(right)
            if size > _SHORT_CHARACTERS:
                self.bounds.allow(size)
            return left + right
        if operator == "**":
            refuse("raise to a power")
        if operator == "%" and isinstance(left, str):
            self.bounds.allow(percent_size(left, right))
        elif not (isinstance(left, int | float) and isinstance(right, int | float)):
            self._allow_made(operator, left, right)
        elif operator == "*" and max(abs(left), abs(right)) > MAX_FACTOR:
            refuse(f"multiply by more than {MAX_FACTOR}")
        return super().call_binop(context, operator, left, right)

    def _allow_made(self, operator: str, left: Any, right: Any) -> None:
        if operator == "+":
            self.bounds.allow(size_of(left) + size_of(right))
        elif operator == "*":
            for repeated, times in ((left, right), (right, left)):
                if isinstance(times, int) and hasattr(repeated, "__len__"):
                    self.bounds.allow(size_of(repeated) * max(0, times))

    @override
    def call(self, context: Context, obj: Any, /, *args: Any, **kwargs: Any) -> Any:
        """Take a step for every call, and measure what it would make or has made."""
        bounds = self.bounds
        bounds.step()
        if type(obj) is BuiltinMethodType and isinstance(
            obj.__self__, str | bytes | int
        ):
            growing = GROWING_METHODS.get(obj.__name__)
            if growing is not None:
                bounds.allow(growing(obj.__self__, *args, **kwargs))
        result = super().call(context, obj, *args, **kwargs)
        if isinstance(result, list | tuple | dict):
            bounds.made(result)
        return result

    @override
    def call_test(self, *args: Any, **kwargs: Any) -> Any:
        """Take a step for every element that a filter goes through with a test."""
        self.bounds.step()
        return super().call_test(*args, **kwargs)

    @override
    def wrap_str_format(self, value: Any) -> Callable[..., str] | None:
        """Measure what a text's own formatting would make."""
        wrapped = super().wrap_str_format(value)
        if wrapped is None:
            return None

        def bounded(*args: Any, **kwargs: Any) -> str:
            values = (*args, *kwargs.values())
            self.bounds.allow(braces_size(value.__self__, values))
            return wrapped(*args, **kwargs)

        return bounded

    @override
    def concat(self, pieces: Iterable[str]) -> str:
        """Join what a block, a macro or a whole template has written."""
        pieces = list(pieces)
        self.bounds.allow(sum(map(len, pieces)))
        return "".join(pieces)

    @pass_eval_context
    def _joined(self, context: EvalContext, parts: list[Any]) -> str:
        self.bounds.allow(size_of(parts))
        return markup_join(parts) if context.autoescape else str_join(parts)


def make_environment() -> Sandbox:
    """Set up what Hugging Face's chat templates are written for."""
    environment = Sandbox(
        trim_blocks=True, lstrip_blocks=True, extensions=[_GenerationTag, loopcontrols]
    )
    del environment.globals["lipsum"]  # filler text of any length
    functions: dict[str, Callable[..., Any]] = {
        "raise_exception": _raise_exception,
        "strftime_now": _strftime_now,
        "namespace": _Namespace,
        "dict": _new_dict,
    }
    environment.globals.update(functions)
    return environment


def _raise_exception(message: str) -> None:
    raise jinja2.TemplateError(message)


def _new_dict(*args: Any, **kwargs: Any) -> dict[Any, Any]:
    return dict(*args, **kwargs)


def _strftime_now(pattern: str) -> str:
    if len(pattern) > _LONGEST_DATE_PATTERN:
        refuse(f"write a date by more than {_LONGEST_DATE_PATTERN} characters")
    return datetime.now().strftime(pattern)
