"""The step that converts a model's weights before its entry is made, where people see how far it is and can end it."""

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, override

from homeassistant.config_entries import ConfigFlowResult
from homeassistant.const import CONF_DEVICE, CONF_MODEL
from homeassistant.core import CALLBACK_TYPE, callback

from ..const import DOMAIN
from ..machine.fit import gib, with_settings
from ..weights.conversion import WeightsConversion
from ..weights.kept import async_hold, async_remove_unused_weights, weights_folder
from .model import ModelFlow

if TYPE_CHECKING:
    from local_llm_engine.service import EnginePlan


class WeightsFlow(ModelFlow):
    """Converts what the settings ask for; what a form that is closed has made goes with it."""

    _settings: dict[str, Any]

    def __init__(self) -> None:
        """Begin with nothing made."""
        self._held: list[CALLBACK_TYPE] = []

    async def async_step_convert(
        self, user_input: dict[str, Any] | None = None
    ) -> ConfigFlowResult:
        """Convert the weights, unless they stay as they are."""
        plan = self._plan(self._settings)
        if plan.weights == "bf16":
            return await self.async_step_finish()
        return self._progress(
            "convert",
            self._async_convert,
            then="finish",
            failed="engine",
            model=self._facts.name,
            size=gib(plan.weights_bytes),
        )

    async def async_step_finish(
        self, user_input: dict[str, Any] | None = None
    ) -> ConfigFlowResult:
        """Make the entry."""
        return await self._async_finish(self._settings)

    @callback
    @override
    def async_remove(self) -> None:
        """Leave nothing behind that no entry was made of."""
        super().async_remove()
        if self._held:
            self.hass.async_create_task(
                self._async_clear_up(), name=f"{DOMAIN} clear up"
            )

    def _plan(self, settings: Mapping[str, Any]) -> EnginePlan:
        """Return what the model needs with these settings, as far as can be known here."""
        plans = self._facts.plans
        return with_settings(plans.get(settings[CONF_DEVICE], plans["cpu"]), settings)

    async def _async_convert(self) -> None:
        """Convert; closing the form cancels this, and ends the conversion."""
        data = {**self._settings, CONF_MODEL: self._model}
        self._held.append(async_hold(self.hass, weights_folder(self.hass, data)))
        await WeightsConversion(self.hass, data, self.async_update_progress).async_run()

    async def _async_clear_up(self) -> None:
        if self._work is not None:
            await asyncio.wait([self._work])
        while self._held:
            self._held.pop()()
        await async_remove_unused_weights(self.hass)
