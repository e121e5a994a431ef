"""Safetensors files made byte by byte, sound and unsound."""

from collections.abc import Mapping
import json
from pathlib import Path
from typing import Any

type Header = Mapping[str, Any]

# Two tensors: 4 float32 and 2 bfloat16 values.
SOUND: Header = {
    "__metadata__": {"format": "pt"},
    "first": {"dtype": "F32", "shape": [2, 2], "data_offsets": [0, 16]},
    "second": {"dtype": "BF16", "shape": [2], "data_offsets": [16, 20]},
}
SOUND_DATA = bytes(range(20))


def safetensors_bytes(header: object = SOUND, data: bytes = SOUND_DATA) -> bytes:
    """Lay a file out; `header` is any JSON value, or the header's bytes."""
    encoded = header if isinstance(header, bytes) else json.dumps(header).encode()
    return len(encoded).to_bytes(8, "little") + encoded + data


def write_file(folder: Path, content: bytes, name: str = "model.safetensors") -> Path:
    """Write a file and return its path."""
    file = folder / name
    file.write_bytes(content)
    return file


def write_shards(
    folder: Path, shards: Mapping[str, list[str]], index: object | None = None
) -> None:
    """Write shards of one-value tensors, and an index of them (or `index` in its place)."""
    for file_name, tensor_names in shards.items():
        header = {
            tensor: {"dtype": "F32", "shape": [1], "data_offsets": [4 * i, 4 * i + 4]}
            for i, tensor in enumerate(tensor_names)
        }
        write_file(
            folder, safetensors_bytes(header, bytes(4 * len(tensor_names))), file_name
        )
    weight_map = {
        tensor: file_name for file_name, names in shards.items() for tensor in names
    }
    content = {"metadata": {}, "weight_map": weight_map} if index is None else index
    (folder / "model.safetensors.index.json").write_text(json.dumps(content))
