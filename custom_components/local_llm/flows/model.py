"""What all ways to a model have in common: PyTorch must be there, and the model must be one that it can load."""

from abc import abstractmethod
import asyncio
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, override

import probatio

from homeassistant.config_entries import (
    ConfigEntry,
    ConfigFlow,
    ConfigFlowResult,
    UnknownEntry,
)
from homeassistant.core import callback
from homeassistant.data_entry_flow import AbortFlow

from ..const import DOMAIN
from ..failures import EngineUnavailableError, Failure
from ..machine.disk_room import free_bytes
from ..machine.fit import gib
from ..machine.model_check import ModelFacts, async_check_model
from ..machine.torch_check import async_torch_failure
from ..machine.torch_install import (
    async_complete,
    async_install,
    needed_bytes,
    packages_folder,
)

type _Step = Callable[[], Coroutine[Any, Any, ConfigFlowResult]]


class ModelFlow(ConfigFlow):
    """Holds the model that was chosen, and makes sure first that there is something to run it."""

    _model: str
    _facts: ModelFacts
    # What the entry keeps about where its model came from
    _origin: Mapping[str, str] = {}
    _after_install: _Step
    _work: asyncio.Task[None] | None = None
    _failure: Failure | None = None

    @abstractmethod
    async def async_step_engine(
        self, user_input: dict[str, Any] | None = None
    ) -> ConfigFlowResult:
        """Ask for the engine's settings."""

    @abstractmethod
    async def _async_finish(self, settings: dict[str, Any]) -> ConfigFlowResult:
        """Store the entry with these settings of the engine."""

    async def async_step_install(
        self, user_input: dict[str, Any] | None = None
    ) -> ConfigFlowResult:
        """Ask whether to install PyTorch, and say what that takes."""
        if user_input is not None:
            return await self.async_step_installing()
        free = await self.hass.async_add_executor_job(free_bytes, packages_folder())
        return self._form(
            "install",
            probatio.Schema({}),
            needed=gib(needed_bytes()),
            free=gib(free),
        )

    async def async_step_installing(
        self, user_input: dict[str, Any] | None = None
    ) -> ConfigFlowResult:
        """Install it."""
        return self._progress(
            "installing",
            lambda: async_install(self.hass),
            then="installed",
            failed="install",
        )

    async def async_step_installed(
        self, user_input: dict[str, Any] | None = None
    ) -> ConfigFlowResult:
        """Go on with what was chosen, if what was installed runs."""
        return await self._async_with_engine(self._after_install)

    @callback
    @override
    def _get_reconfigure_entry(self) -> ConfigEntry:
        try:
            return super()._get_reconfigure_entry()
        except UnknownEntry as err:
            # Somebody has removed it while the form was open.
            raise AbortFlow("entry_removed") from err

    async def _async_with_engine(self, step: _Step) -> ConfigFlowResult:
        """Take a step that needs the engine; where that cannot run, say why, or offer to install what it lacks."""
        await async_complete(self.hass)
        failure = await async_torch_failure(self.hass)
        if failure and failure.key != "torch_missing":
            return self.async_abort(
                reason=failure.key, description_placeholders={"detail": failure.detail}
            )
        if failure:
            self._after_install = step
            return await self.async_step_install()
        return await step()

    async def _async_take_model(self, model: str) -> Failure | None:
        """Remember a model that the engine can load; say what is wrong with another."""
        try:
            self._facts = await async_check_model(self.hass, model)
        except EngineUnavailableError as err:
            return err.failure
        self._model, self._origin = model, {}
        return None

    def _form(
        self,
        step: str,
        schema: probatio.Schema,
        *,
        field: str = "base",
        **placeholders: str,
    ) -> ConfigFlowResult:
        """Show a form, and what went wrong when it was last sent; it may be shown again and again."""
        failure = self._failure
        return self.async_show_form(
            step_id=step,
            data_schema=schema,
            errors={field: failure.key} if failure else None,
            description_placeholders={
                "detail": failure.detail if failure else "",
                **placeholders,
            },
        )

    def _progress(
        self,
        step: str,
        work: Callable[[], Coroutine[Any, Any, None]],
        *,
        then: str,
        failed: str,
        **placeholders: str,
    ) -> ConfigFlowResult:
        """Show that work goes on, then take the step `then`, or where it failed the step `failed`, which tells."""
        if self._work is None:
            self._failure = None
            # Ends with the flow, and with Home Assistant.
            self._work = self.hass.async_create_background_task(
                work(), name=f"{DOMAIN} {step}"
            )
        if not self._work.done():
            return self.async_show_progress(
                step_id=step,
                progress_action=step,
                progress_task=self._work,
                description_placeholders=placeholders,
            )
        done, self._work = self._work, None
        try:
            done.result()
        except EngineUnavailableError as err:
            self._failure = err.failure
        return self.async_show_progress_done(
            next_step_id=failed if self._failure else then
        )
