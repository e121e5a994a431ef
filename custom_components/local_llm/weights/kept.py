"""Where converted weights lie: one folder for each model, device and format, for as long as an entry has them."""

from collections.abc import Mapping
from contextlib import suppress
import hashlib
import json
import logging
from pathlib import Path
import shutil
from typing import Any, Final

from homeassistant.const import CONF_DEVICE, CONF_MODEL
from homeassistant.core import CALLBACK_TYPE, HomeAssistant, callback
from homeassistant.util.hass_dict import HassKey

from ..const import CONF_WEIGHTS, DEFAULT_WEIGHTS, DOMAIN
from ..machine.model_check import model_folder

# What forms have converted for entries that are still to come
_HELD: HassKey[list[Path]] = HassKey("local_llm_held_weights")
_DIGEST_DIGITS: Final = 12
# A name of so many letters is short enough for every disk, whatever their script.
_NAME_LETTERS: Final = 40
_LOGGER = logging.getLogger(__name__)


def weights_folder(hass: HomeAssistant, data: Mapping[str, Any]) -> Path:
    """Return where the converted weights of an entry with such data lie, if it has any."""
    model = data[CONF_MODEL]
    facts = [model, data[CONF_DEVICE], data.get(CONF_WEIGHTS, DEFAULT_WEIGHTS)]
    digest = hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:_DIGEST_DIGITS]
    name = model_folder(model).name[:_NAME_LETTERS]
    return _folder_of_all(hass) / f"{name}-{digest}"


@callback
def async_hold(hass: HomeAssistant, folder: Path) -> CALLBACK_TYPE:
    """Keep a folder although no entry has it yet; return what ends that."""
    held = hass.data.setdefault(_HELD, [])
    held.append(folder)
    return lambda: held.remove(folder)


async def async_remove_unused_weights(hass: HomeAssistant) -> None:
    """Remove what no entry has any more: its model, its device or the format of its weights is another now."""
    await hass.async_add_executor_job(_remove, _folder_of_all(hass), _used(hass))


@callback
def _used(hass: HomeAssistant) -> set[Path]:
    entries = hass.config_entries.async_entries(DOMAIN)
    return {
        *hass.data.get(_HELD, ()),
        *(weights_folder(hass, entry.data) for entry in entries),
    }


def _folder_of_all(hass: HomeAssistant) -> Path:
    """Return the folder of all of them: a place that Home Assistant's backups leave out."""
    return Path(hass.config.cache_path(DOMAIN, "weights"))


def _remove(folder_of_all: Path, used: set[Path]) -> None:
    if not folder_of_all.is_dir():
        return
    for folder in set(folder_of_all.iterdir()) - used:
        try:
            shutil.rmtree(folder)
        except OSError as err:
            _LOGGER.warning("Could not remove the weights in %s: %s", folder, err)
    # There may be others, and prompts beside them.
    with suppress(OSError):
        folder_of_all.rmdir()
        folder_of_all.parent.rmdir()
