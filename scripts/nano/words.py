"""The words that houses and sentences of one language are made of, parted into those for training and those held out.

Owns the files in words/ and sentences/; knows nothing of houses.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
import json
from pathlib import Path
from random import Random
from typing import Any
from zlib import crc32

_FOLDER = Path(__file__).parent
LANGUAGES = ("en", "de", "fr", "it", "es", "ja")

# One sentence of so many is kept for the evaluation.
_HELD_OUT_SENTENCES = 9

_ONSETS = [
    "b",
    "br",
    "c",
    "ch",
    "d",
    "dr",
    "f",
    "fl",
    "g",
    "gr",
    "h",
    "j",
    "k",
    "kr",
    "l",
    "m",
    "n",
    "p",
    "pl",
    "qu",
    "r",
    "s",
    "sh",
    "sk",
    "st",
    "t",
    "tr",
    "v",
    "w",
    "z",
]
_VOWELS = ["a", "e", "i", "o", "u", "a", "e", "i", "o", "ai", "ee", "oo", "ou"]
_CODAS = ["", "", "", "n", "r", "l", "s", "x", "m", "nd", "rt", "ck", "th"]


@dataclass(frozen=True, slots=True)
class Words:
    """The words of a language; `held_out` chooses those that training never sees."""

    language: str
    data: Mapping[str, Any]
    held_out: bool

    def all(self, key: str) -> Sequence[Any]:
        """List the words of a kind, such as "areas"."""
        if self.held_out and (found := self.data.get(f"held_out_{key}")):
            return list(found)
        return list(self.data.get(key, ()))

    def things(self, domain: str) -> list[tuple[str, str | None]]:
        """List what things of a domain are called, with their device class."""
        names = list(self.data["things"].get(domain, ()))
        # Of each kind there are few everyday words, so the evaluation has some of those too.
        if self.held_out:
            held = self.data.get("held_out_things", {}).get(domain, ())
            names = [*held, *names[: max(1, len(held) // 2)]] if held else names
        return [
            (name, None) if isinstance(name, str) else (name[0], name[1])
            for name in names
        ]

    def keeps(self, sentence: str) -> bool:
        """Tell whether a sentence, written with its slots' names, belongs to this part."""
        return self.held_out == (crc32(sentence.encode()) % _HELD_OUT_SENTENCES == 0)


@cache
def _read(folder: str, language: str) -> Mapping[str, Any]:
    path = _FOLDER / folder / f"{language}.json"
    if not path.exists():
        return {}
    found: Mapping[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found


def words_of(language: str, *, held_out: bool = False) -> Words:
    """Read the words of a language."""
    return Words(language, _read("words", language), held_out)


def own_sentences(language: str) -> Mapping[str, Any]:
    """Read our own sentence templates of a language; none where there are none."""
    return _read("sentences", language)


@cache
def _known_words(language: str, *keys: str) -> tuple[str, ...]:
    data = _read("words", language)
    texts = [text for key in keys for text in data.get(key, ())]
    return tuple(sorted({word.lower() for text in texts for word in text.split()}))


def free_text(random: Random, words: Words, key: str) -> str:
    """Choose a text that is anybody's own: of "messages", "items" or "timer_names".

    Most are put together from words that mean nothing together, so that they are copied and not remembered. The evaluation
    has only what is listed, and so says something.
    """
    listed = words.all(key)
    if words.held_out or (listed and random.random() < 0.4):
        return str(random.choice(listed or [odd_word(random, words).lower()]))
    keys = ["areas", "odd", "persons", "qualifiers", "items", "timer_names"]
    known = _known_words(words.language, *keys, *([key] if key not in keys else []))
    most = 7 if key == "messages" else 2
    return " ".join(
        odd_word(random, words).lower()
        if random.random() < 0.2
        else random.choice(known)
        for _ in range(random.randint(1, most))
    )


def odd_word(random: Random, words: Words) -> str:
    """Choose or make up a word that nobody expects in a name, so that names are copied and not remembered.

    The evaluation has only what can be pronounced and means nothing.
    """
    odd = () if words.held_out else words.all("odd")
    if odd and random.random() < 0.6:
        return str(random.choice(odd)).capitalize()
    syllables = random.choice((1, 2, 2, 2, 3))
    return "".join(
        random.choice(_ONSETS)
        + random.choice(_VOWELS)
        + (
            random.choice(_CODAS)
            if index == syllables - 1 or random.random() < 0.3
            else ""
        )
        for index in range(syllables)
    ).capitalize()
