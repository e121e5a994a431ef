"""Expands sentence templates of hassil's syntax at random, one sentence at a time.

Knows the syntax, nothing of what sentences mean.
"""

from collections.abc import Callable, Mapping
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


def expand(template: str, random: Random, rules: Mapping[str, str], fill: Fill) -> str:
    """Choose one of a template's sentences; `fill` gives the text for a list and the slot that it fills.

    Raises:
        UnfitTemplateError: a slot cannot be filled, or a rule is missing.
    """
    written: list[str] = []
    _write(_parsed(template), random, rules, fill, written)
    return _SPACES.sub(" ", "".join(written)).strip()


def slots_of(template: str, rules: Mapping[str, str]) -> frozenset[tuple[str, str]]:
    """List the lists and slots that a template can mention."""
    found: set[tuple[str, str]] = set()
    _collect(_parsed(template), rules, found, 0)
    return frozenset(found)


def _write(
    expression: Expression,
    random: Random,
    rules: Mapping[str, str],
    fill: Fill,
    written: list[str],
) -> None:
    match expression:
        case TextChunk():
            written.append(expression.original_text)
        case ListReference():
            written.append(fill(expression.list_name, expression.slot_name))
        case RuleReference():
            if expression.rule_name not in rules:
                raise UnfitTemplateError(expression.rule_name)
            _write(_parsed(rules[expression.rule_name]), random, rules, fill, written)
        case Alternative():
            _write(random.choice(expression.items), random, rules, fill, written)
        case Group():
            items = list(expression.items)
            if isinstance(expression, Permutation):
                random.shuffle(items)
            for item in items:
                _write(item, random, rules, fill, written)


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
