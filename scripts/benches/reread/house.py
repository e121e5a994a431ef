"""The house that asks: a real Home Assistant with forty voice satellites, and what changes in it.

Every prompt is built by the integration's own code; beside it stands the prompt that another conversation
agent of Home Assistant would send. Wants a running Home Assistant, as the integration is imported from its folder.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from typing import Any

from demo_house.client import connected
from demo_house.core import PASSWORD, USER, Home
from demo_house.household import Household

from homeassistant.components import conversation
from homeassistant.components.intent import async_register_timer_handler
from homeassistant.const import Platform
from homeassistant.core import Context
from homeassistant.helpers import area_registry as ar, device_registry as dr, llm
from homeassistant.setup import async_setup_component
from local_llm_engine.types import ChatRequest, Message, Purpose

from .engine import RestartableEngine
from .openai import PeerRequest, as_tool, peer_message

INTEGRATION = "custom_components.local_llm"
_HOUSE = "demo_house"
_LANGUAGE = "en"
_NO_DEVICE = "no device"
# Rooms of their own: two satellites of one room have the same prompt.
_MORE_ROOMS = (
    "Attic",
    "Balcony",
    "Basement",
    "Boiler Room",
    "Breakfast Nook",
    "Cabin",
    "Cellar",
    "Cloakroom",
    "Conservatory",
    "Corridor",
    "Den",
    "Dressing Room",
    "Driveway",
    "Foyer",
    "Gallery",
    "Greenhouse",
    "Guest Room",
    "Gym",
    "Landing",
    "Laundry",
    "Library",
    "Loft",
    "Lounge",
    "Music Room",
    "Pantry",
    "Patio",
    "Playroom",
    "Porch",
    "Sauna",
    "Shed",
    "Staircase",
    "Studio",
    "Sunroom",
    "Terrace",
    "Utility Room",
    "Veranda",
    "Workshop",
)
_ROOMS = ("Dining Room", *_MORE_ROOMS)
DINING_ROOM = "Dining Room Voice"
KITCHEN = "Kitchen Voice"


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """One question as we ask it and as the peer is asked it."""

    ours: ChatRequest
    theirs: PeerRequest


class House:
    """Asks as its satellites do, by their names; None asks without a device."""

    def __init__(
        self,
        home: Home,
        household: Household,
        engine: RestartableEngine,
    ) -> None:
        """Call `open` then, which lets the engine in."""
        self._hass = hass = home.hass
        self._url = home.url
        self._agent = household.agent
        self._devices = dict(household.satellites)
        entry = hass.config_entries.async_get_known_entry(household.entry_id)
        self._entry = entry
        self._engine = engine
        settings = import_module(f"{INTEGRATION}.settings").AgentSettings
        (subentry,) = entry.get_subentries_of_type(Platform.CONVERSATION)
        self._settings = settings.from_data(subentry.data)
        self._prompt = import_module(f"{INTEGRATION}.prompts.prompt")
        self.satellites: tuple[str, ...] = ()

    async def open(self, num_satellites: int) -> None:
        """Let the engine answer in place of the integration's own, and put up satellites until there are enough."""
        runtime = self._entry.runtime_data
        await self._hass.async_add_executor_job(runtime.engine.close)
        runtime.engine = self._engine
        entries = self._hass.config_entries
        await entries.async_unload_platforms(self._entry, [Platform.CONVERSATION])
        await entries.async_forward_entry_setups(self._entry, [Platform.CONVERSATION])
        for room in _ROOMS[: max(1, num_satellites - len(self._devices))]:
            self._put_up(f"{room} Voice", room)
        self.satellites = tuple(self._devices)

    async def ask(
        self,
        satellite: str | None,
        question: str,
        *,
        before_all: str = "",
        after_all: str | None = None,
    ) -> Asked:
        """Build both prompts of a question; texts may go before and after all of the system text."""
        settings = replace(
            self._settings, instructions=before_all + self._settings.instructions
        )
        spoken = self._input(satellite, question, after_all)
        chat_log = conversation.ChatLog(self._hass, "bench")
        await self._prompt.async_provide_prompt(self._hass, chat_log, spoken, settings)
        chat_log.async_add_user_content(conversation.UserContent(question))
        ours = self._prompt.build_request(
            chat_log,
            settings,
            purpose=Purpose.VOICE,
            session=satellite or _NO_DEVICE,
        )
        theirs = await self._peer_request(
            spoken, settings.instructions, ours.messages[1:]
        )
        return Asked(ours=ours, theirs=theirs)

    async def peer_request(
        self, satellite: str, messages: Sequence[Message]
    ) -> PeerRequest:
        """Build the peer's prompt for a conversation that stands at these messages, without the system's."""
        spoken = self._input(satellite, "", None)
        return await self._peer_request(spoken, self._settings.instructions, messages)

    async def converse(
        self, satellite: str, text: str, conversation_id: str | None
    ) -> tuple[str, str]:
        """Ask through Home Assistant; returns the spoken answer and the conversation's id."""
        result = await self._command(
            "conversation/process",
            text=text,
            language=_LANGUAGE,
            agent_id=self._agent,
            device_id=self._devices[satellite],
            conversation_id=conversation_id,
        )
        answer = result["response"]["speech"]["plain"]["speech"]
        return str(answer), str(result["conversation_id"])

    async def set_time_zone(self, time_zone: str) -> None:
        """Move the house to where another day may be."""
        await self._command("config/core/update", time_zone=time_zone)

    async def rename(self, entity_id: str, name: str) -> None:
        """Give an entity another name."""
        await self._command(
            "config/entity_registry/update", entity_id=entity_id, name=name
        )

    async def add_switch(self, name: str, room: str) -> None:
        """Add a helper that switches, put it into a room and expose it."""
        await async_setup_component(self._hass, "input_boolean", {})
        helper = await self._command("input_boolean/create", name=name)
        entity_id = f"input_boolean.{helper['id']}"
        area = ar.async_get(self._hass).async_get_area_by_name(room)
        assert area is not None
        await self._command(
            "config/entity_registry/update", entity_id=entity_id, area_id=area.id
        )
        await self._command(
            "homeassistant/expose_entity",
            assistants=["conversation"],
            entity_ids=[entity_id],
            should_expose=True,
        )

    async def _command(self, command: str, **fields: Any) -> Any:
        """Send one command as a program that has just come: Home Assistant drops those that are silent for long."""
        async with connected(self._url, USER, PASSWORD) as client:
            return await client.command(command, **fields)

    def _put_up(self, name: str, room: str) -> None:
        """Add a satellite that keeps timers."""
        (house,) = self._hass.config_entries.async_entries(_HOUSE)
        area = ar.async_get(self._hass).async_get_or_create(room)
        devices = dr.async_get(self._hass)
        device = devices.async_get_or_create(
            config_entry_id=house.entry_id, identifiers={(_HOUSE, name)}, name=name
        )
        devices.async_update_device(device.id, area_id=area.id)
        async_register_timer_handler(self._hass, device.id, lambda *_: None)
        self._devices[name] = device.id

    def _input(
        self, satellite: str | None, question: str, after_all: str | None
    ) -> conversation.ConversationInput:
        return conversation.ConversationInput(
            text=question,
            context=Context(),
            conversation_id=None,
            device_id=self._devices[satellite] if satellite else None,
            satellite_id=None,
            language=_LANGUAGE,
            agent_id=self._agent,
            extra_system_prompt=after_all,
        )

    async def _peer_request(
        self,
        spoken: conversation.ConversationInput,
        instructions: str,
        messages: Sequence[Message],
    ) -> PeerRequest:
        """Build what Home Assistant itself gives to an agent: its own text, and the tools that this device has."""
        chat_log = conversation.ChatLog(self._hass, "bench")
        await chat_log.async_provide_llm_data(
            spoken.as_llm_context(_HOUSE),
            llm.LLM_API_ASSIST,
            instructions,
            spoken.extra_system_prompt,
        )
        assert chat_log.llm_api is not None
        as_spec = import_module(f"{INTEGRATION}.prompts.tools").as_spec
        head = chat_log.content[0]
        assert isinstance(head, conversation.SystemContent)
        system = {"role": "system", "content": head.content}
        return PeerRequest(
            messages=(system, *map(peer_message, messages)),
            tools=tuple(
                as_tool(as_spec(tool, chat_log.llm_api.custom_serializer))
                for tool in chat_log.llm_api.tools
            ),
        )
