"""Attention and rotary embedding: reference against torch and transformers, fast forms against the reference."""

import pytest
import torch
from torch import Tensor
from torch.nn import functional
from torch.testing import assert_close
from transformers import Qwen3_5TextConfig
from transformers.models.qwen3_5.modeling_qwen3_5 import (
    Qwen3_5TextRotaryEmbedding,
    apply_rotary_pos_emb,
)

from local_llm_engine.ops.attention import (
    attention,
    attention_one_row,
    attention_reference,
    rotary_angles,
    rotate,
)

HEADS = [
    pytest.param((4, 4), id="one query head a key head"),
    pytest.param((4, 2), id="two query heads a key head"),
    pytest.param((6, 1), id="six query heads a key head"),
]
STRETCHES = [
    pytest.param((1, 1), id="first token"),
    pytest.param((1, 300), id="one row deep down"),
    pytest.param((2, 2), id="two rows"),
    pytest.param((63, 64), id="63 rows after one"),
    pytest.param((64, 64), id="64 rows"),
    pytest.param((65, 265), id="65 rows deep down"),
    pytest.param((200, 200), id="200 rows"),
]


def random_inputs(
    stretch: tuple[int, int], heads: tuple[int, int] = (4, 2), head_dim: int = 16
) -> tuple[Tensor, Tensor, Tensor]:
    """Draw query [T, HQ, D], and keys and values [HKV, P, D] as views of longer buffers full of NaN."""
    generator = torch.Generator().manual_seed(42)
    num_tokens, prefix = stretch
    num_heads, num_key_heads = heads
    buffers = torch.full((2, num_key_heads, prefix + 7, head_dim), float("nan"))
    buffers[:, :, :prefix] = torch.randn(
        2, num_key_heads, prefix, head_dim, generator=generator
    )
    query = torch.randn(num_tokens, num_heads, head_dim, generator=generator)
    return query, buffers[0, :, :prefix], buffers[1, :, :prefix]


@pytest.mark.parametrize("heads", HEADS)
@pytest.mark.parametrize("stretch", STRETCHES)
def test_reference_equals_published(
    stretch: tuple[int, int], heads: tuple[int, int]
) -> None:
    query, keys, values = random_inputs(stretch, heads)
    num_tokens, prefix = stretch
    mask = torch.ones(num_tokens, prefix, dtype=torch.bool).tril(prefix - num_tokens)
    expected = functional.scaled_dot_product_attention(
        query.transpose(0, 1)[None],
        keys[None],
        values[None],
        attn_mask=mask,
        enable_gqa=True,
    )
    assert_close(attention_reference(query, keys, values), expected[0].transpose(0, 1))


@pytest.mark.parametrize("heads", HEADS)
@pytest.mark.parametrize("stretch", STRETCHES)
def test_fast_equals_reference(
    stretch: tuple[int, int], heads: tuple[int, int]
) -> None:
    inputs = random_inputs(stretch, heads)
    assert_close(attention(*inputs), attention_reference(*inputs))


@pytest.mark.parametrize("heads", HEADS)
@pytest.mark.parametrize("prefix", [1, 2, 65, 300])
def test_one_row_equals_reference(prefix: int, heads: tuple[int, int]) -> None:
    query, keys, values = random_inputs((1, prefix), heads)
    assert_close(
        attention_one_row(query, keys, values, prefix),
        attention_reference(query, keys, values),
    )


@pytest.mark.parametrize("prefix", [1, 65])
def test_what_follows_the_prefix_counts_for_nothing(prefix: int) -> None:
    query, keys, values = random_inputs((1, 100))
    expected = attention_one_row(query, keys, values, prefix)
    keys[:, prefix:] = float("nan")
    values[:, prefix:] = 1e30
    assert torch.equal(attention_one_row(query, keys, values, prefix), expected)


@pytest.mark.parametrize("stretch", [(1, 300), (65, 265)], ids=["one row", "65 rows"])
def test_bfloat16_within_rounding(stretch: tuple[int, int]) -> None:
    query, keys, values = (tensor.bfloat16() for tensor in random_inputs(stretch))
    expected = attention_reference(query.float(), keys.float(), values.float())
    output = attention(query, keys, values)
    assert output.dtype == torch.bfloat16
    assert_close(output.float(), expected, rtol=2e-2, atol=2e-2)
    assert_close(
        attention_one_row(query[-1:], keys, values, keys.shape[1]).float(),
        expected[-1:],
        rtol=2e-2,
        atol=2e-2,
    )


@pytest.mark.parametrize("partial_rotary_factor", [0.25, 0.5, 1.0])
@pytest.mark.parametrize("start", [0, 5, 6000])
def test_rotary_equals_published(start: int, partial_rotary_factor: float) -> None:
    config = Qwen3_5TextConfig(
        head_dim=32,
        rope_parameters={
            "rope_type": "default",
            "rope_theta": 10_000.0,
            "partial_rotary_factor": partial_rotary_factor,
            "mrope_interleaved": True,
            "mrope_section": [2, 1, 1],
        },
    )
    generator = torch.Generator().manual_seed(42)
    query, key = torch.randn(2, 1, 3, 7, 32, generator=generator)  # [B, H, T, D] each
    positions = torch.arange(start, start + 7)[None, None].expand(3, 1, 7)
    rotary = Qwen3_5TextRotaryEmbedding(config)
    expected = apply_rotary_pos_emb(query, key, *rotary(query, positions))
    angles = rotary_angles(start, 7, rotary.inv_freq)
    rotated = [rotate(rows[0].transpose(0, 1), *angles) for rows in (query, key)]
    assert_close(rotated, [rows[0].transpose(0, 1) for rows in expected])
