"""What the page of system health says."""

from importlib.metadata import PackageNotFoundError, version
import json
from pathlib import Path
from unittest.mock import patch

import pytest
from pytest_homeassistant_custom_component.common import (
    MockConfigEntry,
    get_system_health_info,
)

import custom_components.local_llm
from custom_components.local_llm.const import DOMAIN
from homeassistant.core import HomeAssistant
from homeassistant.setup import async_setup_component

from .conftest import AddScripted
from .scripted import says


@pytest.fixture(autouse=True)
async def _system_health(hass: HomeAssistant, home: None) -> None:
    assert await async_setup_component(hass, DOMAIN, {})
    assert await async_setup_component(hass, "system_health", {})


async def test_tells_of_every_loaded_engine(
    hass: HomeAssistant, entry: MockConfigEntry
) -> None:
    assert await get_system_health_info(hass, DOMAIN) == {
        "engines_loaded": "1/1",
        "engines": "nano (cpu, float32)",
        "torch_version": version("torch"),
        "notices": "-",
    }


async def test_tells_of_notices_without_folders(
    hass: HomeAssistant, scripted: AddScripted
) -> None:
    engine = await scripted(says("Yes."))
    engine.notices = (f"{hass.config.config_dir}/.cache is full", "slow")
    info = await get_system_health_info(hass, DOMAIN)
    assert info["notices"] == "/config/.cache is full; slow"


async def test_tells_also_of_nothing(hass: HomeAssistant) -> None:
    with patch(
        "custom_components.local_llm.system_health.version",
        side_effect=PackageNotFoundError,
    ):
        info = await get_system_health_info(hass, DOMAIN)
    assert info == {
        "engines_loaded": "0/0",
        "engines": "-",
        "torch_version": "-",
        "notices": "-",
    }
    folder = Path(custom_components.local_llm.__file__).parent
    texts = json.loads((folder / "translations" / "en.json").read_text())
    assert set(texts["system_health"]["info"]) == set(info)
