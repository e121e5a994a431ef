"""Why a request met the cache as it did, by comparing tokens."""

import pytest

from local_llm_engine.cache.sessions import KEPT_SESSIONS, SessionLedger
from local_llm_engine.types import Outcome

LAST = (1, 2, 3, 4, 5, 6)


@pytest.mark.parametrize(
    ("prompt", "num_known_tokens", "expected"),
    [
        pytest.param((1, 2, 3, 4, 5, 6), 6, Outcome.REGENERATED, id="again"),
        pytest.param((1, 2, 3, 4, 5, 6, 7), 6, Outcome.CONTINUED, id="goes on"),
        pytest.param((1, 2, 3, 4, 9, 9), 4, Outcome.CONTINUED, id="new question"),
        pytest.param((1, 2, 9, 4, 5, 6), 2, Outcome.HISTORY_REWRITTEN, id="new date"),
        pytest.param((1, 2, 3, 4, 9, 9), 3, Outcome.EVICTED, id="no longer known"),
        pytest.param((1, 2, 3, 4, 5, 6), 0, Outcome.EVICTED, id="nothing is known"),
    ],
)
def test_outcome_of_a_known_session(
    prompt: tuple[int, ...], num_known_tokens: int, expected: Outcome
) -> None:
    ledger = SessionLedger()
    ledger.note("kitchen", LAST)
    outcome = ledger.classify(
        "kitchen",
        prompt,
        num_known_tokens=num_known_tokens,
        question_start=4,
    )
    assert outcome is expected
    assert outcome.could_hit


def test_the_next_turn_goes_on_though_its_question_stands_further_on() -> None:
    """What the template puts before a question was not read before, and nothing was rewritten."""
    ledger = SessionLedger()
    ledger.note("kitchen", LAST)
    outcome = ledger.classify(
        "kitchen", (*LAST, 7, 8, 9), num_known_tokens=6, question_start=8
    )
    assert outcome is Outcome.CONTINUED


def test_a_session_that_read_nothing_yet_could_not_hit() -> None:
    """Whatever others read; and a restart is told apart from a first meeting."""
    ledger = SessionLedger(earlier=["bedroom"])
    ledger.note("kitchen", LAST)
    outcomes = [
        ledger.classify(session, LAST, num_known_tokens=4, question_start=4)
        for session in ("office", "bedroom")
    ]
    assert outcomes == [Outcome.FIRST_TURN, Outcome.AFTER_RESTART]
    assert not any(outcome.could_hit for outcome in outcomes)


def test_only_the_latest_sessions_are_remembered() -> None:
    """Conversations come and go; memory does not grow with them."""
    ledger = SessionLedger()
    for number in range(KEPT_SESSIONS + 1):
        ledger.note(f"session {number}", LAST)
    outcomes = [
        ledger.classify(f"session {number}", LAST, num_known_tokens=6, question_start=4)
        for number in (0, 1)
    ]
    assert outcomes == [Outcome.FIRST_TURN, Outcome.REGENERATED]
