"""Sensors, the weather, lists and scenes of a generated house."""

from datetime import date, timedelta
from typing import Any, override

from homeassistant.components.binary_sensor import (
    BinarySensorDeviceClass,
    BinarySensorEntity,
)
from homeassistant.components.scene import Scene
from homeassistant.components.sensor import SensorDeviceClass, SensorEntity
from homeassistant.components.todo import (
    TodoItem,
    TodoItemStatus,
    TodoListEntity,
    TodoListEntityFeature,
)
from homeassistant.components.weather import (
    Forecast,
    WeatherEntity,
    WeatherEntityFeature,
)
from homeassistant.const import UnitOfTemperature
from homeassistant.util import dt as dt_util

from .things import HouseThing

# What the weather will be like, from Monday on
_CONDITIONS = ("sunny", "rainy", "cloudy", "snowy", "fog", "windy", "partlycloudy")
_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")


def condition_on(day: str, today: date) -> str:
    """Tell what the weather will be like on a weekday, or tomorrow."""
    return _CONDITIONS[
        (today.weekday() + 1) % 7 if day == "tomorrow" else _DAYS.index(day)
    ]


class HouseScene(HouseThing, Scene):
    """A scene."""

    @override
    async def async_activate(self, **kwargs: Any) -> None:
        self._did("activate")


class TodoList(HouseThing, TodoListEntity):
    """A list."""

    _attr_supported_features = (
        TodoListEntityFeature.CREATE_TODO_ITEM
        | TodoListEntityFeature.UPDATE_TODO_ITEM
        | TodoListEntityFeature.DELETE_TODO_ITEM
    )

    @override
    def put_back(self) -> None:
        self._attr_todo_items = []

    def fill(self, item: str) -> None:
        """Have something on the list."""
        self._attr_todo_items = [
            TodoItem(uid="1", summary=item, status=TodoItemStatus.NEEDS_ACTION)
        ]
        self.async_write_ha_state()

    @override
    async def async_create_todo_item(self, item: TodoItem) -> None:
        self._attr_todo_items = [*(self.todo_items or ()), item]
        self._did("add", (item.summary or "").lower())

    @override
    async def async_update_todo_item(self, item: TodoItem) -> None:
        self._did("update", ((item.summary or "").lower(), str(item.status)))

    @override
    async def async_delete_todo_items(self, uids: list[str]) -> None:
        self._did("delete", sorted(uids))


class Sensor(HouseThing, SensorEntity):
    """A sensor."""

    @override
    def put_back(self) -> None:
        self._attr_device_class = (
            SensorDeviceClass(self._thing.device_class)
            if self._thing.device_class
            else None
        )
        self._attr_native_unit_of_measurement = self._thing.attributes[
            "unit_of_measurement"
        ]
        self._attr_native_value = self._thing.state


class BinarySensor(HouseThing, BinarySensorEntity):
    """A sensor of two states."""

    @override
    def put_back(self) -> None:
        self._attr_device_class = (
            BinarySensorDeviceClass(self._thing.device_class)
            if self._thing.device_class
            else None
        )
        self._attr_is_on = self._thing.state == "on"


class Weather(HouseThing, WeatherEntity):
    """The weather, with a forecast for a week."""

    _attr_native_temperature_unit = UnitOfTemperature.CELSIUS
    _attr_supported_features = WeatherEntityFeature.FORECAST_DAILY

    @override
    def put_back(self) -> None:
        self._attr_condition = self._thing.state
        self._attr_native_temperature = float(self._thing.attributes["temperature"])

    @override
    async def async_forecast_daily(self) -> list[Forecast]:
        start = dt_util.start_of_local_day()
        return [
            Forecast(
                datetime=(start + timedelta(days=day)).isoformat(),
                condition=_CONDITIONS[(start + timedelta(days=day)).weekday()],
                native_temperature=10.0 + day,
                native_templow=2.0 + day,
            )
            for day in range(8)
        ]
