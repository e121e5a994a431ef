"""Installing PyTorch when somebody asks for it, and what goes wrong then, in words."""

from collections.abc import Iterator
import platform
import shutil
from unittest.mock import AsyncMock, patch

import pytest

from custom_components.local_llm.failures import EngineUnavailableError
from custom_components.local_llm.machine import torch_check
from custom_components.local_llm.machine.torch_check import ENGINE_PARTS
from custom_components.local_llm.machine.torch_install import (
    async_complete,
    async_install,
    needed_bytes,
    packages_folder,
)
from homeassistant.core import HomeAssistant
from homeassistant.util import package
from local_llm_engine.config import GIB

INSTALL = "homeassistant.requirements.pkg_util.install_package"


@pytest.fixture
def installed() -> Iterator[list[str]]:
    """What Home Assistant found to be missing and installed."""
    done: list[str] = []

    def install(requirement: str, **kwargs: object) -> bool:
        done.append(requirement)
        return True

    with (
        patch(
            "homeassistant.requirements.pkg_util.is_installed",
            side_effect=lambda requirement: requirement in done,
        ),
        patch(INSTALL, side_effect=install),
    ):
        yield done


def disk(free: float) -> AsyncMock:
    usage = shutil.disk_usage("/")._replace(free=int(free))
    return patch("shutil.disk_usage", return_value=usage)


async def test_home_assistant_installs_it(
    hass: HomeAssistant, installed: list[str]
) -> None:
    with disk(100 * GIB):
        await async_install(hass)
        await async_install(hass)
    assert installed == list(ENGINE_PARTS)


async def test_a_full_disk_is_told_before(
    hass: HomeAssistant, installed: list[str]
) -> None:
    with disk(2 * GIB), pytest.raises(EngineUnavailableError) as error:
        await async_install(hass)
    assert error.value.failure.key == "disk_too_small"
    assert installed == []


async def test_a_failure_is_told_and_may_be_tried_again(
    hass: HomeAssistant, installed: list[str]
) -> None:
    with disk(100 * GIB):
        with patch(INSTALL, return_value=False) as install:
            with pytest.raises(EngineUnavailableError) as error:
                await async_install(hass)
            assert install.call_count == 3 * len(ENGINE_PARTS)
        assert error.value.failure.key == "install_failed"
        assert platform.machine() in error.value.failure.detail
        await async_install(hass)
    assert installed == list(ENGINE_PARTS)


async def test_a_disk_that_became_full_is_told(
    hass: HomeAssistant, installed: list[str]
) -> None:
    roomy = shutil.disk_usage("/")._replace(free=100 * GIB)
    with (
        patch(INSTALL, return_value=False),
        patch("shutil.disk_usage", side_effect=[roomy, roomy._replace(free=0)]),
        pytest.raises(EngineUnavailableError) as error,
    ):
        await async_install(hass)
    assert error.value.failure == ("disk_full", str(packages_folder()))


@pytest.mark.parametrize(
    ("machine", "backend", "size"),
    [("x86_64", None, 7), ("x86_64", "cpu", 2), ("aarch64", None, 2)],
)
def test_how_much_it_takes(
    monkeypatch: pytest.MonkeyPatch, machine: str, backend: str | None, size: int
) -> None:
    monkeypatch.setattr(platform, "machine", lambda: machine)
    monkeypatch.delenv("UV_TORCH_BACKEND", raising=False)
    if backend:
        monkeypatch.setenv("UV_TORCH_BACKEND", backend)
    assert needed_bytes() == size * GIB


def test_it_goes_where_packages_are() -> None:
    assert package.is_installed("probatio")
    assert (packages_folder() / "probatio").exists()


@pytest.mark.parametrize(
    ("here", "brought"),
    [
        (["torch>=2.14"], ["llguidance==1.9.1", "numpy>=2.3"]),
        ([], []),
        (list(ENGINE_PARTS), []),
    ],
    ids=["torch alone", "nothing", "all"],
)
async def test_what_is_small_is_brought_beside_a_torch_that_is_here(
    hass: HomeAssistant, installed: list[str], here: list[str], brought: list[str]
) -> None:
    """And nothing is tried where torch is missing: perhaps it cannot be here at all."""
    installed += here
    with patch.object(
        torch_check, "is_installed", side_effect=lambda part: part in installed
    ):
        await async_complete(hass)
    assert installed == here + brought


async def test_what_cannot_be_brought_is_told_by_who_needs_it(
    hass: HomeAssistant, installed: list[str]
) -> None:
    with (
        patch.object(
            torch_check, "is_installed", side_effect=lambda part: "torch" in part
        ),
        patch(INSTALL, return_value=False),
    ):
        await async_complete(hass)
        failure = await torch_check.async_torch_failure(hass)
    assert failure == ("torch_missing", "llguidance==1.9.1, numpy>=2.3")
