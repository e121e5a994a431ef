"""The actions of the integration."""

from dataclasses import asdict
from typing import Final

import probatio

from homeassistant.core import (
    HomeAssistant,
    ServiceCall,
    ServiceResponse,
    SupportsResponse,
    callback,
)
from homeassistant.exceptions import ServiceValidationError
from homeassistant.helpers import config_validation as cv
from homeassistant.util.json import JsonValueType

from .const import DOMAIN
from .prompts.inspect import async_setup_inspect_prompt
from .runtime import LocalLlmConfigEntry
from .spoken import async_error_text
from .warming.results import ColdPrompt, WarmPrompt

SERVICE_WARM_UP: Final = "warm_up"
ATTR_NO_DEVICE: Final = "no_device"
ATTR_SATELLITE: Final = "satellite"

_WARM_UP_SCHEMA = probatio.Schema(
    {
        probatio.Optional(ATTR_SATELLITE): cv.entity_ids,
        probatio.Optional(ATTR_NO_DEVICE): cv.boolean,
    }
)


@callback
def async_setup_services(hass: HomeAssistant) -> None:
    """Register the actions."""
    hass.services.async_register(
        DOMAIN,
        SERVICE_WARM_UP,
        _async_warm_up,
        schema=_WARM_UP_SCHEMA,
        supports_response=SupportsResponse.OPTIONAL,
    )
    async_setup_inspect_prompt(hass)


async def _async_warm_up(call: ServiceCall) -> ServiceResponse:
    """Warm the prompts of the named satellites; without names those of all, and of questions without a device."""
    entries: list[LocalLlmConfigEntry] = call.hass.config_entries.async_loaded_entries(
        DOMAIN
    )
    if not entries:
        raise ServiceValidationError(
            translation_domain=DOMAIN, translation_key="no_loaded_entry"
        )
    # Kept from here on: an entry that is unloaded while another's prompts are read has no runtime data.
    warm_ups = [entry.runtime_data.warm_up for entry in entries]
    targets = [
        (warm_up, target) for warm_up in warm_ups for target in warm_up.async_targets()
    ]
    satellites: list[str] | None = call.data.get(ATTR_SATELLITE)
    for satellite in satellites or ():
        if all(target.speaker.satellite != satellite for _, target in targets):
            raise ServiceValidationError(
                translation_domain=DOMAIN,
                translation_key="satellite_not_served",
                translation_placeholders={"satellite": satellite},
            )
    no_device = bool(call.data.get(ATTR_NO_DEVICE, satellites is None))

    def is_wanted(satellite: str | None) -> bool:
        if satellite is None:
            return no_device
        return satellites is None or satellite in satellites

    warm: list[WarmPrompt] = []
    cold: list[ColdPrompt] = []
    for warm_up in warm_ups:
        result = await warm_up.async_run(
            [
                target
                for owner, target in targets
                if owner is warm_up and is_wanted(target.speaker.satellite)
            ]
        )
        warm += result.warm
        cold += result.cold
    if cold and not (warm and call.return_response):
        raise cold[0].error
    return {
        "prompts": [asdict(prompt) for prompt in warm],
        "failures": [await _async_failure(call.hass, prompt) for prompt in cold],
    }


async def _async_failure(
    hass: HomeAssistant, prompt: ColdPrompt
) -> dict[str, JsonValueType]:
    return {
        "agent": prompt.agent,
        "satellite": prompt.satellite,
        "language": prompt.language,
        "error": await async_error_text(hass, hass.config.language, prompt.error),
    }
