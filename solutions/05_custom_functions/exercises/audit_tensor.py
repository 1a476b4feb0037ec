# %% [markdown]
# ### Exercise 5.8 · A tensor that keeps a diary
#
# fix · solid · 15 min · 2 points
#
# `Audit` is to write down which torch functions its tensors go through: a tool to find out who calls what in a library.
# As it stands, `torch.ones(2, 3).as_subclass(Audit) + 1` ends in a RecursionError.
#
# **Contract**
#
# - Every torch function or method that gets an Audit tensor adds one entry to the list `Audit.diary`, before it runs:
#   `(func.__name__, shapes)`, where shapes is the tuple of the shapes of the tensors among its positional arguments.
#   Tensors inside of lists or keyword arguments don't count there. Calls that a torch function makes inside are not
#   logged.
# - Names that begin and end with two underscores are not logged, except `__getitem__` and `__setitem__`. So printing,
#   attributes and `len` leave no trace.
# - Results, in tuples too, are Audit tensors. Values, gradients and keyword arguments are right, and operands may be
#   mixed in either order. `x.as_subclass(torch.Tensor)` gives a plain tensor, which is not logged any more.
# - No deprecation warning, no recursion.
#
# <details><summary>Hint 1</summary>
#
# Two different things recurse here: calling func with Audit arguments, and formatting args. Where does each lead?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# A classmethod that passes the call on to `super().__torch_function__` (with all four arguments). Take shapes instead
# of formatting; and `x.shape` of an Audit tensor goes through the protocol too (as `__get__`).
#
# </details>


# %% answer="audit-tensor"
class Audit(torch.Tensor):
    """A tensor that notes in Audit.diary which torch functions it goes through, with the shapes of their tensors."""

    ### BEGIN SOLUTION
    diary: ClassVar[list[tuple[str, tuple[torch.Size, ...]]]] = []

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        name = func.__name__
        hidden = name.startswith("__") and name.endswith("__") and name not in ("__getitem__", "__setitem__")
        if not hidden:
            Audit.diary.append((name, tuple(arg.shape for arg in args if isinstance(arg, Tensor))))
        return super().__torch_function__(func, types, args, kwargs)

    ### END SOLUTION
    ### BEGIN GIVEN
    # diary = []
    #
    # def __torch_function__(self, func, types, args=(), kwargs=None):
    #     raise NotImplementedError  # repair the code below, then delete this line
    #     Audit.diary.append(f"{func.__name__} {args}")
    #     return func(*args, **kwargs)
    ### END GIVEN


# %% helpers="audit-tensor"
def entries(Audit):
    """The diary as it is now, in plain form; then it is emptied."""
    taken = list(Audit.diary)
    Audit.diary.clear()
    pairs = [isinstance(e, tuple) and len(e) == 2 and isinstance(e[1], (tuple, list)) for e in taken]
    return [
        [str(e[0]), [list(s) if isinstance(s, tuple) else type(s).__name__ for s in e[1]]] if pair else "no pair"
        for e, pair in zip(taken, pairs, strict=True)
    ]


def plain(result):
    """A result in plain form: its values, and whether it is an Audit tensor; tuples item by item."""
    with torch._C.DisableTorchFunctionSubclass():
        if isinstance(result, Tensor):
            return {"kind": type(result).__name__, "values": result.detach().as_subclass(Tensor).clone()}
        return [plain(item) for item in result] if isinstance(result, (tuple, list)) else result


def made(Audit, rows, columns, start=0.0):
    """An Audit tensor, and an empty diary."""
    x = (torch.arange(float(rows * columns)).reshape(rows, columns) + start).as_subclass(Audit)
    Audit.diary.clear()
    return x


def is_logged(seen, log, *mistakes):
    """Judge the diary of one call."""
    came = seen["log"]
    odd = [entry for entry in came if isinstance(entry, str)]
    seen.that(not odd, "An entry must be a pair: the function's name and a tuple of shapes.", *mistakes, stage="type")
    names, wanted = [name for name, _ in came], [name for name, _ in log]
    words = [name for name in names if "<" in name]
    seen.that(not words, "An entry begins with func.__name__, such as 'matmul', not with str(func).", stage="type")
    inner = [name for name in dict.fromkeys(wanted) if names.count(name) > wanted.count(name)]
    seen.that(not inner, f"A call appears more than once (inner calls are logged too): {', '.join(inner)}.", *mistakes)
    lost = [name for name in dict.fromkeys(wanted) if names.count(name) < wanted.count(name)]
    seen.that(not lost, f"A call is missing in the diary: {', '.join(lost)}.", *mistakes)
    extra = [name for name in dict.fromkeys(names) if name not in wanted]
    seen.that(not extra, f"The diary holds calls that do not belong there: {', '.join(extra)}.", *mistakes)
    seen.that(
        [list(entry) for entry in came] == [[name, [list(s) for s in shapes]] for name, shapes in log],
        f"The entry must hold the shapes of the direct tensor arguments: expected {log}, got {came}.",
        *mistakes,
    )


def is_right(seen, values, *mistakes):
    """Judge the result of one call: an Audit tensor with these values."""
    came = seen["result"]
    is_tensor = isinstance(came, dict)
    kind = came["kind"] if is_tensor else type(came).__name__
    seen.that(kind == "Audit", f"Results must be Audit tensors, not of type {kind}.", *mistakes, stage="type")
    right = came["values"].shape == values.shape and torch.allclose(came["values"].float(), values.float())
    seen.that(right, "The result of the call is wrong.", *mistakes)


def recursion_in(words):
    """Whether the code of the learner went round and round in lines with one of these words."""

    def through(seen):
        lines = [source for _, _, source in seen.noted.raised["frames"][:-1]]
        return any(word in line for word in words for line in lines)

    return through


known = [
    mistake(
        "`func(*args)` on Audit tensors lands in __torch_function__ again: pass the call on through "
        "super().__torch_function__.",
        raises="^RecursionError",
        when=recursion_in(["func(*"]),
    ),
    mistake(
        "`x.shape` and the like go through __torch_function__ again, as __get__: see to it that names with double "
        "underscores are passed on before you ask for shapes.",
        raises="^RecursionError",
        when=recursion_in([".shape", ".size(", ".dim("]),
    ),
    mistake(
        "Formatting an Audit tensor calls its __repr__, which is a torch method too and lands in "
        "__torch_function__ again: log shapes, not the tensors themselves.",
        raises="^RecursionError",
    ),
    mistake(
        "`super().torch_function` does not exist; the name has double underscores on both sides.",
        raises="'super' object has no attribute",
    ),
    mistake("`kwargs` may be None: use kwargs or {}.", raises="must be a mapping, not NoneType"),
    mistake("`Audit.diary` must be a list that belongs to the class.", raises="has no attribute '(diary|clear)'"),
]


# %% check="audit-tensor" points=1
"""One entry for each call, with the shapes; printing leaves none; results are Audit tensors."""
with check("audit-tensor") as test:

    def one_call(Audit, call):
        """With Audit tensors x (2, 3) and y (3, 4), make this call, then read the diary."""
        x, y = made(Audit, 2, 3), made(Audit, 3, 4, 0.5)
        calls = {
            "x + 1": lambda: x + 1,
            "torch.matmul(x, y)": lambda: torch.matmul(x, y),
            "F.softmax(x, dim=1)": lambda: F.softmax(x, dim=1),
            "x.exp()": lambda: x.exp(),
            "torch.relu(x)": lambda: torch.relu(x),
        }
        result = calls[call]()
        return {"result": plain(result), "log": entries(Audit)}

    x, y = torch.arange(6.0).reshape(2, 3), torch.arange(12.0).reshape(3, 4) + 0.5

    test("torch.matmul(x, y), x + 1 and F.softmax(x, dim=1): one entry each, results are Audit tensors")
    for call, values, log in [
        ("torch.matmul(x, y)", x @ y, [("matmul", [(2, 3), (3, 4)])]),
        ("x + 1", x + 1, [("add", [(2, 3)])]),
        ("F.softmax(x, dim=1)", x.softmax(1), [("softmax", [(2, 3)])]),
    ]:
        seen = observe_scenario(one_call, Audit, call).expecting(*known)
        is_logged(seen, log)
        is_right(seen, values)

    def handler(Audit):
        """Look up `__torch_function__` in the class: what kind of method is it?"""
        return type(inspect.getattr_static(Audit, "__torch_function__", None)).__name__

    test("__torch_function__ is a classmethod; no warning")
    seen = observe_scenario(handler, Audit)
    seen.that(
        seen.value == "classmethod",
        "`__torch_function__` is a plain method: deprecated. Make it a classmethod.",
        stage="rule",
    )
    seen = observe_scenario(one_call, Audit, "x + 1").expecting(*known)
    seen.warned_nothing(because="torch warns: {detail}")

    def looked_at(Audit):
        """Print an Audit tensor and ask for its attributes, then read the diary."""
        x = made(Audit, 2, 3)
        words = [repr(x), f"{x}", str(x.dtype), str(len(x)), str(list(x.shape)), str(x.requires_grad)]
        return {"words": words[2:], "looks like a tensor": "3., 4., 5." in words[0], "log": entries(Audit)}

    test("repr, an f-string, shape, dtype and len leave no entry")
    seen = observe_scenario(looked_at, Audit).expecting(*known)
    traces = ", ".join(dict.fromkeys(str(entry[0]) for entry in seen["log"]))
    seen.that(not traces, f"Printing or attribute access left entries in the diary: {traces}. Skip dunder names.")
    seen.that(
        seen["words"] == ["torch.float32", "2", "[2, 3]", "False"] and seen["looks like a tensor"],
        "An Audit tensor must look like a tensor when it is printed, and have the attributes of one.",
    )

    ### BEGIN HIDDEN TESTS
    for call, values, log in [("x.exp()", x.exp(), [("exp", [(2, 3)])]), ("torch.relu(x)", x, [("relu", [(2, 3)])])]:
        test.hidden(f"another call: {call}")
        seen = observe_scenario(one_call, Audit, call).expecting(*known)
        is_logged(seen, log)
        is_right(seen, values)
    ### END HIDDEN TESTS

# %% check="audit-tensor" points=1
"""Indexing, mixed operands, keyword arguments, several results, gradients: nothing else changes."""
with check("audit-tensor") as test:

    def one_call(Audit, call):
        """With Audit tensors x (2, 3) and y (3, 4), make this call, then read the diary."""
        x, y, p = made(Audit, 2, 3), made(Audit, 3, 4, 0.5), torch.ones(2, 3)
        calls = {
            "x + 1": lambda: x + 1,
            "torch.matmul(x, y)": lambda: torch.matmul(x, y),
            "F.softmax(x, dim=1)": lambda: F.softmax(x, dim=1),
            "x[0]": lambda: x[0],
            "p + x": lambda: p + x,
            "x - p": lambda: x - p,
            "p @ y": lambda: p @ y,
            "2 * x": lambda: 2 * x,
            "x.split(2, dim=1)": lambda: x.split(2, dim=1),
            "x.max(dim=1)": lambda: tuple(x.max(dim=1)),
            "torch.stack([p, x])": lambda: torch.stack([p, x]),
            "x.sum(dim=1, keepdim=True)": lambda: x.sum(dim=1, keepdim=True),
            "torch.add(p, other=x)": lambda: torch.add(p, other=x),
            "F.layer_norm(q, (3,), weight=y[:, 1])": lambda: F.layer_norm(p + p.cumsum(1), (3,), weight=y[:, 1]),
            "torch.where(p > 0, x, p)": lambda: torch.where(p > 0, x, p),
            "x.sum().item()": lambda: x.sum().item(),
            "-x.t()": lambda: -x.t(),
        }
        result = calls[call]()
        return {"result": plain(result), "log": entries(Audit)}

    x, y = torch.arange(6.0).reshape(2, 3), torch.arange(12.0).reshape(3, 4) + 0.5
    p = torch.ones(2, 3)

    def written_to(Audit):
        """With an Audit tensor x (2, 3), run `x[0] = 7.0`, then read the diary."""
        x = made(Audit, 2, 3)
        x[0] = 7.0
        return {"result": plain(x), "log": entries(Audit)}

    test("x[0] is logged, x[0] = 7 too")
    indexing = mistake("Indexing must be logged.", when=lambda seen: not seen["log"])
    seen = observe_scenario(one_call, Audit, "x[0]").expecting(*known)
    is_logged(seen, [("__getitem__", [(2, 3)])], indexing)
    is_right(seen, x[0])
    seen = observe_scenario(written_to, Audit).expecting(*known)
    is_logged(seen, [("__setitem__", [(2, 3)])], indexing)
    is_right(seen, torch.tensor([[7.0, 7, 7], [3, 4, 5]]))

    ### BEGIN HIDDEN TESTS
    for call, values, log in [
        ("p + x", p + x, [("add", [(2, 3), (2, 3)])]),
        ("x - p", x - p, [("sub", [(2, 3), (2, 3)])]),
        ("p @ y", p @ y, [("matmul", [(2, 3), (3, 4)])]),
        ("2 * x", 2 * x, [("mul", [(2, 3)])]),
        ("torch.where(p > 0, x, p)", x, [("where", [(2, 3), (2, 3), (2, 3)])]),
        ("-x.t()", -x.t(), [("t", [(2, 3)]), ("neg", [(3, 2)])]),
    ]:
        test.hidden(f"mixed operands: {call}")
        seen = observe_scenario(one_call, Audit, call).expecting(*known)
        is_logged(seen, log)
        is_right(seen, values)

    keywords = mistake("Keyword arguments were not passed on.", stage=("raised", "value", "type"))
    norm = F.layer_norm(p + p.cumsum(1), (3,), weight=y[:, 1])
    for call, values, log in [
        ("x.sum(dim=1, keepdim=True)", x.sum(dim=1, keepdim=True), [("sum", [(2, 3)])]),
        ("torch.add(p, other=x)", p + x, [("add", [(2, 3)])]),
        ("F.layer_norm(q, (3,), weight=y[:, 1])", norm, [("__getitem__", [(3, 4)]), ("layer_norm", [(2, 3)])]),
        ("torch.stack([p, x])", torch.stack([p, x]), [("stack", [])]),
    ]:
        test.hidden(f"keyword arguments and lists: {call}")
        seen = observe_scenario(one_call, Audit, call).expecting(*known)
        if seen.noted.raised or torch.is_tensor(seen["result"]):
            seen.returns({}, keywords)
        is_right(seen, values, *([] if "stack" in call else [keywords]))
        is_logged(seen, log)

    for call, values, log in [
        ("x.split(2, dim=1)", list(x.split(2, dim=1)), [("split", [(2, 3)])]),
        ("x.max(dim=1)", [torch.tensor([2.0, 5.0]), torch.tensor([2, 2])], [("max", [(2, 3)])]),
    ]:
        test.hidden(f"several results: {call}")
        seen = observe_scenario(one_call, Audit, call).expecting(*known)
        is_logged(seen, log)
        came = seen["result"]
        seen.that(isinstance(came, list) and len(came) == 2, "The result must be a tuple of two tensors.", stage="type")
        for one, value in zip(came, values, strict=True):
            kind = one["kind"] if isinstance(one, dict) else type(one).__name__
            seen.that(kind == "Audit", f"The tensors in a tuple must be Audit tensors, not {kind}.", stage="type")
            seen.that(torch.equal(one["values"], value), "The result of the call is wrong.")

    test.hidden("item gives a number")
    seen = observe_scenario(one_call, Audit, "x.sum().item()").expecting(*known)
    seen.that(seen["result"] == 15.0, "`item` must give a plain number.")
    names = [entry[0] for entry in seen["log"]]
    seen.that("sum" in names and "item" in names, "A call is missing in the diary: sum or item.")

    def failing(Audit):
        """With an Audit tensor x (2, 3), run `torch.matmul(x, x)`, which raises; then read the diary."""
        x = made(Audit, 2, 3)
        try:
            torch.matmul(x, x)
        except RuntimeError as error:
            return {"error": "cannot be multiplied" in str(error), "log": entries(Audit)}
        return {"error": False, "log": entries(Audit)}

    test.hidden("the entry is made before the call: one that fails is logged, too")
    seen = observe_scenario(failing, Audit).expecting(*known)
    seen.that(seen["error"], "torch.matmul of (2, 3) and (2, 3) must raise torch's own RuntimeError.")
    seen.that(bool(seen["log"]), "The entry must be made before the call: a call that raised left no entry.")
    is_logged(seen, [("matmul", [(2, 3), (2, 3)])])

    def in_place(Audit):
        """With an Audit tensor x (2, 3), run `x.add_(1)` and `x.t_()`, then read the diary."""
        x = made(Audit, 2, 3)
        same = [x.add_(1) is x, x.t_() is x]
        return {"same": same, "result": plain(x), "log": entries(Audit)}

    test.hidden("in-place calls: the same object comes back, with the shape from before in the diary")
    seen = observe_scenario(in_place, Audit).expecting(*known)
    seen.that(seen["same"] == [True, True], "An in-place method must return the very object.", stage="aliasing")
    is_logged(seen, [("add_", [(2, 3)]), ("t_", [(2, 3)])])
    is_right(seen, (x + 1).t())

    def differentiated(Audit, leaf):
        """Turn the leaf into an Audit tensor, compute with it, and call backward."""
        out = (leaf.as_subclass(Audit) ** 2 * torch.tensor([1.0, 2.0, 3.0])).sum()
        with torch._C.DisableTorchFunctionSubclass():
            out.backward()
            gradient = None if leaf.grad is None else leaf.grad.as_subclass(Tensor).clone()
            return {"gradient": gradient, "value": out.item()}

    test.hidden("gradients pass")
    leaf = torch.tensor([1.0, -2.0, 4.0], requires_grad=True)
    observe_scenario(differentiated, Audit, leaf).expecting(*known).returns(
        {"gradient": torch.tensor([2.0, -8.0, 24.0]), "value": 57.0},
        because="Values or gradients of Audit tensors are wrong: {detail}",
    )

    def out_again(Audit):
        """Leave the class with `x.as_subclass(torch.Tensor)`, and go on with that tensor."""
        x = made(Audit, 2, 3)
        free = x.as_subclass(torch.Tensor)
        Audit.diary.clear()
        more = free * 2 + free[0]
        return {
            "kinds": [type(free).__name__, type(more).__name__],
            "log": entries(Audit),
            "more": plain(more)["values"],
        }

    test.hidden("as_subclass(torch.Tensor) gets out of it")
    observe_scenario(out_again, Audit).expecting(*known).returns(
        {"kinds": ["Tensor", "Tensor"], "log": [], "more": x * 2 + x[0]},
        because="x.as_subclass(torch.Tensor) must give a plain tensor, which is not logged any more: {detail}",
    )
    ### END HIDDEN TESTS
