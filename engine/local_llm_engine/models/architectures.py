"""Every architecture by the model_type of config.json, and the reading of that file.

Knows no weights.
"""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

from ..errors import UnsupportedModelError, shown
from .config import ModelConfig
from .config_fields import ConfigFields
from .decoder import Architecture
from .llama import LLAMA
from .quantization import read_scheme
from .qwen2 import QWEN2
from .qwen3 import QWEN3
from .qwen3_5 import QWEN3_5
from .qwen3_next import QWEN3_NEXT

CONFIG_FILE = "config.json"
ARCHITECTURES: Mapping[str, Architecture] = MappingProxyType(
    {
        "llama": LLAMA,
        "qwen2": QWEN2,
        "qwen3": QWEN3,
        "qwen3_5": QWEN3_5,
        "qwen3_5_moe": QWEN3_5,
        "qwen3_5_moe_text": QWEN3_5,
        "qwen3_5_text": QWEN3_5,
        "qwen3_moe": QWEN3,
        "qwen3_next": QWEN3_NEXT,
    }
)


def read_config(folder: Path) -> ModelConfig:
    """Read and check a model folder's config.json.

    Raises:
        ModelLoadError: the file is missing or no JSON, or a field is missing or out of its range.
        UnsupportedModelError: the model is of a kind, or has an option, that is not computed here.
    """
    top = ConfigFields.read(folder / CONFIG_FILE)
    model_type = top.text("model_type")
    if model_type not in ARCHITECTURES:
        raise UnsupportedModelError(
            f"{top.file}: model_type is {shown(model_type)}; known are {', '.join(ARCHITECTURES)}"
        )
    config = ARCHITECTURES[model_type].read_config(top)
    return replace(config, quantization=read_scheme(top))


def architecture_of(config: ModelConfig) -> Architecture:
    """Find the architecture that has read a configuration."""
    return ARCHITECTURES[config.model_type]
