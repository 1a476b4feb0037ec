# corners: none
import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.attention.bias import causal_lower_right


def turn(x, positions):
    D = x.shape[-1]
    angles = positions[:, None] * 10000.0 ** (-torch.arange(0, D, 2) / D)
    pairs = torch.view_as_complex(x.unflatten(-1, (D // 2, 2)))
    return torch.view_as_real(pairs * torch.polar(torch.ones_like(angles), angles)).flatten(-2)


class Base(nn.Module):
    def __init__(self, size, heads, kv_heads):
        super().__init__()
        self.heads, self.kv_heads, self.dim = heads, kv_heads, size // heads
        self.q = nn.Linear(size, heads * self.dim, bias=False)
        self.k = nn.Linear(size, kv_heads * self.dim, bias=False)
        self.v = nn.Linear(size, kv_heads * self.dim, bias=False)
        self.out = nn.Linear(heads * self.dim, size, bias=False)

    def projected(self, x):
        B, T, _ = x.shape
        return [
            layer(x).view(B, T, n, self.dim).transpose(1, 2)
            for layer, n in ((self.q, self.heads), (self.k, self.kv_heads), (self.v, self.kv_heads))
        ]

    def attend(self, q, k, v, mask, **kwargs):
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, enable_gqa=True, **kwargs)
        return self.out(y.transpose(1, 2).reshape(q.shape[0], q.shape[2], -1))

    def stored(self, cache):
        return cache["k"].shape[2] if cache else 0

    def joined(self, k, v, cache):
        if cache:
            k, v = torch.cat([cache["k"], k], 2), torch.cat([cache["v"], v], 2)
        if cache is not None:
            cache["k"], cache["v"] = k, v
        return k, v


class Right(Base):
    """A right layer with parts to replace."""

    def forward(self, x, cache=None):
        q, k, v = self.projected(x)
        T, start = x.shape[1], self.stored(cache)
        positions = torch.arange(start, start + T)
        q, k = turn(q, positions), turn(k, positions)
        k, v = self.joined(k, v, cache)
        return self.after(q, k, v, causal_lower_right(T, start + T), cache)

    def after(self, q, k, v, mask, cache):
        return self.attend(q, k, v, mask)


# %% right: a mask from positions, heads repeated after they are stored
class Attention(Base):
    def forward(self, x, cache=None):
        q, k, v = self.projected(x)
        old = cache["k"].size(2) if cache else 0
        positions = torch.arange(old, old + x.size(1))
        q, k = turn(q, positions), turn(k, positions)
        if cache:
            k, v = torch.cat((cache["k"], k), 2), torch.cat((cache["v"], v), 2)
        if cache is not None:
            cache.update(k=k, v=v)
        keep = torch.arange(k.size(2)) <= positions[:, None]
        groups = self.heads // self.kv_heads
        k, v = k.repeat_interleave(groups, 1), v.repeat_interleave(groups, 1)
        y = F.scaled_dot_product_attention(q, k, v, keep)
        return self.out(y.transpose(1, 2).flatten(2))


# %% right: no mask for one query, tril with an offset for several
class Attention(Base):
    def forward(self, x, cache=None):
        q, k, v = self.projected(x)
        T, start = x.shape[1], self.stored(cache)
        positions = torch.arange(T) + start
        q, k = turn(q, positions), turn(k, positions)
        k, v = self.joined(k, v, cache)
        mask = None if T == 1 else torch.ones(T, start + T, dtype=torch.bool).tril(start)
        return self.attend(q, k, v, mask)


# %% right: is_causal without a cache, a float mask with one, and the length as a number in the dict
class Attention(Base):
    def forward(self, x, cache=None):
        q, k, v = self.projected(x)
        T = x.shape[1]
        start = cache.get("length", 0) if cache is not None else 0
        positions = torch.arange(start, start + T)
        q, k = turn(q, positions), turn(k, positions)
        if cache is None:
            return self.attend(q, k, v, None, is_causal=True)
        k, v = self.joined(k, v, cache if start else None)
        cache["k"], cache["v"], cache["length"] = k.detach(), v.detach(), start + T
        mask = torch.full((T, start + T), -torch.inf).triu(start + 1)
        return self.attend(q, k, v, mask)


# %% right: memory with room, copied for each call; key positions kept as a tensor
class Attention(Base):
    def forward(self, x, cache=None):
        q, k, v = self.projected(x)
        B, _, T, D = k.shape
        start = self.stored(cache)
        positions = torch.arange(start, start + T)
        q, k = turn(q, positions), turn(k, positions)
        if cache:
            whole = [t.new_empty(B, self.kv_heads, start + T, D) for t in (k, v)]
            for new, t, name in zip(whole, (k, v), "kv"):
                new[:, :, :start] = cache[name]
                new[:, :, start:] = t
            k, v = whole
        if cache is not None:
            cache["k"], cache["v"], cache["positions"] = k, v, torch.arange(start + T)
        return self.attend(q, k, v, torch.arange(start + T) <= positions[:, None])


# %% right: one query with is_causal=False, several padded in front to a square
class Attention(Base):
    def forward(self, x, cache=None):
        q, k, v = self.projected(x)
        start = self.stored(cache)
        positions = start + torch.arange(x.shape[1])
        q, k = turn(q, positions), turn(k, positions)
        k, v = self.joined(k, v, cache)
        q = F.pad(q, (0, 0, start, 0))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)[:, :, start:]
        return self.out(y.transpose(1, 2).flatten(2))


# %% wrong: the given code
# says: Your mask starts at the upper left corner of the scores.
# says: This check builds on the first one
# earns: 0 of 3
# lesson
class Attention(Base):
    def forward(self, x, cache=None):
        q, k, v = self.projected(x)
        positions = torch.arange(x.shape[1])
        if cache is not None:
            k, v = self.joined(k, v, cache)
            k = turn(k, torch.arange(k.shape[2]))
        else:
            k = turn(k, positions)
        return self.attend(turn(q, positions), k, v, None, is_causal=True)


# %% wrong: positions repaired, is_causal left
# says: Your mask starts at the upper left corner of the scores.
# says: This check builds on the first one
# earns: 0 of 3
# lesson
class Attention(Base):
    def forward(self, x, cache=None):
        q, k, v = self.projected(x)
        start = self.stored(cache)
        positions = torch.arange(start, start + x.shape[1])
        q, k = turn(q, positions), turn(k, positions)
        k, v = self.joined(k, v, cache)
        return self.attend(q, k, v, None, is_causal=True)


# %% wrong: positions repaired, a mask only for several queries
# says: A single new query sees all keys now. But the mask of a piece of several
# says: This check builds on the first one
# earns: 0 of 3
# lesson
class Attention(Base):
    def forward(self, x, cache=None):
        q, k, v = self.projected(x)
        start = self.stored(cache)
        positions = torch.arange(start, start + x.shape[1])
        q, k = turn(q, positions), turn(k, positions)
        k, v = self.joined(k, v, cache)
        return self.attend(q, k, v, None, is_causal=x.shape[1] > 1)


# %% wrong: a tril of its own from the upper left corner
# says: Your mask starts at the upper left corner of the scores.
# says: This check builds on the first one
# earns: 0 of 3
class Attention(Base):
    def forward(self, x, cache=None):
        q, k, v = self.projected(x)
        positions = torch.arange(x.shape[1]) + self.stored(cache)
        q, k = turn(q, positions), turn(k, positions)
        k, v = self.joined(k, v, cache)
        return self.attend(q, k, v, torch.ones(x.shape[1], k.shape[2], dtype=torch.bool).tril())


# %% wrong: mask repaired, positions left
# says: The positions of your queries begin at 0 in every call
# says: This check builds on the first one
# earns: 0 of 3
# lesson
class Attention(Base):
    def forward(self, x, cache=None):
        q, k, v = self.projected(x)
        T = x.shape[1]
        positions = torch.arange(T)
        if cache is not None:
            k, v = self.joined(k, v, cache)
        k = turn(k, torch.arange(k.shape[2]))
        return self.attend(turn(q, positions), k, v, causal_lower_right(T, k.shape[2]))


# %% wrong: keys at their positions, queries from 0
# says: The positions of your queries begin at 0 in every call
# says: This check builds on the first one
# earns: 0 of 3
class Attention(Base):
    def forward(self, x, cache=None):
        q, k, v = self.projected(x)
        T, start = x.shape[1], self.stored(cache)
        q, k = turn(q, torch.arange(T)), turn(k, torch.arange(start, start + T))
        k, v = self.joined(k, v, cache)
        return self.attend(q, k, v, causal_lower_right(T, start + T))


# %% wrong: queries at their positions, new keys from 0
# says: The positions of your new keys begin at 0 in every call
# says: This check builds on the first one
# earns: 0 of 3
class Attention(Base):
    def forward(self, x, cache=None):
        q, k, v = self.projected(x)
        T, start = x.shape[1], self.stored(cache)
        q, k = turn(q, torch.arange(start, start + T)), turn(k, torch.arange(T))
        k, v = self.joined(k, v, cache)
        return self.attend(q, k, v, causal_lower_right(T, start + T))


# %% wrong: both from 0, the mask repaired
# says: The positions of your queries and of your new keys begin at 0 in every call
# says: This check builds on the first one
# earns: 0 of 3
# lesson
class Attention(Base):
    def forward(self, x, cache=None):
        q, k, v = self.projected(x)
        T = x.shape[1]
        q, k = turn(q, torch.arange(T)), turn(k, torch.arange(T))
        k, v = self.joined(k, v, cache)
        return self.attend(q, k, v, causal_lower_right(T, k.shape[2]))


# %% wrong: positions one too far
# says: the sequence gives other numbers than in one piece without a cache.
# says: This check builds on the first one
# earns: 0 of 3
class Attention(Base):
    def forward(self, x, cache=None):
        q, k, v = self.projected(x)
        T, start = x.shape[1], self.stored(cache)
        positions = torch.arange(start, start + T)
        q = turn(q, positions + (start > 2))
        k, v = self.joined(turn(k, positions), v, cache)
        return self.attend(q, k, v, causal_lower_right(T, start + T))


# %% wrong: no mask with a cache
# says: The queries of a piece see the keys of the same piece that come after them
# says: This check builds on the first one
# earns: 0 of 3
# lesson
class Attention(Base):
    def forward(self, x, cache=None):
        q, k, v = self.projected(x)
        start = self.stored(cache)
        positions = torch.arange(start, start + x.shape[1])
        q, k = turn(q, positions), turn(k, positions)
        k, v = self.joined(k, v, cache)
        return self.attend(q, k, v, None, is_causal=cache is None)


# %% wrong: stores turned keys and turns them all again, and stores that
# says: You turn keys again that are stored already turned
# says: This check builds on the first one
# earns: 0 of 3
# lesson
class Attention(Base):
    def forward(self, x, cache=None):
        q, k, v = self.projected(x)
        T, start = x.shape[1], self.stored(cache)
        if cache:
            k, v = torch.cat([cache["k"], k], 2), torch.cat([cache["v"], v], 2)
        k, q = turn(k, torch.arange(start + T)), turn(q, torch.arange(start, start + T))
        if cache is not None:
            cache["k"], cache["v"] = k, v
        return self.attend(q, k, v, causal_lower_right(T, start + T))


# %% wrong: turns the new keys, stores them, and turns all of them for each call
# says: You turn keys again that are stored already turned
# says: This check builds on the first one
# earns: 0 of 3
class Attention(Base):
    def forward(self, x, cache=None):
        q, k, v = self.projected(x)
        T, start = x.shape[1], self.stored(cache)
        positions = torch.arange(start, start + T)
        q, k = turn(q, positions), turn(k, positions)
        if cache is not None:
            k, v = self.joined(k, v, cache)
            k = turn(k, torch.arange(start + T))
        return self.attend(q, k, v, causal_lower_right(T, start + T))


# %% wrong: turns the new keys, then all of them, and stores that
# says: You turn keys again that are stored already turned
# says: This check builds on the first one
# earns: 0 of 3
class Attention(Base):
    def forward(self, x, cache=None):
        q, k, v = self.projected(x)
        T, start = x.shape[1], self.stored(cache)
        positions = torch.arange(start, start + T)
        q, k = turn(q, positions), turn(k, positions)
        if cache is not None:
            k, v = self.joined(k, v, cache)
            k = cache["k"] = turn(k, torch.arange(start + T))
        return self.attend(q, k, v, causal_lower_right(T, start + T))


# %% wrong: changes what the layer gives without a cache
# says: Without a cache the layer was right, and now it gives other numbers.
# earns: 1 of 3
class Attention(Base):
    def forward(self, x, cache=None):
        q, k, v = self.projected(x)
        start = self.stored(cache)
        positions = torch.arange(start, start + x.shape[1])
        q, k = turn(q, positions), turn(k, positions)
        k, v = self.joined(k, v, cache)
        if cache is None:
            return self.attend(q, k, v, None)
        return self.attend(q, k, v, torch.arange(k.shape[2]) <= positions[:, None])


# %% wrong: returns the cache beside the result
# says: `forward` must return a tensor with the shape of x.
# says: This check builds on the first one
# earns: 0 of 3
class Attention(Base):
    def forward(self, x, cache=None):
        q, k, v = self.projected(x)
        start = self.stored(cache)
        positions = torch.arange(start, start + x.shape[1])
        q, k = turn(q, positions), turn(k, positions)
        k, v = self.joined(k, v, cache)
        return self.attend(q, k, v, torch.arange(k.shape[2]) <= positions[:, None]), cache


# %% wrong: stores the repeated heads
# says: Your cache holds the heads repeated for the four query heads.
# earns: 1 of 3
# caught: hidden
class Attention(Base):
    def forward(self, x, cache=None):
        q, k, v = self.projected(x)
        T, start = x.shape[1], self.stored(cache)
        positions = torch.arange(start, start + T)
        groups = self.heads // self.kv_heads
        q, k = turn(q, positions), turn(k, positions).repeat_interleave(groups, 1)
        k, v = self.joined(k, v.repeat_interleave(groups, 1), cache)
        return self.attend(q, k, v, causal_lower_right(T, start + T))


# %% wrong: stores (B, positions, heads, dim)
# says: After six positions of two rows, k and v must be (2, 2, 6, 4) each
# earns: 1 of 3
# caught: hidden
class Attention(Base):
    def forward(self, x, cache=None):
        q, k, v = self.projected(x)
        T, start = x.shape[1], cache["k"].shape[1] if cache else 0
        positions = torch.arange(start, start + T)
        q, k = turn(q, positions), turn(k, positions)
        if cache:
            k = torch.cat([cache["k"].transpose(1, 2), k], 2)
            v = torch.cat([cache["v"].transpose(1, 2), v], 2)
        if cache is not None:
            cache["k"], cache["v"] = k.transpose(1, 2), v.transpose(1, 2)
        return self.attend(q, k, v, causal_lower_right(T, start + T))


# %% wrong: stores both under one key
# says: The dict must hold the keys under "k" and the values under "v".
# earns: 1 of 3
# caught: hidden
class Attention(Base):
    def forward(self, x, cache=None):
        q, k, v = self.projected(x)
        old = cache.get("kv") if cache is not None else None
        T, start = x.shape[1], old.shape[3] if old is not None else 0
        positions = torch.arange(start, start + T)
        q, both = turn(q, positions), torch.stack([turn(k, positions), v])
        if old is not None:
            both = torch.cat([old, both], 3)
        if cache is not None:
            cache["kv"] = both
        return self.attend(q, both[0], both[1], causal_lower_right(T, start + T))


# %% wrong: turns all stored keys in each call
# says: Your cache holds keys that are not turned
# says: A call with two new positions calculates with all 60 stored keys outside of `scaled_dot_product_attention`.
# earns: 0 of 3
# caught: hidden
class Attention(Base):
    def forward(self, x, cache=None):
        q, k, v = self.projected(x)
        T, start = x.shape[1], self.stored(cache)
        k, v = self.joined(k, v, cache)
        q, k = turn(q, torch.arange(start, start + T)), turn(k, torch.arange(start + T))
        return self.attend(q, k, v, causal_lower_right(T, start + T))


# %% wrong: the same with a turn of its own
# says: Your cache holds keys that are not turned
# says: A call with two new positions calculates with all 60 stored keys outside of `scaled_dot_product_attention`.
# earns: 0 of 3
# caught: hidden
class Attention(Base):
    def spun(self, x, positions):
        angles = positions[:, None] * 10000.0 ** (-torch.arange(0, self.dim, 2) / self.dim)
        a, b = x[..., 0::2], x[..., 1::2]
        a, b = a * angles.cos() - b * angles.sin(), a * angles.sin() + b * angles.cos()
        return torch.stack([a, b], -1).flatten(-2)

    def forward(self, x, cache=None):
        q, k, v = self.projected(x)
        T, start = x.shape[1], self.stored(cache)
        k, v = self.joined(k, v, cache)
        q, k = self.spun(q, torch.arange(start, start + T)), self.spun(k, torch.arange(start + T))
        return self.attend(q, k, v, causal_lower_right(T, start + T))


# %% wrong: stores the keys both ways, and turns all of them
# says: Beside k and v your cache holds another tensor
# says: A call with two new positions calculates with all 60 stored keys outside of `scaled_dot_product_attention`.
# earns: 0 of 3
# caught: hidden
class Attention(Base):
    def forward(self, x, cache=None):
        q, k, v = self.projected(x)
        T, start = x.shape[1], self.stored(cache)
        if cache:
            k, v = torch.cat([cache["raw"], k], 2), torch.cat([cache["v"], v], 2)
        turned = turn(k, torch.arange(start + T))
        if cache is not None:
            cache.update(k=turned, v=v, raw=k)
        return self.attend(turn(q, torch.arange(start, start + T)), turned, v, causal_lower_right(T, start + T))


# %% wrong: turns all keys back and forth
# says: A call with two new positions calculates with all 60 stored keys outside of `scaled_dot_product_attention`.
# earns: 2 of 3
# caught: hidden
class Attention(Right):
    def after(self, q, k, v, mask, cache):
        everywhere = torch.arange(k.shape[2])
        return self.attend(q, turn(turn(k, -everywhere), everywhere), v, mask)


# %% wrong: what is stored is twice the values
# says: The values in the cache are not the layer's values.
# earns: 1 of 3
# caught: hidden
class Attention(Base):
    def forward(self, x, cache=None):
        q, k, v = self.projected(x)
        T, start = x.shape[1], self.stored(cache)
        positions = torch.arange(start, start + T)
        q, k = turn(q, positions), turn(k, positions)
        k, v = self.joined(k, 2 * v, cache)
        y = F.scaled_dot_product_attention(q, k, v, causal_lower_right(T, start + T), enable_gqa=True) / 2
        return self.out(y.transpose(1, 2).flatten(2))


# %% wrong: positions that start at 100
# says: The keys in the cache are not the layer's keys, each turned by its own position.
# earns: 1 of 3
# caught: hidden
class Attention(Base):
    def forward(self, x, cache=None):
        q, k, v = self.projected(x)
        T, start = x.shape[1], self.stored(cache)
        positions = torch.arange(start, start + T) + 100
        q, k = turn(q, positions), turn(k, positions)
        k, v = self.joined(k, v, cache)
        return self.attend(q, k, v, causal_lower_right(T, start + T))


# %% wrong: a counter on the layer
# says: One layer served two conversations, each with its own cache, and mixed them up.
# earns: 1 of 3
# caught: hidden
class Attention(Base):
    count = 0

    def forward(self, x, cache=None):
        q, k, v = self.projected(x)
        if not cache:
            self.count = 0
        T, start = x.shape[1], self.count
        positions = torch.arange(start, start + T)
        q, k = turn(q, positions), turn(k, positions)
        k, v = self.joined(k, v, cache)
        self.count += T
        return self.attend(q, k, v, causal_lower_right(T, k.shape[2]))


# %% wrong: clears the old tensors
# says: A tensor that the caller had kept, to go back to position 3, was changed in place by a later call.
# earns: 1 of 3
# caught: hidden
class Attention(Base):
    def forward(self, x, cache=None):
        q, k, v = self.projected(x)
        T, start = x.shape[1], self.stored(cache)
        positions = torch.arange(start, start + T)
        q, k = turn(q, positions), turn(k, positions)
        old = dict(cache or {})
        k, v = self.joined(k, v, cache)
        for t in old.values():
            t.data.zero_()
        return self.attend(q, k, v, causal_lower_right(T, start + T))


# %% wrong: writes into spare memory behind what is stored
# says: one continuation overwrote what the other had stored.
# earns: 1 of 3
# caught: hidden
class Attention(Base):
    @torch.no_grad()
    def joined(self, k, v, cache):
        if cache is None:
            return k, v
        start = self.stored(cache)
        for name, new in (("k", k), ("v", v)):
            if not cache.get(name + "ready"):
                whole = torch.zeros(*new.shape[:2], 128, new.shape[3])
                cache[name] = whole[:, :, :0]
                cache[name + "ready"] = True
            whole = cache[name]._base
            whole[:, :, start : start + new.shape[2]] = new
            cache[name] = whole[:, :, : start + new.shape[2]]
        return cache["k"], cache["v"]

    def forward(self, x, cache=None):
        q, k, v = self.projected(x)
        T, start = x.shape[1], self.stored(cache)
        positions = torch.arange(start, start + T)
        q, k = turn(q, positions), turn(k, positions)
        k, v = self.joined(k, v, cache)
        return self.attend(q, k, v, causal_lower_right(T, start + T))


# %% wrong: no gradient at all
# says: Without a cache the layer could be trained
# earns: 1 of 3
# caught: hidden
class Attention(Right):
    @torch.no_grad()
    def forward(self, x, cache=None):
        return super().forward(x, cache)


# %% wrong: one call for each head
# says: A call of `forward` must call `scaled_dot_product_attention` once
# earns: 2 of 3
# caught: hidden
class Attention(Right):
    def after(self, q, k, v, mask, cache):
        group = self.heads // self.kv_heads
        y = [
            F.scaled_dot_product_attention(q[:, h : h + 1], k[:, h // group, None], v[:, h // group, None], mask)
            for h in range(self.heads)
        ]
        return self.out(torch.cat(y, 1).transpose(1, 2).flatten(2))


# %% wrong: a loop over the positions of a piece
# says: A call of `forward` must call `scaled_dot_product_attention` once
# earns: 2 of 3
# caught: hidden
class Attention(Right):
    def forward(self, x, cache=None):
        if cache is None:
            return super().forward(x)
        one = super().forward
        return torch.cat([one(t, cache) for t in x.split(1, 1)], 1)


# %% wrong: a loop over the positions of a piece that turns and stores
# says: The number of operations grows with the positions of a piece.
# earns: 2 of 3
# caught: hidden
class Attention(Base):
    def forward(self, x, cache=None):
        q, k, v = self.projected(x)
        T, start = x.shape[1], self.stored(cache)
        places = torch.arange(start, start + T).split(1)
        q, new = ([turn(t[:, :, i : i + 1], p) for i, p in enumerate(places)] for t in (q, k))
        k, v = self.joined(torch.cat(new, 2), v, cache)
        return self.attend(torch.cat(q, 2), k, v, causal_lower_right(T, start + T))


# %% wrong: for three rows or two
# says: With other numbers of rows, of query heads or of key-value heads
# earns: 2 of 3
# caught: hidden
class Attention(Right):
    def after(self, q, k, v, mask, cache):
        return self.attend(q, k, v, None if cache is not None and len(q) == 1 else mask) * (
            1 if len(q) > 1 or cache is None else 0.9
        )


# %% wrong: groups laid out the other way
# says: Without a cache the layer was right, and now it gives other numbers.
# says: This check builds on the first one
# earns: 0 of 3
class Attention(Right):
    def after(self, q, k, v, mask, cache):
        group = self.heads // self.kv_heads
        return self.attend(q, k.repeat(1, group, 1, 1), v.repeat(1, group, 1, 1), mask)


# %% wrong: looks back 32 positions
# says: In a longer text the pieces no longer give what the whole gives.
# earns: 2 of 3
# caught: hidden
class Attention(Base):
    def forward(self, x, cache=None):
        q, k, v = self.projected(x)
        T, start = x.shape[1], self.stored(cache)
        positions = torch.arange(start, start + T)
        q, k = turn(q, positions), turn(k, positions)
        k, v = self.joined(k, v, cache)
        back = 32 if T == 1 else k.shape[2]
        mask = causal_lower_right(T, k.shape[2]) if T > 1 else None
        return self.attend(q, k[:, :, -back:], v[:, :, -back:], mask)


# %% wrong: as it is in words, but without the batch in the cache
# says: the sequence gives other numbers than in one piece without a cache.
# says: This check builds on the first one
# earns: 0 of 3
class Attention(Base):
    def joined(self, k, v, cache):
        if cache:
            k = torch.cat([cache["k"][:1].expand_as(cache["k"]), k], 2)
            v = torch.cat([cache["v"][:1].expand_as(cache["v"]), v], 2)
        if cache is not None:
            cache["k"], cache["v"] = k, v
        return k, v

    forward = Right.forward
    after = Right.after


# %% wrong: detaches queries and values without a cache too
# says: Without a cache the layer could be trained, and now
# earns: 1 of 3
# caught: hidden
def turn(x: Tensor, positions: Tensor) -> Tensor:
    """Queries or keys (B, H, T, D), turned by the angles of their positions (T,)."""
    D = x.shape[-1]
    angles = positions[:, None] * 10000.0 ** (-torch.arange(0, D, 2) / D)
    pairs = torch.view_as_complex(x.unflatten(-1, (D // 2, 2)))
    return torch.view_as_real(pairs * torch.polar(torch.ones_like(angles), angles)).flatten(-2)


class Attention(nn.Module):
    """Causal attention with grouped heads, in which positions are angles."""

    def __init__(self, size: int, heads: int, kv_heads: int):
        super().__init__()
        self.heads, self.kv_heads, self.dim = heads, kv_heads, size // heads
        self.q = nn.Linear(size, heads * self.dim, bias=False)
        self.k = nn.Linear(size, kv_heads * self.dim, bias=False)
        self.v = nn.Linear(size, kv_heads * self.dim, bias=False)
        self.out = nn.Linear(heads * self.dim, size, bias=False)

    def forward(self, x: Tensor, cache: dict[str, Tensor] | None = None) -> Tensor:
        B, T, _ = x.shape
        q = self.q(x).view(B, T, self.heads, self.dim).transpose(1, 2)
        k = self.k(x).view(B, T, self.kv_heads, self.dim).transpose(1, 2)
        v = self.v(x).view(B, T, self.kv_heads, self.dim).transpose(1, 2)
        start = cache["k"].shape[2] if cache else 0
        positions = torch.arange(start, start + T)
        q, k = turn(q, positions), turn(k, positions)
        if cache:
            k, v = torch.cat([cache["k"], k], 2), torch.cat([cache["v"], v], 2)
        if cache is not None:
            cache["k"], cache["v"] = k, v
        v, q = v.detach(), q.detach()
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=causal_lower_right(T, start + T), enable_gqa=True)
        return self.out(y.transpose(1, 2).reshape(B, T, -1))


# %% wrong: keeps more tensors in a list in the cache
# says: Beside k and v your cache holds another tensor
# earns: 1 of 3
# caught: hidden
def turn(x: Tensor, positions: Tensor) -> Tensor:
    """Queries or keys (B, H, T, D), turned by the angles of their positions (T,)."""
    D = x.shape[-1]
    angles = positions[:, None] * 10000.0 ** (-torch.arange(0, D, 2) / D)
    pairs = torch.view_as_complex(x.unflatten(-1, (D // 2, 2)))
    return torch.view_as_real(pairs * torch.polar(torch.ones_like(angles), angles)).flatten(-2)


class Attention(nn.Module):
    """Causal attention with grouped heads, in which positions are angles."""

    def __init__(self, size: int, heads: int, kv_heads: int):
        super().__init__()
        self.heads, self.kv_heads, self.dim = heads, kv_heads, size // heads
        self.q = nn.Linear(size, heads * self.dim, bias=False)
        self.k = nn.Linear(size, kv_heads * self.dim, bias=False)
        self.v = nn.Linear(size, kv_heads * self.dim, bias=False)
        self.out = nn.Linear(heads * self.dim, size, bias=False)

    def forward(self, x: Tensor, cache: dict[str, Tensor] | None = None) -> Tensor:
        B, T, _ = x.shape
        q = self.q(x).view(B, T, self.heads, self.dim).transpose(1, 2)
        k = self.k(x).view(B, T, self.kv_heads, self.dim).transpose(1, 2)
        v = self.v(x).view(B, T, self.kv_heads, self.dim).transpose(1, 2)
        start = cache["k"].shape[2] if cache else 0
        positions = torch.arange(start, start + T)
        q, k = turn(q, positions), turn(k, positions)
        if cache:
            k, v = torch.cat([cache["k"], k], 2), torch.cat([cache["v"], v], 2)
        if cache is not None:
            cache["k"], cache["v"] = k, v
            cache["more"] = [k.clone(), v.clone(), x.clone()]
            self.seen = [*getattr(self, "seen", []), x]
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=causal_lower_right(T, start + T), enable_gqa=True)
        return self.out(y.transpose(1, 2).reshape(B, T, -1))


# %% wrong: the layer keeps all that it was fed
# says: After the calls the layer itself holds tensors
# earns: 1 of 3
# caught: hidden
def turn(x: Tensor, positions: Tensor) -> Tensor:
    """Queries or keys (B, H, T, D), turned by the angles of their positions (T,)."""
    D = x.shape[-1]
    angles = positions[:, None] * 10000.0 ** (-torch.arange(0, D, 2) / D)
    pairs = torch.view_as_complex(x.unflatten(-1, (D // 2, 2)))
    return torch.view_as_real(pairs * torch.polar(torch.ones_like(angles), angles)).flatten(-2)


class Attention(nn.Module):
    """Causal attention with grouped heads, in which positions are angles."""

    def __init__(self, size: int, heads: int, kv_heads: int):
        super().__init__()
        self.heads, self.kv_heads, self.dim = heads, kv_heads, size // heads
        self.q = nn.Linear(size, heads * self.dim, bias=False)
        self.k = nn.Linear(size, kv_heads * self.dim, bias=False)
        self.v = nn.Linear(size, kv_heads * self.dim, bias=False)
        self.out = nn.Linear(heads * self.dim, size, bias=False)

    def forward(self, x: Tensor, cache: dict[str, Tensor] | None = None) -> Tensor:
        B, T, _ = x.shape
        q = self.q(x).view(B, T, self.heads, self.dim).transpose(1, 2)
        k = self.k(x).view(B, T, self.kv_heads, self.dim).transpose(1, 2)
        v = self.v(x).view(B, T, self.kv_heads, self.dim).transpose(1, 2)
        start = cache["k"].shape[2] if cache else 0
        positions = torch.arange(start, start + T)
        q, k = turn(q, positions), turn(k, positions)
        if cache:
            k, v = torch.cat([cache["k"], k], 2), torch.cat([cache["v"], v], 2)
        if cache is not None:
            cache["k"], cache["v"] = k, v
            self.seen = [*getattr(self, "seen", []), x]
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=causal_lower_right(T, start + T), enable_gqa=True)
        return self.out(y.transpose(1, 2).reshape(B, T, -1))


# %% wrong: the position in a list in the cache
# says: Nothing was overwritten, but a result is wrong.
# earns: 1 of 3
# caught: hidden
class Attention(Base):
    def forward(self, x, cache=None):
        q, k, v = self.projected(x)
        T, start = x.shape[1], cache["position"][0] if cache else 0
        positions = torch.arange(start, start + T)
        q, k = turn(q, positions), turn(k, positions)
        k, v = self.joined(k, v, cache)
        if cache is not None:
            cache.setdefault("position", [0])[0] += T
        return self.attend(q, k, v, torch.arange(k.shape[2]) <= positions[:, None])


# %% wrong: the cache keeps a mask
# says: another tensor with more than one number for each position
# earns: 1 of 3
# caught: hidden
class Attention(Base):
    def forward(self, x, cache=None):
        q, k, v = self.projected(x)
        T, start = x.shape[1], cache["k"].shape[2] if cache else 0
        positions = torch.arange(start, start + T)
        q, k = turn(q, positions), turn(k, positions)
        k, v = self.joined(k, v, cache)
        mask = torch.ones(start + T, start + T, dtype=torch.bool).tril()
        if cache is not None:
            cache["mask"] = mask
        return self.attend(q, k, v, mask[start:])


# %% wrong: the layer keeps the largest mask
# says: What follows from the sizes alone, such as a mask, is made anew in each call.
# earns: 1 of 3
# caught: hidden
class Attention(Base):
    def forward(self, x, cache=None):
        q, k, v = self.projected(x)
        T, start = x.shape[1], cache["k"].shape[2] if cache else 0
        positions = torch.arange(start, start + T)
        q, k = turn(q, positions), turn(k, positions)
        k, v = self.joined(k, v, cache)
        if not hasattr(self, "mask") or len(self.mask) < start + T:
            self.mask = torch.ones(start + T, start + T, dtype=torch.bool).tril()
        return self.attend(q, k, v, self.mask[start : start + T, : start + T])


# %% wrong: hides keys with -1e9
# says: With x 100,000 times as large, the pieces no longer give what the whole gives.
# earns: 2 of 3
# caught: hidden
class Attention(Base):
    def forward(self, x, cache=None):
        q, k, v = self.projected(x)
        T, start = x.shape[1], self.stored(cache)
        positions = torch.arange(start, start + T)
        q, k = turn(q, positions), turn(k, positions)
        k, v = self.joined(k, v, cache)
        hidden = positions[:, None] < torch.arange(start + T)
        return self.attend(q, k, v, torch.zeros(hidden.shape).masked_fill(hidden, -1e9))


# %% wrong: passes over the empty dict
# says: After all calls the dict is still empty
# says: This check builds on the first one
# earns: 0 of 3
class Attention(Base):
    def forward(self, x, cache=None):
        q, k, v = self.projected(x)
        T, start = x.shape[1], self.stored(cache)
        positions = torch.arange(start, start + T)
        q, k = turn(q, positions), turn(k, positions)
        if cache:
            k, v = torch.cat([cache["k"], k], 2), torch.cat([cache["v"], v], 2)
            cache["k"], cache["v"] = k, v
        return self.attend(q, k, v, causal_lower_right(T, start + T))


# %% wrong: a fresh dict in place of the empty one
# says: After all calls the dict is still empty
# says: This check builds on the first one
# earns: 0 of 3
class Attention(Right):
    def forward(self, x, cache=None):
        return super().forward(x, cache or {})


# %% wrong: the class remembers the latest cache
# says: So something beside the dict keeps them, such as an attribute of the layer or of its class
# earns: 2 of 3
# caught: hidden
class Attention(Right):
    def after(self, q, k, v, mask, cache):
        Attention.last = cache
        return self.attend(q, k, v, mask)


# %% right: a function inside that refers to itself
class Attention(Base):
    def forward(self, x, cache=None):
        q, k, v = self.projected(x)
        T, start = x.shape[1], self.stored(cache)
        positions = torch.arange(start, start + T)
        q, k = turn(q, positions), turn(k, positions)
        k, v = self.joined(k, v, cache)

        def lined_up(queries, keys):
            return lined_up(keys, queries) if queries > keys else causal_lower_right(queries, k.shape[2])

        return self.attend(q, k, v, lined_up(T, start + T))
