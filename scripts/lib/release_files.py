"""Checks that every file names the version to release, and packs integration and engine into one archive that works alone."""

import argparse
from collections.abc import Iterator
import json
from pathlib import Path
import sys
import tomllib
from zipfile import ZIP_STORED, ZipFile, ZipInfo

ROOT = Path(__file__).parents[2]
INTEGRATION = Path("custom_components", "local_llm")
ENGINE = Path("engine", "local_llm_engine")
# Zip knows no time zone and no time before this; one fixed time makes equal files equal archives.
FIXED_TIME = (1980, 1, 1, 0, 0, 0)
UNIX = 3


def versions() -> dict[str, str]:
    """Read the version that each file names."""
    found = {}
    for name in ("pyproject.toml", "engine/pyproject.toml"):
        found[name] = tomllib.loads((ROOT / name).read_text())["project"]["version"]
    manifest = INTEGRATION / "manifest.json"
    found[str(manifest)] = json.loads((ROOT / manifest).read_text())["version"]
    return found


def check(wanted: str) -> str | None:
    """Say what is wrong with the versions, or nothing."""
    wrong = [
        f"  {name} says {version}"
        for name, version in versions().items()
        if version != wanted
    ]
    if not wrong:
        return None
    return "\n".join(
        [
            f"The version to release is {wanted}, but",
            *wrong,
            "Set them all to the same and run it again.",
        ]
    )


def members(root: Path = ROOT) -> dict[str, Path]:
    """Return what a release carries: the name in the archive, whose root is the integration's folder, and the file."""
    found = {"LICENSE": root / "LICENSE"}
    for file in _files(root / INTEGRATION):
        found[file.relative_to(root / INTEGRATION).as_posix()] = file
    for file in _files(root / ENGINE):
        found[file.relative_to(root).as_posix()] = file
    return dict(sorted(found.items()))


def pack(archive: Path, root: Path = ROOT) -> None:
    """Write the archive of a release: equal files make equal bytes, on every machine.

    Nothing is compressed, for every version of zlib does that in its own way; most of it is weights, which hardly
    get smaller.
    """
    with ZipFile(archive, "w", ZIP_STORED) as packed:
        for name, file in members(root).items():
            info = ZipInfo(name, FIXED_TIME)
            info.create_system = UNIX
            info.external_attr = 0o100644 << 16
            packed.writestr(info, file.read_bytes())


def _files(folder: Path) -> Iterator[Path]:
    """Find a folder's files, without what tools and people leave there: caches and hidden files."""
    for path in folder.rglob("*"):
        inside = path.relative_to(folder).parts
        if path.is_file() and not any(
            part == "__pycache__" or part.startswith(".") for part in inside
        ):
            yield path


def main() -> str | None:
    """Do what the command line names."""
    parser = argparse.ArgumentParser(description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("check").add_argument("version")
    commands.add_parser("zip").add_argument("archive", type=Path)
    arguments = parser.parse_args()
    if arguments.command == "check":
        return check(arguments.version)
    arguments.archive.parent.mkdir(parents=True, exist_ok=True)
    pack(arguments.archive)
    return None


if __name__ == "__main__":
    sys.exit(main())
