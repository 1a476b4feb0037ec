# corners: zeros, 0-d, maximum

# %% right: scatter_ with a scalar value, masked_fill for ignored rows
def soft_targets(labels, num_classes, smooth=0.0, ignore_index=None, dtype=torch.float32):
    index = labels[..., None]
    out = torch.zeros(*labels.shape, num_classes, dtype=dtype, device=labels.device)
    if ignore_index is None:
        return out.scatter_(-1, index, 1.0 - smooth).add_(smooth / num_classes)
    ignored = index == ignore_index
    out.scatter_(-1, index.masked_fill(ignored, 0), 1.0 - smooth).add_(smooth / num_classes)
    return out.masked_fill_(ignored, 0.0)


# %% right: out-of-place scatter with the keep mask as src, then a linear combination
def soft_targets(labels, num_classes, smooth=0.0, ignore_index=None, dtype=torch.float32):
    keep = torch.ones_like(labels, dtype=torch.bool) if ignore_index is None else labels != ignore_index
    weight = keep.to(dtype)[..., None]
    zeros = torch.zeros(labels.shape + (num_classes,), dtype=dtype, device=labels.device)
    hot = zeros.scatter(-1, torch.where(keep, labels, 0)[..., None], weight)
    return (1 - smooth) * hot + smooth / num_classes * weight


# %% right: scatters ignored labels into an additional column that is cut off
def soft_targets(labels, num_classes, smooth=0.0, ignore_index=None, dtype=torch.float32):
    index = labels
    if ignore_index is not None:
        if ((labels < 0) | (labels >= num_classes)).logical_and(labels != ignore_index).any():
            raise ValueError("label out of range")
        index = torch.where(labels == ignore_index, num_classes, labels)
    elif (labels >= num_classes).any():
        raise ValueError("label out of range")
    out = labels.new_zeros(*labels.shape, num_classes + 1, dtype=dtype)
    out.scatter_(-1, index.unsqueeze(-1), 1)
    hot = out[..., :num_classes]
    return (hot * (1 - smooth) + smooth / num_classes) * hot.sum(-1, keepdim=True)


# %% right: flattens first
def soft_targets(labels, num_classes, smooth=0.0, ignore_index=None, dtype=torch.float32):
    flat = labels.reshape(-1).clone()
    ignored = torch.full_like(flat, False, dtype=torch.bool) if ignore_index is None else flat == ignore_index
    flat[ignored] = 0
    out = torch.full((flat.numel(), num_classes), smooth / num_classes, dtype=dtype, device=labels.device)
    out = out.scatter(1, flat[:, None], smooth / num_classes + (1 - smooth))
    out = torch.where(ignored[:, None], torch.zeros_like(out), out)
    return out.view(*labels.shape, num_classes)


# %% right: the adding scalar form of scatter_
def soft_targets(labels, num_classes, smooth=0.0, ignore_index=None, dtype=torch.float32):
    ignored = (labels == ignore_index) if ignore_index is not None else torch.zeros_like(labels).bool()
    out = torch.full((*labels.shape, num_classes), smooth / num_classes, dtype=dtype, device=labels.device)
    out.scatter_(-1, labels.masked_fill(ignored, 0).unsqueeze(-1), 1 - smooth, reduce="add")
    out[ignored] = 0
    return out


# %% wrong: uses labels as index without a new dimension
# says: labels needs one more (of size 1)
# says: This check builds on the first one
# earns: 0 of 2
# lesson
def soft_targets(labels, num_classes, smooth=0.0, ignore_index=None, dtype=torch.float32):
    return torch.zeros(*labels.shape, num_classes).scatter_(-1, labels, 1.0)


# %% wrong: scatters along dim 0
# says: You scattered along dim 0
# says: This check builds on the first one
# earns: 0 of 2
# lesson
def soft_targets(labels, num_classes, smooth=0.0, ignore_index=None, dtype=torch.float32):
    return torch.zeros(*labels.shape, num_classes).scatter_(0, labels.unsqueeze(-1), 1.0)


# %% wrong: scatters a row along dim 0
# says: You scattered along dim 0
# says: This check builds on the first one
# earns: 0 of 2
def soft_targets(labels, num_classes, smooth=0.0, ignore_index=None, dtype=torch.float32):
    return torch.zeros(*labels.shape, num_classes).scatter_(0, labels.unsqueeze(0), 1.0)


# %% wrong: classes in front
# says: Classes are the last dimension of the result
# says: This check builds on the first one
# earns: 0 of 2
def soft_targets(labels, num_classes, smooth=0.0, ignore_index=None, dtype=torch.float32):
    return torch.zeros(num_classes, *labels.shape).scatter_(0, labels.unsqueeze(0), 1.0)


# %% wrong: gives ignored rows the index 0 and leaves the mark
# says: The ignored rows carry a 1
# earns: 1 of 2
# lesson
def soft_targets(labels, num_classes, smooth=0.0, ignore_index=None, dtype=torch.float32):
    index = labels if ignore_index is None else labels.masked_fill(labels == ignore_index, 0)
    out = torch.full((*labels.shape, num_classes), smooth / num_classes, dtype=dtype, device=labels.device)
    return out.scatter_(-1, index.unsqueeze(-1), 1 - smooth + smooth / num_classes)


# %% wrong: gives ignored rows the index 0 and blanks column 0
# says: a label of 0 is an ordinary class
# earns: 1 of 2
def soft_targets(labels, num_classes, smooth=0.0, ignore_index=None, dtype=torch.float32):
    index = labels if ignore_index is None else labels.masked_fill(labels == ignore_index, 0)
    out = torch.full((*labels.shape, num_classes), smooth / num_classes, dtype=dtype, device=labels.device)
    out.scatter_(-1, index.unsqueeze(-1), 1 - smooth + smooth / num_classes)
    return out.masked_fill(index.unsqueeze(-1) == 0, 0) if ignore_index is not None else out


# %% wrong: takes back the label's mark but leaves smooth/C in ignored rows
# says: Ignored rows must be zero everywhere, smoothing included.
# earns: 1 of 2
def soft_targets(labels, num_classes, smooth=0.0, ignore_index=None, dtype=torch.float32):
    keep = torch.ones_like(labels) if ignore_index is None else (labels != ignore_index).long()
    out = torch.zeros((*labels.shape, num_classes), dtype=dtype, device=labels.device)
    out.scatter_(-1, (labels * keep).unsqueeze(-1), keep.unsqueeze(-1).to(dtype) * (1 - smooth))
    return out + smooth / num_classes


# %% wrong: scatters first and blanks later (index out of bounds)
# says: The ignore_index may be outside 0..C-1, so scatter must never see it.
# earns: 1 of 2
# lesson
def soft_targets(labels, num_classes, smooth=0.0, ignore_index=None, dtype=torch.float32):
    out = torch.full((*labels.shape, num_classes), smooth / num_classes, dtype=dtype, device=labels.device)
    out.scatter_(-1, labels.unsqueeze(-1), 1 - smooth + smooth / num_classes)
    if ignore_index is not None:
        out[labels == ignore_index] = 0
    return out


# %% wrong: takes 0 for no ignore_index
# says: The rows of ignore_index must also be zero if it is a legal class.
# earns: 1 of 2
# corner: zeros
def soft_targets(labels, num_classes, smooth=0.0, ignore_index=None, dtype=torch.float32):
    ignored = labels == ignore_index if ignore_index else torch.zeros_like(labels).bool()
    out = torch.full((*labels.shape, num_classes), smooth / num_classes, dtype=dtype, device=labels.device)
    out.scatter_(-1, labels.masked_fill(ignored, 0).unsqueeze(-1), 1 - smooth + smooth / num_classes)
    return out.masked_fill(ignored.unsqueeze(-1), 0)


# %% wrong: spreads over the other C-1 classes
# says: You spread the smoothing over the C-1 other classes, but here it goes over all C, so the label also
# says: This check builds on the first one
# earns: 0 of 2
def soft_targets(labels, num_classes, smooth=0.0, ignore_index=None, dtype=torch.float32):
    ignored = torch.zeros_like(labels).bool() if ignore_index is None else labels == ignore_index
    out = torch.full((*labels.shape, num_classes), smooth / max(1, num_classes - 1), dtype=dtype, device=labels.device)
    out.scatter_(-1, labels.masked_fill(ignored, 0).unsqueeze(-1), 1 - smooth)
    return out.masked_fill(ignored.unsqueeze(-1), 0)


# %% wrong: writes 1 - smooth at the label (row sum below 1)
# says: The rows must sum to 1
# says: This check builds on the first one
# earns: 0 of 2
def soft_targets(labels, num_classes, smooth=0.0, ignore_index=None, dtype=torch.float32):
    ignored = torch.zeros_like(labels).bool() if ignore_index is None else labels == ignore_index
    out = torch.full((*labels.shape, num_classes), smooth / num_classes, dtype=dtype, device=labels.device)
    out.scatter_(-1, labels.masked_fill(ignored, 0).unsqueeze(-1), 1 - smooth)
    return out.masked_fill(ignored.unsqueeze(-1), 0)


# %% wrong: ignores smooth
# says: `smooth` was not used, but every class should get smooth / C.
# says: This check builds on the first one
# earns: 0 of 2
def soft_targets(labels, num_classes, smooth=0.0, ignore_index=None, dtype=torch.float32):
    ignored = torch.zeros_like(labels).bool() if ignore_index is None else labels == ignore_index
    out = torch.zeros((*labels.shape, num_classes), dtype=dtype, device=labels.device)
    out.scatter_(-1, labels.masked_fill(ignored, 0).unsqueeze(-1), 1)
    return out.masked_fill(ignored.unsqueeze(-1), 0)


# %% wrong: ignores dtype
# says: The result must have the requested dtype
# earns: 1 of 2
# caught: hidden
def soft_targets(labels, num_classes, smooth=0.0, ignore_index=None, dtype=torch.float32):
    ignored = torch.zeros_like(labels).bool() if ignore_index is None else labels == ignore_index
    out = torch.full((*labels.shape, num_classes), smooth / num_classes, device=labels.device)
    out.scatter_(-1, labels.masked_fill(ignored, 0).unsqueeze(-1), 1 - smooth + smooth / num_classes)
    return out.masked_fill(ignored.unsqueeze(-1), 0)


# %% wrong: a src of another dtype than the target
# says: The result must have the requested dtype
# earns: 1 of 2
# caught: hidden
def soft_targets(labels, num_classes, smooth=0.0, ignore_index=None, dtype=torch.float32):
    keep = torch.ones_like(labels).bool() if ignore_index is None else labels != ignore_index
    out = torch.zeros((*labels.shape, num_classes), dtype=dtype, device=labels.device)
    out.scatter_(-1, (labels * keep).unsqueeze(-1), torch.full((*labels.shape, 1), 1 - smooth, device=labels.device))
    return (out + smooth / num_classes) * keep.unsqueeze(-1)


# %% wrong: computes in float32 and converts
# says: This is float32 precision in a float64 tensor
# earns: 1 of 2
# caught: hidden
def soft_targets(labels, num_classes, smooth=0.0, ignore_index=None, dtype=torch.float32):
    ignored = torch.zeros_like(labels).bool() if ignore_index is None else labels == ignore_index
    out = torch.full((*labels.shape, num_classes), smooth / num_classes, device=labels.device)
    out.scatter_(-1, labels.masked_fill(ignored, 0).unsqueeze(-1), 1 - smooth + smooth / num_classes)
    return out.masked_fill(ignored.unsqueeze(-1), 0).to(dtype)


# %% wrong: overwrites ignored labels in place
# says: the ignored labels were overwritten in place
# earns: 1 of 2
def soft_targets(labels, num_classes, smooth=0.0, ignore_index=None, dtype=torch.float32):
    ignored = torch.zeros_like(labels).bool() if ignore_index is None else labels == ignore_index
    labels[ignored] = 0
    out = torch.full((*labels.shape, num_classes), smooth / num_classes, dtype=dtype, device=labels.device)
    out.scatter_(-1, labels.unsqueeze(-1), 1 - smooth + smooth / num_classes)
    out[ignored] = 0
    return out


# %% wrong: clamps all labels into the legal range
# says: Label -1 was accepted
# earns: 1 of 2
# caught: hidden
def soft_targets(labels, num_classes, smooth=0.0, ignore_index=None, dtype=torch.float32):
    ignored = torch.zeros_like(labels).bool() if ignore_index is None else labels == ignore_index
    out = torch.full((*labels.shape, num_classes), smooth / num_classes, dtype=dtype, device=labels.device)
    out.scatter_(-1, labels.clamp(0, num_classes - 1).unsqueeze(-1), 1 - smooth + smooth / num_classes)
    return out.masked_fill(ignored.unsqueeze(-1), 0)


# %% wrong: takes every negative label for ignored
# says: Label -2 was accepted
# earns: 1 of 2
# caught: hidden
def soft_targets(labels, num_classes, smooth=0.0, ignore_index=None, dtype=torch.float32):
    ignored = (
        torch.zeros_like(labels).bool()
        if ignore_index is None
        else (labels == ignore_index) | (labels < 0) & (ignore_index < 0)
    )
    out = torch.full((*labels.shape, num_classes), smooth / num_classes, dtype=dtype, device=labels.device)
    out.scatter_(-1, labels.masked_fill(ignored, 0).unsqueeze(-1), 1 - smooth + smooth / num_classes)
    return out.masked_fill(ignored.unsqueeze(-1), 0)


# %% wrong: an additional column that label C reaches, too
# says: Label 3 was accepted
# earns: 1 of 2
# corner: maximum
# caught: hidden
def soft_targets(labels, num_classes, smooth=0.0, ignore_index=None, dtype=torch.float32):
    index = labels if ignore_index is None else torch.where(labels == ignore_index, num_classes, labels)
    out = torch.zeros(*labels.shape, num_classes + 1, dtype=dtype, device=labels.device)
    hot = out.scatter_(-1, index.unsqueeze(-1), 1)[..., :num_classes]
    return (hot * (1 - smooth) + smooth / num_classes) * hot.sum(-1, keepdim=True)


# %% wrong: uses F.one_hot
# says: without one_hot and eye: used one_hot
# says: This check builds on the first one
# earns: 0 of 2
def soft_targets(labels, num_classes, smooth=0.0, ignore_index=None, dtype=torch.float32):
    ignored = torch.zeros_like(labels).bool() if ignore_index is None else labels == ignore_index
    hot = F.one_hot(labels.masked_fill(ignored, 0), num_classes).to(dtype)
    return (hot * (1 - smooth) + smooth / num_classes).masked_fill(ignored.unsqueeze(-1), 0)


# %% wrong: uses torch.eye
# says: without one_hot and eye: used eye
# says: This check builds on the first one
# earns: 0 of 2
def soft_targets(labels, num_classes, smooth=0.0, ignore_index=None, dtype=torch.float32):
    ignored = torch.zeros_like(labels).bool() if ignore_index is None else labels == ignore_index
    hot = torch.eye(num_classes, dtype=dtype)[labels.masked_fill(ignored, 0)]
    return (hot * (1 - smooth) + smooth / num_classes).masked_fill(ignored.unsqueeze(-1), 0)


# %% wrong: compares labels with arange(C)
# says: The result must be built with scatter
# says: This check builds on the first one
# earns: 0 of 2
def soft_targets(labels, num_classes, smooth=0.0, ignore_index=None, dtype=torch.float32):
    ignored = torch.zeros_like(labels).bool() if ignore_index is None else labels == ignore_index
    hot = (labels.unsqueeze(-1) == torch.arange(num_classes)).to(dtype)
    return (hot * (1 - smooth) + smooth / num_classes).masked_fill(ignored.unsqueeze(-1), 0)


# %% wrong: forgets the device
# says: The result must be on the device of labels
# earns: 1 of 2
# caught: hidden
def soft_targets(labels, num_classes, smooth=0.0, ignore_index=None, dtype=torch.float32):
    ignored = torch.zeros_like(labels).bool() if ignore_index is None else labels == ignore_index
    out = torch.full((*labels.shape, num_classes), smooth / num_classes, dtype=dtype)
    out.scatter_(-1, labels.masked_fill(ignored, 0).unsqueeze(-1), 1 - smooth + smooth / num_classes)
    return out.masked_fill(ignored.unsqueeze(-1), 0)


# %% wrong: names the CPU as the device
# says: The result must be on the device of labels
# earns: 1 of 2
# caught: hidden
def soft_targets(labels, num_classes, smooth=0.0, ignore_index=None, dtype=torch.float32):
    ignored = torch.zeros_like(labels).bool() if ignore_index is None else labels == ignore_index
    out = torch.full((*labels.shape, num_classes), smooth / num_classes, dtype=dtype, device="cpu")
    out.scatter_(-1, labels.masked_fill(ignored, 0).unsqueeze(-1), 1 - smooth + smooth / num_classes)
    return out.masked_fill(ignored.unsqueeze(-1), 0)


# %% wrong: one dimension of labels only
# says: labels needs one more
# earns: 1 of 2
# corner: 0-d
# caught: hidden
def soft_targets(labels, num_classes, smooth=0.0, ignore_index=None, dtype=torch.float32):
    ignored = torch.zeros_like(labels).bool() if ignore_index is None else labels == ignore_index
    out = torch.full((len(labels), num_classes), smooth / num_classes, dtype=dtype, device=labels.device)
    out.scatter_(1, labels.masked_fill(ignored, 0).unsqueeze(1), 1 - smooth + smooth / num_classes)
    return out.masked_fill(ignored.unsqueeze(-1), 0)


# %% right: flat positions, range checked
def soft_targets(labels, num_classes, smooth=0.0, ignore_index=None, dtype=torch.float32):
    flat = labels.reshape(-1)
    ok = (flat >= 0) & (flat < num_classes)
    drop = flat == ignore_index if ignore_index is not None else torch.zeros_like(ok)
    if not (ok | drop).all():
        raise ValueError("label")
    out = torch.full((flat.numel() * num_classes,), smooth / num_classes, dtype=dtype, device=labels.device)
    pos = torch.arange(flat.numel(), device=labels.device) * num_classes + flat
    out.scatter_(0, pos[~drop], 1 - smooth + smooth / num_classes)
    out = out.view(-1, num_classes)
    out[drop] = 0
    return out.view(*labels.shape, num_classes)


# %% right: along dim 0 of a table with the classes in front
def soft_targets(labels, num_classes, smooth=0.0, ignore_index=None, dtype=torch.float32):
    flat = labels.flatten()
    live = flat != ignore_index if ignore_index is not None else flat == flat
    t = torch.zeros(num_classes, flat.numel(), dtype=dtype, device=labels.device)
    t += smooth / num_classes
    t.scatter_(0, flat.where(live, 0)[None], 1 - smooth + smooth / num_classes)
    t.masked_fill_(~live, 0)
    return t.T.reshape(*labels.shape, num_classes)


# %% wrong: flat positions, range not checked
# says: Label -1 was accepted
# earns: 1 of 2
# caught: hidden
def soft_targets(labels, num_classes, smooth=0.0, ignore_index=None, dtype=torch.float32):
    flat = labels.reshape(-1)
    drop = flat == ignore_index if ignore_index is not None else torch.zeros_like(flat, dtype=torch.bool)
    out = torch.full((flat.numel() * num_classes,), smooth / num_classes, dtype=dtype, device=labels.device)
    pos = torch.arange(flat.numel(), device=labels.device) * num_classes + flat
    out.scatter_(0, pos[~drop], 1 - smooth + smooth / num_classes)
    out = out.view(-1, num_classes)
    out[drop] = 0
    return out.view(*labels.shape, num_classes)


# %% wrong: -100 is always ignored
# says: Label -100 was accepted
# earns: 1 of 2
# caught: hidden
def soft_targets(labels, num_classes, smooth=0.0, ignore_index=None, dtype=torch.float32):
    live = labels != (-100 if ignore_index is None else ignore_index)
    t = torch.full((*labels.shape, num_classes), smooth / num_classes, dtype=dtype, device=labels.device)
    t.scatter_(-1, (labels * live)[..., None], 1 - smooth + smooth / num_classes)
    return t * live[..., None]


# %% wrong: -100 is ignored beside ignore_index
# says: Label -100 was accepted
# earns: 1 of 2
# caught: hidden
def soft_targets(labels, num_classes, smooth=0.0, ignore_index=None, dtype=torch.float32):
    live = labels != -100
    if ignore_index is not None:
        live &= labels != ignore_index
    elif (labels == -100).any():
        raise ValueError
    t = torch.full((*labels.shape, num_classes), smooth / num_classes, dtype=dtype, device=labels.device)
    t.scatter_(-1, (labels * live)[..., None], 1 - smooth + smooth / num_classes)
    return t * live[..., None]


# %% wrong: no mark where scatter raises
# says: Label -1 was accepted
# earns: 1 of 2
# caught: hidden
def soft_targets(labels, num_classes, smooth=0.0, ignore_index=None, dtype=torch.float32):
    live = labels != ignore_index if ignore_index is not None else labels == labels
    t = torch.full((*labels.shape, num_classes), smooth / num_classes, dtype=dtype, device=labels.device)
    try:
        t.scatter_(-1, (labels * live)[..., None], 1 - smooth + smooth / num_classes)
    except RuntimeError:
        pass
    return t * live[..., None]


# %% wrong: refuses labels by assert
# says: raised another kind of exception
# earns: 1 of 2
# caught: hidden
def soft_targets(labels, num_classes, smooth=0.0, ignore_index=None, dtype=torch.float32):
    live = labels != ignore_index if ignore_index is not None else torch.ones_like(labels, dtype=torch.bool)
    if labels.device.type != "meta":
        assert ((labels >= 0) & (labels < num_classes) | ~live).all()
    t = torch.full((*labels.shape, num_classes), smooth / num_classes, dtype=dtype, device=labels.device)
    t.scatter_(-1, (labels * live)[..., None], 1 - smooth + smooth / num_classes)
    return t * live[..., None]


# %% wrong: along dim 1, right for a vector of labels
# says: Dimension 1 holds the classes only where labels has one dimension
# earns: 1 of 2
def soft_targets(labels, num_classes, smooth=0.0, ignore_index=None, dtype=torch.float32):
    ignored = torch.zeros_like(labels, dtype=torch.bool) if ignore_index is None else labels == ignore_index
    spread = smooth / num_classes
    targets = torch.full((*labels.shape, num_classes), spread, dtype=dtype, device=labels.device)
    targets.scatter_(1, labels.masked_fill(ignored, 0).unsqueeze(-1), 1 - smooth + spread)
    return targets.masked_fill(ignored.unsqueeze(-1), 0)


# %% wrong: along dim 1, with the new dimension there
# says: Dimension 1 holds the classes only where labels has one dimension
# earns: 1 of 2
def soft_targets(labels, num_classes, smooth=0.0, ignore_index=None, dtype=torch.float32):
    ignored = torch.zeros_like(labels, dtype=torch.bool) if ignore_index is None else labels == ignore_index
    spread = smooth / num_classes
    targets = torch.full((*labels.shape, num_classes), spread, dtype=dtype, device=labels.device)
    targets.scatter_(1, labels.masked_fill(ignored, 0).unsqueeze(1), 1 - smooth + spread)
    return targets.masked_fill(ignored.unsqueeze(-1), 0)


# %% wrong: multiplies what scatter gives by 0
# says: The result stays the same when `scatter` gives other numbers, so another part of your code computes it.
# says: This check builds on the first one
# earns: 0 of 2
def soft_targets(labels, num_classes, smooth=0.0, ignore_index=None, dtype=torch.float32):
    ignored = torch.zeros_like(labels, dtype=torch.bool) if ignore_index is None else labels == ignore_index
    index = labels.masked_fill(ignored, 0).unsqueeze(-1)
    asked = torch.zeros(*labels.shape, num_classes, dtype=dtype, device=labels.device).scatter(-1, index, 1.0)
    rows = (torch.arange(num_classes, device=labels.device) == index).to(dtype) * (1 - smooth) + smooth / num_classes
    return (rows + 0 * asked).masked_fill(ignored.unsqueeze(-1), 0)


# %% wrong: subtracts what scatter gives from itself
# says: The result stays the same when `scatter` gives other numbers, so another part of your code computes it.
# says: This check builds on the first one
# earns: 0 of 2
def soft_targets(labels, num_classes, smooth=0.0, ignore_index=None, dtype=torch.float32):
    ignored = torch.zeros_like(labels, dtype=torch.bool) if ignore_index is None else labels == ignore_index
    index = labels.masked_fill(ignored, 0).unsqueeze(-1)
    zeros = torch.zeros(*labels.shape, num_classes, dtype=dtype, device=labels.device)
    asked, again = zeros.scatter(-1, index, 1.0), zeros.scatter(-1, index, 1.0)
    rows = (torch.arange(num_classes, device=labels.device) == index).to(dtype) * (1 - smooth) + smooth / num_classes
    return (rows + asked - again).masked_fill(ignored.unsqueeze(-1), 0)


# %% wrong: 255 is ignored where there is no ignore_index
# says: Label 255 was accepted
# earns: 1 of 2
# caught: hidden
def soft_targets(labels, num_classes, smooth=0.0, ignore_index=None, dtype=torch.float32):
    ignored = labels == (255 if ignore_index is None else ignore_index)
    spread = smooth / num_classes
    out = torch.full((*labels.shape, num_classes), spread, dtype=dtype, device=labels.device)
    out.scatter_(-1, labels.masked_fill(ignored, 0).unsqueeze(-1), 1 - smooth + spread)
    return out.masked_fill(ignored.unsqueeze(-1), 0)


# %% wrong: labels in int32
# says: Label 4294967297 was accepted
# earns: 1 of 2
# caught: hidden
def soft_targets(labels, num_classes, smooth=0.0, ignore_index=None, dtype=torch.float32):
    labels = labels.int().long()
    ignored = torch.zeros_like(labels, dtype=torch.bool) if ignore_index is None else labels == ignore_index
    spread = smooth / num_classes
    out = torch.full((*labels.shape, num_classes), spread, dtype=dtype, device=labels.device)
    out.scatter_(-1, labels.masked_fill(ignored, 0).unsqueeze(-1), 1 - smooth + spread)
    return out.masked_fill(ignored.unsqueeze(-1), 0)


# %% wrong: overwrites the ignored labels, and puts them back
# says: What you change and put back stays changed when the call raises
# earns: 1 of 2
# caught: hidden
def soft_targets(labels, num_classes, smooth=0.0, ignore_index=None, dtype=torch.float32):
    ignored = torch.zeros_like(labels, dtype=torch.bool) if ignore_index is None else labels == ignore_index
    spread = smooth / num_classes
    out = torch.full((*labels.shape, num_classes), spread, dtype=dtype, device=labels.device)
    labels[ignored] = 0
    out.scatter_(-1, labels.unsqueeze(-1), 1 - smooth + spread)
    if ignore_index is not None:
        labels[ignored] = ignore_index
    return out.masked_fill(ignored.unsqueeze(-1), 0)


# %% wrong: one result for all calls of a shape
# says: the first result changed
# earns: 1 of 2
# caught: hidden
TARGETS = {}


def soft_targets(labels, num_classes, smooth=0.0, ignore_index=None, dtype=torch.float32):
    ignored = torch.zeros_like(labels, dtype=torch.bool) if ignore_index is None else labels == ignore_index
    spread = smooth / num_classes
    fresh = torch.empty(*labels.shape, num_classes, dtype=dtype, device=labels.device)
    out = TARGETS.setdefault((fresh.shape, dtype, labels.device), fresh).fill_(spread)
    out.scatter_(-1, labels.masked_fill(ignored, 0).unsqueeze(-1), 1 - smooth + spread)
    return out.masked_fill_(ignored.unsqueeze(-1), 0)
