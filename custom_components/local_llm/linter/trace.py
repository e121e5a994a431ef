"""Renders a template and notes, site by site, what it wrote there and which way it went.

A site is an expression that writes, a condition or a loop. Knows nothing of what is looked for.
"""

from collections import Counter
from collections.abc import Sized
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, cast

import jinja2
from jinja2 import nodes

from homeassistant.exceptions import TemplateError
from homeassistant.helpers.template import MAX_TEMPLATE_OUTPUT

from .scene import Scene, SceneEnvironment
from .source import TemplateSource

_SEE = "local_llm_see"
# What is written in these comes out elsewhere, or never.
_CAPTURES = (nodes.Macro, nodes.CallBlock, nodes.AssignBlock)


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """A place in a template where what is written can change.

    `line` counts from 1. `span` are the characters of the source that the site takes, a condition or
    loop up to its end; None where that is not certain. `parent` is the index of the condition or loop
    that it stands in. A quiet one writes nothing by itself.
    """

    line: int
    parent: int | None
    span: tuple[int, int] | None = None
    is_expression: bool = False
    is_quiet: bool = False


class Seen(NamedTuple):
    """What a site gave, and how many characters had been written before."""

    value: str | bool | int
    position: int


@dataclass(slots=True)
class Rendering:
    """A rendered template; `seen` by site and by how often that had been passed before."""

    text: str = ""
    seen: dict[tuple[int, int], Seen] = field(default_factory=dict)


class TracedTemplate:
    """A template of Home Assistant whose sites are watched while it is rendered.

    `constants` are the words and numbers in it, `names` what it may take of a state. `opaque_lines`
    hold statements that write what no site tells of.
    """

    def __init__(self, source: str, environment: SceneEnvironment) -> None:
        """Compile it.

        Raises:
            TemplateError: it is not valid.
        """
        self._environment = environment
        self._rendering = Rendering()
        self._passes: Counter[int] = Counter()
        self._position = 0
        text = TemplateSource(source)
        try:
            tree = environment.parse(text.stripped)
            # The watch that is put in has constants of its own.
            self.constants, self.names = _words(tree)
            tracer = _Tracer(text, tree, environment)
            code = environment.compile(tree)
        except (jinja2.TemplateError, RecursionError, SyntaxError) as err:
            # Python itself refuses those whose brackets or loops lie too deep in each other.
            raise TemplateError(err) from err
        self.sites = tuple(tracer.sites)
        self.opaque_lines = [
            node.lineno + text.first_line
            for kind in (nodes.CallBlock, nodes.Include, nodes.FilterBlock)
            for node in tree.find_all(kind)
        ]
        environment.globals[_SEE] = self._see
        self._template = jinja2.Template.from_code(
            environment, code, environment.globals, None
        )

    def render(self, scene: Scene) -> Rendering:
        """Render it in a scene.

        Raises:
            TemplateError: it fails, or writes more than Home Assistant allows.
        """
        variables = self._environment.set_scene(scene)
        self._rendering = rendering = Rendering()
        self._passes.clear()
        self._position = 0
        try:
            text = self._text(variables)
        except TemplateError:
            raise
        except Exception as err:  # whatever the functions in it raise
            raise TemplateError(err) from err
        rendering.text = text.strip()
        cut = len(text) - len(text.lstrip())
        rendering.seen = {
            key: seen._replace(position=max(0, seen.position - cut))
            for key, seen in rendering.seen.items()
        }
        return rendering

    def _text(self, variables: dict[str, Any]) -> str:
        pieces: list[str] = []
        context = self._template.new_context(variables)
        for piece in self._template.root_render_func(context):
            pieces.append(piece)
            self._position += len(piece)
            if self._position > MAX_TEMPLATE_OUTPUT:
                raise ValueError(
                    f"it writes more than {MAX_TEMPLATE_OUTPUT} characters"
                )
        return "".join(pieces)

    def _see(self, index: int, kind: str, value: Any) -> Any:
        """Note what a site gives, and pass it on."""
        kept: str | bool | int
        if kind == "loop":
            value = value if isinstance(value, Sized) else list(value)
            kept = len(value)
        else:
            kept = bool(value) if kind == "condition" else str(value)
        key = index, self._passes[index]
        self._passes[index] += 1
        self._rendering.seen[key] = Seen(kept, self._position)
        return value


class _Tracer:
    """Finds the sites of a parsed template, and puts the watch into it."""

    def __init__(
        self,
        text: TemplateSource,
        tree: nodes.Template,
        environment: SceneEnvironment,
    ) -> None:
        self.sites: list[Site] = []
        self._environment = environment
        self._first_line = text.first_line
        self._numbers: dict[int, tuple[bool, int]] = {}
        self._num_expressions = 0
        self._num_statements = 0
        for node in tree.body:
            self._visit(node, None, traced=True)
        expressions = text.expressions(self._num_expressions)
        statements = text.statements(self._num_statements)
        for index, (is_expression, number) in self._numbers.items():
            spans = expressions if is_expression else statements
            if spans:
                self.sites[index] = replace(self.sites[index], span=spans[number])

    def _visit(self, node: nodes.Node, parent: int | None, *, traced: bool) -> None:
        if isinstance(node, nodes.Output):
            self._visit_output(node, parent, traced=traced)
        elif isinstance(node, nodes.If | nodes.For):
            number = self._num_statements
            self._num_statements += 1
            self._visit_branch(node, parent, number, traced=traced)
        else:
            traced = traced and not isinstance(node, _CAPTURES)
            for child in node.iter_child_nodes():
                if isinstance(child, nodes.Stmt):
                    self._visit(child, parent, traced=traced)

    def _visit_output(
        self, node: nodes.Output, parent: int | None, *, traced: bool
    ) -> None:
        for place, child in enumerate(node.nodes):
            if isinstance(child, nodes.TemplateData):
                continue
            if traced:
                index = self._add(child, parent, (True, self._num_expressions))
                node.nodes[place] = self._watched(index, "expression", child)
            self._num_expressions += 1

    def _visit_branch(
        self,
        node: nodes.If | nodes.For,
        parent: int | None,
        number: int,
        *,
        traced: bool,
    ) -> None:
        """Watch a condition or a loop, its other branches, and what stands in them."""
        quiet = not _writes(node)
        if traced:
            decider = node.test if isinstance(node, nodes.If) else node.iter
            index = self._add(decider, parent, (False, number), quiet=quiet)
            if isinstance(node, nodes.If):
                node.test = self._watched(index, "condition", node.test)
            else:
                node.iter = self._watched(index, "loop", node.iter)
                if node.test is not None:
                    inner = self._add(node.test, index, (False, number), quiet=quiet)
                    node.test = self._watched(inner, "condition", node.test)
            parent = index
        for child in node.body:
            self._visit(child, parent, traced=traced)
        for branch in node.elif_ if isinstance(node, nodes.If) else ():
            self._visit_branch(branch, parent, number, traced=traced)
        for child in node.else_:
            self._visit(child, parent, traced=traced)

    def _add(
        self,
        node: nodes.Node,
        parent: int | None,
        number: tuple[bool, int],
        *,
        quiet: bool = False,
    ) -> int:
        index = len(self.sites)
        # The node itself may stand for its last part, such as the last filter; some have no line.
        lines = [part.lineno for part in (node, *node.find_all(nodes.Node))]
        self.sites.append(
            Site(
                line=min(filter(None, lines)) + self._first_line,
                parent=parent,
                is_expression=number[0],
                is_quiet=quiet,
            )
        )
        self._numbers[index] = number
        return index

    def _watched(self, index: int, kind: str, value: nodes.Node) -> nodes.Expr:
        call = nodes.Call(
            nodes.Name(_SEE, "load"),
            [nodes.Const(index), nodes.Const(kind), cast("nodes.Expr", value)],
            [],
            None,
            None,
        )
        call.set_lineno(value.lineno)
        call.set_environment(self._environment)
        return call


def _writes(node: nodes.Node) -> bool:
    """Tell whether anything in a statement writes more than whitespace."""
    return any(
        not isinstance(child, nodes.TemplateData) or child.data.strip()
        for output in node.find_all(nodes.Output)
        for child in output.nodes
    )


def _words(tree: nodes.Template) -> tuple[list[str | int | float], list[str]]:
    """Return the constants of a template, and the names that it may look up in a state, without repeats."""
    constants = [node.value for node in tree.find_all(nodes.Const)]
    looked_up = list(tree.find_all(nodes.Getattr))
    names = [
        node.attr
        for node in looked_up
        if node.attr == "attributes" or getattr(node.node, "attr", "") == "attributes"
    ]
    # Filters that map name attributes so.
    names += [
        value.removeprefix("attributes.")
        for value in constants
        if isinstance(value, str)
    ]
    kept = [
        value
        for value in constants
        if isinstance(value, str | int | float) and not isinstance(value, bool)
    ]
    return list(dict.fromkeys(kept)), [
        name
        for name in dict.fromkeys(names)
        if name.isidentifier() and not hasattr(dict, name)
    ]
