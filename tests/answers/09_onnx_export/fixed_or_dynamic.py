TRUE = {
    "A shape": [2, 100],
    "A batch 5": "error",
    "B shape": ["batch", 100],
    "B batch 5": "ok",
    "C torch": 3.0,
    "C onnx": 2.0,
    "C checker": "ok",
    "D export": "error",
    "E shape": [4, 12],
    "C type": "FakeTensor",
    "A files": 2,
    "B files": 1,
}

# corners: none


# %% right: lists
exported = dict(TRUE)


# %% right: tuples, integers for floats, other capitals, full names, and an item that nobody asked for
exported = TRUE | {
    "A shape": (2, 100),
    "B shape": ("Batch", 100),
    "A batch 5": " Error ",
    "B batch 5": "OK",
    "C torch": 3,
    "C onnx": 2,
    "E shape": (4.0, 12.0),
    "C type": "torch._subclasses.fake_tensor.FakeTensor",
    "A files": 2.0,
    "note": "guessed",
}


# %% wrong: A's batch taken for dynamic
# says: Every input dimension that is not declared dynamic is fixed to the example's size, so A refuses 5 rows.
# earns: 0.8334 of 1
exported = TRUE | {"A shape": ["batch", 100], "A batch 5": "ok"}


# %% wrong: only A's message missed
# says: A batch 5 = 'ok': Every input dimension that is not declared dynamic is fixed to the example's size, so A refuses 5 rows.
# earns: 0.9166 of 1
exported = TRUE | {"A batch 5": "ok"}


# %% wrong: B fixed
# says: The declared dimension is shown as its name, and the other is fixed: ["batch", 100].
# says: B declares the dimension dynamic, so any number of rows works.
# earns: 0.8334 of 1
# lesson
exported = TRUE | {"B shape": [2, 100], "B batch 5": "error"}


# %% wrong: the file follows the loop, the checker complains
# says: The condition of the loop was decided during the export, with 4 rows: the loop didn't run, so only `x * 2` is
# says: check_model looks at the structure, not at the numbers, so a wrong export passes.
# earns: 0.8334 of 1
# lesson
exported = TRUE | {"C onnx": 3.0, "C checker": "error"}


# %% wrong: PyTorch gives what the file gives
# says: C torch = 2.0: The condition of the loop was decided during the export, with 4 rows
# earns: 0.9166 of 1
exported = TRUE | {"C torch": 2.0}


# %% wrong: a decision about values is exported
# says: An `if` about values can't be decided for all inputs, so torch.export refuses it
# earns: 0.9166 of 1
# lesson
exported = TRUE | {"D export": "ok"}


# %% wrong: half of the example's rows, whatever comes
# says: x.shape[0] // 2 is arithmetic, which the exporter records with a symbol: of 8 rows the file takes the first 4, and
# earns: 0.9166 of 1
exported = TRUE | {"E shape": [2, 12]}


# %% wrong: a plain tensor, one file, two files
# says: C type = 'tensor': The default exporter runs the model with FakeTensors, which have shapes and dtypes but no data.
# says: A files = 1: The export writes weights into a second file, <name>.onnx.data, unless external_data=False.
# says: B files = 2: The export writes weights into a second file, <name>.onnx.data, unless external_data=False.
# earns: 0.75 of 1
exported = TRUE | {"C type": "Tensor", "A files": 1, "B files": 2}


# %% wrong: True for ok
# says: B batch 5 = True: B declares the dimension dynamic, so any number of rows works.
# earns: 0.9166 of 1
exported = TRUE | {"B batch 5": True}


# %% wrong: one item is left open
# says: E shape = ...: There is no prediction yet
# earns: 0.9166 of 1
exported = TRUE | {"E shape": ...}
