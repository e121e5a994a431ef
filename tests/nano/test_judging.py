"""The judge of `scripts/bench nano` finds right what is right, and sees when something else is done."""

from collections.abc import Sequence
from dataclasses import replace
from random import Random
from unittest.mock import patch

from benches.nano_bench.home import nano_home
from benches.nano_bench.questions import judge
from nano.calls import Call
from nano.chats import Chats
from nano.dialogues import Turn
from nano.samples import Recipe, draw
import pytest
from tokenizers import Tokenizer

from homeassistant.core import HomeAssistant
from local_llm_engine.builtin import NANO_PATH
from local_llm_engine.types import FinishDelta, FinishReason, ToolCall, ToolCallDelta
from tests.components.local_llm.scripted import USAGE, Answer, ScriptedEngine, says


def answers_of(turns: Sequence[Turn]) -> list[Answer]:
    """What an assistant that is always right would say."""
    answers: list[Answer] = []
    for turn in turns:
        if turn.calls:
            deltas = [
                ToolCallDelta(
                    ToolCall(
                        id=f"call-{index}",
                        name=call.tool,
                        arguments=dict(call.arguments),
                    )
                )
                for index, call in enumerate(turn.calls)
            ]
            answers.append([*deltas, FinishDelta(FinishReason.TOOL_CALLS, USAGE)])
        answers.append(says(turn.answer))
    return answers


@pytest.mark.parametrize(("language", "seed"), [("en", 1), ("en", 2), ("de", 3)])
async def test_what_is_right_is_judged_right(
    hass: HomeAssistant, language: str, seed: int
) -> None:
    chats = Chats(Tokenizer.from_file(str(NANO_PATH / "tokenizer.json")))
    recipe = Recipe(languages={language: 1.0}, conversations=40, held_out=True)
    sample = draw(Random(seed), recipe, chats, 24)
    engine = ScriptedEngine()
    judged = 0
    with patch("custom_components.local_llm.async_load_engine", return_value=engine):
        async with nano_home(hass, sample.house, sample.speaker) as home:
            await home.add_engine()
            for turns in sample.conversations:
                engine.write(*answers_of(turns))
                found = await judge(home, turns, language, 24)
                if found is not None:
                    judged += 1
                    # What it says of the time was true when the sentence was drawn.
                    tells_time = any(
                        "GetDateTime" in call.tool or "GetWeather" in call.tool
                        for call in turns[-1].calls
                    )
                    assert (found.is_right or tells_time, found.is_wrong) == (
                        True,
                        False,
                    ), found
    assert judged > 20


async def test_what_is_wrong_is_judged_wrong(hass: HomeAssistant) -> None:
    chats = Chats(Tokenizer.from_file(str(NANO_PATH / "tokenizer.json")))
    sample = draw(
        Random(4),
        Recipe(conversations=30, kinds={"single": 1}, held_out=True),
        chats,
        24,
    )
    engine = ScriptedEngine()
    everything = Call(
        tool="intent__HassTurnOn", arguments={"name": "all", "domain": ["light"]}
    )
    right, wrong = [], []
    with patch("custom_components.local_llm.async_load_engine", return_value=engine):
        async with nano_home(hass, sample.house, sample.speaker) as home:
            await home.add_engine()
            for turns in sample.conversations:
                engine.write(*answers_of([replace(turns[-1], calls=(everything,))]))
                found = await judge(home, turns, "en", 24)
                if found is not None:
                    right.append(found.is_right)
                    wrong.append(found.is_wrong)
    assert not any(right)
    assert all(wrong)
