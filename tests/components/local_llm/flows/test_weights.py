"""Converting weights before an entry is made or changed: with progress, and with nothing left of what comes to nothing."""

from collections.abc import Awaitable, Callable
from pathlib import Path
import shutil
from unittest.mock import patch

import pytest
from pytest_homeassistant_custom_component.common import (
    MockConfigEntry,
    async_capture_events,
)

from custom_components.local_llm.const import DOMAIN
from homeassistant.config_entries import ConfigEntryState, ConfigFlowResult
from homeassistant.core import HomeAssistant
from homeassistant.data_entry_flow import (
    EVENT_DATA_ENTRY_FLOW_PROGRESS_UPDATE,
    FlowResultType,
)
from local_llm_engine.builtin import NANO_PATH
from local_llm_engine.config import GIB
from local_llm_engine.errors import ConversionError
from local_llm_engine.service import Engine

from ..conftest import AddEntry, ask, speech, suggested_values
from ..fake_hub import FakeHub
from ..held_conversions import HeldConversion, held, kept, kept_of
from ..test_config_flow import SETTINGS, finish, go_on, reconfigure, set_memory, start
from ..test_runtime import left_out_of_backups
from .test_hub import after_progress, look, site

__all__ = ["held", "site"]

INT4 = {**SETTINGS, "disk_cache_gib": 0, "weights": "int4"}


@pytest.fixture(autouse=True)
def _home(home: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Set up what a real Home Assistant always has, on a large machine."""
    set_memory(monkeypatch, 64, 32)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return shutil.copytree(NANO_PATH, tmp_path / "model")


async def converted(
    hass: HomeAssistant, progress: ConfigFlowResult
) -> ConfigFlowResult:
    """Wait for a conversion; return what a person sees then."""
    assert progress["type"] is FlowResultType.SHOW_PROGRESS
    assert progress["progress_action"] == "convert"
    result = await after_progress(hass, progress)
    await hass.async_block_till_done()
    return result


async def test_a_new_entry_is_made_once_its_weights_are_converted(
    hass: HomeAssistant, folder: Path, held: HeldConversion
) -> None:
    updates = async_capture_events(hass, EVENT_DATA_ENTRY_FLOW_PROGRESS_UPDATE)
    form = await go_on(hass, await start(hass, "folder"), model=str(folder))
    progress = await go_on(hass, form, **INT4)
    assert progress["description_placeholders"] == {
        "model": "model",
        "size": "0.00 GiB",
    }
    await held.until_held(hass)
    assert hass.config_entries.async_entries(DOMAIN) == []
    held.go_on()
    result = await converted(hass, progress)
    assert result["type"] is FlowResultType.CREATE_ENTRY
    shares = [update.data["progress"] for update in updates]
    assert shares == sorted(shares)
    assert shares[-1] == 1
    assert len(shares) > 5
    (entry,) = hass.config_entries.async_entries(DOMAIN)
    assert entry.state is ConfigEntryState.LOADED
    assert entry.data == {**INT4, "model": str(folder)}
    assert entry.runtime_data.engine.status().weights == "int4"
    assert len(held.converted) == len(set(held.converted))
    assert speech(await ask(hass, "hello"))
    await finish(hass)


async def test_what_is_converted_lies_where_backups_leave_it_out(
    hass: HomeAssistant, folder: Path
) -> None:
    """And not beside the model, which may lie in Home Assistant's own folder."""
    form = await go_on(hass, await start(hass, "folder"), model=str(folder))
    await converted(hass, await go_on(hass, form, **INT4))
    (entry,) = hass.config_entries.async_entries(DOMAIN)
    (file,) = kept_of(hass, entry.data)
    inside = file.relative_to(hass.config.config_dir)
    assert left_out_of_backups(inside.parents[-3])
    assert not (await hass.async_add_executor_job((folder / "local_llm").exists))
    await hass.config_entries.async_remove(entry.entry_id)
    assert kept(hass) == []


async def test_weights_that_stay_as_they_are_need_no_conversion(
    hass: HomeAssistant, held: HeldConversion
) -> None:
    form = await start(hass, "builtin")
    result = await go_on(hass, form, **SETTINGS)
    await hass.async_block_till_done()
    assert result["type"] is FlowResultType.CREATE_ENTRY
    assert held.converted == []
    await finish(hass)


async def begun(hass: HomeAssistant, held: HeldConversion) -> None:
    """Close the window at once."""


async def in_the_middle(hass: HomeAssistant, held: HeldConversion) -> None:
    await held.until_held(hass)


async def done(hass: HomeAssistant, held: HeldConversion) -> None:
    held.go_on()
    await hass.async_block_till_done(wait_background_tasks=True)
    assert [path for path in kept(hass) if path.is_file()]


@pytest.mark.parametrize("until", [begun, in_the_middle, done])
async def test_closing_the_window_leaves_nothing(
    hass: HomeAssistant,
    held: HeldConversion,
    until: Callable[[HomeAssistant, HeldConversion], Awaitable[None]],
) -> None:
    progress = await go_on(hass, await start(hass, "builtin"), **INT4)
    await until(hass, held)
    hass.config_entries.flow.async_abort(progress["flow_id"])
    await hass.async_block_till_done(wait_background_tasks=True)
    assert hass.config_entries.async_entries(DOMAIN) == []
    assert kept(hass) == []


async def test_what_has_no_room_any_more_is_told_where_it_can_be_changed(
    hass: HomeAssistant,
) -> None:
    form = await start(hass, "builtin")
    full = ConversionError("/config/.cache: 3 bytes have no room")
    with patch.object(Engine, "convert", side_effect=full):
        form = await converted(hass, await go_on(hass, form, **INT4))
    assert form["step_id"] == "engine"
    assert form["errors"] == {"weights": "weights_not_kept"}
    assert "3 bytes have no room" in form["description_placeholders"]["detail"]
    assert suggested_values(form) == INT4
    result = await go_on(hass, form, **{**INT4, "weights": "auto"})
    await hass.async_block_till_done()
    assert result["type"] is FlowResultType.CREATE_ENTRY
    assert result["data"]["weights"] == "auto"
    await finish(hass)


@pytest.mark.parametrize(
    ("free_gib", "changes", "error"),
    [
        (1, {}, {"weights": "weights_disk_too_small"}),
        (2, {"disk_cache_gib": 2}, {"disk_cache_gib": "disk_cache_too_large"}),
        (
            2,
            {"weights": "auto", "disk_cache_gib": 1000},
            {"disk_cache_gib": "disk_cache_too_large"},
        ),
    ],
    ids=["weights", "weights and cache", "cache"],
)
async def test_a_disk_that_is_too_small_is_told_with_its_free_space(
    hass: HomeAssistant,
    free_gib: int,
    changes: dict[str, object],
    error: dict[str, str],
) -> None:
    form = await start(hass, "builtin")
    usage = shutil.disk_usage("/")._replace(free=free_gib * GIB)
    with patch("shutil.disk_usage", return_value=usage):
        form = await go_on(hass, form, **INT4 | changes)
    assert form["errors"] == error
    assert form["description_placeholders"]["room"] == f"{free_gib - 1:.2f} GiB"


async def test_a_small_disk_is_asked_for_what_fits(hass: HomeAssistant) -> None:
    usage = shutil.disk_usage("/")._replace(free=int(3.6 * GIB))
    with patch("shutil.disk_usage", return_value=usage):
        form = await start(hass, "builtin")
    assert suggested_values(form)["disk_cache_gib"] == 2.5


async def test_a_small_memory_is_told_which_bits_fit(
    hass: HomeAssistant, monkeypatch: pytest.MonkeyPatch
) -> None:
    form = await start(hass, "builtin")
    set_memory(monkeypatch, 8, 0.515)
    settings = {**SETTINGS, "context_length": 1024, "prompt_cache_gib": 0}
    form = await go_on(hass, form, **settings)
    assert form["errors"] == {"weights": "weights_too_large"}
    assert form["description_placeholders"]["weights_int4"] == "0.00 GiB"


async def test_reconfigure_converts_while_the_old_engine_answers(
    hass: HomeAssistant, add_entry: AddEntry, held: HeldConversion
) -> None:
    entry = await add_entry()
    progress = await go_on(hass, await reconfigure(hass, entry, "builtin"), **INT4)
    await held.until_held(hass)
    assert speech(await ask(hass, "what time is it")) == "It is 14:05."
    assert entry.runtime_data.engine.status().weights == "bf16"
    held.go_on()
    await converted(hass, progress)
    assert entry.runtime_data.engine.status().weights == "int4"
    assert len(kept_of(hass, entry.data)) == 1


async def test_another_format_takes_the_place_of_the_last_one(
    hass: HomeAssistant, add_entry: AddEntry
) -> None:
    entry = await add_entry()
    for weights in ("int4", "int8"):
        form = await reconfigure(hass, entry, "builtin")
        await converted(hass, await go_on(hass, form, **INT4 | {"weights": weights}))
        assert entry.runtime_data.engine.status().weights == weights
        files = [path for path in kept(hass) if path.is_file()]
        assert files == kept_of(hass, entry.data)
        assert len(files) == 1
    form = await reconfigure(hass, entry, "builtin")
    await go_on(hass, form, **INT4 | {"weights": "auto"})
    await hass.async_block_till_done()
    assert kept(hass) == []


async def test_a_reconfiguration_that_is_given_up_changes_nothing(
    hass: HomeAssistant, add_entry: AddEntry, held: HeldConversion
) -> None:
    entry = await add_entry()
    engine, before = entry.runtime_data.engine, entry.data
    progress = await go_on(hass, await reconfigure(hass, entry, "builtin"), **INT4)
    await held.until_held(hass)
    hass.config_entries.flow.async_abort(progress["flow_id"])
    await hass.async_block_till_done(wait_background_tasks=True)
    assert entry.data == before
    assert entry.runtime_data.engine is engine
    assert kept(hass) == []


async def test_an_entry_that_is_removed_meanwhile_leaves_nothing(
    hass: HomeAssistant, add_entry: AddEntry, held: HeldConversion
) -> None:
    entry = await add_entry()
    progress = await go_on(hass, await reconfigure(hass, entry, "builtin"), **INT4)
    await held.until_held(hass)
    await hass.config_entries.async_remove(entry.entry_id)
    held.go_on()
    result = await converted(hass, progress)
    assert (result["type"], result["reason"]) == ("abort", "entry_removed")
    assert kept(hass) == []


async def test_an_entry_loses_nothing_to_a_form_that_is_open(
    hass: HomeAssistant, add_entry: AddEntry, folder: Path, held: HeldConversion
) -> None:
    """And the form nothing to an entry that is loaded meanwhile."""
    progress = await go_on(hass, await start(hass, "builtin"), **INT4)
    await held.until_held(hass)
    other = await add_entry(model=str(folder))
    assert [path for path in kept(hass) if path.is_file()]
    held.go_on()
    await converted(hass, progress)
    (entry,) = set(hass.config_entries.async_entries(DOMAIN)) - {other}
    assert entry.runtime_data.engine.status().weights == "int4"
    assert len(held.converted) == len(set(held.converted))
    await finish(hass)


async def test_a_downloaded_model_is_converted_too(
    hass: HomeAssistant, site: FakeHub
) -> None:
    download = await go_on(hass, await look(hass), **INT4)
    assert download["progress_action"] == "download"
    await converted(hass, await after_progress(hass, download))
    (entry,) = hass.config_entries.async_entries(DOMAIN)
    assert entry.runtime_data.engine.status().weights == "int4"
    assert len(kept_of(hass, entry.data)) == 1


async def test_a_download_is_not_repeated_where_its_conversion_failed(
    hass: HomeAssistant, site: FakeHub
) -> None:
    with patch.object(Engine, "convert", side_effect=ConversionError("no room")):
        download = await go_on(hass, await look(hass), **INT4)
        form = await converted(hass, await after_progress(hass, download))
    assert form["errors"] == {"weights": "weights_not_kept"}
    site.requests.clear()
    await converted(hass, await go_on(hass, form, **INT4))
    (entry,) = hass.config_entries.async_entries(DOMAIN)
    assert entry.state is ConfigEntryState.LOADED
    assert site.requests == []


async def test_the_disk_must_have_room_for_model_and_weights(
    hass: HomeAssistant, site: FakeHub
) -> None:
    """A download of 13 MB leaves no GiB for prompts where one was free."""
    form = await look(hass)
    usage = shutil.disk_usage("/")._replace(free=2 * GIB)
    with patch("shutil.disk_usage", return_value=usage):
        form = await go_on(hass, form, **SETTINGS | {"disk_cache_gib": 1})
    assert form["errors"] == {"disk_cache_gib": "disk_cache_too_large"}
    assert form["description_placeholders"]["most"] == "0.75"


async def test_reconfiguring_an_entry_in_preparation(
    hass: HomeAssistant, held: HeldConversion
) -> None:
    """Whoever does not want to wait takes the weights as they are; the conversion ends."""
    entry = MockConfigEntry(
        domain=DOMAIN, minor_version=2, data={**INT4, "model": "builtin"}
    )
    entry.add_to_hass(hass)
    assert await hass.config_entries.async_setup(entry.entry_id)
    await held.until_held(hass)
    form = await reconfigure(hass, entry, "builtin")
    await go_on(hass, form, **INT4 | {"weights": "auto"})
    await hass.async_block_till_done()
    assert entry.runtime_data.engine.status().is_running
    assert kept(hass) == []
    await finish(hass)
