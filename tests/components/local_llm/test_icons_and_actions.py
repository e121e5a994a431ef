"""icons.json, services.yaml and quality_scale.yaml are as hassfest, Home Assistant's check, wants them."""

import json
from typing import Any

import probatio
import pytest

from custom_components.local_llm.const import DOMAIN
from homeassistant.const import Platform
from homeassistant.core import HomeAssistant
from homeassistant.helpers import config_validation as cv, selector
from homeassistant.setup import async_setup_component

from .integration_files import FOLDER, load
from .translation_schema import key

ICON = probatio.Match(r"^mdi:[a-z0-9]+(-[a-z0-9]+)*$")
STATES = {key: ICON}


def _differs_from_default(icons: dict[str, Any]) -> dict[str, Any]:
    if icons.get("default") in icons.get("state", {}).values():
        raise probatio.Invalid("a state shows the default icon anyway")
    return icons


ICONS = probatio.Schema(
    {
        probatio.Optional("entity"): {
            probatio.In(list(Platform)): {
                key: probatio.All(
                    {
                        probatio.Optional("default"): ICON,
                        probatio.Optional("range"): {str: ICON},
                        probatio.Optional("state"): STATES,
                    },
                    _differs_from_default,
                )
            }
        },
        probatio.Optional("services"): {key: {probatio.Required("service"): ICON}},
    }
)
FIELD = {
    probatio.Optional("default"): object,
    probatio.Optional("example"): object,
    probatio.Optional("required"): bool,
    probatio.Required("selector"): selector.validate_selector,
}
ACTIONS = probatio.Schema(
    {
        cv.slug: {
            probatio.Optional("target"): selector.TargetSelector.CONFIG_SCHEMA,
            probatio.Optional("fields"): {
                cv.slug: probatio.Any(
                    FIELD,
                    {
                        probatio.Optional("collapsed"): bool,
                        probatio.Required("fields"): {cv.slug: FIELD},
                    },
                )
            },
        }
    }
)
RULES = {
    "bronze": """
        action-setup appropriate-polling brands common-modules config-flow config-flow-test-coverage
        dependency-transparency docs-actions docs-conditions docs-high-level-description docs-installation-instructions
        docs-removal-instructions docs-triggers entity-event-setup entity-unique-id has-entity-name runtime-data
        test-before-configure test-before-setup unique-config-entry
    """,
    "silver": """
        action-exceptions config-entry-unloading docs-configuration-parameters docs-installation-parameters
        entity-unavailable integration-owner log-when-unavailable parallel-updates reauthentication-flow test-coverage
    """,
    "gold": """
        devices diagnostics discovery discovery-update-info docs-data-update docs-examples docs-known-limitations
        docs-supported-devices docs-supported-functions docs-troubleshooting docs-use-cases dynamic-devices
        entity-category entity-device-class entity-disabled-by-default entity-translations exception-translations
        icon-translations reconfiguration-flow repair-issues stale-devices
    """,
    "platinum": "async-dependency inject-websession strict-typing",
}
QUALITY_SCALE = probatio.Schema(
    {
        "rules": {
            probatio.Required(rule): probatio.Any(
                "done",
                "todo",
                {
                    probatio.Required("status"): probatio.In(
                        ["done", "todo", "exempt"]
                    ),
                    probatio.Required("comment"): probatio.All(
                        str, probatio.Length(min=1)
                    ),
                },
            )
            for rules in RULES.values()
            for rule in rules.split()
        }
    }
)


@pytest.fixture
def english() -> dict[str, Any]:
    content: dict[str, Any] = load("translations/en.json")
    return content


def test_icons_are_what_home_assistant_reads() -> None:
    ICONS(load("icons.json"))


def test_icons_stand_for_entities_and_actions_that_have_texts(
    english: dict[str, Any],
) -> None:
    """An agent has an icon and no text: it bears the name that a person gives it."""
    icons = load("icons.json")
    shown = {
        (platform, name)
        for platform, names in icons["entity"].items()
        for name in names
    }
    told = {
        (platform, name)
        for platform, names in english["entity"].items()
        for name in names
    }
    agents = {("conversation", "conversation")}
    assert agents <= shown
    assert shown - told <= agents | {("ai_task", "ai_task")}
    assert told <= shown
    assert icons["services"].keys() == english["services"].keys()


def test_actions_are_what_home_assistant_reads() -> None:
    ACTIONS(load("services.yaml"))


def test_actions_are_described(english: dict[str, Any]) -> None:
    described = load("services.yaml")
    assert english["services"].keys() == described.keys()
    for action, description in described.items():
        texts = english["services"][action]
        assert texts.get("fields", {}).keys() == _fields(
            description.get("fields") or {}
        )


def _fields(fields: dict[str, Any]) -> set[str]:
    """Return the fields themselves, those within sections too."""
    names = set()
    for name, field in fields.items():
        names |= set(field["fields"]) if "fields" in field else {name}
    return names


async def test_every_action_that_is_there_is_described(
    hass: HomeAssistant, home: None
) -> None:
    assert await async_setup_component(hass, DOMAIN, {})
    described = load("services.yaml")
    registered = hass.services.async_services_for_domain(DOMAIN)
    assert registered.keys() == described.keys()


def test_quality_scale_answers_every_rule() -> None:
    rules = QUALITY_SCALE(load("quality_scale.yaml"))["rules"]
    assert len(rules) == sum(len(rules.split()) for rules in RULES.values())


@pytest.mark.parametrize("path", sorted(FOLDER.rglob("*.json")), ids=lambda p: p.name)
def test_json_is_written_as_home_assistant_writes_it(path: Any) -> None:
    """Two spaces, no key twice, a line break at the end."""

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        assert len({name for name, _ in pairs}) == len(pairs)
        return dict(pairs)

    text = path.read_text(encoding="utf-8")
    content = json.loads(text, object_pairs_hook=once)
    assert text.endswith("}\n")
    written = json.dumps(content, indent=2, ensure_ascii=False)
    # Prettier puts a list on one line where there is room.
    assert "".join(text.split()) == "".join(written.split())
