# %% [markdown]
# ### Exercise 11.6 · Ten lines of every training script
#
# predict · warm-up · 12 min · 2 points
#
# Here are five small experiments and ten questions. Write down what you expect, without running anything.
#
# 1. A weight `w` is 0, the loss is `w` (so its gradient is 1), and the optimizer is `SGD([w], lr=0.5)`. Every iteration
#    accumulates two micro-batches, that is, it calls `backward` twice in a row. What is `w` after *two* iterations that
#    call `zero_grad`, `backward`, `backward`, `step`? What if they leave out `zero_grad`? What if they call `zero_grad`
#    right before `step`? And what is `w.grad` right after the `zero_grad` of the second iteration?
# 2. `random_split(range(1250), [0.8, 0.2])` gives two parts, and `DataLoader(part, batch_size=128)` gets the first. How
#    many batches does an epoch have, and how large is the last batch?
# 3. The optimizer is `Adam([p], lr=0.1)`, p is 0 and its gradient is 500. `clip_grad_norm_([p], 1.0)` clips it. What is
#    p after the first step?
# 4. After `opt = SGD([p], lr=0.1)` come `opt.defaults["lr"] = 9.0` and `opt.load_state_dict(opt.state_dict())`. p is 0
#    and its gradient is 1. What is p after one step?
# 5. The logits `z` are `[[1000., 0.]]` and the label is 0. What is the `cross_entropy` if somebody passes
#    `z.log_softmax(1)` in place of `z`? And what is it for `z.softmax(1)`?
#
# **Contract**
#
# - Replace each `...` with a number or, where there is no number, with `"none"`. Two decimals are enough.
# - The check runs the experiments and compares. Every right item earns a tenth of the points.
#
# <details><summary>Hint 1</summary>
#
# Does `backward()` overwrite `.grad` or add to it? What does Adam divide the gradient by in its first step?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# Go through two iterations on paper: write down `.grad` after each backward, and `w` after each step. For Adam, divide
# the gradient by the root of its own square. For the last two items, write down what two classes get from a log-softmax
# and from a softmax: how far apart can the two numbers be?
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# Without `zero_grad`, the second `backward` adds to what the first left; with `zero_grad` before `step`, there is
# nothing to step with. Adam's first step has the same size for every gradient. A log-softmax of log-probabilities
# changes nothing. The softmax of the logits lies in [0, 1], so the second softmax, inside `cross_entropy`, can never be
# sure. Sections 11.1, 11.3 and 11.5 have the rest.
#
# </details>

# %% answer="predict-the-loop"
### BEGIN SOLUTION
answers = {
    "zero-backward-step": -2.0,  # w after two iterations, as they should be
    "backward-step": -3.0,  # without zero_grad
    "backward-zero-step": 0.0,  # zero_grad right before step
    "grad after zero_grad": "none",  # w.grad
    "batches": 8,  # batches of an epoch
    "last batch": 104,  # samples in the last batch
    "first Adam step": -0.1,  # p after the first step
    "lr via defaults": -0.1,  # p after one step
    "loss of a perfect logit": 0.0,  # cross_entropy of z.log_softmax(1)
    "softmax twice": 0.31,  # cross_entropy of z.softmax(1)
}
### END SOLUTION
### BEGIN GIVEN
# answers = {
#     "zero-backward-step": ...,  # w after two iterations, as they should be
#     "backward-step": ...,  # without zero_grad
#     "backward-zero-step": ...,  # zero_grad right before step
#     "grad after zero_grad": ...,  # w.grad
#     "batches": ...,  # batches of an epoch
#     "last batch": ...,  # samples in the last batch
#     "first Adam step": ...,  # p after the first step
#     "lr via defaults": ...,  # p after one step
#     "loss of a perfect logit": ...,  # cross_entropy of z.log_softmax(1)
#     "softmax twice": ...,  # cross_entropy of z.softmax(1)
# }
### END GIVEN

# %% check="predict-the-loop" points=2
"""Each item is compared with a run of the experiment; every right item earns its share."""
with check("predict-the-loop") as test:

    def after_two(*order):
        """w after two iterations that make these calls in this order, each backward for two micro-batches."""
        w = nn.Parameter(torch.tensor(0.0))
        opt = torch.optim.SGD([w], lr=0.5)
        for _ in range(2):
            for call in order:
                if call == "backward":
                    (1 * w).backward()
                    (1 * w).backward()
                else:
                    {"zero": opt.zero_grad, "step": opt.step}[call]()
        return w.item()

    def after_one(make_optimizer, gradient, change=None):
        """p after one step of an optimizer, whose state was loaded again after a change of its defaults."""
        p = nn.Parameter(torch.tensor(0.0))
        opt = make_optimizer([p], lr=0.1)
        opt.defaults.update(change or {})
        opt.load_state_dict(opt.state_dict())
        p.grad = torch.tensor(gradient)
        nn.utils.clip_grad_norm_([p], 1.0)
        opt.step()
        return p.item()

    def grad_after_zero_grad():
        """What .grad holds when a backward pass is followed by zero_grad."""
        w = nn.Parameter(torch.tensor(0.0))
        (1 * w).backward()
        torch.optim.SGD([w], lr=0.5).zero_grad()
        return "none" if w.grad is None else w.grad.item()

    def number_in(guess):
        """A number, 0-d tensor or text as a float; "none" for None; nan for anything else."""
        if guess is None or (isinstance(guess, str) and guess.strip().lower() == "none"):
            return "none"
        if isinstance(guess, Tensor) and guess.numel() == 1 and guess.device.type == "cpu":
            guess = guess.tolist() if guess.dim() == 0 else guess.flatten().tolist()[0]
        if isinstance(guess, bool) or not isinstance(guess, (int, float, str)):
            return torch.nan
        try:
            return float(guess)
        except (ValueError, OverflowError):
            return torch.nan

    def means(guess, truth):
        """Whether a guess says the same as the truth, to two decimals."""
        came = number_in(guess)
        if "none" in (came, truth):
            return came == truth
        return came == truth or abs(came - truth) < 0.0051

    test("every item is compared with a live run")
    part = random_split(range(1250), [0.8, 0.2], generator=torch.Generator().manual_seed(0))[0]
    batches = [len(batch) for batch in DataLoader(part, batch_size=128)]
    logits, label = torch.tensor([[1000.0, 0.0]]), torch.tensor([0])
    last = (
        "The part has 1000 samples, and the incomplete last batch is kept by default: 7 * 128 = 896, then one of 104."
    )
    truths = {
        "zero-backward-step": (
            after_two("zero", "backward", "step"),
            "The two backwards add up to a gradient of 2, and one SGD step is w - lr * grad: -1 per iteration here.",
        ),
        "backward-step": (
            after_two("backward", "step"),
            "backward() adds to .grad, so without zero_grad the second step uses 2 + 2.",
        ),
        "backward-zero-step": (
            after_two("backward", "zero", "step"),
            "zero_grad between backward and step throws the gradient away, so nothing is learned.",
        ),
        "grad after zero_grad": (
            grad_after_zero_grad(),
            "zero_grad() sets .grad to None (set_to_none=True is the default), not to zeros.",
        ),
        "batches": (len(batches), last),
        "last batch": (batches[-1], last),
        "first Adam step": (
            after_one(torch.optim.Adam, 500.0),
            "Adam divides by the root of the second moment: the first step is about lr, however large the gradient is, "
            "clipped or not.",
        ),
        "lr via defaults": (
            after_one(torch.optim.SGD, 1.0, {"lr": 9.0}),
            "optimizer.defaults is only the template for new groups; the rate in use is param_groups[i]['lr'], which "
            "is also what the state dict contains.",
        ),
        "loss of a perfect logit": (
            F.cross_entropy(logits.log_softmax(1), label).item(),
            "cross_entropy takes a log-softmax, and the log-softmax of log-probabilities changes nothing. With 1000 "
            "against 0 the label has probability 1, and -log 1 is 0.",
        ),
        "softmax twice": (
            F.cross_entropy(logits.softmax(1), label).item(),
            "cross_entropy takes logits. After a softmax the inputs are in [0, 1], and with 2 classes the loss "
            "cannot fall below log(1 + 1/e) = 0.31.",
        ),
    }
    seen = observe_value(answers)
    came = seen.value if isinstance(seen.value, dict) else {}
    signs = "A step goes against the gradient, which is positive here: the result is negative."
    items = {}
    for name, (truth, sentence) in truths.items():
        spelt = came[name] if name in came and means(came[name], truth) else truth
        turned = [(-truth, signs)] if isinstance(truth, float) and truth < 0 else []
        items[name] = prediction(spelt, *turned, because=sentence)
    test.points = seen.predicts(items, points=2)

    ### BEGIN HIDDEN TESTS
    test.hidden("the truth does not depend on random numbers")
    shuffled = DataLoader(part, batch_size=128, shuffle=True, generator=torch.Generator().manual_seed(7))
    seen.that([len(batch) for batch in shuffled] == batches, "Shuffling changes no batch's size.")
    ### END HIDDEN TESTS
test.points
