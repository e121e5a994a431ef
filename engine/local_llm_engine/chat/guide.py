"""Says which tokens may come next in one answer, from the grammar that it is held to.

Two kinds: one holds the tool calls of an answer and leaves the rest alone, one holds a whole answer. Knows
nothing of how grammars are written. Used by one thread at a time.
"""

from collections.abc import Callable
import re

from llguidance import LLMatcher, LLTokenizer

from local_llm_engine.errors import GenerationError

from .detokenizer import Detokenizer
from .output_parser import OutputParser

_LONGEST_REASON = 200
_EXCERPT = re.compile(r"\n<|\n *\d+ \| ")
_POSITION = re.compile(r"^at \d+\(\d+\): (failed to compile JSON schema: )?")

type Opening = Callable[[int], str | None]


class CallGuide:
    """Holds every tool call to its grammar; words and thoughts are free.

    Where the library gives up on a call, the call goes on unheld: it may still be right.
    """

    def __init__(
        self,
        grammar: LLMatcher,
        opening: Opening,
        vocabulary: LLTokenizer,
        on_failure: Callable[[str], None],
    ) -> None:
        """Start an answer.

        Args:
            grammar: what follows <tool_call>; it is copied, not changed.
            opening: told every token; answers whether a call has begun with it, with what text of it.
            vocabulary: the model's tokens.
            on_failure: told why a call goes on unheld.
        """
        self._grammar = grammar
        self._opening = opening
        self._vocabulary = vocabulary
        self._on_failure = on_failure
        self._call: LLMatcher | None = None

    def allowed(self) -> bytes | None:
        """Return one bit for each token that may come next, the lowest first; None where every one may."""
        if self._call is None:
            return None
        mask = self._call.compute_bitmask()
        return mask if self._is_held() else None

    def accept(self, token_id: int) -> None:
        """Go on with the token that was chosen."""
        begun = self._opening(token_id)
        if self._call is not None:
            self._call.consume_token(token_id)
            if self._is_held() and self._call.is_stopped():
                self._call = None
        elif begun is not None:
            self._call = self._grammar.deep_copy()
            written = self._vocabulary.greedy_tokenize(begun) if begun else []
            if self._call.try_consume_tokens(written) < len(written):
                self._call = None

    def _is_held(self) -> bool:
        """Whether the library still holds the call; else let the call go."""
        if self._call is None or not self._call.is_error():
            return self._call is not None
        reason = reason_of(self._call.get_error())
        self._on_failure(f"a tool call was not checked while it was written: {reason}")
        self._call = None
        return False


class AnswerGuide:
    """Holds a whole answer to its grammar; the answer can end only where it is complete."""

    def __init__(self, grammar: LLMatcher) -> None:
        """Start an answer; the grammar is copied, not changed."""
        self._answer = grammar.deep_copy()

    def allowed(self) -> bytes:
        """Return one bit for each token that may come next, the lowest first.

        Raises:
            GenerationError: the library cannot hold the answer any longer.
        """
        mask = self._answer.compute_bitmask()
        self._check()
        return mask

    def accept(self, token_id: int) -> None:
        """Go on with the token that was chosen.

        Raises:
            GenerationError: the library cannot hold the answer any longer.
        """
        self._answer.consume_token(token_id)
        self._check()

    def _check(self) -> None:
        if self._answer.is_error():
            raise GenerationError(
                f"the answer cannot be held to its schema: {reason_of(self._answer.get_error())}"
            )


class SpelledOpening:
    """Finds the beginning of calls in an answer whose tokenizer has no token for it, as its parser will."""

    def __init__(self, detokenizer: Detokenizer, parser: OutputParser) -> None:
        """Take what reads the answer; both are this guide's own."""
        self._detokenizer = detokenizer
        self._parser = parser
        self._was_open = False

    def __call__(self, token_id: int) -> str | None:
        """Add a token; return what is written of a call that has begun with it, None where none has."""
        for text, is_control in self._detokenizer.push(token_id):
            feed = self._parser.feed_control if is_control else self._parser.feed_text
            feed(text)
        was_open, self._was_open = self._was_open, self._parser.open_call is not None
        return None if was_open else self._parser.open_call


def reason_of(error: str) -> str:
    """Return what an error of the library says, in one line.

    Without what may follow, the parser's state or the grammar, which has a house's names in it, and without where
    in the grammar the error is: the grammar is ours.
    """
    said = " ".join(_EXCERPT.split(error, maxsplit=1)[0].split())
    return _POSITION.sub("", said)[:_LONGEST_REASON]
