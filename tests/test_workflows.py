"""The workflows run nothing that could change unseen, with no more rights than they need."""

from pathlib import Path
import re
from typing import Any

import pytest
import yaml

FOLDER = Path(__file__).parents[1] / ".github" / "workflows"
WORKFLOWS = sorted(FOLDER.glob("*.yml"))
# Their makers ask to follow the newest; they run with read access alone.
FOLLOWED = {"home-assistant/actions/hassfest@master", "hacs/action@main"}


@pytest.fixture(params=WORKFLOWS, ids=[path.stem for path in WORKFLOWS])
def workflow(request: pytest.FixtureRequest) -> dict[str, Any]:
    content: dict[str, Any] = yaml.safe_load(request.param.read_text(encoding="utf-8"))
    return content


def steps(workflow: dict[str, Any]) -> list[dict[str, Any]]:
    return [step for job in workflow["jobs"].values() for step in job["steps"]]


def test_actions_are_pinned_to_a_commit(workflow: dict[str, Any]) -> None:
    used = {step["uses"] for step in steps(workflow) if "uses" in step} - FOLLOWED
    assert all(re.fullmatch(r"[\w./-]+@[0-9a-f]{40}", action) for action in used)


def test_a_workflow_reads_and_only_the_upload_of_a_release_writes(
    workflow: dict[str, Any],
) -> None:
    assert workflow["permissions"] == {"contents": "read"}
    for job in workflow["jobs"].values():
        commands = [step["run"] for step in job["steps"] if "run" in step]
        assert ("permissions" in job) == any(
            command.startswith("gh release upload") for command in commands
        )
        assert job["timeout-minutes"] <= 60


def test_no_words_from_outside_become_part_of_a_command(
    workflow: dict[str, Any],
) -> None:
    assert not any("${{" in step.get("run", "") for step in steps(workflow))
