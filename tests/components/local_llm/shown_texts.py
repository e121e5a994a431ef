"""Watches every test for what Home Assistant would show of us, and fails where English has no text for it.

Flows, errors and issues are seen where they pass through Home Assistant, whatever way the code found their keys.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any
from unittest.mock import patch

import pytest

from custom_components.local_llm.const import DOMAIN
from homeassistant.config_entries import (
    ConfigEntriesFlowManager,
    ConfigSubentryFlowManager,
    OptionsFlowManager,
)
from homeassistant.data_entry_flow import FlowManager, FlowResultType, section
from homeassistant.exceptions import HomeAssistantError
from homeassistant.helpers.issue_registry import IssueRegistry

from .integration_files import load, placeholders, texts

ENGLISH = load("translations/en.json")


@dataclass(kw_only=True)
class Shown:
    """The paths of texts that were shown without being there, or with placeholders that nobody filled."""

    faults: list[str] = field(default_factory=list)

    def note(self, path: str, filled: Mapping[str, Any] | None) -> None:
        """Look up what is shown: one text, or all texts below a path."""
        found = _find(path)
        if found is None:
            self.faults.append(f"{path} is shown, but has no text")
            return
        tree = {"": found} if isinstance(found, str) else found
        for parts, text in texts(tree):
            if missing := placeholders(text) - set(filled or ()):
                where = ".".join((path, *parts)).rstrip(".")
                self.faults.append(f"{where} is shown without {', '.join(missing)}")

    def note_error(self, error: HomeAssistantError) -> None:
        """Look up the message of an error of ours."""
        if error.translation_domain == DOMAIN:
            self.note(
                f"exceptions.{error.translation_key}.message",
                error.translation_placeholders,
            )

    def note_step(self, flow: str, result: Mapping[str, Any]) -> None:
        """Look up everything that one step of a flow shows."""
        filled = result.get("description_placeholders")
        if reason := _REASONS.get(result["type"]):
            self.note(f"{flow}.{reason[0]}.{result[reason[1]]}", filled)
            return
        if result["type"] not in (FlowResultType.FORM, FlowResultType.MENU):
            return
        step = f"{flow}.step.{result['step_id']}"
        self.note(step, filled)
        for error in (result.get("errors") or {}).values():
            self.note(f"{flow}.error.{error}", filled)
        options = result.get("menu_options") or ()
        for option in () if isinstance(options, dict) else options:
            self.note(f"{step}.menu_options.{option}", filled)
        schema = result.get("data_schema")
        for key, value in schema.schema.items() if schema and not options else ():
            kind = "sections" if isinstance(value, section) else "data"
            self.note(f"{step}.{kind}.{key}", filled)


# Where a step that only tells something keeps its text, and under which name it gives the key
_REASONS = {
    FlowResultType.ABORT: ("abort", "reason"),
    FlowResultType.SHOW_PROGRESS: ("progress", "progress_action"),
}


def _find(path: str) -> Any:
    found: Any = ENGLISH
    for part in path.split("."):
        found = found.get(part) if isinstance(found, dict) else None
    return found


def _part(manager: FlowManager[Any, Any, Any], flow: Any) -> str | None:
    """Return where our translations keep the texts of a flow, and nothing for a flow that is not ours."""
    if isinstance(manager, ConfigEntriesFlowManager):
        return "config" if flow.handler == DOMAIN else None
    if isinstance(manager, ConfigSubentryFlowManager):
        return f"config_subentries.{flow.handler[1]}"
    return "options" if isinstance(manager, OptionsFlowManager) else None


@pytest.fixture(autouse=True)
def shown_texts() -> Iterator[Shown]:
    """Fail a test that showed a key instead of a text."""
    shown = Shown()
    create_error = HomeAssistantError.__init__
    handle_step = FlowManager._async_handle_step
    create_issue = IssueRegistry.async_get_or_create

    def note_error(error: HomeAssistantError, *args: Any, **kwargs: Any) -> None:
        create_error(error, *args, **kwargs)
        shown.note_error(error)

    async def note_step(manager: Any, flow: Any, *args: Any, **kwargs: Any) -> Any:
        result = await handle_step(manager, flow, *args, **kwargs)
        if part := _part(manager, flow):
            shown.note_step(part, result)
        return result

    def note_issue(registry: Any, domain: str, *args: Any, **kwargs: Any) -> Any:
        if domain == DOMAIN:
            path = f"issues.{kwargs['translation_key']}"
            shown.note(path, kwargs.get("translation_placeholders"))
        return create_issue(registry, domain, *args, **kwargs)

    with (
        patch.object(HomeAssistantError, "__init__", note_error),
        patch.object(FlowManager, "_async_handle_step", note_step),
        patch.object(IssueRegistry, "async_get_or_create", note_issue),
    ):
        yield shown
    if shown.faults:
        pytest.fail("\n".join(shown.faults))
