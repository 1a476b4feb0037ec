# %% [markdown]
# ### Exercise 1.7 · Where does the memory of a training step go?
#
# measure · long · 20 min · 3 points
#
# "Out of memory: reduce the batch size." Whether that helps depends on what fills the memory. Write the instrument that
# tells you. ([Chapter 13](../13_memory_time/memory_time.ipynb) is about the moment of the step at which the memory runs
# out.)
#
# **Contract**
#
# - Run exactly one complete step (forward, loss, backward, optimizer.step) and return a dict of four sizes in *bytes*:
#   - `"parameters"`: all parameters of the model;
#   - `"gradients"`: the parameters' `.grad` tensors that exist after backward;
#   - `"optimizer"`: all tensors in the optimizer's state after the step;
#   - `"activations"`: the storages of the tensors that autograd saves for backward during forward and loss, each
#     distinct storage once and with its full size. Leave out the storages of parameters; the batch counts if it is
#     saved.
# - Frozen and unused parameters have no gradient and no optimizer state. Any dtype (bytes, not elements) and any
#   optimizer whose `step()` takes no argument and changes the parameters in place must work.
# - You may assume that the model has no checkpointing, no custom `autograd.Function` and no sparse gradients, that the
#   loss depends on all that forward computes, and that the optimizer's state has no lists of tensors.
# - It is up to you whether you count buffers that autograd saves, such as the running statistics of a batch norm, and
#   whether the dict has other keys.
#
# `torch.autograd.graph.saved_tensors_hooks` shows what autograd saves.
#
# <details><summary>Hint 1</summary>
#
# Which of the four numbers change if you halve the batch? Predict before you measure.
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# A pack hook sees every tensor that is saved. Two saved tensors may share one storage (a ReLU's output is the next
# layer's input), and a Linear layer saves its weight. So use a dict with the storage's data_ptr as the key, and leave
# the parameters' storages out. The optimizer's state is created in the first step.
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# Put the hooks around forward and loss only. The pack hook enters the storage's address and its size in the dict and
# returns the tensor detached, because a saved output would otherwise keep its own graph alive. After the forward pass,
# remove the addresses of the parameters' storages. Every tensor has `nbytes`; add it up over the gradients that aren't
# None, and over all tensors in the values of the optimizer's state.
#
# </details>


# %% answer="training-memory"
def training_memory(
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    loss_fn: Callable[[Tensor, Tensor], Tensor],
    x: Tensor,
    y: Tensor,
) -> dict[str, int]:
    """Run one training step; returns the bytes that it needs, by kind.

    The kinds: "parameters", "gradients", "optimizer" and "activations".
    """
    ### BEGIN SOLUTION
    own = {parameter.untyped_storage().data_ptr() for parameter in model.parameters()}
    saved = {}

    def pack(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in own:
            saved[storage.data_ptr()] = storage.nbytes()
        return tensor.detach()  # an output that is saved would hold its own graph otherwise

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        loss = loss_fn(model(x), y)
    loss.backward()
    optimizer.step()

    parameters = list(model.parameters())
    state = [value for entry in optimizer.state.values() for value in entry.values()]
    return {
        "parameters": sum(p.nbytes for p in parameters),
        "gradients": sum(p.grad.nbytes for p in parameters if p.grad is not None),
        "optimizer": sum(value.nbytes for value in state if isinstance(value, Tensor)),
        "activations": sum(saved.values()),
    }
    ### END SOLUTION


# %% helpers="training-memory"
def batch(size, dtype=torch.float32):
    """Inputs and targets."""
    generator = torch.Generator().manual_seed(1)
    return [torch.randn(size, n, generator=generator).to(dtype) for n in (32, 10)]


def activations(report):
    """The number that is asked for, or what came in its place."""
    if not isinstance(report, dict):
        return f"a dict is asked for, not {'None' if report is None else f'a {type(report).__name__}'}"
    value = report.get("activations")
    return value if isinstance(value, (int, float)) else 'the dict has no number under "activations"'


def kept(model):
    """The model, with hooks that keep the outputs of its layers alive, so that their addresses aren't used again."""
    outputs = []
    for layer in model:
        layer.register_forward_hook(lambda layer, args, output: outputs.append(output))
    return model


# %% check="training-memory" points=1
"""One complete step; the bytes of parameters, gradients and optimizer state."""
with check("training-memory") as test:

    def mlp():
        """Three linear layers with 6922 parameters."""
        torch.default_generator.manual_seed(0)
        return nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))

    def watched(training_memory, make, x, y):
        """What is reported for a new model and optimizer; how often what ran; was it one step, and no more?"""
        other, its_optimizer = make()
        F.mse_loss(other(x), y).backward()
        its_optimizer.step()
        wanted = [parameter.detach() for parameter in other.parameters()]
        model, optimizer = make()
        before = [parameter.detach().clone() for parameter in model.parameters()]
        ran = {"forward": 0, "loss": 0, "step": 0}

        def count(name):
            ran[name] += 1

        def loss_fn(out, target):
            count("loss")
            return F.mse_loss(out, target)

        model.register_forward_hook(lambda *args: count("forward"))
        optimizer.register_step_post_hook(lambda *args: count("step"))
        report = training_memory(model, optimizer, loss_fn, x, y)
        after = [parameter.detach() for parameter in model.parameters()]
        keys = ("parameters", "gradients", "optimizer")
        return {
            "type": "dict" if isinstance(report, dict) else "None" if report is None else type(report).__name__,
            "report": {key: report.get(key) for key in keys} if isinstance(report, dict) else {},
            "ran": ran,
            "changed": any(not torch.equal(a, b) for a, b in zip(before, after, strict=True)),
            "as one step": all(torch.allclose(a, b) for a, b in zip(wanted, after, strict=True)),
        }

    def optimizer_of(name, parameters):
        """An optimizer by name."""
        if name == "Adam":
            return torch.optim.Adam(parameters, lr=0.01)
        return torch.optim.SGD(parameters, lr=0.01, momentum=0.9 * (name == "SGD with momentum"))

    def with_mlp(training_memory, name, x, y):
        """Measure a step of the multilayer perceptron with an optimizer."""

        def make():
            model = mlp()
            return model, optimizer_of(name, model.parameters())

        return watched(training_memory, make, x, y)

    def judge(seen, parameters, gradients, optimizer, *mistakes, shown=False):
        """Judge the three sizes, and that one complete step ran."""
        expected = {"parameters": parameters, "gradients": gradients, "optimizer": optimizer}
        seen.that(seen["type"] == "dict", f"A dict is asked for, not {seen['type']}.", stage="type")
        missing = ", ".join(key for key, value in seen["report"].items() if value is None)
        seen.that(not missing, f"The dict has no {missing}.", stage="shape")
        numbers = all(isinstance(value, (int, float)) for value in seen["report"].values())
        seen.that(numbers, "The sizes must be numbers.", stage="type")
        seen.that(seen["changed"], "Run the complete step: the parameters did not change.")
        too_often = [f"{name} {n} times" for name, n in seen["ran"].items() if n != 1]
        seen.that(not too_often, f"Exactly one step is asked for, but it ran {', '.join(too_often)}.", stage="rule")
        seen.that(seen["as one step"], "The parameters are not those after one complete step.")
        wrong = [key for key, value in expected.items() if seen["report"][key] != value]
        off = "; ".join(f"{key}: expected {expected[key]} bytes, got {seen['report'][key]}" for key in wrong)
        seen.that(
            not wrong,
            f"These sizes are off: {off if shown else ', '.join(wrong)}.",
            *mistakes,
            mistake(
                "The sizes are asked for in bytes.",
                when=lambda seen: round(parameters / seen["report"]["parameters"]) in (1000, 1024, 10**6, 2**20),
            ),
            mistake(
                "You counted elements, not bytes: multiply by element_size().",
                when=lambda seen: seen["report"]["parameters"] in (parameters // 4, parameters // 8),
            ),
            mistake(
                "The gradients were cleared before you counted them, or not there yet.",
                when=lambda seen: seen["report"]["gradients"] == 0 < gradients,
            ),
            mistake(
                "The optimizer has no state before its first step (state is created lazily). Measure after step().",
                when=lambda seen: seen["report"]["optimizer"] == 0 < optimizer,
            ),
            mistake(
                "The optimizer's state depends on the optimizer (Adam: two tensors per parameter plus a step counter, "
                "SGD without momentum: nothing) and on which parameters have gradients: count the tensors in its "
                "state.",
                when=lambda seen: wrong == ["optimizer"],
            ),
        )

    test("three linear layers (6922 parameters) with Adam, batch 64")
    seen = observe_scenario(with_mlp, training_memory, "Adam", *batch(64))
    judge(seen, 27688, 27688, 2 * 27688 + 6 * 4, shown=True)

    test("SGD, without and with momentum")
    judge(observe_scenario(with_mlp, training_memory, "SGD", *batch(64)), 27688, 27688, 0, shown=True)
    seen = observe_scenario(with_mlp, training_memory, "SGD with momentum", *batch(64))
    judge(seen, 27688, 27688, 27688, shown=True)

    ### BEGIN HIDDEN TESTS
    class Counting(torch.optim.Optimizer):
        """An optimizer that keeps a number, a text and a mean for each parameter, and a tensor for all of them."""

        def __init__(self, parameters):
            super().__init__(parameters, {})

        @torch.no_grad()
        def step(self):
            for parameter in self.param_groups[0]["params"]:
                self.state[parameter] = {"steps": 1, "name": "mean", "mean": parameter.grad.mean(0)}
                parameter -= 0.01 * parameter.grad
            self.state["all parameters"] = {"history": torch.zeros(25)}

    def with_variant(training_memory, name, x, y):
        """Measure a step of a variant, mostly with Adam."""

        def make():
            model = mlp()
            if name == "frozen":
                model[0].requires_grad_(False)
            if name == "unused":
                model[0].register_parameter("spare", nn.Parameter(torch.ones(100)))
            if name == "buffer":
                model[0].register_buffer("spare", torch.ones(100))
            if name == "tied":
                model[2].bias = model[0].bias
            if name == "an optimizer of one's own":
                return model, Counting(model.parameters())
            parameters = model[4].parameters() if name == "one layer trained" else model.parameters()
            return model, torch.optim.Adam(parameters, lr=0.01)

        return watched(training_memory, make, x, y)

    first_layer, last_layer = (32 * 64 + 64) * 4, (64 * 10 + 10) * 4
    rest = 27688 - first_layer

    test.hidden("a frozen layer")
    judge(
        observe_scenario(with_variant, training_memory, "frozen", *batch(8)),
        27688,
        rest,
        2 * rest + 4 * 4,
        mistake(
            "Frozen parameters also take memory, so count all parameters.",
            when=lambda seen: seen["report"]["parameters"] == rest,
        ),
        mistake(
            "Gradients are not always as big as the parameters: frozen or unused parameters have none.",
            when=lambda seen: seen["report"]["gradients"] == 27688,
        ),
    )

    test.hidden("a parameter that forward does not use")
    judge(
        observe_scenario(with_variant, training_memory, "unused", *batch(8)),
        27688 + 400,
        27688,
        2 * 27688 + 6 * 4,
        mistake(
            "Gradients are not always as big as the parameters: frozen or unused parameters have none.",
            when=lambda seen: seen["report"]["gradients"] == 27688 + 400,
        ),
    )

    test.hidden("an optimizer that has one layer only")
    judge(
        observe_scenario(with_variant, training_memory, "one layer trained", *batch(8)),
        27688,
        27688,
        2 * last_layer + 2 * 4,
        mistake(
            "The gradients are those of the model; the optimizer may have fewer parameters.",
            when=lambda seen: seen["report"]["gradients"] == last_layer or seen["report"]["parameters"] == last_layer,
        ),
    )

    test.hidden("an optimizer whose state holds numbers and text besides tensors, and a tensor for all parameters")
    own = (32 + 64 + 64 + 3) * 4  # the means along dim 0: of three weights, and of three biases
    seen = observe_scenario(with_variant, training_memory, "an optimizer of one's own", *batch(8)).expecting(
        mistake(
            "You called step() with an argument, and this optimizer's step() takes none. Run forward, loss and "
            "backward yourself, then call step().",
            raises="positional argument",
        ),
        mistake(
            "An optimizer's state may hold other things than tensors: count the tensors only.", raises="Attribute|Type"
        ),
    )
    judge(
        seen,
        27688,
        27688,
        own + 100,
        mistake(
            "You left out a tensor in the optimizer's state that isn't stored under a parameter. Go through all values "
            "of `optimizer.state`, whatever their keys are.",
            when=lambda seen: seen["report"]["optimizer"] == own,
        ),
    )

    test.hidden("a bias that two layers share")
    shared = 27688 - 256
    judge(
        observe_scenario(with_variant, training_memory, "tied", *batch(8)),
        shared,
        shared,
        2 * shared + 5 * 4,
        mistake(
            "A parameter that two layers share is one parameter: count it once.",
            when=lambda seen: 27688 in (seen["report"]["parameters"], seen["report"]["gradients"]),
        ),
    )

    test.hidden("a buffer")
    judge(
        observe_scenario(with_variant, training_memory, "buffer", *batch(8)),
        27688,
        27688,
        2 * 27688 + 6 * 4,
        mistake(
            "Buffers are not parameters; the state_dict contains both.",
            when=lambda seen: seen["report"]["parameters"] == 27688 + 400,
        ),
    )
    ### END HIDDEN TESTS

# %% check="training-memory" points=1
"""Activations: the distinct storages that autograd saves, without those of the parameters."""
with check("training-memory") as test:

    def mlp(dtype=torch.float32):
        """Three linear layers."""
        torch.default_generator.manual_seed(0)
        layers = [nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10)]
        return nn.Sequential(*layers).to(dtype)

    def with_mlp(training_memory, x, y):
        """Measure the activations of the multilayer perceptron."""
        model = kept(mlp())
        report = training_memory(model, torch.optim.Adam(model.parameters()), F.mse_loss, x, y)
        return activations(report)

    def judge_mlp(size):
        """Judge the activations of the multilayer perceptron for a batch of this size."""
        inputs, hidden, outputs, weights = 32 * size * 4, 64 * size * 4, 10 * size * 4, (64 * 64 + 64 * 10) * 4
        expected = inputs + 2 * hidden + 2 * outputs  # x, two outputs of ReLU, the prediction, y
        no_views = expected + 2 * hidden
        known = {
            "You counted elements, not bytes: multiply by element_size().": (expected / 4, no_views / 4),
            "The size is asked for in bytes.": (expected / 1000, expected / 1024, expected / 10**6, expected / 2**20),
            "Saved weights are parameters, already counted there: leave the parameters' storages out of the "
            "activations.": (expected + weights,),
            "The same storage was counted more than once: a ReLU's output and the next layer's input are one tensor "
            "saved twice.": (no_views, no_views + weights),
            "You added up layer outputs. Autograd keeps what the backward formulas need, which is something else (a "
            "Linear needs its input, a ReLU its output, dropout a mask).": (
                4 * hidden + outputs,
                4 * hidden + 2 * outputs,
                4 * hidden + outputs + inputs,
            ),
            "The loss function also saves tensors, so it must run inside the hooks.": (expected - 2 * outputs,),
            "The batch also counts if it is saved: the first layer needs x for the gradient of its weight, "
            "the loss needs y.": (expected - inputs, expected - inputs - outputs, expected - outputs),
        }
        seen = observe_scenario(with_mlp, training_memory, *batch(size))
        seen.that(not isinstance(seen.value, str), f"No activations were reported: {seen.value}.", stage="type")
        seen.that(
            seen.value == expected,
            f"The activations are {expected} bytes here, got {seen.value}.",
            *[
                mistake(sentence, when=lambda seen, sizes=sizes: seen.value in sizes)
                for sentence, sizes in known.items()
            ],
        )

    test("three linear layers, batch 64")
    judge_mlp(64)

    test("batch 32: half of it")
    judge_mlp(32)

# %% check="training-memory" points=1
"""Activations where layers are frozen, tensors are slices, and for other dtypes and losses."""
with check("training-memory") as test:

    def mlp(dtype=torch.float32):
        """Three linear layers."""
        torch.default_generator.manual_seed(0)
        layers = [nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10)]
        return nn.Sequential(*layers).to(dtype)

    def many_steps(out, target):
        """A loss function of 100 steps, each of which saves a tensor that nothing else needs."""
        out = out.repeat(1, 20)
        for _ in range(100):
            out = out + 1
            out = out.sin()
        return out.square().mean()

    def measured(training_memory, name):
        """Measure the activations of the multilayer perceptron with plain SGD."""
        model = kept(mlp())
        model[0].requires_grad_(name != "frozen")
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        loss_fn = many_steps if name == "many steps" else F.mse_loss
        return activations(training_memory(model, optimizer, loss_fn, *batch(16)))

    test("three linear layers, batch 16")
    inputs, hidden, outputs = 32 * 16 * 4, 64 * 16 * 4, 10 * 16 * 4
    seen = observe_scenario(measured, training_memory, "plain")
    seen.that(
        seen.value == inputs + 2 * hidden + 2 * outputs,
        "The check of the activations above is not passed yet, and this one goes on from there: begin with that one.",
    )

    test("the same with a frozen first layer: it does not need x")
    seen = observe_scenario(measured, training_memory, "frozen")
    seen.that(
        seen.value == 2 * hidden + 2 * outputs,
        f"The activations are {2 * hidden + 2 * outputs} bytes here, got {seen.value}. "
        "A frozen layer needs no gradient of its weight, so its input is not saved: ask autograd, don't guess.",
    )

    test("a loss function with many steps, each of which saves a tensor")
    seen = observe_scenario(measured, training_memory, "many steps")
    many = inputs + 2 * hidden + 101 * 20 * outputs  # what 100 times sin() and square() need
    seen.that(
        seen.value == many,
        f"Autograd saves {many} bytes of activations here, and you report another number. If a storage that you "
        "counted is freed before the loss is computed, a later tensor may get its address, and both share one entry "
        "of your dict. Let the pack hook return the saved tensor itself, detached, or keep it in a list.",
    )

    ### BEGIN HIDDEN TESTS
    class Slices(nn.Module):
        """Saves two slices of one large tensor."""

        def __init__(self):
            super().__init__()
            self.wide, self.last = nn.Linear(6, 40), nn.Linear(3, 2)

        def forward(self, x):
            wide = self.wide(x)
            return self.last(wide[:, :3] ** 2 + wide[:, 20:23].sin())

    class PartOfWeight(nn.Module):
        """Uses the last rows of a weight only."""

        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.randn(12, 32))

        def forward(self, x):
            return F.linear(x.sin(), self.weight[2:]).tanh() * self.weight[5, 3]

    def in_one_storage(model):
        """The model, with all its parameters in one large tensor, a few numbers apart from its beginning."""
        flat, place = torch.zeros(8000), 8
        for parameter in model.parameters():
            part = flat[place : place + parameter.numel()].view_as(parameter)
            parameter.data = part.copy_(parameter.detach())
            place += parameter.numel()
        return model

    def case(name):
        """A model, a loss function, x and y."""
        torch.default_generator.manual_seed(2)
        if name == "slices":
            return Slices(), F.mse_loss, torch.randn(5, 6), torch.randn(5, 2)
        if name == "labels":
            return mlp(), F.cross_entropy, batch(16)[0], torch.randint(10, (16,))
        if name == "double":
            return mlp(torch.float64), F.mse_loss, *batch(16, torch.float64)
        if name in ("dropout", "dropout in eval mode"):
            model = nn.Sequential(nn.Linear(32, 20), nn.Dropout(0.3), nn.Linear(20, 10), nn.Tanh())
            return model.train(name == "dropout"), F.l1_loss, *batch(16)
        if name == "part of a weight":
            return PartOfWeight(), F.mse_loss, batch(16)[0].requires_grad_(), batch(16)[1]
        if name == "one storage":
            return in_one_storage(mlp()), F.mse_loss, *batch(16)
        model = mlp()
        if name == "all frozen but the last bias":
            model.requires_grad_(False)[4].bias.requires_grad_(True)
        if name == "a frozen layer in the middle":
            model[2].requires_grad_(False)
        if name == "intermediate results":
            return model, lambda out, target: ((out - target) * out.exp()).mean(), *batch(16)
        if name == "a detached weight":
            return model, lambda out, target: (out @ model[4].weight.detach()).square().mean(), *batch(16)
        return model, F.mse_loss, *batch(16)

    def with_case(training_memory, name):
        """Measure the activations of one of the cases, with plain SGD."""
        model, loss_fn, x, y = case(name)
        torch.default_generator.manual_seed(3)
        return activations(training_memory(model, torch.optim.SGD(model.parameters(), lr=0.1), loss_fn, x, y))

    def saved(name):
        """The bytes that autograd saves in one of the cases, without the storages of parameters."""
        model, loss_fn, x, y = case(name)
        parameters = {parameter.untyped_storage().data_ptr() for parameter in model.parameters()}
        tensors = []
        torch.default_generator.manual_seed(3)
        with torch.autograd.graph.saved_tensors_hooks(lambda t: tensors.append(t.detach()) or tensors[-1], lambda t: t):
            loss_fn(model(x), y)
        storages = {tensor.untyped_storage().data_ptr(): tensor.untyped_storage().nbytes() for tensor in tensors}
        return sum(size for place, size in storages.items() if place not in parameters)

    view_elements = mistake(
        "Count the storage that is kept alive, not the elements of the view that was saved (a saved slice keeps the "
        "whole storage).",
        stage="value",
        when=lambda seen: isinstance(seen.value, (int, float)) and seen.value < expected,
    )
    four_bytes = mistake(
        "You assumed 4 bytes per element; this model is in another dtype.",
        when=lambda seen: seen.value == expected / 2,
    )
    no_labels = mistake(
        "The labels are also saved for backward. The batch counts if it is saved.",
        when=lambda seen: seen.value == expected - 16 * 8,
    )
    in_weight = mistake(
        "Storages of parameters are left out, also where the parameter, or what is saved of it, is only a part of the "
        "storage.",
        when=lambda seen: seen.value > expected,
    )
    frozen_weight = mistake(
        "A frozen weight is also a parameter. Backward needs it to go on to the layers below, so it is saved,"
        " and its storage is left out.",
        when=lambda seen: seen.value == expected + 64 * 64 * 4,
    )
    detached_weight = mistake(
        "A detached parameter still has the parameter's storage, which is left out. Compare storages: the detached "
        "tensor is no nn.Parameter, and its _base is None.",
        when=lambda seen: seen.value == expected + 64 * 10 * 4,
    )
    in_eval_mode = mistake(
        "That is what is saved in eval mode, in which dropout makes no mask. Leave the model's mode as it is.",
        when=lambda seen: seen.value == saved("dropout in eval mode"),
    )
    for idea, name, *mistakes in (
        ("two slices of one tensor are saved", "slices", view_elements),
        ("a float64 model", "double", four_bytes),
        ("cross_entropy saves its labels too", "labels", no_labels),
        ("hardly anything is trained", "all frozen but the last bias"),
        ("a frozen layer between trained ones", "a frozen layer in the middle", frozen_weight),
        ("dropout saves a mask", "dropout", in_eval_mode),
        ("a loss function with intermediate results", "intermediate results"),
        ("a part of a weight is saved", "part of a weight", in_weight),
        ("a weight is also used detached", "a detached weight", detached_weight),
        ("all parameters in one large storage", "one storage", in_weight),
    ):
        test.hidden(f"activations: {idea}")
        expected = saved(name)
        seen = observe_scenario(with_case, training_memory, name)
        seen.that(
            seen.value == expected,
            "Another number of bytes is saved here. A pack hook sees every saved tensor; count each storage once.",
            *mistakes,
        )

    def rest_of_double(training_memory):
        """Measure parameters, gradients and optimizer of a float64 model, with momentum."""
        model = mlp(torch.float64)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        report = training_memory(model, optimizer, F.mse_loss, *batch(16, torch.float64))
        return [report.get(key) for key in ("parameters", "gradients", "optimizer")]

    test.hidden("a float64 model: parameters, gradients and optimizer")
    seen = observe_scenario(rest_of_double, training_memory)
    seen.that(27688 not in seen.value, "You assumed 4 bytes per element; this model is in another dtype.")
    ### END HIDDEN TESTS
