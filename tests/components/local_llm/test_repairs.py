"""Mending a prompt that changes again and again, through Home Assistant's own repairs."""

from datetime import timedelta
from http import HTTPStatus
from typing import Any

from freezegun.api import FrozenDateTimeFactory
import pytest
from pytest_homeassistant_custom_component.common import MockConfigEntry
from pytest_homeassistant_custom_component.typing import ClientSessionGenerator

from custom_components.local_llm.const import DOMAIN
from homeassistant.core import HomeAssistant
from homeassistant.helpers import issue_registry as ir
from homeassistant.setup import async_setup_component

from .conftest import AGENT, AddScripted
from .integration_files import load, placeholders, texts
from .scripted import says

ISSUE = f"restless_prompt_{AGENT}"
CLOCK = {"prompt": "Be kind.\nIt is {{ now() }}"}


@pytest.fixture
async def entry(hass: HomeAssistant, scripted: AddScripted) -> MockConfigEntry:
    await scripted(says("Yes."), agent=CLOCK)
    assert await async_setup_component(hass, "repairs", {})
    (entry,) = hass.config_entries.async_entries(DOMAIN)
    return entry


async def grow_restless(
    hass: HomeAssistant, freezer: FrozenDateTimeFactory, times: int = 4
) -> ir.IssueEntry | None:
    for _ in range(times):
        freezer.tick(timedelta(minutes=5))
        await hass.services.async_call(DOMAIN, "warm_up", {}, blocking=True)
    return ir.async_get(hass).async_get_issue(DOMAIN, ISSUE)


class Repair:
    """A person who mends an issue in the frontend."""

    def __init__(self, client: Any) -> None:
        self._client = client

    async def start(self) -> dict[str, Any]:
        return await self._post(
            "/api/repairs/issues/fix", {"handler": DOMAIN, "issue_id": ISSUE}
        )

    async def choose(self, menu: dict[str, Any], step: str) -> dict[str, Any]:
        return await self._post(
            f"/api/repairs/issues/fix/{menu['flow_id']}", {"next_step_id": step}
        )

    async def _post(self, path: str, data: dict[str, str]) -> dict[str, Any]:
        response = await self._client.post(path, json=data)
        assert response.status == HTTPStatus.OK
        result: dict[str, Any] = await response.json()
        return result


@pytest.fixture
async def repair(
    hass: HomeAssistant, entry: MockConfigEntry, hass_client: ClientSessionGenerator
) -> Repair:
    return Repair(await hass_client())


async def test_explains_and_offers(
    hass: HomeAssistant, repair: Repair, freezer: FrozenDateTimeFactory
) -> None:
    await grow_restless(hass, freezer)
    menu = await repair.start()
    assert (menu["type"], menu["step_id"]) == ("menu", "init")
    assert menu["menu_options"] == ["change", "mended", "ignore"]
    filled = menu["description_placeholders"]
    assert filled["line"] == "It is 2026-11-30 14:25:00+00:00"
    flow = load("translations/en.json")["issues"]["restless_instructions"]["fix_flow"]
    assert set(flow["step"]["init"]["menu_options"]) == set(menu["menu_options"])
    for _, text in texts(flow["step"]["init"]):
        assert placeholders(text) <= set(filled)


async def test_leads_to_the_agents_settings(
    hass: HomeAssistant,
    entry: MockConfigEntry,
    repair: Repair,
    freezer: FrozenDateTimeFactory,
) -> None:
    await grow_restless(hass, freezer)
    result = await repair.choose(await repair.start(), "change")
    assert result["type"] == "create_entry"
    kind, flow_id = result["next_flow"]
    assert kind == "config_subentries_flow"
    form = hass.config_entries.subentries.async_get(flow_id)
    assert form["step_id"] == "reconfigure"
    assert ir.async_get(hass).async_get_issue(DOMAIN, ISSUE) is None


async def test_counts_anew_when_it_is_said_to_be_mended(
    hass: HomeAssistant, repair: Repair, freezer: FrozenDateTimeFactory
) -> None:
    await grow_restless(hass, freezer)
    result = await repair.choose(await repair.start(), "mended")
    assert result["type"] == "create_entry"
    assert await grow_restless(hass, freezer, 3) is None
    assert await grow_restless(hass, freezer, 1) is not None


async def test_ignoring_lasts(
    hass: HomeAssistant, repair: Repair, freezer: FrozenDateTimeFactory
) -> None:
    await grow_restless(hass, freezer)
    result = await repair.choose(await repair.start(), "ignore")
    assert (result["type"], result["reason"]) == ("abort", "ignored")
    told = await grow_restless(hass, freezer)
    assert told is not None
    assert told.dismissed_version is not None


async def test_what_stands_in_no_instructions_is_not_changed_there(
    hass: HomeAssistant, repair: Repair, freezer: FrozenDateTimeFactory
) -> None:
    told = await grow_restless(hass, freezer)
    assert told is not None
    assert told.data is not None
    ir.async_create_issue(
        hass,
        DOMAIN,
        ISSUE,
        data={**told.data, "segment": "house"},
        is_fixable=True,
        severity=ir.IssueSeverity.WARNING,
        translation_key="restless_house",
        translation_placeholders=told.translation_placeholders,
    )
    menu = await repair.start()
    assert menu["menu_options"] == ["mended", "ignore"]


async def test_an_issue_that_went_meanwhile_can_still_be_closed(
    hass: HomeAssistant,
    entry: MockConfigEntry,
    repair: Repair,
    freezer: FrozenDateTimeFactory,
) -> None:
    await grow_restless(hass, freezer)
    menu = await repair.start()
    await hass.config_entries.async_unload(entry.entry_id)
    result = await repair.choose(menu, "mended")
    assert result["type"] == "create_entry"
