"""Sets up an entry: which model, where it runs and what it may use."""

from contextlib import suppress
from pathlib import Path
from typing import Any, override

import probatio

from homeassistant.config_entries import (
    SOURCE_RECONFIGURE,
    ConfigFlowResult,
    ConfigSubentryData,
    ConfigSubentryFlow,
    OptionsFlow,
    UnknownEntry,
)
from homeassistant.const import CONF_DEVICE, CONF_MODEL
from homeassistant.core import callback
from homeassistant.helpers.selector import BooleanSelector, TextSelector

from .const import (
    BUILTIN_MODEL,
    CONF_WARM_UP,
    DEFAULT_AGENT_NAME,
    DOMAIN,
    SUBENTRY_AI_TASK,
    SUBENTRY_CONVERSATION,
)
from .flows.ai_task import AITaskSubentryFlow
from .flows.conversation import ConversationSubentryFlow
from .flows.engine import EngineFlow
from .runtime import LocalLlmConfigEntry
from .settings import default_agent_data, default_task_data
from .spoken import async_task_name

_MODEL_MENU = ["builtin", "folder", "hub"]
_FOLDER_SCHEMA = probatio.Schema({probatio.Required(CONF_MODEL): TextSelector()})
_OPTIONS_SCHEMA = probatio.Schema(
    {probatio.Required(CONF_WARM_UP, default=True): BooleanSelector()}
)


class LocalLlmConfigFlow(EngineFlow, domain=DOMAIN):
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

    async def _async_take_builtin(self) -> ConfigFlowResult:
        if failure := await self._async_take_model(BUILTIN_MODEL):
            return self.async_abort(
                reason=failure.key, description_placeholders={"detail": failure.detail}
            )
        return await self.async_step_engine()

    def _folder(self, text: str) -> str:
        """Return the one name of a folder or file; one without a root lies in Home Assistant's folder."""
        path = Path(text.strip())
        # A name of nobody here is that of a folder.
        with suppress(RuntimeError):
            path = path.expanduser()
        return str(Path(self.hass.config.path(str(path))).resolve())

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
        try:
            options = self.config_entry.options
        except UnknownEntry:
            # Somebody has removed it while the form was open.
            return self.async_abort(reason="entry_removed")
        if user_input is not None:
            return self.async_create_entry(data=user_input)
        return self.async_show_form(
            step_id="init",
            data_schema=self.add_suggested_values_to_schema(_OPTIONS_SCHEMA, options),
        )
