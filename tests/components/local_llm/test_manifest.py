"""Manifest, translations, icons, actions and brand agree with each other and with the code."""

import ast
from collections.abc import Iterable
from importlib.metadata import packages_distributions, requires
import json
from pathlib import Path
import re
import struct
import sys
import tomllib
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
import pytest
import yaml

from custom_components import local_llm
from custom_components.local_llm import binary_sensor, button, const, failures, sensor
from homeassistant.core import HomeAssistant
from homeassistant.loader import async_get_integration

FOLDER = Path(local_llm.__file__).parent
ROOT = FOLDER.parents[1]


def load(name: str) -> Any:
    text = (FOLDER / name).read_text(encoding="utf-8")
    return yaml.safe_load(text) if name.endswith("yaml") else json.loads(text)


@pytest.fixture
def english() -> dict[str, Any]:
    return load("translations/en.json")


def code() -> str:
    return "\n".join(path.read_text() for path in sorted(FOLDER.glob("*.py")))


def test_manifest_has_what_hacs_and_hassfest_want() -> None:
    manifest = load("manifest.json")
    keys = list(manifest)
    assert keys[:2] == ["domain", "name"]
    assert keys[2:] == sorted(keys[2:])
    assert manifest["domain"] == const.DOMAIN == FOLDER.name
    assert {"codeowners", "documentation", "issue_tracker", "version"} <= set(keys)
    assert manifest["documentation"].startswith("https://")
    assert re.fullmatch(r"\d+\.\d+\.\d+", manifest["version"])
    assert not any("torch" in requirement for requirement in manifest["requirements"])


def test_requirements_are_what_the_code_imports_and_home_assistant_does_not_bring() -> (
    None
):
    """The engine's extra is left to the config flow: torch has no release for every system."""
    project = tomllib.loads((ROOT / "engine/pyproject.toml").read_text())["project"]
    (extra,) = project["optional-dependencies"].values()
    installed = packages_distributions()
    imported = {
        canonicalize_name(installed[module][0])
        for module in _imported_modules(FOLDER, ROOT / "engine/local_llm_engine")
        if module in installed
    }
    brought = _names(requires("homeassistant") or []) | {"homeassistant"}
    ours = {"local-llm-engine", "custom-components"}
    required = load("manifest.json")["requirements"]
    assert _names(required) == imported - brought - _names(extra) - ours
    assert set(required) >= {
        text for text in project["dependencies"] if not _names([text]) & brought
    }


def _imported_modules(*folders: Path) -> set[str]:
    """Find the top-level modules that are imported by their full name."""
    found = set()
    for file in (file for folder in folders for file in folder.rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                found |= {name.name.partition(".")[0] for name in node.names}
            elif isinstance(node, ast.ImportFrom) and not node.level:
                found.add((node.module or "").partition(".")[0])
    return found - sys.stdlib_module_names


def _names(requirements: Iterable[str]) -> set[str]:
    return {canonicalize_name(Requirement(text).name) for text in requirements}


async def test_dependencies_exist(hass: HomeAssistant) -> None:
    manifest = load("manifest.json")
    for domain in manifest["dependencies"] + manifest["after_dependencies"]:
        assert (await async_get_integration(hass, domain)).domain == domain


def test_hacs_shows_the_same_name() -> None:
    hacs = json.loads((ROOT / "hacs.json").read_text())
    assert hacs["name"] == load("manifest.json")["name"]
    assert hacs["filename"] == f"{const.DOMAIN}.zip"
    assert hacs["homeassistant"] >= "2026.10.0"


def _keys(tree: dict[str, Any]) -> list[list[str]]:
    nested = [_keys(value) for value in tree.values() if isinstance(value, dict)]
    return [list(tree), *(keys for group in nested for keys in group)]


def test_translations_are_sorted_and_without_references(
    english: dict[str, Any],
) -> None:
    for keys in _keys(english):
        assert keys == sorted(keys)
    assert "[%key:" not in json.dumps(english)


def test_every_error_is_translated_and_every_translation_used(
    english: dict[str, Any],
) -> None:
    raised = set(re.findall(r'translation_key="(\w+)"', code())) | {
        "answer_cut_short",
        "no_answer",
    }
    mapped = {
        key for _, key in (*failures._LOAD_FAILURES, *failures._REQUEST_FAILURES)
    } | {"load_failed", "cuda_missing"}
    assert set(english["exceptions"]) == raised | mapped
    load_keys = {key for _, key in failures._LOAD_FAILURES} | {
        "load_failed",
        "cuda_missing",
    }
    assert set(english["config"]["error"]) == load_keys
    assert load_keys <= set(english["config"]["abort"])


def test_spoken_texts_are_used(english: dict[str, Any]) -> None:
    dates = {f"weekday_{day}" for day in range(1, 8)}
    dates |= {f"month_{month}" for month in range(1, 13)}
    assert set(english["common"]) == dates | {"date_line", "too_many_rounds"}


def test_actions_are_described(english: dict[str, Any]) -> None:
    described = load("services.yaml")
    assert (
        set(english["services"])
        == set(described)
        == set(load("icons.json")["services"])
    )
    for action, description in described.items():
        texts = english["services"][action]
        assert texts["name"]
        assert texts["description"]
        assert set(texts["fields"]) == set(description["fields"])


def entity_keys(file: dict[str, Any]) -> set[tuple[str, str]]:
    return {
        (platform, key)
        for platform, entities in file["entity"].items()
        for key in entities
    }


# What stands for the engine as a whole, by what it is described with
ENGINE_ENTITIES = {
    (platform, description.key)
    for platform, descriptions in {
        "binary_sensor": [binary_sensor.ENGINE_READY],
        "button": [button.WARM_UP_NOW],
        "sensor": sensor.SENSORS,
    }.items()
    for description in descriptions
}


def test_entities_have_icons() -> None:
    agents = set(re.findall(r'_attr_translation_key = "(\w+)"', code()))
    assert entity_keys(load("icons.json")) == ENGINE_ENTITIES | {
        (agent, agent) for agent in agents
    }


def test_the_engines_entities_have_names(english: dict[str, Any]) -> None:
    assert entity_keys(english) == ENGINE_ENTITIES


def test_steps_have_texts(english: dict[str, Any]) -> None:
    steps = set(re.findall(r'step_id="(\w+)"', (FOLDER / "config_flow.py").read_text()))
    texts = set(english["config"]["step"]) | set(english["options"]["step"])
    assert texts == steps
    (agent,) = english["config_subentries"].values()
    assert set(agent["step"]) == {"user", "reconfigure"}
    for step in agent["step"].values():
        assert set(step["data"]) == set(step["data_description"])
    assert set(agent["step"]["user"]["data"]) - set(
        agent["step"]["reconfigure"]["data"]
    ) == {"name"}


@pytest.mark.parametrize(
    ("name", "size"),
    [
        ("icon.png", (256, 256)),
        ("icon@2x.png", (512, 512)),
        ("logo.png", (None, 128)),
        ("logo@2x.png", (None, 256)),
        ("dark_logo.png", (None, 128)),
        ("dark_logo@2x.png", (None, 256)),
    ],
)
def test_brand_images(name: str, size: tuple[int | None, int]) -> None:
    data = (FOLDER / "brand" / name).read_bytes()
    assert data.startswith(b"\x89PNG")
    width, height = struct.unpack(">II", data[16:24])
    assert (size[0] or width, size[1]) == (width, height)


def test_quality_scale_gives_reasons() -> None:
    for rule, status in load("quality_scale.yaml")["rules"].items():
        told = status if isinstance(status, dict) else {"status": status}
        assert told["status"] in {"done", "todo", "exempt"}, rule
        assert told["status"] != "exempt" or told["comment"], rule


def test_every_module_says_what_it_owns() -> None:
    for path in FOLDER.glob("*.py"):
        assert ast.get_docstring(ast.parse(path.read_text())), path.name
