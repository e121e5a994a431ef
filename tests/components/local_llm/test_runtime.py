"""What an entry's engine keeps on disk: where it lies, that it outlives a restart, and when it goes."""

import logging
import os
from pathlib import Path, PurePath
import shutil

import pytest
from pytest_homeassistant_custom_component.common import MockConfigEntry

from custom_components.local_llm.const import CONF_DISK_CACHE_GIB, DOMAIN
from custom_components.local_llm.runtime import cache_folder
from homeassistant.components.backup.const import EXCLUDE_FROM_BACKUP
from homeassistant.config_entries import ConfigEntryState
from homeassistant.core import HomeAssistant
from local_llm_engine.builtin import NANO_PATH
from local_llm_engine.config import GIB, EngineConfig
from local_llm_engine.service import Engine

from .conftest import AddEntry, ask, speech
from .warming.test_warm_up import TEMPLATE_TOKENS, warm_up


def files_in(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


def left_out_of_backups(path: PurePath) -> bool:
    """Whether a path within Home Assistant's folder, and with it all that is below, is left out."""
    return any(path.full_match(pattern) for pattern in EXCLUDE_FROM_BACKUP)


async def restart(hass: HomeAssistant, entry: MockConfigEntry) -> None:
    """Let the engine go and load it anew: nothing in memory stays."""
    assert await hass.config_entries.async_unload(entry.entry_id)
    assert await hass.config_entries.async_setup(entry.entry_id)
    await hass.async_block_till_done()


async def test_home_assistants_backups_leave_the_folder_out(
    hass: HomeAssistant, entry: MockConfigEntry
) -> None:
    folder = cache_folder(hass, entry).relative_to(hass.config.config_dir)
    assert left_out_of_backups(PurePath(*folder.parts[:2]))


@pytest.mark.parametrize("satellite", ["Kitchen Voice", "Bedroom Voice", None])
async def test_after_a_restart_a_known_satellites_question_reads_only_its_own_words(
    hass: HomeAssistant, entry: MockConfigEntry, satellite: str | None
) -> None:
    await warm_up(hass)
    await restart(hass, entry)
    status = entry.runtime_data.engine.status()
    assert (status.records, status.prompt_cache_bytes, status.notices) == ((), 0, ())
    answer = await ask(hass, "Turn on the Office Floor Lamp", satellite)
    assert speech(answer) == "Turned on the Office Floor Lamp."
    record = entry.runtime_data.engine.status().records[0]
    assert record.resumed_from == "disk"
    assert record.usage.reused_tokens > 90
    assert record.usage.reread_tokens <= record.usage.question_tokens + TEMPLATE_TOKENS


async def test_after_a_restart_the_warm_up_reads_nothing_again(
    hass: HomeAssistant, entry: MockConfigEntry
) -> None:
    await warm_up(hass)
    await restart(hass, entry)
    warm = await warm_up(hass)
    assert max(prompt["reread_tokens"] for prompt in warm) <= TEMPLATE_TOKENS


async def test_only_a_removed_entrys_files_go(
    hass: HomeAssistant, entry: MockConfigEntry, add_entry: AddEntry
) -> None:
    other = await add_entry()
    folders = [cache_folder(hass, each) for each in (entry, other)]
    assert folders[0] != folders[1]
    await warm_up(hass)
    assert await hass.config_entries.async_unload(entry.entry_id)
    assert all(files_in(folder) for folder in folders)
    await hass.config_entries.async_remove(entry.entry_id)
    assert not folders[0].exists()
    assert files_in(folders[1])
    await hass.config_entries.async_remove(other.entry_id)
    assert not folders[1].parent.exists()


async def test_no_disk_space_keeps_nothing(
    hass: HomeAssistant, house: None, add_entry: AddEntry
) -> None:
    entry = await add_entry(disk_cache_gib=0)
    await warm_up(hass)
    assert entry.runtime_data.engine.status().disk_cache_limit_bytes == 0
    assert not cache_folder(hass, entry).exists()


async def test_disk_space_taken_away_keeps_nothing_of_earlier(
    hass: HomeAssistant, entry: MockConfigEntry
) -> None:
    await warm_up(hass)
    hass.config_entries.async_update_entry(
        entry, data={**entry.data, CONF_DISK_CACHE_GIB: 0}
    )
    await hass.async_block_till_done()
    assert entry.runtime_data.engine.status().disk_cache_limit_bytes == 0
    assert not cache_folder(hass, entry).exists()


async def test_another_model_takes_the_place_of_what_the_last_one_kept_quietly(
    hass: HomeAssistant,
    entry: MockConfigEntry,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    await warm_up(hass)
    kept = set(files_in(cache_folder(hass, entry)))
    model = shutil.copytree(NANO_PATH, tmp_path / "model")
    os.utime(model / "model.safetensors")
    caplog.clear()
    hass.config_entries.async_update_entry(
        entry, data={**entry.data, "model": str(model)}
    )
    await hass.async_block_till_done()
    assert entry.runtime_data.engine.status().notices == ()
    assert not kept & set(files_in(cache_folder(hass, entry)))
    assert speech(await ask(hass, "what time is it")) == "It is 14:05."
    assert [record for record in caplog.records if record.levelno > logging.INFO] == []


async def test_the_plan_of_satellites_is_what_their_prompts_take(
    hass: HomeAssistant, entry: MockConfigEntry
) -> None:
    """Checkpoints on a coarser grid than planned cost less; never more than is planned, nor less than half."""
    warm = await warm_up(hass)
    tokens = max(prompt["prompt_tokens"] for prompt in warm)
    config = EngineConfig(context_length=8192, prompt_cache_bytes=GIB // 16)
    plan = Engine.plan(NANO_PATH, config)
    planned = plan.satellites_bytes(len(warm) - 1, tokens)
    assert planned / 2 < entry.runtime_data.engine.status().prompt_cache_bytes < planned


async def test_a_folder_that_cannot_be_used_costs_only_what_it_would_keep(
    hass: HomeAssistant,
    entry: MockConfigEntry,
    caplog: pytest.LogCaptureFixture,
) -> None:
    folder = cache_folder(hass, entry)
    assert await hass.config_entries.async_unload(entry.entry_id)
    folder.rmdir()
    folder.write_text("no folder")
    assert await hass.config_entries.async_setup(entry.entry_id)
    assert entry.state is ConfigEntryState.LOADED
    (notice,) = entry.runtime_data.engine.status().notices
    assert "no prompts are kept on disk" in notice
    assert speech(await ask(hass, "what time is it")) == "It is 14:05."
    await hass.config_entries.async_remove(entry.entry_id)
    assert not hass.config_entries.async_entries(DOMAIN)
    assert f"Could not remove the prompt cache in {folder}" in caplog.text
