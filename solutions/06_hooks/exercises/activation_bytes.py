# %% [markdown]
# ### Exercise 6.7 · What does backward keep in memory?
#
# measure · solid · 15 min · 2 points
#
# With a large batch, most of the memory of a training step is neither weights nor gradients but the tensors that
# forward keeps for backward. Build the instrument that measures them for any model. (Section 12.5 uses it to measure
# how much checkpointing saves.)
#
# **Contract**
#
# - Call `model(x)` once and return the number of bytes that autograd saves for backward while it runs, also in a branch
#   whose result is dropped. The model's parameters and buffers don't count, even if they are frozen. If x itself is
#   saved, it counts.
# - Sum over *distinct storages*. If a storage is saved through several views, count it once, with its whole size.
# - Under `no_grad` nothing is saved, and the result is 0.
# - The model, its gradients and x are unchanged, apart from what the model's own forward writes (the running statistics
#   of a batch norm in train mode). No hook is left behind, even if the model raises, and no backward pass is run.
#
# **Rule.** Measure, don't compute it from shapes. The check uses layers that you have not seen, such as a custom
# Function and one that keeps only its input and computes everything again in backward (checkpointing).
#
# <details><summary>Hint 1</summary>
#
# Autograd packs every tensor it saves. Who can watch the packing, and when are two saved tensors the same memory?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# A pair of functions around the forward can watch the packing, because pack is called with every tensor that autograd
# saves. Count storages, not tensors, for example in a dict with one entry per storage. Then take out the storages of
# parameters and buffers. A saved weight is often a view, so also compare storages there.
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# Put `saved_tensors_hooks` around the call of the model. In pack, keep the storage under its address, and return the
# tensor detached, because a saved output would otherwise keep its own graph alive. A storage that nobody keeps may be
# freed while the model still runs, and its address reused for the next tensor. At the end, drop the addresses that
# belong to parameters and buffers, and add up the sizes of the others.
#
# </details>


# %% answer="activation-bytes"
def activation_bytes(model: nn.Module, x: Tensor) -> int:
    """The bytes that autograd keeps for backward of model(x), without parameters and buffers."""
    ### BEGIN SOLUTION
    kept: dict[int, torch.UntypedStorage] = {}  # what is kept isn't freed: no address is reused

    def pack(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        kept[storage.data_ptr()] = storage
        return tensor.detach()  # an output that is saved would hold its own graph otherwise

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        model(x)
    for tensor in [*model.parameters(), *model.buffers()]:
        kept.pop(tensor.untyped_storage().data_ptr(), None)
    return sum(storage.nbytes() for storage in kept.values())
    ### END SOLUTION


# %% helpers="activation-bytes"
def three_layers():
    """Linear, ReLU, Linear."""
    return nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 5))


def watched(measure, model, x):
    """Measure, and note what happened to the model and to x."""
    leaves, tensors = [*model.parameters(), x], [*model.parameters(), *model.buffers(), x]
    calls, modes = [], [module.training for module in model.modules()]
    grads, flags = [t.grad for t in leaves], [t.requires_grad for t in leaves]
    values = [t.tolist() for t in tensors]
    tables = [table for m in model.modules() for kind, table in vars(m).items() if kind.endswith("_hooks")]
    counter = model.register_forward_pre_hook(lambda *args: calls.append(1))
    hooks = [len(table) for table in tables]
    came = measure(model, x)
    changed = {
        "gradients": any(t.grad is not grad for t, grad in zip(leaves, grads, strict=True)),
        "requires_grad": [t.requires_grad for t in leaves] != flags,
        "training mode": [module.training for module in model.modules()] != modes,
        "values": [t.tolist() for t in tensors] != values,
        "hooks": [len(table) for table in tables] != hooks,
        "hooks of saved tensors": torch._C._autograd._top_saved_tensors_default_hooks(True) is not None,
    }
    counter.remove()
    return {"bytes": came, "calls": len(calls), "changed": [what for what, differs in changed.items() if differs]}


sentences = {
    "params": "Your count includes parameters or buffers. A Linear also saves its weight, as a transposed "
    "view, so exclude by storage and not by object identity.",
    "buffers": "Your count includes the model's buffers, such as the running statistics of a batch norm. "
    "Leave them out together with the parameters.",
    "frozen": "Your count includes frozen parameters. Leave out all parameters, whether they are trained or not.",
    "lost": "Storages are missing. Whatever pack neither returns nor keeps is freed during forward, and its "
    "address is used for the next tensor.",
    "shape": "Two storages of one shape are two storages.",
    "twice": "A storage that is saved through two views, or twice, was counted twice.",
    "numel": "That is the number of elements, not bytes; half precision takes two bytes each.",
    "outputs": "You summed the layers' outputs. Not every output is saved (a last Linear does not need its own), "
    "and some layers save their input or extra tensors.",
    "no x": "x is missing: a layer saves its input for the gradient of its weight, and the first one's input is x.",
    "mask": "Your count leaves out a saved mask. Every dtype counts, including bool.",
    "dropped": "Your count leaves out what a branch saved whose result is dropped. Count what is packed while the "
    "model runs, and not what is still alive afterwards.",
    "view": "You counted the size of the view. What is kept alive is the whole storage behind it; an expanded "
    "tensor is the other way round.",
}


def batch_of(size, dtype=torch.float32):
    """A batch of inputs."""
    return (torch.arange(8 * size) * 7 % 11 - 5).reshape(size, 8).to(dtype)


def judge(seen, expected, **betrayed):
    """Judge the number of bytes; numbers that betray a misconception are given by its name."""
    came = seen["bytes"]
    seen.that(
        isinstance(came, (int, float)) and not isinstance(came, bool),
        "The result must be a number of bytes, an int.",
        stage="type",
    )
    named = [
        mistake(
            "The number is wrong because the model was switched to another mode, which saves other things.",
            when=lambda seen: "training mode" in seen["changed"],
        ),
        mistake(
            "Nothing was counted. model(x) must run inside the block, with the grad mode as it is, and it is pack "
            "that is called there; unpack is called in backward.",
            when=lambda seen: came == 0 and not any(0 in numbers for numbers in betrayed.values()),
        ),
    ]
    named += [
        mistake(sentences[name.replace("_", " ")], when=lambda seen, numbers=numbers: came in numbers)
        for name, numbers in betrayed.items()
    ]
    seen.that(came == expected, f"Autograd keeps {expected} bytes here; your instrument says {came}.", *named)
    seen.that(seen["calls"] == 1, "model(x) must run once.", stage="rule")


# %% check="activation-bytes" points=1
"""The bytes of all distinct storages that are saved, parameters and buffers not counted."""
with check("activation-bytes") as test:

    class Square(nn.Module):
        """Saves x twice, in one storage."""

        def forward(self, x):
            return x * x

    def of_three_layers(measure, x):
        """Measure what three layers keep, in the dtype of x."""
        return watched(measure, three_layers().to(x.dtype), x)

    def of_square(measure, x):
        """Measure what a square keeps."""
        return watched(measure, Square(), x)

    test("Linear, ReLU, Linear; a batch of 10: x (320 bytes) and the output of ReLU (640 bytes)")
    seen = observe_scenario(of_three_layers, activation_bytes, batch_of(10))
    judge(
        seen,
        960,
        params=[1280, 1920],  # 320 for a weight, with and without counting twice
        twice=[1600],
        numel=[240, 320, 400, 480],
        outputs=[1480, 1680],
        no_x=[640],
    )

    test("three times that for a batch of 30")
    judge(observe_scenario(of_three_layers, activation_bytes, batch_of(30)), 2880)

    test("x * x saves x twice, in one storage")
    seen = observe_scenario(of_square, activation_bytes, torch.arange(5.0).requires_grad_())
    judge(seen, 20, twice=[40], numel=[5, 10], no_x=[0])

    test("half precision: two bytes each")
    seen = observe_scenario(of_three_layers, activation_bytes, batch_of(10, torch.float16))
    judge(seen, 480, numel=[240, 960], params=[640, 960], twice=[800])


# %% check="activation-bytes" points=1
"""Custom Functions, views and frozen layers, many layers; nothing is saved under no_grad; no trace."""
with check("activation-bytes") as test:

    class SavesExtra(torch.autograd.Function):
        """Saves its input and a tensor of its own."""

        @staticmethod
        def forward(ctx, module, x):
            ctx.save_for_backward(x, torch.ones(7, dtype=torch.float64))
            return 2 * x

        @staticmethod
        def backward(ctx, grad):
            return None, 2 * grad

    class Recomputes(torch.autograd.Function):
        """Runs a module without saving anything but x."""

        @staticmethod
        def forward(ctx, module, x):
            ctx.module = module
            ctx.save_for_backward(x)
            return module(x)

        @staticmethod
        def backward(ctx, grad):
            with torch.enable_grad():
                x = ctx.saved_tensors[0].detach().requires_grad_()
                return None, torch.autograd.grad(ctx.module(x), x, grad)[0]

    class Through(nn.Module):
        """Hands a module and x to a function."""

        def __init__(self, function):
            super().__init__()
            self.inner, self.function = nn.Sequential(nn.Linear(8, 32), nn.Tanh(), nn.Linear(32, 8)), function

        def forward(self, x):
            return self.function(self.inner, x)

    def of_function(measure, kind, x):
        """Measure what a custom Function keeps."""
        functions = {"as it is": lambda module, x: module(x), "again": Recomputes.apply, "extra": SavesExtra.apply}
        return watched(measure, Through(functions[kind]), x)

    tracked = batch_of(10).requires_grad_()

    for idea, kind, expected, betrayed in [
        (
            "the layers in a module of their own",
            "as it is",
            1600,
            {"params": [3648], "numel": [400], "no_x": [1280]},
        ),
        ("the same layers, computed again in backward: only x is saved", "again", 320, {}),
        ("a custom Function that saves a tensor of its own", "extra", 376, {"numel": [87, 348]}),
    ]:
        test(idea)
        judge(observe_scenario(of_function, activation_bytes, kind, tracked), expected, **betrayed)

    ### BEGIN HIDDEN TESTS
    class Slice(nn.Module):
        """Saves a small view of a large storage."""

        def forward(self, x):
            return (2 * x)[:, 1:3].square()

    class Spread(nn.Module):
        """Saves a large view of a small storage."""

        def forward(self, x):
            return x.sum(1, keepdim=True).expand(-1, 1000).square()

    class Halves(nn.Module):
        """Saves two views of one storage that begin at different places."""

        def forward(self, x):
            h = 2 * x
            return h[:, :4] * h[:, 4:]

    class PartOfWeight(nn.Module):
        """Saves a part of its weight, which is itself a part of something larger, and a buffer."""

        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.ones(7, 8)[1:])
            self.register_buffer("scale", torch.full((4,), 2.0), persistent=False)

        def forward(self, x):
            return (2 * x) @ self.weight[2:].t() * self.scale

    class Dropped(nn.Module):
        """Saves a result, then another one that nothing needs afterwards."""

        def forward(self, x):
            out = x.exp()
            x[:, :4].exp().sum()
            return out

    class Choice(nn.Module):
        """Saves a mask of one byte for each element."""

        def forward(self, x):
            return torch.where(x > 0, 2 * x, 3 * x)

    def of_layer(measure, kind, x):
        """What a layer keeps, or three layers of which not all are trained."""
        if kind == "slice":
            model = Slice()
        elif kind == "spread":
            model = Spread()
        elif kind == "halves":
            model = Halves()
        elif kind == "part of weight":
            model = PartOfWeight()
        elif kind == "dropped":
            model = Dropped()
        elif kind == "choice":
            model = Choice()
        elif kind == "norm":
            model = nn.BatchNorm1d(8).eval()
        elif kind == "deep":
            model = nn.Sequential(*[nn.Sigmoid() for _ in range(30)])
        elif kind == "sigmoid":
            model = nn.Sequential(nn.Sigmoid())
        else:
            model = three_layers()
            model.requires_grad_(kind != "frozen")
            model[0].requires_grad_(kind not in ("frozen", "frozen below"))
        with torch.set_grad_enabled(kind != "no_grad"):
            return watched(measure, model, x)

    for idea, kind, x, expected, betrayed in [
        ("a slice keeps the whole storage behind it", "slice", tracked, 320, {"view": [80]}),
        ("an expanded tensor keeps its small storage only", "spread", tracked, 40, {"view": [40000]}),
        ("two views of one storage that begin at different places", "halves", tracked, 320, {"twice": [640]}),
        ("x is a view itself", "three", torch.ones(10, 12)[:, 2:10], 1120, {"view": [960, 1600], "no x": [640]}),
        ("a mask takes one byte for each element", "choice", tracked, 80, {"mask": [0]}),
        ("a branch whose result is dropped", "dropped", tracked, 480, {"dropped": [320]}),
        ("the output of a last layer, where that is what is saved", "sigmoid", tracked, 320, {}),
        ("under no_grad nothing is saved", "no_grad", batch_of(10), 0, {}),
        ("under no_grad nothing is saved, also where x requires grad", "no_grad", tracked, 0, {}),
        ("a frozen model saves nothing for a plain x", "frozen", batch_of(10), 0, {"outputs": [1480], "frozen": [320]}),
        ("a frozen model between x and its gradient", "frozen", tracked, 640, {"frozen": [1152, 1472, 960]}),
        ("a frozen first layer", "frozen below", batch_of(10), 640, {"frozen": [960]}),
        ("a part of a weight, and a buffer", "part of weight", tracked, 320, {"buffers": [336], "params": [544, 560]}),
        (
            "batch norm in eval mode: its buffers are not counted",
            "norm",
            batch_of(10),
            320,
            {"buffers": [384, 416], "params": [352]},
        ),
    ]:
        test.hidden(idea)
        seen = observe_scenario(of_layer, activation_bytes, kind, x)
        judge(seen, expected, **{name.replace(" ", "_"): numbers for name, numbers in betrayed.items()})

    test.hidden("many layers of one size")
    for width in (50, 70, 90, 110, 1000):  # whether a freed address is given out again depends on the size
        seen = observe_scenario(of_layer, activation_bytes, "deep", torch.ones(10, width).requires_grad_())
        judge(seen, 1200 * width, shape=[40 * width], lost=range(1200 * width))

    test.hidden("the model and x are unchanged")
    for kind, x in (("three", batch_of(10)), ("norm", tracked), ("frozen below", tracked)):
        seen = observe_scenario(of_layer, activation_bytes, kind, x)
        changed = ", ".join(seen["changed"])
        seen.that(
            not changed,
            f"The model or x was changed ({changed}).",
            mistake(
                "The hooks of saved tensors are still on after the call. Enter them with `with`, so that they"
                " end with the block.",
                when=lambda seen: seen["changed"] == ["hooks of saved tensors"],
            ),
            stage="arguments",
        )

    def of_raising(measure, x):
        """Measure a model that raises: whether hooks of saved tensors are still on."""
        with suppress(RuntimeError):
            measure(nn.Sequential(nn.Linear(8, 16), nn.Linear(8, 5)), x)
        still = torch._C._autograd._top_saved_tensors_default_hooks(True) is not None
        if still:
            torch._C._autograd._pop_saved_tensors_default_hooks()
        return still

    test.hidden("a model that raises: no hook is left")
    seen = observe_scenario(of_raising, activation_bytes, batch_of(10))
    seen.that(
        not seen.value,
        "The model raised, and your hooks of saved tensors are still on. Enter them with `with`, so that they end with "
        "the block in any case.",
        stage="rule",
    )
    ### END HIDDEN TESTS
