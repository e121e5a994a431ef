"""How large nano is, as Hugging Face's config.json says it."""

from dataclasses import dataclass
from typing import Any

from .tokenizer import END_OF_TURN, VOCABULARY_SIZE


@dataclass(frozen=True, slots=True, kw_only=True)
class NanoConfig:
    """The sizes of a `qwen3_5_text` model; `layers` has a letter for each, d for Gated DeltaNet and a for attention."""

    hidden_size: int = 192
    intermediate_size: int = 512
    layers: str = "ddadda"
    num_heads: int = 4
    num_kv_heads: int = 2
    head_dim: int = 64
    rotary_dim: int = 32
    rope_theta: float = 10_000.0
    delta_heads: int = 4
    key_dim: int = 64
    value_dim: int = 64
    kernel: int = 4
    epsilon: float = 1e-6
    vocab_size: int = VOCABULARY_SIZE

    @property
    def num_channels(self) -> int:
        """Queries, keys and values of a DeltaNet layer side by side."""
        return self.delta_heads * (2 * self.key_dim + self.value_dim)

    def as_json(self) -> dict[str, Any]:
        """Return what config.json says."""
        return {
            "architectures": ["Qwen3_5ForCausalLM"],
            "attention_bias": False,
            "attention_dropout": 0.0,
            "bos_token_id": None,
            "dtype": "bfloat16",
            "eos_token_id": END_OF_TURN,
            "head_dim": self.head_dim,
            "hidden_act": "silu",
            "hidden_size": self.hidden_size,
            "initializer_range": 0.02,
            "intermediate_size": self.intermediate_size,
            "layer_types": [
                "full_attention" if layer == "a" else "linear_attention"
                for layer in self.layers
            ],
            "linear_conv_kernel_dim": self.kernel,
            "linear_key_head_dim": self.key_dim,
            "linear_num_key_heads": self.delta_heads,
            "linear_num_value_heads": self.delta_heads,
            "linear_value_head_dim": self.value_dim,
            "max_position_embeddings": 32_768,
            "model_type": "qwen3_5_text",
            "num_attention_heads": self.num_heads,
            "num_hidden_layers": len(self.layers),
            "num_key_value_heads": self.num_kv_heads,
            "pad_token_id": None,
            "rms_norm_eps": self.epsilon,
            "rope_parameters": self._rotary(),
            "tie_word_embeddings": False,
            "use_cache": True,
            "vocab_size": self.vocab_size,
        }

    def _rotary(self) -> dict[str, Any]:
        pairs = self.rotary_dim // 2
        return {
            "mrope_interleaved": True,
            "mrope_section": [pairs - 2 * (pairs // 3), pairs // 3, pairs // 3],
            "partial_rotary_factor": self.rotary_dim / self.head_dim,
            "rope_theta": self.rope_theta,
            "rope_type": "default",
        }
