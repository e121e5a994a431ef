"""A training run: stopped, it goes on as if it had not been; and it begins with what another made."""

import json
from pathlib import Path

from nano.chats import Chats
from nano.computing import multiplies_bfloat16_quicker
from nano.network import Nano
from nano.samples import Recipe, draw_batch
from nano.training import CHECKPOINT, Plan, Run
import pytest
from safetensors.torch import load_file
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from .test_network import CONFIG, chats, model, network, tokenizer

__all__ = ["chats", "model", "network", "tokenizer"]


def plan(steps: int) -> Plan:
    return Plan(steps=steps, finish=0, warm_up=3, exam_sizes=(3,), exam_houses=1)


def folder_of(tokenizer: Path, folder: Path) -> Path:
    folder.mkdir()
    (folder / "tokenizer.json").write_bytes(tokenizer.read_bytes())
    return folder


def weights_of(run: Run) -> dict[str, list[float]]:
    return {
        name: tensor.flatten().tolist()
        for name, tensor in (
            *run.network.state_dict().items(),
            *((f"average of {name}", tensor) for name, tensor in run.average.items()),
        )
    }


def test_stopped_and_gone_on_is_as_not_stopped(tokenizer: Path, tmp_path: Path) -> None:
    whole = Run(folder_of(tokenizer, tmp_path / "whole"), plan(4), CONFIG)
    whole.train()
    part = folder_of(tokenizer, tmp_path / "part")
    Run(part, plan(2), CONFIG).train()
    rest = Run(part, plan(4), CONFIG)
    assert rest.step == 2
    rest.train()
    assert weights_of(rest) == weights_of(whole)
    log = (part / "log.jsonl").read_text().splitlines()
    assert [json.loads(line)["step"] for line in log] == [2, 4]


def test_begins_with_a_model_that_was_exported(model: Path, tmp_path: Path) -> None:
    (folder := tmp_path / "run").mkdir()
    run = Run(folder, plan(9), CONFIG, model)
    assert (run.step, run.begun_at) == (7, 7)
    assert (folder / "tokenizer.json").read_bytes() == (
        model / "tokenizer.json"
    ).read_bytes()
    for name, tensor in load_file(model / "model.safetensors").items():
        assert torch.equal(run.network.state_dict()[name], tensor.float())
        assert torch.equal(run.average[name], tensor.float())
    # It learns slowly at first, as every run does: its optimizers know nothing yet.
    assert [run.plan.rate(step, run.begun_at) for step in (7, 8, 9)] == [1 / 3, 2 / 3, 1.0]  # fmt: skip
    run.train()
    again = Run(folder, plan(9), CONFIG, model)
    assert (again.step, again.begun_at) == (9, 7)
    assert (folder / CHECKPOINT).exists()


def test_learns_wherever_it_is(chats: Chats) -> None:
    """Nothing stays behind on the CPU: a tensor of another device would not go together with these."""
    recipe = Recipe(houses=2, conversations=3, max_things=5, recitations=1, repeats=1)
    batch = draw_batch(1, 1, recipe, chats, 0.1)
    with FakeTensorMode(allow_non_fake_inputs=True):
        moved = batch.to(torch.device("cuda"))
        with torch.device("cuda"):
            network = Nano(CONFIG)
        hidden = network.hidden(moved)
        assert hidden.shape == (len(batch.ids), CONFIG.hidden_size)
        assert hidden.device.type == "cuda"


@pytest.mark.parametrize(
    ("capabilities", "is_quicker"),
    [
        ({"avx512_bf16": True, "cpu_name": "Intel Xeon"}, False),
        ({"avx512_bf16": True, "amx_bf16": True, "cpu_name": "Intel Xeon"}, True),
        ({"avx512_bf16": True, "cpu_name": "AMD EPYC"}, True),
        ({"avx512_bf16": False, "amx_bf16": False, "cpu_name": "AMD EPYC"}, False),
        ({}, False),
    ],
)
def test_which_cpus_multiply_bfloat16_quicker(
    capabilities: dict[str, object], is_quicker: bool
) -> None:
    assert multiplies_bfloat16_quicker(capabilities) is is_quicker
