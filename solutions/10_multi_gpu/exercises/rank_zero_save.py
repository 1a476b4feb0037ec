# %% [markdown]
# ### Exercise 10.6 · Save once, load everywhere
#
# fix · solid · 15 min · 1 point
#
# Two ranks write one file at the same time, and a third may read it half-written. Fix the saving so that it is safe,
# even if the disk is full.
#
# **Contract**
#
# - The function is called on every rank with the same path. Only rank 0 writes the bare model's state_dict, without
#   "module." in front of its keys.
# - Every rank returns what it has loaded from the file, and never loads before rank 0 has finished writing. An older
#   file at the path must not be mistaken for the new one.
# - If writing raises any Exception on rank 0, *every* rank raises: rank 0 this exception, the others RuntimeError. No
#   rank hangs.
#
# **Rule.** torch.save is called on rank 0 only.
#
# In Exercise 7.9 you saved a whole run in such a way that the file is never half-written.
#
# <details><summary>Hint 1</summary>
#
# How does rank 1 know that the file is complete? And how does it know that there will be no file?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# A barrier says when rank 0 is done, but not whether it has succeeded. What could rank 0 send that says both? And where
# must this call be, so that rank 0 also reaches it after an error?
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# Rank 0 saves inside `try` and keeps the exception. Then all ranks call one collective in which rank 0 broadcasts an
# object: None, or the text of the error. Because every rank waits for it, this is also the barrier. After it each rank
# raises or loads.
#
# </details>


# %% answer="rank-zero-save"
def save_and_reload(ddp: DistributedDataParallel, path: str) -> dict[str, Tensor]:
    """Save the wrapped model once; return, on every rank, the state_dict loaded from the file."""
    ### BEGIN SOLUTION
    error = None
    if dist.get_rank() == 0:
        try:
            torch.save(ddp.module.state_dict(), path)
        except Exception as caught:
            error = caught
    status = [None if error is None else f"{type(error).__name__}: {error}"]
    dist.broadcast_object_list(status, src=0)
    if error is not None:
        raise error
    if status[0] is not None:
        raise RuntimeError(f"rank 0 could not save: {status[0]}")
    return torch.load(path, weights_only=True)
    ### END SOLUTION
    ### BEGIN GIVEN
    # raise NotImplementedError  # fix the code below, then delete this line
    #
    # torch.save(ddp.state_dict(), path)  # every rank writes the same file
    # return torch.load(path)  # … while another may still be writing
    ### END GIVEN


# %% helpers="rank-zero-save"
def model(shift, names=("0", "1")):
    """A small model with layers of these names; shift tells one from another."""
    net = nn.Sequential()
    for name, layer in zip(names, (nn.Linear(3, 2), nn.BatchNorm1d(2)), strict=True):
        net.add_module(name, layer)
    with torch.no_grad():
        for k, parameter in enumerate(net.parameters()):
            parameter.copy_((torch.arange(parameter.numel()) * 5 % 7 / 4 + k + shift).reshape(parameter.shape))
    return net


def note_collectives(folder, rank):
    """Note each call of a collective; of other ranks than 0 only those that wait until rank 0 makes it, too."""

    def noting(call):
        def collective(*args, **kwargs):
            with contextlib.suppress(TypeError):  # the call itself tells what is wrong with its arguments
                asked = inspect.signature(call).bind(*args, **kwargs).arguments
                if rank == 0 or not any(asked.get(name) for name in ("src", "group", "group_src", "async_op")):
                    with open(os.path.join(folder, f"calls of {rank}"), "a") as file:
                        file.write(".")
            return call(*args, **kwargs)

        return collective

    for name in ("barrier", "all_reduce", "broadcast", "all_gather", "all_gather_object", "broadcast_object_list"):
        setattr(dist, name, noting(getattr(dist, name)))


def be_slow(folder, world):
    """Give the other ranks time to come too early; less where all of them wait for rank 0 in a collective."""

    def calls(rank):
        path = os.path.join(folder, f"calls of {rank}")
        return os.path.getsize(path) if os.path.exists(path) else 0

    until = time.monotonic() + 0.4
    while time.monotonic() < until and any(calls(rank) <= calls(0) for rank in range(1, world)):
        time.sleep(0.01)


def saved(save, world, is_full, is_old, names=("0", "1"), then_a_folder=False):
    """What each rank got, who wrote and read when; on a full disk saving fails, and an old file may be there.

    then_a_folder: afterwards the model is saved to the path of a folder, where nobody can write.
    """
    with tempfile.TemporaryDirectory() as folder:
        path, taken = os.path.join(folder, "model.pt"), os.path.join(folder, "taken")
        os.mkdir(taken)
        if is_old:
            torch.save(model(9.0).state_dict(), path)

        def on_rank(rank, world):
            noted = {"writes": 0, "reads": 0, "early": False}
            write, read, done = torch.save, torch.load, os.path.join(folder, "done")
            storages = (torch.UntypedStorage, torch.TypedStorage)

            def slow_save(content, target, *args, **kwargs):
                if isinstance(content, storages):  # a tensor that is sent as an object
                    return write(content, target, *args, **kwargs)
                noted["writes"] += 1
                if is_full == "can't be pickled":
                    raise TypeError("cannot pickle '_thread.lock' object")
                if is_full:
                    raise OSError(28, "No space left on device")
                if rank == 0:
                    be_slow(folder, world)
                write(content, target, *args, **kwargs)
                if rank == 0:
                    with open(done, "w"):
                        pass

            def noting_load(source, *args, **kwargs):
                early = not os.path.exists(done)
                content = read(source, *args, **kwargs)
                if not isinstance(content, storages):
                    noted["reads"] += 1
                    noted["early"] = noted["early"] or early
                return content

            torch.save, torch.load = slow_save, noting_load
            ddp = DistributedDataParallel(model(0.5, names))
            note_collectives(folder, rank)
            try:
                got = save(ddp, path)
            except Exception as error:
                if not is_full or isinstance(error, NotImplementedError):
                    raise
                noted["raised"] = [kind.__name__ for kind in type(error).__mro__]
                got = None
            finally:
                torch.save, torch.load = write, read
            bare = None
            if rank == 0 and os.path.exists(path):
                try:
                    bare = list(read(path, weights_only=True))
                except Exception:  # something else than tensors
                    bare = ["not a state_dict"]
            state = None
            if isinstance(got, dict):
                state = {str(key): value if isinstance(value, Tensor) else None for key, value in got.items()}
            facts = noted | {"got": state, "in file": bare, "refused": True}
            if then_a_folder:
                with contextlib.suppress(Exception):
                    save(ddp, taken)
                    facts["refused"] = False
            return facts

        return run_on_ranks(on_rank, world=world, stall=2.0)


early = (
    "A rank loaded before the file was complete. The other ranks must wait for rank 0 (with a barrier, or a "
    "broadcast of its status)."
)


def judge(seen, world, names=("0", "1")):
    """Judge a saving that can succeed."""
    facts = seen.value
    wanted = model(0.5, names).state_dict()
    writes = [one["writes"] for one in facts]
    seen.that(
        writes == [1] + [0] * (world - 1),
        "torch.save must be called once, on rank 0.",
        mistake(
            "Every rank wrote the file, and two writers can mix their bytes. Only rank 0 may write.",
            when=lambda seen: all(writes),
        ),
        mistake("Nobody called torch.save.", when=lambda seen: not any(writes)),
        stage="rule",
    )
    seen.that(
        list(facts[0]["in file"] or []) == list(wanted),
        "The file must contain the bare model's state_dict.",
        mistake(
            "The keys start with 'module.'. Save ddp.module.state_dict().",
            when=lambda seen: (facts[0]["in file"] or []) == [f"module.{key}" for key in wanted],
        ),
        mistake(
            "You removed 'module.' inside a name, too: here a layer is called `submodule`. Only the wrapper's prefix "
            "goes; ddp.module.state_dict() has no prefix at all.",
            when=lambda seen: (facts[0]["in file"] or []) == [key.replace("module.", "") for key in wanted],
        ),
    )
    seen.that(not any(one["early"] for one in facts), early)
    not_loaded = "Every rank must return what it read from the file."
    seen.that(all(one["got"] is not None for one in facts), not_loaded, stage="type")
    seen.that(all(one["reads"] for one in facts), not_loaded, stage="rule")
    for one in facts:
        got = one["got"]
        same = list(got) == list(wanted) and all(
            isinstance(got[key], Tensor) and torch.equal(got[key], wanted[key]) for key in wanted
        )
        seen.that(same, "A rank returned something other than what was saved.")


known = [
    mistake(
        "A rank waits in a collective that the other rank never reaches. All ranks must call barrier.",
        raises="RanksHang",
    ),
    mistake(early, raises="FileNotFoundError|PytorchStreamReader|EOFError|BadZipFile|failed finding central"),
]


# %% check="rank-zero-save" points=0.5
"""One writer; every rank returns the content of the finished file."""
with check("rank-zero-save") as test:
    test("rank 0 is slow: the others wait; one writer")
    seen = observe_scenario(saved, save_and_reload, 2, False, False).expecting(*known)
    judge(seen, 2)


# %% check="rank-zero-save" points=0.5
"""If the disk is full, every rank raises. An older file is not mistaken for the new one."""
with check("rank-zero-save") as test:
    test("the disk is full: every rank raises, nobody hangs")
    seen = observe_scenario(saved, save_and_reload, 2, True, True).expecting(
        mistake(
            "Rank 0 failed to write and left, and the other ranks wait for it. Broadcast the outcome to them.",
            raises="RanksHang",
        ),
    )
    raised = [one.get("raised", []) for one in seen.value]
    seen.that(all(raised), "A failed save must raise on every rank.", stage="raised")
    seen.that("OSError" in raised[0], "Rank 0 must raise the exception that stopped the writing.", stage="raised")
    seen.that("RuntimeError" in raised[1], "The other ranks must raise RuntimeError.", stage="raised")
    writes = [one["writes"] for one in seen.value]
    seen.that(writes[1] == 0, "torch.save must be called on rank 0 only, also when it fails there.", stage="rule")

    ### BEGIN HIDDEN TESTS
    test.hidden("torch.save fails with a TypeError, because something can't be pickled")
    seen = observe_scenario(saved, save_and_reload, 2, "can't be pickled", True).expecting(
        mistake(
            "A TypeError from torch.save (something can't be pickled) stopped rank 0, and the other ranks wait for it. "
            "Catch every Exception, not only those of a full disk, OSError and RuntimeError.",
            raises="RanksHang",
        ),
    )
    raised = [one.get("raised", []) for one in seen.value]
    seen.that(all(raised), "A failed save must raise on every rank.", stage="raised")

    test.hidden("an older file at the path; three ranks, a layer called submodule (then a folder at the path)")
    unlike = ("submodule", "module")  # the prefix of the wrapper occurs in them again
    seen = observe_scenario(saved, save_and_reload, 3, False, True, unlike, True).expecting(
        mistake(
            "The path was a folder, so rank 0 could not write there, and it left while the other ranks wait for it. "
            "Every step of the writing belongs into the `try`, such as os.replace after torch.save.",
            raises="RanksHang",
        ),
        *known,
    )
    judge(seen, 3, unlike)

    test.hidden("a folder at the path: every rank raises, nobody hangs")
    seen.that(all(one["refused"] for one in seen.value), "A failed save must raise on every rank.", stage="raised")
    ### END HIDDEN TESTS
