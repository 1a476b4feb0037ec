"""The course's own small language model, and the text that it reads: what chapter 12 builds, for demos and pictures.

The model reads bytes and says, at each position, which byte how probably comes next. Its plan is that of GPT-2
(Radford et al., Language Models are Unsupervised Multitask Learners, 2019): blocks of causal attention and a small
network, and a head that shares its weight with the embedding (Press and Wolf, https://arxiv.org/abs/1608.05859).
Where a byte stands is told by turning queries and keys (Su et al., RoFormer, https://arxiv.org/abs/2104.09864).
"""

from __future__ import annotations

import math
import re
from functools import cache
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn

PLAIN = str.maketrans({"“": '"', "”": '"', "‘": "'", "’": "'", "–": "-", "—": "-", "…": "..."})
SHORTEST = 40  # characters of a paragraph that is kept
STORED = Path(__file__).with_name("small_lm.pt")
SMALL = {"width": 48, "layers": 2, "length": 32}  # the model in STORED


class NoText(Exception):
    """This Python came without the text of its language reference."""


def reference_paragraphs() -> list[str]:
    """Python's language reference as plain prose, in ASCII: each paragraph once, as one line.

    The text is that of `pydoc_data.topics`, which every complete Python brings (it is what `help("yield")` shows).
    Headings, tables and code are left out; blanks in a row are one blank.

    Raises:
        NoText: this Python was installed without it.
    """
    return list(dict.fromkeys(p for paragraphs in reference_topics() for p in paragraphs))


def reference_topics() -> list[list[str]]:
    """The paragraphs of each topic of the reference, in the order of the topics' names; some stand in several topics.

    Raises:
        NoText: this Python was installed without it.
    """
    try:
        from pydoc_data.topics import topics
    except ImportError as error:
        raise NoText(
            "This Python was installed without pydoc_data.topics, the text of its language reference. A Python from "
            "python.org, pyenv, conda or the full package of your system has it."
        ) from error
    return [_prose(topics[name]) for name in sorted(topics)]


def _prose(topic: str) -> list[str]:
    paragraphs = [" ".join(part.split()).translate(PLAIN) for part in re.split(r"\n\s*\n", topic)]
    long = [p for p in paragraphs if len(p) >= SHORTEST and p.isascii()]
    return [p for p in long if p[0].isupper() and p[-1] in ".:"]


def as_ids(text: str) -> Tensor:
    """The bytes of a text, (N,) int64 in 0 … 255."""
    return torch.tensor(list(text.encode()), dtype=torch.int64, device="cpu")


def as_text(ids: Tensor) -> str:
    """The text of bytes, (N,) of whole numbers in 0 … 255; what is no UTF-8 becomes a replacement character."""
    return bytes(ids.tolist()).decode(errors="replace")


def reference_ids() -> tuple[Tensor, Tensor]:
    """The reference's bytes, (N,) and (M,) int64: the text to train on, and its last tenth, which is held out."""
    ids = _reference_ids()
    cut = len(ids) * 9 // 10
    return ids[:cut].clone(), ids[cut:].clone()


@cache
def _reference_ids() -> Tensor:
    return as_ids("\n".join(reference_paragraphs()) + "\n")


def table_losses(train: Tensor, held_out: Tensor, longest: int, prior: float = 4.0) -> list[float]:
    """How well tables of counts do: nats per byte on held_out of single bytes, pairs, triples, … up to `longest` bytes.

    A table of k bytes says p_k = (n(context, byte) + prior · p_{k-1}) / (n(context) + prior), with p_0 = 1 / 256
    (MacKay and Bauman Peto, A Hierarchical Dirichlet Language Model, 1995).
    """
    text, rest = bytes(train.tolist()), bytes(held_out.tolist())
    losses, shorter = [], [1 / 256] * len(rest)
    for k in range(longest):
        both: dict[bytes, int] = {}
        context: dict[bytes, int] = {}
        for i in range(len(text) - k):
            piece = text[i : i + k + 1]
            both[piece] = both.get(piece, 0) + 1
            context[piece[:k]] = context.get(piece[:k], 0) + 1
        for i in range(k, len(rest)):
            piece = rest[i - k : i + 1]
            shorter[i] = (both.get(piece, 0) + prior * shorter[i]) / (context.get(piece[:k], 0) + prior)
        losses.append(-sum(math.log(p) for p in shorter) / len(rest))
    return losses


def turned(x: Tensor) -> Tensor:
    """Turn queries or keys x (B, H, T, D), D even, by angles that grow with the position (RoFormer, formula 34)."""
    half = x.shape[-1] // 2
    places = torch.arange(x.shape[-2], device=x.device, dtype=torch.float32)
    angle = places[:, None] * 100.0 ** (-torch.arange(half, device=x.device, dtype=torch.float32) / half)
    first, second = x.chunk(2, -1)
    cos, sin = angle.cos().to(x.dtype), angle.sin().to(x.dtype)
    return torch.cat([first * cos - second * sin, first * sin + second * cos], -1)


class Block(nn.Module):
    """Causal attention in 4 heads, then a small network, each added to the stream x (B, T, width).

    mask: (T, T) bool, True where a position (row) may look (column).
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.before_attention, self.before_network = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def heads(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Queries, keys and values of x, (B, 4, T, width / 4) each."""
        q, k, v = self.qkv(self.before_attention(x)).unflatten(-1, (3, 4, -1)).permute(2, 0, 3, 1, 4)
        return turned(q), turned(k), v

    def attend(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
        """The weighted means of v, in the shape of q."""
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        mixed = self.attend(*self.heads(x), mask)
        x = x + self.out(mixed.transpose(1, 2).flatten(2))
        return x + self.down(F.gelu(self.up(self.before_network(x))))


class SmallLM(nn.Module):
    """ids (B, T) int64, T at most `length` -> logits (B, T, vocab). At its start all bytes are about equally likely."""

    def __init__(self, vocab: int = 256, width: int = 128, layers: int = 3, length: int = 64) -> None:
        super().__init__()
        self.length = length
        self.emb = nn.Embedding(vocab, width)
        self.blocks = nn.ModuleList(Block(width) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocab, bias=False)
        self.head.weight = self.emb.weight
        self.mask: Tensor
        self.register_buffer("mask", torch.ones(length, length, dtype=torch.bool).tril(), persistent=False)
        for name, parameter in self.named_parameters():
            if parameter.ndim > 1:
                into_stream = name.endswith(("out.weight", "down.weight"))
                nn.init.normal_(parameter, std=0.02 / math.sqrt(2 * layers) if into_stream else 0.02)
            elif name.endswith("bias"):
                nn.init.zeros_(parameter)

    def forward(self, ids: Tensor) -> Tensor:
        # torch 2.11 can export the slice of the mask only if it has been told this
        torch._check(ids.shape[1] <= self.length, lambda: f"at most {self.length} positions, not {ids.shape[1]}")
        x, mask = self.emb(ids), self.mask[: ids.shape[1], : ids.shape[1]]
        for block in self.blocks:
            x = block(x, mask)
        return self.head(self.norm(x))


def train_a_while(model: SmallLM, ids: Tensor, steps: int, peak: float = 8e-3, seed: int = 0) -> list[float]:
    """Train model in place on windows of ids (N,), 16 a step, with AdamW and a short warm-up; each step's mean loss."""
    windows = ids.unfold(0, model.length + 1, 1)
    rows = torch.Generator().manual_seed(seed)
    optimizer = torch.optim.AdamW(model.parameters(), lr=peak)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, peak, total_steps=steps + 1, pct_start=0.05)
    losses = []
    for _ in range(steps):
        batch = windows[torch.randint(len(windows), (16,), generator=rows)]
        optimizer.zero_grad()
        loss = F.cross_entropy(model(batch[:, :-1]).flatten(0, 1), batch[:, 1:].flatten())
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        losses.append(loss.item())
    return losses


def held_out_loss(model: nn.Module, ids: Tensor, length: int) -> float:
    """Nats per byte of model on ids (N,), cut into windows of `length` that do not overlap."""
    windows = ids.unfold(0, length + 1, length)
    with torch.no_grad():
        return F.cross_entropy(model(windows[:, :-1]).flatten(0, 1), windows[:, 1:].flatten()).item()


def stored_model() -> SmallLM:
    """A small model (width 48, 2 blocks, 32 bytes) that `python -m torchkata.small_lm` has trained, in eval mode."""
    with torch.device("cpu"):
        model = SmallLM(**SMALL).float()
        model.load_state_dict(torch.load(STORED, weights_only=True, map_location="cpu"))
    return model.eval()


if __name__ == "__main__":
    torch.set_num_threads(1)
    torch.manual_seed(0)
    text, rest = reference_ids()
    model = SmallLM(**SMALL)
    train_a_while(model, text, 3000)
    print(f"held-out loss {held_out_loss(model, rest, model.length):.2f}")
    torch.save({name: weight.half() for name, weight in model.state_dict().items()}, STORED)
