# %% right: torch.cond
# The file contains an `If` with both branches, and only the one that is taken is computed, so nothing has to be made
# harmless. Each branch must be a pure function: if it changes an attribute, even a call in PyTorch raises.
class Gate(nn.Module):
    """The logarithm of x where the batch's mean is positive, else 0.1 / x: (N, D) -> (N, D)."""

    def forward(self, x):
        def logarithm(x):
            return torch.log(x.clamp(min=1e-6))

        def quotient(x):
            return 0.1 / x

        return torch.cond(x.mean() > 0, logarithm, quotient, (x,))


# %% wrong: a plain where over both branches
# says: The value is right, but the gradient is nan, because the other branch's infinite slope is multiplied by 0
# `where` gives the branch that isn't taken a gradient of 0, and its backward multiplies that by an infinite derivative.
# So the inputs of a branch must be harmless, not only its outputs.
class Gate(nn.Module):
    """Right values, and gradients of nan where x contains 0."""

    def forward(self, x):
        return torch.where(x.mean() > 0, torch.log(x.clamp(min=1e-6)), 0.1 / x)
