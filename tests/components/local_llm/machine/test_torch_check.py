"""Where PyTorch cannot run: noticed before it is imported, in words, and without harm to Home Assistant."""

from collections.abc import Callable
import errno
from pathlib import Path
import platform
import sys
import tomllib
from unittest.mock import patch

from freezegun.api import FrozenDateTimeFactory
import pytest

from custom_components.local_llm.machine import torch_check
from custom_components.local_llm.machine.torch_check import (
    CHECK_SECONDS,
    ENGINE_PARTS,
    async_torch_failure,
    system_failure,
)
from homeassistant.core import HomeAssistant

from ..integration_files import ROOT

MUSL_MAPS = "7f00-7f01 r-xp 0 00:00 1 /lib/ld-musl-x86_64.so.1\n"
GLIBC_MAPS = "7f00-7f01 r-xp 0 00:00 1 /usr/lib/x86_64-linux-gnu/libc.so.6\n"
CPUINFO = "processor\t: 0\nmodel name\t: Old & Slow\nflags\t\t: fpu sse2{}\n\n"

type FakePython = Callable[[str], None]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A glibc system with AVX2."""
    (tmp_path / "proc" / "self").mkdir(parents=True)
    (tmp_path / "lib").mkdir()
    (tmp_path / "proc" / "self" / "maps").write_text(GLIBC_MAPS)
    (tmp_path / "proc" / "cpuinfo").write_text(CPUINFO.format(" avx2"))
    return tmp_path


@pytest.fixture(autouse=True)
def _x86(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")


@pytest.fixture
def _never_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forget that this process has run PyTorch all along."""
    monkeypatch.setitem(sys.modules, "torch", None)


@pytest.fixture
def python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakePython:
    """Put a shell script in Python's place."""

    def put(script: str) -> None:
        path = tmp_path / "python"
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)
        monkeypatch.setattr(sys, "executable", str(path))

    return put


def test_a_system_that_can(root: Path) -> None:
    assert system_failure(True, root) is None
    assert system_failure(True) is None


def test_musl_by_what_this_process_stands_on(root: Path) -> None:
    (root / "proc" / "self" / "maps").write_text(MUSL_MAPS)
    assert system_failure(False, root) == ("torch_musl", "")


def test_musl_beside_glibc_does_no_harm(root: Path) -> None:
    (root / "lib" / "ld-musl-x86_64.so.1").touch()
    assert system_failure(True, root) is None


@pytest.mark.parametrize("maps", [None, ""], ids=["unreadable", "static"])
def test_musl_by_its_loader(root: Path, maps: str | None) -> None:
    (root / "lib" / "ld-musl-x86_64.so.1").touch()
    file = root / "proc" / "self" / "maps"
    file.unlink() if maps is None else file.write_text(maps)
    assert system_failure(True, root) == ("torch_musl", "")


def test_a_processor_without_avx2(root: Path) -> None:
    (root / "proc" / "cpuinfo").write_text(CPUINFO.format(" avx"))
    assert system_failure(False, root) == ("torch_old_processor", "Old & Slow")


def test_a_processor_without_a_name(root: Path) -> None:
    (root / "proc" / "cpuinfo").write_text("flags : fpu\n")
    assert system_failure(False, root) == ("torch_old_processor", "x86_64")


@pytest.mark.parametrize("cpuinfo", [None, "processor : 0\n"], ids=["none", "silent"])
def test_a_processor_that_says_nothing_is_trusted(
    root: Path, cpuinfo: str | None
) -> None:
    file = root / "proc" / "cpuinfo"
    file.unlink() if cpuinfo is None else file.write_text(cpuinfo)
    assert system_failure(True, root) is None


def test_arm_has_no_avx2(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "aarch64")
    (root / "proc" / "cpuinfo").write_text(CPUINFO.format(""))
    assert system_failure(True, root) is None


def test_a_machine_without_a_build(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "riscv64")
    assert system_failure(True, root) == ("torch_unavailable", "linux riscv64")
    assert system_failure(False, root) is None


def test_32_bits(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "maxsize", 2**31 - 1)
    assert system_failure(True, root) == ("torch_unavailable", "linux x86_64")


async def test_what_runs_here_already_is_not_tried(
    hass: HomeAssistant, python: FakePython
) -> None:
    python("kill -ILL $$")
    assert "torch" in sys.modules
    assert await async_torch_failure(hass) is None


@pytest.mark.usefixtures("_never_imported")
async def test_the_real_one_runs_and_is_tried_once(
    hass: HomeAssistant, python: FakePython
) -> None:
    assert await async_torch_failure(hass) is None
    python("kill -ILL $$")
    assert await async_torch_failure(hass) is None
    with patch.object(torch_check, "version", return_value="99.0"):
        assert await async_torch_failure(hass) == ("torch_crashed", "SIGILL")


@pytest.mark.usefixtures("_never_imported")
@pytest.mark.parametrize(
    ("script", "failure"),
    [
        ("kill -ILL $$", ("torch_crashed", "SIGILL")),
        ("kill -SEGV $$", ("torch_crashed", "SIGSEGV")),
        (
            "echo Traceback >&2; echo 'ImportError: libc10.so' >&2; exit 1",
            ("torch_broken", "ImportError: libc10.so"),
        ),
        ("exit 3", ("torch_broken", "")),
    ],
    ids=["illegal instruction", "segmentation fault", "import error", "silence"],
)
async def test_what_ends_another_process_leaves_this_one_alone(
    hass: HomeAssistant, python: FakePython, script: str, failure: tuple[str, str]
) -> None:
    python(script)
    assert await async_torch_failure(hass) == failure
    python("exit 0")
    assert await async_torch_failure(hass) is None


@pytest.mark.usefixtures("_never_imported")
async def test_one_that_hangs_is_ended(
    hass: HomeAssistant,
    python: FakePython,
    tmp_path: Path,
    freezer: FrozenDateTimeFactory,
) -> None:
    pid = tmp_path / "pid"
    python(f"echo $$ > {pid}.new; mv {pid}.new {pid}; exec sleep 60")
    check = hass.async_create_task(async_torch_failure(hass))
    while not await hass.async_add_executor_job(pid.exists):
        """It starts."""
    while not check.done():
        freezer.tick(CHECK_SECONDS + 1)
        await hass.async_add_executor_job(pid.exists)
    assert await check == ("torch_broken", "no answer within 180 seconds")
    number = (await hass.async_add_executor_job(pid.read_text)).strip()
    running = Path(f"/proc/{number}")
    assert not await hass.async_add_executor_job(running.exists)


@pytest.mark.usefixtures("_never_imported")
async def test_where_no_process_can_be_started_that_is_told(
    hass: HomeAssistant,
) -> None:
    no_memory = OSError(errno.ENOMEM, "Cannot allocate memory")
    with patch("asyncio.create_subprocess_exec", side_effect=no_memory):
        failure = await async_torch_failure(hass)
    assert failure == ("torch_broken", "[Errno 12] Cannot allocate memory")


@pytest.mark.usefixtures("_never_imported")
async def test_one_that_is_missing(hass: HomeAssistant) -> None:
    with patch.object(torch_check, "is_installed", return_value=False):
        failure = await async_torch_failure(hass)
    assert failure == ("torch_missing", "llguidance==1.9.1, numpy>=2.3, torch>=2.14")


async def test_a_part_that_is_missing_beside_one_that_runs(hass: HomeAssistant) -> None:
    with patch.object(
        torch_check, "is_installed", side_effect=lambda part: "llguidance" not in part
    ):
        failure = await async_torch_failure(hass)
    assert failure == ("torch_missing", "llguidance==1.9.1")


def test_the_parts_are_those_of_the_engines_extra() -> None:
    project = tomllib.loads((ROOT / "engine/pyproject.toml").read_text())["project"]
    assert list(ENGINE_PARTS) == project["optional-dependencies"]["torch"]


@pytest.mark.usefixtures("_never_imported")
async def test_a_system_that_cannot_tries_nothing(
    hass: HomeAssistant, python: FakePython
) -> None:
    python("kill -ILL $$")
    with patch.object(torch_check, "_is_musl", return_value=True):
        assert await async_torch_failure(hass) == ("torch_musl", "")
