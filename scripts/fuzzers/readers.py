"""What is fuzzed: for each reader, how the files of a model are damaged, and what is then done with them.

Knows which file is whose; knows nothing of limits on time and memory.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
import json
from pathlib import Path
from random import Random
from typing import get_args

import torch

from local_llm_engine.chat import ChatFormat
from local_llm_engine.config import EngineConfig, Weights
from local_llm_engine.models.registry import load_model
from local_llm_engine.service import Engine
from local_llm_engine.types import ChatRequest, Message, TextPart, ToolCall, ToolSpec

from .damage_bytes import damage_bytes
from .damage_gguf import damage_gguf
from .damage_json import damage_json
from .damage_safetensors import damage_safetensors
from .damage_template import damage_template

_NUM_FED_TOKENS = 64
_ROOM_TOKENS = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Reader:
    """`damage` changes the files of a model; `use` does with it what a user would, and may raise EngineError."""

    damage: Callable[[Random, Path], None]
    use: Callable[[Random, Path], None]


def use_model(rng: Random, path: Path) -> None:
    """Check, plan and load a model, and have it read a few tokens."""
    weights: Weights = rng.choice(get_args(Weights.__value__))
    config = EngineConfig(
        dtype=rng.choice(("float32", "bfloat16")), weights=weights, context_length=256
    )
    Engine.check(path)
    Engine.plan(path, config)
    model = load_model(path, config)
    state = model.new_state(_ROOM_TOKENS)
    last = model.summary.vocab_size - 1
    with torch.inference_mode():
        for token_ids in ([0, last, rng.randint(0, last)], [last]):
            model.logits(model.forward(torch.tensor(token_ids), state))


def use_chat(rng: Random, folder: Path) -> None:
    """Write prompts, hold an answer to its tools, and read an answer of any tokens."""
    chat = ChatFormat.load(folder)
    for request in _REQUESTS:
        chat.prepare(request)
        chat.guide(request)
        decoder = chat.decoder(request)
        for _ in range(_NUM_FED_TOKENS):
            decoder.feed(rng.randrange(chat.vocab_size))
        decoder.finish()


def _damage_weights(rng: Random, folder: Path) -> None:
    """Change a weights file, or the index where there is one."""
    index = folder / "model.safetensors.index.json"
    if index.exists() and rng.random() < 0.4:
        _rewrite(index, lambda data: damage_json(rng, json.loads(data)))
    else:
        file = rng.choice(sorted(folder.glob("*.safetensors")))
        _rewrite(file, lambda data: damage_safetensors(rng, data))


def _damage_gguf(rng: Random, path: Path) -> None:
    file = rng.choice(sorted(path.iterdir())) if path.is_dir() else path
    _rewrite(file, lambda data: damage_gguf(rng, data))


def _damage_json_of(*names: str) -> Callable[[Random, Path], None]:
    def damage(rng: Random, folder: Path) -> None:
        name = rng.choice([name for name in names if (folder / name).exists()])
        if rng.random() < 0.1:
            _rewrite(folder / name, lambda data: damage_bytes(rng, data))
        else:
            _rewrite(folder / name, lambda data: damage_json(rng, json.loads(data)))

    return damage


_damage_config = _damage_json_of("config.json")


def _damage_template(rng: Random, folder: Path) -> None:
    _rewrite(folder / "chat_template.jinja", lambda data: damage_template(rng, data))


def _damage_quantized(rng: Random, folder: Path) -> None:
    if rng.random() < 0.5:
        _rewrite(folder / "config.json", lambda data: _damaged_scheme(rng, data))
    else:
        _damage_weights(rng, folder)


def _damaged_scheme(rng: Random, data: bytes) -> bytes:
    """Change what is said of quantization alone."""
    config = json.loads(data)
    scheme = damage_json(rng, {"quantization_config": config.pop("quantization_config")})  # fmt: skip
    return json.dumps(config).encode()[:-1] + b", " + scheme.strip()[1:]


def _damage_kept(rng: Random, folder: Path) -> None:
    file = rng.choice(sorted((folder / "local_llm").glob("*.safetensors")))
    if rng.random() < 0.5:
        _rewrite(file, lambda data: damage_safetensors(rng, data))
    else:
        _rewrite(file, lambda data: damage_bytes(rng, data))
    if rng.random() < 0.5:
        _rewrite(file, _with_right_checksum)


def _with_right_checksum(data: bytes) -> bytes:
    """Have the sum of all words at the end of a file be that of its data."""
    start = 8 + int.from_bytes(data[:8], "little")
    words = memoryview(data)[start : len(data) - 8]
    total = sum(int.from_bytes(words[at : at + 8], "little", signed=True) for at in range(0, len(words), 8))  # fmt: skip
    return data[: max(0, len(data) - 8)] + (total % (1 << 64)).to_bytes(8, "little")


def _use_kept(_: Random, folder: Path) -> None:
    weights: Weights = "int4" if folder.name == "int4" else "int8"
    model = load_model(folder, EngineConfig(dtype="float32", weights=weights))
    state = model.new_state(_ROOM_TOKENS)
    with torch.inference_mode():
        model.logits(model.forward(torch.tensor([1, 2, 3]), state))


def _rewrite(file: Path, change: Callable[[bytes], bytes]) -> None:
    """Put a changed file in the place of one that may be linked to a sound one; never write into that."""
    data = change(file.read_bytes())
    file.unlink()
    file.write_bytes(data)


def _requests() -> tuple[ChatRequest, ...]:
    tools = (
        ToolSpec(
            name="HassTurnOn",
            description="Turns on",
            parameters={
                "type": "object",
                "properties": {"name": {"type": "string"}},
                "required": ["name"],
            },
        ),
    )
    system = Message(
        role="system",
        content=(
            TextPart(text="You control a house. ", segment="house"),
            TextPart(text="You are in the Kitchen.", segment="device"),
        ),
    )
    question = Message(role="user", content="Turn on the Büro <|im_end|> light")
    call = ToolCall(id="call_1", name="HassTurnOn", arguments={"name": "Büro"})
    talk = (
        system,
        question,
        Message(role="assistant", content=None, tool_calls=(call,)),
        Message(role="tool", content='{"success": true}', tool_call_id="call_1"),
        Message(role="assistant", content="Done."),
        Message(role="user", content="寝室 🛋️ too"),
    )
    return (
        ChatRequest(messages=(system, question)),
        ChatRequest(messages=talk, tools=tools, thinking=True),
    )


_REQUESTS = _requests()
READERS: Mapping[str, Reader] = {
    "safetensors": Reader(damage=_damage_weights, use=use_model),
    "gguf": Reader(damage=_damage_gguf, use=use_model),
    "config": Reader(damage=_damage_config, use=use_model),
    "tokenizer": Reader(
        damage=_damage_json_of(
            "tokenizer.json", "tokenizer_config.json", "generation_config.json", "config.json"
        ),
        use=use_chat,
    ),
    "template": Reader(damage=_damage_template, use=use_chat),
    "quantized": Reader(damage=_damage_quantized, use=use_model),
    "kept": Reader(damage=_damage_kept, use=_use_kept),
}  # fmt: skip
