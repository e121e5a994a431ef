"""Expands sentence templates of hassil's syntax at random, one sentence at a time.

Knows the syntax, nothing of what sentences mean.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache
from random import Random
import re

from hassil.expression import (
    Alternative,
    Expression,
    Group,
    ListReference,
    Permutation,
    RuleReference,
    TextChunk,
)
from hassil.parse_expression import parse_sentence

type Fill = Callable[[str, str], str]
_SPACES = re.compile(r"\s+")


class UnfitTemplateError(Exception):
    """A template that cannot be filled in this house."""


@lru_cache(maxsize=8192)
def _parsed(template: str) -> Expression:
    return parse_sentence(template).expression


def expand(
    template: str,
    random: Random,
    rules: Mapping[str, str],
    fill: Fill,
    keeps: Callable[[str], bool],
) -> str:
    """Choose one of a template's sentences; `fill` gives the text for a list and the slot that it fills.

    `keeps` tells of a sentence with its slots' names in place of their texts whether it may be said.

    Raises:
        UnfitTemplateError: a slot cannot be filled, a rule is missing, or the sentence may not be said.
    """
    pieces = list(_pieces(_parsed(template), random, rules, fill))
    if not keeps(_joined(name for name, _ in pieces)):
        raise UnfitTemplateError("it is kept for others")
    return _joined(text for _, text in pieces)


def _joined(parts: Iterable[str]) -> str:
    return _SPACES.sub(" ", "".join(parts)).strip()


def slots_of(template: str, rules: Mapping[str, str]) -> frozenset[tuple[str, str]]:
    """List the lists and slots that a template can mention."""
    found: set[tuple[str, str]] = set()
    _collect(_parsed(template), rules, found, 0)
    return frozenset(found)


def _pieces(
    expression: Expression, random: Random, rules: Mapping[str, str], fill: Fill
) -> Iterator[tuple[str, str]]:
    """Yield a sentence piece by piece: with its slots' names, and with their texts."""
    match expression:
        case TextChunk():
            yield expression.original_text, expression.original_text
        case ListReference():
            slot = expression.slot_name
            yield f"{{{slot}}}", fill(expression.list_name, slot)
        case RuleReference():
            if expression.rule_name not in rules:
                raise UnfitTemplateError(expression.rule_name)
            rule = _parsed(rules[expression.rule_name])
            yield from _pieces(rule, random, rules, fill)
        case Alternative():
            yield from _pieces(random.choice(expression.items), random, rules, fill)
        case Group():
            items = list(expression.items)
            if isinstance(expression, Permutation):
                random.shuffle(items)
            for item in items:
                yield from _pieces(item, random, rules, fill)


def _collect(
    expression: Expression,
    rules: Mapping[str, str],
    found: set[tuple[str, str]],
    depth: int,
) -> None:
    match expression:
        case ListReference():
            found.add((expression.list_name, expression.slot_name))
        case RuleReference() if expression.rule_name in rules and depth < 12:
            _collect(_parsed(rules[expression.rule_name]), rules, found, depth + 1)
        case Group():
            for item in expression.items:
                _collect(item, rules, found, depth)
