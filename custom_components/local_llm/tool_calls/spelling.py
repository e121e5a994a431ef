"""Compares names as people and small models spell them: case, accents, spaces, plurals; pure.

Knows nothing of what is named.
"""

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from functools import lru_cache
import re
import unicodedata

# How many names a message lists at most, and how like each other two names are that may be meant for each other.
_MOST_NAMES = 3
_LIKENESS = 0.6

_ACCENTS = range(0x300, 0x370)
# What stands between letters: spaces, punctuation, symbols, controls. Marks that spell a vowel stay.
_BETWEEN = "ZPSC"
_BETWEEN_WORDS = re.compile(r"[\W_]+")


@lru_cache(maxsize=16_384)
def folded(text: str) -> str:
    """Return a text without what spellings of one name differ in; the text itself where nothing would be left.

    Both Turkish pairs of i become one letter, full-width digits become plain ones, ß becomes ss.
    """
    plain = unicodedata.normalize(
        "NFKD", unicodedata.normalize("NFKC", text).casefold()
    ).replace("ı", "i")
    letters = "".join(
        letter
        for letter in plain
        if ord(letter) not in _ACCENTS
        and unicodedata.category(letter)[0] not in _BETWEEN
    )
    # A name may be nothing but an emoji.
    return letters if any(map(str.isalnum, letters)) else text.strip()


def folded_words(text: str) -> list[str]:
    """Return the words of a text, each without what its spellings differ in."""
    words = _BETWEEN_WORDS.split(unicodedata.normalize("NFKC", text))
    return [folded(word) for word in words if word]


def number_forms(key: str) -> set[str]:
    """Return the folded words that an English word in the plural may be the plural of, and the word itself."""
    forms = {key}
    for ending, singular in (("ies", "y"), ("es", ""), ("s", "")):
        if len(key) > len(ending) + 1 and key.endswith(ending):
            forms.add(key.removesuffix(ending) + singular)
    return forms


def same_word(one: str, other: str) -> bool:
    """Tell whether two spellings are one word, in the singular or in the plural."""
    return not number_forms(folded(one)).isdisjoint(number_forms(folded(other)))


def the_one[Value](word: str, known: Mapping[str, Value]) -> Value | None:
    """Return what a word names among known names; None where that is nothing, or not one thing.

    Spelled alike goes before alike but for the plural.
    """
    key = folded(word)
    alike = [value for name, value in known.items() if folded(name) == key]
    found = alike or [value for name, value in known.items() if same_word(name, word)]
    return found[0] if found and all(value == found[0] for value in found) else None


def like(word: str, names: Iterable[str]) -> list[str]:
    """Return a few names that may be meant by a word, the most alike first."""
    by_key = {folded(name): name for name in reversed(list(names))}
    key = folded(word)
    found = get_close_matches(key, by_key, _MOST_NAMES, _LIKENESS)
    found += [
        name for name in by_key if name not in found and (key in name or name in key)
    ]
    return [by_key[name] for name in found[:_MOST_NAMES]]
