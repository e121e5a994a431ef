"""Brings a model's weights into the formats that it is to be computed in, once for all loads.

Knows which files the formats are made of and where they may be kept; knows nothing of architectures.
"""

from collections.abc import Callable, Mapping
import hashlib
import json
import logging
from pathlib import Path

from ..config import EngineConfig
from ..weights.conversion import Conversion, RuntimeSource
from ..weights.kept_weights import FOLDER, converted
from ..weights.quantized import TensorSource
from ..weights.quantizing import Format
from ..weights.runtime_matrix import Int4Layout
from .fingerprint import weights_digest
from .model import LoadedWeights
from .weight_formats import main_format

type OnConverted = Callable[[float], None]

# Of the files that are kept: a change of what is in them, or of how it is found, makes them anew.
_VERSION = 1
_DIGEST_DIGITS = 16
_PACKAGE = Path(__file__).resolve().parents[1]
_LOGGER = logging.getLogger(__name__)
_NO_KERNEL = (
    "int4 weights are slow on this device: torch has no kernel for them here, and"
    " they are dequantized for every token"
)


def runtime_weights(
    folder: Path,
    source: TensorSource,
    names: tuple[str, ...],
    formats: Mapping[str, Format],
    config: EngineConfig,
    *,
    layout: Int4Layout,
    on_converted: OnConverted | None,
) -> tuple[RuntimeSource, LoadedWeights]:
    """Find or make the weights of a model in `formats`; `on_converted` is told which share is done.

    `names` are all tensors that are needed. Beside the model is the first place to keep them, unless it is
    built in, the cache folder the second.
    """
    main = main_format(formats)
    if main is None:
        return source, LoadedWeights(format="bf16")
    conversion = Conversion(
        source=source, names=names, formats=formats, block=layout.block
    )
    beside = folder if folder.is_dir() else folder.parent
    # What comes with the engine is the package's, and goes with its next version.
    is_ours = beside.resolve().is_relative_to(_PACKAGE)
    folders = [] if is_ours else [beside / FOLDER]
    if config.cache_folder is not None:
        folders.append(config.cache_folder / "weights")
    found = converted(
        conversion,
        name=f"{folder.resolve().name}-{main}",
        digest=_digest(folder, conversion),
        folders=folders,
        progress=_Progress(folder.resolve().name, main, on_converted),
    )
    is_slow = main == "int4" and not layout.has_kernel
    notices = (*found.notices, _NO_KERNEL) if is_slow else found.notices
    return found.source, LoadedWeights(format=main, key=found.key, notices=notices)


class _Progress:
    """Tells whoever asked, and the log at every tenth."""

    def __init__(self, name: str, main: str, on_converted: OnConverted | None) -> None:
        self._name = name
        self._main = main
        self._on_converted = on_converted
        self._tenths = -1

    def __call__(self, share: float) -> None:
        if self._on_converted is not None:
            self._on_converted(share)
        if int(share * 10) > self._tenths:
            self._tenths = int(share * 10)
            _LOGGER.info(
                "The weights of %s become %s, once: %d %%",
                self._name,
                self._main,
                self._tenths * 10,
            )


def _digest(folder: Path, conversion: Conversion) -> str:
    """Digest all that decides what a file of converted weights holds."""
    facts = [
        _VERSION,
        weights_digest(folder),
        sorted(conversion.formats.items()),
        conversion.block,
    ]
    return hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:_DIGEST_DIGITS]
