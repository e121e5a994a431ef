"""Compiles what answers are held to, once for the same tools or schema, and makes the guides of single answers.

The only place that meets the library's faults: whatever a schema makes of it, only that request or that tool
goes without. Knows nothing of prompts. Safe to use from several threads.
"""

from collections import OrderedDict
from collections.abc import Callable, Sequence
from contextlib import suppress
import hashlib
import json
import logging
import threading

from llguidance import LLMatcher, LLParserLimits, LLTokenizer, TokenizerWrapper

from local_llm_engine.errors import InvalidRequestError
from local_llm_engine.types import ChatRequest, ToolSpec

from .control_text import readable
from .detokenizer import Detokenizer
from .grammar import GrammarWriter, Thinking
from .grammar_terms import GrammarError
from .guide import AnswerGuide, CallGuide, Opening, SpelledOpening, reason_of
from .markup_scanner import TOOL_CALL
from .output_parser import OutputParser
from .tokenizer import Tokenizer
from .tool_call_syntax import Schemas

_LOGGER = logging.getLogger(__name__)

# Grammars of a house: its agents' tools, and the schemas of a few tasks.
_KEPT_GRAMMARS = 16
_KEPT_NOTICES = 20
_LONGEST_GRAMMAR = 1_000_000

# Tokens within these need not be looked at one by one where any text may stand, in JSON as well as in a call.
_SLICES = [r'[^"\\\x00-\x1F\x7F<]{1,30}', r'[^"\\\x00-\x1F\x7F<]+']

# What the library says where no token is left.
_NOTHING_ALLOWED = "NoExtensionBias"

_NO_TOOLS: frozenset[str] = frozenset()


class Constraints:
    """What one model's answers can be held to; `notices` tell what could not be."""

    def __init__(
        self,
        tokenizer: Tokenizer,
        writer: GrammarWriter,
        *,
        end_token_ids: frozenset[int],
        vocab_size: int,
    ) -> None:
        """Lay nothing out yet: `prepare` does, or else the first answer that is held to something."""
        self.notices: tuple[str, ...] = ()
        self._tokenizer = tokenizer
        self._writer = writer
        self._end_token_ids = end_token_ids
        self._vocab_size = vocab_size
        self._lock = threading.Lock()
        self._vocabulary: LLTokenizer | None = None
        self._kept: OrderedDict[str, LLMatcher | GrammarError] = OrderedDict()

    def prepare(self) -> None:
        """Lay the model's tokens out before anybody waits for them.

        The library lets no other Python thread run meanwhile, a tenth of a second or more for a large vocabulary:
        that is better spent at a load than in the middle of a question. What fails here fails again for every answer
        that is held, and is told there.
        """
        with self._lock, suppress(GrammarError):
            self._tokens()

    def guide(
        self, request: ChatRequest, thinking: Thinking
    ) -> CallGuide | AnswerGuide | None:
        """Make the guide of one answer; None where nothing holds it.

        Raises:
            InvalidRequestError: an answer cannot be held to the request's `answer_schema`.
        """
        if request.answer_schema is not None:
            try:
                return AnswerGuide(self._answer(request, thinking))
            except GrammarError as err:
                raise InvalidRequestError(
                    f"an answer cannot be held to this answer_schema: {err}"
                ) from err
        calls = self._calls(request.tools) if request.tools else None
        if calls is None:
            return None
        return CallGuide(calls, self._opening(), self._tokens(), self._notice)

    def _answer(self, request: ChatRequest, thinking: Thinking) -> LLMatcher:
        schema = request.answer_schema
        assert schema is not None

        def write(loose: frozenset[str]) -> str:
            return self._writer.answer(schema, request.tools, loose, thinking)

        key = _digest("answer", thinking.name, schema, _as_data(request.tools))
        return self._kept_or_made(key, lambda: self._compile(write, request.tools))

    def _calls(self, tools: Sequence[ToolSpec]) -> LLMatcher | None:
        """Compile the calls of these tools; None where not even their names can be held."""

        try:
            return self._kept_or_made(
                _digest("calls", _as_data(tools)), lambda: self._make_calls(tools)
            )
        except GrammarError as err:
            self._notice(f"tool calls are not checked while they are written: {err}")
            return None

    def _make_calls(self, tools: Sequence[ToolSpec]) -> LLMatcher:
        return self._compile(lambda loose: self._writer.call(tools, loose), tools)

    def _kept_or_made(self, key: str, make: Callable[[], LLMatcher]) -> LLMatcher:
        """Look a grammar up, compiled or failed, and keep it as the one used last."""
        with self._lock:
            if key not in self._kept:
                try:
                    self._kept[key] = make()
                except GrammarError as err:
                    self._kept[key] = err
            self._kept.move_to_end(key)
            while len(self._kept) > _KEPT_GRAMMARS:
                self._kept.popitem(last=False)
            kept = self._kept[key]
        if isinstance(kept, GrammarError):
            raise GrammarError(str(kept))
        return kept

    def _compile(
        self, write: Callable[[frozenset[str]], str], tools: Sequence[ToolSpec]
    ) -> LLMatcher:
        """Compile a grammar, without the parameters of the tools that stand in its way.

        Raises:
            GrammarError: it cannot be held; the message has the library's words.
        """
        try:
            return self._compiled(lambda: write(_NO_TOOLS))
        except GrammarError:
            loose = frozenset(tool.name for tool in tools if not self._can_hold(tool))
            if not loose:
                raise
        return self._compiled(lambda: write(loose))

    def _can_hold(self, tool: ToolSpec) -> bool:
        try:
            self._compiled(lambda: self._writer.call((tool,), _NO_TOOLS))
        except GrammarError as err:
            self._notice(
                f"calls of the tool {tool.name} are not checked while they are written: {err}"
            )
            return False
        return True

    def _compiled(self, write: Callable[[], str]) -> LLMatcher:
        try:
            grammar = readable(write())
        except RecursionError:
            raise GrammarError("it is nested too deeply") from None
        if len(grammar) > _LONGEST_GRAMMAR:
            raise GrammarError("it is too large")
        limits = LLParserLimits(verbose_errors=False)
        tokens = self._tokens()
        try:
            matcher = LLMatcher(tokens, grammar, log_level=0, limits=limits)
            # What nothing can satisfy is found at the first token.
            first = matcher.deep_copy()
            first.compute_bitmask()
        except BaseException as err:
            raise _failure(err) from err
        if first.is_error():
            reason = reason_of(first.get_error())
            raise GrammarError(
                "nothing satisfies it" if reason == _NOTHING_ALLOWED else reason
            )
        return matcher

    def _tokens(self) -> LLTokenizer:
        """Lay the model's tokens out for the library, once: a second's work for a large vocabulary.

        Raises:
            GrammarError: the library cannot.
        """
        if self._vocabulary is None:
            end_token_ids = sorted(self._end_token_ids)
            try:
                vocabulary = _Vocabulary(
                    self._tokenizer, self._vocab_size, end_token_ids[0]
                )
                self._vocabulary = LLTokenizer(
                    TokenizerWrapper(vocabulary),
                    eos_token=end_token_ids,
                    slices=_SLICES,
                )
            except BaseException as err:
                raise _failure(err) from err
        return self._vocabulary

    def _opening(self) -> Opening:
        """Make what sees calls begin, as the answer's parser will see it."""
        control_ids = self._writer.control_ids
        if TOOL_CALL in control_ids:
            begin = control_ids[TOOL_CALL]
            return lambda token_id: "" if token_id == begin else None
        parser = OutputParser(Schemas(()), thinking=False, control_texts=control_ids)
        return SpelledOpening(Detokenizer(self._tokenizer), parser)

    def _notice(self, text: str) -> None:
        """Say once what could not be held."""
        if text not in self.notices:
            _LOGGER.warning("Of the model's answers, %s", text)
            self.notices = (*self.notices, text)[-_KEPT_NOTICES:]


def _failure(err: BaseException) -> GrammarError:
    """Make the library's fault one that ends a request only; a panic of it is no Exception.

    What ends a process or its thread is passed on: it comes at any line, of the library or not.
    """
    if isinstance(err, (KeyboardInterrupt, SystemExit)):
        raise err
    return GrammarError(f"the library failed: {reason_of(str(err))}")


class _Vocabulary:
    """A model's tokens as the library asks for them; ids without a token are never chosen."""

    bos_token_id = None

    def __init__(
        self, tokenizer: Tokenizer, vocab_size: int, eos_token_id: int
    ) -> None:
        self._tokenizer = tokenizer
        self.eos_token_id = eos_token_id
        self.tokens = tokenizer.tokens_bytes(vocab_size)
        self._byte_ids = {
            token: index for index, token in enumerate(self.tokens) if len(token) == 1
        }
        self.special_token_ids = [
            token.id for token in tokenizer.control_tokens if token.can_be_guarded
        ]

    def __call__(self, text: str) -> list[int]:
        """Tokenize text to the letter; where the tokenizer would change it, byte by byte."""
        token_ids = self._tokenizer.plain_ids(text)
        if b"".join(map(self._tokenizer.token_bytes, token_ids)) == text.encode():
            return token_ids
        return [self._byte_ids[bytes((byte,))] for byte in text.encode()]


def _as_data(tools: Sequence[ToolSpec]) -> list[object]:
    return [(tool.name, tool.parameters) for tool in tools]


def _digest(*parts: object) -> str:
    """Name what grammars are made of.

    Raises:
        GrammarError: it is no JSON data.
    """
    try:
        text = json.dumps(parts, default=str)
    except RecursionError:
        raise GrammarError("it is nested too deeply") from None
    except (TypeError, ValueError) as err:
        raise GrammarError(f"it is not plain JSON data: {err}") from err
    return hashlib.sha256(text.encode()).hexdigest()
