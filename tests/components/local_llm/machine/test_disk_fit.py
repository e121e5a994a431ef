"""What fits on the disk, and what to change where it does not."""

from dataclasses import replace
from typing import Any

import pytest

from custom_components.local_llm.machine.disk_fit import Disk
from local_llm_engine.config import GIB
from local_llm_engine.models.plan import EnginePlan

from .test_fit import plan

__all__ = ["plan"]


def disk(free: float, **held: float) -> Disk:
    """A disk with so many GiB to spare."""
    sizes = {"prompts_bytes": 0, "weights_bytes": 0, "model_bytes": 0, **held}
    return Disk(
        free_bytes=int(free * GIB),
        **{name: int(size * GIB) for name, size in sizes.items()},
    )


def settings(weights: str, cache: float) -> dict[str, Any]:
    return {"weights": weights, "disk_cache_gib": cache}


@pytest.mark.parametrize(
    ("there", "weights", "cache", "key", "room"),
    [
        (disk(4), "auto", 4, None, None),
        (disk(4), "auto", 4.25, "disk_cache_too_large", "4.00 GiB"),
        (disk(3, prompts_bytes=1), "auto", 4, None, None),
        (disk(6), "int8", 2, None, None),
        (disk(6), "int8", 2.25, "disk_cache_too_large", "2.00 GiB"),
        (disk(2, weights_bytes=4), "int8", 2, None, None),
        (disk(3.9), "int8", 0, "weights_disk_too_small", "3.90 GiB"),
        (disk(9, model_bytes=8), "int8", 0, "weights_disk_too_small", "1.00 GiB"),
        (disk(9, model_bytes=8), "auto", 2, "disk_cache_too_large", "1.00 GiB"),
        (disk(1, model_bytes=8), "int8", 0, "weights_disk_too_small", "0.00 GiB"),
    ],
)
def test_what_has_no_room_is_named(
    plan: EnginePlan,
    there: Disk,
    weights: Any,
    cache: float,
    key: str | None,
    room: str | None,
) -> None:
    found = there.misfit(plan.with_weights(weights), settings(weights, cache))
    assert (found and found.key, found and found.placeholders["room"]) == (key, room)


def test_what_is_said_to_fit_fits(plan: EnginePlan) -> None:
    there = disk(6.6)
    plan = plan.with_weights("int8")
    found = there.misfit(plan, settings("int8", 4))
    assert found
    most = float(found.placeholders["most"])
    assert most == 2.5
    assert there.misfit(plan, settings("int8", most)) is None
    assert there.misfit(plan, settings("int8", most + 0.25)) is not None


@pytest.mark.parametrize(
    ("there", "weights", "suggested"),
    [
        (disk(100), "int8", 4.0),
        (disk(6.6), "int8", 2.5),
        (disk(6.6), "auto", 4.0),
        (disk(1), "int8", 0.0),
        (disk(1, prompts_bytes=1), "auto", 2.0),
    ],
)
def test_no_more_is_suggested_than_fits(
    plan: EnginePlan, there: Disk, weights: Any, suggested: float
) -> None:
    assert there.suggested_cache_gib(plan.with_weights(weights)) == suggested


def test_weights_that_the_model_has_in_4_bits_are_converted_too(
    plan: EnginePlan,
) -> None:
    needs = dict(plan.weights_by_choice) | {"auto": plan.weights_by_choice["int4"]}
    taken_over = replace(plan, weights_by_choice=needs).with_weights("auto")
    found = disk(1).misfit(taken_over, settings("auto", 0))
    assert found
    assert found.key == "weights_disk_too_small"
