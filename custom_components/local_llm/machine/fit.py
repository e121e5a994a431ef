"""Whether a model with some settings fits into this machine, and what to change where it does not; arithmetic only."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from homeassistant.const import CONF_DEVICE
from local_llm_engine.config import GIB, Weights

from ..const import (
    CONF_CONTEXT_LENGTH,
    CONF_KV_CACHE,
    CONF_PROMPT_CACHE_GIB,
    CONF_WEIGHTS,
    DEFAULT_CONTEXT_LENGTH,
    DEFAULT_KV_CACHE,
    DEFAULT_PROMPT_CACHE_GIB,
    DEFAULT_WEIGHTS,
    KV_CACHES,
)

if TYPE_CHECKING:
    from local_llm_engine.service import DeviceMemory, EnginePlan, EngineStatus

# Less leaves no room for the text of even a small house.
SMALLEST_CONTEXT: Final = 1024
# What PyTorch takes for itself, and what Home Assistant may need besides
_SPARED_BYTES: Final = GIB // 2
_CACHE_STEP_GIB: Final = 0.25
# What a common home server reads of memory in a second for each core, up to so many, which then share it
_BYTES_A_CORE: Final = 8 * 10**9
_MOST_CORES: Final = 6
# Speech takes half as many; the rest is for the tools that are called before a word is said.
_TOKENS_A_SECOND: Final = 8
_SMALLER_WEIGHTS: Final[tuple[Weights, ...]] = ("int8", "int4")


class Misfit(NamedTuple):
    """A key of the translations of errors, the field to change, and the sizes that the text names."""

    key: str
    field: str
    placeholders: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """The memory that an engine could have: RAM, and that of the graphics card. None where nobody can tell."""

    ram: DeviceMemory | None
    gpu: DeviceMemory | None
    num_cores: int

    def without(self, engine: EngineStatus) -> Machine:
        """Return the machine as it is once an engine has let go of what it holds now."""
        weights = engine.weights_bytes
        if engine.device != "cpu":
            return replace(
                self,
                ram=_freed(self.ram, engine.prompt_cache_bytes),
                gpu=_freed(self.gpu, weights),
            )
        # Weights that are computed with as they are stored only fill memory that counts as unused.
        is_copy = engine.weights == "bf16" and weights > engine.model.weights_bytes
        held = engine.prompt_cache_bytes + (weights if is_copy else 0)
        return replace(self, ram=_freed(self.ram, held))


def misfit(plan: EnginePlan, machine: Machine) -> Misfit | None:
    """Say what does not fit; None where all does, or nobody can tell."""
    room = _device_room(plan, machine)
    if room is not None and plan.device_bytes > room:
        longest = plan.longest_context(room)
        if longest < SMALLEST_CONTEXT:
            return _too_large(plan, room)
        return Misfit(
            "context_too_large",
            CONF_CONTEXT_LENGTH,
            {
                "needed": gib(plan.device_bytes),
                "room": gib(room),
                "most": str(longest),
            },
        )
    ram = _room(machine.ram)
    if ram is not None and plan.ram_bytes > ram:
        others = plan.ram_bytes - plan.prompt_cache_bytes
        return Misfit(
            "prompt_cache_too_large",
            CONF_PROMPT_CACHE_GIB,
            {
                "needed": gib(plan.ram_bytes),
                "room": gib(ram),
                "most": f"{largest_cache_gib(ram - others):g}",
            },
        )
    return None


def _too_large(plan: EnginePlan, room: int) -> Misfit:
    """Say what to do about weights that have no room: take fewer bits where these would have."""
    sizes = {"needed": gib(plan.weights_bytes), "room": gib(room)}
    if not _fitting_weights(plan, room):
        return Misfit("model_too_large", CONF_DEVICE, sizes)
    return Misfit("weights_too_large", CONF_WEIGHTS, {**sizes, **_sizes(plan)})


def with_settings(plan: EnginePlan, settings: Mapping[str, Any]) -> EnginePlan:
    """Return a model's plan with these settings of the form."""
    plan = plan.with_kv_cache(settings.get(CONF_KV_CACHE, DEFAULT_KV_CACHE))
    return replace(
        plan.with_weights(settings.get(CONF_WEIGHTS, DEFAULT_WEIGHTS)),
        context_length=int(settings[CONF_CONTEXT_LENGTH]),
        prompt_cache_bytes=int(settings[CONF_PROMPT_CACHE_GIB] * GIB),
    )


def suggested_settings(plan: EnginePlan, machine: Machine) -> dict[str, Any]:
    """Return the usual settings as far as they fit: the exactest weights first, then of what is left the context."""
    room = _device_room(plan, machine)
    weights = _suggested_weights(plan, machine)
    plan = plan.with_weights(weights)
    context = min(DEFAULT_CONTEXT_LENGTH, plan.model.context_length)
    if room is not None:
        context = max(
            min(SMALLEST_CONTEXT, context), min(context, plan.longest_context(room))
        )
    cache_gib = DEFAULT_PROMPT_CACHE_GIB
    if (ram := _room(machine.ram)) is not None:
        fitting = with_settings(
            plan,
            {
                CONF_CONTEXT_LENGTH: context,
                CONF_PROMPT_CACHE_GIB: 0,
                CONF_WEIGHTS: weights,
            },
        )
        cache_gib = min(cache_gib, largest_cache_gib(ram - fitting.ram_bytes))
    return {
        CONF_CONTEXT_LENGTH: context,
        CONF_PROMPT_CACHE_GIB: cache_gib,
        CONF_WEIGHTS: weights,
        CONF_KV_CACHE: DEFAULT_KV_CACHE,
    }


def _suggested_weights(plan: EnginePlan, machine: Machine) -> Weights:
    """Return the exactest format that fits and answers quickly; where none does both, the quickest that fits."""
    room = _device_room(plan, machine)
    fitting = _fitting_weights(plan, room)
    if not fitting:
        return DEFAULT_WEIGHTS
    if plan.device != "cpu":
        return fitting[0]
    needs = plan.weights_by_choice
    quick = [
        choice
        for choice in fitting
        if not (plan.is_int4_slow and needs[choice].format == "int4")
    ]
    at_most = min(machine.num_cores, _MOST_CORES) * _BYTES_A_CORE / _TOKENS_A_SECOND
    return next(
        (choice for choice in quick if needs[choice].bytes_a_token <= at_most),
        min(quick or fitting, key=lambda choice: needs[choice].bytes_a_token),
    )


def _fitting_weights(plan: EnginePlan, room: int | None) -> list[Weights]:
    """Return the formats that leave room for a small house, the exactest first."""
    smallest = min(SMALLEST_CONTEXT, plan.model.context_length)
    return [
        choice
        for choice in (DEFAULT_WEIGHTS, *_SMALLER_WEIGHTS)
        if room is None or plan.with_weights(choice).longest_context(room) >= smallest
    ]


def needs_in_words(
    plan: EnginePlan, machine: Machine, num_satellites: int
) -> dict[str, str]:
    """Return what the form tells of needs and of the machine."""
    return {
        **_sizes(plan),
        "weights": gib(plan.weights_bytes),
        "dtype": plan.dtype,
        "kv": mib(plan.kv_bytes_per_1000_tokens),
        **_kv_sizes(plan),
        "context": str(plan.context_length),
        "slots": gib(plan.slots_bytes),
        "satellite": mib(plan.satellites_bytes(1) - plan.satellites_bytes(0)),
        "satellites": str(num_satellites),
        "satellites_cache": gib(plan.satellites_bytes(num_satellites)),
        "ram": _memory(machine.ram),
        "gpu": _memory(machine.gpu),
        "cores": str(machine.num_cores),
    }


def _sizes(plan: EnginePlan) -> dict[str, str]:
    """Write what the weights would take in each format."""
    needs = plan.weights_by_choice.items()
    return {f"weights_{choice}": gib(need.nbytes) for choice, need in needs}


def _kv_sizes(plan: EnginePlan) -> dict[str, str]:
    """Write what the keys and values of 1,000 tokens would take in each format."""
    plans = {choice: plan.with_kv_cache(choice) for choice in KV_CACHES}
    return {
        f"kv_{choice}": mib(other.kv_bytes_per_1000_tokens)
        for choice, other in plans.items()
    }


def gib(nbytes: int) -> str:
    """Write a size as people read it."""
    return f"{nbytes / GIB:.2f} GiB"


def mib(nbytes: int) -> str:
    """Write a small size as people read it."""
    return f"{nbytes / 1024**2:.1f} MiB"


def _memory(memory: DeviceMemory | None) -> str:
    """Write what there is and, behind a slash, how much of it is unused."""
    if memory is None:
        return "–"
    return f"{gib(memory.total_bytes)} / {gib(memory.available_bytes)}"


def _freed(memory: DeviceMemory | None, nbytes: int) -> DeviceMemory | None:
    if memory is None:
        return None
    available = min(memory.total_bytes, memory.available_bytes + nbytes)
    return memory._replace(available_bytes=available)


def _device_room(plan: EnginePlan, machine: Machine) -> int | None:
    """Return the bytes that a plan may take where its weights lie."""
    return _room(machine.ram if plan.device == "cpu" else machine.gpu)


def _room(memory: DeviceMemory | None) -> int | None:
    return None if memory is None else max(0, memory.available_bytes - _SPARED_BYTES)


def largest_cache_gib(nbytes: int) -> float:
    """Return the largest setting of the prompt cache that so many bytes allow."""
    return max(0, int(nbytes / GIB / _CACHE_STEP_GIB)) * _CACHE_STEP_GIB
