# %% [markdown]
# ### Exercise 9.2 · One file, any batch, eval mode
#
# implement · warm-up · 15 min · 2 points
#
# This is the export that you will need most often: everything in one file, any number of rows, the model as it is used
# after training. The function is called in the middle of a training script, so it must leave the model as it was.
#
# **Contract**
#
# - Write *one* file at `path`, which needs no second file. If there is already a file, it is replaced.
# - The input is called `"input"`, the output `"output"`. The first dimension of both is dynamic and called `"batch"`;
#   the others are fixed as in `example`. `example` may have any number of rows, including one.
# - The graph is that of the model in eval mode: without dropout, and with batch norm using its running statistics.
# - When the function returns, or the export fails, every submodule has the same training flag as before (some may be
#   frozen in eval mode), and parameters, buffers and gradients are as before. If the export fails, its exception
#   propagates.
#
# **Rule.** Use the default exporter, without a DeprecationWarning and without the warning about training mode.
#
# In Exercise 12.12 you export a language model like this, with a second dynamic dimension.
#
# <details><summary>Hint 1</summary>
#
# In which mode is the model when its forward runs, and what restores the mode? Which argument of the new exporter
# declares a dynamic dimension?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# You must tell the exporter three things: the two names, which dimension is dynamic (`dynamic_shapes`, one entry for
# each argument of forward), and that the weights go into the same file. And you must remember one thing: the training
# flag of each submodule, not only of the model, because `model.train()` would also put the frozen submodules into train
# mode.
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# Remember the flag of each of `model.modules()` and switch to eval mode. Export inside `try`, with arguments for the
# two names, the dynamic dimension and the single file, and restore each module's flag in `finally`.
#
# </details>


# %% answer="export-dynamic-batch"
def export_dynamic(model: nn.Module, example: Tensor, path: str) -> None:
    """Write the eval form of the model to one ONNX file whose first dimension is "batch"."""
    ### BEGIN SOLUTION
    flags = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        torch.onnx.export(
            model,
            (example,),
            path,
            input_names=["input"],
            output_names=["output"],
            dynamic_shapes=({0: "batch"},),
            external_data=False,
            verbose=False,
        )
    finally:
        for module, training in flags:
            module.training = training
    ### END SOLUTION


# %% check="export-dynamic-batch" points=1
"""One file with the agreed names, a dynamic batch, and the numbers of eval mode."""
with check("export-dynamic-batch") as test:

    class Spy(nn.Module):
        """Keeps the names of the types that pass through it."""

        types = []

        def forward(self, x):
            self.types.append(type(x).__name__)
            return x

    class Short(nn.Module):
        """One layer, with a way of its own to differ in training mode, and an input that is not called "input"."""

        def __init__(self, spy):
            super().__init__()
            self.spy, self.linear = spy, nn.Linear(3, 2)

        def forward(self, x):
            h = self.linear(self.spy(x))
            return h + 1 if self.training else h

    def filled(*size):
        """Numbers between -1 and 1, no two rows alike."""
        count = torch.Size(size).numel()
        return ((torch.arange(count) * 37 % 101).float() / 50 - 1).reshape(size)

    def model_of(kind):
        """A small model with batch norm and dropout, or "short"."""
        if kind == "short":
            net = Short(Spy())
        else:
            net = nn.Sequential(Spy(), nn.Linear(8, 40), nn.BatchNorm1d(40), nn.Dropout(0.5), nn.Linear(40, 3))
        with torch.no_grad():
            for name, tensor in [*net.named_parameters(), *net.named_buffers()]:
                numbers = filled(*tensor.shape)
                tensor.copy_(numbers.abs() + 0.5 if name.endswith("var") else numbers)
        return net

    def deprecations_in(run):
        """What run() is told about dynamic_axes by DeprecationWarnings, though nobody may see them."""
        told, warn = [], warnings.warn

        def noting(message, category=None, *args, **kwargs):
            kind = type(message) if isinstance(message, Warning) else category or UserWarning
            if issubclass(kind, DeprecationWarning) and "dynamic_axes" in str(message):
                told.append(str(message))
            return warn(message, category, *args, **kwargs)

        warnings.warn = noting
        try:
            run()
        finally:
            warnings.warn = warn
        return told

    def exported(export, kind, example, *batches):
        """Export into a folder with nothing, or an older file, in it; look at the file, and run it somewhere else."""
        Spy.types.clear()
        model, x = model_of(kind), example.clone()
        facts = {"results": [], "refused": ""}
        with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as elsewhere:
            path = os.path.join(folder, "model.onnx")
            if kind == "short":
                Path(path).write_bytes(b"something older, and much longer than the new file" * 1000)
            with torch.overrides._pop_mode_temporarily(), torch.utils._python_dispatch._disable_current_modes():
                deprecated = deprecations_in(lambda: export(model, x, path))  # without the modes that record operations
            facts |= {"files": sorted(os.listdir(folder)), "types": list(Spy.types), "deprecated": deprecated}
            if facts["files"] != ["model.onnx"]:
                return facts
            alone = os.path.join(elsewhere, "alone.onnx")
            Path(alone).write_bytes(Path(path).read_bytes())
            proto = onnx.load(alone, load_external_data=False)
            facts["external"] = [one.name for one in proto.graph.initializer if one.data_location == 1]
            facts["operations"] = [node.op_type for node in proto.graph.node]
            notes = {note.key for node in proto.graph.node for note in node.metadata_props}
            facts["notes"] = sorted(key for key in notes if key.startswith("pkg.torch"))
            if not facts["external"]:
                session = ort.InferenceSession(alone)
                for side, ends in (("inputs", session.get_inputs()), ("outputs", session.get_outputs())):
                    facts[side] = [(end.name, list(end.shape)) for end in ends]
                for batch in batches:
                    try:
                        facts["results"].append(
                            torch.tensor(session.run(None, {facts["inputs"][0][0]: batch.numpy()})[0])
                        )
                    except Exception as error:
                        facts["refused"] = str(error)
                        break
        return facts

    def judge(seen, inputs, outputs, batches):
        """Judge the file, its names and sizes, and the numbers."""
        seen.expecting(
            mistake(
                "dynamic_shapes must be a tuple with one dict for each argument of forward, whatever their names are.",
                raises="UserError|Constraints",
            ),
            mistake(
                "You declared a dimension dynamic that the layers of the model fix. Declare only dimension 0.",
                raises="inferred a static shape",
            ),
        )
        seen.that("model.onnx" in seen["files"], "There is no file at the given path.", stage="value")
        one_file = "The weights went into a second file. Use external_data=False."
        seen.that(seen["files"] == ["model.onnx"] and not seen["external"], one_file)
        seen.that(
            "FakeTensor" in seen["types"] and seen["notes"],  # it writes into each node where it comes from
            "This file is not from the default exporter, which runs the model with FakeTensors. dynamo=False "
            "uses the old exporter.",
            stage="rule",
        )
        warned = [kind for kind, message in seen.noted.warned if "LeafSpec" not in message]
        about_mode = any("in training mode" in message for _, message in seen.noted.warned)
        train = "You exported the training branch of the model. Export in eval mode."
        seen.that("Dropout" not in seen["operations"] and not about_mode, train)
        seen.that(
            "DeprecationWarning" not in warned and not seen["deprecated"],
            "The export gives a DeprecationWarning. Declare the dimension with dynamic_shapes, not dynamic_axes.",
            stage="rule",
        )
        came_in, came_out = seen["inputs"], seen["outputs"]
        fixed = (
            "The session accepts only the example's batch size. Declare dimension 0, and no other, in "
            'dynamic_shapes, with the name "batch".'
        )
        seen.that(not came_in or not isinstance(came_in[0][1][0], int), fixed, stage="shape")
        others = "Only the first dimension may be dynamic. The others must be fixed as in the example."
        seen.that(not came_in or came_in[0][1][1:] == inputs[0][1][1:], others, stage="shape")
        named = "The input must be called input, the output output, and the dimension batch."
        seen.that(came_in == inputs and came_out == outputs, named)
        seen.that(not seen["refused"], fixed, stage="shape")
        for came, batch in zip(seen["results"], batches, strict=True):
            truth = model_of(kind).eval()(batch).detach()
            same = came.shape == truth.shape and torch.allclose(came, truth, rtol=1e-4, atol=1e-5)
            seen.that(same, f"For {len(batch)} rows, onnxruntime does not return the numbers of eval mode.")

    test("batch norm and dropout, in training mode: one file for any batch, in eval form")
    kind, batches = "norm", [filled(1, 8), filled(2, 8), filled(7, 8)]
    seen = observe_scenario(exported, export_dynamic, kind, filled(4, 8), *batches)
    judge(seen, [("input", ["batch", 8])], [("output", ["batch", 3])], batches)

    ### BEGIN HIDDEN TESTS
    test.hidden("another model, an example with one row and three dimensions; an older file is replaced")
    kind, batches = "short", [filled(1, 5, 3), filled(3, 5, 3)]
    seen = observe_scenario(exported, export_dynamic, kind, filled(1, 5, 3), *batches)
    judge(seen, [("input", ["batch", 5, 3])], [("output", ["batch", 5, 2])], batches)
    ### END HIDDEN TESTS

# %% check="export-dynamic-batch" points=1
"""The export leaves the model as it was, even if the export fails."""
with check("export-dynamic-batch") as test:

    class Breaks(nn.Module):
        """A layer that can't run."""

        def forward(self, x):
            raise ArithmeticError("this layer is broken")

    def condition_of(model):
        """What must stay as it is."""
        return {
            "flags": [module.training for module in model.modules()],
            "tensors": [t.tolist() for t in (*model.parameters(), *model.buffers())],
            "gradients": [p.grad.tolist() for p in model.parameters()],
            "requires_grad": [p.requires_grad for p in model.parameters()],
        }

    def before_and_after(export, *layers, training, other):
        """Export a model of which one layer is in the other mode; what of it has changed, and what was raised."""
        model = nn.Sequential(*layers).train(training)
        model[other].train(not training)
        for parameter in model.parameters():
            parameter.grad = torch.ones_like(parameter)
        before, raised, own, ready = condition_of(model), "", False, False
        with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                with torch.overrides._pop_mode_temporarily(), torch.utils._python_dispatch._disable_current_modes():
                    export(model, torch.ones(4, 3), os.path.join(folder, "model.onnx"))
            except NotImplementedError:
                raise
            except Exception as error:
                raised = type(error).__name__
                own = isinstance(error, (torch.onnx.OnnxExporterError, ArithmeticError))
            if not raised and os.listdir(folder):
                graph = onnx.load(os.path.join(folder, "model.onnx"), load_external_data=False).graph
                any_batch = graph.input[0].type.tensor_type.shape.dim[0].dim_param
                ready = bool(any_batch) and "Dropout" not in [node.op_type for node in graph.node]
        after = condition_of(model)
        return {
            "raised": raised,
            "own": own,
            "ready": ready,
            "changed": [name for name, value in before.items() if after[name] != value],
        }

    def frozen_norm(export):
        """A model in training mode whose batch norm is in eval mode."""
        layers = nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Dropout(0.5)
        return before_and_after(export, *layers, training=True, other=1)

    def breaks(export):
        """A model in eval mode, with dropout in training mode, whose export fails."""
        return before_and_after(export, nn.Linear(3, 4), nn.Dropout(0.5), Breaks(), training=False, other=1)

    def judge(seen):
        """Judge that nothing has changed."""
        flags = "The model, or one of its layers, is in a different mode than before. Restore the flag of each module."
        seen.that("flags" not in seen["changed"], flags, stage="arguments")
        others = ", ".join(seen["changed"])
        seen.that(not others, f"Something else of the model has changed: {others}.", stage="arguments")

    test("a model in training mode with a frozen batch norm: every layer is in the mode it was in before")
    seen = observe_scenario(frozen_norm, export_dynamic)
    seen.that(not seen["raised"], f"The export raised {seen['raised']}.", stage="raised")
    judge(seen)
    unready = (
        "The model is as before, but the file is not the model in eval mode for any batch. Pass the first check cell "
        "first."
    )
    seen.that(seen["ready"], unready)

    ### BEGIN HIDDEN TESTS
    test.hidden("a model in eval mode with dropout in training mode, whose export fails")
    seen = observe_scenario(breaks, export_dynamic)
    judge(seen)
    seen.that(seen["raised"], "If the export fails, its exception must reach the caller.", stage="raised")
    instead = f"If the export fails, its own exception must reach the caller, not a new {seen['raised']} in its place."
    seen.that(seen["own"], instead, stage="raised")
    ### END HIDDEN TESTS
