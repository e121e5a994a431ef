"""The engine's door in our own formats: answers that no tier changes, formats kept apart, and what status says."""

from dataclasses import replace
import os
from pathlib import Path
import shutil
import sys
import threading

import pytest

from local_llm_engine.builtin import NANO_PATH
from local_llm_engine.config import EngineConfig, Weights
from local_llm_engine.errors import (
    ConfigError,
    ConversionError,
    LoadCancelledError,
    NotConvertedError,
)
from local_llm_engine.service import Engine

from .tiers import QUESTION, answer, assert_every_tier_answers_the_same

CONFIG = EngineConfig(context_length=2_048, prompt_cache_bytes=256 << 20)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return Path(shutil.copytree(NANO_PATH, tmp_path / "model"))


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("weights", ["int4", "int8"])
async def test_every_tier_gives_the_answer_of_an_engine_that_keeps_nothing(
    tmp_path: Path, folder: Path, weights: Weights, dtype: str
) -> None:
    config = replace(CONFIG, weights=weights, dtype=dtype)
    status = await assert_every_tier_answers_the_same(
        folder, config, tmp_path / "cache"
    )
    assert (status.weights, status.notices) == (weights, ())


async def test_what_one_format_has_read_is_nothing_to_another(
    tmp_path: Path, folder: Path
) -> None:
    resumed = []
    for weights in ("int4", "int8", "bf16"):
        config = replace(CONFIG, weights=weights, cache_folder=tmp_path / "cache")
        engine = Engine.load(folder, config)
        _, record = await answer(engine, QUESTION)
        resumed.append((record.resumed_from, record.usage.reused_tokens))
        engine.close()
    assert [tokens for _, tokens in resumed] == [0, 0, 0]


def test_what_is_converted_is_told_and_planned(folder: Path) -> None:
    shares: list[float] = []
    config = replace(CONFIG, weights="int4")
    engine = Engine.load(folder, config, shares.append)
    engine.close()
    assert shares[-1] == 1.0
    plain, quantized = Engine.plan(folder, CONFIG), Engine.plan(folder, config)
    assert (plain.weights, quantized.weights) == ("bf16", "int4")
    assert quantized.weights_bytes < plain.weights_bytes / 4


def test_a_slower_way_is_told(folder: Path) -> None:
    (folder / "local_llm").write_text("no folder")
    engine = Engine.load(folder, replace(CONFIG, weights="int8"))
    (notice,) = engine.status().notices
    engine.close()
    assert "converted anew at every start" in notice


def test_an_unknown_format_is_refused() -> None:
    with pytest.raises(
        ConfigError, match="weights must be one of auto, bf16, int8, int4"
    ):
        EngineConfig(weights="int3")


def threads() -> list[str]:
    return [
        thread.name for thread in threading.enumerate() if "llm" in thread.name.lower()
    ]


def test_weights_can_be_converted_before_they_are_loaded(
    folder: Path, tmp_path: Path
) -> None:
    config = replace(CONFIG, weights="int4", weights_folder=tmp_path / "weights")
    shares: list[float] = []
    with pytest.raises(NotConvertedError):
        Engine.load(folder, config, may_convert=False)
    Engine.convert(folder, config, shares.append)
    assert shares == sorted(shares)
    assert shares[-1] == 1.0
    assert threads() == []
    engine = Engine.load(folder, config, may_convert=False)
    assert engine.status().weights == "int4"
    engine.close()


@pytest.mark.parametrize("weights", ["bf16", "int4"])
def test_a_load_can_be_given_up(folder: Path, weights: Weights) -> None:
    with pytest.raises(LoadCancelledError):
        Engine.load(folder, replace(CONFIG, weights=weights), is_cancelled=lambda: True)
    assert threads() == []


def test_a_conversion_can_be_given_up_in_the_middle(folder: Path) -> None:
    shares: list[float] = []
    with pytest.raises(LoadCancelledError):
        Engine.convert(
            folder,
            replace(CONFIG, weights="int4"),
            shares.append,
            is_cancelled=lambda: len(shares) > 3,
        )
    assert 0 < shares[-1] < 1
    assert not (folder / "local_llm").exists()
    assert threads() == []


@pytest.mark.skipif(
    sys.platform != "linux", reason="only Linux has priorities for threads"
)
def test_a_conversion_lets_everybody_else_go_first(folder: Path) -> None:
    own = os.getpriority(os.PRIO_PROCESS, 0)
    seen: list[int] = []

    def note(_: float) -> None:
        seen.append(os.getpriority(os.PRIO_PROCESS, threading.get_native_id()))

    Engine.convert(folder, replace(CONFIG, weights="int8"), note)
    assert set(seen) == {min(19, own + 10)}
    assert os.getpriority(os.PRIO_PROCESS, 0) == own


def test_a_conversion_that_nobody_can_keep_is_refused() -> None:
    with pytest.raises(ConversionError, match="no folder"):
        Engine.convert(NANO_PATH, replace(CONFIG, weights="int8"))
