"""nanoGPT's network: pre-norm transformer blocks on characters, no dropout, no biases in the dense layers."""

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from isrlu_lab.training.gpt.gpt_spec import GptSpec
from isrlu_lab.training.gpt.norms import make_norm


class Block(nn.Module):
    """x + attention(norm(x)), then x + mlp(norm(x))."""

    def __init__(self, spec: GptSpec) -> None:
        super().__init__()
        width = spec.width
        self.heads = spec.heads
        self.attention_norm = make_norm(spec.norm, width, spec.alpha)
        self.query_key_value = nn.Linear(width, 3 * width, bias=False)
        self.attention_out = nn.Linear(width, width, bias=False)
        self.mlp_norm = make_norm(spec.norm, width, spec.alpha)
        self.mlp_in = nn.Linear(width, 4 * width, bias=False)
        self.mlp_out = nn.Linear(4 * width, width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """[batch, length, width] to the same."""
        batch, length, width = x.shape
        parts = self.query_key_value(self.attention_norm(x)).split(width, dim=2)
        query, key, value = (part.view(batch, length, self.heads, -1).transpose(1, 2) for part in parts)
        mixed = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.attention_out(mixed.transpose(1, 2).reshape(batch, length, width))
        return x + self.mlp_out(F.gelu(self.mlp_in(self.mlp_norm(x))))


class Gpt(nn.Module):
    """Logits of the next character at each position. The embedding and the head share one matrix.

    nanoGPT's start gives every matrix the deviation 0.02. LayerNorm enlarges the small numbers that follow to 1; an
    element-wise norm does so only with a large alpha, and then saturates as soon as they grow. The unit start gives
    every block inputs of about 1: deviation 1/sqrt(width), and the embedding times a learned number that starts at
    sqrt(width), as DyT's authors have it in language models.
    """

    def __init__(self, spec: GptSpec, characters: int) -> None:
        super().__init__()
        self.context = spec.context
        self.characters = nn.Embedding(characters, spec.width)
        self.positions = nn.Embedding(spec.context, spec.width)
        unit = spec.start == "unit"
        self.scale = nn.Parameter(torch.full((1,), math.sqrt(spec.width))) if unit else None
        deviation = 1 / math.sqrt(spec.width) if unit else 0.02
        self.blocks = nn.ModuleList(Block(spec) for _ in range(spec.layers))
        self.norm = make_norm(spec.norm, spec.width, spec.alpha)
        for name, parameter in self.named_parameters():
            if parameter.dim() >= 2:
                smaller = math.sqrt(2 * spec.layers) if name.endswith("_out.weight") else 1.0
                nn.init.normal_(parameter, std=deviation / smaller)

    def forward(self, indices: Tensor) -> Tensor:
        """[batch, length] of character numbers to logits [batch, length, characters]."""
        x = self.characters(indices) + self.positions.weight[: indices.shape[1]]
        if self.scale is not None:
            x = x * self.scale
        for block in self.blocks:
            x = block(x)
        return F.linear(self.norm(x), self.characters.weight)

    @torch.inference_mode()
    def generate(self, indices: Tensor, count: int, generator: torch.Generator | None = None) -> Tensor:
        """`indices` [batch, length] with `count` characters drawn one by one from the logits behind them."""
        for _ in range(count):
            logits = self(indices[:, -self.context :])[:, -1]
            drawn = torch.multinomial(logits.softmax(-1), 1, generator=generator)
            indices = torch.cat([indices, drawn], dim=1)
        return indices


def loss_of(network: nn.Module, windows: Tensor) -> Tensor:
    """Mean cross-entropy in nats per character; windows are [batch, context + 1]."""
    return F.cross_entropy(network(windows[:, :-1]).flatten(0, 1), windows[:, 1:].flatten())
