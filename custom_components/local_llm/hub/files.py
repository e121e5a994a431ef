"""The files of a model repository of Hugging Face, and bringing them here so that it can go on after any end.

Blocks, and knows nothing of Home Assistant. Stands on huggingface_hub, which may be missing, so nobody imports it at the
start. Never logs or keeps a token.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
import hashlib
from pathlib import Path
import time
from typing import Final

import httpx2
from huggingface_hub import get_session, hf_hub_url, hf_raise_for_status

_TIMEOUT: Final = httpx2.Timeout(30.0)
_CHUNK_BYTES: Final = 1 << 20
# Attempts in a row that bring not one byte
_MAX_ATTEMPTS: Final = 4
# How a safetensors file begins: the length of its header, and the longest that may be.
_LENGTH_BYTES: Final = 8
_MAX_HEADER_BYTES: Final = 100_000_000

type Progress = Callable[[int], None]


class DamagedFileError(Exception):
    """What came is not what the repository holds; the message is the file's name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HubFile:
    """A file of a repository: its size, and by what its content is told from any other.

    `sha256` is that of a large file; others have git's own name for their content, `blob_id`.
    """

    name: str
    nbytes: int
    sha256: str | None
    blob_id: str | None

    @property
    def digest(self) -> str:
        """A name for the file's content."""
        return self.sha256 or self.blob_id or "unknown"

    def fits(self, path: Path) -> bool:
        """Whether a file here holds what it should."""
        if not path.exists() or path.stat().st_size != self.nbytes:
            return False
        if self.sha256:
            return _digest(path, hashlib.sha256()) == self.sha256
        blob = hashlib.sha1(f"blob {self.nbytes}\0".encode(), usedforsecurity=False)
        return self.blob_id in (None, _digest(path, blob))


@dataclass(frozen=True, slots=True, kw_only=True)
class HubModel:
    """The files of a repository at one commit that make a model."""

    repository: str
    commit: str
    files: tuple[HubFile, ...]

    @property
    def nbytes(self) -> int:
        """Bytes of all files."""
        return sum(file.nbytes for file in self.files)


class Transfer:
    """Brings files of one repository at one commit."""

    def __init__(
        self,
        repository: str,
        commit: str,
        *,
        endpoint: str | None,
        token: str | None,
        retry_seconds: float,
    ) -> None:
        """Wait `retry_seconds` after a first attempt in vain, and twice as long after each further one."""
        self._repository = repository
        self._commit = commit
        self._endpoint = endpoint
        self._headers = {"Accept-Encoding": "identity"}
        if token:
            self._headers["Authorization"] = f"Bearer {token}"
        self._retry_seconds = retry_seconds

    def bring(
        self, file: HubFile, folder: Path, progress: Progress = lambda _: None
    ) -> None:
        """Bring one file into a folder, going on where an earlier attempt ended.

        `progress` hears how many bytes are here; what it raises ends the transfer.

        Raises:
            DamagedFileError: what came is something else.
        """
        path = folder / file.name
        progress(0)
        if file.fits(path):
            progress(file.nbytes)
            return
        partial = folder / f"{file.name}.{file.digest[:16]}.partial"
        self._bring_rest(file, partial, progress)
        if not file.fits(partial):
            partial.unlink()
            raise DamagedFileError(file.name)
        partial.replace(path)

    def bring_header(self, file: HubFile, folder: Path) -> None:
        """Make a file of the right size that holds nothing but the header of a safetensors file.

        The rest is a hole, which takes no room on the disk.
        """
        last = _LENGTH_BYTES + _MAX_HEADER_BYTES - 1
        head = bytearray()
        needed = _LENGTH_BYTES
        with self._reading(file, f"bytes=0-{last}") as response:
            for chunk in response.iter_bytes(1 << 16):
                head += chunk
                if len(head) >= _LENGTH_BYTES:
                    length = int.from_bytes(head[:_LENGTH_BYTES], "little")
                    needed = _LENGTH_BYTES + min(length, _MAX_HEADER_BYTES)
                if len(head) >= needed:
                    break
        with (folder / file.name).open("wb") as stream:
            stream.write(head[:needed])
            stream.truncate(file.nbytes)

    def _bring_rest(self, file: HubFile, partial: Path, progress: Progress) -> None:
        """Append what is missing; a broken connection is made again as long as that brings something."""
        partial.touch()
        attempts = 0
        while (start := partial.stat().st_size) < file.nbytes:
            try:
                self._append(file, partial, start, progress)
            except httpx2.TransportError:
                if attempts == _MAX_ATTEMPTS:
                    raise
            if partial.stat().st_size > start:
                attempts = 0
                continue
            attempts += 1
            if attempts > _MAX_ATTEMPTS:
                raise DamagedFileError(file.name)
            time.sleep(self._retry_seconds * 2 ** (attempts - 1))

    def _append(
        self, file: HubFile, partial: Path, start: int, progress: Progress
    ) -> None:
        with self._reading(file, f"bytes={start}-") as response:
            # A site may send all of it instead.
            goes_on = response.status_code == httpx2.codes.PARTIAL_CONTENT
            with partial.open("ab" if goes_on else "wb") as stream:
                for chunk in response.iter_bytes(_CHUNK_BYTES):
                    stream.write(chunk)
                    progress(stream.tell())

    @contextmanager
    def _reading(self, file: HubFile, byte_range: str) -> Iterator[httpx2.Response]:
        url = hf_hub_url(
            self._repository,
            file.name,
            revision=self._commit,
            endpoint=self._endpoint,
        )
        with get_session().stream(
            "GET",
            url,
            headers=self._headers | {"Range": byte_range},
            timeout=_TIMEOUT,
            follow_redirects=True,
        ) as response:
            if response.is_error:
                response.read()
            hf_raise_for_status(response)
            yield response


def _digest(path: Path, digest: hashlib._Hash) -> str:
    with path.open("rb") as stream:
        while chunk := stream.read(_CHUNK_BYTES):
            digest.update(chunk)
    return digest.hexdigest()
