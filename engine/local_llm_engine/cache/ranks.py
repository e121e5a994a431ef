"""Who may push whom out of the prompt cache: plain numbers, no tensors."""

from enum import IntEnum
from typing import NamedTuple

from local_llm_engine.types import Purpose


class Rank(IntEnum):
    """How dear a piece is; the cheapest goes first, and of equals the least recently used."""

    BACKGROUND = 0
    CONVERSATION = 1
    SYSTEM = 2
    PINNED = 3


class Reader(NamedTuple):
    """On whose behalf a slot reads."""

    purpose: Purpose
    session: str
    question_start: int

    def rank(self, end: int) -> Rank:
        """Rank what was read up to token `end`: what comes before the question is used again."""
        if self.purpose is Purpose.BACKGROUND:
            return Rank.BACKGROUND
        return Rank.SYSTEM if end <= self.question_start else Rank.CONVERSATION

    @property
    def may_evict(self) -> Rank:
        """The dearest rank that may go to make room for this reader."""
        match self.purpose:
            case Purpose.BACKGROUND:
                return Rank.BACKGROUND
            case Purpose.WARM_UP | Purpose.PREFETCH:
                return Rank.SYSTEM
            case Purpose.VOICE:
                return Rank.PINNED
