# corners: none

import torch

RIGHT = {
    "t_stride": (1, 6),
    "slice_stride": (6, 2),
    "slice_offset": 6,
    "t_contiguous": False,
    "cols": False,
    "rows": True,
    "expand": (0, 6, 1),
    "t_copy_stride": (4, 1),
    "noop": True,
    "alias_reshape": False,
    "alias_list": False,
    "infer": (3, 8),
}


# %% right: lists in place of tuples
stride_answers = {name: list(value) if isinstance(value, tuple) else value for name, value in RIGHT.items()}


# %% right: torch.Size for a shape
stride_answers = RIGHT | {"infer": torch.Size([3, 8])}


# %% right: runs the snippets
x = torch.arange(24).reshape(4, 6)


def alias(a, b):
    return a.untyped_storage().data_ptr() == b.untyped_storage().data_ptr()


stride_answers = {
    "t_stride": x.t().stride(),
    "slice_stride": x[1:, ::2].stride(),
    "slice_offset": x[1:, ::2].storage_offset(),
    "t_contiguous": x.t().is_contiguous(),
    "cols": x[:, :3].is_contiguous(),
    "rows": x[:2].is_contiguous(),
    "expand": x.unsqueeze(0).expand(5, -1, -1).stride(),
    "t_copy_stride": x.t().contiguous().stride(),
    "noop": x.contiguous() is x,
    "alias_reshape": alias(x.t().reshape(-1), x),
    "alias_list": alias(x[[0, 1]], x),
    "infer": tuple(x.view(-1, 8).shape),
}


# %% wrong: t_stride in bytes
# says: Those are byte strides, as NumPy shows them. torch counts elements.
# earns: 1.8333 of 2
stride_answers = RIGHT | {"t_stride": (8, 48)}


# %% wrong: t_stride as if t() left the strides alone
# says: t() copies nothing, so it must swap the strides together with the sizes: (1, 6).
# earns: 1.8333 of 2
# lesson
stride_answers = RIGHT | {"t_stride": (6, 1)}


# %% wrong: t_stride of a fresh tensor
# says: That would be the stride of a fresh tensor of this shape.
# earns: 1.8333 of 2
stride_answers = RIGHT | {"t_stride": (4, 1)}


# %% wrong: slice_stride of a fresh tensor
# says: That would be the stride of a fresh tensor of this shape. A slice keeps the strides of its base (times the step)
# earns: 1.8333 of 2
stride_answers = RIGHT | {"slice_stride": (3, 1)}


# %% wrong: slice_stride in bytes
# says: Those are byte strides, as NumPy shows them. torch counts elements.
# earns: 1.8333 of 2
stride_answers = RIGHT | {"slice_stride": (48, 16)}


# %% wrong: slice_stride without the step
# says: a step of 2 doubles that stride
# earns: 1.8333 of 2
# lesson
stride_answers = RIGHT | {"slice_stride": (6, 1)}


# %% wrong: slice_stride with both strides doubled
# says: A slice keeps the strides of its base (times the step)
# earns: 1.8333 of 2
stride_answers = RIGHT | {"slice_stride": (12, 2)}


# %% wrong: slice_offset zero
# says: The slice starts at row 1: its first element is memory cell 6
# earns: 1.8333 of 2
stride_answers = RIGHT | {"slice_offset": 0}


# %% wrong: slice_offset in bytes
# says: torch counts elements.
# earns: 1.8333 of 2
stride_answers = RIGHT | {"slice_offset": 48}


# %% wrong: slice_offset in rows
# says: a row is 6 cells long
# earns: 1.8333 of 2
stride_answers = RIGHT | {"slice_offset": 1}


# %% wrong: t_contiguous
# says: the strides (1, 6) are not row-major for shape (6, 4)
# earns: 1.8333 of 2
stride_answers = RIGHT | {"t_contiguous": True}


# %% wrong: cols
# says: there are gaps, so it is not contiguous
# earns: 1.8333 of 2
stride_answers = RIGHT | {"cols": True}


# %% wrong: rows
# says: slicing leading rows of a contiguous tensor stays contiguous
# earns: 1.8333 of 2
stride_answers = RIGHT | {"rows": False}


# %% wrong: rows as a number
# says: The question is answered by True or False.
# earns: 1.8333 of 2
stride_answers = RIGHT | {"rows": 1}


# %% wrong: expand as if it repeated
# says: expand adds a dimension with stride 0: all five 'copies' are the same memory.
# earns: 1.8333 of 2
stride_answers = RIGHT | {"expand": (24, 6, 1)}


# %% wrong: t_copy_stride as in the transpose
# says: contiguous() writes the elements down again in row-major order for shape (6, 4): stride (4, 1).
# earns: 1.8333 of 2
stride_answers = RIGHT | {"t_copy_stride": (1, 6)}


# %% wrong: noop
# says: contiguous() returns the same object: it is no way to get a copy
# earns: 1.8333 of 2
# lesson
stride_answers = RIGHT | {"noop": False}


# %% wrong: alias_reshape
# says: reshape returns a view when it can and copies when it must
# earns: 1.8333 of 2
# lesson
stride_answers = RIGHT | {"alias_reshape": True}


# %% wrong: alias_list
# says: Indexing with a list (or tensor) copies; only slices and integers give views.
# earns: 1.8333 of 2
stride_answers = RIGHT | {"alias_list": True}


# %% wrong: infer
# says: -1 is whatever makes 24 elements: 24 / 8 = 3 rows.
# earns: 1.8333 of 2
stride_answers = RIGHT | {"infer": (4, 8)}


# %% wrong: infer keeps the -1
# says: a shape never holds a -1
# earns: 1.8333 of 2
stride_answers = RIGHT | {"infer": (-1, 8)}


# %% wrong: one item left open
# says: t_stride = ...: There is no prediction yet
# earns: 1.8333 of 2
stride_answers = RIGHT | {"t_stride": ...}


# %% wrong: one item deleted
# says: rows = ...: There is no prediction yet
# earns: 1.8333 of 2
stride_answers = {name: value for name, value in RIGHT.items() if name != "rows"}


# %% wrong: no dict
# says: The answer must be a dict
# earns: 0 of 2
stride_answers = list(RIGHT.values())

# %% wrong: the strides of a fresh tensor, transposed
# says: t() copies nothing: the data did not move.
# earns: 1.8333 of 2
stride_answers = RIGHT | {"t_stride": (4, 1)}

# %% wrong: a transpose that steps over two cells
# says: One step down in x.t() is one step to the right in x; one step to the right is one step down.
# earns: 1.8333 of 2
stride_answers = RIGHT | {"t_stride": (1, 4)}

# %% wrong: an offset of two rows
# says: The offset is the number of the memory cell in which the slice's element [0, 0] lies.
# earns: 1.8333 of 2
stride_answers = RIGHT | {"slice_offset": 12}

# %% wrong: an expanded dimension of stride 1
# says: The new dimension does not move in memory at all; the other two keep their strides.
# earns: 1.8333 of 2
stride_answers = RIGHT | {"expand": (1, 6, 1)}

# %% wrong: the copy keeps the strides of the original
# says: Those are x's strides. The copy has shape (6, 4), so its rows are 4 long.
# earns: 1.8333 of 2
stride_answers = RIGHT | {"t_copy_stride": (6, 1)}
