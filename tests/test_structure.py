"""The documents tell the truth about the files."""

import re

import pytest

from scripts.lib.structure_map import DOCUMENT, ROOT, with_map

DOCUMENTS = ["README.md", "CONTRIBUTING.md", "docs/structure.md"]


def test_the_map_names_every_file_in_its_own_words() -> None:
    """After a change: .venv/bin/python scripts/lib/structure_map.py."""
    document = DOCUMENT.read_text(encoding="utf-8")
    assert document == with_map(document)


@pytest.mark.parametrize("document", DOCUMENTS)
def test_every_path_that_a_document_names_exists(document: str) -> None:
    """Links to files, and commands in scripts."""
    text = (ROOT / document).read_text(encoding="utf-8")
    links = re.findall(r"\]\((?!http|#)([^)#]+)\)", text)
    commands = re.findall(r"\bscripts/[a-z_/]+(?:\.py)?", text)
    base = (ROOT / document).parent
    assert all((base / link).exists() for link in links)
    assert all((ROOT / command).exists() for command in commands)
