"""The integration's own files as its tests read them: manifest, translations, icons, actions and code."""

import ast
from collections.abc import Iterator
from functools import cache
import json
from pathlib import Path
import re
from typing import Any

import yaml

from custom_components import local_llm

FOLDER = Path(local_llm.__file__).parent
ROOT = FOLDER.parents[1]
MODULES = sorted(FOLDER.rglob("*.py"))
TRANSLATIONS = sorted((FOLDER / "translations").glob("*.json"))
OTHER_LANGUAGES = [path for path in TRANSLATIONS if path.stem != "en"]

_PLACEHOLDER = re.compile(r"{(\w+)}")


def load(name: str) -> Any:
    """Read one of the integration's JSON or YAML files."""
    text = (FOLDER / name).read_text(encoding="utf-8")
    return yaml.safe_load(text) if name.endswith("yaml") else json.loads(text)


@cache
def syntax(module: Path) -> ast.Module:
    """Parse a module, once."""
    return ast.parse(module.read_text(encoding="utf-8"))


def nodes[Node: ast.AST](kind: type[Node]) -> Iterator[Node]:
    """Find all nodes of a kind in the integration's code."""
    for module in MODULES:
        for node in ast.walk(syntax(module)):
            if isinstance(node, kind):
                yield node


def texts(tree: dict[str, Any], *path: str) -> Iterator[tuple[tuple[str, ...], str]]:
    """Yield every text of a tree with its path."""
    for key, value in tree.items():
        if isinstance(value, dict):
            yield from texts(value, *path, key)
        else:
            yield (*path, key), value


def placeholders(text: str) -> set[str]:
    """Find the names between braces."""
    return set(_PLACEHOLDER.findall(text))
