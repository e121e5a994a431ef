"""The thread that owns torch: takes commands, steps sequences, ends every one exactly once."""

from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
import logging
import queue
import threading

from local_llm_engine.errors import (
    EngineClosedError,
    EngineError,
    GenerationError,
    OutOfMemoryError,
)

from .runner import Runner
from .scheduler import Scheduler
from .sequence import FailEvent, Phase, Sequence

_LOGGER = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Submit:
    sequence: Sequence


@dataclass(frozen=True, slots=True)
class _Cancel:
    sequence: Sequence


@dataclass(frozen=True, slots=True)
class _Ask:
    answer: Callable[[Runner], None]


@dataclass(frozen=True, slots=True)
class _Close:
    pass


type _Command = _Submit | _Cancel | _Ask | _Close


class EngineLoop:
    """Runs a runner on a thread of its own; every method may be called from any thread."""

    def __init__(self, load: Callable[[], Runner]) -> None:
        """Start the thread, load the runner on it and wait until it stands.

        Raises whatever `load` raises; the thread has ended then.
        """
        self.scheduler = Scheduler()
        self._inbox: queue.SimpleQueue[_Command] = queue.SimpleQueue()
        self._closing = threading.Lock()
        self._closed = False
        loaded: queue.SimpleQueue[BaseException | None] = queue.SimpleQueue()
        self._thread = threading.Thread(
            target=self._run, args=(load, loaded), name="local_llm_engine", daemon=True
        )
        self._thread.start()
        error = loaded.get()
        if error is not None:
            self._thread.join()
            if isinstance(error, Exception):
                raise error
            raise EngineError(f"the engine could not be loaded: {error!r}") from error

    @property
    def is_running(self) -> bool:
        """Whether the thread is there and takes requests."""
        return not self._closed and self._thread.is_alive()

    def submit(self, sequence: Sequence) -> None:
        """Accept a sequence: from here on it ends in exactly one finish or failure, or is cancelled.

        Raises:
            EngineClosedError: the engine was closed.

        """
        with self._closing:
            if self._closed:
                raise EngineClosedError("the engine is closed")
            self._inbox.put(_Submit(sequence))

    def cancel(self, sequence: Sequence) -> None:
        """Let a sequence go before its next step; nothing happens where it has ended."""
        self._inbox.put(_Cancel(sequence))

    def ask[Answer](self, question: Callable[[Runner], Answer]) -> Future[Answer]:
        """Ask the runner something on its thread, between two steps; `question` must not change it.

        Raises:
            EngineClosedError: the engine was closed.

        """
        future: Future[Answer] = Future()

        def answer(runner: Runner) -> None:
            if not future.set_running_or_notify_cancel():
                return
            try:
                future.set_result(question(runner))
            except BaseException as error:  # noqa: BLE001 - it belongs to the one who asks
                future.set_exception(error)

        with self._closing:
            if self._closed:
                raise EngineClosedError("the engine is closed")
            self._inbox.put(_Ask(answer))
        return future

    def close(self) -> None:
        """Fail what still runs, end the thread and wait for that."""
        with self._closing:
            if not self._closed:
                self._closed = True
                self._inbox.put(_Close())
        self._thread.join()

    def _run(
        self,
        load: Callable[[], Runner],
        loaded: queue.SimpleQueue[BaseException | None],
    ) -> None:
        try:
            runner = load()
        except BaseException as error:  # noqa: BLE001 - whatever it is, a panic of a library too, it belongs to the caller of load
            loaded.put(error)
            return
        loaded.put(None)
        while self._obey(runner):
            sequence = self.scheduler.next()
            if sequence is not None:
                self._step(runner, sequence)

    def _obey(self, runner: Runner) -> bool:
        """Carry out all commands; wait for one where there is nothing else to do. False: close."""
        while True:
            try:
                command = self._inbox.get(block=self.scheduler.next() is None)
            except queue.Empty:
                return True
            match command:
                case _Submit(sequence):
                    for other in self.scheduler.displaced_by(sequence):
                        self.scheduler.remove(other)
                        self._guard(runner, other, runner.give_way)
                    self.scheduler.add(sequence)
                case _Cancel(sequence):
                    if self.scheduler.remove(sequence):
                        self._guard(runner, sequence, runner.abandon)
                case _Ask(answer):
                    answer(runner)
                case _Close():
                    self._fail_all(runner)
                    return False

    def _step(self, runner: Runner, sequence: Sequence) -> None:
        self._guard(runner, sequence, runner.step)
        if sequence.phase is Phase.ENDED:
            self.scheduler.remove(sequence)

    def _guard(
        self, runner: Runner, sequence: Sequence, action: Callable[[Sequence], None]
    ) -> None:
        """Act on a sequence; a failure is its own and leaves the engine running."""
        try:
            action(sequence)
        except EngineError as error:
            _LOGGER.warning("A %s request failed: %s", sequence.purpose, error)
            self._fail(runner, sequence, error)
        except BaseException as error:
            _LOGGER.exception("A %s request failed", sequence.purpose)
            self._fail(
                runner,
                sequence,
                GenerationError(f"the engine failed while it computed: {error!r}"),
            )

    def _fail(self, runner: Runner, sequence: Sequence, error: EngineError) -> None:
        self.scheduler.remove(sequence)
        try:
            if isinstance(error, OutOfMemoryError):
                runner.discard(sequence, "out_of_memory")
            else:
                runner.discard(sequence)
        except BaseException:
            _LOGGER.exception("The state of a failed request could not be reset")
        sequence.emit(FailEvent(error))

    def _fail_all(self, runner: Runner) -> None:
        for sequence in self.scheduler.sequences():
            self._fail(
                runner,
                sequence,
                EngineClosedError("the engine was closed while it served the request"),
            )
