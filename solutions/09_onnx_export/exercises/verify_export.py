# %% [markdown]
# ### Exercise 9.4 · Is the exported model the same function?
#
# implement · solid · 20 min · 3 points
#
# An export that succeeds proves nothing yet. Write the check that you run after each export, with inputs of several
# sizes.
#
# **Contract**
#
# - Compare the file with `model` in eval mode for each tensor of `inputs`, and return the problems that you found as a
#   list of strings, in the order of the inputs. If there are none, the list is empty.
# - Every entry starts with its kind: `checker:` if `onnx.checker` refuses the file (then nothing is run), `run:` if
#   onnxruntime refuses an input, `shape:` or `value:` if an output differs. The last three contain the index of the
#   input.
# - All inputs are tried and all outputs compared, even after a problem, and each output that differs gets its own
#   entry.
# - Shapes must be equal; it is not enough that they broadcast. Values may differ by `atol + rtol * |value|`, where
#   value is the model's. NaN compared with a number is a difference.
# - If `inputs` is empty, raise `ValueError`, because nothing would be verified.
# - When the function returns, or the model raises for an input, the training flags of all submodules, the parameters
#   and the buffers are as before. No gradient is tracked.
# - The model returns a tensor or a tuple of tensors, and its forward changes nothing in eval mode. The file has one
#   input, of any name, and as many outputs as the model; it can be loaded if the checker accepts it. The tensors of
#   `inputs` have the type of that input and at least one row.
# - You may assume that all outputs are floating-point and that the model's values are never infinite. Whether two NaNs
#   agree is up to you.
#
# <details><summary>Hint 1</summary>
#
# What does `check_model` not check? What happens when you compare a result of shape `(N, 1)` with a result of shape
# `(1, N)`?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# Run the checker first, then make one session. For each input, run the model in eval mode under `no_grad`, and the
# session in a `try`. Compare shapes exactly, then use `np.allclose`, for which NaN differs from everything. Restore the
# flags in `finally`.
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# For each input, an error of the session becomes an entry, and the loop goes on with the next input. Put a single
# tensor into a list, so that you can go through pairs of outputs. Compare values only if the shapes are equal. `rtol`
# is relative to the second argument of `np.allclose`, so the model's value must be the second.
#
# </details>


# %% answer="verify-export"
def verify_onnx(
    path: str, model: nn.Module, inputs: Sequence[Tensor], rtol: float = 1e-3, atol: float = 1e-5
) -> list[str]:
    """The problems of the file at path, compared with model.eval() on each of the inputs."""
    ### BEGIN SOLUTION
    if not inputs:
        raise ValueError("without inputs nothing is verified")
    try:
        onnx.checker.check_model(path)
    except Exception as error:
        return [f"checker: {error}"]
    session, problems = ort.InferenceSession(path), []
    flags = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        for number, x in enumerate(inputs):
            with torch.no_grad():
                expected = model(x)
            try:
                came = session.run(None, {session.get_inputs()[0].name: x.detach().numpy()})
            except Exception as error:
                problems.append(f"run: input {number}: {error}")
                continue
            expected = [expected] if isinstance(expected, Tensor) else expected
            for k, (a, b) in enumerate(zip(came, expected, strict=True)):
                if a.shape != tuple(b.shape):
                    shapes = f"{a.shape} instead of {tuple(b.shape)}"
                    problems.append(f"shape: input {number}, output {k}: {shapes}")
                elif not np.allclose(a, b.numpy(), rtol=rtol, atol=atol):
                    problems.append(f"value: input {number}, output {k} differs")
    finally:
        for module, training in flags:
            module.training = training
    return problems
    ### END SOLUTION


# %% helpers="verify-export"
class Net(nn.Module):
    """A linear layer and dropout; what it returns depends on the kind."""

    def __init__(self, kind):
        super().__init__()
        self.kind, self.linear, self.dropout = kind, nn.Linear(3, 2), nn.Dropout(0.5)
        with torch.no_grad():
            self.linear.weight.copy_(torch.tensor([[1.0, -2.0, 3.0], [0.5, 4.0, -1.5]]))
            self.linear.bias.copy_(torch.tensor([0.25, -0.75]))

    def forward(self, x):
        h = self.dropout(self.linear(x))
        if self.kind == "branch":
            return h if x.shape[0] > 2 else h * 1.5
        if self.kind == "column":
            return x.sum(1, keepdim=True) * 0 + 4
        if self.kind == "two":
            return h, h + 1
        return h + float("nan") if self.kind == "nan here" else h


def write(path, kind, scale=1.0, shift=0.0):
    """Write a file with the linear layer, scaled and shifted, and what is wrong with this kind of file."""
    weight = np.array([[1.0, -2.0, 3.0], [0.5, 4.0, -1.5]], np.float32) * scale
    bias = np.array([0.25, -0.75], np.float32) * scale + shift
    if kind == "weight":
        weight[1, 2] += 0.05
    if kind == "small":
        bias[0] += 0.003  # the output -0.75, beside -7.25
    constants = {"w": weight, "b": bias, "one": np.float32(1), "nan": np.float32("nan"), "four": np.float32([[4]])}
    if kind in ("second", "turned and second"):
        constants["one"] = np.float32(1.1)
    linear = onnx.helper.make_node("Gemm", ["x", "w", "b"], ["y"], transB=1)
    nodes, outputs = [linear], {"y": ["batch", 2]}
    if kind in ("two", "second"):
        nodes, outputs = (
            [linear, onnx.helper.make_node("Add", ["y", "one"], ["z"])],
            {"y": ["batch", 2], "z": ["batch", 2]},
        )
    if kind == "turned and second":
        nodes[0].output[0] = "h"
        nodes += [
            onnx.helper.make_node("Transpose", ["h"], ["y"]),
            onnx.helper.make_node("Add", ["h", "one"], ["z"]),
        ]
        outputs = {"y": [2, "batch"], "z": ["batch", 2]}
    if kind == "nan":
        nodes[0].output[0] = "h"
        nodes.append(onnx.helper.make_node("Add", ["h", "nan"], ["y"]))
    if kind == "row":
        nodes = [
            onnx.helper.make_node("ReduceSum", ["x", "last"], ["s"], keepdims=1),
            onnx.helper.make_node("Mul", ["s", "zero"], ["n"]),
            onnx.helper.make_node("Add", ["n", "four"], ["column"]),
            onnx.helper.make_node("Transpose", ["column"], ["y"]),
        ]
        constants |= {"last": np.array([1]), "zero": np.float32(0)}
        outputs = {"y": [1, "batch"]}
    rows = 3 if kind == "rows" else "batch"
    floats = onnx.TensorProto.FLOAT
    graph = onnx.helper.make_graph(
        nodes,
        "net",
        [onnx.helper.make_tensor_value_info("x", floats, [rows, 3])],
        [onnx.helper.make_tensor_value_info(name, floats, shape) for name, shape in outputs.items()],
        [onnx.numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()],
    )
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 18)], ir_version=10)
    onnx.save(model, path)


def problems(verify, of_model, of_file, sizes, training=False, how=(), scale=1.0, shift=0.0):
    """What is found for inputs of these numbers of rows."""
    inputs = [(torch.arange(3.0 * rows) % 7 - 2.5).reshape(rows, 3) for rows in sizes]
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "model.onnx")
        write(path, of_file, scale, shift)
        came = verify(path, Net(of_model).train(training), inputs, **dict(how))
    listed = isinstance(came, (list, tuple)) and all(isinstance(one, str) for one in came)
    return {"type": type(came).__name__, "found": [str(one) for one in came] if listed else None}


def kinds_of(seen):
    """The kinds of the entries, and the whole numbers in each."""
    digits = ["".join(c if c.isdigit() else " " for c in entry).split() for entry in seen["found"]]
    return [(entry.split(":")[0], numbers) for entry, numbers in zip(seen["found"], digits, strict=True)]


def judge(seen, expected, sentence):
    """Judge the entries: expected are pairs of a kind and the index of an input."""
    seen.expecting(
        mistake(
            "An exception from the checker or the runtime ended your function. It must become an entry of the list.",
            raises="ONNXRuntimeError|InvalidArgument|ValidationError|InvalidGraph",
        ),
    )
    seen.that(
        seen["type"] == "list" and seen["found"] is not None, "The result must be a list of strings.", stage="type"
    )
    came = kinds_of(seen)
    odd = [kind for kind, _ in came if kind not in ("checker", "run", "shape", "value")]
    seen.that(not odd, "Every entry must start with its kind: checker:, run:, shape: or value:.")
    seen.that(sorted(kind for kind, _ in came) == sorted(kind for kind, _ in expected), sentence)
    told = all(str(index) in numbers for (_, numbers), (_, index) in zip(came, expected, strict=True))
    seen.that(
        told, "Every entry must contain the index of its input, and the entries must follow the order of the inputs."
    )


# %% check="verify-export" points=1
"""A good file passes; changed weights and sizes are found, each with its kind and its input."""
with check("verify-export") as test:
    test("a file that differs by rounding only: no problems for 1, 3 and 7 rows")
    exact = (
        "You refuse a good file. Bit equality is too strict, because the runtimes add in different orders. Use "
        "rtol and atol."
    )
    seen = observe_scenario(problems, verify_onnx, "plain", "plain", [1, 3, 7], False, (), 1 + 1e-5)
    seen.expecting(mistake(exact, when=lambda seen: all(kind == "value" for kind, _ in kinds_of(seen))))
    judge(seen, [], "You refuse a good file.")

    test("the same, for a model in training mode")
    train = "You ran the model in training mode, where dropout and batch statistics differ from the export."
    judge(observe_scenario(problems, verify_onnx, "plain", "plain", [1, 3, 7], True), [], train)

    test("one weight was changed by 0.05")
    seen = observe_scenario(problems, verify_onnx, "plain", "weight", [1, 3, 7])
    seen.expecting(
        mistake(
            "The checker looks only at the structure, so a file with changed weights passes. Compare numbers.",
            when=lambda seen: seen["found"] == [],
        ),
        mistake("Try all inputs, even after a problem.", when=lambda seen: len(seen["found"]) == 1),
    )
    judge(seen, [("value", 0), ("value", 1), ("value", 2)], "Each of the three inputs must give one entry `value:`.")

    test("the file takes 3 rows and no other number")
    one_input = (
        "You compared only one input. A fixed batch size shows only with other inputs, and must be reported as `run:`."
    )
    judge(observe_scenario(problems, verify_onnx, "plain", "rows", [3, 1, 7]), [("run", 1), ("run", 2)], one_input)


# %% check="verify-export" points=1
"""Refused files and empty lists; the model doesn't change."""
with check("verify-export") as test:

    class Noting(nn.Module):
        """Keeps whether gradients were tracked while it ran."""

        tracked = []

        def forward(self, x):
            self.tracked.append(torch.is_grad_enabled() or x.requires_grad)
            return x

    class EvalOnly(nn.BatchNorm1d):
        """Gives its input back, and refuses training mode."""

        def forward(self, x):
            if self.training:
                raise RuntimeError("this layer works in eval mode only")
            return x

    def write_identity(path, kind):
        """Write a file that gives `pixels` back: with a node without input, no name for the graph, or in float64."""
        floats = onnx.TensorProto.DOUBLE if kind == "float64" else onnx.TensorProto.FLOAT
        node = onnx.helper.make_node("Identity", ["nobody" if kind == "no input" else "pixels"], ["y"])
        sides = [[onnx.helper.make_tensor_value_info(name, floats, ["batch", 3])] for name in ("pixels", "y")]
        graph = onnx.helper.make_graph([node], "" if kind == "no name" else "graph", *sides)
        model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 18)], ir_version=10)
        Path(path).write_bytes(b"no model" if kind == "no model" else model.SerializeToString())

    def condition_of(model):
        """What must stay as it is."""
        tensors = [t.tolist() for t in (*model.parameters(), *model.buffers())]
        return {"flags": [module.training for module in model.modules()], "tensors": tensors}

    def verified(verify, kind, rows, breaks_for=0):
        """Verify a file for inputs of so many rows, with a model that does nothing in eval mode."""
        model = nn.Sequential(nn.Dropout(0.5), EvalOnly(3), Noting())
        if breaks_for:
            model.append(nn.Unflatten(0, (breaks_for, -1)))
        model.train(not breaks_for)
        model[0].train(bool(breaks_for))
        Noting.tracked.clear()
        dtype = torch.float64 if kind == "float64" else torch.float32
        inputs = [torch.ones(n, 3, dtype=dtype) + torch.arange(3.0) for n in rows]
        before = condition_of(model)
        facts = {"raised": [], "type": "", "found": None}
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "model.onnx")
            write_identity(path, kind)
            try:
                came = verify(path, model, inputs)
                facts["type"] = type(came).__name__
                if isinstance(came, list):
                    facts["found"] = [one if isinstance(one, str) else "" for one in came]
            except NotImplementedError:
                raise
            except Exception as error:
                if rows and not breaks_for:
                    raise
                facts["raised"] = [one.__name__ for one in type(error).__mro__]
        after = condition_of(model)
        facts["changed"] = [name for name, value in before.items() if after[name] != value]
        return facts | {"tracked": any(Noting.tracked), "runs": len(Noting.tracked)}

    crash = mistake(
        "An exception from the checker or the runtime ended your function. It must become an entry of the list.",
        stage="raised",
    )
    flags = "The model, or a frozen layer, is in a different mode afterwards. Restore each flag."

    def judge_model(seen):
        """Judge that the model has not changed."""
        seen.that("flags" not in seen["changed"], flags, stage="arguments")
        seen.that(not seen["changed"], "Your code changed parameters or buffers of the model.", stage="arguments")

    test("a model in training mode with a layer in eval mode: it comes out as it went in")
    seen = observe_scenario(verified, verify_onnx, "good", [2, 5])
    seen.expecting(mistake("You ran the model in training mode. Call model.eval() first.", raises="eval mode only"))
    judge_model(seen)

    test("a node whose input nobody makes")
    seen = observe_scenario(verified, verify_onnx, "no input", [2, 5]).expecting(crash)
    no_checker = "If onnx.checker refuses the file, report one entry `checker:`."
    seen.that(bool(seen["found"]) and all(one.startswith("checker:") for one in seen["found"]), no_checker)

    ### BEGIN HIDDEN TESTS
    test.hidden("a good file, no gradient is tracked")
    seen = observe_scenario(verified, verify_onnx, "good", [2, 5])
    x_only = "The input of this file is called pixels. Take the name from session.get_inputs()."
    refuses_all = mistake(x_only, when=lambda seen: bool(seen["found"]) and all("run:" in one for one in seen["found"]))
    seen.that(seen["found"] == [], "You refuse a good file.", refuses_all)
    seen.that(not seen["tracked"], "Your code tracks gradients. Run the model under no_grad.", stage="gradient")

    test.hidden("a good file in float64, with inputs in float64")
    seen = observe_scenario(verified, verify_onnx, "float64", [2, 5])
    as_it_is = "This file takes float64, and so does the model. Pass each input on in the type that it has."
    seen.that(seen["found"] == [], as_it_is)

    for idea, kind in [
        ("a file that the checker refuses and onnxruntime would run", "no name"),
        ("a file that is no model", "no model"),
    ]:
        test.hidden(idea)
        seen = observe_scenario(verified, verify_onnx, kind, [2, 5]).expecting(crash)
        refused = bool(seen["found"]) and all(one.startswith("checker:") for one in seen["found"])
        seen.that(refused and len(seen["found"]) == 1, no_checker)
        seen.that(seen["runs"] == 0, "If the checker refuses the file, don't run anything.", stage="rule")

    for idea, kind in [("no inputs", "good"), ("no inputs and a broken file", "no input")]:
        test.hidden(idea)
        seen = observe_scenario(verified, verify_onnx, kind, [])
        if kind == "good" or seen["raised"]:
            empty = "Without inputs nothing is verified, so raise ValueError."
            seen.that("ValueError" in seen["raised"], empty, stage="raised")

    test.hidden("a model in eval mode with dropout in training mode, which raises for an input: the flags are put back")
    judge_model(observe_scenario(verified, verify_onnx, "good", [4, 3], 2))
    ### END HIDDEN TESTS


# %% check="verify-export" points=1
"""Shapes, NaN, every output, a baked branch, and the tolerances."""
with check("verify-export") as test:
    test("an output of shape (1, N) instead of (N, 1), equal numbers")
    broadcast = (
        "An output of shape (1, N) where (N, 1) is expected must be a problem `shape:`, though NumPy compares the two "
        "by broadcasting. Compare shapes first."
    )
    seen = observe_scenario(problems, verify_onnx, "column", "row", [3, 1, 4])
    seen.expecting(mistake("Try all inputs, even after a problem.", when=lambda seen: len(seen["found"]) == 1))
    judge(seen, [("shape", 0), ("shape", 2)], broadcast)

    nan = "Your code missed a NaN. A comparison like (diff > tol).any() is False for NaN."
    for idea, of_model, of_file in [
        ("NaN where a number is expected", "plain", "nan"),
        ("a number where NaN is expected", "nan here", "plain"),
    ]:
        test(idea)
        seen = observe_scenario(problems, verify_onnx, of_model, of_file, [2])
        seen.expecting(mistake(nan, when=lambda seen: seen["found"] == []))
        judge(seen, [("value", 0)], "An output that differs must give one entry `value:`.")

    ### BEGIN HIDDEN TESTS
    one_input = "You compared only one input. A baked-in branch shows only with other inputs."
    test.hidden("a baked branch: right for 3 rows, wrong for 1")
    sizes = [3, 4, 5, 3, 4, 5, 3, 1]
    judge(observe_scenario(problems, verify_onnx, "branch", "plain", sizes), [("value", 7)], one_input)

    test.hidden("the second output differs")
    outputs = "You compared only the first output."
    seen = observe_scenario(problems, verify_onnx, "two", "second", [2, 5])
    seen.expecting(mistake("Try all inputs, even after a problem.", when=lambda seen: len(seen["found"]) == 1))
    judge(seen, [("value", 0), ("value", 1)], outputs)

    test.hidden("the first output has another shape, the second other values")
    seen = observe_scenario(problems, verify_onnx, "two", "turned and second", [3, 5])
    every = "Compare all outputs, even after a problem with the first."
    judge(seen, [("shape", 0), ("value", 0), ("shape", 1), ("value", 1)], every)

    test.hidden("both outputs differ")
    seen = observe_scenario(problems, verify_onnx, "two", "second", [2, 5], False, (), 1.0, 0.5)
    own = "Each output that differs gives an entry of its own."
    judge(seen, [("value", 0), ("value", 0), ("value", 1), ("value", 1)], own)

    test.hidden("two outputs, both right")
    judge(observe_scenario(problems, verify_onnx, "two", "two", [2, 5]), [], "You refuse a good file with two outputs.")

    test.hidden("one small number differs, by little, beside a large one")
    each = (
        "Each number has its own tolerance, atol + rtol * |value|, and here a small number differs by more than that."
    )
    judge(observe_scenario(problems, verify_onnx, "plain", "small", [1]), [("value", 0)], each)

    tolerances = "You don't use the tolerances rtol and atol, or change their default values."
    for idea, how, scale, shift, good in [
        ("a wider rtol", {"rtol": 0.1}, 1.05, 0.0, True),
        ("a narrower rtol", {"rtol": 1e-5}, 1.0005, 0.0, False),
        ("rtol by default: a difference of 0.05 per cent", {}, 1.0005, 0.0, True),
        ("rtol by default: a difference of 0.3 per cent", {}, 1.003, 0.0, False),
        ("a wider atol", {"atol": 0.1, "rtol": 0.0}, 1.0, 0.05, True),
        ("a narrower atol", {"atol": 1e-6, "rtol": 0.0}, 1.0, 1e-4, False),
        ("atol by default", {"rtol": 0.0}, 1.0, 3e-5, False),
        ("atol by default, a smaller difference", {"rtol": 0.0}, 1.0, 5e-6, True),
    ]:
        test.hidden(idea)
        seen = observe_scenario(problems, verify_onnx, "plain", "plain", [2], False, tuple(how.items()), scale, shift)
        judge(seen, [] if good else [("value", 0)], tolerances)

    second = (
        "`rtol` is relative to the model's value, and yours is relative to the file's. In `np.allclose` it belongs to "
        "the second argument."
    )
    for scale, good in ((0.6, True), (2.0, False)):
        test.hidden(f"an rtol of 0.5, and {scale} times the model's value in the file")
        how = (("rtol", 0.5), ("atol", 0.0))
        seen = observe_scenario(problems, verify_onnx, "plain", "plain", [2], False, how, scale)
        judge(seen, [] if good else [("value", 0)], second)
    ### END HIDDEN TESTS
