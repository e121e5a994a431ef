"""The demo's command line: what scripts/demo takes, does and says."""

import argparse
import asyncio
import json
from pathlib import Path
import time

from homeassistant.const import __version__
from local_llm_engine.builtin import NANO_PATH
from local_llm_engine.chat import ChatFormat
from local_llm_engine.errors import ModelLoadError
from local_llm_engine.service import Engine

from .arguments import folder, new_file, port
from .client import Client, connected
from .core import PASSWORD, USER, Home, run_in_home
from .household import Household, move_in
from .once import Run

_INVITATION = """
  Open     {url}
  Log in   user {user}, password {password}

  Ask in the Assist dialog (the speech bubble, top right), in English:
    turn on the lights in the kitchen
    turn off the hallway ceiling light
    set the office thermostat to 23 degrees
    what is the weather like
  Ask the satellites, which know their room and keep timers: type into "Say" on their pages.
    turn on the lights
    set a timer for 2 minutes
{satellites}

Ctrl+C ends the demo and leaves nothing behind.
"""


def main() -> int:
    """Read the command line and run the demo."""
    options = _parser().parse_args()
    if options.json and not options.once:
        _parser().error("--json wants --once")
    if options.model:
        try:
            Engine.check(options.model)
        except ModelLoadError as error:
            _parser().error(f"this model cannot be loaded: {error}")
    print("Starting Home Assistant, which takes some seconds.", flush=True)
    return run_in_home(
        lambda home: _demo(home, options), port=options.port, verbose=options.verbose
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="scripts/demo",
        description="A real Home Assistant with a demo house that Local LLM answers for.",
    )
    parser.add_argument(
        "--once", action="store_true", help="ask six questions, judge the answers, end"
    )
    parser.add_argument(
        "--json",
        type=new_file,
        metavar="FILE",
        help="write what --once found to a file",
    )
    parser.add_argument(
        "--model", type=folder, metavar="FOLDER", help="answer from another model"
    )
    parser.add_argument(
        "--no-warm-up", action="store_true", help="read nothing before it is asked"
    )
    parser.add_argument(
        "--port",
        type=port,
        help="where to listen; 8123, or another where that is taken",
    )
    parser.add_argument(
        "--verbose", action="store_true", help="show Home Assistant's log"
    )
    return parser


async def _demo(home: Home, options: argparse.Namespace) -> int:
    """Move in, then ask or wait to be asked."""
    print(f"Home Assistant {__version__} runs on {home.url}.", flush=True)
    model: Path = options.model.resolve() if options.model else NANO_PATH
    async with connected(home.url, USER, PASSWORD) as client:
        start = time.monotonic()
        household = await move_in(
            client,
            model=str(model) if options.model else None,
            # A single run warms up itself, or not at all, so that its figures are its own.
            scheduled=not options.once and not options.no_warm_up,
        )
        _introduce(home, household, time.monotonic() - start)
        if options.once:
            chat = await asyncio.to_thread(ChatFormat.load, model)
            run = Run(
                home.hass, client, household, chat, warm_up=not options.no_warm_up
            )
            return await _once(run, options.json)
        if not options.no_warm_up:
            await _warm_up(client)
    return await _stay(home, household)


def _introduce(home: Home, household: Household, seconds: float) -> None:
    entry = home.hass.config_entries.async_get_known_entry(household.entry_id)
    status = entry.runtime_data.engine.status()
    print(
        f"The demo house: {household.num_exposed} exposed entities in {household.num_areas} areas, "
        f"satellites {', '.join(sorted(household.satellites))}.\n"
        f"Local LLM answers from {status.model.name} ({status.model.num_parameters / 1e6:.1f} million "
        f"parameters, {status.dtype} on {status.device}); moving in took {seconds:.1f} s.",
        flush=True,
    )


async def _once(run: Run, file: Path | None) -> int:
    report = await run.run()
    print(report)
    if file:
        text = json.dumps(report.as_json(), indent=2)
        await asyncio.to_thread(file.write_text, f"{text}\n", encoding="utf-8")
    print(
        "\nThe demo failed." if report.faults else "\nAll answers and states are right."
    )
    return 1 if report.faults else 0


async def _warm_up(client: Client) -> None:
    answer = await client.action("local_llm.warm_up")
    seconds = sum(prompt["seconds"] for prompt in answer["prompts"])
    print(f"Warmed up {len(answer['prompts'])} prompts in {seconds:.2f} s.", flush=True)


async def _stay(home: Home, household: Household) -> int:
    """Wait until somebody presses Ctrl+C."""
    satellites = "\n".join(
        f"    {name}: {home.url}/config/devices/device/{device_id}"
        for name, device_id in sorted(household.satellites.items())
    )
    print(
        _INVITATION.format(
            url=home.url, user=USER, password=PASSWORD, satellites=satellites
        ),
        flush=True,
    )
    try:
        await asyncio.Event().wait()
    except asyncio.CancelledError:
        print("\nThe demo ends.", flush=True)
    return 0
