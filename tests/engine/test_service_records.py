"""The engine's door with a file of call records: written as requests end, and read by the command line."""

from dataclasses import replace
from pathlib import Path
import sys

import pytest

from local_llm_engine.__main__ import main
from local_llm_engine.builtin import NANO_PATH
from local_llm_engine.cache.report import read_records
from local_llm_engine.service import Engine
from local_llm_engine.types import Purpose
from tests.engine.test_service import CONFIG, ask, collect


async def serve(file: Path) -> tuple[int, tuple[str, ...]]:
    """Serve a warm-up and a question; the records in memory and the notices of that."""
    engine = Engine.load(NANO_PATH, replace(CONFIG, record_file=file))
    try:
        await engine.warm_up(ask("", purpose=Purpose.WARM_UP))
        await collect(engine, ask("Turn on the lights, whisper"))
        status = engine.status()
        return len(status.records), status.notices
    finally:
        engine.close()


async def test_records_outlive_the_engine_and_are_summed_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two runs of the engine in one file; nobody's words in it."""
    file = tmp_path / "records.jsonl"
    for _ in range(2):
        assert await serve(file) == (2, ())
    assert [record["purpose"] for record in read_records(file)] == [
        Purpose.WARM_UP,
        Purpose.VOICE,
    ] * 2
    assert "whisper" not in file.read_text()
    monkeypatch.setattr(sys, "argv", ["local_llm_engine", "report", str(file)])
    assert main() == 0
    assert "by purpose" in capsys.readouterr().out


def test_a_file_of_other_things_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "model.safetensors"
    file.write_bytes(b"\xff\xfe\x00")
    monkeypatch.setattr(sys, "argv", ["local_llm_engine", "report", str(file)])
    assert main() == 1
    assert f"{file} is no file of call records" in capsys.readouterr().err


async def test_a_file_that_cannot_be_written_costs_no_answer(tmp_path: Path) -> None:
    """The status tells of it, once; the records in memory go on."""
    num_records, notices = await serve(tmp_path / "missing" / "records.jsonl")
    assert num_records == 2
    (notice,) = notices
    assert "call records cannot be written" in notice
