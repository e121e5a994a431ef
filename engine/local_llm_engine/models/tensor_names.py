"""Matches the tensors that a checkpoint holds with those that an architecture needs, each by name and shape.

Knows how checkpoints prefix names and what in them is not ours to compute; reads no weights.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from ..errors import WeightFormatError
from ..weights.quantized import FLOAT_DTYPES, QuantizedInfo, StoredInfo

HEAD = "lm_head.weight"
# Longest first: the shorter one is a prefix of the longer one.
_PREFIXES = ("model.language_model.", "model.")
# The vision tower and the layers for multi-token prediction: known, and not needed to answer in text.
_SKIPPED = ("model.visual.", "visual.", "mtp.", "model.mtp.")
_MAX_NAMES_SHOWN = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class MatchedTensors:
    """The tensors to load: those of the text model under `prefix`, and the head.

    `has_head` says whether the checkpoint holds a head, be it tied or not.
    """

    prefix: str
    has_head: bool
    used: tuple[StoredInfo, ...]


def prefix_of(names: Iterable[str]) -> str:
    """Find what a checkpoint puts before the names of the text model."""
    names = tuple(names)
    return next(
        (
            prefix
            for prefix in _PREFIXES
            if any(name.startswith(prefix) for name in names)
        ),
        _PREFIXES[-1],
    )


def match_tensors(
    folder: Path,
    infos: Mapping[str, StoredInfo],
    shapes: Mapping[str, tuple[int, ...]],
    *,
    head_shape: tuple[int, int],
    tied: bool,
    described_by: str,
) -> MatchedTensors:
    """Find every needed tensor and account for every other.

    `shapes` are the text model's, named without prefix. A `tied` head may be left out of the checkpoint.
    `described_by` names what has said what the model needs, for messages.

    Raises:
        WeightFormatError: a tensor is missing, unknown, of the wrong shape or of a dtype that is not
            computed; the message names it and what would be right.
    """
    prefix = prefix_of(infos)
    needed = {prefix + name: shape for name, shape in shapes.items()}
    if not tied or HEAD in infos:
        needed[HEAD] = head_shape
    _check_names(folder, infos, needed, described_by)
    used = tuple(infos[name] for name in needed)
    for info in used:
        _check_tensor(info, needed[info.name], described_by)
    return MatchedTensors(prefix=prefix, has_head=HEAD in infos, used=used)


def _check_names(
    folder: Path,
    infos: Iterable[str],
    needed: Mapping[str, object],
    described_by: str,
) -> None:
    names = tuple(infos)
    missing = sorted(needed.keys() - set(names))
    if missing:
        raise WeightFormatError(
            f"{folder}: {_list(missing)} missing from the weights; {described_by} asks for it"
        )
    unknown = [
        name for name in names if name not in needed and not name.startswith(_SKIPPED)
    ]
    if unknown:
        raise WeightFormatError(
            f"{folder}: {_list(unknown)} in the weights, unknown to the model that {described_by} describes"
        )


def _check_tensor(info: StoredInfo, shape: tuple[int, ...], described_by: str) -> None:
    if info.shape != shape:
        raise WeightFormatError(
            f"{info.file}: tensor {info.name!r} has the shape {list(info.shape)}; {described_by} asks for {list(shape)}"
        )
    if not isinstance(info, QuantizedInfo) and info.dtype not in FLOAT_DTYPES:
        raise WeightFormatError(
            f"{info.file}: tensor {info.name!r} has the dtype {info.dtype}; supported are {', '.join(FLOAT_DTYPES)}"
        )


def _list(names: Iterable[str]) -> str:
    """Name the first tensors and count the rest."""
    names = list(names)
    shown = ", ".join(repr(name) for name in names[:_MAX_NAMES_SHOWN])
    rest = len(names) - _MAX_NAMES_SHOWN
    more = f" and {rest} more" if rest > 0 else ""
    return f"{'tensor' if len(names) == 1 else 'tensors'} {shown}{more} {'is' if len(names) == 1 else 'are'}"
