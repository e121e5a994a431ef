"""Builds a generated house in an empty Home Assistant: floors, areas, entities with their aliases, scripts, satellites.

Knows nothing of engines and questions.
"""

from typing import Any

from nano.house import House, Speaker, Thing
from pytest_homeassistant_custom_component.common import (
    MockConfigEntry,
    MockModule,
    MockPlatform,
    mock_integration,
    mock_platform,
)

from homeassistant.components.homeassistant import exposed_entities
from homeassistant.config_entries import ConfigEntry
from homeassistant.core import Event, HomeAssistant, callback
from homeassistant.helpers import (
    area_registry as ar,
    entity_registry as er,
    floor_registry as fr,
)
from homeassistant.helpers.entity_platform import AddConfigEntryEntitiesCallback
from homeassistant.setup import async_setup_component

from .machines import Mower, Player, Thermostat, Vacuum
from .openings import Cover, Lock, Valve
from .satellite import Satellite
from .tellers import BinarySensor, HouseScene, Sensor, TodoList, Weather
from .things import Fan, HouseThing, Humidifier, Light, Note, Switch

HOUSE = "nano_house"
OWN_SATELLITE = "own_satellite"
_OTHER_SATELLITE = "other_satellite"
_SCRIPT_EVENT = "nano_script"
_KINDS: dict[str, type[HouseThing]] = {
    "light": Light,
    "switch": Switch,
    "fan": Fan,
    "cover": Cover,
    "valve": Valve,
    "lock": Lock,
    "climate": Thermostat,
    "media_player": Player,
    "vacuum": Vacuum,
    "lawn_mower": Mower,
    "humidifier": Humidifier,
    "scene": HouseScene,
    "todo": TodoList,
    "sensor": Sensor,
    "binary_sensor": BinarySensor,
    "weather": Weather,
}


class Furnishing:
    """The furniture of one house; `note` hears of everything that it is told to do.

    `things` are our own entities, by domain; `booleans` those that Home Assistant keeps itself, by key; `names` are
    all entities by id.
    """

    def __init__(
        self, hass: HomeAssistant, house: House, speaker: Speaker, note: Note
    ) -> None:
        """Take an empty Home Assistant."""
        self.things: dict[str, list[HouseThing]] = {}
        self.booleans: dict[str, Thing] = {}
        self.names: dict[str, Thing] = {}
        self._hass = hass
        self._house = house
        self._speaker = speaker
        self._note = note

    async def move_in(self) -> None:
        """Build the house and expose everything but the satellites."""
        hass = self._hass
        await hass.config.async_set_time_zone("UTC")
        for component in ("homeassistant", "conversation", "intent", "assist_pipeline"):
            assert await async_setup_component(hass, component, {})
        self._build()
        mock_integration(
            hass,
            MockModule(HOUSE, async_setup_entry=self._set_up_entry),
            built_in=False,
        )
        mock_platform(hass, f"{HOUSE}.config_flow", built_in=False)
        for platform in (*_KINDS, "assist_satellite"):
            mock_platform(
                hass,
                f"{HOUSE}.{platform}",
                MockPlatform(async_setup_entry=self._adder(platform)),
                built_in=False,
            )
        self._furnish_areas()
        entry = MockConfigEntry(domain=HOUSE, entry_id=HOUSE)
        entry.add_to_hass(hass)
        assert await hass.config_entries.async_setup(entry.entry_id)
        await self._add_helpers()
        await hass.async_block_till_done()
        self._settle_things()
        hass.bus.async_listen(_SCRIPT_EVENT, self._on_script)

    def _build(self) -> None:
        self.names = {
            f"{thing.domain}.thing_{index}": thing
            for index, thing in enumerate(self._house.things)
        }
        for entity_id, thing in self.names.items():
            key = entity_id.partition(".")[2]
            if thing.domain == "input_boolean":
                self.booleans[key] = thing
            else:
                self.things.setdefault(thing.domain, []).append(
                    _KINDS[thing.domain](thing, key, self._note)
                )

    def _satellites(self) -> list[Satellite]:
        room = self._speaker.area.name if self._speaker.area else None
        own = (
            [Satellite(OWN_SATELLITE, room, self._note, timers=self._speaker.timers)]
            if self._speaker.device
            else []
        )
        return [*own, Satellite(_OTHER_SATELLITE, None, self._note, timers=True)]

    async def _set_up_entry(self, hass: HomeAssistant, entry: ConfigEntry) -> bool:
        await hass.config_entries.async_forward_entry_setups(
            entry, (*self.things, "assist_satellite")
        )
        return True

    def _adder(self, platform: str) -> Any:
        async def async_setup_entry(
            hass: HomeAssistant,
            entry: ConfigEntry,
            async_add_entities: AddConfigEntryEntitiesCallback,
        ) -> None:
            async_add_entities(
                self._satellites()
                if platform == "assist_satellite"
                else self.things.get(platform, ())
            )

        return async_setup_entry

    def _furnish_areas(self) -> None:
        floors = {
            name: fr.async_get(self._hass).async_create(name)
            for name in self._house.floors
        }
        areas = ar.async_get(self._hass)
        for area in self._house.areas:
            floor = floors[area.floor].floor_id if area.floor else None
            areas.async_create(area.name, aliases=set(area.aliases), floor_id=floor)

    async def _add_helpers(self) -> None:
        booleans = {
            key: {"name": thing.name, "initial": thing.state == "on"}
            for key, thing in self.booleans.items()
        }
        assert await async_setup_component(
            self._hass, "input_boolean", {"input_boolean": booleans}
        )
        scripts = {
            name: {
                "sequence": [{"event": _SCRIPT_EVENT, "event_data": {"script": name}}]
            }
            for name in self._house.scripts
        }
        assert await async_setup_component(self._hass, "script", {"script": scripts})

    def _settle_things(self) -> None:
        """Put the things into their rooms, with their aliases, and expose them."""
        entities = er.async_get(self._hass)
        areas = ar.async_get(self._hass)
        for entity_id, thing in self.names.items():
            area = areas.async_get_area_by_name(thing.area.name) if thing.area else None
            entities.async_update_entity(
                entity_id,
                area_id=area.id if area else None,
                aliases=[er.COMPUTED_NAME, *thing.names[1:]],
            )
        for state in self._hass.states.async_all():
            exposed = state.entity_id in self.names or state.domain == "script"
            exposed_entities.async_expose_entity(
                self._hass, "conversation", state.entity_id, exposed
            )

    @callback
    def _on_script(self, event: Event) -> None:
        self._note("script", "run", event.data["script"])
