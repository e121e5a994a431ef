"""Writes the grammar of what an answer may be, as llguidance reads it: one call, or a whole answer.

Knows nothing of live answers, nor of the library that holds them to it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any

from local_llm_engine.types import ToolSpec

from .grammar_terms import Respell, json_value, literal, text_without
from .markup_scanner import THINK, THINK_END, TOOL_CALL, TOOL_CALL_END
from .tool_call_grammar import CallForm, call_rules

_THOUGHT = text_without((THINK_END[1:],))
# Models leave a line free behind a thought, and begin each call on a line of its own.
_GAP = r"/[ \n]{1,3}/"

# Where only one text can come, the library allows none but the tokens that the tokenizer makes of it, and looks back
# over four of them for a longer one that goes on from there. A phrase of many tokens would never be allowed.
_UNFORCED = '%llguidance {"no_forcing": true}'


class Thinking(Enum):
    """Where an answer's thoughts are."""

    NONE = auto()
    POSSIBLE = auto()
    BEGUN = auto()


@dataclass(frozen=True, slots=True, kw_only=True)
class GrammarWriter:
    """What grammars for one model have in common.

    `control_ids` are the ids of the markup that the tokenizer has tokens for; `forms` those in which the model may
    write a call; `respell` writes a text as the model's tokenizer does; `has_phrases` says whether it has tokens for
    tags together with what is around them.
    """

    control_ids: Mapping[str, int]
    forms: Sequence[CallForm]
    respell: Respell
    has_phrases: bool

    def call(self, tools: Sequence[ToolSpec], loose: frozenset[str]) -> str:
        """Write what follows <tool_call>, up to and with </tool_call>.

        Raises:
            GrammarError: a tool's parameters cannot be held; with its name in `loose` they need not be.
        """
        rules = self._call_rules(tools, loose)
        return "\n".join((*self._options(), "start: call", *rules))

    def answer(
        self,
        schema: Mapping[str, Any],
        tools: Sequence[ToolSpec],
        loose: frozenset[str],
        thinking: Thinking,
    ) -> str:
        """Write a whole answer: thoughts, then a JSON value of the schema, or calls where there are tools.

        Raises:
            GrammarError: the schema or a tool's parameters cannot be held.
        """
        said = "value"
        rules = [f"value: {json_value(schema, self.respell, lenient=False)}"]
        if tools:
            said = "(value | calls)"
            rules.append(f"calls: begun_call ({_GAP}? begun_call)*")
            rules.append(f"begun_call: {self._markup(TOOL_CALL)} call")
            rules += self._call_rules(tools, loose)
        if thinking is Thinking.BEGUN:
            said = f"thought {_GAP}? {said}"
        elif thinking is Thinking.POSSIBLE:
            said = f"({self._markup(THINK)} thought {_GAP}?)? {said}"
        if thinking is not Thinking.NONE:
            rules.append(f"thought: {self._thought()}")
        options = self._options() if tools else ()
        return "\n".join((*options, f"start: {said}", *rules))

    def _options(self) -> tuple[str, ...]:
        """Write what is set for the whole of a grammar with calls in it."""
        return (_UNFORCED,) if self.has_phrases else ()

    def _call_rules(
        self, tools: Sequence[ToolSpec], loose: frozenset[str]
    ) -> list[str]:
        end = self._markup(TOOL_CALL_END)
        rules = [f"call: ({' | '.join(self.forms)}) {end}"]
        for form in self.forms:
            rules += call_rules(form, tools, self.respell, loose)
        return rules

    def _thought(self) -> str:
        """Write a thought with its end; the end is part of the text where it is no token."""
        if THINK_END in self.control_ids:
            return f"/{_THOUGHT}/ {self._markup(THINK_END)}"
        return rf"/{_THOUGHT}<\/think>/"

    def _markup(self, text: str) -> str:
        if text in self.control_ids:
            return f"<[{self.control_ids[text]}]>"
        return literal(text)
