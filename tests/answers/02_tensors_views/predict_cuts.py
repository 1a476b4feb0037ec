# corners: none

import torch

RIGHT = {
    "split_4": [4, 4, 2],
    "tsplit_4": [3, 3, 2, 2],
    "chunk_4": [3, 3, 3, 1],
    "chunk_6": [2, 2, 2, 2, 2],
    "split_3_7": [3, 7],
    "tsplit_3_7": [3, 4, 3],
    "split_3_3": True,
    "tsplit_2_20": [2, 8, 0],
    "interleave": [0, 0, 1, 1, 2, 2],
    "repeat": [0, 1, 2, 0, 1, 2],
}


# %% right: tuples in place of lists
cut_answers = {name: tuple(value) if isinstance(value, list) else value for name, value in RIGHT.items()}


# %% right: a tensor in place of a list
cut_answers = RIGHT | {"interleave": torch.tensor([0, 0, 1, 1, 2, 2])}


# %% right: runs the snippets
v = torch.arange(10)


def sizes(parts):
    return [len(p) for p in parts]


cut_answers = RIGHT | {
    "split_4": sizes(v.split(4)),
    "tsplit_4": sizes(v.tensor_split(4)),
    "chunk_4": sizes(v.chunk(4)),
    "chunk_6": sizes(v.chunk(6)),
    "split_3_7": sizes(v.split([3, 7])),
    "tsplit_3_7": sizes(v.tensor_split([3, 7])),
    "tsplit_2_20": sizes(v.tensor_split([2, 20])),
    "interleave": v[:3].repeat_interleave(2).tolist(),
    "repeat": v[:3].repeat(2).tolist(),
}


# %% wrong: split_4 as a count
# says: split's integer is the size of each part, not the number of parts.
# earns: 0.9 of 1
# lesson
cut_answers = RIGHT | {"split_4": [3, 3, 2, 2]}


# %% wrong: split_4 as chunk would
# says: split's integer is the size of each part, not the number of parts.
# earns: 0.9 of 1
cut_answers = RIGHT | {"split_4": [3, 3, 3, 1]}


# %% wrong: split_4 drops the rest
# says: the last one is smaller
# earns: 0.9 of 1
cut_answers = RIGHT | {"split_4": [4, 4]}


# %% wrong: tsplit_4 as a size
# says: tensor_split's integer is the number of parts; the first 10 % 4 of them get one element more.
# earns: 0.9 of 1
cut_answers = RIGHT | {"tsplit_4": [4, 4, 2]}


# %% wrong: tsplit_4 with the rest at the end
# says: tensor_split gives the extra elements to the first parts, one each; it is split whose last part is smaller.
# earns: 0.9 of 1
cut_answers = RIGHT | {"tsplit_4": [2, 2, 2, 4]}


# %% wrong: chunk_4 as tensor_split would
# says: chunk(n) uses parts of size ceil(10 / n) until the elements are used up: the last one is smaller.
# earns: 0.9 of 1
cut_answers = RIGHT | {"chunk_4": [3, 3, 2, 2]}


# %% wrong: chunk_4 as a size
# says: chunk's integer is a number of parts, not their size.
# earns: 0.9 of 1
cut_answers = RIGHT | {"chunk_4": [4, 4, 2]}


# %% wrong: chunk_6 in six parts
# says: chunk may return fewer parts than asked for
# earns: 0.9 of 1
# lesson
cut_answers = RIGHT | {"chunk_6": [2, 2, 2, 2, 1, 1]}


# %% wrong: chunk_6 with an empty sixth part
# says: until the elements are used up
# earns: 0.9 of 1
cut_answers = RIGHT | {"chunk_6": [2, 2, 2, 2, 2, 0]}


# %% wrong: split_3_7 as cut positions
# says: A list means sizes for split and cut positions for tensor_split; you swapped them.
# earns: 0.9 of 1
# lesson
cut_answers = RIGHT | {"split_3_7": [3, 4, 3]}


# %% wrong: tsplit_3_7 as sizes
# says: A list means sizes for split and cut positions for tensor_split; you swapped them.
# earns: 0.9 of 1
cut_answers = RIGHT | {"tsplit_3_7": [3, 7]}


# %% wrong: split_3_3 works
# says: The list given to split must sum to the size of the dimension
# earns: 0.9 of 1
cut_answers = RIGHT | {"split_3_3": False}


# %% wrong: tsplit_2_20 without the empty part
# says: Cut positions follow slicing rules: v[:2], v[2:20], v[20:], the last one empty.
# earns: 0.9 of 1
cut_answers = RIGHT | {"tsplit_2_20": [2, 8]}


# %% wrong: interleave tiles
# says: repeat tiles the whole tensor (numpy.tile)
# earns: 0.9 of 1
# lesson
cut_answers = RIGHT | {"interleave": [0, 1, 2, 0, 1, 2]}


# %% wrong: repeat doubles each element
# says: repeat_interleave repeats each element in place (numpy.repeat).
# earns: 0.9 of 1
cut_answers = RIGHT | {"repeat": [0, 0, 1, 1, 2, 2]}


# %% wrong: one item left open
# says: split_4 = ...: There is no prediction yet
# earns: 0.9 of 1
cut_answers = RIGHT | {"split_4": ...}

# %% wrong: split into three parts of equal size
# says: For split a list means sizes.
# earns: 0.9 of 1
cut_answers = RIGHT | {"split_3_7": [3, 3, 4]}

# %% wrong: cut positions of tensor_split are included
# says: The parts are v[:3], v[3:7] and v[7:].
# earns: 0.9 of 1
cut_answers = RIGHT | {"tsplit_3_7": [4, 4, 2]}
