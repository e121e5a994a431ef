"""The names that llama.cpp gives to a model's tensors, beside those that they have here; one table for all families."""

from collections.abc import Mapping
from types import MappingProxyType

ROPE_FACTORS = "rope_freqs.weight"
WHOLE: Mapping[str, str] = MappingProxyType(
    {
        "token_embd.weight": "model.embed_tokens.weight",
        "output_norm.weight": "model.norm.weight",
        "output.weight": "lm_head.weight",
    }
)
# Of one layer, without what stands before: `blk.0.` here, `model.layers.0.` there.
LEAVES: Mapping[str, str] = MappingProxyType(
    {
        "attn_norm": "input_layernorm",
        "ffn_norm": "post_attention_layernorm",
        "post_attention_norm": "post_attention_layernorm",
        "attn_q": "self_attn.q_proj",
        "attn_k": "self_attn.k_proj",
        "attn_v": "self_attn.v_proj",
        "attn_output": "self_attn.o_proj",
        "attn_q_norm": "self_attn.q_norm",
        "attn_k_norm": "self_attn.k_norm",
        "attn_gate": "linear_attn.in_proj_z",
        "attn_qkv": "linear_attn.in_proj_qkv",
        "ssm_alpha": "linear_attn.in_proj_a",
        "ssm_beta": "linear_attn.in_proj_b",
        "ssm_ba": "linear_attn.in_proj_ba",
        "ssm_in": "linear_attn.in_proj_qkvz",
        "ssm_conv1d": "linear_attn.conv1d",
        "ssm_norm": "linear_attn.norm",
        "ssm_out": "linear_attn.out_proj",
        "ffn_gate": "mlp.gate_proj",
        "ffn_up": "mlp.up_proj",
        "ffn_down": "mlp.down_proj",
        "ffn_gate_inp": "mlp.gate",
        "ffn_gate_inp_shexp": "mlp.shared_expert_gate",
        "ffn_gate_shexp": "mlp.shared_expert.gate_proj",
        "ffn_up_shexp": "mlp.shared_expert.up_proj",
        "ffn_down_shexp": "mlp.shared_expert.down_proj",
    }
)
# Those without an ending that says weight or bias.
BARE: Mapping[str, str] = MappingProxyType(
    {"ssm_a": "linear_attn.A_log", "ssm_dt.bias": "linear_attn.dt_bias"}
)
# Of all experts of a layer, and the projections that each expert has of it, one below the other.
EXPERTS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "ffn_gate_exps.weight": ("gate_proj",),
        "ffn_up_exps.weight": ("up_proj",),
        "ffn_down_exps.weight": ("down_proj",),
        "ffn_gate_up_exps.weight": ("gate_proj", "up_proj"),
    }
)
