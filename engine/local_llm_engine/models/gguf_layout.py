"""Undoes what llama.cpp's converter does to a model's tensors: their names, and for some families their order and values.

Knows what it does for each family (llama.cpp, conversion/qwen.py and conversion/llama.py); reads no weights.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
import math

import torch
from torch import Tensor

from ..errors import WeightFormatError
from ..weights.gguf_header import GgufHeader
from ..weights.gguf_source import Change, Recipe
from ..weights.safetensors_header import TensorInfo
from .config import DeltaNetConfig, ModelConfig
from .gguf_names import BARE, EXPERTS, LEAVES, ROPE_FACTORS, WHOLE

# Of Qwen3-Next: what its makers have in one matrix, key head by key head.
_PARTED = ("attn_qkv.weight", "attn_gate.weight")
_ZERO_CENTRED = ("qwen3_5_text", "qwen3_5_moe_text", "qwen3_next")
_GATED_NORM = "linear_attn.norm.weight"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Order:
    """Which stored row or column is which of ours.

    It is made where there are so many, and not before: the metadata may claim any number.
    """

    size: int
    make: Callable[[], Tensor]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Orders:
    """The orders of rows and columns, by the ends of our names; None: they are in order."""

    rows: Mapping[str, _Order]
    columns: Mapping[str, _Order]


def recipes(header: GgufHeader, config: ModelConfig) -> Iterator[tuple[str, Recipe]]:
    """Say how each tensor of the model is made of the file's; those of no layer of the model are left out.

    A tensor that nobody knows keeps its name, and is refused by that where names are matched.

    Raises:
        WeightFormatError: a tensor cannot be taken apart as it should.
    """
    orders = _orders(config)
    predicting = {
        name.split(".nextn.")[0] for name in header.tensors if ".nextn." in name
    }
    for name, info in header.tensors.items():
        start, index, leaf = (*name.split(".", 2), "", "")[:3]
        if f"{start}.{index}" in predicting or name == ROPE_FACTORS:
            continue
        if name in WHOLE:
            yield _made(WHOLE[name], info, config, orders)
        elif start == "blk" and config.model_type == "qwen3_next" and leaf in _PARTED:
            yield from _joined(index, leaf, header, config)
        elif start == "blk":
            yield from _of_layer(f"model.layers.{index}.", leaf, info, config, orders)
        else:
            yield name, Recipe(parts=(info,), shape=info.shape)


def _of_layer(
    prefix: str, leaf: str, info: TensorInfo, config: ModelConfig, orders: _Orders
) -> Iterator[tuple[str, Recipe]]:
    stem, _, ending = leaf.rpartition(".")
    if leaf in EXPERTS:
        yield from _experts(f"{prefix}mlp.experts.", leaf, info, config)
    elif leaf in BARE:
        yield _made(prefix + BARE[leaf], info, config, orders)
    elif stem in LEAVES and ending in ("weight", "bias"):
        yield _made(f"{prefix}{LEAVES[stem]}.{ending}", info, config, orders)
    else:
        yield info.name, Recipe(parts=(info,), shape=info.shape)


def _made(
    name: str, info: TensorInfo, config: ModelConfig, orders: _Orders
) -> tuple[str, Recipe]:
    """Say how a tensor is made of one of the file's."""
    end = name.split(".", 3)[-1] if name.startswith("model.layers.") else name
    rows, columns, shape = orders.rows.get(end), orders.columns.get(end), info.shape
    if end == "linear_attn.conv1d.weight":
        shape = (shape[0], 1, shape[-1])
    elif end == "mlp.shared_expert_gate.weight":
        shape = (1, shape[-1])
    elif len(shape) == 1:
        # A vector is one row.
        rows, columns = None, columns if rows is None else rows
    if math.prod(shape) != math.prod(info.shape):
        shape = info.shape
    change: Change | None = None
    if end == "linear_attn.A_log":
        change = _log_of_negated
    elif (
        config.model_type in _ZERO_CENTRED
        and end.endswith("norm.weight")
        and end != _GATED_NORM
    ):
        change = _less_one
    return name, Recipe(
        parts=(info,),
        shape=shape,
        rows=_order_of(info, rows, shape[0]),
        columns=_order_of(info, columns, shape[-1]),
        change=change,
    )


def _order_of(info: TensorInfo, order: _Order | None, size: int) -> Tensor | None:
    """Make an order of as many rows or columns as there are."""
    if order is None:
        return None
    if order.size != size:
        raise WeightFormatError(
            f"{info.file}: tensor {info.name!r} has the shape {list(info.shape)}; "
            f"the metadata asks for {order.size} where it has {size}"
        )
    return order.make()


def _joined(
    index: str, leaf: str, header: GgufHeader, config: ModelConfig
) -> Iterator[tuple[str, Recipe]]:
    """Join queries, keys, values and gates again: of each key head its query, its key, its values and their gates."""
    mixed, gate = (header.tensors.get(f"blk.{index}.{part}") for part in _PARTED)
    net = config.delta_net
    if mixed is None or gate is None or net is None or leaf != _PARTED[0]:
        # Once for both; of one alone, the whole is missing.
        return
    sizes = [net.key_size, net.key_size, net.value_size, net.value_size]
    right = ((sum(sizes[:3]), config.hidden_size), (sizes[3], config.hidden_size))
    for info, shape in zip((mixed, gate), right, strict=True):
        if info.shape != shape:
            raise WeightFormatError(
                f"{info.file}: tensor {info.name!r} has the shape {list(info.shape)}; the metadata asks for {list(shape)}"
            )
    stored = torch.split(torch.arange(sum(sizes)), sizes)
    rows = torch.cat(
        [part.view(net.linear_num_key_heads, -1) for part in stored], dim=1
    )
    yield (
        f"model.layers.{index}.linear_attn.in_proj_qkvz.weight",
        Recipe(
            parts=(mixed, gate),
            shape=(sum(sizes), config.hidden_size),
            rows=rows.flatten(),
        ),
    )


def _experts(
    prefix: str, leaf: str, info: TensorInfo, config: ModelConfig
) -> Iterator[tuple[str, Recipe]]:
    """Take all experts of a layer apart: each is a run of bytes of its own, and stays mapped where it can."""
    projections = EXPERTS[leaf]
    count = config.experts.num_experts if config.experts else 0
    if (
        len(info.shape) != 3
        or info.shape[0] != count
        or info.shape[1] % len(projections)
    ):
        raise WeightFormatError(
            f"{info.file}: tensor {info.name!r} has the shape {list(info.shape)}; right are {count} matrices, one an expert"
        )
    shape = (info.shape[1] // len(projections), info.shape[2])
    nbytes = info.nbytes // (count * len(projections))
    start = info.start
    for expert in range(count):
        for projection in projections:
            part = replace(info, shape=shape, start=start, end=start + nbytes)
            start += nbytes
            yield (
                f"{prefix}{expert}.{projection}.weight",
                Recipe(parts=(part,), shape=shape),
            )


def _orders(config: ModelConfig) -> _Orders:
    if config.model_type == "llama":
        query = _turned_pairs(config.num_attention_heads, config.head_dim)
        key = _turned_pairs(config.num_key_value_heads, config.head_dim)
        ends = {"self_attn.q_proj": query, "self_attn.k_proj": key}
        rows = {
            f"{end}.{kind}": order
            for end, order in ends.items()
            for kind in ("weight", "bias")
        }
        return _Orders(rows=rows, columns={})
    net = config.delta_net
    if (
        net is None
        or config.model_type == "qwen3_next"
        or net.linear_num_key_heads == net.linear_num_value_heads
    ):
        return _Orders(rows={}, columns={})
    return _grouped(net)


def _turned_pairs(num_heads: int, head_dim: int) -> _Order:
    """Order the rows of a projection for an embedding that turns a head's first half with its second.

    The converter put the two values of a pair beside each other.
    """
    size = num_heads * head_dim

    def make() -> Tensor:
        pairs = torch.arange(size).view(num_heads, head_dim // 2, 2)
        return pairs.transpose(1, 2).flatten()

    return _Order(size=size, make=cache(make))


def _grouped(net: DeltaNetConfig) -> _Orders:
    """Order value heads by their key heads; the converter put the first of every key head first, then the second."""

    def grouped(width: int, num_others: int = 0) -> _Order:
        size = net.linear_num_value_heads * width

        def make() -> Tensor:
            stored = torch.arange(size).view(-1, net.linear_num_key_heads, width)
            heads = stored.transpose(0, 1).flatten()
            return torch.cat((torch.arange(num_others), num_others + heads))

        return _Order(size=num_others + size, make=cache(make))

    heads, values = grouped(1), grouped(net.linear_value_head_dim)
    mixed = grouped(net.linear_value_head_dim, 2 * net.key_size)
    return _Orders(
        rows={
            "linear_attn.A_log": heads,
            "linear_attn.dt_bias": heads,
            "linear_attn.in_proj_a.weight": heads,
            "linear_attn.in_proj_b.weight": heads,
            "linear_attn.in_proj_z.weight": values,
            "linear_attn.in_proj_qkv.weight": mixed,
            "linear_attn.conv1d.weight": mixed,
        },
        columns={"linear_attn.out_proj.weight": values},
    )


def _less_one(scale: Tensor) -> Tensor:
    return scale - 1.0


def _log_of_negated(rate: Tensor) -> Tensor:
    if not bool((rate <= 0).all()):
        raise WeightFormatError(
            "a tensor ssm_a holds numbers above 0; right are the negated rates of decay"
        )
    return rate.neg().log()
