"""The buttons of an engine."""

from typing import override

from homeassistant.components.button import ButtonEntity, ButtonEntityDescription
from homeassistant.const import EntityCategory
from homeassistant.core import HomeAssistant
from homeassistant.helpers.entity_platform import AddConfigEntryEntitiesCallback

from .engine_entity import EngineEntity
from .failures import request_failure
from .runtime import LocalLlmConfigEntry
from .weights.preparation import EngineInPreparation

# A press only begins a warm-up.
PARALLEL_UPDATES = 0

WARM_UP_NOW = ButtonEntityDescription(
    key="warm_up_now", entity_category=EntityCategory.CONFIG
)


async def async_setup_entry(
    hass: HomeAssistant,
    entry: LocalLlmConfigEntry,
    async_add_entities: AddConfigEntryEntitiesCallback,
) -> None:
    """Set up the button of the entry's engine."""
    async_add_entities([WarmUpNowButton(entry)])


class WarmUpNowButton(EngineEntity, ButtonEntity):
    """Reads every prompt that will be asked with, in the background."""

    def __init__(self, entry: LocalLlmConfigEntry) -> None:
        """Warm what this entry's agents will be asked with."""
        super().__init__(entry, WARM_UP_NOW)
        self._engine = entry.runtime_data.engine
        self._warm_up = entry.runtime_data.warm_up

    @override
    async def async_press(self) -> None:
        """Begin, and do not wait: a first warm-up may take minutes.

        Raises:
            HomeAssistantError: the engine is still being made ready.
        """
        if isinstance(self._engine, EngineInPreparation):
            raise request_failure(self._engine.refusal())
        self._warm_up.async_run_now()
