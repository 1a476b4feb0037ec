import copy
import warnings

import torch

NAMES = {"input_names": ["input"], "output_names": ["output"], "verbose": False}
HOW = NAMES | {"external_data": False, "dynamic_shapes": ({0: "batch"},)}


def in_eval(model, example, path, **how):
    """A right answer with parts to replace."""
    flags = {module: module.training for module in model.modules()}
    try:
        model.eval()
        return torch.onnx.export(model, (example,), path, **how)
    finally:
        for module, flag in flags.items():
            module.training = flag


# corners: caller's modes, members


# %% right: flags stored for each module, put back in finally
def export_dynamic(model, example, path):
    in_eval(model, example, path, **HOW)


# %% right: exports a deep copy in eval mode
def export_dynamic(model, example, path):
    torch.onnx.export(copy.deepcopy(model).eval(), example, path, **HOW)


# %% right: takes the program and saves it, a Dim object instead of a string
def export_dynamic(model, example, path):
    shapes = {"x" if False else 0: torch.export.Dim("batch")}
    program = in_eval(model, (example), None, **NAMES, dynamic_shapes=[shapes])
    program.save(path, external_data=False)


# %% right: flags put back by a context manager, an example of its own with two rows, under no_grad
class Evaluating:
    def __init__(self, model):
        self.flags = [(module, module.training) for module in model.modules()]
        self.model = model

    def __enter__(self):
        self.model.eval()

    def __exit__(self, *error):
        for module, flag in self.flags:
            module.training = flag
        return False


def export_dynamic(model, example, path):
    with Evaluating(model), torch.no_grad():
        two = torch.cat([example, example])
        torch.onnx.export(model, (two,), str(path), **HOW)


# %% wrong: no dynamic_shapes
# says: The session accepts only the example's batch size. Declare dimension 0, and no other, in dynamic_shapes,
# says: The model is as before, but the file is not the model in eval mode for any batch. Pass the first check
# earns: 0 of 2
# lesson
def export_dynamic(model, example, path):
    in_eval(model, example, path, **NAMES, external_data=False)


# %% wrong: no eval()
# says: You exported the training branch of the model. Export in eval mode.
# says: The model is as before, but the file is not the model in eval mode for any batch. Pass the first check
# earns: 0 of 2
# lesson
def export_dynamic(model, example, path):
    torch.onnx.export(model, (example,), path, **HOW)


# %% wrong: leaves the model in eval mode
# says: The model, or one of its layers, is in a different mode than before. Restore the flag of each module.
# earns: 1 of 2
# lesson
def export_dynamic(model, example, path):
    torch.onnx.export(model.eval(), (example,), path, **HOW)


# %% wrong: always ends with model.train()
# says: The model, or one of its layers, is in a different mode than before. Restore the flag of each module.
# earns: 1 of 2
def export_dynamic(model, example, path):
    model.eval()
    try:
        torch.onnx.export(model, (example,), path, **HOW)
    finally:
        model.train()


# %% wrong: remembers the flag of the whole model only
# says: The model, or one of its layers, is in a different mode than before. Restore the flag of each module.
# earns: 1 of 2
# corner: members
def export_dynamic(model, example, path):
    was = model.training
    model.eval()
    try:
        torch.onnx.export(model, (example,), path, **HOW)
    finally:
        model.train(was)


# %% wrong: external data left on
# says: The weights went into a second file. Use external_data=False.
# earns: 1 of 2
# lesson
def export_dynamic(model, example, path):
    in_eval(model, example, path, **NAMES, dynamic_shapes=({0: "batch"},))


# %% wrong: no names
# says: The input must be called input, the output output, and the dimension batch.
# earns: 1 of 2
def export_dynamic(model, example, path):
    in_eval(model, example, path, external_data=False, dynamic_shapes=({0: "batch"},), verbose=False)


# %% wrong: Dim.DYNAMIC instead of a name
# says: The input must be called input, the output output, and the dimension batch.
# earns: 1 of 2
def export_dynamic(model, example, path):
    in_eval(model, example, path, **HOW | {"dynamic_shapes": ({0: torch.export.Dim.DYNAMIC},)})


# %% wrong: all dimensions dynamic
# says: Only the first dimension may be dynamic. The others must be fixed as in the example.
# earns: 1 of 2
# caught: hidden
def export_dynamic(model, example, path):
    shapes = {0: "batch", 1: "width"} if example.dim() == 3 else {0: "batch"}
    in_eval(model, example.repeat_interleave(2, 0), path, **HOW | {"dynamic_shapes": (shapes,)})


# %% wrong: flags are not put back when the export fails
# says: The model, or one of its layers, is in a different mode than before. Restore the flag of each module.
# earns: 1 of 2
# caught: hidden
# corner: caller's modes
def export_dynamic(model, example, path):
    flags = [(module, module.training) for module in model.modules()]
    model.eval()
    torch.onnx.export(model, (example,), path, **HOW)
    for module, flag in flags:
        module.training = flag


# %% wrong: swallows the exception of a failing export
# says: If the export fails, its exception must reach the caller.
# earns: 1 of 2
# caught: hidden
def export_dynamic(model, example, path):
    try:
        in_eval(model, example, path, **HOW)
    except Exception:
        print("export failed")


# %% wrong: dynamic_axes
# says: The export gives a DeprecationWarning. Declare the dimension with dynamic_shapes, not dynamic_axes.
# earns: 1 of 2
def export_dynamic(model, example, path):
    axes = {"input": {0: "batch"}, "output": {0: "batch"}}
    in_eval(model, example, path, **NAMES, external_data=False, dynamic_axes=axes)


# %% wrong: the old exporter, its warnings silenced
# says: This file is not from the default exporter, which runs the model with FakeTensors. dynamo=False uses the
# earns: 1 of 2
def export_dynamic(model, example, path):
    axes = {"input": {0: "batch"}, "output": {0: "batch"}}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        in_eval(model, example, path, **NAMES, dynamic_axes=axes, dynamo=False)


# %% wrong: the old exporter, after the default one for show
# says: This file is not from the default exporter, which runs the model with FakeTensors. dynamo=False uses the
# earns: 1 of 2
def export_dynamic(model, example, path):
    in_eval(model, example, None, **NAMES, dynamic_shapes=({0: "batch"},))
    axes = {"input": {0: "batch"}, "output": {0: "batch"}}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        in_eval(model, example, path, **NAMES, dynamic_axes=axes, dynamo=False)


# %% wrong: does not write to the path
# says: There is no file at the given path.
# says: The model is as before, but the file is not the model in eval mode for any batch. Pass the first check
# earns: 0 of 2
def export_dynamic(model, example, path):
    in_eval(model, example, None, **NAMES, dynamic_shapes=({0: "batch"},))


# %% wrong: batch in the wrong place
# says: You declared a dimension dynamic that the layers of the model fix. Declare only dimension 0.
# says: The export raised TorchExportError
# earns: 0 of 2
def export_dynamic(model, example, path):
    in_eval(model, example, path, **HOW | {"dynamic_shapes": ({1: "batch"},)})


# %% wrong: takes the gradients away
# says: Something else of the model has changed: gradients.
# earns: 1 of 2
def export_dynamic(model, example, path):
    in_eval(model, example, path, **HOW)
    for parameter in model.parameters():
        parameter.grad = torch.zeros_like(parameter)


# %% wrong: runs the model once in training mode
# says: Something else of the model has changed: tensors.
# says: rows, onnxruntime does not return the numbers of eval mode.
# earns: 0 of 2
def export_dynamic(model, example, path):
    flags = [(module, module.training) for module in model.modules()]
    model.train()
    model(example)
    for module, flag in flags:
        module.training = flag
    in_eval(model, example, path, **HOW)


# %% right: train(flag) for each module, from the root down
def export_dynamic(model, example, path):
    flags = [module.training for module in model.modules()]
    model.train(False)
    try:
        torch.onnx.export(model, (example,), path, **HOW)
    finally:
        for module, flag in zip(model.modules(), flags, strict=True):
            module.train(flag)


# %% wrong: dynamic_shapes by the name in the file, not by the argument of forward
# says: dynamic_shapes must be a tuple with one dict for each argument of forward, whatever their names are.
# earns: 1 of 2
# caught: hidden
def export_dynamic(model, example, path):
    in_eval(model, example, path, **HOW | {"dynamic_shapes": {"input": {0: "batch"}}})


# %% wrong: switches off dropout only
# says: rows, onnxruntime does not return the numbers of eval mode.
# earns: 1 of 2
# caught: hidden
def export_dynamic(model, example, path):
    flags = [(module, module.training) for module in model.modules()]
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.training = False
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            torch.onnx.export(model, (example,), path, **HOW)
    finally:
        for module, flag in flags:
            module.training = flag


# %% wrong: freezes the parameters
# says: Something else of the model has changed: requires_grad.
# earns: 1 of 2
def export_dynamic(model, example, path):
    model.requires_grad_(False)
    in_eval(model, example, path, **HOW)


# %% wrong: refuses a model with a layer in eval mode
# says: The export raised
# earns: 1 of 2
def export_dynamic(model, example, path):
    if model.training and not all(module.training for module in model.modules()):
        raise ValueError("a layer is frozen")
    in_eval(model, example, path, **HOW)


# %% wrong: dynamic_axes, its warnings silenced
# says: The export gives a DeprecationWarning. Declare the dimension with dynamic_shapes, not dynamic_axes.
# earns: 1 of 2
def export_dynamic(model, example, path):
    axes = {"input": {0: "batch"}, "output": {0: "batch"}}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        in_eval(model, example, path, **NAMES, external_data=False, dynamic_axes=axes)


# %% right: all warnings silenced, with dynamic_shapes
def export_dynamic(model, example, path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        in_eval(model, example, path, **HOW)


# %% wrong: train(flag) for the model, then eval() for the frozen layers
# says: The model, or one of its layers, is in a different mode than before. Restore the flag of each module.
# earns: 1 of 2
# caught: hidden
def export_dynamic(model, example, path):
    was_training = model.training
    frozen = [module for module in model.modules() if not module.training]
    model.eval()
    try:
        torch.onnx.export(model, (example,), path, **HOW)
    finally:
        model.train(was_training)
        for module in frozen:
            module.eval()


# %% wrong: an error of its own, from the export's
# says: If the export fails, its own exception must reach the caller, not a new RuntimeError in its place.
# earns: 1 of 2
# caught: hidden
def export_dynamic(model, example, path):
    flags = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        torch.onnx.export(model, (example,), path, **HOW)
    except Exception as error:
        raise RuntimeError(f"ONNX export of {type(model).__name__} failed: {error}") from error
    finally:
        for module, flag in flags:
            module.training = flag
