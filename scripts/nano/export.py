"""Writes what the engine loads: Hugging Face's layout of a `qwen3_5_text` model.

Knows the network's tensors; knows nothing of training.
"""

import json
from pathlib import Path
import shutil

from safetensors.torch import save_file
import torch
from torch import Tensor

from .config import NanoConfig
from .tokenizer import CONTROL_TOKENS, END_OF_TEXT, END_OF_TURN

# In the weights' metadata: how many steps they have learned
STEPS = "steps"
_TEMPLATE = Path(__file__).with_name("chat_template.jinja")


def export(
    tensors: dict[str, Tensor],
    config: NanoConfig,
    tokenizer: Path,
    folder: Path,
    steps: int,
) -> None:
    """Write a model's folder: weights in bfloat16, configuration, template and the tokenizer of this file.

    `folder` is made where there is none.
    """
    folder.mkdir(parents=True, exist_ok=True)
    save_file(
        {
            name: tensor.to(torch.bfloat16).contiguous()
            for name, tensor in tensors.items()
        },
        folder / "model.safetensors",
        metadata={"format": "pt", STEPS: str(steps)},
    )
    _write(folder / "config.json", config.as_json())
    _write(
        folder / "generation_config.json", {"eos_token_id": [END_OF_TURN, END_OF_TEXT]}
    )
    _write(
        folder / "tokenizer_config.json",
        {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "eos_token": CONTROL_TOKENS[END_OF_TURN],
        },
    )
    shutil.copyfile(tokenizer, folder / "tokenizer.json")
    shutil.copyfile(_TEMPLATE, folder / "chat_template.jinja")


def _write(path: Path, content: dict[str, object]) -> None:
    path.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
