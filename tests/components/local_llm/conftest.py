"""The fixtures of the integration's tests: the real engine with the built-in model, in a small real house."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from typing import Any
from unittest.mock import patch

from freezegun.api import FrozenDateTimeFactory
import pytest
from pytest_homeassistant_custom_component.common import (
    MockConfigEntry,
    async_fire_time_changed,
    mock_config_flow,
)
import torch

from custom_components.local_llm.config_flow import LocalLlmConfigFlow
from custom_components.local_llm.const import (
    BUILTIN_MODEL,
    CONF_CONTEXT_LENGTH,
    CONF_DISK_CACHE_GIB,
    CONF_KV_CACHE,
    CONF_PROMPT_CACHE_GIB,
    CONF_WARM_UP,
    CONF_WEIGHTS,
    DOMAIN,
)
from custom_components.local_llm.settings import default_agent_data
from homeassistant.components import conversation
from homeassistant.components.assist_pipeline.pipeline import (
    async_get_pipeline,
    async_update_pipeline,
)
from homeassistant.config_entries import ConfigFlow, ConfigSubentryData
from homeassistant.const import CONF_DEVICE, CONF_MODEL
from homeassistant.core import Context, HomeAssistant
from homeassistant.setup import async_setup_component

from .house import HOUSE, async_move_in, device_id
from .scripted import Answer, ScriptedEngine
from .shown_texts import shown_texts

__all__ = ["shown_texts"]

AGENT = "conversation.local_llm"
type AddEntry = Callable[..., Awaitable[MockConfigEntry]]
type AddScripted = Callable[..., Awaitable[ScriptedEngine]]


@pytest.fixture(autouse=True, scope="session")
def _one_thread() -> None:
    """Compute in one thread: the built-in model is too small to share, and tests run side by side."""
    torch.set_num_threads(1)


@pytest.fixture(autouse=True)
def _use_custom_integrations(enable_custom_integrations: None) -> None:
    """Let Home Assistant find the integration under test."""


@pytest.fixture
def hass_config_dir(hass_tmp_config_dir: str) -> str:
    """Give Home Assistant a folder that goes with the test: engines keep prompts in it."""
    return hass_tmp_config_dir


@pytest.fixture(autouse=True)
def _monday(freezer: FrozenDateTimeFactory) -> None:
    """Hold the clock: the built-in model reads some days and hours better than others."""
    freezer.move_to("2026-11-30 14:05:00")


@pytest.fixture
async def home(hass: HomeAssistant) -> AsyncGenerator[None]:
    """Set up what a real Home Assistant always has."""
    await hass.config.async_set_time_zone("UTC")
    for component in ("homeassistant", "conversation", "intent", "assist_pipeline"):
        assert await async_setup_component(hass, component, {})
    with mock_config_flow(HOUSE, ConfigFlow):
        yield


@pytest.fixture
async def house(hass: HomeAssistant, home: None) -> None:
    """Furnish the house."""
    await async_move_in(hass)


def new_entry(
    agent: dict[str, Any] | None = None,
    options: dict[str, Any] | None = None,
    **settings: Any,
) -> MockConfigEntry:
    """Make an entry with one agent; nothing runs by itself unless the options say so."""
    return MockConfigEntry(
        domain=DOMAIN,
        minor_version=LocalLlmConfigFlow.MINOR_VERSION,
        title="Local LLM (nano)",
        data={
            CONF_MODEL: BUILTIN_MODEL,
            CONF_DEVICE: "cpu",
            CONF_CONTEXT_LENGTH: 8192,
            CONF_PROMPT_CACHE_GIB: 0.0625,
            CONF_DISK_CACHE_GIB: 0.0625,
            CONF_WEIGHTS: "auto",
            CONF_KV_CACHE: "bf16",
            **settings,
        },
        options={CONF_WARM_UP: False} if options is None else options,
        subentries_data=[
            ConfigSubentryData(
                subentry_type="conversation",
                data={**default_agent_data(BUILTIN_MODEL), **(agent or {})},
                title="Local LLM",
                unique_id=None,
            )
        ],
    )


@pytest.fixture
async def add_entry(hass: HomeAssistant, home: None) -> AsyncGenerator[AddEntry]:
    """Add an entry as `new_entry` makes it and load it; the preferred assistant asks its agent."""

    async def add(
        agent: dict[str, Any] | None = None,
        options: dict[str, Any] | None = None,
        **settings: Any,
    ) -> MockConfigEntry:
        entry = new_entry(agent, options, **settings)
        entry.add_to_hass(hass)
        assert await hass.config_entries.async_setup(entry.entry_id)
        await hass.async_block_till_done()
        await async_update_pipeline(
            hass,
            async_get_pipeline(hass),
            conversation_engine=AGENT,
            conversation_language="en",
        )
        return entry

    yield add
    for entry in hass.config_entries.async_entries(DOMAIN):
        await hass.config_entries.async_remove(entry.entry_id)


@pytest.fixture
async def entry(add_entry: AddEntry, house: None) -> MockConfigEntry:
    """Load the real engine in the house."""
    return await add_entry()


@pytest.fixture
async def scripted(house: None, add_entry: AddEntry) -> AsyncGenerator[AddScripted]:
    """Load an engine in the house that gives the answers of a script."""
    engine = ScriptedEngine()

    async def add(*answers: Answer, **kwargs: Any) -> ScriptedEngine:
        engine.answers += answers
        await add_entry(**kwargs)
        return engine

    with patch("custom_components.local_llm.async_load_engine", return_value=engine):
        yield add


def suggested_values(form: Mapping[str, Any]) -> dict[str, Any]:
    """What a form suggests, by the names of the fields for which it does."""
    return {
        str(key): key.description["suggested_value"]
        for key in form["data_schema"].schema
        if key.description
    }


async def ask(
    hass: HomeAssistant,
    text: str,
    satellite: str | None = None,
    conversation_id: str | None = None,
    **kwargs: Any,
) -> conversation.ConversationResult:
    """Ask the agent from a satellite, or from nowhere."""
    return await conversation.async_converse(
        hass,
        text,
        conversation_id,
        Context(),
        **{"language": "en", **kwargs},
        agent_id=AGENT,
        device_id=device_id(hass, satellite) if satellite else None,
    )


async def settle(
    hass: HomeAssistant, freezer: FrozenDateTimeFactory, seconds: float = 6
) -> None:
    """Let so much time go by that what has changed is warmed, and wait for that."""
    freezer.tick(seconds)
    async_fire_time_changed(hass)
    await hass.async_block_till_done(wait_background_tasks=True)


def speech(result: conversation.ConversationResult) -> str:
    """What an answer says."""
    return str(result.response.speech["plain"]["speech"])


def chat_log(hass: HomeAssistant, conversation_id: str) -> conversation.ChatLog:
    """The log of a conversation."""
    return hass.data[conversation.chat_log.DATA_CHAT_LOGS][conversation_id]
