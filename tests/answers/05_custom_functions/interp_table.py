# corners: 0-d, equal values
import numpy as np
import torch


def refuse(xp, fp):
    if len(xp) != len(fp) or len(xp) < 2 or not bool((xp.diff() > 0).all()):
        raise ValueError("bad table")


def segments(x, xp):
    k = torch.searchsorted(xp.double(), x.double().contiguous(), right=True).clamp(1, len(xp) - 1) - 1
    width = xp.double()[k + 1] - xp.double()[k]
    return k, width, ((x.double() - xp.double()[k]) / width).clamp(0, 1)


class Table(torch.autograd.Function):
    """A right one; wrong ones below change a part of it."""

    @staticmethod
    def forward(ctx, x, xp, fp):
        ctx.save_for_backward(x, xp, fp)
        return torch.as_tensor(np.interp(x.detach().numpy(), xp.detach().numpy(), fp.detach().numpy())).to(x.dtype)

    @classmethod
    def of_x(cls, g, x, xp, fp):
        k, width, t = segments(x, xp)
        slope = (fp[k + 1] - fp[k]) / width
        return g * slope * ((x >= xp[0]) & (x < xp[-1]))

    @classmethod
    def of_fp(cls, g, x, xp, fp):
        k, width, t = segments(x, xp)
        out = torch.zeros_like(fp)
        out.index_add_(0, k.flatten(), (g * (1 - t)).flatten().to(fp.dtype))
        return out.index_add_(0, k.flatten() + 1, (g * t).flatten().to(fp.dtype))

    @staticmethod
    def backward(ctx, g):
        cls = ctx.owner
        return cls.of_x(g, *ctx.saved_tensors), None, cls.of_fp(g, *ctx.saved_tensors)


def used(cls):
    """An answer that applies this class."""

    class Owned(cls):
        @staticmethod
        def forward(ctx, x, xp, fp):
            ctx.owner = cls
            return cls.forward(ctx, x, xp, fp)

    def interp(x, xp, fp):
        refuse(xp, fp)
        return Owned.apply(x, xp, fp)

    return interp


# %% right: np.interp inside a Function, index_add_ for fp
interp = used(Table)


# %% right: hat-function weights as a (..., K) matrix times fp, no Function
def interp(x, xp, fp):
    refuse(xp, fp)
    at, knots = x.double().unsqueeze(-1), xp.detach().double()
    left = torch.cat([knots[:1] - 1, knots[:-1]])
    right = torch.cat([knots[1:], knots[-1:] + 1])
    up, down = (at - left) / (knots - left), (right - at) / (right - knots)
    weights = torch.where((at >= left) & (at < right), torch.where(at < knots, up, down), 0.0)
    first, last = torch.zeros_like(knots), torch.zeros_like(knots)
    first[0] = last[-1] = 1
    weights = torch.where(at < knots[0], first, torch.where(at >= knots[-1], last, weights))
    return (weights @ fp.double()).to(x.dtype)


# %% right: entry plus slope times distance, with torch.where for the two ends
def interp(x, xp, fp):
    if xp.shape != fp.shape or xp.numel() < 2 or (xp[1:] <= xp[:-1]).any():
        raise ValueError("xp")
    xp = xp.detach().to(x.dtype)
    k = torch.searchsorted(xp, x.detach().contiguous(), right=True).sub(1).clamp(0, xp.numel() - 2)
    slope = (fp[k + 1] - fp[k]) / (xp[k + 1] - xp[k])
    inner = fp[k] + slope * (x - xp[k])
    return torch.where(x < xp[0], fp[0], torch.where(x >= xp[-1], fp[-1], inner)).to(x.dtype)


# %% right: NumPy in the backward, too, with np.add.at
class Numpy(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, xp, fp):
        a, b, c = (t.detach().numpy() for t in (x, xp, fp))
        ctx.arrays = a, b, c
        return torch.tensor(np.interp(a, b, c), dtype=x.dtype)

    @staticmethod
    def backward(ctx, g):
        x, xp, fp = ctx.arrays
        x, g = np.atleast_1d(x), np.atleast_1d(g.detach().numpy())
        k = np.clip(np.searchsorted(xp, x, side="right") - 1, 0, len(xp) - 2)
        t = np.clip((x - xp[k]) / (xp[k + 1] - xp[k]), 0, 1)
        slope = np.where((x < xp[0]) | (x >= xp[-1]), 0, (fp[k + 1] - fp[k]) / (xp[k + 1] - xp[k]))
        table = np.zeros(len(fp))
        np.add.at(table, k, g * (1 - t))
        np.add.at(table, k + 1, g * t)
        shape = ctx.arrays[0].shape
        return torch.from_numpy(g * slope).reshape(shape), None, torch.from_numpy(table)


def interp(x, xp, fp):
    refuse(xp, fp)
    return Numpy.apply(x, xp, fp)


# %% wrong: np.interp(x.numpy(), ...) outside a Function
# says: NumPy cannot take a tensor that is being recorded: inside a Function's forward recording is off
# earns: 0 of 3
# lesson
def interp(x, xp, fp):
    refuse(xp, fp)
    return torch.as_tensor(np.interp(x.numpy(), xp.numpy(), fp.numpy()), dtype=x.dtype)


# %% wrong: the same on detached tensors
# says: No gradient reaches x: what NumPy computes is a constant for autograd.
# says: must get a gradient too
# earns: 0 of 3
# lesson
def interp(x, xp, fp):
    refuse(xp, fp)
    x, xp, fp = (t.detach() for t in (x, xp, fp))
    return torch.as_tensor(np.interp(x.numpy(), xp.numpy(), fp.numpy()), dtype=x.dtype)


# %% wrong: backward returns None for fp
# says: `fp` must get a gradient too: a look-up table that can be learned.
# says: is wrong: no gradient reaches fp
# earns: 1 of 3
# lesson
class NoFp(Table):
    @classmethod
    def of_fp(cls, g, x, xp, fp):
        return None


interp = used(NoFp)


# %% wrong: gf[k] += ... with repeated k
# says: Several x in one segment share its knots; their contributions must be added.
# says: The gradient of fp is wrong: the gradient of fp is off
# earns: 1 of 3
# lesson
class Assigns(Table):
    @classmethod
    def of_fp(cls, g, x, xp, fp):
        k, width, t = segments(x, xp)
        out = torch.zeros_like(fp)
        out[k] += (g * (1 - t)).to(fp.dtype)
        out[k + 1] += (g * t).to(fp.dtype)
        return out


interp = used(Assigns)


# %% wrong: difference of the entries without dividing by the width of the segment
# says: The slope is the difference of two entries divided by the width of the segment
# says: The gradient of x is wrong
# earns: 1 of 3
class NoWidth(Table):
    @classmethod
    def of_x(cls, g, x, xp, fp):
        k, width, t = segments(x, xp)
        return Table.of_x(g, x, xp, fp) * width


interp = used(NoWidth)


# %% wrong: keeps the end slopes outside the table
# says: Outside the table the result is constant: slope 0.
# says: At the first knot the first slope counts, at the last one 0
# earns: 1 of 3
class Ends(Table):
    @classmethod
    def of_x(cls, g, x, xp, fp):
        k, width, t = segments(x, xp)
        return g * (fp[k + 1] - fp[k]) / width


interp = used(Ends)


# %% wrong: continues the end segments
# says: Outside the table the end values continue; you extrapolated the last segment.
# says: The gradient of fp is wrong: the gradient of fp is off
# says: At the first knot the first slope counts, at the last one 0
# earns: 0 of 3
def interp(x, xp, fp):
    refuse(xp, fp)
    k, width, _ = segments(x, xp)
    return (fp[k] + (fp[k + 1] - fp[k]) / width * (x - xp[k])).to(x.dtype)


# %% wrong: searchsorted from the left
# says: At an inner knot the slope of the segment on its *right* counts
# earns: 2 of 3
class Left(Table):
    @classmethod
    def of_x(cls, g, x, xp, fp):
        k = torch.searchsorted(xp.double(), x.double().contiguous()).clamp(1, len(xp) - 1) - 1
        slope = (fp[k + 1] - fp[k]) / (xp[k + 1] - xp[k])
        return g * slope * ((x >= xp[0]) & (x < xp[-1]))


interp = used(Left)


# %% wrong: the last slope at the last knot
# says: At the first knot the first slope counts, at the last one 0
# earns: 2 of 3
# caught: hidden
class Last(Table):
    @classmethod
    def of_x(cls, g, x, xp, fp):
        k, width, _ = segments(x, xp)
        return g * (fp[k + 1] - fp[k]) / width * ((x >= xp[0]) & (x <= xp[-1]))


interp = used(Last)


# %% wrong: no slope at the first knot
# says: At the first knot the first slope counts, at the last one 0
# earns: 2 of 3
# caught: hidden
class First(Table):
    @classmethod
    def of_x(cls, g, x, xp, fp):
        return Table.of_x(g, x, xp, fp) * (x > xp[0])


interp = used(First)


# %% wrong: a clamp, whose gradient passes at both ends
# says: At the first knot the first slope counts, at the last one 0
# earns: 2 of 3
# caught: hidden
def interp(x, xp, fp):
    refuse(xp, fp)
    xp = xp.detach()
    inner = x.clamp(xp[0].item(), xp[-1].item())
    k, width, _ = segments(x.detach(), xp)
    return (fp[k] + (fp[k + 1] - fp[k]) / width * (inner - xp[k])).to(x.dtype)


# %% wrong: returns NumPy's float64
# says: NumPy computes in float64: convert back, expected torch.float32, got torch.float64.
# earns: 2 of 3
class Double(Table):
    @staticmethod
    def forward(ctx, x, xp, fp):
        return Table.forward(ctx, x, xp, fp).double()


interp = used(Double)


# %% wrong: the dtype of the table
# says: The result must have the dtype of x: expected torch.float32
# earns: 2 of 3
# caught: hidden
class OfTable(Table):
    @staticmethod
    def forward(ctx, x, xp, fp):
        return Table.forward(ctx, x, xp, fp).to(fp.dtype)


interp = used(OfTable)


# %% wrong: takes the previous entry
# says: That is the nearest (or previous) entry, not the interpolated value.
# says: The values are not those of np.interp
# earns: 1 of 3
class Previous(Table):
    @staticmethod
    def forward(ctx, x, xp, fp):
        ctx.save_for_backward(x, xp, fp)
        k = torch.searchsorted(xp, x, right=True) - 1
        return fp[k.clamp(0)].clone()


interp = used(Previous)


# %% wrong: adds weights without the incoming gradient
# says: The gradient of fp ignores the incoming gradient: every weight is multiplied by the gradient of its result.
# says: The gradient of fp is wrong: the gradient of fp is off
# earns: 1 of 3
class Weights(Table):
    @classmethod
    def of_fp(cls, g, x, xp, fp):
        return Table.of_fp(torch.ones_like(g), x, xp, fp)


interp = used(Weights)


# %% wrong: the slope without the incoming gradient
# says: that is the slope alone
# says: The gradient of x is wrong
# earns: 1 of 3
class Slope(Table):
    @classmethod
    def of_x(cls, g, x, xp, fp):
        return Table.of_x(torch.ones_like(g), x, xp, fp)


interp = used(Slope)


# %% wrong: weights of the two entries exchanged
# says: The gradient of fp is wrong
# earns: 1 of 3
class Exchanged(Table):
    @classmethod
    def of_fp(cls, g, x, xp, fp):
        k, width, t = segments(x, xp)
        out = torch.zeros_like(fp).index_add_(0, k.flatten(), (g * t).flatten().to(fp.dtype))
        return out.index_add_(0, k.flatten() + 1, (g * (1 - t)).flatten().to(fp.dtype))


interp = used(Exchanged)


# %% wrong: what lies outside does not count for fp
# says: The gradient of fp is wrong
# earns: 1 of 3
class Inside(Table):
    @classmethod
    def of_fp(cls, g, x, xp, fp):
        return Table.of_fp(g * ((x >= xp[0]) & (x <= xp[-1])), x, xp, fp)


interp = used(Inside)


# %% wrong: accepts any table
# says: An xp that falls must raise ValueError
# earns: 2 of 3
# caught: hidden
def interp(x, xp, fp):
    class Owned(Table):
        @staticmethod
        def forward(ctx, x, xp, fp):
            ctx.owner = Table
            return Table.forward(ctx, x, xp, fp)

    return Owned.apply(x, xp, fp)


# %% wrong: accepts equal knots
# says: An xp with two equal knots must raise ValueError.
# earns: 2 of 3
# corner: equal values
# caught: hidden
right = used(Table)


def refuse(xp, fp):
    if len(xp) != len(fp) or len(xp) < 2 or (xp.diff() < 0).any():
        raise ValueError


interp = used(Table)


# %% wrong: accepts one point
# says: A table of one point must raise ValueError
# earns: 2 of 3
# caught: hidden
def refuse(xp, fp):
    if len(xp) != len(fp) or not (xp.diff() > 0).all():
        raise ValueError


interp = used(Table)


# %% wrong: leaves unequal lengths to NumPy or torch
# says: must raise ValueError
# earns: 2 of 3
# caught: hidden
def refuse(xp, fp):
    if len(xp) < 2 or not (xp.diff() > 0).all():
        raise ValueError
    if len(xp) != len(fp):
        raise RuntimeError("lengths")


interp = used(Table)


# %% wrong: compares the ends only
# says: must raise ValueError.
# earns: 2 of 3
# caught: hidden
def refuse(xp, fp):
    if len(xp) != len(fp) or len(xp) < 2 or xp[0] >= xp[-1]:
        raise ValueError


interp = used(Table)


# %% wrong: returns a flat tensor
# says: The result has the shape of x
# earns: 2 of 3
# caught: hidden
class Flat(Table):
    @staticmethod
    def forward(ctx, x, xp, fp):
        return Table.forward(ctx, x, xp, fp).flatten()

    @staticmethod
    def backward(ctx, g):
        return Table.backward(ctx, g.reshape(ctx.saved_tensors[0].shape))


interp = used(Flat)


# %% wrong: lets xp learn as well
# says: `xp` gets no gradient: the places are given.
# earns: 2 of 3
# caught: hidden
def interp(x, xp, fp):
    refuse(xp, fp)
    k, width, _ = segments(x.detach(), xp.detach())
    slope = (fp[k + 1] - fp[k]) / (xp[k + 1] - xp[k])
    inner = fp[k] + slope * (x - xp[k])
    return torch.where(x < xp[0], fp[0], torch.where(x >= xp[-1], fp[-1], inner)).to(x.dtype)


# %% wrong: clamps x in place
# says: Your code changed what the caller passed in
# earns: 1 of 3
class Clamps(Table):
    @staticmethod
    def forward(ctx, x, xp, fp):
        x.detach().clamp_(xp[0].item(), xp[-1].item())
        return Table.forward(ctx, x, xp, fp)


interp = used(Clamps)


# %% right: torch operations only, recorded by autograd
def interp(x, xp, fp):
    refuse(xp, fp)
    places, entries, wide = xp.detach().double(), fp.double(), x.double()
    k = (torch.bucketize(wide.detach().contiguous(), places, right=True) - 1).clamp(0, len(places) - 2)
    slope = (entries[k + 1] - entries[k]) / (places[k + 1] - places[k])
    inside = (wide >= places[0]) & (wide < places[-1])
    value = entries[k] + slope * torch.where(inside, wide - places[k], 0.0)
    return torch.where(wide >= places[-1], entries[-1], value).to(x.dtype)


# %% right: bincount adds the weights
class Counted(Table):
    @classmethod
    def of_fp(cls, g, x, xp, fp):
        k, width, t = segments(x.flatten(), xp)
        left, right = g.flatten() * (1 - t), g.flatten() * t
        return torch.bincount(k, left, len(xp)) + torch.bincount(k + 1, right, len(xp))


interp = used(Counted)


# %% wrong: sorts the table
# says: An xp that falls must raise ValueError.
# earns: 2 of 3
# caught: hidden
def interp(x, xp, fp):
    if len(xp) != len(fp) or len(xp) < 2 or len(set(xp.tolist())) < len(xp):
        raise ValueError("bad table")
    order = xp.argsort()
    return used(Table)(x, xp[order], fp[order])


# %% wrong: averages in place of adding
# says: The gradient of fp is wrong
# earns: 1 of 3
class Average(Table):
    @classmethod
    def of_fp(cls, g, x, xp, fp):
        return Table.of_fp(g, x, xp, fp) / max(x.numel(), 1)


interp = used(Average)


# %% wrong: float32 always
# says: The result must have the dtype of x: expected torch.float64, got torch.float32.
# earns: 2 of 3
class Single(Table):
    @staticmethod
    def forward(ctx, x, xp, fp):
        return Table.forward(ctx, x, xp, fp).float()


interp = used(Single)


# %% wrong: from_numpy, which wants an array
# says: np.interp of a 0-d x gives a NumPy number, not an array
# earns: 2 of 3
# corner: 0-d
# caught: hidden
class FromNumpy(Table):
    @staticmethod
    def forward(ctx, x, xp, fp):
        ctx.save_for_backward(x, xp, fp)
        return torch.from_numpy(np.interp(x.detach().numpy(), xp.detach().numpy(), fp.detach().numpy())).to(x.dtype)


interp = used(FromNumpy)
