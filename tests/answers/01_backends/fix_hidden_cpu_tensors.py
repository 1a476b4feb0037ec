# corners: empty, members, caller's modes

import math

import torch
from torch import nn


class Base(nn.Module):
    """What all of these share; `offset` and `start` are chosen by each."""

    def __init__(self, d_in, d_hid, max_len=64):
        super().__init__()
        self.cell = nn.GRUCell(d_in, d_hid)
        self.make_offset(max_len)

    def make_offset(self, max_len):
        self.register_buffer("offset", torch.sin(torch.arange(max_len).float()), persistent=False)

    def bring(self, x):
        return x.to(self.cell.weight_ih)

    def start(self, x):
        return self.cell.weight_ih.new_zeros(x.shape[1], self.cell.hidden_size)

    def forward(self, x):
        x = self.bring(x)
        h = self.start(x)
        outs = []
        for t in range(x.shape[0]):
            h = self.cell(x[t] + self.offset[t], h)
            outs.append(h)
        return torch.stack(outs) if outs else h.new_zeros(0, *h.shape)


# %% right: makes the offsets in forward on x's device
class Tagger(nn.Module):
    def __init__(self, d_in, d_hid, max_len=64):
        super().__init__()
        self.cell = nn.GRUCell(d_in, d_hid)

    def forward(self, x):
        weight = next(self.parameters())
        x = x.to(device=weight.device, dtype=weight.dtype)
        outs = torch.empty(0, x.shape[1], self.cell.hidden_size, device=weight.device, dtype=weight.dtype)
        h = None
        x = x + torch.arange(len(x), device=x.device, dtype=x.dtype).sin()[:, None, None]
        for row in x:
            h = self.cell(row, h)
            outs = torch.cat([outs, h[None]])
        return outs


# %% right: zeros_like of a piece of the weights, offsets as Python numbers
class Tagger(Base):
    def make_offset(self, max_len):
        self.offset = [math.sin(t) for t in range(max_len)]

    def start(self, x):
        return torch.zeros_like(self.cell.weight_hh[:1]).detach().expand(x.shape[1], -1)


# %% right: device= and dtype= everywhere, with named arguments
class Tagger(Base):
    def start(self, x):
        weight = self.cell.weight_hh
        return torch.zeros(x.size(1), weight.size(1), device=weight.device, dtype=weight.dtype)

    def bring(self, x):
        return x.to(self.cell.bias_hh.device, self.cell.bias_hh.dtype, non_blocking=True)


# %% right: a plain attribute that moves along, by _apply
class Tagger(Base):
    def make_offset(self, max_len):
        self.offset = torch.sin(torch.arange(max_len, dtype=torch.float32))

    def _apply(self, fn, recurse=True):
        super()._apply(fn, recurse)
        self.offset = fn(self.offset)
        return self


# %% right: under a device context
class Tagger(Base):
    def start(self, x):
        with self.cell.weight_ih.device:
            return torch.zeros(x.shape[1], self.cell.hidden_size, dtype=self.cell.weight_ih.dtype)


# %% right: nn.Buffer, all in one tensor
class Tagger(nn.Module):
    def __init__(self, d_in, d_hid, max_len=64):
        super().__init__()
        self.cell = nn.GRUCell(d_in, d_hid)
        self.offset = nn.Buffer(torch.arange(float(max_len)).sin(), persistent=False)

    def forward(self, x):
        x = x.to(self.offset.device, self.cell.weight_ih.dtype) + self.offset[: len(x), None, None].to(
            self.cell.weight_ih
        )
        h = x.new_zeros(x.shape[1:-1] + (self.cell.hidden_size,))
        outs = x.new_empty(len(x), *h.shape)
        rows = []
        for row in x:
            h = self.cell(row, h)
            rows.append(h)
        return torch.stack(rows) if rows else outs


# %% wrong: the code as given
# says: Tensors stayed on the CPU while the module moved: `self.offset`, the initial hidden state, x.
# says: This check builds on the first one
# earns: 0 of 3
# lesson
class Tagger(nn.Module):
    def __init__(self, d_in, d_hid, max_len=64):
        super().__init__()
        self.cell = nn.GRUCell(d_in, d_hid)
        self.offset = torch.sin(torch.arange(max_len).float())

    def forward(self, x):
        x.to(self.cell.weight_ih.device)
        h = torch.zeros(x.shape[1], self.cell.hidden_size)
        outs = []
        for t in range(x.shape[0]):
            h = self.cell(x[t] + self.offset[t], h)
            outs.append(h)
        return torch.stack(outs)


# %% wrong: repairs x and the offsets, leaves torch.zeros(B, H)
# says: The initial hidden state was created without device=: it lands on the default device
# says: This check builds on the first one
# earns: 0 of 3
# lesson
class Tagger(Base):
    def start(self, x):
        return torch.zeros(x.shape[1], self.cell.hidden_size)


# %% wrong: repairs x and h, leaves the offsets a plain attribute
# says: `self.offset` is a plain attribute: Module.to moves parameters and buffers only.
# says: The module moved again, and forward still
# earns: 0 of 3
# lesson
class Tagger(Base):
    def make_offset(self, max_len):
        self.offset = torch.sin(torch.arange(max_len).float())


# %% wrong: moves the plain attribute in every forward
# says: `self.table` is a plain attribute: Module.to moves parameters and buffers only.
# says: The module moved again, and forward still
# earns: 0 of 3
class Tagger(Base):
    def make_offset(self, max_len):
        self.table = torch.sin(torch.arange(max_len).float())

    @property
    def offset(self):
        return [step.to(self.cell.weight_ih) for step in self.table]


# %% wrong: leaves the line `x.to(...)` without assignment
# says: `x.to(...)` returns a new tensor; its result is not used, so x stays where it was.
# says: This check builds on the first one
# earns: 0 of 3
# lesson
class Tagger(Base):
    def bring(self, x):
        x.to(self.cell.weight_ih.device)
        return x


# %% wrong: does not move x at all
# says: x stays where it was: bring it to the parameters' device first.
# says: This check builds on the first one
# earns: 0 of 3
class Tagger(Base):
    def bring(self, x):
        return x


# %% wrong: moves x step by step
# says: x stays where it was: bring it to the parameters' device first.
# says: The module moved again, and forward still
# earns: 0 of 3
class Tagger(Base):
    def forward(self, x):
        h = self.start(x)
        outs = []
        for t in range(x.shape[0]):
            h = self.cell(x[t].to(h) + self.offset[t], h)
            outs.append(h)
        return torch.stack(outs) if outs else h.new_zeros(0, *h.shape)


# %% wrong: passes the device everywhere but never the dtype
# says: The module is float64 now, but forward still makes tensors of another dtype (or keeps an x of another one)
# says: This check builds on the first one
# earns: 0 of 3
class Tagger(Base):
    def bring(self, x):
        return x.to(self.cell.weight_ih.device)

    def start(self, x):
        return torch.zeros(x.shape[1], self.cell.hidden_size, device=x.device)


# %% wrong: takes the dtype from x
# says: take device *and* dtype from the parameters. With x in float32: RuntimeError
# says: This check builds on the first one
# earns: 0 of 3
class Tagger(Base):
    def bring(self, x):
        return x.to(self.cell.weight_ih.device)

    def start(self, x):
        return x.new_zeros(x.shape[1], self.cell.hidden_size)


# %% wrong: registers an ordinary (persistent) buffer
# says: The state_dict changed: old checkpoints no longer load. A non-persistent buffer
# earns: 2 of 3
# corner: members
# caught: hidden
class Tagger(Base):
    def make_offset(self, max_len):
        self.register_buffer("offset", torch.sin(torch.arange(max_len).float()))


# %% wrong: makes the offsets an nn.Parameter
# says: The offsets became a parameter: they would be trained, and checkpoints no longer match.
# earns: 2 of 3
# caught: hidden
class Tagger(Base):
    def make_offset(self, max_len):
        self.offset = nn.Parameter(torch.sin(torch.arange(max_len).float()))


# %% wrong: makes the offsets an untrained nn.Parameter
# says: The offsets became a parameter: parameters are saved, so old checkpoints no longer match.
# earns: 2 of 3
# caught: hidden
class Tagger(Base):
    def make_offset(self, max_len):
        self.offset = nn.Parameter(torch.sin(torch.arange(max_len).float()), requires_grad=False)


# %% wrong: chooses 'cuda if available else cpu' inside the class
# says: The device must follow the module's parameters; a fixed 'cuda'/'cpu' choice is right on one machine only
# says: This check builds on the first one
# earns: 0 of 3
class Tagger(nn.Module):
    def __init__(self, d_in, d_hid, max_len=64):
        super().__init__()
        self.device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        self.cell = nn.GRUCell(d_in, d_hid)
        self.register_buffer("offset", torch.sin(torch.arange(max_len).float()), persistent=False)

    def forward(self, x):
        x = x.to(self.device, self.cell.weight_ih.dtype)
        h = torch.zeros(x.shape[1], self.cell.hidden_size, device=self.device, dtype=x.dtype)
        outs = []
        for t in range(x.shape[0]):
            h = self.cell(x[t] + self.offset[t], h)
            outs.append(h)
        return torch.stack(outs) if outs else h.new_zeros(0, *h.shape)


# %% wrong: moves itself to the device of x
# says: Calling forward moved the module itself: x is brought to the parameters, not the other way round.
# says: This check builds on the first one
# earns: 0 of 3
class Tagger(Base):
    def forward(self, x):
        self.to_empty(device=x.device)
        with torch.no_grad():
            for kept in (*self.parameters(), *self.buffers()):
                kept.zero_()
        return super().forward(x)


# %% wrong: calls set_default_device and set_default_dtype in forward
# says: A global default was changed to make it fit; every other module in the program now sees it.
# earns: 2 of 3
# corner: caller's modes
# caught: hidden
class Tagger(Base):
    def start(self, x):
        device = self.cell.weight_ih.device
        torch.set_default_device(None if device.type == "cpu" else device)
        torch.set_default_dtype(self.cell.weight_ih.dtype)
        return torch.zeros(x.shape[1], self.cell.hidden_size)


# %% wrong: fails for T = 0
# says: With T = 0 there is nothing to stack: return an empty (0, B, d_hid) tensor
# earns: 2 of 3
# corner: empty
# caught: hidden
class Tagger(Base):
    def forward(self, x):
        x = self.bring(x)
        h, outs = self.start(x), []
        for t in range(x.shape[0]):
            h = self.cell(x[t] + self.offset[t], h)
            outs.append(h)
        return torch.stack(outs)


# %% wrong: an empty result on the default device
# says: With T = 0 there is nothing to stack: return an empty (0, B, d_hid) tensor
# earns: 2 of 3
# caught: hidden
class Tagger(Base):
    def forward(self, x):
        return super().forward(x) if len(x) else torch.empty(0, x.shape[1], self.cell.hidden_size)


# %% wrong: keeps what it made at the first call
# says: The module moved again, and forward still works with a tensor that stayed behind.
# earns: 2 of 3
# caught: hidden
class Tagger(Base):
    def make_offset(self, max_len):
        self.made, self.max_len = {}, max_len

    @property
    def offset(self):
        weight = self.cell.weight_ih
        if weight.dtype not in self.made:
            self.made[weight.dtype] = torch.arange(self.max_len, device=weight.device, dtype=weight.dtype).sin()
        return self.made[weight.dtype]


# %% wrong: 64 time steps, whatever max_len says
# says: There are max_len offsets
# earns: 2 of 3
# caught: hidden
class Tagger(Base):
    def make_offset(self, max_len):
        self.register_buffer("offset", torch.sin(torch.arange(64).float()), persistent=False)


# %% wrong: drops the offsets
# says: The numbers are not those of the given code
# says: On the CPU in float32 the result must be that of the given code
# earns: 0 of 3
class Tagger(Base):
    def make_offset(self, max_len):
        self.offset = [0.0] * max_len


# %% wrong: adds the offset to x in place
# says: x itself was changed.
# earns: 2 of 3
class Tagger(Base):
    def forward(self, x):
        x = self.bring(x)
        for t in range(x.shape[0]):
            x[t] += self.offset[t].to(x)
        h, outs = self.start(x), []
        for row in x:
            h = self.cell(row, h)
            outs.append(h)
        return torch.stack(outs) if outs else h.new_zeros(0, *h.shape)


# %% wrong: moves x.detach()
# says: No gradient comes back: something in forward leaves the autograd graph.
# earns: 2 of 3
# caught: hidden
class Tagger(Base):
    def bring(self, x):
        return x.detach().to(self.cell.weight_ih)


# %% wrong: under no_grad
# says: No gradient comes back: something in forward leaves the autograd graph.
# earns: 2 of 3
# caught: hidden
class Tagger(Base):
    @torch.no_grad()
    def forward(self, x):
        return super().forward(x)


# %% wrong: cuts the graph between time steps
# says: The gradients of x and of the weights must be those of the given code.
# earns: 2 of 3
# caught: hidden
class Tagger(Base):
    def forward(self, x):
        x = self.bring(x)
        h, outs = self.start(x), []
        for t in range(x.shape[0]):
            h = self.cell(x[t] + self.offset[t], h.detach())
            outs.append(h)
        return torch.stack(outs) if outs else h.new_zeros(0, *h.shape)


# %% wrong: renames the cell
# says: Old checkpoints no longer load: the keys of `state_dict()` must stay those of the GRU cell.
# earns: 0 of 3
class Tagger(nn.Module):
    def __init__(self, d_in, d_hid, max_len=64):
        super().__init__()
        self.gru = nn.GRUCell(d_in, d_hid)
        self.offset = [math.sin(t) for t in range(max_len)]

    def forward(self, x):
        x = x.to(self.gru.weight_ih)
        h = x.new_zeros(x.shape[1], self.gru.hidden_size)
        outs = []
        for t in range(x.shape[0]):
            h = self.gru(x[t] + self.offset[t], h)
            outs.append(h)
        return torch.stack(outs) if outs else h.new_zeros(0, *h.shape)


# %% wrong: adds a layer
# says: There are other parameters than those of the GRU cell: old checkpoints no longer match.
# earns: 2 of 3
# caught: hidden
class Tagger(Base):
    def make_offset(self, max_len):
        super().make_offset(max_len)
        self.head = nn.Linear(3, 3)


# %% wrong: freezes the weights
# says: All parameters of the GRU cell must still be trained.
# earns: 2 of 3
# caught: hidden
class Tagger(Base):
    def make_offset(self, max_len):
        super().make_offset(max_len)
        self.cell.bias_hh.requires_grad_(False)


# %% wrong: returns nothing
# says: forward returned None
# says: This check builds on the first one
# earns: 0 of 3
class Tagger(Base):
    def forward(self, x):
        super().forward(x)


# %% right: the offsets are a plain attribute, and are moved before they are used
class Tagger(Base):
    def make_offset(self, max_len):
        self.table = torch.sin(torch.arange(max_len).float())

    @property
    def offset(self):
        return self.table.to(self.cell.weight_ih)


# %% right: a result that is filled step by step, no initial state
class Tagger(Base):
    def forward(self, x):
        x = self.bring(x)
        out = x.new_empty(*x.shape[:2], self.cell.hidden_size)
        h = None
        for t in range(len(x)):
            h = self.cell(x[t] + self.offset[t], h)
            out[t] = h
        return out


# %% wrong: the initial state like x, before x is moved
# says: The initial hidden state was made on the device of x before x was moved.
# says: This check builds on the first one
# earns: 0 of 3
class Tagger(Base):
    def forward(self, x):
        h = x.new_zeros(x.shape[1], self.cell.hidden_size)
        x = self.bring(x)
        outs = []
        for t in range(x.shape[0]):
            h = self.cell(x[t] + self.offset[t], h)
            outs.append(h)
        return torch.stack(outs) if outs else h.new_zeros(0, *h.shape)


# %% wrong: the result goes back to where x was
# says: The result follows the device of x: it belongs on the parameters' device.
# says: This check builds on the first one
# earns: 0 of 3
class Tagger(Base):
    def forward(self, x):
        return super().forward(x).to(x.device)


# %% wrong: an x of another dtype leaves the graph
# says: Where x is converted it leaves the autograd graph: no gradient reaches it.
# earns: 2 of 3
# caught: hidden
class Tagger(Base):
    def bring(self, x):
        weight = self.cell.weight_ih
        return x.to(weight.device) if x.dtype == weight.dtype else x.detach().to(weight)


# %% wrong: insists on an x that is there already
# says: With the module on meta and x on the CPU: AssertionError: no message.
# says: This check builds on the first one
# earns: 0 of 3
class Tagger(Base):
    def bring(self, x):
        assert x.device == self.cell.weight_ih.device
        return x


# %% wrong: only the last state
# says: the result is on meta, of shape [3, 4]. Asked for is a result on meta, of shape [2, 3, 4].
# says: This check builds on the first one
# earns: 0 of 3
class Tagger(Base):
    def forward(self, x):
        return super().forward(x)[-1]


# %% wrong: sets the default dtype for the time of forward
# says: A global default was changed while forward ran, and put back
# earns: 2 of 3
# corner: caller's modes
# caught: hidden
class Tagger(Base):
    def forward(self, x):
        before = torch.get_default_dtype()
        torch.set_default_dtype(self.cell.weight_ih.dtype)
        try:
            return super().forward(x)
        finally:
            torch.set_default_dtype(before)

    def start(self, x):
        return torch.zeros(x.shape[1], self.cell.hidden_size, device=self.cell.weight_ih.device)


# %% wrong: overrides to
# says: As a part of a larger model the tagger moves only half
# earns: 2 of 3
# caught: hidden
class Tagger(nn.Module):
    def __init__(self, d_in, d_hid, max_len=64):
        super().__init__()
        self.cell = nn.GRUCell(d_in, d_hid)
        self.offset = torch.sin(torch.arange(max_len).float())

    def to(self, *args, **kwargs):
        super().to(*args, **kwargs)
        self.offset = self.offset.to(self.cell.weight_ih)
        return self

    def double(self):
        return self.to(torch.float64)

    def float(self):
        return self.to(torch.float32)

    def forward(self, x):
        x = x.to(self.cell.weight_ih)
        h = x.new_zeros(x.shape[1], self.cell.hidden_size)
        outs = []
        for t in range(x.shape[0]):
            h = self.cell(x[t] + self.offset[t], h)
            outs.append(h)
        return torch.stack(outs) if outs else h.new_zeros(0, *h.shape)


# %% wrong: the initial hidden state is made on the CPU by another thread
# says: part of your code's work ran where it can't watch
# earns: 1 of 3
class Tagger(Base):
    def start(self, x):
        from threading import Thread

        made = []
        thread = Thread(target=lambda: made.append(torch.zeros(x.shape[1], self.cell.hidden_size)))
        thread.start()
        thread.join()
        return made[0].to(self.cell.weight_ih)


# %% wrong: the states of all steps in one row
# says: . Asked for is a result on meta, of shape [2, 3, 4].
# says: This check builds on the first one, which doesn't pass yet. Fix that f
# earns: 0 of 3
class Tagger(nn.Module):
    def __init__(self, d_in, d_hid, max_len=64):
        super().__init__()
        self.cell = nn.GRUCell(d_in, d_hid)
        self.register_buffer("offset", torch.sin(torch.arange(max_len).float()), persistent=False)

    def forward(self, x):
        x = x.to(self.cell.weight_ih)
        h = x.new_zeros(x.shape[1], self.cell.hidden_size)
        outs = []
        for t in range(x.shape[0]):
            h = self.cell(x[t] + self.offset[t], h)
            outs.append(h)
        return torch.stack(outs, dim=1) if outs else h.new_zeros(0, *h.shape)


# %% wrong: everything is made on the CPU
# says: Tensors stayed on the CPU while the module moved:
# says: This check builds on the first one, which doesn't pass yet. Fix that f
# earns: 0 of 3
class Tagger(nn.Module):
    def __init__(self, d_in, d_hid, max_len=64):
        super().__init__()
        self.cell = nn.GRUCell(d_in, d_hid)
        self.offset = torch.sin(torch.arange(max_len).float())

    def forward(self, x):
        h = torch.zeros(x.shape[1], self.cell.hidden_size, dtype=self.cell.weight_ih.dtype)
        x = x.to(self.cell.weight_ih.dtype)
        outs = []
        for t in range(x.shape[0]):
            h = self.cell(x[t] + self.offset[t].to(x.dtype), h)
            outs.append(h)
        return torch.stack(outs) if outs else h.new_zeros(0, *h.shape)


# %% wrong: float32 for a module in half precision
# says: Take device *and* dtype from the parameters: after .to(device, dtype) the result has another dtype.
# earns: 1 of 3
# caught: hidden
class Tagger(nn.Module):
    def __init__(self, d_in, d_hid, max_len=64):
        super().__init__()
        self.cell = nn.GRUCell(d_in, d_hid)
        self.register_buffer("offset", torch.sin(torch.arange(max_len).float()), persistent=False)

    def forward(self, x):
        x = x.to(self.cell.weight_ih)
        h = x.new_zeros(x.shape[1], self.cell.hidden_size)
        outs = []
        for t in range(x.shape[0]):
            h = self.cell(x[t] + self.offset[t], h)
            outs.append(h)
        out = torch.stack(outs) if outs else h.new_zeros(0, *h.shape)
        return out.float() if out.dtype in (torch.float16, torch.bfloat16) else out


# %% wrong: goes by the first dtype that it has met
# says: Take device *and* dtype from the parameters: after .to(device, dtype) the result has another dtype.
# says: Device and dtype are those of the parameters after each move; this one is off:
# earns: 0 of 3
# caught: hidden
class Tagger(nn.Module):
    def __init__(self, d_in, d_hid, max_len=64):
        super().__init__()
        self.cell = nn.GRUCell(d_in, d_hid)
        self.register_buffer("offset", torch.sin(torch.arange(max_len).float()), persistent=False)
        self.widest = torch.float32

    def forward(self, x):
        x = x.to(self.cell.weight_ih)
        self.widest = torch.promote_types(self.widest, x.dtype)
        h = x.new_zeros(x.shape[1], self.cell.hidden_size)
        outs = []
        for t in range(x.shape[0]):
            h = self.cell(x[t] + self.offset[t], h)
            outs.append(h)
        out = torch.stack(outs) if outs else h.new_zeros(0, *h.shape)
        return out.to(self.widest)


# %% wrong: names the CPU when the offsets are made
# says: A device is named in the class: `arange` made a tensor on the CPU
# earns: 2 of 3
# caught: hidden
class Tagger(Base):
    def make_offset(self, max_len):
        self.register_buffer("offset", torch.sin(torch.arange(max_len, device="cpu").float()), persistent=False)


# %% right: offsets from NumPy
class Tagger(Base):
    def make_offset(self, max_len):
        import numpy

        table = numpy.sin(numpy.arange(max_len)).astype("float32")
        self.register_buffer("offset", torch.from_numpy(table), persistent=False)


# %% right: offsets as numbers that were computed by torch
class Tagger(Base):
    def make_offset(self, max_len):
        self.offset = torch.arange(max_len).double().sin().tolist()
