"""The action that shows a prompt as the engine sees it: what it is made of, what is known of it, and where it changed."""

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
from homeassistant.helpers.service import async_register_admin_service
from homeassistant.util.json import JsonValueType
from local_llm_engine.errors import EngineError
from local_llm_engine.prompts import Inspection

from ..const import DOMAIN
from ..failures import request_failure
from ..runtime import LocalLlmConfigEntry
from ..warming.results import Target
from .history import Asker
from .lines import PromptLine, first_difference, lines_of
from .prompt import async_next_request

SERVICE_INSPECT_PROMPT: Final = "inspect_prompt"
ATTR_AGENT: Final = "agent"
ATTR_COMPARE_WITH: Final = "compare_with"
ATTR_SATELLITE: Final = "satellite"
ATTR_SHOW_TEXT: Final = "show_text"

_LAST_PROMPT = "last_prompt"

_SCHEMA = probatio.Schema(
    {
        probatio.Optional(ATTR_SATELLITE): cv.entity_id,
        probatio.Optional(ATTR_AGENT): cv.entity_id,
        probatio.Optional(ATTR_COMPARE_WITH): cv.entity_id,
        probatio.Optional(ATTR_SHOW_TEXT, default=False): cv.boolean,
    }
)


@callback
def async_setup_inspect_prompt(hass: HomeAssistant) -> None:
    """Register the action; a prompt tells of the whole house, so only administrators may see it."""
    async_register_admin_service(
        hass,
        DOMAIN,
        SERVICE_INSPECT_PROMPT,
        _async_inspect_prompt,
        schema=_SCHEMA,
        supports_response=SupportsResponse.ONLY,
    )


async def _async_inspect_prompt(call: ServiceCall) -> ServiceResponse:
    """Look into the prompt of a satellite's next question; without a satellite, into that of a typed one."""
    hass, agent = call.hass, call.data.get(ATTR_AGENT)
    entry, target = _target(hass, call.data.get(ATTR_SATELLITE), agent)
    runtime = entry.runtime_data
    request = await async_next_request(hass, *target)
    lines = lines_of(request)
    if other_satellite := call.data.get(ATTR_COMPARE_WITH):
        _, other = _target(hass, other_satellite, agent or target.agent_id)
        there: tuple[PromptLine, ...] | None = lines_of(
            await async_next_request(hass, *other)
        )
    else:
        there = runtime.prompt_history.last(
            Asker(target.agent_id, target.speaker.satellite, target.speaker.language)
        )
    try:
        inspection = await runtime.engine.inspect(request)
    except EngineError as err:
        raise request_failure(err) from err
    return {
        "agent": target.agent_id,
        "satellite": target.speaker.satellite,
        "language": target.speaker.language,
        **_as_response(inspection, show_text=call.data[ATTR_SHOW_TEXT]),
        "compared_with": (other_satellite or _LAST_PROMPT) if there else None,
        "difference": _difference(lines, there),
    }


def _target(
    hass: HomeAssistant, satellite: str | None, agent: str | None
) -> tuple[LocalLlmConfigEntry, Target]:
    """Find the prompt that is meant; of several that a satellite has, the first."""
    entries: list[LocalLlmConfigEntry] = hass.config_entries.async_loaded_entries(
        DOMAIN
    )
    if not entries:
        raise ServiceValidationError(
            translation_domain=DOMAIN, translation_key="no_loaded_entry"
        )
    targets = [
        (entry, target)
        for entry in entries
        for target in entry.runtime_data.warm_up.async_targets()
        if agent in (None, target.agent_id)
    ]
    if not targets:
        raise ServiceValidationError(
            translation_domain=DOMAIN,
            translation_key="agent_unknown",
            translation_placeholders={"agent": agent or "conversation.*"},
        )
    for entry, target in targets:
        if target.speaker.satellite == satellite:
            return entry, target
    raise ServiceValidationError(
        translation_domain=DOMAIN,
        translation_key="satellite_not_served",
        translation_placeholders={"satellite": satellite or ""},
    )


def _as_response(
    inspection: Inspection, *, show_text: bool
) -> dict[str, JsonValueType]:
    return {
        "prompt_tokens": inspection.num_tokens,
        "known_tokens": inspection.num_known_tokens,
        "resumes_at": inspection.resumes_at,
        "reread_tokens": inspection.reread_tokens,
        "segments": [
            {
                "name": segment.name,
                "tokens": segment.num_tokens,
                **({"text": segment.text} if show_text else {}),
            }
            for segment in inspection.segments
        ],
        "breakpoints": list(inspection.breakpoints),
        "checkpoints": [
            {"token": checkpoint.num_tokens, "tier": checkpoint.tier}
            for checkpoint in inspection.checkpoints
        ],
    }


def _difference(
    here: tuple[PromptLine, ...], there: tuple[PromptLine, ...] | None
) -> dict[str, JsonValueType] | None:
    difference = first_difference(here, there) if there is not None else None
    return difference._asdict() if difference else None
