# %% [markdown]
# ### Exercise 2.5 · One row kept, the whole batch alive
#
# measure · solid · 12 min · 2 points
#
# This cache should store 4 KiB per batch, and yet it fills the memory:
#
#     cache = []
#     for batch in loader:                       # batch: (4096, 1024) float32, 16 MiB
#         cache.append(batch[:1].contiguous())   # "4 KiB each", and yet 16 MiB more with every batch
#
# Write the instrument that shows it, and the fix.
#
# **Contract**
#
# - `bytes_kept(*tensors)` is the total size in bytes of all *distinct storages* behind the tensors (0 for no tensors).
#   Views of one storage count once, even if they begin at different places. Use `untyped_storage()`, not the deprecated
#   `storage()`.
# - `compact(t)` is t itself if its storage has at most t.numel() * t.element_size() bytes, otherwise a tensor with
#   equal shape, dtype and values whose storage is no larger than that. The result stays in the autograd graph.
# - Neither function changes its arguments. The tensors are on the CPU, in memory that PyTorch allocated.
#
# <details><summary>Hint 1</summary>
#
# `batch[:1]` is already contiguous. What does contiguous() return then, and which storage does that use?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# A tensor's `untyped_storage()` has an address, `data_ptr()`, and a size, `nbytes()`. All views of one storage give the
# same address there, wherever they begin. How do you count each address once? And which method of section 2.2 always
# copies?
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# Put the sizes in a dict whose keys are the storages' addresses, and sum its values. To compact, compare the size of
# the storage in bytes with what the elements alone would take. If the storage is larger, return a copy of t, else t
# itself.
#
# </details>


# %% answer="bytes-kept-alive"
def bytes_kept(*tensors: Tensor) -> int:
    """The bytes that these tensors keep alive: the sizes of their distinct storages, summed."""
    ### BEGIN SOLUTION
    storages = [tensor.untyped_storage() for tensor in tensors]
    return sum({storage.data_ptr(): storage.nbytes() for storage in storages}.values())
    ### END SOLUTION


def compact(t: Tensor) -> Tensor:
    """t itself, or a tight copy where its storage holds more bytes than its elements need."""
    ### BEGIN SOLUTION
    return t.clone() if t.untyped_storage().nbytes() > t.numel() * t.element_size() else t
    ### END SOLUTION


# %% check="bytes-kept-alive" points=1
"""bytes_kept: the sizes of the distinct storages, in bytes."""
with check("bytes-kept-alive") as test:
    test("bytes_kept: pieces of a (64, 32) float32 batch, which has 8192 bytes")

    def measured(bytes_kept, batch, other, third):
        """What bytes_kept says of several sets of tensors."""
        return {
            "one row": bytes_kept(batch[:1]),
            "two pieces": bytes_kept(batch[:1], batch[10:13]),
            "two pieces that begin alike": bytes_kept(batch[:1], batch[:4]),
            "one tensor twice": bytes_kept(batch, batch),
            "two batches": bytes_kept(batch[:1], other),
            "two batches of one size": bytes_kept(batch, third[3:5]),
        }

    batches = torch.ones(64, 32), torch.ones(16, 32), torch.ones(64, 32)
    seen = observe_scenario(measured, bytes_kept, *batches).expecting(
        mistake("Asked for are bytes, not elements.", when=lambda seen: seen["one row"] in (32, 2048)),
        mistake(
            "You counted the elements of the tensors. A view of one row keeps the whole storage alive.",
            when=lambda seen: seen["one row"] == 128,
        ),
        mistake(
            "You told views of one storage apart by where they begin. A tensor's data_ptr() and storage_offset() "
            "belong to the *view*; only the storage counts, and its address is `untyped_storage().data_ptr()`.",
            when=lambda seen: seen["two pieces"] == 16384 and seen["two pieces that begin alike"] == 8192,
        ),
        mistake(
            "Two tensor objects can share one storage: distinct tensors is not distinct storages.",
            when=lambda seen: seen["two pieces that begin alike"] == 16384 and seen["one tensor twice"] == 8192,
        ),
        mistake(
            "A storage shared by several of the tensors was counted more than once.",
            when=lambda seen: seen["two pieces"] == 16384 and seen["one tensor twice"] == 16384,
        ),
        mistake(
            "Two storages of the same size are still two storages.",
            when=lambda seen: seen["two batches"] == 10240 and seen["two batches of one size"] == 8192,
        ),
    )
    seen.expecting(
        mistake(
            "Your function returned the largest storage, but it must add up all storages.",
            when=lambda seen: seen["two batches"] == 8192,
        )
    ).returns(
        {
            "one row": 8192,
            "two pieces": 8192,
            "two pieces that begin alike": 8192,
            "one tensor twice": 8192,
            "two batches": 8192 + 2048,
            "two batches of one size": 2 * 8192,
        }
    )
    seen.leaves_arguments_alone()
    deprecated = "Tensor.storage() is deprecated (TypedStorage): use untyped_storage()."
    seen.avoided("storage", because=deprecated)
    seen.warned_nothing()

    ### BEGIN HIDDEN TESTS
    numbers = torch.arange(12.0).reshape(4, 3)
    advice = [
        mistake("Without tensors the answer is 0: {detail}.", stage="raised", when=lambda seen: not seen.args),
        mistake(
            "The data_ptr() of a tensor without elements is 0, which doesn't tell where its storage begins. "
            "`untyped_storage().data_ptr()` does.",
            when=lambda seen: any(not t.numel() for t in seen.args) and seen.value == 96,
        ),
        mistake(
            "An element does not always have four bytes: a storage's nbytes() says its size in bytes.",
            when=lambda seen: seen.value == 4 * sum(len(t.untyped_storage()) // t.element_size() for t in seen.args),
        ),
        mistake(
            "A storage that is seen as two dtypes is still one storage: count it once.",
            when=lambda seen: len({t.dtype for t in seen.args}) > 1 and seen.value == 96,
        ),
    ]
    for idea, tensors, size in [
        ("no tensor at all", (), 0),
        ("a transposed tensor", (numbers.t(),), 48),
        ("an expanded row", (torch.ones(1, 3).expand(5, 3),), 12),
        ("an empty tensor", (torch.empty(0, 3),), 0),
        ("an empty slice", (numbers[:0],), 48),
        ("a tensor and an empty slice of it", (numbers, numbers[2:2]), 48),
        ("0-d tensors", (numbers[2, 1], torch.tensor(1.0, dtype=torch.float64)), 48 + 8),
        ("int8 and complex", (torch.ones(5, dtype=torch.int8), torch.ones(3, dtype=torch.complex64)), 5 + 24),
        ("the same bytes as another dtype", (numbers, numbers.view(torch.int16)), 48),
        (
            "three views of one tensor, two of another",
            (numbers[1:], batches[1], numbers, batches[1][2:], numbers[2]),
            2096,
        ),
        ("tensors that require grad", (torch.ones(4, requires_grad=True), torch.ones(2, requires_grad=True)), 24),
    ]:
        test.hidden("bytes_kept: " + idea)
        seen = observe(bytes_kept, *tensors)
        seen.returns(size, *advice)
        seen.leaves_arguments_alone()
        seen.avoided("storage", because=deprecated)
    ### END HIDDEN TESTS

# %% check="bytes-kept-alive" points=1
"""compact: a copy with a small storage where that saves memory, else t itself; gradients pass."""
with check("bytes-kept-alive") as test:

    def report(compact, t):
        """What compact returns, and whether that is t itself."""
        result = compact(t)
        return {"result": result, "is t": result is t}

    def first_row(compact, batch):
        """Compact a view of one row."""
        return report(compact, batch[:1])

    def whole_batch(compact, batch):
        """Compact a tensor that fills its storage."""
        return report(compact, batch)

    keep_equal = mistake(
        "The result of compact must keep shape, dtype and values: {detail}", stage=("type", "shape", "dtype")
    )
    nothing_to_gain = mistake(
        "Nothing to gain here: the tensor already fills its storage (or is smaller than a copy would be), "
        "return it as it is.",
        when=lambda seen: seen["is t"] is False,
    )
    batch = torch.arange(64 * 32).reshape(64, 32) / 7

    test("compact: one row of a (64, 32) batch needs 128 bytes")
    seen = observe_scenario(first_row, compact, batch).expecting(
        keep_equal,
        mistake(
            "You gave the caller's tensor another storage and returned that tensor. compact must not change its "
            "argument: return a copy.",
            when=lambda seen: seen["is t"] and seen["result"].untyped_storage().nbytes() <= 128,
        ),
        mistake(
            "contiguous() returns the same tensor when it is contiguous already, whole storage and all: "
            "that does not free anything. Copy explicitly (clone).",
            when=lambda seen: seen["is t"] and "contiguous" in seen.op_names(),
        ),
        mistake(
            "The row itself came back, and with it the whole storage. A copy is needed here.",
            when=lambda seen: seen["is t"],
        ),
    )
    seen.returns(
        {"result": batch[:1], "is t": False},
        because="The result of compact must keep shape, dtype and values: {detail}",
    )
    still = seen["result"].untyped_storage().nbytes()
    seen.that(still <= 128, f"The compacted tensor still keeps {still} bytes alive.", stage="aliasing")
    seen.leaves_arguments_alone()

    test("compact: the whole batch comes back as it is")
    seen = observe_scenario(whole_batch, compact, batch)
    seen.returns({"result": batch, "is t": True}, keep_equal, nothing_to_gain)
    seen.leaves_arguments_alone()

    ### BEGIN HIDDEN TESTS
    def parts_of(batch):
        """Views of a (64, 32) batch and tensors made from it, by what they are."""
        return {
            "three columns": batch[:, :3],
            "a row that was detached": batch[:1].detach(),
            "a row of columns that are apart": batch[5, ::4],
            "all but the first element": batch.flatten()[1:],
            "an empty slice": batch[:0],
            "a single element": batch[3, 4],
            "a short expanded row of a large batch": batch[:1].expand(5, 32),
            "a single float64 element": batch.double()[3, 4],
            "int8 rows": batch.to(torch.int8)[2:],
            "a row of bools": (batch > 100)[30:31],
            "all but the first of the int8 elements": batch.to(torch.int8).flatten()[1:],
            "complex numbers, every other one": torch.complex(batch, -batch)[::2],
            "a transposed batch": batch.t(),
            "a batch seen as four, permuted": batch.view(4, 16, 32).permute(2, 0, 1),
            "a row expanded a thousand times": batch[:1].expand(1000, 32),
            "a column expanded, with a storage of its own": batch[:, :1].clone().expand(64, 2),
            "a 0-d tensor": batch.sum(),
        }

    def compact_part(compact, batch, name):
        """Compact one of the parts."""
        return report(compact, parts_of(batch)[name])

    keep_expanded = mistake(
        "The expanded tensor needs fewer bytes than its copy would: return it as it is.",
        when=lambda seen: seen["is t"] is False,
    )
    copy_here = mistake(
        "t itself came back, though its storage is larger than its elements need: copy here.",
        when=lambda seen: seen["is t"] is True,
    )
    for name, part in parts_of(batch).items():
        test.hidden(f"compact: {name}")
        became_int = mistake(
            "Your copy of a bool tensor is int64: arithmetic such as `t * 1` or `t + 0` makes numbers of bools. "
            "`clone` copies every dtype as it is.",
            stage="dtype",
            when=lambda seen, part=part: part.dtype == torch.bool and seen["result"].dtype == torch.int64,
        )
        room = part.numel() * part.element_size()
        fills = part.untyped_storage().nbytes() <= room
        advice = copy_here if not fills else keep_expanded if "expanded" in name else nothing_to_gain
        seen = observe_scenario(compact_part, compact, batch, name)
        seen.returns({"result": part, "is t": fills}, became_int, keep_equal, advice)
        still = seen["result"].untyped_storage().nbytes()
        seen.that(still <= room, "The compacted tensor still keeps more bytes alive than it needs.", stage="aliasing")
        seen.leaves_arguments_alone()

    def again(compact, batch):
        """Compact a row, write zeros into the batch, and compact the row once more."""
        return {"first": compact(batch[:1]), "second": compact(batch.zero_()[:1])}

    test.hidden("compact: a row again, after a write")
    observe_scenario(again, compact, batch).returns(
        {"first": batch[:1], "second": torch.zeros(1, 32)},
        mistake(
            "The second call returned the copy of the first, though the batch has other values now. Copy in each call.",
            stage="value",
            when=lambda seen: torch.equal(seen["second"], batch[:1]),
        ),
    )

    left = "The copy left the autograd graph: clone keeps it, detach / torch.tensor do not."
    for idea, part in [
        ("compact: gradients pass through", batch[:2]),
        ("compact: the gradient of a single element passes through", batch[3, 4]),
    ]:
        test.hidden(idea)
        seen = observe(compact, part.requires_grad_()).expecting(
            mistake(left, stage="gradient", when=lambda seen: seen.gradient(0) is None),
            mistake(left, raises="requires grad"),
        )
        seen.gives_gradients(lambda t: t * 1.0)
    ### END HIDDEN TESTS
