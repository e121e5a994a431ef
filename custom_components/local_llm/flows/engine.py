"""The form of an engine's settings: what its model needs, what this machine has, and what does not fit."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, override

import probatio

from homeassistant.components.assist_satellite import DOMAIN as SATELLITE_DOMAIN
from homeassistant.config_entries import (
    SOURCE_RECONFIGURE,
    ConfigEntryState,
    ConfigFlowResult,
)
from homeassistant.const import CONF_DEVICE, CONF_MODEL
from homeassistant.helpers.selector import (
    NumberSelector,
    NumberSelectorConfig,
    NumberSelectorMode,
    Selector,
    SelectSelector,
    SelectSelectorConfig,
    SelectSelectorMode,
)

from ..const import (
    CONF_CONTEXT_LENGTH,
    CONF_DISK_CACHE_GIB,
    CONF_KV_CACHE,
    CONF_PROMPT_CACHE_GIB,
    CONF_WEIGHTS,
    DEFAULT_KV_CACHE,
    DEFAULT_WEIGHTS,
    DEVICES,
    DOMAIN,
    KV_CACHES,
    WEIGHTS,
)
from ..failures import EngineUnavailableError
from ..machine.disk_fit import Disk
from ..machine.disk_room import free_bytes, nbytes_in
from ..machine.fit import (
    SMALLEST_CONTEXT,
    Machine,
    Misfit,
    misfit,
    needs_in_words,
    suggested_settings,
)
from ..machine.model_check import async_check_device, async_machine
from ..runtime import LocalLlmConfigEntry, cache_folder
from ..weights.kept import weights_folder
from .hub import HubFlow

_GIB_SELECTOR = NumberSelector(
    NumberSelectorConfig(
        min=0,
        max=1024,
        step=0.25,
        unit_of_measurement="GiB",
        mode=NumberSelectorMode.BOX,
    )
)


class EngineFlow(HubFlow):
    """Asks for the settings of an engine whose model is known."""

    @override
    async def async_step_engine(
        self, user_input: dict[str, Any] | None = None
    ) -> ConfigFlowResult:
        """Say what the model needs and what this machine has, and ask for the device and what the engine may use of it."""
        machine = await self._async_machine()
        if user_input:
            refusal = await self._async_refusal(user_input, machine)
            if refusal is None:
                context_length = int(user_input[CONF_CONTEXT_LENGTH])
                return await self._async_settled(
                    {**user_input, CONF_CONTEXT_LENGTH: context_length}
                )
            return await self._async_form(machine, user_input, refusal)
        if self._failure:
            # The weights could not be converted; others perhaps can.
            detail = {"detail": self._failure.detail}
            refusal = Misfit(self._failure.key, CONF_WEIGHTS, detail)
            return await self._async_form(machine, self._settings, refusal)
        return await self._async_form(machine)

    async def _async_form(
        self,
        machine: Machine,
        settings: dict[str, Any] | None = None,
        refusal: Misfit | None = None,
    ) -> ConfigFlowResult:
        """Show the form with `settings`, and what is wrong with them; without, with what is suggested."""
        suggested = await self._async_suggested(machine)
        settings = settings or suggested
        num_satellites = len(self.hass.states.async_all(SATELLITE_DOMAIN))
        return self.async_show_form(
            step_id="engine",
            data_schema=self.add_suggested_values_to_schema(
                _engine_schema(suggested, self._facts.context_length), settings
            ),
            errors={refusal.field: refusal.key} if refusal else None,
            description_placeholders={
                "detail": "",
                "model": self._facts.name,
                "architecture": self._facts.architecture,
                "context_length": str(self._facts.context_length),
                **needs_in_words(self._plan(settings), machine, num_satellites),
                **(refusal.placeholders if refusal else {}),
            },
        )

    async def _async_refusal(
        self, settings: dict[str, Any], machine: Machine
    ) -> Misfit | None:
        """Say why an engine with these settings could not be loaded, and what to change."""
        device = settings[CONF_DEVICE]
        try:
            await async_check_device(self.hass, device)
        except EngineUnavailableError as err:
            return Misfit(err.failure.key, CONF_DEVICE, {"detail": err.failure.detail})
        plan = self._plan(settings)
        disk = await self.hass.async_add_executor_job(self._disk, settings)
        return misfit(plan, machine) or disk.misfit(plan, settings)

    async def _async_machine(self) -> Machine:
        """Return what this machine has, as if the engine that is to be replaced had gone."""
        machine = await async_machine(self.hass)
        if self.source != SOURCE_RECONFIGURE:
            return machine
        entry: LocalLlmConfigEntry = self._get_reconfigure_entry()
        if entry.state is not ConfigEntryState.LOADED:
            return machine
        return machine.without(entry.runtime_data.engine.status())

    def _disk(self, settings: Mapping[str, Any]) -> Disk:
        """Look at the disk that the engine would keep things on; blocks."""
        data = {**settings, CONF_MODEL: self._model}
        prompts = (
            nbytes_in(cache_folder(self.hass, self._get_reconfigure_entry()))
            if self.source == SOURCE_RECONFIGURE
            else 0
        )
        return Disk(
            free_bytes=free_bytes(Path(self.hass.config.cache_path(DOMAIN))),
            prompts_bytes=prompts,
            weights_bytes=nbytes_in(weights_folder(self.hass, data)),
            model_bytes=self._bytes_to_come(),
        )

    async def _async_suggested(self, machine: Machine) -> dict[str, Any]:
        """Return what to suggest: the entry's own settings, as far as they fit the model, or what fits the machine."""
        suggested = {
            CONF_DEVICE: DEVICES[0],
            **suggested_settings(self._facts.plans[DEVICES[0]], machine),
        }
        disk = await self.hass.async_add_executor_job(self._disk, suggested)
        plan = self._plan(suggested)
        suggested[CONF_DISK_CACHE_GIB] = disk.suggested_cache_gib(plan)
        if self.source != SOURCE_RECONFIGURE:
            return suggested
        current = self._get_reconfigure_entry().data
        context_length = min(current[CONF_CONTEXT_LENGTH], self._facts.context_length)
        return {
            **suggested,
            CONF_WEIGHTS: DEFAULT_WEIGHTS,
            CONF_KV_CACHE: DEFAULT_KV_CACHE,
            **current,
            CONF_CONTEXT_LENGTH: context_length,
        }


def _engine_schema(suggested: dict[str, Any], context_limit: int) -> probatio.Schema:
    """Return the form of the engine's settings for a model that was made for so many tokens."""
    devices = SelectSelectorConfig(options=list(DEVICES), translation_key=CONF_DEVICE)
    context = NumberSelectorConfig(
        min=min(SMALLEST_CONTEXT, context_limit),
        max=context_limit,
        step=1,
        mode=NumberSelectorMode.BOX,
    )
    weights, kv_cache = (
        SelectSelectorConfig(
            options=list(choices),
            translation_key=name,
            mode=SelectSelectorMode.DROPDOWN,
        )
        for name, choices in ((CONF_WEIGHTS, WEIGHTS), (CONF_KV_CACHE, KV_CACHES))
    )
    selectors: dict[str, Selector[Any]] = {
        CONF_DEVICE: SelectSelector(devices),
        CONF_PROMPT_CACHE_GIB: _GIB_SELECTOR,
        CONF_DISK_CACHE_GIB: _GIB_SELECTOR,
        CONF_CONTEXT_LENGTH: NumberSelector(context),
        CONF_WEIGHTS: SelectSelector(weights),
        CONF_KV_CACHE: SelectSelector(kv_cache),
    }
    return probatio.Schema(
        {
            probatio.Required(name, default=suggested[name]): selector
            for name, selector in selectors.items()
        }
    )
