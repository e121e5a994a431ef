"""Opens a model that is one GGUF file: its configuration from the metadata, its tensors as our models ask for them.

Knows how the parts come together; what is in the file is known to gguf_config.py and gguf_layout.py.
"""

from pathlib import Path

from ..errors import WeightFormatError
from ..weights.gguf_header import GgufHeader, read_gguf_header
from ..weights.gguf_source import GgufSource, Recipe
from .architectures import ARCHITECTURES
from .config import ModelConfig
from .gguf_config import config_fields, with_rotary
from .gguf_layout import recipes
from .gguf_names import ROPE_FACTORS

_MAX_FACTORS = 4096


def open_gguf(file: Path) -> tuple[ModelConfig, GgufSource]:
    """Read the header and say what each tensor is made of; maps no more than a few numbers of the weights.

    Raises:
        ModelLoadError: and its kinds; the message names the file, the key or tensor, and what would be right.
    """
    header = read_gguf_header(file)
    fields = config_fields(header)
    config = ARCHITECTURES[fields.text("model_type")].read_config(fields)
    config = with_rotary(config, header, _rotary_factors(header))
    return config, GgufSource(header, recipes(header, config))


def _rotary_factors(header: GgufHeader) -> tuple[float, ...] | None:
    """Read by how much each pair of the rotary embedding turns slower; None: none does."""
    info = header.tensors.get(ROPE_FACTORS)
    if info is None:
        return None
    if len(info.shape) != 1 or info.num_elements > _MAX_FACTORS:
        raise WeightFormatError(
            f"{header.file}: tensor {ROPE_FACTORS!r} has the shape {list(info.shape)}; right is one number for each pair"
        )
    recipe = Recipe(parts=(info,), shape=info.shape)
    source = GgufSource(header, [(ROPE_FACTORS, recipe)])
    return tuple(source.tensor(ROPE_FACTORS).float().tolist())
