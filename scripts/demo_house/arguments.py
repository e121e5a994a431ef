"""Kinds of command line arguments that are checked before any work begins."""

import argparse
from pathlib import Path


def port(text: str) -> int:
    """Read a port; 0 stands for any that is free."""
    number = int(text) if text.isdecimal() else -1
    if not 0 <= number <= 65_535:
        raise argparse.ArgumentTypeError(
            f"a port is a number from 0 to 65535, not {text}"
        )
    return number


def new_file(text: str) -> Path:
    """Read the path of a file that is going to be written."""
    file = Path(text)
    if file.is_dir():
        raise argparse.ArgumentTypeError(f"{file} is a folder; name a file in it")
    if not file.absolute().parent.is_dir():
        raise argparse.ArgumentTypeError(
            f"there is no folder {file.absolute().parent} to write {file.name} to"
        )
    return file


def old_file(text: str) -> Path:
    """Read the path of a file that is there."""
    file = Path(text)
    if not file.is_file():
        raise argparse.ArgumentTypeError(f"there is no file {file}")
    return file


def folder(text: str) -> Path:
    """Read the path of a folder that is there."""
    path = Path(text)
    if not path.is_dir():
        raise argparse.ArgumentTypeError(f"there is no folder {path}")
    return path


def folder_or_file(text: str) -> Path:
    """Read the path of something that is there."""
    path = Path(text)
    if not path.exists():
        raise argparse.ArgumentTypeError(f"there is no folder and no file {path}")
    return path
