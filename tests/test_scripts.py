"""The scripts that take few arguments or none: help does nothing but help, and nothing else goes unseen."""

from pathlib import Path
import subprocess

import pytest

SCRIPTS = Path(__file__).parents[1] / "scripts"


def run(script: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [SCRIPTS / script, *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize("argument", ["-h", "--help"])
@pytest.mark.parametrize("script", ["setup", "check", "lint", "canary", "release"])
def test_help_says_what_it_is_for_and_does_nothing(script: str, argument: str) -> None:
    done = run(script, argument)
    assert (done.returncode, done.stderr) == (0, "")
    first = done.stdout.splitlines()[0]
    assert f": scripts/{script}" in first
    assert not first.startswith("#")
    assert "set -euo" not in done.stdout


@pytest.mark.parametrize("script", ["setup", "check"])
def test_what_takes_no_arguments_says_so(script: str) -> None:
    done = run(script, "now")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        f"scripts/{script} takes no arguments; right is --help or none, not now.\n"
    )
