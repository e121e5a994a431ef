"""Reads the JSON and text files of a model folder; every failure names the file.

Knows nothing of what the files mean.
"""

import io
import json
from pathlib import Path
from typing import Any

from local_llm_engine.errors import ChatTemplateError
from local_llm_engine.weights.bounded_file import read_bounded

_MAX_BYTES = 16 << 20
# The largest have some 40 MB.
MAX_TOKENIZER_BYTES = 64 << 20


def read_text(path: Path, max_bytes: int = _MAX_BYTES) -> str:
    """Read a UTF-8 file of at most `max_bytes`.

    Raises:
        ChatTemplateError: the file is missing, unreadable, too long or not UTF-8.
    """
    try:
        content = read_bounded(path, max_bytes)
    except FileNotFoundError:
        raise ChatTemplateError(f"{path} is missing") from None
    except OSError as err:
        raise ChatTemplateError(f"{path} cannot be read: {err.strerror}") from err
    try:
        # However its lines end.
        return io.StringIO(content.decode(), newline=None).read()
    except UnicodeDecodeError as err:
        raise ChatTemplateError(
            f"{path} is not UTF-8 text: {err.reason} at byte {err.start}"
        ) from err


def read_json_object(path: Path, max_bytes: int = _MAX_BYTES) -> dict[str, Any]:
    """Read a file of at most `max_bytes` that holds one JSON object.

    Raises:
        ChatTemplateError: the file is missing, is too long, is not JSON, or holds something else than an object.
    """
    text = read_text(path, max_bytes)
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as err:
        raise ChatTemplateError(f"{path} is not valid JSON: {err}") from err
    if not isinstance(value, dict):
        raise ChatTemplateError(
            f"{path} must hold a JSON object, not {type(value).__name__}"
        )
    return value


def read_optional_json_object(path: Path) -> dict[str, Any]:
    """Read a file that holds one JSON object; an empty one where there is no such file.

    Raises:
        ChatTemplateError: the file is there but cannot be used.
    """
    return read_json_object(path) if path.exists() else {}
