"""Whether what an engine is to keep on disk has room there, and what to change where it has not; arithmetic only."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from local_llm_engine.config import GIB

from ..const import CONF_DISK_CACHE_GIB, CONF_WEIGHTS, DEFAULT_DISK_CACHE_GIB
from .fit import Misfit, gib, largest_cache_gib

if TYPE_CHECKING:
    from local_llm_engine.service import EnginePlan


@dataclass(frozen=True, slots=True, kw_only=True)
class Disk:
    """Bytes that the disk has to spare, and of what an entry keeps there those that lie there already.

    `model_bytes` are those of a model that is still to be downloaded.
    """

    free_bytes: int
    prompts_bytes: int
    weights_bytes: int
    model_bytes: int

    def misfit(self, plan: EnginePlan, settings: Mapping[str, Any]) -> Misfit | None:
        """Say what of a form's settings has no room; None where all has."""
        converted = self._to_convert(plan)
        room = self.free_bytes - self.model_bytes
        if converted > room:
            return Misfit(
                "weights_disk_too_small",
                CONF_WEIGHTS,
                {"needed": gib(converted), "room": gib(max(0, room))},
            )
        room += self.prompts_bytes - converted
        if settings[CONF_DISK_CACHE_GIB] * GIB > room:
            return Misfit(
                "disk_cache_too_large",
                CONF_DISK_CACHE_GIB,
                {"room": gib(max(0, room)), "most": f"{largest_cache_gib(room):g}"},
            )
        return None

    def suggested_cache_gib(self, plan: EnginePlan) -> float:
        """Return what to suggest for prompts: the usual, or what there is room for."""
        room = self.free_bytes - self.model_bytes + self.prompts_bytes
        return min(
            DEFAULT_DISK_CACHE_GIB, largest_cache_gib(room - self._to_convert(plan))
        )

    def _to_convert(self, plan: EnginePlan) -> int:
        """Count the bytes of weights that are still to be written: none of a model that is taken as it is."""
        if plan.weights == "bf16":
            return 0
        return max(0, plan.weights_bytes - self.weights_bytes)
