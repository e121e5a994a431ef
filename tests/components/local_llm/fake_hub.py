"""A site on this machine that speaks Hugging Face's protocol, and fails as a test wants it to."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
import hashlib
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
import json
from pathlib import Path
import re
import shutil
import threading
from typing import Any
from urllib.parse import urlsplit

COMMIT = "1234567890abcdef1234567890abcdef12345678"
REPOSITORY = "somebody/tiny-model"
# As Hugging Face has it: large files lie elsewhere.
LARGE_BYTES = 1_000_000


@dataclass(frozen=True, slots=True)
class Request:
    """What was asked for."""

    method: str
    path: str
    byte_range: str | None
    authorization: str | None


@dataclass(kw_only=True)
class FakeHub:
    """One repository, as it lies in `folder`, and what goes wrong with it.

    `cut_after` ends the next connections for a large file after so many bytes. `served` stands in for the bytes of a
    file. `refusals` maps a part of a path to the status and the error code of the answer. `gate` holds large files back
    until it is set.
    """

    folder: Path
    commit: str = COMMIT
    token: str | None = None
    ignores_range: bool = False
    cut_after: list[int] = field(default_factory=list)
    served: dict[str, bytes] = field(default_factory=dict)
    refusals: dict[str, tuple[int, dict[str, str]]] = field(default_factory=dict)
    gate: threading.Event = field(default_factory=threading.Event)
    requests: list[Request] = field(default_factory=list)
    endpoint: str = ""
    store: str = ""

    def __post_init__(self) -> None:
        self.gate.set()

    def asked(self, name: str) -> list[str | None]:
        """The ranges asked for of a file that lies on the hub itself or elsewhere."""
        digest = self.sha256(name)
        return [
            request.byte_range
            for request in self.requests
            if request.path.endswith((f"/store/{digest}",))
        ]

    def sha256(self, name: str) -> str:
        return hashlib.sha256((self.folder / name).read_bytes()).hexdigest()

    def info(self) -> dict[str, Any]:
        """What the hub's API says of the repository."""
        siblings = []
        for path in sorted(self.folder.iterdir()):
            data = path.read_bytes()
            sibling: dict[str, Any] = {
                "rfilename": path.name,
                "size": len(data),
                "blobId": hashlib.sha1(
                    f"blob {len(data)}\0".encode() + data
                ).hexdigest(),
            }
            if len(data) >= LARGE_BYTES:
                sibling["lfs"] = {
                    "sha256": self.sha256(path.name),
                    "size": len(data),
                    "pointerSize": 134,
                }
            siblings.append(sibling)
        return {
            "_id": "0",
            "id": REPOSITORY,
            "modelId": REPOSITORY,
            "sha": self.commit,
            "private": False,
            "gated": False,
            "tags": [],
            "downloads": 0,
            "likes": 0,
            "siblings": siblings,
        }


@contextmanager
def serving(model: Path, folder: Path, **kwargs: Any) -> Iterator[FakeHub]:
    """Serve a copy of a model folder from two servers: the hub, and the store of large files."""
    hub = FakeHub(folder=shutil.copytree(model, folder), **kwargs)
    servers = [
        _Server(("127.0.0.1", 0), type("Handler", (_Handler,), {"hub": hub}))
        for _ in range(2)
    ]
    hub.endpoint, hub.store = (
        f"http://127.0.0.1:{server.server_address[1]}" for server in servers
    )
    threads = [
        threading.Thread(target=server.serve_forever, args=(0.01,))
        for server in servers
    ]
    for thread in threads:
        thread.start()
    try:
        yield hub
    finally:
        hub.gate.set()
        for server, thread in zip(servers, threads, strict=True):
            server.shutdown()
            thread.join()
            server.server_close()


class _Server(ThreadingHTTPServer):
    """A server that is closed once all of its threads have ended."""

    daemon_threads = False


class _Handler(BaseHTTPRequestHandler):
    hub: FakeHub
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self._answer(with_body=True)

    def do_HEAD(self) -> None:
        self._answer(with_body=False)

    def log_message(self, format: str, *args: Any) -> None:
        """Keep quiet."""

    def _answer(self, *, with_body: bool) -> None:
        path = urlsplit(self.path).path
        self.close_connection = True
        self.hub.requests.append(
            Request(
                self.command,
                path,
                self.headers["Range"],
                self.headers["Authorization"],
            )
        )
        if refusal := self._refusal(path):
            self._send(refusal[0], b"no", refusal[1], with_body)
        elif path.startswith("/api/models/"):
            self._send(200, json.dumps(self.hub.info()).encode(), {}, with_body)
        elif match := re.fullmatch(r"/[^/]+/[^/]+/resolve/([^/]+)/([^/]+)", path):
            self._resolve(match[1], match[2], with_body)
        else:
            self._file(self._named(path.rpartition("/")[2]), with_body)

    def _refusal(self, path: str) -> tuple[int, dict[str, str]] | None:
        hub = self.hub
        for part, refusal in hub.refusals.items():
            if part in path:
                return refusal
        if hub.token is None or path.startswith("/store/"):
            return None
        given = self.headers["Authorization"]
        if given is None:
            return 401, {"X-Error-Code": "GatedRepo"}
        if given != f"Bearer {hub.token}":
            return 401, {
                "X-Error-Message": "Invalid credentials in Authorization header"
            }
        return None

    def _named(self, digest: str) -> Path:
        files = self.hub.folder.iterdir()
        return next(path for path in files if self.hub.sha256(path.name) == digest)

    def _resolve(self, commit: str, name: str, with_body: bool) -> None:
        path = self.hub.folder / name
        if commit != self.hub.commit or not path.exists():
            self._send(404, b"", {"X-Error-Code": "EntryNotFound"}, with_body)
        elif path.stat().st_size < LARGE_BYTES:
            self._file(path, with_body)
        else:
            digest = self.hub.sha256(name)
            headers = {
                "Location": f"{self.hub.store}/store/{digest}",
                "X-Repo-Commit": self.hub.commit,
                "X-Linked-Size": str(path.stat().st_size),
                "X-Linked-ETag": f'"{digest}"',
            }
            self._send(302, b"", headers, with_body)

    def _file(self, path: Path, with_body: bool) -> None:
        is_large = path.stat().st_size >= LARGE_BYTES
        data = self.hub.served.get(path.name, path.read_bytes())
        status, headers = 200, {"ETag": f'"{self.hub.sha256(path.name)}"'}
        asked = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers["Range"] or "")
        if asked and not self.hub.ignores_range:
            start, end = int(asked[1]), min(int(asked[2] or len(data)), len(data) - 1)
            headers["Content-Range"] = f"bytes {start}-{end}/{len(data)}"
            status, data = 206, data[start : end + 1]
        self._send(status, data, headers, with_body, is_large=is_large)

    def _send(
        self,
        status: int,
        data: bytes,
        headers: dict[str, str],
        with_body: bool,
        *,
        is_large: bool = False,
    ) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(data)))
        self.send_header("Connection", "close")
        self.end_headers()
        if not with_body:
            return
        if is_large and not (self.headers["Range"] or "").startswith("bytes=0-1"):
            if self.hub.cut_after:
                data = data[: self.hub.cut_after.pop(0)]
            half = len(data) // 2
            self._write(data[:half])
            self.hub.gate.wait(10)
            data = data[half:]
        self._write(data)

    def _write(self, data: bytes) -> None:
        try:
            self.wfile.write(data)
            self.wfile.flush()
        except ConnectionError:
            """Whoever asked has heard enough."""
