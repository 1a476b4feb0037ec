# corners: 0-d


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
# earns: 0 of 1
# lesson
def halve(x):
    return x // 2


# %% wrong: prints and returns nothing
# says: Your function returns nothing: begin its last line with `return`.
# earns: 0 of 1
# lesson
def halve(x):
    print(x / 2)


# %% wrong: doubles
# says: That is twice each number
# earns: 0 of 1
def halve(x):
    return x * 2.0


# %% wrong: half of the sum
# says: One number came back; asked for is half of *each* number
# earns: 0 of 1
def halve(x):
    return x.sum() / 2


# %% wrong: halves floats in place
# says: hidden test: floats, in two dimensions
# says: changed
# earns: 0 of 1
# caught: hidden
def halve(x):
    if not x.is_floating_point():
        return x / 2
    return x.div_(2)


# %% wrong: can only take a list
# says: x can have any number of dimensions
# earns: 0 of 1
# caught: hidden
def halve(x):
    return torch.tensor([number / 2 for number in x.tolist()])


# %% wrong: goes through the rows
# says: x can have any number of dimensions
# earns: 0 of 1
# caught: hidden
# corner: 0-d
def halve(x):
    return torch.stack([row / 2 for row in x])
