"""How much memory a device has; asks the machine, knows nothing of what it is for."""

from pathlib import Path
import re
from typing import NamedTuple

import torch

_ROOT = Path("/")


class DeviceMemory(NamedTuple):
    """Bytes that a device has in all, and those that nobody uses now."""

    total_bytes: int
    available_bytes: int


def device_memory(device: torch.device) -> DeviceMemory | None:
    """Ask a GPU's driver, or for a CPU the kernel; None where nobody can tell."""
    if device.type == "cuda":
        free, total = torch.cuda.mem_get_info(device)
        return DeviceMemory(total, free)
    return host_memory()


def host_memory(root: Path = _ROOT) -> DeviceMemory | None:
    """Read Linux's own books, and within a container its limit; None on other systems. `root` is where /proc lies."""
    sizes = _kibibytes(root / "proc" / "meminfo")
    if not {"MemTotal", "MemAvailable"} <= sizes.keys():
        return None
    memory = DeviceMemory(sizes["MemTotal"] * 1024, sizes["MemAvailable"] * 1024)
    return _within_container(memory, root / "sys" / "fs" / "cgroup")


def _within_container(memory: DeviceMemory, group: Path) -> DeviceMemory:
    """Lower what the machine has to what its control group (cgroup v2) may use."""
    limit = _text(group / "memory.max").strip()
    if not limit.isdecimal():
        return memory
    # What files fill goes as soon as somebody needs it.
    held = re.search(r"^anon (\d+)$", _text(group / "memory.stat"), re.MULTILINE)
    left = max(0, int(limit) - int(held[1] if held else 0))
    return DeviceMemory(
        min(memory.total_bytes, int(limit)), min(memory.available_bytes, left)
    )


def _kibibytes(file: Path) -> dict[str, int]:
    lines = re.finditer(r"^(\w+): +(\d+) kB$", _text(file), re.MULTILINE)
    return {line[1]: int(line[2]) for line in lines}


def _text(file: Path) -> str:
    """Read a file of the kernel's; nothing where there is none."""
    try:
        return file.read_text(encoding="ascii")
    except OSError:
        return ""
