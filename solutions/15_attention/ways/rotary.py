# %% right: complex numbers
# A pair is one complex number, and turning it is one multiplication by a number of length 1. It makes two tensors as
# large as x in float32, where the author's products and sums are six of half that size. torch.compile warns that it
# generates no code for complex operations.
def rotate(x, positions, base=10000.0):
    """Queries or keys (B, H, T, D), multiplied by complex numbers of length 1."""
    D = x.shape[-1]
    frequencies = base ** (-torch.arange(0, D, 2, dtype=torch.float32) / D)
    angles = positions[..., None, :, None].float() * frequencies
    turned = torch.complex(*x.float().chunk(2, -1)) * torch.polar(torch.ones_like(angles), angles)
    return torch.cat([turned.real, turned.imag], -1).to(x.dtype)


def to_halves(weight, heads):
    """A projection or bias, with its rows picked by an index."""
    rows = torch.arange(len(weight)).view(heads, -1, 2)
    return weight[rows.mT.flatten()]


# %% right: x · cos + turned x · sin
# The two halves, one of them negated, change places, and then all D numbers are treated alike. cos and sin have D
# entries for each position, not D / 2, and every cos and every sin is computed twice.
def rotate(x, positions, base=10000.0):
    """Queries or keys (B, H, T, D), with the halves exchanged for the sines."""
    D = x.shape[-1]
    frequencies = base ** (-torch.arange(0, D, 2, dtype=torch.float32) / D)
    angles = positions[..., None, :, None].float() * torch.cat([frequencies, frequencies])
    a, b = x.float().chunk(2, -1)
    return (x.float() * angles.cos() + torch.cat([-b, a], -1) * angles.sin()).to(x.dtype)


def to_halves(weight, heads):
    """A projection or bias, head by head."""
    return torch.cat([torch.cat([head[0::2], head[1::2]]) for head in weight.chunk(heads)])


# %% wrong: pairs neighbours
# says: You paired the neighbours 2i and 2i + 1 of a head.
# Both pairings are in use, and each is right with weights that were trained with it. With the other weights nothing
# raises.
def rotate(x, positions, base=10000.0):
    """Queries or keys (B, H, T, D), with neighbours as pairs."""
    D = x.shape[-1]
    frequencies = base ** (-torch.arange(0, D, 2, dtype=torch.float32) / D)
    angles = positions[..., None, :, None].float() * frequencies
    cos, sin = angles.cos(), angles.sin()
    a, b = x.float()[..., 0::2], x.float()[..., 1::2]
    return torch.stack([a * cos - b * sin, a * sin + b * cos], -1).flatten(-2).to(x.dtype)


def to_halves(weight, heads):
    """A projection or bias, from neighbours to halves."""
    pairs = weight.unflatten(0, (heads, -1, 2))
    return pairs.transpose(1, 2).flatten(0, 2)
