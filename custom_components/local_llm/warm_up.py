"""Reads every prompt that will be asked with before anybody asks: after start-up, every hour, and on demand."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
import logging
from typing import TYPE_CHECKING, NamedTuple

from homeassistant.const import Platform
from homeassistant.core import CALLBACK_TYPE, HomeAssistant, callback
from homeassistant.exceptions import HomeAssistantError
from homeassistant.helpers import entity_registry as er
from homeassistant.helpers.event import async_track_time_change
from homeassistant.helpers.start import async_at_started
from local_llm_engine.errors import EngineError

from .const import CONF_WARM_UP, DOMAIN
from .failures import request_failure
from .prompt import async_next_request, speaker_name
from .runtime import LocalLlmConfigEntry
from .satellites import Speaker, async_speakers
from .settings import AgentSettings

if TYPE_CHECKING:
    from local_llm_engine.service import Engine

_LOGGER = logging.getLogger(__name__)

# Past the full hour, when automations and integrations are done with theirs
_MINUTE = 5


class Target(NamedTuple):
    """A prompt to warm: which agent, how it asks the engine, and who will ask it."""

    agent_id: str
    settings: AgentSettings
    speaker: Speaker


@dataclass(frozen=True, slots=True, kw_only=True)
class WarmPrompt:
    """A prompt that is warm now, and what it cost. `satellite` is None for questions without a device."""

    agent: str
    satellite: str | None
    language: str
    prompt_tokens: int
    reread_tokens: int
    seconds: float


class WarmUp:
    """The warm-up of one entry's agents and its schedule. Runs one at a time."""

    def __init__(
        self, hass: HomeAssistant, entry: LocalLlmConfigEntry, engine: Engine
    ) -> None:
        """Wait for `async_start`. A run that outlives its entry finds `engine` closed, and says so."""
        self._hass = hass
        self._entry = entry
        self._engine = engine
        self._running = asyncio.Lock()
        self._is_waiting = False
        self._unschedule: list[CALLBACK_TYPE] = []

    @callback
    def async_start(self) -> None:
        """Follow the schedule, from the end of Home Assistant's start on; not at all where it is turned off."""
        self.async_stop()
        if self._entry.options.get(CONF_WARM_UP, True):
            self._unschedule = [
                async_at_started(self._hass, self._schedule_run),
                async_track_time_change(
                    self._hass, self._hourly, minute=_MINUTE, second=0
                ),
            ]

    @callback
    def async_stop(self) -> None:
        """Follow no schedule any more; a run that has begun goes on."""
        while self._unschedule:
            self._unschedule.pop()()

    @callback
    def async_targets(self) -> list[Target]:
        """Return the prompts of everyone who may ask one of the entry's agents."""
        agents = er.async_entries_for_config_entry(
            er.async_get(self._hass), self._entry.entry_id
        )
        return [
            Target(agent.entity_id, AgentSettings.from_data(subentry.data), speaker)
            for agent in agents
            if agent.domain == Platform.CONVERSATION
            and not agent.disabled
            and (subentry := self._entry.subentries.get(agent.unique_id))
            for speaker in async_speakers(self._hass, agent.entity_id)
        ]

    async def async_run(
        self,
        targets: Sequence[Target],
        on_failure: Callable[[Target, HomeAssistantError], None] | None = None,
    ) -> list[WarmPrompt]:
        """Warm these prompts, one after the other.

        Raises:
            HomeAssistantError: a prompt cannot be built or read, and there is no `on_failure` to tell.
        """
        async with self._running:
            return await self._async_warm_all(targets, on_failure)

    async def _async_warm_all(
        self,
        targets: Sequence[Target],
        on_failure: Callable[[Target, HomeAssistantError], None] | None,
    ) -> list[WarmPrompt]:
        warm: list[WarmPrompt] = []
        for target in targets:
            try:
                warm.append(await self._async_warm(target))
            except HomeAssistantError as err:
                if on_failure is None:
                    raise
                on_failure(target, err)
        return warm

    @callback
    def async_run_now(self) -> None:
        """Warm everything in the background, after the run that may be at work."""
        self._schedule_run(self._hass)

    @callback
    def _hourly(self, _: datetime) -> None:
        """Warm everything, unless the last run is not even through."""
        if not self._running.locked():
            self._schedule_run(self._hass)

    @callback
    def _schedule_run(self, _: HomeAssistant) -> None:
        """Warm everything, after the run that may be at work with older settings; one waits at most."""
        if not self._is_waiting:
            self._is_waiting = True
            self._entry.async_create_background_task(
                self._hass, self._async_run_scheduled(), name=f"{DOMAIN} warm-up"
            )

    async def _async_run_scheduled(self) -> None:
        """Warm everything as it is when the turn comes: settings may have changed since."""
        async with self._running:
            self._is_waiting = False
            await self._async_warm_all(self.async_targets(), _log_failure)

    async def _async_warm(self, target: Target) -> WarmPrompt:
        agent_id, settings, speaker = target
        request = await async_next_request(self._hass, agent_id, settings, speaker)
        try:
            usage = await self._engine.warm_up(request)
        except EngineError as err:
            raise request_failure(err) from err
        return WarmPrompt(
            agent=agent_id,
            satellite=speaker.satellite,
            language=speaker.language,
            prompt_tokens=usage.prompt_tokens,
            reread_tokens=usage.reread_tokens,
            seconds=usage.queue_seconds + usage.prefill_seconds,
        )


def _log_failure(target: Target, error: HomeAssistantError) -> None:
    _LOGGER.warning(
        "Could not warm the prompt of %s: %s",
        speaker_name(target.speaker),
        error,
    )
