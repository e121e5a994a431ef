"""The way to a model of Hugging Face: find it, say what it needs before it is brought here, bring it."""

from collections.abc import Callable
import os
from pathlib import Path
from tempfile import TemporaryDirectory
import threading
from typing import TYPE_CHECKING, Any, NamedTuple

import probatio

from homeassistant.config_entries import SOURCE_RECONFIGURE, ConfigFlowResult
from homeassistant.helpers.selector import (
    TextSelector,
    TextSelectorConfig,
    TextSelectorType,
)

from ..const import CONF_REPOSITORY, CONF_REVISION
from ..hub.models import finish, finished_folder, models_folder, unfinished_folder
from ..machine.disk_room import nbytes_in, require_room
from ..machine.fit import gib
from ..machine.model_check import ModelFacts, check_model
from ..share_reporter import ShareReporter
from .weights import WeightsFlow

if TYPE_CHECKING:
    from ..hub.files import HubModel
    from ..hub.hub import Hub

CONF_TOKEN = "token"
_SCHEMA = probatio.Schema(
    {
        probatio.Required(CONF_REPOSITORY): TextSelector(),
        probatio.Optional(CONF_REVISION): TextSelector(),
        probatio.Optional(CONF_TOKEN): TextSelector(
            TextSelectorConfig(type=TextSelectorType.PASSWORD)
        ),
    }
)
# A download of days still moves.
_PROGRESS_STEP = 0.001


class _Found(NamedTuple):
    """A model of a hub, what it is, and its folder where it is here already."""

    model: HubModel
    facts: ModelFacts
    folder: Path | None


class HubFlow(WeightsFlow):
    """Asks for a repository, looks at it, and downloads it once the engine's settings are known."""

    _found: _Found | None = None
    _asked: dict[str, str]

    async def async_step_hub(
        self, user_input: dict[str, Any] | None = None
    ) -> ConfigFlowResult:
        """Take a model of Hugging Face."""
        return await self._async_with_engine(self.async_step_repository)

    async def async_step_repository(
        self, user_input: dict[str, Any] | None = None
    ) -> ConfigFlowResult:
        """Ask which."""
        if user_input is not None:
            self._asked = {key: text.strip() for key, text in user_input.items()}
            return await self.async_step_looking()
        return self._form(
            "repository",
            self.add_suggested_values_to_schema(_SCHEMA, self._last_asked()),
            folder=str(models_folder(self.hass)),
        )

    async def async_step_looking(
        self, user_input: dict[str, Any] | None = None
    ) -> ConfigFlowResult:
        """Find out what it is and whether the engine could load it, before anything large is fetched."""
        return self._progress(
            "looking",
            self._async_look,
            then="engine",
            failed="repository",
            repository=self._asked[CONF_REPOSITORY],
        )

    async def async_step_download(
        self, user_input: dict[str, Any] | None = None
    ) -> ConfigFlowResult:
        """Bring it here."""
        found = self._found
        assert found
        return self._progress(
            "download",
            self._async_download,
            then="convert",
            failed="retry",
            repository=found.model.repository,
            size=gib(found.model.nbytes),
        )

    async def async_step_retry(
        self, user_input: dict[str, Any] | None = None
    ) -> ConfigFlowResult:
        """Say why that failed, and go on where it ended if that is wanted."""
        if user_input is not None:
            return await self.async_step_download()
        return self._form("retry", probatio.Schema({}))

    async def _async_settled(self, settings: dict[str, Any]) -> ConfigFlowResult:
        """Go on with settings that fit: bring the model here first, where it is not."""
        self._settings = settings
        if self._is_to_come():
            return await self.async_step_download()
        return await self.async_step_convert()

    def _is_to_come(self) -> bool:
        """Whether the model is one of a hub that is not here yet."""
        return bool(self._origin and not self._model)

    def _bytes_to_come(self) -> int:
        """Say how much of the disk the model itself will still take; blocks."""
        if not (self._found and self._is_to_come()):
            return 0
        here = unfinished_folder(models_folder(self.hass), self._found.model)
        return self._found.model.nbytes - nbytes_in(here)

    def _last_asked(self) -> dict[str, str]:
        """Return what to suggest: what was entered last, or where the entry's model came from."""
        if hasattr(self, "_asked"):
            return self._asked
        if self.source != SOURCE_RECONFIGURE:
            return {}
        data = self._get_reconfigure_entry().data
        return {
            key: data[key] for key in (CONF_REPOSITORY, CONF_REVISION) if key in data
        }

    async def _async_look(self) -> None:
        self._found = found = await self.hass.async_add_executor_job(
            _look, self._asked, models_folder(self.hass)
        )
        self._facts = found.facts
        self._model = str(found.folder or "")
        self._origin = {CONF_REPOSITORY: found.model.repository}
        if revision := self._asked.get(CONF_REVISION):
            self._origin |= {CONF_REVISION: revision}

    async def _async_download(self) -> None:
        """Bring the model here; closing the flow cancels this and ends the thread, and what is here stays."""
        assert self._found
        stopped = threading.Event()
        try:
            folder = await self.hass.async_add_executor_job(
                self._download, self._found.model, stopped.is_set
            )
        finally:
            stopped.set()
        self._model = str(folder)

    def _download(self, model: HubModel, is_cancelled: Callable[[], bool]) -> Path:
        """Bring a model here and check it as a whole; runs on a thread of its own."""
        models = models_folder(self.hass)
        if folder := finished_folder(models, model):
            # Somebody else's form has brought it meanwhile.
            return folder
        unfinished = unfinished_folder(models, model)
        report = ShareReporter(
            self.hass, self.async_update_progress, step=_PROGRESS_STEP
        )
        _hub(self._asked).download(
            model,
            unfinished,
            lambda nbytes: report(nbytes / max(1, model.nbytes)),
            is_cancelled,
        )
        check_model(str(unfinished))
        return finish(models, model)


def _look(asked: dict[str, str], models: Path) -> _Found:
    """Look at a repository: what an engine says of it, with files whose weights are holes."""
    with TemporaryDirectory() as folder:
        model = _hub(asked).look(
            asked[CONF_REPOSITORY], asked.get(CONF_REVISION) or None, Path(folder)
        )
        facts = check_model(folder)
    finished = finished_folder(models, model)
    if finished is None:
        here = unfinished_folder(models, model)
        require_room(here, model.nbytes - nbytes_in(here))
    return _Found(
        model, facts._replace(name=model.repository.rpartition("/")[2]), finished
    )


def _hub(asked: dict[str, str]) -> Hub:
    """Import what stands on a library that is installed at need."""
    from ..hub.hub import Hub  # noqa: PLC0415

    return Hub(token=asked.get(CONF_TOKEN), endpoint=os.environ.get("HF_ENDPOINT"))
