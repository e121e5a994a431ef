"""Nano as a network that learns: a `qwen3_5_text` model whose conversations branch from one reading of their house.

Its tensors bear the names of Hugging Face's layout. Knows nothing of data and optimizers.
"""

import torch
from torch import Tensor, nn

from .batches import Batch
from .config import NanoConfig
from .induction import begin_with_induction
from .layers import DeltaNet, FeedForward, GatedAttention, RMSNorm


class Layer(nn.Module):
    """One layer; its mixer is named as Hugging Face names it."""

    def __init__(self, config: NanoConfig, kind: str) -> None:
        """Make a layer of a kind: "a" for attention, "d" for Gated DeltaNet."""
        super().__init__()
        self.input_layernorm = RMSNorm(config.hidden_size, config.epsilon)
        self.post_attention_layernorm = RMSNorm(config.hidden_size, config.epsilon)
        self.mixer_name = "self_attn" if kind == "a" else "linear_attn"
        self.add_module(
            self.mixer_name, GatedAttention(config) if kind == "a" else DeltaNet(config)
        )
        self.mlp = FeedForward(config)

    def forward(
        self, rows: Tensor, batch: Batch, rotation: tuple[Tensor, Tensor]
    ) -> Tensor:
        """Map rows [N, H] of a batch; `rotation` is cosine and sine of each row's angles."""
        mixer = getattr(self, self.mixer_name)
        rows = rows + mixer(self.input_layernorm(rows), batch, rotation)
        return rows + self.mlp(self.post_attention_layernorm(rows))


class Nano(nn.Module):
    """The whole network; embedding and head are two matrices."""

    def __init__(self, config: NanoConfig) -> None:
        """Make it with random weights, of torch's seed."""
        super().__init__()
        self.config = config
        self.model = nn.Module()
        self.model.embed_tokens = nn.Embedding(config.vocab_size, config.hidden_size)
        self.model.layers = nn.ModuleList(Layer(config, kind) for kind in config.layers)
        self.model.norm = RMSNorm(config.hidden_size, config.epsilon)
        self.lm_head = nn.Linear(config.hidden_size, config.vocab_size, bias=False)
        self.apply(self._initialize)

        # Each layer begins as if it were not there, but for what can copy.
        for name, parameter in self.named_parameters():
            if name.endswith(("out_proj.weight", "o_proj.weight", "down_proj.weight")):
                nn.init.zeros_(parameter)
        begin_with_induction(
            self.model.embed_tokens.weight, self.lm_head.weight, self._pairs(), config
        )

    def _pairs(self) -> list[tuple[DeltaNet, GatedAttention]]:
        """List each layer of attention with the DeltaNet layer before it."""
        layers = self.model.layers
        return [
            (layers[index - 1].linear_attn, layer.self_attn)
            for index, layer in enumerate(layers)
            if layer.mixer_name == "self_attn"
        ]

    def _initialize(self, module: nn.Module) -> None:
        if isinstance(module, nn.Linear):
            nn.init.normal_(module.weight, std=module.in_features**-0.5)
        elif isinstance(module, DeltaNet):
            # Slow gates: those that forget within two tokens learn nothing.
            steps = torch.exp(torch.empty_like(module.dt_bias).uniform_(-6.9, -2.3))
            with torch.no_grad():
                module.dt_bias.copy_(steps + torch.log(-torch.expm1(-steps)))
                module.A_log.uniform_(-0.7, 0.7)
                nn.init.normal_(module.in_proj_a.weight, std=0.002)
                module.conv1d.weight.normal_(std=0.1)
                module.conv1d.weight[:, 0, -1] += 1.0

    def hidden(self, batch: Batch) -> Tensor:
        """Read a batch and return its rows [N, H] before the head."""
        config = self.config
        rows = self.model.embed_tokens(batch.ids)
        pairs = (
            torch.arange(0, config.rotary_dim, 2, device=rows.device)
            / config.rotary_dim
        )
        angles = batch.positions[:, None].float() * config.rope_theta**-pairs
        rotation = (angles.cos()[:, None], angles.sin()[:, None])
        for layer in self.model.layers:
            rows = layer(rows, batch, rotation)
        return self.model.norm(rows)
