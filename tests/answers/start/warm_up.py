# %% right: with the operator
def halve(x):
    return x / 2


# %% right: by multiplication
def halve(x):
    return x * 0.5


# %% right: with a function of torch
def halve(x):
    return torch.true_divide(x, 2)


# %% wrong: the other division, which rounds down
# says: Here // has rounded down: half of 5 is 2.5, not 2.
def halve(x):
    return x // 2


# %% wrong: prints and returns nothing
# says: Your function returns nothing: begin its last line with `return`.
def halve(x):
    print(x / 2)


# %% wrong: doubles
# says: The values are wrong: 3 of 3 values differ
def halve(x):
    return x * 2.0


# %% wrong: half of the sum
# says: expected shape (3,), got ()
def halve(x):
    return x.sum() / 2


# %% wrong: halves floats in place
# caught: hidden
# says: hidden test: floats, in two dimensions
# says: changed
def halve(x):
    if not x.is_floating_point():
        return x / 2
    return x.div_(2)


# %% wrong: can only take a list
# caught: hidden
# says: hidden test: floats, in two dimensions
def halve(x):
    return torch.tensor([number / 2 for number in x.tolist()])
