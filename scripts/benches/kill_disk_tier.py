"""Kills an engine at random moments while it writes its disk tier, and examines every restart.

Every restart must come up without a word, find all that stood in the folder when the engine was
killed, at least what the engine had reported, and answer as an engine that never kept anything.
Half of the kills hit an engine whose files have little room, so that it removes as well as writes.
"""

import argparse
import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
import hashlib
import logging
import multiprocessing
from multiprocessing.connection import Connection
from pathlib import Path
from random import Random
import sys
import tempfile
import time
from typing import Any, override

from local_llm_engine.builtin import NANO_PATH
from local_llm_engine.config import EngineConfig
from local_llm_engine.sampling import SamplingParams
from local_llm_engine.service import Engine
from local_llm_engine.types import (
    ChatRequest,
    ContentDelta,
    Delta,
    Message,
    Purpose,
    TextPart,
    ToolCallDelta,
)

KILLS = 100
_MIB = 1 << 20
_ROOMY_BYTES, _TIGHT_BYTES = 4_096 * _MIB, 24 * _MIB
_LONGEST_LIFE_SECONDS = 1.5
# The others are killed while they write; these may still be starting.
_EARLY_SHARE = 0.2
_ROOMS = ("Kitchen", "Bedroom", "Office", "Garage", "Hallway", "Bathroom")
_CHECKED_QUESTIONS = 2
# A process that inherits torch, already imported, is at work within milliseconds.
_PROCESSES = multiprocessing.get_context("fork")


@dataclass(frozen=True, slots=True, kw_only=True)
class Restart:
    """What an examination of a folder after a kill found; `faults` is empty where all is well."""

    num_files: int
    was_writing: bool
    faults: tuple[str, ...]


def run(kills: int, seed: int) -> list[Restart]:
    """Kill and examine in turn."""
    generator = Random(seed)
    answers = _in_process(_answer_cold)
    with tempfile.TemporaryDirectory() as scratch:
        folders = (
            (Path(scratch, "roomy"), _ROOMY_BYTES),
            (Path(scratch, "tight"), _TIGHT_BYTES),
        )
        return [
            _kill_and_examine(*folders[number % 2], answers, generator)
            for number in range(kills)
        ]


def bench(options: argparse.Namespace) -> int:
    """Run it and print what came of it; 1 where any restart was not in order."""
    restarts = run(options.kills, options.seed)
    for number, restart in enumerate(restarts):
        for fault in restart.faults:
            print(f"kill {number}: {fault}")
    hits = sum(restart.was_writing for restart in restarts)
    good = sum(not restart.faults for restart in restarts)
    print(
        f"{len(restarts)} kills, {hits} of them in the middle of a file;"
        f" {good} restarts in order; {restarts[-1].num_files if restarts else 0} files at the end"
    )
    return 0 if good == len(restarts) else 1


def main() -> int:
    """Read the command line."""
    parser = argparse.ArgumentParser(description="Kills an engine while it writes.")
    parser.add_argument("--kills", type=int, default=KILLS)
    parser.add_argument("--seed", type=int, default=0)
    return bench(parser.parse_args())


def _kill_and_examine(
    folder: Path, limit_bytes: int, answers: dict[str, str], generator: Random
) -> Restart:
    receiver, sender = _PROCESSES.Pipe(duplex=False)
    process = _PROCESSES.Process(
        target=_work, args=(folder, limit_bytes, generator.random(), sender)
    )
    process.start()
    sender.close()
    if generator.random() > _EARLY_SHARE:
        with suppress(EOFError):
            receiver.recv()
    time.sleep(generator.uniform(0, _LONGEST_LIFE_SECONDS))
    process.kill()
    process.join()
    reported_bytes = _last(receiver)
    was_writing = any(folder.glob("*.partial"))
    before = _sizes(folder)
    faults = _examined(folder, limit_bytes, answers, generator.random())
    if limit_bytes == _ROOMY_BYTES:
        if sum(before.values()) < reported_bytes:
            faults += (f"{reported_bytes} bytes were reported, {before} stand",)
        if not before.items() <= _sizes(folder).items():
            faults += ("what stood after the kill is gone after the restart",)
    return Restart(num_files=len(before), was_writing=was_writing, faults=faults)


def _examined(*arguments: Any) -> tuple[str, ...]:
    try:
        return _in_process(_examine, *arguments)
    except EOFError:
        return ("the restart did not come up",)


def _work(folder: Path, limit_bytes: int, seed: float, sender: Connection) -> None:
    """Warm one satellite after the other up, in ever new houses, and report what is on disk."""
    generator = Random(seed)
    engine = _load(folder, limit_bytes)
    sender.send(engine.status().disk_cache_bytes)

    async def work() -> None:
        while True:
            house = generator.randrange(1 << 30)
            for room in generator.sample(_ROOMS, 3):
                await engine.warm_up(_request(room, house, purpose=Purpose.WARM_UP))
                sender.send(engine.status().disk_cache_bytes)
            await _ask(engine, _request(generator.choice(_ROOMS), 0))

    asyncio.run(work())


def _examine(
    folder: Path, limit_bytes: int, answers: dict[str, str], seed: float
) -> tuple[str, ...]:
    """Start on a folder and say all that is not as it should be."""
    said = _Said()
    logging.getLogger("local_llm_engine").addHandler(said)
    before = _sizes(folder)
    faults = [
        f"{name} does not hold what its name stands for"
        for name in before
        if hashlib.sha256((folder / name).read_bytes()).hexdigest() != Path(name).stem
    ]
    engine = _load(folder, limit_bytes)
    found_bytes = engine.status().disk_cache_bytes
    if found_bytes != sum(before.values()):
        faults.append(f"{found_bytes} bytes were found of {sum(before.values())}")
    for room in Random(seed).sample(_ROOMS, _CHECKED_QUESTIONS):
        answer = asyncio.run(_ask(engine, _request(room, 0)))
        if answer != answers[room]:
            faults.append(f"{room} was answered {answer!r}, not {answers[room]!r}")
    engine.close()
    return (*faults, *said.warnings, *engine.status().notices)


def _answer_cold() -> dict[str, str]:
    """Answer as an engine does that has read nothing before."""
    engine = _load(None, 0)
    answers = {room: asyncio.run(_ask(engine, _request(room, 0))) for room in _ROOMS}
    engine.close()
    return answers


def _load(folder: Path | None, limit_bytes: int) -> Engine:
    config = EngineConfig(
        dtype="float32",
        context_length=4_096,
        prompt_cache_bytes=_ROOMY_BYTES,
        cache_folder=folder,
        disk_cache_bytes=limit_bytes,
    )
    return Engine.load(NANO_PATH, config)


def _request(room: str, house: int, *, purpose: Purpose = Purpose.VOICE) -> ChatRequest:
    """Ask for a light of a room, in a house of its own names for every number."""
    generator = Random(house)
    devices = "".join(
        f"- names: {place} Light {generator.randrange(1_000)}\n  domain: light\n  areas: {place}\n"
        for place in _ROOMS
        for _ in range(4)
    )
    system = (
        TextPart(text=f"You are a voice assistant.\n{devices}", segment="house"),
        TextPart(text=f"You are in area {room}.", segment="device"),
    )
    return ChatRequest(
        messages=(
            Message(role="system", content=system),
            Message(role="user", content="Turn on the light"),
        ),
        sampling=SamplingParams(temperature=0.0, max_tokens=40),
        purpose=purpose,
        session=room,
    )


async def _ask(engine: Engine, request: ChatRequest) -> str:
    return " ".join([_text(delta) async for delta in engine.generate(request)])


def _text(delta: Delta) -> str:
    match delta:
        case ContentDelta(text):
            return text
        case ToolCallDelta(call):
            return f"{call.name}{dict(call.arguments)}"
        case _:
            return ""


def _sizes(folder: Path) -> dict[str, int]:
    """List the pieces that stand, in bytes."""
    return {file.name: file.stat().st_size for file in folder.glob("*.safetensors")}


def _last(receiver: Connection) -> int:
    """Read the last report of a process that was killed."""
    reported = 0
    try:
        while True:
            reported = receiver.recv()
    except EOFError:
        return reported


def _in_process[Result](function: Callable[..., Result], *arguments: Any) -> Result:
    """Call a function in a process of its own."""
    receiver, sender = _PROCESSES.Pipe(duplex=False)
    process = _PROCESSES.Process(target=_call, args=(sender, function, *arguments))
    process.start()
    sender.close()
    try:
        result: Result = receiver.recv()
    finally:
        process.join()
    return result


def _call(sender: Connection, function: Callable[..., Any], *arguments: Any) -> None:
    sender.send(function(*arguments))


class _Said(logging.Handler):
    """Keeps what the engine warned of."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.warnings: list[str] = []

    @override
    def emit(self, record: logging.LogRecord) -> None:
        self.warnings.append(record.getMessage())


if __name__ == "__main__":
    sys.exit(main())
