# corners: none
import torch

TRUE = {
    "gqa": 2**30,
    "mha": 2**32,
    "one_token": 2**17,
    "longest": 2**14,
    "scores": 2**32,
    "ring": 2**27,
    "cat": 500_500,
}


# %% right: computed with torch
answers = {
    "gqa": 2 * torch.empty(32, 8, 8192, 128, dtype=torch.bfloat16, device="meta").nbytes,
    "mha": 2 * torch.empty(32, 32, 8192, 128, dtype=torch.bfloat16, device="meta").nbytes,
    "one_token": 2 * torch.empty(32, 8, 1, 128, dtype=torch.bfloat16, device="meta").nbytes,
    "longest": torch.tensor(2**33) // 2**19,
    "scores": torch.empty(32, 8192, 8192, dtype=torch.bfloat16, device="meta").nbytes,
    "ring": 2 * torch.empty(32, 8, 1024, 128, dtype=torch.bfloat16, device="meta").nbytes,
    "cat": torch.arange(1, 1001).sum(),
}


# %% right: floats
answers = {name: float(number) for name, number in TRUE.items()}


# %% right: NumPy numbers, in another order
answers = {name: __import__("numpy").int64(number) for name, number in reversed(TRUE.items())}


# %% wrong: gqa, the values are forgotten
# says: gqa = 536870912: Keys and values are stored: that is twice as much.
# earns: 0.86 of 1
# lesson
answers = TRUE | {"gqa": 536870912}


# %% wrong: gqa, 32 heads
# says: gqa = 4294967296: The cache holds the 8 key-value heads.
# earns: 0.86 of 1
# lesson
answers = TRUE | {"gqa": 4294967296}


# %% wrong: gqa, four bytes a number
# says: gqa = 2147483648: In bfloat16 a number takes two bytes, not four.
# earns: 0.86 of 1
# lesson
answers = TRUE | {"gqa": 2147483648}


# %% wrong: gqa, one layer
# says: gqa = 33554432: Every one of the 32 layers has a cache of its own.
# earns: 0.86 of 1
answers = TRUE | {"gqa": 2 * 8 * 128 * 8192 * 2}


# %% wrong: gqa, one number a head
# says: gqa = 8388608: A head has 128 numbers for each position.
# earns: 0.86 of 1
answers = TRUE | {"gqa": 2 * 32 * 8 * 8192 * 2}


# %% wrong: gqa, three rows
# says: gqa = 3221225472: Multiply: 2 (key and value)
# earns: 0.86 of 1
answers = TRUE | {"gqa": 3 * 2 * 32 * 8 * 128 * 8192 * 2}


# %% wrong: mha, as with groups
# says: mha = 1073741824: Here each of the 32 query heads has keys and values of its own.
# earns: 0.86 of 1
# lesson
answers = TRUE | {"mha": 1073741824}


# %% wrong: mha, the values are forgotten
# says: mha = 2147483648: Keys and values are stored: that is twice as much.
# earns: 0.86 of 1
answers = TRUE | {"mha": 2147483648}


# %% wrong: mha, four bytes a number
# says: mha = 8589934592: In bfloat16 a number takes two bytes, not four.
# earns: 0.86 of 1
answers = TRUE | {"mha": 8589934592}


# %% wrong: mha, one layer
# says: mha = 134217728: Every one of the 32 layers has a cache of its own.
# earns: 0.86 of 1
answers = TRUE | {"mha": 2 * 32 * 128 * 8192 * 2}


# %% wrong: mha, a quarter
# says: mha = 268435456: As for `gqa`, but with 32 heads
# earns: 0.86 of 1
answers = TRUE | {"mha": 2**28}


# %% wrong: one_token, one layer
# says: one_token = 4096: Every one of the 32 layers has a cache of its own.
# earns: 0.86 of 1
# lesson
answers = TRUE | {"one_token": 4096}


# %% wrong: one_token, the values are forgotten
# says: one_token = 65536: Keys and values are stored: that is twice as much.
# earns: 0.86 of 1
# lesson
answers = TRUE | {"one_token": 65536}


# %% wrong: one_token, four bytes a number
# says: one_token = 262144: In bfloat16 a number takes two bytes, not four.
# earns: 0.86 of 1
answers = TRUE | {"one_token": 262144}


# %% wrong: one_token, 32 heads
# says: one_token = 524288: The cache holds the 8 key-value heads.
# earns: 0.86 of 1
answers = TRUE | {"one_token": 524288}


# %% wrong: one_token, all of it
# says: one_token = 1073741824: One position takes the 8,192nd part of what 8,192 take.
# earns: 0.86 of 1
answers = TRUE | {"one_token": 1073741824}


# %% wrong: longest, one row
# says: longest = 65536: Four rows are in memory, and each has keys and values of its own.
# earns: 0.86 of 1
# lesson
answers = TRUE | {"longest": 65536}


# %% wrong: longest, the weights are forgotten
# says: longest = 49152: The weights are there first, and 8 GiB are left.
# earns: 0.86 of 1
# lesson
answers = TRUE | {"longest": 49152}


# %% wrong: longest, the weights are forgotten, and three rows
# says: longest = 196608: The weights are there first, and there are four rows.
# earns: 0.86 of 1
answers = TRUE | {"longest": 196608}


# %% wrong: longest, 10**9 bytes
# says: longest = 15258: 1 GiB is 2**30 bytes, not 10**9.
# earns: 0.86 of 1
answers = TRUE | {"longest": 8 * 10**9 // (4 * 131072)}


# %% wrong: longest, 32 heads
# says: longest = 4096: The cache holds the 8 key-value heads.
# earns: 0.86 of 1
answers = TRUE | {"longest": 4096}


# %% wrong: longest, the values are forgotten
# says: longest = 32768: Keys and values are stored: that is twice as much.
# earns: 0.86 of 1
answers = TRUE | {"longest": 32768}


# %% wrong: longest, four bytes a number
# says: longest = 8192: In bfloat16 a number takes two bytes, not four.
# earns: 0.86 of 1
answers = TRUE | {"longest": 8192}


# %% wrong: longest, one layer
# says: longest = 524288: Every one of the 32 layers has a cache of its own.
# earns: 0.86 of 1
answers = TRUE | {"longest": 16384 * 32}


# %% wrong: longest, a round number
# says: longest = 16000: Divide the 8 GiB that are left
# earns: 0.86 of 1
answers = TRUE | {"longest": 16000}


# %% wrong: scores, eight heads
# says: scores = 1073741824: Each of the 32 query heads has scores of its own, although they share keys.
# earns: 0.86 of 1
# lesson
answers = TRUE | {"scores": 1073741824}


# %% wrong: scores, the size of the queries
# says: scores = 67108864: That is the size of the queries. A score belongs to a pair of positions.
# earns: 0.86 of 1
# lesson
answers = TRUE | {"scores": 67108864}


# %% wrong: scores, one query
# says: scores = 524288: A score belongs to a pair of positions: 8,192 times 8,192 for each head.
# earns: 0.86 of 1
answers = TRUE | {"scores": 32 * 8192 * 2}


# %% wrong: scores, four bytes a number
# says: scores = 8589934592: In bfloat16 a number takes two bytes, not four.
# earns: 0.86 of 1
answers = TRUE | {"scores": 32 * 8192 * 8192 * 4}


# %% wrong: scores, the lower half
# says: scores = 2147483648: That is half of it: a number takes two bytes
# earns: 0.86 of 1
answers = TRUE | {"scores": 32 * 8192 * 8192}


# %% wrong: scores, one head
# says: scores = 134217728: That is one head.
# earns: 0.86 of 1
answers = TRUE | {"scores": 8192 * 8192 * 2}


# %% wrong: scores, all layers
# says: scores = 137438953472: The question is about the scores of one layer.
# earns: 0.86 of 1
answers = TRUE | {"scores": 32 * 32 * 8192 * 8192 * 2}


# %% wrong: scores, 128 numbers a pair
# says: scores = 549755813888: A score is one number for each pair
# earns: 0.86 of 1
answers = TRUE | {"scores": 32 * 8192 * 8192 * 128 * 2}


# %% wrong: scores, three bytes
# says: scores = 6442450944: Multiply: query heads
# earns: 0.86 of 1
answers = TRUE | {"scores": 32 * 8192 * 8192 * 3}


# %% wrong: ring, all positions
# says: ring = 1073741824: A key that no query will see any more needs no memory
# earns: 0.86 of 1
# lesson
answers = TRUE | {"ring": 1073741824}


# %% wrong: ring, its own beside the 1,024
# says: ring = 134348800: The position of the query itself is one of the 1,024
# earns: 0.86 of 1
answers = TRUE | {"ring": 2 * 32 * 8 * 128 * 1025 * 2}


# %% wrong: ring, one too few
# says: ring = 134086656: 1,024 positions must be there when a query looks
# earns: 0.86 of 1
answers = TRUE | {"ring": 2 * 32 * 8 * 128 * 1023 * 2}


# %% wrong: ring, the values are forgotten
# says: ring = 67108864: Keys and values are stored: that is twice as much.
# earns: 0.86 of 1
answers = TRUE | {"ring": 32 * 8 * 128 * 1024 * 2}


# %% wrong: ring, one layer
# says: ring = 4194304: Every one of the 32 layers has a cache of its own.
# earns: 0.86 of 1
answers = TRUE | {"ring": 2 * 8 * 128 * 1024 * 2}


# %% wrong: ring, 32 heads
# says: ring = 536870912: The cache holds the 8 key-value heads.
# earns: 0.86 of 1
answers = TRUE | {"ring": 2 * 32 * 32 * 128 * 1024 * 2}


# %% wrong: ring, four bytes a number
# says: ring = 268435456: In bfloat16 a number takes two bytes, not four.
# earns: 0.86 of 1
answers = TRUE | {"ring": 2 * 32 * 8 * 128 * 1024 * 4}


# %% wrong: ring, five times too much
# says: ring = 671088640: The same product as for `gqa`, with 1,024 positions in each layer.
# earns: 0.86 of 1
answers = TRUE | {"ring": 5 * 2 * 32 * 8 * 128 * 1024 * 2}


# %% wrong: cat, what is new
# says: cat = 1000: That is only what is new.
# earns: 0.86 of 1
# lesson
answers = TRUE | {"cat": 1000}


# %% wrong: cat, 1,000 at each step
# says: cat = 1000000: At step n the result has n positions, not 1,000
# earns: 0.86 of 1
# lesson
answers = TRUE | {"cat": 1000000}


# %% wrong: cat, keys and values
# says: cat = 1001000: A position counts once here for its key and value together.
# earns: 0.86 of 1
answers = TRUE | {"cat": 1001000}


# %% wrong: cat, the old ones
# says: cat = 499500: Those are the old positions alone.
# earns: 0.86 of 1
answers = TRUE | {"cat": 499500}


# %% wrong: cat, half of the square
# says: cat = 500000: Half of 1,000² is close
# earns: 0.86 of 1
answers = TRUE | {"cat": 500000}


# %% wrong: cat, a logarithm
# says: cat = 9966: torch.cat writes everything that is stored and the new position, at every step
# earns: 0.86 of 1
answers = TRUE | {"cat": 9966}


# %% wrong: one item left as ...
# says: cat = ...: There is no prediction yet
# earns: 0.86 of 1
answers = TRUE | {"cat": ...}


# %% wrong: nothing right
# says: None of the items is right yet.
# earns: 0 of 1
answers = dict.fromkeys(TRUE, 7)


# %% wrong: text in place of numbers
# says: one_token = '131072': One position takes the 8,192nd part of what 8,192 take.
# earns: 0.86 of 1
answers = TRUE | {"one_token": "131072"}
