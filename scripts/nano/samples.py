"""Draws houses with conversations, by a seed and a number, so that the same training can always be made again.

Knows how hard they are to be; knows nothing of networks.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, timedelta
from random import Random

from .batches import Batch, make_batch
from .building import build_house, random_speaker
from .chats import Chats, Encoded
from .dialogues import KINDS, Talk, Turn
from .house import House, Speaker
from .prompts import system_parts
from .templates import UnfitTemplateError
from .words import words_of

_RANDOM_TOKENS = 64
_LEAST_RECITED, _MOST_RECITED = 6, 20
_FIRST_DAY = date(2025, 1, 1)
_INSTRUCTIONS = (
    "You are a helpful home assistant.\nBe brief.\n",
    "You are the voice of our house. Answer in one short sentence.\n",
    "You are a voice assistant for Home Assistant.\nAnswer questions about the world truthfully.\n",
    "Be friendly.\n",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """What is drawn: sizes of houses, languages and kinds of conversations by weight, and how many at a time.

    To each house belong `recitations`: stretches of its prompt, to be said again; and `repeats`: random tokens, said
    twice, so that those which training's words lack can be copied too. Without conversations there are no houses either,
    but prompts of random tokens. A step of large houses has fewer of them, and up to twice the conversations in each.
    """

    min_things: int = 3
    max_things: int = 40
    languages: Mapping[str, float] = field(default_factory=lambda: {"en": 1.0})
    kinds: Mapping[str, float] = field(default_factory=lambda: KINDS)
    houses: int = 4
    conversations: int = 16
    recitations: int = 0
    repeats: int = 0
    held_out: bool = False


@dataclass(frozen=True, slots=True)
class Sample:
    """A house, who speaks in it on a day, and what is said; `instructions` is empty where they are Home Assistant's own."""

    house: House
    speaker: Speaker
    day: date
    instructions: tuple[str, ...]
    prompt: list[int]
    conversations: list[list[Turn]]


def draw(
    random: Random, recipe: Recipe, chats: Chats, num_things: int | None = None
) -> Sample:
    """Draw a house and conversations in it; each starts from the same prompt."""
    language = random.choices(list(recipe.languages), list(recipe.languages.values()))[
        0
    ]
    words = words_of(language, held_out=recipe.held_out)
    house = build_house(
        random,
        words,
        num_things or random.randint(recipe.min_things, recipe.max_things),
    )
    speaker = random_speaker(random, house)
    day = _FIRST_DAY + timedelta(days=random.randrange(1500))
    talk = Talk(random, words, house, speaker, day)
    instructions = () if random.random() < 0.8 else (random.choice(_INSTRUCTIONS),)
    prompt = chats.prompt(
        system_parts(house, speaker, day, *instructions), house.scripts
    )
    conversations: list[list[Turn]] = []
    while len(conversations) < recipe.conversations:
        kind = random.choices(list(recipe.kinds), list(recipe.kinds.values()))[0]
        try:
            turns = talk.conversation(kind)
        except UnfitTemplateError:
            continue
        if turns[-1].calls and not recipe.held_out and random.random() < 0.02:
            turns[-1] = talk.failed(turns[-1])
        conversations.append(turns)
    return Sample(house, speaker, day, instructions, prompt, conversations)


def draw_batch(
    seed: int, step: int, recipe: Recipe, chats: Chats, other_weight: float
) -> Batch:
    """Draw the batch of one step: houses of about the same size, so that little is padded."""
    random = Random(f"{seed} {step}")
    num_things = random.randint(recipe.min_things, recipe.max_things)
    # To read a large house costs as much as many conversations in it.
    houses = max(1, round(recipe.houses * min(1.0, 24 / num_things)))
    said = recipe.conversations * recipe.houses // houses
    talkative = replace(recipe, conversations=min(said, 2 * recipe.conversations))
    prompts: list[list[int]] = []
    branches: list[list[Encoded]] = []
    for _ in range(houses):
        if recipe.conversations:
            size = max(1, num_things + random.randint(-1, 1))
            sample = draw(random, talkative, chats, size)
            prompts.append(sample.prompt)
            branches.append(
                [chats.conversation(turns) for turns in sample.conversations]
            )
        else:
            prompts.append(random.choices(chats.plain_ids, k=_RANDOM_TOKENS))
            branches.append([])
        branches[-1] += [
            *(_recitation(random, prompts[-1]) for _ in range(recipe.recitations)),
            *(_repeat(random, chats) for _ in range(recipe.repeats)),
        ]
    return make_batch(prompts, branches, other_weight)


def _recitation(random: Random, prompt: Sequence[int]) -> Encoded:
    """Take a stretch of a prompt; after its first two tokens it is plain how it goes on."""
    start = random.randrange(len(prompt) - _LEAST_RECITED)
    ids = list(prompt[start : start + random.randint(_LEAST_RECITED, _MOST_RECITED)])
    return Encoded(ids, [index > 1 for index in range(len(ids))])


def _repeat(random: Random, chats: Chats) -> Encoded:
    """Say random tokens twice; the second time it is plain how they go on."""
    count = random.randint(_LEAST_RECITED, _MOST_RECITED)
    ids = random.choices(chats.plain_ids, k=count)
    return Encoded(ids * 2, [False] * (count + 1) + [True] * (count - 1))
