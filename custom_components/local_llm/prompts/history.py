"""What was sent last from where, and whether the part that all devices share keeps still.

A line that changes again and again is told in a repair issue, which goes when it has kept still for a day.
"""

from dataclasses import dataclass, field
from hashlib import blake2s
from typing import TYPE_CHECKING, Any, NamedTuple

from homeassistant.config_entries import ConfigSubentry
from homeassistant.core import HomeAssistant, callback
from homeassistant.helpers import entity_registry as er, issue_registry as ir
from homeassistant.helpers.storage import Store
from homeassistant.util import dt as dt_util
from local_llm_engine.errors import EngineError
from local_llm_engine.types import ChatRequest

from ..const import DOMAIN
from ..linter.advice import async_cost
from ..runtime import LocalLlmConfigEntry
from ..settings import AgentSettings
from .cost import async_tokens_from, prefill_tokens_per_second
from .lines import SHARED, PromptLine, lines_of
from .restless_lines import RestlessLine, RestlessLines

if TYPE_CHECKING:
    from ..entry_engine import EntryEngine

_STORAGE_VERSION = 1
# A change of the house changes the prompts of all satellites, one after the other.
_SAVE_DELAY_SECONDS = 60.0
_MAX_TEXT = 200
# More than any home has; whoever asks may name any language.
_MAX_ASKERS = 250


class Asker(NamedTuple):
    """For whom a prompt is built: `user_id` is None for a satellite, which speaks for nobody."""

    agent_id: str
    satellite: str | None
    language: str
    user_id: str | None = None


@dataclass(slots=True)
class _Followed:
    """The shared part of one asker's prompts; `basis` says which settings it was built from."""

    basis: str
    lines: RestlessLines = field(default_factory=RestlessLines)


class PromptHistory:
    """The prompts of one entry's agents, from one to the next."""

    def __init__(
        self, hass: HomeAssistant, entry: LocalLlmConfigEntry, engine: EntryEngine
    ) -> None:
        """Begin without a past; `async_load` brings it."""
        self._hass = hass
        self._entry = entry
        self._engine = engine
        self._last: dict[Asker, tuple[PromptLine, ...]] = {}
        self._followed: dict[Asker, _Followed] = {}
        self._store: Store[dict[str, Any]] = _store(hass, entry)

    async def async_load(self) -> None:
        """Read what an earlier run of Home Assistant has seen: some lines change with every start."""
        if (stored := await self._store.async_load()) is None:
            return
        for one in stored["followed"]:
            self._followed[Asker(*one["asker"])] = _Followed(
                one["basis"],
                RestlessLines.from_stored(
                    stored["versions"][one["version"]], one["changes"]
                ),
            )

    @callback
    def last(self, asker: Asker) -> tuple[PromptLine, ...] | None:
        """Return the prompt that was sent last from there since the engine was loaded."""
        return self._last.get(asker)

    async def async_note(
        self, asker: Asker, settings: AgentSettings, request: ChatRequest
    ) -> None:
        """Take note of a prompt that was sent; its agent may be gone meanwhile."""
        # One that has another id now is gone by its old one, and so is what was told of it.
        self.async_drop_removed()
        if self._subentry(asker.agent_id) is None:
            return
        # Whoever is noted last stands last: the oldest goes where there are too many.
        self._last.pop(asker, None)
        lines = self._last[asker] = self._with_known(lines_of(request))
        shared = [line for line in lines if line.segment in SHARED]
        basis = _basis(settings)
        followed = self._followed.pop(asker, None)
        if followed is None or followed.basis != basis:
            # Whoever changes the settings means to change the prompt.
            followed = _Followed(basis)
        self._followed[asker] = followed
        _forget_oldest(self._last)
        _forget_oldest(self._followed)
        now = dt_util.utcnow().timestamp()
        if followed.lines.follow((line.text for line in shared), now):
            self._store.async_delay_save(self._as_stored, _SAVE_DELAY_SECONDS)
        restless = followed.lines.restless(now)
        if restless is not None:
            await self._async_raise(asker, request, shared[restless.number], restless)
        elif not self._is_restless(asker.agent_id, now):
            self._clear(asker.agent_id)

    def _with_known(self, lines: tuple[PromptLine, ...]) -> tuple[PromptLine, ...]:
        """Take the lines of the prompt before where they are the same: most of a house is in every satellite's."""
        before = next(reversed(self._last.values()), ())
        same = (
            known if known == line else line
            for known, line in zip(before, lines, strict=False)
        )
        return (*same, *lines[len(before) :])

    @callback
    def forget(self, agent_id: str) -> None:
        """Count anew: a person says that the reason is gone."""
        for asker in list(self._followed):
            if asker.agent_id == agent_id:
                del self._followed[asker]

    @callback
    def async_drop_removed(self) -> None:
        """Let go of agents that are there no more."""
        gone = {
            asker
            for asker in (*self._followed, *self._last)
            if self._subentry(asker.agent_id) is None
        }
        for asker in gone:
            self._followed.pop(asker, None)
            self._last.pop(asker, None)
            self._clear(asker.agent_id)

    async def async_stop(self) -> None:
        """Take all issues back, and keep what was seen."""
        for agent_id in {asker.agent_id for asker in self._followed}:
            self._clear(agent_id)
        await self._store.async_save(self._as_stored())

    def _as_stored(self) -> dict[str, Any]:
        """Keep every version once: most satellites have the same."""
        versions: dict[tuple[str, ...], int] = {}
        followed = [
            {
                "asker": list(asker),
                "basis": one.basis,
                "version": versions.setdefault(one.lines.version, len(versions)),
                "changes": one.lines.changes,
            }
            for asker, one in self._followed.items()
        ]
        return {
            "versions": [list(version) for version in versions],
            "followed": followed,
        }

    def _is_restless(self, agent_id: str, now: float) -> bool:
        return any(
            followed.lines.restless(now)
            for asker, followed in self._followed.items()
            if asker.agent_id == agent_id
        )

    async def _async_raise(
        self,
        asker: Asker,
        request: ChatRequest,
        line: PromptLine,
        restless: RestlessLine,
    ) -> None:
        try:
            tokens = await async_tokens_from(self._engine, request, [line.position])
        except EngineError:
            # It was closed meanwhile; there is nobody left to tell.
            return
        subentry = self._subentry(asker.agent_id)
        ir.async_create_issue(
            self._hass,
            DOMAIN,
            _issue_id(asker.agent_id),
            data={
                "entry_id": self._entry.entry_id,
                "agent_id": asker.agent_id,
                "subentry_id": subentry.subentry_id if subentry else None,
                "segment": line.segment,
            },
            is_fixable=True,
            severity=ir.IssueSeverity.WARNING,
            translation_key=f"restless_{line.segment}",
            translation_placeholders={
                "agent": subentry.title if subentry else asker.agent_id,
                # A backtick would end what is shown as code.
                "line": line.text.strip()[:_MAX_TEXT].replace("`", "'"),
                "changes": str(restless.changes),
                "cost": await async_cost(
                    self._hass,
                    tokens[line.position],
                    prefill_tokens_per_second(self._engine.status().records),
                ),
            },
        )

    def _subentry(self, agent_id: str) -> ConfigSubentry | None:
        agent = er.async_get(self._hass).async_get(agent_id)
        return self._entry.subentries.get(agent.unique_id) if agent else None

    def _clear(self, agent_id: str) -> None:
        """Take an issue back; one that a person ignores stays, so that it stays ignored."""
        issue = ir.async_get(self._hass).async_get_issue(DOMAIN, _issue_id(agent_id))
        if issue is not None and issue.dismissed_version is None:
            ir.async_delete_issue(self._hass, DOMAIN, issue.issue_id)


async def async_remove_history(hass: HomeAssistant, entry: LocalLlmConfigEntry) -> None:
    """Leave nothing of an entry's past behind."""
    await _store(hass, entry).async_remove()


def _store(hass: HomeAssistant, entry: LocalLlmConfigEntry) -> Store[dict[str, Any]]:
    return Store(
        hass, _STORAGE_VERSION, f"{DOMAIN}.{entry.entry_id}.prompts", private=True
    )


def _forget_oldest(askers: dict[Asker, Any]) -> None:
    while len(askers) > _MAX_ASKERS:
        del askers[next(iter(askers))]


def _issue_id(agent_id: str) -> str:
    return f"restless_prompt_{agent_id}"


def _basis(settings: AgentSettings) -> str:
    text = "\n".join((settings.instructions, *settings.api_ids))
    return blake2s(text.encode(errors="replace"), digest_size=8).hexdigest()
