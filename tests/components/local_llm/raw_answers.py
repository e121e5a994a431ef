"""An engine whose model writes what a test wants, read by the real decoder as if it had been generated."""

from collections.abc import AsyncGenerator
from functools import cache
from typing import override

from local_llm_engine.builtin import NANO_PATH
from local_llm_engine.chat import ChatFormat
from local_llm_engine.chat.output_parser import OutputParser
from local_llm_engine.chat.tokenizer import Tokenizer
from local_llm_engine.chat.tool_call_syntax import Schemas
from local_llm_engine.types import (
    ChatRequest,
    Delta,
    FinishDelta,
    FinishReason,
    InvalidToolCallDelta,
    ToolCallDelta,
)

from .scripted import USAGE, ScriptedEngine


class RawEngine(ScriptedEngine):
    """Gives raw texts in turn, the last one again and again.

    They go token by token through the built-in model's own decoder; with `spelled`, character by
    character through that for a tokenizer that has no tokens for markup.
    """

    def __init__(self) -> None:
        super().__init__()
        self.texts: list[str] = []
        self.spelled = False

    def write_raw(self, *texts: str, spelled: bool) -> None:
        """Say what the model writes from now on."""
        self.requests.clear()
        self.texts = list(texts)
        self.spelled = spelled

    @override
    async def generate(self, request: ChatRequest) -> AsyncGenerator[Delta]:
        self.requests.append(request)
        text = self.texts[min(len(self.requests), len(self.texts)) - 1]
        read = _read_characters if self.spelled else _read_tokens
        has_calls = False
        for delta in read(request, text):
            has_calls |= isinstance(delta, ToolCallDelta | InvalidToolCallDelta)
            yield delta
        reason = FinishReason.TOOL_CALLS if has_calls else FinishReason.STOP
        yield FinishDelta(reason, USAGE)


@cache
def _model() -> tuple[ChatFormat, Tokenizer]:
    return ChatFormat.load(NANO_PATH), Tokenizer.load(NANO_PATH)


def _read_tokens(request: ChatRequest, text: str) -> list[Delta]:
    chat_format, tokenizer = _model()
    decoder = chat_format.decoder(request)
    encoded = tokenizer.encode(tokenizer.control_text.read(text))
    deltas = [delta for token in encoded.token_ids for delta in decoder.feed(token)]
    return deltas + decoder.finish()


def _read_characters(request: ChatRequest, text: str) -> list[Delta]:
    parser = OutputParser(Schemas(request.tools), thinking=False, control_texts=())
    deltas = [delta for character in text for delta in parser.feed_text(character)]
    return deltas + parser.finish()
