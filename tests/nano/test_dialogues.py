"""What nano learns to say, and to leave undone."""

from collections.abc import Iterator
from contextlib import suppress
from datetime import date
from random import Random

from nano.building import build_house, random_speaker
from nano.dialogues import Talk, Turn
from nano.house import House
from nano.templates import UnfitTemplateError
from nano.words import words_of


def said_in(house: House, random: Random, kind: str, times: int) -> Iterator[Turn]:
    """Say something of a kind so many times, but for what this house has no words for."""
    words = words_of("en")
    speaker = random_speaker(random, house)
    talk = Talk(random, words, house, speaker, date(2026, 12, 1))
    for _ in range(times):
        with suppress(UnfitTemplateError):
            (turn,) = talk.conversation(kind)
            yield turn


def test_what_is_not_there_is_asked_for_in_all_words_and_not_called() -> None:
    """In a few words of its own, these words would mean that nothing is there, whatever is."""
    first_words = set()
    for seed in range(12):
        random = Random(seed)
        house = build_house(random, words_of("en"), 12)
        known = {one.name.lower() for one in (*house.things, *house.areas)}
        for turn in said_in(house, random, "unknown", 40):
            name = turn.answer.removeprefix("I cannot find ").removesuffix(".")
            assert not turn.calls
            assert name.lower() not in known
            first_words.add(turn.text.split()[0].lower())
    assert len(first_words) > 30


def test_of_many_things_a_few_are_named_each_once() -> None:
    ends_with_more = 0
    for seed in range(40):
        random = Random(seed)
        house = build_house(random, words_of("en"), 60)
        for turn in said_in(house, random, "single", 40):
            if turn.command and turn.command.response in {"which", "any"}:
                names = turn.answer.removeprefix("Yes: ").removesuffix(".").split(", ")
                assert len(names) == len(set(names)) <= 4
                ends_with_more += names[-1].endswith(" and more")
    assert ends_with_more
