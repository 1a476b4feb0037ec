# %% [markdown]
# ### Exercise 1.3 · The model that only half moved
#
# fix · solid · 15 min · 3 points
#
# This tagger (a GRU cell, with a fixed sine offset for each time step) works on the laptop. After `model.to(device)`,
# or after `model.double()`, it fails or computes with the wrong tensors, because part of it did not move. Fix it.
#
# **Contract**
#
# - However the module has been moved (`.to(device)`, `.double()`, `.to(device, dtype)`, repeatedly, alone or as part of
#   a larger model), forward works and returns a tensor with the *parameters'* device and dtype. If x has another device
#   or dtype, convert it first; x itself is not changed.
# - On the CPU in float32 the numbers are those of the given code. (A module that has been in half precision before may
#   keep the rounding.) Gradients reach x and the weights.
# - No device is named in the class. No global default (device, dtype) is changed, not even while forward runs, but a
#   `with device:` block is fine.
# - Old checkpoints still load: the keys of `state_dict()` and the parameters are still those of the GRU cell.
# - T = 0 gives an empty (0, B, d_hid) tensor with the parameters' device and dtype.
#
# **Rule.** Every tensor that is produced inside forward is on the parameters' device (the check records operations).
#
# <details><summary>Hint 1</summary>
#
# Which three tensors take part in `self.cell(...)`, and which of them does `model.to(device)` know about?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# There are three places: the result of `x.to` is dropped, `zeros` gets neither device nor dtype, and `offset` is a
# plain attribute. Either register it without putting it in the state_dict, or derive it from x's device and dtype where
# you use it.
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# Convert x to the device and dtype of one of the cell's weights (`x.to` also takes a tensor). Make the state from x
# with `new_zeros`. Register the offset as a buffer that isn't saved, so that it moves with the model. For T = 0 there
# is nothing to stack, so return an empty tensor made in the same way.
#
# </details>


# %% answer="fix-hidden-cpu-tensors"
class Tagger(nn.Module):
    """A GRU-cell tagger with fixed sine offsets for time steps: (T, B, d_in) -> (T, B, d_hid)."""

    ### BEGIN SOLUTION
    def __init__(self, d_in: int, d_hid: int, max_len: int = 64):
        super().__init__()
        self.cell = nn.GRUCell(d_in, d_hid)
        self.register_buffer("offset", torch.sin(torch.arange(max_len).float()), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        x = x.to(self.cell.weight_ih)
        h = x.new_zeros(x.shape[1], self.cell.hidden_size)
        outs = []
        for t in range(x.shape[0]):
            h = self.cell(x[t] + self.offset[t], h)
            outs.append(h)
        return torch.stack(outs) if outs else h.new_zeros(0, *h.shape)

    ### END SOLUTION
    ### BEGIN GIVEN
    # def __init__(self, d_in: int, d_hid: int, max_len: int = 64):
    #     raise NotImplementedError  # fix the code below, then delete this line
    #     super().__init__()
    #     self.cell = nn.GRUCell(d_in, d_hid)
    #     self.offset = torch.sin(torch.arange(max_len).float())
    #
    # def forward(self, x: Tensor) -> Tensor:
    #     x.to(self.cell.weight_ih.device)
    #     h = torch.zeros(x.shape[1], self.cell.hidden_size)
    #     outs = []
    #     for t in range(x.shape[0]):
    #         h = self.cell(x[t] + self.offset[t], h)
    #         outs.append(h)
    #     return torch.stack(outs)
    ### END GIVEN


# %% helpers="fix-hidden-cpu-tensors"
def checkpoint():
    """Weights that were saved from the given code, with d_in = 5 and d_hid = 4."""
    generator = torch.Generator().manual_seed(5)
    sizes = {"weight_ih": (12, 5), "weight_hh": (12, 4), "bias_ih": (12,), "bias_hh": (12,)}
    return {f"cell.{name}": torch.randn(size, generator=generator) / 2 for name, size in sizes.items()}


def loaded(Tagger, **settings):
    """A tagger with these weights."""
    module = Tagger(5, 4, **settings)
    if unknown := module.load_state_dict(checkpoint(), strict=False).unexpected_keys:
        raise KeyError(f"old checkpoints have {', '.join(unknown)}")
    return module


other_keys = mistake(
    "Old checkpoints no longer load: the keys of `state_dict()` must stay those of the GRU cell.",
    raises="old checkpoints have",
)


class Products(TorchDispatchMode):
    """Notes what is produced while it is on: [operation, device, shape] of every tensor."""

    def __init__(self):
        super().__init__()
        self.made = []

    @classmethod
    def _should_skip_dynamo(cls):
        return False

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        name = func._schema.name.split("::")[-1]
        for tensor in out if isinstance(out, (tuple, list)) else [out]:
            if isinstance(tensor, Tensor) and name not in ("detach", "alias"):  # these are other names
                self.made.append([name, tensor.device.type, list(tensor.shape)])
        return out


def original(weights, x):
    """What the given code computes, in the dtype of x."""
    weights = [weights[f"cell.{name}"].to(x.dtype) for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")]
    h, outs = torch.zeros(x.shape[1], 4, dtype=x.dtype), []
    for t, row in enumerate(x):
        h = torch.gru_cell(row + math.sin(t), h, *weights)
        outs.append(h)
    return torch.stack(outs) if outs else torch.zeros(0, x.shape[1], 4, dtype=x.dtype)


# %% check="fix-hidden-cpu-tensors" points=2
"""All of the module moves: to another device and to another dtype."""
with check("fix-hidden-cpu-tensors") as test:
    generator = torch.Generator().manual_seed(6)
    some_x = torch.randn(2, 3, 5, generator=generator)  # T = 2, B = 3

    def called(module, x):
        """Call a tagger, note what came and what was produced on the way."""
        products, out, error = Products(), None, ""
        with products:
            try:
                out = module(x)
            except Exception as caught:
                error = f"{type(caught).__name__}: {(str(caught).splitlines() or ['no message'])[0]}"
        came = out if isinstance(out, Tensor) else x.new_empty(0)
        return {
            "returned": "error" if error else type(out).__name__,
            "error": error,
            "device": came.device.type,
            "dtype": str(came.dtype),
            "shape": list(came.shape),
            "out": came,
            "products": products.made,
        }

    def plain_tensors(module, device):
        """Names of tensors that are attributes but no parameters or buffers, and are on another device."""
        named = [pair for part in module.modules() for pair in vars(part).items()]
        return [name for name, value in named if isinstance(value, Tensor) and value.device.type != device]

    def moved(Tagger, x, *how):
        """Move a tagger to meta; call it with x there, and with x on the CPU."""
        module = loaded(Tagger)
        module.to("meta", *how)
        there, here = called(module, x.to("meta", *how)), called(module, x)
        plain = plain_tensors(module, "meta")
        return {"there": there, "here": here, "plain": plain, "weights": next(module.parameters()).device.type}

    def stayed(seen):
        """What stayed on the CPU, in words."""
        there, here = ([p for p in seen[key]["products"] if p[1] != "meta"] for key in ("there", "here"))
        factories = ("zeros", "empty", "full", "ones", "zeros_like", "new_zeros", "scalar_tensor")
        met = seen["there"]["error"] or any(op not in factories for op, _, _ in there)
        names = [f"`self.{name}`" for name in seen["plain"]] if met else []
        if any(op in factories and shape == [3, 4] for op, _, shape in there):
            names.append("the initial hidden state")
        if any(shape[-1:] == [5] for _, _, shape in here):
            names.append("x")
        return names

    def state_from_x(seen):
        """Whether the initial hidden state was made on the device of x, before x was moved."""
        return any(shape == [3, 4] and device == "cpu" for _, device, shape in seen["here"]["products"])

    def fixed_choice(seen):
        """Whether a tensor was brought to a device that is not the parameters'."""
        copies = [p for p in seen["there"]["products"] + seen["here"]["products"] if p[:2] == ["_to_copy", "cpu"]]
        return bool(copies) or any("Cannot copy out of meta" in seen[key]["error"] for key in ("there", "here"))

    def all_on_meta(seen):
        """Whether all that was produced is on meta, and what came has the right shape."""
        runs = [seen["there"], seen["here"]]
        right = [(r["returned"], r["device"], r["shape"]) == ("Tensor", "meta", [2, 3, 4]) for r in runs]
        return all(right) and all(p[1] == "meta" for r in runs for p in r["products"])

    def in_words(run):
        """What a call gave."""
        if run["returned"] != "Tensor":
            return run["error"] or f"forward returned {run['returned']}"
        elsewhere = ", ".join(dict.fromkeys(f"{p[0]} on {p[1]}" for p in run["products"] if p[1] != "meta"))
        return f"the result is on {run['device']}, of shape {run['shape']}" + f"; {elsewhere}" * bool(elsewhere)

    def judge_moved(seen):
        """Judge a tagger that was moved to meta."""
        seen.expecting(other_keys).in_sight()
        right = "the result is on meta, of shape [2, 3, 4]"
        wrong, x_is = ("there", "there too") if in_words(seen["there"]) != right else ("here", "on the CPU")
        names = stayed(seen)
        seen.that(
            all_on_meta(seen),
            f"With the module on meta and x {x_is}: {in_words(seen[wrong])}. Asked for is a result on meta, of shape "
            "[2, 3, 4].",
            mistake(
                "Calling forward moved the module itself: x is brought to the parameters, not the other way round.",
                when=lambda seen: seen["weights"] != "meta",
            ),
            mistake(
                "The result follows the device of x: it belongs on the parameters' device.",
                when=lambda seen: wrong == "here" and "Cannot copy out of meta" in seen["here"]["error"],
            ),
            mistake(
                "The device must follow the module's parameters; a fixed 'cuda'/'cpu' choice is right on one machine "
                "only.",
                when=fixed_choice,
            ),
            mistake(
                f"Tensors stayed on the CPU while the module moved: {', '.join(names)}.",
                when=lambda seen: len(names) > 1,
            ),
            mistake(
                "The initial hidden state was created without device=: it lands on the default device, wherever the "
                "module is.",
                when=lambda seen: names == ["the initial hidden state"],
            ),
            mistake(
                f"{', '.join(names)} is a plain attribute: Module.to moves parameters and buffers only.",
                when=lambda seen: names and names != ["x"],
            ),
            mistake(
                "`x.to(...)` returns a new tensor; its result is not used, so x stays where it was.",
                when=lambda seen: names and ["_to_copy", "meta", [2, 3, 5]] in seen["here"]["products"],
            ),
            mistake("x stays where it was: bring it to the parameters' device first.", when=lambda seen: names),
            mistake(
                "The initial hidden state was made on the device of x before x was moved.",
                when=lambda seen: wrong == "here" and state_from_x(seen),
            ),
            stage="device",
        )

    test("moved to meta, with x there and with x on the CPU")
    judge_moved(observe_scenario(moved, Tagger, some_x))

    def doubled(Tagger, x):
        """Call a tagger in float64 with x in float64 and in float32."""
        module = loaded(Tagger).double()
        return {"x in float64": called(module, x.double()), "x in float32": called(module, x)}

    def judge_values(run, x, about):
        """Judge what a call on the CPU gave, for this x in the dtype that is expected."""
        dtype = str(x.dtype)
        right = run["returned"] == "Tensor" and run["dtype"] == dtype
        detail = f"the result is {run['dtype']}" if run["returned"] == "Tensor" else in_words(run)
        forgotten = f"The module is {dtype.removeprefix('torch.')} now, but forward still makes tensors of another "
        forgotten += "dtype (or keeps an x of another one): take device *and* dtype from the parameters. "
        forgotten += f"With {about}: {detail}."
        seen.that(right, forgotten, stage="dtype")
        expected = original(checkpoint(), x)
        same = run["out"].shape == expected.shape and torch.allclose(run["out"], expected, rtol=1e-5, atol=1e-6)
        seen.that(same, f"The numbers are not those of the given code ({about}).")

    test("after .double(), with x in float64 and in float32")
    seen = observe_scenario(doubled, Tagger, some_x).expecting(other_keys)
    for about, run in seen.value.items():
        judge_values(run, some_x.double(), about)

    ### BEGIN HIDDEN TESTS
    test.hidden("moved to meta in bfloat16")
    seen = observe_scenario(moved, Tagger, some_x, torch.bfloat16)
    judge_moved(seen)
    seen.that(
        seen["there"]["dtype"] == seen["here"]["dtype"] == "torch.bfloat16",
        "Take device *and* dtype from the parameters: after .to(device, dtype) the result has another dtype.",
        stage="dtype",
    )
    ### END HIDDEN TESTS

# %% check="fix-hidden-cpu-tensors" points=1
"""The numbers, gradients, checkpoints and global defaults stay; no time step at all works too."""
with check("fix-hidden-cpu-tensors") as test:
    generator = torch.Generator().manual_seed(6)
    some_x = torch.randn(2, 3, 5, generator=generator)  # T = 2, B = 3

    def on_the_cpu(Tagger, x, settings):
        """What a tagger returns in float32, and x afterwards."""
        module, mine = loaded(Tagger, **settings), x.clone()
        return {"out": module(mine), "x": mine}

    def judge_numbers(x, settings, *mistakes):
        """Judge a tagger on the CPU."""
        seen = observe_scenario(on_the_cpu, Tagger, x, settings).expecting(other_keys, *mistakes)
        seen.returns(
            {"out": original(checkpoint(), x), "x": x},
            mistake("x itself was changed.", when=lambda seen: not torch.equal(seen["x"], x)),
            because="On the CPU in float32 the result must be that of the given code: {detail}.",
        )

    def doubled(Tagger, x):
        """Move a tagger to float64 and to meta, and call it with x in float32 on the CPU: what comes."""
        modules = [loaded(Tagger).double(), loaded(Tagger).to("meta")]
        outs = [module(x) for module in modules]
        return [[str(out.dtype), out.device.type, list(out.shape)] for out in outs]

    test("after .double() and after .to('meta') the result has that dtype, that device, and the old shape")
    seen = observe_scenario(doubled, Tagger, some_x)
    seen.returns(
        [["torch.float64", "cpu", [2, 3, 4]], ["torch.float32", "meta", [2, 3, 4]]], other_keys, FIRST_CHECK_FIRST
    )

    test("on the CPU in float32 the numbers are those of the given code")
    judge_numbers(some_x, {})

    ### BEGIN HIDDEN TESTS
    def keys_and_parameters(Tagger, x):
        """The state_dict's keys and the parameters before and after a call, and how an old checkpoint loads."""
        module = Tagger(5, 4)
        try:
            module.load_state_dict(checkpoint())
            refused = ""
        except RuntimeError as error:
            refused = str(error)
        module(x)
        tracked = [name for name, parameter in module.named_parameters() if parameter.requires_grad]
        names = [name for name, _ in module.named_parameters()]
        return {"keys": sorted(module.state_dict()), "names": names, "tracked": tracked, "refused": refused}

    test.hidden("old checkpoints load: the keys of state_dict() and the parameters are those of the GRU cell")
    seen = observe_scenario(keys_and_parameters, Tagger, some_x)
    extra = [name for name in seen["names"] if name not in checkpoint()]
    seen.that(
        not extra,
        "There are other parameters than those of the GRU cell: old checkpoints no longer match.",
        mistake(
            "The offsets became a parameter: they would be trained, and checkpoints no longer match.",
            when=lambda seen: len(extra) == 1 and extra[0] in seen["tracked"],
        ),
        mistake(
            "The offsets became a parameter: parameters are saved, so old checkpoints no longer match.",
            when=lambda seen: len(extra) == 1,
        ),
    )
    seen.that(
        seen["keys"] == sorted(checkpoint()) and not seen["refused"],
        "The state_dict changed: old checkpoints no longer load. A non-persistent buffer, or a tensor made in forward, "
        "leaves the keys alone.",
    )
    seen.that(sorted(seen["tracked"]) == sorted(checkpoint()), "All parameters of the GRU cell must still be trained.")

    def defaults(Tagger, x):
        """The default dtype and device, whenever they are set while a tagger is built, moved and called."""
        noted = []

        def note():
            noted.append([str(torch.get_default_dtype()), str(torch.get_default_device())])

        def noting(setter):
            """The setter, which notes what it has set."""

            def call(*args, **kwargs):
                setter(*args, **kwargs)
                note()

            return call

        note()
        kept = {name: getattr(torch, name) for name in ("set_default_dtype", "set_default_device")}
        try:
            for name, setter in kept.items():
                setattr(torch, name, noting(setter))
            module = loaded(Tagger)
            for move in (module.float, module.double, lambda: module.to("meta")):
                move()
                try:
                    module(x)
                except Exception:
                    noted.append(noted[0])  # whether it works after a move is another test
                note()
        finally:
            for name, setter in kept.items():
                setattr(torch, name, setter)
        return noted

    test.hidden("the default dtype and device stay")
    seen = observe_scenario(defaults, Tagger, some_x)
    seen.that(
        all(noted == seen.value[0] for noted in seen.value),
        "A global default was changed to make it fit; every other module in the program now sees it.",
        mistake(
            "A global default was changed while forward ran, and put back afterwards. Until then it is the default of "
            "all other code too, and the dtype even of other threads. Pass device and dtype to what makes the tensor.",
            when=lambda seen: seen.value[-1] == seen.value[0],
        ),
    )

    too_short = mistake(
        "There are max_len offsets, one for each time step: {detail}.", raises="IndexError|out of range|out of bounds"
    )
    test.hidden("another max_len, long sequences, one sequence")
    judge_numbers(torch.randn(70, 1, 5, generator=generator), {"max_len": 100}, too_short)
    judge_numbers(torch.randn(2, 3, 5, generator=generator), {"max_len": 2})
    judge_numbers(torch.randn(64, 1, 5, generator=generator), {})

    def no_steps(Tagger, x):
        """What a tagger returns for no time step at all, as it was made and after two moves."""
        module = loaded(Tagger)
        outs = [module(x), module.double()(x), module.to("meta")(x)]
        return [[list(out.shape), str(out.dtype), out.device.type] for out in outs]

    test.hidden("T = 0, and B = 0")
    observe_scenario(no_steps, Tagger, torch.ones(0, 2, 5)).returns(
        [
            [[0, 2, 4], "torch.float32", "cpu"],
            [[0, 2, 4], "torch.float64", "cpu"],
            [[0, 2, 4], "torch.float64", "meta"],
        ],
        mistake(
            "With T = 0 there is nothing to stack: return an empty (0, B, d_hid) tensor of the right device and dtype.",
            stage=("raised", "value", "type", "shape"),
        ),
    )
    judge_numbers(torch.ones(3, 0, 5), {})

    def gradients(Tagger, x):
        """The gradients of x and of the weights for the sum of squares of the result."""
        module, mine = loaded(Tagger), x.clone().requires_grad_()
        module(mine).square().sum().backward()
        named = {name: parameter.grad for name, parameter in module.named_parameters()} | {"x": mine.grad}
        return {name: None if grad is None else grad.double() for name, grad in named.items()}

    def reference_gradients(x):
        """The same by the given code, in float64."""
        leaves = {name: value.double().requires_grad_() for name, value in (checkpoint() | {"x": x}).items()}
        loss = original(leaves, leaves["x"]).square().sum()
        return dict(zip(leaves, torch.autograd.grad(loss, list(leaves.values())), strict=True))

    test.hidden("gradients reach x and the weights")
    observe_scenario(gradients, Tagger, some_x).returns(
        reference_gradients(some_x),
        mistake(
            "No gradient comes back: something in forward leaves the autograd graph.",
            stage=("raised", "type"),
        ),
        because="The gradients of x and of the weights must be those of the given code.",
        rtol=1e-4,
        atol=1e-5,
    )

    def after_moves(Tagger, x):
        """Call a tagger after each of several moves: what comes, or where it is."""
        module = loaded(Tagger)
        first, second, third = module(x), module.double()(x), module.float()(x.double())
        module.to("meta")
        with Products() as products:
            module(x)
        devices = sorted({device for _, device, _ in products.made})
        return {"at first": first, "double": second, "float again": third, "on meta": devices}

    test.hidden("moved again and again, and called in between")
    seen = observe_scenario(after_moves, Tagger, some_x).expecting(
        other_keys,
        mistake(
            "The module moved again, and forward still works with a tensor that stayed behind.",
            raises="Expected all tensors|same device|same dtype|not on the expected device|expected device|meta",
        ),
    )
    for about, x in (("at first", some_x), ("double", some_x.double()), ("float again", some_x)):
        same = seen[about].dtype == x.dtype and torch.allclose(seen[about], original(checkpoint(), x), atol=1e-6)
        seen.that(same, f"Device and dtype are those of the parameters after each move; this one is off: {about}.")
    seen.that(
        seen["on meta"] == ["meta"],
        "The module moved again, and forward still works with a tensor that stayed behind.",
        stage="device",
    )

    def reached(Tagger, x):
        """Whether a gradient reaches an x that is float32, by a module in float32 and by one in float64."""
        noted = []
        for move in ("float", "double"):
            mine = x.clone().requires_grad_()
            out = getattr(loaded(Tagger), move)()(mine)
            if out.requires_grad:
                out.sum().backward()
            noted.append(mine.grad is not None)
        return noted

    test.hidden("a gradient reaches x through the move")
    by_float, by_double = observe_scenario(reached, Tagger, some_x).value
    seen.that(by_double or not by_float, "Where x is converted it leaves the autograd graph: no gradient reaches it.")

    def built(Tagger):
        """Build a tagger where `meta` is the default device: which functions make tensors on the CPU there?"""
        with torch.device("meta"), Products() as products:
            try:
                Tagger(5, 4)
            except Exception:
                return []  # that it works on meta is asked of a tagger that was moved there
        makers = ("arange", "linspace", "zeros", "ones", "full")
        return sorted({name for name, device, _ in products.made if device == "cpu" and name in makers})

    test.hidden("no device is named where a tagger is built")
    seen = observe_scenario(built, Tagger)
    makers = ", ".join(f"`{name}`" for name in seen.value)
    seen.that(
        not seen.value,
        f"A device is named in the class: {makers} made a tensor on the CPU inside `with torch.device('meta')`, where "
        "everything that names no device is made on meta.",
    )

    def inside(Tagger, x):
        """Move a larger model with a tagger in it to meta, call the tagger, and note where tensors are produced."""
        tagger = nn.ModuleDict({"tagger": loaded(Tagger)}).to("meta")["tagger"]
        with Products() as products:
            out = tagger(x.to("meta"))
        return {"out": [str(out.dtype), out.device.type, list(out.shape)], "made on": products_on(products)}

    def products_on(products):
        """The devices on which tensors were produced."""
        return sorted({device for _, device, _ in products.made})

    test.hidden("as a part of a larger model that is moved")
    observe_scenario(inside, Tagger, some_x).returns(
        {"out": ["torch.float32", "meta", [2, 3, 4]], "made on": ["meta"]},
        mistake(
            "As a part of a larger model the tagger moves only half: `parent.to(device)` calls `_apply` of its parts, "
            "never their own `to`. Register the offset as a buffer, or move it in forward.",
            stage=("raised", "value", "shape"),
        ),
    )
    ### END HIDDEN TESTS
