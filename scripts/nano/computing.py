"""Where nano learns, and in which precision its products are quickest there.

Knows nothing of networks and data.
"""

from collections.abc import Mapping
from contextlib import AbstractContextManager

import torch


def choose_device() -> torch.device:
    """Return a GPU where there is one."""
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def quickest_products(device: torch.device) -> AbstractContextManager[object]:
    """Compute products in bfloat16 within this context where that is quicker, else in float32."""
    is_quicker = device.type == "cuda" or multiplies_bfloat16_quicker(
        torch.cpu.get_capabilities()
    )
    return torch.autocast(device.type, dtype=torch.bfloat16, enabled=is_quicker)


def multiplies_bfloat16_quicker(capabilities: Mapping[str, object]) -> bool:
    """Whether a CPU of these capabilities multiplies bfloat16 quicker than float32.

    AMX does, and AMD's AVX-512; Intel's AVX-512 computes half as much in it.
    """
    return capabilities.get("amx_bf16") is True or (
        capabilities.get("avx512_bf16") is True
        and "Intel" not in str(capabilities.get("cpu_name"))
    )
