"""The throw-away folder that a demo's Home Assistant lives in: all that it reads when it starts.

Knows where the project's own integration lies, nothing of a running Home Assistant.
"""

import json
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
LOG_NAME = "home-assistant.log"

# Only what the demo shows; nothing here looks for the network or for devices.
_CONFIGURATION = """
homeassistant:
  name: Demo House
  latitude: 52.37
  longitude: 4.89
  elevation: 2
  unit_system: metric
  currency: EUR
  country: NL
  language: en
  time_zone: {time_zone}
frontend:
assist_pipeline:
logger:
  default: {level}
  logs:
    custom_components.local_llm: info
    local_llm_engine: info
    # a camera's and a recorder's libraries, a folder for tests: known to be missing here
    haffmpeg: critical
    homeassistant.bootstrap: error
    homeassistant.components.camera.img_util: critical
    homeassistant.loader: error
"""

_INTEGRATIONS = {
    "demo_house": ROOT / "scripts/demo_house/custom_components/demo_house",
    "local_llm": ROOT / "custom_components/local_llm",
}

_ONBOARDING_DONE = {"done": ["user", "core_config", "analytics", "integration"]}


def fill(folder: Path, port: int, *, verbose: bool) -> None:
    """Write configuration, integrations and a finished onboarding into an empty folder."""
    level = "info" if verbose else "warning"
    configuration = _CONFIGURATION.format(time_zone=_time_zone(), level=level)
    Path(folder, "configuration.yaml").write_text(configuration, encoding="utf-8")
    integrations = Path(folder, "custom_components")
    integrations.mkdir()
    # A regular package, so that no other folder of that name on the path has a say.
    Path(integrations, "__init__.py").touch()
    for domain, source in _INTEGRATIONS.items():
        Path(integrations, domain).symlink_to(source)
    Path(folder, ".storage").mkdir()
    write_store(folder, "onboarding", (4, 1), _ONBOARDING_DONE)
    write_store(folder, "http", (2, 2), http_settings(port))


def http_settings(port: int) -> dict[str, Any]:
    """Listen on this machine alone.

    Written as Home Assistant's own store of it: the same in configuration.yaml would count as a trial that
    Home Assistant takes back after five minutes.
    """
    return {
        "stable": {
            "server_host": ["127.0.0.1"],
            "server_port": port,
            "cors_allowed_origins": [],
            "login_attempts_threshold": -1,
            "ip_ban_enabled": False,
            "ssl_profile": "modern",
            "use_x_frame_options": True,
            "created_at": "2026-01-01T00:00:00+00:00",
            "error": None,
            "error_message": None,
        },
        "pending": None,
        "yaml_migration_done": True,
    }


def write_store(
    folder: Path, key: str, version: tuple[int, int], data: dict[str, Any]
) -> None:
    """Write one of Home Assistant's stores."""
    content = {
        "version": version[0],
        "minor_version": version[1],
        "key": key,
        "data": data,
    }
    Path(folder, ".storage", key).write_text(json.dumps(content), encoding="utf-8")


def _time_zone() -> str:
    """Name this machine's time zone."""
    parts = Path("/etc/localtime").resolve().parts
    if "zoneinfo" in parts:
        return "/".join(parts[parts.index("zoneinfo") + 1 :])
    return "UTC"
