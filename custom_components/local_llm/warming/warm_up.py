"""Reads every prompt that will be asked with before anybody asks; says what that took and what was warm already."""

import asyncio
from collections.abc import Callable, Sequence
from datetime import datetime
import logging
from typing import TYPE_CHECKING

from homeassistant.const import Platform
from homeassistant.core import CALLBACK_TYPE, HomeAssistant, callback
from homeassistant.exceptions import HomeAssistantError
from homeassistant.helpers import entity_registry as er
from homeassistant.helpers.event import async_track_time_change
from homeassistant.helpers.start import async_at_started
from homeassistant.util import dt as dt_util
from local_llm_engine.errors import EngineError

from ..const import CONF_PROMPT_CACHE_GIB, CONF_WARM_UP, DOMAIN
from ..failures import request_failure
from ..prompts.history import Asker, PromptHistory
from ..prompts.prompt import async_next_request
from ..runtime import LocalLlmConfigEntry
from ..satellites import async_speakers
from ..settings import AgentSettings
from ..weights.preparation import EngineInPreparation
from .instructions_watch import async_watch_instructions
from .prompt_watch import async_watch_prompts
from .results import ColdPrompt, Target, WarmPrompt, WarmUpResult, WarmUpRun
from .settling import Settling

if TYPE_CHECKING:
    from ..entry_engine import EntryEngine

_LOGGER = logging.getLogger(__name__)

# Past the full hour, when automations and integrations are done with theirs
_MINUTE = 5

# Past midnight, when nobody's clock says yesterday any more
_SECONDS_PAST_MIDNIGHT = 10

# How long changes of prompts must be over, and how long they may go on, before they are read: those
# that people make, and those of instructions that show a clock or a temperature
_SOON_SECONDS = (5.0, 60.0)
_LATER_SECONDS = (90.0, 900.0)


class WarmUp:
    """The warm-up of one entry's agents. Runs one at a time; one prompt's failure does not stop the others."""

    def __init__(
        self,
        hass: HomeAssistant,
        entry: LocalLlmConfigEntry,
        engine: EntryEngine,
        history: PromptHistory,
    ) -> None:
        """Wait for `async_start`. A run that outlives its entry finds `engine` closed, and says so."""
        self._hass = hass
        self._entry = entry
        self._engine = engine
        self._history = history
        self._running = asyncio.Lock()
        self._is_waiting = False
        self._runs: set[asyncio.Task[None]] = set()
        self._unschedule: list[CALLBACK_TYPE] = []
        self._listeners: list[Callable[[], None]] = []
        self._failing: frozenset[str] = frozenset()
        self._has_told_of_no_cache = False
        self.last_run: WarmUpRun | None = None

    @callback
    def async_add_listener(self, listener: Callable[[], None]) -> CALLBACK_TYPE:
        """Call `listener` whenever `last_run` changes; return what ends that."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    @callback
    def async_start(self) -> None:
        """Follow the schedule, from the end of Home Assistant's start on; not at all where it is turned off or in vain."""
        self.async_stop()
        if not self._entry.options.get(CONF_WARM_UP, True):
            return
        if isinstance(self._engine, EngineInPreparation):
            # The entry is loaded anew once there is an engine.
            return
        if self._entry.data[CONF_PROMPT_CACHE_GIB]:
            self._unschedule.append(async_at_started(self._hass, self._begin))
        elif not self._has_told_of_no_cache:
            self._has_told_of_no_cache = True
            _LOGGER.warning(
                "%s has a prompt cache of 0 GiB, so no prompt stays warm and none is read ahead",
                self._entry.title,
            )

    @callback
    def async_stop(self) -> None:
        """Follow no schedule any more; a run that has begun goes on."""
        while self._unschedule:
            self._unschedule.pop()()

    async def async_end(self) -> None:
        """Follow no schedule any more, and end the runs of the schedule."""
        self.async_stop()
        for run in self._runs:
            run.cancel()
        if self._runs:
            await asyncio.wait(self._runs)

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

    async def async_run(self, targets: Sequence[Target]) -> WarmUpResult:
        """Warm these prompts, one after the other."""
        async with self._running:
            return await self._async_warm_all(targets)

    @callback
    def async_run_now(self) -> None:
        """Warm everything in the background, after the run that may be at work with older settings; one waits at most."""
        if not self._is_waiting:
            self._is_waiting = True
            run = self._entry.async_create_background_task(
                self._hass, self._async_run_scheduled(), name=f"{DOMAIN} warm-up"
            )
            self._runs.add(run)
            run.add_done_callback(self._runs.discard)

    @callback
    def _begin(self, _: HomeAssistant) -> None:
        """Warm everything now, every hour, for the new date at midnight, and whenever prompts have changed."""
        self._unschedule += [
            async_track_time_change(
                self._hass, self._on_hour, minute=_MINUTE, second=0
            ),
            async_track_time_change(
                self._hass,
                self._on_midnight,
                hour=0,
                minute=0,
                second=_SECONDS_PAST_MIDNIGHT,
            ),
        ]
        soon = Settling(self._hass, self.async_run_now, *_SOON_SECONDS)
        later = Settling(self._hass, self.async_run_now, *_LATER_SECONDS)
        instructions = [target.settings.instructions for target in self.async_targets()]
        self._unschedule += [
            async_watch_prompts(self._hass, soon.async_note),
            async_watch_instructions(self._hass, instructions, later.async_note),
            soon.async_stop,
            later.async_stop,
        ]
        self.async_run_now()

    @callback
    def _on_hour(self, _: datetime) -> None:
        """Warm everything, unless the last run is not even through."""
        if not self._running.locked():
            self.async_run_now()

    @callback
    def _on_midnight(self, _: datetime) -> None:
        self.async_run_now()

    async def _async_run_scheduled(self) -> None:
        async with self._running:
            # Targets are found when the turn comes: settings may have changed since.
            self._is_waiting = False
            await self._async_warm_everything()

    async def _async_warm_everything(self) -> None:
        targets = self.async_targets()
        result = await self._async_warm_all(targets)
        self.last_run = WarmUpRun(
            ended_at=dt_util.utcnow(),
            num_targets=len(targets),
            num_warm=len(result.warm),
            num_skipped=sum(prompt.already_warm for prompt in result.warm),
            reread_tokens=sum(prompt.reread_tokens for prompt in result.warm),
            seconds=sum(prompt.seconds for prompt in result.warm),
        )
        self._tell(self.last_run, result.cold)
        for listener in tuple(self._listeners):
            listener()

    async def _async_warm_all(self, targets: Sequence[Target]) -> WarmUpResult:
        warm: list[WarmPrompt] = []
        cold: list[ColdPrompt] = []
        for target in targets:
            try:
                warm.append(await self._async_warm(target))
            except HomeAssistantError as err:
                agent_id, _, speaker = target
                cold.append(
                    ColdPrompt(
                        agent=agent_id,
                        satellite=speaker.satellite,
                        language=speaker.language,
                        error=err,
                    )
                )
        return WarmUpResult(tuple(warm), tuple(cold))

    async def _async_warm(self, target: Target) -> WarmPrompt:
        agent_id, settings, speaker = target
        request = await async_next_request(self._hass, agent_id, settings, speaker)
        try:
            usage = await self._engine.warm_up(request)
            # What was found needs no proof; what was read is of use only if it was kept.
            left = (
                (await self._engine.inspect(request)).reread_tokens
                if usage.reread_tokens
                else 0
            )
        except EngineError as err:
            raise request_failure(err) from err
        asker = Asker(agent_id, speaker.satellite, speaker.language)
        await self._history.async_note(asker, settings, request)
        if left:
            raise HomeAssistantError(
                translation_domain=DOMAIN,
                translation_key="prompt_not_kept",
                translation_placeholders={"tokens": str(left)},
            )
        prompt = WarmPrompt(
            agent=agent_id,
            satellite=speaker.satellite,
            language=speaker.language,
            prompt_tokens=usage.prompt_tokens,
            reread_tokens=usage.reread_tokens,
            seconds=usage.queue_seconds + usage.prefill_seconds,
            already_warm=usage.reread_tokens == 0,
        )
        _LOGGER.debug("Warmed up: %s", prompt)
        return prompt

    def _tell(self, run: WarmUpRun, cold: Sequence[ColdPrompt]) -> None:
        """Log a run; warn when a prompt begins to fail, not again every hour."""
        _LOGGER.info(
            "Of %d prompts %d are warm, %d of them already were; read %d tokens in %.1f s",
            run.num_targets,
            run.num_warm,
            run.num_skipped,
            run.reread_tokens,
            run.seconds,
        )
        failing = {prompt.asker: prompt.error for prompt in cold}
        for asker, error in failing.items():
            if asker not in self._failing:
                _LOGGER.warning("Could not warm the prompt of %s: %s", asker, error)
        for asker in sorted(self._failing - failing.keys()):
            _LOGGER.info("The prompt of %s no longer fails", asker)
        self._failing = frozenset(failing)
