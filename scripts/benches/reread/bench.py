"""The bench itself: sets everything up, goes through the story, and tells what was found."""

import argparse
import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
import json
from pathlib import Path
import tempfile

from demo_house.client import connected
from demo_house.core import PASSWORD, USER, Home, run_in_home
from demo_house.folder import ROOT
from demo_house.household import move_in
import torch

from local_llm_engine.builtin import NANO_PATH
from local_llm_engine.cache.placement import grid_interval
from local_llm_engine.chat import ChatFormat
from local_llm_engine.config import EngineConfig
from local_llm_engine.models.architectures import read_config
from local_llm_engine.sampling import SamplingParams
from local_llm_engine.types import ChatRequest, Message

from ..peers import peer_fault
from ..random_weights import random_model
from ..state_sizes import StateSizes
from . import satellites, story
from .asker import Asker
from .chart import draw
from .engine import RestartableEngine
from .house import House
from .peer import DEFAULT_THREADS, Peer
from .report import Report

_SATELLITES, _FEW_SATELLITES = 40, 4
_CHATBOT_TOKENS, _LONG_CHATBOT_TOKENS, _SHORT_CHATBOT_TOKENS = 6_222, 14_000, 600
_MODELS = ROOT / ".local/models"
_WORDS = ("and", "as", "at", "be", "but", "by", "for", "had", "his", "that", "was")
_SAMPLE_WORDS = 1_000


def bench(options: argparse.Namespace) -> int:
    """Go through the story in a demo house, print, and return 0 where every limit holds."""
    if fault := peer_fault(options):
        print(fault)
        return 2
    folder = _model_folder(options)
    reports: list[Report] = []

    async def measure(home: Home) -> int:
        reports.append(await _measure(home, options, folder))
        return 0

    code = run_in_home(measure, port=0, verbose=False)
    return code or _tell(reports[0], options)


async def _measure(home: Home, options: argparse.Namespace, folder: Path) -> Report:
    with tempfile.TemporaryDirectory(prefix="local-llm-bench-") as name:
        async with _asker(home, options, folder, Path(name)) as asker:
            await _tell_story(asker, options, folder)
            return asker.report


def _model_folder(options: argparse.Namespace) -> Path:
    if options.random_weights:
        print(f"Writing random weights to {_MODELS}, where they are not there yet.")
        return random_model(options.random_weights, _MODELS)
    model: Path = options.model or NANO_PATH
    return model.resolve()


@asynccontextmanager
async def _asker(
    home: Home, options: argparse.Namespace, folder: Path, own: Path
) -> AsyncIterator[Asker]:
    """Move in, and have engine and peer answer; `own` is a folder for what they write."""
    config = EngineConfig(
        device=options.device,
        num_threads=options.threads,
        cache_folder=own / "prompts",
    )
    engine = RestartableEngine(folder, config)
    peer = _peer(options, own)
    async with connected(home.url, USER, PASSWORD) as client:
        # Home Assistant itself is content with the built-in model: ours takes its place.
        household = await move_in(client, model=None, scheduled=False)
    try:
        await engine.start()
        if peer:
            await peer.start()
        house = House(home, household, engine)
        await house.open(_FEW_SATELLITES if options.quick else _SATELLITES)
        yield Asker(
            house=house,
            engine=engine,
            peer=peer,
            chat=await asyncio.to_thread(ChatFormat.load, folder),
            report=Report(
                model=engine.status().model.name,
                peer=options.peer_model.name if peer else None,
            ),
        )
    finally:
        await engine.stop()
        if peer:
            await peer.stop()


def _peer(options: argparse.Namespace, own: Path) -> Peer | None:
    if not options.peer:
        return None
    return Peer(
        options.peer.resolve(),
        options.peer_model.resolve(),
        threads=options.threads or DEFAULT_THREADS,
        log=own / "peer.log",
    )


async def _tell_story(asker: Asker, options: argparse.Namespace, folder: Path) -> None:
    status = asker.engine.status()
    config = await asyncio.to_thread(read_config, folder)
    sizes = StateSizes.of(config, getattr(torch, status.dtype))
    interval = grid_interval(
        checkpoint_bytes=sizes.checkpoint_bytes,
        context_length=status.context_length,
        budget_bytes=status.prompt_cache_limit_bytes,
    )
    chatbot, long_chatbot = (
        (_SHORT_CHATBOT_TOKENS, _SHORT_CHATBOT_TOKENS)
        if options.quick
        else (_CHATBOT_TOKENS, _LONG_CHATBOT_TOKENS)
    )
    await story.known_cases(asker, await _chatbot(asker, chatbot))
    await story.times(asker, interval or 0)
    await story.midnight(asker)
    await story.renamed(asker, interval or 0)
    await story.added(asker, interval or 0)
    await story.restarted(asker)
    await story.conversation(asker, scripted=bool(options.random_weights))
    await satellites.rounds(asker, await _chatbot(asker, long_chatbot), sizes)
    await satellites.warmed_up(asker, sizes)


async def _chatbot(asker: Asker, num_tokens: int) -> ChatRequest:
    """Ask as another program with a long prompt of its own does, in about as many of the model's tokens."""
    sample = await asker.prepare(_foreign(_SAMPLE_WORDS))
    return _foreign(_SAMPLE_WORDS * num_tokens // len(sample.token_ids))


def _foreign(num_words: int) -> ChatRequest:
    words = (_WORDS[number**2 % len(_WORDS)] for number in range(num_words))
    return ChatRequest(
        messages=(
            Message(role="system", content=" ".join(words)),
            Message(role="user", content="tell me more"),
        ),
        sampling=SamplingParams(temperature=0, max_tokens=1),
        session="chatbot",
    )


def _tell(report: Report, options: argparse.Namespace) -> int:
    beside = f" beside llama-server on {report.peer}" if report.peer else ""
    print(f"\nRe-read tokens of {report.model}{beside}\n\n{report}")
    if options.json:
        text = json.dumps(report.as_json(), indent=2)
        options.json.write_text(f"{text}\n", encoding="utf-8")
    if options.chart:
        draw(report, options.chart)
    print("\nEvery limit holds." if report.ok else "\nA limit is broken: see NO above.")
    return 0 if report.ok else 1
