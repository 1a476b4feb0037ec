import copy
import warnings
from pathlib import Path

import torch
from torch.export import Dim

# corners: maximum, caller's modes

EXAMPLE = (torch.zeros(2, 5, dtype=torch.int64),)
BOTH = ({0: "batch", 1: "time"},)


def write(model, path, example=EXAMPLE, **options):
    """The export as it should be, unless options say otherwise."""
    wanted = {"input_names": ["ids"], "output_names": ["logits"], "dynamic_shapes": BOTH, "external_data": False}
    torch.onnx.export(model, example, path, verbose=False, **wanted | options)


def restored(model, action):
    """Runs action in eval mode and puts the flags back."""
    flags = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        action()
    finally:
        for module, training in flags:
            module.training = training


# %% right: Dim for both, flags put back in finally
def export_lm(model, path):
    dims = {"ids": {0: Dim("batch"), 1: Dim("time", max=model.length)}}
    restored(model, lambda: write(model, path, dynamic_shapes=dims))


# %% right: Dim.DYNAMIC by name, a deep copy in eval mode
def export_lm(model, path):
    example = torch.randint(256, (3, 4))
    shapes = {"ids": {0: Dim.DYNAMIC, 1: Dim.DYNAMIC}}
    write(copy.deepcopy(model).eval(), path, (example,), dynamic_shapes=shapes)


# %% right: the TorchScript exporter with dynamic_axes
def export_lm(model, path):
    axes = {"ids": {0: "batch", 1: "time"}, "logits": {0: "batch", 1: "time"}}

    def export():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            torch.onnx.export(
                model, EXAMPLE, path, input_names=["ids"], output_names=["logits"], dynamic_axes=axes, dynamo=False
            )

    restored(model, export)


# %% right: saved from the program, an example as long as it gets
def export_lm(model, path):
    def export():
        program = torch.onnx.export(
            model,
            (torch.ones(1, model.length, dtype=torch.long),),
            input_names=["ids"],
            output_names=["logits"],
            dynamic_shapes=BOTH,
            verbose=False,
        )
        Path(path).write_bytes(program.model_proto.SerializeToString())

    restored(model, export)


# %% wrong: nothing dynamic
# says: The file accepts only one length. Declare time dynamic.
# earns: 0 of 1
# lesson
def export_lm(model, path):
    restored(model, lambda: write(model, path, dynamic_shapes=None))


# %% wrong: only the batch is dynamic
# says: The file accepts only one length. Declare time dynamic.
# earns: 0 of 1
# lesson
def export_lm(model, path):
    restored(model, lambda: write(model, path, dynamic_shapes=({0: "batch"},)))


# %% wrong: only the batch is dynamic, with the longest example
# says: The file accepts only one length. Declare time dynamic.
# earns: 0 of 1
# corner: maximum
def export_lm(model, path):
    example = torch.zeros(2, model.length, dtype=torch.int64)
    restored(model, lambda: write(model, path, (example,), dynamic_shapes=({0: "batch"},)))


# %% wrong: both dynamic, from an example of a single byte
# says: The file accepts only 1 × 1 ids, because a size of 1 in the example stays 1 in the graph.
# earns: 0 of 1
def export_lm(model, path):
    restored(model, lambda: write(model, path, (torch.zeros(1, 1, dtype=torch.int64),), dynamic_shapes=BOTH))


# %% wrong: only the time is dynamic
# says: The file accepts only one batch size. Declare batch dynamic.
# earns: 0 of 1
def export_lm(model, path):
    restored(model, lambda: write(model, path, dynamic_shapes=({1: "time"},)))


# %% wrong: model left in eval mode
# says: The model's training flags have changed. Restore the flag of each module.
# earns: 0 of 1
def export_lm(model, path):
    write(model.eval(), path)


# %% wrong: train() on everything afterwards
# says: The model's training flags have changed. Restore the flag of each module.
# earns: 0 of 1
# corner: caller's modes
def export_lm(model, path):
    training = model.training
    write(model.eval(), path)
    model.train(training)


# %% wrong: exported as it is
# says: You exported the model in training mode. Call eval() first.
# earns: 0 of 1
def export_lm(model, path):
    write(model, path)


# %% wrong: no names given
# says: The input must be called ids and the output logits.
# earns: 0 of 1
def export_lm(model, path):
    restored(model, lambda: write(model, path, input_names=None, output_names=None))


# %% wrong: the weights beside it
# says: The weights went into a second file. Use external_data=False.
# earns: 0 of 1
def export_lm(model, path):
    restored(model, lambda: write(model, path, external_data=True))


# %% wrong: int32 ids
# says: The input must be int64, (batch, time).
# earns: 0 of 1
def export_lm(model, path):
    restored(model, lambda: write(model, path, (torch.zeros(2, 5, dtype=torch.int32),)))


# %% wrong: another name for the argument
# says: The exporter refused these dynamic_shapes. Pass a tuple with one dict,
# earns: 0 of 1
def export_lm(model, path):
    shapes = {"tokens": {0: "batch", 1: "time"}}
    restored(model, lambda: write(model, path, dynamic_shapes=shapes))


# %% wrong: a state_dict
# says: There is a file, but onnxruntime can't open it.
# earns: 0 of 1
def export_lm(model, path):
    restored(model, lambda: torch.save(model.state_dict(), path))


# %% wrong: returns the program and writes nothing
# says: There is no file at the given path.
# earns: 0 of 1
def export_lm(model, path):
    restored(model, lambda: write(model, None))


# %% wrong: floats as an example
# says: The model can't read this example. Use integers from 0 to 255, (batch, time).
# earns: 0 of 1
def export_lm(model, path):
    restored(model, lambda: write(model, path, (torch.randn(2, 5),)))


# %% wrong: one text without a batch
# says: The model can't read this example. Use integers from 0 to 255, (batch, time).
# earns: 0 of 1
def export_lm(model, path):
    restored(model, lambda: write(model, path, (torch.zeros(5, dtype=torch.int64),), dynamic_shapes=({0: "time"},)))


# %% wrong: returns the program
# says: Return nothing. torch.onnx.export returns an ONNXProgram; don't pass it on.
# earns: 0 of 1
def export_lm(model, path):
    out = []
    restored(
        model,
        lambda: out.append(
            torch.onnx.export(
                model,
                EXAMPLE,
                path,
                input_names=["ids"],
                output_names=["logits"],
                dynamic_shapes=BOTH,
                external_data=False,
                verbose=False,
            )
        ),
    )
    return out[0]


# %% wrong: exports probabilities
# says: ids the file does not return the logits of eval mode.
# earns: 0 of 1
def export_lm(model, path):
    restored(model, lambda: write(torch.nn.Sequential(model, torch.nn.Softmax(-1)), path))


# %% wrong: torch.export with a Dim that ends at the longest context
# says: The exporter found that this model doesn't work for all sizes that your Dim objects allow. Name the
# earns: 0 of 1
def export_lm(model, path):
    def export():
        shapes = ({0: Dim("batch", min=1), 1: Dim("time", min=1, max=model.length)},)
        program = torch.export.export(model, (torch.randint(256, (3, 7)),), dynamic_shapes=shapes)
        write(program, path, None, dynamic_shapes=None)

    restored(model, export)
