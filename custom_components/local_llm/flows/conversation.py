"""Sets up a conversation agent of an entry."""

from collections.abc import Mapping
from typing import Any

import probatio

from homeassistant.config_entries import (
    SOURCE_USER,
    ConfigEntryState,
    SubentryFlowResult,
)
from homeassistant.const import (
    CONF_LLM_HASS_API,
    CONF_MODEL,
    CONF_NAME,
    CONF_PROMPT,
    Platform,
)
from homeassistant.core import HomeAssistant
from homeassistant.exceptions import TemplateError
from homeassistant.helpers import entity_registry as er, llm
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

from ..const import (
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
    DOMAIN,
)
from ..linter.advice import Advice, async_advice
from ..linter.linter import SlowTemplateError, async_lint
from ..settings import AgentSettings, default_agent_data
from .agent import AgentFlow


class ConversationSubentryFlow(AgentFlow):
    """Asks how one agent behaves, and tells of instructions that change too often before they are saved."""

    def __init__(self) -> None:
        """Begin with nothing asked."""
        self._answers: dict[str, Any] = {}
        self._advice = Advice(text="", instructions=None)

    async def async_step_user(
        self, user_input: dict[str, Any] | None = None
    ) -> SubentryFlowResult:
        """Add an agent."""
        return await self._async_step_agent(
            default_agent_data(self._get_entry().data[CONF_MODEL]), user_input
        )

    async def async_step_reconfigure(
        self, user_input: dict[str, Any] | None = None
    ) -> SubentryFlowResult:
        """Change an agent."""
        return await self._async_step_agent(
            self._get_reconfigure_subentry().data, user_input
        )

    async def async_step_volatile(
        self, user_input: dict[str, Any] | None = None
    ) -> SubentryFlowResult:
        """Tell what in the instructions changes too often, and let the person choose."""
        options = ["change", "keep"]
        if self._advice.instructions is not None:
            options.insert(1, "replace")
        return self.async_show_menu(
            step_id="volatile",
            menu_options=options,
            description_placeholders={"findings": self._advice.text},
        )

    async def async_step_change(
        self, user_input: dict[str, Any] | None = None
    ) -> SubentryFlowResult:
        """Go back to the form."""
        return self._show_form(self._answers)

    async def async_step_replace(
        self, user_input: dict[str, Any] | None = None
    ) -> SubentryFlowResult:
        """Save with what is suggested, unless that has to be told of, too."""
        answers = {**self._answers, CONF_PROMPT: self._advice.instructions}
        return await self._async_step_agent(answers, answers)

    async def async_step_keep(
        self, user_input: dict[str, Any] | None = None
    ) -> SubentryFlowResult:
        """Save all the same."""
        return self._finish(self._answers)

    async def _async_step_agent(
        self, current: Mapping[str, Any], user_input: dict[str, Any] | None
    ) -> SubentryFlowResult:
        if user_input is None:
            return self._show_form(current)
        self._answers = user_input
        settings = AgentSettings.from_data(user_input)
        try:
            lint = await async_lint(self.hass, settings.instructions)
        except TemplateError as err:
            return self._show_form(user_input, "template_invalid", str(err))
        except SlowTemplateError:
            return self._show_form(user_input, "template_slow")
        if not lint.findings:
            return self._finish(user_input)
        entry = self._get_entry()
        is_loaded = entry.state is ConfigEntryState.LOADED
        self._advice = await async_advice(
            self.hass,
            lint,
            settings,
            agent_id=self._agent_id(),
            engine=entry.runtime_data.engine if is_loaded else None,
        )
        return await self.async_step_volatile()

    def _show_form(
        self, current: Mapping[str, Any], error: str | None = None, detail: str = ""
    ) -> SubentryFlowResult:
        is_new = self.source == SOURCE_USER
        return self.async_show_form(
            step_id="user" if is_new else "reconfigure",
            data_schema=self.add_suggested_values_to_schema(
                _agent_schema(self.hass, is_new=is_new),
                _without_lost_apis(self.hass, current),
            ),
            errors={CONF_PROMPT: error} if error else None,
            description_placeholders={"detail": detail},
        )

    def _agent_id(self) -> str:
        """Return the agent that is changed; a new one has no entity yet."""
        if self.source == SOURCE_USER:
            return ""
        found = er.async_get(self.hass).async_get_entity_id(
            Platform.CONVERSATION, DOMAIN, self._get_reconfigure_subentry().subentry_id
        )
        return found or ""

    def _finish(self, user_input: dict[str, Any]) -> SubentryFlowResult:
        name = user_input.get(CONF_NAME, "")
        answers = {key: value for key, value in user_input.items() if key != CONF_NAME}
        data = {
            **answers,
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
