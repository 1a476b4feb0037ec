import torch

# corners: none


# %% right: one position at a time
def keeps_the_past(layer):
    x = torch.randn(4, 32, 8)
    with torch.no_grad():
        before = layer(x)
        for t in range(1, 32):
            changed = x.clone()
            changed[:, t] = 3 * torch.randn(4, 8)
            if not torch.allclose(layer(changed)[:, :t], before[:, :t], rtol=0, atol=1e-5):
                return False
    return True


# %% right: gradients of a random projection of each output
def keeps_the_past(layer):
    x = torch.randn(2, 32, 8, requires_grad=True)
    out = layer(x)
    if not out.requires_grad:
        return True
    for t in range(31):
        some = (out[:, t] * torch.randn(2, 8)).sum()
        (gradient,) = torch.autograd.grad(some, x, retain_graph=True)
        if gradient[:, t + 1 :].abs().max() > 1e-4:
            return False
    return True


# %% right: the Jacobian
def keeps_the_past(layer):
    jacobian = torch.autograd.functional.jacobian(lambda x: layer(x[None])[0], torch.randn(32, 8))  # (T, 8, T, 8)
    seen = jacobian.abs().amax((1, 3))
    return bool((seen.triu(1) < 1e-4).all())


# %% right: the beginning alone gives the beginning of the outputs
def keeps_the_past(layer):
    x = torch.randn(1, 32, 8)
    whole = layer(x)
    parts = [layer(x[:, :t]) for t in range(1, 32)]
    return all(torch.allclose(part, whole[:, : part.shape[1]], atol=1e-4) for part in parts)


# %% right: an assertion, all changed texts in one batch
def keeps_the_past(layer):
    x = torch.randn(8)[None, None] + torch.randn(32, 32, 8)
    x[:] = x[:1]
    later = torch.ones(32, 32, dtype=torch.bool).triu()  # row t: positions from t on
    changed = torch.where(later[..., None], torch.randn(32, 32, 8), x)
    moved = (layer(changed) - layer(x)).abs().amax(-1)  # (text, position)
    assert not (moved.masked_fill(later, 0.0) > 1e-4).any()
    return True


# %% wrong: changes the last position only
# says: Your test lets through a layer that pads its convolution by reflection, so that the first position sees the second. It lets 3 of 14 wrong ones through.
# earns: 0 of 1
# caught: hidden
def keeps_the_past(layer):
    x = torch.randn(1, 32, 8)
    changed = x.clone()
    changed[:, -1] = torch.randn(8)
    return torch.allclose(layer(changed)[:, :-1], layer(x)[:, :-1], atol=1e-4)


# %% wrong: compares the position before the change only
# says: Your test lets through a layer that
# earns: 0 of 1
# lesson
def keeps_the_past(layer):
    x = torch.randn(1, 32, 8)
    changed = x.clone()
    changed[:, -1] = torch.randn(8)
    return torch.allclose(layer(changed)[:, 0], layer(x)[:, 0], atol=1e-4)


# %% wrong: changes the second half only
# says: Your test lets through a layer that
# earns: 0 of 1
# caught: hidden
def keeps_the_past(layer):
    x = torch.randn(1, 32, 8)
    changed = x.clone()
    changed[:, 16:] = torch.randn(16, 8)
    return torch.allclose(layer(changed)[:, :16], layer(x)[:, :16], atol=1e-4)


# %% wrong: leaves out the first cut
# says: Your test lets through a layer that pads its convolution by reflection, so that the first position sees the second.
# earns: 0 of 1
# caught: hidden
def keeps_the_past(layer):
    x = torch.randn(1, 32, 8)
    before = layer(x)
    for t in range(2, 32):
        changed = x.clone()
        changed[:, t:] = torch.randn(32 - t, 8)
        if not torch.allclose(layer(changed)[:, :t], before[:, :t], atol=1e-4):
            return False
    return True


# %% wrong: leaves out the last cut
# says: Your test lets through a layer that has windows of ten positions and no mask in the short window at the end.
# earns: 0 of 1
# caught: hidden
def keeps_the_past(layer):
    x = torch.randn(1, 32, 8)
    before = layer(x)
    for t in range(1, 31):
        changed = x.clone()
        changed[:, t:] = torch.randn(32 - t, 8)
        if not torch.allclose(layer(changed)[:, :t], before[:, :t], atol=1e-4):
            return False
    return True


# %% wrong: short inputs
# says: Your test lets through a layer that has a mask for 16 positions only.
# earns: 0 of 1
# caught: hidden
def keeps_the_past(layer):
    x = torch.randn(1, 12, 8)
    before = layer(x)
    for t in range(1, 12):
        changed = x.clone()
        changed[:, t:] = torch.randn(12 - t, 8)
        if not torch.allclose(layer(changed)[:, :t], before[:, :t], atol=1e-4):
            return False
    return True


# %% wrong: adds the same number to all features
# says: Your test lets through a layer that sees one position ahead between two norms over the features.
# earns: 0 of 1
# caught: hidden
def keeps_the_past(layer):
    x = torch.randn(1, 32, 8)
    before = layer(x)
    for t in range(1, 32):
        changed = x.clone()
        changed[:, t:] += 1
        if not torch.allclose(layer(changed)[:, :t], before[:, :t], atol=1e-4):
            return False
    return True


# %% wrong: a tolerance that is too large
# says: Your test lets through a layer that
# earns: 0 of 1
# caught: hidden
def keeps_the_past(layer):
    x = torch.randn(1, 32, 8)
    before = layer(x)
    for t in range(1, 32):
        changed = x.clone()
        changed[:, t:] = torch.randn(32 - t, 8)
        if not torch.allclose(layer(changed)[:, :t], before[:, :t], atol=0.3):
            return False
    return True


# %% wrong: a tolerance of a hundredth
# says: Your test lets through a layer that adds a thousandth of the next position.
# earns: 0 of 1
# caught: hidden
def keeps_the_past(layer):
    x = torch.randn(1, 32, 8)
    before = layer(x)
    for t in range(1, 32):
        changed = x.clone()
        changed[:, t:] = torch.randn(32 - t, 8)
        if (layer(changed) - before)[:, :t].abs().max() > 1e-2:
            return False
    return True


# %% wrong: turns the signs of what comes later
# says: Your test lets through a layer that divides by the root mean square over all positions.
# earns: 0 of 1
# caught: hidden
def keeps_the_past(layer):
    x = torch.randn(1, 32, 8)
    before = layer(x)
    for t in range(1, 32):
        changed = x.clone()
        changed[:, t:] = -x[:, t:]
        if (layer(changed) - before)[:, :t].abs().max() > 1e-4:
            return False
    return True


# %% wrong: compares one feature
# says: Your test lets through a layer that sees one position ahead in its last four features.
# earns: 0 of 1
# caught: hidden
def keeps_the_past(layer):
    x = torch.randn(1, 32, 8)
    before = layer(x)
    for t in range(1, 32):
        changed = x.clone()
        changed[:, t:] = torch.randn(32 - t, 8)
        if (layer(changed) - before)[:, :t, 0].abs().max() > 1e-4:
            return False
    return True


# %% wrong: each second cut
# says: Your test lets through a layer that lets position 5 see position 6.
# earns: 0 of 1
# caught: hidden
def keeps_the_past(layer):
    x = torch.randn(1, 32, 8)
    before = layer(x)
    for t in range(1, 32, 2):
        changed = x.clone()
        changed[:, t:] = torch.randn(32 - t, 8)
        if (layer(changed) - before)[:, :t].abs().max() > 1e-4:
            return False
    return True


# %% wrong: allclose as it is
# says: Your test fails a right layer, which
# earns: 0 of 1
# caught: hidden
def keeps_the_past(layer):
    x = torch.randn(1, 32, 8)
    before = layer(x)
    for t in range(1, 32):
        changed = x.clone()
        changed[:, t:] = torch.randn(32 - t, 8)
        if not torch.allclose(layer(changed)[:, :t], before[:, :t]):
            return False
    return True


# %% wrong: to the last bit
# says: Your test fails a right layer, which subtracts the largest of all scores, so that its rounding depends on the future.
# earns: 0 of 1
# caught: hidden
def keeps_the_past(layer):
    x = torch.randn(1, 32, 8)
    before = layer(x)
    for t in range(1, 32):
        changed = x.clone()
        changed[:, t:] = torch.randn(32 - t, 8)
        if not torch.equal(layer(changed)[:, :t], before[:, :t]):
            return False
    return True


# %% wrong: also compares the outputs from t on
# says: Your test fails a right layer, which masks the scores.
# earns: 0 of 1
def keeps_the_past(layer):
    x = torch.randn(1, 32, 8)
    changed = x.clone()
    changed[:, 16:] = torch.randn(16, 8)
    return torch.allclose(layer(changed), layer(x), atol=1e-4)


# %% wrong: output t - 1 also counts as the future of t
# says: Your test fails a right layer, which masks the scores.
# earns: 0 of 1
def keeps_the_past(layer):
    x = torch.randn(1, 32, 8)
    before = layer(x)
    for t in range(1, 32):
        changed = x.clone()
        changed[:, t:] = torch.randn(32 - t, 8)
        if not torch.allclose(layer(changed)[:, : t + 1], before[:, : t + 1], atol=1e-4):
            return False
    return True


# %% wrong: nan in the future
# says: Your test fails a right layer, which masks the scores.
# earns: 0 of 1
def keeps_the_past(layer):
    x = torch.randn(1, 32, 8)
    for t in range(1, 32):
        changed = x.clone()
        changed[:, t:] = torch.nan
        if layer(changed)[:, :t].isnan().any():
            return False
    return True


# %% wrong: gradients of the sum of the features
# says: Your test lets through a layer that sees one position ahead between two norms over the features.
# earns: 0 of 1
# caught: hidden
def keeps_the_past(layer):
    x = torch.randn(1, 32, 8, requires_grad=True)
    out = layer(x)
    for t in range(31):
        (gradient,) = torch.autograd.grad(out[:, t].sum(), x, retain_graph=True)
        if gradient[:, t + 1 :].abs().max() > 1e-4:
            return False
    return True


# %% wrong: gradients that must be exactly zero
# says: Your test fails a right layer, which subtracts the largest of all scores, so that its rounding depends on the future.
# earns: 0 of 1
# caught: hidden
def keeps_the_past(layer):
    jacobian = torch.autograd.functional.jacobian(lambda x: layer(x[None])[0], torch.randn(32, 8))
    return not jacobian.abs().amax((1, 3)).triu(1).any().item()


# %% wrong: also asks that the past is seen
# says: Your test fails a right layer, which works through the positions in a loop and keeps their keys and values.
# earns: 0 of 1
# caught: hidden
def keeps_the_past(layer):
    jacobian = torch.autograd.functional.jacobian(lambda x: layer(x[None])[0], torch.randn(32, 8))
    seen = jacobian.abs().amax((1, 3)) > 1e-4
    return bool((seen == torch.ones(32, 32, dtype=torch.bool).tril()).all())


# %% wrong: changes the old x in place
# says: Your test lets through a layer that has one diagonal too many in its mask.
# earns: 0 of 1
def keeps_the_past(layer):
    x = torch.randn(1, 32, 8)
    changed = x
    changed[:, 16:] = torch.randn(16, 8)
    return torch.allclose(layer(changed)[:, :16], layer(x)[:, :16], atol=1e-4)


# %% wrong: says whether it leaks
# says: Your test fails a right layer, which masks the scores.
# earns: 0 of 1
def keeps_the_past(layer):
    x = torch.randn(1, 32, 8)
    changed = x.clone()
    changed[:, 16:] = torch.randn(16, 8)
    return not torch.allclose(layer(changed)[:, :16], layer(x)[:, :16], atol=1e-4)


# %% wrong: returns the largest difference
# says: Your test must return True or False, but it returned a float.
# earns: 0 of 1
def keeps_the_past(layer):
    x = torch.randn(1, 32, 8)
    changed = x.clone()
    changed[:, 16:] = torch.randn(16, 8)
    return (layer(changed) - layer(x))[:, :16].abs().max().item()


# %% wrong: always True
# says: Your test lets through a layer that has one diagonal too many in its mask. It lets 3 of 3 wrong ones through.
# earns: 0 of 1
def keeps_the_past(layer):
    return True


# %% wrong: always False
# says: Your test fails a right layer, which masks the scores.
# earns: 0 of 1
def keeps_the_past(layer):
    return False


# %% wrong: goes by names
# says: Your test lets through a layer that has one diagonal too many in its mask.
# earns: 0 of 1
def keeps_the_past(layer):
    return "late" not in layer.__name__ and "late" not in layer.__code__.co_names


# %% wrong: counts its calls
# says: Your test was asked about one layer twice, and changed its opinion.
# earns: 0 of 1
def keeps_the_past(layer):
    CALLS.append(layer)
    return len(CALLS) % 5 in (1, 2)


CALLS = []
