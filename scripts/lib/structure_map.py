"""Keeps the map in docs/structure.md true: one line a file, in the file's own first words."""

import ast
from pathlib import Path
import sys

ROOT = Path(__file__).parents[2]
DOCUMENT = ROOT / "docs" / "structure.md"
BEGIN, END = "<!-- map -->\n", "<!-- end of map -->\n"
FOLDERS = (
    "engine/local_llm_engine",
    "custom_components/local_llm",
    "scripts/bare_home",
    "scripts/demo_house",
    "scripts/benches",
    "scripts/nano",
    "scripts/fuzzers",
    "scripts/lib",
)


def make_map() -> str:
    """Write the map: a heading a folder, a line a Python file with its docstring's first line."""
    lines: list[str] = []
    folder = None
    for path in sorted(_files(), key=lambda path: (path.parent, path.name)):
        if path.parent != folder:
            folder = path.parent
            lines += ["", f"**{folder.relative_to(ROOT)}/**", ""]
        docstring = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))
        if not docstring:
            raise ValueError(f"{path.relative_to(ROOT)} does not say what it is for")
        lines.append(f"- `{path.name}`: {docstring.splitlines()[0]}")
    return "\n".join(lines[1:]) + "\n"


def with_map(document: str) -> str:
    """Put the map between its marks."""
    before, _, rest = document.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{make_map()}\n{END}{after}"


def _files() -> list[Path]:
    return [path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py")]


if __name__ == "__main__":
    DOCUMENT.write_text(
        with_map(DOCUMENT.read_text(encoding="utf-8")), encoding="utf-8"
    )
    sys.exit()
