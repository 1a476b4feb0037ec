# corners: none

import torch

RIGHT = {
    "shape": (2, 3, 5, 7),
    "stride": (105, 1, 21, 3),
    "contiguous": False,
    "as_nhwc": True,
    "view": False,
    "view_planes": True,
    "flatten_same": True,
    "clone": True,
    "made_contiguous": (105, 35, 7, 1),
    "one_channel": True,
}


# %% right: lists in place of tuples
layout_answers = {name: list(value) if isinstance(value, tuple) else value for name, value in RIGHT.items()}


# %% right: torch.Size for the shape
layout_answers = RIGHT | {"shape": torch.Size([2, 3, 5, 7])}


# %% right: runs the snippets
w = torch.randn(2, 3, 5, 7)
x = w.to(memory_format=torch.channels_last)


def works(*sizes):
    try:
        x.view(*sizes)
    except RuntimeError:
        return False
    return True


layout_answers = {
    "shape": x.shape,
    "stride": x.stride(),
    "contiguous": x.is_contiguous(),
    "as_nhwc": x.permute(0, 2, 3, 1).is_contiguous(),
    "view": works(2, -1),
    "view_planes": works(2, 3, -1),
    "flatten_same": torch.equal(x.flatten(1), w.flatten(1)),
    "clone": x.clone().stride() == x.stride(),
    "made_contiguous": x.contiguous().stride(),
    "one_channel": torch.ones(2, 1, 5, 7).is_contiguous(memory_format=torch.channels_last),
}


# %% wrong: shape as N, H, W, C
# says: channels_last never changes shape or the order of indices: x[n, c, h, w] stays x[n, c, h, w].
# earns: 0.9 of 1
# lesson
layout_answers = RIGHT | {"shape": (2, 5, 7, 3)}


# %% wrong: stride of the ordinary layout
# says: These are the strides of the ordinary layout. In channels_last the three channels of a pixel are neighbours
# earns: 0.9 of 1
# lesson
layout_answers = RIGHT | {"stride": (105, 35, 7, 1)}


# %% wrong: strides in the order N, H, W, C
# says: Only the strides change. Write them in the order N, C, H, W.
# earns: 0.9 of 1
layout_answers = RIGHT | {"stride": (105, 21, 3, 1)}


# %% wrong: stride in bytes
# says: Those are strides in bytes, as NumPy shows them.
# earns: 0.9 of 1
layout_answers = RIGHT | {"stride": (420, 4, 84, 12)}


# %% wrong: strides of H and W exchanged
# says: The next pixel is C cells further, the next row W*C, the next image H*W*C.
# earns: 0.9 of 1
layout_answers = RIGHT | {"stride": (105, 1, 3, 15)}


# %% wrong: contiguous
# says: is_contiguous() asks for the ordinary row-major order
# earns: 0.9 of 1
# lesson
layout_answers = RIGHT | {"contiguous": True}


# %% wrong: not contiguous as N, H, W, C
# says: Read in the order N, H, W, C the cells are exactly row-major
# earns: 0.9 of 1
layout_answers = RIGHT | {"as_nhwc": False}


# %% wrong: view works
# says: To merge C, H and W, C must be the slowest of them in memory.
# earns: 0.9 of 1
# lesson
layout_answers = RIGHT | {"view": True}


# %% wrong: no view at all works
# says: Only H and W are to be merged
# earns: 0.9 of 1
layout_answers = RIGHT | {"view_planes": False}


# %% wrong: flatten gives the order of the cells
# says: flatten copies where it can't view, and keeps the order of *indices*
# earns: 0.9 of 1
layout_answers = RIGHT | {"flatten_same": False}


# %% wrong: clone is row-major
# says: keep a dense layout as it is (torch.preserve_format)
# earns: 0.9 of 1
layout_answers = RIGHT | {"clone": False}


# %% wrong: contiguous keeps channels_last
# says: contiguous() without a memory_format means row-major
# earns: 0.9 of 1
layout_answers = RIGHT | {"made_contiguous": (105, 1, 21, 3)}


# %% wrong: one channel is contiguous in one format only
# says: With one channel both layouts are the same cells
# earns: 0.9 of 1
layout_answers = RIGHT | {"one_channel": False}


# %% wrong: a number for True
# says: The question is answered by True or False.
# earns: 0.9 of 1
layout_answers = RIGHT | {"clone": 1}


# %% wrong: one item left open
# says: view = ...: There is no prediction yet
# earns: 0.9 of 1
layout_answers = RIGHT | {"view": ...}


# %% wrong: one item deleted
# says: clone = ...: There is no prediction yet
# earns: 0.9 of 1
layout_answers = {name: value for name, value in RIGHT.items() if name != "clone"}


# %% wrong: no dict
# says: The answer must be a dict
# earns: 0 of 1
layout_answers = list(RIGHT.values())

# %% wrong: the strides of the ordinary layout for channels_last
# says: These are the strides of the ordinary layout.
# earns: 0.9 of 1
layout_answers = RIGHT | {"stride": (105, 35, 7, 1)}

# %% wrong: channels side by side, rows without them
# says: In channels_last the three channels of a pixel are neighbours: stride 1 belongs to C.
# earns: 0.9 of 1
layout_answers = RIGHT | {"stride": (105, 1, 7, 3)}
