# %% [markdown]
# ### Exercise 8.6 · A loop that never learns, and no error
#
# debug · solid · 15 min · 2 points
#
# This is the loop from the beginning of the chapter, as a function. Given the same batch ten times, it returns the same
# loss ten times. There is no error and no warning, and the float32 weights do change. Mind that the trainer that calls
# `fit` may already be inside a region.
#
# **Contract**
#
# - `fit` makes one step per batch and returns a list with the loss of each batch, as a float, before its step.
#   Gradients left over from before don't leak in.
# - Each forward uses the weights as the last step left them.
# - Forward and loss run under CPU autocast in bfloat16: matrix products of float32 weights are bfloat16 products, and
#   the loss, `F.mse_loss`, is float32.
# - This holds whatever region the caller is in (none, bfloat16, float16 or disabled, with the cache on or off), and
#   whether or not the model was used there before.
# - Parameters stay float32; frozen ones keep their values. The autocast state of the caller (on or off, dtype, whether
#   it caches) is the same afterwards, even if the model raises.
#
# <details><summary>Hint 1</summary>
#
# The weights change, the loss doesn't. So which weights did forward use? Where could there be a second copy of them,
# and for how long?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# Put region and forward together, one region per batch, and `step` outside. Then ask what happens if someone calls
# `fit` inside a region of their own: which region's end empties the cache?
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# The cache is emptied when the outermost region ends, and that may be the caller's region. So your region must not use
# the cache at all. `torch.autocast` has an argument for that.
#
# </details>


# %% answer="stale-autocast"
def fit(
    model: nn.Module,
    optimizer: Optimizer,
    batches: list[tuple[Tensor, Tensor]],
) -> list[float]:
    """One step per batch, forward and loss under CPU autocast in bfloat16.

    Returns the loss of each batch before its step.
    """
    ### BEGIN SOLUTION
    losses = []
    for x, y in batches:
        with torch.autocast("cpu", dtype=torch.bfloat16, cache_enabled=False):
            loss = F.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses
    ### END SOLUTION
    ### BEGIN GIVEN
    # raise NotImplementedError  # fix the code below, then delete this line
    # losses = []
    # with torch.autocast("cpu", dtype=torch.bfloat16):  # once, around everything
    #     for x, y in batches:
    #         loss = F.mse_loss(model(x), y)
    #         optimizer.zero_grad()
    #         loss.backward()
    #         optimizer.step()
    #         losses.append(loss.item())
    # return losses
    ### END GIVEN


# %% helpers="stale-autocast"
class Products(TorchDispatchMode):
    """Notes the dtypes that go into and come out of the matrix products of a forward pass."""

    def __init__(self):
        super().__init__()
        self.found, self.weights, self.forward = set(), set(), False

    @classmethod
    def _should_skip_dynamo(cls):
        return False

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        name = func._schema.name.split("::")[-1]
        if self.forward and name in ("mm", "addmm", "bmm", "baddbmm", "mv", "addmv", "linear", "mkldnn_linear"):
            self.found |= {str(a.dtype)[6:] for a in [*args, out] if isinstance(a, Tensor)}
        return out


class PlainSGD(Optimizer):
    """SGD and nothing else: weights minus 0.25 times gradient."""

    def __init__(self, parameters):
        super().__init__(parameters, {})

    def add_param_group(self, group):
        self.param_groups.append(group)

    def zero_grad(self, set_to_none=True):
        for p in self.param_groups[0]["params"]:
            p.grad = None

    def step(self, closure=None):
        if closure is not None:
            with torch.enable_grad():
                closure()
        with torch.no_grad():
            for p in self.param_groups[0]["params"]:
                if p.grad is not None:
                    p -= 0.25 * p.grad.float()


class Twice(nn.Module):
    """A net that uses its first layer twice; call number `fails` raises. It tells `products` when it runs."""

    def __init__(self, fails, products):
        super().__init__()
        self.inner, self.last, self.calls = nn.Linear(4, 4), nn.Linear(4, 1), 0
        self.fails, self.products = fails, products
        with torch.no_grad():
            for shift, p in enumerate(self.parameters()):
                p.copy_((torch.arange(p.numel()) * 7 % 11 / 12 + shift / 16 - 0.4).reshape(p.shape))

    def forward(self, x):
        self.calls += 1
        if self.calls == self.fails:
            raise ArithmeticError("the model has raised, as it was told to")
        self.products.weights |= {str(p.dtype)[6:] for p in self.parameters()}
        self.products.forward = True
        out = self.last(self.inner(self.inner(x).tanh()).tanh())
        self.products.forward = False
        return out


def batches_of(count, same):
    """Batches of six rows; the same one each time, or different ones."""
    pairs = []
    for k in range(count):
        x = (torch.arange(24.0) * (5 + (0 if same else k)) % 13 / 6 - 1).reshape(6, 4)
        pairs.append((x, x.sum(1, keepdim=True) / 2))
    return pairs


def state():
    """Whether autocast is on, in which dtype, and whether it keeps copies."""
    dtype = str(torch.get_autocast_dtype("cpu"))
    return [torch.is_autocast_enabled("cpu"), dtype, torch.is_autocast_cache_enabled()]


def told(fit, count, same, around, used=False, fails=0, old=0.0, frozen=False):
    """Call `fit` on `count` batches in the caller's region `around`, in which the model may have been used before."""
    products = Products()
    model = Twice(fails, products)
    model.inner.weight.requires_grad_(not frozen)
    optimizer = PlainSGD(model.parameters())
    for p in model.parameters():
        p.grad = torch.full_like(p, old) if old else None
    pairs, losses, raised = batches_of(count, same), None, ""
    with ExitStack() as region:
        if around is not None:
            region.enter_context(torch.autocast("cpu", **around))
        if used:
            model(pairs[0][0])
        states = [state()]
        try:
            with products:
                losses = fit(model, optimizer, pairs)
        except ArithmeticError as error:
            raised = str(error)
        states.append(state())
    recast = sorted({str(p.dtype)[6:] for p in model.parameters()} - {"float32"})
    facts = {"losses": losses, "kind": type(losses).__name__, "raised": raised, "states": states}
    facts |= {"products": sorted(products.found), "recast": recast, "weights seen": sorted(products.weights)}
    return facts | {"weights": torch.cat([p.detach().float().flatten() for p in model.parameters()])}


def by_hand(count, same, late=False, keep=False, old=0.0, frozen=False):
    """(losses, weights) with fresh casts in each iteration; the options are misconceptions and a frozen weight."""
    model, losses = Twice(0, Products()), []
    parameters = list(model.parameters())
    grads = [torch.full_like(p, old) for p in parameters]
    for number, (x, y) in enumerate(batches_of(count, same)):

        def loss_of(x=x, y=y):
            with torch.autocast("cpu", dtype=torch.bfloat16, cache_enabled=False):
                return F.mse_loss(model(x), y)

        loss = loss_of()
        new = torch.autograd.grad(loss, parameters)
        grads = [a + b if keep or not number else b for a, b in zip(grads, new, strict=True)]
        with torch.no_grad():
            for k, (p, g) in enumerate(zip(parameters, grads, strict=True)):
                p -= 0.0 if frozen and k == 0 else 0.25 * g
        losses.append((loss_of() if late else loss).item())
    return losses, torch.cat([p.detach().flatten() for p in parameters])


def near(came, right):
    """Whether losses or weights agree, up to the rounding of bfloat16 in another order."""
    came, right = (torch.as_tensor(v, dtype=torch.float64) for v in (came, right))
    return came.shape == right.shape and torch.allclose(came, right, rtol=0.02, atol=0.005)


stale = (
    "The loss never changes although the weights do: autocast keeps the bfloat16 copies of the weights until the "
    "OUTERMOST region ends, and forward goes on using them."
)
order = "The loss of a batch is that before its step; you computed yours again afterwards."
uncleared = (
    "The gradients of earlier batches were added to those of each batch: clear them (zero_grad) for every batch."
)
low_loss = (
    "The loss was computed in bfloat16, which keeps two or three digits of it: autocast runs F.mse_loss in float32, "
    "but a loss that you write by hand runs in the dtype of its inputs."
)
not_run = "`fit` never called the model: no matrix product was seen."
no_autocast = "The products no longer run in bfloat16: autocast is what the loop is about."
by_hand_cast = (
    "Your code cast the weights to a lower precision before the model ran. Autocast leaves them in float32 and casts "
    "copies for some operations, such as matrix products; the others use the float32 weights."
)
recast = "The parameters changed dtype. Rounded weights lose small updates; autocast casts copies."


def judge(seen, count, same, *mistakes, stuck=stale):
    """The state of the caller, the dtypes, then losses and weights."""
    seen.expecting(*mistakes)
    kind = seen["kind"]
    missing = "Nothing came back: is a `return` missing? Return the list of losses."
    other = "Return a list with one float per batch."
    seen.that(kind == "list", missing if kind == "NoneType" else other, stage="type")
    losses = seen["losses"]
    seen.that(all(type(loss) is float for loss in losses), "The losses must be Python floats.", stage="type")
    seen.that(not seen["recast"], recast, stage="dtype")
    seen.that(seen["products"], not_run, stage="rule")
    seen.that(seen["products"] == ["bfloat16"], no_autocast, stage="dtype")
    seen.that(seen["weights seen"] == ["float32"], by_hand_cast, stage="dtype")
    right, weights = by_hand(count, same)
    late, unzeroed = by_hand(count, same, late=True), by_hand(count, same, keep=True)
    seen.that(
        near(losses, right),
        "The losses are not those of a loop in which each forward sees the last step.",
        mistake(stuck, when=lambda seen: same and len(losses) == count and len(set(losses)) == 1),
        mistake(uncleared, when=lambda seen: near(losses, unzeroed[0])),
        mistake(order, when=lambda seen: near(losses, late[0])),
    )
    seen.that(
        near(seen["weights"], weights),
        "The weights are not those of one step per batch.",
        mistake(uncleared, when=lambda seen: near(seen["weights"], unzeroed[1])),
    )
    rounded = all(torch.tensor(loss).bfloat16().item() == loss for loss in losses)
    seen.that(not rounded, low_loss, stage="dtype")
    unlike = "The caller's autocast state is different afterwards."
    seen.that(seen["states"][0] == seen["states"][1], unlike, stage="rule")


# %% check="stale-autocast" points=1
"""It learns, in bfloat16, from one batch ten times and from several."""
with check("stale-autocast") as test:
    test("the same batch ten times: the loss falls, and the products are bfloat16")
    judge(observe_scenario(told, fit, 10, True, None), 10, True)

    test("four different batches")
    judge(observe_scenario(told, fit, 4, False, None), 4, False)


# %% check="stale-autocast" points=1
"""Inside the caller's regions, whose state stays; old gradients; a model that raises."""
with check("stale-autocast") as test:
    test("the case of the first check, then inside a bfloat16 region that has used the model")
    judge(observe_scenario(told, fit, 10, True, None), 10, True, FIRST_CHECK_FIRST)
    low = {"dtype": torch.bfloat16}
    not_outermost = (
        "Inside a caller's region your own region is not the outermost: leaving it doesn't empty the cache. Switch it "
        "off (cache_enabled=False) or empty it before each forward (torch.clear_autocast_cache())."
    )
    judge(observe_scenario(told, fit, 10, True, low, True), 10, True, stuck=not_outermost)

    ### BEGIN HIDDEN TESTS
    test.hidden("float16, disabled and cache-free regions of the caller")
    of_the_caller = mistake(
        'Inside the caller\'s float16 region your products are float16. Without `dtype`, `torch.autocast("cpu")` takes '
        "the dtype that is set there: pass `dtype=torch.bfloat16`.",
        when=lambda seen: seen["products"] == ["float16"],
    )
    for around in ({"dtype": torch.float16}, {"enabled": False}, low | {"cache_enabled": False}):
        for used in (False, True):
            seen = observe_scenario(told, fit, 3, False, around, used)
            judge(seen, 3, False, of_the_caller, mistake(not_outermost, when=lambda seen: True))

    test.hidden("gradients left from before do not leak in")
    left = (
        "Gradients from before the call leaked into the first step: clear them (zero_grad) before the first backward."
    )
    leaks = [by_hand(3, False, old=5.0, keep=keep) for keep in (False, True)]
    leaked = mistake(left, when=lambda seen: any(near(seen["losses"], losses) for losses, _ in leaks))
    judge(observe_scenario(told, fit, 3, False, None, False, 0, 5.0), 3, False, leaked)

    test.hidden("a frozen weight; no batches")
    seen = observe_scenario(told, fit, 3, False, None, False, 0, 0.0, True).expecting(
        mistake(
            "One weight of the model is frozen, and asking for its gradient raises: {detail}. `loss.backward()` leaves "
            "out what needs no gradient.",
            raises="does not require grad",
        )
    )
    losses, weights = by_hand(3, False, frozen=True)
    seen.that(near(seen["losses"], losses), "With a frozen weight the losses are wrong.")
    seen.that(near(seen["weights"], weights), "With a frozen weight the weights are wrong: it must stay as it is.")
    seen = observe_scenario(told, fit, 0, False, None)
    seen.expecting(mistake("No batches came, so no losses: return an empty list. {detail}", stage="raised"))
    seen.that(seen["losses"] == [], "No batches came, so no losses: return an empty list.")

    test.hidden("the model raises: the caller's state is the same afterwards")
    for around in (None, low):
        seen = observe_scenario(told, fit, 3, False, around, False, 2)
        seen.that(seen["raised"] != "", "What the model raises must reach the caller.", stage="raised")
        before, after = seen["states"]
        seen.that(before == after, "If the model raises, the caller's autocast state must be restored.", stage="rule")
    ### END HIDDEN TESTS
