"""Whether PyTorch can run in this Home Assistant: found out before it is imported here, where it could end the process."""

import asyncio
from collections.abc import Iterator
from contextlib import suppress
from importlib.metadata import version
import os
from pathlib import Path
import platform
import signal
import sys
from typing import Final

from homeassistant.core import HomeAssistant
from homeassistant.util.hass_dict import HassKey
from homeassistant.util.package import is_installed

from ..failures import Failure

TORCH: Final = "torch>=2.14"
# What the engine needs and the manifest leaves out: some systems have no releases of these, and there the reason must be
# told in words. The same as the extra of the engine's package.
ENGINE_PARTS: Final = ("llguidance==1.9.1", "numpy>=2.3", TORCH)
# The first start on a slow SD card takes its time.
CHECK_SECONDS: Final = 180
# Enough to run what an unsuitable build dies of.
_CHECK: Final = "import torch; (torch.ones(64, 64) @ torch.ones(64, 64)).sum().item()"
_WHEELS: Final = {
    "linux": ("x86_64", "aarch64"),
    "darwin": ("arm64",),
}
# The version that was found to run since Home Assistant's start
_RUNS: HassKey[str] = HassKey("local_llm_torch")


async def async_torch_failure(hass: HomeAssistant) -> Failure | None:
    """Say why PyTorch cannot run here, None where it can. Takes seconds once, and never harms this process."""
    missing = await hass.async_add_executor_job(missing_parts)
    if _runs_already() and not missing:
        return None
    failure = await hass.async_add_executor_job(system_failure, TORCH in missing)
    if failure:
        return failure
    if missing:
        return Failure("torch_missing", ", ".join(missing))
    installed = await hass.async_add_executor_job(version, "torch")
    if hass.data.get(_RUNS) == installed:
        return None
    if failure := await _async_try():
        return failure
    hass.data[_RUNS] = installed
    return None


def system_failure(must_be_installed: bool, root: Path = Path("/")) -> Failure | None:
    """Say what about this system rules PyTorch out. `root` is where /proc and /lib lie."""
    machine = platform.machine()
    if _is_musl(root):
        return Failure("torch_musl", "")
    if machine == "x86_64" and _lacks_avx2(root):
        return Failure("torch_old_processor", _processor(root))
    is_64_bit = sys.maxsize > 2**32
    if must_be_installed and not (
        is_64_bit and machine in _WHEELS.get(sys.platform, ())
    ):
        return Failure("torch_unavailable", f"{sys.platform} {machine}")
    return None


def _is_musl(root: Path) -> bool:
    """Whether this process stands on musl; Python's own answer is wrong in Home Assistant's image."""
    with suppress(OSError):
        mapped = (root / "proc" / "self" / "maps").read_text(encoding="utf-8")
        if "musl" in mapped:
            return True
        # Debian has musl as a package, too, beside what everything runs on.
        if "/libc.so" in mapped or "/ld-linux" in mapped:
            return False
    return any((root / "lib").glob("ld-musl-*"))


def _lacks_avx2(root: Path) -> bool:
    flags = next(_cpuinfo(root, "flags"), None)
    return flags is not None and "avx2" not in flags.split()


def _processor(root: Path) -> str:
    return next(_cpuinfo(root, "model name"), "x86_64")


def _cpuinfo(root: Path, name: str) -> Iterator[str]:
    """Yield the values of a field of /proc/cpuinfo."""
    with suppress(OSError):
        text = (root / "proc" / "cpuinfo").read_text(encoding="utf-8")
        for line in text.splitlines():
            field, _, value = line.partition(":")
            if field.strip() == name:
                yield value.strip()


def _runs_already() -> bool:
    return sys.modules.get("torch") is not None


def missing_parts() -> list[str]:
    """Return what the engine needs and is not here, or in another version; blocks."""
    return [part for part in ENGINE_PARTS if not is_installed(part)]


async def _async_try() -> Failure | None:
    """Import PyTorch and compute something in a process of its own."""
    try:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-P",
            "-c",
            _CHECK,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
            # Home Assistant may have put packages elsewhere than Python looks by itself.
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        )
    except OSError as err:
        # No memory for another process, or a system that allows none
        return Failure("torch_broken", str(err))
    try:
        async with asyncio.timeout(CHECK_SECONDS):
            _, errors = await process.communicate()
    except TimeoutError:
        return Failure("torch_broken", f"no answer within {CHECK_SECONDS} seconds")
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    status = process.returncode or 0
    if status < 0:
        return Failure("torch_crashed", signal.Signals(-status).name)
    if status:
        lines = errors.decode(errors="replace").strip().splitlines()
        return Failure("torch_broken", lines[-1] if lines else "")
    return None
