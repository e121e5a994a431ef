"""The thread that changes the disk tier's folder: everything in the order in which it was asked for.

Knows bytes and names; knows nothing of torch or of which pieces are worth keeping.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
import hashlib
from io import FileIO
import logging
import math
import os
import queue
import threading
import time

from .disk_folder import DiskFolder
from .piece_header import PieceFacts, Stamp, TensorBytes, make_header

_LOGGER = logging.getLogger(__name__)

# Room for all that dozens of warm-ups leave at once; what finds none is asked for again at its next use.
MAX_WAITING_JOBS = 1_024
# Between two blocks the thread looks whether it is time to end.
_BLOCK_BYTES = 4 << 20


@dataclass(eq=False, slots=True)
class PieceFile:
    """One piece's place on disk; `parent` is that of the piece it was computed from.

    The engine's thread owns it; the writer sets `name` when the file stands and outlives any crash.
    """

    parent: PieceFile | None
    nbytes: int
    used_seconds: float
    name: str | None = None
    is_dropped: bool = False
    checked: Stamp | None = None


@dataclass(frozen=True, slots=True)
class _Write:
    file: PieceFile
    facts: PieceFacts
    tensors: tuple[TensorBytes, ...]


@dataclass(frozen=True, slots=True)
class _Remove:
    file: PieceFile
    aside: bool


@dataclass(frozen=True, slots=True)
class _Touch:
    file: PieceFile


@dataclass(frozen=True, slots=True)
class _Tell:
    done: threading.Event


@dataclass(frozen=True, slots=True)
class _Close:
    pass


type _Job = _Write | _Remove | _Touch | _Tell | _Close


class DiskWriter:
    """Writes, touches and removes files on a thread of its own; nobody waits for it but `flush` and `close`.

    `nbytes` sums the files that stand, and `problem` tells why nothing is written any more: after the
    first failure that is so until the engine starts again. Any thread may read both.
    """

    def __init__(self, folder: DiskFolder, nbytes: int) -> None:
        """Start the thread; `nbytes` stand in the folder already. The folder is the thread's from here on."""
        self._folder = folder
        self.nbytes = nbytes
        self.problem: str | None = None
        self._deadline = math.inf
        self._jobs: queue.SimpleQueue[_Job] = queue.SimpleQueue()
        self._thread = threading.Thread(
            target=self._run, name="local_llm_disk", daemon=True
        )
        self._thread.start()

    @property
    def takes_more(self) -> bool:
        """Whether another file may be asked for now."""
        return self.problem is None and self._jobs.qsize() < MAX_WAITING_JOBS

    def write(
        self, file: PieceFile, facts: PieceFacts, tensors: tuple[TensorBytes, ...]
    ) -> None:
        """Ask for a file; its parent's must have been asked for. `facts.parent` is filled in by then."""
        self._jobs.put(_Write(file, facts, tensors))

    def remove(self, file: PieceFile, *, aside: bool = False) -> None:
        """Ask for a file to go, or not to be written; `aside` keeps a damaged one for whoever wants to look."""
        file.is_dropped = True
        self._jobs.put(_Remove(file, aside))

    def touch(self, file: PieceFile) -> None:
        """Ask for a file to be marked as just used."""
        self._jobs.put(_Touch(file))

    def flush(self, timeout_seconds: float) -> bool:
        """Wait until all that was asked for is done; False where that takes too long."""
        done = threading.Event()
        self._jobs.put(_Tell(done))
        return done.wait(timeout_seconds)

    def close(self, timeout_seconds: float) -> None:
        """Write what waits, for this long at most, and end the thread; may be called again."""
        self._deadline = time.monotonic() + timeout_seconds
        self._jobs.put(_Close())
        # A disk that does not answer keeps its thread, and the lock with it; the process can end.
        self._thread.join(timeout_seconds + 1)

    def _run(self) -> None:
        while self._do(self._jobs.get()):
            pass
        self._folder.close()

    def _do(self, job: _Job) -> bool:
        """Carry out one job. False: it was the last."""
        match job:
            case _Write(file, facts, tensors):
                self._write(file, facts, tensors)
            case _Remove(file, aside) if file.name is not None:
                path = self._folder.file(file.name)
                (self._folder.put_aside if aside else self._folder.remove)(path)
                self.nbytes -= file.nbytes
            case _Touch(file) if file.name is not None:
                self._folder.touch(file.name)
            case _Tell(done):
                done.set()
        return not isinstance(job, _Close)

    def _write(
        self, file: PieceFile, facts: PieceFacts, tensors: tuple[TensorBytes, ...]
    ) -> None:
        parent = file.parent.name if file.parent else None
        is_orphan = file.parent is not None and parent is None
        if file.is_dropped or is_orphan or self.problem or self._is_late():
            return
        header = make_header(replace(facts, parent=parent), tensors)
        try:
            name = self._write_parts([header, *(tensor.data for tensor in tensors)])
        except OSError as error:
            self._stop_writing(error)
            return
        if name is not None:
            self.nbytes += file.nbytes
            file.name = name

    def _write_parts(self, parts: Iterable[bytes | memoryview]) -> str | None:
        """Write a file whose name is the digest of its bytes; None where it is too late for that."""
        digest = hashlib.sha256()
        partial, stream = self._folder.create_partial()
        try:
            with stream:
                for block in _blocks(parts):
                    if self._is_late():
                        return None
                    digest.update(block)
                    _write_all(stream, block)
                os.fsync(stream.fileno())
            self._folder.publish(partial, digest.hexdigest())
            return digest.hexdigest()
        finally:
            self._folder.remove(partial)

    def _is_late(self) -> bool:
        return time.monotonic() > self._deadline

    def _stop_writing(self, error: OSError) -> None:
        self.problem = (
            f"the prompt cache cannot write to {self._folder.path} ({error.strerror});"
            " until the engine starts again, new prompts are kept in RAM only"
        )
        _LOGGER.warning("%s", self.problem[0].upper() + self.problem[1:])


def _blocks(parts: Iterable[bytes | memoryview]) -> Iterator[memoryview]:
    for part in parts:
        view = memoryview(part)
        for start in range(0, view.nbytes, _BLOCK_BYTES):
            yield view[start : start + _BLOCK_BYTES]


def _write_all(stream: FileIO, block: memoryview) -> None:
    """Write a block; the system may take a part of it at a time."""
    while block:
        block = block[stream.write(block) :]
