"""Setting up a model of Hugging Face, from its name to the first answer; the site is on this machine."""

from collections.abc import AsyncGenerator
import fcntl
import logging
import os
from pathlib import Path
import shutil
from unittest.mock import patch

import pytest
from pytest_homeassistant_custom_component.common import async_capture_events

from custom_components.local_llm.const import DOMAIN
from custom_components.local_llm.hub import files as hub_files
from custom_components.local_llm.hub.models import held, models_folder
from homeassistant.config_entries import (
    SOURCE_RECONFIGURE,
    SOURCE_USER,
    ConfigEntry,
    ConfigEntryState,
    ConfigFlowResult,
)
from homeassistant.core import HomeAssistant
from homeassistant.data_entry_flow import (
    EVENT_DATA_ENTRY_FLOW_PROGRESS_UPDATE,
    FlowResultType,
)
from local_llm_engine import service
from local_llm_engine.builtin import NANO_PATH
from local_llm_engine.config import GIB
from local_llm_engine.service import DeviceMemory

from ..conftest import ask, speech
from ..fake_hub import COMMIT, REPOSITORY, FakeHub, serving
from ..test_runtime import left_out_of_backups

WEIGHTS = "model.safetensors"
SETTINGS = {
    "device": "cpu",
    "prompt_cache_gib": 0.25,
    "disk_cache_gib": 0,
    "context_length": 4096,
    "weights": "auto",
    "kv_cache": "bf16",
}


@pytest.fixture
async def site(
    hass: HomeAssistant,
    home: None,
    socket_enabled: None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> AsyncGenerator[FakeHub]:
    """The built-in model as a repository; this machine has 32 GiB of memory."""
    memory = DeviceMemory(32 * GIB, 32 * GIB)
    monkeypatch.setattr(service, "device_memory", lambda device: memory)
    with serving(NANO_PATH, tmp_path / "site") as hub:
        monkeypatch.setenv("HF_ENDPOINT", hub.endpoint)
        yield hub
        for entry in hass.config_entries.async_entries(DOMAIN):
            await hass.config_entries.async_remove(entry.entry_id)


async def go_on(
    hass: HomeAssistant, step: ConfigFlowResult, **user_input: object
) -> ConfigFlowResult:
    return await hass.config_entries.flow.async_configure(step["flow_id"], user_input)


async def after_progress(
    hass: HomeAssistant, step: ConfigFlowResult
) -> ConfigFlowResult:
    """Wait for what a step shows the progress of; return what a person sees then."""
    assert step["type"] is FlowResultType.SHOW_PROGRESS
    await hass.async_block_till_done(wait_background_tasks=True)
    return await hass.config_entries.flow.async_configure(step["flow_id"])


async def start(hass: HomeAssistant) -> ConfigFlowResult:
    menu = await hass.config_entries.flow.async_init(
        DOMAIN, context={"source": SOURCE_USER}
    )
    return await go_on(hass, menu, next_step_id="hub")


async def reconfigure(
    hass: HomeAssistant, entry: ConfigEntry, choice: str
) -> ConfigFlowResult:
    menu = await hass.config_entries.flow.async_init(
        DOMAIN, context={"source": SOURCE_RECONFIGURE, "entry_id": entry.entry_id}
    )
    return await go_on(hass, menu, next_step_id=choice)


async def look(hass: HomeAssistant, **asked: str) -> ConfigFlowResult:
    form = await start(hass)
    assert form["step_id"] == "repository"
    progress = await go_on(hass, form, **{"repository": REPOSITORY, **asked})
    assert progress["progress_action"] == "looking"
    return await after_progress(hass, progress)


async def made(hass: HomeAssistant, progress: ConfigFlowResult) -> ConfigEntry:
    """Wait for a download that ends in an entry."""
    assert progress["progress_action"] == "download"
    await after_progress(hass, progress)
    await hass.async_block_till_done()
    (entry,) = hass.config_entries.async_entries(DOMAIN)
    return entry


async def test_from_a_name_to_an_answer(
    hass: HomeAssistant, site: FakeHub, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    site.token = "hf_secret"
    updates = async_capture_events(hass, EVENT_DATA_ENTRY_FLOW_PROGRESS_UPDATE)
    form = await look(hass, repository=f" {REPOSITORY} ", token="hf_secret")
    assert form["step_id"] == "engine"
    assert form["description_placeholders"]["model"] == "tiny-model"
    assert form["description_placeholders"]["weights"] == "0.02 GiB"
    assert not models_folder(hass).exists()
    entry = await made(hass, await go_on(hass, form, **SETTINGS))
    folder = models_folder(hass) / "somebody--tiny-model"
    assert entry.title == "Local LLM (tiny-model)"
    assert entry.data == {**SETTINGS, "model": str(folder), "repository": REPOSITORY}
    shares = [update.data["progress"] for update in updates]
    assert shares == sorted(shares)
    assert shares[-1] == 1
    assert len(shares) > 5
    assert entry.state is ConfigEntryState.LOADED
    assert speech(await ask(hass, "hello"))
    assert "hf_secret" not in caplog.text


async def test_backups_leave_models_out(hass: HomeAssistant) -> None:
    folder = models_folder(hass).relative_to(hass.config.config_dir)
    assert left_out_of_backups(folder.parent)


async def test_what_does_not_fit_is_refused_before_it_is_downloaded(
    hass: HomeAssistant, site: FakeHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory = DeviceMemory(GIB, GIB // 2)
    monkeypatch.setattr(service, "device_memory", lambda device: memory)
    form = await go_on(hass, await look(hass), **SETTINGS)
    assert form["errors"] == {"device": "model_too_large"}
    assert not models_folder(hass).exists()


async def test_what_the_engine_cannot_run_is_refused_before_it_is_downloaded(
    hass: HomeAssistant, site: FakeHub
) -> None:
    config = site.folder / "config.json"
    text = await hass.async_add_executor_job(config.read_text)
    config.write_text(text.replace("qwen3_5_text", "mystery_9"))
    form = await look(hass)
    assert form["step_id"] == "repository"
    assert form["errors"] == {"base": "model_unsupported"}
    assert "mystery_9" in form["description_placeholders"]["detail"]
    config.write_text(text)
    form = await after_progress(hass, await go_on(hass, form, repository=REPOSITORY))
    assert form["step_id"] == "engine"


@pytest.mark.parametrize(
    ("status", "headers", "error"),
    [
        (404, {"X-Error-Code": "RepoNotFound"}, "repository_not_found"),
        (401, {"X-Error-Code": "GatedRepo"}, "repository_gated"),
    ],
)
async def test_what_the_site_refuses_can_be_entered_anew(
    hass: HomeAssistant,
    site: FakeHub,
    status: int,
    headers: dict[str, str],
    error: str,
) -> None:
    site.refusals["/api/"] = (status, headers)
    form = await look(hass, revision="main")
    assert form["errors"] == {"base": error}
    suggested = {
        str(key): (key.description or {}).get("suggested_value")
        for key in form["data_schema"].schema
    }
    assert suggested == {"repository": REPOSITORY, "revision": "main", "token": None}
    site.refusals.clear()
    form = await after_progress(hass, await go_on(hass, form, repository=REPOSITORY))
    assert form["step_id"] == "engine"


async def test_a_disk_that_is_too_small_is_told_before(
    hass: HomeAssistant, site: FakeHub
) -> None:
    usage = shutil.disk_usage("/")._replace(free=GIB)
    with patch("shutil.disk_usage", return_value=usage):
        form = await look(hass)
    assert form["errors"] == {"base": "disk_too_small"}


async def test_a_broken_download_goes_on_when_it_is_tried_again(
    hass: HomeAssistant, site: FakeHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hub_files.time, "sleep", lambda seconds: None)
    form = await look(hass)
    site.cut_after = [3 << 20, *[0] * 5]
    form = await after_progress(hass, await go_on(hass, form, **SETTINGS))
    assert form["step_id"] == "retry"
    assert form["errors"] == {"base": "hub_unreachable"}
    site.cut_after = []
    site.requests.clear()
    entry = await made(hass, await go_on(hass, form))
    assert site.asked(WEIGHTS) == [f"bytes={3 << 20}-"]
    assert entry.state is ConfigEntryState.LOADED


async def test_damaged_weights_are_no_model(hass: HomeAssistant, site: FakeHub) -> None:
    form = await look(hass)
    site.served[WEIGHTS] = bytes(len((NANO_PATH / WEIGHTS).read_bytes()))
    form = await after_progress(hass, await go_on(hass, form, **SETTINGS))
    assert form["errors"] == {"base": "download_damaged"}
    assert not (models_folder(hass) / "somebody--tiny-model").exists()


async def test_closing_the_window_stops_the_download_and_the_next_one_goes_on(
    hass: HomeAssistant, site: FakeHub
) -> None:
    form = await look(hass)
    site.gate.clear()
    progress = await go_on(hass, form, **SETTINGS)
    unfinished = models_folder(hass) / "somebody--tiny-model.partial"

    def downloaded() -> int:
        return sum(path.stat().st_size for path in unfinished.glob("*.safetensors.*"))

    while await hass.async_add_executor_job(downloaded) < 2 << 20:
        """The first half comes."""
    hass.config_entries.flow.async_abort(progress["flow_id"])
    await hass.async_block_till_done(wait_background_tasks=True)
    site.gate.set()
    site.requests.clear()
    await hass.async_add_executor_job(let_go, unfinished)
    assert not hass.config_entries.async_entries(DOMAIN)
    half = await hass.async_add_executor_job(downloaded)
    assert 0 < half < (NANO_PATH / WEIGHTS).stat().st_size
    entry = await made(hass, await go_on(hass, await look(hass), **SETTINGS))
    assert site.asked(WEIGHTS)[-1] == f"bytes={half}-"
    assert entry.state is ConfigEntryState.LOADED
    assert not unfinished.exists()


async def test_what_another_form_has_brought_meanwhile_is_not_brought_again(
    hass: HomeAssistant, site: FakeHub
) -> None:
    first, second = await look(hass), await look(hass)
    with held(models_folder(hass) / "somebody--tiny-model.partial"):
        refused = await after_progress(hass, await go_on(hass, second, **SETTINGS))
    assert refused["errors"] == {"base": "already_downloading"}
    entry = await made(hass, await go_on(hass, first, **SETTINGS))
    site.requests.clear()
    await go_on(hass, refused)
    await hass.async_block_till_done(wait_background_tasks=True)
    assert site.requests == []
    assert hass.config_entries.async_entries(DOMAIN) == [entry]


async def test_a_model_that_is_here_is_not_downloaded_again(
    hass: HomeAssistant, site: FakeHub
) -> None:
    finished = models_folder(hass) / "somebody--tiny-model"
    entry = await made(hass, await go_on(hass, await look(hass), **SETTINGS))
    await hass.config_entries.async_remove(entry.entry_id)
    assert finished.is_dir()
    result = await go_on(hass, await look(hass), **SETTINGS)
    await hass.async_block_till_done()
    assert result["type"] is FlowResultType.CREATE_ENTRY
    assert result["data"]["model"] == entry.data["model"]
    result = await go_on(hass, await look(hass), **SETTINGS)
    assert result["reason"] == "already_configured"


async def test_a_model_that_a_backup_left_out_is_downloaded_anew(
    hass: HomeAssistant, site: FakeHub
) -> None:
    form = await look(hass, revision=COMMIT)
    entry = await made(hass, await go_on(hass, form, **SETTINGS))
    assert await hass.config_entries.async_unload(entry.entry_id)
    shutil.rmtree(models_folder(hass))
    assert not await hass.config_entries.async_setup(entry.entry_id)
    assert entry.error_reason_translation_key == "model_gone"
    assert REPOSITORY in entry.reason
    form = await reconfigure(hass, entry, "hub")
    suggested = {
        str(key): (key.description or {}).get("suggested_value")
        for key in form["data_schema"].schema
    }
    assert suggested == {"repository": REPOSITORY, "revision": COMMIT, "token": None}
    asked = {"repository": REPOSITORY, "revision": COMMIT}
    form = await after_progress(hass, await go_on(hass, form, **asked))
    await made(hass, await go_on(hass, form, **SETTINGS))
    await hass.async_block_till_done()
    assert entry.state is ConfigEntryState.LOADED
    assert entry.data["revision"] == COMMIT


async def test_a_folder_chosen_after_all_has_no_repository(
    hass: HomeAssistant, site: FakeHub
) -> None:
    entry = await made(hass, await go_on(hass, await look(hass), **SETTINGS))
    form = await reconfigure(hass, entry, "builtin")
    await go_on(hass, form, **SETTINGS)
    await hass.async_block_till_done()
    assert entry.data == {**SETTINGS, "model": "builtin"}


def let_go(folder: Path) -> None:
    """Wait until nobody holds a folder any more."""
    descriptor = os.open(folder, os.O_RDONLY)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    os.close(descriptor)
