# %% right: exports a deep copy
# Only the copy is switched to eval mode, so no flag has to be put back, not even if the export fails. While it runs,
# there is a second copy of the weights in memory.
def export_dynamic(model, example, path):
    """Write the eval form of a copy of the model to one ONNX file."""
    torch.onnx.export(
        copy.deepcopy(model).eval(),
        (example,),
        path,
        input_names=["input"],
        output_names=["output"],
        dynamic_shapes=({0: "batch"},),
        external_data=False,
        verbose=False,
    )


# %% wrong: puts back one flag for all layers
# says: The model, or one of its layers, is in a different mode than before. Restore the flag of each module.
# `model.train(was_training)` gives every layer the flag of the model. A batch norm that was frozen in eval mode is in
# train mode afterwards.
def export_dynamic(model, example, path):
    """Write the eval form of the model, then switch all of it back."""
    was_training = model.training
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
        model.train(was_training)
