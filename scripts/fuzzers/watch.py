"""Runs tries in processes of their own, with little memory and time, and keeps what they find.

Knows nothing of what is tried.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
import json
import os
from pathlib import Path
import resource
import select
import shutil
import signal
import sys
import time
from typing import Any

from .trial import Trial

# Of one try: its file is some hundred kilobytes, the built-in model's seven megabytes. A template is rendered four times,
# at most a second and a half each.
MAX_SECONDS = 6.5
MAX_MEMORY_BYTES = 400 << 20
# Beyond these a process is ended.
_KILL_SECONDS = 15.0
_MAX_ADDRESS_BYTES = 1 << 30
_TRIES_A_PROCESS = 50
_POLL_SECONDS = 1.0
# What asks a process to end
ENDINGS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
# So often in a row it may be found waiting for something that does not come.
_MAX_IDLE_POLLS = 30
_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(slots=True)
class Tally:
    """What came of all tries so far."""

    tries: int = 0
    seconds: float = 0.0
    counts: dict[str, int] = field(default_factory=dict)


def watch(
    trial_of: Callable[[int], Trial],
    *,
    seconds: float,
    first: int,
    findings: Path,
    report: Callable[[Tally], None],
) -> Tally:
    """Try one number after the other until so many seconds of the processor's time are spent."""
    tally = Tally()
    number = first
    while tally.seconds < seconds:
        number = _run_some(trial_of, number, findings, tally)
        report(tally)
    return tally


def _run_some(
    trial_of: Callable[[int], Trial], first: int, findings: Path, tally: Tally
) -> int:
    """Run tries in one process; return the number of the next."""
    reading, writing = os.pipe()
    # What a handler raises in the middle of a fork is lost.
    signal.pthread_sigmask(signal.SIG_BLOCK, ENDINGS)
    process = os.fork()
    if not process:
        os.close(reading)
        _be_child(trial_of, first, writing)
    done = first
    try:
        os.close(writing)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDINGS)
        for event in _events(process, reading):
            tally.tries += 1
            kind = event["kind"]
            tally.counts[kind] = tally.counts.get(kind, 0) + 1
            if kind == "finding":
                _keep(trial_of(done), findings, event["words"])
            done += 1
            # The child waits: the damaged model must still be there.
            os.kill(process, signal.SIGUSR1)
    except BaseException:
        os.kill(process, signal.SIGKILL)
        _end(process)
        raise
    finally:
        os.close(reading)
    ended = _end(process)
    tally.seconds += ended.seconds
    if done < first + _TRIES_A_PROCESS:
        tally.tries += 1
        tally.counts["finding"] = tally.counts.get("finding", 0) + 1
        _keep(trial_of(done), findings, ended.words)
        done += 1
    return done


@dataclass(frozen=True, slots=True, kw_only=True)
class _Ended:
    seconds: float
    words: str


def _end(process: int) -> _Ended:
    _, status, usage = os.wait4(process, 0)
    how = (
        f"signal {signal.Signals(os.WTERMSIG(status)).name}"
        if os.WIFSIGNALED(status)
        else f"exit code {os.WEXITSTATUS(status)}"
    )
    return _Ended(
        seconds=usage.ru_utime + usage.ru_stime, words=f"the process ended by {how}"
    )


def _events(process: int, reading: int) -> Iterator[dict[str, Any]]:
    """Read what a child tells, line by line; end it where it takes too long over one try."""
    buffer = b""
    last = before = _seconds_of(process)
    idle = 0
    while True:
        ready, _, _ = select.select([reading], [], [], _POLL_SECONDS)
        if not ready:
            now = _seconds_of(process)
            # Somebody may have stopped it, to measure something else.
            idle = idle + 1 if now == before and _state_of(process) == "S" else 0
            before = now
            if now - last > _KILL_SECONDS or idle > _MAX_IDLE_POLLS:
                os.kill(process, signal.SIGKILL)
            continue
        data = os.read(reading, 1 << 16)
        if not data:
            return
        buffer += data
        *lines, buffer = buffer.split(b"\n")
        for line in lines:
            yield json.loads(line)
        last = before = _seconds_of(process)
        idle = 0


def _seconds_of(process: int) -> float:
    """How long a process has computed."""
    fields = _fields_of(process)
    return (int(fields[11]) + int(fields[12])) / _TICKS


def _state_of(process: int) -> str:
    return _fields_of(process)[0]


def _fields_of(process: int) -> list[str]:
    """Read what the kernel says of a child that has not been waited for."""
    return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()


def _be_child(trial_of: Callable[[int], Trial], first: int, writing: int) -> None:
    """Run tries one after the other, and tell what came of each."""
    parent = os.getppid()
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
    # The parent ends its child, whoever else is told to end.
    for ending in ENDINGS:
        signal.signal(ending, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDINGS)
    mapped = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()  # fmt: skip
    limit = mapped + _MAX_ADDRESS_BYTES
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    silent = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silent, sys.stdout.fileno())
    os.dup2(silent, sys.stderr.fileno())
    try:
        for number in range(first, first + _TRIES_A_PROCESS):
            event = _tried(trial_of(number))
            os.write(writing, json.dumps(event).encode() + b"\n")
            while signal.sigtimedwait([signal.SIGUSR1], _POLL_SECONDS) is None:
                if os.getppid() != parent:
                    return
    finally:
        # What the parent has to clean up is the parent's.
        os._exit(0)


def _tried(trial: Trial) -> dict[str, str]:
    before = resource.getrusage(resource.RUSAGE_SELF)
    start = time.process_time()
    outcome = trial.run()
    seconds = time.process_time() - start
    after = resource.getrusage(resource.RUSAGE_SELF)
    grown = (after.ru_maxrss - before.ru_maxrss) * 1024
    if outcome.kind != "finding":
        if seconds > MAX_SECONDS:
            return {"kind": "finding", "words": f"took {seconds:.1f} s: {outcome}"}
        if grown > MAX_MEMORY_BYTES:
            return {"kind": "finding", "words": f"took {grown:,} bytes: {outcome}"}
    return {"kind": outcome.kind, "words": outcome.words}


def _keep(trial: Trial, findings: Path, words: str) -> None:
    """Keep the damaged model beside what came of it."""
    folder = findings / f"{trial.reader}-{trial.seed}-{trial.number}"
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(trial.scratch, folder)
    (folder / "finding.txt").write_text(words, errors="backslashreplace")
    last = words.strip().splitlines()[-1] if words.strip() else ""
    print(
        f"finding: --seed {trial.seed} --first {trial.number}: {last[:200]!a}: {folder}",
        flush=True,
    )
