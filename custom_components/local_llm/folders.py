"""Takes out of what the engine says where things lie: a folder may bear a person's name."""

from pathlib import Path

from homeassistant.const import CONF_MODEL
from homeassistant.core import HomeAssistant

from .machine.model_check import model_folder
from .runtime import LocalLlmConfigEntry


def without_folders(hass: HomeAssistant, entry: LocalLlmConfigEntry, text: str) -> str:
    """Put short names in place of Home Assistant's folder, the model's and the home of who runs it."""
    folder = model_folder(entry.data[CONF_MODEL])
    names = {
        str(folder): folder.name,
        hass.config.config_dir: "/config",
        str(Path.home()): "~",
    }
    if folder.suffix.lower() == ".gguf":
        # What is made of a file is kept beside it.
        names[str(folder.parent)] = folder.parent.name
    # The longest first: one may lie in another.
    for path in sorted(names, key=len, reverse=True):
        text = text.replace(path, names[path])
    return text
