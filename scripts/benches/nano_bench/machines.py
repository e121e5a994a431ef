"""Thermostats, players, vacuum cleaners and mowers of a generated house."""

from typing import Any, override

from homeassistant.components.climate import (
    ClimateEntity,
    ClimateEntityFeature,
    HVACMode,
)
from homeassistant.components.lawn_mower import (
    LawnMowerActivity,
    LawnMowerEntity,
    LawnMowerEntityFeature,
)
from homeassistant.components.media_player import (
    MediaPlayerEntity,
    MediaPlayerEntityFeature,
    MediaPlayerState,
)
from homeassistant.components.vacuum import (
    StateVacuumEntity,
    VacuumActivity,
    VacuumEntityFeature,
)
from homeassistant.const import UnitOfTemperature

from .things import HouseThing


class Thermostat(HouseThing, ClimateEntity):
    """A thermostat in °C."""

    _attr_supported_features = (
        ClimateEntityFeature.TARGET_TEMPERATURE
        | ClimateEntityFeature.TURN_ON
        | ClimateEntityFeature.TURN_OFF
    )
    _attr_temperature_unit = UnitOfTemperature.CELSIUS
    _attr_hvac_modes = [HVACMode.HEAT, HVACMode.COOL, HVACMode.AUTO, HVACMode.OFF]  # noqa: RUF012
    _attr_target_temperature_step = 0.5

    @override
    def put_back(self) -> None:
        self._attr_hvac_mode = HVACMode(self._thing.state)
        self._attr_target_temperature = self._thing.attributes["temperature"]
        self._attr_current_temperature = self._thing.attributes["current_temperature"]

    @override
    async def async_set_temperature(self, **kwargs: Any) -> None:
        self._attr_target_temperature = kwargs["temperature"]
        self._did("temperature", kwargs["temperature"])

    @override
    async def async_set_hvac_mode(self, hvac_mode: HVACMode) -> None:
        self._attr_hvac_mode = hvac_mode
        self._did("mode", str(hvac_mode))

    @override
    async def async_turn_on(self) -> None:
        self._did("on")

    @override
    async def async_turn_off(self) -> None:
        self._did("off")


class Player(HouseThing, MediaPlayerEntity):
    """Something that plays."""

    _attr_supported_features = (
        MediaPlayerEntityFeature.PAUSE
        | MediaPlayerEntityFeature.PLAY
        | MediaPlayerEntityFeature.VOLUME_SET
        | MediaPlayerEntityFeature.VOLUME_MUTE
        | MediaPlayerEntityFeature.NEXT_TRACK
        | MediaPlayerEntityFeature.PREVIOUS_TRACK
        | MediaPlayerEntityFeature.TURN_ON
        | MediaPlayerEntityFeature.TURN_OFF
    )

    @override
    def put_back(self) -> None:
        self._attr_state = MediaPlayerState(self._thing.state)
        self._attr_volume_level = self._thing.attributes.get("volume_level", 0.5)

    @override
    async def async_set_volume_level(self, volume: float) -> None:
        self._attr_volume_level = volume
        self._did("volume", round(volume, 3))

    @override
    async def async_mute_volume(self, mute: bool) -> None:
        self._did("mute", mute)

    @override
    async def async_media_pause(self) -> None:
        self._attr_state = MediaPlayerState.PAUSED
        self._did("pause")

    @override
    async def async_media_play(self) -> None:
        self._attr_state = MediaPlayerState.PLAYING
        self._did("play")

    @override
    async def async_media_next_track(self) -> None:
        self._did("next")

    @override
    async def async_media_previous_track(self) -> None:
        self._did("previous")

    @override
    async def async_turn_on(self) -> None:
        self._attr_state = MediaPlayerState.IDLE
        self._did("on")

    @override
    async def async_turn_off(self) -> None:
        self._attr_state = MediaPlayerState.OFF
        self._did("off")


class Vacuum(HouseThing, StateVacuumEntity):
    """A vacuum cleaner."""

    _attr_supported_features = (
        VacuumEntityFeature.START
        | VacuumEntityFeature.RETURN_HOME
        | VacuumEntityFeature.STATE
    )

    @override
    def put_back(self) -> None:
        self._attr_activity = VacuumActivity(self._thing.state)

    @override
    async def async_start(self) -> None:
        self._attr_activity = VacuumActivity.CLEANING
        self._did("start")

    @override
    async def async_return_to_base(self, **kwargs: Any) -> None:
        self._attr_activity = VacuumActivity.DOCKED
        self._did("dock")


class Mower(HouseThing, LawnMowerEntity):
    """A lawn mower."""

    _attr_supported_features = (
        LawnMowerEntityFeature.START_MOWING | LawnMowerEntityFeature.DOCK
    )

    @override
    def put_back(self) -> None:
        self._attr_activity = LawnMowerActivity(self._thing.state)

    @override
    async def async_start_mowing(self) -> None:
        self._attr_activity = LawnMowerActivity.MOWING
        self._did("start")

    @override
    async def async_dock(self) -> None:
        self._attr_activity = LawnMowerActivity.DOCKED
        self._did("dock")
