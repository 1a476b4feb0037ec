# %% right: clamps the labels and looks which of them change
# A label outside 0 … num_classes - 1 changes when it is clamped to that range. One comparison replaces two, but the
# clamped labels take 8 bytes each, where the result of a comparison takes 1.
def bad_labels(labels, num_classes, ignore_index=-100):
    """The positions of the labels that clamping changes, without the ignored ones."""
    if labels.dtype not in (torch.int64, torch.uint8):
        raise TypeError(f"cross_entropy takes int64 or uint8 class indices, not {labels.dtype}")
    wide = labels.long()
    outside = wide.clamp(0, num_classes - 1) != wide
    return (outside & (wide != ignore_index)).nonzero()


# %% right: asks cross_entropy about one label at a time
# cross_entropy itself decides, so the answer can't disagree with it. It makes one call for every label, each with a row
# of num_classes logits, and works only on the CPU, where a bad label raises IndexError.
def bad_labels(labels, num_classes, ignore_index=-100):
    """The positions of the labels for which cross_entropy raises."""
    if labels.dtype not in (torch.int64, torch.uint8):
        raise TypeError(f"cross_entropy takes int64 or uint8 class indices, not {labels.dtype}")
    logits = torch.zeros(1, num_classes)
    bad = torch.zeros(labels.numel(), dtype=torch.bool)
    for i, label in enumerate(labels.reshape(-1, 1).long()):
        try:
            F.cross_entropy(logits, label, ignore_index=ignore_index)
        except IndexError:
            bad[i] = True
    return bad.reshape(labels.shape).nonzero()


# %% wrong: looks for labels that are too large
# says: Negative labels other than ignore_index are also out of bounds: -1 does not mean 'last class' here.
# In Python, -1 is the last index. As a label, a negative number other than `ignore_index` has no class.
def bad_labels(labels, num_classes, ignore_index=-100):
    """The positions of the labels above the last class."""
    if labels.dtype not in (torch.int64, torch.uint8):
        raise TypeError(f"cross_entropy takes int64 or uint8 class indices, not {labels.dtype}")
    wide = labels.long()
    return ((wide >= num_classes) & (wide != ignore_index)).nonzero()
