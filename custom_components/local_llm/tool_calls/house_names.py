"""What a tool call can name in the house: exposed entities, areas and floors, read from Home Assistant's registries.

Knows nothing of calls.
"""

from dataclasses import dataclass

from homeassistant.components.homeassistant.exposed_entities import async_should_expose
from homeassistant.core import HomeAssistant, State, callback
from homeassistant.helpers import (
    area_registry as ar,
    device_registry as dr,
    entity_registry as er,
    floor_registry as fr,
    intent,
    llm,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Thing:
    """An exposed entity; `names` are its name and aliases as Home Assistant matches them, `area` is its area's name."""

    entity_id: str
    names: tuple[str, ...]
    device_class: str | None
    area: str | None

    @property
    def domain(self) -> str:
        """What kind of entity it is."""
        return self.entity_id.partition(".")[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """An area or a floor with its id and aliases."""

    name: str
    other_names: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class HouseNames:
    """All names in the house; `own_area` is the area of the device that asks, `temperature_unit` the house's."""

    things: tuple[Thing, ...]
    areas: tuple[Place, ...]
    floors: tuple[Place, ...]
    own_area: str | None
    temperature_unit: str


@callback
def async_house_names(hass: HomeAssistant, llm_context: llm.LLMContext) -> HouseNames:
    """Read what the asking device may name."""
    areas = ar.async_get(hass)
    own_area_id = llm.async_get_match_preferences(hass, llm_context).area_id
    own_area = areas.async_get_area(own_area_id) if own_area_id else None
    return HouseNames(
        things=tuple(
            _thing(hass, state)
            for state in hass.states.async_all()
            if async_should_expose(hass, llm_context.assistant, state.entity_id)
        ),
        areas=tuple(
            Place(name=area.name, other_names=(area.id, *sorted(area.aliases)))
            for area in areas.async_list_areas()
        ),
        floors=tuple(
            Place(name=floor.name, other_names=(floor.floor_id, *sorted(floor.aliases)))
            for floor in fr.async_get(hass).async_list_floors()
        ),
        own_area=own_area.name if own_area else None,
        temperature_unit=hass.config.units.temperature_unit,
    )


def _thing(hass: HomeAssistant, state: State) -> Thing:
    entry = er.async_get(hass).async_get(state.entity_id)
    area_id = entry.area_id if entry else None
    if entry and area_id is None and entry.device_id:
        device = dr.async_get(hass).async_get(entry.device_id)
        area_id = dr.async_get_effective_area_id(hass, device) if device else None
    area = ar.async_get(hass).async_get_area(area_id) if area_id else None
    names = intent.async_get_entity_aliases(hass, entry, state=state)
    return Thing(
        entity_id=state.entity_id,
        names=tuple(name for name in names if name),
        device_class=(entry.device_class if entry else None)
        or state.attributes.get("device_class"),
        area=area.name if area else None,
    )
