"""The television and the loudspeakers of the demo house."""

from typing import override

from homeassistant.components.media_player import (
    MediaPlayerDeviceClass,
    MediaPlayerEntity,
    MediaPlayerEntityFeature,
    MediaPlayerState,
)
from homeassistant.config_entries import ConfigEntry
from homeassistant.const import Platform
from homeassistant.core import HomeAssistant
from homeassistant.helpers.entity_platform import AddConfigEntryEntitiesCallback

from .entity import ThingEntity, things
from .house import Thing


async def async_setup_entry(
    hass: HomeAssistant,
    entry: ConfigEntry,
    async_add_entities: AddConfigEntryEntitiesCallback,
) -> None:
    """Put up the players."""
    async_add_entities(DemoPlayer(thing) for thing in things("tv", "speaker"))


class DemoPlayer(ThingEntity, MediaPlayerEntity):
    """A player that plays nothing, at the volume asked for (0 to 1)."""

    _attr_supported_features = (
        MediaPlayerEntityFeature.TURN_ON
        | MediaPlayerEntityFeature.TURN_OFF
        | MediaPlayerEntityFeature.PLAY
        | MediaPlayerEntityFeature.PAUSE
        | MediaPlayerEntityFeature.VOLUME_SET
    )
    _attr_volume_level = 0.4

    def __init__(self, thing: Thing) -> None:
        """Start as the house says."""
        super().__init__(thing, Platform.MEDIA_PLAYER)
        self._attr_device_class = MediaPlayerDeviceClass(thing.kind)
        self._attr_state = (
            MediaPlayerState.PLAYING if thing.start else MediaPlayerState.OFF
        )

    @override
    async def async_turn_on(self) -> None:
        """Start to play."""
        self._become(MediaPlayerState.PLAYING)

    @override
    async def async_turn_off(self) -> None:
        """Fall silent."""
        self._become(MediaPlayerState.OFF)

    @override
    async def async_media_play(self) -> None:
        """Play on."""
        self._become(MediaPlayerState.PLAYING)

    @override
    async def async_media_pause(self) -> None:
        """Pause."""
        self._become(MediaPlayerState.PAUSED)

    @override
    async def async_set_volume_level(self, volume: float) -> None:
        """Play louder or softer."""
        self._attr_volume_level = volume
        self.async_write_ha_state()

    def _become(self, state: MediaPlayerState) -> None:
        self._attr_state = state
        self.async_write_ha_state()
