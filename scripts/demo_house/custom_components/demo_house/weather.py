"""The weather over the demo house: the same every day, with a forecast that starts today."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import override

from homeassistant.components.weather import (
    Forecast,
    WeatherEntity,
    WeatherEntityFeature,
)
from homeassistant.config_entries import ConfigEntry
from homeassistant.const import (
    UnitOfPrecipitationDepth,
    UnitOfPressure,
    UnitOfSpeed,
    UnitOfTemperature,
)
from homeassistant.core import HomeAssistant
from homeassistant.helpers.entity_platform import AddConfigEntryEntitiesCallback
from homeassistant.util import dt as dt_util


@dataclass(frozen=True, slots=True, kw_only=True)
class Outlook:
    """What a day or an hour brings: degrees Celsius, millimetres and percent of rain."""

    condition: str
    highest: float
    lowest: float
    rain: float = 0.0
    chance: int = 0

    def at(self, when: datetime) -> Forecast:
        """Say it in Home Assistant's words."""
        return Forecast(
            datetime=when.isoformat(),
            condition=self.condition,
            native_temperature=self.highest,
            native_templow=self.lowest,
            native_precipitation=self.rain,
            precipitation_probability=self.chance,
        )


_DAYS = (
    Outlook(condition="cloudy", highest=22.0, lowest=13.0, chance=10),
    Outlook(condition="rainy", highest=17.0, lowest=11.0, rain=6.5, chance=90),
    Outlook(condition="sunny", highest=23.0, lowest=12.0),
    Outlook(condition="partlycloudy", highest=21.0, lowest=12.0, chance=20),
    Outlook(condition="sunny", highest=24.0, lowest=14.0),
)
_HOURS = 12


async def async_setup_entry(
    hass: HomeAssistant,
    entry: ConfigEntry,
    async_add_entities: AddConfigEntryEntitiesCallback,
) -> None:
    """Hang up the sky."""
    async_add_entities([DemoWeather()])


class DemoWeather(WeatherEntity):
    """A cloudy day that is followed by changeable ones."""

    _attr_name = "Home Weather"
    _attr_unique_id = "weather"
    _attr_should_poll = False
    _attr_condition = "cloudy"
    _attr_humidity = 55
    _attr_native_temperature = 22.0
    _attr_native_apparent_temperature = 21.0
    _attr_native_temperature_unit = UnitOfTemperature.CELSIUS
    _attr_native_pressure = 1016
    _attr_native_pressure_unit = UnitOfPressure.HPA
    _attr_native_wind_speed = 11
    _attr_native_wind_speed_unit = UnitOfSpeed.KILOMETERS_PER_HOUR
    _attr_native_precipitation_unit = UnitOfPrecipitationDepth.MILLIMETERS
    _attr_wind_bearing = 250
    _attr_supported_features = (
        WeatherEntityFeature.FORECAST_DAILY | WeatherEntityFeature.FORECAST_HOURLY
    )

    @override
    async def async_forecast_daily(self) -> list[Forecast]:
        """Tell the next days, today first."""
        today = dt_util.start_of_local_day()
        return [
            outlook.at(today + timedelta(days=day)) for day, outlook in enumerate(_DAYS)
        ]

    @override
    async def async_forecast_hourly(self) -> list[Forecast]:
        """Tell the next hours, this one first, all like today."""
        now = dt_util.utcnow().replace(minute=0, second=0, microsecond=0)
        return [_DAYS[0].at(now + timedelta(hours=hour)) for hour in range(_HOURS)]
