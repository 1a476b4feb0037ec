# %% [markdown]
# ### Exercise 7.7 · Exponential moving average of the weights
#
# implement · long · 25 min · 3 points
#
# Many models are evaluated with a moving average of their weights instead of the last weights. Write the module that
# keeps this average next to the model that is trained. Most of the work is to decide where each tensor is stored, and
# who may change it.
#
# **Contract**
#
# - `EMA(model)` starts with the model's current values. `update(model)` sets every floating point entry of the model's
#   state_dict to `decay * average + (1 - decay) * current` and copies integer entries (such as num_batches_tracked). A
#   weight with two names is averaged once, and is available under both names. No entry has the
#   name of an attribute of your class.
# - `average()` returns a dict with exactly the names of `model.state_dict()`. Its values may be the averages themselves
#   or copies; the caller only reads them. `copy_to(model)` writes the averages into a model, whose parameters and
#   buffers stay the same objects.
# - The averages are state: `ema.state_dict()` restores them in a new EMA of another model of the same kind, `ema.to(…)`
#   moves and casts them, and from then on `update` works in their dtype, whatever the model's dtype is. Nothing in EMA
#   requires grad.
# - `EMA(model)` and `update` never change the model or its train/eval flags, and training never changes the EMA.
#
# (Other libraries decide differently: timm and Ultralytics keep a deep copy of the model instead, and torch's own
# `AveragedModel` leaves buffers out unless you ask for them.)
#
# <details><summary>Hint 1</summary>
#
# If the average starts as a reference to the parameter, how far can the two ever differ? And where must you store a
# tensor that is saved and moved but never trained?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# Register one buffer for each entry of `model.state_dict()`, from a detached clone. A buffer's name must not contain a
# dot, so number the buffers and keep the list of names. Update in place under `no_grad`; copy the entries that are not
# floating point.
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# If a buffer's name contains its number, you can find it again with `get_buffer`. Update an average in two in-place
# steps: scale it by the decay, then add the current value times what is left, after converting the current value to the
# dtype and device of the average. `copy_to` needs no more than a copy for each name, because the tensors in
# `model.state_dict()` are the model's own memory.
#
# </details>


# %% answer="ema-weights"
class EMA(nn.Module):
    """The exponential moving average of all floating point entries of a model's state_dict."""

    def __init__(self, model: nn.Module, decay: float = 0.999) -> None:
        ### BEGIN SOLUTION
        super().__init__()
        self.decay = decay
        self.names = list(model.state_dict())
        for number, tensor in enumerate(model.state_dict().values()):
            self.register_buffer(f"average_{number}", tensor.clone())
        ### END SOLUTION

    @torch.no_grad()
    def update(self, model: nn.Module) -> None:
        """Move the averages towards the model's current values."""
        ### BEGIN SOLUTION
        current = model.state_dict()
        for name, average in self.average().items():
            if average.is_floating_point():
                average.mul_(self.decay).add_(current[name].to(average), alpha=1 - self.decay)
            else:
                average.copy_(current[name])
        ### END SOLUTION

    def average(self) -> dict[str, Tensor]:
        """The averages under the names of the model's state_dict."""
        ### BEGIN SOLUTION
        return {name: self.get_buffer(f"average_{k}") for k, name in enumerate(self.names)}
        ### END SOLUTION

    @torch.no_grad()
    def copy_to(self, model: nn.Module) -> None:
        """Write the averages into a model, in place."""
        ### BEGIN SOLUTION
        current = model.state_dict()
        for name, average in self.average().items():
            current[name].copy_(average)
        ### END SOLUTION


# %% helpers="ema-weights"
class Tied(nn.Module):
    """Two names for one weight, and a frozen parameter."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(4, 3)
        self.head = nn.Linear(3, 4)
        self.head.weight = self.embedding.weight
        self.head.bias.requires_grad_(False)


class Alike(nn.Module):
    """Names that become the same when dots become underscores, or are left out."""

    def __init__(self):
        super().__init__()
        self.x = nn.Sequential(OrderedDict(y=nn.Linear(2, 1)))
        self.x_y = nn.Linear(2, 1)
        self.x__y = nn.Linear(2, 1)
        self.add_module("1", nn.Sequential(OrderedDict({"1": nn.Linear(2, 1)})))
        self.add_module("11", nn.Linear(2, 1))


class Empty(nn.Module):
    """Two entries without elements, which have the same address: none."""

    def __init__(self):
        super().__init__()
        self.down, self.up = nn.Parameter(torch.empty(0, 3)), nn.Parameter(torch.empty(0, 1))
        self.scale = nn.Parameter(torch.ones(2))


class Rows(nn.Module):
    """A buffer that is a view of the first rows of a parameter, and so has its address."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(4, 3))
        self.register_buffer("first", self.weight.detach()[:2])


class Whole(nn.Module):
    """Entries of integers that are no counters of batches."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(2, 1)
        self.register_buffer("ids", torch.zeros(4, dtype=torch.int64))
        self.register_buffer("step", torch.zeros((), dtype=torch.int32))


def model_of(kind):
    """A model of some kind."""
    if kind == "whole":
        return Whole()
    if kind == "rows":
        return Rows()
    if kind == "empty":
        return Empty()
    if kind == "alike":
        return Alike()
    if kind == "tied":
        return Tied()
    if kind == "flat":
        return nn.Linear(2, 3)
    return nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3))


def moved(net, shift):
    """The net, every entry set to numbers that depend on its place and on the shift."""
    with torch.no_grad():
        for place, tensor in enumerate(net.state_dict().values()):
            numbers = torch.arange(tensor.numel()) * 7 % 11 / 4 + place / 2 + shift
            tensor.copy_(numbers.reshape(tensor.shape))
    return net


def copies_of(state):
    """Copies of a dict of tensors; None for anything else."""
    if not isinstance(state, Mapping) or not all(isinstance(tensor, Tensor) for tensor in state.values()):
        return None
    return {str(name): tensor.detach().clone() for name, tensor in state.items()}


def tracked_in(ema):
    """Which tensors of an EMA require grad."""
    named = [*ema.named_parameters(), *ema.named_buffers(), *ema.average().items()]
    return sorted({str(name) for name, tensor in named if tensor.requires_grad})


def flags_of(net):
    """The train/eval flags of all parts of a model."""
    return [module.training for module in net.modules()]


def story(answer, kind, decay, shifts):
    """Make an EMA of a model, change the model without an update, then with an update after each of these shifts."""
    net = moved(model_of(kind), 0.5)
    [*net.modules()][-1].eval()
    facts = {"models": [copies_of(net.state_dict())], "averages": [], "changed": [], "flags": [flags_of(net)]}
    ema = answer(net) if decay is None else answer(net, decay)
    facts["flags"].append(flags_of(net))
    facts["is module"] = isinstance(ema, nn.Module)
    if not facts["is module"]:
        return facts
    facts["averages"].append(copies_of(ema.average()))
    moved(net, 30.0)
    facts["untouched"] = copies_of(ema.average())
    objects = [id(parameter) for parameter in net.parameters()]
    for shift in shifts:
        moved(net, shift)
        before = copies_of(net.state_dict())
        ema.update(net)
        now = copies_of(net.state_dict())
        facts["changed"] += [name for name in before if not torch.equal(before[name], now[name])]
        facts["models"].append(before)
        facts["averages"].append(copies_of(ema.average()))
    facts["flags"].append(flags_of(net))
    facts["replaced"] = objects != [id(parameter) for parameter in net.parameters()]
    if facts["averages"][-1] is not None:
        facts["tracked"] = tracked_in(ema)
        facts["trainable"] = [name for name, parameter in ema.named_parameters() if parameter.requires_grad]
        facts["kept model"] = any(one is net for one in ema.modules())
    return facts


whole_entries = "Integer entries cannot be averaged: copy them."
one_address = (
    "Two entries of different shapes have become one. A view of the first rows has the same `data_ptr()` as the whole, "
    "so compare shapes and strides as well."
)
keeps_model = (
    "The EMA keeps the model itself: a module that you assign to self is registered, so ema.parameters(), "
    "state_dict() and to() also reach it. Keep only the names."
)
known = [
    mistake(
        "A buffer name must not contain a dot (KeyError): encode the dots and decode them in average().",
        raises="buffer name can",
    ),
    mistake(
        whole_entries,
        raises="can't be cast to the desired output type Long|not implemented for 'Long'|dtype .*[lL]ong",
    ),
    mistake("Call super().__init__() first in __init__.", raises="before Module.__init__"),
    mistake(one_address, raises="size of tensor|broadcast shape", when=lambda seen: "rows" in seen.args),
]


def same_state(came, state, tolerance=1e-5):
    """Whether two states agree in names, dtypes and values."""
    return came.keys() == state.keys() and all(
        came[name].dtype == state[name].dtype
        and came[name].shape == state[name].shape
        and torch.allclose(came[name].double(), state[name].double(), rtol=tolerance, atol=tolerance)
        for name in state
    )


def averaged(average, current, decay):
    """The formula, entry by entry."""
    return {
        name: decay * average[name] + (1 - decay) * current[name]
        if average[name].is_floating_point()
        else current[name].clone()
        for name in average
    }


def judge(seen, decay):
    """Judge names, start, each update, the model and who requires grad."""
    seen.expecting(*known)
    seen.that(seen["is module"], "EMA must be a module.", stage="type")
    names = set(seen["models"][0])
    for average in seen["averages"]:
        seen.that(average is not None, "average() must return a dict from names to tensors.", stage="type")
        seen.that(
            average.keys() == names,
            "average() must have the names of model.state_dict().",
            mistake(
                "Batch-norm statistics must also be averaged: walk state_dict(), not parameters().",
                when=lambda seen, average=average: {*average} == {n for n in names if "weight" in n or "bias" in n},
            ),
            mistake(
                "All entries of the state_dict belong in average(), including the integer entries.",
                when=lambda seen, average=average: {*average} == {n for n in names if "tracked" not in n},
            ),
            stage="shape",
        )
    one_name = mistake(
        "Names that differ only in dots and underscores have become one.", when=lambda seen: seen.args[1] == "alike"
    )
    by_address = mistake(
        "Two entries of different shapes have become one. Tensors without elements all have the address 0, so "
        "`data_ptr()` doesn't say which of them are the same.",
        when=lambda seen: (
            seen.args[1] == "empty" and seen["averages"][0]["down"].shape == seen["averages"][0]["up"].shape
        ),
    )
    view = mistake(
        one_address,
        when=lambda seen: (
            seen.args[1] == "rows" and seen["averages"][0]["first"].shape == seen["averages"][0]["weight"].shape
        ),
    )
    starts = same_state(seen["averages"][0], seen["models"][0])
    seen.that(starts, "The EMA starts at the model's current values.", one_name, by_address, view)
    seen.that(
        same_state(seen["untouched"], seen["models"][0]),
        "The average follows the model exactly: it shares memory with the parameter. Clone at construction.",
        stage="aliasing",
    )
    changed = ", ".join(dict.fromkeys(seen["changed"]))
    seen.that(not changed, f"update() changed the model: {changed}.", stage="arguments")
    expected = seen["averages"][0]
    for current, average in zip(seen["models"][1:], seen["averages"][1:], strict=True):
        before, expected = expected, averaged(expected, current, decay)
        wrong = [name for name in expected if not same_state({name: average[name]}, {name: expected[name]})]
        exchanged = averaged(before, current, 1 - decay)
        twice = averaged(expected, current, decay)
        whole = [name for name in wrong if not expected[name].is_floating_point()]
        still = [name for name in wrong if torch.equal(average[name], before[name])]
        seen.that(
            not whole,
            f"Integer entries cannot be averaged: copy them, with their dtype ({', '.join(whole)}).",
            mistake(
                "No buffer was updated: batch-norm statistics must also be averaged, and their counter copied. Walk "
                "state_dict(), not parameters().",
                when=lambda seen, still=still: {"1.running_mean", "1.num_batches_tracked"} <= {*still},
            ),
            mistake(
                "Each update must copy the integer entries; yours stay what they were at the start.",
                when=lambda seen, still=still, whole=whole: {*whole} <= {*still},
            ),
        )
        floating = [name for name in average if average[name].is_floating_point()]
        seen.that(
            not wrong,
            f"The average is not decay * average + (1 - decay) * current: {', '.join(wrong)}.",
            mistake(
                "An update copied the model's values as they are. Each update, including the first, moves the "
                "average by 1 - decay of the way.",
                when=lambda seen, average=average, current=current, floating=floating: all(
                    torch.equal(average[name], current[name].to(average[name])) for name in floating
                ),
            ),
            mistake(
                "decay and 1 - decay are exchanged: the average moved almost all the way.",
                when=lambda seen, average=average, exchanged=exchanged: same_state(average, exchanged),
            ),
            mistake(
                "A weight with two names was averaged twice: state_dict() lists it under both.",
                when=lambda seen, average=average, twice=twice, wrong=wrong: (
                    seen.args[1] == "tied" and all(same_state({n: average[n]}, {n: twice[n]}) for n in wrong)
                ),
            ),
            mistake(
                "Batch-norm statistics must also be averaged: walk state_dict(), not parameters().",
                when=lambda seen, wrong=wrong: all("running" in name for name in wrong),
            ),
            one_name,
            mistake(
                f"Not updated: {', '.join(wrong)}.",
                when=lambda seen, average=average, before=before, wrong=wrong: all(
                    torch.equal(average[name], before[name]) for name in wrong
                ),
            ),
        )
    seen.that(
        not seen["trainable"],
        "ema.parameters() holds trainable parameters: an optimizer would train the average.",
        mistake(keeps_model, when=lambda seen: seen["kept model"]),
        stage="gradient",
    )
    seen.that(
        not seen["tracked"],
        "The averages require grad (or grow a graph): update under no_grad, from detached values.",
        stage="gradient",
    )
    seen.that(not seen["replaced"], "update() replaced the model's parameters.", stage="aliasing")


# %% check="ema-weights" points=1
"""The formula for parameters and buffers; nothing requires grad."""
with check("ema-weights") as test:
    test("two updates with decay 0.75: parameters and batch-norm statistics are averaged, the counter is copied")
    seen = observe_scenario(story, EMA, "batch norm", 0.75, [4.0, -2.0])
    judge(seen, 0.75)


# %% check="ema-weights" points=1
"""Casts and moves reach the averages; copy_to writes in place; training does not reach the EMA."""
with check("ema-weights") as test:

    def small_net(shift):
        """A layer and a batch norm; every entry depends on its place and on the shift."""
        net = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3))
        with torch.no_grad():
            for place, tensor in enumerate(net.state_dict().values()):
                numbers = torch.arange(tensor.numel()) * 7 % 11 / 4 + place / 2 + shift
                tensor.copy_(numbers.reshape(tensor.shape))
        return net

    def same_values(came, state, tolerance=1e-5):
        """Whether two states agree in names and values."""
        return came.keys() == state.keys() and all(
            came[name].shape == state[name].shape
            and torch.allclose(came[name].double(), state[name].double(), rtol=tolerance, atol=tolerance)
            for name in state
        )

    def beside_training(answer):
        """Update an EMA, then train the model for a step; look at the averages before and after."""
        net = small_net(0.5)
        ema = answer(net, 0.75)
        ema.update(net)
        facts = {"is module": isinstance(ema, nn.Module)}
        before = facts["before"] = copies_of(ema.average()) if facts["is module"] else None
        facts["named"] = before is not None and before.keys() == net.state_dict().keys()
        if not facts["named"]:
            return facts
        net(torch.tensor([[0.5, -1.0], [2.0, 0.25], [-0.75, 1.5]])).square().sum().backward()
        with torch.no_grad():
            for parameter in net.parameters():
                parameter -= 0.1 * parameter.grad
        graphs = [name for name, tensor in ema.average().items() if tensor.grad_fn is not None]
        filled = [name for name, parameter in ema.named_parameters() if parameter.grad is not None]
        facts["kept model"] = any(one is net for one in ema.modules())
        return facts | {"after": copies_of(ema.average()), "graphs": graphs, "filled": filled}

    known_here = [
        mistake(
            "A buffer name must not contain a dot (KeyError): encode the dots and decode them in average().",
            raises="buffer name can",
        ),
        mistake(
            whole_entries,
            raises="can't be cast to the desired output type Long|not implemented for 'Long'|dtype .*[lL]ong",
        ),
    ]

    test("training the model does not move the average")
    seen = observe_scenario(beside_training, EMA).expecting(*known_here)
    seen.that(seen["is module"], "EMA must be a module.", stage="type")
    seen.that(seen["before"] is not None, "average() must return a dict from names to tensors.", stage="type")
    seen.that(seen["named"], "average() must have the names of model.state_dict().", stage="shape")
    seen.that(
        same_values(seen["after"], seen["before"]),
        "The average follows the model exactly: it shares memory with the parameter. Clone at construction.",
        stage="aliasing",
    )
    seen.that(
        not seen["graphs"] and not seen["filled"],
        "The averages require grad (or grow a graph): update under no_grad, from detached values.",
        mistake(keeps_model, when=lambda seen: seen["kept model"]),
        stage="gradient",
    )

    def copied(answer):
        """Update an EMA and copy_to another model; then change both, and copy_to again."""
        net, target = small_net(0.5), small_net(9.0)
        objects = dict(target.named_parameters())
        buffers = dict(target.named_buffers())
        target[0].bias.requires_grad_(False)
        ema = answer(net, 0.75)
        moved = small_net(4.0)
        ema.update(moved)
        average = copies_of(ema.average())
        ema.copy_to(target)
        facts = {
            "average": average,
            "target": copies_of(target.state_dict()),
            "replaced": [name for name, p in target.named_parameters() if objects.get(name) is not p],
            "replaced buffers": [name for name, b in target.named_buffers() if buffers.get(name) is not b],
            "flags": [parameter.requires_grad for parameter in target.parameters()],
            "net": copies_of(net.state_dict()),
            "moved": copies_of(moved.state_dict()),
        }
        ema.update(moved)
        facts["target later"] = copies_of(target.state_dict())
        with torch.no_grad():
            for tensor in target.state_dict().values():
                tensor.add_(1)
        facts["average later"] = copies_of(ema.average())
        ema.copy_to(target)
        facts["target again"] = copies_of(target.state_dict())
        return facts

    test("copy_to writes the averages into a model, in place")
    seen = observe_scenario(copied, EMA).expecting(*known_here)
    seen.that(
        same_values(seen["target"], seen["average"]),
        "After copy_to the model must hold the averages, parameters and buffers.",
        mistake("copy_to wrote nothing.", when=lambda seen: float(seen["target"]["0.weight"][0, 0]) == 9.0),
    )

    ### BEGIN HIDDEN TESTS
    test.hidden("copy_to keeps the model's objects and flags; then the two are independent")
    in_place = "copy_to must write in place; the model's parameter objects were replaced."
    seen.that(not seen["replaced"], in_place, stage="aliasing")
    seen.that(not seen["replaced buffers"], "copy_to must write in place; buffers were replaced.", stage="aliasing")
    seen.that(seen["flags"] == [True, False, True, True], "copy_to must leave requires_grad alone.", stage="gradient")
    seen.that(
        same_values(seen["target later"], seen["target"]),
        "After copy_to the model still shares memory with the averages: an update changes it.",
        stage="aliasing",
    )
    same = same_values(seen["target again"], seen["average later"])
    seen.that(same, "A second copy_to must copy the averages of that moment into the model.")
    first = {name: tensor for name, tensor in seen["average later"].items() if tensor.is_floating_point()}
    wanted = {name: 0.75 * seen["average"][name] + 0.25 * seen["moved"][name] for name in first}
    alone = same_values(first, wanted)
    stands = same_values(first, {name: seen["average"][name] for name in first})
    still = mistake("update() did not move the averages.", when=lambda seen: stands)
    seen.that(alone, "After copy_to one more update does not give what the formula says.", still)

    def cast_and_moved(answer, ema_dtype, net_dtype):
        """Cast the EMA, update it from a model in another dtype, copy_to that model; then move the EMA to meta."""
        net = small_net(0.5).to(net_dtype)
        ema = answer(net, 0.75)
        ema.to(ema_dtype)
        start = copies_of(ema.average())
        with torch.no_grad():
            for parameter in net.parameters():
                parameter.add_(1 / 4)
        moved = copies_of(net.state_dict())
        ema.update(net)
        average = copies_of(ema.average())
        now = copies_of(net.state_dict())
        changed = any(not torch.equal(moved[name], now[name]) for name in now)
        ema.copy_to(net)
        back = copies_of(net.state_dict())
        ema.to("meta")
        devices = sorted({tensor.device.type for tensor in ema.average().values()})
        facts = {"start": start, "average": average, "model": now, "back": back, "devices": devices}
        return facts | {"changed": changed}

    not_moved = (
        "ema.state_dict() (or ema.to()) does not reach the averages: plain attributes and dicts are neither saved nor "
        "moved. Use buffers."
    )
    for ema_dtype, net_dtype in (
        (torch.float64, torch.float32),
        (torch.float32, torch.bfloat16),
        (torch.bfloat16, torch.float32),
    ):
        test.hidden("an EMA that is cast, and goes on from a model in another dtype")
        seen = observe_scenario(cast_and_moved, EMA, ema_dtype, net_dtype).expecting(
            *known_here,
            mistake(
                "After a cast of the EMA update() must go on, whatever the model's dtype: cast the current values.",
                stage="raised",
            ),
        )
        for key, dtype in (("start", ema_dtype), ("average", ema_dtype), ("back", net_dtype)):
            kinds = {tensor.dtype for tensor in seen[key].values()}
            kept = "update() must keep the dtype that the averages have." if key == "average" else not_moved
            kept = "copy_to must leave the model's dtypes alone." if key == "back" else kept
            averaged_too = mistake(whole_entries, when=lambda seen, kinds=kinds: torch.int64 not in kinds)
            seen.that(kinds == {dtype, torch.int64}, kept, averaged_too, stage="dtype")
        floating = [name for name, tensor in seen["start"].items() if tensor.is_floating_point()]
        wanted = {n: 0.75 * seen["start"][n].double() + 0.25 * seen["model"][n].double() for n in floating}
        tolerance = 2e-2 if ema_dtype == torch.bfloat16 else 1e-5
        exact = same_values({name: seen["average"][name] for name in floating}, wanted, tolerance)
        coarse = same_values({name: seen["average"][name] for name in floating}, wanted, 5e-2)
        seen.that(
            exact,
            "After a cast of the EMA an update does not give decay * average + (1 - decay) * current.",
            mistake("update() changed the model.", when=lambda seen: seen["changed"]),
            mistake(
                "Small steps are lost: compute in the dtype of the averages.",
                when=lambda seen, coarse=coarse: coarse,
            ),
        )
        seen.that(seen["devices"] == ["meta"], not_moved, stage="device")

    def steps_after_a_cast(answer, decay, steps, dtype, start, end):
        """Make an EMA of a bfloat16 model and cast it, move the model from `start` to `end`, update so many times."""
        net = nn.Linear(2, 1, dtype=torch.bfloat16)
        with torch.no_grad():
            net.weight.fill_(start)
            net.bias.fill_(start)
        ema = answer(net, decay).to(dtype)
        with torch.no_grad():
            net.weight.fill_(end)
        for _ in range(steps):
            ema.update(net)
        return ema.average()["weight"].detach().clone()

    test.hidden("many small steps add up")
    expected = torch.full((1, 2), 1.0078125 - 0.0078125 * 0.99**50)
    observe_scenario(steps_after_a_cast, EMA, 0.99, 50, torch.float32, 1.0, 1.0078125).returns(
        expected,
        mistake("Small steps are lost: compute in the dtype of the averages.", stage="dtype"),
        mistake(
            "Small steps are lost: compute in the dtype of the averages.",
            when=lambda seen: (seen.value * 128 % 1 == 0).all(),  # numbers that bfloat16 has
        ),
        because="After 50 small updates the average is not that of the formula.",
        rtol=0,
        atol=1e-4,
    )

    for dtype, tolerance, effect in (
        (torch.bfloat16, 2e-2, "changes nothing: in that dtype 0.999 is 1."),
        (torch.float64, 1e-6, "has only the digits of float32."),
    ):
        test.hidden("a decay of 0.999 after a cast of the EMA")
        seen = observe_scenario(steps_after_a_cast, EMA, 0.999, 1, dtype, 0.0, 1000.0)
        seen.returns(
            torch.ones(1, 2, dtype=dtype),
            mistake(
                f"After `ema.to({dtype})` an update with decay 0.999 from 0 towards 1000 {effect} A decay in a tensor "
                "has the digits of its dtype, and a buffer is cast with the averages: keep it as a Python float.",
                when=lambda seen, dtype=dtype: (
                    seen.value.eq(0).all() if dtype == torch.bfloat16 else (seen.value - 1).abs().max() < 1e-3
                ),
            ),
            because="After a cast of the EMA an update does not give decay * average + (1 - decay) * current.",
            rtol=0,
            atol=tolerance,
        )
    ### END HIDDEN TESTS


# %% check="ema-weights" points=1
"""The averages are saved; decay from 0 to 1; tied weights and special names."""
with check("ema-weights") as test:

    def restored(answer, kind, decay):
        """Load the state_dict of an EMA into a new EMA of another model."""
        net, other = moved(model_of(kind), 0.5), moved(model_of(kind), 9.0)
        ema = answer(net, decay)
        ema.update(moved(net, 4.0))
        wanted = copies_of(ema.average())
        facts = {"is module": isinstance(ema, nn.Module), "wanted": wanted, "model": copies_of(net.state_dict())}
        if not facts["is module"] or wanted is None or wanted.keys() != facts["model"].keys():
            return facts
        new = answer(other, decay)
        before = copies_of(new.average())
        facts["not persistent"] = bool({*dict(ema.named_buffers())} - {*ema.state_dict()})
        new.load_state_dict(ema.state_dict())
        after = copies_of(new.average())
        new.update(net)
        return facts | {
            "before": before,
            "after": after,
            "first after update": copies_of(ema.average()),
            "next": copies_of(new.average()),
        }

    not_saved = (
        "ema.state_dict() (or ema.to()) does not reach the averages: plain attributes and dicts are neither saved nor "
        "moved. Use buffers."
    )

    def judge_restored(seen, decay):
        """Judge that the averages went over, and that the new EMA goes on from there."""
        seen.expecting(*known)
        seen.that(seen["is module"], "EMA must be a module.", stage="type")
        must_be_dict = "average() must return a dict from names to tensors."
        seen.that(seen["wanted"] is not None, must_be_dict, stage="type")
        named = seen["wanted"].keys() == seen["model"].keys()
        seen.that(named, "average() must have the names of model.state_dict().", stage="shape")
        all_dicts = all(seen[key] is not None for key in ("before", "after", "next"))
        seen.that(all_dicts, must_be_dict, stage="type")
        seen.that(
            same_state(seen["after"], seen["wanted"]),
            not_saved,
            mistake(
                whole_entries,
                when=lambda seen: any(
                    tensor.is_floating_point() != seen["model"][name].is_floating_point()
                    for name, tensor in seen["wanted"].items()
                ),
            ),
            mistake(
                "The averages are buffers with persistent=False, which ema.state_dict() leaves out: register them as "
                "persistent ones.",
                when=lambda seen: seen["not persistent"],
            ),
        )
        independent = same_state(seen["first after update"], seen["wanted"])
        seen.that(independent, "Two EMAs share their averages after load_state_dict.", stage="aliasing")
        goes_on = same_state(seen["next"], averaged(seen["wanted"], seen["model"], decay))
        seen.that(goes_on, "After load_state_dict, update() must go on from the averages that were loaded.")

    test("the state_dict goes into a new EMA of another model")
    judge_restored(observe_scenario(restored, EMA, "batch norm", 0.75), 0.75)

    ### BEGIN HIDDEN TESTS
    for idea, kind, decay, shifts in [
        ("decay 0: the average is the model", "batch norm", 0.0, [4.0, -2.0]),
        ("decay 1: the average stays", "batch norm", 1.0, [4.0, -2.0]),
        ("the default decay is 0.999", "batch norm", None, [400.0, -200.0]),
        ("many updates", "batch norm", 0.9, [4.0, -2.0, 1.0, 7.0, 3.0, 8.0]),
        ("names that differ in dots and underscores only", "alike", 0.75, [4.0, -2.0]),
        ("a weight with two names, a frozen parameter", "tied", 0.75, [4.0, -2.0]),
        ("a model that is a single layer", "flat", 0.75, [4.0, -2.0]),
        ("entries without elements", "empty", 0.75, [4.0, -2.0]),
        ("a buffer that is a view of a parameter's first rows", "rows", 0.75, [4.0, -2.0]),
        ("integers that are no counters of batches", "whole", 0.75, [4.0, -2.0]),
    ]:
        test.hidden(idea)
        judge(observe_scenario(story, EMA, kind, decay, shifts), 0.999 if decay is None else decay)

    test.hidden("the training flags of the model, one part of which is in eval mode")
    seen = observe_scenario(story, EMA, "batch norm", 0.75, [4.0])
    first, made, updated = seen["flags"]
    seen.that(
        made == first,
        "EMA(model) switched train/eval flags of the model that is trained: `model.eval()` changes the model itself, "
        "also in `copy.deepcopy(model.eval())`. Switch the copy.",
        stage="rule",
    )
    seen.that(
        updated == first,
        "update() changed train/eval flags of the model. It doesn't need them, and `model.train(was)` gives every part "
        "the flag of the whole model; here one part was in another mode.",
        stage="rule",
    )

    for kind in ("alike", "tied"):
        test.hidden("the state_dict, for models with special names")
        judge_restored(observe_scenario(restored, EMA, kind, 0.5), 0.5)
    ### END HIDDEN TESTS
