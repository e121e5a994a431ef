"""The peer is started, asked and stopped as a real llama-server is."""

from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

# It listens on this machine alone.
pytestmark = pytest.mark.usefixtures("socket_enabled")

TOOL = {"type": "function", "function": {"name": "lamp", "description": "a lamp"}}


def make_peer(program: Path, folder: Path, model: str = "model.gguf") -> Any:
    peer = import_module("benches.reread.peer").Peer
    return peer(program, folder / model, threads=2, log=folder / "peer.log")


def make_request(text: str) -> Any:
    request = import_module("benches.reread.openai").PeerRequest
    system = {"role": "system", "content": "one two three four five six seven"}
    return request(messages=(system, {"role": "user", "content": text}), tools=(TOOL,))


async def test_it_reads_and_forgets_over_a_restart(
    llama_server: Path, tmp_path: Path
) -> None:
    peer = make_peer(llama_server, tmp_path)
    await peer.start()
    try:
        first = await peer.read(make_request("turn on the lights"))
        again = await peer.read(make_request("turn on the lights"))
        await peer.start()
        restarted = await peer.read(make_request("turn on the lights"))
    finally:
        await peer.stop()
    assert first.reread_tokens == first.prompt_tokens == again.prompt_tokens
    assert again.reread_tokens == 4
    assert restarted.reread_tokens == first.prompt_tokens
    assert first.seconds > 0


@pytest.mark.parametrize(
    ("model", "question", "words"),
    [
        pytest.param("damaged.gguf", "", "error loading model", id="it ends"),
        pytest.param("model.gguf", "refuse", "as you wish", id="it refuses"),
        pytest.param("old.gguf", "turn", "cache_n", id="it does not tell"),
    ],
)
async def test_it_fails_in_words(
    llama_server: Path, tmp_path: Path, model: str, question: str, words: str
) -> None:
    peer = make_peer(llama_server, tmp_path, model)
    with pytest.raises(import_module("demo_house.core").DemoError, match=words):
        await ask_once(peer, question)


async def ask_once(peer: Any, question: str) -> None:
    try:
        await peer.start()
        await peer.read(make_request(question))
    finally:
        await peer.stop()
