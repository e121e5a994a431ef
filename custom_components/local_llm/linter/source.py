"""Where the expressions and statements of a template stand in its text, character by character; pure text, no Jinja."""

import re

# What a template can hold that is neither an expression nor a statement of its own
_ASIDE = re.compile(r"\{#.*?#\}|\{%[-+]?\s*raw\b.*?\bendraw\s*[-+]?%\}", re.DOTALL)
_STRING = r""""(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'"""
_EXPRESSION = re.compile(rf"\{{\{{(?:{_STRING}|(?!\}}\}}).)*\}}\}}", re.DOTALL)
_STATEMENT = re.compile(rf"\{{%[-+]?\s*(\w+)(?:{_STRING}|(?!%\}}).)*%\}}", re.DOTALL)

type Span = tuple[int, int]


class TemplateSource:
    """The text of a template, and its text without the whitespace around it, as Home Assistant renders it.

    `first_line` lines are cut off before the first.
    """

    def __init__(self, text: str) -> None:
        """Take the text as a person wrote it."""
        self.stripped = text.strip()
        cut = len(text) - len(text.lstrip())
        self.first_line = text.count("\n", 0, cut)
        self._masked = _ASIDE.sub(_blank, text)

    def expressions(self, number: int) -> list[Span] | None:
        """Return where all expressions stand; None unless there are as many as Jinja found."""
        spans = [match.span() for match in _EXPRESSION.finditer(self._masked)]
        return spans if len(spans) == number else None

    def statements(self, number: int) -> list[Span] | None:
        """Return where all conditions and loops stand, each to its end; None unless there are as many as Jinja found."""
        spans: list[Span] = []
        opened: list[int] = []
        for match in _STATEMENT.finditer(self._masked):
            if match[1] in ("if", "for"):
                opened.append(len(spans))
                spans.append(match.span())
            elif match[1] in ("endif", "endfor") and opened:
                start = opened.pop()
                spans[start] = (spans[start][0], match.end())
        return spans if len(spans) == number else None


def _blank(match: re.Match[str]) -> str:
    return re.sub(r"[^\n]", " ", match[0])
