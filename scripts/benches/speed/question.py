"""The everyday question: what passes until the first token of its answer, at the engine's own door.

The satellite is warm: its prompt was read before, and only the question's own tokens are new.
"""

import asyncio
from collections.abc import Iterator
from contextlib import aclosing
from itertools import count
from pathlib import Path
from random import Random
import time

from local_llm_engine.chat import ChatFormat
from local_llm_engine.config import EngineConfig
from local_llm_engine.sampling import SamplingParams
from local_llm_engine.service import Engine
from local_llm_engine.types import ChatRequest, Message, Purpose, TextPart

from .cases import PROMPT_TOKENS, QUESTION_TOKENS

_WORDS = ("turn", "on", "the", "light", "in", "kitchen", "and", "off", "bedroom", "is", "it", "open")  # fmt: skip
_SAMPLE_WORDS = 1_000


class Satellite:
    """A satellite in a home whose prompt is as long as a real one's."""

    def __init__(self, folder: Path, config: EngineConfig) -> None:
        """Load an engine."""
        self._chat = ChatFormat.load(folder)
        self._questions = self._questions_of_length()
        self._home = _words(Random(0), self._home_words())
        self._engine = Engine.load(folder, config)

    def close(self) -> None:
        """Close the engine."""
        self._engine.close()

    def warm_up(self) -> None:
        """Have the prompt read up to the question."""
        request = self._request("turn on the light", Purpose.WARM_UP)
        asyncio.run(self._engine.warm_up(request))

    def ask(self) -> float:
        """Ask a question that was never asked, and return the seconds to its first token, rendering and tokenizing included."""
        return asyncio.run(self._ask(self._request(next(self._questions))))

    async def _ask(self, request: ChatRequest) -> float:
        start = time.perf_counter()
        seconds: float | None = None
        async with aclosing(self._engine.generate(request)) as deltas:
            async for _ in deltas:
                # A token that spells nothing is seen only once the state is kept for the next question.
                seconds = seconds or time.perf_counter() - start
        assert seconds is not None
        return seconds

    def _request(self, question: str, purpose: Purpose = Purpose.VOICE) -> ChatRequest:
        return _request(self._home, question, purpose)

    def _home_words(self) -> int:
        """Tell how many words make a prompt of about the right length."""
        sample = _request(_words(Random(0), _SAMPLE_WORDS), "is it on", Purpose.VOICE)
        num_tokens = len(self._chat.prepare(sample).token_ids)
        return _SAMPLE_WORDS * PROMPT_TOKENS // num_tokens

    def _questions_of_length(self) -> Iterator[str]:
        """Find questions of the right length in tokens, each another."""
        asked = set()
        for seed in count(1):
            question = _words(Random(seed), QUESTION_TOKENS)
            for text in _beginnings(question):
                prompt = self._chat.prepare(_request("", text, Purpose.VOICE))
                if prompt.question_tokens == QUESTION_TOKENS and text not in asked:
                    asked.add(text)
                    yield text


def _words(random: Random, number: int) -> str:
    return " ".join(random.choices(_WORDS, k=number))


def _beginnings(text: str) -> Iterator[str]:
    """Give out the text's beginnings, as statements and as questions: words alone may all take even tokens."""
    words = text.split()
    for end in range(1, len(words) + 1):
        beginning = " ".join(words[:end])
        yield beginning
        yield f"{beginning}?"


def _request(home: str, question: str, purpose: Purpose) -> ChatRequest:
    return ChatRequest(
        messages=(
            Message(role="system", content=(TextPart(text=home, segment="house"),)),
            Message(role="user", content=question),
        ),
        sampling=SamplingParams(temperature=0, max_tokens=1),
        purpose=purpose,
        session="satellite",
    )
