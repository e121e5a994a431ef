"""What an entry's engine has done lately, for sensors, automations and traces: numbers and names, nobody's words."""

from collections import deque
from contextlib import suppress
from dataclasses import asdict
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from homeassistant.core import CALLBACK_TYPE, HomeAssistant, callback
from homeassistant.helpers.event import async_track_time_interval
from homeassistant.util import dt as dt_util
from local_llm_engine.types import CallRecord, FinishDelta, Purpose, Usage

from .const import EVENT_REQUEST
from .machine.memory_issue import async_clear_memory_issue, async_raise_memory_issue

if TYPE_CHECKING:
    from .entry_engine import EntryEngine
    from .runtime import LocalLlmConfigEntry
    from .warming.warm_up import WarmUp

_DAY = timedelta(days=1)

# How long a number of the last day may stand although nothing happens
_TICK = timedelta(hours=1)

# How requests end that gave an answer, and for want of memory
_ANSWERED = ("stop", "length")
_OUT_OF_MEMORY = "out_of_memory"


class Insight:
    """Takes an engine's call records onto the event loop, and tells whoever listens that there is news."""

    def __init__(
        self,
        hass: HomeAssistant,
        entry: LocalLlmConfigEntry,
        engine: EntryEngine,
        warm_up: WarmUp,
    ) -> None:
        """Wait for `async_start`."""
        self._hass = hass
        self._entry = entry
        self._engine = engine
        self._warm_up = warm_up
        self._listeners: list[CALLBACK_TYPE] = []
        self._sources: list[CALLBACK_TYPE] = []
        self._last_day: deque[tuple[datetime, Usage]] = deque()
        self.last_answer: Usage | None = None

    @callback
    def async_start(self) -> None:
        """Follow the engine and its warm-up."""
        self._sources = [
            self._engine.add_record_listener(self._hand_over),
            self._warm_up.async_add_listener(self.async_tell),
            async_track_time_interval(self._hass, self._async_tick, _TICK),
        ]

    @callback
    def async_stop(self) -> None:
        """Follow nothing any more."""
        while self._sources:
            self._sources.pop()()

    @callback
    def async_add_listener(self, listener: CALLBACK_TYPE) -> CALLBACK_TYPE:
        """Call `listener` whenever there is news; return what ends that."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    @property
    def hit_rate(self) -> float | None:
        """Say what share of the tokens in all spoken questions' prompts of the last 24 hours was not read again.

        In percent; None where nobody asked anything.
        """
        self._forget_older_days()
        num_tokens = sum(usage.prompt_tokens for _, usage in self._last_day)
        num_reused = sum(usage.reused_tokens for _, usage in self._last_day)
        return 100 * num_reused / num_tokens if num_tokens else None

    def _hand_over(self, record: CallRecord) -> None:
        """Bring a record from the engine's thread to the event loop, unless that has ended."""
        with suppress(RuntimeError):
            self._hass.loop.call_soon_threadsafe(self._async_take, record)

    @callback
    def _async_take(self, record: CallRecord) -> None:
        if not self._sources:
            return
        if record.finish == _OUT_OF_MEMORY:
            async_raise_memory_issue(self._hass, self._entry)
        elif record.finish in _ANSWERED:
            async_clear_memory_issue(self._hass, self._entry)
            if record.purpose is Purpose.VOICE:
                self.last_answer = record.usage
                self._last_day.append((dt_util.utcnow(), record.usage))
                self._forget_older_days()
        self._hass.bus.async_fire(
            EVENT_REQUEST, {"entry_id": self._entry.entry_id, **as_event_data(record)}
        )
        self.async_tell()

    def _forget_older_days(self) -> None:
        oldest = dt_util.utcnow() - _DAY
        while self._last_day and self._last_day[0][0] < oldest:
            self._last_day.popleft()

    @callback
    def _async_tick(self, _: datetime) -> None:
        self.async_tell()

    @callback
    def async_tell(self) -> None:
        """Say that there is news."""
        for listener in tuple(self._listeners):
            listener()


def as_event_data(record: CallRecord) -> dict[str, Any]:
    """Return a call record as automations read it: all of its fields side by side."""
    fields = asdict(record)
    usage = fields.pop("usage")
    return {**fields, **usage}


def as_trace_stats(finish: FinishDelta) -> dict[str, Any]:
    """Return what the conversation's trace tells of one answer; the first three as Home Assistant's own agents name them."""
    usage = finish.usage
    return {
        "input_tokens": usage.prompt_tokens,
        "cached_input_tokens": usage.reused_tokens,
        "output_tokens": usage.completion_tokens,
        "reread_tokens": usage.reread_tokens,
        "time_to_first_token_seconds": usage.time_to_first_token_seconds,
        "decode_tokens_per_second": decode_speed(usage),
        "outcome": finish.outcome,
    }


def decode_speed(usage: Usage) -> float | None:
    """Return the tokens a second of an answer; None where there was none."""
    return _speed(usage.completion_tokens, usage.decode_seconds)


def prefill_speed(usage: Usage) -> float | None:
    """Return the tokens a second of reading what differed; None where nothing did."""
    return _speed(usage.reread_tokens, usage.prefill_seconds)


def _speed(num_tokens: int, seconds: float) -> float | None:
    return num_tokens / seconds if num_tokens and seconds else None
