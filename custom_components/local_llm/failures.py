"""What can go wrong with the engine, as keys of our translations."""

from typing import Final, NamedTuple

from homeassistant.exceptions import HomeAssistantError
from local_llm_engine.errors import (
    ChatTemplateError,
    ConfigError,
    ContextLengthError,
    ConversionError,
    EngineClosedError,
    EngineError,
    LoadCancelledError,
    MemoryShortageError,
    ModelLoadError,
    OutOfMemoryError,
    RequestError,
    UnsupportedModelError,
    WeightFormatError,
)

from .const import DOMAIN


class Failure(NamedTuple):
    """A key of the translations of errors and exceptions, and the engine's own words for the placeholder `detail`."""

    key: str
    detail: str


class EngineUnavailableError(Exception):
    """The engine cannot be loaded as the entry wants it."""

    def __init__(self, failure: Failure) -> None:
        """Keep what went wrong."""
        super().__init__(failure.detail)
        self.failure = failure


class EnginePreparingError(EngineError):
    """The engine takes no request yet: its weights are being converted."""

    def __init__(self, percent_done: int) -> None:
        """Keep how far that is."""
        super().__init__(f"the weights are being converted: {percent_done} %")
        self.percent_done = percent_done


LOADING_STOPPED: Final = "loading_stopped"
MEMORY_TOO_SMALL: Final = "memory_too_small"

# The most special first: the engine's errors form a tree.
_LOAD_FAILURES: tuple[tuple[type[Exception], str], ...] = (
    (UnsupportedModelError, "model_unsupported"),
    (WeightFormatError, "weights_damaged"),
    (ChatTemplateError, "template_unusable"),
    (MemoryShortageError, MEMORY_TOO_SMALL),
    (ConversionError, "weights_not_kept"),
    (ModelLoadError, "model_unreadable"),
    (ConfigError, "settings_invalid"),
    (LoadCancelledError, LOADING_STOPPED),
    (ImportError, "torch_broken"),
    (OutOfMemoryError, MEMORY_TOO_SMALL),
    (MemoryError, MEMORY_TOO_SMALL),
)

_REQUEST_FAILURES: tuple[tuple[type[EngineError], str], ...] = (
    (ContextLengthError, "context_too_long"),
    (RequestError, "request_refused"),
    (EnginePreparingError, "engine_preparing"),
    (EngineClosedError, "engine_closed"),
    (OutOfMemoryError, "out_of_memory"),
    (EngineError, "generation_failed"),
)


def load_failure(error: Exception) -> Failure:
    """Say why a model could not be loaded or checked."""
    key = next(
        (key for kind, key in _LOAD_FAILURES if isinstance(error, kind)), "load_failed"
    )
    return Failure(key, str(error) or type(error).__name__)


def request_failure(error: EngineError) -> HomeAssistantError:
    """Return the translated error for a request that the engine did not serve."""
    key = next(key for kind, key in _REQUEST_FAILURES if isinstance(error, kind))
    return HomeAssistantError(
        translation_domain=DOMAIN,
        translation_key=key,
        translation_placeholders=_facts(error),
    )


def _facts(error: EngineError) -> dict[str, str]:
    """Return what the text of a failure names: numbers where there are some, which are the same in all languages."""
    if isinstance(error, ContextLengthError):
        return {"tokens": str(error.num_prompt_tokens), "limit": str(error.limit)}
    if isinstance(error, OutOfMemoryError):
        return {"device": error.device}
    if isinstance(error, EnginePreparingError):
        return {"percent": str(error.percent_done)}
    return {"detail": str(error)}
