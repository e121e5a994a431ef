"""What a case is in work, by a model's shapes alone: the bytes that must be read, and the operations of all matrices.

Knows nothing of how it is done; what attention and the delta rule compute beside the matrices does not count.
"""

from dataclasses import dataclass
import math
from pathlib import Path
from typing import Self

import torch

from local_llm_engine.config import EngineConfig
from local_llm_engine.models.architectures import architecture_of, read_config
from local_llm_engine.models.config import ModelConfig
from local_llm_engine.models.decoder import EMBEDDING, tensor_shapes
from local_llm_engine.models.registry import EnginePlan, plan_model
from local_llm_engine.weights.quantizing import format_bytes

from .cases import Case


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """Bytes, and multiplications and additions, of one case."""

    nbytes: int
    operations: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelWork:
    """What one token needs: bytes and parameters of the layers and of the head, and the state's bytes.

    Of experts, only the chosen ones count; of an embedding that is not the head, nothing.
    """

    layers_bytes: int
    head_bytes: int
    layers_parameters: int
    head_parameters: int
    kv_token_bytes: int
    recurrent_bytes: int
    chunk_tokens: int

    @classmethod
    def of(cls, folder: Path, config: EngineConfig) -> Self:
        """Work it out from config.json and the headers of the weights."""
        plan, model = plan_model(folder, config), read_config(folder)
        used = 0.0
        unread = 0.0
        for name, shape in tensor_shapes(architecture_of(model), model).items():
            if name != EMBEDDING and len(shape) > 1:
                share = _share_read(name, model)
                used += math.prod(shape) * share
                unread += _nbytes(plan, shape) * (1 - share)
        head = (model.vocab_size, model.hidden_size)
        head_bytes = _head_bytes(plan, head)
        num_tables = 1 if model.tie_word_embeddings else 2
        return cls(
            layers_bytes=int(plan.weights_bytes - num_tables * head_bytes - unread),
            head_bytes=head_bytes,
            layers_parameters=int(used),
            head_parameters=math.prod(head),
            kv_token_bytes=plan.state.token,
            recurrent_bytes=plan.state.recurrent,
            chunk_tokens=config.prefill_chunk_tokens,
        )

    def of_case(self, case: Case) -> Work | None:
        """Add up a case of prefill or decode; None for the rest, where it depends on the prompt."""
        match case.kind:
            case "prefill":
                starts = range(0, case.num_tokens, self.chunk_tokens)
                num_heads = 1
            case "decode":
                starts = range(case.depth, case.depth + case.num_tokens)
                num_heads = case.num_tokens
            case _:
                return None
        step_bytes = self.layers_bytes + self.recurrent_bytes
        return Work(
            nbytes=len(starts) * step_bytes
            + sum(starts) * self.kv_token_bytes
            + num_heads * self.head_bytes,
            operations=2
            * (
                case.num_tokens * self.layers_parameters
                + num_heads * self.head_parameters
            ),
        )


def _share_read(name: str, model: ModelConfig) -> float:
    if ".experts." not in name or model.experts is None:
        return 1.0
    return model.experts.num_experts_per_tok / model.experts.num_experts


def _nbytes(plan: EnginePlan, shape: tuple[int, ...]) -> int:
    match plan.weights:
        case "int4" | "int8" as own:
            return format_bytes(own, shape)
        case _:
            return math.prod(shape) * _element_bytes(plan)


def _head_bytes(plan: EnginePlan, shape: tuple[int, ...]) -> int:
    if plan.weights == "bf16":
        return math.prod(shape) * _element_bytes(plan)
    return format_bytes("int8", shape)


def _element_bytes(plan: EnginePlan) -> int:
    dtype: torch.dtype = getattr(torch, plan.dtype)
    return dtype.itemsize
