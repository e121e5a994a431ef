"""The fuzzers' command line: what scripts/fuzz takes."""

import argparse
import os
from pathlib import Path
import signal
import subprocess
import sys
import tempfile
import time

from .readers import READERS
from .trial import Trial
from .watch import ENDINGS, Tally, watch

_REPORT_SECONDS = 60.0
# Where writing costs nothing.
_MEMORY = Path("/dev/shm")


def main() -> int:
    """Make the models that are damaged, and fuzz; 0 where nothing was found."""
    parser = argparse.ArgumentParser(
        prog="scripts/fuzz",
        description="Feeds a reader of model files with damaged ones: each must be refused in one clear line, or work.",
    )
    parser.add_argument("reader", choices=READERS)
    parser.add_argument(
        "--minutes", type=float, default=1.0, help="of the processor's time"
    )
    parser.add_argument("--seed", type=int, default=time.time_ns() % 1_000_000)
    parser.add_argument(
        "--first", type=int, default=0, help="the number of the first try"
    )
    parser.add_argument(
        "--findings", type=Path, default=Path("findings"), metavar="FOLDER"
    )
    options = parser.parse_args()
    parent = _MEMORY if os.access(_MEMORY, os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="fuzz-", dir=parent) as name:
        work = Path(name)
        models = work / "models"
        subprocess.run(
            [sys.executable, "-P", "-m", "fuzzers.seeds", options.reader, models],
            check=True,
            stdout=subprocess.DEVNULL,
        )
        print(f"{options.reader}, seed {options.seed}", flush=True)
        tally = watch(
            lambda number: Trial(
                reader=options.reader,
                seed=options.seed,
                number=number,
                models=models,
                scratch=work / "scratch",
            ),
            seconds=options.minutes * 60,
            first=options.first,
            findings=options.findings,
            report=_Report(),
        )
    print(_line(tally))
    return int("finding" in tally.counts)


class _Report:
    """Says once a minute how far it is."""

    def __init__(self) -> None:
        self._next = 0.0

    def __call__(self, tally: Tally) -> None:
        if tally.seconds >= self._next:
            self._next = tally.seconds + _REPORT_SECONDS
            print(f"{time.strftime('%H:%M:%S')} {_line(tally)}", flush=True)


def _line(tally: Tally) -> str:
    counts = ", ".join(f"{count} {kind}" for kind, count in sorted(tally.counts.items()))  # fmt: skip
    return f"{tally.tries} files in {tally.seconds / 60:.1f} minutes: {counts}"


def _end(number: int, _: object) -> None:
    """End as a shell expects of what a signal ends, after all that is to be cleaned up."""
    raise SystemExit(128 + number)


if __name__ == "__main__":
    for ending in ENDINGS:
        signal.signal(ending, _end)
    raise SystemExit(main())
