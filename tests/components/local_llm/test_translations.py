"""What is shown has a text in every language, and every text is shown.

That a text is there for what the code shows, every other test checks as it goes: see shown_texts.py.
"""

import ast
from collections.abc import Iterator
import importlib
import json
from pathlib import Path
import re
from typing import Any

import probatio
import pytest

from custom_components.local_llm.const import DOMAIN, TRANSLATED_LANGUAGES
from homeassistant.const import Platform
from homeassistant.core import HomeAssistant
from homeassistant.exceptions import HomeAssistantError
from homeassistant.helpers import issue_registry as ir
from homeassistant.helpers.translation import async_get_translations, recursive_flatten

from .integration_files import (
    OTHER_LANGUAGES,
    TRANSLATIONS,
    load,
    nodes,
    placeholders,
    texts,
)
from .shown_texts import Shown
from .translation_schema import SCHEMA

# The words that Home Assistant's translation files are made of; every other key is one of ours.
STRUCTURE = {
    "abort",
    "common",
    "config",
    "config_subentries",
    "create_entry",
    "data",
    "data_description",
    "description",
    "device",
    "entity",
    "entry_type",
    "error",
    "example",
    "exceptions",
    "fields",
    "fix_flow",
    "info",
    "initiate_flow",
    "issues",
    "menu_option_descriptions",
    "menu_options",
    "message",
    "name",
    "options",
    "progress",
    "sections",
    "selector",
    "services",
    "state",
    "state_attributes",
    "step",
    "submit",
    "system_health",
    "title",
    "unit_of_measurement",
}
# Reasons that Home Assistant gives by itself
REASONS = {"already_configured", "reconfigure_successful"}


@pytest.fixture
def english() -> dict[str, Any]:
    content: dict[str, Any] = load("translations/en.json")
    return content


def read(path: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return content


@pytest.mark.parametrize("path", TRANSLATIONS, ids=lambda path: path.stem)
def test_a_file_is_what_home_assistant_reads(path: Path) -> None:
    SCHEMA(read(path))


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("<b>Bold</b>", "HTML"),
        ("Ends with a space ", "space"),
        ("", "space"),
        ("See https://example.org", "address"),
        ("[%key:common::state::on%]", "references"),
        ("The area '{area}'", "quotes"),
        ("The area {the area}", "placeholder"),
        ("The area {}", "placeholder"),
    ],
)
def test_a_text_that_home_assistant_does_not_accept_is_found(
    text: str, fault: str
) -> None:
    with pytest.raises(probatio.Invalid, match=fault):
        SCHEMA({"common": {"key": text}})


def branches(tree: dict[str, Any]) -> Iterator[list[str]]:
    yield list(tree)
    for value in tree.values():
        if isinstance(value, dict):
            yield from branches(value)


@pytest.mark.parametrize("path", TRANSLATIONS, ids=lambda path: path.stem)
def test_keys_are_sorted(path: Path) -> None:
    for keys in branches(read(path)):
        assert keys == sorted(keys)


def test_there_is_a_file_for_every_language_that_we_speak() -> None:
    assert {path.stem for path in TRANSLATIONS} == TRANSLATED_LANGUAGES


@pytest.mark.parametrize("path", OTHER_LANGUAGES, ids=lambda path: path.stem)
def test_every_language_says_the_same(path: Path, english: dict[str, Any]) -> None:
    """The same keys, with the same placeholders in the same form."""
    ours = recursive_flatten("", read(path))
    original = recursive_flatten("", english)
    assert ours.keys() == original.keys()
    for key, text in ours.items():
        assert placeholders(text) == placeholders(original[key]), key
        # Lists, paragraphs and what is shown as code
        for sign in ("\n", "\n- ", "**", "`"):
            assert text.count(sign) == original[key].count(sign), key


def test_no_two_languages_have_a_sentence_in_common(english: dict[str, Any]) -> None:
    every = [recursive_flatten("", read(path)) for path in TRANSLATIONS]
    sentences = [key for key, text in _flat(english) if len(text.split()) > 5]
    assert len(sentences) > 100
    for key in sentences:
        assert len({texts_of[key] for texts_of in every}) == len(every), key


def _flat(tree: dict[str, Any]) -> list[tuple[str, str]]:
    return list(recursive_flatten("", tree).items())


@pytest.mark.parametrize("path", OTHER_LANGUAGES, ids=lambda path: path.stem)
def test_only_japanese_is_written_in_its_letters(path: Path) -> None:
    sentences = [text for _, text in _flat(read(path)) if len(text) > 20]
    written = [
        any("\u3040" <= letter <= "\u9fff" for letter in text) for text in sentences
    ]
    assert set(written) == {path.stem == "ja"}


@pytest.mark.parametrize("path", OTHER_LANGUAGES, ids=lambda path: path.stem)
async def test_home_assistant_shows_every_language(
    hass: HomeAssistant, path: Path, english: dict[str, Any]
) -> None:
    for category in english:
        shown = await async_get_translations(hass, path.stem, category, {DOMAIN})
        ours = recursive_flatten(
            f"component.{DOMAIN}.{category}.", read(path)[category]
        )
        assert ours
        assert shown == ours


def test_every_field_is_explained(english: dict[str, Any]) -> None:
    """Every field of a form, and every choice of the first menu."""
    flows = [
        english["config"],
        english["options"],
        *english["config_subentries"].values(),
    ]
    steps = [step for flow in flows for step in flow["step"].values()]
    for step in steps:
        assert step.get("data", {}).keys() == step.get("data_description", {}).keys()
    first = english["config"]["step"]["user"]
    assert first["menu_options"].keys() == first["menu_option_descriptions"].keys()


def test_every_text_is_used(english: dict[str, Any]) -> None:
    """Each of its keys stands in the code, or is a name there that the code gets from Home Assistant."""
    known, patterns = _words_of_the_code()
    known |= STRUCTURE | REASONS | set(Platform) | _words_of(load("services.yaml"))
    unused = {
        key
        for path, _ in texts(english)
        for key in path
        if key not in known and not any(pattern.fullmatch(key) for pattern in patterns)
    }
    assert unused == set()


def _words_of_the_code() -> tuple[set[str], list[re.Pattern[str]]]:
    """Collect the strings of the code, the steps it has methods for, and what its f-strings may become."""
    inside = {part for string in nodes(ast.JoinedStr) for part in string.values}
    words = {
        str(node.value)
        for node in nodes(ast.Constant)
        if isinstance(node.value, str) and node not in inside
    }
    words |= {
        node.name.removeprefix("async_step_") for node in nodes(ast.AsyncFunctionDef)
    }
    for node in nodes(ast.ImportFrom):
        if (node.module or "").startswith("homeassistant."):
            module = importlib.import_module(node.module or "")
            found = (getattr(module, name.name, None) for name in node.names)
            words |= {value for value in found if isinstance(value, str)}
    patterns = [_pattern(string) for string in nodes(ast.JoinedStr)]
    return words, [pattern for pattern in patterns if len(pattern.pattern) > 6]


def _pattern(string: ast.JoinedStr) -> re.Pattern[str]:
    """Return what a string with placeholders can become."""
    return re.compile(
        "".join(
            re.escape(str(part.value)) if isinstance(part, ast.Constant) else r"\w+"
            for part in string.values
        )
    )


def _words_of(tree: Any) -> set[str]:
    if not isinstance(tree, dict):
        return set()
    return set(tree).union(*map(_words_of, tree.values()))


def test_an_error_without_a_text_is_noticed(shown_texts: Shown) -> None:
    HomeAssistantError(translation_domain=DOMAIN, translation_key="unheard_of")
    assert shown_texts.faults == [
        "exceptions.unheard_of.message is shown, but has no text"
    ]
    shown_texts.faults.clear()


def test_an_unfilled_placeholder_is_noticed(shown_texts: Shown) -> None:
    HomeAssistantError(translation_domain=DOMAIN, translation_key="request_refused")
    assert shown_texts.faults == [
        "exceptions.request_refused.message is shown without detail"
    ]
    shown_texts.faults.clear()


def test_an_issue_without_a_text_is_noticed(
    hass: HomeAssistant, shown_texts: Shown
) -> None:
    ir.async_create_issue(
        hass,
        DOMAIN,
        "issue",
        is_fixable=False,
        severity=ir.IssueSeverity.WARNING,
        translation_key="unheard_of",
    )
    assert shown_texts.faults == ["issues.unheard_of is shown, but has no text"]
    shown_texts.faults.clear()


def test_a_step_without_texts_is_noticed(shown_texts: Shown) -> None:
    result = {
        "type": "form",
        "step_id": "path",
        "data_schema": probatio.Schema({"unheard_of": str}),
        "errors": {"base": "unheard_of"},
    }
    shown_texts.note_step("config", result)
    shown_texts.note_step("config", {"type": "abort", "reason": "unheard_of"})
    assert shown_texts.faults == [
        "config.error.unheard_of is shown, but has no text",
        "config.step.path.data.unheard_of is shown, but has no text",
        "config.abort.unheard_of is shown, but has no text",
    ]
    shown_texts.faults.clear()
