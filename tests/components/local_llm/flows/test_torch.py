"""Setting up an engine where PyTorch is missing or cannot run: told, or installed, in the same flow."""

import asyncio
from collections.abc import Iterator
import sys
from unittest.mock import AsyncMock, patch

import pytest
from pytest_homeassistant_custom_component.common import MockConfigEntry

from custom_components.local_llm import runtime
from custom_components.local_llm.const import DOMAIN
from custom_components.local_llm.failures import EngineUnavailableError, Failure
from custom_components.local_llm.machine import torch_check
from homeassistant.config_entries import SOURCE_USER, ConfigEntryState, ConfigFlowResult
from homeassistant.core import HomeAssistant
from homeassistant.data_entry_flow import FlowResultType
from homeassistant.helpers import issue_registry as ir

from ..conftest import AddEntry

BUILTIN = {
    "model": "builtin",
    "device": "cpu",
    "prompt_cache_gib": 0,
    "disk_cache_gib": 0,
    "context_length": 1024,
}


@pytest.fixture(autouse=True)
def _home(home: None) -> None:
    """Set up what a real Home Assistant always has."""


@pytest.fixture(autouse=True)
def _never_imported() -> Iterator[None]:
    """Forget that this process has run PyTorch all along, while the flow asks whether it can."""
    with patch.object(torch_check, "_runs_already", return_value=False):
        yield


def missing() -> AsyncMock:
    return patch.object(torch_check, "is_installed", return_value=False)


def installs(error: Exception | None = None) -> AsyncMock:
    async def install(hass: HomeAssistant) -> None:
        await asyncio.sleep(0)
        if error:
            raise error

    return patch("custom_components.local_llm.flows.model.async_install", install)


def tried(failure: Failure | None) -> AsyncMock:
    return patch.object(torch_check, "_async_try", return_value=failure)


async def start(hass: HomeAssistant, choice: str) -> ConfigFlowResult:
    menu = await hass.config_entries.flow.async_init(
        DOMAIN, context={"source": SOURCE_USER}
    )
    return await go_on(hass, menu, next_step_id=choice)


async def go_on(
    hass: HomeAssistant, step: ConfigFlowResult, **user_input: object
) -> ConfigFlowResult:
    return await hass.config_entries.flow.async_configure(step["flow_id"], user_input)


async def after_progress(
    hass: HomeAssistant, step: ConfigFlowResult
) -> ConfigFlowResult:
    assert step["type"] is FlowResultType.SHOW_PROGRESS
    assert step["progress_action"] == "installing"
    await hass.async_block_till_done(wait_background_tasks=True)
    return await hass.config_entries.flow.async_configure(step["flow_id"])


@pytest.mark.parametrize("choice", ["builtin", "folder", "hub"])
async def test_a_system_that_cannot_ends_the_flow_in_words(
    hass: HomeAssistant, choice: str
) -> None:
    with patch.object(torch_check, "_is_musl", return_value=True):
        result = await start(hass, choice)
    assert result["type"] is FlowResultType.ABORT
    assert result["reason"] == "torch_musl"


async def test_a_torch_that_crashes_ends_the_flow_in_words(hass: HomeAssistant) -> None:
    with tried(Failure("torch_crashed", "SIGILL")):
        result = await start(hass, "builtin")
    assert result["reason"] == "torch_crashed"
    assert result["description_placeholders"] == {"detail": "SIGILL"}


@pytest.mark.parametrize(
    ("choice", "step"),
    [("builtin", "engine"), ("folder", "path"), ("hub", "repository")],
)
async def test_what_is_missing_is_installed_and_the_flow_goes_on(
    hass: HomeAssistant, choice: str, step: str
) -> None:
    with missing():
        form = await start(hass, choice)
        assert form["step_id"] == "install"
        assert form["description_placeholders"]["needed"] in {"7.00 GiB", "2.00 GiB"}
        with installs():
            progress = await go_on(hass, form)
            with (
                patch.object(torch_check, "is_installed", return_value=True),
                tried(None),
            ):
                form = await after_progress(hass, progress)
    assert form["step_id"] == step


async def test_a_failed_installation_can_be_tried_again(hass: HomeAssistant) -> None:
    with missing():
        form = await start(hass, "builtin")
        error = EngineUnavailableError(Failure("disk_too_small", "7 GiB > 1 GiB"))
        with installs(error):
            form = await after_progress(hass, await go_on(hass, form))
        assert form["step_id"] == "install"
        assert form["errors"] == {"base": "disk_too_small"}
        assert form["description_placeholders"]["detail"] == "7 GiB > 1 GiB"
        with installs():
            progress = await go_on(hass, form)
            with (
                patch.object(torch_check, "is_installed", return_value=True),
                tried(None),
            ):
                form = await after_progress(hass, progress)
    assert form["step_id"] == "engine"


async def test_what_was_installed_and_does_not_run_is_told(hass: HomeAssistant) -> None:
    with missing():
        form = await start(hass, "builtin")
        with installs():
            progress = await go_on(hass, form)
            with (
                patch.object(torch_check, "is_installed", return_value=True),
                tried(Failure("torch_broken", "no")),
            ):
                result = await after_progress(hass, progress)
    assert (result["type"], result["reason"]) == (FlowResultType.ABORT, "torch_broken")


def issues(hass: HomeAssistant) -> dict[str, ir.IssueEntry]:
    return {
        issue.translation_key: issue
        for (domain, _), issue in ir.async_get(hass).issues.items()
        if domain == DOMAIN
    }


@pytest.mark.parametrize(
    ("failure", "words"),
    [
        (Failure("torch_musl", ""), "musl"),
        (Failure("torch_old_processor", "Old & Slow"), "Old & Slow"),
        (Failure("torch_unavailable", "linux riscv64"), "linux riscv64"),
        (Failure("torch_missing", ""), "not installed"),
        (Failure("torch_broken", "libc10.so"), "libc10.so"),
        (Failure("torch_crashed", "SIGILL"), "SIGILL"),
    ],
    ids=lambda value: getattr(value, "key", ""),
)
async def test_at_set_up_an_issue_says_why_until_it_is_mended(
    hass: HomeAssistant, failure: Failure, words: str
) -> None:
    entry = MockConfigEntry(domain=DOMAIN, title="Butler", data=BUILTIN)
    entry.add_to_hass(hass)
    with patch.object(runtime, "async_torch_failure", return_value=failure):
        assert not await hass.config_entries.async_setup(entry.entry_id)
    assert entry.state is ConfigEntryState.SETUP_ERROR
    assert entry.error_reason_translation_key == failure.key
    assert words in entry.reason
    (issue,) = issues(hass).values()
    assert issue.severity is ir.IssueSeverity.ERROR
    assert issue.translation_key == failure.key
    assert issue.translation_placeholders == {
        "detail": failure.detail,
        "title": "Butler",
    }
    with patch.object(runtime, "async_torch_failure", return_value=None):
        assert await hass.config_entries.async_reload(entry.entry_id)
    assert not issues(hass)
    await hass.config_entries.async_remove(entry.entry_id)


async def test_a_removed_entry_takes_its_issue_with_it(hass: HomeAssistant) -> None:
    entry = MockConfigEntry(domain=DOMAIN, data=BUILTIN)
    entry.add_to_hass(hass)
    with missing():
        await hass.config_entries.async_setup(entry.entry_id)
    assert set(issues(hass)) == {"torch_missing"}
    await hass.config_entries.async_remove(entry.entry_id)
    assert not issues(hass)


async def test_a_torch_that_only_this_process_cannot_import_is_told(
    hass: HomeAssistant, add_entry: AddEntry
) -> None:
    entry = MockConfigEntry(domain=DOMAIN, data=BUILTIN)
    entry.add_to_hass(hass)
    with tried(None), patch.dict(sys.modules, {"torch": None}):
        assert not await hass.config_entries.async_setup(entry.entry_id)
    assert entry.error_reason_translation_key == "torch_broken"
