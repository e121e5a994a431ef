"""Sets up an entry: which model, where it runs and what it may use."""

from contextlib import suppress
from pathlib import Path
from typing import Any, override

import probatio

from homeassistant.components.assist_satellite import DOMAIN as SATELLITE_DOMAIN
from homeassistant.config_entries import (
    SOURCE_RECONFIGURE,
    ConfigEntryState,
    ConfigFlowResult,
    ConfigSubentryData,
    ConfigSubentryFlow,
    OptionsFlow,
)
from homeassistant.const import CONF_DEVICE, CONF_MODEL
from homeassistant.core import callback
from homeassistant.helpers.selector import (
    BooleanSelector,
    NumberSelector,
    NumberSelectorConfig,
    NumberSelectorMode,
    Selector,
    SelectSelector,
    SelectSelectorConfig,
    SelectSelectorMode,
    TextSelector,
)

from .const import (
    BUILTIN_MODEL,
    CONF_CONTEXT_LENGTH,
    CONF_DISK_CACHE_GIB,
    CONF_PROMPT_CACHE_GIB,
    CONF_WARM_UP,
    CONF_WEIGHTS,
    DEFAULT_AGENT_NAME,
    DEFAULT_DISK_CACHE_GIB,
    DEFAULT_WEIGHTS,
    DEVICES,
    DOMAIN,
    SUBENTRY_AI_TASK,
    SUBENTRY_CONVERSATION,
    WEIGHTS,
)
from .failures import EngineUnavailableError
from .flows.ai_task import AITaskSubentryFlow
from .flows.conversation import ConversationSubentryFlow
from .flows.hub import HubFlow
from .machine.fit import (
    SMALLEST_CONTEXT,
    Machine,
    Misfit,
    misfit,
    needs_in_words,
    suggested_settings,
    with_settings,
)
from .machine.model_check import async_check_device, async_machine
from .runtime import LocalLlmConfigEntry
from .settings import default_agent_data, default_task_data
from .spoken import async_task_name

_MODEL_MENU = ["builtin", "folder", "hub"]
_FOLDER_SCHEMA = probatio.Schema({probatio.Required(CONF_MODEL): TextSelector()})
_OPTIONS_SCHEMA = probatio.Schema(
    {probatio.Required(CONF_WARM_UP, default=True): BooleanSelector()}
)

_GIB_SELECTOR = NumberSelector(
    NumberSelectorConfig(
        min=0,
        max=1024,
        step=0.25,
        unit_of_measurement="GiB",
        mode=NumberSelectorMode.BOX,
    )
)


class LocalLlmConfigFlow(HubFlow, domain=DOMAIN):
    """Asks for the model, then for the engine's settings."""

    VERSION = 1
    MINOR_VERSION = 2

    @override
    async def async_step_user(
        self, user_input: dict[str, Any] | None = None
    ) -> ConfigFlowResult:
        """Choose where the model comes from."""
        return self.async_show_menu(step_id="user", menu_options=_MODEL_MENU)

    async def async_step_reconfigure(
        self, user_input: dict[str, Any] | None = None
    ) -> ConfigFlowResult:
        """Choose anew where the model comes from."""
        return self.async_show_menu(step_id="reconfigure", menu_options=_MODEL_MENU)

    async def async_step_builtin(
        self, user_input: dict[str, Any] | None = None
    ) -> ConfigFlowResult:
        """Take the model that comes with the engine."""
        return await self._async_with_engine(self._async_take_builtin)

    async def async_step_folder(
        self, user_input: dict[str, Any] | None = None
    ) -> ConfigFlowResult:
        """Take a model folder or file of this machine."""
        return await self._async_with_engine(self.async_step_path)

    async def async_step_path(
        self, user_input: dict[str, Any] | None = None
    ) -> ConfigFlowResult:
        """Ask which, and check it."""
        if user_input is not None:
            folder = await self.hass.async_add_executor_job(
                self._folder, user_input[CONF_MODEL]
            )
            self._failure = await self._async_take_model(folder)
            if self._failure is None:
                return await self.async_step_engine()
        return self._form(
            "path",
            self.add_suggested_values_to_schema(_FOLDER_SCHEMA, user_input),
            field=CONF_MODEL,
        )

    @override
    async def async_step_engine(
        self, user_input: dict[str, Any] | None = None
    ) -> ConfigFlowResult:
        """Say what the model needs and what this machine has, and ask for the device and what the engine may use of it."""
        machine = await self._async_machine()
        suggested = self._suggested_settings(machine)
        settings = suggested if user_input is None else user_input
        refusal = await self._async_refusal(user_input, machine) if user_input else None
        if user_input and refusal is None:
            return await self._async_settled(
                {
                    **user_input,
                    CONF_CONTEXT_LENGTH: int(user_input[CONF_CONTEXT_LENGTH]),
                }
            )
        plans = self._facts.plans
        plan = with_settings(plans.get(settings[CONF_DEVICE], plans["cpu"]), settings)
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
                **needs_in_words(
                    plan, machine, len(self.hass.states.async_all(SATELLITE_DOMAIN))
                ),
                **(refusal.placeholders if refusal else {}),
            },
        )

    async def _async_take_builtin(self) -> ConfigFlowResult:
        if failure := await self._async_take_model(BUILTIN_MODEL):
            return self.async_abort(
                reason=failure.key, description_placeholders={"detail": failure.detail}
            )
        return await self.async_step_engine()

    async def _async_refusal(
        self, settings: dict[str, Any], machine: Machine
    ) -> Misfit | None:
        """Say why an engine with these settings could not be loaded, and what to change."""
        device = settings[CONF_DEVICE]
        try:
            await async_check_device(self.hass, device)
        except EngineUnavailableError as err:
            return Misfit(err.failure.key, CONF_DEVICE, {"detail": err.failure.detail})
        return misfit(with_settings(self._facts.plans[device], settings), machine)

    async def _async_machine(self) -> Machine:
        """Return what this machine has, as if the engine that is to be replaced had gone."""
        machine = await async_machine(self.hass)
        if self.source != SOURCE_RECONFIGURE:
            return machine
        entry: LocalLlmConfigEntry = self._get_reconfigure_entry()
        if entry.state is not ConfigEntryState.LOADED:
            return machine
        return machine.without(entry.runtime_data.engine.status())

    def _folder(self, text: str) -> str:
        """Return the one name of a folder or file; one without a root lies in Home Assistant's folder."""
        path = Path(text.strip())
        # A name of nobody here is that of a folder.
        with suppress(RuntimeError):
            path = path.expanduser()
        return str(Path(self.hass.config.path(str(path))).resolve())

    def _suggested_settings(self, machine: Machine) -> dict[str, Any]:
        """Return what to suggest: the entry's own settings, as far as they fit the model, or what fits the machine."""
        suggested = {
            CONF_DEVICE: DEVICES[0],
            CONF_DISK_CACHE_GIB: DEFAULT_DISK_CACHE_GIB,
            **suggested_settings(self._facts.plans[DEVICES[0]], machine),
        }
        if self.source != SOURCE_RECONFIGURE:
            return suggested
        current = self._get_reconfigure_entry().data
        context_length = min(current[CONF_CONTEXT_LENGTH], self._facts.context_length)
        return {
            **suggested,
            CONF_WEIGHTS: DEFAULT_WEIGHTS,
            **current,
            CONF_CONTEXT_LENGTH: context_length,
        }

    @override
    async def _async_finish(self, settings: dict[str, Any]) -> ConfigFlowResult:
        """Store the entry, unless there is another with this model on this device."""
        data = {**settings, **self._origin, CONF_MODEL: self._model}
        title = f"Local LLM ({self._facts.name})"
        same = {CONF_MODEL: self._model, CONF_DEVICE: data[CONF_DEVICE]}
        if self.source != SOURCE_RECONFIGURE:
            self._async_abort_entries_match(same)
            agent = ConfigSubentryData(
                subentry_type=SUBENTRY_CONVERSATION,
                data=default_agent_data(self._model),
                title=DEFAULT_AGENT_NAME,
                unique_id=None,
            )
            task = ConfigSubentryData(
                subentry_type=SUBENTRY_AI_TASK,
                data=default_task_data(self._model),
                title=await async_task_name(self.hass),
                unique_id=None,
            )
            return self.async_create_entry(
                title=title, data=data, subentries=[agent, task]
            )
        entry = self._get_reconfigure_entry()
        if any(
            same.items() <= other.data.items()
            for other in self._async_current_entries(include_ignore=False)
            if other.entry_id != entry.entry_id
        ):
            return self.async_abort(reason="already_configured")
        if entry.update_listeners:
            # The entry is loaded and reloads itself.
            return self.async_update_and_abort(entry, data=data, title=title)
        return self.async_update_reload_and_abort(entry, data=data, title=title)

    @classmethod
    @callback
    @override
    def async_get_supported_subentry_types(
        cls, config_entry: LocalLlmConfigEntry
    ) -> dict[str, type[ConfigSubentryFlow]]:
        """Return the kinds of agents that an engine may have."""
        return {
            SUBENTRY_AI_TASK: AITaskSubentryFlow,
            SUBENTRY_CONVERSATION: ConversationSubentryFlow,
        }

    @staticmethod
    @callback
    @override
    def async_get_options_flow(config_entry: LocalLlmConfigEntry) -> OptionsFlow:
        """Return the flow for what may change while the engine runs."""
        return LocalLlmOptionsFlow()


class LocalLlmOptionsFlow(OptionsFlow):
    """Turns the built-in warm-up schedule on and off."""

    async def async_step_init(
        self, user_input: dict[str, Any] | None = None
    ) -> ConfigFlowResult:
        """Ask, and store the answer."""
        if user_input is not None:
            return self.async_create_entry(data=user_input)
        return self.async_show_form(
            step_id="init",
            data_schema=self.add_suggested_values_to_schema(
                _OPTIONS_SCHEMA, self.config_entry.options
            ),
        )


def _engine_schema(suggested: dict[str, Any], context_limit: int) -> probatio.Schema:
    """Return the form of the engine's settings for a model that was made for so many tokens."""
    devices = SelectSelectorConfig(options=list(DEVICES), translation_key=CONF_DEVICE)
    context = NumberSelectorConfig(
        min=min(SMALLEST_CONTEXT, context_limit),
        max=context_limit,
        step=1,
        mode=NumberSelectorMode.BOX,
    )
    weights = SelectSelectorConfig(
        options=list(WEIGHTS),
        translation_key=CONF_WEIGHTS,
        mode=SelectSelectorMode.DROPDOWN,
    )
    selectors: dict[str, Selector[Any]] = {
        CONF_DEVICE: SelectSelector(devices),
        CONF_PROMPT_CACHE_GIB: _GIB_SELECTOR,
        CONF_DISK_CACHE_GIB: _GIB_SELECTOR,
        CONF_CONTEXT_LENGTH: NumberSelector(context),
        CONF_WEIGHTS: SelectSelector(weights),
    }
    return probatio.Schema(
        {
            probatio.Required(name, default=suggested[name]): selector
            for name, selector in selectors.items()
        }
    )
