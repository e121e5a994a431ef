"""Records on their way into a file and out of it again."""

from pathlib import Path

import pytest

from local_llm_engine.cache.records import CallLog
from local_llm_engine.cache.report import read_records, report, total
from local_llm_engine.errors import InvalidRequestError
from local_llm_engine.types import CallRecord, Outcome, Purpose, Usage


def make_record(
    outcome: Outcome, reread_tokens: int, session: str = "kitchen"
) -> CallRecord:
    usage = Usage(
        prompt_tokens=1_000,
        question_tokens=8,
        reused_tokens=1_000 - reread_tokens,
        reread_tokens=reread_tokens,
        completion_tokens=5,
        queue_seconds=0.0,
        prefill_seconds=0.1,
        decode_seconds=0.2,
        time_to_first_token_seconds=0.25,
    )
    return CallRecord(
        ended_at=1.0,
        purpose=Purpose.VOICE,
        session=session,
        adapter=None,
        outcome=outcome,
        resumed_from="ram",
        divergence_token=20,
        divergence_segment="date",
        finish="stop",
        usage=usage,
    )


@pytest.fixture
def file(tmp_path: Path) -> Path:
    file = tmp_path / "records.jsonl"
    log = CallLog(file)
    log.add(make_record(Outcome.FIRST_TURN, 1_000))
    log.add(make_record(Outcome.CONTINUED, 17))
    log.add(make_record(Outcome.HISTORY_REWRITTEN, 60, "bedroom"))
    return file


def test_turns_that_could_not_hit_are_no_misses(file: Path) -> None:
    """The miss rate has the right denominator."""
    totals = total(read_records(file))
    assert totals == (3, 2, 1, 1_077, 3_000, pytest.approx(0.25))


def test_the_report_names_the_segment_and_token_of_a_miss(file: Path) -> None:
    """And groups by purpose, session, adapter and outcome."""
    text = report(read_records(file))
    assert "history_rewritten, parted in date at token 20, re-read 60 of 1000" in text
    assert text.count("parted") == 1
    assert all(
        f"by {group}" in text for group in ("purpose", "session", "adapter", "outcome")
    )


def test_a_line_cut_short_by_a_crash_is_left_out(file: Path) -> None:
    """The rest still counts."""
    file.write_text(file.read_text() + '{"purpose": "voi')
    assert len(read_records(file)) == 3


def test_a_line_that_is_no_record_is_named(file: Path) -> None:
    """With its number."""
    file.write_text("{}\n" + file.read_text())
    with pytest.raises(InvalidRequestError, match="line 1"):
        read_records(file)


def test_a_file_that_cannot_be_written_is_told_once(tmp_path: Path) -> None:
    """Records are kept in memory all the same."""
    log = CallLog(tmp_path / "missing" / "records.jsonl")
    log.add(make_record(Outcome.CONTINUED, 17))
    log.add(make_record(Outcome.CONTINUED, 17))
    assert len(log.notices) == 1
    assert len(log.latest()) == 2
