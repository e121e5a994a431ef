"""Matrices of GGUF files whose 4-bit codes a format of our own takes over, in whatever order they are wanted."""

from collections.abc import Callable
from pathlib import Path

import gguf
from gguf import GGMLQuantizationType as Type
import numpy as np
import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from local_llm_engine.weights.gguf_header import read_gguf_header
from local_llm_engine.weights.gguf_source import GgufSource, Recipe
from local_llm_engine.weights.quantizing import quantize, takes_over
from tests.engine.numeric import one_thread, poisoned_empty

from .test_quantizing import BLOCK, parts_of, weight_of

__all__ = ["one_thread", "poisoned_empty"]

ROWS, COLUMNS = 128, 512
type Order = Callable[[int], Tensor]


def written(file: Path, kind: Type) -> Tensor:
    """Write a matrix in random blocks with scales of a sensible size; return its values."""
    rng = np.random.default_rng(3)
    size, nbytes = gguf.GGML_QUANT_SIZES[kind]
    blocks = rng.integers(0, 256, (ROWS * COLUMNS // size, nbytes), np.uint8)
    num_scales = 1 if kind in (Type.Q4_0, Type.IQ4_NL) else 2
    scales = rng.uniform(-0.01, 0.02, (len(blocks), num_scales)).astype(np.float16)
    blocks[:, : 2 * num_scales] = scales.view(np.uint8)
    packed = blocks.reshape(ROWS, -1)
    writer = gguf.GGUFWriter(file, "llama")
    writer.add_tensor("matrix", packed, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return torch.from_numpy(gguf.dequantize(packed, kind))


def runs(width: int) -> Order:
    """Turn runs of so many around."""
    return lambda size: torch.arange(size).view(-1, width).flip(0).flatten()


def source_of(file: Path, rows: Order | None, columns: Order | None) -> GgufSource:
    header = read_gguf_header(file)
    recipe = Recipe(
        parts=(header.tensors["matrix"],),
        shape=(ROWS, COLUMNS),
        rows=rows(ROWS) if rows else None,
        columns=columns(COLUMNS) if columns else None,
    )
    return GgufSource(header, [("matrix", recipe)])


def ordered(values: Tensor, rows: Order | None, columns: Order | None) -> Tensor:
    values = values if rows is None else values[rows(ROWS)]
    return values if columns is None else values[:, columns(COLUMNS)]


@pytest.mark.parametrize("columns", [None, runs(32), runs(64), runs(128)])
@pytest.mark.parametrize("rows", [None, runs(1), runs(64)])
@pytest.mark.parametrize("kind", [Type.Q4_0, Type.Q4_1, Type.Q4_K])
def test_codes_are_taken_over_as_they_are(
    tmp_path: Path, kind: Type, rows: Order | None, columns: Order | None
) -> None:
    """What is lost is the rounding of scales and middles to bfloat16."""
    values = ordered(written(tmp_path / "m.gguf", kind), rows, columns)
    source = source_of(tmp_path / "m.gguf", rows, columns)
    stored = source.stored("matrix")
    assert takes_over(stored)
    assert not isinstance(stored, Tensor)
    assert torch.equal(source.tensor("matrix"), values)
    spread = values.view(ROWS, -1, 32)
    step = (spread.amax(-1) - spread.amin(-1)).max() / 15
    error = (weight_of(parts_of(stored, "int4"), "int4") - values).abs()
    assert error.max() < step / 8


@pytest.mark.parametrize(
    ("kind", "columns"),
    [
        pytest.param(Type.Q4_0, runs(16), id="groups that are torn apart"),
        pytest.param(
            Type.Q4_K, runs(8), id="groups that are torn apart in large blocks"
        ),
        pytest.param(Type.IQ4_NL, None, id="codes of uneven steps"),
        pytest.param(Type.Q5_K, None, id="codes of 5 bits"),
        pytest.param(Type.Q8_0, runs(32), id="codes of 8 bits"),
    ],
)
def test_others_are_quantized_anew(
    tmp_path: Path, kind: Type, columns: Order | None
) -> None:
    values = ordered(written(tmp_path / "m.gguf", kind), None, columns)
    stored = source_of(tmp_path / "m.gguf", None, columns).stored("matrix")
    assert not takes_over(stored)
    assert not isinstance(stored, Tensor)
    error = weight_of(parts_of(stored, "int4"), "int4") - values
    assert error.square().mean() < values.square().mean() * 0.02
    own = weight_of(parts_of(stored, "int8"), "int8")
    assert_close(own, values, rtol=0, atol=float(values.abs().max()) / 200)


def test_a_file_is_unmapped_and_mapped_again_as_it_is_read(tmp_path: Path) -> None:
    values = written(tmp_path / "m.gguf", Type.Q8_0)
    source = source_of(tmp_path / "m.gguf", None, None)
    num_let_go = 0

    def let_go() -> None:
        nonlocal num_let_go
        num_let_go += 1
        source.let_go()
        maps = Path("/proc/self/maps").read_text()
        assert str(tmp_path) not in maps

    parts = quantize(
        lambda: source.stored("matrix"),
        (ROWS, COLUMNS),
        "int8",
        block=BLOCK,
        let_go=let_go,
    )
    assert num_let_go == 1
    assert_close(
        weight_of(parts, "int8"), values, rtol=0, atol=float(values.abs().max()) / 200
    )
