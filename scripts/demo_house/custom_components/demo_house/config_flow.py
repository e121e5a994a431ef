"""Adds the demo house with one click."""

from typing import Any, override

from homeassistant.config_entries import ConfigFlow, ConfigFlowResult

from .house import DOMAIN


class DemoHouseConfigFlow(ConfigFlow, domain=DOMAIN):
    """The house has nothing to ask."""

    VERSION = 1

    @override
    async def async_step_user(
        self, user_input: dict[str, Any] | None = None
    ) -> ConfigFlowResult:
        """Build the house."""
        return self.async_create_entry(title="Demo House", data={})
