"""AI tasks: text, data of a structure, tools, and what cannot be done."""

from collections.abc import Mapping
import json
from pathlib import Path
from types import MappingProxyType
from typing import Any, override

import probatio
import pytest
from pytest_homeassistant_custom_component.common import MockConfigEntry

from custom_components.local_llm.const import DOMAIN
from custom_components.local_llm.settings import default_task_data
from homeassistant.components import ai_task, conversation
from homeassistant.config_entries import ConfigSubentry
from homeassistant.core import Context, HomeAssistant
from homeassistant.exceptions import HomeAssistantError
from homeassistant.helpers import entity_registry as er, llm, selector
from local_llm_engine.errors import GenerationError
from local_llm_engine.types import FinishReason, Purpose

from .conftest import AGENT, AddScripted
from .pipelines import chat_session
from .scripted import calls, says

TASK = "ai_task.tasks"
STRUCTURE: Mapping[str, Any] = {
    "room": {
        "selector": {"select": {"options": ["Kitchen", "Büro"]}},
        "required": True,
    },
    "level": {
        "selector": {"number": {"min": 0, "max": 100}},
        "description": "In percent.",
    },
    "at": {"selector": {"time": {}}},
}


async def add_task(hass: HomeAssistant, **data: object) -> None:
    """Add an AI task to the only entry."""
    (entry,) = hass.config_entries.async_entries(DOMAIN)
    subentry = ConfigSubentry(
        data=MappingProxyType({**default_task_data(entry.data["model"]), **data}),
        subentry_type="ai_task_data",
        title="Tasks",
        unique_id=None,
    )
    hass.config_entries.async_add_subentry(entry, subentry)
    await hass.async_block_till_done()


async def generate(hass: HomeAssistant, **data: object) -> Any:
    """Ask as an automation does."""
    result = await hass.services.async_call(
        "ai_task",
        "generate_data",
        {
            "entity_id": TASK,
            "task_name": "test",
            "instructions": "Plan the evening.",
            **data,
        },
        blocking=True,
        return_response=True,
    )
    assert result is not None
    return result["data"]


async def test_a_task_for_text(hass: HomeAssistant, scripted: AddScripted) -> None:
    """The answer's words, asked for after everybody who speaks."""
    engine = await scripted(says("Dinner, then a film."))
    await add_task(
        hass, prompt="Be brief.", max_tokens=99, temperature=0.3, thinking=True
    )
    assert await generate(hass) == "Dinner, then a film."
    [request] = engine.requests
    assert request.purpose is Purpose.BACKGROUND
    assert request.session == TASK
    assert request.answer_schema is None
    assert request.thinking
    assert (request.sampling.max_tokens, request.sampling.temperature) == (99, 0.3)
    system, question = request.messages
    assert [part.segment for part in system.parts] == ["instructions", "task"]
    assert system.text.startswith("Be brief.\n\nYou are a Home Assistant expert")
    assert question.text == "Plan the evening."
    assert request.tools == ()


async def test_a_task_without_instructions_of_its_sub_entry(
    hass: HomeAssistant, scripted: AddScripted
) -> None:
    """Home Assistant's own are all there is."""
    engine = await scripted(says("Yes."))
    await add_task(hass)
    await generate(hass)
    assert [part.segment for part in engine.requests[0].messages[0].parts] == ["task"]


async def test_a_task_for_data(hass: HomeAssistant, scripted: AddScripted) -> None:
    """The engine is held to the structure, the model is told of it, and the data comes as it was written."""
    answer = {"room": "Büro", "level": 40, "at": "19:30:00"}
    engine = await scripted(says(json.dumps(answer)))
    await add_task(hass)
    assert await generate(hass, structure=STRUCTURE) == answer
    [request] = engine.requests
    schema = request.answer_schema
    assert schema is not None
    assert schema["required"] == ["room"]
    assert schema["properties"]["room"]["enum"] == ["Kitchen", "Büro"]
    assert schema["properties"]["level"]["description"] == "In percent."
    wanted = request.messages[0].parts[0]
    assert wanted.segment == "data"
    assert json.dumps(schema, ensure_ascii=False) in wanted.text


@pytest.mark.parametrize(
    ("text", "reason", "key"),
    [
        pytest.param("Certainly! {", FinishReason.STOP, "data_invalid", id="no JSON"),
        pytest.param(
            '{"room": "Attic"}', FinishReason.STOP, "data_invalid", id="no such choice"
        ),
        pytest.param(
            '{"level": 3}', FinishReason.STOP, "data_invalid", id="required is missing"
        ),
        pytest.param(
            '{"room": "Kit', FinishReason.LENGTH, "data_cut_short", id="cut short"
        ),
        pytest.param("", FinishReason.STOP, "no_answer", id="silence"),
    ],
)
async def test_data_that_is_not_what_was_asked_for_is_an_error(
    hass: HomeAssistant,
    scripted: AddScripted,
    text: str,
    reason: FinishReason,
    key: str,
) -> None:
    """In words, and never as data."""
    await scripted(says(text, reason))
    await add_task(hass)
    with pytest.raises(HomeAssistantError) as caught:
        await generate(hass, structure=STRUCTURE)
    assert (caught.value.translation_domain, caught.value.translation_key) == (
        DOMAIN,
        key,
    )


async def test_an_engine_that_fails_is_an_error(
    hass: HomeAssistant, scripted: AddScripted
) -> None:
    """As for a spoken question."""
    await scripted([GenerationError("boom")])
    await add_task(hass)
    with pytest.raises(HomeAssistantError) as caught:
        await generate(hass)
    assert caught.value.translation_key == "generation_failed"


class NoteTool(llm.Tool):
    """Takes notes."""

    name = "notes__Add"
    description = "Adds a note."
    parameters = probatio.Schema(
        {probatio.Required("text"): selector.selector({"text": {}})}
    )

    def __init__(self) -> None:
        self.notes: list[str] = []

    @override
    async def async_call(
        self,
        hass: HomeAssistant,
        tool_input: llm.ToolInput,
        llm_context: llm.LLMContext,
    ) -> llm.ToolResult:
        self.notes.append(tool_input.tool_args["text"])
        return llm.ToolResult(data={"count": len(self.notes)})


class NotesAPI(llm.API):
    """What an integration may bring with its task."""

    def __init__(self, hass: HomeAssistant, *tools: llm.Tool) -> None:
        super().__init__(hass=hass, id="notes", name="Notes")
        self.tools = list(tools)

    @override
    async def async_get_api_instance(
        self, llm_context: llm.LLMContext
    ) -> llm.APIInstance:
        return llm.APIInstance(
            api=self,
            api_prompt="Take notes.",
            llm_context=llm_context,
            tools=self.tools,
            custom_serializer=llm.selector_serializer,
        )


async def test_a_task_may_use_tools(hass: HomeAssistant, scripted: AddScripted) -> None:
    """Those of the API that the task brings; then the data comes."""
    engine = await scripted(
        calls("notes__Add", text="Buy milk"), says('{"room": "Kitchen"}')
    )
    await add_task(hass)
    tool = NoteTool()
    result = await ai_task.async_generate_data(
        hass,
        task_name="test",
        entity_id=TASK,
        instructions="Note what is missing.",
        structure=_structure(),
        llm_api=NotesAPI(hass, tool),
    )
    assert tool.notes == ["Buy milk"]
    assert result.data == {"room": "Kitchen"}
    [spec] = engine.requests[0].tools
    assert (spec.name, spec.parameters["required"]) == ("notes__Add", ["text"])
    assert engine.requests[0].answer_schema == engine.requests[1].answer_schema
    assert "Take notes." in engine.requests[0].messages[0].text
    *_, call, answered = engine.requests[1].messages
    assert (call.tool_calls[0].name, answered.text) == ("notes__Add", '{"count": 1}')


def _structure() -> probatio.Schema:
    """What the action makes of the fields."""
    fields = {
        (probatio.Required if field.get("required") else probatio.Optional)(
            name
        ): selector.selector(dict(field["selector"]))
        for name, field in STRUCTURE.items()
    }
    return probatio.Schema(fields, extra=probatio.PREVENT_EXTRA)


async def test_a_task_that_calls_tools_without_end_is_an_error(
    hass: HomeAssistant, scripted: AddScripted
) -> None:
    """An apology would be taken for the result."""
    engine = await scripted(calls("notes__Add", text="again"))
    await add_task(hass)
    with pytest.raises(HomeAssistantError) as caught:
        await ai_task.async_generate_data(
            hass,
            task_name="test",
            entity_id=TASK,
            instructions="Note it.",
            llm_api=NotesAPI(hass, NoteTool()),
        )
    assert caught.value.translation_key == "task_too_many_rounds"
    assert len(engine.requests) == 10


async def test_attachments_are_refused(
    hass: HomeAssistant, scripted: AddScripted, tmp_path: Path
) -> None:
    """Home Assistant is told that none are read; one that comes all the same is refused by us."""
    engine = await scripted(says("A cat."))
    await add_task(hass)
    state = hass.states.get(TASK)
    assert state is not None
    assert (
        state.attributes["supported_features"]
        == ai_task.AITaskEntityFeature.GENERATE_DATA
    )
    entity = hass.data[ai_task.DATA_COMPONENT].get_entity(TASK)
    assert entity is not None
    attachment = conversation.Attachment(
        media_content_id="media-source://x", mime_type="image/png", path=tmp_path
    )
    task = ai_task.GenDataTask(
        name="test", instructions="What is this?", attachments=[attachment]
    )
    with (
        chat_session(hass, Context()) as session,
        pytest.raises(HomeAssistantError) as caught,
    ):
        await entity.internal_async_generate_data(session, task)
    assert caught.value.translation_key == "attachments_unsupported"
    assert not engine.requests


async def test_the_built_in_model_writes_data(
    hass: HomeAssistant, entry: MockConfigEntry
) -> None:
    """The real engine, held to a structure that a model of this size would never keep to by itself."""
    await add_task(hass)
    data = await generate(hass, structure=STRUCTURE, instructions="Where is it warm?")
    assert data["room"] in ("Kitchen", "Büro")


async def test_the_entity_hangs_on_its_sub_entry(
    hass: HomeAssistant, scripted: AddScripted, entity_registry: er.EntityRegistry
) -> None:
    """One device each, and agents stay when a task is added."""
    await scripted(says("Yes."))
    await add_task(hass)
    entity = entity_registry.async_get(TASK)
    (entry,) = hass.config_entries.async_entries(DOMAIN)
    task = list(entry.subentries.values())[-1]
    assert entity is not None
    assert (entity.unique_id, entity.config_subentry_id) == (
        task.subentry_id,
        task.subentry_id,
    )
    assert hass.states.get(AGENT) is not None
