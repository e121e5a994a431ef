"""Covers, valves and locks of a generated house."""

from typing import Any, override

from homeassistant.components.cover import (
    CoverDeviceClass,
    CoverEntity,
    CoverEntityFeature,
)
from homeassistant.components.lock import LockEntity
from homeassistant.components.valve import ValveEntity, ValveEntityFeature

from .things import HouseThing


class Cover(HouseThing, CoverEntity):
    """A cover that moves at once."""

    _attr_supported_features = (
        CoverEntityFeature.OPEN
        | CoverEntityFeature.CLOSE
        | CoverEntityFeature.SET_POSITION
        | CoverEntityFeature.STOP
    )

    @override
    def put_back(self) -> None:
        self._attr_device_class = (
            CoverDeviceClass(self._thing.device_class)
            if self._thing.device_class
            else None
        )
        self._move(self._thing.attributes["current_position"])

    def _move(self, position: int) -> None:
        self._attr_current_cover_position = position
        self._attr_is_closed = position == 0

    @override
    async def async_open_cover(self, **kwargs: Any) -> None:
        self._move(100)
        self._did("open")

    @override
    async def async_close_cover(self, **kwargs: Any) -> None:
        self._move(0)
        self._did("close")

    @override
    async def async_set_cover_position(self, **kwargs: Any) -> None:
        self._move(kwargs["position"])
        self._did("position", kwargs["position"])

    @override
    async def async_stop_cover(self, **kwargs: Any) -> None:
        self._did("stop")


class Valve(HouseThing, ValveEntity):
    """A valve."""

    _attr_reports_position = False
    _attr_supported_features = ValveEntityFeature.OPEN | ValveEntityFeature.CLOSE

    @override
    def put_back(self) -> None:
        self._attr_is_closed = self._thing.state == "closed"

    @override
    async def async_open_valve(self) -> None:
        self._attr_is_closed = False
        self._did("open")

    @override
    async def async_close_valve(self) -> None:
        self._attr_is_closed = True
        self._did("close")


class Lock(HouseThing, LockEntity):
    """A lock."""

    @override
    def put_back(self) -> None:
        self._attr_is_locked = self._thing.state == "locked"

    @override
    async def async_lock(self, **kwargs: Any) -> None:
        self._attr_is_locked = True
        self._did("lock")

    @override
    async def async_unlock(self, **kwargs: Any) -> None:
        self._attr_is_locked = False
        self._did("unlock")
