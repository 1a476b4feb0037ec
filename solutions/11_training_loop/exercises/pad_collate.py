# %% [markdown]
# ### Exercise 11.4 · Batches of sequences of different length
#
# implement · solid · 15 min · 2 points
#
# Sentences and recordings differ in length, and the default collate function can't stack them. Write a collate function
# that pads them to a common length and says which steps are real.
#
# **Contract**
#
# - Each sample is a pair (sequence of shape (T_i, ...), label). Return a dict with exactly these tensors: `x` (N, T,
#   ...), where T is the longest length in the batch; `mask` (N, T), bool; `length` (N,), int64; `label` (N,), int64.
# - In each row of `x` the real steps come first, and the rest is `pad_value`. `mask` is True on real steps, even if the
#   data equal `pad_value` there. `x` has the dtype of the samples: int64 stays int64.
# - Some or all sequences may have length 0. The samples are not changed, and the result shares no memory with them.
# - Raise ValueError for an empty batch, and if samples differ in dtype or in a dimension other than the first.
#
# <details><summary>Hint 1</summary>
#
# Can you tell afterwards which zeros are padding? What dtype does `torch.zeros` have?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# Start with the lengths. Then make a tensor of the final shape, full of `pad_value` and with the dtype of the samples,
# and write each sequence into its row. The mask depends only on the lengths.
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# A method of the first sequence, `new_full`, makes the padded tensor with the right dtype. Copy the sequences into it
# row by row. For the mask, compare the step numbers 0 … T - 1 with the lengths, and let broadcasting turn the
# comparison into an (N, T) table.
#
# </details>


# %% answer="pad-collate"
def pad_collate(batch: list[tuple[Tensor, int]], pad_value: float = 0) -> dict[str, Tensor]:
    """A padded batch: x (N, T, ...), mask (N, T) bool, length and label (N,) int64."""
    ### BEGIN SOLUTION
    if not batch:
        raise ValueError("an empty batch")
    sequences = [sequence for sequence, _ in batch]
    first = sequences[0]
    if any(s.shape[1:] != first.shape[1:] or s.dtype != first.dtype for s in sequences):
        raise ValueError("the samples differ in dtype or in a dimension other than the first")
    length = torch.tensor([len(sequence) for sequence in sequences])
    longest = int(length.max())
    x = first.new_full((len(batch), longest, *first.shape[1:]), pad_value)
    for row, sequence in zip(x, sequences, strict=True):
        row[: len(sequence)] = sequence
    label = torch.tensor([label for _, label in batch])
    mask = torch.arange(longest) < length[:, None]
    return {"x": x, "mask": mask, "length": length, "label": label}
    ### END SOLUTION


# %% helpers="pad-collate"
def padded(batch, pad_value=0):
    """The batch as it should be, number by number."""
    sequences, labels = zip(*batch, strict=True)
    longest = max(len(s) for s in sequences)
    x = torch.empty(len(batch), longest, *sequences[0].shape[1:], dtype=sequences[0].dtype)
    mask = torch.empty(len(batch), longest, dtype=torch.bool)
    for n, sequence in enumerate(sequences):
        for t in range(longest):
            x[n, t] = sequence[t] if t < len(sequence) else pad_value
            mask[n, t] = t < len(sequence)
    lengths = torch.tensor([len(s) for s in sequences])
    return {"x": x, "mask": mask, "length": lengths, "label": torch.tensor(labels)}


def same(a, b):
    """Whether two tensors have the same shape and values."""
    close = isinstance(a, Tensor) and a.shape == b.shape
    return close and bool(((a == b) | ((a != a) & (b != b))).all())


def moved(wanted):
    """The batch with the padding in front."""
    return torch.stack([x[m.argsort(stable=True)] for x, m in zip(wanted["x"], wanted["mask"], strict=True)])


def part(seen, key):
    """A part of the result, or None."""
    return seen.value.get(key) if isinstance(seen.value, dict) else None


def mistakes_for(wanted, pad_value):
    """What may be wrong, for a batch as it should be."""
    x, mask = wanted["x"], wanted["mask"]
    from_values = x != pad_value
    while from_values.dim() > 2:
        from_values = from_values.any(-1)
    return (
        mistake(
            "Return a dict with exactly x, mask, length and label: {detail}.",
            when=lambda seen: not isinstance(seen.value, dict) or set(seen.value) != set(wanted),
        ),
        mistake(
            "The sequences still differ in shape after padding, so they can't be stacked: time is their FIRST "
            "dimension, and F.pad begins with the last one. ({detail})",
            raises="stack expects each tensor to be equal size",
        ),
        mistake(
            "The mask must be True on real steps.",
            when=lambda seen: bool(mask.any()) and same(part(seen, "mask"), ~mask),
        ),
        mistake(
            "You computed the mask from the values (x != pad_value), but real data may contain that value. "
            "Compute it from the lengths.",
            when=lambda seen: same(part(seen, "mask"), from_values) and not same(from_values, mask),
        ),
        mistake(
            "The mask has one value per step, not one per number. Compute it from the lengths.",
            when=lambda seen: part(seen, "mask").shape == x.shape != mask.shape,
        ),
        mistake(
            "The mask must be a bool tensor of shape (N, T).",
            when=lambda seen: part(seen, "mask").dtype != torch.bool or part(seen, "mask").shape != mask.shape,
            stage=("dtype", "type"),
        ),
        mistake(
            "The dtype changed, because torch.zeros makes float32. Use new_full or new_zeros of a sample.",
            when=lambda seen: part(seen, "x").dtype != x.dtype,
            stage="dtype",
        ),
        mistake(
            "You cut the sequences to the length of the shortest.",
            when=lambda seen: same(part(seen, "x"), x[:, : wanted["length"].min()]) and not mask.all(),
        ),
        mistake(
            "Real steps must come first, and the padding after them.",
            when=lambda seen: same(part(seen, "x"), moved(wanted)) and not same(moved(wanted), x),
        ),
        mistake(
            "Time comes first; x is (N, T, ...), one row for each sample.",
            when=lambda seen: same(part(seen, "x"), x.transpose(0, 1)),
        ),
        mistake(
            "The samples are in a different order. Row i of every tensor belongs to sample i of the batch.",
            when=lambda seen: (
                same(part(seen, "length").sort().values, wanted["length"].sort().values)
                and not same(part(seen, "length"), wanted["length"])
            ),
            stage="value",
        ),
        mistake(
            "The padding is not pad_value.",
            when=lambda seen: (
                part(seen, "x").shape == x.shape
                and same(part(seen, "x")[mask], x[mask])
                and not same(part(seen, "x"), x)
            ),
            stage="value",
        ),
        mistake(
            "The mask of row i must be True on its first length[i] steps, and only there.",
            when=lambda seen: same(part(seen, "x"), x) and not same(part(seen, "mask"), mask),
            stage="value",
        ),
        mistake(
            "Lengths and labels must be int64 tensors of shape (N,).",
            when=lambda seen: any(
                not isinstance(part(seen, key), Tensor)
                or part(seen, key).dtype != torch.int64
                or part(seen, key).shape != wanted[key].shape
                for key in ("length", "label")
            ),
        ),
    )


def sequence(length, *rest, dtype=torch.float32, start=1):
    """Numbers from start on, none of them 0."""
    count = torch.Size((length, *rest)).numel()
    return torch.arange(start, start + count).reshape(length, *rest).to(dtype)


def judge_batch(batch, *mistakes, **options):
    """The result is the padded batch; returns what was seen."""
    wanted = padded(batch, **options)
    seen = observe(pad_collate, batch, **options)
    seen.expecting(*mistakes, *mistakes_for(wanted, options.get("pad_value", 0)))
    return seen.returns(wanted)


# %% check="pad-collate" points=1
"""Padding, mask, lengths and labels; the mask comes from the lengths."""
with check("pad-collate") as test:
    test("three lengths, two features for each step")
    judge_batch([(sequence(3, 2), 1), (sequence(5, 2, start=20), 0), (sequence(2, 2, start=50), 2)])

    test("token ids, another pad value")
    ids = [sequence(2, dtype=torch.int64), sequence(4, dtype=torch.int64, start=7)]
    judge_batch([(ids[0], 3), (ids[1], -1)], pad_value=-100)
    judge_batch([(ids[1], 3), (ids[0], 5)])

    test("real steps that equal the pad value")
    judge_batch([(torch.tensor([4, 0, 0]), 0), (torch.tensor([0, 9, 7, 0, 0]), 1)])
    judge_batch([(torch.tensor([[1.0, 1.0], [2.0, 1.0]]), 0), (torch.tensor([[1.0, 1.0]]), 1)], pad_value=1.0)


# %% check="pad-collate" points=1
"""Nothing is changed or shared; length 0, one length, large ids, other dtypes; which inputs raise."""
with check("pad-collate") as test:
    shares = "The result shares memory with a sample, or a sample was changed."

    def judge(batch, *mistakes, **options):
        """The result is the padded batch; the samples are as before, in memory of their own."""
        seen = judge_batch(batch, *mistakes, **options)
        seen.leaves_arguments_alone(because=shares)
        samples = [sequence.untyped_storage()._cdata for sequence, _ in next(iter(seen.noted.arguments.values()))]
        own = seen.value["x"].untyped_storage()._cdata not in samples or not seen.value["x"].numel()
        seen.that(own, shares, stage="aliasing")

    test("the samples stay as they are, and keep their memory to themselves")
    judge([(sequence(2, 3), 1), (sequence(4, 3, start=30), 0), (sequence(1, 3, start=60), 2)])

    ### BEGIN HIDDEN TESTS
    test.hidden("one number for each step")
    one_dimension = "A step may be a single number, so that a sequence is (T,), or a tensor of any shape: {detail}."
    judge([(sequence(2), 1), (sequence(3, start=10), 0)], mistake(one_dimension, stage=("raised", "shape")))

    allowed = mistake("A sequence of length 0 must be allowed.", stage=("raised", "shape"))
    test.hidden("sequences of length 0")
    judge([(sequence(0, 3), 1), (sequence(2, 3), 0)], allowed)
    judge([(sequence(2), 1), (sequence(0), 0), (sequence(1), 5)], allowed, pad_value=-1)
    judge([(sequence(0, 3), 1), (sequence(0, 3), 0)], allowed)
    judge([(sequence(0, dtype=torch.int64), 4)], allowed)

    test.hidden("a single sample, samples of one length: memory of their own")
    judge([(sequence(3, 2), 7)])
    judge([(sequence(4, dtype=torch.int64), 2)], pad_value=9)
    judge([(sequence(3, 2), 0), (sequence(3, 2, start=10), 1)])

    test.hidden("other dtypes and more dimensions")
    judge([(sequence(2, 2, 3, dtype=torch.float64), 0), (sequence(1, 2, 3, dtype=torch.float64), 1)], pad_value=-0.1)
    judge([(torch.tensor([True, False, True]), 0), (torch.tensor([True]), 1)])
    judge([(torch.tensor([False, True, False]), 0), (torch.tensor([False]), 1)], pad_value=True)
    judge([(sequence(1, 2, dtype=torch.uint8), 0), (sequence(3, 2, dtype=torch.uint8), 2**40)], pad_value=255)
    judge([(sequence(2, dtype=torch.bfloat16), 0), (sequence(1, dtype=torch.bfloat16), 1)], pad_value=torch.inf)
    judge([(sequence(1), 0), (sequence(2), 1)], pad_value=torch.nan)
    judge([(sequence(5, 3).t(), 0), (sequence(8, 5)[::4], 1)])
    judge([(sequence(2, 0), 0), (sequence(3, 0), 1)])

    test.hidden("ids that float32 cannot hold")
    digits = mistake(
        "The ids went through float32 and lost their last digit. Make x in the dtype of the samples.", stage="value"
    )
    judge([(torch.tensor([16777217, 3, 5]), 0), (torch.tensor([33554435]), 1)], digits, pad_value=16777219)

    invalid = "An empty batch, different trailing dimensions or different dtypes must raise ValueError."
    for idea, parts in [
        ("an empty batch", []),
        ("trailing dimensions that differ", [sequence(3, 2), sequence(2, 4)]),
        ("trailing dimensions that differ", [sequence(3, 2), sequence(2, 1)]),
        ("trailing dimensions that differ", [sequence(2, 1), sequence(3, 2)]),
        ("trailing dimensions that differ", [sequence(2, 3), sequence(2, 3), sequence(2)]),
        ("trailing dimensions that differ", [sequence(3), sequence(2, 3)]),
        ("trailing dimensions that differ", [sequence(3), sequence(3, 1)]),
        ("trailing dimensions that differ", [sequence(2, 2, 3), sequence(2, 1, 3)]),
        ("trailing dimensions that differ", [sequence(2, 2, 3), sequence(2, 2, 1)]),
        ("trailing dimensions that differ", [sequence(2, 3, 2), sequence(2, 2, 3)]),
        ("trailing dimensions that differ", [sequence(0, 5), sequence(3, 2)]),
        ("dtypes that differ", [sequence(3), sequence(2, dtype=torch.int64)]),
        ("dtypes that differ", [sequence(3, dtype=torch.int64), sequence(2, dtype=torch.int64), sequence(1)]),
        ("dtypes that differ", [sequence(3), sequence(2, dtype=torch.float64)]),
        ("dtypes that differ", [sequence(3), sequence(0, dtype=torch.float64)]),
    ]:
        test.hidden(idea)
        seen = observe(pad_collate, [(part, n) for n, part in enumerate(parts)])
        seen.raises(ValueError, because=invalid)

    def loaded(pad_collate, samples, batch_size):
        """Let a DataLoader collate these samples."""
        return list(DataLoader(samples, batch_size=batch_size, collate_fn=pad_collate))

    test.hidden("through a DataLoader")
    samples = [(sequence(n, 2, start=10 * n + 1), n) for n in (3, 1, 4, 2, 5)]
    seen = observe_scenario(loaded, pad_collate, samples, 2)
    seen.returns([padded(samples[:2]), padded(samples[2:4]), padded(samples[4:])])
    ### END HIDDEN TESTS
