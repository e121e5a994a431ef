"""Model folders of Qwen3.5's real sizes with random weights: as slow as the real ones, and as wise as dice.

Knows the shapes and how a folder is laid out; knows nothing of what is measured with it.
"""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
import json
import math
from pathlib import Path
import shutil
from typing import IO, Any

import torch

from local_llm_engine.builtin import NANO_PATH
from local_llm_engine.models.architectures import architecture_of, read_config
from local_llm_engine.models.decoder import tensor_shapes

SIZES = ("0.8B", "2B", "4B", "1.7B-A0.7B")
_PREFIX = "model."
_BYTES_PER_WEIGHT = 2
# One block of random weights stands for all, again and again: drawing billions takes minutes. Its
# length has no divisor in common with any row, so that no two rows are alike.
_BLOCK_WEIGHTS = 4_000_037
_STANDARD_DEVIATION = 0.02
_COPIED = ("generation_config.json", "tokenizer.json", "tokenizer_config.json")
_TEMPLATE = "chat_template.jinja"
# The built-in model knows its tools by heart; a prompt of real length spells them out.
_SYSTEM = (
    "'<|im_start|>system\\n' + (told if loop.first else '') + text(message.content)"
)
_SYSTEM_WITH_TOOLS = "'<|im_start|>system\\n' + tool_lines + text(message.content)"
_TOOL_LINES = """\
{%- set tool_lines -%}
  {%- for tool in tools or [] -%}
    {%- set tool = tool.function or tool -%}
    {{- tool.name + ': ' + tool.description + ' ' + (tool.parameters.properties | tojson) + '\\n' -}}
  {%- endfor -%}
{%- endset -%}
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Experts:
    """The experts of every layer, and what of them a token passes."""

    num_experts: int
    num_experts_per_tok: int
    moe_intermediate_size: int
    shared_expert_intermediate_size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _Shape:
    """In what the sizes differ; the rest is the architecture's."""

    num_layers: int
    hidden_size: int
    feed_forward: int | _Experts
    num_heads: int
    num_key_value_heads: int
    num_delta_value_heads: int


_SHAPES = {
    "0.8B": _Shape(
        num_layers=24,
        hidden_size=1024,
        feed_forward=3584,
        num_heads=8,
        num_key_value_heads=2,
        num_delta_value_heads=16,
    ),
    "2B": _Shape(
        num_layers=24,
        hidden_size=2048,
        feed_forward=6144,
        num_heads=8,
        num_key_value_heads=2,
        num_delta_value_heads=16,
    ),
    "4B": _Shape(
        num_layers=32,
        hidden_size=2560,
        feed_forward=9216,
        num_heads=16,
        num_key_value_heads=4,
        num_delta_value_heads=32,
    ),
    # No published size is as small: the 35B-A3B's proportions on the layers of the 0.8B.
    "1.7B-A0.7B": _Shape(
        num_layers=24,
        hidden_size=1024,
        feed_forward=_Experts(
            num_experts=64,
            num_experts_per_tok=8,
            moe_intermediate_size=256,
            shared_expert_intermediate_size=256,
        ),
        num_heads=8,
        num_key_value_heads=2,
        num_delta_value_heads=16,
    ),
}


def config_of(size: str) -> dict[str, Any]:
    """Return what a model of this size has in its config.json."""
    shape = _SHAPES[size]
    if isinstance(shape.feed_forward, _Experts):
        model_type = "qwen3_5_moe_text"
        feed_forward = asdict(shape.feed_forward)
    else:
        model_type = "qwen3_5_text"
        feed_forward = {"intermediate_size": shape.feed_forward}
    return {
        "model_type": model_type,
        "dtype": "bfloat16",
        "vocab_size": 248_320,
        "hidden_size": shape.hidden_size,
        **feed_forward,
        "num_hidden_layers": shape.num_layers,
        "num_attention_heads": shape.num_heads,
        "num_key_value_heads": shape.num_key_value_heads,
        "head_dim": 256,
        "linear_num_key_heads": 16,
        "linear_num_value_heads": shape.num_delta_value_heads,
        "linear_key_head_dim": 128,
        "linear_value_head_dim": 128,
        "linear_conv_kernel_dim": 4,
        "rms_norm_eps": 1e-06,
        "max_position_embeddings": 262_144,
        "rope_parameters": {
            "rope_type": "default",
            "partial_rotary_factor": 0.25,
            "rope_theta": 10_000_000,
        },
        "tie_word_embeddings": True,
    }


def random_model(size: str, parent: Path) -> Path:
    """Return the folder of this size's model in `parent`; it is written where it is not there yet."""
    folder = parent / f"random-{size}"
    if not folder.is_dir():
        partial = parent / f"random-{size}.partial"
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir(parents=True)
        _write(partial, size)
        partial.rename(folder)
    return folder


def _write(folder: Path, size: str) -> None:
    Path(folder, "config.json").write_text(json.dumps(config_of(size), indent=2))
    for name in _COPIED:
        shutil.copyfile(NANO_PATH / name, folder / name)
    template = Path(NANO_PATH, _TEMPLATE).read_text(encoding="utf-8")
    Path(folder, _TEMPLATE).write_text(
        _TOOL_LINES + template.replace(_SYSTEM, _SYSTEM_WITH_TOOLS), encoding="utf-8"
    )
    config = read_config(folder)
    shapes = tensor_shapes(architecture_of(config), config)
    with Path(folder, "model.safetensors").open("wb") as file:
        _write_weights(file, {_PREFIX + name: shape for name, shape in shapes.items()})


def _write_weights(file: IO[bytes], shapes: dict[str, tuple[int, ...]]) -> None:
    """Write a safetensors file: the length of a header, the header, then all tensors end to end."""
    header: dict[str, Any] = {}
    end = 0
    for name, shape in shapes.items():
        start, end = end, end + math.prod(shape) * _BYTES_PER_WEIGHT
        header[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [start, end]}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    file.write(len(text).to_bytes(8, "little") + text)
    for run in _runs(end):
        file.write(run)


def _runs(num_bytes: int) -> Iterator[memoryview]:
    generator = torch.Generator().manual_seed(0)
    block = torch.randn(_BLOCK_WEIGHTS, generator=generator) * _STANDARD_DEVIATION
    data = memoryview(block.bfloat16().view(torch.uint8).numpy()).cast("B")
    while num_bytes > 0:
        yield data[:num_bytes]
        num_bytes -= len(data)
