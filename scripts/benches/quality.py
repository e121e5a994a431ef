"""What quantizing costs in quality: the same answers read in each format, and how far its next tokens are from the plain model's.

The plain model answers commands to random houses; every format reads these very answers, token by token,
and is asked at each what it would have said. The plain model in another dtype is the control: where words are
hardly surer than others, rounding alone changes them. Random weights are a poor measure, for all their words
are such; so are weights that were quantized before, which lie on a grid that suits some formats.
"""

import argparse
from collections.abc import Iterator
from dataclasses import asdict, dataclass
import json
from pathlib import Path
from random import Random
import shutil
import tempfile
import time

from demo_house.report import table
from gguf import GGMLQuantizationType
from gguf.quants import dequantize, quantize
from safetensors.torch import save_file
import torch
from torch import Tensor

from local_llm_engine.builtin import NANO_PATH
from local_llm_engine.cache.state import SequenceState
from local_llm_engine.chat import ChatFormat
from local_llm_engine.config import Dtype, EngineConfig, Weights
from local_llm_engine.models.registry import Model, load_model, plan_model
from local_llm_engine.models.weight_formats import RULES
from local_llm_engine.types import ChatRequest, Message
from local_llm_engine.weights.safetensors import SafetensorsFolder

AGREEMENT_LIMIT = 0.995
_PEER = "Q4_0 of gguf"
_QUANTIZED_KV = "KV in int8"
_CAPACITY = 4_096
_CHUNK = 256
_ANSWER_TOKENS = 100
_CONFIG_FILES = (
    "config.json",
    "generation_config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "chat_template.jinja",
)
_ROOMS = ("Bathroom", "Bedroom", "Garage", "Guest Room", "Hallway", "Kitchen", "Living Room", "Office")  # fmt: skip
_THINGS = (
    ("light", "Ceiling Light"),
    ("light", "Floor Lamp"),
    ("light", "Desk Lamp"),
    ("switch", "Coffee Machine"),
    ("cover", "Blinds"),
    ("climate", "Thermostat"),
    ("fan", "Fan"),
)
_COMMANDS = (
    "turn on the {thing}",
    "turn off the {thing}",
    "turn on the lights in the {room}",
    "turn off the lights in the {room}",
    "open the blinds in the {room}",
    "close the blinds",
    "set the thermostat to {number} degrees",
    "dim the {thing} to {number} percent",
    "set a timer for {number} minutes",
    "is the {thing} on",
    "what time is it",
    "what is the weather like",
    "good morning",
)
_SYSTEM = "You control a smart home. Call a tool for every command.\nAn overview of the areas and the devices in this smart home:\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A prompt, what the plain model answered, and its scores before each token of that, as logarithms [T, V]."""

    prompt: Tensor
    tokens: Tensor
    scores: Tensor


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One format: bytes of the weights, divergence from the plain model and greedy agreement with it."""

    name: str
    weights_bytes: int
    num_tokens: int
    mean_divergence: float
    agreement: float
    seconds: float

    def cells(self) -> tuple[str, ...]:
        """Write it for a person."""
        return (
            self.name,
            f"{self.weights_bytes / 1024**2:.1f} MiB",
            str(self.num_tokens),
            f"{self.mean_divergence:.6f}",
            f"{self.agreement:.2%}",
            f"{self.seconds:.0f} s",
        )


def bench(options: argparse.Namespace) -> int:
    """Measure every format, print, and return 0 where all keep what is promised."""
    folder = (options.model or NANO_PATH).resolve()
    with tempfile.TemporaryDirectory() as scratch, torch.inference_mode():
        answers = list(_answers(folder, options.tokens))
        figures = [
            _control(folder, answers),
            _figure(_QUANTIZED_KV, _quantized_kv(folder), answers),
            _figure("int8", _own(folder, "int8", Path(scratch)), answers),
            _figure("int4", _own(folder, "int4", Path(scratch)), answers),
            _figure(_PEER, _peer(folder, Path(scratch)), answers),
        ]
    return _tell(folder, figures, options.json)


def _answers(folder: Path, num_tokens: int) -> Iterator[Answer]:
    """Have the plain model answer until so many tokens are written; one it is sure of and one drawn by chance, in turns."""
    chat = ChatFormat.load(folder)
    model = load_model(folder, EngineConfig(weights="bf16"))
    random, generator = Random(1), torch.Generator().manual_seed(1)
    written = 0
    while written < num_tokens:
        prompt = torch.tensor(chat.prepare(_request(random)).token_ids)
        state = model.new_state(_CAPACITY)
        scores = [_read(model, prompt, state)]
        tokens: list[int] = []
        by_chance = random.random() < 0.5
        while len(tokens) < _ANSWER_TOKENS and written < num_tokens:
            chosen = (
                torch.multinomial(scores[-1].exp(), 1, generator=generator)
                if by_chance
                else scores[-1].argmax()
            )
            tokens.append(int(chosen))
            written += 1
            if tokens[-1] in chat.end_token_ids or written == num_tokens:
                break
            scores.append(_read(model, torch.tensor(tokens[-1:]), state))
        yield Answer(
            prompt=prompt,
            tokens=torch.tensor(tokens),
            scores=torch.stack(scores[: len(tokens)]),
        )


def _request(random: Random) -> ChatRequest:
    """Make a command to a house of some twenty things."""
    things = [
        (kind, f"{room} {thing}", room)
        for room in random.sample(_ROOMS, 5)
        for kind, thing in random.sample(_THINGS, 4)
    ]
    house = "".join(
        f"- names: {name}\n  domain: {kind}\n  areas: {room}\n"
        for kind, name, room in things
    )
    _, name, room = random.choice(things)
    command = random.choice(_COMMANDS).format(
        thing=name, room=room, number=random.randint(2, 90)
    )
    return ChatRequest(
        messages=(
            Message(role="system", content=_SYSTEM + house),
            Message(role="user", content=command.lower()),
        )
    )


def _read(model: Model, tokens: Tensor, state: SequenceState) -> Tensor:
    """Read tokens and return the logarithms of the next one's probabilities, float32 [V]."""
    for chunk in tokens.split(_CHUNK):
        hidden = model.forward(chunk, state)
    return model.logits(hidden[-1:])[0].log_softmax(-1)


def _figure(name: str, made: tuple[Model, int], answers: list[Answer]) -> Figure:
    """Have a model read all answers, each token after the other as when it writes them."""
    model, weights_bytes = made
    start = time.monotonic()
    divergences: list[float] = []
    agreed = 0
    for answer in answers:
        state = model.new_state(_CAPACITY)
        own = _read(model, answer.prompt, state)
        for token, expected in zip(answer.tokens, answer.scores, strict=True):
            divergences.append(float((expected.exp() * (expected - own)).nansum()))
            agreed += int(own.argmax() == expected.argmax())
            own = _read(model, token[None], state)
    return Figure(
        name=name,
        weights_bytes=weights_bytes,
        num_tokens=len(divergences),
        mean_divergence=sum(divergences) / len(divergences),
        agreement=agreed / len(divergences),
        seconds=time.monotonic() - start,
    )


def _control(folder: Path, answers: list[Answer]) -> Figure:
    """Have the plain model read its own answers in the other dtype: so much is rounding, and no format's fault."""
    plan = plan_model(folder, EngineConfig(weights="bf16"))
    other: Dtype = "bfloat16" if plan.dtype == "float32" else "float32"
    config = EngineConfig(weights="bf16", dtype=other)
    loaded = load_model(folder, config), plan_model(folder, config).weights_bytes
    return _figure(f"plain in {other}", loaded, answers)


def _quantized_kv(folder: Path) -> tuple[Model, int]:
    """Load the plain model with keys and values in 8 bits."""
    config = EngineConfig(weights="bf16", kv_cache="int8")
    return load_model(folder, config), plan_model(folder, config).weights_bytes


def _own(folder: Path, weights: Weights, scratch: Path) -> tuple[Model, int]:
    """Load the model in a format of our own, without a trace beside it."""
    config = EngineConfig(weights=weights)
    copy = scratch / weights
    copy.mkdir()
    for file in folder.iterdir():
        if file.is_file():
            Path(copy, file.name).symlink_to(file)
    return load_model(copy, config), plan_model(folder, config).weights_bytes


def _peer(folder: Path, scratch: Path) -> tuple[Model, int]:
    """Load what the gguf package's quantizer makes of the same matrices, dequantized: Q4_0, and Q8_0 where ours has int8."""
    copy = scratch / "peer"
    copy.mkdir()
    for name in _CONFIG_FILES:
        if (folder / name).exists():
            shutil.copyfile(folder / name, copy / name)
    source = SafetensorsFolder.open(folder)
    tensors: dict[str, Tensor] = {}
    nbytes = 0
    for name in source.infos:
        tensor = source.tensor(name)
        kind = _peer_format(name, tensor)
        nbytes += tensor.nbytes if kind is None else 0
        if kind is not None:
            codes = quantize(tensor.float().numpy(), kind)
            nbytes += codes.nbytes
            tensor = torch.from_numpy(dequantize(codes, kind)).to(tensor.dtype)
        tensors[name] = tensor.clone()
    save_file(tensors, copy / "model.safetensors")
    return load_model(copy, EngineConfig(weights="bf16")), nbytes


def _peer_format(name: str, tensor: Tensor) -> GGMLQuantizationType | None:
    rule = next(rule for rule in RULES if name.endswith(rule.endings))
    if rule.int4 is None or tensor.shape[-1] % 32:
        return None
    kinds = {"int4": GGMLQuantizationType.Q4_0, "int8": GGMLQuantizationType.Q8_0}
    return kinds[rule.int4]


def _tell(folder: Path, figures: list[Figure], file: Path | None) -> int:
    _, quantized_kv, int8, int4, peer = figures
    is_kept = (
        min(int8.agreement, quantized_kv.agreement) >= AGREEMENT_LIMIT
        and int4.mean_divergence <= peer.mean_divergence
    )
    print(f"{folder.name}: what it would have said in place of the plain model\n")
    headings = ("weights", "size", "tokens", "mean KL", "same", "took")
    print(*table(headings, [figure.cells() for figure in figures]), sep="\n")
    print(
        f"\nint8 and {_QUANTIZED_KV} say the same in {AGREEMENT_LIMIT:.1%} at least, and int4 is no farther off than {_PEER}: "
        + ("yes" if is_kept else "NO")
    )
    if file is not None:
        formats = [asdict(figure) for figure in figures]
        values = {"model": folder.name, "ok": is_kept, "formats": formats}
        file.write_text(json.dumps(values, indent=2) + "\n")
    return 0 if is_kept else 1
