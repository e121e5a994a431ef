"""Brings the prompt of whoever is speaking to where their question will need it, before its words are known."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
import logging
from typing import TYPE_CHECKING

from homeassistant.components.assist_satellite.entity import AssistSatelliteState
from homeassistant.core import HomeAssistant, callback
from homeassistant.exceptions import HomeAssistantError
from local_llm_engine.errors import EngineError
from local_llm_engine.types import Purpose

from ..prompts.prompt import async_next_request, speaker_name
from ..satellites import Speaker, async_speakers
from ..settings import AgentSettings

if TYPE_CHECKING:
    from ..entry_engine import EntryEngine

_LOGGER = logging.getLogger(__name__)


class Prefetch:
    """Prepares one engine for the next question, and never while it answers one."""

    def __init__(self, hass: HomeAssistant, engine: EntryEngine) -> None:
        """Do nothing yet."""
        self._hass = hass
        self._engine = engine
        self._num_answers = 0

    @contextmanager
    def held_off(self) -> Iterator[None]:
        """Leave the engine alone while an answer is made: between its tools it needs its state again at once."""
        self._num_answers += 1
        try:
            yield
        finally:
            self._num_answers -= 1

    def _is_held_off(self) -> bool:
        return self._num_answers > 0

    async def async_prepare(
        self, agent_id: str, settings: AgentSettings, language: str | None
    ) -> None:
        """Read the prompt of the satellite that listens now; whatever fails, the question will tell."""
        if self._is_held_off():
            return
        speaker = async_listening_speaker(self._hass, agent_id, language)
        try:
            request = await async_next_request(self._hass, agent_id, settings, speaker)
            if self._is_held_off():
                # Somebody's question came while the prompt was put together.
                return
            usage = await self._engine.warm_up(
                replace(request, purpose=Purpose.PREFETCH)
            )
        except (HomeAssistantError, EngineError) as err:
            _LOGGER.debug("Could not prefetch for %s: %s", speaker_name(speaker), err)
            return
        _LOGGER.debug("Prefetched for %s: %s", speaker_name(speaker), usage)


@callback
def async_listening_speaker(
    hass: HomeAssistant, agent_id: str, language: str | None
) -> Speaker:
    """Return who is speaking to an agent now: at the satellite that listens since last, else at no device."""
    *at_satellites, nowhere = async_speakers(hass, agent_id)
    listening = [
        (state.last_changed, _primary(speaker.language) == _primary(language), speaker)
        for speaker in at_satellites
        if speaker.satellite
        and (state := hass.states.get(speaker.satellite))
        and state.state == AssistSatelliteState.LISTENING
    ]
    return max(listening, default=(None, False, nowhere))[2]


def _primary(language: str | None) -> str:
    """Return the language without its region: a pipeline's own may have none where its questions have."""
    return (language or "").partition("-")[0].lower()
