"""What stands in an engine's place while its weights are converted, so that nothing waits for that: it says how far it is."""

from collections.abc import AsyncGenerator, Callable, Mapping
from typing import TYPE_CHECKING, Any

from homeassistant.core import HomeAssistant
from homeassistant.util.hass_dict import HassKey
from local_llm_engine.prompts import Inspection
from local_llm_engine.types import CallRecord, ChatRequest, Delta, Usage

from ..failures import (
    LOADING_STOPPED,
    EnginePreparingError,
    EngineUnavailableError,
    Failure,
)
from .conversion import WeightsConversion

if TYPE_CHECKING:
    from local_llm_engine.service import EnginePlan, EngineStatus

    from ..runtime import LocalLlmConfigEntry

# Why an entry's last preparation failed, until the entry has told
_FAILURES: HassKey[dict[str, Failure]] = HassKey("local_llm_failed_preparations")


class EngineInPreparation:
    """An engine that takes no request yet, and tells everybody who asks how far its weights are converted."""

    def __init__(self, plan: EnginePlan) -> None:
        """Know of the engine to come what is planned."""
        self._plan = plan
        self._conversion: WeightsConversion | None = None
        self.share_done = 0.0

    @property
    def percent_done(self) -> int:
        """How much of the weights is converted."""
        return int(100 * self.share_done)

    def refusal(self) -> EnginePreparingError:
        """Return the error that everybody gets who asks something of it."""
        return EnginePreparingError(self.percent_done)

    def generate(self, request: ChatRequest) -> AsyncGenerator[Delta]:
        """Say that there are no answers yet."""
        raise self.refusal()

    async def warm_up(self, request: ChatRequest) -> Usage:
        """Say that nothing can be read yet."""
        raise self.refusal()

    async def inspect(self, request: ChatRequest) -> Inspection:
        """Say that nothing is known yet."""
        raise self.refusal()

    def add_record_listener(
        self, listener: Callable[[CallRecord], object]
    ) -> Callable[[], None]:
        """Do nothing: there are no requests that could leave records."""
        return lambda: None

    async def async_convert(
        self, hass: HomeAssistant, data: Mapping[str, Any], on_news: Callable[[], None]
    ) -> None:
        """Convert the weights, and say whenever there is news of that.

        Raises:
            EngineUnavailableError: they cannot be converted, or this was closed.
        """

        def on_share(share: float) -> None:
            self.share_done = share
            on_news()

        self._conversion = WeightsConversion(hass, data, on_share)
        await self._conversion.async_run()

    def close(self) -> None:
        """End the conversion; blocks for seconds at most."""
        if self._conversion is not None:
            self._conversion.stop()

    def status(self) -> EngineStatus:
        """Tell what the engine will be, and that it takes nothing now."""
        # Whoever plans an engine has PyTorch.
        from local_llm_engine.service import EngineStatus  # noqa: PLC0415

        return EngineStatus(
            model=self._plan.model,
            device=self._plan.device,
            dtype=self._plan.dtype,
            weights=self._plan.weights,
            weights_bytes=0,
            kv_cache=self._plan.kv_cache,
            context_length=self._plan.context_length,
            is_running=False,
            prompt_cache_bytes=0,
            prompt_cache_limit_bytes=self._plan.prompt_cache_bytes,
            prompt_cache_prompts=0,
            disk_cache_bytes=0,
            disk_cache_limit_bytes=0,
            active_requests=0,
            queued_requests=0,
            records=(),
            notices=(str(self.refusal()),),
        )


async def async_prepare(
    hass: HomeAssistant, entry: LocalLlmConfigEntry, engine: EngineInPreparation
) -> None:
    """Convert the weights of a loaded entry, then load it anew: with its engine, or with the reason why there is none."""
    insight = entry.runtime_data.insight
    try:
        await engine.async_convert(hass, entry.data, insight.async_tell)
    except EngineUnavailableError as err:
        if err.failure.key == LOADING_STOPPED:
            return
        hass.data.setdefault(_FAILURES, {})[entry.entry_id] = err.failure
    hass.config_entries.async_schedule_reload(entry.entry_id)


def take_failure(hass: HomeAssistant, entry: LocalLlmConfigEntry) -> Failure | None:
    """Return why the last preparation of an entry failed, once: whoever loads it again wants it tried again."""
    return hass.data.get(_FAILURES, {}).pop(entry.entry_id, None)
