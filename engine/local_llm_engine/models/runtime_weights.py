"""Brings a model's weights into the formats that it is to be computed in, once for all loads.

Knows which files the formats are made of and where they may be kept; knows nothing of architectures.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
import hashlib
import json
import logging
from pathlib import Path

from torch import Tensor

from ..config import EngineConfig
from ..errors import LoadCancelledError, NotConvertedError
from ..weights.conversion import Check, Conversion, RuntimeSource
from ..weights.kept_weights import FOLDER, Found, KeptWeights
from ..weights.quantized import QuantizedMatrix, TensorSource
from ..weights.quantizing import Format
from ..weights.runtime_matrix import Int4Layout, RuntimeMatrix
from .fingerprint import weights_digest
from .model import LoadedWeights
from .weight_formats import main_format

type OnConverted = Callable[[float], None]
type IsCancelled = Callable[[], bool]

# Of the files that are kept: a change of what is in them, or of how it is found, makes them anew.
_VERSION = 1
_DIGEST_DIGITS = 16
_PACKAGE = Path(__file__).resolve().parents[1]
_LOGGER = logging.getLogger(__name__)
_NO_KERNEL = (
    "int4 weights are slow on this device: torch has no kernel for them here, and"
    " they are dequantized for every token"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Loading:
    """How a load goes: who is told which share is converted, who may end it, and whether it may convert at all.

    `is_cancelled` is asked between two tensors, and between the pieces of large ones.
    """

    on_converted: OnConverted | None = None
    is_cancelled: IsCancelled | None = None
    may_convert: bool = True

    def check(self) -> None:
        """Go on, or not.

        Raises:
            LoadCancelledError: whoever asked for this wants it no more.
        """
        if self.is_cancelled is not None and self.is_cancelled():
            raise LoadCancelledError("loading was given up")


@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimeWeights:
    """The weights of the model at `path`, those of `formats` in our own; `names` are all tensors that are needed."""

    path: Path
    source: TensorSource
    names: tuple[str, ...]
    formats: Mapping[str, Format]
    config: EngineConfig
    layout: Int4Layout

    def load(self, loading: Loading) -> tuple[RuntimeSource, LoadedWeights]:
        """Find the weights, or make them.

        Raises:
            NotConvertedError: they must be made, and `loading` may not.
            LoadCancelledError: it was given up.
        """
        main = main_format(self.formats)
        if main is None:
            source = _CheckedSource(self.source, loading.check)
            return source, LoadedWeights(format="bf16")
        kept = self._kept(main, loading)
        found = kept.find()
        if found is None and not loading.may_convert:
            raise NotConvertedError(
                f"{self.path}: the weights are not converted into {main} yet"
            )
        if found is None:
            found = kept.make_or_convert_anew(self._progress(main, loading))
        return self._loaded(found, main, loading)

    def convert(self, loading: Loading) -> None:
        """Make what `load` would, and keep it, unless it is there already or nothing is to be made.

        Raises:
            ConversionError: no folder takes it.
            LoadCancelledError: it was given up.
        """
        main = main_format(self.formats)
        if main is None:
            return
        kept = self._kept(main, loading)
        if kept.find() is None:
            kept.make(self._progress(main, loading))

    def _kept(self, main: Format, loading: Loading) -> KeptWeights:
        """Say where they are kept: beside the model, unless it is built in, or in the folders of the configuration."""
        conversion = Conversion(
            source=self.source,
            names=self.names,
            formats=self.formats,
            block=self.layout.block,
            check=loading.check,
        )
        beside = self.path if self.path.is_dir() else self.path.parent
        # What comes with the engine is the package's, and goes with its next version.
        is_ours = beside.resolve().is_relative_to(_PACKAGE)
        folders = [] if is_ours else [beside / FOLDER]
        own_folders = folders
        if self.config.weights_folder is not None:
            own_folders = [self.config.weights_folder]
            folders = [*own_folders, *folders]
        elif self.config.cache_folder is not None:
            own_folders = folders = [*folders, self.config.cache_folder / "weights"]
        return KeptWeights(
            conversion=conversion,
            name=f"{self.path.resolve().name}-{main}",
            digest=_digest(self.path, conversion),
            folders=folders,
            own_folders=own_folders,
        )

    def _loaded(
        self, found: Found, main: Format, loading: Loading
    ) -> tuple[RuntimeSource, LoadedWeights]:
        is_slow = main == "int4" and not self.layout.has_kernel
        notices = (*found.notices, _NO_KERNEL) if is_slow else found.notices
        return _CheckedSource(found.source, loading.check), LoadedWeights(
            format=main, key=found.key, notices=notices
        )

    def _progress(self, main: Format, loading: Loading) -> _Progress:
        return _Progress(self.path.resolve().name, main, loading.on_converted)


class _CheckedSource:
    """Asks before every tensor whether it is still wanted."""

    def __init__(self, source: RuntimeSource, check: Check) -> None:
        self._source = source
        self._check = check

    def stored(self, name: str) -> Tensor | QuantizedMatrix | RuntimeMatrix:
        self._check()
        return self._source.stored(name)

    def tensor(self, name: str) -> Tensor:
        self._check()
        return self._source.tensor(name)


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


def _digest(path: Path, conversion: Conversion) -> str:
    """Digest all that decides what a file of converted weights holds."""
    facts = [
        _VERSION,
        weights_digest(path),
        sorted(conversion.formats.items()),
        conversion.block,
    ]
    return hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:_DIGEST_DIGITS]
