# corners: members, second name

import copy
import math

import torch
from torch import nn

from torchkata.small_lm import Block, SmallLM


class Base(nn.Module):
    """A right model with parts to replace."""

    def __init__(self, vocab, width, layers, length):
        super().__init__()
        self.layers = layers
        self.emb = nn.Embedding(vocab, width)
        self.blocks = nn.ModuleList([Block(width) for _ in range(layers)])
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocab, bias=False)
        self.tie()
        self.keep(self.make(length))
        self.start()

    def tie(self):
        self.head.weight = self.emb.weight

    def make(self, length):
        return torch.ones(length, length, dtype=torch.bool).tril()

    def keep(self, mask):
        self.register_buffer("mask", mask, persistent=False)

    def start(self):
        for name, p in self.named_parameters():
            if p.dim() > 1:
                self.draw(name, p)
            elif name.endswith("bias"):
                nn.init.zeros_(p)

    def draw(self, name, p):
        nn.init.normal_(p, std=self.spread(name))

    def spread(self, name):
        return 0.02 / math.sqrt(2 * self.layers) if name.endswith(("out.weight", "down.weight")) else 0.02

    def forward(self, ids):
        x, mask = self.emb(ids), self.mask[: ids.shape[1], : ids.shape[1]]
        for block in self.blocks:
            x = block(x, mask)
        return self.head(self.norm(x))


# %% right: the Parameter assigned, spread by name
class TinyLM(Base):
    pass


# %% right: the head first, whose Parameter the embedding takes; add_module; nn.Buffer; spread by module
class TinyLM(nn.Module):
    def __init__(self, vocab, width, layers, length):
        super().__init__()
        self.head = nn.Linear(width, vocab, bias=False)
        self.emb = nn.Embedding(vocab, width)
        self.emb.weight = self.head.weight
        self.blocks = nn.Module()
        for i in range(layers):
            self.blocks.add_module(str(i), Block(width))
        self.norm = nn.LayerNorm(width)
        places = torch.arange(length)
        self.mask = nn.Buffer(places[:, None] >= places, persistent=False)
        for module in self.modules():
            if isinstance(module, nn.Linear):
                module.weight.data.normal_(0, 0.02)
                if module.bias is not None:
                    module.bias.data.zero_()
        for block in self.blocks.children():
            block.out.weight.data.normal_(0, 0.02 / (2 * layers) ** 0.5)
            block.down.weight.data.normal_(0, 0.02 / (2 * layers) ** 0.5)

    def forward(self, ids):
        T = ids.size(1)
        x = nn.functional.embedding(ids, self.emb.weight)
        for block in self.blocks.children():
            x = block(x, self.mask[:T, :T])
        return self.norm(x) @ self.head.weight.t()


# %% right: the embedding takes the head's Parameter, apply, and a smaller spread by scaling what was drawn
class TinyLM(Base):
    def tie(self):
        self.emb.weight = self.head.weight

    def start(self):
        self.apply(self.start_one)
        with torch.no_grad():
            for block in self.blocks:
                block.out.weight /= math.sqrt(2 * self.layers)
                block.down.weight *= (2 * self.layers) ** -0.5

    def start_one(self, module):
        if isinstance(module, nn.Linear | nn.Embedding):
            nn.init.normal_(module.weight, 0.0, 0.02)
        if getattr(module, "bias", None) is not None:
            nn.init.constant_(module.bias, 0)


# %% right: blocks in an nn.Sequential
class TinyLM(Base):
    def __init__(self, vocab, width, layers, length):
        super().__init__(vocab, width, layers, length)
        self.blocks = nn.Sequential(*self.blocks)


# %% wrong: the given code
# says: `head` and `emb` share memory, but not the Parameter, so the optimizer steps it twice, and .to() or
# says: This check builds on the first one, which doesn't pass yet. Fix that first.
# earns: 0 of 2
# lesson
class TinyLM(nn.Module):
    def __init__(self, vocab, width, layers, length):
        super().__init__()
        self.emb = nn.Embedding(vocab, width)
        self.blocks = [Block(width) for _ in range(layers)]
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocab, bias=False)
        self.head.weight.data = self.emb.weight.data
        self.mask = torch.ones(length, length, dtype=torch.bool).tril()
        for p in self.parameters():
            nn.init.normal_(p, std=0.02)

    def forward(self, ids):
        x, mask = self.emb(ids), self.mask[: ids.shape[1], : ids.shape[1]]
        for block in self.blocks:
            x = block(x, mask)
        return self.head(self.norm(x))


# %% wrong: shares the data
# says: `head` and `emb` share memory, but not the Parameter, so the optimizer steps it twice, and .to() or
# earns: 1 of 2
# lesson
class TinyLM(Base):
    def tie(self):
        self.head.weight.data = self.emb.weight.data


# %% wrong: a new Parameter around the same numbers
# says: `head` and `emb` share memory, but not the Parameter, so the optimizer steps it twice, and .to() or
# earns: 1 of 2
# corner: second name
class TinyLM(Base):
    def tie(self):
        self.head.weight = nn.Parameter(self.emb.weight)


# %% wrong: an embedding made of the head's weight, which it wraps anew
# says: `head` and `emb` share memory, but not the Parameter, so the optimizer steps it twice, and .to() or
# earns: 1 of 2
class TinyLM(Base):
    def tie(self):
        self.emb = nn.Embedding(*self.emb.weight.shape, _weight=self.head.weight)


# %% wrong: a clone as the head
# says: head.weight is a copy of emb.weight
# earns: 1 of 2
# corner: members
class TinyLM(Base):
    def start(self):
        super().start()
        self.head.weight = nn.Parameter(self.emb.weight.detach().clone())


# %% wrong: a head that loads the embedding's state
# says: head.weight is a copy of emb.weight
# earns: 1 of 2
class TinyLM(Base):
    def start(self):
        super().start()
        self.head = nn.Linear(self.emb.embedding_dim, self.emb.num_embeddings, bias=False)
        self.head.load_state_dict(self.emb.state_dict())


# %% wrong: not tied
# says: head.weight and emb.weight are two Parameters
# earns: 1 of 2
class TinyLM(Base):
    def tie(self):
        pass


# %% wrong: tied in forward
# says: head.weight and emb.weight are two Parameters
# earns: 1 of 2
class TinyLM(Base):
    def tie(self):
        pass

    def forward(self, ids):
        self.head.weight = self.emb.weight
        return super().forward(ids)


# %% wrong: blocks in a plain list
# says: The blocks are not registered, because parameters() and .to() don't look into a plain list. Use
# says: This check builds on the first one, which doesn't pass yet. Fix that first.
# earns: 0 of 2
# lesson
class TinyLM(Base):
    def start(self):
        super().start()
        blocks = list(self.blocks)
        del self.blocks
        self.blocks = blocks


# %% wrong: one block only
# says: These parameters are missing:
# says: This check builds on the first one, which doesn't pass yet. Fix that first.
# earns: 0 of 2
class TinyLM(Base):
    def __init__(self, vocab, width, layers, length):
        super().__init__(vocab, width, 1, length)


# %% wrong: one block, used again in each layer
# says: The forward pass differs from the given one: emb, every block in order with the mask, norm, head.
# earns: 1 of 2
class TinyLM(Base):
    def forward(self, ids):
        x, mask = self.emb(ids), self.mask[: ids.shape[1], : ids.shape[1]]
        for _ in self.blocks:
            x = self.blocks[0](x, mask)
        return self.head(self.norm(x))


# %% wrong: mask as a plain attribute
# says: `mask` stayed behind when the module moved to another device. Register it as a buffer.
# earns: 1 of 2
# lesson
class TinyLM(Base):
    def keep(self, mask):
        self.mask = mask


# %% wrong: mask as a persistent buffer
# says: `mask` is in the state_dict, so a model with a different length could not load the checkpoint. Use
# earns: 1 of 2
class TinyLM(Base):
    def keep(self, mask):
        self.register_buffer("mask", mask)


# %% wrong: mask as a frozen Parameter
# says: `mask` must not be a Parameter, because parameters are counted, given to optimizers, and trained after
# earns: 1 of 2
class TinyLM(Base):
    def keep(self, mask):
        self.mask = nn.Parameter(mask, requires_grad=False)

    def start(self):
        mask = self.mask
        del self.mask
        super().start()
        self.mask = mask


# %% wrong: mask of floats
# says: `mask` must be a bool tensor.
# earns: 1 of 2
class TinyLM(Base):
    def make(self, length):
        return torch.ones(length, length).tril()

    def forward(self, ids):
        x, mask = self.emb(ids), self.mask[: ids.shape[1], : ids.shape[1]] > 0
        for block in self.blocks:
            x = block(x, mask)
        return self.head(self.norm(x))


# %% wrong: mask upside down
# says: `mask` is upside down.
# earns: 1 of 2
class TinyLM(Base):
    def make(self, length):
        return torch.ones(length, length, dtype=torch.bool).triu()


# %% wrong: mask of what is hidden
# says: `mask` is True where a position may NOT look.
# earns: 1 of 2
class TinyLM(Base):
    def make(self, length):
        return torch.ones(length, length, dtype=torch.bool).triu(1)

    def forward(self, ids):
        x, mask = self.emb(ids), ~self.mask[: ids.shape[1], : ids.shape[1]]
        for block in self.blocks:
            x = block(x, mask)
        return self.head(self.norm(x))


# %% wrong: one diagonal too many
# says: `mask` must be True where a position (row) may look (column): at itself and at everything before it.
# earns: 1 of 2
class TinyLM(Base):
    def make(self, length):
        return torch.ones(length, length, dtype=torch.bool).tril(1)


# %% wrong: a head with a bias
# says: The head must have no bias.
# earns: 1 of 2
class TinyLM(Base):
    def tie(self):
        self.head = nn.Linear(self.emb.embedding_dim, self.emb.num_embeddings)
        self.head.weight = self.emb.weight


# %% wrong: one norm more, after the embedding
# says: There are parameters that the model should not have:
# earns: 1 of 2
class TinyLM(Base):
    def __init__(self, vocab, width, layers, length):
        super().__init__(vocab, width, layers, length)
        self.before = nn.LayerNorm(width)


# %% wrong: forward without the norm
# says: The forward pass differs from the given one: emb, every block in order with the mask, norm, head.
# earns: 1 of 2
# caught: hidden
class TinyLM(Base):
    def forward(self, ids):
        x, mask = self.emb(ids), self.mask[: ids.shape[1], : ids.shape[1]]
        for block in self.blocks:
            x = block(x, mask)
        return self.head(x)


# %% wrong: a deepcopy that ties no longer
# says: head.weight and emb.weight are two Parameters. Tie them once, in __init__.
# earns: 1 of 2
# caught: hidden
class TinyLM(Base):
    def __deepcopy__(self, memo):
        other = self.__class__(self.emb.num_embeddings, self.emb.embedding_dim, self.layers, len(self.mask))
        for name, module in self.named_children():
            setattr(other, name, copy.deepcopy(module))
        return other


# %% wrong: embedding left at N(0, 1)
# says: The embedding still has its default spread of 1. Because it is tied to the head, the logits have size
# earns: 1 of 2
# lesson
class TinyLM(Base):
    def draw(self, name, p):
        if "emb" not in name:
            super().draw(name, p)


# %% wrong: one spread for all matrices
# says: `out` and `down` write into the residual stream, so their spread must be 0.02 / sqrt(2 * layers).
# earns: 1 of 2
# caught: hidden
class TinyLM(Base):
    def spread(self, name):
        return 0.02


# %% wrong: divided by sqrt(layers)
# says: `out` and `down` write into the residual stream, so their spread must be 0.02 / sqrt(2 * layers).
# earns: 1 of 2
# caught: hidden
class TinyLM(Base):
    def spread(self, name):
        return 0.02 / math.sqrt(self.layers) if name.endswith(("out.weight", "down.weight")) else 0.02


# %% wrong: divided by 2 * layers
# says: `out` and `down` write into the residual stream, so their spread must be 0.02 / sqrt(2 * layers).
# earns: 1 of 2
# caught: hidden
class TinyLM(Base):
    def spread(self, name):
        return 0.02 / (2 * self.layers) if name.endswith(("out.weight", "down.weight")) else 0.02


# %% wrong: the smaller spread for out only
# says: `out` and `down` write into the residual stream, so their spread must be 0.02 / sqrt(2 * layers).
# earns: 1 of 2
# caught: hidden
class TinyLM(Base):
    def spread(self, name):
        return 0.02 / math.sqrt(2 * self.layers) if name.endswith("out.weight") else 0.02


# %% wrong: linear layers as nn.Linear draws them
# says: : its spread must be 0.02, but it is
# earns: 1 of 2
# caught: hidden
class TinyLM(Base):
    def draw(self, name, p):
        if "emb" in name:
            super().draw(name, p)


# %% wrong: a variance of 0.02
# says: The first loss is
# earns: 1 of 2
class TinyLM(Base):
    def spread(self, name):
        return math.sqrt(super().spread(name))


# %% wrong: drawn evenly
# says: must be drawn from a normal distribution around 0.
# earns: 1 of 2
# caught: hidden
class TinyLM(Base):
    def draw(self, name, p):
        nn.init.uniform_(p, -self.spread(name) * 3**0.5, self.spread(name) * 3**0.5)


# %% wrong: everything one-dimensional set to 0
# says: : the weights of the norms must start at 1. They are also parameters, but not matrices.
# earns: 1 of 2
class TinyLM(Base):
    def start(self):
        for name, p in self.named_parameters():
            if p.dim() > 1:
                self.draw(name, p)
            else:
                nn.init.zeros_(p)


# %% wrong: normal_ for every parameter
# says: : the weights of the norms must start at 1. They are also parameters, but not matrices.
# earns: 1 of 2
class TinyLM(Base):
    def start(self):
        for name, p in self.named_parameters():
            self.draw(name, p)


# %% wrong: biases left as nn.Linear draws them
# says: biases must start at 0.
# earns: 1 of 2
# caught: hidden
class TinyLM(Base):
    def start(self):
        for name, p in self.named_parameters():
            if p.dim() > 1:
                self.draw(name, p)


# %% wrong: a seed in __init__
# says: Two models have the same weights. Each must draw its own, so seed nothing in __init__.
# earns: 1 of 2
# caught: hidden
class TinyLM(Base):
    def start(self):
        torch.manual_seed(0)
        super().start()


# %% wrong: super().__init__() forgotten
# says: super().__init__() comes first in __init__.
# earns: 0 of 2
class TinyLM(Base):
    def __init__(self, vocab, width, layers, length):
        self.emb = nn.Embedding(vocab, width)


# %% wrong: the course's own model
# says: Your model is, or uses, the course's SmallLM. Write the model yourself.
# earns: 1 of 2
class TinyLM(SmallLM):
    pass


# %% wrong: one block, several times
# says: The same Block is in `blocks` several times, so all layers share its weights. Make a new Block for each
# earns: 1 of 2
class TinyLM(Base):
    def __init__(self, vocab, width, layers, length):
        super().__init__(vocab, width, layers, length)
        self.blocks = nn.ModuleList([Block(width)] * layers)
        self.start()


# %% wrong: padding_idx=0
# says: The embedding of id 0 gets no gradient, because an Embedding drops the gradient of padding_idx. Here 0
# earns: 1 of 2
# caught: hidden
class TinyLM(Base):
    def __init__(self, vocab, width, layers, length):
        super().__init__(vocab, width, layers, length)
        self.emb = nn.Embedding(vocab, width, padding_idx=0)
        self.emb.weight = self.head.weight
        self.start()


# %% wrong: mask not cut to T
# says: Each block must get as many rows and columns of `mask` as there are ids:
# earns: 1 of 2
# caught: hidden
class TinyLM(Base):
    def forward(self, ids):
        x = self.emb(ids)
        for block in self.blocks:
            x = block(x, self.mask)
        return self.head(self.norm(x))


# %% wrong: parts of its own in the place of torch's
# says: `emb` must be an nn.Embedding and `head` an nn.Linear.
# earns: 1 of 2
class Table(nn.Module):
    def __init__(self, vocab, width):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(vocab, width))

    def forward(self, ids):
        return self.weight[ids]


class TinyLM(Base):
    def tie(self):
        self.emb = Table(*self.emb.weight.shape)
        self.head.weight = self.emb.weight


# %% wrong: a wider norm
# says: The parameters don't have the shapes that they have in SmallLM.
# says: Your code raised RuntimeError: Given normalized_shape=[1, 32], expecte
# earns: 0 of 2
class TinyLM(Base):
    def tie(self):
        super().tie()
        self.norm = nn.LayerNorm((1, self.emb.embedding_dim))


# %% wrong: the norms are frozen
# says: Every parameter must require grad.
# earns: 1 of 2
class TinyLM(Base):
    def start(self):
        super().start()
        self.norm.requires_grad_(False)


# %% wrong: double() makes numbers of the mask
# says: `mask` must stay bool after .double(). A buffer of bools does.
# earns: 1 of 2
class TinyLM(Base):
    def double(self):
        super().double()
        self.mask = self.mask.double()
        return self


# %% wrong: a mask with dimensions for batch and heads
# says: `mask` must be (length, length).
# earns: 1 of 2
class TinyLM(Base):
    def keep(self, mask):
        super().keep(mask[None, None])

    def forward(self, ids):
        x, mask = self.emb(ids), self.mask[0, 0, : ids.shape[1], : ids.shape[1]]
        for block in self.blocks:
            x = block(x, mask)
        return self.head(self.norm(x))


# %% wrong: the length is saved
# says: The state_dict must contain the model's weights and nothing else.
# earns: 1 of 2
class TinyLM(Base):
    def keep(self, mask):
        super().keep(mask)
        self.register_buffer("length", torch.tensor(len(mask)))


# %% wrong: loads nothing
# says: After load_state_dict the model does not have the loaded weights.
# earns: 1 of 2
# caught: hidden
class TinyLM(Base):
    def load_state_dict(self, state, *args, **kwargs):
        return super().load_state_dict(self.state_dict())


# %% wrong: positions first
# says: The logits must be (B, T, vocab).
# earns: 1 of 2
# caught: hidden
class TinyLM(Base):
    def forward(self, ids):
        return super().forward(ids).transpose(0, 1)


# %% wrong: the embedding learns through the head only
# says: The logits are right, but the gradient of the embedding's weight is wrong.
# earns: 1 of 2
# caught: hidden
class TinyLM(Base):
    def forward(self, ids):
        x, mask = self.emb(ids).detach(), self.mask[: ids.shape[1], : ids.shape[1]]
        for block in self.blocks:
            x = block(x, mask)
        return self.head(self.norm(x))


# %% wrong: a block of which nothing is learned
# says: No gradient reaches
# earns: 1 of 2
# caught: hidden
class TinyLM(Base):
    def forward(self, ids):
        x, mask = self.emb(ids), self.mask[: ids.shape[1], : ids.shape[1]]
        for block in self.blocks:
            qkv = block.qkv.weight
            x = (
                torch.func.functional_call(block, {"qkv.weight": qkv.detach()}, (x, mask))
                if block is self.blocks[0]
                else block(x, mask)
            )
        return self.head(self.norm(x))


# %% wrong: the parts of the course's model
# says: Your model is, or uses, the course's SmallLM. Write the model yourself.
# earns: 1 of 2
class TinyLM(nn.Module):
    def __init__(self, vocab, width, layers, length):
        super().__init__()
        vars(self).update(vars(SmallLM(vocab, width, layers, length)))

    def forward(self, ids):
        return SmallLM.forward(self, ids)


# %% right: the mask is made where it is asked for, beside the weights
class TinyLM(Base):
    def keep(self, mask):
        self.length = len(mask)

    @property
    def mask(self):
        return torch.ones(self.length, self.length, dtype=torch.bool, device=self.emb.weight.device).tril()


# %% wrong: in eval mode the head sees the last position only
# says: In eval mode the logits have shape (2, 1, 50), in train mode (2, 8, 50). Apply the head to all positions
# earns: 1 of 2
# caught: hidden
class TinyLM(Base):
    def forward(self, ids):
        x, mask = self.emb(ids), self.mask[: ids.shape[1], : ids.shape[1]]
        for block in self.blocks:
            x = block(x, mask)
        return self.head(self.norm(x if self.training else x[:, [-1]]))


# %% wrong: log-probabilities in eval mode
# says: In eval mode the logits are others than in train mode. The forward pass must be the same in both.
# earns: 1 of 2
# caught: hidden
class TinyLM(Base):
    def forward(self, ids):
        logits = super().forward(ids)
        return logits if self.training else logits.log_softmax(-1)


# %% wrong: forward makes a mask of its own
# says: After `model.mask[0, 2] = model.mask[4, 6] = True` the blocks got another mask for 5 ids. Pass them the
# earns: 1 of 2
# caught: hidden
class TinyLM(Base):
    def forward(self, ids):
        x, mask = self.emb(ids), torch.ones(ids.shape[1], ids.shape[1], dtype=torch.bool).tril()
        for block in self.blocks:
            x = block(x, mask)
        return self.head(self.norm(x))


# %% wrong: the gradient of the embedding divided by how often an id comes
# says: The logits are right, but the gradient of the embedding's weight is wrong. Make `emb` without further options
# earns: 1 of 2
# caught: hidden
class TinyLM(Base):
    def __init__(self, vocab, width, layers, length):
        super().__init__(vocab, width, layers, length)
        self.emb = nn.Embedding(vocab, width, scale_grad_by_freq=True)
        self.emb.weight = self.head.weight
        self.start()


# %% wrong: copies of one block, whose matrices were drawn before
# says: starts with the same numbers as in block 0. `copy.deepcopy` copies a block's weights, and a seed repeats them.
# earns: 1 of 2
# caught: hidden
class TinyLM(Base):
    def start(self):
        super().start()
        self.blocks = nn.ModuleList(copy.deepcopy(self.blocks[0]) for _ in self.blocks)


# %% right: copies of one block, whose matrices are drawn afterwards
class TinyLM(Base):
    def start(self):
        self.blocks = nn.ModuleList(copy.deepcopy(self.blocks[0]) for _ in self.blocks)
        super().start()


# %% wrong: the last rows and columns of the mask
# says: You pass the last 5 rows and columns of `mask` for 5 ids. The first id is at position 0, so pass the first 5.
# earns: 1 of 2
# caught: hidden
class TinyLM(Base):
    def forward(self, ids):
        x, T = self.emb(ids), ids.shape[1]
        for block in self.blocks:
            x = block(x, self.mask[-T:, -T:])
        return self.head(self.norm(x))
