# %% [markdown]
# ### Exercise 11.10 · Write the loop: accumulate, clip, schedule, resume
#
# implement · long · 45 min · 3 points
#
# Write the loop of a real run, from the first line to the last. It accumulates micro-batches of different sizes, clips
# the gradient and steps the schedule. You can stop it after any step and resume it as if nothing had happened.
#
# **Contract**
#
# - `batches(epoch)` returns the micro-batches (x, y) of epoch 0, 1, 2, …. It returns the same ones each time and draws
#   no random numbers. Their sizes and their number may differ. `optimizer` has all parameters of `model`, perhaps in
#   several groups.
# - One step uses `accumulate` micro-batches in order; the last step of an epoch uses those that are left. Its gradient
#   is that of the cross entropy averaged over *all samples* of its micro-batches. If `max_norm` is given, the norm of
#   that whole gradient is clipped to it. Each optimizer step is followed by one scheduler step.
# - `steps` is the total: it includes the steps that led to `resume`, the result of an earlier call. If these are
#   already enough, the function only loads `resume`, so the objects and the result are those of the earlier call.
# - Return a dict. `"step"` is the number of steps made. `"losses"` is a list with one float for each step from the very
#   first one on: the mean loss over the step's samples, before its update. Add whatever else you need.
# - **Bit for bit.** `train(steps=4)`, then `train(steps=9, resume=…)` with fresh objects gives the same parameters,
#   buffers (those in the `state_dict`), optimizer state, learning rates, losses and torch random numbers (CPU) as
#   `train(steps=9)` at once. The fresh objects are built like the first ones, but may have other weights. This also
#   holds in the middle of an epoch and with dropout.
# - The result is a snapshot: nothing in it changes when training continues, with the same objects or from it. It
#   survives `torch.save` and a plain `torch.load`, which is `weights_only=True`.
# - The model trains in train mode. Training also works if the caller is in `torch.no_grad()`, and the caller's grad
#   mode is the same afterwards. Parameters that get no gradient (frozen, unused) don't change, and gradients from
#   before the call have no influence.
#
# **Rule.** Run one forward pass and then its backward pass for each micro-batch, and neither for micro-batches of steps
# already made. The check sees what the model runs, but not what a copy of it runs, so please keep to the rule.
#
# In Exercises 12.8 and 12.11 you build this loop again in parts, for a language model.
#
# <details><summary>Hint 1</summary>
#
# By what must you multiply a micro-batch's mean loss so that the sum over the step is the mean over its samples? When
# do you know that number? And which of the five states of section 11.8 must you save here, and which follow from the
# number of steps?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# First cut the list of an epoch into groups. Then you know a group's number of samples before its first backward, and
# you can divide `cross_entropy(…, reduction="sum")` by it. Save the step, the losses, the three state_dicts and
# `torch.get_rng_state()`. The step and the lengths of the epochs tell you where to continue.
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# Deep-copy what you return, and also what you are given, because `optimizer.load_state_dict` keeps the very tensors
# that it gets. Set the random state last. Then walk through the groups of all epochs, and skip as many groups as there
# are losses.
#
# </details>


# %% answer="train-resume"
def train(
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    scheduler: torch.optim.lr_scheduler.LRScheduler,
    batches: Callable[[int], list[tuple[Tensor, Tensor]]],
    *,
    steps: int,
    accumulate: int = 1,
    max_norm: float | None = None,
    resume: dict | None = None,
) -> dict:
    """Train a classifier until `steps` steps have been made in total.

    batches(epoch): a list, not empty, of x (B, …) floating point and y (B,) int64.
    Returns all that is needed to go on from there.
    """
    ### BEGIN SOLUTION
    losses: list[float] = []
    if resume is not None:
        resume = copy.deepcopy(resume)
        losses = resume["losses"]
        model.load_state_dict(resume["model"])
        optimizer.load_state_dict(resume["optimizer"])
        scheduler.load_state_dict(resume["scheduler"])
        torch.set_rng_state(resume["random"])

    def groups() -> Iterable[list[tuple[Tensor, Tensor]]]:
        epoch = 0
        while True:
            parts = batches(epoch)
            for start in range(0, len(parts), accumulate):
                yield parts[start : start + accumulate]
            epoch += 1

    model.train()
    with torch.enable_grad():
        for number, group in enumerate(groups()):
            if len(losses) >= steps:
                break
            if number < len(losses):
                continue
            samples = sum(len(y) for _, y in group)
            mean = 0.0
            optimizer.zero_grad()
            for x, y in group:
                share = F.cross_entropy(model(x), y, reduction="sum") / samples
                share.backward()
                mean += share.item()
            if max_norm is not None:
                nn.utils.clip_grad_norm_(model.parameters(), max_norm)
            optimizer.step()
            scheduler.step()
            losses.append(mean)

    state = {
        "model": model.state_dict(),
        "optimizer": optimizer.state_dict(),
        "scheduler": scheduler.state_dict(),
        "step": len(losses),
        "losses": losses,
        "random": torch.get_rng_state(),
    }
    return copy.deepcopy(state)
    ### END SOLUTION


# %% helpers="train-resume"
def flat(tensors):
    """All numbers of some tensors in one row, exactly."""
    return torch.cat([torch.zeros(0, dtype=torch.float64), *[t.detach().double().flatten() for t in tensors]])


def remembered(optimizer):
    """All numbers that an optimizer remembers of its parameters."""
    states = [optimizer.state.get(p, {}) for group in optimizer.param_groups for p in group["params"]]
    return flat(state[key] for state in states for key in sorted(state) if isinstance(state[key], Tensor))


def generator_now():
    """A number that says where torch's random numbers are."""
    state = torch.get_rng_state().long()
    return (state * torch.arange(1, len(state) + 1)).sum().item()


def built(kind, seed):
    """A model, an optimizer and a scheduler; the seed decides about the weights and the random numbers from then on."""
    noisy = kind not in ("plain", "decay")

    class Net(nn.Module):
        """A small classifier; it notes each forward and each backward."""

        def __init__(self):
            super().__init__()
            self.first, self.last, self.log = nn.Linear(4, 5), nn.Linear(5, 3), []
            self.norm = nn.BatchNorm1d(5) if noisy else nn.Identity()
            self.drop = nn.Dropout(0.5 if noisy else 0.0)
            self.unused = nn.Parameter(torch.ones(2))

        def forward(self, x):
            tag = round(x[0, -1].item() * 64)
            state = flat(self.state_dict().values())
            training = all(module.training for module in self.modules())
            seen = {"tag": tag, "rows": len(x), "state": state, "draws": generator_now(), "training": training}
            seen["frozen"] = flat(p for p in self.parameters() if not p.requires_grad)
            self.log.append({"what": "forward"} | seen)
            out = self.last(self.drop(self.norm(self.first(x)).tanh()))
            if out.requires_grad:
                out.register_hook(lambda _: self.log.append({"what": "backward", "tag": tag}))
            return out

    torch.default_generator.manual_seed(seed)  # torch.manual_seed asks for GPUs, too, which takes a millisecond
    model = Net()
    model.first.requires_grad_(kind != "two rates")
    others = [p for name, p in model.named_parameters() if not name.startswith("first.")]
    groups = [{"params": list(model.first.parameters())}, {"params": others}]
    if kind == "two rates":
        groups[1]["lr"] = 0.5
    if kind in ("adam", "two rates"):
        optimizer = torch.optim.Adam(groups, lr=0.125, foreach=False)
        scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=20)
    elif kind == "warm-up":
        optimizer = torch.optim.Adam(groups, lr=0.125, foreach=False)
        kinds = torch.optim.lr_scheduler
        parts = [kinds.LinearLR(optimizer, 0.25, total_iters=5), kinds.CosineAnnealingLR(optimizer, T_max=20)]
        scheduler = kinds.SequentialLR(optimizer, parts, milestones=[5])
    elif kind == "momentum":
        optimizer = torch.optim.SGD(model.parameters(), lr=0.25, momentum=0.75, foreach=False)
        scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 3, gamma=0.5)
    else:
        decay = 0.25 if kind == "decay" else 0.0
        optimizer = torch.optim.SGD(groups, lr=1.0, weight_decay=decay, foreach=False)
        scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.5)

    def note(optimizer, args, kwargs):
        rates = [float(group["lr"]) for group in optimizer.param_groups]
        model.log.append({"what": "step", "rate": rates[0], "rates": rates, "memory": remembered(optimizer)})

    optimizer.register_step_pre_hook(note)
    return model, optimizer, scheduler


def data(sizes):
    """A function `batches`: micro-batches of these sizes, a list for each epoch; the last column of x is their tag."""

    def batches(epoch):
        found = []
        for number, size in enumerate(sizes[epoch % len(sizes)]):
            tag = 16 * epoch + number
            generator = torch.Generator().manual_seed(100 + tag)
            x = torch.cat([torch.randn(size, 3, generator=generator), torch.full((size, 1), tag / 64)], 1)
            found.append((x, torch.randint(3, (size,), generator=generator)))
        return found

    return batches


def facts_of(run, came):
    """What happened to the parts of a run, and what came back."""
    model, optimizer, scheduler = run
    of = {what: [entry for entry in model.log if entry["what"] == what] for what in ("forward", "step")}
    keys = ("tag", "rows", "state", "draws", "training", "frozen")
    facts = {key: [entry[key] for entry in of["forward"]] for key in keys}
    facts |= {key: [entry[key] for entry in of["step"]] for key in ("rate", "rates", "memory")}
    facts["turns"] = [[entry["what"], entry["tag"]] for entry in model.log if entry["what"] != "step"]
    facts["end"] = [flat(model.state_dict().values()), remembered(optimizer)]
    facts["last rate"] = [float(group["lr"]) for group in optimizer.param_groups] + [scheduler.last_epoch]
    facts["last draw"] = generator_now()
    facts["is dict"] = isinstance(came, dict)
    return facts | {key: copy.copy(came.get(key)) if facts["is dict"] else None for key in ("step", "losses")}


def same(a, b):
    """Whether two results hold the same; what is no tensor, number, text or container is not looked into."""
    if isinstance(a, Tensor) and isinstance(b, Tensor):
        return a.dtype == b.dtype and a.shape == b.shape and torch.equal(a.detach(), b.detach())
    if isinstance(a, dict) and isinstance(b, dict):
        return list(a) == list(b) and all(same(a[key], b[key]) for key in a)
    if isinstance(a, (list, tuple)) and isinstance(b, (list, tuple)):
        return len(a) == len(b) and all(map(same, a, b))
    return a == b if isinstance(a, (int, float, str, bytes, type(None))) else True


def copied(state):
    """A copy of a result; copy.deepcopy refuses tensors that still have a graph."""
    if isinstance(state, Tensor):
        return state.detach().clone()
    if isinstance(state, dict):
        return {key: copied(value) for key, value in state.items()}
    return list(map(copied, state)) if isinstance(state, (list, tuple)) else copy.deepcopy(state)


def numbers_in(state):
    """How many numbers a result holds; a text counts by its length."""
    if isinstance(state, dict):
        return sum(map(numbers_in, state.values()))
    if isinstance(state, (list, tuple)):
        return sum(map(numbers_in, state))
    return state.numel() if isinstance(state, Tensor) else len(state) if isinstance(state, (str, bytes)) else 1


def trained(train, kind, sizes, settings, before=""):
    """Train a small classifier from the start."""
    run = built(kind, 1)
    model = run[0]
    for name, p in model.named_parameters():
        if before == "old gradients, frozen" or (before == "old gradients" and name != "unused"):
            p.grad = torch.full_like(p, 3.0)
    model.first.bias.requires_grad_(before != "old gradients, frozen")
    if before == "eval":
        model.eval()
    idle = [p for name, p in model.named_parameters() if name == "unused" or not p.requires_grad]
    start = flat(idle)
    with torch.set_grad_enabled(before != "no_grad"):
        came = train(*run, data(sizes), **settings)
        grad_mode = torch.is_grad_enabled() == (before != "no_grad")
    facts = facts_of(run, came) | {"grad mode": grad_mode, "start": start}
    return facts | {"still": flat(idle), "weights": flat(model.parameters())}


def resumed(train, kind, sizes, totals, settings, loaded=False):
    """Train until each of these totals, each time with fresh objects from the result before; then once at one go."""
    facts, state = {"pieces": [], "opens": "yes", "live": False, "changed": []}, None
    for number, total in enumerate(totals):
        run = built(kind, number + 1)
        more = {} if state is None else {"resume": state}
        before = copied(state)
        came = train(*run, data(sizes), steps=total, **settings, **more)
        facts["pieces"].append(facts_of(run, came))
        if isinstance(before, dict) and isinstance(state, dict):
            facts["changed"] += [str(key) for key in before if not same(before[key], state.get(key))]
        if not isinstance(came, dict):
            return facts
        if number == 0:
            kept = copied(came)
            model, optimizer, scheduler = run
            x, y = data(sizes)(5)[0]
            F.cross_entropy(model(x), y).backward()
            optimizer.step()
            scheduler.step()
            facts["live"] = not same(kept, came)
        state = came
        if loaded:
            file = io.BytesIO()
            try:
                torch.save(came, file)
                file.seek(0)
                state = torch.load(file, weights_only=True)
            except Exception as error:
                return facts | {"opens": type(error).__name__}
            if numbers_in(state) < len(flat(run[0].parameters())):
                return facts | {"opens": "too small"}
    run = built(kind, 1)
    came = train(*run, data(sizes), steps=max(totals), **settings)
    return facts | {"whole": facts_of(run, came)}


per_step = (
    "losses must have one float per step, the mean over its samples, from the very first step on (even after a resume)."
)
in_turn = (
    "Run one forward and then its backward for each micro-batch, and none for micro-batches of steps already made."
)
not_a_dict = 'Return a dict with "step", "losses" and everything that is needed to continue.'


no_gradient = mistake(
    "A parameter may have no gradient (if it is frozen or unused): {detail}.",
    raises="NoneType' object has no attribute|operand type.*NoneType",
)


def judge_dict(seen, facts, steps):
    """A dict with the number of steps."""
    seen.that(facts["is dict"], not_a_dict, stage="type")
    is_step = type(facts["step"]) is int and facts["step"] == steps
    seen.that(is_step, f'"step" is the number of steps made, an int: {steps} here, and you return {facts["step"]!r}.')


def by_hand(sizes, steps, accumulate, max_norm=None, mean="samples", clip="step", rates=None):
    """Weights and losses of the plain net; a `mean` and a `clip` other than these are misconceptions."""
    model, parts = built("plain", 1)[0], []
    for epoch in range(steps):
        one = data(sizes)(epoch)
        parts += [one[start : start + accumulate] for start in range(0, len(one), accumulate)]
    losses, used = [], [p for p in model.parameters() if p is not model.unused]
    kept = [torch.zeros_like(p) for p in used]

    def limited(grads, clip=clip):
        if clip == "each":
            return [g * min(1.0, max_norm / g.norm().item()) for g in grads]
        if clip in ("groups", "first group"):
            others = grads[2:] if clip == "first group" else limited(grads[2:], "step")
            return [*limited(grads[:2], "step"), *others]
        if clip == "value":
            return [g.clamp(-max_norm, max_norm) for g in grads]
        norm = torch.cat([g.flatten() for g in grads]).norm().item()
        return [g * (max_norm / norm if clip == "always" else min(1.0, max_norm / norm)) for g in grads]

    for group, rate in zip(parts[:steps], rates or [0.5**k for k in range(steps)], strict=True):
        everything = [torch.cat(tensors) for tensors in zip(*group, strict=True)]
        losses.append(F.cross_entropy(model(everything[0]), everything[1]).item())
        if mean in ("samples", "kept") and clip != "parts":
            grads = torch.autograd.grad(F.cross_entropy(model(everything[0]), everything[1]), used)
        else:
            grads = [torch.zeros_like(p) for p in used]
            for x, y in group:
                factor = {"parts": 1 / len(group), "accumulate": 1 / accumulate, "added": 1.0, "sums": len(y)}
                factor = factor.get(mean, len(y) / len(everything[1]))
                new = torch.autograd.grad(F.cross_entropy(model(x), y) * factor, used)
                grads = [a + b for a, b in zip(grads, new, strict=True)]
                grads = limited(grads) if clip == "parts" else grads
        if max_norm is not None and clip not in ("parts", "none"):
            grads = limited(grads)
        if mean == "kept":
            kept = grads = [a + b for a, b in zip(grads, kept, strict=True)]
        with torch.no_grad():
            for p, g in zip(used, grads, strict=True):
                p -= rate * g
    return [flat(model.parameters()), losses]


def near(came, wanted):
    """Whether two rows of numbers agree, up to the rounding of sums in another order."""
    came, wanted = (torch.as_tensor(row, dtype=torch.float64) for row in (came, wanted))
    return came.shape == wanted.shape and torch.allclose(came, wanted, rtol=1e-4, atol=1e-5)


def judge_weights(seen, sizes, steps, accumulate, max_norm, *mistakes):
    """As many steps were made, each along the gradient of all its samples, at the rate that the optimizer had."""
    each_part = mistake(
        "You stepped after each micro-batch, but `accumulate` micro-batches make one step.",
        when=lambda seen: accumulate > 1 and len(seen["rows"]) == number and seen["rows"][0] == sizes[0][0],
    )
    number = len(seen.expecting(*mistakes, no_gradient, each_part)["rate"])
    seen.that(number == steps, f"You made {number} steps of the optimizer, not {steps}.")

    def like(sentence, **ways):
        """A mistake: the weights are those of a misconception."""
        settings = {"sizes": sizes, "steps": steps, "accumulate": accumulate, "max_norm": max_norm}
        settings |= {"rates": seen["rate"]} | ways
        return mistake(sentence, when=lambda seen: near(seen["weights"], by_hand(**settings)[0]))

    means = (
        "You averaged the means of the micro-batches. They have different sizes: weight each by its number of samples."
    )
    added = (
        "You added the gradients of the micro-batches but didn't average them, so with n micro-batches the step "
        "is n times too large."
    )
    sums = (
        "Your gradient is that of the sum over the samples, not of their mean. Divide by the number of samples of "
        "the step."
    )
    kept = "The gradients of earlier steps were added. Clear them before each step."
    named = [like(means, mean="parts"), like(means, mean="accumulate"), like(added, mean="added")]
    named += [like(sums, mean="sums"), like(kept, mean="kept")]
    if max_norm is not None:
        named += [
            like("You didn't clip the gradient (or clipped it after the step, when it is too late).", clip="none"),
            like(
                "You clipped after each micro-batch. Limit the norm of the whole step's gradient, once, just before "
                "the step.",
                clip="parts",
            ),
            like(
                "You clipped each parameter's gradient separately. All of them together are one gradient.", clip="each"
            ),
            like(
                "You clipped the gradient of each of the optimizer's groups separately. All groups together have one "
                "gradient, and its norm is the one to limit: clip the gradients of all parameters in one call.",
                clip="groups",
            ),
            like(
                "You clipped only the gradient of the optimizer's first group. An optimizer may have several groups: "
                "clip the gradients of all parameters in one call.",
                clip="first group",
            ),
            like(
                "You clipped each number of the gradient. Clip its norm, which preserves the direction.", clip="value"
            ),
            like("You changed a gradient whose norm is below max_norm. It must stay the same.", clip="always"),
        ]
    weights = by_hand(sizes, steps, accumulate, max_norm, rates=seen["rate"])[0]
    wrong = "The weights are wrong: each step must use the mean gradient over its own samples."
    seen.that(near(seen["weights"], weights), wrong, *mistakes, *named)


def judge_resumed(seen, totals, *mistakes):
    """The pieces are what the run in one go was, bit for bit."""
    seen.expecting(*mistakes)
    for facts in seen["pieces"]:
        seen.that(facts["is dict"], not_a_dict, stage="type")
    copied = "The state changed while training continued, because it contains the live tensors, not copies."
    seen.that(not seen["live"], copied, stage="aliasing")
    refused = (
        "torch.load(weights_only=True) refuses the state. Keep only tensors, numbers, strings, lists and dicts in it."
    )
    elsewhere = mistake(
        "The state is smaller than the weights, so what it needs is stored elsewhere and lost when this process ends.",
        when=lambda seen: seen["opens"] == "too small",
    )
    seen.that(seen["opens"] == "yes", refused, elsewhere, stage="raised")
    whole, at, made = seen["whole"], 0, 0
    for facts, total in zip(seen["pieces"], totals, strict=True):
        steps, more = len(facts["rate"]), max(total - made, 0)
        additional = f"`steps` is a total. After {made} steps, steps={total} means {more} more."
        seen.that(
            steps == more,
            f"After {made} steps, steps={total} means {more} more, but you made {steps}.",
            *mistakes,
            mistake(additional, when=lambda seen, made=made, steps=steps, total=total: made > 0 and steps == total),
        )
        if facts["tag"] and made:
            place = (
                "After resuming, the data start at the wrong place. The epoch must continue where it stopped, "
                "not start again."
            )
            repeated = mistake(in_turn, when=lambda seen, facts=facts: facts["tag"] == whole["tag"])
            seen.that(facts["tag"] == whole["tag"][at : at + len(facts["tag"])], place, *mistakes, repeated)
            weights = "After resuming, the model doesn't have the weights and buffers of the state."
            only_trainable = mistake(
                "After resuming, the frozen parameters don't have the values of the first run: the fresh model may "
                "have others. Save all parameters, not only those that require grad.",
                when=lambda seen, facts=facts, at=at: not same(facts["frozen"][0], whole["frozen"][at]),
            )
            seen.that(same(facts["state"][0], whole["state"][at]), weights, only_trainable)
            drawn = "After resuming, dropout draws different numbers. Save and restore the random state."
            seen.that(facts["draws"][0] == whole["draws"][at], drawn)
            forgotten = "After resuming, the optimizer or the scheduler has forgotten its state."
            rates, firsts = facts["rates"], whole["rate"][made : made + steps]
            same_rates = rates == whole["rates"][made : made + steps]
            one_rate = mistake(
                "After resuming, all groups of the optimizer have the rate of the first. Save and load the optimizer's "
                "`state_dict`, which contains the rate of each group.",
                when=lambda seen, rates=rates, r=firsts: [set(now) for now in rates] == [{rate} for rate in r],
            )
            at_first = rates[:1] == whole["rates"][made : made + 1] and facts["last rate"][-1] == total
            counted = mistake(
                "After resuming, the scheduler's count is right but its next rate isn't. Some schedulers remember more "
                "than a count, as SequentialLR does: save and load the scheduler's `state_dict`.",
                when=lambda seen, at_first=at_first: at_first,
            )
            known = [] if same_rates else [one_rate, counted]
            same_memory = same(facts["memory"][0], whole["memory"][made])
            seen.that(same_rates and same_memory, forgotten, *mistakes, *known)
        at, made = at + len(facts["tag"]), max(made, total)
        losses, others = facts["losses"], "After resuming, the losses differ from those of the uninterrupted run."
        are_losses = isinstance(losses, list) and isinstance(whole["losses"], list)
        seen.that(are_losses, "The losses must be Python floats, in a list.", stage="type")
        if same(losses, whole["losses"][max(made - len(losses), 0) : made]):
            others = per_step
        seen.that(same(losses, whole["losses"][: len(losses)]), others, *mistakes)
        judge_dict(seen, facts, made)
    for key, what in (
        ("end", "the weights, the buffers or the optimizer's state"),
        ("last rate", "the learning rate or the scheduler's count"),
        ("last draw", "torch's random numbers"),
    ):
        sentence = f"In the end {what} are not bit for bit those of the uninterrupted run."
        seen.that(same(seen["pieces"][-1][key], whole[key]), sentence)


# %% check="train-resume" points=1
"""Accumulation, schedule and clipping: each step uses all its samples."""
with check("train-resume") as test:

    def judge_steps(seen, sizes, steps, accumulate, max_norm):
        """Forward and backward in turn, the next micro-batches, rates, weights, losses."""
        seen.expecting(no_gradient)
        turns = [what for what, _ in seen["turns"]]
        all_graphs = mistake(
            "Run one backward for each micro-batch. A sum of losses keeps the graphs of all micro-batches until "
            "the end, which needs the memory that accumulation should save.",
            when=lambda seen: turns.count("forward") == turns.count("backward"),
        )
        wanted = [[what, tag] for tag in seen["tag"] for what in ("forward", "backward")]
        seen.that(seen["turns"] == wanted, in_turn, all_graphs, stage="rule")
        judge_weights(seen, sizes, steps, accumulate, max_norm)
        tags, groups = [], 0
        for epoch in range(steps):
            of_epoch = [16 * epoch + number for number in range(len(sizes[epoch % len(sizes)]))]
            for start in range(0, len(of_epoch), accumulate):
                groups += 1
                tags += of_epoch[start : start + accumulate] if groups <= steps else []
        others = "Each step must use the next `accumulate` micro-batches of the epoch, and no others."
        together = mistake(
            "You joined the micro-batches into one batch, which needs the memory that accumulation should save.",
            when=lambda seen: seen["rows"][0] > sizes[0][0],
        )
        seen.that(seen["tag"] == tags, others, together)
        rates = [0.5**k for k in range(steps)]
        seen.that(
            near(seen["rate"], rates) and seen["last rate"][-1] == steps,
            "Step the scheduler once per optimizer step, not per epoch or per micro-batch.",
            mistake(
                "Step the scheduler after the optimizer, so that the first step uses the first rate.",
                when=lambda seen: near(seen["rate"], [rate / 2 for rate in rates]),
            ),
        )
        judge_dict(seen, seen.value, steps)
        floats = isinstance(seen["losses"], list) and all(type(loss) is float for loss in seen["losses"])
        tensors = "The losses must be a list of Python floats, because a tensor may keep its graph alive."
        seen.that(floats, tensors, stage="type")
        seen.that(near(seen["losses"], by_hand(sizes, steps, accumulate, max_norm)[1]), per_step)

    test("two micro-batches, of 5 samples and of 1, make one step")
    seen = observe_scenario(trained, train, "plain", [[5, 1]], {"steps": 1, "accumulate": 2})
    judge_steps(seen, [[5, 1]], 1, 2, None)

    test("four steps of two micro-batches each, two steps in each epoch: the schedule")
    sizes = [[4, 1, 2, 5], [3, 6, 1, 2]]
    seen = observe_scenario(trained, train, "plain", sizes, {"steps": 4, "accumulate": 2})
    judge_steps(seen, sizes, 4, 2, None)

    test("the same with a limit of 0.125 for the norm of the gradient")
    seen = observe_scenario(trained, train, "plain", sizes, {"steps": 4, "accumulate": 2, "max_norm": 0.125})
    judge_steps(seen, sizes, 4, 2, 0.125)

    ### BEGIN HIDDEN TESTS
    test.hidden("no accumulation; a limit that is not reached")
    seen = observe_scenario(trained, train, "plain", sizes, {"steps": 3})
    judge_steps(seen, sizes, 3, 1, None)
    seen = observe_scenario(trained, train, "plain", [[2, 4, 1]], {"steps": 2, "accumulate": 3, "max_norm": 50.0})
    judge_steps(seen, [[2, 4, 1]], 2, 3, 50.0)

    test.hidden("a limit of zero")
    zero = "A max_norm of 0 is also a limit. Check whether max_norm is None."
    seen = observe_scenario(trained, train, "plain", [[5, 1]], {"steps": 1, "accumulate": 2, "max_norm": 0.0})
    seen.expecting(no_gradient)
    seen.that(seen["weights"].isfinite().all().item(), "With a limit of 0 the weights became nan or inf.")
    judge_weights(seen, [[5, 1]], 1, 2, 0.0, mistake(zero, when=lambda seen: True))
    ### END HIDDEN TESTS


# %% check="train-resume" points=1
"""Four steps, then five more with fresh objects, equal nine steps at once, bit for bit."""
with check("train-resume") as test:
    sizes = [[3, 2, 4, 2, 3, 2], [2, 5, 2, 3, 4, 2]]
    test("four steps, then five more with fresh objects: as nine at once")
    seen = observe_scenario(resumed, train, "momentum", sizes, [4, 9], {"accumulate": 2})
    judge_resumed(seen, [4, 9])

    ### BEGIN HIDDEN TESTS
    test.hidden("with Adam and a warm-up, at the end of an epoch")
    seen = observe_scenario(resumed, train, "warm-up", sizes, [3, 5], {"accumulate": 2})
    judge_resumed(seen, [3, 5])

    test.hidden("with two groups at two rates, one of them frozen, stopped twice")
    seen = observe_scenario(resumed, train, "two rates", sizes, [2, 5, 7], {"accumulate": 2})
    judge_resumed(seen, [2, 5, 7])
    ### END HIDDEN TESTS


# %% check="train-resume" points=1
"""Incomplete groups, files, a total that is already reached, old gradients, modes."""
with check("train-resume") as test:
    begin = mistake(
        "This check builds on the first two, which don't pass yet. Fix those first.",
        when=lambda seen: True,
    )
    sizes = [[3, 2, 4, 2], [2, 5, 2, 3]]
    test("the cases of the first two checks")
    seen = observe_scenario(trained, train, "plain", [[5, 1]], {"steps": 1, "accumulate": 2})
    judge_weights(seen, [[5, 1]], 1, 2, None, begin)
    seen = observe_scenario(resumed, train, "momentum", sizes, [1, 3], {"accumulate": 2})
    judge_resumed(seen, [1, 3], begin)

    ### BEGIN HIDDEN TESTS
    test.hidden("the last step of an epoch has fewer micro-batches")
    left_over = mistake(
        "The last step of an epoch has fewer micro-batches. Don't drop them or carry them into the next epoch, "
        "and divide by the number of samples that are really there.",
        when=lambda seen: True,
    )
    for uneven, accumulate, steps in (([[2, 4, 1], [3, 1, 2, 1]], 2, 4), ([[4, 1], [2]], 5, 3)):
        seen = observe_scenario(trained, train, "plain", uneven, {"steps": steps, "accumulate": accumulate})
        judge_weights(seen, uneven, steps, accumulate, None, left_over)

    test.hidden("through a file; epochs of different length")
    uneven = [[3, 2, 4], [2, 3], [2, 4, 2, 3, 2]]
    from_file = observe_scenario(resumed, train, "momentum", uneven, [2, 4, 7], {"accumulate": 2}, True)
    judge_resumed(from_file, [2, 4, 7])

    test.hidden("a state stays as it is when training goes on from it")
    in_memory = observe_scenario(resumed, train, "adam", sizes, [2, 4], {"accumulate": 2})
    judge_resumed(in_memory, [2, 4])
    for seen in (from_file, in_memory):
        seen.that(
            not seen["changed"],
            "Resuming from a state changed the state, because optimizer.load_state_dict keeps the very tensors "
            "that it gets. Load a copy.",
            mistake(
                "Resuming from a state changed its list of losses. Append to a copy.",
                when=lambda seen: set(seen["changed"]) == {"losses"},
            ),
            stage="arguments",
        )

    test.hidden("a total that is reached already; no step at all")
    reached = (
        "The total is already reached, so nothing may be trained, and everything must be as the earlier call left it."
    )
    more = mistake(reached, when=lambda seen: not seen.noted.raised)
    failed = mistake(reached[:-1] + " ({detail}).", stage="raised")
    for totals in ([0, 3, 3], [3, 2]):
        seen = observe_scenario(resumed, train, "momentum", sizes, totals, {"accumulate": 2})
        judge_resumed(seen, totals, more, failed)

    test.hidden("gradients from before the call; parameters that get none")

    def alone(frozen):
        """The weights after two steps by hand, from fresh gradients, at these rates."""
        model = built("decay", 1)[0]
        used = [p for n, p in model.named_parameters() if n != "unused" and not (frozen and n == "first.bias")]
        for rate, (x, y) in zip(seen["rate"], data([[3, 2]])(0), strict=False):
            grads = torch.autograd.grad(F.cross_entropy(model(x), y), used)
            with torch.no_grad():
                for p, g in zip(used, grads, strict=True):
                    p -= rate * (g + 0.25 * p)
        return flat(model.parameters())

    moved = (
        "A parameter that gets no gradient has changed. With a gradient of zeros or an old gradient it still "
        "decays, so its gradient must be None."
    )
    for before in ("", "old gradients", "old gradients, frozen"):
        seen = observe_scenario(trained, train, "decay", [[3, 2]], {"steps": 2, "accumulate": 1}, before)
        seen.that(same(seen["start"], seen["still"]), moved)
        old = "Gradients from before the call were added to the first step."
        seen.that(not before or near(seen["weights"], alone("frozen" in before)), old)

    test.hidden("a model that comes in eval mode")
    for settings in ({"steps": 1, "accumulate": 2}, {"steps": 3, "accumulate": 2}):
        seen = observe_scenario(trained, train, "momentum", sizes, settings, "eval")
        mode = all(seen["training"]) and len(seen["training"]) > 0
        seen.that(mode, "The model must train in training mode.", stage="rule")

    test.hidden("in the caller's no_grad, and the grad mode afterwards")
    grad_mode = "Under the caller's no_grad your code couldn't train, or it changed the grad mode."
    seen = observe_scenario(trained, train, "plain", [[5, 1]], {"steps": 1, "accumulate": 2}, "no_grad")
    judge_weights(seen, [[5, 1]], 1, 2, None, mistake(grad_mode, when=lambda seen: True))
    seen.that(seen["grad mode"], grad_mode, stage="rule")
    seen = observe_scenario(trained, train, "plain", [[5, 1]], {"steps": 1, "accumulate": 2})
    seen.that(seen["grad mode"], grad_mode, stage="rule")
    ### END HIDDEN TESTS
