"""Where models that were brought from a hub lie: one folder each, under a place that backups leave out."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
import fcntl
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

from homeassistant.core import HomeAssistant

from ..const import DOMAIN
from ..failures import EngineUnavailableError, Failure

if TYPE_CHECKING:
    from .files import HubModel

# What stands in a model's folder and where it came from
_RECORD: Final = ".local_llm.json"


def models_folder(hass: HomeAssistant) -> Path:
    """Return the folder of all such models."""
    return Path(hass.config.cache_path(DOMAIN, "models"))


def unfinished_folder(models: Path, model: HubModel) -> Path:
    """Return where a model lies until all of it is here."""
    return models / f"{_name(model)}.partial"


def finished_folder(models: Path, model: HubModel) -> Path | None:
    """Return where all of a model lies already, at this very commit."""
    return next(
        (folder for folder in _places(models, model) if _holds(folder, model)), None
    )


def finish(models: Path, model: HubModel) -> Path:
    """Give a model that is here as a whole its folder; another commit of the same repository stays beside it."""
    unfinished = unfinished_folder(models, model)
    for left in unfinished.glob("*.partial"):
        left.unlink()
    (unfinished / _RECORD).write_text(
        json.dumps({"repository": model.repository, "commit": model.commit}),
        encoding="utf-8",
    )
    folder = next(place for place in _places(models, model) if not place.exists())
    unfinished.rename(folder)
    return folder


def _places(models: Path, model: HubModel) -> Iterator[Path]:
    """Yield the folders that a model may have, the plainest first; the last is never taken by another."""
    name = _name(model)
    yield models / name
    yield models / f"{name}--{model.commit[:12]}"
    yield models / f"{name}--{model.commit}"


def _name(model: HubModel) -> str:
    return model.repository.replace("/", "--")


def _holds(folder: Path, model: HubModel) -> bool:
    with suppress(OSError, ValueError):
        record = json.loads((folder / _RECORD).read_text(encoding="utf-8"))
        return bool(
            record == {"repository": model.repository, "commit": model.commit}
        ) and all(
            (folder / file.name).stat().st_size == file.nbytes for file in model.files
        )
    return False


@contextmanager
def held(unfinished: Path) -> Iterator[None]:
    """Make the folder of an unfinished model, and hold it so that nobody else brings anything there.

    Raises:
        EngineUnavailableError: somebody does.
    """
    unfinished.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(unfinished, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    except BlockingIOError as err:
        raise EngineUnavailableError(Failure("already_downloading", "")) from err
    finally:
        os.close(descriptor)


def is_being_brought(folder: Path) -> bool:
    """Whether somebody holds a folder now."""
    try:
        with held(folder):
            return False
    except EngineUnavailableError:
        return True
