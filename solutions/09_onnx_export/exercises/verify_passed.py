# %% [markdown]
# ### Exercise 9.6 · verify=True passed. Prove the file wrong
#
# debug · solid · 12 min · 2 points
#
# Four models were exported from an example with four rows, each with `verify=True`, and each export reported ✅. But
# two of the files are wrong. Find out which, and prove it with an input on which the file is wrong.
#
# **Contract.** The dict `witnesses` has an item for each of the four files.
#
# - If a file is wrong, its item is a float32 tensor (rows, 3) with 1 to 8 rows of finite numbers, at most 100 in
#   magnitude, for which the model and the file disagree: the values differ (by more than 0.001), the shape differs, or
#   onnxruntime refuses an input that the model accepts.
# - If a file is right for all such inputs, its item is None.
# - The check runs the model and the file on your input. Each check cell gives its point for two of the four files.
#
# `center` was exported with `export(Center().eval(), (torch.randn(4, 3),), verify=True)`, the other three with
# `any_batch` as well.
#
# <details><summary>Hint 1</summary>
#
# On which inputs did `verify` run the file? What did the exporter know for certain about these inputs that need not
# hold for others?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# A branch on a size goes one way forever; a file without `dynamic_shapes` accepts one size forever. Arithmetic with a
# size becomes nodes of the graph. Export all four models, and print their nodes and the shapes of their inputs.
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# For each model, ask what depends on the number of rows. Is it a Python decision, a size that was never declared, or
# arithmetic that the file repeats at run time? Only the last is right for all sizes. And if two branches multiply by
# different numbers, for which input do they agree all the same?
#
# </details>


# %% answer="verify-passed"
class Branch(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x * 2 if x.shape[0] > 2 else x * 3


class Places(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x + torch.arange(x.shape[0]).to(x)[:, None]


class Average(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.sum(0, keepdim=True) / x.shape[0]


class Center(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x - x.mean(0)


### BEGIN SOLUTION
witnesses = {
    "branch": torch.ones(1, 3),
    "places": None,
    "average": None,
    "center": torch.ones(5, 3),
}
### END SOLUTION
### BEGIN GIVEN
# witnesses = {
#     "branch": ...,  # an input (rows, 3) that proves the file of Branch wrong, or None
#     "places": ...,
#     "average": ...,
#     "center": ...,
# }
### END GIVEN


# %% helpers="verify-passed"
class OfTheFiles(nn.Module):
    """Some of the four models as parts of one, so that one export makes their files; each part has an input."""

    def __init__(self, names):
        super().__init__()
        self.names = names

    def forward(self, *inputs):
        return tuple(getattr(self, name)(x) for name, x in zip(self.names, inputs, strict=True))

    def branch(self, x):
        return x * 2 if x.shape[0] > 2 else x * 3

    def places(self, x):
        return x + torch.arange(x.shape[0]).to(x)[:, None]

    def average(self, x):
        return x.sum(0, keepdim=True) / x.shape[0]

    def center(self, x):
        return x - x.mean(0)


def file_and_models(name):
    """The exported file of this model and of the one that the same cell asks about, ready to run, and both models; made
    once in a cell."""
    if not hasattr(OfTheFiles, "made"):
        names = next(pair for pair in (["branch", "center"], ["places", "average"]) if name in pair)
        models = OfTheFiles(names).eval()
        with warnings.catch_warnings(), redirect_stderr(io.StringIO()):
            warnings.simplefilter("ignore")
            sizes = tuple(None if one == "center" else {0: one} for one in names)
            examples = tuple(torch.ones(4, 3) for _ in names)  # one tensor given twice would be one input
            program = torch.onnx.export(models, examples, dynamic_shapes=(sizes,), verbose=False)
        file = program.model_proto.SerializeToString()
        OfTheFiles.made = ort.InferenceSession(file, providers=["CPUExecutionProvider"]), models
    return OfTheFiles.made


def disagree(name, x):
    """Whether file and model disagree on x."""
    session, models = file_and_models(name)
    place = models.names.index(name)
    inputs = [torch.ones(4, 3)] * len(models.names)
    inputs[place] = x
    with torch.no_grad():
        expected = models(*inputs)[place]
    feeds = {one.name: each.numpy() for one, each in zip(session.get_inputs(), inputs, strict=True)}
    try:
        came = torch.tensor(session.run([session.get_outputs()[place].name], feeds)[0])
    except Exception:
        return True
    return came.shape != expected.shape or not torch.allclose(came, expected, rtol=0, atol=1e-3)


def wrong_for(name):
    """The numbers of rows from 1 to 8 for which the file is wrong, on this machine."""
    return [rows for rows in range(1, 9) if disagree(name, torch.arange(rows * 3.0).reshape(rows, 3) - 4.5)]


def judge(seen, name):
    """Judge the witness for one of the files."""
    names = ["branch", "places", "average", "center"]
    seen.that(isinstance(seen.value, dict), "The witnesses must be in a dict.", stage="type")
    seen.that(set(seen.value) == set(names), "There are four items: branch, places, average and center.")
    if all(witness is ... for witness in seen.value.values()):
        observe_value(...).value  # not solved yet
    witness = seen.value[name]
    seen.that(witness is not ..., f"The item {name} is still open. Give an input, or None.", stage="type")
    wrong = wrong_for(name)
    if witness is None:
        seen.that(
            not wrong,
            f"{name}: this file is wrong. verify=True ran it once, on the example of the export, which says "
            "nothing about other sizes.",
        )
        return
    is_input = isinstance(witness, Tensor) and witness.dtype == torch.float32 and witness.dim() == 2
    is_input = is_input and 1 <= witness.shape[0] <= 8 and witness.shape[1] == 3
    asked = f"{name}: 1 to 8 rows of 3 finite float32 numbers, at most 100 in magnitude."
    seen.that(is_input and bool((witness.detach().abs() <= 100).all()), asked, stage="shape")
    right = (
        f"{name}: this file is right for your input as well, because the graph computes the size. Look at the nodes."
    )
    seen.that(bool(wrong), right)
    differ = disagree(name, witness.detach())
    seen.that(differ or len(witness) != 4, f"{name}: your input has 4 rows, the size that verify tried.")
    seen.that(
        differ,
        f"{name}: the file and the model agree on your input, so it proves nothing. What did the exporter decide "
        "from the 4 rows of the example?",
    )


# %% check="verify-passed" points=1
"""Branch and Center: is your input a proof?"""
with check("verify-passed") as test:
    for name in ("branch", "center"):
        test(f"{name}: model and file are run on your input")
        judge(observe_value(witnesses), name)

# %% check="verify-passed" points=1
"""Places and Average: is the file right for every size?"""
with check("verify-passed") as test:
    for name in ("places", "average"):
        test(f"{name}: model and file are compared for 1 to 8 rows")
        judge(observe_value(witnesses), name)
