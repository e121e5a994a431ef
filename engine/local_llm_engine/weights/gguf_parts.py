"""The names of the files that a large GGUF model is cut into: which belong together, and which of them is the first.

Knows names alone; reads no file.
"""

from pathlib import Path
import re

_NAME = re.compile(r"(.+)-(\d{5})-of-(\d{5})(\.gguf)", re.IGNORECASE)


def first_part(file: Path) -> Path:
    """Return the first of the parts that a file is one of; the file itself where it is whole."""
    return part(file, 1)


def part(file: Path, number: int) -> Path:
    """Return the part of this number, counted from 1, beside the one that `file` is; the file itself where it is whole."""
    found = _NAME.fullmatch(file.name)
    if found is None:
        return file
    stem, _, count, ending = found.groups()
    return file.with_name(f"{stem}-{number:05}-of-{count}{ending}")


def is_named_as_part(file: Path, count: int) -> bool:
    """Whether a file's name says that it is the first of so many parts."""
    found = _NAME.fullmatch(file.name)
    return found is not None and (int(found[2]), int(found[3])) == (1, count)
