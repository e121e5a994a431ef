"""What the plain model answers to commands to random houses, and how sure it was of each word.

Knows nothing of formats.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random

import torch
from torch import Tensor

from local_llm_engine.cache.state import SequenceState
from local_llm_engine.chat import ChatFormat
from local_llm_engine.config import EngineConfig
from local_llm_engine.models.registry import Model, load_model
from local_llm_engine.types import ChatRequest, Message

CAPACITY = 4_096
_CHUNK = 256
_ANSWER_TOKENS = 100
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


def answers_of(path: Path, num_tokens: int) -> Iterator[Answer]:
    """Have the plain model answer until so many tokens are written; one it is sure of and one drawn by chance, in turns."""
    chat = ChatFormat.load(path)
    model = load_model(path, EngineConfig(weights="bf16"))
    random, generator = Random(1), torch.Generator().manual_seed(1)
    written = 0
    while written < num_tokens:
        prompt = torch.tensor(chat.prepare(_request(random)).token_ids)
        state = model.new_state(CAPACITY)
        scores = [read(model, prompt, state)]
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
            scores.append(read(model, torch.tensor(tokens[-1:]), state))
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


def read(model: Model, tokens: Tensor, state: SequenceState) -> Tensor:
    """Read tokens and return the logarithms of the next one's probabilities, float32 [V]."""
    for chunk in tokens.split(_CHUNK):
        hidden = model.forward(chunk, state)
    return model.logits(hidden[-1:])[0].log_softmax(-1)
