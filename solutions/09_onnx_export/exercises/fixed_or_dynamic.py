# %% [markdown]
# ### Exercise 9.5 · What did the exporter record?
#
# predict · warm-up · 12 min · 1 point
#
# Here are five exports. What is in the files, and what does onnxruntime return? Write your answers down before you
# export anything. Sections 9.2 to 9.7 have everything you need.
#
#     batch = dict(dynamic_shapes=({0: "batch"},))
#
#     A  nn.Linear(100, 100), exported with torch.ones(2, 100) to a file in an empty folder
#     B  the same layer and input, exported with **batch and external_data=False to a file in another empty folder
#     C  def forward(self, x):                        # exported with torch.ones(4, 3) and **batch
#            factor = 2
#            while factor + x.shape[0] < 4:
#                factor += 1
#            return x * factor
#     D  def forward(self, x):                        # exported with torch.ones(4, 3) and **batch
#            return x if x.isfinite().all() else torch.zeros_like(x)
#     E  def forward(self, x):                        # exported with torch.ones(4, 6) and **batch
#            return x[: x.shape[0] // 2].repeat(1, 2)
#
# **Contract.** The dict `exported` has these twelve items; shapes are lists, lengths are numbers, names and words
# strings.
#
# - `"A shape"`, `"B shape"`: the shape of the input, as `session.get_inputs()[0].shape` shows it.
# - `"A batch 5"`, `"B batch 5"`: `"ok"` or `"error"` if the session gets 5 rows.
# - `"A files"`, `"B files"`: how many files are in the folder afterwards.
# - `"C torch"`, `"C onnx"`: the first number of the result for `torch.ones(1, 3)`, in PyTorch and in onnxruntime.
# - `"C checker"`: `"ok"` or `"error"`, the verdict of `onnx.checker.check_model` on C's file.
# - `"C type"`: the name of the type of `x` in C's forward during the export.
# - `"D export"`: `"ok"` or `"error"`.
# - `"E shape"`: the shape of onnxruntime's result for `torch.ones(8, 6)`.
#
# <details><summary>Hint 1</summary>
#
# Does the exporter run your numbers, or stand-ins for them? And can a graph without `If` and `Loop` decide anything?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# Sizes are fixed unless you declare them. A Python decision about a *shape*, in an `if` or in a `while`, is made once,
# during export, without a message; arithmetic with a size is recorded. A decision about *values* can't be made, so the
# exporter refuses it. `check_model` checks only the structure. Weights above a small size go into a second file.
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# A declares nothing, and its 100 × 100 weights have 40 kB; B keeps everything in one file. The example of C has 4 rows.
# How often does its loop run then, and how often does it run in PyTorch for 1 row? The `x` in C's forward has a shape
# but no numbers, and the name of its type says so. In E, is `x.shape[0] // 2` a decision or arithmetic?
#
# </details>

# %% answer="fixed-or-dynamic"
### BEGIN SOLUTION
exported = {
    "A shape": [2, 100],
    "A batch 5": "error",
    "A files": 2,
    "B shape": ["batch", 100],
    "B batch 5": "ok",
    "B files": 1,
    "C torch": 3.0,
    "C onnx": 2.0,
    "C checker": "ok",
    "C type": "FakeTensor",
    "D export": "error",
    "E shape": [4, 12],
}
### END SOLUTION
### BEGIN GIVEN
# exported = {
#     "A shape": ...,  # such as [1, 2]
#     "A batch 5": ...,  # "ok" or "error"
#     "A files": ...,  # a number
#     "B shape": ...,
#     "B batch 5": ...,  # "ok" or "error"
#     "B files": ...,  # a number
#     "C torch": ...,  # a number
#     "C onnx": ...,  # a number
#     "C checker": ...,  # "ok" or "error"
#     "C type": ...,  # such as "ndarray"
#     "D export": ...,  # "ok" or "error"
#     "E shape": ...,
# }
### END GIVEN

# %% check="fixed-or-dynamic" points=1
"""Each item is compared with what the exporter and onnxruntime do now."""
with check("fixed-or-dynamic") as test:

    class OnShape(nn.Module):
        """C: a loop whose condition is about a shape; it notes the type of x."""

        def forward(self, x):
            seen_types.append(type(x).__name__)
            factor = 2
            while factor + x.shape[0] < 4:
                factor += 1
            return x * factor

    class OnValues(nn.Module):
        """D: a decision about values."""

        def forward(self, x):
            return x if x.isfinite().all() else torch.zeros_like(x)

    class Half(nn.Module):
        """E: the first half of the rows, each twice as long."""

        def forward(self, x):
            return x[: x.shape[0] // 2].repeat(1, 2)

    class All(nn.Module):
        """A, B, C and E in one file, each with its own input and output, because every export takes time."""

        def __init__(self):
            super().__init__()
            self.linear, self.c, self.e = nn.Linear(100, 100), OnShape(), Half()

        def forward(self, x_of_a, x_of_b, x_of_c, x_of_e):
            return self.linear(x_of_a), self.linear(x_of_b), self.c(x_of_c), self.e(x_of_e)

    sizes = {"a": (2, 100), "b": (2, 100), "c": (4, 3), "e": (4, 6)}

    def run(**others):
        """The results for ones of these sizes, by the names of the parts."""
        every = zip(session.get_inputs(), (sizes | others).values(), strict=True)
        results = session.run(None, {one.name: np.ones(size, np.float32) for one, size in every})
        return dict(zip(sizes, results, strict=True))

    def outcome(action):
        """ "ok", or "error" where the action raises."""
        try:
            action()
        except Exception:
            return "error"
        return "ok"

    def simple(value):
        """Words in small letters, a type by its last name."""
        return value.strip(" \n'<>").split(".")[-1].lower() if isinstance(value, str) else value

    def simply(answers):
        """The answers with simple words."""
        if not isinstance(answers, dict):
            return answers
        return {
            name: [simple(one) for one in value] if isinstance(value, (list, tuple)) else simple(value)
            for name, value in answers.items()
        }

    test("every item is compared with a live export")
    seen_types = []
    with warnings.catch_warnings(), redirect_stderr(io.StringIO()):
        warnings.simplefilter("ignore")
        examples = tuple(torch.ones(size) for size in sizes.values())
        batches = (None, {0: "batch"}, {0: "rows"}, {0: "other"})
        with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as another:
            path = os.path.join(folder, "model.onnx")
            program = torch.onnx.export(All().eval(), examples, path, dynamic_shapes=batches, verbose=False)
            program.save(os.path.join(another, "model.onnx"), external_data=False)
            session = ort.InferenceSession(path)
            a_files, b_files = len(os.listdir(folder)), len(os.listdir(another))
        # torch.export is the first step of the exporter, and where it fails
        how = {"dynamic_shapes": ({0: torch.export.Dim.AUTO},)}
        of_d = outcome(lambda: torch.export.export(OnValues(), (torch.ones(4, 3),), **how))
    a_shape, b_shape = (list(one.shape) for one in session.get_inputs()[:2])

    fixed = "Every input dimension that is not declared dynamic is fixed to the example's size, so A refuses 5 rows."
    named = 'The declared dimension is shown as its name, and the other is fixed: ["batch", 100].'
    dynamic = "B declares the dimension dynamic, so any number of rows works."
    baked = (
        "The condition of the loop was decided during the export, with 4 rows: the loop didn't run, so only `x * 2` is "
        "in the graph. For 1 row onnxruntime returns 2.0 and PyTorch 3.0, without any message."
    )
    structure = "check_model looks at the structure, not at the numbers, so a wrong export passes."
    refused = (
        "An `if` about values can't be decided for all inputs, so torch.export refuses it "
        "(GuardOnDataDependentSymNode)."
    )
    half = (
        "x.shape[0] // 2 is arithmetic, which the exporter records with a symbol: of 8 rows the file takes the first "
        "4, and repeat(1, 2) makes 12 columns of 6."
    )
    fake = "The default exporter runs the model with FakeTensors, which have shapes and dtypes but no data."
    files = "The export writes weights into a second file, <name>.onnx.data, unless external_data=False."
    items = {
        "A shape": prediction(a_shape, because=fixed),
        "A batch 5": prediction(outcome(lambda: run(a=(5, 100))), because=fixed),
        "A files": prediction(a_files, because=files),
        "B shape": prediction(b_shape, because=named),
        "B batch 5": prediction(outcome(lambda: run(b=(5, 100))), because=dynamic),
        "B files": prediction(b_files, because=files),
        "C torch": prediction(float(OnShape()(torch.ones(1, 3))[0, 0]), because=baked),
        "C onnx": prediction(float(run(c=(1, 3))["c"][0, 0]), because=baked),
        "C checker": prediction(outcome(lambda: onnx.checker.check_model(program.model_proto)), because=structure),
        "C type": prediction(simple(seen_types[0]), because=fake),
        "D export": prediction(of_d, because=refused),
        "E shape": prediction(list(run(e=(8, 6))["e"].shape), because=half),
    }
    test.points = observe_value(simply(observe_value(exported).value)).predicts(items, points=1)
test.points
