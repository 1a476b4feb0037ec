# corners: none
RIGHT = {
    "marks": [[0, 1], [0, 2]],
    "last": [4, 0, 2],
    "largest": ([0, 0, 1], [-1.0, -2.0, 3.0]),
    "slopes": None,
}


# %% right: one column, no steps at all, one number
apart = {"marks": [[2], [2]], "last": (0, 0, 0), "largest": ([1], [-5]), "slopes": None}


# %% right: all that fits
apart = {
    "slopes": None,
    "largest": ([0] * 19 + [2], [-1000] * 20),
    "last": [0, 4, 4],
    "marks": ([0, 1, 2], [1, 2, 0], [2, 0, 1], [0, 0, 0], [1, 1, 1], [2, 2, 2]),
}


# %% right: a small negative number among small ones
apart = RIGHT | {"largest": ([2, 2], [-1e-6, -2e-6]), "last": [1, 1, 0]}


# %% right: a collision in the last column only, beside repeated numbers in a row
apart = RIGHT | {"marks": [[0, 0, 1], [1, 1, 1]]}


# %% wrong: a number twice in a row
# says: marks = [[0, 0, 2]]: Your index repeats a number within a row. But along dim 0 the lanes are the columns, and no column contains a number twice, so no two writers meet.
# earns: 1.5 of 2
# lesson
apart = RIGHT | {"marks": [[0, 0, 2]]}


# %% wrong: rows of equal numbers
# says: Your index repeats a number within a row.
# earns: 1.5 of 2
apart = RIGHT | {"marks": [[0, 0, 0], [1, 1, 1], [2, 2, 2]]}


# %% wrong: one writer for each cell
# says: Every cell has at most one writer here, and for one writer it makes no difference whether its 1 replaces a 0 or is added to it.
# earns: 1.5 of 2
apart = RIGHT | {"marks": [[0, 1, 2], [1, 2, 0]]}


# %% wrong: no input for the marks
# says: There is an index that separates them: one keeps a 1 where two writers meet, and the other adds them up.
# earns: 1.5 of 2
apart = RIGHT | {"marks": None}


# %% wrong: an index of one dimension
# says: Write nested lists of ints from 0 to 2, with 1 to 6 rows of the same length, 1 to 3.
# earns: 1.5 of 2
apart = RIGHT | {"marks": [0, 0, 1]}


# %% wrong: rows of different lengths
# says: Write nested lists of ints from 0 to 2, with 1 to 6 rows of the same length, 1 to 3.
# earns: 1.5 of 2
apart = RIGHT | {"marks": [[0, 1], [0]]}


# %% wrong: a step in each row
# says: last = [4, 1, 3]: Both functions return tensor([3, 4, 10]). Each row has a valid step here, so length - 1 is a place from 0 to 3, which means the same to indexing and to gather.
# earns: 1.5 of 2
# lesson
apart = RIGHT | {"last": [4, 1, 3]}


# %% wrong: no input for the last step
# says: There are lengths that separate them: what does each function read for a length of 0?
# earns: 1.5 of 2
# lesson
apart = RIGHT | {"last": None}


# %% wrong: a negative length
# says: Write a list of three ints from 0 to 4.
# earns: 1.5 of 2
apart = RIGHT | {"last": [-1, 4, 4]}


# %% wrong: positive numbers
# says: No number is negative here, so the zero that a cell starts with is never larger than what arrives.
# earns: 1.5 of 2
# lesson
apart = RIGHT | {"largest": ([0, 0, 1, 1], [4.0, 3.0, 2.0, 1.0])}


# %% wrong: negative numbers, each beside a positive one
# says: Every cell that gets a negative number here also gets one that is at least 0, or the largest of its numbers is too close to 0 to show.
# earns: 1.5 of 2
# lesson
apart = RIGHT | {"largest": ([0, 0, 1, 1], [-4.0, 3.0, 2.0, -1.0])}


# %% wrong: a negative number that is too small to show
# says: or the largest of its numbers is too close to 0 to show.
# earns: 1.5 of 2
apart = RIGHT | {"largest": ([0, 1], [-1e-9, 1000.0])}


# %% wrong: no input for the largest
# says: There is an input that separates them: the zero that a cell starts with can be larger than all numbers that arrive.
# earns: 1.5 of 2
apart = RIGHT | {"largest": None}


# %% wrong: lists of different lengths
# says: The two lists must have the same length.
# earns: 1.5 of 2
apart = RIGHT | {"largest": ([0, 1], [-1.0])}


# %% wrong: one number more than the longest index
# says: The two lists must have the same length.
# earns: 1.5 of 2
apart = RIGHT | {"largest": ([0] * 20, [-1.0] * 21)}


# %% wrong: a tensor for the second list
# says: Write a tuple of two lists, and in the first of them 1 to 20 ints from 0 to 2.
# earns: 1.5 of 2
apart = RIGHT | {"largest": ([0], torch.tensor([-1.0]))}


# %% wrong: no factors
# says: Write three factors, one for each cell.
# earns: 1.5 of 2
apart = RIGHT | {"slopes": ([0], [])}


# %% wrong: no index
# says: Write a tuple of two lists, and in the first of them 1 to 20 ints from 0 to 2.
# earns: 1.5 of 2
apart = RIGHT | {"largest": [-1.0, -2.0]}


# %% wrong: infinitely small numbers
# says: Write Python numbers between -1000 and 1000 in the second list.
# earns: 1.5 of 2
apart = RIGHT | {"largest": ([0], [-math.inf])}


# %% wrong: an input for the slopes
# says: The backward of both calls gives each number the gradient of the cell that it was written to, whoever won.
# earns: 1.5 of 2
# lesson
apart = RIGHT | {"slopes": ([1, 1, 1], [1.0, 10.0, 100.0])}


# %% wrong: as many factors as numbers
# says: Write three factors, one for each cell.
# earns: 1.5 of 2
apart = RIGHT | {"slopes": ([1, 1], [1.0, 10.0])}


# %% wrong: None everywhere
# says: There is an index that separates them
# earns: 0.5 of 2
apart = dict.fromkeys(RIGHT)


# %% wrong: numbers in place of inputs
# says: None of the items is right yet.
# earns: 0 of 2
apart = dict.fromkeys(RIGHT, 1.0)


# %% wrong: two are left open
# says: marks = ...: There is no input yet
# earns: 1 of 2
apart = RIGHT | {"marks": ..., "last": ...}
