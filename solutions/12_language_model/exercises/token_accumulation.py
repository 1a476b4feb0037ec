# %% [markdown]
# ### Exercise 12.8 · Small batches that equal a large one
#
# fix · long · 20 min · 2 points
#
# This step runs, and the loss falls, but it isn't the step of the large batch. Fix `train_step`. You know its parts
# from chapters 8 and 11.
#
# **Contract**
#
# - `micro` is a list of pairs (ids, targets), each (B, T), possibly of different sizes. A target of -100 doesn't count,
#   and a micro-batch may have no target that counts.
# - Make one optimizer step, the same as for all micro-batches in one batch: the loss is the mean over *all* targets
#   that count, whichever micro-batch they are in. Gradients from before the call don't count.
# - The forward pass runs under bfloat16 autocast, one micro-batch at a time, and its backward pass comes before the
#   next micro-batch's forward pass. The loss is computed in float32. Weights and gradients stay float32.
# - The finished gradient is clipped once, to the norm `clip`. If its norm (in float32 or better) is inf or nan, and
#   only then, there is no step: weights and optimizer state don't change, and the gradients are cleared.
# - Return two Python floats: the mean loss, and the norm before clipping. `micro` and its tensors are not changed.
# - If there is no target at all, or no micro-batch, raise ValueError before anything changes.
#
# <details><summary>Hint 1</summary>
#
# One micro-batch has 5 targets, the other has 24. How much does each target count in the mean of their means? Is a
# clipped sum the sum of clipped parts?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# Count the targets of all micro-batches before the loop. With `reduction="sum"`, divided by that count, each
# micro-batch adds exactly its part to the loss and gradient. What belongs in the loop, and what before or after it?
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# Before the loop, count, raise if the count is 0, and clear the gradients. In the loop, only the model runs under
# autocast; the loss of its logits is computed outside, in float32, as a sum divided by the count. After the loop, clip
# once, and step only if the norm is finite.
#
# </details>


# %% answer="token-accumulation"
def train_step(
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    micro: list[tuple[Tensor, Tensor]],
    clip: float,
) -> tuple[float, float]:
    """One step on micro-batches (ids, targets), each (B, T) int64.

    Returns the mean loss and the norm before clipping.
    """
    ### BEGIN SOLUTION
    count = sum((targets != -100).sum().item() for _, targets in micro)
    if not count:
        raise ValueError("there is no target")
    optimizer.zero_grad()
    total = 0.0
    for ids, targets in micro:
        with torch.autocast("cpu", torch.bfloat16):
            logits = model(ids)
        logits = logits.float().flatten(0, 1)
        loss = F.cross_entropy(logits, targets.flatten(), reduction="sum") / count
        loss.backward()
        total += loss.item()
    norm = nn.utils.clip_grad_norm_(model.parameters(), clip).item()
    if math.isfinite(norm):
        optimizer.step()
    else:
        optimizer.zero_grad()
    return total, norm
    ### END SOLUTION
    ### BEGIN GIVEN
    # raise NotImplementedError  # fix the code below, then delete this line
    # for ids, targets in micro:
    #     with torch.autocast("cpu", torch.bfloat16):
    #         logits = model(ids)
    #         loss = F.cross_entropy(logits.flatten(0, 1), targets.flatten()) / len(micro)
    #     loss.backward()
    #     norm = nn.utils.clip_grad_norm_(model.parameters(), clip)
    # optimizer.step()
    # return loss.item(), norm.item()
    ### END GIVEN


# %% helpers="token-accumulation"
class Notes(list):
    """A list that a copy of its owner shares."""

    def __deepcopy__(self, memo):
        return self


class Bigrams(nn.Module):
    """An embedding and a head with fixed weights; notes how it is run. The id 6 makes logits that are inf or nan."""

    def __init__(self):
        super().__init__()
        self.emb, self.head, self.runs, self.graphs = nn.Embedding(7, 8), nn.Linear(8, 7), [], Notes()
        with torch.no_grad():
            for shift, p in enumerate(self.parameters()):
                p.copy_((torch.arange(p.numel()) * 29 % 37 / 15 + shift / 16 - 1.2).reshape(p.shape))
            self.emb.weight[6] = 3e38

    def forward(self, ids):
        alive = sum(not one.expired() for one in self.graphs)  # graphs of earlier runs that no backward has freed
        out = self.head(self.emb(ids))
        low = torch.is_autocast_enabled("cpu") and out.dtype == torch.bfloat16
        self.runs.append({"low": low, "rows": len(ids), "dtype": str(self.head.weight.dtype), "alive": alive})
        one = torch.ones(())  # this graph keeps it for backward
        self.graphs.append(torch.multiprocessing.reductions.StorageWeakRef(one.untyped_storage()))
        return out * one


class LowLosses(torch.utils._python_dispatch.TorchDispatchMode):
    """Notes operations of a loss that get bfloat16 numbers."""

    def __init__(self):
        super().__init__()
        self.found = []

    @classmethod
    def _should_skip_dynamo(cls):
        return False

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        name = func._schema.name.split("::")[-1]
        of_loss = name in ("_log_softmax", "_softmax", "logsumexp", "exp", "log", "nll_loss_forward")
        if of_loss and isinstance(args[0], Tensor) and args[0].dtype == torch.bfloat16:
            self.found.append(name)
        return func(*args, **(kwargs or {}))


def texts(sizes, broken=False):
    """Micro-batches of sizes (rows, length, targets that count); the other targets, at the ends of rows, are -100."""
    pairs = []
    for k, (rows, length, count) in enumerate(sizes):
        ids = (torch.arange(rows * length) * (k + 5) // 3 % 6).reshape(rows, length)
        targets = (torch.arange(rows * length) * (2 * k + 3) // 2 % 7).reshape(rows, length)
        counted = torch.arange(rows * length).reshape(length, rows).t() < count
        pairs.append((ids.where(ids != 4, 6) if broken else ids, targets.where(counted, -100).contiguous()))
    return pairs


def stepped(train_step, sizes, clip, old_gradients, calls):
    """Call `train_step` with micro-batches of these sizes (rows, length, targets that count); note what has changed."""
    model, low_losses, facts, made = Bigrams(), LowLosses(), [], []
    model.runs = Notes()
    groups = [{"params": part.parameters()} for part in (model.emb, model.head)]
    optimizer = torch.optim.SGD(groups, lr=0.5, momentum=0.9)
    optimizer.register_step_pre_hook(lambda *args: made.append(1))
    for p in model.parameters():
        p.grad = None if old_gradients is None else torch.full_like(p, old_gradients)
    for call in calls:
        if call == "inf":  # the loss is finite then, and its gradient is not
            model.head.weight.register_hook(lambda gradient: torch.full_like(gradient, math.inf))
        if call == "spike":  # the summed loss is inf then, and its gradient is large and finite
            model.head.bias.data[3] = -3e38
            model.head.weight.register_hook(lambda gradient: 1e6 * gradient)
        before = [p.detach().clone() for p in model.parameters()]
        state = copy.deepcopy(optimizer.state_dict()["state"])
        model.runs.clear()
        made.clear()
        micro, kept = (texts(sizes, call == "nan") for _ in range(2))
        raised, came = "nothing", None
        try:
            with low_losses:
                came = train_step(model, optimizer, micro, clip)
        except ValueError as error:
            raised = str(error)
        given, unchanged = ([t for pair in pairs for t in pair] for pairs in (micro, kept))
        is_pair = isinstance(came, (tuple, list)) and len(came) == 2
        now = optimizer.state_dict()["state"]
        grads = [p.grad for p in model.parameters()]
        facts.append(
            {
                "raised": raised,
                "types": [type(value).__name__ for value in came] if is_pair else [],
                "values": [float(value) for value in came] if is_pair else [],
                "runs": list(model.runs),
                "low losses": sorted(set(low_losses.found)),
                "steps": len(made),
                "same texts": len(given) == len(unchanged) and all(map(torch.equal, given, unchanged)),
                "dtypes": sorted({str(t.dtype) for t in (*model.parameters(), *grads) if t is not None}),
                "step": torch.cat(
                    [(p - b).flatten() for p, b in zip(model.parameters(), before, strict=True)]
                ).detach(),
                "same state": now.keys() == state.keys()
                and all(torch.equal(now[k]["momentum_buffer"], state[k]["momentum_buffer"]) for k in state),
                "left": [None if g is None else [g.min().item(), g.max().item()] for g in grads],
            }
        )
    return facts


def in_one(pairs):
    """Mean loss and gradient of all micro-batches in one, their positions laid in a row."""
    model = Bigrams()
    ids, targets = (torch.cat([one.flatten() for one in part]) for part in zip(*pairs, strict=True))
    with torch.autocast("cpu", torch.bfloat16):
        logits = model(ids[None])[0]
    loss = F.cross_entropy(logits.float(), targets)
    return loss.item(), torch.cat([g.flatten() for g in torch.autograd.grad(loss, [*model.parameters()])])


def alike(a, b, tolerance=0.01):
    """Whether two numbers or gradients agree to one per cent."""
    a, b = torch.as_tensor(a), torch.as_tensor(b)
    return bool((a - b).norm() <= tolerance * b.norm())


def judge_form(seen, fact, micro, may_end=False):
    """Two floats came, from forward passes in bfloat16 and a loss in float32; `may_end` after any of the passes."""
    seen.that(fact["raised"] == "nothing", f"This raised ValueError: {fact['raised']}.", stage="raised")
    kinds = "Return two Python floats, the mean loss and the norm before clipping."
    seen.that(fact["types"] == ["float", "float"], kinds, stage="type")
    half = any(run["dtype"] != "torch.float32" for run in fact["runs"]) or fact["dtypes"] != ["torch.float32"]
    seen.that(
        not half,
        "Weights and gradients must always be float32. autocast casts copies, but .bfloat16() casts the weights "
        "themselves.",
        stage="dtype",
    )
    low = [run["low"] for run in fact["runs"]]
    seen.that(bool(low) and all(low), "The forward pass did not run under bfloat16 autocast.", stage="rule")
    rows = [len(ids) for ids, _ in micro]
    with_target = [len(ids) for ids, targets in micro if bool((targets != -100).any())]
    ran = sorted(run["rows"] for run in fact["runs"])
    seen.that(
        max(ran) <= max(rows),
        "Run the model once for each micro-batch, because all of them at once don't fit into memory.",
        stage="rule",
    )
    ends = range(1 if may_end else len(rows), len(rows) + 1)
    seen.that(
        any(ran in (sorted(rows[:end]), sorted(with_target[:end])) for end in ends),
        f"For {len(micro)} micro-batches, the number of your forward passes was {len(ran)}. Run the model exactly once "
        "on each micro-batch that has targets.",
        stage="rule",
    )
    alive = max(run["alive"] for run in fact["runs"])
    seen.that(
        alive < 2,
        f"When the model ran on the last of {len(fact['runs'])} micro-batches, the graphs of {alive} earlier ones were "
        "still in memory. Run backward on the loss of each micro-batch before the next one's forward pass. It frees "
        "the graph, and the gradients add up in `.grad`.",
        stage="rule",
    )
    seen.that(
        not fact["low losses"],
        "You computed the loss from bfloat16 logits. Leave autocast and call .float() first.",
        stage="rule",
    )


def judge_step(seen, fact, micro, clip, *mistakes):
    """Loss, norm and the first step of SGD are those of all micro-batches in one."""
    judge_form(seen, fact, micro)
    loss, gradient = in_one(micro)
    norm = gradient.norm().item()
    seen.that(alike(fact["values"][0], loss), "The loss is not the mean over all targets.", *mistakes)
    seen.that(
        alike(fact["values"][1], norm), "The norm you return is not that of the gradient of this mean.", *mistakes
    )
    step = -0.5 * gradient * min(1.0, clip / norm)
    seen.that(
        alike(fact["step"], step), "The step differs from the step with all micro-batches in one batch.", *mistakes
    )


# %% check="token-accumulation" points=1
"""The step of all micro-batches in one; clipped once; old gradients don't count."""
with check("token-accumulation") as test:
    sizes = [(2, 6, 5), (4, 6, 24)]
    micro = texts(sizes)
    (few, of_few), (many, of_many) = (in_one([one]) for one in micro)
    loss, gradient = in_one(micro)
    norm = gradient.norm().item()

    def loss_is(*wrong):
        """Whether the loss that was returned is one of these."""
        return lambda seen: any(alike(seen.value[0]["values"][0], value, 1e-3) for value in wrong)

    def norm_is(*wrong):
        """Whether the norm that was returned is one of these, or the norm of one of these gradients."""
        norms = [torch.as_tensor(value).norm().item() for value in wrong]
        return lambda seen: any(alike(seen.value[0]["values"][1], value) for value in norms)

    def step_is(*wrong):
        """Whether the step is that of one of these gradients, not clipped."""
        return lambda seen: any(alike(seen.value[0]["step"], -0.5 * value) for value in wrong)

    def one_of(*conditions):
        """Whether one of the conditions holds."""
        return lambda seen: any(condition(seen) for condition in conditions)

    test("two micro-batches, with 5 and with 24 targets; nothing is clipped")
    first_group = mistake(
        "You return the norm of the optimizer's first group of parameters. It must be the norm over all groups, "
        "and one factor must scale all gradients.",
        when=norm_is(gradient[: 7 * 8]),
    )
    means = (of_few + of_many) / 2
    seen = observe_scenario(stepped, train_step, sizes, 1e3, None, ["good"])
    judge_step(
        seen,
        seen.value[0],
        micro,
        1e3,
        mistake(
            "Make exactly one optimizer step, after the last micro-batch.",
            when=lambda seen: seen.value[0]["steps"] != 1,
        ),
        mistake(
            "Return the mean over all targets, not the last micro-batch's loss.",
            when=loss_is(many, many / 2, many * 24 / 29),
        ),
        mistake(
            "Every micro-batch counts the same, however many targets it has. Divide summed losses by the number "
            "of targets of ALL micro-batches.",
            when=one_of(loss_is((few + many) / 2), norm_is(means), step_is(means)),
        ),
        mistake(
            "Your gradient is that of the sum. Divide by the number of targets.",
            when=one_of(loss_is(29 * loss, 29 / 2 * loss), norm_is(29 * gradient, 29 / 2 * gradient)),
        ),
        mistake(
            "You add up the means of the micro-batches. Each must count in proportion to its targets.",
            when=one_of(loss_is(few + many), norm_is(2 * means)),
        ),
        mistake(
            "Targets of -100 don't count. Divide by the number of the other targets, not by the number of all "
            "positions.",
            when=one_of(loss_is(loss * 29 / 36), norm_is(gradient * 29 / 36)),
        ),
        first_group,
    )

    test("the gradient is clipped, once, and the norm is that before clipping")
    seen = observe_scenario(stepped, train_step, sizes, 0.05, None, ["good"])
    part = of_few * 5 / 29
    each = part * (0.05 / part.norm()) + of_many * 24 / 29
    judge_step(
        seen,
        seen.value[0],
        micro,
        0.05,
        mistake("Return the norm before clipping.", when=norm_is(0.05)),
        mistake(
            "You clip after every micro-batch, so the gradients of earlier micro-batches are clipped again and "
            "again. Clip once, at the end.",
            when=one_of(norm_is(each), step_is(each * (0.05 / each.norm()))),
        ),
        mistake(
            "You clipped each element separately, which changes the gradient's direction. Clip its norm.",
            when=step_is(gradient.clamp(-0.05, 0.05)),
        ),
        mistake("The step used a gradient that was not clipped.", when=step_is(gradient)),
    )

    test("gradients left over from before the call")
    seen = observe_scenario(stepped, train_step, sizes, 1e3, 0.75, ["good"])
    judge_step(
        seen,
        seen.value[0],
        micro,
        1e3,
        mistake("Gradients from before the call were added.", when=norm_is(gradient + 0.75)),
    )


# %% check="token-accumulation" points=1
"""Micro-batches without targets, of different lengths; no target at all; a norm that is not finite."""
with check("token-accumulation") as test:
    test("two micro-batches, with 5 and with 24 targets; nothing is clipped (here this must be right, too)")
    sizes = [(2, 6, 5), (4, 6, 24)]
    seen = observe_scenario(stepped, train_step, sizes, 1e3, None, ["good"]).expecting(FIRST_CHECK_FIRST)
    judge_step(seen, seen.value[0], texts(sizes), 1e3)

    ### BEGIN HIDDEN TESTS
    empty_batch = mistake(
        "A micro-batch without any target gives 0/0 = nan, and then everything is nan.",
        when=lambda seen: math.isnan(seen.value[0]["values"][0]) or math.isnan(seen.value[0]["values"][1]),
    )
    for idea, sizes in (
        ("a micro-batch without targets", [(3, 6, 0), (2, 6, 5), (1, 6, 0), (4, 6, 20)]),
        ("texts of different length", [(2, 4, 7), (3, 9, 14), (1, 2, 1)]),
        ("a single micro-batch", [(2, 6, 8)]),
    ):
        test.hidden(idea)
        seen = observe_scenario(stepped, train_step, sizes, 1e3, None, ["good"])
        judge_step(seen, seen.value[0], texts(sizes), 1e3, empty_batch)
        seen.that(
            seen.value[0]["same texts"],
            "You changed the list `micro` or its tensors. The caller may need them again, so leave them as they are.",
            stage="arguments",
        )

    no_target = "If there is no target at all, raise ValueError before anything changes."
    for idea, sizes in (("no target at all", [(2, 6, 0), (1, 6, 0)]), ("no micro-batch", [])):
        test.hidden(idea)
        seen = observe_scenario(stepped, train_step, sizes, 1e3, 0.75, ["good"])
        seen.expecting(mistake(no_target, stage="raised"))
        (fact,) = seen.value
        unchanged = not fact["step"].any() and fact["same state"] and fact["left"] == [[0.75, 0.75]] * 3
        seen.that(fact["raised"] != "nothing" and unchanged, no_target)

    sizes = [(2, 6, 5), (4, 6, 24)]
    for kind in ("nan", "inf"):
        test.hidden(f"a norm that is {kind}, after a step that is right")
        seen = observe_scenario(stepped, train_step, sizes, 1e3, None, ["good", kind])
        fact = seen.value[1]
        judge_form(seen, fact, texts(sizes), may_end=kind == "nan")
        if kind == "nan":
            seen.that(not math.isfinite(fact["values"][1]), "The norm is not finite here. Return it unchanged.")
        seen.that(
            not fact["step"].any() and fact["same state"],
            "The norm was not finite, but you took a step or changed the optimizer's state. Check "
            "math.isfinite(norm), which is False for inf and nan, and check the norm, not the loss.",
        )
        cleared = all(own in (None, [0.0, 0.0]) for own in fact["left"])
        seen.that(cleared, "If the step is skipped, the gradients must be cleared.", stage="gradient")

    test.hidden("a loss that is inf, with a norm that is large, but finite")
    seen = observe_scenario(stepped, train_step, sizes, 1e3, None, ["spike"])
    (fact,) = seen.value
    judge_form(seen, fact, texts(sizes))
    seen.that(
        bool(fact["step"].any()),
        "You made no step, though the norm of the gradient was finite. Only a norm of inf or nan prevents the step, "
        "whatever the loss is and however large the norm is.",
    )
    ### END HIDDEN TESTS
