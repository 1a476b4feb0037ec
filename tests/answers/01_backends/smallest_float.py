# corners: zeros, empty, nan

import math

import torch

FORMATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)


def checked(x):
    if not x.is_floating_point():
        raise TypeError(f"{x.dtype} is no real floating dtype")
    return x.detach()


def first(x, fits, among=FORMATS):
    x = checked(x)
    return next((dtype for dtype in among if fits(x, x.to(dtype).to(x.dtype), torch.finfo(dtype))), torch.float64)


# %% right: finiteness separately, the error on the finite elements
def smallest_float(x, rtol):
    x = checked(x).double()
    finite = x.isfinite()
    for dtype in FORMATS:
        back = x.to(dtype).double()
        if torch.equal(back.isfinite(), finite) and bool(
            ((back[finite] - x[finite]).abs() <= rtol * x[finite].abs()).all()
        ):
            return dtype


# %% right: loops over Python floats
def smallest_float(x, rtol):
    if x.dtype not in (torch.float16, torch.bfloat16, torch.float32, torch.float64):
        raise TypeError(x.dtype)
    for dtype in FORMATS:
        back = x.to(dtype).flatten().tolist()
        pairs = zip(back, x.flatten().tolist())
        if all(not math.isfinite(b) or abs(a - b) <= rtol * abs(b) for a, b in pairs):
            return dtype


# %% right: divides, and asks for `> rtol` instead of `<= rtol`
@torch.no_grad()
def smallest_float(x, rtol):
    if not torch.is_floating_point(x):
        raise TypeError("no floats")
    x = x.to(torch.float64)
    for dtype in FORMATS[:3]:
        error = (x.to(dtype) - x).abs() / x.abs()
        if not (error > rtol).any():
            return dtype
    return torch.float64


# %% right: allclose without an absolute tolerance
def smallest_float(x, rtol):
    x = checked(x).double()
    fits = (d for d in FORMATS if torch.allclose(x.to(d).double(), x, rtol=rtol, atol=0.0, equal_nan=True))
    return next(fits)


# %% wrong: compares the largest magnitude with finfo.max
# says: The range fits, but the precision does not
# says: This check builds on the first one
# earns: 0 of 2
# lesson
def smallest_float(x, rtol):
    return first(x, lambda x, back, info: x[x.isfinite()].abs().amax() <= info.max)


# %% wrong: checks overflow and underflow with finfo, never the precision
# says: The range fits, but the precision does not
# says: This check builds on the first one
# earns: 0 of 2
def smallest_float(x, rtol):
    def fits(x, back, info):
        sizes = x[x != 0].abs().tolist()
        return all(info.tiny <= s <= info.max for s in sizes)

    return first(x, fits)


# %% wrong: converts and looks for inf
# says: The range fits, but the precision does not
# says: This check builds on the first one
# earns: 0 of 2
def smallest_float(x, rtol):
    return first(x, lambda x, back, info: not (back.isinf() & x.isfinite()).any())


# %% wrong: compares finfo.eps with rtol without looking at x
# says: You decided by machine epsilon without looking at the numbers
# says: This check builds on the first one
# earns: 0 of 2
# lesson
def smallest_float(x, rtol):
    return first(x, lambda x, back, info: info.eps <= rtol)


# %% wrong: compares finfo.eps with rtol, and the range
# says: You decided by machine epsilon without looking at the numbers
# says: This check builds on the first one
# earns: 0 of 2
def smallest_float(x, rtol):
    return first(x, lambda x, back, info: info.eps <= rtol and x.abs().max() <= info.max)


# %% wrong: uses the absolute error
# says: The error must be relative to the element: 1e-3 is nothing for 1000 and everything for 0.001
# says: This check builds on the first one
# earns: 0 of 2
# lesson
def smallest_float(x, rtol):
    return first(x, lambda x, back, info: ((back - x).abs() <= rtol).all())


# %% wrong: torch.allclose with its default atol=1e-8
# says: An absolute tolerance (torch.allclose has one by default) hides it
# says: This check builds on the first one
# earns: 0 of 2
# lesson
def smallest_float(x, rtol):
    return first(x, lambda x, back, info: torch.allclose(back, x, rtol=rtol))


# %% wrong: torch.isclose with its default atol and equal_nan
# says: An absolute tolerance (torch.allclose has one by default) hides it
# says: This check builds on the first one
# earns: 0 of 2
def smallest_float(x, rtol):
    return first(x.double() if x.is_floating_point() else x, lambda x, b, i: b.isclose(x, rtol, equal_nan=True).all())


# %% wrong: an absolute tolerance for small numbers only
# says: An absolute tolerance (torch.allclose has one by default) hides it
# earns: 1 of 2
# caught: hidden
def smallest_float(x, rtol):
    def fits(x, back, info):
        tolerance = rtol * x.abs() + 4e-9 * ((x.abs() < 1e-8) & (x.abs() > 1e-20))
        return (((back - x).abs() <= tolerance) | ~x.isfinite()).all()

    return first(x, fits)


# %% wrong: divides by the element and asks for `<= rtol` (nan fails)
# says: Zeros are exact in every format: the relative error 0/0 must not count as an error
# says: This check builds on the first one
# earns: 0 of 2
# corner: zeros
def smallest_float(x, rtol):
    return first(x, lambda x, back, info: ((back - x).abs() / x.abs() <= rtol).all())


# %% wrong: nan of inf - inf counts as an error
# says: Infinity and nan are allowed in x and exist in every format; a finite number turning into inf is what counts
# earns: 1 of 2
# corner: nan
# caught: hidden
def smallest_float(x, rtol):
    return first(x, lambda x, back, info: ((back.double() - x.double()).abs() <= rtol * x.double().abs()).all())


# %% wrong: inf may stay, nan may not
# says: Infinity and nan are allowed in x
# earns: 1 of 2
# caught: hidden
def smallest_float(x, rtol):
    x = checked(x).double()
    return next((d for d in FORMATS if ((x.to(d) == x) | ((x.to(d) - x).abs() <= rtol * x.abs())).all()), torch.float64)


# %% wrong: skips the elements that became inf
# says: A finite number that turns into inf does not fit; you left it out of the comparison
# says: This check builds on the first one
# earns: 0 of 2
def smallest_float(x, rtol):
    def fits(x, back, info):
        stays = back.isfinite()
        return ((back[stays] - x[stays]).abs() <= rtol * x[stays].abs()).all()

    return first(x, fits)


# %% wrong: compares after casting both sides to float32
# says: You compared in too low a precision: the difference itself was rounded away
# earns: 1 of 2
# caught: hidden
def smallest_float(x, rtol):
    def fits(x, back, info):
        x, back = x.float(), back.float()
        return (((back - x).abs() <= rtol * x.abs()) | ~x.isfinite()).all()

    return first(x, fits)


# %% wrong: tries float16, then float32
# says: bfloat16 was skipped: the candidates are float16, bfloat16, float32, float64 in this order
# says: This check builds on the first one
# earns: 0 of 2
def smallest_float(x, rtol):
    def fits(x, back, info):
        return (((back - x).abs() <= rtol * x.abs()) | ~x.isfinite()).all()

    return first(x, fits, (torch.float16, torch.float32))


# %% wrong: tries bfloat16 first
# says: float16 comes before bfloat16
# says: This check builds on the first one
# earns: 0 of 2
def smallest_float(x, rtol):
    def fits(x, back, info):
        return (((back - x).abs() <= rtol * x.abs()) | ~x.isfinite()).all()

    return first(x, fits, (torch.bfloat16, torch.float16, torch.float32))


# %% wrong: does not try float64
# says: float64 is a candidate too
# earns: 1 of 2
# caught: hidden
def smallest_float(x, rtol):
    def fits(x, back, info):
        return (((back - x).abs() <= rtol * x.abs()) | ~x.isfinite()).all()

    found = first(x, fits, FORMATS[:3])
    return torch.float32 if found == torch.float64 else found


# %% wrong: compares the average error with the average magnitude
# says: Every element must fit; you looked at the average, or at the largest one
# says: This check builds on the first one
# earns: 0 of 2
def smallest_float(x, rtol):
    return first(x, lambda x, back, info: (back - x).abs().mean() <= rtol * x.abs().mean())


# %% wrong: the largest error against the largest element
# says: Every element must fit; you looked at the average, or at the largest one
# says: This check builds on the first one
# earns: 0 of 2
def smallest_float(x, rtol):
    return first(x, lambda x, back, info: (back - x).abs().max() <= rtol * x.abs().max())


# %% wrong: accepts integer tensors
# says: Only real floating tensors make sense here; torch.int64 must raise TypeError.
# earns: 1 of 2
# caught: hidden
def smallest_float(x, rtol):
    x = x.detach() if x.is_complex() else x.detach().double()
    for dtype in FORMATS:
        back = x.to(dtype).double()
        if (((back - x).abs() <= rtol * x.abs()) | ~x.isfinite()).all():
            return dtype


# %% wrong: raises ValueError
# says: Only real floating tensors make sense here
# earns: 1 of 2
# caught: hidden
def smallest_float(x, rtol):
    if not x.is_floating_point():
        raise ValueError(x.dtype)
    x = x.detach().double()
    return next(d for d in FORMATS if (((x.to(d) - x).abs() <= rtol * x.abs()) | ~x.isfinite()).all())


# %% wrong: strictly less than
# says: compare with <=, not with <
# says: This check builds on the first one
# earns: 0 of 2
def smallest_float(x, rtol):
    x = checked(x).double()
    return next((d for d in FORMATS if (((x.to(d) - x).abs() < rtol * x.abs()) | ~x.isfinite()).all()), torch.float64)


# %% wrong: returns names
# says: A torch.dtype is asked for, not its name.
# says: This check builds on the first one
# earns: 0 of 2
def smallest_float(x, rtol):
    x = checked(x).double()
    fits = (d for d in FORMATS if (((x.to(d) - x).abs() <= rtol * x.abs()) | ~x.isfinite()).all())
    return str(next(fits)).removeprefix("torch.")


# %% wrong: fails for empty tensors
# says: An empty tensor fits float16.
# earns: 1 of 2
# corner: empty
# caught: hidden
def smallest_float(x, rtol):
    x = checked(x).double()
    return next(
        d for d in FORMATS if ((x.to(d).double() - x).abs() - rtol * x.abs()).nan_to_num(0.0, math.inf).max() <= 0
    )


# %% wrong: clears nan in place
# says: The tensor belongs to the caller: it must stay as it is.
# earns: 1 of 2
# caught: hidden
def smallest_float(x, rtol):
    x = checked(x)
    x[~x.isfinite()] = 0.0
    x = x.double()
    return next(d for d in FORMATS if ((x.to(d) - x).abs() <= rtol * x.abs()).all())


# %% wrong: goes through numpy, which refuses tensors that require grad
# says: x may require grad, and here it does
# earns: 1 of 2
# caught: hidden
def smallest_float(x, rtol):
    if not x.is_floating_point():
        raise TypeError(x.dtype)
    x = torch.from_numpy(x.double().numpy())
    return next(d for d in FORMATS if (((x.to(d) - x).abs() <= rtol * x.abs()) | ~x.isfinite()).all())


# %% right: divides where there is something to divide by
def smallest_float(x, rtol):
    if not torch.is_floating_point(x):
        raise TypeError(f"no floating point numbers: {x.dtype}")
    wide = x.detach().double()[x.isfinite() & (x != 0)]
    for dtype in (torch.float16, torch.bfloat16, torch.float32):
        relative = (wide.to(dtype).double() - wide).abs() / wide.abs()
        if relative.numel() == 0 or relative.max() <= rtol:
            return dtype
    return torch.float64


# %% wrong: forgets that an error may be negative
# says: An error has no sign: a number that was rounded down is off as well
# says: This check builds on the first one
# earns: 0 of 2
def smallest_float(x, rtol):
    if not x.is_floating_point():
        raise TypeError(x.dtype)
    wide = x.detach().double()
    for dtype in (torch.float16, torch.bfloat16, torch.float32):
        if ((wide.to(dtype).double() - wide <= rtol * wide.abs()) | ~wide.isfinite()).all():
            return dtype
    return torch.float64


# %% wrong: forgets that an element may be negative
# says: The error is relative to the element's magnitude
# earns: 1 of 2
# caught: hidden
def smallest_float(x, rtol):
    if not x.is_floating_point():
        raise TypeError(x.dtype)
    wide = x.detach().double()
    for dtype in (torch.float16, torch.bfloat16, torch.float32):
        if (((wide.to(dtype).double() - wide).abs() <= rtol * wide) | ~wide.isfinite()).all():
            return dtype
    return torch.float64


# %% wrong: ends with float32
# says: float64 is a candidate too: float32 does not hold this tensor.
# earns: 1 of 2
# caught: hidden
def smallest_float(x, rtol):
    if not x.is_floating_point():
        raise TypeError(x.dtype)
    wide = x.detach().double()
    for dtype in (torch.float16, torch.bfloat16):
        if (((wide.to(dtype).double() - wide).abs() <= rtol * wide.abs()) | ~wide.isfinite()).all():
            return dtype
    return torch.float32


# %% wrong: an x in 16 bits stays as it is
# says: A tensor that is already bfloat16 may fit float16, which comes first.
# earns: 1 of 2
# caught: hidden
def smallest_float(x, rtol):
    if not x.is_floating_point():
        raise TypeError(x.dtype)
    if x.dtype in (torch.float16, torch.bfloat16):
        return x.dtype
    wide = x.detach().double()
    for dtype in (torch.float16, torch.bfloat16, torch.float32):
        if (((wide.to(dtype).double() - wide).abs() <= rtol * wide.abs()) | ~wide.isfinite()).all():
            return dtype
    return torch.float64


# %% wrong: inf in x is taken for an overflow
# says: Infinity and nan are allowed in x
# earns: 1 of 2
# caught: hidden
def smallest_float(x, rtol):
    if not x.is_floating_point():
        raise TypeError(x.dtype)
    wide = x.detach().double()
    for dtype in (torch.float16, torch.bfloat16, torch.float32):
        back = wide.to(dtype).double()
        if (((back - wide).abs() <= rtol * wide.abs()) | ~wide.isfinite()).all() and not back.isinf().any():
            return dtype
    return torch.float64


# %% wrong: subnormal numbers don't count
# says: float16 holds numbers far below
# earns: 1 of 2
# caught: hidden
def smallest_float(x, rtol):
    if not x.is_floating_point():
        raise TypeError(x.dtype)
    wide = x.detach().double()
    for dtype in (torch.float16, torch.bfloat16, torch.float32):
        held = (wide.to(dtype).double() - wide).abs() <= rtol * wide.abs()
        if (held & ((wide == 0) | (wide.abs() >= torch.finfo(dtype).tiny)) | ~wide.isfinite()).all():
            return dtype
    return torch.float64


# %% wrong: returns the converted tensor
# says: expected a dtype, got a tensor of shape (1,)
# says: This check builds on the first one
# earns: 0 of 2
def smallest_float(x, rtol):
    return x.half() if x.isfinite().all() else x


# %% wrong: compares in the dtype of x, where the tolerance is rounded
# says: You compared in too low a precision
# earns: 1 of 2
# caught: hidden
def smallest_float(x, rtol):
    return first(x, lambda x, back, info: ((back - x).abs() <= rtol * x.abs())[x.isfinite()].all())


# %% wrong: allclose with its arguments exchanged
# says: The error was taken relative to the converted number
# earns: 1 of 2
# caught: hidden
def smallest_float(x, rtol):
    if not x.is_floating_point():
        raise TypeError("only real floating tensors")
    wide = x.detach().double()
    for dtype in (torch.float16, torch.bfloat16, torch.float32):
        if torch.allclose(wide, wide.to(dtype).double(), rtol=rtol, atol=0, equal_nan=True):
            return dtype
    return torch.float64


# %% wrong: one format too wide
# says: Another format is the first that holds this:
# says: This check builds on the first one, which doesn't pass yet. Fix that f
# earns: 0 of 2
def smallest_float(x, rtol):
    found = FORMATS.index(first(x, lambda x, back, info: not bool(((back - x).abs() > rtol * x.abs()).any())))
    return FORMATS[min(found + 1, 3)]


# %% wrong: a scalar is a float32
# says: Another format is the first that holds this tensor.
# earns: 1 of 2
def smallest_float(x, rtol):
    def fits(x, back, info):
        error = (back.double() - x.double()).abs() > rtol * x.double().abs()
        return not bool((error & x.isfinite()).any() or (back.isfinite() != x.isfinite()).any())

    return torch.float32 if checked(x).ndim == 0 else first(x, fits)


# %% wrong: the divisor is at least the smallest normal number
# says: A small number that becomes 0 has lost everything (relative error 1).
# earns: 1 of 2
# caught: hidden
def smallest_float(x, rtol):
    finite = checked(x)[x.isfinite()]
    wide = finite.double()
    for dtype in (torch.float16, torch.bfloat16, torch.float32):
        back = finite.to(dtype).double()
        error = (back - wide).abs() / wide.abs().clamp_min(torch.finfo(torch.float32).tiny)
        if back.isfinite().all() and (error <= rtol).all():
            return dtype
    return torch.float64


# %% wrong: no tolerance lets a number become zero
# says: A number that becomes 0 has a relative error of 1, and a tolerance of 2
# earns: 1 of 2
# caught: hidden
def smallest_float(x, rtol):
    wide = checked(x).double()
    wide = wide[wide.isfinite()]
    for dtype in FORMATS:
        back = wide.to(dtype).double()
        lost = ~back.isfinite() | (back == 0) & (wide != 0)
        if not lost.any() and ((back - wide).abs() <= rtol * wide.abs()).all():
            return dtype
