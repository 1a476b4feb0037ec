# %% [markdown]
# ### Exercise 13.3 · Four leaks
#
# debug · solid · 30 min · 2 points
#
# Here are four functions from four projects. Each of them returns the right result, and each keeps more memory than
# that result needs. Find the holders, and fix the functions.
#
# **Contract**
#
# - Each function returns what it returns now. Apart from that result, nothing that it creates stays alive. Afterwards
#   grad mode and training flags are the same as before, whatever they were. Each function is worth half a point.
# - `evaluate(model, batches)` returns the mean of the batches' losses as a float. Its peak doesn't grow with the number
#   of batches, except by one number per batch. `requires_grad` flags are the same afterwards.
# - `first_features(model, batches)` returns a list of tensors (batch, width) in the dtype of the model: the first
#   position of each output. Even for batches of one, no tensor owns more memory than it shows, none has a graph, and
#   all can be used in training later.
# - `train(model, optimizer, batches)` skips each batch that raises a RuntimeError, in forward or in backward, and
#   returns {number: error}. Other exceptions propagate. Afterwards the weights are as if only the good batches had been
#   in the list. (The model draws no random numbers here, and the optimizer has all of its parameters.) Each error in
#   the dict has the type and the `args` of the one that was raised, but may be a new one: `type(e)(*e.args)` works for
#   all errors here. Nothing of a failed batch stays alive: not its gradients, and nothing that the error reaches
#   through its traceback, `__cause__` or `__context__`, at any depth. Gradients and optimizer state of good batches may
#   stay.
# - `sizes(model, x)` returns the mean absolute output of each call of a child, a list of floats in the order of the
#   calls. The number is taken from the output as the child returns it, even if it is changed later. The function can be
#   called again and again. The outputs are not all kept at the same time. Afterwards the modules have the same hooks
#   and attributes as before, even if the model raises; its exception propagates, whatever it is. You may assume that no
#   hook of somebody else changes an output and that no child has a `forward` among its own attributes.
#
# <details><summary>Hint 1</summary>
#
# For each function, what is alive after the second call that wasn't alive before the first? What keeps it alive?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# A sum keeps graphs. A row is a view. An error has a `__traceback__`, which has frames, and frames have variables. A
# hook belongs to its module until its handle removes it.
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# The first function needs `no_grad`, the second `no_grad` and a copy. In the third, cut the traceback of the error and
# of every error that you reach through `__cause__` and `__context__`, following both; a failed backward also leaves
# gradients. In the fourth, keep the handles, take the number inside the hook, and remove the handles in `finally`.
#
# </details>


# %% answer="four-leaks"
### BEGIN SOLUTION
def evaluate(model: nn.Module, batches: Sequence[tuple[Tensor, Tensor]]) -> float:
    """The mean of the batches' losses."""
    total = 0.0
    with torch.no_grad():
        for x, y in batches:
            total += F.cross_entropy(model(x).flatten(0, 1), y.flatten()).item()
    return total / len(batches)


def first_features(model: nn.Module, batches: Sequence) -> list[Tensor]:
    """The first position of each output, (batch, width)."""
    features = []
    with torch.no_grad():
        for x, _ in batches:
            features.append(model(x)[:, 0].clone())
    return features


def forget_frames(error: BaseException) -> None:
    """Take the tracebacks off an error and off those it comes from."""
    waiting, seen = [error], {id(error)}
    while waiting:
        one = waiting.pop()
        one.__traceback__ = None
        for origin in (one.__cause__, one.__context__):
            if origin is not None and id(origin) not in seen:
                seen.add(id(origin))
                waiting.append(origin)


def train(model: nn.Module, optimizer: torch.optim.Optimizer, batches: Sequence) -> dict:
    """Train on what can be trained on; returns the other batches' errors by number."""
    failed = {}
    for number, (x, y) in enumerate(batches):
        try:
            loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        except RuntimeError as error:
            optimizer.zero_grad()  # a backward that failed has left some
            forget_frames(error)
            failed[number] = error
    return failed


def sizes(model: nn.Module, x: Tensor) -> list[float]:
    """The mean absolute output of each child of the model."""
    found: list[float] = []
    handles = [
        child.register_forward_hook(lambda module, args, out: found.append(out.abs().mean().item()))
        for child in model.children()
    ]
    try:
        with torch.no_grad():
            model(x)
    finally:
        for handle in handles:
            handle.remove()
    return found


### END SOLUTION
### BEGIN GIVEN
# def evaluate(model: nn.Module, batches: Sequence[tuple[Tensor, Tensor]]) -> float:
#     """The mean of the batches' losses."""
#     raise NotImplementedError  # fix the code below, then delete this line
#     total = 0
#     for x, y in batches:
#         total = total + F.cross_entropy(model(x).flatten(0, 1), y.flatten())
#     return (total / len(batches)).item()
#
#
# def first_features(model: nn.Module, batches: Sequence) -> list[Tensor]:
#     """The first position of each output, (batch, width)."""
#     raise NotImplementedError  # fix the code below, then delete this line
#     features = []
#     for x, _ in batches:
#         features.append(model(x)[:, 0].detach())
#     return features
#
#
# def train(model: nn.Module, optimizer: torch.optim.Optimizer, batches: Sequence) -> dict:
#     """Train on what can be trained on; returns the other batches' errors by number."""
#     raise NotImplementedError  # fix the code below, then delete this line
#     failed = {}
#     for number, (x, y) in enumerate(batches):
#         try:
#             loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten())
#             optimizer.zero_grad()
#             loss.backward()
#             optimizer.step()
#         except RuntimeError as error:
#             failed[number] = error
#     return failed
#
#
# def sizes(model: nn.Module, x: Tensor) -> list[float]:
#     """The mean absolute output of each child of the model."""
#     raise NotImplementedError  # fix the code below, then delete this line
#     outputs = []
#     for layer in model.children():
#         layer.register_forward_hook(lambda module, args, out: outputs.append(out))
#     with torch.no_grad():
#         model(x)
#     return [out.abs().mean().item() for out in outputs]
### END GIVEN


# %% helpers="four-leaks"
def reader(drop=0.0):
    """A small model from ids (batch, length) to logits (batch, length, 7)."""
    torch.manual_seed(1)
    return nn.Sequential(nn.Embedding(9, 8), nn.Linear(8, 16), nn.Tanh(), nn.Dropout(drop), nn.Linear(16, 7))


def batches_of(count, batch=4, length=6):
    """Ids and targets."""
    torch.manual_seed(2)
    return [(torch.randint(9, (batch, length)), torch.randint(7, (batch, length))) for _ in range(count)]


# %% check="four-leaks" points=0.5
"""evaluate: six batches need no more than two, and every mode is afterwards what it was."""
with check("four-leaks") as test:

    def evaluated(evaluate, count, drop, kind):
        """Evaluate batches of one size but for the last one, and note the peak and what has changed."""
        model, batches = reader(drop), batches_of(count)
        if count > 2:
            batches[-1] = (batches[-1][0][:2, :3], batches[-1][1][:2, :3])
        model.train(kind != "eval")
        model[3].train(kind == "mixed")
        model[1].requires_grad_(kind == "plain")
        before = [p.requires_grad for p in model.parameters()], [m.training for m in model.modules()]
        torch.manual_seed(3)
        with torch.set_grad_enabled(kind != "no_grad"):
            value, peak, left = measured(lambda: evaluate(model, batches))
            mode = torch.is_grad_enabled()
        now = [p.requires_grad for p in model.parameters()], [m.training for m in model.modules()]
        return {
            "value": value,
            "peak": peak,
            "left": left,
            "same": now == before and mode == (kind != "no_grad"),
            "grads": any(p.grad is not None for p in model.parameters()),
        }

    def mean_loss(count, drop, kind):
        """The value that the given function gives."""
        model, batches = reader(drop), batches_of(count)
        if count > 2:
            batches[-1] = (batches[-1][0][:2, :3], batches[-1][1][:2, :3])
        model.train(kind != "eval")
        model[3].train(kind == "mixed")
        torch.manual_seed(3)
        with torch.no_grad():
            return sum(F.cross_entropy(model(x).flatten(0, 1), y.flatten()).item() for x, y in batches) / count

    def judge_value(seen, right):
        """A float, and the right one."""
        seen.that(isinstance(seen["value"], (int, float)), "`evaluate` must return a float.", stage="type")
        seen.that(
            math.isclose(seen["value"], right, rel_tol=1e-5),
            f"`evaluate` must return the mean of the batches' losses, as it does now: {right:.5f}, not "
            f"{seen['value']:.5f}.",
        )

    test("two batches and six")
    two = observe_scenario(evaluated, evaluate, 2, 0.0, "plain")
    judge_value(two, mean_loss(2, 0.0, "plain"))
    six = observe_scenario(evaluated, evaluate, 6, 0.0, "plain")
    judge_value(six, mean_loss(6, 0.0, "plain"))
    six.that(
        six["peak"] <= two["peak"] + 64,
        f"The peak of evaluate grows with the number of batches, from {two['peak']} bytes for two to {six['peak']} "
        f"for six.",
        mistake(
            "evaluate: the sum keeps the graph of every batch alive. An evaluation needs no graph.",
            when=lambda seen: seen["peak"] > 2 * two["peak"],
        ),
    )
    six.that(not six["grads"], "evaluate: a parameter has a gradient now. Nothing is trained here.", stage="rule")
    six.that(six["left"] == 0, "evaluate: something that it made is still alive afterwards.")

    ### BEGIN HIDDEN TESTS
    test.hidden("dropout, flags that are mixed, frozen layers, a caller without gradients")
    for kind in ("plain", "eval", "mixed", "no_grad"):
        seen = observe_scenario(evaluated, evaluate, 3, 0.5, kind)
        seen.that(
            seen["same"],
            "evaluate: grad mode, training flags and requires_grad must afterwards be what they were before.",
            stage="rule",
        )
        judge_value(seen, mean_loss(3, 0.5, kind))
    ### END HIDDEN TESTS


# %% check="four-leaks" points=0.5
"""first_features: what is kept is what is shown, for batches of one as well."""
with check("four-leaks") as test:

    def kept(first_features, batch, dtype, drop, grad=True):
        """Take the first features of three batches, and note what is kept."""
        model, batches = reader(drop).to(dtype), batches_of(3, batch)
        model[1].eval()
        before = [m.training for m in model.modules()]
        torch.manual_seed(4)
        with torch.set_grad_enabled(grad):
            features, _, left = measured(lambda: first_features(model, batches))
            flags = [m.training for m in model.modules()] == before and torch.is_grad_enabled() == grad
        tensors = isinstance(features, list) and all(isinstance(f, Tensor) for f in features)
        usable = ""
        if tensors and features:
            try:
                w = torch.ones((), dtype=features[0].dtype, requires_grad=True)
                (w * features[0]).sum().backward()
            except RuntimeError as error:
                usable = str(error)
        return {
            "features": [f.detach().clone() for f in features] if tensors else None,
            "owned": [f.untyped_storage().nbytes() for f in features] if tensors else [],
            "shown": [f.nbytes for f in features] if tensors else [],
            "graph": tensors and any(f.requires_grad for f in features),
            "left": left,
            "usable": usable,
            "flags": flags,
        }

    def plainly(batch, dtype, drop):
        """What the given function gives."""
        model, batches = reader(drop).to(dtype), batches_of(3, batch)
        torch.manual_seed(4)
        with torch.no_grad():
            return [model(x)[:, 0].clone() for x, _ in batches]

    whole = (
        "first_features: what you keep owns more memory than it shows, because a view keeps the whole storage alive "
        "that it was cut from, such as the model's output or a stack of all rows. Copy each of them. (deepcopy of a "
        "view copies the whole storage; clone copies what the view shows.)"
    )

    def judge_features(seen, right, sentence):
        """The features, and what they hold."""
        seen.that(seen["features"] is not None, "`first_features` must return a list of tensors.", stage="type")
        same = [(f.dtype, f.shape) for f in seen["features"]] == [(f.dtype, f.shape) for f in right]
        seen.that(same, "first_features: lengths, shapes and dtypes must be those that it returns now.", stage="shape")
        close = all(torch.allclose(a, b, atol=1e-6) for a, b in zip(seen["features"], right, strict=True))
        seen.that(close, "first_features: the numbers are not those that it returns now.")
        seen.that(
            not seen["graph"],
            "first_features: the features keep a graph alive. You need no_grad (or detach) and a copy.",
        )
        seen.that(seen["owned"] == seen["shown"], sentence, stage="aliasing")
        seen.that(
            seen["left"] <= sum(seen["shown"]),
            f"first_features: {seen['left']} bytes are alive afterwards, and {sum(seen['shown'])} are shown.",
            stage="aliasing",
        )
        seen.that(
            not seen["usable"],
            "first_features: the features cannot be used in training later. A tensor made inside inference_mode stays "
            "an inference tensor.",
            stage="rule",
        )

    test("three batches of four")
    judge_features(observe_scenario(kept, first_features, 4, torch.float32, 0.0), plainly(4, torch.float32, 0.0), whole)

    ### BEGIN HIDDEN TESTS
    test.hidden("batches of one")
    one = (
        "first_features: in a batch of one the row is contiguous already, so contiguous() copies nothing and the whole "
        "storage stays alive."
    )
    judge_features(observe_scenario(kept, first_features, 1, torch.float32, 0.0), plainly(1, torch.float32, 0.0), one)
    test.hidden("a model in float64 with dropout")
    modes = "first_features: grad mode and training flags must be what they were before."
    seen = observe_scenario(kept, first_features, 4, torch.float64, 0.5)
    seen.that(seen["flags"], modes, stage="rule")
    judge_features(seen, plainly(4, torch.float64, 0.5), whole)
    test.hidden("a caller without gradients")
    seen = observe_scenario(kept, first_features, 4, torch.float32, 0.0, False)
    seen.that(seen["flags"], modes, stage="rule")
    judge_features(seen, plainly(4, torch.float32, 0.0), whole)
    ### END HIDDEN TESTS


# %% check="four-leaks" points=0.5
"""train: failed batches leave nothing but an error without its frames."""
with check("four-leaks") as test:

    def failing(kind):
        """A model that raises for some batches, in a way that `kind` says; it notes the storages that it has made."""

        class Own(RuntimeError):
            """An error of another type that is a RuntimeError."""

        def fail(out):
            """Raise, with out among the variables of the frame."""
            if kind == "value":
                raise ValueError("no such value")
            if kind == "stopped":
                raise KeyboardInterrupt
            if kind == "own":
                raise Own("own", 3)
            raise RuntimeError("no room", 7)

        def nested(out, depth):
            """Raise from, or while handling, another error, several levels deep."""
            try:
                if depth:
                    nested(out, depth - 1)
                else:
                    fail(out * 2)
            except RuntimeError as error:
                if kind == "during":
                    raise RuntimeError("during", depth)  # noqa: B904
                if kind == "apart":
                    raise RuntimeError("apart", depth) from ValueError("another")
                last = error
            try:  # nothing is being handled here, so the new error has no __context__
                raise RuntimeError("from", depth) from last
            finally:
                del last  # it would be in a cycle with its own traceback

        class Marked(torch.autograd.Function):
            """Passes hidden on. The mark is alive as long as the graph is, also after backward."""

            @staticmethod
            def forward(ctx, hidden, mark, fails):
                ctx.save_for_backward(hidden)
                ctx.mark, ctx.fails = mark, fails
                return hidden.clone()

            @staticmethod
            def backward(ctx, grad):
                (hidden,) = ctx.saved_tensors
                if ctx.fails:
                    fail(hidden)
                return grad, None, None

        class Failing(nn.Module):
            """Raises for the second, third and sixth batch; the last layer comes after the one that fails."""

            def __init__(self):
                super().__init__()
                self.inner, self.calls, self.failed, self.good = reader(), 0, [], []
                self.inner[3].eval()

            def forward(self, x):
                self.calls += 1
                fails, mark = self.calls in (2, 3, 6), torch.zeros(1)
                hidden = Marked.apply(self.inner[:4](x), mark, fails and kind == "backward")
                out = self.inner[4](hidden)
                made = self.failed if fails else self.good
                made += [StorageWeakRef(tensor.untyped_storage()) for tensor in (mark, hidden, out)]
                if fails and kind in ("from", "during", "apart"):
                    nested(out, 12)
                if fails and kind != "backward":
                    fail(out)
                return out

        return Failing()

    def optimizer_of(model, kind):
        """SGD; of kind "own" with momentum, for a model with a frozen layer and with gradients from before."""
        parameters = list(model.parameters())
        for number, p in enumerate(parameters if kind == "own" else []):
            p.requires_grad_(number not in (1, 2))
            p.grad = torch.ones_like(p) if p.requires_grad else None
        return torch.optim.SGD(parameters, lr=0.1, momentum=0.9 if kind == "own" else 0.0)

    def trained(train, kind):
        """Train on six batches, three of which fail, and note what is alive afterwards."""
        model, gone = failing(kind), "nothing"
        optimizer = optimizer_of(model, kind)
        before = [m.training for m in model.modules()]
        errors, failed, kept, good, batches = None, 0, 0, 0, batches_of(6)
        inputs = [StorageWeakRef(tensor.untyped_storage()) for n in (1, 2, 5) for tensor in batches[n]]
        gc.disable()  # a cycle counts as alive
        try:
            try:
                errors = train(model, optimizer, batches)
            except (ValueError, KeyboardInterrupt) as error:
                gone = type(error).__name__
                error.__traceback__ = None
            batches = None
            failed = sum(not reference.expired() for reference in model.failed)
            kept = sum(not reference.expired() for reference in inputs)
            good = sum(not reference.expired() for reference in model.good)
        finally:
            gc.enable()
        told = None
        if isinstance(errors, dict):
            told = [[n, type(e).__name__, list(getattr(e, "args", ["?"]))] for n, e in errors.items()]
        return {
            "errors": told,
            "failed": failed,
            "inputs": kept,
            "good": good,
            "weights": [p.detach().clone() for p in model.parameters()],
            "grads": [torch.zeros_like(p) if p.grad is None else p.grad.clone() for p in model.parameters()],
            "gone": gone,
            "modes": [m.training for m in model.modules()] == before and torch.is_grad_enabled(),
        }

    def after_good_batches(kind, cleared=(0, 3, 4), idle=()):
        """The weights after the good batches and steps with gradients of 0, and the gradients of the last of them."""
        model = reader()
        optimizer = optimizer_of(model, kind)
        for number, (x, y) in enumerate(batches_of(6)):
            if number in (*cleared, *idle):
                optimizer.zero_grad(set_to_none=False)
            if number in (0, 3, 4):
                F.cross_entropy(model(x).flatten(0, 1), y.flatten()).backward()
            if number in (0, 3, 4, *idle):
                optimizer.step()
        grads = [torch.zeros_like(p) if p.grad is None else p.grad for p in model.parameters()]
        return [p.detach() for p in model.parameters()], grads

    frames = (
        "train: the errors that you keep also keep the failed batches alive. An exception refers to its traceback, "
        "the traceback to its frames, and the frames to their variables (x, loss, the graph)."
    )

    def judge_errors(seen, kind, name, args, sentence, mixed="train: the weights must be those of the good batches."):
        """Three errors, by number, and nothing alive."""
        seen.that(
            seen["gone"] == "nothing", f"train: {seen['gone']} came out, although the batch raised a RuntimeError."
        )
        seen.that(
            seen["errors"] == [[n, name, args] for n in (1, 2, 5)],
            f"`train` must return a dict of the errors by the number of their batch, each with its type ({name}) and "
            f"its args {tuple(args)}.",
            mistake(
                "train: batch 0 is in the dict, although its forward and its backward raise nothing. Your own code "
                "raised a RuntimeError there. A layer is frozen here, and `torch.autograd.grad`, for example, raises "
                "for a parameter that doesn't require grad.",
                when=lambda seen: kind == "own" and [0, "RuntimeError"] in [one[:2] for one in seen["errors"] or []],
            ),
        )
        seen.that(seen["failed"] == 0, sentence)
        seen.that(
            seen["inputs"] == 0,
            "train: x and y of a failed batch are still alive after the caller has let go of its list. Perhaps an "
            "error still has a traceback, which leads to the frame of your function and its variables. "
            "traceback.clear_frames can't clear a frame that is running.",
        )
        weights, grads = after_good_batches(kind)
        added, _ = after_good_batches(kind, cleared=(0, 3))
        older, _ = after_good_batches(kind, cleared=(3, 4))
        idle, _ = after_good_batches(kind, idle=(1, 2, 5))

        def are(wanted):
            return all(torch.allclose(a, b, atol=1e-6) for a, b in zip(seen["weights"], wanted, strict=True))

        seen.that(
            are(weights),
            mixed,
            mistake(
                "train: of two good batches in a row, the second one's gradients were added to those of the first. "
                "Clear them before each backward.",
                when=lambda seen: are(added),
            ),
            mistake(
                "train: gradients from before the call went into the first step. Clear them before each backward, not "
                "only after it.",
                when=lambda seen: are(older),
            ),
            mistake(
                "train: a batch that failed made a step. With momentum or weight decay, a step moves the weights even "
                "if all gradients are 0. Skip it.",
                when=lambda seen: are(idle),
            ),
        )
        seen.that(
            seen["good"] == 0,
            "train: the graph of a good batch is still alive. What refers to its loss or its output, outside the "
            "function?",
        )
        seen.that(
            all(not a.any() or torch.allclose(a, b, atol=1e-6) for a, b in zip(seen["grads"], grads, strict=True)),
            "train: gradients of a batch whose backward failed are still in .grad: backward had come to the last layer "
            "when it failed.",
        )
        seen.that(seen["modes"], "train: grad mode and training flags must be what they were before.", stage="rule")

    test("the second, third and sixth of six batches fail")
    judge_errors(observe_scenario(trained, train, "plain"), "plain", "RuntimeError", ["no room", 7], frames)

    ### BEGIN HIDDEN TESTS
    test.hidden("errors that were raised from others, or while others were handled")
    others = (
        "train: an error also refers to the error from which it was raised (__cause__) and to the error that was "
        "being handled (__context__), and each of them has a traceback. Follow both, at any depth."
    )
    for kind in ("from", "during", "apart"):
        judge_errors(observe_scenario(trained, train, kind), kind, "RuntimeError", [kind, 12], others)
    test.hidden("a backward that fails halfway")
    judge_errors(
        observe_scenario(trained, train, "backward").expecting(
            mistake(
                "train: an error from backward came out. A batch that fails in backward must be skipped as well.",
                stage="raised",
                raises="RuntimeError",
            )
        ),
        "backward",
        "RuntimeError",
        ["no room", 7],
        frames,
        "train: gradients that a failed backward had made went into a step, added to those of the next good batch or "
        "alone. A batch whose backward fails makes no step, and its gradients are cleared.",
    )
    test.hidden("a subclass of RuntimeError, with momentum, a frozen layer and gradients from before")
    judge_errors(observe_scenario(trained, train, "own"), "own", "Own", ["own", 3], frames)
    test.hidden("other exceptions come out")
    for kind, name in (("value", "ValueError"), ("stopped", "KeyboardInterrupt")):
        seen = observe_scenario(trained, train, kind)
        seen.that(
            seen["gone"] == name, "train: only a RuntimeError may be caught; all other exceptions must propagate."
        )
    ### END HIDDEN TESTS


# %% check="four-leaks" points=0.5
"""sizes: three calls leave nothing, other people's hooks stay, and a model that raises is handled."""
with check("four-leaks") as test:

    class Around(nn.Module):
        """Calls its first child, its last, and its first again, with a residual connection."""

        def __init__(self):
            super().__init__()
            torch.manual_seed(5)
            self.last = nn.Linear(6, 6)
            self.first = nn.Sequential(nn.Linear(6, 6), nn.Tanh())

        def forward(self, x):
            x = x + self.first(x)
            return self.first(self.last(x)) + x

    class Shared(nn.Module):
        """Calls a child that it has twice: under another name, or inside of another child as well."""

        def __init__(self, inside):
            super().__init__()
            torch.manual_seed(5)
            self.first = nn.Linear(6, 6)
            self.middle, self.last = self.first, nn.Tanh()
            if inside:
                self.first, self.last = nn.Sequential(self.middle, nn.Tanh()), self.middle

        def forward(self, x):
            return self.last(self.first(x))

    class Stops(nn.Module):
        """Raises the error that it is given."""

        def __init__(self, error):
            super().__init__()
            self.error = error

        def forward(self, x):
            raise self.error("stops")

    def attached(model):
        """The hooks of the modules, the hooks for all modules, and the names of the modules' attributes."""
        modules = list(model.modules())
        hooks = [[*m._forward_hooks, *m._forward_pre_hooks] for m in modules]
        return [hooks, [*torch.nn.modules.module._global_forward_hooks], [sorted(vars(m)) for m in modules]]

    def called(sizes, kind, depth=6):
        """Call sizes three times, then once on a model that raises; note what stays."""
        torch.manual_seed(6)
        model = Around() if kind == "around" else nn.Sequential(*(nn.Linear(6, 6) for _ in range(depth)))
        x, fired = torch.randn(500, 6), []
        if kind in ("two names", "inside"):
            model = Shared(kind == "inside")
        if kind in ("dropout", "no_grad"):
            model = nn.Sequential(nn.Dropout(0.5), nn.Linear(6, 6))
            model[1].train(kind == "dropout")
        layer = next(model.children())
        layer.register_forward_hook(lambda *args: fired.append(1))
        stops = {"stops": KeyError, "stopped": KeyboardInterrupt}.get(kind)
        broken = nn.Sequential(Stops(stops)) if stops else model
        before, broken_before, flags = attached(model), attached(broken), [m.training for m in model.modules()]
        found, peaks, lefts, raised = [], [], [], ""
        everywhere = torch.nn.modules.module._global_forward_hooks
        try:
            with torch.set_grad_enabled(kind != "no_grad"):
                for _ in range(3):
                    torch.manual_seed(7)
                    result, peak, left = measured(lambda: sizes(model, x))
                    found.append(list(result) if isinstance(result, (list, tuple)) else type(result).__name__)
                    peaks.append(peak)
                    lefts.append(left)
                after = attached(model)
                grad = torch.is_grad_enabled() == (kind != "no_grad")
                modes = grad and [m.training for m in model.modules()] == flags
                try:
                    sizes(broken, x if stops else torch.ones(2, 5))
                except (RuntimeError, KeyError, KeyboardInterrupt) as error:
                    raised = type(error).__name__
                grad = torch.is_grad_enabled() == (kind != "no_grad")
                still = grad and attached(broken) == broken_before
        finally:
            for hook in set(everywhere) - set(before[1]):
                del everywhere[hook]
        return {
            "found": found,
            "peak": peaks[0] / x.nbytes,
            "left": lefts[2],
            "same": [a == b for a, b in zip(after, before, strict=True)],
            "fired": len(fired) >= 3,
            "modes": modes,
            "raised": raised,
            "still": still,
        }

    def child_sizes(kind):
        """What the given function gives the first time."""
        torch.manual_seed(6)
        model = Around() if kind == "around" else nn.Sequential(*(nn.Linear(6, 6) for _ in range(6)))
        x, sizes_found = torch.randn(500, 6), []
        if kind in ("two names", "inside"):
            model = Shared(kind == "inside")
        if kind in ("dropout", "no_grad"):
            model = nn.Sequential(nn.Dropout(0.5), nn.Linear(6, 6))
        for child in model.children():
            child.register_forward_hook(lambda module, args, out: sizes_found.append(out.abs().mean().item()))
        torch.manual_seed(7)
        with torch.no_grad():
            model(x)
        return sizes_found

    def judge_sizes(seen, kind):
        """The same list of floats three times, and nothing stays."""
        found, right = seen["found"], child_sizes(kind)
        is_list = all(isinstance(one, list) and all(isinstance(n, float) for n in one) for one in found)
        seen.that(is_list, "`sizes` must return a list of floats.", stage="type")
        again = "sizes: a hook stays until its handle's remove(). In the next call the old hooks run too."
        close = len(found[0]) == len(right) and all(
            math.isclose(a, b, rel_tol=1e-4) for a, b in zip(found[0], right, strict=True)
        )
        seen.that(
            close,
            "`sizes` must return what it returns now: one number for each call of a child, in their order.",
            mistake(
                "sizes: a child that has two names is called once, and you return two numbers for it. `_modules` "
                "lists it twice, so it gets two hooks; children() yields it once.",
                when=lambda seen: kind == "two names" and len(found[0]) > len(right),
            ),
            mistake(
                "sizes: a child that is also inside another child is left out. named_modules() yields each module "
                "once, here under its longer name; children() yields all children.",
                when=lambda seen: kind == "inside" and len(found[0]) < len(right),
            ),
            mistake(
                "sizes: the numbers are right, but they are not in the order of the calls. A child may be called "
                "again after another one.",
                when=lambda seen: (
                    len(found[0]) == len(right)
                    and all(
                        math.isclose(a, b, rel_tol=1e-4) for a, b in zip(sorted(found[0]), sorted(right), strict=True)
                    )
                ),
            ),
            mistake(
                "sizes: there is a number for each call, but not all are right. While the model runs nothing may be "
                "changed: not its mode, and no output (abs_ changes what the next child gets).",
                when=lambda seen: len(found[0]) == len(right),
            ),
        )
        seen.that(
            [len(one) for one in found] == [len(right)] * 3,
            again,
        )
        hooks, everywhere, names = seen["same"]
        seen.that(
            hooks,
            again,
            mistake("sizes: other people's hooks must stay.", when=lambda seen: not seen["fired"]),
            stage="rule",
        )
        seen.that(
            everywhere,
            "sizes: a hook for all modules (register_module_forward_hook) is still there. It runs in every model.",
            stage="rule",
        )
        seen.that(
            names,
            "sizes: a module has other attributes than before. If you replace a forward, remove it again: del "
            "module.forward.",
            stage="rule",
        )

    test("a chain of six layers, three calls")
    seen = observe_scenario(called, sizes, "chain")
    judge_sizes(seen, "chain")
    seen.that(seen["left"] == 0, "sizes: tensors that it made are still alive after the third call.")

    ### BEGIN HIDDEN TESTS
    test.hidden("other people's hooks, and a model that raises")
    seen.that(seen["fired"], "sizes: other people's hooks must stay.", stage="rule")
    seen.that(seen["raised"] == "RuntimeError", "sizes: the exception of the model must come out.")
    seen.that(seen["still"], "sizes: when the model raises, your hooks must go too. Use finally.", stage="rule")
    for kind, name in (("stops", "KeyError"), ("stopped", "KeyboardInterrupt")):
        broken = observe_scenario(called, sizes, kind)
        broken.that(broken["raised"] == name, "sizes: the exception of the model must come out.")
        broken.that(broken["still"], "sizes: when the model raises, your hooks must go too. Use finally.", stage="rule")
    test.hidden("not all outputs at once")
    deep = observe_scenario(called, sizes, "chain", 18)
    deep.that(
        deep["peak"] < seen["peak"] + 2,
        f"sizes: at the peak, {seen['peak']:.1f} outputs are alive at once in a chain of 6 layers, and "
        f"{deep['peak']:.1f} in one of 18. Take the number inside the hook, and keep no output.",
    )
    test.hidden("a model with a residual connection that calls a child, another one, and the first again")
    judge_sizes(observe_scenario(called, sizes, "around"), "around")
    test.hidden("a child that has two names, and one that is also inside another child")
    for kind in ("two names", "inside"):
        judge_sizes(observe_scenario(called, sizes, kind), kind)
    test.hidden("dropout, and a caller without gradients")
    for kind in ("dropout", "no_grad"):
        seen = observe_scenario(called, sizes, kind)
        judge_sizes(seen, kind)
        seen.that(seen["modes"], "sizes: grad mode and training flags must be what they were before.", stage="rule")
    ### END HIDDEN TESTS
