"""Checks that every file names the version to release, and packs the integration as HACS wants it."""

import argparse
import json
from pathlib import Path
import sys
import tomllib
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

ROOT = Path(__file__).parents[2]
INTEGRATION = ROOT / "custom_components" / "local_llm"
# Zip knows no time zone and no time before this; one fixed time makes equal files equal archives.
FIXED_TIME = (1980, 1, 1, 0, 0, 0)


def versions() -> dict[str, str]:
    """Read the version that each file names."""
    found = {}
    for name in ("pyproject.toml", "engine/pyproject.toml"):
        found[name] = tomllib.loads((ROOT / name).read_text())["project"]["version"]
    manifest = INTEGRATION / "manifest.json"
    found[str(manifest.relative_to(ROOT))] = json.loads(manifest.read_text())["version"]
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


def pack(archive: Path) -> None:
    """Write the integration's own files, at the root of the archive."""
    with ZipFile(archive, "w", ZIP_DEFLATED) as packed:
        for path in sorted(INTEGRATION.rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts:
                info = ZipInfo(str(path.relative_to(INTEGRATION)), FIXED_TIME)
                info.compress_type = ZIP_DEFLATED
                info.external_attr = 0o644 << 16
                packed.writestr(info, path.read_bytes())


def main() -> str | None:
    """Do what the command line names."""
    parser = argparse.ArgumentParser(description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("check").add_argument("version")
    commands.add_parser("zip").add_argument("archive", type=Path)
    arguments = parser.parse_args()
    if arguments.command == "check":
        return check(arguments.version)
    pack(arguments.archive)
    return None


if __name__ == "__main__":
    sys.exit(main())
