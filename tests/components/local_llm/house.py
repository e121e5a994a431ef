"""A small real house for the tests: rooms, lights, a weather and voice satellites in Home Assistant's own entities."""

from typing import Any, override

from pytest_homeassistant_custom_component.common import (
    MockConfigEntry,
    MockModule,
    MockPlatform,
    mock_integration,
    mock_platform,
)

from homeassistant.components.assist_pipeline import AssistPipelineSelect, PipelineEvent
from homeassistant.components.assist_satellite import (
    AssistSatelliteConfiguration,
    AssistSatelliteEntity,
)
from homeassistant.components.homeassistant import exposed_entities
from homeassistant.components.intent import (
    TimerEventType,
    TimerInfo,
    async_register_timer_handler,
)
from homeassistant.components.light import ColorMode, LightEntity
from homeassistant.components.weather import (
    Forecast,
    WeatherEntity,
    WeatherEntityFeature,
)
from homeassistant.config_entries import ConfigEntry
from homeassistant.const import UnitOfSpeed, UnitOfTemperature
from homeassistant.core import HomeAssistant
from homeassistant.helpers import area_registry as ar, device_registry as dr
from homeassistant.helpers.device_registry import DeviceInfo
from homeassistant.helpers.entity import Entity
from homeassistant.helpers.entity_platform import AddConfigEntryEntitiesCallback
from homeassistant.util import dt as dt_util, slugify

HOUSE = "house"
LIGHTS = (
    ("Kitchen Ceiling Light", "Kitchen"),
    ("Kitchen Floor Lamp", "Kitchen"),
    ("Bedroom Ceiling Light", "Bedroom"),
    ("Office Floor Lamp", "Office"),
)
PLATFORMS = (
    "light",
    "weather",
    "select",
    "assist_satellite",
    "climate",
    "cover",
    "fan",
    "lock",
    "media_player",
    "switch",
    "todo",
)
FURNITURE = "furniture"

type Entities = dict[str, list[Entity]]


class HouseLight(LightEntity):
    """A lamp that does as it is told."""

    _attr_supported_color_modes = {ColorMode.BRIGHTNESS}  # noqa: RUF012
    _attr_color_mode = ColorMode.BRIGHTNESS
    _attr_has_entity_name = True
    _attr_name = None
    _attr_is_on = False

    def __init__(self, name: str, room: str, key: str | None = None) -> None:
        self.entity_id = f"light.{slugify(key or name)}"
        self._attr_unique_id = key or name
        self._attr_device_info = DeviceInfo(
            identifiers={(HOUSE, key or name)}, name=name, suggested_area=room
        )

    @override
    async def async_turn_on(self, **kwargs: Any) -> None:
        self._attr_is_on = True
        self._attr_brightness = kwargs.get("brightness", 255)
        self.async_write_ha_state()

    @override
    async def async_turn_off(self, **kwargs: Any) -> None:
        self._attr_is_on = False
        self.async_write_ha_state()


class HouseWeather(WeatherEntity):
    """Cloudy, with a forecast for days and hours."""

    _attr_name = "Home"
    _attr_unique_id = "weather"
    _attr_condition = "cloudy"
    _attr_native_temperature = 18.0
    _attr_native_temperature_unit = UnitOfTemperature.CELSIUS
    _attr_native_apparent_temperature = 16.0
    _attr_native_wind_speed = 11.0
    _attr_native_wind_speed_unit = UnitOfSpeed.KILOMETERS_PER_HOUR
    _attr_wind_bearing = 225
    _attr_humidity = 70
    _attr_supported_features = (
        WeatherEntityFeature.FORECAST_DAILY | WeatherEntityFeature.FORECAST_HOURLY
    )

    @override
    async def async_forecast_daily(self) -> list[Forecast]:
        start = dt_util.start_of_local_day()
        return [
            Forecast(
                datetime=(start + day * dt_util.dt.timedelta(days=1)).isoformat(),
                condition=condition,
                native_temperature=high,
                native_templow=low,
                precipitation_probability=rain,
            )
            for day, (condition, high, low, rain) in enumerate(
                [
                    ("cloudy", 19.0, 12.0, 20),
                    ("rainy", 15.0, 9.0, 80),
                    ("sunny", 17.0, 8.0, 0),
                    ("sunny", 21.0, 8.0, 0),
                ],
                start=-1,
            )
        ]

    @override
    async def async_forecast_hourly(self) -> list[Forecast]:
        start = dt_util.now().replace(minute=0, second=0, microsecond=0)
        return [
            Forecast(
                datetime=(start + hour * dt_util.dt.timedelta(hours=1)).isoformat(),
                condition="rainy",
                native_temperature=18.0 - hour,
                precipitation_probability=None,
            )
            for hour in range(8)
        ]


class HouseSatellite(AssistSatelliteEntity):
    """A voice satellite with a room; with timers or without."""

    _attr_has_entity_name = True
    _attr_name = None

    def __init__(self, name: str, room: str | None, *, timers: bool) -> None:
        self.entity_id = f"assist_satellite.{slugify(name)}"
        self._attr_unique_id = f"{name}-assist_satellite"
        self._attr_device_info = _satellite_device(name, room)
        self._timers = timers
        self.timer_events: list[TimerEventType] = []
        self.timer_seconds: list[int] = []

    @override
    async def async_added_to_hass(self) -> None:
        await super().async_added_to_hass()
        assert self.registry_entry
        assert self.registry_entry.device_id
        if self._timers:
            self.async_on_remove(
                async_register_timer_handler(
                    self.hass, self.registry_entry.device_id, self._on_timer
                )
            )

    @override
    def async_get_configuration(self) -> AssistSatelliteConfiguration:
        return AssistSatelliteConfiguration([], [], 1)

    @override
    async def async_set_configuration(
        self, config: AssistSatelliteConfiguration
    ) -> None: ...

    @override
    def on_pipeline_event(self, event: PipelineEvent) -> None: ...

    def _on_timer(self, event: TimerEventType, timer: TimerInfo) -> None:
        self.timer_events.append(event)
        self.timer_seconds.append(timer.seconds)


class HouseSelect(AssistPipelineSelect):
    """Which assistant a satellite speaks to, one select for each wake word."""

    _attr_has_entity_name = True

    def __init__(
        self, hass: HomeAssistant, name: str, room: str | None, index: int
    ) -> None:
        super().__init__(hass, HOUSE, name, index)
        self.entity_id = f"select.{slugify(name)}_{self.entity_description.key}"
        self._attr_device_info = _satellite_device(name, room)


def _satellite_device(name: str, room: str | None) -> DeviceInfo:
    info = DeviceInfo(identifiers={(HOUSE, name)}, name=name)
    if room:
        info["suggested_area"] = room
    return info


SATELLITES = (
    # name, room, keeps timers
    ("Kitchen Voice", "Kitchen", True),
    ("Bedroom Voice", "Bedroom", False),
    ("Office Voice", "Office", True),
)


def default_entities(hass: HomeAssistant) -> Entities:
    """What stands in the house, by platform, in the order in which it is registered."""
    return {
        "light": [HouseLight(name, room) for name, room in LIGHTS],
        "weather": [HouseWeather()],
        "select": [
            HouseSelect(hass, name, room, index)
            for name, room, _ in SATELLITES
            for index in range(2)
        ],
        "assist_satellite": [
            HouseSatellite(name, room, timers=timers)
            for name, room, timers in SATELLITES
        ],
    }


async def async_move_in(
    hass: HomeAssistant, entities: Entities | None = None
) -> ConfigEntry:
    """Set up a house with these entities, expose all but the satellites, and return its entry."""
    hass.data[FURNITURE] = entities or default_entities(hass)
    mock_integration(
        hass,
        MockModule(
            HOUSE, async_setup_entry=_setup_entry, async_unload_entry=_unload_entry
        ),
        built_in=False,
    )
    mock_platform(hass, f"{HOUSE}.config_flow", built_in=False)
    for platform in PLATFORMS:
        mock_platform(
            hass,
            f"{HOUSE}.{platform}",
            MockPlatform(async_setup_entry=_adder(platform)),
            built_in=False,
        )
    entry = MockConfigEntry(domain=HOUSE, entry_id="house")
    entry.add_to_hass(hass)
    assert await hass.config_entries.async_setup(entry.entry_id)
    await hass.async_block_till_done()
    for state in hass.states.async_all(("light", "weather")):
        exposed_entities.async_expose_entity(
            hass, "conversation", state.entity_id, True
        )
    return entry


async def async_move_in_again(hass: HomeAssistant, entities: Entities) -> None:
    """Empty the house and furnish it anew, as a restart does."""
    await hass.config_entries.async_unload("house")
    for entity_id in hass.states.async_entity_ids(PLATFORMS):
        hass.states.async_remove(entity_id)
    hass.data[FURNITURE] = entities
    assert await hass.config_entries.async_setup("house")
    await hass.async_block_till_done()


async def _setup_entry(hass: HomeAssistant, entry: ConfigEntry) -> bool:
    await hass.config_entries.async_forward_entry_setups(entry, PLATFORMS)
    return True


async def _unload_entry(hass: HomeAssistant, entry: ConfigEntry) -> bool:
    return await hass.config_entries.async_unload_platforms(entry, PLATFORMS)


def _adder(platform: str) -> Any:
    async def async_setup_entry(
        hass: HomeAssistant,
        entry: ConfigEntry,
        async_add_entities: AddConfigEntryEntitiesCallback,
    ) -> None:
        async_add_entities(hass.data[FURNITURE].get(platform, ()))

    return async_setup_entry


def device_id(hass: HomeAssistant, name: str) -> str:
    """The id of a satellite's device."""
    device = dr.async_get(hass).async_get_device_by_identifier((HOUSE, name), "house")
    assert device is not None
    return device.id


def area_id(hass: HomeAssistant, name: str) -> str:
    """The id of a room."""
    area = ar.async_get(hass).async_get_area_by_name(name)
    assert area is not None
    return area.id
