"""The parts of chapter 12 that are the course's own: the text, tables to compare with, and a small language model.

The model reads bytes and says, at each position, which byte how probably comes next. Its plan is that of GPT-2 (Radford et
al., Language Models are Unsupervised Multitask Learners, 2019): blocks of causal attention and a small network, and a head
that shares its weight with the embedding (Press and Wolf, https://arxiv.org/abs/1608.05859). It has no table of positions: behind
a causal mask a model can count without one (Haviv et al., https://arxiv.org/abs/2203.16634).
"""

from __future__ import annotations

import math
import re

import torch
import torch.nn.functional as F
from torch import Tensor, nn

PLAIN = str.maketrans({"“": '"', "”": '"', "‘": "'", "’": "'", "–": "-", "—": "-", "…": "..."})
SHORTEST = 40  # characters of a paragraph that is kept


class NoText(Exception):
    """This Python came without the text of its language reference."""


def reference_text() -> str:
    """Python's language reference as plain prose: each paragraph once, a line each, in ASCII.

    The text is that of `pydoc_data.topics`, which every complete Python brings (it is what `help("yield")` shows). Headings,
    tables and code are left out; blanks in a row are one blank.

    Raises:
        NoText: a Python that was installed without it.
    """
    try:
        from pydoc_data.topics import topics
    except ImportError as error:
        raise NoText(
            "This Python was installed without pydoc_data.topics, the text of its language reference. "
            "A Python from python.org, pyenv, conda or your system's full package has it."
        ) from error
    paragraphs = (" ".join(part.split()) for name in sorted(topics) for part in re.split(r"\n\s*\n", topics[name]))
    kept = dict.fromkeys(filter(_is_prose, (part.translate(PLAIN) for part in paragraphs)))
    return "\n".join(kept) + "\n"


def _is_prose(paragraph: str) -> bool:
    return len(paragraph) >= SHORTEST and paragraph[0].isupper() and paragraph[-1] in ".:" and paragraph.isascii()


def reference_bytes() -> tuple[Tensor, Tensor]:
    """The reference's bytes, (N,) and (M,) int64 in 0 … 127 of 256: the text to train on, and its last tenth, held out."""
    ids = torch.tensor(list(reference_text().encode("ascii")))
    cut = len(ids) * 9 // 10
    return ids[:cut], ids[cut:]


def table_loss(train: Tensor, held_out: Tensor, length: int, vocab: int = 256) -> float:
    """Nats per byte on held_out of a table that counts which byte follows which length - 1 bytes in train.

    Counts of longer contexts fall back on those of shorter ones: p_k = (count + p_{k-1} * c) / (total + c), with c = 4 (a
    Dirichlet prior, MacKay and Bauman Peto, A Hierarchical Dirichlet Language Model, 1995).
    """
    counts: list[dict[tuple[int, ...], dict[int, int]]] = [{} for _ in range(length)]
    text = train.tolist()
    for k in range(length):
        for i in range(k, len(text)):
            following = counts[k].setdefault(tuple(text[i - k : i]), {})
            following[text[i]] = following.get(text[i], 0) + 1
    total, rest = 0.0, held_out.tolist()
    for i in range(length - 1, len(rest)):
        p = 1 / vocab
        for k in range(length):
            following = counts[k].get(tuple(rest[i - k : i]), {})
            p = (following.get(rest[i], 0) + 4 * p) / (sum(following.values()) + 4)
        total -= math.log(p)
    return total / (len(rest) - length + 1)


class Block(nn.Module):
    """Causal attention in 4 heads, then a small network, each added to the stream x: (B, T, width) -> the same."""

    def __init__(self, width: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.before_attention, self.before_network = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        heads = self.qkv(self.before_attention(x)).unflatten(-1, (3, 4, -1)).permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(*heads, attn_mask=mask).transpose(1, 2).flatten(2)
        x = x + self.dropout(self.out(mixed))
        return x + self.dropout(self.down(F.gelu(self.up(self.before_network(x)))))


class SmallLM(nn.Module):
    """ids (B, T) int64, T at most `length` -> logits (B, T, vocab). Weights as GPT-2 draws them."""

    def __init__(
        self, vocab: int = 256, width: int = 128, layers: int = 3, length: int = 64, dropout: float = 0.0
    ) -> None:
        super().__init__()
        self.length = length
        self.emb = nn.Embedding(vocab, width)
        self.blocks = nn.ModuleList(Block(width, dropout) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocab, bias=False)
        self.head.weight = self.emb.weight
        self.register_buffer("mask", torch.ones(length, length, dtype=torch.bool).tril(), persistent=False)
        for name, parameter in self.named_parameters():
            if parameter.ndim > 1:
                into_stream = name.endswith(("out.weight", "down.weight"))
                nn.init.normal_(parameter, std=0.02 / math.sqrt(2 * layers) if into_stream else 0.02)
            elif name.endswith("bias"):
                nn.init.zeros_(parameter)

    def forward(self, ids: Tensor) -> Tensor:
        x, mask = self.emb(ids), self.mask[: ids.shape[1], : ids.shape[1]]
        for block in self.blocks:
            x = block(x, mask)
        return self.head(self.norm(x))
