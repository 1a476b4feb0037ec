# %% [markdown]
# ### Exercise 12.12 · Out of Python: any batch, any length
#
# implement · solid · 15 min · 1 point
#
# Write the model to a file that runs where PyTorch isn't installed. Generating text starts with a short prompt and ends
# with the longest context, so the file must accept every length. This exercise builds on chapter 9.
#
# **Contract**
#
# - `export_lm` writes `model` to one ONNX file at `path`, with its weights inside and no second file next to it. It
#   returns nothing.
# - The file has one input, `ids`, (batch, time) int64, and one output, `logits`, (batch, time, vocab). The ids
#   go from 0 to 255.
# - In onnxruntime the file returns, to within 1e-4, what the model returns in eval mode, for every batch from 1 and
#   every time from 1 to `model.length`, the longest context that the model takes (at least 8).
# - The model, or parts of it, may be in training mode. Afterwards each submodule has the same training flag as before.
#
# <details><summary>Hint 1</summary>
#
# The exporter runs the model once, on an example. Which sizes of the example end up as constants in the file, and in
# which mode is the model while it runs?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# `dynamic_shapes` names the dimensions that may change, here both dimensions of the input. Remember the flag of each of
# `model.modules()` before you call `model.eval()`.
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# Export an example with both dimensions larger than 1 and name both as dynamic. Further arguments of
# `torch.onnx.export` name the input and output and keep the weights inside the file. Export in eval mode inside `try`,
# and restore the flags in `finally`, module by module.
#
# </details>


# %% answer="export-lm"
def export_lm(model: nn.Module, path: str) -> None:
    """Write the eval form of a language model to one ONNX file.

    ids (batch, time) -> logits (batch, time, vocab). Batch and time are free; time goes from 1 to
    model.length.
    """
    ### BEGIN SOLUTION
    flags = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        torch.onnx.export(
            model,
            (torch.zeros(2, 5, dtype=torch.int64),),
            path,
            input_names=["ids"],
            output_names=["logits"],
            dynamic_shapes=({0: "batch", 1: "time"},),
            external_data=False,
            verbose=False,
        )
    finally:
        for module, training in flags:
            module.training = training
    ### END SOLUTION


# %% check="export-lm" points=1
"""One file, any batch, any length, the logits of eval mode; the training flags don't change."""
with check("export-lm") as test:

    def new_model(modes):
        """A small causal model with dropout, which notes in `modes` how it is run; its norm alone is in eval mode."""

        class Reader(nn.Module):
            """Reads bytes, up to eleven of them."""

            def __init__(self):
                super().__init__()
                self.length = 11
                self.emb, self.places = nn.Embedding(256, 4), nn.Embedding(11, 4)
                self.drop, self.norm, self.head = nn.Dropout(0.5), nn.LayerNorm(4), nn.Linear(4, 256)
                self.register_buffer("mask", torch.ones(11, 11).tril() == 0)

            def forward(self, ids):
                modes.append(self.training)
                time = ids.shape[1]
                x = self.drop(self.emb(ids) + self.places.weight[:time])
                x = x.flip(-1) if self.training else x
                scores = (x @ x.transpose(1, 2)).masked_fill(self.mask[:time, :time], -torch.inf)
                return self.head(self.norm(scores.softmax(-1) @ x))

        model = Reader()
        with torch.no_grad():
            for k, parameter in enumerate(model.parameters()):
                numbers = torch.arange(parameter.numel()) * (37 + k) % 101
                parameter.copy_((numbers / 50 - 1).reshape(parameter.shape))
        model.norm.eval()
        return model

    def some_ids(batch, time):
        """Bytes, no two rows alike."""
        return (torch.arange(batch * time) * 89 % 251).reshape(batch, time)

    def exported(export, *sizes):
        """Export a model, then run the file in onnxruntime on ids of several sizes (batch, time)."""
        modes, facts = [], {}
        model = new_model(modes)
        flags = {name: module.training for name, module in model.named_modules()}
        with TemporaryDirectory() as folder, TemporaryDirectory() as elsewhere:
            path, alone = os.path.join(folder, "lm.onnx"), os.path.join(elsewhere, "alone.onnx")
            with torch.overrides._pop_mode_temporarily(), torch.utils._python_dispatch._disable_current_modes():
                facts["gave"] = export(model, path) is not None  # without the modes that record operations
            facts["flags"] = {name: module.training for name, module in model.named_modules()} == flags
            facts |= {"files": sorted(os.listdir(folder)), "trained": any(modes), "runs": [], "opens": True}
            if facts["files"] != ["lm.onnx"]:
                return facts
            os.replace(path, alone)
            options = ort.SessionOptions()
            options.intra_op_num_threads = 1
            try:
                session = ort.InferenceSession(alone, options, providers=["CPUExecutionProvider"])
            except Exception as error:
                return facts | {"opens": False, "refused": str(error)}
            for side, ends in (("inputs", session.get_inputs()), ("outputs", session.get_outputs())):
                facts[side] = [(end.name, [*end.shape], end.type) for end in ends]
            for batch, time in sizes:
                try:
                    feeds = {facts["inputs"][0][0]: some_ids(batch, time).numpy()}
                    facts["runs"].append(torch.tensor(session.run(None, feeds)[0]))
                except Exception:
                    facts["runs"].append(None)
        return facts

    test("two texts of five bytes and of nine; one text, seven texts; one byte, and the longest context")
    sizes = [(2, 5), (2, 9), (1, 7), (7, 3), (1, 1), (3, 1), (1, 11), (4, 11), (2, 2)]
    seen = observe_scenario(exported, export_lm, *sizes)
    unreadable = "The model can't read this example. Use integers from 0 to 255, (batch, time)."
    seen.expecting(
        mistake(
            "The exporter found that this model doesn't work for all sizes that your Dim objects allow. Name the "
            "dimensions with strings, or use Dim.DYNAMIC, because both accept the limits that the exporter finds.",
            raises="Constraints violated",
        ),
        mistake(
            "The exporter refused these dynamic_shapes. Pass a tuple with one dict, {0: …, 1: …}, for the argument.",
            raises="UserError",
        ),
        mistake(unreadable, raises="scalar type|out of range|IndexError"),
    )
    seen.that("lm.onnx" in seen["files"], "There is no file at the given path.")
    one_file = "The weights went into a second file. Use external_data=False."
    seen.that(seen["files"] == ["lm.onnx"], one_file)
    floats = mistake(unreadable, when=lambda seen: "'tensor(float)' of input parameter" in seen["refused"])
    seen.that(seen["opens"], "There is a file, but onnxruntime can't open it.", floats)
    names = [[end[0] for end in seen[side]] for side in ("inputs", "outputs")]
    seen.that(names == [["ids"], ["logits"]], "The input must be called ids and the output logits.")
    (_, declared, kind), *_ = seen["inputs"]
    seen.that(kind == "tensor(int64)" and len(declared) == 2, "The input must be int64, (batch, time).", stage="dtype")
    for (batch, time), came in zip(sizes, seen["runs"], strict=True):
        seen.that(
            came is not None,
            f"onnxruntime can't run the file on {batch} × {time} ids.",
            mistake(
                "The file accepts only one length. Declare time dynamic.",
                when=lambda seen, declared=declared: isinstance(declared[1], int),
            ),
            mistake(
                "The file accepts only one batch size. Declare batch dynamic.",
                when=lambda seen, declared=declared: isinstance(declared[0], int),
            ),
            mistake(
                "The file accepts only 1 × 1 ids, because a size of 1 in the example stays 1 in the graph.",
                when=lambda seen: [run is not None for run in seen["runs"]] == [size == (1, 1) for size in sizes],
            ),
            stage="shape",
        )
        with torch.no_grad():
            truth = new_model([]).eval()(some_ids(batch, time))
        seen.that(
            came.shape == truth.shape and torch.allclose(came, truth, rtol=0, atol=1e-4),
            f"For {batch} × {time} ids the file does not return the logits of eval mode.",
            mistake(
                "You exported the model in training mode. Call eval() first.",
                when=lambda seen: seen["trained"],
            ),
        )
    seen.that(
        seen["flags"], "The model's training flags have changed. Restore the flag of each module.", stage="arguments"
    )
    nothing = "Return nothing. torch.onnx.export returns an ONNXProgram; don't pass it on."
    seen.that(not seen["gave"], nothing, stage="type")
