"""Mends what Home Assistant's repairs tell of us."""

from typing import cast

from homeassistant.components.repairs import FlowType, RepairsFlow, RepairsFlowResult
from homeassistant.config_entries import SOURCE_RECONFIGURE
from homeassistant.core import HomeAssistant
from homeassistant.helpers import issue_registry as ir

from .const import DOMAIN, SUBENTRY_CONVERSATION
from .hub.left_models import async_remove_left_model
from .prompts.lines import INSTRUCTIONS
from .runtime import LocalLlmConfigEntry

type _Data = dict[str, str | int | float | None]


async def async_create_fix_flow(
    hass: HomeAssistant, issue_id: str, data: _Data | None
) -> RepairsFlow:
    """Return the flow that mends an issue."""
    if data and (folder := data.get("folder")):
        return LeftModelFlow(str(folder))
    return RestlessPromptFlow(data or {})


class RestlessPromptFlow(RepairsFlow):
    """Explains which line of a prompt changes again and again, and offers what can be done."""

    def __init__(self, data: _Data) -> None:
        """Take what the issue says of the prompt."""
        self._data = data

    async def async_step_init(
        self, user_input: dict[str, str] | None = None
    ) -> RepairsFlowResult:
        """Explain, and let the person choose."""
        issue = ir.async_get(self.hass).async_get_issue(DOMAIN, self.issue_id)
        options = ["mended", "ignore"]
        if self._data.get("segment") == INSTRUCTIONS and self._data.get("subentry_id"):
            options.insert(0, "change")
        return self.async_show_menu(
            step_id="init",
            menu_options=options,
            description_placeholders=(
                issue.translation_placeholders if issue is not None else None
            ),
        )

    async def async_step_change(
        self, user_input: dict[str, str] | None = None
    ) -> RepairsFlowResult:
        """Go on to the agent's settings."""
        form = await self.hass.config_entries.subentries.async_init(
            (str(self._data["entry_id"]), SUBENTRY_CONVERSATION),
            context={
                "source": SOURCE_RECONFIGURE,
                "subentry_id": str(self._data["subentry_id"]),
            },
        )
        self._forget()
        return self.async_create_entry(
            data={}, next_flow=(FlowType.CONFIG_SUBENTRIES_FLOW, form["flow_id"])
        )

    async def async_step_mended(
        self, user_input: dict[str, str] | None = None
    ) -> RepairsFlowResult:
        """Take the person's word for it, and count anew."""
        self._forget()
        return self.async_create_entry(data={})

    async def async_step_ignore(
        self, user_input: dict[str, str] | None = None
    ) -> RepairsFlowResult:
        """Say no more of it."""
        ir.async_ignore_issue(self.hass, DOMAIN, self.issue_id, True)
        return self.async_abort(reason="ignored")

    def _forget(self) -> None:
        loaded: list[LocalLlmConfigEntry] = (
            self.hass.config_entries.async_loaded_entries(DOMAIN)
        )
        for entry in loaded:
            entry.runtime_data.prompt_history.forget(
                cast("str", self._data["agent_id"])
            )


class LeftModelFlow(RepairsFlow):
    """Offers to remove a downloaded model that nobody uses."""

    def __init__(self, folder: str) -> None:
        """Take the model's folder."""
        self._folder = folder

    async def async_step_init(
        self, user_input: dict[str, str] | None = None
    ) -> RepairsFlowResult:
        """Let the person choose."""
        issue = ir.async_get(self.hass).async_get_issue(DOMAIN, self.issue_id)
        return self.async_show_menu(
            step_id="init",
            menu_options=["remove", "ignore"],
            description_placeholders=(
                issue.translation_placeholders if issue is not None else None
            ),
        )

    async def async_step_remove(
        self, user_input: dict[str, str] | None = None
    ) -> RepairsFlowResult:
        """Remove it."""
        await async_remove_left_model(self.hass, self._folder)
        return self.async_create_entry(data={})

    async def async_step_ignore(
        self, user_input: dict[str, str] | None = None
    ) -> RepairsFlowResult:
        """Say no more of it."""
        ir.async_ignore_issue(self.hass, DOMAIN, self.issue_id, True)
        return self.async_abort(reason="ignored")
