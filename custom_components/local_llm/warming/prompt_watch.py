"""Notices whatever changes a prompt: satellites, assistants, rooms, names, what is exposed, and tools."""

from collections.abc import Callable, Hashable
from datetime import timedelta
from typing import Any

from homeassistant.components import conversation
from homeassistant.components.assist_pipeline import OPTION_PREFERRED
from homeassistant.components.assist_pipeline.runtime import KEY_ASSIST_PIPELINE
from homeassistant.components.assist_satellite import DOMAIN as SATELLITE_DOMAIN
from homeassistant.components.homeassistant.exposed_entities import (
    async_get_entity_settings,
    async_listen_entity_updates,
    async_should_expose,
)
from homeassistant.components.media_player.const import (
    DOMAIN as MEDIA_PLAYER_DOMAIN,
    MediaPlayerEntityFeature,
)
from homeassistant.components.script.const import DOMAIN as SCRIPT_DOMAIN
from homeassistant.components.select import ATTR_OPTIONS, DOMAIN as SELECT_DOMAIN
from homeassistant.const import (
    ATTR_SUPPORTED_FEATURES,
    EVENT_COMPONENT_LOADED,
    EVENT_CORE_CONFIG_UPDATE,
    EVENT_STATE_CHANGED,
    STATE_UNAVAILABLE,
)
from homeassistant.core import (
    CALLBACK_TYPE,
    Event,
    EventStateChangedData,
    HomeAssistant,
    State,
    callback,
)
from homeassistant.exceptions import HomeAssistantError
from homeassistant.helpers import (
    area_registry as ar,
    device_registry as dr,
    entity_registry as er,
    floor_registry as fr,
)
from homeassistant.helpers.event import async_track_time_interval

from ..satellites import NO_WAKE_WORD, async_assistants

# Nobody is told when another assistant becomes the preferred one.
_LOOK_AT_ASSISTANTS_EVERY = timedelta(minutes=1)

# What Home Assistant's prompt and tools take from registries; nothing else in there changes a prompt.
_ENTITY_FIELDS = frozenset({"aliases", "area_id", "device_id", "entity_id", "name"})
_DEVICE_FIELDS = frozenset({"area_id", "parent_device_id"})

# What a select has among its options that chooses an assistant or a wake word.
_CHOICES = frozenset({OPTION_PREFERRED, NO_WAKE_WORD})

# The entities of a satellite matter whether or not they are exposed.
_ASKERS = (f"{SATELLITE_DOMAIN}.", f"{SELECT_DOMAIN}.")

# Home Assistant offers to look for music where an exposed player can do both.
_SEARCH_AND_PLAY = (
    MediaPlayerEntityFeature.SEARCH_MEDIA | MediaPlayerEntityFeature.PLAY_MEDIA
)


@callback
def async_watch_prompts(
    hass: HomeAssistant, on_change: Callable[[], None]
) -> CALLBACK_TYPE:
    """Call `on_change` for all that may change a prompt, and return what ends that."""
    watch = _Watch(hass, on_change)
    stops = [
        hass.bus.async_listen(
            EVENT_STATE_CHANGED, watch.changed, event_filter=watch.tells_state
        ),
        hass.bus.async_listen(
            er.EVENT_ENTITY_REGISTRY_UPDATED,
            watch.changed,
            event_filter=watch.tells_entity,
        ),
        hass.bus.async_listen(
            dr.EVENT_DEVICE_REGISTRY_UPDATED,
            watch.changed,
            event_filter=watch.tells_device,
        ),
        hass.bus.async_listen(ar.EVENT_AREA_REGISTRY_UPDATED, watch.rooms_changed),
        hass.bus.async_listen(fr.EVENT_FLOOR_REGISTRY_UPDATED, watch.rooms_changed),
        hass.bus.async_listen(EVENT_CORE_CONFIG_UPDATE, watch.changed),
        hass.bus.async_listen(EVENT_COMPONENT_LOADED, watch.changed),
        async_listen_entity_updates(hass, conversation.DOMAIN, on_change),
        hass.data[KEY_ASSIST_PIPELINE].pipeline_store.async_add_change_set_listener(
            watch.assistants_changed
        ),
        async_track_time_interval(
            hass, watch.assistants_changed, _LOOK_AT_ASSISTANTS_EVERY
        ),
    ]

    @callback
    def stop() -> None:
        while stops:
            stops.pop()()

    return stop


class _Watch:
    """Tells changes that matter from those that do not."""

    def __init__(self, hass: HomeAssistant, on_change: Callable[[], None]) -> None:
        """Keep what is there now, to compare with."""
        self._hass = hass
        self._on_change = on_change
        self._rooms = _rooms(hass)
        self._assistants = async_assistants(hass)

    @callback
    def changed(self, _: Event[Any]) -> None:
        """Something has changed that is known to matter."""
        self._on_change()

    @callback
    def rooms_changed(self, _: Event[Any]) -> None:
        """Compare areas and floors; a new one is in no prompt before something is put there."""
        before, self._rooms = self._rooms, _rooms(self._hass)
        if any(self._rooms.get(room) != words for room, words in before.items()):
            self._on_change()

    async def assistants_changed(self, _: object) -> None:
        """Compare what matters of the assistants: not their voices."""
        before, self._assistants = self._assistants, async_assistants(self._hass)
        if self._assistants != before:
            self._on_change()

    @callback
    def tells_state(self, data: EventStateChangedData) -> bool:
        """Whether a state has changed in what a prompt takes from it, or in who may ask."""
        old, new = data["old_state"], data["new_state"]
        if _told(old) == _told(new):
            return False
        state = new or old
        return (state is not None and _asks(state)) or self._is_exposed(
            data["entity_id"], is_there=new is not None
        )

    @callback
    def tells_entity(self, data: er.EventEntityRegistryUpdatedData) -> bool:
        """Whether an entity's entry has changed in what a prompt takes from it; that it came or went, its state says."""
        if data["action"] != "update" or _ENTITY_FIELDS.isdisjoint(data["changes"]):
            return False
        entity_id = data["entity_id"]
        return entity_id.startswith(_ASKERS) or self._is_exposed(
            entity_id, is_there=True
        )

    @callback
    def tells_device(self, data: dr.EventDeviceRegistryUpdatedData) -> bool:
        """Whether a device has moved; its name is in the names of its entities."""
        return data["action"] == "update" and not _DEVICE_FIELDS.isdisjoint(
            data["changes"]
        )

    def _is_exposed(self, entity_id: str, *, is_there: bool) -> bool:
        """Whether the agents see, or saw, an entity."""
        if is_there:
            return async_should_expose(self._hass, conversation.DOMAIN, entity_id)
        # To ask the same of what is gone would write it down as an entity that exists.
        try:
            settings = async_get_entity_settings(self._hass, entity_id)
        except HomeAssistantError:
            return True
        return bool(settings.get(conversation.DOMAIN, {}).get("should_expose"))


def _rooms(hass: HomeAssistant) -> dict[str, Hashable]:
    """Return what prompts say of areas and floors, by id; the two have no id in common."""
    return {
        f"area {area.id}": (area.name, frozenset(area.aliases), area.floor_id)
        for area in ar.async_get(hass).async_list_areas()
    } | {
        f"floor {floor.floor_id}": floor.name
        for floor in fr.async_get(hass).async_list_floors()
    }


def _told(state: State | None) -> Hashable:
    """Return what of a state is in a prompt or decides what is; never whether a thing is on."""
    if state is None:
        return None
    if state.domain in (SATELLITE_DOMAIN, SCRIPT_DOMAIN):
        # A satellite that is away asks nothing; a script comes back with what it does now.
        return state.name, state.state == STATE_UNAVAILABLE
    if state.domain == MEDIA_PLAYER_DOMAIN:
        features = state.attributes.get(ATTR_SUPPORTED_FEATURES, 0)
        return state.name, features & _SEARCH_AND_PLAY
    return state.name, state.state if _asks(state) else None


def _asks(state: State) -> bool:
    """Whether a state is a satellite's, or of what chooses its assistants and wake words."""
    if state.domain == SATELLITE_DOMAIN:
        return True
    return state.domain == SELECT_DOMAIN and not _CHOICES.isdisjoint(
        state.attributes.get(ATTR_OPTIONS, ())
    )
