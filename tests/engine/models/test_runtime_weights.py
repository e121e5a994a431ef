"""Converted weights on disk: used the second time, made anew where they are damaged or old, and never in the way."""

from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
import fcntl
import multiprocessing
import os
from pathlib import Path
import shutil
from typing import Any

import pytest
import torch
from torch import Tensor

from local_llm_engine.builtin import NANO_PATH
from local_llm_engine.config import EngineConfig
from local_llm_engine.errors import (
    ConversionError,
    LoadCancelledError,
    NotConvertedError,
)
from local_llm_engine.models.fingerprint import fingerprint
from local_llm_engine.models.model import Model
from local_llm_engine.models.registry import Loading, convert_model, load_model
from local_llm_engine.weights import conversion, kept_weights
from local_llm_engine.weights.quantized import WeightSource

CONFIG = EngineConfig(dtype="float32", weights="int4")
TOKENS = torch.arange(5, 105)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return Path(shutil.copytree(NANO_PATH, tmp_path / "model"))


@pytest.fixture
def conversions(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of all matrices that are converted from now on."""
    names: list[str] = []
    convert = conversion.Conversion.convert

    def counted(self: conversion.Conversion, name: str) -> object:
        names.append(name)
        return convert(self, name)

    monkeypatch.setattr(conversion.Conversion, "convert", counted)
    return names


def logits(model: Model) -> Tensor:
    state = model.new_state(200)
    return model.logits(model.forward(TOKENS, state))


def kept(folder: Path) -> list[Path]:
    return sorted(path for path in (folder / kept_weights.FOLDER).glob("*"))


def test_the_second_load_converts_nothing(
    folder: Path, conversions: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """And reads no tensor of the checkpoint."""
    first = load_model(folder, CONFIG)
    assert len(set(conversions)) == len(conversions) > 20
    conversions.clear()

    def poisoned(self: WeightSource, name: str) -> Tensor:
        raise AssertionError(name)

    monkeypatch.setattr(WeightSource, "stored", poisoned)
    monkeypatch.setattr(WeightSource, "tensor", poisoned)
    second = load_model(folder, CONFIG)
    assert not conversions
    assert torch.equal(logits(second), logits(first))
    assert first.weights == second.weights
    assert (first.weights.format, first.weights.notices) == ("int4", ())


def test_what_is_kept_is_mapped_and_aligned(folder: Path) -> None:
    model = load_model(folder, CONFIG)
    codes = model._embedding._codes
    (file,) = kept(folder)
    mapped = Path("/proc/self/maps").read_text()
    assert str(file) in mapped
    assert codes.data_ptr() % 64 == 0


def flip_a_bit(file: Path) -> None:
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 4
    file.write_bytes(data)


def cut_short(file: Path) -> None:
    os.truncate(file, file.stat().st_size // 2)


def cut_in_the_header(file: Path) -> None:
    os.truncate(file, 100)


def empty(file: Path) -> None:
    file.write_bytes(b"")


def another_model(file: Path) -> None:
    shutil.copyfile(NANO_PATH / "model.safetensors", file)


@pytest.mark.parametrize(
    "damage", [flip_a_bit, cut_short, cut_in_the_header, empty, another_model]
)
def test_a_damaged_file_is_made_anew(
    folder: Path,
    conversions: list[str],
    caplog: pytest.LogCaptureFixture,
    damage: Callable[[Path], None],
) -> None:
    expected = logits(load_model(folder, CONFIG))
    (file,) = kept(folder)
    content = file.read_bytes()
    damage(file)
    conversions.clear()
    assert torch.equal(logits(load_model(folder, CONFIG)), expected)
    assert conversions
    assert "made anew" in caplog.text
    assert [own.read_bytes() for own in kept(folder)] == [content]


def test_another_checkpoint_in_the_folder_is_converted_anew(
    folder: Path, conversions: list[str]
) -> None:
    """And the file of the old one goes."""
    load_model(folder, CONFIG)
    (old,) = kept(folder)
    os.utime(folder / "model.safetensors", (1, 1))
    conversions.clear()
    load_model(folder, CONFIG)
    assert conversions
    (new,) = kept(folder)
    assert new != old


def test_each_format_has_a_file_and_a_fingerprint_of_its_own(folder: Path) -> None:
    fingerprints = set()
    for weights in ("bf16", "int8", "int4"):
        config = replace(CONFIG, weights=weights)
        model = load_model(folder, config)
        assert model.weights.format == weights
        fingerprints.add(fingerprint(folder, model, config))
    assert len(fingerprints) == 3
    assert [file.name.split("-")[1] for file in kept(folder)] == ["int4", "int8"]


def refuse_beside(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let nobody write beside the model, not even root, whom no mode keeps out."""
    (folder / kept_weights.FOLDER).write_text("no folder")


def test_a_model_that_cannot_be_written_beside_uses_the_cache_folder(
    folder: Path,
    tmp_path: Path,
    conversions: list[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    refuse_beside(folder, monkeypatch)
    config = replace(CONFIG, cache_folder=tmp_path / "cache")
    first = load_model(folder, config)
    assert len(list((tmp_path / "cache" / "weights").iterdir())) == 1
    conversions.clear()
    second = load_model(folder, config)
    assert not conversions
    assert torch.equal(logits(second), logits(first))
    assert second.weights.notices == ()


def test_without_any_folder_every_load_converts_and_says_so(
    folder: Path, conversions: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = logits(load_model(folder, CONFIG))
    shutil.rmtree(folder / kept_weights.FOLDER)
    refuse_beside(folder, monkeypatch)
    conversions.clear()
    shares: list[float] = []
    model = load_model(folder, CONFIG, Loading(on_converted=shares.append))
    assert conversions
    assert torch.equal(logits(model), expected)
    (notice,) = model.weights.notices
    assert "converted anew at every start" in notice
    assert str(folder / kept_weights.FOLDER) in notice
    assert shares == sorted(shares)
    assert shares[-1] == 1.0


def test_the_built_in_model_is_kept_in_the_cache_folder(tmp_path: Path) -> None:
    model = load_model(NANO_PATH, replace(CONFIG, cache_folder=tmp_path))
    assert model.weights.notices == ()
    assert len(list((tmp_path / "weights").iterdir())) == 1
    assert not (NANO_PATH / kept_weights.FOLDER).exists()


def test_a_full_disk_is_left_alone(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = shutil.disk_usage(folder)._replace(free=1_000_000, total=10_000_000)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage)
    model = load_model(folder, CONFIG)
    assert "no room" in model.weights.notices[0]
    assert not (folder / kept_weights.FOLDER).exists()


def test_progress_is_told_and_logged(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    shares: list[float] = []
    load_model(folder, CONFIG, Loading(on_converted=shares.append))
    assert shares == sorted(shares)
    assert shares[-1] == 1.0
    assert "model become int4, once: 100 %" in caplog.text


def test_what_fails_halfway_leaves_nothing(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(self: conversion.Conversion, name: str) -> object:
        raise KeyboardInterrupt

    monkeypatch.setattr(conversion.Conversion, "convert", failing)
    with pytest.raises(KeyboardInterrupt):
        load_model(folder, CONFIG)
    assert not (folder / kept_weights.FOLDER).exists()


class Patience:
    """Is lost after it was asked for a number of times."""

    def __init__(self, num_times: int) -> None:
        self.num_left = num_times

    def __call__(self) -> bool:
        self.num_left -= 1
        return self.num_left < 0


@pytest.mark.parametrize("num_times", [0, 1, 20])
@pytest.mark.parametrize("run", [load_model, convert_model])
def test_a_conversion_that_is_given_up_ends_and_leaves_nothing(
    folder: Path, run: Callable[..., object], num_times: int
) -> None:
    patience = Patience(num_times)
    with pytest.raises(LoadCancelledError):
        run(folder, CONFIG, Loading(is_cancelled=patience))
    assert patience.num_left == -1
    assert not (folder / kept_weights.FOLDER).exists()
    model = load_model(folder, CONFIG)
    assert model.weights.notices == ()


@pytest.mark.parametrize("weights", ["bf16", "int4"])
def test_a_load_without_a_conversion_can_be_given_up_too(
    folder: Path, weights: Any
) -> None:
    config = replace(CONFIG, weights=weights)
    convert_model(folder, config, Loading())
    with pytest.raises(LoadCancelledError):
        load_model(folder, config, Loading(is_cancelled=Patience(5)))


def test_a_damaged_file_is_not_made_anew_where_nothing_may_be_converted(
    folder: Path, conversions: list[str]
) -> None:
    loading = Loading(may_convert=False)
    with pytest.raises(NotConvertedError, match="int4"):
        load_model(folder, CONFIG, loading)
    convert_model(folder, CONFIG, Loading())
    assert load_model(folder, CONFIG, loading).weights.format == "int4"
    flip_a_bit(kept(folder)[0])
    conversions.clear()
    with pytest.raises(NotConvertedError):
        load_model(folder, CONFIG, loading)
    assert not conversions


def test_converting_makes_what_the_load_finds(
    folder: Path, conversions: list[str]
) -> None:
    shares: list[float] = []
    convert_model(folder, CONFIG, Loading(on_converted=shares.append))
    assert shares[-1] == 1.0
    conversions.clear()
    convert_model(folder, CONFIG, Loading())
    load_model(folder, CONFIG)
    assert not conversions


def test_there_is_nothing_to_convert_where_weights_stay_as_they_are(
    folder: Path,
) -> None:
    convert_model(folder, replace(CONFIG, weights="auto"), Loading())
    assert not (folder / kept_weights.FOLDER).exists()


def test_converting_tells_why_no_folder_takes_it(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refuse_beside(folder, monkeypatch)
    with pytest.raises(ConversionError, match=f"{folder}/local_llm: .*exists"):
        convert_model(folder, CONFIG, Loading())
    with pytest.raises(ConversionError, match="no folder"):
        convert_model(NANO_PATH, CONFIG, Loading())


def test_with_a_folder_for_weights_nothing_is_written_beside_the_model(
    folder: Path, tmp_path: Path, conversions: list[str]
) -> None:
    own = tmp_path / "weights"
    config = replace(CONFIG, weights_folder=own, cache_folder=tmp_path / "cache")
    load_model(folder, config)
    assert len(list(own.iterdir())) == 1
    assert not (folder / kept_weights.FOLDER).exists()
    assert not (tmp_path / "cache").exists()
    conversions.clear()
    load_model(folder, config)
    assert not conversions


def test_what_lies_beside_the_model_already_is_taken(
    folder: Path, tmp_path: Path, conversions: list[str]
) -> None:
    load_model(folder, CONFIG)
    conversions.clear()
    load_model(folder, replace(CONFIG, weights_folder=tmp_path / "weights"))
    assert not conversions
    assert not (tmp_path / "weights").exists()


def test_what_a_process_left_that_died_goes_and_what_one_writes_stays(
    folder: Path,
) -> None:
    own = folder / kept_weights.FOLDER
    own.mkdir()
    left, held = own / "left.partial", own / "held.partial"
    left.touch()
    with held.open("wb") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        load_model(folder, CONFIG)
    assert held.exists()
    assert not left.exists()


def test_what_a_process_leaves_that_dies_while_another_converts_goes_too(
    folder: Path,
) -> None:
    """The next load finds converted weights, and would leave it there."""
    left = folder / kept_weights.FOLDER / "left.partial"
    load_model(folder, CONFIG, Loading(on_converted=lambda _: left.touch()))
    assert not left.exists()


def load_in_a_process(folder: Path) -> list[float]:
    torch.set_num_threads(1)
    return logits(load_model(folder, CONFIG))[-1, :8].tolist()


def test_two_processes_at_once_find_or_make_the_same(folder: Path) -> None:
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(2, mp_context=context) as pool:
        both = list(pool.map(load_in_a_process, [folder, folder]))
    assert both[0] == both[1]
    assert len(kept(folder)) == 1
