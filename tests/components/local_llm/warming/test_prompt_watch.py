"""What changes a prompt is noticed, and nothing else."""

from collections.abc import Awaitable, Callable
from datetime import timedelta

from freezegun.api import FrozenDateTimeFactory
import pytest
from pytest_homeassistant_custom_component.common import async_fire_time_changed

from custom_components.local_llm.warming.prompt_watch import async_watch_prompts
from homeassistant.components.assist_pipeline.pipeline import (
    async_get_pipeline,
    async_update_pipeline,
)
from homeassistant.components.assist_pipeline.runtime import KEY_ASSIST_PIPELINE
from homeassistant.components.homeassistant.exposed_entities import (
    async_expose_entity,
    async_get_entity_settings,
    async_should_expose,
)
from homeassistant.core import HomeAssistant
from homeassistant.helpers import (
    area_registry as ar,
    device_registry as dr,
    entity_registry as er,
    floor_registry as fr,
)
from homeassistant.setup import async_setup_component

from ..house import area_id, device_id

type Change = Callable[[HomeAssistant], Awaitable[object]]
LAMP = "light.office_floor_lamp"
KITCHEN = "assist_satellite.kitchen_voice"


class Watch:
    """Counts what it was told."""

    def __init__(self) -> None:
        self.num_changes = 0

    def note(self) -> None:
        self.num_changes += 1


@pytest.fixture
async def prepared(hass: HomeAssistant, house: None) -> None:
    """What some of the changes below need to be there before."""
    fr.async_get(hass).async_create("Upstairs")
    ar.async_get(hass).async_create("Attic")
    ar.async_get(hass).async_update(area_id(hass, "Office"), floor_id="upstairs")
    hass.states.async_set("sensor.secret", "1", {"friendly_name": "Secret"})
    hass.states.async_set("media_player.radio", "on", {"supported_features": 512})
    hass.states.async_set("script.good_night", "off")
    hass.states.async_set("select.wake_2", "a", {"options": ["a", "no_wake_word"]})
    hass.states.async_set("select.colour", "red", {"options": ["red", "blue"]})
    for entity_id in ("media_player.radio", "script.good_night"):
        async_expose_entity(hass, "conversation", entity_id, True)
    async_expose_entity(hass, "conversation", "sensor.secret", False)
    er.async_get(hass).async_get_or_create("sensor", "house", "hidden")
    async_expose_entity(hass, "conversation", "sensor.house_hidden", False)


@pytest.fixture
async def watch(hass: HomeAssistant, prepared: None) -> Watch:
    watch = Watch()
    stop = async_watch_prompts(hass, watch.note)
    yield watch
    stop()


def sets_state(entity_id: str, state: str, **attributes: object) -> Change:
    async def change(hass: HomeAssistant) -> None:
        hass.states.async_set(entity_id, state, attributes)

    return change


def changes_state(entity_id: str, state: str) -> Change:
    async def change(hass: HomeAssistant) -> None:
        before = hass.states.get(entity_id)
        assert before is not None
        hass.states.async_set(entity_id, state, before.attributes)

    return change


def removes_state(entity_id: str) -> Change:
    async def change(hass: HomeAssistant) -> None:
        hass.states.async_remove(entity_id)

    return change


def updates_entity(entity_id: str, **changes: object) -> Change:
    async def change(hass: HomeAssistant) -> None:
        er.async_get(hass).async_update_entity(entity_id, **changes)

    return change


def updates_area(room: str, /, **changes: object) -> Change:
    async def change(hass: HomeAssistant) -> None:
        ar.async_get(hass).async_update(area_id(hass, room), **changes)

    return change


def updates_device(**changes: object) -> Change:
    async def change(hass: HomeAssistant) -> None:
        dr.async_get(hass).async_update_device(
            device_id(hass, "Kitchen Voice"), **changes
        )

    return change


def updates_pipeline(**changes: object) -> Change:
    async def change(hass: HomeAssistant) -> None:
        await async_update_pipeline(hass, async_get_pipeline(hass), **changes)

    return change


async def renames_floor(hass: HomeAssistant) -> None:
    fr.async_get(hass).async_update("upstairs", name="Above")


async def deletes_area(hass: HomeAssistant) -> None:
    ar.async_get(hass).async_delete(area_id(hass, "Kitchen"))


async def moves_satellite(hass: HomeAssistant) -> None:
    dr.async_get(hass).async_update_device(
        device_id(hass, "Kitchen Voice"), area_id=area_id(hass, "Office")
    )


async def removes_satellite(hass: HomeAssistant) -> None:
    dr.async_get(hass).async_remove_device(device_id(hass, "Kitchen Voice"))


async def hides_lamp(hass: HomeAssistant) -> None:
    async_expose_entity(hass, "conversation", LAMP, False)


async def adds_pipeline(hass: HomeAssistant) -> None:
    store = hass.data[KEY_ASSIST_PIPELINE].pipeline_store
    item = {**async_get_pipeline(hass).to_json(), "name": "Second"}
    item.pop("id")
    await store.async_create_item(item)


async def loads_component(hass: HomeAssistant) -> None:
    assert await async_setup_component(hass, "input_button", {})


async def renames_home(hass: HomeAssistant) -> None:
    await hass.config.async_update(location_name="Castle")


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(sets_state("light.new", "off"), id="a lamp is added"),
        pytest.param(removes_state(LAMP), id="a lamp is gone"),
        pytest.param(removes_state("script.good_night"), id="a script is gone"),
        pytest.param(sets_state(LAMP, "off", friendly_name="Lamp"), id="a lamp's name"),
        pytest.param(sets_state(KITCHEN, "unavailable"), id="a satellite goes"),
        pytest.param(sets_state("assist_satellite.new", "idle"), id="a satellite"),
        pytest.param(
            changes_state("select.kitchen_voice_pipeline", "Second"), id="assistant"
        ),
        pytest.param(
            changes_state("select.wake_2", "no_wake_word"), id="a wake word is off"
        ),
        pytest.param(
            sets_state("media_player.radio", "on", supported_features=4_194_304 + 512),
            id="a player that can search",
        ),
        pytest.param(
            sets_state("script.good_night", "unavailable"), id="a script is reloaded"
        ),
        pytest.param(updates_entity(LAMP, aliases=["Sun"]), id="a lamp's alias"),
        pytest.param(
            updates_entity("weather.home", area_id="kitchen"), id="an entity's room"
        ),
        pytest.param(
            updates_entity(KITCHEN, new_entity_id="assist_satellite.cook"),
            id="a satellite's id",
        ),
        pytest.param(updates_area("Kitchen", name="Cookery"), id="a room's name"),
        pytest.param(updates_area("Kitchen", aliases={"Mess"}), id="a room's alias"),
        pytest.param(updates_area("Kitchen", floor_id="upstairs"), id="a room's floor"),
        pytest.param(deletes_area, id="a room is gone"),
        pytest.param(renames_floor, id="a floor's name"),
        pytest.param(moves_satellite, id="a satellite moves"),
        pytest.param(removes_satellite, id="a satellite is gone"),
        pytest.param(hides_lamp, id="exposure"),
        pytest.param(updates_pipeline(conversation_engine="other"), id="agent"),
        pytest.param(updates_pipeline(conversation_language="de"), id="language"),
        pytest.param(updates_pipeline(name="First"), id="assistant's name"),
        pytest.param(adds_pipeline, id="a new assistant"),
        pytest.param(loads_component, id="a component"),
        pytest.param(renames_home, id="the home's name"),
    ],
)
async def test_notices(hass: HomeAssistant, watch: Watch, change: Change) -> None:
    await change(hass)
    await hass.async_block_till_done()
    assert watch.num_changes


async def adds_area(hass: HomeAssistant) -> None:
    ar.async_get(hass).async_create("Cellar")


async def adds_floor(hass: HomeAssistant) -> None:
    fr.async_get(hass).async_create("Cellar")


async def adds_device(hass: HomeAssistant) -> None:
    dr.async_get(hass).async_get_or_create(
        config_entry_id="house", identifiers={("house", "new")}
    )


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(changes_state(LAMP, "on"), id="a lamp is turned on"),
        pytest.param(changes_state(LAMP, "unavailable"), id="a lamp is away"),
        pytest.param(changes_state(KITCHEN, "listening"), id="a satellite listens"),
        pytest.param(
            sets_state("sensor.secret", "1", friendly_name="Key"), id="hidden"
        ),
        pytest.param(removes_state("sensor.secret"), id="a hidden one is gone"),
        pytest.param(changes_state("select.colour", "blue"), id="another select"),
        pytest.param(
            sets_state("media_player.radio", "on", supported_features=513),
            id="a player that can pause",
        ),
        pytest.param(sets_state("script.good_night", "on"), id="a script runs"),
        pytest.param(updates_entity(LAMP, icon="mdi:lamp"), id="an icon"),
        pytest.param(updates_entity(LAMP, labels={"old"}), id="a label"),
        pytest.param(
            updates_entity("sensor.house_hidden", area_id="kitchen"),
            id="a hidden one's room",
        ),
        pytest.param(updates_area("Kitchen", icon="mdi:pot"), id="a room's icon"),
        pytest.param(updates_device(sw_version="2"), id="a satellite's version"),
        pytest.param(updates_pipeline(tts_voice="Amy"), id="a voice"),
        pytest.param(adds_area, id="an empty room"),
        pytest.param(adds_floor, id="an empty floor"),
        pytest.param(adds_device, id="a device without entities"),
    ],
)
async def test_ignores(hass: HomeAssistant, watch: Watch, change: Change) -> None:
    await change(hass)
    await hass.async_block_till_done()
    assert watch.num_changes == 0


async def test_notices_another_preferred_assistant(
    hass: HomeAssistant, watch: Watch, freezer: FrozenDateTimeFactory
) -> None:
    await adds_pipeline(hass)
    known = watch.num_changes
    store = hass.data[KEY_ASSIST_PIPELINE].pipeline_store
    second = next(item for item in store.async_items() if item.name == "Second")
    store.async_set_preferred_item(second.id)
    for expected in (known + 1, known + 1):
        freezer.tick(timedelta(seconds=61))
        async_fire_time_changed(hass)
        await hass.async_block_till_done()
        assert watch.num_changes == expected


async def test_asking_for_what_is_gone_writes_nothing_down(
    hass: HomeAssistant, watch: Watch
) -> None:
    hass.states.async_set("geo_location.storm", "1")
    assert not async_should_expose(hass, "conversation", "geo_location.storm")
    hass.states.async_remove("geo_location.storm")
    er.async_get(hass).async_remove(LAMP)
    await hass.async_block_till_done()
    assert watch.num_changes == 1
    with pytest.raises(Exception, match="Unknown entity"):
        async_get_entity_settings(hass, LAMP)


async def test_leaves_no_listener_behind(hass: HomeAssistant, prepared: None) -> None:
    store = hass.data[KEY_ASSIST_PIPELINE].pipeline_store
    before = hass.bus.async_listeners(), len(store.change_set_listeners)
    watch = Watch()
    stop = async_watch_prompts(hass, watch.note)
    assert hass.bus.async_listeners() != before[0]
    stop()
    assert (hass.bus.async_listeners(), len(store.change_set_listeners)) == before
    await hides_lamp(hass)
    await moves_satellite(hass)
    assert watch.num_changes == 0
