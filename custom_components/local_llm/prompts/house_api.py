"""Home Assistant's LLM APIs for one agent, as one whose prompt and tools differ little from device to device."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
import logging
from typing import Any, NamedTuple, override

import probatio

from homeassistant.components.llm import async_get_tools
from homeassistant.core import HomeAssistant
from homeassistant.exceptions import HomeAssistantError
from homeassistant.helpers import llm
from homeassistant.util import dt as dt_util
from local_llm_engine.types import ToolSpec

from ..const import DOMAIN
from ..spoken import async_date_line
from .layout import divide
from .tools import as_spec, one_list, timer_tools

_LOGGER = logging.getLogger(__name__)

type _Serializer = Callable[[Any], Any]


@dataclass(kw_only=True)
class HouseInstance(llm.APIInstance):
    """What one device is given.

    `house` is what all devices share, `date` the date line, `device` the device's own lines;
    `api_prompt` is the three joined. `specs` describe the tools to the engine. `agent_id` is the agent that
    answers.
    """

    agent_id: str
    house: str
    date: str
    device: str
    specs: tuple[ToolSpec, ...]

    @override
    async def async_call_tool(self, tool_input: llm.ToolInput) -> llm.ToolResult:
        """Call a tool; one that breaks is no end of the conversation, the model is told.

        Raises:
            HomeAssistantError: the tool says that it cannot do this.
            Invalid: the tool does not take these arguments.
        """
        try:
            return await super().async_call_tool(tool_input)
        except HomeAssistantError, probatio.Invalid:
            raise
        except Exception as err:
            # A tool may be anybody's, and trip over what a model writes.
            _LOGGER.exception("The tool %s failed", tool_input.tool_name)
            text = f"The tool failed: {type(err).__name__}."
            return llm.ToolResult(
                data={"error": "ToolFailed", "error_text": text}, error=True
            )


class _Offer(NamedTuple):
    """What the chosen APIs give in one context; both mappings by the tool's name."""

    text: str
    tools: dict[str, llm.Tool]
    serializers: dict[str, _Serializer | None]


class HouseAPI(llm.API):
    """The APIs that an agent may use, laid out from what changes least to what changes most."""

    def __init__(
        self,
        hass: HomeAssistant,
        agent_id: str,
        api_ids: Sequence[str],
        *,
        basis: Sequence[str] = (),
    ) -> None:
        """Wrap the APIs with these ids; none leaves the tools that every API has, such as the time.

        Home Assistant keeps a conversation's prompt as long as the id of its API is the same, so
        whatever must not outlast a change is in the id: `basis`.
        """
        digest = sha256(repr(tuple(basis)).encode()).hexdigest()[:16]
        super().__init__(
            hass=hass,
            id="|".join([DOMAIN, agent_id, *api_ids, digest]),
            name="Local LLM",
        )
        self._agent_id = agent_id
        self._api_ids = tuple(api_ids)

    @override
    async def async_get_api_instance(
        self, llm_context: llm.LLMContext
    ) -> HouseInstance:
        """Build the prompt and the tools for the device of the context.

        Raises:
            HomeAssistantError: an API is not there, or not for this user.
        """
        here = await self._async_offer(llm_context)
        elsewhere = here
        if llm_context.device_id is not None:
            elsewhere = await self._async_offer(replace(llm_context, device_id=None))
        house, device = divide(here.text, elsewhere.text)
        date = await async_date_line(
            self.hass, llm_context.language, dt_util.now().date()
        )
        timers = timer_tools(self.hass) if llm.LLM_API_ASSIST in self._api_ids else []
        tools = one_list(here.tools.values(), [*elsewhere.tools.values(), *timers])
        serializers = elsewhere.serializers | here.serializers
        return HouseInstance(
            api=self,
            api_prompt="\n".join(part for part in (house, date, device) if part),
            llm_context=llm_context,
            tools=tools,
            custom_serializer=llm.selector_serializer,
            agent_id=self._agent_id,
            house=house,
            date=date,
            device=device,
            specs=tuple(
                as_spec(tool, serializers.get(tool.name, llm.selector_serializer))
                for tool in tools
            ),
        )

    async def _async_offer(self, llm_context: llm.LLMContext) -> _Offer:
        """Ask each API for itself: Home Assistant's own way to merge them names all tools at the start of the text."""
        instances = [
            await self._async_instance(api_id, llm_context) for api_id in self._api_ids
        ] or [await self._async_common_tools(llm_context)]
        offer = _Offer(
            "\n".join(text for instance in instances if (text := instance.api_prompt)),
            {},
            {},
        )
        for instance in instances:
            for tool in instance.tools:
                named = _distinct(tool, offer.tools.get(tool.name), instance.api.id)
                offer.tools.setdefault(named.name, named)
                offer.serializers.setdefault(named.name, instance.custom_serializer)
        return offer

    async def _async_instance(
        self, api_id: str, llm_context: llm.LLMContext
    ) -> llm.APIInstance:
        try:
            return await llm.async_get_api(self.hass, api_id, llm_context)
        except Exception as err:
            # An API may be anybody's, and trip over anything.
            if not isinstance(err, HomeAssistantError):
                _LOGGER.debug("The API %s failed", api_id, exc_info=True)
            raise HomeAssistantError(
                translation_domain=DOMAIN,
                translation_key="api_unavailable",
                translation_placeholders={
                    "api": api_id,
                    "detail": str(err) or type(err).__name__,
                },
            ) from err

    async def _async_common_tools(self, llm_context: llm.LLMContext) -> llm.APIInstance:
        """Return the tools that belong to no API: without the time among them, Home Assistant puts it in the prompt."""
        offered = await async_get_tools(self.hass, llm_context, DOMAIN)
        return llm.APIInstance(
            api=self,
            api_prompt=offered.prompt or "",
            llm_context=llm_context,
            tools=offered.tools,
            custom_serializer=llm.selector_serializer,
        )


def _distinct(tool: llm.Tool, earlier: llm.Tool | None, api_id: str) -> llm.Tool:
    """Return the tool under a name of its own where another API has a different tool of the same name."""
    # A name with its integration's prefix is given once in all of Home Assistant: two APIs have the same tool.
    if earlier is None or tool.name.startswith(f"{tool.integration}__"):
        return tool
    return llm.NamespacedTool(api_id, tool)
