# corners: none
RIGHT = {"sizes": (10, 4), "count": (10, 6), "ceil": None, "whole": (10, 7, 3)}


# %% right: fewer parts also have other sizes; a place from the end
inputs = {"sizes": (10, 6), "count": (5, 4), "ceil": None, "whole": (10, -3, 2)}


# %% right: the longest, lists
inputs = {"whole": [100, 99, 0], "ceil": None, "count": [100, 99], "sizes": [100, 51]}


# %% right: a place beyond the end, before one in the middle
inputs = RIGHT | {"whole": (4, 200, 1), "sizes": (9, 4)}


# %% wrong: n divides the length
# says: sizes = (10, 5): Here n divides the length, so chunk makes n equal parts, as tensor_split does.
# earns: 0.75 of 1
# lesson
inputs = RIGHT | {"sizes": (10, 5)}


# %% wrong: the last part is shorter by one
# says: Both cut parts of these sizes: [3, 3, 2]. With chunk, all that is missing is missing from the last parts. Here that is one element, and tensor_split's last part is shorter by one, too.
# earns: 0.75 of 1
# lesson
inputs = RIGHT | {"sizes": (8, 3)}


# %% wrong: no input for the sizes
# says: There is an input that separates the sizes: tensor_split makes parts that differ by one element at most, and chunk doesn't.
# earns: 0.75 of 1
inputs = RIGHT | {"sizes": None}


# %% wrong: as many parts as asked for
# says: chunk makes 4 parts here, as many as asked for: parts of ceil(length / n) elements leave something for the last one.
# earns: 0.75 of 1
# lesson
inputs = RIGHT | {"count": (10, 4)}


# %% wrong: one part for each element
# says: count = (10, 10): Here n divides the length, so chunk makes n equal parts, as tensor_split does.
# earns: 0.75 of 1
inputs = RIGHT | {"count": (10, 10)}


# %% wrong: no input for the count
# says: There is an input that separates the counts: chunk cuts parts of ceil(length / n) elements until nothing is left, and may need fewer than n.
# earns: 0.75 of 1
# lesson
inputs = RIGHT | {"count": None}


# %% wrong: more parts than elements
# says: n is an int from 1 to the length.
# earns: 0.75 of 1
inputs = RIGHT | {"count": (3, 5)}


# %% wrong: an input for chunk and split
# says: chunk(n) cuts parts of ceil(length / n) elements, and split is given just that size. So no input separates them.
# earns: 0.75 of 1
# lesson
inputs = RIGHT | {"ceil": (10, 6)}


# %% wrong: places in order
# says: The parts make up the whole here. Each begins where the one before it ends
# earns: 0.75 of 1
# lesson
inputs = RIGHT | {"whole": (10, 3, 7)}


# %% wrong: two places beyond the end
# says: The parts make up the whole here.
# earns: 0.75 of 1
inputs = RIGHT | {"whole": (10, 30, 20)}


# %% wrong: no input for the places
# says: There is an input that separates them: the parts are the slices v[:a], v[a:b] and v[b:], wherever the two places are.
# earns: 0.75 of 1
inputs = RIGHT | {"whole": None}


# %% wrong: a place far away
# says: a and b are from -200 to 200.
# earns: 0.75 of 1
inputs = RIGHT | {"whole": (10, 1000, 3)}


# %% wrong: places without a length
# says: Write a tuple of three ints, the length (from 1 to 100), a and b.
# earns: 0.75 of 1
inputs = RIGHT | {"whole": (7, 3)}


# %% wrong: a list of places for a count
# says: Write a tuple of two ints, the length (from 1 to 100) and n.
# earns: 0.75 of 1
inputs = RIGHT | {"sizes": (10, [3, 7])}


# %% wrong: lengths only
# says: None of the items is right yet.
# earns: 0 of 1
inputs = dict.fromkeys(RIGHT, 10)


# %% wrong: one is left open
# says: count = ...: There is no input yet
# earns: 0.75 of 1
inputs = RIGHT | {"count": ...}
