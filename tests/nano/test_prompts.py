"""Nano's prompts, made without a running Home Assistant, are what the integration sends through a real one."""

from datetime import date
from random import Random

from benches.nano_bench.home import AGENT, nano_home
from freezegun.api import FrozenDateTimeFactory
from nano.building import build_house, random_speaker
from nano.house import Speaker
from nano.prompts import system_parts
from nano.states import live_context
from nano.words import words_of
import pytest

from custom_components.local_llm.prompts.house_api import HouseAPI
from custom_components.local_llm.prompts.prompt import async_next_request
from custom_components.local_llm.satellites import Speaker as Asker
from custom_components.local_llm.settings import AgentSettings, default_agent_data
from homeassistant.core import Context, HomeAssistant
from homeassistant.helpers import llm


@pytest.mark.parametrize(
    ("seed", "language", "num_things", "has_device"),
    [
        (1, "en", 24, True),
        (2, "en", 40, True),
        (3, "de", 12, True),
        (4, "ja", 12, False),
        (5, "en", 5, False),
        (6, "fr", 30, True),
    ],
)
async def test_prompt_is_the_integrations_own(
    hass: HomeAssistant,
    freezer: FrozenDateTimeFactory,
    seed: int,
    language: str,
    num_things: int,
    has_device: bool,
) -> None:
    freezer.move_to("2026-12-01 14:05:00")
    random = Random(seed)
    house = build_house(random, words_of(language), num_things)
    speaker = random_speaker(random, house) if has_device else Speaker(device=False)
    async with nano_home(hass, house, speaker) as home:
        request = await async_next_request(
            hass,
            AGENT,
            AgentSettings.from_data(default_agent_data("builtin")),
            Asker(None, home.device_id, language),
        )
    assert request.messages[0].content == system_parts(
        house, speaker, date(2026, 12, 1)
    )


@pytest.mark.parametrize("seed", [1, 2])
async def test_live_context_is_home_assistants_own(
    hass: HomeAssistant, seed: int
) -> None:
    house = build_house(Random(seed), words_of("en"), 60)
    speaker = Speaker(device=False)
    async with nano_home(hass, house, speaker):
        context = llm.LLMContext(
            platform="local_llm",
            context=Context(),
            language="en",
            assistant="conversation",
            device_id=None,
        )
        api = HouseAPI(hass, AGENT, [llm.LLM_API_ASSIST])
        instance = await api.async_get_api_instance(context)
        told = await instance.async_call_tool(
            llm.ToolInput("homeassistant__GetLiveContext", {})
        )
    assert told.data["result"].split("\n- ") == live_context(house.things)[
        "result"
    ].split("\n- ")
