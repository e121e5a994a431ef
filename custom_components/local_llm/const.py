"""Names and defaults that several modules of the integration share."""

from typing import Final

from local_llm_engine.config import KvCache, Weights

DOMAIN: Final = "local_llm"

# Fired for every request to an engine, with the fields of its call record
EVENT_REQUEST: Final = f"{DOMAIN}_request"

# Stored in the entry in place of a folder: the built-in model moves with the engine's package.
BUILTIN_MODEL: Final = "builtin"

# The config entry: one engine
CONF_CONTEXT_LENGTH: Final = "context_length"
CONF_DISK_CACHE_GIB: Final = "disk_cache_gib"
CONF_KV_CACHE: Final = "kv_cache"
CONF_PROMPT_CACHE_GIB: Final = "prompt_cache_gib"
CONF_WEIGHTS: Final = "weights"
# Where a downloaded model came from
CONF_REPOSITORY: Final = "repository"
CONF_REVISION: Final = "revision"
CONF_WARM_UP: Final = "warm_up"

# A conversation sub-entry: one agent
SUBENTRY_CONVERSATION: Final = "conversation"
CONF_HISTORY_TURNS: Final = "history_turns"
CONF_MAX_TOKENS: Final = "max_tokens"
CONF_TEMPERATURE: Final = "temperature"
CONF_THINKING: Final = "thinking"
CONF_TOP_P: Final = "top_p"

# An AI task sub-entry
SUBENTRY_AI_TASK: Final = "ai_task_data"

DEVICES: Final = ("cpu", "cuda")
DEFAULT_AGENT_NAME: Final = "Local LLM"
DEFAULT_CONTEXT_LENGTH: Final = 16_384
DEFAULT_DISK_CACHE_GIB: Final = 4.0
DEFAULT_PROMPT_CACHE_GIB: Final = 8.0
WEIGHTS: Final[tuple[Weights, ...]] = ("auto", "bf16", "int8", "int4")
DEFAULT_WEIGHTS: Final[Weights] = "auto"
KV_CACHES: Final[tuple[KvCache, ...]] = ("bf16", "int8")
DEFAULT_KV_CACHE: Final[KvCache] = "bf16"
DEFAULT_HISTORY_TURNS: Final = 10
DEFAULT_MAX_TOKENS: Final = 512
DEFAULT_TASK_MAX_TOKENS: Final = 1024
DEFAULT_TEMPERATURE: Final = 0.7
DEFAULT_TOP_P: Final = 0.8

# One question may lead to so many rounds of tool calls; a model that needs more goes in circles.
MAX_TOOL_ROUNDS: Final = 10

# The languages with a file in translations/; a test compares.
TRANSLATED_LANGUAGES: Final = frozenset({"de", "en", "es", "fr", "it", "ja"})
