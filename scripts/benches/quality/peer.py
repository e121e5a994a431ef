"""What the gguf package's quantizer makes of a model: the peer of our own int4.

Its matrices are dequantized for the comparison, and computed like any other.
"""

from pathlib import Path
import shutil

import gguf
from gguf import GGMLQuantizationType as Type
from safetensors.torch import save_file
import torch
from torch import Tensor

from local_llm_engine.config import EngineConfig
from local_llm_engine.models.gguf import open_gguf
from local_llm_engine.models.gguf_layout import recipes
from local_llm_engine.models.registry import Model, load_model
from local_llm_engine.models.weight_formats import RULES
from local_llm_engine.weights.gguf_header import gguf_file_of, read_gguf_header
from local_llm_engine.weights.safetensors import SafetensorsFolder

PEER = "Q4_0 of gguf"
_CONFIG_FILES = (
    "config.json",
    "generation_config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "chat_template.jinja",
)


def load_peer(path: Path, scratch: Path) -> tuple[Model, int]:
    """Load a model whose matrices are in Q4_0, and in Q8_0 where ours has int8; return it and the bytes of its weights."""
    file = gguf_file_of(path)
    if file is None:
        copy = scratch / "peer"
        nbytes = _write_folder(path, copy)
    else:
        copy = scratch / "peer.gguf"
        nbytes = _write_file(file, copy)
    return load_model(copy, EngineConfig(weights="bf16")), nbytes


def _write_folder(folder: Path, copy: Path) -> int:
    """Write a folder anew, its matrices already dequantized."""
    copy.mkdir()
    for name in _CONFIG_FILES:
        if (folder / name).exists():
            shutil.copyfile(folder / name, copy / name)
    source = SafetensorsFolder.open(folder)
    tensors: dict[str, Tensor] = {}
    nbytes = 0
    for name in source.infos:
        tensor = source.tensor(name)
        kind = _format(name, tensor.shape[-1])
        nbytes += tensor.nbytes if kind is None else 0
        if kind is not None:
            codes = gguf.quantize(tensor.float().numpy(), kind)
            nbytes += codes.nbytes
            tensor = torch.from_numpy(gguf.dequantize(codes, kind)).to(tensor.dtype)
        tensors[name] = tensor.clone()
    save_file(tensors, copy / "model.safetensors")
    return nbytes


def _write_file(file: Path, copy: Path) -> int:
    """Write a GGUF file anew, the parts of a model in several into one."""
    header = read_gguf_header(file)
    config, _ = open_gguf(file)
    names = {
        part.name: name
        for name, recipe in recipes(header, config)
        for part in recipe.parts
    }
    readers = [gguf.GGUFReader(part.stamp.file) for part in header.parts]
    writer = gguf.GGUFWriter(copy, str(header.metadata["general.architecture"]))
    _copy_metadata(readers[0], writer)
    nbytes = 0
    for stored in (tensor for reader in readers for tensor in reader.tensors):
        data, kind = stored.data, _format(names.get(stored.name, ""), stored.shape[0])
        if kind is not None:
            data = gguf.quantize(gguf.dequantize(data, stored.tensor_type), kind)
        nbytes += data.nbytes
        writer.add_tensor(stored.name, data, raw_dtype=kind or stored.tensor_type)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return nbytes


def _copy_metadata(reader: gguf.GGUFReader, writer: gguf.GGUFWriter) -> None:
    """Copy what the writer does not write by itself; there are no parts any more."""
    for field in reader.fields.values():
        if field.name.startswith(("GGUF.", "split.", "general.architecture")):
            continue
        kind, *_ = field.types
        inner = field.types[-1] if kind == gguf.GGUFValueType.ARRAY else None
        writer.add_key_value(field.name, field.contents(), kind, sub_type=inner)


def _format(name: str, num_columns: int) -> Type | None:
    rule = next(rule for rule in RULES if name.endswith(rule.endings))
    if rule.int4 is None or num_columns % 32:
        return None
    kinds = {"int4": Type.Q4_0, "int8": Type.Q8_0}
    return kinds[rule.int4]
