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
from local_llm_engine.models.plan import EnginePlan, StateBytes, WeightsNeed
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
            "auto": WeightsNeed("bf16", 8 * GIB, 8 * GIB),
            "bf16": WeightsNeed("bf16", 8 * GIB, 8 * GIB),
            "int8": WeightsNeed("int8", 4 * GIB, 4 * GIB),
            "int4": WeightsNeed("int4", 2 * GIB, 2 * GIB),
        },
        is_int4_slow=False,
        token_bytes_by_choice={"bf16": STATE.token, "int8": STATE.token * 258 // 512},
        state=STATE,
    )
    return with_settings(large, SETTINGS)


def memory(gib: float | None) -> DeviceMemory | None:
    """A device with twice as much memory as is unused."""
    if gib is None:
        return None
    return DeviceMemory(int(2 * gib * GIB), int(gib * GIB))


def machine(
    ram: float | None, gpu: float | None = None, num_cores: int = 16
) -> Machine:
    return Machine(ram=memory(ram), gpu=memory(gpu), num_cores=num_cores)


@pytest.mark.parametrize(
    ("ram", "key", "field"),
    [
        (2, "model_too_large", "device"),
        (8, "weights_too_large", "weights"),
        (9, "context_too_large", "context_length"),
        (12, "prompt_cache_too_large", "prompt_cache_gib"),
        (19, None, None),
        (None, None, None),
    ],
    ids=["model", "weights", "context", "cache", "all", "unknown"],
)
def test_on_a_processor(
    plan: EnginePlan, ram: float | None, key: str | None, field: str | None
) -> None:
    found = misfit(plan, machine(ram))
    assert (found and found.key, found and found.field) == (key, field)


@pytest.mark.parametrize(
    ("ram", "gpu", "key", "field"),
    [
        (32, 2, "model_too_large", "device"),
        (32, 8, "weights_too_large", "weights"),
        (32, 9, "context_too_large", "context_length"),
        (4, 24, "prompt_cache_too_large", "prompt_cache_gib"),
        (9, 24, None, None),
    ],
    ids=["model", "weights", "context", "cache", "all"],
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
        "kv_cache": "bf16",
    }


@pytest.mark.parametrize(
    ("ram", "settings"),
    [
        (None, suggested(16_384, 8.0, "int8")),
        (64, suggested(16_384, 8.0, "int8")),
        (9, suggested(16_384, 2.75, "int8")),
        (8, suggested(16_384, 1.75, "int8")),
        (4, suggested(14_784, 0.0, "int4")),
        (1, suggested(1024, 0.0, "auto")),
    ],
    ids=["unknown", "large", "medium", "small", "4 bits", "too small"],
)
def test_what_is_suggested_fits_if_anything_does(
    plan: EnginePlan, ram: float | None, settings: dict[str, Any]
) -> None:
    assert suggested_settings(plan, machine(ram)) == settings
    found = misfit(with_settings(plan, settings), machine(ram))
    assert (found is None) is (ram != 1)


@pytest.mark.parametrize(
    ("gpu", "context_length", "weights"),
    [(24, 16_384, "auto"), (9, 3861, "auto"), (8, 16_384, "int8"), (4, 14_784, "int4")],
)
def test_a_graphics_card_is_given_the_exactest_weights_that_fit(
    plan: EnginePlan, gpu: float, context_length: int, weights: str
) -> None:
    """All formats are quick enough there."""
    plan, there = replace(plan, device="cuda"), machine(64, gpu)
    found = suggested_settings(plan, there)
    assert found == suggested(context_length, 8.0, weights)
    assert misfit(with_settings(plan, found), there) is None


@pytest.mark.parametrize(
    ("num_cores", "is_int4_slow", "read_share", "weights"),
    [
        (2, False, 1, "int4"),
        (4, False, 1, "int4"),
        (6, False, 1, "int8"),
        (64, False, 1, "int8"),
        (2, True, 1, "int8"),
        (2, False, 0.1, "auto"),
    ],
    ids=["two", "four", "six", "many", "no kernel for 4 bits", "experts"],
)
def test_the_exactest_format_that_answers_quickly_is_suggested(
    plan: EnginePlan,
    num_cores: int,
    is_int4_slow: bool,
    read_share: float,
    weights: str,
) -> None:
    """As far as there is memory; 8 GB are read too slowly for a voice even where they have room."""
    needs = {
        choice: need._replace(bytes_a_token=int(need.nbytes * read_share))
        for choice, need in plan.weights_by_choice.items()
    }
    plan = replace(plan, weights_by_choice=needs, is_int4_slow=is_int4_slow)
    there = machine(64, num_cores=num_cores)
    assert suggested_settings(plan, there)["weights"] == weights


def test_slow_weights_are_better_than_none(plan: EnginePlan) -> None:
    slow = replace(plan, is_int4_slow=True)
    assert suggested_settings(slow, machine(4))["weights"] == "int4"


@pytest.mark.parametrize(
    ("weights", "ram", "key", "field"),
    [
        ("auto", 4, "weights_too_large", "weights"),
        ("int8", 4, "weights_too_large", "weights"),
        ("int4", 4, "context_too_large", "context_length"),
        ("int4", 2, "model_too_large", "device"),
        ("auto", 1, "model_too_large", "device"),
    ],
)
def test_fewer_bits_are_named_where_they_would_fit(
    plan: EnginePlan, weights: str, ram: float, key: str, field: str
) -> None:
    plan = with_settings(plan, {**SETTINGS, "weights": weights})
    found = misfit(plan, machine(ram))
    assert found
    assert (found.key, found.field) == (key, field)
    sizes = [found.placeholders.get(f"weights_{bits}") for bits in ("int8", "int4")]
    assert sizes == ([None] * 2 if field != "weights" else ["4.00 GiB", "2.00 GiB"])


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
        "kv_bf16": "31.2 MiB",
        "kv_int8": "15.7 MiB",
        "context": "16384",
        "slots": "1.65 GiB",
        "satellite": "53.1 MiB",
        "satellites": "3",
        "satellites_cache": words["satellites_cache"],
        "weights_auto": "8.00 GiB",
        "weights_bf16": "8.00 GiB",
        "weights_int8": "4.00 GiB",
        "weights_int4": "2.00 GiB",
        "ram": "24.00 GiB / 12.00 GiB",
        "gpu": "–",
        "cores": "16",
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
    full = Machine(ram=DeviceMemory(1000, 900), gpu=None, num_cores=1)
    assert full.without(status(dtype="float32")) == replace(
        full, ram=DeviceMemory(1000, 1000)
    )
