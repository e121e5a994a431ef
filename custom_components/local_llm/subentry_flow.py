"""Sets up a conversation agent of an entry."""

from collections.abc import Mapping
from typing import Any

import probatio

from homeassistant.config_entries import (
    SOURCE_USER,
    ConfigSubentryFlow,
    SubentryFlowResult,
)
from homeassistant.const import CONF_LLM_HASS_API, CONF_MODEL, CONF_NAME, CONF_PROMPT
from homeassistant.core import HomeAssistant
from homeassistant.helpers import llm
from homeassistant.helpers.selector import (
    BooleanSelector,
    NumberSelector,
    NumberSelectorConfig,
    NumberSelectorMode,
    SelectOptionDict,
    SelectSelector,
    SelectSelectorConfig,
    TemplateSelector,
    TextSelector,
)

from .const import (
    CONF_HISTORY_TURNS,
    CONF_MAX_TOKENS,
    CONF_TEMPERATURE,
    CONF_THINKING,
    CONF_TOP_P,
    DEFAULT_AGENT_NAME,
    DEFAULT_HISTORY_TURNS,
    DEFAULT_MAX_TOKENS,
    DEFAULT_TEMPERATURE,
    DEFAULT_TOP_P,
)
from .settings import default_agent_data


class ConversationSubentryFlow(ConfigSubentryFlow):
    """Asks how one agent behaves."""

    async def async_step_user(
        self, user_input: dict[str, Any] | None = None
    ) -> SubentryFlowResult:
        """Add an agent."""
        return await self._async_step_agent(
            "user", default_agent_data(self._get_entry().data[CONF_MODEL]), user_input
        )

    async def async_step_reconfigure(
        self, user_input: dict[str, Any] | None = None
    ) -> SubentryFlowResult:
        """Change an agent."""
        return await self._async_step_agent(
            "reconfigure", self._get_reconfigure_subentry().data, user_input
        )

    async def _async_step_agent(
        self,
        step_id: str,
        current: Mapping[str, Any],
        user_input: dict[str, Any] | None,
    ) -> SubentryFlowResult:
        if user_input is not None:
            return self._finish(user_input)
        return self.async_show_form(
            step_id=step_id,
            data_schema=self.add_suggested_values_to_schema(
                _agent_schema(self.hass, is_new=self.source == SOURCE_USER),
                _without_lost_apis(self.hass, current),
            ),
        )

    def _finish(self, user_input: dict[str, Any]) -> SubentryFlowResult:
        name = user_input.pop(CONF_NAME, "")
        data = {
            **user_input,
            CONF_MAX_TOKENS: int(user_input[CONF_MAX_TOKENS]),
            CONF_HISTORY_TURNS: int(user_input[CONF_HISTORY_TURNS]),
        }
        if self.source == SOURCE_USER:
            return self.async_create_entry(title=name, data=data)
        # The entry notices the change by itself.
        return self.async_update_and_abort(
            self._get_entry(), self._get_reconfigure_subentry(), data=data
        )


def _agent_schema(hass: HomeAssistant, *, is_new: bool) -> probatio.Schema:
    """Return the form of an agent's settings."""
    name = (
        {probatio.Required(CONF_NAME, default=DEFAULT_AGENT_NAME): TextSelector()}
        if is_new
        else {}
    )
    apis = [SelectOptionDict(label=api.name, value=api.id) for api in _apis(hass)]
    return probatio.Schema(
        {
            **name,
            probatio.Optional(CONF_PROMPT): TemplateSelector(),
            probatio.Optional(CONF_LLM_HASS_API): SelectSelector(
                SelectSelectorConfig(options=apis, multiple=True)
            ),
            probatio.Required(CONF_TEMPERATURE, default=DEFAULT_TEMPERATURE): _number(
                0, 2, 0.05
            ),
            probatio.Required(CONF_TOP_P, default=DEFAULT_TOP_P): _number(
                0.05, 1, 0.05
            ),
            probatio.Required(CONF_MAX_TOKENS, default=DEFAULT_MAX_TOKENS): _number(
                16, 65_536, 1
            ),
            probatio.Required(
                CONF_HISTORY_TURNS, default=DEFAULT_HISTORY_TURNS
            ): _number(0, 100, 1),
            probatio.Required(CONF_THINKING, default=False): BooleanSelector(),
        }
    )


def _number(low: float, high: float, step: float) -> NumberSelector:
    return NumberSelector(
        NumberSelectorConfig(min=low, max=high, step=step, mode=NumberSelectorMode.BOX)
    )


def _apis(hass: HomeAssistant) -> list[llm.API]:
    """Return the APIs that anybody may use: a satellite speaks for nobody, so it is no administrator."""
    # Home Assistant knows APIs for administrators since 2026.11.
    return [
        api
        for api in llm.async_get_apis(hass)
        if not getattr(api, "requires_admin", False)
    ]


def _without_lost_apis(hass: HomeAssistant, data: Mapping[str, Any]) -> dict[str, Any]:
    """Leave out APIs that are not there any more, which the form would refuse."""
    known = {api.id for api in _apis(hass)}
    return {
        **data,
        CONF_LLM_HASS_API: [
            api for api in data.get(CONF_LLM_HASS_API, ()) if api in known
        ],
    }
