"""How sentences sound when they are spoken or typed: case, politeness, punctuation and small mishearings.

Knows text alone.
"""

from random import Random
from string import ascii_lowercase

from .words import Words

_QUESTIONS = (
    "what",
    "is ",
    "are ",
    "how",
    "which",
    "did",
    "when",
    "do ",
    "can",
    "could",
)


def as_spoken(random: Random, text: str, words: Words) -> str:
    """Change a sentence as people and their devices do."""
    is_question = text.lower().startswith(_QUESTIONS)
    if polite := words.data.get("polite"):
        if not is_question and random.random() < 0.10:
            text = random.choice(polite) + text
        elif random.random() < 0.05:
            text += random.choice(words.data["polite_end"])
    if random.random() < 0.05:
        text = _misheard(random, text)
    roll = random.random()
    if roll < 0.5:
        text = text.lower()
    elif roll < 0.8 and text:
        text = text[0].upper() + text[1:]
    if random.random() < 0.3:
        stop = "。" if words.language == "ja" else "."
        text += "?" if is_question else stop
    return text


def _misheard(random: Random, text: str) -> str:
    """Change one letter of a longer word, swap two, leave one out, or close a gap."""
    parts = text.split(" ")
    long = [
        index for index, part in enumerate(parts) if len(part) > 4 and part.isalpha()
    ]
    if not long:
        return text
    index = random.choice(long)
    word = parts[index]
    place = random.randrange(1, len(word) - 1)
    match random.randrange(4):
        case 0:
            parts[index] = (
                word[:place] + random.choice(ascii_lowercase) + word[place + 1 :]
            )
        case 1:
            parts[index] = (
                word[:place] + word[place + 1] + word[place] + word[place + 2 :]
            )
        case 2:
            parts[index] = word[:place] + word[place + 1 :]
        case _ if index + 1 < len(parts):
            parts[index : index + 2] = [word + parts[index + 1]]
    return " ".join(parts)
