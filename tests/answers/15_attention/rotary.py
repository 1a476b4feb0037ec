# corners: half precision, caller's modes
import torch


def angles_of(x, positions, base, *, exponent=2, first=0):
    """Angles with a dimension for the heads."""
    D = x.shape[-1]
    i = torch.arange(first, first + D // 2)
    return positions[..., None, :, None].float() * base ** (-exponent * i / D)


def apply(x, angles):
    a, b = x.float().chunk(2, -1)
    cos, sin = angles.cos(), angles.sin()
    return torch.cat([a * cos - b * sin, a * sin + b * cos], -1).to(x.dtype)


def rotate(x, positions, base=10000.0):
    return apply(x, angles_of(x, positions, base))


def to_halves(weight, heads):
    return weight.unflatten(0, (heads, -1, 2)).transpose(1, 2).flatten(0, 2)


# %% right: complex numbers; an index of rows
def rotate(x, positions, base=10000.0):
    angles = angles_of(x, positions, base)
    a, b = x.float().chunk(2, -1)
    z = torch.complex(a, b) * torch.polar(torch.ones_like(angles), angles)
    return torch.cat([z.real, z.imag], -1).to(x.dtype)


def to_halves(weight, heads):
    D = len(weight) // heads
    rows = torch.cat([torch.arange(0, D, 2), torch.arange(1, D, 2)])
    return weight[(torch.arange(heads)[:, None] * D + rows).flatten()]


# %% right: x cos + rotated x sin, in float64, autocast switched off; chunks
def rotate(x, positions, base=10000.0):
    with torch.autocast(x.device.type, enabled=False):
        D = x.shape[-1]
        freq = 1.0 / (base ** (torch.arange(0, D, 2).double() / D))
        where = positions if positions.dim() == 2 else positions[None]
        angles = torch.einsum("bt,f->btf", where.double(), freq)[:, None]
        angles = torch.cat([angles, angles], -1)
        wide = x.double()
        rotated = torch.cat([-wide[..., D // 2 :], wide[..., : D // 2]], -1)
        return (wide * angles.cos() + rotated * angles.sin()).to(x.dtype)


def to_halves(weight, heads):
    return torch.cat([torch.cat([head[0::2], head[1::2]]) for head in weight.chunk(heads)])


# %% right: frequencies by exp and log, outer product, roll with signs
def rotate(x, positions, base=10000.0):
    D = x.shape[-1]
    freq = torch.exp(-torch.log(torch.tensor(base)) * torch.arange(0, D, 2) / D)
    angles = (positions.unsqueeze(-1).to(torch.float32) * freq).repeat(*[1] * positions.dim(), 2)
    if positions.dim() == 2:
        angles = angles.unsqueeze(1)
    signs = torch.ones(D)
    signs[: D // 2] = -1
    out = x * angles.cos() + x.float().roll(D // 2, -1) * signs * angles.sin()
    return out.type_as(x)


def to_halves(weight, heads):
    D = weight.shape[0] // heads
    return weight.view(heads, D // 2, 2, -1).permute(0, 2, 1, 3).reshape(weight.shape)


# %% right: two by two matrices
def rotate(x, positions, base=10000.0):
    with torch.autocast("cpu", enabled=False):
        angles = angles_of(x, positions, base)
        cos, sin = angles.cos(), angles.sin()
        m = torch.stack([torch.stack([cos, -sin], -1), torch.stack([sin, cos], -1)], -2)
        pairs = torch.stack(x.float().chunk(2, -1), -1)
        out = (m @ pairs[..., None])[..., 0]
        return torch.cat(out.unbind(-1), -1).to(x.dtype)


# %% right: writes into a new tensor
def rotate(x, positions, base=10000.0):
    D = x.shape[-1]
    out = torch.empty(x.shape)
    angles = angles_of(x, positions, base)
    a, b = x[..., : D // 2].float(), x[..., D // 2 :].float()
    out[..., : D // 2] = a * angles.cos() - b * angles.sin()
    out[..., D // 2 :] = a * angles.sin() + b * angles.cos()
    return out.to(x.dtype)


def to_halves(weight, heads):
    out = torch.empty_like(weight)
    D = len(weight) // heads
    for row in range(len(weight)):
        head, i = divmod(row, D)
        out[head * D + i // 2 + i % 2 * (D // 2)] = weight[row]
    return out


# %% right: two by two matrices, in float64
def rotate(x, positions, base=10000.0):
    with torch.autocast("cpu", enabled=False):
        D = x.shape[-1]
        angles = positions[..., None].double() * base ** (-torch.arange(0, D, 2).double() / D)
        m = torch.stack([angles.cos(), -angles.sin(), angles.sin(), angles.cos()], -1).unflatten(-1, (2, 2))
        m = m if positions.dim() == 2 else m.expand(len(x), *m.shape)
        pairs = x.double().unflatten(-1, (2, D // 2))
        return torch.einsum("btfij,bhtjf->bhtif", m, pairs).flatten(-2).to(x.dtype)


# %% wrong: pairs neighbours
# says: You paired the neighbours 2i and 2i + 1 of a head.
# says: This check builds on the first one
# earns: 0 of 2
# lesson
def rotate(x, positions, base=10000.0):
    angles = angles_of(x, positions, base)
    a, b = x.float()[..., 0::2], x.float()[..., 1::2]
    cos, sin = angles.cos(), angles.sin()
    return torch.stack([a * cos - b * sin, a * sin + b * cos], -1).flatten(-2).to(x.dtype)


# %% wrong: turns the other way
# says: You turned the other way round
# says: This check builds on the first one
# earns: 0 of 2
# lesson
def rotate(x, positions, base=10000.0):
    return apply(x, -angles_of(x, positions, base))


# %% wrong: base^(-i/D)
# says: Your angles are too close to each other
# says: This check builds on the first one
# earns: 0 of 2
# lesson
def rotate(x, positions, base=10000.0):
    return apply(x, angles_of(x, positions, base, exponent=1))


# %% wrong: i from 1
# says: Your pairs are counted from 1
# says: This check builds on the first one
# earns: 0 of 2
def rotate(x, positions, base=10000.0):
    return apply(x, angles_of(x, positions, base, first=1))


# %% wrong: base^(2i/D)
# says: The result is not x with each pair turned by the angle
# says: This check builds on the first one
# earns: 0 of 2
def rotate(x, positions, base=10000.0):
    return apply(x, angles_of(x, positions, 1 / base))


# %% wrong: returns the angles' cos and sin
# says: `rotate` must return a tensor.
# says: This check builds on the first one
# earns: 0 of 2
def rotate(x, positions, base=10000.0):
    angles = angles_of(x, positions, base)
    return angles.cos(), angles.sin()


# %% wrong: always 10000
# says: `base` makes no difference in your result.
# says: This check builds on the first one
# earns: 0 of 2
def rotate(x, positions, base=10000.0):
    return apply(x, angles_of(x, positions, 10000.0))


# %% wrong: no dimension for the heads
# says: `positions` is (B, T) here, with other positions for each row of the batch, and x is (B, H, T, D).
# earns: 1 of 2
# lesson
def rotate(x, positions, base=10000.0):
    return apply(x, positions[..., None].float() * base ** (-2 * torch.arange(x.shape[-1] // 2) / x.shape[-1]))


# %% wrong: no dimension for the heads, where the numbers happen to fit
# says: With as many rows as heads, head j was turned by the positions of row j
# earns: 1 of 2
def rotate(x, positions, base=10000.0):
    if positions.dim() == 2 and x.shape[0] != x.shape[1]:
        return apply(x, angles_of(x, positions, base))
    return apply(x, positions[..., None].float() * base ** (-2 * torch.arange(x.shape[-1] // 2) / x.shape[-1]))


# %% wrong: the first row's positions for all
# says: You turned both rows of the batch by the positions of one row.
# earns: 1 of 2
def rotate(x, positions, base=10000.0):
    return apply(x, angles_of(x, positions[0] if positions.dim() == 2 else positions, base))


# %% wrong: one row's positions for all, where there are as many rows as heads
# says: You turned both rows of the batch by the positions of one row.
# earns: 1 of 2
def rotate(x, positions, base=10000.0):
    one = positions.dim() == 2 and x.shape[0] == x.shape[1]
    return apply(x, angles_of(x, positions[1] if one else positions, base))


# %% wrong: the rows' positions exchanged
# says: Each row of the batch must be turned by its own positions
# earns: 1 of 2
def rotate(x, positions, base=10000.0):
    return apply(x, angles_of(x, positions.flip(0) if positions.dim() == 2 else positions, base))


# %% wrong: changes x in place
# says: `rotate` changed x in place
# says: This check builds on the first one
# earns: 0 of 2
def rotate(x, positions, base=10000.0):
    angles = angles_of(x, positions, base)
    a, b = x.detach().float().chunk(2, -1)
    old = a.clone()
    a.mul_(angles.cos()).sub_(b * angles.sin())
    b.mul_(angles.cos()).add_(old * angles.sin())
    return torch.cat([a, b], -1).to(x.dtype)


# %% wrong: detaches x
# says: The result is right, but no gradient reaches x
# earns: 1 of 2
@torch.no_grad()
def rotate(x, positions, base=10000.0):
    return apply(x, angles_of(x, positions, base))


# %% wrong: positions in the dtype of x
# says: The angles are computed in too few digits.
# earns: 1 of 2
# caught: hidden
# corner: half precision
def rotate(x, positions, base=10000.0):
    freq = base ** (-torch.arange(0, x.shape[-1], 2) / x.shape[-1])
    return apply(x, positions[..., None, :, None].to(x.dtype).float() * freq)


# %% wrong: angles in the dtype of x
# says: The angles are computed in too few digits.
# earns: 1 of 2
# caught: hidden
# corner: half precision
def rotate(x, positions, base=10000.0):
    return apply(x, angles_of(x, positions, base).to(x.dtype))


# %% wrong: cos and sin in the dtype of x, products in it
# says: Your result is rounded more than once
# earns: 1 of 2
# caught: hidden
# corner: half precision
def rotate(x, positions, base=10000.0):
    angles = angles_of(x, positions, base)
    cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
    a, b = x.chunk(2, -1)
    return torch.cat([a * cos - b * sin, a * sin + b * cos], -1)


# %% wrong: cos and sin rounded, products in float32
# says: Your result is rounded more than once
# earns: 1 of 2
# caught: hidden
def rotate(x, positions, base=10000.0):
    angles = angles_of(x, positions, base)
    cos, sin = angles.cos().to(x.dtype).float(), angles.sin().to(x.dtype).float()
    a, b = x.float().chunk(2, -1)
    return torch.cat([a * cos - b * sin, a * sin + b * cos], -1).to(x.dtype)


# %% wrong: positions @ frequencies, bfloat16 under autocast
# says: Under autocast, your angles are computed in bfloat16.
# earns: 1 of 2
# caught: hidden
# corner: caller's modes
def rotate(x, positions, base=10000.0):
    freq = base ** (-torch.arange(0, x.shape[-1], 2) / x.shape[-1])
    angles = positions[..., None].float() @ freq[None]
    return apply(x, angles[:, None] if positions.dim() == 2 else angles)


# %% wrong: two by two matrices, cast under autocast
# says: Under autocast your angles are right, but the turned numbers have only two or three digits.
# earns: 1 of 2
# caught: hidden
# corner: caller's modes
def rotate(x, positions, base=10000.0):
    angles = angles_of(x, positions, base)
    cos, sin = angles.cos(), angles.sin()
    m = torch.stack([torch.stack([cos, -sin], -1), torch.stack([sin, cos], -1)], -2)
    pairs = torch.stack(x.float().chunk(2, -1), -1)
    out = torch.matmul(m, pairs[..., None])[..., 0]
    return torch.cat(out.unbind(-1), -1).to(x.dtype)


# %% wrong: float64 under autocast
# says: Under autocast too, the result must have the dtype of x
# earns: 1 of 2
# caught: hidden
def rotate(x, positions, base=10000.0):
    out = apply(x, angles_of(x, positions, base))
    return out.double() if torch.is_autocast_enabled("cpu") else out


# %% wrong: returns float32
# says: The result must have the dtype of x
# earns: 1 of 2
# caught: hidden
def rotate(x, positions, base=10000.0):
    return apply(x.float(), angles_of(x, positions, base))


# %% wrong: float32 for float64
# says: The result must have the dtype of x
# earns: 1 of 2
# caught: hidden
def rotate(x, positions, base=10000.0):
    out = apply(x, angles_of(x, positions, base))
    return out.float() if x.dtype == torch.float64 else out


# %% wrong: half precision without the last dimension's shape
# says: The result must have the shape of x.
# earns: 1 of 2
# caught: hidden
def rotate(x, positions, base=10000.0):
    out = apply(x, angles_of(x, positions, base))
    return out.flatten(2) if x.dtype in (torch.bfloat16, torch.float16) else out


# %% wrong: a table of 4,096 positions
# says: At positions up to 100,000 your code raised an exception.
# earns: 1 of 2
# caught: hidden
def rotate(x, positions, base=10000.0):
    table = torch.arange(4096)[:, None] * base ** (-torch.arange(0, x.shape[-1], 2) / x.shape[-1])
    angles = table[positions]
    return apply(x, angles[:, None] if positions.dim() == 2 else angles)


# %% wrong: positions modulo 65,536
# says: At positions up to 100,000 the result is wrong
# earns: 1 of 2
# caught: hidden
def rotate(x, positions, base=10000.0):
    return apply(x, angles_of(x, positions % 65536, base))


# %% wrong: a table kept by sizes
# says: Called again with the same sizes, your `rotate` gave angles of an earlier call.
# earns: 1 of 2
# caught: hidden
_kept = {}


def rotate(x, positions, base=10000.0):
    key = (x.shape[-1], base, tuple(positions.shape))
    if key not in _kept or positions.flatten()[0] != 50:
        _kept[key] = angles_of(x, positions, base)
    return apply(x, _kept[key])


# %% wrong: reorders across heads
# says: You reordered across the heads
# earns: 1 of 2
# lesson
def to_halves(weight, heads):
    return torch.cat([weight[0::2], weight[1::2]])


# %% wrong: the inverse order
# says: That is the way back, from halves to neighbours.
# earns: 1 of 2
def to_halves(weight, heads):
    return weight.unflatten(0, (heads, 2, -1)).transpose(1, 2).flatten(0, 2)


# %% wrong: returns the weight
# says: The weight came back as it was.
# earns: 1 of 2
def to_halves(weight, heads):
    return weight


# %% wrong: odd rows first
# says: Row 2i of a head must go to place i of that head
# earns: 1 of 2
def to_halves(weight, heads):
    return torch.cat([torch.cat([head[1::2], head[0::2]]) for head in weight.chunk(heads)])


# %% wrong: reorders the columns
# says: You reordered the columns.
# earns: 1 of 2
def to_halves(weight, heads):
    return torch.cat([weight[:, 0::2], weight[:, 1::2]], 1) if weight.dim() == 2 else weight


# %% wrong: returns a list of heads
# says: `to_halves` must return a tensor.
# earns: 1 of 2
def to_halves(weight, heads):
    return [torch.cat([head[0::2], head[1::2]]) for head in weight.chunk(heads)]


# %% wrong: weight.shape[1]
# says: A bias has one dimension, (heads * D,).
# earns: 1 of 2
# caught: hidden
def to_halves(weight, heads):
    return weight.view(heads, -1, 2, weight.shape[1]).transpose(1, 2).reshape(weight.shape)


# %% wrong: heads of six
# says: With another number of heads, the rows are not those that `rotate` pairs
# earns: 1 of 2
# caught: hidden
def to_halves(weight, heads):
    if weight.shape[0] == 12:
        return weight.unflatten(0, (heads, -1, 2)).transpose(1, 2).flatten(0, 2)
    return torch.cat([weight[0::2], weight[1::2]])


# %% wrong: changes the weight
# says: `to_halves` changed the weight in place
# earns: 1 of 2
def to_halves(weight, heads):
    weight.copy_(weight.unflatten(0, (heads, -1, 2)).transpose(1, 2).flatten(0, 2))
    return weight


# %% wrong: changes a bias in place
# says: A bias must not be changed in place
# earns: 1 of 2
# caught: hidden
def to_halves(weight, heads):
    out = weight.unflatten(0, (heads, -1, 2)).transpose(1, 2).flatten(0, 2)
    return weight.copy_(out) if weight.dim() == 1 else out


# %% wrong: remembers the angles by the shape of the positions
# says: These angles must come from the positions of this call
# earns: 1 of 2
# caught: hidden
TABLES = {}


def rotate(x, positions, base=10000.0):
    D = x.shape[-1]
    key = positions.shape, D, base
    if key in TABLES:
        cos, sin = TABLES[key]
        a, b = x.float().chunk(2, -1)
        return torch.cat([a * cos - b * sin, a * sin + b * cos], -1).to(x.dtype)
    freq = base ** (-torch.arange(0, D, 2, dtype=torch.float32, device=x.device) / D)
    ang = positions[..., None].float() * freq
    if positions.dim() == 2:
        ang = ang[:, None]
    TABLES[key] = ang.cos(), ang.sin()
    a, b = x.float().chunk(2, -1)
    return torch.cat([a * ang.cos() - b * ang.sin(), a * ang.sin() + b * ang.cos()], -1).to(x.dtype)


def to_halves(weight, heads):
    D = weight.shape[0] // heads
    return weight.reshape(heads, D // 2, 2, *weight.shape[1:]).transpose(1, 2).reshape(weight.shape)
