"""What fits into a machine, and what to change where it does not."""

from dataclasses import replace
from typing import Any

import pytest

from custom_components.local_llm.machine.fit import (
    Machine,
    misfit,
    needs_in_words,
    suggested_settings,
    with_settings,
)
from local_llm_engine.builtin import NANO_PATH
from local_llm_engine.config import GIB
from local_llm_engine.models.memory import DeviceMemory
from local_llm_engine.models.plan import EnginePlan, StateBytes
from local_llm_engine.service import Engine, EngineStatus

from ..scripted import ScriptedEngine

# As one of 4 billion parameters has it, in bfloat16
STATE = StateBytes(token=32 * 1024, recurrent=50 << 20, checkpoint=50 << 20)
SETTINGS = {"context_length": 16_384, "prompt_cache_gib": 8}


@pytest.fixture(scope="module")
def plan() -> EnginePlan:
    """8 GiB of weights, and 1.5 GiB for three times 16,384 tokens."""
    nano = Engine.plan(NANO_PATH)
    large = replace(
        nano,
        model=replace(nano.model, context_length=262_144),
        dtype="bfloat16",
        weights_bytes=8 * GIB,
        weights_by_choice={
            "auto": ("bf16", 8 * GIB),
            "bf16": ("bf16", 8 * GIB),
            "int8": ("int8", 4 * GIB),
            "int4": ("int4", 2 * GIB),
        },
        state=STATE,
    )
    return with_settings(large, SETTINGS)


def memory(gib: float | None) -> DeviceMemory | None:
    """A device with twice as much memory as is unused."""
    if gib is None:
        return None
    return DeviceMemory(int(2 * gib * GIB), int(gib * GIB))


def machine(ram: float | None, gpu: float | None = None) -> Machine:
    return Machine(ram=memory(ram), gpu=memory(gpu))


@pytest.mark.parametrize(
    ("ram", "key", "field"),
    [
        (8, "model_too_large", "device"),
        (9, "context_too_large", "context_length"),
        (12, "prompt_cache_too_large", "prompt_cache_gib"),
        (19, None, None),
        (None, None, None),
    ],
    ids=["weights", "context", "cache", "all", "unknown"],
)
def test_on_a_processor(
    plan: EnginePlan, ram: float | None, key: str | None, field: str | None
) -> None:
    found = misfit(plan, machine(ram))
    assert (found and found.key, found and found.field) == (key, field)


@pytest.mark.parametrize(
    ("ram", "gpu", "key", "field"),
    [
        (32, 8, "model_too_large", "device"),
        (32, 9, "context_too_large", "context_length"),
        (4, 24, "prompt_cache_too_large", "prompt_cache_gib"),
        (9, 24, None, None),
    ],
    ids=["weights", "context", "cache", "all"],
)
def test_on_a_graphics_card(
    plan: EnginePlan, ram: float, gpu: float, key: str | None, field: str | None
) -> None:
    found = misfit(replace(plan, device="cuda"), machine(ram, gpu))
    assert (found and found.key, found and found.field) == (key, field)


@pytest.mark.parametrize(
    ("ram", "field"), [(9, "context_length"), (12, "prompt_cache_gib")]
)
def test_what_is_said_to_fit_fits(plan: EnginePlan, ram: float, field: str) -> None:
    found = misfit(plan, machine(ram))
    assert found
    most = float(found.placeholders["most"])
    fitting = {**SETTINGS, "prompt_cache_gib": 0, field: most}
    assert misfit(with_settings(plan, fitting), machine(ram)) is None
    step = {"context_length": 1, "prompt_cache_gib": 0.25}[field]
    more = {**fitting, field: most + step}
    again = misfit(with_settings(plan, more), machine(ram))
    assert again
    assert again.field == field


def suggested(
    context_length: int, prompt_cache_gib: float, weights: str
) -> dict[str, Any]:
    return {
        "context_length": context_length,
        "prompt_cache_gib": prompt_cache_gib,
        "weights": weights,
    }


@pytest.mark.parametrize(
    ("ram", "settings"),
    [
        (None, suggested(16_384, 8.0, "auto")),
        (64, suggested(16_384, 8.0, "auto")),
        (12, suggested(16_384, 1.75, "auto")),
        (9, suggested(3861, 0.0, "auto")),
        (8, suggested(16_384, 1.75, "int8")),
        (4, suggested(14_784, 0.0, "int4")),
        (1, suggested(1024, 0.0, "auto")),
    ],
    ids=["unknown", "large", "medium", "small", "8 bits", "4 bits", "too small"],
)
def test_what_is_suggested_fits_if_anything_does(
    plan: EnginePlan, ram: float | None, settings: dict[str, Any]
) -> None:
    assert suggested_settings(plan, machine(ram)) == settings
    found = misfit(with_settings(plan, settings), machine(ram))
    assert (found is None) is (ram != 1)


def test_a_model_for_less_is_asked_for_less(plan: EnginePlan) -> None:
    short = replace(plan, model=replace(plan.model, context_length=512))
    assert suggested_settings(short, machine(64))["context_length"] == 512
    assert suggested_settings(short, machine(1))["context_length"] == 512


def test_needs_in_words(plan: EnginePlan) -> None:
    words = needs_in_words(plan, machine(12), 3)
    assert words == {
        "weights": "8.00 GiB",
        "dtype": "bfloat16",
        "kv": "31.2 MiB",
        "context": "16384",
        "slots": "1.65 GiB",
        "satellite": "53.1 MiB",
        "satellites": "3",
        "satellites_cache": words["satellites_cache"],
        "ram": "24.00 GiB / 12.00 GiB",
        "gpu": "–",
    }
    assert words["satellites_cache"].endswith(" GiB")


def status(**changes: Any) -> EngineStatus:
    """An engine of a million parameters that has cached 1,000 bytes."""
    idle = replace(ScriptedEngine().status(), weights_bytes=4_000_000)
    model = replace(idle.model, num_parameters=1_000_000, weights_bytes=2_000_000)
    return replace(idle, model=model, prompt_cache_bytes=1000, **changes)


@pytest.mark.parametrize(
    ("engine", "ram", "gpu"),
    [
        ({"dtype": "float32"}, 4_001_000, 0),
        ({"dtype": "bfloat16", "weights_bytes": 2_000_000}, 1000, 0),
        ({"weights": "int8"}, 1000, 0),
        ({"device": "cuda", "weights_bytes": 2_000_000}, 1000, 2_000_000),
    ],
    ids=["copied weights", "mapped weights", "converted weights", "graphics card"],
)
def test_what_an_engine_holds_is_free_without_it(
    engine: dict[str, Any], ram: int, gpu: int
) -> None:
    before = machine(1, 1)
    after = before.without(status(**engine))
    assert after.ram.available_bytes - before.ram.available_bytes == ram
    assert after.gpu.available_bytes - before.gpu.available_bytes == gpu


def test_nothing_is_known_of_an_unknown_machine() -> None:
    assert machine(None).without(status(dtype="float32")) == machine(None)


def test_no_more_is_free_than_there_is() -> None:
    full = Machine(ram=DeviceMemory(1000, 900), gpu=None)
    assert full.without(status(dtype="float32")) == Machine(
        ram=DeviceMemory(1000, 1000), gpu=None
    )
