"""Looking into a prompt: what it is made of, what is known of it, and where it differs."""

from typing import Any
from unittest.mock import patch

import pytest
from pytest_homeassistant_custom_component.common import MockConfigEntry, MockUser

from custom_components.local_llm.const import DOMAIN
from custom_components.local_llm.prompts.lines import (
    Difference,
    PromptLine,
    first_difference,
    lines_of,
)
from homeassistant.core import Context, HomeAssistant
from homeassistant.exceptions import (
    HomeAssistantError,
    ServiceValidationError,
    Unauthorized,
)
from homeassistant.helpers import entity_registry as er
from local_llm_engine.errors import EngineClosedError
from local_llm_engine.prompts import Checkpoint
from local_llm_engine.types import ChatRequest, Message, TextPart, ToolSpec

from ..conftest import AGENT, AddScripted, ask
from ..scripted import ScriptedEngine, says

KITCHEN = "assist_satellite.kitchen_voice"
BEDROOM = "assist_satellite.bedroom_voice"
TEMPLATE_TOKENS = 12


async def inspect(hass: HomeAssistant, **data: object) -> dict[str, Any]:
    response = await hass.services.async_call(
        DOMAIN, "inspect_prompt", data, blocking=True, return_response=True
    )
    assert response is not None
    return response


async def warm_up(hass: HomeAssistant, **data: object) -> None:
    await hass.services.async_call(DOMAIN, "warm_up", data, blocking=True)


async def test_shows_what_the_real_engine_knows(
    hass: HomeAssistant, entry: MockConfigEntry
) -> None:
    """And the question that follows reads just what was said that it would."""
    cold = await inspect(hass, satellite=KITCHEN)
    assert cold["reread_tokens"] == cold["prompt_tokens"] > 90
    assert (cold["known_tokens"], cold["checkpoints"]) == (0, [])
    assert [segment["name"] for segment in cold["segments"]] == [
        "instructions",
        "house",
        "date",
        "device",
        "question",
    ]
    tokens = [segment["tokens"] for segment in cold["segments"]]
    assert sum(tokens) == cold["prompt_tokens"]
    assert entry.runtime_data.engine.status().records == ()
    await warm_up(hass, satellite=KITCHEN)
    other = await inspect(hass, satellite=BEDROOM)
    assert other["resumes_at"] == sum(tokens[:3])
    assert {checkpoint["tier"] for checkpoint in other["checkpoints"]} == {"ram"}
    assert other["checkpoints"][-1]["token"] == other["resumes_at"]
    assert other["resumes_at"] in other["breakpoints"]
    await ask(hass, "what time is it", "Bedroom Voice")
    usage = entry.runtime_data.engine.status().records[1].usage
    around = usage.reread_tokens - usage.question_tokens - other["reread_tokens"]
    assert 0 <= around <= TEMPLATE_TOKENS
    warm = await inspect(hass, satellite=KITCHEN)
    assert warm["reread_tokens"] == 0


async def test_shows_the_text_where_it_is_asked_for(
    hass: HomeAssistant, entry: MockConfigEntry
) -> None:
    shown = await inspect(hass, satellite=KITCHEN, show_text=True)
    text = {segment["name"]: segment["text"] for segment in shown["segments"]}
    assert text["date"] == "Today is Monday, 30 November 2026.\n"
    assert "You are in area Kitchen" in text["device"]
    shown = await inspect(hass, satellite=KITCHEN)
    assert all("text" not in segment for segment in shown["segments"])


async def test_names_the_first_line_that_another_satellite_has_not(
    hass: HomeAssistant, scripted: AddScripted
) -> None:
    await scripted()
    shown = await inspect(hass, satellite=KITCHEN, compare_with=BEDROOM)
    assert (shown["satellite"], shown["language"]) == (KITCHEN, "en")
    assert shown["compared_with"] == BEDROOM
    difference = shown["difference"]
    assert difference["segment"] == "device"
    assert difference["here"].startswith("You are in area Kitchen")
    assert difference["there"].startswith("You are in area Bedroom")
    assert difference["line"] > 40
    same = await inspect(hass, satellite=KITCHEN, compare_with=KITCHEN)
    assert (same["compared_with"], same["difference"]) == (KITCHEN, None)


async def test_compares_with_the_last_prompt_that_was_sent(
    hass: HomeAssistant, scripted: AddScripted
) -> None:
    engine: ScriptedEngine = await scripted(says("Yes."))
    engine.checkpoints = (Checkpoint(40, "disk"), Checkpoint(120, "slot"))
    fresh = await inspect(hass, satellite=KITCHEN)
    assert (fresh["compared_with"], fresh["difference"]) == (None, None)
    assert fresh["checkpoints"] == [
        {"token": 40, "tier": "disk"},
        {"token": 120, "tier": "slot"},
    ]
    assert fresh["reread_tokens"] == fresh["prompt_tokens"] - 120
    await ask(hass, "hello", "Kitchen Voice")
    await hass.async_block_till_done(wait_background_tasks=True)
    er.async_get(hass).async_update_entity("light.kitchen_floor_lamp", name="Old Lamp")
    await hass.async_block_till_done()
    for _ in range(2):
        # Looking is not sending.
        shown = await inspect(hass, satellite=KITCHEN)
        assert shown["compared_with"] == "last_prompt"
        assert shown["difference"]["segment"] == "house"
        assert shown["difference"]["there"] == "- names: Kitchen Floor Lamp"
    await warm_up(hass)
    shown = await inspect(hass, satellite=KITCHEN)
    assert shown["difference"] is None
    nobody = await inspect(hass)
    assert (nobody["satellite"], nobody["compared_with"]) == (None, "last_prompt")


async def test_looks_at_the_agent_that_is_named(
    hass: HomeAssistant, scripted: AddScripted
) -> None:
    await scripted()
    assert (await inspect(hass, agent=AGENT))["agent"] == AGENT
    with pytest.raises(ServiceValidationError, match=r"conversation\.other is not an"):
        await inspect(hass, agent="conversation.other")
    with pytest.raises(ServiceValidationError, match=r"assist_satellite\.porch is not"):
        await inspect(hass, satellite="assist_satellite.porch")
    er.async_get(hass).async_update_entity(
        AGENT, disabled_by=er.RegistryEntryDisabler.USER
    )
    with pytest.raises(ServiceValidationError, match=r"conversation\.\* is not an"):
        await inspect(hass)


async def test_refuses_without_an_engine(
    hass: HomeAssistant, scripted: AddScripted
) -> None:
    engine = await scripted()
    with (
        patch.object(engine, "inspect", side_effect=EngineClosedError("closed")),
        pytest.raises(HomeAssistantError, match="The engine was stopped"),
    ):
        await inspect(hass)
    (entry,) = hass.config_entries.async_entries(DOMAIN)
    await hass.config_entries.async_unload(entry.entry_id)
    with pytest.raises(ServiceValidationError, match="No engine of Local LLM"):
        await inspect(hass)


async def test_a_prompt_is_for_administrators(
    hass: HomeAssistant, scripted: AddScripted, hass_read_only_user: MockUser
) -> None:
    await scripted()
    with pytest.raises(Unauthorized):
        await hass.services.async_call(
            DOMAIN,
            "inspect_prompt",
            {},
            blocking=True,
            return_response=True,
            context=Context(user_id=hass_read_only_user.id),
        )


def request(*parts: tuple[str, str], tools: tuple[ToolSpec, ...] = ()) -> ChatRequest:
    content = [TextPart(text=text, segment=segment) for segment, text in parts]
    return ChatRequest(
        messages=(
            Message(role="system", content=content),
            Message(role="user", content="Hello"),
        ),
        tools=tools,
    )


def test_lines_know_where_they_stand() -> None:
    prompt = request(
        ("house", "a\n\nb\n"),
        ("date", "c"),
        tools=(ToolSpec(name="t", description="x\ny"),),
    )
    lines = lines_of(prompt)
    assert lines == (
        PromptLine("tools", "t: x", -1),
        PromptLine("tools", "y", -1),
        PromptLine("tools", 't {"type": "object", "properties": {}}', -1),
        PromptLine("house", "a", 0),
        PromptLine("house", "", 2),
        PromptLine("house", "b", 3),
        PromptLine("date", "c", 5),
    )
    text = prompt.messages[0].text
    assert all(
        text[line.position :].startswith(line.text)
        for line in lines
        if line.position >= 0
    )


@pytest.mark.parametrize(
    ("here", "there", "expected"),
    [
        ("a\nb", "a\nb", None),
        ("a\nb", "a\nc", Difference(2, "house", "b", "c")),
        ("a\nb", "a", Difference(2, "house", "b", None)),
        ("a", "a\nb", Difference(2, "house", None, "b")),
    ],
)
def test_the_first_difference(
    here: str, there: str, expected: Difference | None
) -> None:
    ours, theirs = (lines_of(request(("house", text))) for text in (here, there))
    assert first_difference(ours, theirs) == expected
