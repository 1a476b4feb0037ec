"""A small GPT in which every matrix product is written out, so that FlopCounterMode counts all of them."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class Block(nn.Module):
    """Attention and a two-layer network, each after a norm and with a residual connection."""

    def __init__(self, width: int, heads: int, hidden: int):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, hidden), nn.Linear(hidden, width)

    def forward(self, x: Tensor) -> Tensor:
        parts = self.qkv(self.norm1(x)).chunk(3, dim=-1)
        q, k, v = (part.unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in parts)
        scores = q @ k.transpose(-2, -1)
        future = torch.ones(scores.shape[-2:], dtype=torch.bool, device=x.device).triu(1)
        mixed = scores.masked_fill(future, -torch.inf).softmax(-1) @ v
        x = x + self.out(mixed.transpose(1, 2).flatten(2))
        return x + self.down(torch.relu(self.up(self.norm2(x))))


class GPT(nn.Module):
    """An embedding, blocks, and a head without a bias."""

    def __init__(self, vocab: int, width: int, heads: int, hidden: int, layers: int):
        super().__init__()
        self.read, self.write = nn.Embedding(vocab, width), nn.Linear(width, vocab, bias=False)
        self.blocks = nn.ModuleList(Block(width, heads, hidden) for _ in range(layers))

    def forward(self, ids: Tensor) -> Tensor:
        x = self.read(ids)
        for block in self.blocks:
            x = block(x)
        return self.write(x)
