"""All that a tool call can be about: lights, blinds, thermostats, players, a lock, a fan, lists and scripts."""

from typing import Any, override

from homeassistant.components.climate import (
    ClimateEntity,
    ClimateEntityFeature,
    HVACMode,
)
from homeassistant.components.cover import (
    CoverDeviceClass,
    CoverEntity,
    CoverEntityFeature,
)
from homeassistant.components.fan import FanEntity, FanEntityFeature
from homeassistant.components.homeassistant import exposed_entities
from homeassistant.components.light import ColorMode, LightEntity
from homeassistant.components.lock import LockEntity
from homeassistant.components.media_player import (
    MediaPlayerEntity,
    MediaPlayerEntityFeature,
    MediaPlayerState,
)
from homeassistant.components.switch import SwitchDeviceClass, SwitchEntity
from homeassistant.components.todo import (
    TodoItem,
    TodoListEntity,
    TodoListEntityFeature,
)
from homeassistant.const import UnitOfTemperature
from homeassistant.core import HomeAssistant
from homeassistant.helpers import (
    area_registry as ar,
    entity_registry as er,
    floor_registry as fr,
)
from homeassistant.helpers.device_registry import DeviceInfo
from homeassistant.helpers.entity import Entity
from homeassistant.setup import async_setup_component
from homeassistant.util import slugify

from .house import FURNITURE, HOUSE, Entities, async_move_in, default_entities

# What no script of the household may be confused with: its name begins with a digit, it has no description.
SCRIPTS = {
    "movie_night": {
        "description": "Dims everything for a film",
        "fields": {
            "volume": {
                "selector": {"number": {"min": 0, "max": 100}},
                "required": True,
            },
            "rooms": {"selector": {"text": {"multiple": True}}},
            "lights_off": {"selector": {"boolean": {}}},
            "mode": {"selector": {"select": {"options": ["cosy", "cinema"]}}},
        },
        "sequence": [
            {
                "event": "movie_night",
                "event_data": {
                    "volume": "{{ volume }}",
                    "rooms": "{{ rooms | default(none) }}",
                    "lights_off": "{{ lights_off | default(none) }}",
                    "mode": "{{ mode | default(none) }}",
                },
            }
        ],
    },
    "2_min_rinse": {"sequence": [{"event": "rinse"}]},
}


class Furniture(Entity):
    """Anything with a name, in a room or in none."""

    _attr_has_entity_name = True
    _attr_name = None

    def __init__(self, platform: str, name: str, room: str | None) -> None:
        self.entity_id = f"{platform}.{slugify(name)}"
        self._attr_unique_id = f"{platform} {name}"
        self._attr_device_info = DeviceInfo(
            identifiers={(HOUSE, f"{platform} {name}")}, name=name
        )
        if room:
            self._attr_device_info["suggested_area"] = room

    @override
    async def async_added_to_hass(self) -> None:
        self._as_bought = {
            name: getattr(self, name)
            for name in dir(self)
            if name.startswith("_attr_") and hasattr(self, name)
        }

    def put_back(self) -> None:
        """Be again as at first."""
        for name, value in self._as_bought.items():
            setattr(self, name, value)
        self.async_write_ha_state()


class Light(Furniture, LightEntity):
    """A lamp with brightness and colours."""

    _attr_supported_color_modes = {ColorMode.RGB, ColorMode.COLOR_TEMP}  # noqa: RUF012
    _attr_color_mode = ColorMode.RGB
    _attr_is_on = False

    @override
    async def async_turn_on(self, **kwargs: Any) -> None:
        self._attr_is_on = True
        self._attr_brightness = kwargs.get("brightness", self.brightness or 255)
        self._attr_rgb_color = kwargs.get("rgb_color", self.rgb_color)
        self.async_write_ha_state()

    @override
    async def async_turn_off(self, **kwargs: Any) -> None:
        self._attr_is_on = False
        self.async_write_ha_state()


class Switch(Furniture, SwitchEntity):
    """A socket."""

    _attr_device_class = SwitchDeviceClass.OUTLET
    _attr_is_on = False

    @override
    async def async_turn_on(self, **kwargs: Any) -> None:
        self._attr_is_on = True
        self.async_write_ha_state()

    @override
    async def async_turn_off(self, **kwargs: Any) -> None:
        self._attr_is_on = False
        self.async_write_ha_state()


class Cover(Furniture, CoverEntity):
    """A blind, a curtain or a garage door."""

    _attr_supported_features = (
        CoverEntityFeature.OPEN
        | CoverEntityFeature.CLOSE
        | CoverEntityFeature.SET_POSITION
        | CoverEntityFeature.STOP
    )

    def __init__(self, name: str, room: str | None, kind: CoverDeviceClass) -> None:
        super().__init__("cover", name, room)
        self._attr_device_class = kind
        self._move(0)

    def _move(self, position: int) -> None:
        self._attr_current_cover_position = position
        self._attr_is_closed = position == 0

    @override
    async def async_open_cover(self, **kwargs: Any) -> None:
        self._move(100)
        self.async_write_ha_state()

    @override
    async def async_close_cover(self, **kwargs: Any) -> None:
        self._move(0)
        self.async_write_ha_state()

    @override
    async def async_set_cover_position(self, **kwargs: Any) -> None:
        self._move(kwargs["position"])
        self.async_write_ha_state()

    @override
    async def async_stop_cover(self, **kwargs: Any) -> None:
        self.async_write_ha_state()


class Fan(Furniture, FanEntity):
    """A fan with any speed."""

    _attr_supported_features = (
        FanEntityFeature.SET_SPEED
        | FanEntityFeature.TURN_ON
        | FanEntityFeature.TURN_OFF
    )
    _attr_percentage = 0

    @override
    async def async_set_percentage(self, percentage: int) -> None:
        self._attr_percentage = percentage
        self.async_write_ha_state()

    @override
    async def async_turn_on(
        self,
        percentage: int | None = None,
        preset_mode: str | None = None,
        **kwargs: Any,
    ) -> None:
        self._attr_percentage = percentage or 100
        self.async_write_ha_state()

    @override
    async def async_turn_off(self, **kwargs: Any) -> None:
        self._attr_percentage = 0
        self.async_write_ha_state()


class Lock(Furniture, LockEntity):
    """A lock."""

    _attr_is_locked = True

    @override
    async def async_lock(self, **kwargs: Any) -> None:
        self._attr_is_locked = True
        self.async_write_ha_state()

    @override
    async def async_unlock(self, **kwargs: Any) -> None:
        self._attr_is_locked = False
        self.async_write_ha_state()


class Thermostat(Furniture, ClimateEntity):
    """A thermostat in °C."""

    _attr_supported_features = (
        ClimateEntityFeature.TARGET_TEMPERATURE
        | ClimateEntityFeature.TURN_ON
        | ClimateEntityFeature.TURN_OFF
    )
    _attr_temperature_unit = UnitOfTemperature.CELSIUS
    _attr_hvac_modes = [HVACMode.HEAT, HVACMode.OFF]  # noqa: RUF012
    _attr_hvac_mode = HVACMode.HEAT
    _attr_target_temperature = 18.0
    _attr_target_temperature_step = 0.5

    @override
    async def async_set_temperature(self, **kwargs: Any) -> None:
        self._attr_target_temperature = kwargs["temperature"]
        self.async_write_ha_state()


class Player(Furniture, MediaPlayerEntity):
    """A loudspeaker that plays."""

    _attr_supported_features = (
        MediaPlayerEntityFeature.PAUSE
        | MediaPlayerEntityFeature.PLAY
        | MediaPlayerEntityFeature.VOLUME_SET
        | MediaPlayerEntityFeature.NEXT_TRACK
        | MediaPlayerEntityFeature.TURN_ON
        | MediaPlayerEntityFeature.TURN_OFF
    )
    _attr_state = MediaPlayerState.PLAYING
    _attr_volume_level = 0.2

    @override
    async def async_set_volume_level(self, volume: float) -> None:
        self._attr_volume_level = volume
        self.async_write_ha_state()

    @override
    async def async_media_pause(self) -> None:
        self._attr_state = MediaPlayerState.PAUSED
        self.async_write_ha_state()

    @override
    async def async_media_play(self) -> None:
        self._attr_state = MediaPlayerState.PLAYING
        self.async_write_ha_state()


class TodoList(Furniture, TodoListEntity):
    """A list that one can add to."""

    _attr_supported_features = (
        TodoListEntityFeature.CREATE_TODO_ITEM | TodoListEntityFeature.UPDATE_TODO_ITEM
    )

    def __init__(self, name: str) -> None:
        super().__init__("todo", name, None)
        self._attr_todo_items = []

    @override
    async def async_create_todo_item(self, item: TodoItem) -> None:
        self._attr_todo_items = [*(self.todo_items or ()), item]
        self.async_write_ha_state()


def all_furniture(hass: HomeAssistant) -> Entities:
    """What stands in a furnished house, by platform."""
    voices = default_entities(hass)
    return {
        "light": [
            Light("light", name, room)
            for name, room in (
                ("Kitchen Ceiling Light", "Kitchen"),
                ("Kitchen Floor Lamp", "Kitchen"),
                ("Bedroom Ceiling Light", "Bedroom"),
                ("Office Floor Lamp", "Office"),
                ("Porch", None),
            )
        ],
        "switch": [
            Switch("switch", "Coffee Machine", "Kitchen"),
            Switch("switch", "Plug 2", "Bedroom"),
        ],
        "cover": [
            Cover("Bedroom Blind", "Bedroom", CoverDeviceClass.BLIND),
            Cover("Garage Door", None, CoverDeviceClass.GARAGE),
        ],
        "fan": [Fan("fan", "Ceiling Fan", "Bedroom")],
        "lock": [Lock("lock", "Front Door", None)],
        "climate": [
            Thermostat("climate", "Bedroom Thermostat", "Bedroom"),
            Thermostat("climate", "Office Thermostat", "Office"),
        ],
        "media_player": [
            Player("media_player", "Kitchen Speaker", "Kitchen"),
            Player("media_player", "Television", "Bedroom"),
        ],
        "todo": [TodoList("Shopping List"), TodoList("Chores")],
        "select": voices["select"],
        "assist_satellite": voices["assist_satellite"],
        "weather": voices["weather"],
    }


def put_back(hass: HomeAssistant) -> None:
    """Put everything back as it was at first."""
    for entities in hass.data[FURNITURE].values():
        for entity in entities:
            if isinstance(entity, Furniture):
                entity.put_back()


async def async_furnish(hass: HomeAssistant) -> None:
    """Set up the furnished house: two floors, aliases, scripts, all of it exposed."""
    await async_move_in(hass, all_furniture(hass))
    floors = fr.async_get(hass)
    areas = ar.async_get(hass)
    upstairs = floors.async_create("Upstairs")
    ground = floors.async_create("Ground Floor", aliases={"downstairs"})
    for name, floor in (
        ("Kitchen", ground),
        ("Bedroom", upstairs),
        ("Office", upstairs),
    ):
        area = areas.async_get_area_by_name(name)
        assert area is not None
        areas.async_update(area.id, floor_id=floor.floor_id)
    areas.async_create("Attic", aliases={"Loft"})
    entities = er.async_get(hass)
    for entity_id, aliases in (
        ("switch.plug_2", ["Salt lamp"]),
        ("light.porch", ["Upstairs, hall", 'The "big"\nlamp']),
    ):
        entities.async_update_entity(entity_id, aliases=[er.COMPUTED_NAME, *aliases])
    assert await async_setup_component(hass, "script", {"script": SCRIPTS})
    await hass.async_block_till_done()
    for state in hass.states.async_all():
        if state.domain not in ("select", "assist_satellite", "conversation"):
            exposed_entities.async_expose_entity(
                hass, "conversation", state.entity_id, True
            )
