# corners: empty

import torch


def split_heads(x, h):
    B, T, C = x.shape
    if C % h:
        raise ValueError(f"{C} channels, {h} heads")
    return x.view(B, T, h, C // h).permute(0, 2, 1, 3)


def merge_heads(y):
    B, h, T, D = y.shape
    return y.permute(0, 2, 1, 3).contiguous().view(B, T, h * D)


# %% right: view into (B, T, h, D) and permute; contiguous().view back


# %% right: as_strided with strides taken from x; concatenation of the heads
def split_heads(x, h):
    B, T, C = x.shape
    if C % h != 0:
        raise ValueError("no multiple")
    D = C // h
    b, t, c = x.stride()
    return x.as_strided((B, h, T, D), (b, D * c, t, c))


def merge_heads(y):
    return torch.cat([y[:, k] for k in range(y.shape[1])], dim=-1)


# %% right: unflatten and movedim; reshape back
def split_heads(x, h):
    C = x.size(-1)
    if C // h * h != C:
        raise ValueError("no multiple")
    return x.unflatten(-1, (h, C // h)).movedim(2, 1)


def merge_heads(y):
    B, h, T, D = y.size()
    return torch.reshape(y.movedim(1, 2), (B, T, D * h))


# %% right: reshape and swapaxes; flatten back
def split_heads(x, h):
    B, T, C = x.shape
    if C % h:
        raise ValueError("no multiple")
    return x.reshape(B, T, h, C // h).swapaxes(1, 2)


def merge_heads(y):
    return y.transpose(1, 2).flatten(2)


# %% right: fills an empty tensor when merging
def merge_heads(y):
    B, h, T, D = y.shape
    out = torch.empty(B, T, h * D, dtype=y.dtype)
    for k in range(h):
        out[:, :, k * D : (k + 1) * D] = y[:, k]
    return out


# %% right: other names of the parameters; unfold cuts the blocks; vmap merges
def split_heads(inputs, heads):
    width, rest = divmod(inputs.shape[2], heads)
    if rest:
        raise ValueError("width")
    return inputs.unfold(2, width, width).transpose(1, 2)


def merge_heads(outputs):
    B, h, T, D = outputs.shape
    return torch.vmap(lambda y: y.transpose(0, 1).flatten(1))(outputs) if B else outputs.new_empty(0, T, h * D)


# %% wrong: the code as given
# says: The shape is right, the content is scrambled
# says: View cannot express the merged dimensions
# says: One of the checks above is not passed yet
# earns: 0 of 3
# lesson
def split_heads(x, h):
    B, T, C = x.shape
    return x.view(B, h, T, C // h)


def merge_heads(y):
    B, h, T, D = y.shape
    return y.transpose(1, 2).view(B, T, h * D)


# %% wrong: split repaired, merge still uses view after the transpose
# says: View cannot express the merged dimensions: after the transpose, heads and channels of one position
# says: One of the checks above is not passed yet
# earns: 1 of 3
# lesson
def merge_heads(y):
    B, h, T, D = y.shape
    return y.transpose(1, 2).view(B, T, h * D)


# %% wrong: follows the error message everywhere, reshape instead of view
# says: The shape is right, the content is scrambled: viewing (B, T, C) directly as (B, h, T, D)
# says: One of the checks above is not passed yet
# earns: 1 of 3
# lesson
def split_heads(x, h):
    B, T, C = x.shape
    return x.reshape(B, h, T, C // h)


# %% wrong: splits into (D, h), so heads get every h-th channel (split and merge agree)
# says: Head k must be one block of D neighbouring channels; you gave it every h-th channel.
# says: One of the checks above is not passed yet
# earns: 0 of 3
def split_heads(x, h):
    B, T, C = x.shape
    if C % h:
        raise ValueError("no multiple")
    return x.view(B, T, C // h, h).permute(0, 3, 1, 2)


def merge_heads(y):
    B, h, T, D = y.shape
    return y.permute(0, 2, 3, 1).reshape(B, T, h * D)


# %% wrong: merges channel by channel
# says: Head k must be one block of D neighbouring channels; you gave it every h-th channel.
# says: One of the checks above is not passed yet
# earns: 1 of 3
def merge_heads(y):
    B, h, T, D = y.shape
    return y.permute(0, 2, 3, 1).reshape(B, T, h * D)


# %% wrong: returns (B, h, D, T)
# says: The last two dimensions are exchanged: asked for is (B, h, T, D).
# says: One of the checks above is not passed yet
# earns: 1 of 3
def split_heads(x, h):
    B, T, C = x.shape
    if C % h:
        raise ValueError("no multiple")
    return x.view(B, T, h, C // h).permute(0, 2, 3, 1)


# %% wrong: forgets to swap heads and positions
# says: Heads must come before positions
# says: One of the checks above is not passed yet
# earns: 1 of 3
def split_heads(x, h):
    B, T, C = x.shape
    if C % h:
        raise ValueError("no multiple")
    return x.view(B, T, h, C // h)


# %% wrong: adds contiguous() to the split
# says: split_heads copied the data.
# says: One of the checks above is not passed yet
# earns: 1 of 3
# lesson
def split_heads(x, h):
    B, T, C = x.shape
    if C % h:
        raise ValueError("no multiple")
    return x.view(B, T, h, C // h).transpose(1, 2).contiguous()


# %% wrong: stacks the chunks
# says: split_heads copied the data. Splitting one dimension and swapping two never needs a copy.
# says: One of the checks above is not passed yet
# earns: 1 of 3
def split_heads(x, h):
    if x.shape[-1] % h:
        raise ValueError("no multiple")
    return torch.stack(x.chunk(h, dim=-1), dim=1)


# %% wrong: contiguous() first, which does nothing for a fresh x
# says: split_heads copied the data.
# earns: 2 of 3
# caught: hidden
def split_heads(x, h):
    B, T, C = x.shape
    if C % h:
        raise ValueError("no multiple")
    return x.contiguous().view(B, T, h, C // h).transpose(1, 2)


# %% wrong: merges with reshape only
# says: merge_heads put the blocks back in the wrong order: exchange the dimensions before flattening.
# says: One of the checks above is not passed yet
# earns: 1 of 3
def merge_heads(y):
    B, h, T, D = y.shape
    return y.reshape(B, T, h * D)


# %% wrong: forgets to flatten
# says: One dimension too many
# says: One of the checks above is not passed yet
# earns: 1 of 3
def merge_heads(y):
    return y.transpose(1, 2)


# %% wrong: transposes in place
# says: Your code changed what the caller passed in: y.stride() was
# earns: 2 of 3
def merge_heads(y):
    B, h, T, D = y.shape
    return y.transpose_(1, 2).reshape(B, T, h * D)


# %% wrong: drops the remaining channels silently
# says: A width that is no multiple of h must raise ValueError; this must raise ValueError, but it returned
# earns: 2 of 3
def split_heads(x, h):
    D = x.shape[-1] // h
    return x[..., : h * D].unflatten(-1, (h, D)).transpose(1, 2)


# %% wrong: lets view complain about the width
# says: A width that is no multiple of h must raise ValueError; this must raise ValueError, but it raised RuntimeError
# earns: 2 of 3
def split_heads(x, h):
    B, T, C = x.shape
    return x.view(B, T, h, C // h).transpose(1, 2)


# %% wrong: asserts the width
# says: A width that is no multiple of h must raise ValueError;
# earns: 2 of 3
def split_heads(x, h):
    B, T, C = x.shape
    assert C % h == 0
    return x.view(B, T, h, C // h).transpose(1, 2)


# %% wrong: as_strided with strides computed from the shape
# says: It works for a fresh x only: a slice of a fused projection has other strides.
# earns: 2 of 3
# caught: hidden
def split_heads(x, h):
    B, T, C = x.shape
    if C % h:
        raise ValueError("no multiple")
    D = C // h
    return x.as_strided((B, h, T, D), (T * C, D, C, 1))


# %% wrong: as_strided that takes neighbouring channels to be neighbours in memory
# says: need not be neighbours in memory
# earns: 2 of 3
# caught: hidden
def split_heads(x, h):
    B, T, C = x.shape
    if C % h:
        raise ValueError("no multiple")
    D = C // h
    return x.as_strided((B, h, T, D), (x.stride(0), D, x.stride(1), 1))


# %% wrong: lets -1 infer the width, ambiguous for an empty sequence
# says: -1 cannot be inferred for an empty tensor: compute the sizes.
# earns: 2 of 3
# corner: empty
# caught: hidden
def split_heads(x, h):
    B, T, C = x.shape
    if C % h:
        raise ValueError("no multiple")
    return x.view(B, T, h, -1).transpose(1, 2)


# %% wrong: merge lets -1 infer the width
# says: -1 cannot be inferred for an empty tensor: compute the sizes.
# earns: 2 of 3
# corner: empty
# caught: hidden
def merge_heads(y):
    return y.transpose(1, 2).reshape(y.shape[0], y.shape[2], -1)


# %% wrong: splits x.detach()
# says: The gradient does not flow back correctly: no gradient reaches x
# earns: 2 of 3
# caught: hidden
def split_heads(x, h):
    B, T, C = x.shape
    if C % h:
        raise ValueError("no multiple")
    return x.detach().view(B, T, h, C // h).transpose(1, 2)


# %% wrong: merges into a tensor made from Python lists
# says: The gradient does not flow back correctly: no gradient reaches y
# earns: 2 of 3
# caught: hidden
def merge_heads(y):
    B, h, T, D = y.shape
    return torch.tensor(y.transpose(1, 2).tolist(), dtype=y.dtype).reshape(B, T, h * D)


# %% wrong: merges into a float buffer
# says: The merged tensor has the dtype of y
# earns: 2 of 3
# caught: hidden
def merge_heads(y):
    B, h, T, D = y.shape
    out = torch.empty(B, T, h * D)
    for k in range(h):
        out[:, :, k * D : (k + 1) * D] = y[:, k]
    return out


# %% wrong: works only for three heads
# says: There are two heads here
# says: One of the checks above is not passed yet
# earns: 1 of 3
def merge_heads(y):
    return torch.cat([y[:, 0], y[:, 1], y[:, 2 % y.shape[1]]], dim=-1)


# %% wrong: copies where there is one head only
# says: hidden test: split: one head
# says: split_heads copied the data
# earns: 2 of 3
# caught: hidden
def split_heads(x, h):
    if x.shape[-1] % h:
        raise ValueError("width")
    return x.clone().unsqueeze(1) if h == 1 else x.unflatten(-1, (h, x.shape[-1] // h)).transpose(1, 2)


def merge_heads(y):
    return y.transpose(1, 2).flatten(2)


# %% wrong: copies where gradients are wanted
# says: hidden test: split: gradients
# says: split_heads copied the data
# earns: 2 of 3
# caught: hidden
def split_heads(x, h):
    if x.shape[-1] % h:
        raise ValueError("width")
    x = x.clone() if x.requires_grad else x
    return x.unflatten(-1, (h, x.shape[-1] // h)).transpose(1, 2)


def merge_heads(y):
    return y.transpose(1, 2).flatten(2)


# %% wrong: merges into a buffer that it keeps for each shape
# says: The second call wrote into the result of the first.
# earns: 2 of 3
# caught: hidden
buffers = {}


def merge_heads(y):
    B, h, T, D = y.shape
    if y.requires_grad:
        return y.transpose(1, 2).flatten(2)
    buffer = buffers.setdefault((y.shape, y.dtype), y.new_empty(B, T, h * D))
    buffer.view(B, T, h, D).copy_(y.transpose(1, 2))
    return buffer.view(B, T, h * D)
