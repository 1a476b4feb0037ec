# %% [markdown]
# ### Exercise 8.10 · Write your own GradScaler
#
# implement · long · 35 min · 3 points
#
# `torch.amp.GradScaler` is simpler than it looks: a number, a counter and a note per optimizer. Write it.
#
# **Contract**
#
# - For a float32 loss the numbers are those of `torch.amp.GradScaler`, up to rounding.
# - `scale(loss)` returns the loss times the scale. It keeps the graph and does not change `loss`.
# - `unscale_(optimizer)` divides that optimizer's gradients in place, once. Parameters without a gradient are ignored.
#   Until `update`, a second call raises RuntimeError, and so do a call after `step` and a second `step`.
# - `step(optimizer)` unscales if that has not happened. Then it calls `optimizer.step()` unless any of ITS gradients
#   was inf or nan when they were unscaled, whatever they are now; a large finite gradient is no reason to skip. It
#   returns True if the optimizer stepped and False if it was skipped.
# - `update()` is called once per iteration, after the steps. If any optimizer met an inf or nan in this iteration, the
#   scale is multiplied by `backoff_factor` and the count of good iterations restarts. Otherwise the count grows by one;
#   after `growth_interval` good iterations in a row the scale is multiplied by `growth_factor` and the count restarts.
# - `state_dict()` returns a new dict of plain numbers. `load_state_dict` continues from its scale and count, and leaves
#   the dict as it is.
# - What is up to you: what `update` returns, whether the settings are in the state, and what happens when the scale, or
#   a gradient that is divided by it, leaves the range of float32.
#
# **Rule.** `torch.amp.GradScaler`, `torch.cuda.amp` and the functions `torch._amp_*` are not used.
#
# <details><summary>Hint 1</summary>
#
# What do you have to remember between `unscale_` and `step`, per optimizer, and what between iterations?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# For one iteration, remember which optimizers are already unscaled, whether one of their gradients was bad, and which
# have stepped. Across iterations, remember only the scale and the number of good iterations in a row. What must
# `update` forget?
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# A dict from the optimizer to whether it met an inf serves two purposes: that an optimizer is in it also says that it
# is already unscaled. You also need a set of the optimizers that have stepped, and the count of good iterations.
# `update()` looks at the dict, changes scale and count, then clears what belongs to the iteration.
#
# </details>


# %% answer="scaler-by-hand"
class LossScaler:
    """Loss scaling for float16: scales losses, unscales gradients, skips bad steps, adapts."""

    ### BEGIN SOLUTION
    def __init__(
        self,
        init_scale: float = 65536.0,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
    ):
        self._scale, self._good = init_scale, 0
        self._growth, self._backoff, self._interval = growth_factor, backoff_factor, growth_interval
        self._found_inf: dict[Optimizer, bool] = {}  # of those that are unscaled in this iteration
        self._stepped: set[Optimizer] = set()

    def scale(self, loss: Tensor) -> Tensor:
        return loss * self._scale

    def unscale_(self, optimizer: Optimizer) -> None:
        if optimizer in self._found_inf:
            raise RuntimeError("these gradients are unscaled already; call update() first")
        params = [p for group in optimizer.param_groups for p in group["params"]]
        grads = [p.grad for p in params if p.grad is not None]
        for grad in grads:
            grad.div_(self._scale)
        self._found_inf[optimizer] = not all(grad.isfinite().all() for grad in grads)

    def step(self, optimizer: Optimizer) -> bool:
        if optimizer in self._stepped:
            raise RuntimeError("this optimizer has stepped already; call update() first")
        if optimizer not in self._found_inf:
            self.unscale_(optimizer)
        self._stepped.add(optimizer)
        if self._found_inf[optimizer]:
            return False
        optimizer.step()
        return True

    def update(self) -> None:
        if any(self._found_inf.values()):
            self._scale, self._good = self._scale * self._backoff, 0
        else:
            self._good += 1
            if self._good == self._interval:
                self._scale, self._good = self._scale * self._growth, 0
        self._found_inf.clear()
        self._stepped.clear()

    def get_scale(self) -> float:
        return self._scale

    def state_dict(self) -> dict[str, float]:
        return {"scale": self._scale, "good": self._good}

    def load_state_dict(self, state: dict[str, float]) -> None:
        self._scale, self._good = state["scale"], state["good"]

    ### END SOLUTION
    ### BEGIN GIVEN
    # def __init__(
    #     self,
    #     init_scale=65536.0,
    #     growth_factor=2.0,
    #     backoff_factor=0.5,
    #     growth_interval=2000,
    # ):
    #     raise NotImplementedError  # your code here
    #
    # def scale(self, loss: Tensor) -> Tensor: ...
    # def unscale_(self, optimizer: Optimizer) -> None: ...
    # def step(self, optimizer: Optimizer) -> bool: ...  # True if the optimizer really stepped
    # def update(self) -> None: ...
    # def get_scale(self) -> float: ...
    # def state_dict(self) -> dict: ...
    # def load_state_dict(self, state: dict) -> None: ...
    ### END GIVEN


# %% helpers="scaler-by-hand"
class PlainSGD(Optimizer):
    """SGD and nothing else: weights minus a quarter of the gradient. Two groups, three parameters."""

    def __init__(self):
        values = [[1.0, -2.0], [0.5], [4.0, 3.0, -1.0]]
        self.weights = [nn.Parameter(torch.tensor(v)) for v in values]
        super().__init__([{"params": self.weights[:1]}, {"params": self.weights[1:]}], {})
        self.steps = 0

    def add_param_group(self, group):
        self.param_groups.append(group)

    def zero_grad(self, set_to_none=True):
        for p in self.weights:
            p.grad = None

    def step(self, closure=None):
        self.steps += 1
        with torch.no_grad():
            for p in self.weights:
                if p.grad is not None:
                    p -= 0.25 * p.grad


def numbers(tensors):
    """The numbers of some tensors in one list; None for a missing one."""
    return [None if t is None else t.detach().tolist() for t in tensors]


def told(LossScaler, settings, story):
    """Do what the story says, command by command: [outcome, scale] after each, and what was noted on the way. made: how
    many steps the optimizer made in each call of unscale_ or step.
    """
    scaler = LossScaler(*settings) if isinstance(settings, list) else LossScaler(**settings)
    optimizers = [PlainSGD(), PlainSGD()]
    facts = {"log": [], "notes": [], "scaled": [], "made": [], "replaced": False, "kinds": [], "state": None}
    facts["live"] = facts["adopted"] = False
    held = [scaler, *getattr(scaler, "__dict__", {}).values()]
    facts["library"] = any(isinstance(v, torch.amp.GradScaler) for v in held)
    for command, *rest in story:
        outcome = None
        optimizer = optimizers[rest[0]] if rest and command != "restart" else None
        if command == "begin":
            for each in optimizers:
                each.zero_grad()
        elif command == "backward":  # so the gradients are these numbers times the scale
            pairs = zip(optimizer.weights, rest[1], strict=True)
            loss = sum(w @ torch.tensor(c) for w, c in pairs if c is not None)
            before = loss.detach().clone()
            scaled = scaler.scale(loss)
            tracked = isinstance(scaled, Tensor) and scaled.requires_grad
            same = torch.equal(before, loss.detach()) or bool(before.isnan())
            value = scaled.item() if isinstance(scaled, Tensor) and scaled.numel() == 1 else None
            facts["scaled"].append([type(scaled).__name__, tracked, same, value])
            if tracked:
                scaled.backward()
                facts["scaled"][-1][1] = any(p.grad is not None for p in optimizer.weights)
        elif command in ("unscale_", "step"):
            held, steps = [p.grad for p in optimizer.weights], optimizer.steps
            try:
                given = getattr(scaler, command)(optimizer)
                outcome = given if command == "step" else None
            except NotImplementedError:
                raise
            except RuntimeError as error:
                outcome = "raised" if type(error) is RuntimeError else type(error).__name__
            facts["made"].append(optimizer.steps - steps)
            if any(p.grad is not grad for p, grad in zip(optimizer.weights, held, strict=True)):
                facts["replaced"] = True
        elif command == "repair":  # what some training loops do with an inf or nan
            for p in optimizer.weights:
                p.grad.nan_to_num_(nan=0.0, posinf=0.0, neginf=0.0)
        elif command == "spoil":  # as clipping by a norm of inf or nan does
            optimizer.weights[2].grad[1] = math.nan
        elif command == "update":
            scaler.update()
        elif command == "save":
            facts["state"] = scaler.state_dict()
            if not isinstance(facts["state"], dict):
                break
            saved = dict(facts["state"])
        elif command == "restart":
            facts["live"] = facts["state"] != saved
            scaler = LossScaler(**rest[0])
            scaler.load_state_dict(facts["state"])
        elif command == "note":
            facts["notes"].append([numbers(optimizer.weights), numbers(p.grad for p in optimizer.weights)])
        outcome = outcome if outcome is None or type(outcome) in (bool, str) else type(outcome).__name__
        scale = scaler.get_scale()
        if type(scale) not in (int, float):
            facts["kinds"].append(type(scale).__name__)
            scale = 0.0
        facts["log"].append([command, outcome, float(scale)])
    if isinstance(facts["state"], dict):
        facts["adopted"] = facts["state"] != saved
        facts["state"] = sorted({type(v).__name__ for v in facts["state"].values()})
    return facts | {"steps": [each.steps for each in optimizers]}


def near(a, b):
    """Whether two numbers or nested lists of numbers agree."""
    if isinstance(b, list):
        return isinstance(a, list) and len(a) == len(b) and all(near(x, y) for x, y in zip(a, b, strict=True))
    if b is None or a is None:
        return a is b
    return a == b or math.isclose(a, b, rel_tol=1e-5, abs_tol=1e-5) or (math.isnan(a) and math.isnan(b))


def outcomes(seen, command):
    """What a command gave, each time."""
    return [outcome for name, outcome, _ in seen["log"] if name == command]


rule = "That is the library's scaler: write it yourself."
graph = "`scale` must keep the graph and must not change the loss tensor."
grad_replaced = "Divide the gradients in place, because other code may refer to the same tensor."
more_than_one = "Your scaler called `optimizer.step()` twice in one iteration. Each iteration makes one step at most."
returned = "`step` returns True if the optimizer stepped, False if it was skipped."
no_raise = "A second unscale_ (or step) before update must raise RuntimeError."
other_kind = mistake(
    "A second unscale_ (or step) before update must raise RuntimeError and no other error: {detail}.",
    raises=r"^(ValueError|AssertionError|Exception)\b",
)


def judge_manners(seen, story=()):
    """The rule, the graph, the kinds of what comes back."""
    with_amp = any(name.startswith("_amp_") for name in seen.op_names())
    seen.expecting(
        mistake(rule, when=lambda seen: any(name.startswith("_amp_") for name in seen.op_names())),
        mistake("A method is missing or can't be called: {detail}.", raises="AttributeError|TypeError.*argument"),
    )
    seen.that(not seen["library"] and not with_amp, rule, stage="rule")
    for kind, tracked, same, _ in seen["scaled"]:
        seen.that(kind == "Tensor" and tracked and same, graph, stage="gradient")
    seen.that(not seen["kinds"], f"get_scale returns a float, not a {(seen['kinds'] or [''])[0]}.", stage="type")
    odd = [o for o in outcomes(seen, "step") if not isinstance(o, bool) and o != "raised"]
    seen.that(not odd, f"{returned} Yours returned {(odd or [''])[0]}.", stage="type")
    seen.that(not seen["replaced"], grad_replaced, stage="aliasing")
    saved = [command for command, *_ in story if command == "save"]
    plain = isinstance(seen["state"], list) and set(seen["state"]) <= {"int", "float", "bool"}
    seen.that(plain or not saved, "`state_dict` must return a dict of plain numbers.", stage="type")


# %% check="scaler-by-hand" points=2
"""Good and bad iterations, and second calls."""
with check("scaler-by-hand") as test:
    no_skip = "The step must be skipped when a gradient is inf or nan."
    next_iteration = "After update the next iteration must work like the first one."
    other_weights = "The weights are not those of a step with the unscaled gradients."
    twice_unscaled = "The gradients were divided twice: step must not unscale again after unscale_."

    some_grads = [[0.5, -1.0], [2.0], [-0.25, 8.0, 1.5]]
    start = [[1.0, -2.0], [0.5], [4.0, 3.0, -1.0]]
    moved = [[0.875, -1.75], [0.0], [4.0625, 1.0, -1.375]]  # minus a quarter of the gradients

    test("a good iteration: the gradients are unscaled, the step is taken")
    story = [["begin"], ["backward", 0, some_grads], ["note", 0], ["step", 0], ["note", 0], ["update"]]
    seen = observe_scenario(told, LossScaler, {"init_scale": 1024.0}, story)
    judge_manners(seen)
    seen.that(near(seen["scaled"][0][3], 1024.0 * 25.0), "scale(loss) must be the loss times the scale.")
    (_, scaled_grads), (weights, grads) = seen["notes"]
    seen.that(near(scaled_grads, [[1024.0 * g for g in part] for part in some_grads]), graph, stage="gradient")
    seen.that(outcomes(seen, "step") == [True] and seen["steps"] == [1, 0], "A good step must be taken, once.")
    seen.that(
        near(grads, some_grads),
        "After step the gradients must be the unscaled ones.",
        mistake(twice_unscaled, when=lambda seen: near(grads[0][0] * 1024, some_grads[0][0])),
    )
    seen.that(near(weights, moved), other_weights)
    seen.that(seen["log"][-1][2] == 1024.0, "After one good iteration the scale must still be the same.")

    test("inf, -inf and nan: skipped, False, and the scale is halved")
    story = []
    for bad in (math.inf, -math.inf, math.nan):
        bad_grads = [[0.5, -1.0], [2.0], [-0.25, bad, 1.5]]
        story += [["begin"], ["backward", 0, bad_grads], ["step", 0], ["note", 0], ["update"]]
    seen = observe_scenario(told, LossScaler, {"init_scale": 1024.0}, story)
    judge_manners(seen)
    skipped = [not outcome for outcome in outcomes(seen, "step")]
    seen.that(
        all(skipped) and seen["steps"] == [0, 0],
        no_skip,
        mistake(
            "`isinf` alone misses nan: check `isfinite`.",
            when=lambda seen: seen["steps"] == [1, 0] and near(seen["notes"][1][0], start),
        ),
        mistake(next_iteration, when=lambda seen: "raised" in outcomes(seen, "step")),
    )
    seen.that(near([weights for weights, _ in seen["notes"]], [start] * 3), no_skip)
    scales = [scale for command, _, scale in seen["log"] if command == "update"]
    seen.that(near(scales, [512.0, 256.0, 128.0]), f"The scale must be halved each time; it was {scales}.")

    test("unscale_ before step; the second call of either raises")
    story = [["begin"], ["backward", 0, some_grads], ["unscale_", 0], ["note", 0], ["unscale_", 0], ["step", 0]]
    story += [["note", 0], ["step", 0], ["update"]]
    story += [["begin"], ["backward", 0, some_grads], ["unscale_", 0], ["step", 0], ["note", 0], ["update"]]
    seen = observe_scenario(told, LossScaler, {"init_scale": 1024.0}, story).expecting(other_kind)
    judge_manners(seen)
    seen.that(
        outcomes(seen, "unscale_") == [None, "raised", None] and outcomes(seen, "step") == [True, "raised", True],
        next_iteration,
        mistake(
            no_raise,
            when=lambda seen: outcomes(seen, "unscale_")[1] != "raised" or outcomes(seen, "step")[1] != "raised",
        ),
        stage="raised",
    )
    seen.that(max(seen["made"]) == 1, more_than_one)
    first, second, third = seen["notes"]
    seen.that(
        near(first, [start, some_grads]),
        "unscale_ must divide the gradients by the scale, and do nothing else.",
    )
    seen.that(
        near(second[1], some_grads),
        "A refused second call, or step after unscale_, has changed the gradients.",
        mistake(twice_unscaled, when=lambda seen: near(second[1][0][0] * 1024, some_grads[0][0])),
    )
    seen.that(near(second[0], moved), other_weights)
    seen.that(near(third[1], some_grads), next_iteration)


# %% check="scaler-by-hand" points=1
"""Several optimizers, growth, holes, the state and the defaults."""
with check("scaler-by-hand") as test:
    some_grads = [[0.5, -1.0], [2.0], [-0.25, 8.0, 1.5]]

    class Library:
        """torch.amp.GradScaler with the interface of the exercise."""

        def __init__(self, *settings, **named):
            self._inner = torch.amp.GradScaler("cpu", *settings, **named)
            for name in ("scale", "unscale_", "update", "get_scale", "state_dict", "load_state_dict"):
                setattr(self, name, getattr(self._inner, name))

        def step(self, optimizer):
            before = optimizer.steps
            self._inner.step(optimizer)
            return optimizer.steps > before

    at_update = mistake(
        "Gradients must be divided by the scale they were multiplied with: the scale changes only in update().",
        when=lambda seen: any(
            a[2] != b[2]
            for a, b in zip(seen["log"], seen["log"][1:], strict=False)
            if b[0] not in ("update", "restart")
        ),
    )

    def told_quickly(LossScaler, settings, story):
        """The same without a record of every operation, which would cost more than the operations."""
        with torch._C.DisableTorchFunction(), torch.utils._python_dispatch._disable_current_modes():
            return told(LossScaler, settings, story)

    as_library = (
        "The gradients or weights are not those of torch.amp.GradScaler: unscale_ divides every gradient of its "
        "optimizer once, even if one of them is inf or nan."
    )
    by_how_much = (
        "The scale changes when it should, but not by the right factor: growth_factor and backoff_factor say by how "
        "much."
    )

    ignored = "Parameters without gradient must simply be ignored."

    live = mistake(
        "`state_dict` returned a dict that your scaler itself goes on changing, so the next `update` changed what had "
        "been saved. Return a new dict.",
        when=lambda seen: seen["live"],
    )

    adopted = mistake(
        "`load_state_dict` kept the caller's dict, and your scaler goes on changing it, so a second start from the "
        "same checkpoint would begin elsewhere. Copy the numbers out of it.",
        when=lambda seen: seen["adopted"] and not seen["live"],
    )

    spoiled = (
        "`step` was called with a nan that came after unscale_, and your scaler skipped the step. GradScaler goes by "
        "what unscale_ noted and doesn't look at the gradients again."
    )

    repaired = (
        "`step` was called with finite gradients, but unscale_ had met an inf or nan in them. GradScaler then skips "
        "the step: it goes by what unscale_ noted and doesn't look at the gradients again."
    )

    def compare(settings, story, words):
        """Tell the story to the answer and to the library's scaler."""
        seen = observe_scenario(told_quickly, LossScaler, settings, story)
        seen.expecting(
            at_update,
            live,
            mistake(ignored, raises="NoneType|expected Tensor|None"),
            other_kind,
        )
        judge_manners(seen, story)
        wanted = told(Library, settings, story)
        alike = [[*came[:2]] == [*want[:2]] for came, want in zip(seen["log"], wanted["log"], strict=True)]
        scales = [[scale for _, _, scale in log] for log in (seen["log"], wanted["log"])]
        plain = "raised" not in outcomes(wanted, "step")
        unscales = [outcomes(each, "unscale_") for each in (seen, wanted)]

        def is_new(came, want):
            """Whether a call made a step where the library's makes none."""
            return came > 0 == want

        seen.that(
            all(alike) and seen["steps"] == wanted["steps"],
            words,
            mistake(
                "`step` has already unscaled the gradients, so an `unscale_` that comes after it must raise "
                "RuntimeError until `update`.",
                when=lambda seen: words == no_raise and unscales[0] != unscales[1],
            ),
            mistake(
                repaired,
                when=lambda seen: ["repair", 0] in story and any(map(is_new, seen["made"], wanted["made"])),
            ),
            mistake(
                "A step was taken although one of the optimizer's gradients is inf or nan: every one of them counts.",
                when=lambda seen: plain and any(map(is_new, seen["made"], wanted["made"])),
            ),
            mistake(more_than_one, when=lambda seen: max(seen["made"]) > 1),
            mistake(
                "After update the next iteration must work like the first one.",
                when=lambda seen: plain and "raised" in outcomes(seen, "step"),
            ),
            mistake(
                returned,
                when=lambda seen: plain and seen["steps"] == wanted["steps"],
            ),
        )
        seen.that(near(seen["notes"], wanted["notes"]), as_library)
        ways = [torch.tensor(each).diff().sign().tolist() for each in scales]
        firsts = [way.index(1.0) if 1.0 in way else len(way) for way in ways]
        late = mistake(
            "The scale grows too late: at the update that completes growth_interval good iterations, not after it.",
            when=lambda seen: words == growth and firsts[0] > firsts[1],
        )
        factor = mistake(by_how_much, when=lambda seen: words == growth and ways[0] == ways[1])
        lowest = mistake(
            "Your scale never falls below 1. GradScaler's has no lower limit: large gradients need a scale below 1.",
            when=lambda seen: any(came == 1.0 > want for came, want in zip(*scales, strict=True)),
        )
        seen.that(near(*scales), words, lowest, late, factor)
        seen.that(not seen["adopted"], words, adopted, stage="arguments")
        return seen

    growth = (
        "The scale must grow only after growth_interval good iterations IN A ROW; a skipped one restarts the count."
    )

    per_optimizer = (
        "One optimizer's inf must not keep the other from stepping, but it does shrink the scale (once per iteration)."
    )
    bad_grads = [[0.5, -1.0], [math.nan], [-0.25, 8.0, 1.5]]
    after = [["note", 0], ["note", 1], ["update"]]
    both = [["begin"], ["backward", 0, bad_grads], ["backward", 1, some_grads]]
    test("two optimizers, one of them meets an inf; it steps last, or first")
    compare({"init_scale": 16.0}, [*both, ["step", 1], ["step", 0], *after], words=per_optimizer)
    compare({"init_scale": 16.0}, [*both, ["step", 0], ["step", 1], *after], words=per_optimizer)

    ### BEGIN HIDDEN TESTS
    def iteration(bad, unscaled=False):
        """The commands of one iteration of the first optimizer."""
        first = [[0.5, -1.0], [2.0], [-0.25, math.inf, 1.5]] if bad else some_grads
        return [["begin"], ["backward", 0, first], *[["unscale_", 0]] * unscaled, ["step", 0], ["update"]]

    test.hidden("the count of good iterations restarts after a growth and after a skip")
    settings = {"init_scale": 64.0, "growth_factor": 4.0, "backoff_factor": 0.25, "growth_interval": 3}
    story = [command for bad in (0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1, 1, 0, 0, 0) for command in iteration(bad)]
    compare(settings, story, words=growth)
    compare({"init_scale": 8.0, "growth_interval": 1}, iteration(False) * 3 + iteration(True), words=growth)

    test.hidden("two optimizers: both are unscaled beforehand; both meet an inf")
    unscaled = [["unscale_", 0], ["unscale_", 1], ["step", 0], ["step", 1]]
    compare({"init_scale": 16.0}, [*both, *unscaled, *after], words=per_optimizer)
    two_bad = [["begin"], ["backward", 0, bad_grads], ["backward", 1, bad_grads], ["step", 0], ["step", 1], *after]
    compare({"init_scale": 16.0}, two_bad, words=per_optimizer)

    test.hidden("an inf in one parameter of many; parameters without gradient")
    for holes in (
        [[0.5, -1.0], None, [-0.25, 8.0, 1.5]],
        [None, [2.0], None],
        [None, [2.0], [-0.25, 8.0, -math.inf]],
        [[math.nan, 1.0], None, [-0.25, 8.0, 1.0]],
    ):
        story = [["begin"], ["backward", 0, holes], ["unscale_", 0], ["step", 0], ["note", 0], ["update"]]
        compare({"init_scale": 32.0}, story, words=ignored)

    test.hidden("unscale_ meets an inf, with and without a step")
    story = iteration(True, unscaled=True) + iteration(False, unscaled=True)
    compare({"init_scale": 32.0}, story, words=per_optimizer)
    seen_only = [["begin"], ["backward", 0, bad_grads], ["unscale_", 0], ["backward", 1, some_grads], ["step", 1]]
    compare({"init_scale": 32.0}, [*seen_only, *after], words=per_optimizer)

    test.hidden("a nan that unscale_ met and that is gone when step is called")
    story = [
        ["begin"],
        ["backward", 0, bad_grads],
        ["unscale_", 0],
        ["repair", 0],
        ["step", 0],
        ["note", 0],
        ["update"],
    ]
    compare({"init_scale": 32.0}, story + iteration(False), words=repaired)

    test.hidden("a nan that comes after unscale_")
    story = [
        ["begin"],
        ["backward", 0, some_grads],
        ["unscale_", 0],
        ["spoil", 0],
        ["step", 0],
        ["note", 0],
        ["update"],
    ]
    compare({"init_scale": 32.0}, story, words=spoiled)

    test.hidden("after a step, taken or skipped, unscale_ and step raise until update")
    for given in (some_grads, bad_grads):
        story = [["begin"], ["backward", 0, given], ["step", 0], ["unscale_", 0], ["step", 0], ["note", 0], ["update"]]
        compare({"init_scale": 32.0}, story + iteration(False), words=no_raise)

    test.hidden("large gradients that are finite")
    large = [[1e20, -2e20], [3e20], [-1e19, 8e20, 1.5e20]]
    story = [["begin"], ["backward", 0, large], ["step", 0], ["note", 0], ["update"]]
    overflown = "Gradients of 1e20 are finite: check each of them, not their sum or norm, which overflows."
    compare({"init_scale": 16.0}, story, words=overflown)
    largest = [[3e38, -2e38], [3e38], [3e38, 2e38, 3e38]]
    story = [["begin"], ["backward", 0, largest], ["step", 0], ["update"]]
    compare({"init_scale": 0.5}, story, words=overflown.replace("1e20", "3e38"))

    def side_by_side(LossScaler):
        """Two scalers in use at the same time: what their steps give, and their scales."""
        scalers, optimizers = [LossScaler(init_scale=64.0) for _ in range(2)], [PlainSGD(), PlainSGD()]
        for optimizer, value in zip(optimizers, (math.inf, 3.0), strict=True):
            optimizer.weights[1].grad = torch.tensor([value])
        outcomes = [bool(scaler.step(optimizer)) for scaler, optimizer in zip(scalers, optimizers, strict=True)]
        for scaler in reversed(scalers):
            scaler.update()
        return [outcomes, [float(scaler.get_scale()) for scaler in scalers]]

    test.hidden("two scalers side by side")
    seen = observe_scenario(side_by_side, LossScaler)
    seen.that(
        seen.value == [[False, True], [32.0, 64.0]],
        "Each scaler must have its own state: an inf in one must not change the other.",
    )

    test.hidden("25 random iterations with two optimizers")
    generator = torch.Generator().manual_seed(8)
    story = []
    for _ in range(25):
        bad, early, which, odd = (torch.rand(4, generator=generator) < torch.tensor([0.25, 0.4, 0.5, 0.5])).tolist()
        values = torch.randn(6, generator=generator).tolist()
        fine = [values[:2], values[2:3], values[3:]]
        hurt = [values[:2], [math.nan if odd else math.inf], values[3:]]
        story += [["begin"], ["backward", 0, hurt if bad and which else fine]]
        story += [["backward", 1, hurt if bad and not which else fine]]
        story += [["unscale_", int(odd)]] * early + [["step", 0], ["step", 1], ["update"]]
    by_position = (
        "The numbers differ from those of torch.amp.GradScaler. The settings were given by position: init_scale, "
        "growth_factor, backoff_factor and growth_interval, in this order."
    )
    compare([1000.0, 1.5, 0.3, 4], [*story, ["note", 0], ["note", 1]], words=by_position)

    state = "The growth count belongs to the state: after loading, growth must come at the same iteration."
    test.hidden("the state is saved and loaded: growth comes at the same iteration")
    settings = {"init_scale": 65.0, "growth_interval": 4}
    for before in (1, 3):
        story = iteration(True) + iteration(False) * before + [["save"]] + iteration(False) * 2
        story += [["restart", settings | {"init_scale": 7.0}]] + iteration(False) * 5
        compare(settings, story, words=state)

    def by_default(LossScaler):
        """The scale of a new scaler, after a skip, and around the growth. The long way there goes through the state."""
        optimizer, scaler, scales = PlainSGD(), LossScaler(), []

        def good(times):
            for _ in range(times):
                optimizer.weights[1].grad = torch.tensor([2.0])
                scaler.step(optimizer)
                scaler.update()

        scales.append(scaler.get_scale())
        optimizer.weights[1].grad = torch.tensor([math.inf])
        scaler.step(optimizer)
        scaler.update()
        scales.append(scaler.get_scale())
        good(3)
        state = dict(scaler.state_dict())
        counts = [name for name, value in state.items() if type(value) in (int, float) and value == 3]
        if len(counts) == 1:
            scaler.load_state_dict(state | {counts[0]: 1998})
        else:
            good(1995)
        scales.append(scaler.get_scale())
        for _ in range(2):
            good(1)
            scales.append(scaler.get_scale())
        return [float(scale) for scale in scales]

    test.hidden("the defaults: growth after 2000 good iterations, not before")
    seen = observe_scenario(by_default, LossScaler)
    seen.that(
        near(seen.value, [65536.0, 32768.0, 32768.0, 32768.0, 65536.0]),
        "The defaults are init_scale 65536, growth_factor 2, backoff_factor 0.5, growth_interval 2000.",
    )
    ### END HIDDEN TESTS
