"""What the tests of nano's making share."""

from pathlib import Path
import sys

import pytest

# Where scripts/nano and scripts/bench find their packages
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "scripts"))


@pytest.fixture
def hass_config_dir(hass_tmp_config_dir: str) -> str:
    """Give Home Assistant a folder that goes with the test."""
    return hass_tmp_config_dir
