"""What config.json says of how the weights are quantized.

Knows the formats that can be read and refuses all others by name; reads no weights.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from ..errors import UnsupportedModelError, shown
from ..weights.awq import AwqScheme
from ..weights.fp8 import Fp8Scheme
from ..weights.gptq import GptqScheme
from ..weights.packed_int4 import PackedInt4Scheme
from ..weights.quantized import Scheme
from .config_fields import ConfigFields

_SECTION = "quantization_config"
_MAX_GROUP = 1 << 20


def read_scheme(top: ConfigFields) -> Scheme | None:
    """Read how a model's weights are quantized; None: they are not.

    Raises:
        ModelLoadError: a field is missing or out of its range.
        UnsupportedModelError: they are quantized in a way that cannot be read.
    """
    fields = top
    if _SECTION not in top and "text_config" in top:
        fields = top.section("text_config")
    if _SECTION not in fields:
        return None
    section = fields.section(_SECTION)
    method = section.get("quant_method")
    read = _READERS.get(method) if isinstance(method, str) else None
    if read is None:
        raise UnsupportedModelError(
            f"{top.file}: the weights are quantized ({shown(method)}); "
            f"supported are {', '.join(_READERS)} and unquantized BF16, F16 and F32 weights"
        )
    return read(section)


def _read_fp8(section: ConfigFields) -> Fp8Scheme:
    _require(section, {"activation_scheme": ("dynamic",), "fmt": ("e4m3",)})
    block = section.get("weight_block_size")
    if (
        not isinstance(block, list)
        or len(block) != 2
        or any(type(size) is not int or not 0 < size <= _MAX_GROUP for size in block)
    ):
        raise section.error("weight_block_size", "a block's rows and columns")
    return Fp8Scheme(block_rows=block[0], block_columns=block[1])


def _read_gptq(section: ConfigFields) -> GptqScheme:
    # Older files name no format, and are of the first version.
    _require(section, {"bits": (4,), "checkpoint_format": ("gptq", "gptq_v2")})
    group_size = _group_size(section)
    if "dynamic" in section:
        _refuse_overrides(section.section("dynamic"), group_size)
    return GptqScheme(
        group_size=group_size,
        stored_less_one=section.get("checkpoint_format") != "gptq_v2",
    )


def _read_awq(section: ConfigFields) -> AwqScheme:
    name = "w_bit" if "w_bit" in section else "bits"
    _require(section, {name: (4,), "version": ("gemm", "GEMM"), "zero_point": (True,)})
    return AwqScheme(group_size=_group_size(section))


def _read_compressed_tensors(section: ConfigFields) -> PackedInt4Scheme:
    _require(section, {"format": ("pack-quantized",)})
    groups = section.section("config_groups")
    schemes = {_read_group(groups.section(name)) for name in groups.names()}
    if len(schemes) != 1:
        raise UnsupportedModelError(
            f"{section.file}: {section.name_of('config_groups')} holds {len(schemes)} ways of quantizing; supported is one"
        )
    return schemes.pop()


def _read_group(group: ConfigFields) -> PackedInt4Scheme:
    _require(group, {"format": ("pack-quantized",), "input_activations": (None,)})
    weights = group.section("weights")
    _require(
        weights,
        {
            "num_bits": (4,),
            "type": ("int",),
            "strategy": ("group", "channel"),
            "dynamic": (False,),
        },
    )
    by_group = weights.get("strategy") != "channel"
    return PackedInt4Scheme(
        group_size=weights.whole("group_size", high=_MAX_GROUP) if by_group else None,
        symmetric=weights.flag("symmetric", default=True),
    )


def _refuse_overrides(rules: ConfigFields, group_size: int | None) -> None:
    """Refuse what would quantize some matrices otherwise.

    Rules that leave matrices out ("-:") need no reading: those stand in the checkpoint by their plain names.
    """
    for name in rules.names():
        if name.startswith("-:") or not rules.get(name):
            continue
        rule = rules.section(name)
        _require(rule, {"bits": (4,), "group_size": (group_size or -1,)})


def _group_size(section: ConfigFields) -> int | None:
    if section.get("group_size") == -1:
        return None
    return section.whole("group_size", high=_MAX_GROUP)


def _require(fields: ConfigFields, supported: Mapping[str, tuple[Any, ...]]) -> None:
    """Refuse options that are there and have another than the supported values."""
    for name, values in supported.items():
        if name in fields and fields.get(name) not in values:
            raise UnsupportedModelError(
                f"{fields.file}: {fields.name_of(name)} is {shown(fields.get(name))}; supported is {values[0]!r}"
            )


_READERS: Mapping[str, Callable[[ConfigFields], Scheme]] = MappingProxyType(
    {
        "awq": _read_awq,
        "compressed-tensors": _read_compressed_tensors,
        "fp8": _read_fp8,
        "gptq": _read_gptq,
    }
)
