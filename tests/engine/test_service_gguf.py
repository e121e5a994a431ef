"""The engine's door with models in GGUF files: law 1, fingerprints, plans and the command line."""

from dataclasses import replace
import os
from pathlib import Path
import sys
from typing import Any

from gguf import GGMLQuantizationType as Type
from hypothesis import given, settings, strategies as st
import pytest
import torch

from local_llm_engine import __main__ as command_line
from local_llm_engine.config import EngineConfig
from local_llm_engine.errors import ChatTemplateError, ModelLoadError
from local_llm_engine.models.fingerprint import fingerprint
from local_llm_engine.models.registry import load_model
from local_llm_engine.service import Engine
from local_llm_engine.types import Purpose
from local_llm_engine.weights.gguf_header import read_gguf_header
from local_llm_engine.weights.runtime_matrix import Int4Layout
from tests.engine.chat.model_folders import qwen_like_tokenizer

from .gguf_files import tokenizer_metadata, write_gguf
from .models.oracles import KINDS, make
from .test_service_architectures import CONFIG, answer, ask, template_of

VOCAB_SIZE = 1_024
# Rows of one block at least, and heads of value that are put in another order.
_BLOCKS = {"hidden_size": 64, "intermediate_size": 96, "head_dim": 16, "linear_value_head_dim": 24}  # fmt: skip
_EXPERT_BLOCKS = {"moe_intermediate_size": 32, "shared_expert_intermediate_size": 64}


def write_model(
    file: Path, kind: str, stored_as: Type = Type.Q8_0, **changes: Any
) -> Path:
    """Write a whole model: weights, tokenizer and chat template."""
    everywhere = {"mlp_only_layers": []} if kind in {"qwen3_moe", "qwen3_next"} else {}
    fields = {**everywhere, **_BLOCKS, **_EXPERT_BLOCKS, "vocab_size": VOCAB_SIZE}
    metadata = {
        **tokenizer_metadata(
            qwen_like_tokenizer(), pre="qwen35", vocab_size=VOCAB_SIZE
        ),
        "tokenizer.chat_template": template_of(kind).read_text("utf-8"),
        **changes,
    }
    oracle = make(kind, fields)
    return write_gguf(file, kind, oracle, stored_as=stored_as, metadata=metadata)


FORMATS = [
    *(pytest.param(kind, Type.Q8_0, "auto", id=kind) for kind in KINDS),
    pytest.param("qwen3_5_text", Type.Q4_0, "auto", id="own codes taken over"),
    pytest.param("qwen3_5_moe_text", Type.Q4_0, "int4", id="int4"),
    pytest.param("qwen3_next", Type.Q8_0, "int8", id="int8"),
]


@pytest.mark.parametrize(("kind", "stored_as", "weights"), FORMATS)
async def test_every_tier_gives_the_answer_of_an_engine_that_keeps_nothing(
    tmp_path: Path, kind: str, stored_as: Type, weights: Any
) -> None:
    file = write_model(tmp_path / "model.gguf", kind, stored_as)
    question = "Turn on the lights"
    own = replace(CONFIG, weights=weights)
    forgetful = Engine.load(file, replace(own, prompt_cache_bytes=0))
    expected, record = await answer(forgetful, question)
    assert expected
    assert record.usage.reused_tokens == 0
    forgetful.close()

    config = replace(own, cache_folder=tmp_path / "cache")
    engine = Engine.load(file, config)
    warmed = await engine.warm_up(ask("", Purpose.WARM_UP))
    from_slot, _ = await answer(engine, question)
    assert from_slot == expected
    await answer(engine, "Hello")
    engine.close()

    engine = Engine.load(file, config)
    from_disk, record = await answer(engine, question)
    engine.close()
    assert from_disk == expected
    assert (record.resumed_from, record.usage.reused_tokens) == (
        "disk",
        warmed.prompt_tokens,
    )


@pytest.mark.parametrize(
    ("weights", "stored_as", "format_of_most"),
    [
        ("auto", Type.Q8_0, "bf16"),
        ("auto", Type.Q4_0, "int4"),
        ("int4", Type.F16, "int4"),
        ("int8", Type.F16, "int8"),
    ],
)
def test_converted_weights_are_kept_beside_the_file(
    tmp_path: Path, weights: Any, stored_as: Type, format_of_most: str
) -> None:
    """And made once."""
    if not Int4Layout.of(torch.device("cpu")).has_kernel and weights == "auto":
        pytest.skip("this machine does not take codes over")
    file = write_model(tmp_path / "model.gguf", "qwen3_5_text", stored_as)
    config = EngineConfig(dtype="float32", weights=weights)
    assert Engine.plan(file, config).weights == format_of_most
    assert load_model(file, config).weights.format == format_of_most
    kept = [(own.name, own.stat().st_mtime_ns) for own in tmp_path.glob("local_llm/*")]
    assert len(kept) == (format_of_most != "bf16")
    load_model(file, config)
    assert kept == [
        (own.name, own.stat().st_mtime_ns) for own in tmp_path.glob("local_llm/*")
    ]


def test_a_file_is_checked_and_planned_without_its_weights(tmp_path: Path) -> None:
    file = write_model(tmp_path / "model.gguf", "qwen3_5_moe_text")
    summary = Engine.check(file)
    assert summary.architecture == "qwen3_5_moe_text"
    assert (summary.vocab_size, summary.context_length) == (VOCAB_SIZE, 4096)
    plan = Engine.plan(file, EngineConfig(dtype="float32"))
    model = load_model(file, EngineConfig(dtype="float32"))
    assert plan.model == summary == model.summary
    assert plan.weights_bytes == 4 * summary.num_parameters
    assert Engine.check(tmp_path).name == tmp_path.name


def test_a_file_without_a_template_is_refused_before_it_is_loaded(
    tmp_path: Path,
) -> None:
    file = write_model(
        tmp_path / "model.gguf", "qwen3", **{"tokenizer.chat_template": None}
    )
    for refuse in (Engine.check, Engine.load):
        with pytest.raises(ChatTemplateError, match="has no chat template"):
            refuse(file)


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, bytes, int]:
    """A file, its bytes and the length of its header."""
    file = write_model(tmp_path_factory.mktemp("sound") / "model.gguf", "qwen3_5_text")
    return file, file.read_bytes(), read_gguf_header(file).parts[0].data_start


@settings(max_examples=120, deadline=2000)
@given(
    place=st.floats(0, 1, exclude_max=True),
    replacement=st.one_of(
        st.binary(max_size=9),
        st.integers(0, 2**64 - 1).map(lambda value: value.to_bytes(8, "little")),
        st.sampled_from([1, 31, 2**31, 2**32 - 1]).map(
            lambda value: value.to_bytes(4, "little")
        ),
    ),
    num_removed=st.integers(0, 9),
)
def test_a_changed_file_is_loaded_or_refused(
    sound: tuple[Path, bytes, int], place: float, replacement: bytes, num_removed: int
) -> None:
    """In words, and in one line of them; anywhere in the header."""
    file, content, length = sound
    start = int(place * length)
    file.write_bytes(content[:start] + replacement + content[start + num_removed :])
    problem = "none"
    try:
        Engine.check(file)
        load_model(file, EngineConfig(dtype="float32"))
    except ModelLoadError as err:
        problem = str(err)
    assert "\n" not in problem
    assert len(problem) < 1000


def test_fingerprints_tell_files_and_their_numbers_apart(tmp_path: Path) -> None:
    config = EngineConfig(dtype="float32")

    def named(file: Path) -> str:
        return fingerprint(file, load_model(file, config), config)

    file = write_model(tmp_path / "model.gguf", "qwen3")
    times = file.stat().st_mtime_ns
    known = named(file)
    assert named(file) == known
    assert named(tmp_path) == known

    content = bytearray(file.read_bytes())
    header = read_gguf_header(file)
    changed = header.tensors["blk.1.ffn_up.weight"]
    content[header.parts[0].data_start + (changed.start + changed.end) // 2] ^= 1
    file.write_bytes(content)
    os.utime(file, ns=(times, times))
    assert named(file) != known

    write_model(file, "qwen3", Type.Q4_0)
    assert named(file) != known


def test_the_command_line_takes_a_file(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    file = write_model(tmp_path / "model.gguf", "qwen3_5_text")
    threads = torch.get_num_threads()
    monkeypatch.setattr(sys, "argv", ["", "plan", str(file)])
    assert command_line.main() == 0
    assert "model.gguf (qwen3_5_text) on cpu" in capsys.readouterr().out
    lines = iter(["Hello"])
    monkeypatch.setattr("builtins.input", lambda _: next(lines, None) or stop())
    monkeypatch.setattr(sys, "argv", ["", "chat", str(file)])
    assert command_line.main() == 0
    assert "tokens read)" in capsys.readouterr().out
    torch.set_num_threads(threads)


def stop() -> str:
    raise EOFError
