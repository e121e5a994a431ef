"""Renders a conversation through the model's own Jinja template, in a sandbox, as Hugging Face does.

Knows nothing of tokens, segments or messages' types: plain data in, text out.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import jinja2

from local_llm_engine.errors import ChatTemplateError, InvalidRequestError, in_one_line

from .model_files import read_optional_json_object, read_text
from .sandbox import Sandbox, make_environment

# A context of a million tokens is some four million characters; a template that writes more is broken.
MAX_RENDERED_CHARACTERS = 8_000_000

# The longest published ones have a tenth of it.
_MAX_SOURCE_CHARACTERS = 200_000

_SPECIAL_TOKEN_NAMES = (
    "bos_token",
    "eos_token",
    "unk_token",
    "sep_token",
    "pad_token",
    "cls_token",
    "mask_token",
)


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
        self._environment = environment = make_environment()
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
            return _write(self._environment, template, variables)
        except Exception as err:
            raise InvalidRequestError(
                f"the model's chat template refuses these messages: {in_one_line(err)}"
            ) from err


def _compile(environment: Sandbox, source: str) -> jinja2.Template:
    if len(source) > _MAX_SOURCE_CHARACTERS:
        raise ChatTemplateError(
            f"the chat template has {len(source)} characters; at most {_MAX_SOURCE_CHARACTERS} are allowed"
        )
    try:
        return environment.from_string(source)
    except jinja2.TemplateSyntaxError as err:
        raise ChatTemplateError(
            f"the chat template is not valid Jinja: {in_one_line(err)} (line {err.lineno})"
        ) from err
    except RecursionError as err:
        raise ChatTemplateError("the chat template is nested too deeply") from err
    except Exception as err:  # what Jinja makes of it need not be valid Python
        raise ChatTemplateError(
            f"the chat template cannot be compiled: {in_one_line(err)}"
        ) from err


def _write(
    environment: Sandbox, template: jinja2.Template, variables: Mapping[str, Any]
) -> str:
    """Render as far as the bounds allow."""
    pieces: list[str] = []
    room = MAX_RENDERED_CHARACTERS
    environment.bounds.begin()
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
