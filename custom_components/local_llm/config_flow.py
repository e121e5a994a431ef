"""Sets up an entry: which model, where it runs and what it may use."""

from collections.abc import Mapping
import os
from typing import Any, override

import probatio

from homeassistant.config_entries import (
    SOURCE_RECONFIGURE,
    ConfigFlow,
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
    SelectSelector,
    SelectSelectorConfig,
    TextSelector,
)

from .ai_task_flow import AITaskSubentryFlow
from .const import (
    BUILTIN_MODEL,
    CONF_CONTEXT_LENGTH,
    CONF_DISK_CACHE_GIB,
    CONF_PROMPT_CACHE_GIB,
    CONF_WARM_UP,
    DEFAULT_AGENT_NAME,
    DEFAULT_CONTEXT_LENGTH,
    DEFAULT_DISK_CACHE_GIB,
    DEFAULT_PROMPT_CACHE_GIB,
    DEFAULT_TASK_NAME,
    DEVICES,
    DOMAIN,
    SUBENTRY_AI_TASK,
    SUBENTRY_CONVERSATION,
)
from .failures import EngineUnavailableError, Failure
from .runtime import (
    LocalLlmConfigEntry,
    ModelFacts,
    async_check_device,
    async_check_model,
)
from .settings import default_agent_data, default_task_data
from .subentry_flow import ConversationSubentryFlow

_MODEL_MENU = ["builtin", "folder"]
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

# Less leaves no room for the text of even a small house.
_SMALLEST_CONTEXT = 1024


class LocalLlmConfigFlow(ConfigFlow, domain=DOMAIN):
    """Asks for the model, then for the engine's settings."""

    VERSION = 1
    MINOR_VERSION = 2

    _model: str
    _facts: ModelFacts

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
        if failure := await self._async_take_model(BUILTIN_MODEL):
            return self.async_abort(
                reason=failure.key, description_placeholders={"detail": failure.detail}
            )
        return await self.async_step_engine()

    async def async_step_folder(
        self, user_input: dict[str, Any] | None = None
    ) -> ConfigFlowResult:
        """Take a model folder of this machine, once it has been checked."""
        failure: Failure | None = None
        if user_input is not None:
            folder = self._folder(user_input[CONF_MODEL])
            failure = await self._async_take_model(folder)
            if failure is None:
                return await self.async_step_engine()
        return self.async_show_form(
            step_id="folder",
            data_schema=self.add_suggested_values_to_schema(_FOLDER_SCHEMA, user_input),
            errors={CONF_MODEL: failure.key} if failure else None,
            description_placeholders={"detail": failure.detail if failure else ""},
        )

    async def async_step_engine(
        self, user_input: dict[str, Any] | None = None
    ) -> ConfigFlowResult:
        """Ask for the device and what the engine may use of it."""
        failure: Failure | None = None
        if user_input is not None:
            try:
                await async_check_device(self.hass, user_input[CONF_DEVICE])
            except EngineUnavailableError as err:
                failure = err.failure
            else:
                return self._finish(user_input)
        return self.async_show_form(
            step_id="engine",
            data_schema=self.add_suggested_values_to_schema(
                _engine_schema(self._facts.context_length),
                user_input or self._current_settings(),
            ),
            errors={CONF_DEVICE: failure.key} if failure else None,
            description_placeholders={
                "detail": failure.detail if failure else "",
                "model": self._facts.name,
                "architecture": self._facts.architecture,
                "size": f"{self._facts.weights_bytes / 1024**3:.2f}",
                "context_length": str(self._facts.context_length),
            },
        )

    async def _async_take_model(self, model: str) -> Failure | None:
        """Remember a model that the engine can load; say what is wrong with another."""
        try:
            self._facts = await async_check_model(self.hass, model)
        except EngineUnavailableError as err:
            return err.failure
        self._model = model
        return None

    def _folder(self, text: str) -> str:
        """Return one way to write a folder; one without a root lies in Home Assistant's."""
        return os.path.normpath(self.hass.config.path(text.strip()))

    def _current_settings(self) -> Mapping[str, Any]:
        """Return what to suggest: the entry's own settings, as far as they fit the model."""
        if self.source != SOURCE_RECONFIGURE:
            return {}
        current = self._get_reconfigure_entry().data
        longest = self._facts.context_length
        return {
            **current,
            CONF_CONTEXT_LENGTH: min(current[CONF_CONTEXT_LENGTH], longest),
        }

    @callback
    def _finish(self, user_input: dict[str, Any]) -> ConfigFlowResult:
        """Store the entry, unless there is another with this model on this device."""
        data = {
            **user_input,
            CONF_MODEL: self._model,
            CONF_CONTEXT_LENGTH: int(user_input[CONF_CONTEXT_LENGTH]),
        }
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
                title=DEFAULT_TASK_NAME,
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


def _engine_schema(context_limit: int) -> probatio.Schema:
    """Return the form of the engine's settings for a model that was made for so many tokens."""
    return probatio.Schema(
        {
            probatio.Required(CONF_DEVICE, default=DEVICES[0]): SelectSelector(
                SelectSelectorConfig(options=list(DEVICES), translation_key=CONF_DEVICE)
            ),
            probatio.Required(
                CONF_PROMPT_CACHE_GIB, default=DEFAULT_PROMPT_CACHE_GIB
            ): _GIB_SELECTOR,
            probatio.Required(
                CONF_DISK_CACHE_GIB, default=DEFAULT_DISK_CACHE_GIB
            ): _GIB_SELECTOR,
            probatio.Required(
                CONF_CONTEXT_LENGTH, default=min(DEFAULT_CONTEXT_LENGTH, context_limit)
            ): NumberSelector(
                NumberSelectorConfig(
                    min=min(_SMALLEST_CONTEXT, context_limit),
                    max=context_limit,
                    step=1,
                    mode=NumberSelectorMode.BOX,
                )
            ),
        }
    )
