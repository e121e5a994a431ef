"""Sets up an AI task of an entry."""

from collections.abc import Mapping
from typing import Any

import probatio

from homeassistant.config_entries import SOURCE_USER, SubentryFlowResult
from homeassistant.const import CONF_MODEL, CONF_NAME, CONF_PROMPT
from homeassistant.helpers.selector import (
    BooleanSelector,
    NumberSelector,
    NumberSelectorConfig,
    NumberSelectorMode,
    TextSelector,
    TextSelectorConfig,
)

from ..const import (
    CONF_MAX_TOKENS,
    CONF_TEMPERATURE,
    CONF_THINKING,
    DEFAULT_TASK_MAX_TOKENS,
    DEFAULT_TEMPERATURE,
)
from ..settings import default_task_data
from ..spoken import async_task_name
from .agent import AgentFlow


class AITaskSubentryFlow(AgentFlow):
    """Asks how tasks are answered."""

    async def async_step_user(
        self, user_input: dict[str, Any] | None = None
    ) -> SubentryFlowResult:
        """Add an AI task."""
        return await self._async_step_task(
            "user", default_task_data(self._get_entry().data[CONF_MODEL]), user_input
        )

    async def async_step_reconfigure(
        self, user_input: dict[str, Any] | None = None
    ) -> SubentryFlowResult:
        """Change an AI task."""
        return await self._async_step_task(
            "reconfigure", self._get_reconfigure_subentry().data, user_input
        )

    async def _async_step_task(
        self,
        step_id: str,
        current: Mapping[str, Any],
        user_input: dict[str, Any] | None,
    ) -> SubentryFlowResult:
        if user_input is not None:
            return self._finish(user_input)
        is_new = self.source == SOURCE_USER
        name = await async_task_name(self.hass) if is_new else None
        return self.async_show_form(
            step_id=step_id,
            data_schema=self.add_suggested_values_to_schema(
                _task_schema(name), current
            ),
        )

    def _finish(self, user_input: dict[str, Any]) -> SubentryFlowResult:
        name = user_input.pop(CONF_NAME, "")
        data = {**user_input, CONF_MAX_TOKENS: int(user_input[CONF_MAX_TOKENS])}
        if self.source == SOURCE_USER:
            return self.async_create_entry(title=name, data=data)
        # The entry notices the change by itself.
        return self.async_update_and_abort(
            self._get_entry(), self._get_reconfigure_subentry(), data=data
        )


def _task_schema(name: str | None) -> probatio.Schema:
    """Return the form of an AI task's settings, for a new one with its name."""
    return probatio.Schema(
        {
            **(
                {probatio.Required(CONF_NAME, default=name): TextSelector()}
                if name
                else {}
            ),
            probatio.Optional(CONF_PROMPT): TextSelector(
                TextSelectorConfig(multiline=True)
            ),
            probatio.Required(CONF_TEMPERATURE, default=DEFAULT_TEMPERATURE): _number(
                0, 2, 0.05
            ),
            probatio.Required(
                CONF_MAX_TOKENS, default=DEFAULT_TASK_MAX_TOKENS
            ): _number(16, 65_536, 1),
            probatio.Required(CONF_THINKING, default=False): BooleanSelector(),
        }
    )


def _number(low: float, high: float, step: float) -> NumberSelector:
    return NumberSelector(
        NumberSelectorConfig(min=low, max=high, step=step, mode=NumberSelectorMode.BOX)
    )
