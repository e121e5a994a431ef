"""One run of the demo: warms up, asks, and judges answers, states and re-read tokens."""

from typing import Any

from homeassistant.core import HomeAssistant
from homeassistant.util import dt as dt_util
from local_llm_engine.chat import ChatFormat
from local_llm_engine.types import Purpose, Usage

from .client import Client
from .core import DemoError
from .household import Household
from .prompts import device_section_tokens
from .questions import QUESTIONS, Outcome, Question, wrong_words
from .report import Limit, Report, Row

# What the template puts around a question's words, which has to be read with them
TEMPLATE_TOKENS = 12


class Run:
    """Asks the six questions in a house where nobody has asked anything yet."""

    def __init__(
        self,
        hass: HomeAssistant,
        client: Client,
        household: Household,
        chat: ChatFormat,
        *,
        warm_up: bool,
    ) -> None:
        """Take the house as it stands; `chat` belongs to the model that answers."""
        self._hass = hass
        self._client = client
        self._household = household
        self._chat = chat
        self._warm_up = warm_up
        self._report = Report()

    async def run(self) -> Report:
        """Ask everything and judge it."""
        if self._warm_up:
            answer = await self._client.action("local_llm.warm_up")
            self._report.warm_up = answer["prompts"]
        before = after = await self._states()
        for question in QUESTIONS:
            after = await self._ask(question, after)
        self._report.states = {
            name: {"before": before[name]["state"], "after": state["state"]}
            for name, state in after.items()
            if before[name]["state"] != state["state"]
        }
        return self._report

    async def _ask(
        self, question: Question, before: dict[str, dict[str, Any]]
    ) -> dict[str, dict[str, Any]]:
        """Ask one question, write down what came of it, and return the states after it."""
        num_known = len(self._voice_calls())
        answer = await self._converse(question)
        after = await self._states()
        calls = self._voice_calls()[num_known:]
        if not calls:
            raise DemoError(
                f"the engine knows nothing of {question.text!r}, which was answered: {answer}"
            )
        fault = wrong_words(answer) or question.judge(
            Outcome(answer=answer, before=before, after=after, now=dt_util.now())
        )
        if fault:
            self._report.faults.append(f"{question.text!r} {fault}; answer: {answer!r}")
        row = _row(question, answer, calls[0], ok=fault is None)
        if row.satellite not in {earlier.satellite for earlier in self._report.rows}:
            await self._judge_first(row)
        self._report.rows.append(row)
        return after

    async def _judge_first(self, row: Row) -> None:
        """Hold the first question of a speaker to its limit; somebody must read the house once."""
        if not self._warm_up and not self._report.rows:
            return
        limit = Limit(
            satellite=row.satellite,
            reread_tokens=row.reread_tokens,
            device_section_tokens=await device_section_tokens(
                self._hass,
                self._chat,
                self._household.agent,
                self._device_id(row.satellite),
            ),
            question_tokens=row.question_tokens,
            template_tokens=TEMPLATE_TOKENS,
            warm=self._warm_up,
        )
        self._report.limits.append(limit)
        if not limit.ok:
            self._report.faults.append(str(limit))

    async def _converse(self, question: Question) -> str:
        """Ask as a new conversation and return the spoken answer."""
        result = await self._client.command(
            "conversation/process",
            text=question.text,
            language="en",
            agent_id=self._household.agent,
            device_id=self._device_id(question.satellite),
        )
        return str(result["response"]["speech"]["plain"]["speech"])

    def _device_id(self, satellite: str | None) -> str | None:
        return self._household.satellites[satellite] if satellite else None

    async def _states(self) -> dict[str, dict[str, Any]]:
        """Return the states of the house's own entities."""
        states = await self._client.states()
        return {name: states[name] for name in sorted(self._household.entities)}

    def _voice_calls(self) -> list[Usage]:
        """Return what the engine's calls for questions cost so far."""
        entry = self._hass.config_entries.async_get_known_entry(
            self._household.entry_id
        )
        records = entry.runtime_data.engine.status().records
        return [record.usage for record in records if record.purpose is Purpose.VOICE]


def _row(question: Question, answer: str, usage: Usage, *, ok: bool) -> Row:
    return Row(
        request=question.text,
        satellite=question.satellite,
        prompt_tokens=usage.prompt_tokens,
        reused_tokens=usage.reused_tokens,
        reread_tokens=usage.reread_tokens,
        question_tokens=usage.question_tokens,
        time_to_first_token_seconds=round(usage.time_to_first_token_seconds, 4),
        answer=answer,
        ok=ok,
    )
