"""Writing with the course's small language model, greedily: as a whole each time, or one byte at a time with a cache.

The cached writer can be made wrong in the two ways in which caches usually are. Chapter 15 opens with one that is wrong
in both, and repairs it.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.attention.bias import causal_lower_right

from torchkata.small_lm import Block, SmallLM, as_ids, as_text, turned


@torch.no_grad()
def written(model: SmallLM, prompt: str, count: int) -> str:
    """The prompt and the `count` likeliest bytes after it; each is asked for with all bytes so far."""
    ids = as_ids(prompt)
    for _ in range(count):
        ids = torch.cat([ids, model(ids[None])[0, -1:].argmax(-1)])
    return as_text(ids)


@torch.no_grad()
def written_with_cache(
    model: SmallLM, prompt: str, count: int, *, positions_go_on: bool = True, last_sees_all: bool = True
) -> str:
    """The same text, if both options are True: the prompt is fed once, and then one byte at a time.

    positions_go_on: the positions of a piece begin behind what is stored, and not at 0.
    last_sees_all: the mask lines up the last query with the last key, and not the first with the first.
    """
    ids = piece = as_ids(prompt)
    caches: list[dict[str, Tensor]] = [{} for _ in model.blocks]
    for _ in range(count):
        x = model.emb(piece)[None]
        for block, cache in zip(model.blocks, caches, strict=True):
            assert isinstance(block, Block)
            x = _through(block, x, cache, positions_go_on, last_sees_all)
        piece = model.head(model.norm(x))[0, -1:].argmax(-1)
        ids = torch.cat([ids, piece])
    return as_text(ids)


def written_with_naive_cache(model: SmallLM, prompt: str, count: int) -> str:
    """What a cache writes with both faults."""
    return written_with_cache(model, prompt, count, positions_go_on=False, last_sees_all=False)


def _through(block: Block, x: Tensor, cache: dict[str, Tensor], positions_go_on: bool, last_sees_all: bool) -> Tensor:
    """What the block makes of x (1, T, width), the next T positions; keys and values go into the cache."""
    q, k, v = block.qkv(block.before_attention(x)).unflatten(-1, (3, 4, -1)).permute(2, 0, 3, 1, 4)
    start = cache["k"].shape[2] if cache and positions_go_on else 0
    q, k = _turned_from(q, start), _turned_from(k, start)
    if cache:
        k, v = torch.cat([cache["k"], k], 2), torch.cat([cache["v"], v], 2)
    cache["k"], cache["v"] = k, v
    if last_sees_all:
        mixed = F.scaled_dot_product_attention(q, k, v, attn_mask=causal_lower_right(q.shape[2], k.shape[2]))
    else:
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
    x = x + block.out(mixed.transpose(1, 2).flatten(2))
    return x + block.down(F.gelu(block.up(block.before_network(x))))


def _turned_from(x: Tensor, start: int) -> Tensor:
    """Queries or keys (B, H, T, D) turned as positions start, start + 1, …; `turned` itself counts from 0."""
    return turned(F.pad(x, (0, 0, start, 0)))[:, :, start:]
