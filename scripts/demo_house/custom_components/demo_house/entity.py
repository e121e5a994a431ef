"""What every entity of the demo house has in common: a device in a room, and no polling."""

from collections.abc import Iterator

from homeassistant.const import Platform
from homeassistant.helpers import entity_registry as er
from homeassistant.helpers.device_registry import CONNECTION_NETWORK_MAC, DeviceInfo
from homeassistant.helpers.entity import Entity

from .house import DOMAIN, THINGS, Kind, Satellite, Thing


def things(*kinds: Kind) -> Iterator[Thing]:
    """Pick the things of these kinds, room by room."""
    return (thing for thing in THINGS if thing.kind in kinds)


class ThingEntity(Entity):
    """The one entity of a thing; it bears its device's name."""

    _attr_has_entity_name = True
    _attr_name = None
    _attr_should_poll = False

    def __init__(self, thing: Thing, platform: Platform) -> None:
        """Put the thing in its room."""
        self.thing = thing
        self.entity_id = f"{platform}.{thing.key}"
        self._attr_unique_id = thing.key
        self._attr_device_info = DeviceInfo(
            identifiers={(DOMAIN, thing.key)},
            manufacturer="Demo House",
            name=thing.name,
            suggested_area=thing.room,
        )


class SatelliteEntity(Entity):
    """One of the entities of a voice satellite."""

    _attr_has_entity_name = True
    _attr_should_poll = False

    def __init__(self, satellite: Satellite, platform: Platform, key: str = "") -> None:
        """Put the satellite in its room; `key` tells its entities of a platform apart."""
        self.satellite = satellite
        self.entity_id = f"{platform}.{satellite.key}{key and '_'}{key}"
        self._attr_unique_id = f"{satellite.mac}-{key or platform}"
        self._attr_device_info = DeviceInfo(
            connections={(CONNECTION_NETWORK_MAC, satellite.mac)},
            identifiers={(DOMAIN, satellite.mac)},
            manufacturer="Nabu Casa",
            model="Home Assistant Voice PE (virtual)",
            name=satellite.name,
            suggested_area=satellite.room,
        )

    def entity_id_of(self, platform: Platform, key: str) -> str | None:
        """Look up the id of another entity of this satellite."""
        return er.async_get(self.hass).async_get_entity_id(
            platform, DOMAIN, f"{self.satellite.mac}-{key}"
        )


def answer_signal(satellite: Satellite) -> str:
    """Name the dispatcher's signal for "this satellite says", sent with the words."""
    return f"{DOMAIN}_{satellite.mac}_answer"


def timer_signal(satellite: Satellite) -> str:
    """Name the signal for "a timer of this satellite changed", sent with the event and the timer."""
    return f"{DOMAIN}_{satellite.mac}_timer"
