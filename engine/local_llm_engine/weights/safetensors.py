"""A model folder's safetensors files: which tensors there are, and each of them memory-mapped.

Knows single files and shards behind an index; knows nothing of what a model expects.
"""

from collections.abc import Iterable, Mapping
import json
from pathlib import Path
from types import MappingProxyType
from typing import Any, Self, cast

from safetensors import SafetensorError, safe_open
from torch import Tensor

from ..errors import WeightFormatError, shown
from .bounded_file import read_bounded
from .file_stamp import FileStamp
from .safetensors_header import TensorInfo, read_header

SINGLE_FILE = "model.safetensors"
INDEX_FILE = "model.safetensors.index.json"
# Room for a line for each of the tensors of the largest models.
_MAX_INDEX_BYTES = 64 << 20
# What file systems take.
_MAX_NAME_CHARACTERS = 255


class SafetensorsFolder:
    """The tensors of a model folder by name.

    Where there is an index, it alone says which files belong to the model: other safetensors files in
    the folder are ignored.
    """

    def __init__(
        self, infos: Mapping[str, TensorInfo], stamps: Iterable[FileStamp]
    ) -> None:
        """Take tensors whose headers have been checked, and the stamps of their files from before that."""
        self.infos = MappingProxyType(dict(infos))
        self._stamps = {stamp.file: stamp for stamp in stamps}
        self._files: dict[Path, Any] = {}

    @classmethod
    def open(cls, folder: Path) -> Self:
        """Read and check all headers; no weights.

        Raises:
            WeightFormatError: a file is missing or damaged, or index and files disagree; the message
                names the file, the tensor and what would be right.
        """
        index = folder / INDEX_FILE
        if index.exists():
            weight_map = _read_index(index)
            files = sorted(set(weight_map.values()))
            _require_shards(folder, files)
            stamps = [FileStamp.of(folder / file) for file in files]
            return cls(_read_shards(folder, files, weight_map), stamps)
        single = folder / SINGLE_FILE
        if not single.exists():
            raise WeightFormatError(
                f"{folder}: holds neither {SINGLE_FILE} nor {INDEX_FILE}"
            )
        return cls.of_file(single)

    @classmethod
    def of_file(cls, file: Path) -> Self:
        """Read and check the header of a file that holds everything.

        Raises:
            WeightFormatError: it is missing or damaged.
        """
        stamp = FileStamp.of(file)
        return cls({info.name: info for info in read_header(file)}, [stamp])

    def tensor(self, name: str) -> Tensor:
        """Map one tensor, on the CPU and in its own dtype; its bytes are read when they are first used.

        The mapping is private: nothing that is done to the tensor reaches the file. It lives as long as
        a tensor of its file does.

        Raises:
            WeightFormatError: the file has changed since its header was read.
        """
        info = self.infos[name]
        self._stamps[info.file].require_unchanged()
        try:
            if info.file not in self._files:
                self._files[info.file] = safe_open(
                    str(info.file), framework="pt", device="cpu"
                )
            return cast("Tensor", self._files[info.file].get_tensor(name))
        except (SafetensorError, OSError) as err:
            raise WeightFormatError(
                f"{info.file}: tensor {name!r} cannot be read: {err}"
            ) from err

    def let_go(self) -> None:
        """Unmap all files, but for those of tensors that somebody still holds; what is asked for later is mapped anew."""
        self._files.clear()


def _read_index(index: Path) -> dict[str, str]:
    """Return which file of the folder holds which tensor."""
    try:
        parsed = json.loads(read_bounded(index, _MAX_INDEX_BYTES))
    except OSError as err:
        raise WeightFormatError(
            f"{index}: cannot be read: {err.strerror or err}"
        ) from err
    except (ValueError, RecursionError) as err:
        raise WeightFormatError(f"{index}: is not valid JSON: {err}") from err
    weight_map = parsed.get("weight_map") if isinstance(parsed, dict) else None
    if not isinstance(weight_map, dict) or not weight_map:
        raise WeightFormatError(
            f"{index}: needs an object 'weight_map' from tensor names to file names"
        )
    for name, file_name in weight_map.items():
        if (
            not isinstance(file_name, str)
            or not file_name.isprintable()
            or len(file_name) > _MAX_NAME_CHARACTERS
            or Path(file_name).name != file_name
        ):
            raise WeightFormatError(
                f"{index}: tensor {shown(name)} points to {shown(file_name)}; right is a file name in the same folder"
            )
    return weight_map


def _require_shards(folder: Path, file_names: Iterable[str]) -> None:
    for file in (folder / file_name for file_name in file_names):
        if not file.exists():
            raise WeightFormatError(
                f"{file}: is missing; {INDEX_FILE} lists it, so the model is incomplete without it"
            )


def _read_shards(
    folder: Path, file_names: Iterable[str], weight_map: Mapping[str, str]
) -> dict[str, TensorInfo]:
    infos: dict[str, TensorInfo] = {}
    for file_name in file_names:
        file = folder / file_name
        for info in read_header(file):
            listed = weight_map.get(info.name)
            if listed != file_name:
                place = f"puts it into {listed}" if listed else "does not list it"
                raise WeightFormatError(
                    f"{file}: holds tensor {info.name!r}, but {INDEX_FILE} {place}"
                )
            infos[info.name] = info
    for name, file_name in weight_map.items():
        if name not in infos:
            raise WeightFormatError(
                f"{folder / file_name}: tensor {shown(name)} is missing; {INDEX_FILE} puts it there"
            )
    return infos
