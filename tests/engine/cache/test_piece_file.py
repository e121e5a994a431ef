"""A piece through its file: every kind of model and every dtype, bit for bit."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor

from local_llm_engine.cache.disk import DiskTier
from local_llm_engine.cache.piece_header import DamagedPieceError, read_stored
from local_llm_engine.cache.ranks import Rank
from local_llm_engine.cache.state import Checkpoint, KVRun, PieceContent
from tests.engine.cache.disks import FINGERPRINT, piece_files


def tensors(
    count: int, shape: tuple[int, ...], dtype: torch.dtype
) -> tuple[Tensor, ...]:
    generator = torch.Generator().manual_seed(count)
    return tuple(
        torch.randn(shape, generator=generator).to(dtype) for _ in range(count)
    )


def make_content(
    num_tokens: int, num_attention: int, num_delta: int, dtypes: tuple[torch.dtype, ...]
) -> PieceContent:
    """Sizes that all differ; odd ones, so that nothing is aligned by chance."""
    dtype, delta_dtype = dtypes
    return PieceContent(
        KVRun(
            (
                *tensors(num_attention, (3, num_tokens, 5), dtype),
                *tensors(num_attention, (3, num_tokens), torch.bfloat16),
                *tensors(num_attention, (3, num_tokens, 5), torch.int8),
            )
        ),
        Checkpoint(
            length=100 + num_tokens,
            conv=tensors(num_delta, (7, 3), dtype),
            delta=tensors(num_delta, (3, 5, 7), delta_dtype),
        ),
    )


def all_tensors(content: PieceContent) -> list[Tensor]:
    kv, checkpoint = content
    return [*kv.tensors, *checkpoint.conv, *checkpoint.delta]


@pytest.mark.parametrize("num_tokens", [1, 63, 65, 1_000])
@pytest.mark.parametrize(
    ("num_attention", "num_delta"),
    [(2, 5), (3, 0), (0, 4)],
    ids=["hybrid", "attention", "recurrent"],
)
@pytest.mark.parametrize(
    "dtypes",
    [
        (torch.float32, torch.float32),
        (torch.bfloat16, torch.float32),
        (torch.bfloat16, torch.float16),
    ],
    ids=["float32", "bfloat16", "half checkpoints"],
)
def test_what_comes_back_is_what_was_written(
    tmp_path: Path,
    num_tokens: int,
    num_attention: int,
    num_delta: int,
    dtypes: tuple[torch.dtype, ...],
) -> None:
    """Dtypes, shapes and bits; and the size is known before it is written."""
    content = make_content(num_tokens, num_attention, num_delta, dtypes)
    tokens = tuple(range(7, 7 + num_tokens))
    tier = DiskTier.open(tmp_path, fingerprint=FINGERPRINT, limit_bytes=1 << 20)
    try:
        root = tier.draft(None, range(100), content_at(100), Rank.SYSTEM, "")
        tier.write(root)
        draft = tier.draft(root.file, tokens, content, Rank.SYSTEM, "Küche " * 1_000)
        tier.write(draft)
        assert tier.flush(10)
        back = tier.load(draft.file, content.checkpoint.length)
    finally:
        tier.close()
    assert back.checkpoint.length == content.checkpoint.length
    for ours, theirs in zip(all_tensors(back), all_tensors(content), strict=True):
        assert (ours.dtype, ours.shape) == (theirs.dtype, theirs.shape)
        assert torch.equal(ours, theirs)
    assert draft.file.name is not None
    path = tmp_path / f"{draft.file.name}.safetensors"
    assert path.stat().st_size == draft.file.nbytes
    stored = read_stored(path, FINGERPRINT)
    assert stored.token_ids == tokens
    assert (stored.facts.parent, stored.facts.start) == (root.file.name, 100)


def content_at(length: int) -> PieceContent:
    """A piece of nothing but its tokens."""
    return PieceContent(KVRun(()), Checkpoint(length=length, conv=(), delta=()))


def test_a_mapped_tensor_does_not_reach_the_file(tmp_path: Path) -> None:
    """Nor does a copy hang on it."""
    content = make_content(5, 1, 1, (torch.float32, torch.float32))
    content = PieceContent(content.kv, replace(content.checkpoint, length=5))
    tier = DiskTier.open(tmp_path, fingerprint=FINGERPRINT, limit_bytes=1 << 20)
    try:
        draft = tier.draft(None, range(5), content, Rank.SYSTEM, "")
        tier.write(draft)
        assert tier.flush(10)
        mapped = tier.load(draft.file, 5)
        copied = mapped.copy()
        [path] = piece_files(tmp_path)
        before = path.read_bytes()
        mapped.kv.tensors[0].zero_()
        assert path.read_bytes() == before
        assert torch.equal(copied.kv.tensors[0], content.kv.tensors[0])
        path.write_bytes(before[:-1] + b"x")
        with pytest.raises(DamagedPieceError, match="bytes"):
            tier.load(draft.file, 5)
    finally:
        tier.close()
