"""One error tree for the engine; facts are attributes, messages name the thing, the value and what would be right."""

import reprlib

_MAX_SHOWN_CHARACTERS = 80
_MAX_REASON_CHARACTERS = 200
_SHORT = reprlib.Repr(
    maxlevel=3, maxdict=6, maxlist=6, maxlong=40, maxstring=60, maxother=60
)


def shown(value: object) -> str:
    """Write a value that somebody else chose as a message shows it: on one line, and cut where it is long."""
    return _cut(_SHORT.repr(value), _MAX_SHOWN_CHARACTERS)


def in_one_line(error: BaseException) -> str:
    """Say in one line what a foreign library says, which may quote what it was given at any length."""
    words = " ".join(str(error)[: 4 * _MAX_REASON_CHARACTERS].split())
    printable = "".join(
        character if character.isprintable() else "\ufffd" for character in words
    )
    return _cut(printable, _MAX_REASON_CHARACTERS)


def _cut(text: str, limit: int) -> str:
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


class EngineError(Exception):
    """Anything that the engine raises on purpose."""


class RequestError(EngineError):
    """The request cannot be served as it is; another one can."""


class InvalidRequestError(RequestError):
    """A value of the request is out of its range, or its messages do not fit the model's template."""


class ContextLengthError(RequestError):
    """The prompt leaves no room for an answer within the context length."""

    def __init__(self, num_prompt_tokens: int, limit: int) -> None:
        """Keep both counts, in tokens."""
        super().__init__(
            f"the prompt has {num_prompt_tokens} tokens; the context length of {limit} leaves no room for an answer"
        )
        self.num_prompt_tokens = num_prompt_tokens
        self.limit = limit


class OutOfMemoryError(EngineError):
    """The device has not enough memory for the model or for a request; a loaded engine goes on."""

    def __init__(self, device: str, requested_bytes: int | None) -> None:
        """Keep what device is full, and how much more was asked of it, where that is known."""
        more = "" if requested_bytes is None else f" for {requested_bytes} bytes more"
        super().__init__(f"the memory of device {device} has no room{more}")
        self.device = device
        self.requested_bytes = requested_bytes


class EngineClosedError(EngineError):
    """The engine was closed before or while it served the request."""


class GenerationError(EngineError):
    """The engine failed while it computed; the request is lost, the engine goes on."""


class ConfigError(EngineError):
    """A field of the engine's configuration is out of its range."""


class LoadCancelledError(EngineError):
    """Loading or converting was given up because whoever asked for it wants it no more."""


class ModelLoadError(EngineError):
    """The model folder cannot be loaded."""


class MemoryShortageError(ModelLoadError):
    """The model does not fit into the memory of its device with the settings asked for."""


class NotConvertedError(ModelLoadError):
    """The weights have to be converted first, and the load was not to do so."""


class ConversionError(ModelLoadError):
    """Converted weights cannot be kept: there is no room, or no right to write."""


class UnsupportedModelError(ModelLoadError):
    """The folder holds a model that this engine does not know."""


class WeightFormatError(ModelLoadError):
    """A weights file is damaged, incomplete or not laid out as its configuration says."""


class ChatTemplateError(ModelLoadError):
    """The chat template or the tokenizer is missing or cannot be used."""
