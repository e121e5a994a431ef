"""What a model on the CPU asks of its process, for the sake of speed: memory that stays, and quick products.

Knows nothing of models. Nothing here makes numbers less exact.
"""

from collections.abc import Mapping
import ctypes
import platform

import torch

# Parameters of glibc's mallopt(3).
_TRIM_THRESHOLD = -1
_MMAP_THRESHOLD = -3
# Every stretch of a prompt needs some 100 MB for a moment. By itself malloc returns them to the system each
# time and gets them back page by page, which takes a quarter of the whole prefill.
_KEPT_BYTES = 256 << 20
# The most that glibc takes; larger blocks come from the system as before.
_BLOCK_BYTES = 32 << 20


def prepare_process() -> None:
    """Set up memory and products of this process for inference on its CPU."""
    if platform.libc_ver()[0] == "glibc":
        libc = ctypes.CDLL(None)
        libc.mallopt(_MMAP_THRESHOLD, _BLOCK_BYTES)
        libc.mallopt(_TRIM_THRESHOLD, _KEPT_BYTES)
    if multiplies_quicker_by_onednn(torch.cpu.get_capabilities()):
        # Allows oneDNN to round to bfloat16, which it does on AMX alone.
        torch.backends.mkldnn.matmul.fp32_precision = "bf16"  # type: ignore[attr-defined]


def multiplies_quicker_by_onednn(capabilities: Mapping[str, object]) -> bool:
    """Whether oneDNN's float32 products, as exact as MKL's, are the quicker ones on a CPU of these capabilities.

    MKL has no AVX-512 kernels for AMD's CPUs and computes half as much there; Intel's with AVX512-BF16 but
    without AMX lose nothing.
    """
    has = {name for name, value in capabilities.items() if value is True}
    return "avx512_bf16" in has and not any(name.startswith("amx") for name in has)
