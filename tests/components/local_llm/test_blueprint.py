"""The blueprint that people import: Home Assistant takes it, and its automation warms whom it is told."""

import asyncio
from pathlib import Path
import shutil
from typing import Any

from freezegun.api import FrozenDateTimeFactory
import pytest
from pytest_homeassistant_custom_component.common import async_fire_time_changed

from homeassistant.components.automation.config import AUTOMATION_BLUEPRINT_SCHEMA
from homeassistant.components.automation.const import DOMAIN as AUTOMATION
from homeassistant.components.blueprint.models import Blueprint
from homeassistant.const import EVENT_HOMEASSISTANT_STARTED
from homeassistant.core import CoreState, HomeAssistant
from homeassistant.setup import async_setup_component
from homeassistant.util import yaml as yaml_util

from .conftest import AddScripted, settle
from .scripted import ScriptedEngine
from .warming.test_warm_up import KITCHEN, SATELLITES

ROOT = Path(__file__).parents[3]
PATH = Path("blueprints/automation/local_llm/keep_prompts_warm.yaml")


def test_is_what_its_address_says() -> None:
    blueprint = Blueprint(
        yaml_util.load_yaml_dict(ROOT / PATH),
        path=PATH.name,
        expected_domain=AUTOMATION,
        schema=AUTOMATION_BLUEPRINT_SCHEMA,
    )
    assert blueprint.validate() is None
    assert blueprint.metadata["source_url"] == (
        f"https://github.com/local-llm/local-llm/blob/main/{PATH.as_posix()}"
    )
    minimum = blueprint.metadata["homeassistant"]["min_version"]
    assert f'"homeassistant": "{minimum}"' in (ROOT / "hacs.json").read_text()


async def automate(hass: HomeAssistant, **inputs: Any) -> None:
    target = Path(hass.config.path(PATH))
    target.parent.mkdir(parents=True)
    shutil.copy(ROOT / PATH, target)
    use = {"path": f"local_llm/{PATH.name}", "input": inputs}
    assert await async_setup_component(
        hass, AUTOMATION, {AUTOMATION: {"alias": "Warm", "use_blueprint": use}}
    )
    await hass.async_block_till_done()
    state = hass.states.get("automation.warm")
    assert state is not None
    assert state.state == "on"


@pytest.fixture
async def engine(
    hass: HomeAssistant, scripted: AddScripted, freezer: FrozenDateTimeFactory
) -> ScriptedEngine:
    """An engine whose own schedule is turned off."""
    freezer.move_to("2026-11-30 14:30:00")
    return await scripted()


def warmed(engine: ScriptedEngine) -> set[str]:
    return {request.session for request in engine.warmed}


@pytest.mark.parametrize(
    ("inputs", "sessions"),
    [
        ({}, {*SATELLITES, "no device"}),
        ({"satellites": [KITCHEN]}, {KITCHEN}),
    ],
    ids=["all", "one"],
)
async def test_warms_every_hour(
    hass: HomeAssistant,
    engine: ScriptedEngine,
    freezer: FrozenDateTimeFactory,
    inputs: dict[str, Any],
    sessions: set[str],
) -> None:
    await automate(hass, **inputs)
    for _ in range(2):
        await settle(hass, freezer, 3600)
        assert warmed(engine) == sessions
        engine.warmed.clear()


async def test_keeps_to_its_hours(
    hass: HomeAssistant, engine: ScriptedEngine, freezer: FrozenDateTimeFactory
) -> None:
    await automate(hass, minute=20, after="06:00:00", before="23:00:00")
    freezer.move_to("2026-12-01 02:20:01")
    async_fire_time_changed(hass)
    await hass.async_block_till_done(wait_background_tasks=True)
    assert warmed(engine) == set()
    freezer.move_to("2026-12-01 07:20:01")
    async_fire_time_changed(hass)
    await hass.async_block_till_done(wait_background_tasks=True)
    assert warmed(engine) == {*SATELLITES, "no device"}


async def test_warms_a_minute_after_the_start(
    hass: HomeAssistant, engine: ScriptedEngine, freezer: FrozenDateTimeFactory
) -> None:
    hass.set_state(CoreState.starting)
    await automate(hass, satellites=[KITCHEN])
    hass.set_state(CoreState.running)
    hass.bus.async_fire(EVENT_HOMEASSISTANT_STARTED)
    for _ in range(20):
        # It waits for a minute that does not go by, so nobody may wait for it.
        await asyncio.sleep(0)
    assert warmed(engine) == set()
    await settle(hass, freezer, 61)
    assert warmed(engine) == {KITCHEN}
