# %% [markdown]
# ### Exercise 9.1 · Four errors on the way into onnxruntime
#
# debug · warm-up · 12 min · 2 points
#
# Here are four first attempts to run a file whose inputs are called `x` and `idx`, and their errors:
#
#     session.run(None, {"input": x.numpy()})              # ValueError: Required inputs (['x', 'idx']) are missing from
#                                                          # input feed (['input']).
#     session.run(None, {"x": x.double().numpy(), ...})    # InvalidArgument: Unexpected input data type.
#                                                          # Actual: (tensor(double)) , expected: (tensor(float))
#     session.run(None, {"x": x, ...})                     # RuntimeError: Input must be a list of dictionaries or a
#                                                          # single numpy array for input 'x'.
#     session.run(None, {"x": w.numpy(), ...})             # RuntimeError: Can't call numpy() on Tensor that requires
#                                                          # grad.
#
# Write a function that runs any session on tensors.
#
# **Contract**
#
# - The tensors come in the order of the session's inputs, whatever these are called. Return all outputs, in order, as a
#   list of tensors. Writing into an output changes nothing else: no other output, no input, no result of another call.
# - Tensors may require grad, and may be non-contiguous. Each has at least one dimension.
# - Cast a floating-point tensor to the floating-point type that the session expects there: float16, float32 or float64.
#   The tensor may also be bfloat16.
# - If the session expects a floating-point tensor and gets an integer (or bool) tensor, or the reverse, raise a
#   `TypeError` that names the input. Integers always have the width that the session expects, so pass an integer tensor
#   on as it is.
# - If the number of inputs is wrong, raise a `ValueError` that names the expected inputs.
# - The arguments are not changed.
#
# <details><summary>Hint 1</summary>
#
# Who knows the names and types of the inputs: you or the session?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# `session.get_inputs()` lists what is expected, in order; each entry has a `name` and a `type`. First compare the
# number of inputs. Then check for each pair whether both are floating-point, or neither. What must happen to a tensor
# before `.numpy()`? And cast in torch, because NumPy has no bfloat16.
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# Go through the expected inputs and the given tensors in pairs. An expected type is a string such as `'tensor(float)'`;
# a small dict from the three floating-point strings to torch dtypes tells you both whether the session expects floating
# point and what to cast to. Detach and cast before you convert to NumPy, and make tensors of the outputs at the end.
#
# </details>


# %% answer="run-session"
def run_onnx(session: ort.InferenceSession, *inputs: Tensor) -> list[Tensor]:
    """All outputs of a session for these inputs, in the order of session.get_inputs()."""
    ### BEGIN SOLUTION
    floats = {
        "tensor(float16)": torch.float16,
        "tensor(float)": torch.float32,
        "tensor(double)": torch.float64,
    }
    expected = session.get_inputs()
    if len(inputs) != len(expected):
        raise ValueError(f"expected {[one.name for one in expected]}, got {len(inputs)} tensors")
    feed = {}
    for one, tensor in zip(expected, inputs, strict=True):
        if tensor.is_floating_point() != (one.type in floats):
            raise TypeError(f"input {one.name!r} is a {one.type}, got {tensor.dtype}")
        feed[one.name] = tensor.detach().to(floats.get(one.type, tensor.dtype)).cpu().numpy()
    return [torch.from_numpy(array) for array in session.run(None, feed)]
    ### END SOLUTION


# %% check="run-session" points=1
"""Inputs by the session's own names, all outputs as tensors with their own memory."""
with check("run-session") as test:

    def file_of(name):
        """The bytes of a small model: nodes, inputs and outputs as (name, type, shape)."""
        real, whole, rows = onnx.TensorProto.FLOAT, onnx.TensorProto.INT64, ["rows", 3]
        nodes, inputs, outputs = {
            "twice and picked": (
                [("Add", ["x", "x"], ["twice"]), ("Gather", ["x", "idx"], ["picked"])],
                [("x", real, rows), ("idx", whole, ["n"])],
                [("twice", real, rows), ("picked", real, ["n", 3])],
            ),
            "negated": ([("Neg", ["pixels"], ["y"])], [("pixels", real, rows)], [("y", real, rows)]),
            "three": (
                [("Sub", ["z", "a"], ["d"]), ("Div", ["d", "m"], ["q"]), ("Shape", ["q"], ["n"])],
                [("z", real, rows), ("a", real, rows), ("m", real, rows)],
                [("q", real, rows), ("n", whole, [2]), ("d", real, rows)],
            ),
            "z - a": ([("Sub", ["z", "a"], ["d"])], [("z", real, rows), ("a", real, rows)], [("d", real, rows)]),
            "a - z": ([("Sub", ["a", "z"], ["d"])], [("a", real, rows), ("z", real, rows)], [("d", real, rows)]),
            "total": (
                [("ReduceSum", ["x"], ["kept"]), ("Squeeze", ["kept"], ["total"])],
                [("x", real, [4, 3])],
                [("total", real, [])],
            ),
            "copies": (
                [("Identity", ["x"], ["one"]), ("Identity", ["x"], ["two"])],
                [("x", real, rows)],
                [("one", real, rows), ("two", real, rows)],
            ),
        }[name]
        infos = [[onnx.helper.make_tensor_value_info(*one) for one in side] for side in (inputs, outputs)]
        graph = onnx.helper.make_graph([onnx.helper.make_node(*node) for node in nodes], "model", *infos)
        model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 18)], ir_version=10)
        return model.SerializeToString()

    def outputs_of(run, name, *inputs):
        """Run a session on the inputs, write into the first output, and run it again."""
        session = ort.InferenceSession(file_of(name))
        came = run(session, *inputs)
        items = came if isinstance(came, (list, tuple)) else []
        tensors = all(isinstance(one, Tensor) for one in items)
        facts = {
            "type": type(came).__name__,
            "items": [type(one).__name__ for one in items],
            "outputs": [one.detach().clone() for one in items] if tensors else None,
            "inputs": [(one.detach().clone(), one.requires_grad) for one in inputs],
        }
        if items and tensors:
            items[0].detach().fill_(-9)
            run(session, *inputs)
            facts["kept"] = bool((items[0] == -9).all())
        facts["then"] = [one.detach().clone() for one in (*items[1:], *inputs)] if tensors else None
        return facts

    a_list = "The result must be a list of tensors, one for each output of the session."
    arrays = "A session takes and returns NumPy arrays, not tensors. Convert on the way in and on the way out."
    known = [
        mistake(
            "Use the names from session.get_inputs(), because they depend on the export.",
            raises=r"missing from input feed|Invalid input name|Invalid Feed Input Name",
        ),
        mistake(arrays, raises="Input must be a list of dictionaries or a single numpy array"),
        mistake("numpy() raises an error if the tensor requires grad. Detach it first.", raises="requires grad"),
        mistake(
            "Each session has its own number of inputs, with its own names. Ask session.get_inputs().",
            raises=r"ValueError: zip\(\) argument",
        ),
        mistake(
            "An input got numbers of the wrong type. Follow the order of session.get_inputs(), and leave "
            "integers alone.",
            raises="Unexpected input data type",
        ),
    ]

    def judge(seen, expected):
        """Judge the outputs, and that they and the inputs are left alone."""
        seen.expecting(*known)
        seen.that(seen["type"] == "list", a_list, stage="type")
        seen.that("ndarray" not in seen["items"], arrays, stage="type")
        seen.that(seen["outputs"] is not None, a_list, stage="type")
        first_only = "Return all outputs, in order, as a list."
        seen.that(len(seen["outputs"]) == len(expected), first_only, stage="shape")
        for came, wanted in zip(seen["outputs"], expected, strict=True):
            same_type = came.dtype == wanted.dtype
            seen.that(
                same_type, f"You return an output as {came.dtype}, but the session gave {wanted.dtype}.", stage="dtype"
            )
            same = came.shape == wanted.shape and torch.equal(came, wanted)
            seen.that(same, "The outputs differ from those that the session returns for these inputs, in its order.")
        alone = all(torch.equal(a, b) for a, b in zip(seen["then"], [*expected[1:], *given], strict=True))
        seen.that(alone, "Writing into an output must change neither another output nor an input.", stage="aliasing")
        reused = "A second call of the same session wrote into an output of the first. Give every call its own memory."
        seen.that(seen["kept"], reused, stage="aliasing")

    test("two inputs with names of their own, two outputs")
    x, idx = torch.tensor([[1.0, 2, 3], [4, 5, 6], [7, 8, 9], [10, 11, 12]]), torch.tensor([2, 0])
    given = [x, idx]
    seen = observe_scenario(outputs_of, run_onnx, "twice and picked", x, idx)
    judge(seen, [2 * x, torch.tensor([[7.0, 8, 9], [1, 2, 3]])])

    ### BEGIN HIDDEN TESTS
    test.hidden("another session: other names, one input, one output")
    given = [x]
    judge(observe_scenario(outputs_of, run_onnx, "negated", x), [-x])

    test.hidden("three inputs of one type, the order of their names is not that of the alphabet")
    given = [8 * x, 4 * x, torch.full((4, 3), 2.0)]
    seen = observe_scenario(outputs_of, run_onnx, "three", *given)
    judge(seen, [2 * x, torch.tensor([4, 3]), 4 * x])

    def in_turn(run, x, y):
        """The differences that sessions with swapped names give; each session ends before the next begins."""
        order = [("z - a", "a - z")[k.bit_count() % 2] for k in range(16)]  # without a period, which ids may have
        came = [run(ort.InferenceSession(file_of(name)), x, y)[0] for name in order]
        return {"differences": [one.detach().clone() for one in came]}

    test.hidden("one session after another, with the same names in another order")
    seen = observe_scenario(in_turn, run_onnx, 8 * x, 4 * x)
    stale = (
        "The names of an earlier session were used for a later one. The id of a session is used again when the session "
        "is gone, so ask each session for its inputs."
    )
    seen.that(all(torch.equal(one, 4 * x) for one in seen["differences"]), stale)

    test.hidden("a batch of one")
    given = [x[:1], idx[1:]]
    judge(observe_scenario(outputs_of, run_onnx, "twice and picked", *given), [2 * x[:1], x[:1]])

    test.hidden("a number without dimensions among the outputs")
    given = [x]
    judge(observe_scenario(outputs_of, run_onnx, "total", x), [torch.tensor(78.0)])

    test.hidden("outputs that are equal to the input and to each other")
    given = [x]
    judge(observe_scenario(outputs_of, run_onnx, "copies", x), [x, x])
    ### END HIDDEN TESTS

# %% check="run-session" points=1
"""Tensors of every kind are converted; a wrong kind raises an error with the input's name."""
with check("run-session") as test:

    def file_of(kind):
        """The bytes of a model that picks rows of `pixels`, numbers of some kind, by `idx`; "mixed" multiplies."""
        types = {"float16": onnx.TensorProto.FLOAT16, "float64": onnx.TensorProto.DOUBLE}
        types |= {
            "int32": onnx.TensorProto.INT32,
            "float32": onnx.TensorProto.FLOAT,
            "int64": onnx.TensorProto.INT64,
            "mixed": onnx.TensorProto.FLOAT,
        }
        sides = [
            [("pixels", types[kind], ["rows", 3]), ("idx", types["int64"], ["n"])],
            [("picked", types[kind], ["n", 3])],
        ]
        nodes = [onnx.helper.make_node("Gather", ["pixels", "idx"], ["picked"])]
        if kind == "mixed":
            sides[0][1] = ("factor", types["float64"], [1])
            cast = onnx.helper.make_node("Cast", ["factor"], ["f"], to=types["float32"])
            nodes = [cast, onnx.helper.make_node("Mul", ["pixels", "f"], ["picked"])]
        infos = [[onnx.helper.make_tensor_value_info(*one) for one in side] for side in sides]
        graph = onnx.helper.make_graph(nodes, "model", *infos)
        model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 18)], ir_version=10)
        return model.SerializeToString()

    def condition_of(tensor):
        """What must stay as it is."""
        return [tensor.dtype, list(tensor.shape), list(tensor.stride()), tensor.requires_grad, tensor.tolist()]

    def converted(run, expects, *inputs):
        """The first output of a session that expects numbers of some kind, and whether the inputs have changed."""
        before = [condition_of(one) for one in inputs]
        came = run(ort.InferenceSession(file_of(expects)), *inputs)
        first = came[0] if isinstance(came, (list, tuple)) and came else None
        first = torch.from_numpy(first) if isinstance(first, np.ndarray) else first
        return {
            "first": first.detach() if isinstance(first, Tensor) else None,
            "changed": [condition_of(one) for one in inputs] != before,
        }

    by_name = "Use the names from session.get_inputs(), because they depend on the export."
    cast = (
        "Each input has its own type. Cast floating-point tensors to the floating-point type that the session "
        "expects there, and leave integers alone."
    )
    known = [
        mistake(by_name, raises=r"missing from input feed|Invalid input name|Invalid Feed Input Name"),
        mistake(
            "A session takes NumPy arrays, not tensors. Convert on the way in.",
            raises="Input must be a list of dictionaries or a single numpy array",
        ),
        mistake("numpy() raises an error if the tensor requires grad. Detach it first.", raises="requires grad"),
        mistake(cast, raises="Unexpected input data type|unsupported ScalarType|INT64|int64"),
    ]

    def judge(seen, expected):
        """Judge the first output, and that the inputs are as before."""
        seen.expecting(*known)
        seen.that(seen["first"] is not None, "The result must be a list of tensors, one for each output.", stage="type")
        other = f"You return an output as {seen['first'].dtype}, but the session gave {expected.dtype}."
        seen.that(seen["first"].dtype == expected.dtype, other, stage="dtype")
        same = seen["first"].shape == expected.shape and torch.equal(seen["first"], expected)
        seen.that(same, "The output differs from what the session returns for these inputs.")
        seen.that(not seen["changed"], "Your code changed one of the given tensors.", stage="arguments")

    x, idx = torch.tensor([[0.5, 2, 3], [4, 5, 6], [7, 8, 9]]), torch.tensor([2, 0])
    rows = torch.tensor([[7.0, 8, 9], [0.5, 2, 3]])

    test("a tensor that requires grad")
    judge(observe_scenario(converted, run_onnx, "float32", x.clone().requires_grad_(), idx), rows)

    test("float64 where float32 is expected")
    judge(observe_scenario(converted, run_onnx, "float32", x.double(), idx), rows)

    test("float32 where float64 is expected")
    judge(observe_scenario(converted, run_onnx, "float64", x, idx), rows.double())

    ### BEGIN HIDDEN TESTS
    for idea, kind, tensor in [
        ("a tensor that is not contiguous", "float32", x.t().contiguous().t()),
        ("bfloat16, which NumPy does not know", "float32", x.bfloat16()),
        ("bfloat16 that requires grad, where float64 is expected", "float64", x.bfloat16().requires_grad_()),
        ("float16 where float32 is expected", "float32", x.half()),
        ("float32 where float16 is expected", "float16", x),
        ("float64 where float64 is expected: nothing to cast", "float64", x.double()),
        ("integers where integers are expected", "int64", (2 * x).long()),
    ]:
        test.hidden(idea)
        expected = (2 * rows).long() if kind == "int64" else rows.to(getattr(torch, kind))
        judge(observe_scenario(converted, run_onnx, kind, tensor, idx), expected)

    test.hidden("two inputs of different floating types")
    judge(observe_scenario(converted, run_onnx, "mixed", x.double(), torch.tensor([3.0])), 3 * x)

    test.hidden("float64 keeps all its digits")
    fine = x.double() + 1e-12
    judge(observe_scenario(converted, run_onnx, "float64", fine, idx), fine[[2, 0]])

    def refused(run, expects, *inputs):
        """What running these inputs raises."""
        try:
            run(ort.InferenceSession(file_of(expects)), *inputs)
        except Exception as error:
            return {"raised": [one.__name__ for one in type(error).__mro__], "message": str(error)}
        return {"raised": [], "message": ""}

    too_many = (
        "There are too many or too few inputs. Raise ValueError with the expected names (zip silently drops the rest)."
    )
    for idea, inputs in [
        ("one input is missing", (x,)),
        ("one input is too many", (x, idx, x)),
        ("no inputs at all", ()),
    ]:
        test.hidden(idea)
        seen = observe_scenario(refused, run_onnx, "float32", *inputs)
        names_told = all(name in seen["message"] for name in ("pixels", "idx"))
        no_names = mistake(
            "The ValueError must name the inputs that the session expects.",
            when=lambda seen: "ValueError" in seen["raised"],
        )
        seen.that("ValueError" in seen["raised"] and names_told, too_many, no_names, stage="raised")

    kinds = (
        "An integer tensor where the session expects a floating-point tensor (or the reverse) is the caller's "
        "mistake. Don't cast; raise TypeError with the input's name."
    )
    for idea, kind, inputs, name in [
        ("integers where a floating tensor is expected", "float32", (x.long(), idx), "pixels"),
        ("integers where float64 is expected", "float64", (x.long(), idx), "pixels"),
        ("a floating tensor where integers are expected", "float32", (x, idx.float()), "idx"),
        ("float64 where integers are expected", "int64", (x.double(), idx), "pixels"),
        ("a floating tensor where int32 is expected", "int32", (x, idx), "pixels"),
    ]:
        test.hidden(idea)
        seen = observe_scenario(refused, run_onnx, kind, *inputs)
        seen.that("TypeError" in seen["raised"] and name in seen["message"], kinds, stage="raised")
    ### END HIDDEN TESTS
