# %% [markdown]
# ### Exercise 13.8 · A loop that does not wait
#
# fix · solid · 30 min · 2 points
#
# This training loop is right, but on a GPU it spends most of its time waiting, because it reads numbers in every batch.
# Rewrite it so that it reads them once, at the end of the epoch, and computes the same.
#
# **Contract**
#
# - `model(x)` gives logits (rows, classes), and `y` contains targets (rows,). `batches` is a list of pairs (x, y). In a
#   row whose target is -100, all logits are finite.
# - Afterwards the weights are those of the given loop. What is left in `.grad` doesn't matter. The batches and the
#   model's training mode are not changed, not even during the epoch.
# - The function returns what the given loop returns, to a relative 1e-4, as a tuple of two floats and an int: mean
#   loss, share of hits, number of skipped batches. At least one batch has a finite loss.
# - A batch whose loss is nan or inf, whatever the reason, counts for nothing: no step, no loss, no hits, no targets.
#   This includes a batch without a single target. Only the loss decides. The third result is the number of such
#   batches. Targets of -100 count for nothing in any batch.
# - In a whole epoch Python waits at most three times, and no more often for nine batches than for three. A wait is what
#   `waits` of section 13.6 counts: `item`, `tolist`, an `if` on a tensor, `int`, `float`, printing or formatting a
#   tensor, `cpu`, `numpy`, `nonzero`, `masked_select`, `x[mask]`, a copy between CPU and GPU and the like.
# - On the CPU nothing really waits, so the check treats model and batches as if they were on the GPU, and what you
#   create without a device as if it were on the CPU. A GPU refuses most operations on tensors of both devices. The
#   check can't see that, so please create your own tensors on the model's device.
#
# <details><summary>Hint 1</summary>
#
# Let `waits` tell you what reads a number in every batch. Which of these numbers does Python need before the epoch
# ends?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# `cross_entropy` has `ignore_index`. `norm` may stay a tensor, and `clamp` does for tensors what `min` does for
# numbers. Whether a batch is skipped must be decided on the device: `torch.where`.
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# The choice must be between two STEPS, the real one and zero; multiplying by a flag doesn't help, because nan * 0 is
# nan. Add up loss, flag, hits and targets in one float64 tensor, chosen in the same way, and read that tensor once at
# the end.
#
# </details>


# %% answer="hidden-syncs"
### BEGIN SOLUTION
def train_epoch(
    model: nn.Module,
    batches: list[tuple[Tensor, Tensor]],
    lr: float,
) -> tuple[float, float, int]:
    """An epoch of SGD, gradients clipped: mean loss, share of hits, skipped batches."""
    parameters = list(model.parameters())
    sums = torch.zeros(4, dtype=torch.float64, device=parameters[0].device)
    for x, y in batches:
        logits = model(x)
        loss = F.cross_entropy(logits, y, ignore_index=-100)
        ok = torch.isfinite(loss)
        gradients = torch.autograd.grad(loss, parameters)
        with torch.no_grad():
            norm = torch.stack([g.norm() for g in gradients]).norm()
            scale = lr * (1.0 / (norm + 1e-6)).clamp(max=1.0)
            for p, g in zip(parameters, gradients, strict=True):
                p -= torch.where(ok, scale * g, 0.0)
            keep = y != -100
            hits = (logits.argmax(-1) == y) & keep
            numbers = torch.stack([n.double() for n in (loss, ok, hits.sum(), keep.sum())])
            sums += torch.where(ok, numbers, 0.0)
    loss_sum, good, right, seen = sums.tolist()
    return loss_sum / good, right / seen, len(batches) - int(good)


### END SOLUTION
### BEGIN GIVEN
# def train_epoch(
#     model: nn.Module, batches: list[tuple[Tensor, Tensor]], lr: float
# ) -> tuple[float, float, int]:
#     """An epoch of SGD, gradients clipped: mean loss, share of hits, skipped batches."""
#     raise NotImplementedError  # fix the code below, then delete this line
#     losses, skipped, right, seen = [], 0, 0, 0
#     for x, y in batches:
#         logits = model(x)
#         keep = y != -100
#         loss = F.cross_entropy(logits[keep], y[keep])
#         if not torch.isfinite(loss):
#             skipped += 1
#             continue
#         gradients = torch.autograd.grad(loss, list(model.parameters()))
#         norm = torch.stack([g.norm() for g in gradients]).norm().item()
#         with torch.no_grad():
#             for p, g in zip(model.parameters(), gradients, strict=True):
#                 p -= lr * min(1.0, 1.0 / (norm + 1e-6)) * g
#         losses.append(loss.item())
#         right += (logits.argmax(-1)[keep] == y[keep]).sum().item()
#         seen += len(y[keep])
#     return sum(losses) / len(losses), right / seen, skipped
### END GIVEN


# %% helpers="hidden-syncs"
def of_kind(kind, count):
    """A small classifier, and batches of which some have no finite loss."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 3))
    if kind in ("inf loss", "inf aside"):
        model = nn.Linear(1, 2)
        with torch.no_grad():
            model.weight.copy_(torch.tensor([[3e38], [-3e38]]))
            model.bias.copy_(torch.tensor([0.5, -0.25]))
    if kind in ("large loss", "large norm", "-inf logit"):
        model = nn.Linear(4, 3)
    if kind == "-inf logit":
        with torch.no_grad():
            model.bias[2] = -torch.inf
    batches = []
    for number in range(count):
        x, y = torch.randn(10, 4), torch.randint(2 if kind == "-inf logit" else 3, (10,))
        if number % 3 == 2:
            x = x * 20  # here the norm is above 1
        if kind != "-inf logit":
            y[torch.randperm(10)[: number % 3]] = -100
        bad = number % 3 == 1
        if kind == "inf" and bad:
            x[2] = torch.inf
        if kind == "large loss" and bad:
            x = x * 1e6
        if kind == "large norm" and number % 3 == 2:  # the last of three, since its step is 0 in float32 only
            x = x * 1e25
        if kind == "no target" and bad:
            y[:] = -100
        if kind == "inf loss":
            x, y = torch.full((10, 1), float(bad)), torch.arange(10) % 2
        if kind == "inf aside":
            x, y = torch.zeros(10, 1), torch.arange(10) % 2
            if bad:
                x[:2, 0], y[:2] = torch.tensor([1.0, -1.0]), -100
        batches.append((x, y))
    return model, batches


def told(result):
    """The three results as a list with the names of their types, or the name of what came in their place."""
    if not isinstance(result, (tuple, list)) or len(result) != 3:
        return type(result).__name__
    plain = [float(n) if isinstance(n, float) else n if isinstance(n, int) else None for n in result]
    return [plain, ["float" if isinstance(n, float) else type(n).__name__ for n in result]]


def one_epoch(train_epoch, kind, count):
    """Run one epoch of small batches, and count what would have waited."""
    model, batches = of_kind(kind, count)
    for number, module in enumerate(model.modules()):
        module.train(kind != "mixed" or number % 2 == 1)
    before, modes = [(x.clone(), y.clone()) for x, y in batches], []
    flags = [module.training for module in model.modules()]
    model.register_forward_pre_hook(lambda *args: modes.append([m.training for m in model.modules()] == flags))
    result, seen = waits(lambda: train_epoch(model, batches, 0.5))
    pairs = [pair for old, new in zip(before, batches, strict=False) for pair in zip(old, new, strict=False)]
    return {
        "left": len(batches) == count and all(torch.equal(old, new) for old, new in pairs),
        "training": all(modes) and [module.training for module in model.modules()] == flags,
        "told": told(result),
        "weights": [p.detach().clone() for p in model.parameters()],
        "waits": [[kind, times] for kind, times in seen.most_common()],
    }


def plain_epoch(kind, count):
    """What the given loop gives."""
    model, batches = of_kind(kind, count)
    losses, skipped, right, seen = [], 0, 0, 0
    for x, y in batches:
        keep = y != -100
        logits = model(x)
        loss = F.cross_entropy(logits[keep], y[keep])
        if not torch.isfinite(loss):
            skipped += 1
            continue
        gradients = torch.autograd.grad(loss, list(model.parameters()))
        norm = torch.stack([g.norm() for g in gradients]).norm().item()
        with torch.no_grad():
            for p, g in zip(model.parameters(), gradients, strict=True):
                p -= 0.5 * min(1.0, 1.0 / (norm + 1e-6)) * g
        losses.append(loss.item())
        right += (logits.argmax(-1)[keep] == y[keep]).sum().item()
        seen += len(y[keep])
    return [sum(losses) / len(losses), right / seen, skipped], [p.detach() for p in model.parameters()]


def judge_epoch(seen, kind, count, sentence=""):
    """Three numbers and the weights of the given loop."""
    numbers, weights = plain_epoch(kind, count)
    result = seen["told"]
    seen.that(
        isinstance(result, list) and result[1][:2] == ["float", "float"] and result[1][2] == "int",
        "The function returns a tuple of a float, a float and an int.",
        mistake(
            "The three results must be plain numbers, not tensors: read them once, at the end.",
            when=lambda seen: "Tensor" in str(result),
        ),
        stage="type",
    )
    nan = any(bool(w.isnan().any()) for w in seen["weights"])
    seen.that(
        not nan,
        "Weights became nan: a number that isn't finite stays so when it is multiplied by 0. Choose with torch.where "
        "(or "
        "masked_fill) between two steps.",
    )
    close = all(torch.allclose(a, b, rtol=1e-4, atol=1e-5) for a, b in zip(seen["weights"], weights, strict=True))
    seen.that(close or kind == "large norm", f"{sentence} The weights are not those that the given loop gives.".strip())
    shown = [tuple(round(n, 4) for n in one) for one in (numbers, result[0])]
    same = all(math.isclose(a, b, rel_tol=1e-4, abs_tol=1e-6) for a, b in zip(result[0], numbers, strict=True))
    seen.that(same, f"{sentence} The given loop returns {shown[0]}, yours {shown[1]}.".strip())


def judge_waits(three, nine):
    """At most three waits, and no more for nine batches than for three."""
    counts = [sum(times for _, times in seen["waits"]) for seen in (three, nine)]
    kinds = ", ".join(f"{kind} {times}" for kind, times in nine["waits"])
    nine.that(
        counts[1] <= 3 or counts[1] > counts[0],
        f"Python waits {counts[1]} times in an epoch of 9 batches: {kinds}. Three times are allowed: put the numbers "
        "into one tensor, and read them together.",
        stage="rule",
    )
    nine.that(
        counts[1] <= 3 and counts[1] <= counts[0],
        f"Python waits {counts[1]} times in an epoch of 9 batches: {kinds}. Each of them waits for everything that "
        f"has been "
        "queued so far, and their number must not grow with the batches.",
        stage="rule",
    )


# %% check="hidden-syncs" points=1
"""The numbers and weights of the given loop, and at most three waits, for three batches and for nine."""
with check("hidden-syncs") as test:
    test("the numbers and the weights of the given loop")
    three = observe_scenario(one_epoch, train_epoch, "plain", 3)
    judge_epoch(three, "plain", 3)
    nine = observe_scenario(one_epoch, train_epoch, "plain", 9)
    judge_epoch(nine, "plain", 9)

    test("at most three waits, for three batches and for nine")
    judge_waits(three, nine)


# %% check="hidden-syncs" points=1
"""Batches whose loss isn't finite are skipped, for whatever reason, and still nothing waits."""
with check("hidden-syncs") as test:
    not_yet = mistake(
        "This check builds on the first one, which doesn't pass yet. Fix that first.", when=lambda seen: True
    )

    test("nine batches without an inf, first of all")
    three = observe_scenario(one_epoch, train_epoch, "plain", 3).expecting(not_yet)
    judge_epoch(three, "plain", 3)
    nine = observe_scenario(one_epoch, train_epoch, "plain", 9).expecting(not_yet)
    judge_waits(three, nine)

    test("batches with an inf in them are skipped")
    three = observe_scenario(one_epoch, train_epoch, "inf", 3)
    judge_epoch(three, "inf", 3)
    nine = observe_scenario(one_epoch, train_epoch, "inf", 9)
    judge_epoch(nine, "inf", 9)

    ### BEGIN HIDDEN TESTS
    test.hidden("still no wait")
    judge_waits(three, nine)
    test.hidden("the batches and the model's mode are left as they are")
    nine.that(nine["left"], "The batches must not be changed, and you changed one of them in place.")
    nine.that(
        nine["training"],
        "The model's training mode must stay as it is. In eval mode dropout is off, so the weights become different.",
    )
    mixed = observe_scenario(one_epoch, train_epoch, "mixed", 3)
    mixed.that(
        mixed["training"],
        "The model's training mode must stay as it is. Here some modules are in eval mode, as in a model of which a "
        "part is frozen.",
    )
    for kind, idea, sentence in (
        (
            "large loss",
            "a loss is large, but finite",
            "The loss of a batch is far above 10,000, but it is finite, so the batch counts.",
        ),
        (
            "-inf logit",
            "a logit is -inf, but not that of the target, so the loss is finite",
            "One logit of each row is -inf, but never that of the target, so every loss is finite and counts.",
        ),
        (
            "inf loss",
            "the loss is inf, while inputs, logits and gradients are finite",
            "The loss of a batch is inf, while its inputs, logits and gradients are finite: ask the loss and nothing "
            "else.",
        ),
        (
            "large norm",
            "the norm of the gradients is inf in float32, while the loss and the gradients are finite",
            "The loss of the last batch is finite, though the norm of its gradients is beyond float32: ask the loss "
            "and nothing else.",
        ),
        (
            "inf aside",
            "rows with target -100, in which one of the classes would have the loss inf",
            "Two rows with target -100 have finite logits, but a loss that is inf for one of the classes, and inf * 0 "
            "is nan. Choose with torch.where before you add up the losses.",
        ),
        ("no target", "a batch without a target", "The loss of a batch without a target is nan, and it is skipped."),
    ):
        test.hidden(idea)
        seen = observe_scenario(one_epoch, train_epoch, kind, 3)
        if kind == "-inf logit":  # who skips them all divides by 0
            seen.expecting(mistake(sentence, raises="ZeroDivisionError"))
        judge_epoch(seen, kind, 3, sentence)
    ### END HIDDEN TESTS
