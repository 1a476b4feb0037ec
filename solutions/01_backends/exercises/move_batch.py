# %% [markdown]
# ### Exercise 1.2 · Move a whole batch
#
# implement · solid · 12 min · 3 points
#
# A data loader returns dicts, tuples, and dicts in tuples. Every training loop needs one function that moves such a
# batch, whatever its structure.
#
# **Contract**
#
# - Return the same structure with every tensor on `device`. Structures are dict (and OrderedDict), list, tuple and
#   namedtuple, nested to any depth; keep their types, keys and order. Other containers don't occur, and neither do
#   other subclasses of these (a defaultdict, a PackedSequence, a `class Batch(dict)`).
# - Parameters and other subclasses of Tensor also count as tensors.
# - Everything else (numbers, strings, None, other objects, even those that have their own `.to`) is passed through as
#   the same object, unchanged.
# - The batch that was passed in is not modified. A tensor that is already on `device` comes back as the same object.
#   Dtype, shape and requires_grad are kept, and a moved tensor still belongs to the autograd graph.
#
# The check moves batches to the data-less device `meta`, and to an accelerator if there is one.
#
# <details><summary>Hint 1</summary>
#
# What does `t.to(device)` do to t itself, and what happens to its return value in your code?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# Write one function that calls itself. A tensor is moved with `.to`. A dict becomes the same type with moved values. A
# tuple with `_fields` must be rebuilt with unpacked arguments, other tuples and lists with one iterable. You can
# iterate over a string, but you must not.
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# You need five branches, in this order: a tensor, a dict, a tuple with `_fields`, another list or tuple, everything
# else. The three in the middle call the function for each item and pass the results to the batch's own type. Only the
# namedtuple wants them as separate arguments.
#
# </details>


# %% answer="move-batch"
def move(batch: Any, device: torch.device | str) -> Any:
    """The same structure of dicts, lists and tuples with all its tensors on device."""
    ### BEGIN SOLUTION
    if isinstance(batch, Tensor):
        return batch.to(device)
    if isinstance(batch, dict):
        return type(batch)((key, move(value, device)) for key, value in batch.items())
    if isinstance(batch, (list, tuple)):
        moved = [move(item, device) for item in batch]
        return type(batch)(*moved) if hasattr(batch, "_fields") else type(batch)(moved)
    return batch
    ### END SOLUTION


# %% helpers="move-batch"
def described(value, path="batch", noted=None):
    """Types, keys, plain values, devices, dtypes and shapes of all that is in a structure, by path."""
    noted = noted or {"types": {}, "keys": {}, "plain values": {}, "devices": {}, "dtypes": {}, "shapes": {}}
    is_tensor = isinstance(value, Tensor)
    noted["types"][path] = "tensor" if is_tensor else type(value).__name__
    if is_tensor:
        noted["devices"][path] = value.device.type
        noted["dtypes"][path] = str(value.dtype)
        noted["shapes"][path] = str(tuple(value.shape))
    elif isinstance(value, dict):
        noted["keys"][path] = [repr(key) for key in value]
        for key, item in value.items():
            described(item, f"{path}[{key!r}]", noted)
    elif isinstance(value, (list, tuple)):
        for i, item in enumerate(value):
            described(item, f"{path}[{i}]", noted)
    elif type(value) in (int, float, bool, str, type(None)):
        noted["plain values"][path] = repr(value)
    return noted


# %% check="move-batch" points=2
"""Every tensor is moved, every container keeps its type, everything else is passed through."""
with check("move-batch") as test:

    def batches():
        """Batches by name."""
        x, y = torch.arange(6.0).reshape(2, 3), torch.tensor([2, 0])
        return {
            "one tensor": x,
            "labels": y,
            "a dict of two": {"x": x, "y": y},
            "nested": [({"x": x, "length": 3}, None, "id-7"), ({"x": y, "mask": [x > 2, [y]]}, 2.5, "")],
        }

    def journey(move, name, device):
        """Move one of the batches and describe the result; was the batch itself changed?"""
        batch = batches()[name]
        before = described(batch)
        result = described(move(batch, device))
        return result | {"batch changed": described(batch) != before}

    into_string = "A string is iterable, but it is a leaf here: pass it through as it is."

    def mistakes_about(wanted):
        """The known mistakes; `wanted` is the description of what should come back."""

        def differ(seen, fact, *types):
            """The paths at which a fact of the result is another one, for things of these types only."""
            kinds, came = wanted["types"], seen[fact]
            places = [p for p in wanted[fact] if p in came and (not types or kinds[p] in types)]
            return [p for p in places if came[p] != wanted[fact][p]]

        return (
            mistake(
                "Your function returned nothing, but it must return the moved batch.",
                when=lambda seen: "batch" in differ(seen, "types") and seen["types"]["batch"] == "NoneType",
            ),
            mistake(into_string, raises="RecursionError"),
            mistake(into_string, when=lambda seen: differ(seen, "types", "str") or differ(seen, "plain values", "str")),
            mistake(
                "Numbers, strings and None are passed through as they are: {detail}.",
                when=lambda seen: differ(seen, "types", "int", "float", "bool", "NoneType"),
            ),
            mistake(
                "The container type changed: {detail}.",
                when=lambda seen: differ(seen, "types", "list", "tuple", "dict"),
            ),
            mistake(
                "Numbers, strings and None are passed through as they are: {detail}.",
                when=lambda seen: differ(seen, "plain values"),
            ),
            mistake("The keys and their order must stay: {detail}.", when=lambda seen: differ(seen, "keys")),
            mistake(
                "The tensor did not move: Tensor.to returns a new tensor, and its result was not used.",
                when=lambda seen: differ(seen, "devices") == ["batch"],
            ),
            mistake(
                "A tensor deeper in the structure did not move: {detail}.", when=lambda seen: differ(seen, "devices")
            ),
            mistake(
                "Moving must not change the dtype (integer labels stay integers): {detail}.",
                when=lambda seen: differ(seen, "dtypes"),
            ),
            mistake("Not everything came back, or too much: {detail}.", stage="shape"),
        )

    def judge(name, device="meta", *mistakes):
        """Judge the journey of one of the batches."""
        wanted = described(batches()[name])
        wanted["devices"] = dict.fromkeys(wanted["devices"], "meta")
        seen = observe_scenario(journey, move, name, device).expecting(*mistakes, *mistakes_about(wanted))
        overwritten = "You wrote the moved tensors into the caller's own structure. Build a new one."
        seen.that(not seen["batch changed"], overwritten, mistake(overwritten, stage="arguments"), stage="arguments")
        seen.returns(wanted | {"batch changed": False})

    test("one tensor")
    judge("one tensor")
    only_floats = "A float tensor moved, but this integer tensor did not. Labels must also move."
    judge("labels", "meta", mistake(only_floats, when=lambda seen: seen["devices"]["batch"] == "cpu"))

    test("a dict of two tensors")
    judge("a dict of two")

    test("a list of tuples of dicts, with numbers, None and strings in between")
    judge("nested")

# %% check="move-batch" points=1
"""Every kind of container; what is there already; dtype, shape and graph of what moves."""
with check("move-batch") as test:

    def leaves(value):
        """All that is in a structure, in order."""
        if isinstance(value, dict):
            value = list(value.values())
        return [leaf for item in value for leaf in leaves(item)] if isinstance(value, (list, tuple)) else [value]

    def in_place(move, device):
        """Move tensors that are on the device already: what comes back as another object, what on another device?"""
        x, y = torch.ones(2, 3, device=device), torch.zeros(2, dtype=torch.int64, device=device)
        batch = {"x": x, "y": [y, (x.t(), y[:1])], "of one shape": [x + 1, x + 2], "long text": "a text of some length"}
        old, new = leaves(batch), leaves(move(batch, device))
        others = [b for a, b in zip(old, new, strict=False) if a is not b]
        return {
            "leaves": len(new),
            "elsewhere": sum(isinstance(b, Tensor) and b.device.type != device for b in new),
            "new objects": [type(b).__name__ for b in others],
            "another of the batch": {*map(id, new)} < {*map(id, old)},
        }

    def judge_in_place(device):
        """Judge that nothing is copied that is on the device already."""
        observe_scenario(in_place, move, device).returns(
            {"leaves": 7, "elsewhere": 0, "new objects": [], "another of the batch": False},
            mistake(
                "These tensors came back on another device than the one that was asked for.",
                when=lambda seen: seen["elsewhere"],
            ),
            mistake(
                "In place of a tensor, another one of the batch came back. Tensors that share their memory are still "
                "different tensors (here x and x.t()): return each one itself.",
                when=lambda seen: seen["leaves"] == 7 and seen["another of the batch"],
            ),
            mistake(
                "The tensor was on that device already, yet you made a copy; `.to` alone returns the same object then.",
                when=lambda seen: seen["leaves"] == 7 and {*seen["new objects"]} <= {"Tensor", "Parameter"},
            ),
            because="What came back is not the batch that went in: {detail}.",
        )

    test("a dict with a list of a number, labels and a text")
    seen = observe(move, {"x": torch.ones(2), "more": [({"n": 3}, torch.tensor([1, 0]), "id", None)]}, "meta")
    on_meta_too = [torch.ones(2, device="meta"), torch.tensor([1, 0], device="meta")]
    seen.returns({"x": on_meta_too[0], "more": [({"n": 3}, on_meta_too[1], "id", None)]}, FIRST_CHECK_FIRST)
    keys = "The keys and their order must stay."
    seen.that(list(seen.value) == ["x", "more"], keys, FIRST_CHECK_FIRST)
    seen.leaves_arguments_alone(FIRST_CHECK_FIRST)

    test("tensors that are on the CPU already come back as the same objects")
    judge_in_place("cpu")

    ### BEGIN HIDDEN TESTS
    def batches():
        """Batches by name."""
        Pair = namedtuple("Pair", ["x", "y"])  # a class of its own, as a dataset would define it
        x, y = torch.arange(6.0).reshape(2, 3), torch.tensor([2, 0])
        return {
            "a namedtuple": Pair(x, y),
            "a namedtuple in a dict": {"pair": Pair(x, {"y": y, "z": None}), "name": "p"},
            "namedtuples in a tuple": (Pair(1, x), Pair("ab", (y,))),
            "an OrderedDict": OrderedDict([("z", x), ("a", y), ("m", 1)]),
            "an OrderedDict in a list": [OrderedDict(x=x, more=OrderedDict(y=y))],
            "empty containers": [{}, [], (), OrderedDict(), ""],
            "deep": [[[[[[{"k": ((x,), {"v": [y]})}]]]]]],
            "keys that are no strings": {0: x, (1, "b"): y, None: [x]},
            "a tuple of one": (x,),
            "a string alone": "a batch of nothing",
            "no tensor": {"n": 3, "flag": True, "name": "abc", "none": None, "rate": 0.5},
            "an array of NumPy's": {"ids": torch.arange(3).numpy(), "x": x},
            "a parameter and a subclass": [nn.Parameter(x.clone()), x.as_subclass(Image)],
            "a list of floats and labels of one shape": [x, x.long()],
        }

    class Image(Tensor):
        """A tensor of a class of its own, as image libraries have them."""

    as_fields = (
        "A namedtuple must come back as the same namedtuple (batch.x must still work): it takes its fields as separate "
        "arguments."
    )

    def journey(move, name):
        """Move one of the batches and describe the result."""
        return described(move(batches()[name], "meta"))

    def mistakes_about(name, wanted):
        """The known mistakes with this batch; `wanted` is the description of what should come back."""
        kinds = {*wanted["types"].values()}

        def as_wanted(seen, *facts):
            """Whether these facts of the result are right."""
            return all(seen[fact] == wanted[fact] for fact in facts)

        return (
            mistake(
                "An array of NumPy's is no tensor: it is passed through as it is.",
                when=lambda seen: "ndarray" in kinds and (seen.error_text or not as_wanted(seen, "types")),
            ),
            mistake(
                "A parameter, or another subclass of Tensor, is also a tensor (isinstance says so), so it must move.",
                when=lambda seen: name == "a parameter and a subclass" and not as_wanted(seen, "devices"),
            ),
            mistake(as_fields, raises="argument", when=lambda seen: "Pair" in kinds),
            mistake(as_fields, when=lambda seen: "Pair" in kinds and not as_wanted(seen, "types")),
            mistake(
                "A namedtuple is a tuple (isinstance says so): its tensors move.",
                when=lambda seen: "Pair" in kinds and not as_wanted(seen, "devices"),
            ),
            mistake(
                "An OrderedDict is a dict too (isinstance says so), and comes back as one, its tensors moved.",
                when=lambda seen: "OrderedDict" in kinds and not as_wanted(seen, "types", "devices"),
            ),
            mistake(
                "Keys need not be strings: build the dict from pairs, not with `**`.",
                raises="keywords must be strings",
            ),
            mistake(
                "A batch may be a single thing, which is no structure: {detail}.",
                stage="raised",
                when=lambda seen: wanted["types"]["batch"] not in ("dict", "OrderedDict", "list", "tuple", "Pair"),
            ),
            mistake(
                "This tensor came back with another dtype or shape, and moving changes neither: {detail}.",
                when=lambda seen: (
                    as_wanted(seen, "types", "devices", "keys") and not as_wanted(seen, "dtypes", "shapes")
                ),
            ),
        )

    for name, batch in batches().items():
        test.hidden(name)
        wanted = described(batch)
        wanted["devices"] = dict.fromkeys(wanted["devices"], "meta")
        seen = observe_scenario(journey, move, name).expecting(*mistakes_about(name, wanted))
        seen.returns(wanted, because="Containers, keys and all that is no tensor stay as they are: {detail}.")

    test.hidden("tensors that are on meta already come back as the same objects")
    judge_in_place("meta")

    def kinds_of_tensors(move):
        """Move tensors of many kinds; note what they are then."""
        made = {
            "float64": torch.ones(2, dtype=torch.float64),
            "float16": torch.ones(3, dtype=torch.float16),
            "int32": torch.ones(2, 2, dtype=torch.int32),
            "uint8": torch.ones(2, dtype=torch.uint8),
            "bool": torch.tensor([True, False]),
            "complex64": torch.ones(2, dtype=torch.complex64),
            "0-d": torch.tensor(3),
            "empty": torch.ones(0, 4),
            "4-d": torch.ones(2, 1, 3, 1),
        }
        return dict(zip(made, map(told, leaves(move(made, "meta"))), strict=False))

    def told(tensor):
        """Device, dtype and shape of a tensor, and whether it requires grad; of anything else its type."""
        if not isinstance(tensor, Tensor):
            return {"type": type(tensor).__name__}
        return {
            "device": tensor.device.type,
            "dtype": str(tensor.dtype),
            "shape": str(tuple(tensor.shape)),
            "requires_grad": tensor.requires_grad,
        }

    def on_meta(dtype, shape):
        """What is told of a tensor on meta that does not require grad."""
        return {"device": "meta", "dtype": str(dtype), "shape": str(shape), "requires_grad": False}

    test.hidden("dtype and shape of the tensors stay")
    observe_scenario(kinds_of_tensors, move).returns(
        {
            "float64": on_meta(torch.float64, (2,)),
            "float16": on_meta(torch.float16, (3,)),
            "int32": on_meta(torch.int32, (2, 2)),
            "uint8": on_meta(torch.uint8, (2,)),
            "bool": on_meta(torch.bool, (2,)),
            "complex64": on_meta(torch.complex64, (2,)),
            "0-d": on_meta(torch.int64, ()),
            "empty": on_meta(torch.float32, (0, 4)),
            "4-d": on_meta(torch.float32, (2, 1, 3, 1)),
        },
        because="Every tensor moves, and its dtype, shape and requires_grad stay: {detail}.",
    )

    def comes_from(tensor, leaf):
        """Whether backward from a tensor would reach a leaf."""
        nodes = [getattr(tensor, "grad_fn", None)]
        for node in nodes:
            nodes += [following for following, _ in getattr(node, "next_functions", ())]
        return any(getattr(node, "variable", None) is leaf for node in nodes)

    def in_the_graph(move):
        """Move a leaf, a result computed from it, and a parameter, and a tensor before and after it requires grad."""
        leaf, weight, later = torch.ones(3, requires_grad=True), nn.Parameter(torch.ones(2, 2)), torch.ones(2)
        move(later, "meta")
        again = move(later.requires_grad_(), "meta")
        result = leaves(move([leaf, (leaf * 2,), torch.ones(3), weight], "meta"))
        return {
            "requires grad": [getattr(tensor, "requires_grad", None) for tensor in result],
            "reaches the leaf": [comes_from(tensor, leaf) for tensor in result[:3]],
            "reaches the parameter": [comes_from(tensor, weight) for tensor in result[3:]],
            "leaf still requires grad": leaf.requires_grad,
            "again": comes_from(again, later),
        }

    test.hidden("a moved tensor still belongs to the graph")
    observe_scenario(in_the_graph, move).returns(
        {
            "requires grad": [True, True, False, True],
            "reaches the leaf": [True, True, False],
            "reaches the parameter": [True],
            "leaf still requires grad": True,
            "again": True,
        },
        mistake(
            "A tensor was moved, then it was set to require grad, and was moved once more. The result is the one of "
            "the first call, which doesn't require grad. Keep no results: move each tensor as it is now.",
            when=lambda seen: seen["requires grad"] == [True, True, False, True] and all(seen["reaches the parameter"]),
        ),
        mistake(
            "A tensor of the caller was changed: it no longer requires grad.",
            when=lambda seen: not seen["leaf still requires grad"],
        ),
        mistake(
            "The moved Parameter is a new one, a leaf of its own, so no gradient reaches the one in the batch: return "
            "what `.to` gives.",
            when=lambda seen: (
                seen["requires grad"] == [True, True, False, True]
                and seen["reaches the leaf"] == [True, True, False]
                and seen["reaches the parameter"] == [False]
            ),
        ),
        mistake(
            "The moved tensor left the autograd graph: `.data`, `.detach()`, torch.tensor(...) or torch.no_grad() cuts "
            "it off.",
            when=lambda seen: len(seen["requires grad"]) == 4 and None not in seen["requires grad"],
        ),
        because="These are not the four tensors that went in: {detail}.",
    )

    def other_objects(move):
        """Move objects that are no tensors and no structures: which come back as other objects?"""

        class Movable:
            """An object with a `.to` of its own."""

            device = "cpu"

            def to(self, device):
                self.device = device
                return self

        named = {
            "a set": {1, 2},
            "a range": range(300, 305),
            "bytes": b"some bytes",
            "an object": object(),
            "a function": len,
            "a dtype": torch.float64,
            "a module": nn.Linear(2, 1),
            "an object with a `.to`": Movable(),
            "a generator": (i for i in range(3)),
            "a large number": 10**20,
        }
        others = [name for name, thing in named.items() if move(thing, "meta") is not thing]
        others += ["an item of a list"] * (leaves(move([[len]], "meta")) != [len])
        moved = [named["a module"].weight.device.type, named["an object with a `.to`"].device]
        return {"others": others, "moved": moved}

    test.hidden("other objects are passed through, also such that have a `.to`")
    seen = observe_scenario(other_objects, move)
    seen.that(not seen["others"], "Objects that are neither tensors nor structures must come back as they are.")
    seen.that(
        seen["moved"] == ["cpu", "cpu"],
        "Only tensors are moved: a module, or an object with a `.to` of its own, is passed through unchanged.",
        stage="arguments",
    )

    def by_field(move):
        """Move a namedtuple of a class with defaults: is it still that class, are the fields in place?"""
        Sample = namedtuple("Sample", ["image", "label", "weight"], defaults=[1.0])
        sample = Sample(torch.ones(2), 7)
        result = move(sample, "meta")
        same = type(result) is Sample
        return [same, *map(str, (result.image.device, result.label, result.weight))] if same else [same]

    test.hidden("the fields of a namedtuple can be read by name")
    observe_scenario(by_field, move).returns(
        [True, "meta", "7", "1.0"],
        because="A namedtuple must come back as the same namedtuple, with all its fields.",
    )

    test.hidden("the device as a torch.device")
    seen = observe(move, [torch.ones(2)], torch.device("meta"))
    seen.returns(
        [torch.ones(2, device="meta")], mistake("The device may also be a torch.device.", stage=("raised", "device"))
    )

    def with_accelerator(move):
        """Move a batch to this machine's accelerator, if it has one, and bring what came there back."""
        batch = {"x": torch.arange(6.0), "y": [torch.tensor([3, 1])]}
        if not torch.accelerator.is_available():
            return leaves(batch)
        device = torch.accelerator.current_accelerator()
        return [new.cpu() for new in leaves(move(batch, device)) if told(new).get("device") == device.type]

    test.hidden("the values arrive on the accelerator, where there is one")
    observe_scenario(with_accelerator, move).returns([torch.arange(6.0), torch.tensor([3, 1])])
    ### END HIDDEN TESTS
