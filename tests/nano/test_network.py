"""Nano's network learns what the engine then computes."""

from pathlib import Path
from random import Random

from nano.batches import make_batch
from nano.chats import Chats
from nano.config import NanoConfig
from nano.corpus import tokenizer_texts
from nano.delta_rule import gated_delta_rule
from nano.export import export
from nano.network import Nano
from nano.prompts import system_parts
from nano.samples import Recipe, Sample, draw, draw_batch
from nano.states import as_text
from nano.tokenizer import build_tokenizer, write_tokenizer
import pytest
from tokenizers import Tokenizer
import torch

from local_llm_engine.chat import ChatFormat
from local_llm_engine.config import EngineConfig
from local_llm_engine.models.registry import load_model
from local_llm_engine.ops.gated_delta_rule import gated_delta_rule_reference
from local_llm_engine.types import ChatRequest, Message, ToolCall, ToolSpec

CONFIG = NanoConfig(
    hidden_size=32,
    intermediate_size=48,
    layers="dad",
    num_heads=2,
    num_kv_heads=1,
    head_dim=16,
    rotary_dim=8,
    delta_heads=2,
    key_dim=8,
    value_dim=8,
)


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tokenizer")
    write_tokenizer(
        build_tokenizer(tokenizer_texts(Random(1), {"en": 12, "ja": 4})), folder
    )
    return folder / "tokenizer.json"


@pytest.fixture
def chats(tokenizer: Path) -> Chats:
    return Chats(Tokenizer.from_file(str(tokenizer)))


@pytest.fixture
def network() -> Nano:
    torch.manual_seed(3)
    network = Nano(CONFIG)
    # As it begins, no layer does anything.
    for parameter in network.parameters():
        if not parameter.any():
            torch.nn.init.normal_(parameter, std=0.3)
    return network


@pytest.fixture
def model(network: Nano, tokenizer: Path, tmp_path: Path) -> Path:
    export(network.state_dict(), CONFIG, tokenizer, tmp_path / "nano", 7)
    return tmp_path / "nano"


def a_sample(chats: Chats, seed: int) -> Sample:
    return draw(Random(seed), Recipe(conversations=3), chats, 9)


@pytest.mark.parametrize("length", [1, 7, 8, 9, 33])
def test_delta_rule_is_the_engines(length: int) -> None:
    torch.manual_seed(length)
    query, key, value = (torch.randn(2, length, 3, 8) for _ in range(3))
    decay, beta = -torch.rand(2, length, 3), torch.rand(2, length, 3)
    state = torch.randn(2, 3, 8, 8)
    outputs, states = gated_delta_rule(query, key, value, decay, beta, state, 8)
    for index in range(2):
        rows = (tensor[index] for tensor in (query, key, value, decay, beta))
        after = state[index].clone()
        output = gated_delta_rule_reference(*rows, after)
        torch.testing.assert_close(outputs[index], output, atol=1e-4, rtol=1e-4)
        torch.testing.assert_close(states[index], after, atol=1e-4, rtol=1e-4)


def test_conversations_that_branch_are_what_the_engine_reads(
    chats: Chats, network: Nano, model: Path
) -> None:
    """Each conversation's scores are those of the whole text, read by the engine from its start."""
    samples = [a_sample(chats, 1), a_sample(chats, 2)]
    conversations = [
        [chats.conversation(turns) for turns in sample.conversations]
        for sample in samples
    ]
    batch = make_batch([sample.prompt for sample in samples], conversations, 0.1)
    engine = load_model(model, EngineConfig(weights="bf16", dtype="float32"))
    exact = Nano(CONFIG)
    exact.load_state_dict(
        {
            name: tensor.bfloat16().float()
            for name, tensor in network.state_dict().items()
        }
    )
    with torch.no_grad():
        scores = exact.lm_head(exact.hidden(batch))
    flat = [
        (sample.prompt, branch)
        for sample, branches in zip(samples, conversations, strict=True)
        for branch in branches
    ]
    row = batch.prompts.num_rows
    for index in batch.order:
        prompt, branch = flat[index]
        state = engine.new_state(4096)
        hidden = engine.forward(torch.tensor([*prompt, *branch.ids]), state)
        expected = engine.logits(hidden[len(prompt) :])
        torch.testing.assert_close(
            scores[row : row + len(branch.ids)], expected, atol=2e-3, rtol=2e-3
        )
        row += len(branch.ids)


def test_conversation_is_laid_out_as_the_template_has_it(
    chats: Chats, model: Path
) -> None:
    sample = a_sample(chats, 5)
    chat = ChatFormat.load(model)
    day = sample.day
    system = Message(
        role="system",
        content=system_parts(sample.house, sample.speaker, day, *sample.instructions),
    )
    tools = tuple(
        ToolSpec(name=name, description="", parameters={})
        for name in (
            "intent__HassTurnOn",
            *(f"script__{script}" for script in sample.house.scripts),
        )
    )
    for turns in sample.conversations:
        messages = [system]
        for turn in turns:
            messages.append(Message(role="user", content=turn.text))
            if turn.calls:
                calls = tuple(
                    ToolCall(
                        id=str(index), name=call.tool, arguments=dict(call.arguments)
                    )
                    for index, call in enumerate(turn.calls)
                )
                messages.append(Message(role="assistant", content="", tool_calls=calls))
                messages += [
                    Message(
                        role="tool",
                        content=as_text(dict(result)),
                        tool_call_id=str(index),
                    )
                    for index, result in enumerate(turn.results)
                ]
            expected = chat.prepare(
                ChatRequest(messages=tuple(messages), tools=tools)
            ).token_ids
            messages.append(Message(role="assistant", content=turn.answer))
        written = [*sample.prompt, *chats.conversation(turns).ids]
        assert list(expected) == written[: len(expected)]


def test_same_step_draws_the_same_batch(chats: Chats) -> None:
    first, second = (
        draw_batch(1, 7, Recipe(houses=2, conversations=4, max_things=9), chats, 0.1)
        for _ in range(2)
    )
    assert first.ids.tolist() == second.ids.tolist()
    other = draw_batch(
        1, 8, Recipe(houses=2, conversations=4, max_things=9), chats, 0.1
    )
    assert first.ids.tolist() != other.ids.tolist()


def test_held_out_words_are_not_in_training(chats: Chats) -> None:
    said = {
        turn.text.lower()
        for seed in range(20)
        for turns in draw(
            Random(seed), Recipe(conversations=8), chats, 20
        ).conversations
        for turn in turns
    }
    assert not [text for text in said if "wine cellar" in text or "lava lamp" in text]
