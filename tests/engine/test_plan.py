"""The engine's door says what a model needs, and refuses what cannot fit when it is loaded."""

from collections.abc import Callable
import json
from pathlib import Path
import sys
import threading

import pytest
import torch

from local_llm_engine import service
from local_llm_engine.__main__ import main
from local_llm_engine.builtin import NANO_PATH
from local_llm_engine.config import EngineConfig
from local_llm_engine.errors import (
    MemoryShortageError,
    ModelLoadError,
    OutOfMemoryError,
)
from local_llm_engine.models.decoder import DecoderModel
from local_llm_engine.models.memory import DeviceMemory
from local_llm_engine.service import Engine

type Run = Callable[..., int]


def test_a_context_that_cannot_fit_is_refused_at_load(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    needed = Engine.plan(NANO_PATH, EngineConfig(context_length=8192)).device_bytes
    memory = DeviceMemory(needed - 1, needed - 1)
    monkeypatch.setattr(service, "device_memory", lambda device: memory)
    with pytest.raises(MemoryShortageError, match="context length of 8192"):
        Engine.load(NANO_PATH, EngineConfig(context_length=8192))
    Engine.load(NANO_PATH, EngineConfig(context_length=4096)).close()


def test_a_slot_that_the_device_does_not_give_is_refused_at_load(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def refuse(model: DecoderModel, capacity: int) -> None:
        raise torch.OutOfMemoryError("no")

    monkeypatch.setattr(DecoderModel, "new_state", refuse)
    with pytest.raises(OutOfMemoryError):
        Engine.load(NANO_PATH, EngineConfig(cache_folder=tmp_path))
    assert not [
        thread for thread in threading.enumerate() if "llm" in thread.name.lower()
    ]


def test_where_nobody_can_tell_the_memory_the_engine_loads(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(service, "device_memory", lambda device: None)
    Engine.load(NANO_PATH).close()


def test_a_missing_folder_has_no_plan(tmp_path: Path) -> None:
    with pytest.raises(ModelLoadError, match="is no folder"):
        Engine.plan(tmp_path / "gone")


def test_memory_of_this_machine() -> None:
    memory = Engine.memory("cpu")
    assert memory is not None
    assert memory.total_bytes > 1 << 28


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Run:
    def run_main(*arguments: str) -> int:
        monkeypatch.setattr(sys, "argv", ["local_llm_engine", *arguments])
        return main()

    return run_main


def test_plan_as_a_table(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("plan", str(NANO_PATH), "--context-length", "4096") == 0
    title, *rows, verdict = capsys.readouterr().out.splitlines()
    assert (
        title
        == "nano (qwen3_5_text) on cpu in float32, weights bf16, KV bf16, 4096 tokens of context"
    )
    sizes = dict(row.strip().removesuffix(" MiB").rsplit(maxsplit=1) for row in rows)
    assert sizes["weights"] == sizes["weights with --weights auto"] == "15.8"
    assert float(sizes["weights with --weights int4"]) < 4
    assert any("cached for 3 satellites" in row for row in rows)
    assert len({len(row) for row in rows}) == 1
    assert verdict.startswith("It needs ")
    assert verdict.endswith(" MiB with 3 satellites: it fits.")


@pytest.mark.parametrize(
    ("total", "available", "told"),
    [
        (1 << 30, 1 << 30, "it fits."),
        (1 << 30, 1 << 20, "they do not now."),
        (1 << 20, 1 << 20, "it does not fit."),
    ],
)
def test_plan_says_whether_it_fits(
    run: Run,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    total: int,
    available: int,
    told: str,
) -> None:
    memory = DeviceMemory(total, available)
    monkeypatch.setattr(service, "device_memory", lambda device: memory)
    assert run("plan") == 0
    assert told in capsys.readouterr().out.splitlines()[-1]


def test_plan_refuses_a_context_that_the_model_has_not(
    run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("plan", "--context-length", "900000") == 1
    assert capsys.readouterr().err == (
        "error: --context-length 900000 is more than nano was made for; right is 32768 at most\n"
    )


def test_plan_as_json(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ("--satellites", "7", "--prompt-cache-gib", "0.5", "--json")
    assert run("plan", str(NANO_PATH), *arguments) == 0
    told = json.loads(capsys.readouterr().out)
    plan = Engine.plan(NANO_PATH, EngineConfig(prompt_cache_bytes=1 << 29))
    assert told["dtype"] == "float32"
    assert told["weights_bytes_by_choice"]["auto"] == plan.weights_bytes
    assert told["slots_bytes"] == plan.slots_bytes
    assert told["satellites_bytes"] == plan.satellites_bytes(7)
    assert told["ram_bytes"] == plan.ram_bytes
    assert told["memory_total_bytes"] > 0


def test_the_plan_names_the_format_of_keys_and_values(
    run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("plan", str(NANO_PATH), "--kv-cache", "int8", "--json") == 0
    told = json.loads(capsys.readouterr().out)
    plan = Engine.plan(NANO_PATH, EngineConfig(kv_cache="int8"))
    assert told["kv_cache"] == "int8"
    assert told["kv_bytes_per_1000_tokens"] == plan.kv_bytes_per_1000_tokens


def test_plan_where_nobody_can_tell_the_memory(
    run: Run, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service, "device_memory", lambda device: None)
    assert run("plan", str(NANO_PATH), "--json") == 0
    assert "memory_total_bytes" not in json.loads(capsys.readouterr().out)


def test_plan_of_the_built_in_model(
    run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("plan") == 0
    assert capsys.readouterr().out.startswith("nano ")


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("--satellites", "-1"),
        ("--satellites", "two"),
        ("--prompt-cache-gib", "much"),
        ("--prompt-cache-gib", "nan"),
        ("--prompt-cache-gib", "inf"),
        ("--prompt-cache-gib", "-1"),
    ],
)
def test_amounts_that_are_none_are_refused(
    run: Run, capsys: pytest.CaptureFixture[str], option: str, value: str
) -> None:
    """By the name of the option."""
    with pytest.raises(SystemExit):
        run("plan", option, value)
    assert f"argument {option}: {value} is no" in capsys.readouterr().err
