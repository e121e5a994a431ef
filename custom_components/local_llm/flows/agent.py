"""What the forms of agents and AI tasks have in common: they end in words where what they are about is gone."""

from collections.abc import Mapping
from typing import Any, override

from homeassistant.config_entries import (
    ConfigEntry,
    ConfigSubentry,
    ConfigSubentryFlow,
    SubentryFlowResult,
    UnknownEntry,
    UnknownSubEntry,
)
from homeassistant.core import callback
from homeassistant.data_entry_flow import AbortFlow


class AgentFlow(ConfigSubentryFlow):
    """A form of one sub-entry; somebody may remove that, or its entry, while the form is open."""

    @callback
    @override
    def _get_entry(self) -> ConfigEntry:
        try:
            return super()._get_entry()
        except UnknownEntry as err:
            raise AbortFlow("entry_removed") from err

    @callback
    @override
    def _get_reconfigure_subentry(self) -> ConfigSubentry:
        try:
            return super()._get_reconfigure_subentry()
        except (UnknownEntry, UnknownSubEntry) as err:
            raise AbortFlow("entry_removed") from err

    @callback
    @override
    def async_create_entry(
        self, *, title: str | None = None, data: Mapping[str, Any], **kwargs: Any
    ) -> SubentryFlowResult:
        # Home Assistant itself would only fail.
        self._get_entry()
        return super().async_create_entry(title=title, data=data, **kwargs)
