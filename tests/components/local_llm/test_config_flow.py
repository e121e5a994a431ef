"""Setting up an engine: every way through the forms."""

from collections.abc import Callable
import os
from pathlib import Path
import shutil
import sys
from unittest.mock import patch

import pytest
from pytest_homeassistant_custom_component.common import MockConfigEntry
import torch

from custom_components.local_llm.const import BUILTIN_MODEL, DOMAIN
from homeassistant.config_entries import SOURCE_USER, ConfigEntryState, ConfigFlowResult
from homeassistant.core import HomeAssistant
from homeassistant.data_entry_flow import FlowResultType, InvalidData
from local_llm_engine import service
from local_llm_engine.builtin import NANO_PATH
from local_llm_engine.config import GIB, EngineConfig
from local_llm_engine.service import DeviceMemory, Engine

from .conftest import AGENT, AddEntry, ask, speech, suggested_values

SETTINGS = {
    "device": "cpu",
    "prompt_cache_gib": 0.5,
    "disk_cache_gib": 0.25,
    "context_length": 4096,
    "weights": "auto",
    "kv_cache": "bf16",
}


@pytest.fixture(autouse=True)
def _home(home: None) -> None:
    """Set up what a real Home Assistant always has."""


@pytest.fixture(autouse=True)
def _large_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have 64 GiB of memory, half of it unused, whatever machine this is."""
    set_memory(monkeypatch, 64, 32)


def set_memory(
    monkeypatch: pytest.MonkeyPatch, total_gib: float, available_gib: float
) -> None:
    memory = DeviceMemory(int(total_gib * GIB), int(available_gib * GIB))
    monkeypatch.setattr(service, "device_memory", lambda device: memory)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A model folder that may be spoilt."""
    return shutil.copytree(NANO_PATH, tmp_path / "model")


async def start(hass: HomeAssistant, choice: str) -> ConfigFlowResult:
    menu = await hass.config_entries.flow.async_init(
        DOMAIN, context={"source": SOURCE_USER}
    )
    assert menu["type"] is FlowResultType.MENU
    assert menu["menu_options"] == ["builtin", "folder", "hub"]
    return await go_on(hass, menu, next_step_id=choice)


async def go_on(
    hass: HomeAssistant, step: ConfigFlowResult, **user_input: object
) -> ConfigFlowResult:
    return await hass.config_entries.flow.async_configure(step["flow_id"], user_input)


async def finish(hass: HomeAssistant) -> None:
    """Leave nothing behind that runs."""
    await hass.async_block_till_done(wait_background_tasks=True)
    for entry in hass.config_entries.async_entries(DOMAIN):
        await hass.config_entries.async_remove(entry.entry_id)


async def test_builtin_model(hass: HomeAssistant) -> None:
    form = await start(hass, "builtin")
    assert (form["type"], form["step_id"]) == (FlowResultType.FORM, "engine")
    assert form["description_placeholders"] == {
        "architecture": "qwen3_5_text",
        "cores": str(os.process_cpu_count()),
        "satellite": "0.5 MiB",
        "context": "16384",
        "context_length": "32768",
        "detail": "",
        "dtype": "float32",
        "gpu": "–",
        "kv": "2.0 MiB",
        "kv_bf16": "2.0 MiB",
        "kv_int8": "0.5 MiB",
        "model": "nano",
        "ram": "64.00 GiB / 32.00 GiB",
        "satellites": "0",
        "satellites_cache": "0.01 GiB",
        "slots": "0.09 GiB",
        "weights": "0.02 GiB",
        "weights_auto": "0.02 GiB",
        "weights_bf16": "0.02 GiB",
        "weights_int4": "0.00 GiB",
        "weights_int8": "0.00 GiB",
    }
    result = await go_on(hass, form, **SETTINGS)
    await hass.async_block_till_done()
    assert result["type"] is FlowResultType.CREATE_ENTRY
    assert result["title"] == "Local LLM (nano)"
    assert result["data"] == {"model": BUILTIN_MODEL, **SETTINGS}
    agent, task = result["subentries"]
    assert (agent["subentry_type"], agent["title"]) == ("conversation", "Local LLM")
    assert agent["data"]["temperature"] == 0
    assert (task["subentry_type"], task["title"]) == (
        "ai_task_data",
        "Local LLM AI Task",
    )
    assert hass.states.get("ai_task.local_llm_ai_task") is not None
    assert result["result"].state is ConfigEntryState.LOADED
    assert hass.states.get(AGENT) is not None
    assert speech(await ask(hass, "hello"))
    await finish(hass)


async def test_what_the_forms_suggest_is_enough(hass: HomeAssistant) -> None:
    form = await start(hass, "builtin")
    with patch("custom_components.local_llm.async_setup_entry", return_value=True):
        result = await go_on(hass, form)
    assert result["data"] == {
        "model": BUILTIN_MODEL,
        "device": "cpu",
        "prompt_cache_gib": 8.0,
        "disk_cache_gib": 4.0,
        "context_length": 16_384,
        "weights": "auto",
        "kv_cache": "bf16",
    }


async def test_folder(hass: HomeAssistant, folder: Path) -> None:
    form = await start(hass, "folder")
    assert (form["type"], form["step_id"]) == (FlowResultType.FORM, "path")
    form = await go_on(hass, form, model=f" {folder}/ ")
    assert form["step_id"] == "engine"
    result = await go_on(hass, form, **SETTINGS)
    await hass.async_block_till_done()
    assert result["title"] == "Local LLM (model)"
    assert result["data"]["model"] == str(folder)
    assert result["subentries"][0]["data"]["temperature"] > 0
    assert result["result"].state is ConfigEntryState.LOADED
    await finish(hass)


async def test_folder_within_home_assistants(hass: HomeAssistant, folder: Path) -> None:
    form = await start(hass, "folder")
    with patch.object(hass.config, "config_dir", str(folder.parent)):
        form = await go_on(hass, form, model="model")
    assert form["step_id"] == "engine"


def _missing(folder: Path) -> None:
    shutil.rmtree(folder)


def _no_config(folder: Path) -> None:
    (folder / "config.json").unlink()


def _unknown_kind(folder: Path) -> None:
    config = folder / "config.json"
    config.write_text(config.read_text().replace("qwen3_5_text", "mystery_9"))


def _cut_weights(folder: Path) -> None:
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-16])


def _pointer(folder: Path) -> None:
    (folder / "model.safetensors").write_bytes(
        b"version https://git-lfs.github.com/spec/v1\noid sha256:1\nsize 2\n"
    )


def _endless_header(folder: Path) -> None:
    with (folder / "model.safetensors").open("r+b") as weights:
        weights.write((126 << 20).to_bytes(8, "little"))


def _trailing_bytes(folder: Path) -> None:
    with (folder / "model.safetensors").open("ab") as weights:
        weights.write(bytes(16))


def _no_template(folder: Path) -> None:
    (folder / "chat_template.jinja").unlink()


def _no_tokenizer(folder: Path) -> None:
    (folder / "tokenizer.json").unlink()


@pytest.mark.parametrize(
    ("spoil", "error"),
    [
        (_missing, "model_unreadable"),
        (_no_config, "model_unreadable"),
        (_unknown_kind, "model_unsupported"),
        (_cut_weights, "weights_damaged"),
        (_pointer, "weights_damaged"),
        (_endless_header, "weights_damaged"),
        (_trailing_bytes, "weights_damaged"),
        (_no_template, "template_unusable"),
        (_no_tokenizer, "template_unusable"),
    ],
    ids=[
        "missing",
        "no config",
        "unknown",
        "cut",
        "LFS pointer",
        "endless header",
        "trailing bytes",
        "no template",
        "no tokenizer",
    ],
)
async def test_a_folder_that_cannot_be_loaded_is_told_in_words(
    hass: HomeAssistant, folder: Path, spoil: Callable[[Path], None], error: str
) -> None:
    spoil(folder)
    form = await go_on(hass, await start(hass, "folder"), model=str(folder))
    assert form["step_id"] == "path"
    assert form["errors"] == {"model": error}
    assert form["description_placeholders"]["detail"]
    shutil.copytree(NANO_PATH, folder, dirs_exist_ok=True)
    form = await go_on(hass, form, model=str(folder))
    assert form["step_id"] == "engine"


async def test_an_engine_that_cannot_be_imported_is_told(
    hass: HomeAssistant, folder: Path
) -> None:
    with patch.dict(sys.modules, {"local_llm_engine.service": None}):
        result = await start(hass, "builtin")
        assert result["type"] is FlowResultType.ABORT
        assert result["reason"] == "torch_broken"
        assert (
            "local_llm_engine.service" in result["description_placeholders"]["detail"]
        )
        form = await go_on(hass, await start(hass, "folder"), model=str(folder))
        assert form["errors"] == {"model": "torch_broken"}


@pytest.mark.parametrize(
    ("available_gib", "settings", "error"),
    [
        (0.5, {}, {"device": "model_too_large"}),
        (0.53, {"context_length": 16_384}, {"context_length": "context_too_large"}),
        (0.75, {}, {"prompt_cache_gib": "prompt_cache_too_large"}),
    ],
    ids=["weights", "context", "cache"],
)
async def test_what_does_not_fit_is_refused_where_it_can_be_changed(
    hass: HomeAssistant,
    monkeypatch: pytest.MonkeyPatch,
    available_gib: float,
    settings: dict[str, object],
    error: dict[str, str],
) -> None:
    form = await start(hass, "builtin")
    set_memory(monkeypatch, 8, available_gib)
    form = await go_on(hass, form, **SETTINGS | settings)
    assert form["step_id"] == "engine"
    assert form["errors"] == error
    assert form["description_placeholders"]["needed"].endswith(" GiB")
    fitting = {"prompt_cache_gib": 0, "context_length": 1024}
    set_memory(monkeypatch, 8, max(available_gib, 0.53))
    with patch("custom_components.local_llm.async_setup_entry", return_value=True):
        result = await go_on(hass, form, **SETTINGS | fitting)
    assert result["type"] is FlowResultType.CREATE_ENTRY


async def test_a_small_machine_is_asked_for_what_fits(
    hass: HomeAssistant, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_memory(monkeypatch, 4, 2)
    form = await start(hass, "builtin")
    with patch("custom_components.local_llm.async_setup_entry", return_value=True):
        result = await go_on(hass, form)
    assert result["data"]["prompt_cache_gib"] == 1.25
    assert result["data"]["context_length"] == 16_384


@pytest.mark.parametrize("name", ["~/model", "{home}/link", "{home}/./link/../model"])
async def test_a_folder_has_one_name(
    hass: HomeAssistant, folder: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv("HOME", str(folder.parent))
    (folder.parent / "link").symlink_to(folder)
    form = await start(hass, "folder")
    form = await go_on(hass, form, model=name.format(home=folder.parent))
    with patch("custom_components.local_llm.async_setup_entry", return_value=True):
        result = await go_on(hass, form, **SETTINGS)
    assert result["data"]["model"] == str(folder)


async def test_a_person_who_is_not_here_is_a_folder_that_is_not(
    hass: HomeAssistant,
) -> None:
    form = await go_on(hass, await start(hass, "folder"), model="~nobody-here/model")
    assert form["errors"] == {"model": "model_unreadable"}


async def test_a_missing_graphics_card_is_told(hass: HomeAssistant) -> None:
    form = await start(hass, "builtin")
    with patch.object(torch.cuda, "is_available", return_value=False):
        form = await go_on(hass, form, **SETTINGS | {"device": "cuda"})
    assert form["step_id"] == "engine"
    assert form["errors"] == {"device": "cuda_missing"}
    with patch("custom_components.local_llm.async_setup_entry", return_value=True):
        result = await go_on(hass, form, **SETTINGS)
    assert result["type"] is FlowResultType.CREATE_ENTRY


@pytest.mark.parametrize(
    "wrong",
    [
        {"context_length": 32_769},
        {"prompt_cache_gib": -1},
        {"disk_cache_gib": -1},
        {"device": "tpu"},
    ],
    ids=["context", "memory", "disk", "device"],
)
async def test_values_out_of_range_are_refused(
    hass: HomeAssistant, wrong: dict[str, object]
) -> None:
    form = await start(hass, "builtin")
    with pytest.raises(InvalidData):
        await go_on(hass, form, **SETTINGS | wrong)


async def test_one_model_on_one_device_is_set_up_once(
    hass: HomeAssistant, add_entry: AddEntry, folder: Path
) -> None:
    await add_entry()
    result = await go_on(hass, await start(hass, "builtin"), **SETTINGS)
    assert result["type"] is FlowResultType.ABORT
    assert result["reason"] == "already_configured"
    form = await go_on(hass, await start(hass, "folder"), model=str(folder))
    with patch("custom_components.local_llm.async_setup_entry", return_value=True):
        result = await go_on(hass, form, **SETTINGS)
    assert result["type"] is FlowResultType.CREATE_ENTRY


async def reconfigure(
    hass: HomeAssistant, entry: MockConfigEntry, choice: str
) -> ConfigFlowResult:
    menu = await entry.start_reconfigure_flow(hass)
    assert menu["type"] is FlowResultType.MENU
    return await go_on(hass, menu, next_step_id=choice)


async def test_reconfigure_loads_the_new_model_once(
    hass: HomeAssistant, add_entry: AddEntry, folder: Path
) -> None:
    entry = await add_entry()
    old = entry.runtime_data.engine
    with patch.object(Engine, "load", wraps=Engine.load) as load:
        form = await go_on(
            hass, await reconfigure(hass, entry, "folder"), model=str(folder)
        )
        assert suggested_values(form) == {
            "device": "cpu",
            "prompt_cache_gib": 0.0625,
            "disk_cache_gib": 0.0625,
            "context_length": 8192,
            "weights": "auto",
            "kv_cache": "bf16",
        }
        result = await go_on(hass, form, **SETTINGS)
        await hass.async_block_till_done()
    assert result["reason"] == "reconfigure_successful"
    assert load.call_count == 1
    assert entry.data == {"model": str(folder), **SETTINGS}
    assert entry.title == "Local LLM (model)"
    assert entry.state is ConfigEntryState.LOADED
    assert entry.runtime_data.engine is not old
    status = entry.runtime_data.engine.status()
    assert status.context_length == 4096
    assert status.disk_cache_limit_bytes == GIB // 4
    assert hass.states.get(AGENT) is not None


@pytest.mark.parametrize("is_loaded", [True, False], ids=["loaded", "not loaded"])
async def test_reconfigure_counts_what_the_old_engine_gives_back(
    hass: HomeAssistant,
    add_entry: AddEntry,
    monkeypatch: pytest.MonkeyPatch,
    is_loaded: bool,
) -> None:
    entry = await add_entry()
    await ask(hass, "hello")
    held = entry.runtime_data.engine.status().prompt_cache_bytes
    assert held > 0
    if not is_loaded:
        await hass.config_entries.async_unload(entry.entry_id)
    plan = Engine.plan(NANO_PATH, EngineConfig(context_length=4096))
    needed = plan.device_bytes + int(SETTINGS["prompt_cache_gib"] * GIB) + GIB // 2
    set_memory(monkeypatch, 8, (needed - held) / GIB)
    form = await reconfigure(hass, entry, "builtin")
    with patch("custom_components.local_llm.async_setup_entry", return_value=True):
        result = await go_on(hass, form, **SETTINGS)
        await hass.async_block_till_done()
    expected = {True: None, False: {"prompt_cache_gib": "prompt_cache_too_large"}}
    assert result.get("errors") == expected[is_loaded]


async def test_reconfigure_suggests_the_default_to_an_entry_from_before(
    hass: HomeAssistant, folder: Path
) -> None:
    before = {key: SETTINGS[key] for key in SETTINGS if key != "disk_cache_gib"}
    entry = MockConfigEntry(domain=DOMAIN, data={"model": str(folder), **before})
    entry.add_to_hass(hass)
    form = await reconfigure(hass, entry, "builtin")
    with patch("custom_components.local_llm.async_setup_entry", return_value=True):
        await go_on(hass, form, device="cpu", prompt_cache_gib=0, context_length=4096)
    assert entry.data["disk_cache_gib"] == 4.0


async def test_reconfigure_can_take_the_disk_away(
    hass: HomeAssistant, add_entry: AddEntry
) -> None:
    entry = await add_entry()
    with patch.object(Engine, "load", wraps=Engine.load) as load:
        form = await reconfigure(hass, entry, "builtin")
        await go_on(hass, form, **SETTINGS | {"disk_cache_gib": 0})
        await hass.async_block_till_done()
    assert load.call_count == 1
    assert entry.runtime_data.engine.status().disk_cache_limit_bytes == 0


async def test_reconfigure_mends_an_entry_that_is_not_loaded(
    hass: HomeAssistant, folder: Path
) -> None:
    entry = MockConfigEntry(
        domain=DOMAIN, data={"model": str(folder / "gone"), **SETTINGS}
    )
    entry.add_to_hass(hass)
    assert not await hass.config_entries.async_setup(entry.entry_id)
    assert entry.state is ConfigEntryState.SETUP_ERROR
    with patch.object(Engine, "load", wraps=Engine.load) as load:
        form = await go_on(
            hass, await reconfigure(hass, entry, "folder"), model=str(folder)
        )
        await go_on(hass, form, **SETTINGS)
        await hass.async_block_till_done()
    assert load.call_count == 1
    assert entry.state is ConfigEntryState.LOADED
    await finish(hass)


async def test_reconfigure_does_not_double_another_entry(
    hass: HomeAssistant, add_entry: AddEntry, folder: Path
) -> None:
    await add_entry()
    other = MockConfigEntry(domain=DOMAIN, data={"model": str(folder), **SETTINGS})
    other.add_to_hass(hass)
    result = await go_on(hass, await reconfigure(hass, other, "builtin"), **SETTINGS)
    assert result["reason"] == "already_configured"
    assert other.data["model"] == str(folder)


async def test_reconfigure_without_a_change_loads_nothing(
    hass: HomeAssistant, add_entry: AddEntry
) -> None:
    entry = await add_entry()
    engine = entry.runtime_data.engine
    settings = {key: value for key, value in entry.data.items() if key != "model"}
    result = await go_on(hass, await reconfigure(hass, entry, "builtin"), **settings)
    await hass.async_block_till_done()
    assert result["reason"] == "reconfigure_successful"
    assert entry.runtime_data.engine is engine


@pytest.mark.parametrize("choice", ["builtin", "folder"])
async def test_an_entry_that_is_removed_ends_its_forms_in_words(
    hass: HomeAssistant, add_entry: AddEntry, folder: Path, choice: str
) -> None:
    entry = await add_entry()
    menu = await entry.start_reconfigure_flow(hass)
    await hass.config_entries.async_remove(entry.entry_id)
    step = await go_on(hass, menu, next_step_id=choice)
    for _ in range(choice == "folder"):
        step = await go_on(hass, step, model=str(folder))
    assert (step["type"], step["reason"]) == (FlowResultType.ABORT, "entry_removed")


async def test_an_entry_that_is_removed_while_its_settings_are_open_is_told(
    hass: HomeAssistant, add_entry: AddEntry
) -> None:
    entry = await add_entry()
    form = await reconfigure(hass, entry, "builtin")
    await hass.config_entries.async_remove(entry.entry_id)
    result = await go_on(hass, form, **SETTINGS)
    assert (result["type"], result["reason"]) == (
        FlowResultType.ABORT,
        "entry_removed",
    )
    assert hass.config_entries.flow.async_progress() == []


async def test_an_entry_that_is_removed_while_its_options_are_open_is_told(
    hass: HomeAssistant, add_entry: AddEntry
) -> None:
    entry = await add_entry()
    form = await hass.config_entries.options.async_init(entry.entry_id)
    await hass.config_entries.async_remove(entry.entry_id)
    result = await hass.config_entries.options.async_configure(
        form["flow_id"], {"warm_up": False}
    )
    assert (result["type"], result["reason"]) == (
        FlowResultType.ABORT,
        "entry_removed",
    )


async def test_options_keep_the_engine(
    hass: HomeAssistant, add_entry: AddEntry
) -> None:
    entry = await add_entry(options={})
    await hass.async_block_till_done(wait_background_tasks=True)
    engine = entry.runtime_data.engine
    form = await hass.config_entries.options.async_init(entry.entry_id)
    assert form["step_id"] == "init"
    result = await hass.config_entries.options.async_configure(
        form["flow_id"], {"warm_up": False}
    )
    await hass.async_block_till_done()
    assert result["type"] is FlowResultType.CREATE_ENTRY
    assert entry.options == {"warm_up": False}
    assert entry.runtime_data.engine is engine
    assert entry.state is ConfigEntryState.LOADED


async def test_an_engine_may_have_agents_of_both_kinds(
    hass: HomeAssistant, add_entry: AddEntry
) -> None:
    entry = await add_entry()
    assert set(entry.supported_subentry_types) == {"ai_task_data", "conversation"}
