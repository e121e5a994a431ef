"""Manifest, HACS and brand are as HACS, the marketplace and hassfest, Home Assistant's check, want them."""

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

from awesomeversion import AwesomeVersion, AwesomeVersionStrategy
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
import probatio
import pytest

from custom_components.local_llm import const
from homeassistant.components.brands.const import ALLOWED_IMAGES
from homeassistant.const import Platform
from homeassistant.core import HomeAssistant
from homeassistant.loader import async_get_integration

from .integration_files import FOLDER, MODULES, ROOT, load, nodes, syntax


def address(value: str) -> str:
    """Accept an address of our own: Home Assistant's pages are for its own integrations."""
    if not re.fullmatch(
        r"https://(?!www\.home-assistant\.io)[\w.-]+(/[\w.-]+)*", value
    ):
        raise probatio.Invalid(f"{value} is no address of ours")
    return value


# A key that is not named here is refused, as hassfest does; it knows more that we do not use.
MANIFEST = probatio.Schema(
    {
        probatio.Required("domain"): const.DOMAIN,
        probatio.Required("name"): str,
        probatio.Required("after_dependencies"): [str],
        probatio.Required("codeowners"): [probatio.Match(r"^@[\w-]+(/[\w-]+)?$")],
        probatio.Required("config_flow"): True,
        probatio.Required("dependencies"): [str],
        probatio.Required("documentation"): address,
        probatio.Required("integration_type"): "service",
        probatio.Required("iot_class"): "calculated",
        probatio.Required("issue_tracker"): address,
        probatio.Required("loggers"): ["local_llm_engine"],
        probatio.Required("requirements"): [probatio.Match(r"^[\w.-]+[>=]=[\d.]+$")],
        probatio.Required("version"): str,
    }
)
# What HACS reads; its successor reads the same, but for the last.
HACS = probatio.Schema(
    {
        probatio.Required("name"): str,
        probatio.Required("filename"): f"{const.DOMAIN}.zip",
        probatio.Required("hide_default_branch"): True,
        probatio.Required("homeassistant"): str,
        probatio.Required("zip_release"): True,
        probatio.Required("render_readme"): True,
    }
)
VERSIONS = [
    AwesomeVersionStrategy.CALVER,
    AwesomeVersionStrategy.SEMVER,
    AwesomeVersionStrategy.SIMPLEVER,
    AwesomeVersionStrategy.BUILDVER,
    AwesomeVersionStrategy.PEP440,
]
# Looked up: what has releases for every system that Home Assistant runs on, musl and glibc, x86-64 and ARM. What lacks
# one belongs into the engine's extra, which the config flow installs (docs/adr/0005-a-release-carries-the-engine.md).
FOR_EVERY_SYSTEM = {"huggingface-hub", "safetensors", "tokenizers"}
# Parts of Home Assistant that are always there, so that they may be used without being named
ALWAYS_THERE = {*Platform, "homeassistant", "script"}


@pytest.fixture
def manifest() -> dict[str, Any]:
    content: dict[str, Any] = load("manifest.json")
    return content


def test_manifest_has_the_keys_that_are_wanted_in_the_order_that_is_wanted(
    manifest: dict[str, Any],
) -> None:
    MANIFEST(manifest)
    assert FOLDER.name == const.DOMAIN
    keys = list(manifest)
    assert keys[:2] == ["domain", "name"]
    assert keys[2:] == sorted(keys[2:])


def test_manifest_has_a_version_that_home_assistant_loads(
    manifest: dict[str, Any],
) -> None:
    assert AwesomeVersion(manifest["version"], ensure_strategy=VERSIONS).valid


def test_requirements_are_what_the_code_imports_and_home_assistant_does_not_bring(
    manifest: dict[str, Any],
) -> None:
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
    # Its exceptions are those of the library that it stands on.
    brought |= _names(requires("huggingface-hub") or []) & {"httpx2"}
    required = manifest["requirements"]
    assert required == sorted(required)
    assert _names(required) <= FOR_EVERY_SYSTEM
    assert _names(required) == imported - brought - _names(extra) - {"local-llm-engine"}
    assert set(required) >= {
        text for text in project["dependencies"] if not _names([text]) & brought
    }


def _imported_modules(*folders: Path) -> set[str]:
    """Find the top-level modules that are imported by their full name."""
    found = set()
    for file in (file for folder in folders for file in folder.rglob("*.py")):
        for node in ast.walk(syntax(file)):
            if isinstance(node, ast.Import):
                found |= {name.name.partition(".")[0] for name in node.names}
            elif isinstance(node, ast.ImportFrom) and not node.level:
                found.add((node.module or "").partition(".")[0])
    return found - sys.stdlib_module_names


def _names(requirements: Iterable[str]) -> set[str]:
    return {canonicalize_name(Requirement(text).name) for text in requirements}


async def test_dependencies_exist(
    hass: HomeAssistant, manifest: dict[str, Any]
) -> None:
    first, after = manifest["dependencies"], manifest["after_dependencies"]
    assert first == sorted(first)
    assert after == sorted(after)
    assert not set(first) & set(after)
    for domain in first + after:
        assert (await async_get_integration(hass, domain)).domain == domain


def test_dependencies_name_every_part_of_home_assistant_that_is_used(
    manifest: dict[str, Any],
) -> None:
    """A module that is named like a part of Home Assistant is loaded by that part, which is then there."""
    used = {
        module.removeprefix("homeassistant.components.").partition(".")[0]
        for module in _imported_names()
        if module.startswith("homeassistant.components.")
    }
    named = {*manifest["dependencies"], *manifest["after_dependencies"]}
    platforms = {path.stem for path in MODULES if path.parent == FOLDER}
    assert used - ALWAYS_THERE - platforms <= named


def _imported_names() -> set[str]:
    """Find all that is imported, each as one dotted name."""
    names = {name.name for node in nodes(ast.Import) for name in node.names}
    return names | {
        f"{node.module}.{name.name}"
        for node in nodes(ast.ImportFrom)
        for name in node.names
        if not node.level
    }


def test_hacs_installs_the_archive_of_a_release(manifest: dict[str, Any]) -> None:
    hacs = HACS(json.loads((ROOT / "hacs.json").read_text()))
    assert hacs["name"] == manifest["name"]
    assert AwesomeVersion(hacs["homeassistant"]) >= AwesomeVersion("2026.10.0")


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


def test_brand_images_are_those_that_home_assistant_shows() -> None:
    names = {path.name for path in (FOLDER / "brand").iterdir()}
    assert {"icon.png", "logo.png"} <= names <= ALLOWED_IMAGES


def test_every_module_says_what_it_owns() -> None:
    for module in MODULES:
        assert ast.get_docstring(syntax(module)), module.name
