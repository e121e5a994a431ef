"""The call records of the last requests, and the one log line that each leaves."""

from collections import deque
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
import json
import logging
from pathlib import Path

from local_llm_engine.types import CallRecord

_LOGGER = logging.getLogger(__name__)

KEPT_RECORDS = 100


type RecordListener = Callable[[CallRecord], object]


class CallLog:
    """A ring of the last call records. Written by the engine's thread, read by any."""

    def __init__(self, file: Path | None = None) -> None:
        """Start empty; with `file`, every record is also appended to it as a line of JSON."""
        self._records: deque[CallRecord] = deque(maxlen=KEPT_RECORDS)
        self._listeners: list[RecordListener] = []
        self._file = file
        self.notices: list[str] = []

    def add(self, record: CallRecord) -> None:
        """Keep a record and log it: counts, seconds and names, never text."""
        self._records.append(record)
        self._append_to_file(record)
        usage = record.usage
        _LOGGER.info(
            "Finished %s request of %s: %s (%s); prompt %d tokens, reused %d from %s, re-read %d, answer %d;"
            " parted at token %s in %s; queued %.3f s, prefill %.3f s, first token after %.3f s, decode %.3f s",
            record.purpose,
            record.session or "unnamed session",
            record.finish,
            record.outcome,
            usage.prompt_tokens,
            usage.reused_tokens,
            record.resumed_from,
            usage.reread_tokens,
            usage.completion_tokens,
            record.divergence_token,
            record.divergence_segment,
            usage.queue_seconds,
            usage.prefill_seconds,
            usage.time_to_first_token_seconds,
            usage.decode_seconds,
        )
        self._tell_listeners(record)

    def add_listener(self, listener: RecordListener) -> Callable[[], None]:
        """Have `listener` called with every record from now on, on the engine's thread; return how to end that.

        It must not block. What it raises is logged and harms nothing.
        """
        # One of its own for each call: the same function may be added twice, and ended twice.
        registered = partial(listener)
        self._listeners.append(registered)

        def remove() -> None:
            if registered in self._listeners:
                self._listeners.remove(registered)

        return remove

    def _tell_listeners(self, record: CallRecord) -> None:
        for listener in tuple(self._listeners):
            try:
                listener(record)
            except Exception:
                _LOGGER.exception("A listener to call records failed")

    def _append_to_file(self, record: CallRecord) -> None:
        if self._file is None:
            return
        try:
            with self._file.open("a", encoding="utf-8") as file:
                file.write(json.dumps(asdict(record)) + "\n")
        except OSError as error:
            notice = f"call records cannot be written to {self._file}: {error}"
            self.notices.append(notice)
            self._file = None
            _LOGGER.warning("%s", notice[0].upper() + notice[1:])

    def latest(self) -> tuple[CallRecord, ...]:
        """Return the kept records, oldest first."""
        return tuple(self._records)
