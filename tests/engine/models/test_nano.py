"""The built-in model: its greedy tokens are those of transformers."""

from pathlib import Path

import pytest
from tokenizers import Tokenizer
import torch
from torch import Tensor
from transformers import Qwen3_5ForCausalLM

from local_llm_engine.builtin import NANO_PATH
from local_llm_engine.config import EngineConfig
from local_llm_engine.models.registry import Model, load_model

NUM_NEW_TOKENS = 64
HOUSE = (
    "An overview of the areas and the devices in this smart home:\n"
    "- names: Ceiling Light\n  domain: light\n  areas: Kitchen\n"
    "- names: Desk Lamp\n  domain: light\n  areas: Office\n"
    "- names: Blinds\n  domain: cover\n  areas: Bedroom\n"
    "- names: Thermostat\n  domain: climate\n  areas: Living Room\n"
)
QUESTIONS = [
    "Turn on the Desk Lamp",
    "turn off the ceiling light in the kitchen",
    "Open the blinds",
    "What time is it?",
    "What is the weather like?",
    "Set a timer for 5 minutes",
    "Set the thermostat to 21 degrees",
    "Is the desk lamp on?",
    "Good morning!",
    "dim the Ceiling Light to 40 percent",
]


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return Tokenizer.from_file(str(NANO_PATH / "tokenizer.json"))


@pytest.fixture(scope="module")
def oracle() -> Qwen3_5ForCausalLM:
    loaded = Qwen3_5ForCausalLM.from_pretrained(
        NANO_PATH, dtype=torch.float32, local_files_only=True
    )
    return loaded.eval().requires_grad_(False)


@pytest.fixture(scope="module")
def model() -> Model:
    return load_model(Path(NANO_PATH), EngineConfig(dtype="float32"))


def prompt_tokens(tokenizer: Tokenizer, question: str) -> Tensor:
    """Lay a short house and a question out as the model's template does."""
    text = (
        f"<|im_start|>system\n{HOUSE}<|im_end|>\n<|im_start|>user\n{question}<|im_end|>\n"
        "<|im_start|>assistant\n<think>\n\n</think>\n\n"
    )
    return torch.tensor(tokenizer.encode(text, add_special_tokens=False).ids)


def greedy(model: Model, prompt: Tensor) -> list[int]:
    """Take the likeliest token, again and again, past any end of turn."""
    state = model.new_state(len(prompt) + NUM_NEW_TOKENS)
    hidden = model.forward(prompt, state)
    tokens: list[int] = []
    for _ in range(NUM_NEW_TOKENS):
        token = model.logits(hidden[-1:]).argmax(-1)
        tokens.append(int(token))
        hidden = model.forward(token, state)
    return tokens


@pytest.mark.parametrize("question", QUESTIONS)
def test_greedy_tokens_equal_transformers(
    model: Model, oracle: Qwen3_5ForCausalLM, tokenizer: Tokenizer, question: str
) -> None:
    prompt = prompt_tokens(tokenizer, question)
    expected = oracle.generate(
        prompt[None],
        attention_mask=torch.ones_like(prompt[None]),
        max_new_tokens=NUM_NEW_TOKENS,
        do_sample=False,
        eos_token_id=[],
        pad_token_id=0,
    )[0, len(prompt) :]
    assert greedy(model, prompt) == expected.tolist()


def test_small_model_is_float32_by_default() -> None:
    assert load_model(Path(NANO_PATH), EngineConfig()).dtype == torch.float32
