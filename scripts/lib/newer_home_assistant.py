"""Lets the test plugin, which is made for one version of Home Assistant, run with a newer one: a plugin of pytest.

Named with pytest's option -p, so that it is loaded before all plugins that pytest finds by itself.
"""

# First of all: it gives the name httpx to another package, which must be done before anybody imports it.
import homeassistant  # noqa: F401, I001

from homeassistant.components import logger
from homeassistant.components.logger import helpers

# Moved in 2026.11
MOVED = "_clear_logger_overwrites"

if not hasattr(logger, MOVED):
    setattr(logger, MOVED, getattr(helpers, MOVED))
