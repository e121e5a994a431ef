"""Makes tokens of prompts and conversations as nano's chat template lays them out.

A test holds it to what the engine makes of the same request.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
import json
from typing import Any

from tokenizers import Tokenizer

from local_llm_engine.types import TextPart

from .calls import Call
from .dialogues import Turn
from .states import as_text


@dataclass(frozen=True, slots=True)
class Encoded:
    """Token ids, and for each whether nano itself is to write it."""

    ids: list[int]
    own: list[bool]


class Chats:
    """Writes tokens with one tokenizer; `plain_ids` are all but the control tokens'."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        """Look the control tokens up."""
        self._tokenizer = tokenizer
        control = tokenizer.get_added_tokens_decoder()
        self.plain_ids = [
            token_id
            for token_id in range(tokenizer.get_vocab_size())
            if token_id not in control
        ]

    def prompt(self, parts: Sequence[TextPart], scripts: Sequence[str]) -> list[int]:
        """Write the system message, the prompt up to the first question."""
        told = "".join(f"- script: script__{script}\n" for script in scripts)
        return [
            self._control("<|im_start|>"),
            *self._plain("system\n" + told + "".join(part.text for part in parts)),
            *self._end(),
        ]

    def question(self, text: str) -> list[int]:
        """Write a question and the start of its answer."""
        return [
            *self._said("user", text),
            self._control("<|im_start|>"),
            *self._plain("assistant\n"),
        ]

    def conversation(self, turns: Sequence[Turn]) -> Encoded:
        """Write a conversation."""
        encoded = Encoded([], [])
        for turn in turns:
            _add(encoded, self.question(turn.text), own=False)
            if turn.calls:
                _add(encoded, self.calls(turn.calls), own=True)
                _add(encoded, self.results(turn.results), own=False)
            _add(
                encoded,
                [*self._plain(turn.answer), self._control("<|im_end|>")],
                own=True,
            )
            _add(encoded, self._plain("\n"), own=False)
        return encoded

    def calls(self, calls: Sequence[Call]) -> list[int]:
        """Write an answer that calls tools."""
        ids: list[int] = []
        for index, call in enumerate(calls):
            ids += self._plain("\n") if index else []
            ids += [
                self._control("<tool_call>"),
                *self._plain(_call_text(call)),
                self._control("</tool_call>"),
            ]
        return [*ids, self._control("<|im_end|>")]

    def results(self, results: Sequence[Mapping[str, Any]]) -> list[int]:
        """Write what tools answered and the start of what is said then."""
        ids = [*self._plain("\n"), self._control("<|im_start|>")]
        for index, result in enumerate(results):
            ids += self._plain("\n" if index else "user\n")
            ids += [
                self._control("<tool_response>"),
                *self._plain(f"\n{as_text(dict(result))}\n"),
                self._control("</tool_response>"),
            ]
        return [
            *ids,
            *self._end(),
            self._control("<|im_start|>"),
            *self._plain("assistant\n"),
        ]

    def text(self, ids: Sequence[int]) -> str:
        """Read tokens, control tokens included."""
        return str(self._tokenizer.decode(list(ids), skip_special_tokens=False))

    def _said(self, role: str, text: str) -> list[int]:
        return [
            self._control("<|im_start|>"),
            *self._plain(f"{role}\n{text}"),
            *self._end(),
        ]

    def _end(self) -> list[int]:
        return [self._control("<|im_end|>"), *self._plain("\n")]

    def _control(self, name: str) -> int:
        token_id = self._tokenizer.token_to_id(name)
        assert token_id is not None
        return int(token_id)

    def _plain(self, text: str) -> list[int]:
        return list(self._tokenizer.encode(text, add_special_tokens=False).ids)


def _add(encoded: Encoded, ids: Sequence[int], *, own: bool) -> None:
    encoded.ids.extend(ids)
    encoded.own.extend([own] * len(ids))


def _call_text(call: Call) -> str:
    parameters = "".join(
        f"<parameter={name}>\n{value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)}\n</parameter>\n"
        for name, value in call.arguments.items()
    )
    return f"\n<function={call.tool}>\n{parameters}</function>\n"
