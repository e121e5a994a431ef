"""The peer: llama-bench on this machine, which measures llama.cpp by itself, a process a sample.

Knows its command line and its JSON; knows nothing of ours.
"""

from collections.abc import Sequence
from dataclasses import dataclass
import json
from pathlib import Path
import subprocess
from typing import Any

from ..peers import peer_environment
from .cases import PEER_QUESTION_TOKENS, Case

_STEPS = 8
_LINES_SHOWN = 15


class PeerError(Exception):
    """The peer does not do what it is asked, in words for a person."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Peer:
    """llama-bench, its model and how many threads it gets."""

    program: Path
    model: Path
    num_threads: int

    def seconds(self, case: Case) -> float:
        """Have it do what ours did, once, and return how long that took.

        Raises:
            PeerError: it cannot be run, ended, or tells something else.
        """
        match case.kind:
            case "prefill":
                # The first of two reads what lies in files, and is not counted.
                *_, seconds = self._measure("-p", f"16,{case.num_tokens}", "-n", "0")
                return seconds
            case "decode":
                (seconds,) = self._measure(
                    "-p", "0", "-n", f"{case.num_tokens}", "-d", f"{case.depth}"
                )
                return seconds
            case "first token":
                reading, writing = self._measure(
                    *("-p", f"{PEER_QUESTION_TOKENS}", "-n", f"{_STEPS}"),
                    *("-d", f"{case.depth}"),
                )
                return reading + writing / _STEPS

    def _measure(self, *test: str) -> list[float]:
        """Run it, and return the seconds of each of its tests."""
        command = (
            *(str(self.program), "-m", str(self.model), "-t", str(self.num_threads)),
            *("-r", "1", "-o", "json", *test),
        )
        try:
            done = subprocess.run(
                command,
                env=peer_environment(),
                capture_output=True,
                text=True,
                check=False,
            )
        except OSError as err:
            raise PeerError(f"{self.program} cannot be run: {err.strerror}") from err
        if done.returncode:
            words = "\n".join(done.stderr.splitlines()[-_LINES_SHOWN:])
            raise PeerError(
                f"{self.program} ended with {done.returncode}:\n{words}".rstrip()
            )
        return _seconds(self.program, done.stdout)


def _seconds(program: Path, text: str) -> list[float]:
    try:
        tests: Sequence[dict[str, Any]] = json.loads(text)
        return [float(test["avg_ns"]) / 1e9 for test in tests]
    except (ValueError, TypeError, KeyError) as err:
        raise PeerError(
            f"{program} tells no seconds; llama-bench does with -o json: {text[:200]!r}"
        ) from err
