"""How late a 10 ms heartbeat on Home Assistant's event loop is while the engine reads and writes in its process.

The same run measures the idle loop first, as machines differ. Python's full collection of all that Home Assistant has
loaded, a quarter of a second whoever triggers it, is no work of the engine: it is done before.
"""

import argparse
import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import asdict, dataclass
import gc
import json
from pathlib import Path
from statistics import median, quantiles
import time

from demo_house.client import Client, connected
from demo_house.core import PASSWORD, USER, Home, run_in_home
from demo_house.household import Household, move_in
from demo_house.questions import QUESTIONS
from demo_house.report import table

BEAT_SECONDS = 0.010
WORST_LIMIT_SECONDS = 0.100
MEDIAN_LIMIT_SECONDS = 0.015
_IDLE_SECONDS = 5
_LONG_QUESTION = "what is the temperature in the living room and " * 300
_SHORT_ROUNDS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Phase:
    """The heartbeat's lag during one kind of work, in seconds."""

    name: str
    seconds: float
    beats: int
    median_seconds: float
    p99_seconds: float
    worst_seconds: float

    @property
    def ok(self) -> bool:
        """Whether the loop stayed responsive."""
        return (
            self.worst_seconds < WORST_LIMIT_SECONDS
            and self.median_seconds < MEDIAN_LIMIT_SECONDS
        )

    def cells(self) -> tuple[str, ...]:
        """Write it for a person."""
        lags = (self.median_seconds, self.p99_seconds, self.worst_seconds)
        return (
            self.name,
            f"{self.seconds:.1f} s",
            str(self.beats),
            *(f"{lag * 1000:.1f} ms" for lag in lags),
            "yes" if self.ok else "NO",
        )


class Heartbeat:
    """Beats every 10 ms and keeps how late each beat was, in seconds."""

    def __init__(self) -> None:
        """Wait for `during`."""
        self.phases: list[Phase] = []

    @asynccontextmanager
    async def during(self, name: str) -> AsyncIterator[None]:
        """Beat as long as the block runs."""
        lags: list[float] = []
        start = time.monotonic()
        task = asyncio.create_task(_beat(lags))
        try:
            yield
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
        self.phases.append(_phase(name, time.monotonic() - start, lags))


async def _beat(lags: list[float]) -> None:
    while True:
        due = time.monotonic() + BEAT_SECONDS
        await asyncio.sleep(BEAT_SECONDS)
        lags.append(time.monotonic() - due)


def _phase(name: str, seconds: float, lags: Sequence[float]) -> Phase:
    return Phase(
        name=name,
        seconds=seconds,
        beats=len(lags),
        median_seconds=median(lags),
        p99_seconds=quantiles(lags, n=100)[-1],
        worst_seconds=max(lags),
    )


def bench(options: argparse.Namespace) -> int:
    """Measure in a demo house, print, and return 0 where the loop stayed responsive."""
    return run_in_home(lambda home: _measure(home, options), port=None, verbose=False)


async def _measure(home: Home, options: argparse.Namespace) -> int:
    heartbeat = Heartbeat()
    async with connected(home.url, USER, PASSWORD) as client:
        household = await move_in(
            client,
            model=str(options.model.resolve()) if options.model else None,
            scheduled=False,
        )
        gc.collect()
        gc.freeze()
        async with heartbeat.during("idle"):
            await asyncio.sleep(_IDLE_SECONDS)
        async with heartbeat.during("reading a long prompt"):
            await _ask(client, household, _LONG_QUESTION)
        entry = home.hass.config_entries.async_get_known_entry(household.entry_id)
        longest = max(
            record.usage.reread_tokens
            for record in entry.runtime_data.engine.status().records
        )
        async with heartbeat.during("warm-up and short questions"):
            await client.action("local_llm.warm_up")
            for question in QUESTIONS * _SHORT_ROUNDS:
                await _ask(client, household, question.text)
    return await asyncio.to_thread(_tell, heartbeat.phases, longest, options.json)


async def _ask(client: Client, household: Household, text: str) -> None:
    """Ask, whatever the answer."""
    await client.command(
        "conversation/process", text=text, language="en", agent_id=household.agent
    )


def _tell(phases: Sequence[Phase], longest: int, file: Path | None) -> int:
    print(f"Lag of a {BEAT_SECONDS * 1000:.0f} ms heartbeat on Home Assistant's loop")
    print(f"(the long prompt: {longest} tokens read in one go)\n")
    headings = ("the engine is", "for", "beats", "median", "99 %", "worst", "ok")
    print("\n".join(table(headings, [phase.cells() for phase in phases])))
    ok = all(phase.ok for phase in phases)
    result = {
        "phases": [asdict(phase) | {"ok": phase.ok} for phase in phases],
        "long_prompt_tokens": longest,
        "limits": {
            "worst_seconds": WORST_LIMIT_SECONDS,
            "median_seconds": MEDIAN_LIMIT_SECONDS,
        },
        "ok": ok,
    }
    print(f"\n{json.dumps(result)}")
    if file:
        file.write_text(f"{json.dumps(result, indent=2)}\n", encoding="utf-8")
    return 0 if ok else 1
