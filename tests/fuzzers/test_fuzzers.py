"""A short run of every fuzzer finds nothing, and a fuzzer finds what there is to find.

Hours of it are for scripts/fuzz.
"""

from collections import Counter
import os
from pathlib import Path
from random import Random
import signal
import subprocess
import sys

import pytest

from local_llm_engine.errors import WeightFormatError
from scripts.fuzzers import seeds, trial
from scripts.fuzzers.readers import READERS, Reader
from scripts.fuzzers.trial import Trial

from .conftest import ROOT

SEED = 1
# Tries, and how many of them must be refused, so that damage is damage.
TRIES = {
    "safetensors": (40, 20),
    "gguf": (60, 30),
    "config": (40, 20),
    "tokenizer": (40, 10),
    "template": (60, 20),
    "quantized": (40, 20),
    "kept": (20, 0),
}


@pytest.mark.parametrize("reader", READERS)
def test_a_short_run_finds_nothing(tmp_path: Path, reader: str) -> None:
    """Nor is anything refused that is not damaged: what is refused at once is never read."""
    seeds.make_seeds(reader, tmp_path / "models")
    for model in sorted((tmp_path / "models").iterdir()):
        READERS[reader].use(Random(SEED), model)
    num_tries, num_refused = TRIES[reader]
    outcomes = [
        Trial(
            reader=reader,
            seed=SEED,
            number=number,
            models=tmp_path / "models",
            scratch=tmp_path / "scratch",
        ).run()
        for number in range(num_tries)
    ]
    assert [own.words for own in outcomes if own.kind == "finding"] == []
    assert Counter(own.kind for own in outcomes)["refused"] >= num_refused


def break_down(_: Random, path: Path) -> None:
    raise ZeroDivisionError(path.name)


def say_too_much(_: Random, path: Path) -> None:
    raise WeightFormatError(f"{path}: {'a' * 1_000}")


def speak_in_lines(_: Random, path: Path) -> None:
    raise WeightFormatError(f"{path}: \n")


@pytest.mark.parametrize(
    ("use", "words"),
    [
        pytest.param(break_down, "ZeroDivisionError", id="another exception"),
        pytest.param(say_too_much, "a message of", id="an endless message"),
        pytest.param(speak_in_lines, "cannot be printed", id="a message of two lines"),
    ],
)
def test_what_is_no_clear_refusal_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, use: object, words: str
) -> None:
    (tmp_path / "models" / "one").mkdir(parents=True)
    reader = Reader(damage=lambda *_: None, use=use)  # type: ignore[arg-type]
    monkeypatch.setattr(trial, "READERS", {"own": reader})
    outcome = Trial(
        reader="own",
        seed=1,
        number=1,
        models=tmp_path / "models",
        scratch=tmp_path / "scratch",
    ).run()
    assert outcome.kind == "finding"
    assert words in outcome.words


ENDS = """
import os, sys, time
from pathlib import Path
from fuzzers import trial, watch
from fuzzers.readers import Reader
from fuzzers.trial import Trial

def end(rng, path):
    match int(path.name):
        case 1: os.kill(os.getpid(), 11)
        case 2:
            while True: pass
        case 3: bytearray(2 << 30)
        case 4: bytearray(b"a") * (200 << 20)

work = Path(sys.argv[1])
watch.MAX_MEMORY_BYTES = 100 << 20
for number in range(1, 6):
    (work / str(number) / str(number)).mkdir(parents=True)
trial.READERS = {"own": Reader(damage=lambda *_: None, use=end)}
for first in range(1, 5):
    # Only what never ends is to be ended: on a busy machine the others take their time.
    watch._KILL_SECONDS = 0.5 if first == 2 else 600.0
    watch.watch(
        lambda number: Trial(
            reader="own", seed=1, number=number, models=work / str(min(number, 5)), scratch=work / "scratch"
        ),
        seconds=1e-9, first=first, findings=work / "findings", report=lambda _: None,
    )
"""


def test_what_ends_or_fills_the_process_is_found(tmp_path: Path) -> None:
    """By a signal, without an end, beyond what it may ask for, and with more than it should."""
    subprocess.run(
        [sys.executable, "-P", "-c", ENDS, tmp_path],
        check=True,
        env={"PYTHONPATH": f"{ROOT}/scripts:{ROOT}/engine:{ROOT}"},
        timeout=120,
    )
    found = {
        path.parent.name: path.read_text()
        for path in (tmp_path / "findings").glob("*/finding.txt")
    }
    assert found.keys() == {"own-1-1", "own-1-2", "own-1-3", "own-1-4"}
    assert "SIGSEGV" in found["own-1-1"]
    assert "SIGKILL" in found["own-1-2"]
    assert "MemoryError" in found["own-1-3"]
    assert "bytes" in found["own-1-4"]


def test_a_fuzzer_that_is_ended_leaves_nothing(tmp_path: Path) -> None:
    """Neither its folder, which lies in memory, nor the process that tries."""
    for ending in (signal.SIGINT, signal.SIGTERM):
        _end_a_fuzzer(tmp_path, ending)


def _end_a_fuzzer(tmp_path: Path, ending: signal.Signals) -> None:
    folders = set(Path("/dev/shm").glob("fuzz-*"))
    fuzzer = subprocess.Popen(
        [sys.executable, "-P", "-m", "fuzzers", "template", "--minutes", "9"],
        cwd=tmp_path,
        env={"PYTHONPATH": f"{ROOT}/scripts:{ROOT}/engine:{ROOT}"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert fuzzer.stdout is not None
    assert fuzzer.stdout.readline().startswith("template, seed ")
    # The first tries are done.
    assert " files in " in fuzzer.stdout.readline()
    os.killpg(fuzzer.pid, ending)
    assert fuzzer.communicate(timeout=60) == ("", "")
    assert fuzzer.returncode == 128 + ending
    assert set(Path("/dev/shm").glob("fuzz-*")) <= folders
    with pytest.raises(ProcessLookupError):
        os.killpg(fuzzer.pid, 0)
