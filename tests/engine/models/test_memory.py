"""What a device's memory is: as the kernel, a container's limit and a GPU's driver say."""

from pathlib import Path

import pytest
import torch

from local_llm_engine.models.memory import DeviceMemory, device_memory, host_memory

MEMINFO = """MemTotal:        8000000 kB
MemFree:          100000 kB
MemAvailable:    5000000 kB
HugePages_Total:       0
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc" / "meminfo").write_text(MEMINFO)
    (tmp_path / "sys" / "fs" / "cgroup").mkdir(parents=True)
    return tmp_path


def limit(root: Path, **files: str) -> None:
    for name, text in files.items():
        (root / "sys" / "fs" / "cgroup" / f"memory.{name}").write_text(text)


def test_a_machine(root: Path) -> None:
    assert host_memory(root) == DeviceMemory(8_192_000_000, 5_120_000_000)


def test_a_container_without_a_limit(root: Path) -> None:
    limit(root, max="max\n")
    assert host_memory(root) == DeviceMemory(8_192_000_000, 5_120_000_000)


@pytest.mark.parametrize(
    ("stat", "available"),
    [
        ("anon 1000000\nfile 999999999\n", 1_999_000_000),
        ("file 1\n", 2_000_000_000),
        ("anon 3000000000\n", 0),
    ],
    ids=["some held", "nothing said", "all held"],
)
def test_a_containers_limit(root: Path, stat: str, available: int) -> None:
    limit(root, max="2000000000\n", stat=stat)
    assert host_memory(root) == DeviceMemory(2_000_000_000, available)


def test_a_limit_above_the_machine_changes_nothing(root: Path) -> None:
    limit(root, max="9999999999999\n")
    assert host_memory(root) == DeviceMemory(8_192_000_000, 5_120_000_000)


def test_another_system_cannot_tell(tmp_path: Path) -> None:
    assert host_memory(tmp_path) is None


def test_this_machine_can() -> None:
    memory = device_memory(torch.device("cpu"))
    assert memory is not None
    assert 0 < memory.available_bytes <= memory.total_bytes


def test_a_gpus_driver_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (3, 7))
    assert device_memory(torch.device("cuda")) == DeviceMemory(7, 3)
