"""Downloaded models that no entry uses any more: told as repair issues, and removed when somebody says so."""

import logging
from pathlib import Path
import shutil

from homeassistant.const import CONF_MODEL
from homeassistant.core import HomeAssistant
from homeassistant.helpers import issue_registry as ir

from ..const import DOMAIN
from ..failures import EngineUnavailableError
from ..machine.disk_room import nbytes_in
from ..machine.fit import gib
from .models import held, is_being_brought, models_folder

_LOGGER = logging.getLogger(__name__)
_PREFIX = "model_left_"


async def async_tell_left_models(hass: HomeAssistant) -> None:
    """Show which models only take space, whole or half downloaded; what is used again or gone is shown no more."""
    used = {
        entry.data.get(CONF_MODEL)
        for entry in hass.config_entries.async_entries(DOMAIN)
    }
    models = await hass.async_add_executor_job(_sizes, models_folder(hass))
    left = {
        f"{_PREFIX}{folder.name}": (folder, nbytes)
        for folder, nbytes in models.items()
        if str(folder) not in used
    }
    for domain, issue_id in tuple(ir.async_get(hass).issues):
        if domain == DOMAIN and issue_id.startswith(_PREFIX) and issue_id not in left:
            ir.async_delete_issue(hass, DOMAIN, issue_id)
    for issue_id, (folder, nbytes) in left.items():
        ir.async_create_issue(
            hass,
            DOMAIN,
            issue_id,
            data={"folder": str(folder)},
            is_fixable=True,
            severity=ir.IssueSeverity.WARNING,
            translation_key="model_left",
            translation_placeholders={
                "folder": str(folder),
                "model": folder.name.removesuffix(".partial").replace("--", "/", 1),
                "size": gib(nbytes),
            },
        )


async def async_remove_left_model(hass: HomeAssistant, folder: str) -> None:
    """Remove a model, unless somebody has begun to use it since."""
    path = Path(folder)
    entries = hass.config_entries.async_entries(DOMAIN)
    is_used = any(entry.data.get(CONF_MODEL) == folder for entry in entries)
    if path.parent == models_folder(hass) and not is_used:
        await hass.async_add_executor_job(_remove, path)


def _sizes(models: Path) -> dict[Path, int]:
    """Return the models that are here and what they take."""
    if not models.is_dir():
        return {}
    return {
        folder: nbytes_in(folder)
        for folder in models.iterdir()
        if folder.is_dir() and not is_being_brought(folder)
    }


def _remove(folder: Path) -> None:
    try:
        with held(folder):
            shutil.rmtree(folder)
    except EngineUnavailableError:
        _LOGGER.warning("The model in %s is being downloaded, so it stays", folder)
    except OSError as err:
        _LOGGER.warning("Could not remove the model in %s: %s", folder, err)
