"""What makes numbers of another run useless, and what does not."""

from collections.abc import Callable
from dataclasses import replace
import json
import os
from pathlib import Path
import shutil
from typing import Any

import pytest
import torch

from local_llm_engine.builtin import NANO_PATH
from local_llm_engine.config import EngineConfig
from local_llm_engine.models.fingerprint import fingerprint
from local_llm_engine.models.registry import load_model

CONFIG = EngineConfig(dtype="float32")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A copy of the built-in model, its times included."""
    return Path(shutil.copytree(NANO_PATH, tmp_path / "model"))


def fingerprint_of(folder: Path, config: EngineConfig = CONFIG) -> str:
    return fingerprint(folder, load_model(folder, config), config)


def other_config(folder: Path) -> None:
    path = folder / "config.json"
    values = json.loads(path.read_text())
    path.write_text(json.dumps(values | {"rms_norm_eps": 1e-5}))


def weights_with_the_old_time(folder: Path) -> None:
    """Change a tensor and hide it behind the file's time."""
    path = folder / "model.safetensors"
    before = path.stat()
    data = bytearray(path.read_bytes())
    data[len(data) // 3 :] = bytes(byte ^ 1 for byte in data[len(data) // 3 :])
    path.write_bytes(data)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def other_time(folder: Path) -> None:
    os.utime(folder / "model.safetensors", (1, 1))


@pytest.mark.parametrize(
    "change", [other_config, weights_with_the_old_time, other_time]
)
def test_another_model_has_another_fingerprint(
    folder: Path, change: Callable[[Path], None]
) -> None:
    """Whatever its files say or hold."""
    before = fingerprint_of(folder)
    change(folder)
    assert fingerprint_of(folder) != before


@pytest.mark.parametrize(
    "changes",
    [{"dtype": "bfloat16"}, {"prefill_chunk_tokens": 64}, {"half_checkpoints": True}],
    ids=str,
)
def test_other_settings_have_another_fingerprint(changes: dict[str, Any]) -> None:
    """Whatever rounds otherwise."""
    other = replace(CONFIG, **changes)
    assert fingerprint_of(NANO_PATH, other) != fingerprint_of(NANO_PATH)


def test_another_number_of_threads_has_another_fingerprint() -> None:
    """Sums are split among threads."""
    before = fingerprint_of(NANO_PATH)
    num_threads = torch.get_num_threads()
    torch.set_num_threads(num_threads + 1)
    after = fingerprint_of(NANO_PATH)
    torch.set_num_threads(num_threads)
    assert after != before
    assert fingerprint_of(NANO_PATH) == before


def test_words_and_limits_change_nothing(folder: Path) -> None:
    """Where the files lie, how the prompt is written, how much is kept."""
    (folder / "chat_template.jinja").write_text("other")
    (folder / "tokenizer.json").unlink()
    other = replace(CONFIG, context_length=128, prompt_cache_bytes=0)
    assert fingerprint_of(folder, other) == fingerprint_of(NANO_PATH)
