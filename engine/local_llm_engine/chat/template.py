"""Renders a conversation through the model's own Jinja template, in a sandbox, as Hugging Face does.

Knows nothing of tokens, segments or messages' types: plain data in, text out.
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
import json
from pathlib import Path
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

from local_llm_engine.errors import ChatTemplateError, InvalidRequestError

from .model_files import read_optional_json_object, read_text

# A context of a million tokens is some four million characters; a template that writes more is broken.
MAX_RENDERED_CHARACTERS = 8_000_000
MAX_FACTOR = 10**9

# What a template can raise because of the messages it was given.
_RENDER_ERRORS = (
    jinja2.TemplateError,
    TypeError,
    ValueError,
    LookupError,
    AttributeError,
    ArithmeticError,
    RecursionError,
    MemoryError,
)

_SPECIAL_TOKEN_NAMES = (
    "bos_token",
    "eos_token",
    "unk_token",
    "sep_token",
    "pad_token",
    "cls_token",
    "mask_token",
)
_WIDE_FORMAT = re.compile(r"%[^a-zA-Z]*(\d{4}|\*)")
_NOT_ASCII = re.compile(r"[^\x00-\x7f\ud800-\udfff]")


class ChatTemplate:
    """A model's compiled chat template; safe to use from several threads."""

    def __init__(
        self,
        source: str,
        *,
        tool_source: str | None = None,
        special_tokens: Mapping[str, str] | None = None,
    ) -> None:
        """Compile the template, and the one for requests with tools where the model has its own.

        Raises:
            ChatTemplateError: a template is not valid Jinja.
        """
        environment = _environment()
        self._plain = _compile(environment, source)
        self._with_tools = (
            self._plain if tool_source is None else _compile(environment, tool_source)
        )
        self._special_tokens = dict(special_tokens or {})

    @classmethod
    def load(cls, folder: Path) -> ChatTemplate:
        """Find the template of a model folder: chat_template.jinja, else tokenizer_config.json.

        Raises:
            ChatTemplateError: there is none, or it cannot be used.
        """
        config = read_optional_json_object(folder / "tokenizer_config.json")
        special_tokens = _special_tokens(config)
        path = folder / "chat_template.jinja"
        if path.exists():
            return cls(read_text(path), special_tokens=special_tokens)
        match config.get("chat_template"):
            case str() as source:
                return cls(source, special_tokens=special_tokens)
            case [*entries]:
                named = _named_templates(entries)
                if "default" in named:
                    return cls(
                        named["default"],
                        tool_source=named.get("tool_use"),
                        special_tokens=special_tokens,
                    )
        raise ChatTemplateError(
            f"{folder} has no chat template: neither chat_template.jinja nor a chat_template in tokenizer_config.json"
        )

    def render(
        self,
        messages: Sequence[Mapping[str, Any]],
        tools: Sequence[Mapping[str, Any]] = (),
        *,
        thinking: bool,
        add_generation_prompt: bool = True,
    ) -> str:
        """Write the whole conversation as the model expects it.

        Args:
            messages: plain JSON data, in Hugging Face's form; no message is changed.
            tools: OpenAI-style function specs; none are given to the template as None.
            thinking: the template's `enable_thinking`.
            add_generation_prompt: whether the text ends where the answer begins.

        Raises:
            InvalidRequestError: the template refuses these messages; the error has its words.
        """
        template = self._with_tools if tools else self._plain
        variables = {
            **self._special_tokens,
            "messages": messages,
            "tools": tools or None,
            "documents": None,
            "add_generation_prompt": add_generation_prompt,
            "enable_thinking": thinking,
        }
        try:
            return _write(template, variables)
        except _RENDER_ERRORS as err:
            raise InvalidRequestError(
                f"the model's chat template refuses these messages: {err}"
            ) from err


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
        if isinstance(times, int) and hasattr(repeated, "__len__"):
            if len(repeated) * times > MAX_RENDERED_CHARACTERS:
                raise SecurityError(
                    f"a template may not repeat beyond {MAX_RENDERED_CHARACTERS} characters"
                )


def _environment() -> ImmutableSandboxedEnvironment:
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


def _compile(
    environment: ImmutableSandboxedEnvironment, source: str
) -> jinja2.Template:
    try:
        return environment.from_string(source)
    except jinja2.TemplateSyntaxError as err:
        raise ChatTemplateError(
            f"the chat template is not valid Jinja: {err.message} (line {err.lineno})"
        ) from err
    except RecursionError as err:
        raise ChatTemplateError("the chat template is nested too deeply") from err


def _write(template: jinja2.Template, variables: Mapping[str, Any]) -> str:
    """Render as far as the bound allows."""
    pieces: list[str] = []
    room = MAX_RENDERED_CHARACTERS
    for piece in template.generate(variables):
        pieces.append(piece)
        room -= len(piece)
        if room < 0:
            raise ValueError(
                f"it would write more than {MAX_RENDERED_CHARACTERS} characters"
            )
    return "".join(pieces)


def _named_templates(entries: Sequence[object]) -> dict[str, str]:
    """Read the list form of `chat_template`: [{"name": ..., "template": ...}, ...]."""
    named = {}
    for entry in entries:
        match entry:
            case {"name": str() as name, "template": str() as source}:
                named[name] = source
    return named


def _special_tokens(config: Mapping[str, Any]) -> dict[str, str]:
    """Read the named tokens that templates may write; each is a string or an object with its content."""
    found = {}
    for name in _SPECIAL_TOKEN_NAMES:
        match config.get(name):
            case str() as text:
                found[name] = text
            case {"content": str() as text}:
                found[name] = text
    return found


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
