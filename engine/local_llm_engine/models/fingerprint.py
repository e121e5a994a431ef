"""A name for everything that decides which numbers a run computes; knows nothing of what is kept under it."""

from collections.abc import Iterable
import hashlib
import json
from pathlib import Path
import platform

import torch

from ..config import EngineConfig
from ..weights.gguf_header import gguf_file_of, read_gguf_header
from ..weights.safetensors import SafetensorsFolder
from ..weights.safetensors_header import TensorInfo
from .model import Model

# Enough of each tensor to tell trained weights apart, and a few megabytes in all: of a model with experts,
# whose tensors are ten thousands, not of every one.
_SAMPLE_BYTES = 4096
_MAX_SAMPLES_A_FILE = 512
_LENGTH_BYTES = 8
# The code between a token and its state, and what decides where a run stops.
_ENGINE = Path(__file__).parent.parent
_CODE = (
    "models/**/*.py",
    "ops/**/*.py",
    "weights/**/*.py",
    "cache/state.py",
    "cache/kv_state.py",
    "cache/placement.py",
)


def fingerprint(folder: Path, model: Model, config: EngineConfig) -> str:
    """Digest the files, the settings and the machine that a model's numbers depend on, as hex digits.

    What is computed depends on token ids alone, so the tokenizer is no part of it. Weights are told
    apart by size, time, header and samples of their tensors. Call it on the engine's thread, whose
    number of torch threads counts.
    """
    on_gpu = model.device.type == "cuda"
    facts = {
        **_config_digest(folder),
        "weights": weights_digest(folder),
        "formats": [model.weights.format, model.weights.key],
        "code": _CODE_DIGEST,
        "dtype": str(model.dtype),
        "device": torch.cuda.get_device_name(model.device) if on_gpu else _cpu(),
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
        "prefill_chunk_tokens": config.prefill_chunk_tokens,
        "half_checkpoints": config.half_checkpoints,
        "kv_cache": config.kv_cache,
    }
    return _digest(json.dumps(facts, sort_keys=True).encode())


def weights_digest(path: Path) -> str:
    """Digest what the weights are made of, without reading all of it."""
    file = gguf_file_of(path)
    if file is not None:
        header = read_gguf_header(file)
        by_file = _by_file(header.tensors.values())
        parts = [
            _weights(part.stamp.file, by_file.get(part.stamp.file, ()), part.data_start)
            for part in header.parts
        ]
        return _digest(" ".join(parts).encode())
    files = [
        _weights(file, infos, _safetensors_data_start(file))
        for file, infos in sorted(
            _by_file(SafetensorsFolder.open(path).infos.values()).items()
        )
    ]
    return _digest(" ".join(files).encode())


def _config_digest(path: Path) -> dict[str, str]:
    """Digest config.json; what a GGUF file has in its place is a part of its header."""
    if gguf_file_of(path) is not None:
        return {}
    return {"config": _digest((path / "config.json").read_bytes())}


def _safetensors_data_start(file: Path) -> int:
    with file.open("rb") as stream:
        return _LENGTH_BYTES + int.from_bytes(stream.read(_LENGTH_BYTES), "little")


def _by_file(infos: Iterable[TensorInfo]) -> dict[Path, list[TensorInfo]]:
    files: dict[Path, list[TensorInfo]] = {}
    for info in infos:
        files.setdefault(info.file, []).append(info)
    return files


def _weights(file: Path, infos: Iterable[TensorInfo], data_start: int) -> str:
    """Digest one weights file, whose data follow a header of `data_start` bytes, without reading all of it."""
    status = file.stat()
    digest = hashlib.sha256(f"{status.st_size} {status.st_mtime_ns}".encode())
    with file.open("rb") as stream:
        digest.update(stream.read(data_start))
        middles = sorted((info.start + info.end) // 2 for info in infos)
        for middle in middles[:: -(-len(middles) // _MAX_SAMPLES_A_FILE)]:
            stream.seek(data_start + middle)
            digest.update(stream.read(_SAMPLE_BYTES))
    return digest.hexdigest()


def _code() -> str:
    """Digest the code that computes: a release that rounds otherwise does not go on from older numbers."""
    digest = hashlib.sha256()
    for file in sorted(file for part in _CODE for file in _ENGINE.glob(part)):
        digest.update(file.read_bytes())
    return digest.hexdigest()


# Taken when the code is loaded: an update on disk computes nothing until the process starts anew.
_CODE_DIGEST = _code()


def _cpu() -> str:
    return f"{platform.machine()} {torch.backends.cpu.get_cpu_capability()}"


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
