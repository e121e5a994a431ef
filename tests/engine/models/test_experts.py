"""Layers of experts: only the chosen ones are touched, nothing is kept twice, and both layouts are one model."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from local_llm_engine.config import EngineConfig
from local_llm_engine.models.config import ExpertsConfig
from local_llm_engine.models.experts import SparseFeedForward
from local_llm_engine.models.registry import load_model
from local_llm_engine.weights.loader import WeightLoader
from local_llm_engine.weights.quantized import WeightSource
from local_llm_engine.weights.safetensors import SafetensorsFolder
from tests.engine.weights.test_safetensors import mapped_addresses

from .checkpoints import FLOAT32, random_tokens, refuses, tensors_of, write_checkpoint
from .oracles import make, publish, write_fused, write_separate
from .test_qwen3_5 import run

BFLOAT16 = EngineConfig(dtype="bfloat16")
NUM_EXPERTS, NUM_CHOSEN, HIDDEN, INNER = 16, 3, 24, 20
FUSED_NAMES = ("experts.gate_up_proj", "experts.down_proj")


def layer_tensors() -> dict[str, Tensor]:
    torch.manual_seed(3)
    return {
        "gate.weight": torch.randn(NUM_EXPERTS, HIDDEN),
        "experts.gate_up_proj": torch.randn(NUM_EXPERTS, 2 * INNER, HIDDEN),
        "experts.down_proj": torch.randn(NUM_EXPERTS, HIDDEN, INNER),
        "shared_expert.gate_proj.weight": torch.randn(8, HIDDEN),
        "shared_expert.up_proj.weight": torch.randn(8, HIDDEN),
        "shared_expert.down_proj.weight": torch.randn(HIDDEN, 8),
        "shared_expert_gate.weight": torch.randn(1, HIDDEN),
    }


def separated(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """Take the experts apart."""
    separate = {
        name: tensor for name, tensor in tensors.items() if name not in FUSED_NAMES
    }
    pairs = zip(*(tensors[name] for name in FUSED_NAMES), strict=True)
    for expert, (gate_up, down) in enumerate(pairs):
        gate, up = gate_up.chunk(2)
        for name, matrix in (("gate", gate), ("up", up), ("down", down)):
            separate[f"experts.{expert}.{name}_proj.weight"] = matrix.contiguous()
    return separate


def make_layer(
    folder: Path, tensors: dict[str, Tensor], *, shared: bool = True
) -> SparseFeedForward:
    write_checkpoint(folder, tensors)
    loader = WeightLoader(
        WeightSource(SafetensorsFolder.open(folder)),
        device=torch.device("cpu"),
        dtype=torch.float32,
    )
    config = ExpertsConfig(
        num_experts=NUM_EXPERTS,
        num_experts_per_tok=NUM_CHOSEN,
        moe_intermediate_size=INNER,
        norm_topk_prob=True,
        shared_expert_intermediate_size=8 if shared else None,
        sparse_layers=frozenset({0}),
        fused="experts.gate_up_proj" in tensors,
    )
    return SparseFeedForward(config, loader)


def expected(tensors: dict[str, Tensor], rows: Tensor) -> Tensor:
    """Compute row by row what the layer is to be, without its shared expert."""
    outputs = []
    for row in rows:
        scores = (tensors["gate.weight"] @ row).softmax(0)
        chosen = scores.sort(descending=True).indices[:NUM_CHOSEN]
        output = torch.zeros(HIDDEN)
        for expert in chosen:
            gate, up = (tensors["experts.gate_up_proj"][expert] @ row).chunk(2)
            inner = gate * gate.sigmoid() * up
            share = scores[expert] / scores[chosen].sum()
            output += share * (tensors["experts.down_proj"][expert] @ inner)
        outputs.append(output)
    return torch.stack(outputs)


@pytest.mark.parametrize("num_rows", [1, 2, 63, 64, 65])
@pytest.mark.parametrize("arrange", [dict, separated], ids=["fused", "each by itself"])
def test_layer_equals_formula(tmp_path: Path, arrange: Any, num_rows: int) -> None:
    tensors = layer_tensors()
    layer = make_layer(tmp_path, arrange(tensors), shared=False)
    rows = torch.randn(num_rows, HIDDEN)
    assert_close(layer(rows), expected(tensors, rows), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("num_rows", [1, 3])
@pytest.mark.parametrize("arrange", [dict, separated], ids=["fused", "each by itself"])
def test_experts_that_nobody_chose_are_not_touched(
    tmp_path: Path, arrange: Any, num_rows: int
) -> None:
    """Their weights are no numbers here: whoever multiplied them with nothing would show it."""
    tensors = layer_tensors()
    rows = torch.randn(num_rows, HIDDEN)
    chosen = (rows @ tensors["gate.weight"].t()).topk(NUM_CHOSEN).indices.unique()
    unchosen = [index for index in range(NUM_EXPERTS) if index not in chosen]
    assert unchosen
    for name in FUSED_NAMES:
        tensors[name][unchosen] = float("nan")
    assert make_layer(tmp_path, arrange(tensors))(rows).isfinite().all()


def expert_tensors(model: Any) -> list[Tensor]:
    """Find the tensors in which a model keeps its experts."""
    applies = [
        layer._feed_forward._apply
        for layer in model._layers
        if isinstance(layer._feed_forward, SparseFeedForward)
    ]
    fused = [getattr(apply, name).weight for apply in applies for name in ("_inward", "_outward") if hasattr(apply, name)]  # fmt: skip
    separate = [
        expert for apply in applies for expert in getattr(apply, "_experts", [])
    ]
    return [
        *fused,
        *(linear.weight for expert in separate for linear in expert._inward._weights),
        *(expert._outward.weight for expert in separate),
    ]


@pytest.fixture(scope="module")
def rounded() -> Any:
    return make("qwen3_5_moe_text").bfloat16()


@pytest.mark.parametrize(
    ("layout", "num_tensors"),
    [("fused", 4 * 2), ("separate", 4 * 7 * 3)],
    ids=["fused", "each by itself"],
)
def test_experts_stay_mapped(
    tmp_path: Path, rounded: Any, layout: str, num_tensors: int
) -> None:
    """Stored in the dtype that is computed in, they are pages of their file and nothing else."""
    write = {
        "fused": lambda: publish(tmp_path, "qwen3_5_moe_text", rounded),
        "separate": lambda: write_separate(tmp_path, rounded),
    }
    tensors = expert_tensors(load_model(write[layout](), BFLOAT16))
    assert len(tensors) == num_tensors
    addresses = mapped_addresses(tmp_path / "model.safetensors")
    for tensor in tensors:
        assert any(tensor.data_ptr() in own for own in addresses)


@pytest.mark.parametrize("kind", ["qwen3_moe", "qwen3_next", "qwen3_5_moe_text"])
def test_both_layouts_are_one_model(tmp_path: Path, kind: str) -> None:
    oracle = make(kind)
    fused = load_model(write_fused(tmp_path / "fused", oracle), FLOAT32)
    separate = load_model(write_separate(tmp_path / "separate", oracle), FLOAT32)
    tokens = random_tokens(70)
    stops = [66, 67, 70]
    assert_close(
        run(fused, tokens, stops), run(separate, tokens, stops), rtol=1e-4, atol=1e-4
    )
    assert fused.summary.num_parameters == separate.summary.num_parameters


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        pytest.param(
            lambda tensor: tensor.transpose(1, 2),
            r"has the shape \[7, 40, 48\]; config\.json asks for \[7, 48, 40\]",
            id="transposed",
        ),
        pytest.param(
            lambda tensor: tensor[:6],
            r"has the shape \[6, 48, 40\]; config\.json asks for \[7, 48, 40\]",
            id="an expert too few",
        ),
    ],
)
def test_wrong_experts_are_named(
    tmp_path: Path, rounded: Any, change: Any, problem: str
) -> None:
    folder = publish(tmp_path, "qwen3_5_moe_text", rounded)
    name = "model.language_model.layers.1.mlp.experts.gate_up_proj"
    tensors = tensors_of(rounded, "model.language_model.")
    tensors[name] = change(tensors[name]).contiguous()
    config = (folder / "config.json").read_text()
    write_checkpoint(folder, tensors)
    (folder / "config.json").write_text(config)
    refuses(folder, f"tensor '{name}' {problem}")


def test_missing_expert_is_named(tmp_path: Path, rounded: Any) -> None:
    folder = write_separate(tmp_path, rounded)
    tensors = SafetensorsFolder.open(folder)
    kept = {
        name: tensors.tensor(name).clone()
        for name in tensors.infos
        if ".layers.2.mlp.experts.5.up_proj" not in name
    }
    config = (folder / "config.json").read_text()
    write_checkpoint(folder, kept)
    (folder / "config.json").write_text(config)
    refuses(
        folder,
        r"tensor 'model\.layers\.2\.mlp\.experts\.5\.up_proj\.weight' is missing",
    )


def test_missing_layout_is_named(tmp_path: Path, rounded: Any) -> None:
    """Of neither layout is there a first tensor: those are asked for that the makers publish."""
    folder = publish(tmp_path, "qwen3_5_moe_text", rounded)
    tensors = tensors_of(rounded, "model.language_model.")
    kept = {name: tensor for name, tensor in tensors.items() if ".experts." not in name}
    config = (folder / "config.json").read_text()
    write_checkpoint(folder, kept)
    (folder / "config.json").write_text(config)
    refuses(
        folder,
        r"tensors 'model\.language_model\.layers\.0\.mlp\.experts\.down_proj', .* and 5 more are missing",
    )
