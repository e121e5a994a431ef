"""A site that speaks Hugging Face's protocol: finding a model there, and bringing it here, with every failure in words.

Blocks, and knows nothing of Home Assistant. Stands on huggingface_hub, which may be missing, so nobody imports it at the
start. Never logs or keeps a token.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
import errno
import json
from pathlib import Path
from typing import Final
from urllib.parse import quote

import httpx2
from huggingface_hub import ModelInfo, get_session, hf_hub_url, hf_raise_for_status
from huggingface_hub.constants import ENDPOINT
from huggingface_hub.errors import (
    GatedRepoError,
    HfHubHTTPError,
    HFValidationError,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)

from ..failures import EngineUnavailableError, Failure
from ..machine.disk_room import nbytes_in, require_room
from .files import DamagedFileError, HubFile, HubModel, Transfer
from .models import held

_WEIGHTS: Final = "model.safetensors"
_INDEX: Final = "model.safetensors.index.json"
# What an engine reads beside the weights; a repository may hold much more.
_SMALL_FILES: Final = frozenset(
    {
        "config.json",
        "generation_config.json",
        "tokenizer.json",
        "tokenizer_config.json",
        "chat_template.jinja",
        _INDEX,
    }
)
_TIMEOUT_SECONDS: Final = 30

# The most special first: the library's errors form a tree.
_FAILURES: Final[tuple[tuple[type[Exception], str], ...]] = (
    (HFValidationError, "repository_invalid"),
    (GatedRepoError, "repository_gated"),
    (RepositoryNotFoundError, "repository_not_found"),
    (RevisionNotFoundError, "revision_not_found"),
    (HfHubHTTPError, "hub_refused"),
    (httpx2.HTTPError, "hub_unreachable"),
    (ConnectionError, "hub_unreachable"),
    (DamagedFileError, "download_damaged"),
    (OSError, "models_folder_unusable"),
)


class CancelledError(Exception):
    """Nobody wants the model any more."""


class Hub:
    """Finds models and brings them. `endpoint` None takes the library's own site."""

    def __init__(
        self, *, token: str | None, endpoint: str | None, retry_seconds: float = 1.0
    ) -> None:
        """Speak with this token, or with none: not with one that happens to lie on this machine."""
        self._token = token
        self._endpoint = endpoint
        self._retry_seconds = retry_seconds

    def look(self, repository: str, revision: str | None, folder: Path) -> HubModel:
        """Find a model, and put what an engine can check of it into `folder`: weights' files hold only headers there.

        Raises:
            EngineUnavailableError: there is none, or it cannot be reached.
        """
        with _failures_told():
            info = self._info(repository, revision)
            files = {
                sibling.rfilename: HubFile(
                    name=sibling.rfilename,
                    nbytes=sibling.size or 0,
                    sha256=sibling.lfs.sha256 if sibling.lfs else None,
                    blob_id=sibling.blob_id,
                )
                for sibling in info.siblings or ()
            }
            transfer = self._transfer(info.id, commit := info.sha or "main")
            small = [files[name] for name in sorted(_SMALL_FILES & files.keys())]
            for file in small:
                transfer.bring(file, folder)
            weights = [files[name] for name in _weight_names(folder, files)]
            for file in weights:
                transfer.bring_header(file, folder)
        return HubModel(repository=info.id, commit=commit, files=(*small, *weights))

    def download(
        self,
        model: HubModel,
        folder: Path,
        report: Callable[[int], None],
        is_cancelled: Callable[[], bool],
    ) -> None:
        """Bring a model's files into a folder, each checked; what is there already is not brought again.

        `report` hears how many bytes are here.

        Raises:
            EngineUnavailableError: that failed; what is here stays for the next time.
            CancelledError: `is_cancelled` said so; the same.
        """
        transfer = self._transfer(model.repository, model.commit)
        with _failures_told(), held(folder):
            require_room(folder, model.nbytes - nbytes_in(folder))
            num_bytes = 0
            for file in model.files:

                def progress(count: int, before: int = num_bytes) -> None:
                    if is_cancelled():
                        raise CancelledError
                    report(before + count)

                transfer.bring(file, folder, progress)
                num_bytes += file.nbytes

    def _info(self, repository: str, revision: str | None) -> ModelInfo:
        """Ask what is in a repository.

        Not by HfApi, which asks for more on its own account, elsewhere, to fill its user agent.
        """
        # Refuses what is no name of a repository.
        hf_hub_url(repository, _WEIGHTS)
        url = f"{self._endpoint or ENDPOINT}/api/models/{repository}"
        if revision:
            url += f"/revision/{quote(revision, safe='')}"
        headers = {"Authorization": f"Bearer {self._token}"} if self._token else {}
        response = get_session().get(
            url, params={"blobs": True}, headers=headers, timeout=_TIMEOUT_SECONDS
        )
        hf_raise_for_status(response)
        # The library leaves its constructor without types.
        return ModelInfo(**response.json())  # type: ignore[no-untyped-call]

    def _transfer(self, repository: str, commit: str) -> Transfer:
        return Transfer(
            repository,
            commit,
            endpoint=self._endpoint,
            token=self._token,
            retry_seconds=self._retry_seconds,
        )


def _weight_names(folder: Path, files: dict[str, HubFile]) -> list[str]:
    """Name the files that hold the model's weights."""
    names = {_WEIGHTS}
    if _INDEX in files:
        try:
            index = json.loads((folder / _INDEX).read_bytes())
            names = {Path(name).name for name in index["weight_map"].values()}
        except (ValueError, TypeError, KeyError, AttributeError) as err:
            raise EngineUnavailableError(Failure("weights_damaged", _INDEX)) from err
    if missing := sorted(names - files.keys()):
        raise EngineUnavailableError(Failure("repository_without_weights", missing[0]))
    return sorted(names)


@contextmanager
def _failures_told() -> Iterator[None]:
    """Raise EngineUnavailableError in place of what the library, the network and the disk raise."""
    try:
        yield
    except Exception as err:
        key = next((key for kind, key in _FAILURES if isinstance(err, kind)), None)
        if key is None:
            raise
        raise EngineUnavailableError(_failure(key, err)) from err


def _failure(key: str, err: Exception) -> Failure:
    if isinstance(err, HfHubHTTPError):
        status = err.response.status_code
        refused = key == "hub_refused" and status in (401, 403)
        return Failure("token_refused" if refused else key, str(status))
    if isinstance(err, OSError) and err.errno in (errno.ENOSPC, errno.EDQUOT):
        key = "disk_full"
    return Failure(key, str(err) or type(err).__name__)
