"""How often nano does what it is told, in homes and sentences that its training never saw, through a real Home Assistant.

Prints tables by kind, by language and by size of the house, and the same with quantized weights and without a cache.
"""

import argparse
import asyncio
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict
import json
import logging
from pathlib import Path
from random import Random
import tempfile

from demo_house.core import free_port
from demo_house.report import table
from nano.chats import Chats
from nano.samples import Recipe, draw
from pytest_homeassistant_custom_component.common import async_test_home_assistant
from tokenizers import Tokenizer

from homeassistant.setup import async_setup_component
from local_llm_engine.builtin import NANO_PATH

from .home import nano_home
from .questions import Judgement, judge

RIGHT_LIMIT = {10: 0.90, 20: 0.90, 40: 0.90, 80: 0.85}
WRONG_LIMIT = 0.01


def bench(options: argparse.Namespace) -> int:
    """Ask everything, print, and return 0 where what is promised of English holds."""
    _warn_of_our_own()
    model = (options.model or NANO_PATH).resolve()
    found = asyncio.run(_ask_all(model, options))
    figures = {name: _figures(judgements) for name, judgements in found.items()}
    for name, judgements in found.items():
        print(f"\n{model.name}, {name}: {len(judgements)} questions")
        for heading, key in (
            ("kind", lambda one: one.kind),
            ("house", _size),
            ("language", lambda one: one.language),
        ):
            print(*_table(heading, judgements, key), sep="\n", end="\n\n")
    plain = found["auto"]
    same = [
        (name, _differing(plain, judgements))
        for name, judgements in found.items()
        if name == "without cache"
    ]
    for name, count in same:
        print(f"{name}: {count} of {len(plain)} answers differ")
    is_kept = _holds(plain) and all(count == 0 for _, count in same)
    print(f"What is promised of English holds: {'yes' if is_kept else 'NO'}")
    if options.json:
        content = {
            "model": model.name,
            "ok": is_kept,
            "figures": figures,
            "questions": {
                name: [asdict(one) for one in judgements]
                for name, judgements in found.items()
            },
        }
        options.json.write_text(
            json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8"
        )
    return 0 if is_kept else 1


def _warn_of_our_own() -> None:
    """Print warnings of engine and integration; those of Home Assistant are of what this home has no need of."""
    logging.getLogger().addHandler(logging.NullHandler())
    for name in ("local_llm_engine", "custom_components.local_llm"):
        logging.getLogger(name).addHandler(logging.StreamHandler())


async def _ask_all(
    model: Path, options: argparse.Namespace
) -> dict[str, list[Judgement]]:
    """Ask in all houses with each kind of weights, and without a cache where that is wanted."""
    variants = [
        ("auto", "auto", True),
        *((weights, weights, True) for weights in options.weights),
    ]
    if options.cold:
        variants.append(("without cache", "auto", False))
    found: dict[str, list[Judgement]] = {name: [] for name, _, _ in variants}
    chats = Chats(Tokenizer.from_file(str(model / "tokenizer.json")))
    for language in options.languages:
        for size in options.sizes:
            for number in range(options.houses):
                for name, weights, keeps in variants:
                    found[name] += await _ask_in_house(
                        model,
                        chats,
                        language,
                        size,
                        number,
                        options.questions,
                        weights,
                        keeps=keeps,
                    )
                    right = sum(one.is_right for one in found[name])
                    print(
                        f"{language}, {size} things, house {number + 1}, {name}: {right} of {len(found[name])} so far",
                        flush=True,
                    )
    return found


async def _ask_in_house(
    model: Path,
    chats: Chats,
    language: str,
    size: int,
    number: int,
    questions: int,
    weights: str,
    *,
    keeps: bool,
) -> list[Judgement]:
    recipe = Recipe(languages={language: 1.0}, conversations=questions, held_out=True)
    sample = draw(Random(f"bench {language} {size} {number}"), recipe, chats, size)
    judgements = []
    with tempfile.TemporaryDirectory() as folder:
        async with async_test_home_assistant(config_dir=folder) as hass:
            # Beside a demo or another Home Assistant, whose port is not free.
            own = {"server_host": "127.0.0.1", "server_port": free_port(None)}
            assert await async_setup_component(hass, "http", {"http": own})
            async with nano_home(hass, sample.house, sample.speaker) as home:
                await home.add_engine(model, weights, keeps_prompts=keeps)
                for turns in sample.conversations:
                    found = await judge(home, turns, language, size)
                    if found is not None:
                        judgements.append(found)
            await hass.async_stop(force=True)
    return judgements


def _holds(judgements: Sequence[Judgement]) -> bool:
    """Tell whether English keeps what is promised."""
    english = [one for one in judgements if one.language == "en"]
    by_size: dict[int, list[Judgement]] = defaultdict(list)
    for one in english:
        by_size[one.num_things].append(one)
    wrong = sum(one.is_wrong for one in english) / max(1, len(english))
    return wrong <= WRONG_LIMIT and all(
        sum(one.is_right for one in found) / len(found) >= RIGHT_LIMIT.get(size, 0.0)
        for size, found in by_size.items()
    )


def _differing(some: Sequence[Judgement], others: Sequence[Judgement]) -> int:
    return sum(one != other for one, other in zip(some, others, strict=True))


def _size(one: Judgement) -> str:
    return f"{one.num_things} things"


def _grouped(
    judgements: Iterable[Judgement], key: Callable[[Judgement], str]
) -> dict[str, list[Judgement]]:
    groups: dict[str, list[Judgement]] = defaultdict(list)
    for one in judgements:
        groups[key(one)].append(one)
    return dict(sorted(groups.items()))


def _figures(judgements: Sequence[Judgement]) -> dict[str, dict[str, dict[str, float]]]:
    return {
        heading: {
            name: {
                "questions": len(group),
                "right": sum(one.is_right for one in group) / len(group),
                "wrong": sum(one.is_wrong for one in group) / len(group),
            }
            for name, group in _grouped(judgements, key).items()
        }
        for heading, key in (
            ("kind", lambda one: one.kind),
            ("house", _size),
            ("language", lambda one: one.language),
            ("all", lambda _: "all"),
        )
    }


def _table(
    heading: str, judgements: Sequence[Judgement], key: Callable[[Judgement], str]
) -> Iterable[str]:
    groups = _grouped(judgements, key) | {"all": list(judgements)}
    rows = [
        (
            name,
            str(len(group)),
            f"{sum(one.is_right for one in group) / max(1, len(group)):.1%}",
            f"{sum(one.is_wrong for one in group) / max(1, len(group)):.1%}",
        )
        for name, group in groups.items()
    ]
    return table((heading, "asked", "right", "something else done"), rows)
