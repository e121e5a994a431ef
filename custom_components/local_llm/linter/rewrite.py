"""Puts sentences in the place of what changes too often in a template's text, and leaves all else as it is; pure text."""

from collections.abc import Iterable
import re
from typing import NamedTuple

from .source import Span

_TAG = re.compile(r"\{[{%#].*?[}%#]\}", re.DOTALL)
_SENTENCE_END = re.compile(r"[.!?](?=\s)|[。！？]")
_LIST_MARK = re.compile(r"\s*(?:[-*#]+|\d+[.)])?\s*")


class Replacement(NamedTuple):
    """What takes the place of a span of the source.

    With `whole_sentence` it stands for the sentence around the span, too, as far as that goes on its lines.
    """

    span: Span
    text: str
    whole_sentence: bool


def rewrite(source: str, replacements: Iterable[Replacement]) -> str:
    """Return the source with everything replaced; a sentence that stands there already is not put in twice."""
    masked = _TAG.sub(lambda tag: "x" * len(tag[0]), source)
    places = sorted(
        (_sentence(masked, one.span) if one.whole_sentence else one.span, one)
        for one in replacements
    )
    said: set[str] = set()
    result, done = "", 0
    for (start, end), group in _outermost(places):
        words = [one.text for one in group if _is_fresh(one, said)]
        result, done = result + source[done:start] + " ".join(words), end
        if not words:
            result, done = _without_empty_line(result, source, done)
    return result + source[done:]


def _is_fresh(one: Replacement, said: set[str]) -> bool:
    """Tell whether a sentence has not been put in yet; note that it is now."""
    is_fresh = not one.whole_sentence or one.text not in said
    said.add(one.text)
    return is_fresh and bool(one.text)


def _outermost(
    places: Iterable[tuple[Span, Replacement]],
) -> list[tuple[Span, list[Replacement]]]:
    """Join spans that overlap: what stands in a condition, or in the same sentence, goes with it."""
    joined: list[tuple[Span, list[Replacement]]] = []
    for (start, end), one in places:
        if joined and start < joined[-1][0][1]:
            (first, last), group = joined[-1]
            # In a sentence that is replaced as a whole, a mere value has no place any more.
            if one.whole_sentence:
                group = [other for other in group if other.whole_sentence] + [one]
            joined[-1] = (first, max(last, end)), group
        else:
            joined.append(((start, end), [one]))
    return joined


def _sentence(masked: str, span: Span) -> Span:
    """Widen a span to the sentence that it stands in, within its lines; a list's mark stays."""
    start = masked.rfind("\n", 0, span[0]) + 1
    start += len(_LIST_MARK.match(masked[start : span[0]])[0])  # type: ignore[index]
    line_end = masked.find("\n", span[1])
    end = len(masked) if line_end < 0 else line_end
    for match in _SENTENCE_END.finditer(masked, start, end):
        if match.end() <= span[0]:
            start = match.end()
        elif match.start() >= span[1]:
            end = match.end()
            break
    start += len(masked[start : span[0]]) - len(masked[start : span[0]].lstrip())
    return start, end


def _without_empty_line(before: str, source: str, done: int) -> tuple[str, int]:
    """Close the gap where nothing was put in: of two spaces one goes, and a line that has become empty goes as a whole."""
    line_start = before.rfind("\n") + 1
    if source[done : done + 1] == " " and before[-1:] in ("", " ", "\n"):
        return before, done + 1
    is_empty = _LIST_MARK.fullmatch(before[line_start:]) is not None
    if is_empty and source[done : done + 1] in ("", "\n"):
        return before[:line_start], done + 1
    return before, done
