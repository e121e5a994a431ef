"""Rounds of answers and tools, with an engine that says what the test wants."""

import asyncio
from unittest.mock import Mock, patch

import pytest
from pytest_homeassistant_custom_component.common import async_capture_events

from custom_components.local_llm.const import MAX_TOOL_ROUNDS
from custom_components.local_llm.prompts.house_api import HouseInstance
from homeassistant.components import conversation
from homeassistant.components.homeassistant import exposed_entities
from homeassistant.core import Context, HomeAssistant
from homeassistant.helpers import area_registry as ar, device_registry as dr, intent
from homeassistant.setup import async_setup_component
from local_llm_engine.errors import (
    ContextLengthError,
    EngineClosedError,
    EngineError,
    GenerationError,
    InvalidRequestError,
)
from local_llm_engine.types import (
    ContentDelta,
    FinishDelta,
    FinishReason,
    InvalidToolCallDelta,
    Outcome,
    Purpose,
    ThinkingDelta,
)

from .conftest import AGENT, AddScripted, ask, chat_log, speech
from .house import area_id, device_id
from .scripted import USAGE, calls, says

GARBLED = [
    InvalidToolCallDelta(
        id="call-1", name="intent__HassTurnOn", error="the call was cut short"
    ),
    FinishDelta(FinishReason.TOOL_CALLS, USAGE),
]


async def refusal(hass: HomeAssistant, text: str) -> str:
    """Ask what ends in an error, and return the words it is told in."""
    result = await ask(hass, text)
    assert result.response.error_code is intent.IntentResponseErrorCode.UNKNOWN
    return speech(result)


async def test_runs_a_tool_and_answers_with_its_result(
    hass: HomeAssistant, scripted: AddScripted
) -> None:
    engine = await scripted(
        calls("intent__HassTurnOn", name="Office Floor Lamp"), says("It is on.")
    )
    assert speech(await ask(hass, "light please")) == "It is on."
    assert hass.states.get("light.office_floor_lamp").state == "on"
    question, call, result = engine.requests[1].messages[1:]
    assert question.text == "light please"
    assert call.tool_calls[0].arguments == {"name": "Office Floor Lamp"}
    assert (
        result.text
        == '{"speech": {}, "response_type": "action_done", "data": {"success": ["Office Floor Lamp"], "failed": []}}'
    )
    assert result.tool_call_id == call.tool_calls[0].id


async def test_model_sees_what_was_wrong_with_a_call_and_tries_again(
    hass: HomeAssistant, scripted: AddScripted
) -> None:
    engine = await scripted(
        GARBLED, calls("intent__HassTurnOn", name="Office Floor Lamp"), says("Done.")
    )
    assert speech(await ask(hass, "light please")) == "Done."
    assert hass.states.get("light.office_floor_lamp").state == "on"
    assert (
        engine.requests[1].messages[-1].text
        == '{"error": "InvalidToolCall", "error_text": "the call was cut short"}'
    )


async def test_model_is_told_of_a_tool_that_is_not_there(
    hass: HomeAssistant, scripted: AddScripted
) -> None:
    engine = await scripted(calls("door__Open"), says("I cannot."))
    assert speech(await ask(hass, "open the door")) == "I cannot."
    assert "door__Open" in engine.requests[1].messages[-1].text


async def test_model_is_told_of_a_tool_that_the_device_lacks(
    hass: HomeAssistant, scripted: AddScripted
) -> None:
    engine = await scripted(
        calls("intent__HassStartTimer", minutes=5), says("I cannot keep timers.")
    )
    await ask(hass, "set a timer", "Bedroom Voice")
    told = engine.requests[1].messages[-1].text
    assert "NotAvailableOnThisDevice" in told
    assert "tell the user that this device cannot do it" in told


async def test_unknown_area_changes_nothing(
    hass: HomeAssistant, scripted: AddScripted
) -> None:
    engine = await scripted(
        calls("intent__HassTurnOn", area="Sauna", domain=["light"]),
        says("There is no sauna."),
    )
    await ask(hass, "sauna lights on", "Kitchen Voice")
    assert all(state.state == "off" for state in hass.states.async_all("light"))
    assert "error" in engine.requests[1].messages[-1].text


async def test_apologizes_after_too_many_rounds(
    hass: HomeAssistant, scripted: AddScripted
) -> None:
    engine = await scripted(calls("llm__GetDateTime"))
    result = await ask(hass, "what time is it")
    assert speech(result) == "Sorry, I tried several times and could not get this done."
    assert len(engine.requests) == MAX_TOOL_ROUNDS


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (ContextLengthError(9000, 8192), "The prompt is too long for the model"),
        (InvalidRequestError("no"), "The engine cannot serve this request: no"),
        (EngineClosedError("closed"), "The engine was stopped before the answer"),
        (GenerationError("nan"), "The engine failed while it computed the answer"),
    ],
    ids=["context", "request", "closed", "generation"],
)
async def test_engine_errors_are_told_in_words(
    hass: HomeAssistant, scripted: AddScripted, error: EngineError, words: str
) -> None:
    await scripted([ContentDelta("It"), error])
    assert words in await refusal(hass, "hello")


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (says(""), "gave no answer"),
        (says("", FinishReason.TOOL_CALLS), "gave no answer"),
        (says("", FinishReason.LENGTH), "Allow a longer answer"),
        ([ThinkingDelta("Hm"), *says("", FinishReason.LENGTH)], "Allow a longer"),
    ],
    ids=["nothing", "no tool", "cut short", "only thoughts"],
)
async def test_silence_is_an_error(
    hass: HomeAssistant, scripted: AddScripted, answer: list, words: str
) -> None:
    engine = await scripted(answer)
    assert words in await refusal(hass, "hello")
    assert len(engine.requests) == 1


async def test_silence_after_a_tool_is_an_error(
    hass: HomeAssistant, scripted: AddScripted
) -> None:
    engine = await scripted(calls("llm__GetDateTime"), says(""))
    assert "gave no answer" in await refusal(hass, "what time is it")
    assert len(engine.requests) == 2


async def test_thoughts_are_kept_but_not_spoken(
    hass: HomeAssistant, scripted: AddScripted
) -> None:
    await scripted([ThinkingDelta("A greeting."), *says("Hi")])
    result = await ask(hass, "hello")
    assert speech(result) == "Hi"
    assert chat_log(hass, result.conversation_id).content[-1].thinking_content == (
        "A greeting."
    )


async def test_a_cancelled_question_lets_the_engine_go_at_once(
    hass: HomeAssistant, scripted: AddScripted
) -> None:
    engine = await scripted([ContentDelta("word "), ContentDelta("word"), *says("!")])
    num_deltas = 0

    def cancel_in_the_middle() -> None:
        nonlocal num_deltas
        num_deltas += 1
        if num_deltas == 2:
            question.cancel()

    engine.before_delta = cancel_in_the_middle
    question = hass.async_create_task(ask(hass, "hello"))
    with pytest.raises(asyncio.CancelledError):
        await question
    assert engine.num_closed_answers == 1
    engine.before_delta = lambda: None
    assert speech(await ask(hass, "again")) == "word word!"


async def test_a_failure_in_home_assistant_lets_the_engine_go_at_once(
    hass: HomeAssistant, scripted: AddScripted
) -> None:
    engine = await scripted(calls("llm__GetDateTime"))
    broken = Mock(side_effect=RuntimeError("broken"))
    with (
        patch.object(HouseInstance, "async_call_tool", broken),
        pytest.raises(RuntimeError, match="broken"),
    ):
        await ask(hass, "what time is it")
    assert engine.num_closed_answers == 1


async def test_a_question_cancelled_in_the_middle_of_a_tool_spoils_nothing(
    hass: HomeAssistant, scripted: AddScripted
) -> None:
    engine = await scripted(calls("light__HassLightSet"), says("Yes."))
    first = await ask(hass, "hello")
    begun = asyncio.Event()

    async def never_done(*_: object) -> None:
        begun.set()
        await asyncio.Event().wait()

    engine.answers = [calls("llm__GetDateTime"), says("Yes.")]
    engine.requests.clear()
    with patch(
        "homeassistant.components.llm.llm.GetDateTimeTool.async_call", never_done
    ):
        question = hass.async_create_task(
            ask(hass, "what time is it", conversation_id=first.conversation_id)
        )
        await begun.wait()
        question.cancel()
        with pytest.raises(asyncio.CancelledError):
            await question
    again = await ask(hass, "and now", conversation_id=first.conversation_id)
    assert speech(again) == "Yes."


async def test_a_script_whose_name_begins_with_a_digit_is_run(
    hass: HomeAssistant, scripted: AddScripted
) -> None:
    run = async_capture_events(hass, "rinse")
    assert await async_setup_component(
        hass, "script", {"script": {"2_min_rinse": {"sequence": [{"event": "rinse"}]}}}
    )
    exposed_entities.async_expose_entity(
        hass, "conversation", "script.2_min_rinse", True
    )
    engine = await scripted(calls("script__2_min_rinse"), says("Rinsing."))
    assert speech(await ask(hass, "rinse")) == "Rinsing."
    assert len(run) == 1
    assert "script__2_min_rinse" in {tool.name for tool in engine.requests[0].tools}


@pytest.mark.parametrize("lost", ["device", "area"])
async def test_a_satellite_that_lost_its_place_is_answered(
    hass: HomeAssistant, scripted: AddScripted, lost: str
) -> None:
    engine = await scripted(says("Yes."))
    device = device_id(hass, "Kitchen Voice")
    remove = {
        "device": lambda: dr.async_get(hass).async_remove_device(device),
        "area": lambda: ar.async_get(hass).async_delete(area_id(hass, "Kitchen")),
    }
    remove[lost]()
    await hass.async_block_till_done()
    result = await conversation.async_converse(
        hass,
        "hello",
        None,
        Context(),
        language="en",
        agent_id=AGENT,
        device_id=device,
    )
    assert speech(result) == "Yes."
    assert "ask the user to specify an area" in engine.requests[0].messages[0].text


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ("Which room？", True),
        ("أي غرفة؟", True),
        ('Do you mean "the kitchen?"', True),
        ("Which one? 🙂", True),
        ("Was that a question? No.", False),
        ("Done.", False),
    ],
)
async def test_listens_on_after_a_question(
    hass: HomeAssistant, scripted: AddScripted, answer: str, expected: bool
) -> None:
    await scripted(says(answer))
    assert (await ask(hass, "lights")).continue_conversation is expected


async def test_only_the_wanted_history_is_sent(
    hass: HomeAssistant, scripted: AddScripted
) -> None:
    engine = await scripted(says("Yes."), agent={"history_turns": 2})
    conversation_id = None
    for number in range(5):
        result = await ask(hass, f"question {number}", conversation_id=conversation_id)
        conversation_id = result.conversation_id
    sent = [
        [message.text for message in request.messages if message.role == "user"]
        for request in engine.requests
    ]
    assert sent[2] == ["question 0", "question 1", "question 2"]
    assert [len(questions) for questions in sent] == [1, 2, 3, 2, 3]
    assert sent[4] == ["question 2", "question 3", "question 4"]


async def test_conversations_do_not_mix(
    hass: HomeAssistant, scripted: AddScripted
) -> None:
    engine = await scripted(says("Yes."))
    first = await ask(hass, "apple", "Kitchen Voice")
    await ask(hass, "banana", "Bedroom Voice")
    await ask(hass, "cherry", "Kitchen Voice", conversation_id=first.conversation_id)
    asked = [
        [message.text for message in request.messages if message.role == "user"]
        for request in engine.requests
    ]
    assert asked == [["apple"], ["banana"], ["apple", "cherry"]]


async def test_a_question_handled_by_home_assistant_is_part_of_the_history(
    hass: HomeAssistant, scripted: AddScripted
) -> None:
    engine = await scripted(says("You are welcome."))
    local = await conversation.async_converse(
        hass,
        "what time is it",
        None,
        Context(),
        language="en",
        agent_id=conversation.HOME_ASSISTANT_AGENT,
    )
    await ask(hass, "thanks", conversation_id=local.conversation_id)
    roles = [message.role for message in engine.requests[0].messages]
    assert roles[0] == "system"
    assert roles[-1] == "user"
    assert roles.count("user") == 2


@pytest.mark.parametrize(
    ("satellite", "kwargs", "session"),
    [
        ("Kitchen Voice", {}, "assist_satellite.kitchen_voice"),
        (
            None,
            {"satellite_id": "assist_satellite.porch"},
            "assist_satellite.porch",
        ),
        (None, {}, "conversation "),
    ],
    ids=["device", "satellite", "nowhere"],
)
async def test_requests_say_who_asks(
    hass: HomeAssistant,
    scripted: AddScripted,
    satellite: str | None,
    kwargs: dict[str, str],
    session: str,
) -> None:
    engine = await scripted(says("Yes."))
    await ask(hass, "hello", satellite, **kwargs)
    assert engine.requests[0].session.startswith(session)
    assert engine.requests[0].purpose is Purpose.VOICE


async def test_a_conversations_own_id_is_not_told(
    hass: HomeAssistant, scripted: AddScripted
) -> None:
    engine = await scripted(says("Yes."))
    await ask(hass, "hello", conversation_id="annas-diary")
    assert "anna" not in engine.requests[0].session


async def test_options_reach_the_engine(
    hass: HomeAssistant, scripted: AddScripted
) -> None:
    engine = await scripted(
        says("Yes."),
        agent={"temperature": 0.3, "top_p": 0.9, "max_tokens": 64, "thinking": True},
    )
    await ask(hass, "hello")
    request = engine.requests[0]
    assert request.thinking
    assert request.sampling.temperature == 0.3
    assert request.sampling.top_p == 0.9
    assert request.sampling.max_tokens == 64


async def test_statistics_are_in_the_trace(
    hass: HomeAssistant, scripted: AddScripted
) -> None:
    await scripted(says("Yes."))
    await ask(hass, "hello")
    traces = conversation.trace.async_get_traces()
    stats = [
        event["data"]["stats"]
        for event in traces[-1].as_dict()["events"]
        if "stats" in event["data"]
    ]
    assert stats == [
        {
            "input_tokens": 100,
            "cached_input_tokens": 90,
            "output_tokens": 3,
            "reread_tokens": 10,
            "time_to_first_token_seconds": 0.75,
            "decode_tokens_per_second": 3.0,
            "outcome": Outcome.CONTINUED,
        }
    ]


async def test_a_broken_template_is_told(
    hass: HomeAssistant, scripted: AddScripted
) -> None:
    await scripted(says("Yes."), agent={"prompt": "{{ nothing.at.all }}"})
    result = await ask(hass, "hello")
    assert (
        speech(result) == "Sorry, I had a problem with the template of my instructions."
    )


async def test_a_lost_api_is_told(hass: HomeAssistant, scripted: AddScripted) -> None:
    await scripted(says("Yes."), agent={"llm_hass_api": ["gone"]})
    assert "cannot use gone of Home Assistant" in await refusal(hass, "hello")


async def test_without_an_api_there_is_only_the_time(
    hass: HomeAssistant, scripted: AddScripted
) -> None:
    engine = await scripted(says("Yes."), agent={"llm_hass_api": []})
    await ask(hass, "hello")
    request = engine.requests[0]
    assert [tool.name for tool in request.tools] == ["llm__GetDateTime"]
    assert "Kitchen" not in request.messages[0].text
    assert hass.states.get(AGENT).attributes["supported_features"] == 0
