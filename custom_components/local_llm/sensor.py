"""The sensors of an engine: what questions cost, what the prompt cache holds, and what is warm."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Final, override

from homeassistant.components.sensor import (
    SensorDeviceClass,
    SensorEntity,
    SensorEntityDescription,
    SensorStateClass,
)
from homeassistant.const import (
    PERCENTAGE,
    EntityCategory,
    UnitOfInformation,
    UnitOfTime,
)
from homeassistant.core import HomeAssistant
from homeassistant.helpers.entity_platform import AddConfigEntryEntitiesCallback
from local_llm_engine.types import Usage

from .engine_entity import FollowingEntity
from .insight import decode_speed, prefill_speed
from .runtime import LocalLlmConfigEntry, LocalLlmRuntimeData
from .weights.preparation import EngineInPreparation

if TYPE_CHECKING:
    from local_llm_engine.service import EngineStatus

    from .warming.results import WarmUpRun

# Nothing is polled.
PARALLEL_UPDATES = 0

type Value = float | datetime | None
type ValueOf = Callable[[LocalLlmRuntimeData], Value]


@dataclass(frozen=True, kw_only=True)
class EngineSensorDescription(SensorEntityDescription):
    """What a sensor shows, and where it finds that. Units of tokens and prompts are in the translations."""

    value_fn: ValueOf
    entity_category: EntityCategory | None = EntityCategory.DIAGNOSTIC
    state_class: SensorStateClass | None = SensorStateClass.MEASUREMENT


def _of_answer(value: Callable[[Usage], float | None]) -> ValueOf:
    """Look at the last spoken request that was answered; unknown before the first."""

    def value_fn(runtime: LocalLlmRuntimeData) -> float | None:
        usage = runtime.insight.last_answer
        return None if usage is None else value(usage)

    return value_fn


def _of_status(value: Callable[[EngineStatus], float]) -> ValueOf:
    """Look at the engine as it is now."""
    return lambda runtime: value(runtime.engine.status())


def _of_warm_up(value: Callable[[WarmUpRun], float | datetime]) -> ValueOf:
    """Look at the last run over all prompts; unknown before the first."""

    def value_fn(runtime: LocalLlmRuntimeData) -> float | datetime | None:
        run = runtime.warm_up.last_run
        return None if run is None else value(run)

    return value_fn


def _weights_ready(runtime: LocalLlmRuntimeData) -> float:
    """Look at how far an engine is made ready; a loaded one is."""
    engine = runtime.engine
    return engine.percent_done if isinstance(engine, EngineInPreparation) else 100


SENSORS: Final = (
    EngineSensorDescription(
        key="reread_tokens", value_fn=_of_answer(lambda usage: usage.reread_tokens)
    ),
    EngineSensorDescription(
        key="reused_tokens", value_fn=_of_answer(lambda usage: usage.reused_tokens)
    ),
    EngineSensorDescription(
        key="time_to_first_token",
        device_class=SensorDeviceClass.DURATION,
        native_unit_of_measurement=UnitOfTime.SECONDS,
        suggested_display_precision=2,
        value_fn=_of_answer(lambda usage: usage.time_to_first_token_seconds),
    ),
    EngineSensorDescription(
        key="decode_speed",
        suggested_display_precision=1,
        value_fn=_of_answer(decode_speed),
    ),
    EngineSensorDescription(
        key="prefill_speed",
        suggested_display_precision=0,
        entity_registry_enabled_default=False,
        value_fn=_of_answer(prefill_speed),
    ),
    EngineSensorDescription(
        key="hit_rate",
        native_unit_of_measurement=PERCENTAGE,
        suggested_display_precision=1,
        value_fn=lambda runtime: runtime.insight.hit_rate,
    ),
    EngineSensorDescription(
        key="prompt_cache_memory",
        device_class=SensorDeviceClass.DATA_SIZE,
        native_unit_of_measurement=UnitOfInformation.BYTES,
        suggested_unit_of_measurement=UnitOfInformation.MEBIBYTES,
        suggested_display_precision=0,
        value_fn=_of_status(lambda status: status.prompt_cache_bytes),
    ),
    EngineSensorDescription(
        key="prompt_cache_disk",
        device_class=SensorDeviceClass.DATA_SIZE,
        native_unit_of_measurement=UnitOfInformation.BYTES,
        suggested_unit_of_measurement=UnitOfInformation.MEBIBYTES,
        suggested_display_precision=0,
        entity_registry_enabled_default=False,
        value_fn=_of_status(lambda status: status.disk_cache_bytes),
    ),
    EngineSensorDescription(
        key="prompt_cache_prompts",
        entity_registry_enabled_default=False,
        value_fn=_of_status(lambda status: status.prompt_cache_prompts),
    ),
    EngineSensorDescription(
        key="last_warm_up",
        device_class=SensorDeviceClass.TIMESTAMP,
        state_class=None,
        value_fn=_of_warm_up(lambda run: run.ended_at),
    ),
    EngineSensorDescription(
        key="weights_ready",
        native_unit_of_measurement=PERCENTAGE,
        value_fn=_weights_ready,
    ),
    EngineSensorDescription(
        key="warm_prompts", value_fn=_of_warm_up(lambda run: run.num_warm)
    ),
    EngineSensorDescription(
        key="prompts_to_warm",
        entity_registry_enabled_default=False,
        value_fn=_of_warm_up(lambda run: run.num_targets),
    ),
)


async def async_setup_entry(
    hass: HomeAssistant,
    entry: LocalLlmConfigEntry,
    async_add_entities: AddConfigEntryEntitiesCallback,
) -> None:
    """Set up the sensors of the entry's engine."""
    async_add_entities(EngineSensor(entry, description) for description in SENSORS)


class EngineSensor(FollowingEntity, SensorEntity):
    """A number or a time that the engine tells of itself."""

    entity_description: EngineSensorDescription

    @property
    @override
    def native_value(self) -> Value:
        """Look at what is described."""
        return self.entity_description.value_fn(self._runtime)
