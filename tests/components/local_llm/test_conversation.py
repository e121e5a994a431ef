"""Questions to the agent in a small house, answered by the real engine."""

import pytest
from pytest_homeassistant_custom_component.common import MockConfigEntry
from pytest_homeassistant_custom_component.typing import WebSocketGenerator

from homeassistant.components.assist_satellite.const import DATA_COMPONENT
from homeassistant.components.conversation import ConversationEntityFeature
from homeassistant.components.intent import TimerEventType
from homeassistant.core import HomeAssistant
from local_llm_engine.types import Outcome

from .conftest import AGENT, ask, speech
from .house import LIGHTS, HouseSatellite, device_id


def lit(hass: HomeAssistant) -> set[str]:
    """The names of the lights that are on."""
    return {
        state.name for state in hass.states.async_all("light") if state.state == "on"
    }


async def test_turns_on_a_named_light(
    hass: HomeAssistant, entry: MockConfigEntry
) -> None:
    result = await ask(hass, "Turn on the Kitchen Ceiling Light", "Bedroom Voice")
    assert lit(hass) == {"Kitchen Ceiling Light"}
    assert speech(result) == "Turned on the Kitchen Ceiling Light."


async def test_turns_on_the_lights_of_the_satellites_room(
    hass: HomeAssistant, entry: MockConfigEntry
) -> None:
    result = await ask(hass, "turn on the lights", "Kitchen Voice")
    assert lit(hass) == {name for name, room in LIGHTS if room == "Kitchen"}
    assert speech(result) == "Turned on the lights in the Kitchen."


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("what time is it", "It is 14:05."),
        ("what is the weather like", "It is cloudy and 18 degrees."),
    ],
    ids=["time", "weather"],
)
async def test_answers_with_a_tool(
    hass: HomeAssistant, entry: MockConfigEntry, question: str, answer: str
) -> None:
    assert speech(await ask(hass, question, "Kitchen Voice")) == answer
    assert lit(hass) == set()


async def test_starts_a_timer_on_the_satellite(
    hass: HomeAssistant, entry: MockConfigEntry
) -> None:
    await ask(hass, "set a timer for 5 minutes", "Kitchen Voice")
    heard = {
        satellite.entity_id: satellite.timer_events
        for satellite in hass.data[DATA_COMPONENT].entities
        if isinstance(satellite, HouseSatellite)
    }
    assert heard == {
        "assist_satellite.kitchen_voice": [TimerEventType.STARTED],
        "assist_satellite.bedroom_voice": [],
        "assist_satellite.office_voice": [],
    }


async def test_a_second_question_reads_on_from_the_first(
    hass: HomeAssistant, entry: MockConfigEntry
) -> None:
    first = await ask(hass, "Turn on the Kitchen Ceiling Light", "Kitchen Voice")
    await ask(
        hass, "what time is it", "Kitchen Voice", conversation_id=first.conversation_id
    )
    records = entry.runtime_data.engine.status().records
    assert [record.outcome for record in records[1:]] == [Outcome.CONTINUED] * 3
    follow_up = records[2].usage
    assert follow_up.reread_tokens <= follow_up.question_tokens + 24


async def test_speaks_through_the_assist_pipeline(
    hass: HomeAssistant,
    hass_ws_client: WebSocketGenerator,
    socket_enabled: None,
    entry: MockConfigEntry,
) -> None:
    client = await hass_ws_client(hass)
    await client.send_json_auto_id(
        {
            "type": "assist_pipeline/run",
            "start_stage": "intent",
            "end_stage": "intent",
            "input": {"text": "what time is it"},
            "device_id": device_id(hass, "Kitchen Voice"),
        }
    )
    assert (await client.receive_json())["success"]
    events = []
    while not events or events[-1]["type"] != "run-end":
        events.append((await client.receive_json())["event"])
    deltas = [
        event["data"]["chat_log_delta"]
        for event in events
        if event["type"] == "intent-progress"
    ]
    assert deltas[0] == {"role": "assistant"}
    assert "".join(delta.get("content") or "" for delta in deltas) == "It is 14:05."


async def test_agent_is_offered_for_every_language_and_for_control(
    hass: HomeAssistant, entry: MockConfigEntry
) -> None:
    state = hass.states.get(AGENT)
    assert state is not None
    assert state.attributes["supported_features"] == ConversationEntityFeature.CONTROL
    entity = hass.data["conversation"].get_entity(AGENT)
    assert entity.supported_languages == "*"
    assert entity.supports_streaming
