"""One error tree for the engine; facts are attributes, messages name the thing, the value and what would be right."""


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


class EngineClosedError(EngineError):
    """The engine was closed before or while it served the request."""


class GenerationError(EngineError):
    """The engine failed while it computed; the request is lost, the engine goes on."""


class ConfigError(EngineError):
    """A field of the engine's configuration is out of its range."""


class ModelLoadError(EngineError):
    """The model folder cannot be loaded."""


class UnsupportedModelError(ModelLoadError):
    """The folder holds a model that this engine does not know."""


class WeightFormatError(ModelLoadError):
    """A weights file is damaged, incomplete or not laid out as its configuration says."""


class ChatTemplateError(ModelLoadError):
    """The chat template or the tokenizer is missing or cannot be used."""
