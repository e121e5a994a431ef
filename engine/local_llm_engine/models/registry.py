"""From a model folder or file to a model: which architecture it is, whether the folder is sound, where it runs.

Knows every architecture; knows nothing of prompts.
"""

from pathlib import Path
from types import MappingProxyType
from typing import get_args

import torch

from ..config import EngineConfig, KvCache, Weights
from ..errors import MemoryShortageError, ModelLoadError, WeightFormatError
from ..weights.gguf_header import gguf_file_of
from ..weights.loader import WeightLoader
from ..weights.quantized import StoredInfo, TensorSource, WeightSource
from ..weights.runtime_matrix import Int4Layout
from ..weights.safetensors import SafetensorsFolder
from .architectures import CONFIG_FILE, architecture_of, read_config
from .config import ModelConfig
from .decoder import EMBEDDING, DecoderModel, tensor_shapes
from .experts import follow_layout
from .gguf import open_gguf
from .model import Model, ModelSummary
from .placement import choose_device, choose_dtype
from .plan import EnginePlan, StateBytes, weights_need
from .process import prepare_process
from .runtime_weights import IsCancelled, Loading, OnConverted, RuntimeWeights
from .tensor_names import HEAD, MatchedTensors, match_tensors, prefix_of
from .weight_formats import formats_of

__all__ = [
    "EnginePlan",
    "IsCancelled",
    "Loading",
    "Model",
    "ModelSummary",
    "OnConverted",
    "convert_model",
    "inspect_model",
    "load_model",
    "plan_model",
]

DEFAULT_CONTEXT_LENGTH = 16_384


def inspect_model(folder: Path) -> ModelSummary:
    """Check everything that can be checked without reading weights, and say what the folder holds.

    Raises:
        ModelLoadError: and its kinds; the message names the file, the field or tensor, and what would
            be right.
    """
    config, _, matched = _examine(folder)
    return _summarize(folder, config, matched)


def plan_model(folder: Path, config: EngineConfig) -> EnginePlan:
    """Say what a model will need on `config.device`, without reading weights.

    Raises:
        ModelLoadError: and its kinds; as `inspect_model`, and where the device is not there.
    """
    model_config, weights, matched = _examine(folder)
    summary = _summarize(folder, model_config, matched)
    device = choose_device(config.device)
    dtype = choose_dtype(config.dtype, device, summary.num_parameters)
    layout = Int4Layout.of(device)
    tied = model_config.tie_word_embeddings
    used = _loaded(matched, model_config)
    by_choice = {
        choice: weights_need(
            used,
            formats_of(weights, used, choice, layout),
            model_config,
            element_bytes=dtype.itemsize,
            looked_up=None if tied else matched.prefix + EMBEDDING,
        )
        for choice in get_args(Weights.__value__)
    }
    need = by_choice[config.weights]
    states: dict[KvCache, StateBytes] = {
        choice: StateBytes.of(
            model_config,
            element_bytes=dtype.itemsize,
            half=config.half_checkpoints,
            kv_cache=choice,
        )
        for choice in get_args(KvCache.__value__)
    }
    return EnginePlan(
        model=summary,
        device=device.type,
        dtype=str(dtype).removeprefix("torch."),
        weights=need.format,
        kv_cache=config.kv_cache,
        context_length=min(
            summary.context_length, config.context_length or DEFAULT_CONTEXT_LENGTH
        ),
        weights_bytes=need.nbytes,
        weights_by_choice=MappingProxyType(by_choice),
        is_int4_slow=not layout.has_kernel,
        token_bytes_by_choice=MappingProxyType(
            {choice: state.token for choice, state in states.items()}
        ),
        state=states[config.kv_cache],
        prompt_cache_bytes=config.prompt_cache_bytes,
    )


def load_model(
    folder: Path, config: EngineConfig, loading: Loading | None = None
) -> Model:
    """Load a model for `config.device` in `config.dtype` and `config.weights`.

    On a CPU, weights that are stored in the dtype asked for stay in their mapped file. Weights in a format
    of our own are made at the first load.

    Raises:
        ModelLoadError: and its kinds; as `inspect_model`, and where the device is not there or too small.
        LoadCancelledError: `loading` was given up.
    """
    model_config, matched, weights = _open_runtime(folder, config)
    summary = _summarize(folder, model_config, matched)
    device = choose_device(config.device)
    dtype = choose_dtype(config.dtype, device, summary.num_parameters)
    if device.type == "cpu":
        prepare_process()
    try:
        with torch.no_grad():
            _check_tied_head(folder, model_config, matched, weights.source)
            source, loaded = weights.load(loading or Loading())
            loader = WeightLoader(
                source, device=device, dtype=dtype, layout=weights.layout
            )
            return DecoderModel(
                architecture_of(model_config),
                model_config,
                summary,
                loaded,
                loader.within(matched.prefix),
                None if model_config.tie_word_embeddings else loader.linear(HEAD),
                config.kv_cache,
            )
    except torch.OutOfMemoryError as err:
        raise MemoryShortageError(
            f"{folder}: the model does not fit into the memory of {device}: {err}"
        ) from err


def convert_model(folder: Path, config: EngineConfig, loading: Loading) -> None:
    """Make and keep the converted weights that `load_model` looks for; nothing where there are none to make.

    Raises:
        ModelLoadError: and its kinds; as `load_model`, and where no folder takes them.
        LoadCancelledError: `loading` was given up.
    """
    model_config, matched, weights = _open_runtime(folder, config)
    with torch.no_grad():
        _check_tied_head(folder, model_config, matched, weights.source)
        weights.convert(loading)


def _open_runtime(
    folder: Path, config: EngineConfig
) -> tuple[ModelConfig, MatchedTensors, RuntimeWeights]:
    """Open a model's weights as they are to be loaded."""
    model_config, source, matched = _examine(folder)
    layout = Int4Layout.of(choose_device(config.device))
    used = _loaded(matched, model_config)
    weights = RuntimeWeights(
        path=folder,
        source=source,
        names=tuple(info.name for info in used),
        formats=formats_of(source, used, config.weights, layout),
        config=config,
        layout=layout,
    )
    return model_config, matched, weights


def _loaded(matched: MatchedTensors, config: ModelConfig) -> list[StoredInfo]:
    """Name what is loaded: a head that is tied to the embedding is not, though a file may have it."""
    return [
        info
        for info in matched.used
        if info.name != HEAD or not config.tie_word_embeddings
    ]


def _examine(folder: Path) -> tuple[ModelConfig, TensorSource, MatchedTensors]:
    config, weights = _open(folder)
    config = follow_layout(config, weights.infos, prefix_of(weights.infos))
    matched = match_tensors(
        folder,
        weights.infos,
        tensor_shapes(architecture_of(config), config),
        head_shape=(config.vocab_size, config.hidden_size),
        tied=config.tie_word_embeddings,
        described_by="the metadata" if gguf_file_of(folder) else CONFIG_FILE,
    )
    return config, weights, matched


def _open(path: Path) -> tuple[ModelConfig, TensorSource]:
    """Open a model in whichever form it lies there."""
    file = gguf_file_of(path)
    if file is not None:
        return open_gguf(file)
    if not path.is_dir():
        raise ModelLoadError(
            f"{path}: is no folder and no file; a model is a folder with config.json and safetensors files, or a GGUF file"
        )
    config = read_config(path)
    return config, WeightSource(SafetensorsFolder.open(path), config.quantization)


def _summarize(
    folder: Path, config: ModelConfig, matched: MatchedTensors
) -> ModelSummary:
    return ModelSummary(
        name=folder.resolve().name,
        architecture=config.model_type,
        num_layers=config.num_hidden_layers,
        num_parameters=sum(info.num_elements for info in matched.used),
        weights_bytes=sum(info.nbytes for info in matched.used),
        context_length=config.max_position_embeddings,
        vocab_size=config.vocab_size,
    )


def _check_tied_head(
    folder: Path, config: ModelConfig, matched: MatchedTensors, weights: TensorSource
) -> None:
    """Refuse a head that config.json calls tied to the embedding and that differs from it."""
    if not (config.tie_word_embeddings and matched.has_head):
        return
    embedding = weights.tensor(matched.prefix + EMBEDDING)
    if not torch.equal(weights.tensor(HEAD).to(embedding.dtype), embedding):
        raise WeightFormatError(
            f"{folder}: config.json says tie_word_embeddings, but tensor {HEAD!r} differs from {matched.prefix + EMBEDDING!r}"
        )
