"""The repair issue of an entry that finds no PyTorch to run its engine on."""

from typing import TYPE_CHECKING

from homeassistant.core import HomeAssistant, callback
from homeassistant.helpers import issue_registry as ir

from ..const import DOMAIN
from ..failures import Failure

if TYPE_CHECKING:
    from ..runtime import LocalLlmConfigEntry


@callback
def async_tell_torch(
    hass: HomeAssistant, entry: LocalLlmConfigEntry, failure: Failure | None
) -> None:
    """Show why an entry cannot be loaded; where there is no failure any more, take that back."""
    issue_id = f"torch_{entry.entry_id}"
    if failure is None:
        ir.async_delete_issue(hass, DOMAIN, issue_id)
        return
    ir.async_create_issue(
        hass,
        DOMAIN,
        issue_id,
        is_fixable=False,
        severity=ir.IssueSeverity.ERROR,
        translation_key=failure.key,
        translation_placeholders={"detail": failure.detail, "title": entry.title},
    )
