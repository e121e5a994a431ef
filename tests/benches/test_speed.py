"""What the bench of speed is made of: the peer that it runs, the work that it counts, and what it finds enough."""

from dataclasses import replace
from importlib import import_module
from pathlib import Path
import sys
from typing import Any

import pytest

from local_llm_engine.builtin import NANO_PATH
from local_llm_engine.config import EngineConfig
from local_llm_engine.models.architectures import read_config
from local_llm_engine.models.registry import plan_model
from scripts.benches import random_weights
from scripts.benches.speed.cases import CASES, Case
from scripts.benches.speed.machine import Others
from scripts.benches.speed.work import ModelWork

from . import fake_llama_bench

FLOAT32 = EngineConfig(weights="bf16", dtype="float32")
NAMES = [case.name for case in CASES]


@pytest.fixture
def llama_bench(tmp_path: Path) -> Path:
    """A program that looks like llama-bench from outside."""
    program = tmp_path / "llama-bench"
    program.write_text(
        f'#!/bin/sh\nexec {sys.executable} {fake_llama_bench.__file__} "$@"\n'
    )
    program.chmod(0o755)
    return program


def case_of(name: str) -> Case:
    return next(case for case in CASES if case.name == name)


def peer_seconds(program: Path, model: Path, name: str) -> float:
    # The module that the bench itself imports, whose errors are its own.
    peer = import_module("benches.speed.peer").Peer
    seconds: float = peer(program=program, model=model, num_threads=2).seconds(
        case_of(name)
    )
    return seconds


@pytest.mark.parametrize(
    ("name", "seconds"),
    [
        ("prefill-16", 0.016),
        ("prefill-5000", 5.0),
        ("decode-0", 64 * 0.02),
        ("decode-5700", 64 * 0.02),
        ("first-token", 0.016 + 0.02),
    ],
)
def test_the_peer_does_the_same_work(
    llama_bench: Path, tmp_path: Path, name: str, seconds: float
) -> None:
    assert peer_seconds(llama_bench, tmp_path / "q4.gguf", name) == pytest.approx(
        seconds
    )


@pytest.mark.parametrize(
    ("model", "words"),
    [
        pytest.param("damaged.gguf", "failed to load model", id="it ends"),
        pytest.param("old.gguf", "tells no seconds", id="it tells something else"),
    ],
)
def test_a_peer_that_fails_is_told_in_words(
    llama_bench: Path, tmp_path: Path, model: str, words: str
) -> None:
    error = import_module("benches.speed.peer").PeerError
    with pytest.raises(error, match=words):
        peer_seconds(llama_bench, tmp_path / model, "prefill-16")


def test_a_peer_that_cannot_be_run_is_told_in_words(tmp_path: Path) -> None:
    error = import_module("benches.speed.peer").PeerError
    with pytest.raises(error, match="cannot be run"):
        peer_seconds(tmp_path, tmp_path / "q4.gguf", "prefill-16")


def test_a_token_reads_all_weights_and_its_state_once() -> None:
    plan = plan_model(NANO_PATH, FLOAT32)
    case = replace(case_of("decode-0"), num_tokens=1, depth=100)
    work = ModelWork.of(NANO_PATH, FLOAT32).of_case(case)
    assert work is not None
    state = plan.state.recurrent + 100 * plan.state.token
    # Of the embedding, which is no head, one row.
    config = read_config(NANO_PATH)
    embedding = config.vocab_size * config.hidden_size
    assert work.nbytes == plan.weights_bytes - 4 * embedding + state
    read = plan.model.num_parameters - embedding
    assert work.operations == pytest.approx(2 * read, rel=0.02)


def test_a_prompt_reads_the_weights_once_a_chunk() -> None:
    model = ModelWork.of(NANO_PATH, replace(FLOAT32, prefill_chunk_tokens=100))
    one, three = (
        model.of_case(replace(case_of("prefill-16"), num_tokens=number))
        for number in (100, 300)
    )
    assert one is not None
    assert three is not None
    again = 2 * (model.layers_bytes + model.recurrent_bytes)
    assert three.nbytes - one.nbytes == again + 300 * model.kv_token_bytes


def test_only_chosen_experts_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    experts = random_weights._Experts(
        num_experts=8,
        num_experts_per_tok=2,
        moe_intermediate_size=16,
        shared_expert_intermediate_size=16,
    )
    small = replace(
        random_weights._SHAPES["1.7B-A0.7B"],
        num_layers=4,
        hidden_size=32,
        feed_forward=experts,
    )
    monkeypatch.setitem(random_weights._SHAPES, "1.7B-A0.7B", small)
    folder = random_weights.random_model("1.7B-A0.7B", tmp_path)
    model = ModelWork.of(folder, FLOAT32)
    left_out = 4 * 6 * (3 * 16 * 32) * 4
    weights_bytes = plan_model(folder, FLOAT32).weights_bytes
    assert model.layers_bytes + model.head_bytes == weights_bytes - left_out


def figure(case: Case, ours: list[float], peers: list[float | None]) -> Any:
    # It prints with the demo's tables, which the fixture has put on the path.
    report = import_module("benches.speed.report")
    peaks = import_module("benches.speed.machine").MachinePeaks
    return report.Figure(
        case=case,
        samples=[
            report.Sample(seconds=own, peer_seconds=peer, others_share=0.0)
            for own, peer in zip(ours, peers, strict=True)
        ],
        is_quiet=True,
        work=None,
        peaks=peaks(read_bytes_per_second=1e9, operations_per_second={"float32": 1e9}),
        has_limit=True,
    )


@pytest.mark.parametrize("name", NAMES)
def test_a_limit_holds_by_medians(name: str) -> None:
    case = case_of(name)
    slowest = 1.0 / case.least_ratio
    others: list[float | None] = [1.0, 0.1, 9.0]
    assert figure(case, [slowest * 0.99, 5.0, 0.01], others).ok
    assert not figure(case, [slowest * 1.01, 5.0, 0.01], others).ok


def test_without_a_peer_there_is_no_limit() -> None:
    alone = figure(case_of("prefill-512"), [1000.0], [None])
    assert alone.ok
    assert alone.ratio is None


def test_others_are_those_who_work_beside_it() -> None:
    others = Others()
    assert sum(range(3_000_000)) > 0
    assert 0 <= others.share() <= 1
