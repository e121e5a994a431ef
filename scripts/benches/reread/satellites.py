"""Many satellites in one house: what each reads, with foreign prompts between, and what all of them hold in memory."""

from dataclasses import replace

from local_llm_engine.prompts import Prompt
from local_llm_engine.types import ChatRequest

from ..state_sizes import StateSizes
from . import limits
from .asker import Asker
from .report import SHARE_OF_ONE, Memory
from .story import HEAT, LIGHTS, ping


async def rounds(asker: Asker, foreign: ChatRequest, sizes: StateSizes) -> None:
    """Let all ask in turn, twice, in a house that nobody has asked before; then again in no more memory than it takes."""
    await asker.restart_anew()
    one = await _first_round(asker, "one of many")
    _remember(asker, "After a question of each", one, None)
    await asker.foreign("a long chatbot's prompt", foreign)
    await asker.foreign("a ping", ping())
    await _second_round(asker, "one of many")
    limit_bytes = int(SHARE_OF_ONE * one) + await _own_bytes(asker, sizes)
    await asker.engine.start_anew(limit_bytes)
    # The peer's memory is not ours to choose.
    alone = replace(asker, peer=None)
    await _first_round(alone, "in little memory")
    _remember(asker, "In little memory", one, limit_bytes)
    await _second_round(alone, "in little memory")


async def warmed_up(asker: Asker, sizes: StateSizes) -> None:
    """Warm all up, in a house that nobody has asked before."""
    await asker.engine.start_anew()
    first, *others = asker.house.satellites
    await _warm_up(asker, first)
    one = _held_bytes(asker)
    for satellite in others:
        await _warm_up(asker, satellite)
    limit_bytes = int(SHARE_OF_ONE * one) + await _own_bytes(asker, sizes)
    _remember(asker, "Warmed up", one, limit_bytes)


async def _first_round(asker: Asker, scenario: str) -> int:
    """Let all ask for the first time; returns the bytes held for the first of them."""
    first, *others = asker.house.satellites
    await asker.ask(f"{scenario}, first of all", first, LIGHTS, limits.everything)
    one = _held_bytes(asker)
    told = f"{scenario}, first time"
    for satellite in others:
        await asker.ask(told, satellite, LIGHTS, limits.device, group=told)
    return one


async def _second_round(asker: Asker, scenario: str) -> None:
    told = f"{scenario}, again"
    for satellite in asker.house.satellites:
        await asker.ask(told, satellite, HEAT, group=told)


async def _warm_up(asker: Asker, satellite: str) -> None:
    await asker.engine.warm_up((await asker.house.ask(satellite, LIGHTS)).ours)


def _remember(asker: Asker, what: str, one: int, limit_bytes: int | None) -> None:
    asker.report.memory.append(
        Memory(
            what=what,
            num_satellites=len(asker.house.satellites),
            bytes_of_one=one,
            bytes_of_all=_held_bytes(asker),
            limit_bytes=limit_bytes,
        )
    )


async def _own_bytes(asker: Asker, sizes: StateSizes) -> int:
    """Sum, over all satellites, the bytes of one checkpoint and of the KV of its own section."""
    prompts: list[Prompt] = [
        await asker.prepare((await asker.house.ask(satellite, LIGHTS)).ours)
        for satellite in asker.house.satellites
    ]
    return sum(
        sizes.checkpoint_bytes + limits.section_tokens(prompt) * sizes.token_bytes
        for prompt in prompts
    )


def _held_bytes(asker: Asker) -> int:
    return asker.engine.status().prompt_cache_bytes
