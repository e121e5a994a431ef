"""What each session read last, to tell why a request met the cache as it did; token ids, no tensors."""

from collections import OrderedDict
from collections.abc import Collection, Sequence

from local_llm_engine.types import Outcome

from .tree import shared_length

KEPT_SESSIONS = 256


class SessionLedger:
    """Remembers the tokens of every session's last prompt and answer, for the latest sessions."""

    def __init__(self, earlier: Collection[str] = ()) -> None:
        """Begin with the names of sessions that were served before the engine started."""
        self._earlier = frozenset(earlier)
        self._last: OrderedDict[str, tuple[int, ...]] = OrderedDict()

    def note(self, session: str, token_ids: Sequence[int]) -> None:
        """Remember what a session has read now."""
        self._last[session] = tuple(token_ids)
        self._last.move_to_end(session)
        if len(self._last) > KEPT_SESSIONS:
            self._last.popitem(last=False)

    def classify(
        self,
        session: str,
        token_ids: Sequence[int],
        *,
        num_known_tokens: int,
        question_start: int,
    ) -> Outcome:
        """Compare a prompt with what its session read and with what the cache knows of it."""
        last = self._last.get(session)
        if last is None:
            return (
                Outcome.AFTER_RESTART
                if session in self._earlier
                else Outcome.FIRST_TURN
            )
        if num_known_tokens >= len(token_ids):
            return Outcome.REGENERATED
        num_shared_tokens = shared_length(last, token_ids, 0)
        if num_shared_tokens > num_known_tokens:
            return Outcome.EVICTED
        if num_shared_tokens == len(last) or num_known_tokens >= question_start:
            return Outcome.CONTINUED
        return Outcome.HISTORY_REWRITTEN
