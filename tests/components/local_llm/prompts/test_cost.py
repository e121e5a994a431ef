"""What a change in a prompt costs, by the real engine's own count."""

from dataclasses import replace

import pytest
from pytest_homeassistant_custom_component.common import MockConfigEntry

from custom_components.local_llm.prompts.cost import (
    async_tokens_from,
    prefill_tokens_per_second,
    with_instructions,
)
from custom_components.local_llm.prompts.prompt import async_next_request
from custom_components.local_llm.satellites import Speaker
from custom_components.local_llm.settings import AgentSettings
from homeassistant.core import HomeAssistant
from local_llm_engine.types import ChatRequest

from ..conftest import AGENT

NOBODY = Speaker(None, None, "en")


@pytest.fixture
async def request_of_nobody(hass: HomeAssistant, entry: MockConfigEntry) -> ChatRequest:
    settings = AgentSettings.from_data(
        {"prompt": "Be kind.\nIt is {{ now() }}", "llm_hass_api": ["assist"]}
    )
    return await async_next_request(hass, AGENT, settings, NOBODY)


async def test_what_follows_a_change_is_what_is_read_again(
    entry: MockConfigEntry, request_of_nobody: ChatRequest
) -> None:
    """Measured: the engine reads the prompt, then one that differs in a single place."""
    engine = entry.runtime_data.engine
    before = with_instructions(request_of_nobody, "Be kind.\nIt is 7.\nBe brief.")
    after = with_instructions(request_of_nobody, "Be kind.\nIt is 8.\nBe brief.")
    place = before.messages[0].text.index("7.")
    tokens = (await async_tokens_from(engine, before, [place]))[place]
    await engine.warm_up(before)
    usage = await engine.warm_up(after)
    # A checkpoint stands where the texts part once that has happened; the first time, a stretch before it.
    await engine.warm_up(before)
    assert tokens <= usage.reread_tokens
    third = await engine.warm_up(
        with_instructions(request_of_nobody, "Be kind.\nIt is 9.\nBe brief.")
    )
    assert tokens <= third.reread_tokens <= tokens + 2
    assert third.reread_tokens < third.prompt_tokens


async def test_places_are_counted_from_the_start_to_the_end(
    entry: MockConfigEntry, request_of_nobody: ChatRequest
) -> None:
    engine = entry.runtime_data.engine
    text = request_of_nobody.messages[0].text
    places = [-1, 0, text.index("It is"), len(text) // 2, len(text), len(text) + 9]
    tokens = await async_tokens_from(engine, request_of_nobody, places)
    found = await engine.inspect(request_of_nobody)
    ordered = [tokens[place] for place in places]
    assert ordered == sorted(ordered, reverse=True)
    assert tokens[-1] == found.num_tokens
    # What closes the system message, and opens the question
    assert 0 < tokens[len(text)] == tokens[len(text) + 9] < 12


async def test_speed_is_that_of_prompts_worth_measuring(
    entry: MockConfigEntry, request_of_nobody: ChatRequest
) -> None:
    engine = entry.runtime_data.engine
    assert prefill_tokens_per_second(engine.status().records) is None
    for _ in range(2):
        await engine.warm_up(request_of_nobody)
    cold, warm = engine.status().records
    assert warm.usage.reread_tokens == 0
    # The test's clock stands still.
    assert prefill_tokens_per_second((cold, warm)) is None
    slow = replace(cold, usage=replace(cold.usage, prefill_seconds=2.0))
    assert prefill_tokens_per_second((slow, warm)) == cold.usage.reread_tokens / 2
