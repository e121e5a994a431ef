"""A model that nobody uses any more is told, and removed only when somebody says so."""

from http import HTTPStatus
from pathlib import Path
import shutil
from typing import Any
from unittest.mock import patch

import pytest
from pytest_homeassistant_custom_component.common import MockConfigEntry
from pytest_homeassistant_custom_component.typing import ClientSessionGenerator

from custom_components.local_llm.const import DOMAIN
from custom_components.local_llm.hub.models import held, models_folder
from homeassistant.core import HomeAssistant
from homeassistant.helpers import issue_registry as ir
from homeassistant.setup import async_setup_component
from local_llm_engine.builtin import NANO_PATH

from ..conftest import AddEntry

ISSUE = "model_left_somebody--model"


@pytest.fixture
def model(hass: HomeAssistant) -> Path:
    """A model as it lies where downloads are kept."""
    return shutil.copytree(NANO_PATH, models_folder(hass) / "somebody--model")


def is_here(folder: Path) -> bool:
    return folder.is_dir()


def left(hass: HomeAssistant) -> dict[str, ir.IssueEntry]:
    return {
        issue_id: issue
        for (domain, issue_id), issue in ir.async_get(hass).issues.items()
        if domain == DOMAIN
    }


async def test_what_an_entry_uses_is_not_left(
    hass: HomeAssistant, add_entry: AddEntry, model: Path
) -> None:
    entry = await add_entry(model=str(model))
    assert left(hass) == {}
    await hass.config_entries.async_remove(entry.entry_id)
    (issue,) = left(hass).values()
    assert issue.severity is ir.IssueSeverity.WARNING
    assert issue.translation_placeholders == {
        "folder": str(model),
        "model": "somebody/model",
        "size": "0.01 GiB",
    }
    assert is_here(model)
    await add_entry(model=str(model))
    assert left(hass) == {}


async def test_another_model_leaves_the_first(
    hass: HomeAssistant, add_entry: AddEntry, model: Path
) -> None:
    entry = await add_entry(model=str(model))
    hass.config_entries.async_update_entry(
        entry, data={**entry.data, "model": "builtin"}
    )
    await hass.async_block_till_done()
    assert set(left(hass)) == {ISSUE}


async def test_what_is_being_downloaded_is_not_left(
    hass: HomeAssistant, add_entry: AddEntry
) -> None:
    unfinished = models_folder(hass) / "somebody--model.partial"
    with held(unfinished):
        entry = await add_entry()
        assert left(hass) == {}
    assert await hass.config_entries.async_reload(entry.entry_id)
    (issue,) = left(hass).values()
    assert issue.translation_placeholders["model"] == "somebody/model"


async def fix(
    hass: HomeAssistant, hass_client: ClientSessionGenerator, choice: str
) -> dict[str, Any]:
    """Go through the repair as a person does."""
    assert await async_setup_component(hass, "repairs", {})
    client = await hass_client()
    url = "/api/repairs/issues/fix"
    answer = await client.post(url, json={"handler": DOMAIN, "issue_id": ISSUE})
    assert answer.status == HTTPStatus.OK
    menu = await answer.json()
    assert menu["menu_options"] == ["remove", "ignore"]
    answer = await client.post(
        f"{url}/{menu['flow_id']}", json={"next_step_id": choice}
    )
    result: dict[str, Any] = await answer.json()
    return result


async def test_it_is_removed_when_somebody_says_so(
    hass: HomeAssistant,
    add_entry: AddEntry,
    model: Path,
    hass_client: ClientSessionGenerator,
) -> None:
    await add_entry()
    result = await fix(hass, hass_client, "remove")
    assert result["type"] == "create_entry"
    assert not is_here(model)
    assert left(hass) == {}


async def test_it_is_kept_when_somebody_says_so(
    hass: HomeAssistant,
    add_entry: AddEntry,
    model: Path,
    hass_client: ClientSessionGenerator,
) -> None:
    await add_entry()
    result = await fix(hass, hass_client, "ignore")
    assert result["reason"] == "ignored"
    assert is_here(model)
    assert left(hass)[ISSUE].dismissed_version


@pytest.mark.parametrize("reason", ["used", "elsewhere"])
async def test_nothing_else_is_removed(
    hass: HomeAssistant,
    add_entry: AddEntry,
    model: Path,
    hass_client: ClientSessionGenerator,
    tmp_path: Path,
    reason: str,
) -> None:
    await add_entry()
    if reason == "used":
        entry = MockConfigEntry(domain=DOMAIN, data={"model": str(model)})
        entry.add_to_hass(hass)
    else:
        left(hass)[ISSUE].data["folder"] = str(tmp_path)
    await fix(hass, hass_client, "remove")
    assert is_here(model)
    assert is_here(tmp_path)


async def test_what_somebody_has_begun_to_download_again_is_not_removed(
    hass: HomeAssistant,
    add_entry: AddEntry,
    model: Path,
    hass_client: ClientSessionGenerator,
    caplog: pytest.LogCaptureFixture,
) -> None:
    await add_entry()
    with held(model):
        await fix(hass, hass_client, "remove")
    assert is_here(model)
    assert "is being downloaded, so it stays" in caplog.text


async def test_a_disk_that_keeps_it_is_told(
    hass: HomeAssistant,
    add_entry: AddEntry,
    model: Path,
    hass_client: ClientSessionGenerator,
    caplog: pytest.LogCaptureFixture,
) -> None:
    await add_entry()
    with patch(
        "custom_components.local_llm.hub.left_models.shutil.rmtree",
        side_effect=PermissionError("no"),
    ):
        await fix(hass, hass_client, "remove")
    assert f"Could not remove the model in {model}: no" in caplog.text
