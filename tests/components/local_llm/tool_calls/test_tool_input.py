"""Tool calls as small models write them end in the right action or in words for the model, and are never spoken."""

from collections.abc import AsyncGenerator
from typing import Any
from unittest.mock import Mock, patch

import pytest
from pytest_homeassistant_custom_component.common import async_capture_events
from pytest_homeassistant_custom_component.typing import WebSocketGenerator

from custom_components.local_llm.const import MAX_TOOL_ROUNDS
from custom_components.local_llm.tool_calls.targets import UnclearCallError
from custom_components.local_llm.tool_calls.tool_input import ToolCalls
from homeassistant.core import HomeAssistant, State
from local_llm_engine.types import ToolCall

from ..conftest import AddEntry, ask, speech
from ..foreign_models import FOREIGN
from ..furniture import async_furnish, put_back
from ..house import FURNITURE
from ..raw_answers import RawEngine
from ..small_models import (
    MARKUP,
    NAMES,
    PROSE,
    TARGETS,
    TOOL_NAMES,
    VALUES,
    Row,
    json_call,
    xml_call,
)

GROUPS = {
    "markup": MARKUP,
    "prose": PROSE,
    "tools": TOOL_NAMES,
    "names": NAMES,
    "targets": TARGETS,
    "values": VALUES,
    "languages": FOREIGN,
}
_WATCHED = (
    "brightness",
    "current_position",
    "percentage",
    "rgb_color",
    "temperature",
    "volume_level",
)


@pytest.fixture
async def engine(
    hass: HomeAssistant, home: None, add_entry: AddEntry
) -> AsyncGenerator[RawEngine]:
    """Load an engine that writes raw texts in a furnished house."""
    await async_furnish(hass)
    engine = RawEngine()
    with patch("custom_components.local_llm.async_load_engine", return_value=engine):
        await add_entry()
        yield engine


def picture(hass: HomeAssistant) -> dict[str, dict[str, Any]]:
    """What everything in the house is and does."""
    return {state.entity_id: _seen(state) for state in hass.states.async_all()}


def _seen(state: State) -> dict[str, Any]:
    seen = {key: state.attributes.get(key) for key in _WATCHED}
    percent = round((seen["brightness"] or 0) / 2.55)
    volume = round(seen["volume_level"] or 0, 3)
    # A lamp that is merely switched on goes to the brightness it had.
    known = {"brightness": percent % 100, "volume_level": volume}
    return {"state": state.state, **seen, **known}


def changes(
    before: dict[str, dict[str, Any]], after: dict[str, dict[str, Any]]
) -> dict[str, dict[str, Any]]:
    """What differs between two pictures of the house, entity by entity."""
    return {
        entity_id: {
            key: value
            for key, value in seen.items()
            if value != before.get(entity_id, {}).get(key)
        }
        for entity_id, seen in after.items()
        if seen != before.get(entity_id) and not entity_id.startswith("conversation.")
    }


async def outcome(
    hass: HomeAssistant, engine: RawEngine, row: Row, *, spelled: bool
) -> tuple[Any, str, str | None]:
    """Let the model write; return what has changed, what was said, and the model's last tool result."""
    put_back(hass)
    await hass.async_block_till_done()
    before = picture(hass)
    engine.write_raw(row.raw, "Done.", spelled=spelled)
    result = await ask(hass, "please", "Kitchen Voice")
    await hass.async_block_till_done()
    told = engine.requests[-1].messages[-1]
    return (
        changes(before, picture(hass)),
        speech(result),
        told.text if told.role == "tool" and '"error' in told.text else None,
    )


@pytest.mark.parametrize("group", GROUPS)
async def test_each_answer_does_what_is_meant_and_nothing_else(
    hass: HomeAssistant, engine: RawEngine, group: str
) -> None:
    wrong = []
    for name, row in GROUPS[group].items():
        for spelled in (False, True):
            changed, said, told = await outcome(hass, engine, row, spelled=spelled)
            is_told = row.told in told if row.told and told else row.told == told
            if (changed, said, is_told) != (row.changes, row.says, True):
                wrong.append(f"{name}, {spelled=}: {changed}, {said!r}, told {told}")
    assert not wrong, "\n" + "\n".join(wrong)


def test_the_table_is_as_long_as_it_should_be() -> None:
    assert sum(map(len, GROUPS.values())) >= 50


async def test_without_an_api_no_call_is_carried_out(hass: HomeAssistant) -> None:
    call = ToolCall(id="1", name="HassTurnOn", arguments={})
    with pytest.raises(UnclearCallError, match="There are no tools"):
        ToolCalls(hass, None).async_input(call)


async def test_the_history_shows_the_call_that_was_carried_out(
    hass: HomeAssistant, engine: RawEngine
) -> None:
    engine.write_raw(xml_call("HassTurnOn", name="the porch"), "Done.", spelled=False)
    await ask(hass, "please")
    (call,) = engine.requests[1].messages[-2].tool_calls
    assert (call.name, call.arguments) == ("intent__HassTurnOn", {"name": "Porch"})


async def test_the_model_tries_again_with_what_it_was_told(
    hass: HomeAssistant, engine: RawEngine
) -> None:
    engine.write_raw(
        xml_call("HassTurnOn", name="Ofice Flor Lamp"),
        xml_call("HassTurnOn", name="Office Floor Lamp"),
        "Done.",
        spelled=False,
    )
    assert speech(await ask(hass, "please")) == "Done."
    assert hass.states.get("light.office_floor_lamp").state == "on"
    (refused,) = engine.requests[1].messages[-2].tool_calls
    assert refused.arguments == {"name": "Ofice Flor Lamp"}


async def test_a_script_takes_what_is_meant(
    hass: HomeAssistant, engine: RawEngine
) -> None:
    runs = async_capture_events(hass, "movie_night")
    call = '{"name": "movie_night", "arguments": {"loudness": "40%", "rooms": "Attic", "lights_off": "TRUE", "mode": "Cinema"}}'
    engine.write_raw(json_call(call), "Done.", spelled=False)
    await ask(hass, "film")
    assert [run.data for run in runs] == [
        {"volume": 40, "rooms": ["Attic"], "lights_off": True, "mode": "cinema"}
    ]


async def test_a_timer_takes_a_duration(hass: HomeAssistant, engine: RawEngine) -> None:
    engine.write_raw(
        xml_call("HassStartTimer", duration="5 minutes"), "Done.", spelled=False
    )
    await ask(hass, "timer", "Kitchen Voice")
    kitchen, *_ = hass.data[FURNITURE]["assist_satellite"]
    assert kitchen.timer_seconds == [300]


async def test_a_tool_that_breaks_is_told_to_the_model(
    hass: HomeAssistant, engine: RawEngine, caplog: pytest.LogCaptureFixture
) -> None:
    engine.write_raw(xml_call("llm__GetDateTime"), "I cannot.", spelled=False)
    broken = Mock(side_effect=IndexError("secret"))
    with patch("homeassistant.components.llm.llm.GetDateTimeTool.async_call", broken):
        assert speech(await ask(hass, "time")) == "I cannot."
    assert engine.requests[1].messages[-1].text == (
        '{"error": "ToolFailed", "error_text": "The tool failed: IndexError."}'
    )
    assert "The tool llm__GetDateTime failed" in caplog.text


async def test_the_apology_after_too_many_rounds_is_streamed(
    hass: HomeAssistant,
    hass_ws_client: WebSocketGenerator,
    socket_enabled: None,
    engine: RawEngine,
) -> None:
    call = xml_call("HassTurnOn", name="Sauna")
    engine.write_raw(f"One moment.\n{call}", spelled=False)
    client = await hass_ws_client(hass)
    run = {"start_stage": "intent", "end_stage": "intent", "input": {"text": "sauna"}}
    await client.send_json_auto_id({"type": "assist_pipeline/run", **run})
    assert (await client.receive_json())["success"]
    events: list[dict[str, Any]] = [{"type": ""}]
    while events[-1]["type"] != "run-end":
        events.append((await client.receive_json())["event"])
    deltas = [
        event["data"]["chat_log_delta"]
        for event in events
        if event["type"] == "intent-progress" and "chat_log_delta" in event["data"]
    ]
    apology = "Sorry, I tried several times and could not get this done."
    assert deltas[-1] == {"role": "assistant", "content": apology}
    spoken = [
        text
        for delta in deltas
        if delta.get("role", "assistant") == "assistant"
        and (text := delta.get("content"))
    ]
    assert "".join(spoken) == "One moment." * MAX_TOOL_ROUNDS + apology
