"""Forms of agents and AI tasks whose entry or sub-entry somebody removes meanwhile end in words."""

from collections.abc import Callable
from typing import Any

import pytest
from pytest_homeassistant_custom_component.common import MockConfigEntry

from custom_components.local_llm.const import DOMAIN
from custom_components.local_llm.settings import default_agent_data, default_task_data
from homeassistant.config_entries import SOURCE_RECONFIGURE, SOURCE_USER
from homeassistant.core import HomeAssistant
from homeassistant.data_entry_flow import FlowResultType

from ..conftest import AddScripted
from ..scripted import says

KINDS = {"conversation": default_agent_data, "ai_task_data": default_task_data}


@pytest.fixture
async def entry(hass: HomeAssistant, scripted: AddScripted) -> MockConfigEntry:
    await scripted(says("Yes."))
    (entry,) = hass.config_entries.async_entries(DOMAIN)
    return entry


async def told(hass: HomeAssistant, form: Any, data: dict[str, Any]) -> None:
    """Send a form, and be told that what it is about is gone."""
    result = await hass.config_entries.subentries.async_configure(form["flow_id"], data)
    assert (result["type"], result["reason"]) == (FlowResultType.ABORT, "entry_removed")
    assert hass.config_entries.subentries.async_progress() == []


@pytest.mark.parametrize(("kind", "defaults"), KINDS.items())
async def test_a_new_one_of_an_entry_that_is_gone(
    hass: HomeAssistant,
    entry: MockConfigEntry,
    kind: str,
    defaults: Callable[[str], dict[str, Any]],
) -> None:
    form = await hass.config_entries.subentries.async_init(
        (entry.entry_id, kind), context={"source": SOURCE_USER}
    )
    await hass.config_entries.async_remove(entry.entry_id)
    await told(hass, form, {"name": "New", **defaults("builtin")})


@pytest.mark.parametrize("with_entry", [True, False], ids=["with its entry", "alone"])
async def test_one_that_is_gone(
    hass: HomeAssistant, entry: MockConfigEntry, with_entry: bool
) -> None:
    (subentry,) = entry.subentries.values()
    form = await hass.config_entries.subentries.async_init(
        (entry.entry_id, "conversation"),
        context={"source": SOURCE_RECONFIGURE, "subentry_id": subentry.subentry_id},
    )
    hass.config_entries.async_remove_subentry(entry, subentry.subentry_id)
    for _ in range(with_entry):
        await hass.config_entries.async_remove(entry.entry_id)
    await told(hass, form, dict(subentry.data))
