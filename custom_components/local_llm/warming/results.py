"""Which prompts a warm-up reads, and what came of each and of all; values alone."""

from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from homeassistant.exceptions import HomeAssistantError

from ..satellites import Speaker
from ..settings import AgentSettings


class Target(NamedTuple):
    """A prompt to warm: which agent, how it asks the engine, and who will ask it."""

    agent_id: str
    settings: AgentSettings
    speaker: Speaker


@dataclass(frozen=True, slots=True, kw_only=True)
class WarmPrompt:
    """A prompt that is warm now, and what it cost. `satellite` is None for questions without a device.

    `already_warm` says that the engine found all of it in its prompt cache and read nothing.
    """

    agent: str
    satellite: str | None
    language: str
    prompt_tokens: int
    reread_tokens: int
    seconds: float
    already_warm: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ColdPrompt:
    """A prompt that could not be warmed, and why."""

    agent: str
    satellite: str | None
    language: str
    error: HomeAssistantError

    @property
    def asker(self) -> str:
        """Say whose prompt it is."""
        return f"{self.satellite or 'questions without a device'} ({self.agent}, {self.language})"


@dataclass(frozen=True, slots=True, kw_only=True)
class WarmUpRun:
    """What a run over all prompts found; of the warm ones `num_skipped` were warm already."""

    ended_at: datetime
    num_targets: int
    num_warm: int
    num_skipped: int
    reread_tokens: int
    seconds: float


class WarmUpResult(NamedTuple):
    """What came of each prompt of a run."""

    warm: tuple[WarmPrompt, ...]
    cold: tuple[ColdPrompt, ...]
