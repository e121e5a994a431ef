"""Where a model runs and in which dtype; asks the machine, knows nothing of weights."""

from collections.abc import Mapping
from types import MappingProxyType

import torch

from ..config import Device, Dtype
from ..errors import ModelLoadError

# Measured on a CPU with AVX-512 BF16: below this size a decode step takes as long in float32 as in
# bfloat16 or less, for then it is bound by the number of operations; above, by the bytes of the weights.
# Where speed is equal, exactness decides.
SMALL_MODEL_PARAMETERS = 32_000_000
# Torch's own choice for this machine, asked before any model changed it: a thread that is started later
# would see what the last model took.
_TORCH_NUM_THREADS = torch.get_num_threads()
# Instructions that multiply bfloat16 in hardware, as torch.cpu.get_capabilities() names them: AVX-512
# BF16 and AMX on x86, BF16 on Arm. Without them bfloat16 is emulated, slower than float32.
_FAST_BFLOAT16 = ("avx512_bf16", "amx_bf16", "bf16")
_DTYPES: Mapping[str, torch.dtype] = MappingProxyType(
    {"bfloat16": torch.bfloat16, "float32": torch.float32}
)


def choose_device(device: Device) -> torch.device:
    """Return the device that is asked for.

    Raises:
        ModelLoadError: it is not there.
    """
    if device == "cuda" and not torch.cuda.is_available():
        raise ModelLoadError(
            "device cuda is not available: torch finds no NVIDIA GPU that it can use; right is device cpu"
        )
    return torch.device(device)


def choose_dtype(
    dtype: Dtype, device: torch.device, num_parameters: int
) -> torch.dtype:
    """Return the dtype that is asked for; "auto" takes what decodes fastest on `device`."""
    if dtype != "auto":
        return _DTYPES[dtype]
    if device.type == "cpu":
        fast = num_parameters >= SMALL_MODEL_PARAMETERS and has_fast_bfloat16(
            torch.cpu.get_capabilities()
        )
    else:
        fast = torch.cuda.is_bf16_supported(including_emulation=False)
    return torch.bfloat16 if fast else torch.float32


def choose_num_threads(num_threads: int | None, num_parameters: int) -> int:
    """Return the number of threads that is asked for; None takes one for a small model, else torch's choice.

    The matrices of a small model are done before a second thread has woken up.
    """
    if num_threads is not None:
        return num_threads
    return 1 if num_parameters < SMALL_MODEL_PARAMETERS else _TORCH_NUM_THREADS


def has_fast_bfloat16(capabilities: Mapping[str, object]) -> bool:
    """Whether a CPU of these capabilities multiplies bfloat16 in hardware."""
    return any(capabilities.get(name) is True for name in _FAST_BFLOAT16)
