"""The bench of agreement, with a peer that computes as ours does and is made to differ."""

from argparse import Namespace
from collections.abc import Sequence
from importlib import import_module
import json
from pathlib import Path
import sys
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from local_llm_engine.config import EngineConfig
from local_llm_engine.models.registry import load_model
from tests.engine.test_service_gguf import write_model


class Llama:
    """Has llama-cpp-python's methods; every so many tokens another is likelier than ours, by `lead`."""

    every = 0
    lead = 0.0

    def __init__(self, model_path: str, **_: Any) -> None:
        config = EngineConfig(dtype="float32", weights="bf16")
        self._model = load_model(Path(model_path), config)
        self.scores = np.zeros((0, 0), dtype=np.float32)

    def reset(self) -> None:
        self.scores = self.scores[:0]

    def eval(self, tokens: Sequence[int]) -> None:
        state = self._model.new_state(len(tokens))
        scores = self._model.logits(self._model.forward(torch.tensor(tokens), state))
        # Counted from the end, so that what is compared of a text has its share.
        for back in range(1, len(scores) + 1, self.every) if self.every else ():
            first, second = scores[-back].topk(2).indices
            scores[-back, second] = scores[-back, first] + self.lead
        self.scores = scores.numpy()


def run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, every: int
) -> tuple[int, dict[str, Any]]:
    monkeypatch.setattr(Llama, "every", every)
    monkeypatch.setattr(Llama, "lead", 0.5)
    monkeypatch.setitem(sys.modules, "llama_cpp", SimpleNamespace(Llama=Llama))
    options = Namespace(
        model=write_model(tmp_path / "model.gguf", "qwen3"),
        peer_library=tmp_path,
        json=tmp_path / "bench.json",
    )
    bench = import_module("benches.agreement")
    monkeypatch.setattr(bench, "NUM_TOKENS", 20)
    code: int = bench.bench(options)
    values: dict[str, Any] = json.loads(options.json.read_text(encoding="utf-8"))
    return code, values


def test_what_computes_the_same_agrees_everywhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code, values = run(tmp_path, monkeypatch, every=0)
    assert code == 0
    assert values["ok"]
    answers, documents = values["texts"]
    for texts in (answers, documents):
        assert texts["num_positions"] == 200
        assert texts["share"] == 1
        assert texts["differences"] == []
        assert texts["largest_distance"] < 1e-4


def test_every_difference_is_told_with_its_gaps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code, values = run(tmp_path, monkeypatch, every=10)
    assert code == 1
    answers, documents = values["texts"]
    assert not answers["ok"]
    for texts in (answers, documents):
        assert texts["share"] == pytest.approx(0.9)
        differences = texts["differences"]
        assert {own["text"] for own in differences} == set(range(10))
        assert {own["position"] for own in differences} == {9, 19}
        assert all(own["peer_gap"] == pytest.approx(0.5) for own in differences)
        assert texts["largest_gap"] == max(own["gap"] for own in differences) > 0


def test_a_library_that_is_not_there_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "llama_cpp", None)
    options = Namespace(model=tmp_path / "model.gguf", peer_library=tmp_path, json=None)
    assert import_module("benches.agreement").bench(options) == 2
    assert "holds no llama_cpp that works" in capsys.readouterr().out
