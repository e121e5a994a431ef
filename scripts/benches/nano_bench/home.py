"""A generated house in a real Home Assistant, in this process, with Local LLM as its assistant.

Knows how to set it up, to ask and to put everything back; knows nothing of what is right.
"""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from nano.calls import Call
from nano.house import House, Speaker, Thing
from pytest_homeassistant_custom_component.common import (
    MockConfigEntry,
    mock_config_flow,
)

from custom_components.local_llm.config_flow import LocalLlmConfigFlow
from custom_components.local_llm.const import (
    BUILTIN_MODEL,
    CONF_CONTEXT_LENGTH,
    CONF_DISK_CACHE_GIB,
    CONF_PROMPT_CACHE_GIB,
    CONF_WARM_UP,
    CONF_WEIGHTS,
    DOMAIN,
)
from custom_components.local_llm.prompts.house_api import HouseAPI
from custom_components.local_llm.settings import default_agent_data
from homeassistant.components import conversation
from homeassistant.config_entries import ConfigFlow, ConfigSubentryData
from homeassistant.const import CONF_DEVICE, CONF_MODEL
from homeassistant.core import Context, HomeAssistant
from homeassistant.helpers import entity_registry as er, llm
from homeassistant.loader import DATA_CUSTOM_COMPONENTS

from .furnishing import HOUSE, OWN_SATELLITE, Furnishing
from .tellers import TodoList

AGENT = "conversation.local_llm"
# Everything that shows what became of a thing
_SHOWN = (
    "brightness",
    "current_position",
    "percentage",
    "temperature",
    "volume_level",
    "humidity",
    "rgb_color",
)


class NanoHome:
    """A furnished home; `notes` are what its things were told since they were put back."""

    def __init__(self, hass: HomeAssistant, house: House, speaker: Speaker) -> None:
        """Take an empty Home Assistant."""
        self.hass = hass
        self.notes: list[tuple[str, str, Any]] = []
        self._house = house
        self._speaker = speaker
        self._furnishing = Furnishing(hass, house, speaker, self._note)

    @property
    def weather(self) -> Thing:
        """The weather, where there is one."""
        return next(thing for thing in self._house.things if thing.domain == "weather")

    def _note(self, entity_id: str, what: str, value: Any) -> None:
        self.notes.append((entity_id, what, value))

    async def furnish(self) -> None:
        """Build the house and expose everything but the satellites."""
        await self._furnishing.move_in()

    async def add_engine(
        self,
        model: Path | None = None,
        weights: str = "auto",
        *,
        keeps_prompts: bool = True,
    ) -> MockConfigEntry:
        """Set Local LLM up with one agent."""
        cache = 0.25 if keeps_prompts else 0.0
        entry = MockConfigEntry(
            domain=DOMAIN,
            minor_version=LocalLlmConfigFlow.MINOR_VERSION,
            title="Local LLM",
            data={
                CONF_MODEL: str(model) if model else BUILTIN_MODEL,
                CONF_DEVICE: "cpu",
                CONF_CONTEXT_LENGTH: 8192,
                CONF_PROMPT_CACHE_GIB: cache,
                CONF_DISK_CACHE_GIB: 0.0,
                CONF_WEIGHTS: weights,
            },
            options={CONF_WARM_UP: False},
            subentries_data=[
                ConfigSubentryData(
                    subentry_type="conversation",
                    data=default_agent_data(BUILTIN_MODEL),
                    title="Local LLM",
                    unique_id=None,
                )
            ],
        )
        entry.add_to_hass(self.hass)
        assert await self.hass.config_entries.async_setup(entry.entry_id)
        # Weights in fewer bits are made ready in the background.
        await self.hass.async_block_till_done(wait_background_tasks=True)
        return entry

    @property
    def device_id(self) -> str | None:
        """The device that asks."""
        entry = er.async_get(self.hass).async_get(f"assist_satellite.{OWN_SATELLITE}")
        return entry.device_id if entry else None

    async def ask(
        self, text: str, conversation_id: str | None = None
    ) -> conversation.ConversationResult:
        """Say something to the assistant."""
        result = await conversation.async_converse(
            self.hass,
            text,
            conversation_id,
            Context(),
            language=self._house.language,
            agent_id=AGENT,
            device_id=self.device_id,
        )
        await self.hass.async_block_till_done()
        return result

    async def call(self, calls: Sequence[Call]) -> None:
        """Carry calls out as the assistant would.

        Raises:
            HomeAssistantError: one cannot be carried out.
        """
        context = llm.LLMContext(
            platform=DOMAIN,
            context=Context(),
            language=self._house.language,
            assistant="conversation",
            device_id=self.device_id,
        )
        instance = await HouseAPI(
            self.hass, AGENT, [llm.LLM_API_ASSIST]
        ).async_get_api_instance(context)
        for call in calls:
            await instance.async_call_tool(
                llm.ToolInput(call.tool, dict(call.arguments))
            )
        await self.hass.async_block_till_done()

    async def put_back(self, item: str | None = None) -> None:
        """Have everything as at first; `item` is then on every list."""
        for things in self._furnishing.things.values():
            for thing in things:
                thing.put_back()
                if item and isinstance(thing, TodoList):
                    thing.fill(item)
                thing.async_write_ha_state()
        for key, boolean in self._furnishing.booleans.items():
            await self.hass.services.async_call(
                "input_boolean",
                f"turn_{boolean.state}",
                {"entity_id": f"input_boolean.{key}"},
                blocking=True,
            )
        if self._speaker.timers:
            await self.call([Call(tool="intent__HassCancelAllTimers", arguments={})])
        await self.hass.async_block_till_done()
        self.notes.clear()

    def states(self) -> dict[str, tuple[str, str]]:
        """Tell what everything is like now."""
        return {
            state.entity_id: (
                state.state if state.domain != "scene" else "",
                repr([state.attributes.get(name) for name in _SHOWN]),
            )
            for state in self.hass.states.async_all()
            if state.entity_id in self._furnishing.names and state.domain != "todo"
        }


@asynccontextmanager
async def nano_home(
    hass: HomeAssistant, house: House, speaker: Speaker
) -> AsyncIterator[NanoHome]:
    """Furnish an empty Home Assistant, and let the engines go at the end."""
    hass.data.pop(DATA_CUSTOM_COMPONENTS, None)
    home = NanoHome(hass, house, speaker)
    with mock_config_flow(HOUSE, ConfigFlow):
        await home.furnish()
        try:
            yield home
        finally:
            for entry in hass.config_entries.async_entries(DOMAIN):
                await hass.config_entries.async_remove(entry.entry_id)
