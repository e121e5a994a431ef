"""The state of one sequence: KV of attention layers, recurrent state of Gated DeltaNet layers.

Knows the layouts and how to copy them; knows nothing of models or of which prompts are worth keeping.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

# On a CPU a bfloat16 product is compiled anew for every shape, which takes longer than some products do: so what
# grows with every token grows by so many at once.
_PADDED_TO_TOKENS = 128


class KVState:
    """Keys and values of one attention layer, in a buffer that never moves.

    `keys`, `values`: [HKV, capacity, D]. Rows at and past the sequence's length are garbage, but those of
    `values` that `padded_rows` shows are finite. On a CPU an untouched row costs address space only, so the
    buffer spans the whole context from the start.
    """

    def __init__(
        self,
        *,
        num_heads: int,
        head_dim: int,
        capacity: int,
        dtype: torch.dtype,
        device: torch.device,
    ) -> None:
        """Reserve room for `capacity` tokens."""
        compiled = device.type == "cpu" and dtype == torch.bfloat16
        self._multiple = _PADDED_TO_TOKENS if compiled else 1
        self.keys = torch.empty(
            num_heads,
            self._padded(capacity),
            head_dim,
            dtype=dtype,
            device=device,
        )
        self.values = torch.empty_like(self.keys)

    def append(self, position: int, keys: Tensor, values: Tensor) -> None:
        """Write rows [HKV, T, D] at `position`."""
        num_tokens = keys.shape[1]
        end = position + num_tokens
        self.keys[:, position:end] = keys
        self.values[:, position:end] = values
        if num_tokens > 1 or position % self._multiple == 0:
            self.clear_padding(end)

    def clear_padding(self, length: int) -> None:
        """Put finite numbers where `padded_rows` looks past `length`."""
        self.values[:, length : self._padded(length)] = 0

    def rows(self, length: int) -> tuple[Tensor, Tensor]:
        """Return views [HKV, length, D] of the first keys and values."""
        return self.keys[:, :length], self.values[:, :length]

    def padded_rows(self, length: int) -> tuple[Tensor, Tensor]:
        """Return views of at least `length` rows, in few different sizes; values past it are finite."""
        return self.rows(self._padded(length))

    def _padded(self, length: int) -> int:
        return -(-length // self._multiple) * self._multiple


class DeltaState:
    """The recurrent state of one Gated DeltaNet layer.

    `conv`: the last kernel - 1 inputs of the causal convolution, [C, kernel - 1], in the model's dtype.
    `delta`: the delta rule's memory, [HV, K, V], float32. Both zero before the first token.
    """

    def __init__(
        self,
        *,
        num_channels: int,
        kernel_size: int,
        num_heads: int,
        key_dim: int,
        value_dim: int,
        dtype: torch.dtype,
        device: torch.device,
    ) -> None:
        """Start empty."""
        self.conv = torch.zeros(
            num_channels, kernel_size - 1, dtype=dtype, device=device
        )
        self.delta = torch.zeros(
            num_heads, key_dim, value_dim, dtype=torch.float32, device=device
        )


type LayerState = KVState | DeltaState


class KVRun(NamedTuple):
    """The KV of consecutive tokens in RAM, one pair [HKV, n, D] for each attention layer."""

    keys: tuple[Tensor, ...]
    values: tuple[Tensor, ...]

    @property
    def nbytes(self) -> int:
        """Bytes of all tensors."""
        return sum(tensor.nbytes for tensor in (*self.keys, *self.values))


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The recurrent state of every DeltaNet layer after exactly `length` tokens, in RAM; never written again."""

    length: int
    conv: tuple[Tensor, ...]
    delta: tuple[Tensor, ...]

    @property
    def nbytes(self) -> int:
        """Bytes of all tensors."""
        return sum(tensor.nbytes for tensor in (*self.conv, *self.delta))


class PieceContent(NamedTuple):
    """The tensors of one piece: the KV of its tokens and the recurrent state at its end."""

    kv: KVRun
    checkpoint: Checkpoint

    @property
    def nbytes(self) -> int:
        """Bytes of all tensors."""
        return self.kv.nbytes + self.checkpoint.nbytes

    def copy(self) -> PieceContent:
        """Copy all tensors to memory of their own, so that nothing of them hangs on a mapped file."""
        kv, checkpoint = self
        return PieceContent(
            KVRun(_copies(kv.keys), _copies(kv.values)),
            Checkpoint(
                length=checkpoint.length,
                conv=_copies(checkpoint.conv),
                delta=_copies(checkpoint.delta),
            ),
        )


class SequenceState:
    """The device-resident state of one live sequence after `length` tokens.

    The model advances it in place; `checkpoint`, `restore`, `read_kv` and `write_kv` carry it to RAM
    and back, bit for bit.
    """

    def __init__(self, layers: Sequence[LayerState], capacity: int) -> None:
        """Own one state a layer, in the order of the layers."""
        self.layers = tuple(layers)
        self.capacity = capacity
        self.length = 0
        self._kv = tuple(layer for layer in self.layers if isinstance(layer, KVState))
        self._delta = tuple(
            layer for layer in self.layers if isinstance(layer, DeltaState)
        )

    @property
    def checkpoint_nbytes(self) -> int:
        """Bytes of one exact checkpoint."""
        return sum(layer.conv.nbytes + layer.delta.nbytes for layer in self._delta)

    def reset(self) -> None:
        """Forget everything: the state before the first token."""
        for layer in self._delta:
            layer.conv.zero_()
            layer.delta.zero_()
        self.length = 0

    def checkpoint(self, *, half: bool = False) -> Checkpoint:
        """Copy the recurrent state to RAM; with `half` the delta states lose float32's last 13 bits."""
        return Checkpoint(
            length=self.length,
            conv=tuple(_copy_to_ram(layer.conv) for layer in self._delta),
            delta=tuple(
                _copy_to_ram(layer.delta.half() if half else layer.delta)
                for layer in self._delta
            ),
        )

    def restore(self, checkpoint: Checkpoint) -> None:
        """Go on from `checkpoint`; the KV of its first `length` tokens must be in place."""
        for layer, conv, delta in zip(
            self._delta, checkpoint.conv, checkpoint.delta, strict=True
        ):
            layer.conv.copy_(conv)
            layer.delta.copy_(delta)
        for kv in self._kv:
            kv.clear_padding(checkpoint.length)
        self.length = checkpoint.length

    def read_kv(self, start: int, end: int) -> KVRun:
        """Copy the KV of tokens start .. end - 1 to RAM."""
        return KVRun(
            keys=tuple(_copy_to_ram(layer.keys[:, start:end]) for layer in self._kv),
            values=tuple(
                _copy_to_ram(layer.values[:, start:end]) for layer in self._kv
            ),
        )

    def write_kv(self, start: int, run: KVRun) -> None:
        """Put a run's KV at token `start`."""
        for layer, keys, values in zip(self._kv, run.keys, run.values, strict=True):
            layer.append(start, keys, values)


def _copy_to_ram(tensor: Tensor) -> Tensor:
    """Make a contiguous copy on the CPU that shares nothing with `tensor`."""
    return tensor.detach().to("cpu", copy=True, memory_format=torch.contiguous_format)


def _copies(tensors: Sequence[Tensor]) -> tuple[Tensor, ...]:
    return tuple(_copy_to_ram(tensor) for tensor in tensors)
