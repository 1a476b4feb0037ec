# %% [markdown]
# ### Exercise 11.2 · The regression that learns the mean
#
# debug · warm-up · 12 min · 2 points
#
# A linear layer should learn a linear relation. There is a warning, the loss stalls at the variance of `y`, and in the
# end every prediction is close to the mean of `y`:
#
#     UserWarning: Using a target size (torch.Size([32])) that is different to the input size (torch.Size([32, 1])).
#     This will likely lead to incorrect results due to broadcasting. Please ensure they have the same size.
#
# Find out why, and fix `fit`.
#
# **Contract**
#
# - Each batch makes one SGD step on its mean squared error. The data are visited in order, `epochs` times (at least
#   once). Gradients from before the call have no influence.
# - `model` maps (B, D) to (B, 1) or to (B,), and `y` is (N,) or (N, 1). All four combinations work without any warning,
#   even if the last batch is a single sample.
# - If a prediction has a different number of values than its targets, (B, 3) for instance, raise ValueError.
# - Return a float: the mean squared error over the *last* epoch as training saw it, with each batch's loss computed
#   before its step. Every sample counts once.
#
# <details><summary>Hint 1</summary>
#
# What shape has (B, 1) minus (B,)? What does `squeeze()` do to a batch of one?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# Compare the numbers of elements first, then bring the prediction to the target's shape with `reshape` or `view_as`.
# For the result, add up loss times batch size, and divide by N.
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# There are two mistakes, one in the shapes and one in the returned value. In the loop, check the number of values, and
# then give the prediction the shape of its targets. Each epoch starts a new sum of loss times batch size, and the last
# epoch's sum, divided by the number of samples, is the result.
#
# </details>


# %% answer="broadcast-loss"
def fit(model: nn.Module, x: Tensor, y: Tensor, epochs: int, lr: float, batch_size: int) -> float:
    """Train model on (x, y) with SGD; returns the mean squared error per sample of the last epoch.

    x: (N, D); y: (N,) or (N, 1); model maps (B, D) to (B, 1) or (B,).
    """
    ### BEGIN SOLUTION
    opt = torch.optim.SGD(model.parameters(), lr=lr)
    for _ in range(epochs):
        total = 0.0
        for xb, yb in DataLoader(TensorDataset(x, y), batch_size=batch_size):
            opt.zero_grad()
            prediction = model(xb)
            if prediction.numel() != yb.numel():
                came, wanted = tuple(prediction.shape), tuple(yb.shape)
                raise ValueError(f"{came} predictions for {wanted} targets")
            loss = nn.functional.mse_loss(prediction.reshape(yb.shape), yb)
            loss.backward()
            opt.step()
            total += loss.item() * len(yb)
    return total / len(x)
    ### END SOLUTION
    ### BEGIN GIVEN
    # raise NotImplementedError  # fix the code below, then delete this line
    # opt = torch.optim.SGD(model.parameters(), lr=lr)
    # for _ in range(epochs):
    #     for xb, yb in DataLoader(TensorDataset(x, y), batch_size=batch_size):
    #         opt.zero_grad()
    #         loss = nn.functional.mse_loss(model(xb), yb)
    #         loss.backward()
    #         opt.step()
    # return loss.item()
    ### END GIVEN


# %% helpers="broadcast-loss"
class Outputs(nn.Module):
    """A linear layer whose output has one of several shapes."""

    def __init__(self, kind):
        super().__init__()
        self.kind, self.linear = kind, nn.Linear(2, 3 if kind == "(B, 3)" else 1)
        with torch.no_grad():
            self.linear.weight.copy_(torch.tensor([[0.3, -0.2]]).expand(self.linear.weight.shape))
            self.linear.bias.fill_(0.1)

    def forward(self, x):
        out = self.linear(x)
        if self.kind == "(1,)":
            return out.mean(0)
        return out[:, 0] if self.kind == "(B,)" else out


def trained(fit, kind, x, y, epochs, lr, batch_size, old=None):
    """Call fit with a linear model whose output has this shape; look at what it returns, and at the weights.

    old: the gradient that each parameter already has.
    """
    model = Outputs(kind)
    parameters = list(model.parameters())
    for p in parameters if old is not None else []:
        p.grad = torch.full_like(p, old)
    loss = fit(model, x, y, epochs, lr, batch_size)
    same = all(a is b for a, b in zip(parameters, model.parameters(), strict=True))
    facts = {"float": isinstance(loss, float), "same parameters": same}
    return facts | {
        "loss": float(loss) if isinstance(loss, float) else torch.nan,
        "weights": torch.cat([parameter.detach().flatten() for parameter in parameters]),
    }


def warnings_in(seen):
    """The warnings that came up."""
    return [message for category, message in seen.noted.warned if category == "UserWarning"]


broadcast = (
    "The loss still compares every prediction with every target, because (B, 1) and (B,) broadcast to (B, B). "
    "Give both the same shape."
)
flat_model = "Your code fails if the model returns (B,) or the targets are (N, 1). Both must work."
silent = "There is still a warning, because predictions and targets have different shapes."


# %% check="broadcast-loss" points=1
"""The model learns a linear relation for all four combinations of shapes, without a warning."""
with check("broadcast-loss") as test:

    def predictions_all_alike(seen):
        """Whether the weights have gone to zero, so that every prediction is the bias."""
        return bool(seen["weights"][:2].abs().max() < 0.05)

    known = (
        mistake(flat_model, raises="IndexError|TypeError.*len"),
        mistake(
            "The warning is gone, but the targets are still broadcast, so the loss can't fall below the variance.",
            when=lambda seen: predictions_all_alike(seen) and not warnings_in(seen),
        ),
        mistake(broadcast, when=predictions_all_alike),
    )

    def judge_learning(seen):
        """The weights are those of the relation."""
        learned = torch.allclose(seen["weights"], torch.tensor([2.0, -1.0, 0.5]), atol=1e-2)
        seen.that(seen["same parameters"], "Train the model's own parameters, don't replace them.", stage="aliasing")
        seen.that(
            learned, "The model didn't learn the relation: the weights should be 2 and -1 and the bias 0.5.", *known
        )

    corners = torch.tensor([[1.0, 1.0], [1.0, -1.0], [-1.0, 1.0], [-1.0, -1.0]])
    x = torch.cat([corners, 0.8 * corners, 1.2 * corners])
    y = 2 * x[:, 0] - x[:, 1] + 0.5

    test("a linear relation is learned: the loss goes to 0")
    seen = observe_scenario(trained, fit, "(B, 1)", x, y, 4, 0.4, 4).expecting(*known)
    judge_learning(seen)
    seen.that(not warnings_in(seen), silent, stage="rule")

    for kind, column in [("(B,)", False), ("(B, 1)", True), ("(B,)", True)]:
        targets = y[:, None] if column else y
        test(f"predictions {kind}, targets {'(N, 1)' if column else '(N,)'}")
        seen = observe_scenario(trained, fit, kind, x, targets, 4, 0.4, 4).expecting(*known)
        judge_learning(seen)
        seen.that(not warnings_in(seen), silent, stage="rule")


# %% check="broadcast-loss" points=1
"""The loss per sample of the last epoch; batches of one sample; wrong sizes raise an error."""
with check("broadcast-loss") as test:
    known = (mistake(flat_model, raises="IndexError|TypeError.*len"),)

    def judge_type(seen):
        """fit returns a float."""
        seen.that(seen["float"], "Return the loss as a Python float: a tensor has .item() for that.", stage="type")

    def by_hand(x, y, epochs, lr, batch_size, broadcast=False, old=0.0):
        """The losses of all batches, epoch by epoch, their sizes, and the parameters afterwards."""
        w, b = torch.tensor([0.3, -0.2], dtype=torch.float64), torch.tensor(0.1, dtype=torch.float64)
        x, y, found = x.double(), y.flatten().double(), []
        for _ in range(epochs):
            found.append([])
            for xb, yb in zip(x.split(batch_size), y.split(batch_size), strict=True):
                off = xb @ w + b - (yb.mean() if broadcast else yb)
                found[-1].append((off.square().mean().item(), len(yb)))
                w, b = w - lr * (2 * xb.T @ off / len(yb) + old), b - lr * (2 * off.mean() + old)
                old = 0.0
        return found, torch.cat([w, b[None]]).float()

    def mean_of(batches):
        """The mean over samples."""
        return sum(loss * size for loss, size in batches) / sum(size for _, size in batches)

    def close(a, b):
        return abs(a - b) < 1e-4 * max(abs(b), 1e-3)

    single = (
        "Your code failed or warned when the last batch was a single sample. squeeze() without a dimension also "
        "removes the batch dimension."
    )
    alone = (
        mistake(single, raises="0-d tensor|zero-dim|dimension specified as 0"),
        mistake(single, when=lambda seen: any("torch.Size([])" in message for message in warnings_in(seen))),
    )
    only_last = (
        "Return the mean over the samples of the last epoch, not the loss of the last batch or a mean of batch means."
    )
    uneven = torch.tensor([[0.9, -0.4], [1.3, 0.8], [-0.7, 0.2], [0.1, -1.1], [-1.2, 0.6]])
    uneven = torch.cat([uneven, 0.7 * uneven.flip(1) + 0.1])
    goals = (uneven[:, 0] * uneven[:, 1] + uneven[:, 0] - 0.3) * 2

    def judge_exactly(kind, x, y, epochs, lr, batch_size, old=None):
        """Loss and weights are those of a computation by hand, without a warning."""
        seen = observe_scenario(trained, fit, kind, x, y, epochs, lr, batch_size, old).expecting(*alone, *known)
        judge_type(seen)

        def has(weights):
            return torch.allclose(seen["weights"], weights, rtol=1e-3, atol=1e-4)

        found, weights = by_hand(x, y, epochs, lr, batch_size)
        _, mixed = by_hand(x, y, epochs, lr, batch_size, broadcast=True)
        _, with_old = by_hand(x, y, epochs, lr, batch_size, old=old or 0.0)
        earlier = [by_hand(x, y, n, lr, batch_size)[1] for n in range(1, epochs)]
        seen.that(
            has(weights),
            "The weights after training are not those of SGD on the mean squared error of each batch, in order.",
            mistake(broadcast, when=lambda seen: has(mixed)),
            mistake(
                "Gradients from before the call went into the first step, because `backward` adds to `.grad`. Clear "
                "them before each `backward`, not only after the step.",
                when=lambda seen: old and has(with_old),
            ),
            mistake(
                "The loss rises here, and afterwards the model has the weights of an earlier epoch. Every batch of "
                "every epoch makes its step, so keep the weights of the last one.",
                when=lambda seen: any(map(has, earlier)) and mean_of(found[-1]) > mean_of(found[0]),
            ),
        )
        means = [loss for loss, _ in found[-1]]
        seen.that(
            close(seen["loss"], mean_of(found[-1])),
            "The weights are right, but the returned value is not the mean over the samples of the last epoch.",
            mistake(
                only_last, when=lambda seen: any(close(seen["loss"], m) for m in (means[-1], sum(means) / len(means)))
            ),
            mistake(
                "You return the mean over all epochs. Return the mean over the last epoch.",
                when=lambda seen: close(seen["loss"], mean_of([batch for epoch in found for batch in epoch])),
            ),
            mistake(
                "You return the sum over the samples instead of their mean.",
                when=lambda seen: close(seen["loss"], mean_of(found[-1]) * len(x)),
            ),
        )
        seen.that(not warnings_in(seen), silent, stage="rule")

    test("the returned value: the mean over the samples of the last epoch")
    judge_exactly("(B, 1)", uneven, goals, 3, 0.1, 4)
    judge_exactly("(B, 1)", uneven, goals, 1, 0.05, 6)

    for kind, column in [("(B, 1)", False), ("(B,)", False), ("(B, 1)", True), ("(B,)", True)]:
        targets = goals[:, None] if column else goals
        test("a last batch of one sample")
        judge_exactly(kind, uneven[:7], targets[:7], 2, 0.1, 3)

    ### BEGIN HIDDEN TESTS
    test.hidden("gradients from before the call")
    judge_exactly("(B, 1)", uneven, goals, 2, 0.1, 4, old=3.0)

    test.hidden("a rate so large that the loss rises")
    judge_exactly("(B, 1)", uneven, goals, 3, 1.5, 4)

    for kind, column in [("(B, 1)", False), ("(B,)", False), ("(B, 1)", True), ("(B,)", True)]:
        test.hidden("one sample only, in a batch that could hold more")
        targets = goals[:, None] if column else goals
        judge_exactly(kind, uneven[:1], targets[:1], 2, 0.1, 3)

    for kind, column, size, batch_size in [
        ("(B, 3)", False, 4, 4),
        ("(B, 3)", True, 4, 4),
        ("(B, 3)", False, 3, 3),
        ("(B, 3)", False, 1, 1),
        ("(1,)", False, 4, 4),
        ("(1,)", True, 8, 4),
    ]:
        test.hidden("predictions of another number of values are refused")
        targets = goals[:, None] if column else goals
        seen = observe_scenario(trained, fit, kind, uneven[:size], targets[:size], 1, 0.1, batch_size)
        seen.raises(
            ValueError,
            because=(
                "A prediction with a different number of values must raise ValueError, but your code broadcasts it."
            ),
            mistakes=[
                mistake(
                    "A prediction with a different number of values raises the wrong exception. Compare the numbers "
                    "of elements yourself and raise ValueError. ({detail})",
                    when=lambda seen: bool(seen.error_text),
                )
            ],
        )
    ### END HIDDEN TESTS
