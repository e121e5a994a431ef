"""The configuration folder of a bare Home Assistant: one light, and what a release's archive holds."""

from pathlib import Path
from zipfile import ZipFile

from demo_house.folder import http_settings, write_store

LIGHT = "light.ceiling_light"
_LIGHT_ID = "ceiling_light"

_CONFIGURATION = f"""
homeassistant:
  name: Bare House
  time_zone: UTC
assist_pipeline:
config:
onboarding:
logger:
  default: warning
  logs:
    # libraries that look for programs which a bare machine has not
    haffmpeg: critical
    homeassistant.components.camera.img_util: critical
template:
  - light:
      - name: Ceiling Light
        unique_id: {_LIGHT_ID}
        turn_on: []
        turn_off: []
"""


def unpack(archive: Path, config: Path) -> Path:
    """Install a release as the marketplace does, and return the integration's folder."""
    integration = config / "custom_components" / "local_llm"
    with ZipFile(archive) as packed:
        packed.extractall(integration)
    return integration


def fill(config: Path, port: int) -> None:
    """Write the configuration of a house with one light, where nobody has been yet."""
    Path(config, "configuration.yaml").write_text(_CONFIGURATION, encoding="utf-8")
    Path(config, ".storage").mkdir()
    write_store(config, "http", (2, 2), http_settings(port))
