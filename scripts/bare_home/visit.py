"""One visit to a bare Home Assistant: starts it, moves in, asks for light, and ends it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
import json
from pathlib import Path
import subprocess
from typing import Any

import aiohttp
from demo_house.client import Client, connected
from demo_house.core import DemoError, free_port
from demo_house.household import set_up_engine

from .folder import LIGHT, fill, unpack

QUESTION = "turn on the lights in the kitchen"
_START = Path(__file__).with_name("start.py")
_OUT, _LOG = "modules.json", "printed.log"
_USER = "bare"
_START_SECONDS = 120
_STOP_SECONDS = 20
_LOG_LINES_SHOWN = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What came of a visit: the light before and after, the answer, and the files of our modules.

    `complaints` are the lines of Home Assistant's log that name Local LLM.
    """

    before: str
    after: str
    answer: str
    modules: dict[str, str]
    complaints: list[str]


async def visit(
    archive: Path, config: Path, *, python: Path, packages: Path, install: bool
) -> Outcome:
    """Install a release into an empty folder and ask it for light.

    `python` runs Home Assistant with the packages in the folder `packages`. With `install` Home Assistant may
    install requirements of integrations there, as it does in a home.

    Raises:
        DemoError: Home Assistant did not start, or refuses a step.

    """
    port = await asyncio.to_thread(_prepare, archive, config)
    url = f"http://127.0.0.1:{port}"
    command = [python, "-I", "-S", _START, packages, "--config", config]
    if not install:
        command.append("--skip-pip")
    async with _running(command, config):
        await _onboard(url)
        async with connected(url, _USER, _USER) as client:
            before, after, answer = await _ask(client)
    modules, complaints = await asyncio.to_thread(_left_behind, config)
    return Outcome(
        before=before,
        after=after,
        answer=answer,
        modules=modules,
        complaints=complaints,
    )


def _prepare(archive: Path, config: Path) -> int:
    port = free_port(0)
    unpack(archive, config)
    fill(config, port)
    return port


def _left_behind(config: Path) -> tuple[dict[str, str], list[str]]:
    modules = (config / _OUT).read_text(encoding="utf-8")
    log = (config / _LOG).read_text(encoding="utf-8").splitlines()
    # Home Assistant says this of every integration that is not its own.
    complaints = [
        line
        for line in log
        if "local_llm" in line and "We found a custom integration" not in line
    ]
    return json.loads(modules), complaints


@asynccontextmanager
async def _running(command: list[Any], config: Path) -> AsyncIterator[None]:
    """Keep Home Assistant running; its last words are told where something fails."""
    process = await asyncio.to_thread(_start, command, config)
    try:
        yield
        process.terminate()
        await asyncio.to_thread(process.wait, _STOP_SECONDS)
    except Exception as error:
        words = await asyncio.to_thread(_last_words, config)
        raise DemoError(f"{error!r}\n{words}") from error
    finally:
        process.kill()
        await asyncio.to_thread(process.wait)


def _start(command: list[Any], config: Path) -> subprocess.Popen[bytes]:
    """Start Home Assistant; what it prints goes to files, which take all of it."""
    with (config / _OUT).open("wb") as out, (config / _LOG).open("wb") as log:
        return subprocess.Popen(command, cwd=config, stdout=out, stderr=log)


def _last_words(config: Path) -> str:
    lines = (config / _LOG).read_text(encoding="utf-8").splitlines()
    return "\n".join(lines[-_LOG_LINES_SHOWN:])


async def _onboard(url: str) -> None:
    """Wait until Home Assistant answers, and create its first user, as everybody's first visit does."""
    user = {
        "name": _USER,
        "username": _USER,
        "password": _USER,
        "client_id": f"{url}/",
        "language": "en",
    }
    async with asyncio.timeout(_START_SECONDS), aiohttp.ClientSession() as session:
        while True:
            try:
                async with session.post(
                    f"{url}/api/onboarding/users", json=user
                ) as response:
                    # Not there yet: the server listens before every integration is set up.
                    if response.status != 404:
                        response.raise_for_status()
                        return
            except aiohttp.ClientConnectionError:
                pass
            await asyncio.sleep(0.2)


async def _wait_until_running(client: Client) -> None:
    """Wait until every integration is set up."""
    async with asyncio.timeout(_START_SECONDS):
        while True:
            config = await client.command("get_config")
            if config["state"] == "RUNNING":
                return
            await asyncio.sleep(0.2)


async def _ask(client: Client) -> tuple[str, str, str]:
    """Put the light into the kitchen, set Local LLM up, and ask it over REST."""
    await _wait_until_running(client)
    await client.command(
        "config/entity_registry/update", entity_id=LIGHT, area_id="kitchen"
    )
    await client.command(
        "homeassistant/expose_entity",
        assistants=["conversation"],
        entity_ids=[LIGHT],
        should_expose=True,
    )
    await client.command(
        "call_service",
        domain="light",
        service="turn_off",
        target={"entity_id": LIGHT},
    )
    await set_up_engine(client)
    states = await client.states()
    agent = next(name for name in states if name.startswith("conversation.local_llm"))
    answer = await client.post(
        "/api/conversation/process",
        {"text": QUESTION, "language": "en", "agent_id": agent},
    )
    after = await client.states()
    return (
        states[LIGHT]["state"],
        after[LIGHT]["state"],
        str(answer["response"]["speech"]["plain"]["speech"]),
    )
