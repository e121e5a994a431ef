"""The state of one sequence: KV of attention layers, recurrent state of Gated DeltaNet layers.

Knows the layouts and how to copy them; knows nothing of models or of which prompts are worth keeping.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from .kv_state import KVState


class DeltaState:
    """The recurrent state of one Gated DeltaNet layer.

    `conv`: the last kernel - 1 inputs of the causal convolution, [kernel - 1, C], oldest first, in the model's dtype.
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
            kernel_size - 1, num_channels, dtype=dtype, device=device
        )
        self.delta = torch.zeros(
            num_heads, key_dim, value_dim, dtype=torch.float32, device=device
        )


type LayerState = KVState | DeltaState


class KVRun(NamedTuple):
    """The KV of n consecutive tokens in RAM: the attention layers' tensors, [HKV, n, ...], one layer after the other."""

    tensors: tuple[Tensor, ...]

    @property
    def nbytes(self) -> int:
        """Bytes of all tensors."""
        return sum(tensor.nbytes for tensor in self.tensors)


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
            KVRun(_copies(kv.tensors)),
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
            tuple(
                _copy_to_ram(tensor[:, start:end])
                for layer in self._kv
                for tensor in layer.tensors
            )
        )

    def write_kv(self, start: int, run: KVRun) -> None:
        """Put a run's KV at token `start`."""
        places = [tensor for layer in self._kv for tensor in layer.tensors]
        for place, tensor in zip(places, run.tensors, strict=True):
            place[:, start : start + tensor.shape[1]] = tensor


def _copy_to_ram(tensor: Tensor) -> Tensor:
    """Make a contiguous copy on the CPU that shares nothing with `tensor`."""
    return tensor.detach().to("cpu", copy=True, memory_format=torch.contiguous_format)


def _copies(tensors: Sequence[Tensor]) -> tuple[Tensor, ...]:
    return tuple(_copy_to_ram(tensor) for tensor in tensors)
