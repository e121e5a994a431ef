"""Benches in processes of their own, as small as they come."""

import json
import os
from pathlib import Path
import subprocess
import sys
from typing import Any

import pytest

from tests.benches import fake_llama_bench, fake_llama_server

ROOT = Path(__file__).resolve().parents[2]
PATH = os.pathsep.join((str(ROOT / "scripts"), str(ROOT / "engine")))


def run_bench(folder: Path, *arguments: str) -> dict[str, Any]:
    """Run a bench and return what it wrote; that a limit of time holds is no matter of a test."""
    file = folder / "bench.json"
    done = subprocess.run(
        [sys.executable, "-P", "-m", "benches", *arguments, "--json", str(file)],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": PATH, "TMPDIR": str(folder)},
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert file.exists(), done.stdout + done.stderr
    result: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    assert done.returncode == (0 if result["ok"] else 1)
    return result


def peer_options(folder: Path, script: str) -> tuple[str, ...]:
    """Make a program of a script and a model's file, and name them to a bench."""
    program, model = folder / "peer", folder / "model.gguf"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} {script} "$@"\n')
    program.chmod(0o755)
    model.touch()
    return "--peer", str(program), "--peer-model", str(model)


def test_reread(tmp_path: Path) -> None:
    result = run_bench(
        tmp_path,
        *("reread", "--quick", "--chart", str(tmp_path / "chart")),
        *peer_options(tmp_path, fake_llama_server.__file__),
    )
    rows = result["rows"]
    assert [row for row in rows if not row["ok"]] == []
    assert all(
        row["prompt_tokens"] == row["reused_tokens"] + row["reread_tokens"]
        for row in rows
    )
    restarted = [row for row in rows if row["scenario"].startswith("restarted")]
    assert [row["resumed_from"] for row in restarted] == ["disk", "disk"]
    talk = [row for row in rows if row["scenario"] == "conversation"]
    assert [row["question_tokens"] for row in talk[::2]] == [
        row["question_tokens"] for row in talk[1::2]
    ]
    assert len(talk) == 16
    both = [row for row in rows if row["peer_seconds"] is not None]
    assert len(both) == len(rows) - 8
    assert sum(row["peer_reread_tokens"] for row in both) > sum(
        row["reread_tokens"] for row in both
    )
    assert {file.name for file in (tmp_path / "chart").iterdir()} == {
        "reread.png",
        "reread.svg",
    }


def test_cache(tmp_path: Path) -> None:
    figures = run_bench(tmp_path, "cache")["figures"]
    assert len(figures) == 4
    assert figures[0]["ok"]


def test_quality(tmp_path: Path) -> None:
    formats = run_bench(tmp_path, "quality", "--tokens", "60")["formats"]
    names = [own["name"] for own in formats]
    assert names[1:] == ["KV in int8", "int8", "int4", "Q4_0 of gguf"]
    assert names[0].startswith("plain in ")
    for own in formats:
        assert own["num_tokens"] == 60
        assert own["mean_divergence"] < 0.1
        assert own["agreement"] > 0.9


def test_loading(tmp_path: Path) -> None:
    loads = run_bench(tmp_path, "loading")["loads"]
    assert [(own["weights"], own["is_first"]) for own in loads] == [
        ("int4", True),
        ("int4", False),
        ("int8", True),
        ("int8", False),
    ]
    assert all(own["weights_bytes"] < 5_000_000 for own in loads)


def test_speed(tmp_path: Path) -> None:
    result = run_bench(
        tmp_path,
        *("speed", "--repetitions", "1"),
        *("--cases", "prefill-16", "decode-0", "first-token"),
        *("--chart", str(tmp_path / "chart")),
        *peer_options(tmp_path, fake_llama_bench.__file__),
    )
    reading, writing, asking = result["figures"]
    for own, peer_seconds in (
        (reading, 0.016),
        (writing, 64 * 0.02),
        (asking, 0.036),
    ):
        assert own["peer_seconds"] == pytest.approx(peer_seconds)
        assert own["ratio"] == pytest.approx(peer_seconds / own["seconds"])
        assert own["ok"] == (own["ratio"] >= own["least_ratio"])
    for own in (reading, writing):
        assert own["read_share"] > 0
        assert own["gemm_share"] > 0
    assert writing["bytes_per_token"] > reading["bytes_per_token"] > 0
    assert result["weights"] == "int4"
    assert set(result["machine"]["operations_per_second"]) == {
        "float32",
        "bfloat16",
        "int8",
    }
    assert {file.name for file in (tmp_path / "chart").iterdir()} == {
        "speed.png",
        "speed.svg",
    }


def test_speed_without_avx512(tmp_path: Path) -> None:
    result = run_bench(
        tmp_path,
        *("speed", "--repetitions", "1", "--no-avx512", "--weights", "int8"),
        *("--cases", "prefill-16", "--profile"),
    )
    assert result["capability"] == "AVX2"
    assert result["dtype"] == "float32"
    assert [own["least_ratio"] for own in result["figures"]] == [None]
