"""Model folders for the chat room's tests, and the formats read from them."""

from pathlib import Path

import pytest

from local_llm_engine.builtin import NANO_PATH
from local_llm_engine.chat import ChatFormat

from .model_folders import (
    HERMES_TEMPLATE,
    KEEPS_THINKING_TEMPLATE,
    write_qwen_like_folder,
)
from .oracle import Oracle


@pytest.fixture(scope="session")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Model folders by the name of what is special about them."""
    root = tmp_path_factory.mktemp("models")
    return {
        "nano": NANO_PATH,
        "qwen": write_qwen_like_folder(root / "qwen"),
        "hermes": write_qwen_like_folder(root / "hermes", HERMES_TEMPLATE),
        "keeps thinking": write_qwen_like_folder(
            root / "thinking", KEEPS_THINKING_TEMPLATE
        ),
    }


@pytest.fixture(scope="session")
def formats(folders: dict[str, Path]) -> dict[str, ChatFormat]:
    """The chat formats of all folders."""
    return {name: ChatFormat.load(folder) for name, folder in folders.items()}


@pytest.fixture(scope="session")
def oracles(folders: dict[str, Path]) -> dict[str, Oracle]:
    """The reference library's view of all folders."""
    return {name: Oracle(folder) for name, folder in folders.items()}
