"""Damages a safetensors file: its header as JSON, its tensors as a layout, its data, its bytes."""

from collections.abc import Callable
import json
import math
from random import Random
import struct
from typing import Any

from .damage_bytes import EXTREMES, damage_bytes
from .damage_json import damage_json, strange_text

_LENGTH_BYTES = 8
_DTYPES = {
    "BF16": 2, "F16": 2, "F32": 4, "F64": 8, "I8": 1, "U8": 1, "BOOL": 1, "F8_E4M3": 1, "I16": 2, "I32": 4, "I64": 8,
}  # fmt: skip
# Values that no trained weight has.
_STRANGE_FLOATS = (float("nan"), float("inf"), -float("inf"), 3e38, 1e-45)


def damage_safetensors(rng: Random, data: bytes) -> bytes:
    """Change a file so that it is unsound, or sound and of other contents."""
    length = int.from_bytes(data[:_LENGTH_BYTES], "little")
    start = _LENGTH_BYTES + length
    if rng.random() < 0.25:
        return damage_bytes(rng, data, upto=start)
    header = json.loads(data[_LENGTH_BYTES:start])
    if rng.random() < 0.3:
        return _file(damage_json(rng, header), data[start:])
    tensors = {name: _Tensor(entry, data[start:]) for name, entry in header.items() if name != "__metadata__"}  # fmt: skip
    for _ in range(rng.choice((1, 1, 2, 4))):
        rng.choice(_WAYS)(rng, tensors)
    return _laid_out(tensors)


class _Tensor:
    """A tensor by itself."""

    def __init__(self, entry: dict[str, Any], data: bytes) -> None:
        start, end = entry["data_offsets"]
        self.dtype: str = entry["dtype"]
        self.shape: list[int] = list(entry["shape"])
        self.data = data[start:end]

    def fit(self) -> None:
        """Have as much data as shape and dtype ask for."""
        wanted = math.prod(self.shape) * _DTYPES.get(self.dtype, 1)
        if 0 <= wanted < 1 << 22:
            repeats = wanted // max(1, len(self.data)) + 1
            self.data = (self.data * repeats)[:wanted].ljust(wanted, b"\0")


type _Tensors = dict[str, _Tensor]


def _laid_out(tensors: _Tensors) -> bytes:
    header, pieces, end = {}, [], 0
    for name, tensor in tensors.items():
        start, end = end, end + len(tensor.data)
        header[name] = {
            "dtype": tensor.dtype,
            "shape": tensor.shape,
            "data_offsets": [start, end],
        }
        pieces.append(tensor.data)
    return _file(json.dumps(header).encode(), b"".join(pieces))


def _file(header: bytes, data: bytes) -> bytes:
    return len(header).to_bytes(_LENGTH_BYTES, "little") + header + data


def _one(rng: Random, tensors: _Tensors) -> tuple[str, _Tensor]:
    if not tensors:
        tensors["x"] = _Tensor(
            {"dtype": "F32", "shape": [], "data_offsets": [0, 4]}, bytes(4)
        )
    name = rng.choice(list(tensors))
    return name, tensors[name]


def _other_shape(rng: Random, tensors: _Tensors) -> None:
    _, tensor = _one(rng, tensors)
    shape = tensor.shape
    match rng.randrange(5):
        case 0:
            shape.append(rng.choice((0, 1, 2)))
        case 1 if shape:
            del shape[rng.randrange(len(shape))]
        case 2 if shape:
            shape[rng.randrange(len(shape))] = rng.choice((*EXTREMES, 2, 3, 24, 40))
        case 3:
            shape.reverse()
        case _ if shape:
            shape[rng.randrange(len(shape))] += rng.choice((-8, -1, 1, 8))
            tensor.shape = [abs(size) for size in shape]
    tensor.fit()


def _other_dtype(rng: Random, tensors: _Tensors) -> None:
    _, tensor = _one(rng, tensors)
    tensor.dtype = rng.choice(list(_DTYPES))
    tensor.fit()


def _other_name(rng: Random, tensors: _Tensors) -> None:
    name, tensor = _one(rng, tensors)
    del tensors[name]
    other = rng.choice(list(tensors) or [name])
    tensors[
        rng.choice(
            (
                strange_text(rng),
                other,
                f"{name}_scale",
                name.replace("weight", "qweight"),
                name.replace("0", "1"),
            )
        )
    ] = tensor


def _without(rng: Random, tensors: _Tensors) -> None:
    name, _ = _one(rng, tensors)
    del tensors[name]


def _other_place(rng: Random, tensors: _Tensors) -> None:
    name, tensor = _one(rng, tensors)
    del tensors[name]
    tensors[name] = tensor


def _other_values(rng: Random, tensors: _Tensors) -> None:
    _, tensor = _one(rng, tensors)
    if tensor.dtype in {"F32", "BF16", "F16"} and rng.random() < 0.5:
        tensor.data = _strange_floats(rng, tensor)
    else:
        tensor.data = damage_bytes(rng, tensor.data)
        tensor.fit()


def _strange_floats(rng: Random, tensor: _Tensor) -> bytes:
    # The upper half of a float32 is a bfloat16, and near to a float16 of as strange a value.
    whole = struct.pack("<f", rng.choice(_STRANGE_FLOATS))
    value = whole if tensor.dtype == "F32" else whole[2:]
    if rng.random() < 0.3:
        return (value * len(tensor.data))[: len(tensor.data)]
    at = rng.randrange(max(1, len(tensor.data) // len(value))) * len(value)
    return tensor.data[:at] + value + tensor.data[at + len(value) :]


_WAYS: tuple[Callable[[Random, _Tensors], None], ...] = (
    _other_shape,
    _other_shape,
    _other_dtype,
    _other_name,
    _without,
    _other_place,
    _other_values,
    _other_values,
)
