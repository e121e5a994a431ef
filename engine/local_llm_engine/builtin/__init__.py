"""The model that is built in, so that a first run needs no download."""

from pathlib import Path

NANO_PATH = Path(__file__).parent / "nano"
