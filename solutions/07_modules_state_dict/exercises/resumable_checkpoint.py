# %% [markdown]
# ### Exercise 7.9 · Stop, resume, and get the same numbers
#
# implement · long · 30 min · 3 points
#
# A training run stops at night and continues in the morning, in a new process. The stop should make no difference:
# every number from then on should be the same as without it, to the last bit. Write the two functions that achieve
# this.
#
# **Contract**
#
# - `save_checkpoint(path, …, epoch)` is called at the end of epoch `epoch`. Newly built objects (another seed, the same
#   classes) continue bit for bit after `load_checkpoint`: weights and all else in the model's state_dict (which may
#   hold more than tensors: see `nn.Module.get_extra_state`), Adam's moments, learning rate, dropout masks and shuffling
#   (torch's global CPU generator). Saving does not affect the run that saves, nor its gradients.
# - `path` ends in `.pt`. It may also be a file name without a folder, such as `"run.pt"`.
# - `load_checkpoint` returns the epoch to continue *with*, which is the saved epoch plus 1. The train/eval flags
#   of all parts stay as they are, the model's parameters stay the same objects, and the optimizer still has them.
# - The file contains only tensors and plain containers: a bare `torch.load(path)` opens it on the machine that wrote
#   it. `load_checkpoint` opens it anywhere, including where the GPU of the run that saved is missing: it loads to the
#   CPU.
# - Saving is atomic: the new file replaces the old one at once, and the old file is never written into. The folder of
#   `path` may be on a separate disk. If `torch.save` fails half way (Ctrl-C included) or renaming fails, the exception
#   reaches the caller and a file that existed at `path` is still the old, complete one; after a failed `torch.save` no
#   partial file stays in its folder either. `path` is never without a file once it had one.
# - Loading a file that does not exist raises FileNotFoundError before anything is changed.
#
# Two such functions save the run of your own language model in section 12.13.
#
# <details><summary>Hint 1</summary>
#
# List everything that the next step depends on. Which of these things are not in `model.state_dict()`? And what is in
# the file while torch.save is half way?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# Besides the weights, the next step depends on Adam's moments, the position of the schedule, the epoch, and the current
# state of torch's generator (a seed only says where it began). As plain containers these are state_dicts and a tensor,
# not objects. For the file: write all of it under another name first, then rename it, which happens at once or not at
# all. In which folder must that other name be?
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# Save one dict with three state_dicts, the epoch and the generator's state. Write it to a temporary name in the same
# folder, then let `os.replace` put it in place; whatever happens, the temporary file must not stay. When you load, map
# everything to the CPU, restore the three objects, set the generator's state last, and return the next epoch.
#
# </details>


# %% answer="resumable-checkpoint"
def save_checkpoint(
    path: str | Path,
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    scheduler: torch.optim.lr_scheduler.LRScheduler,
    epoch: int,
) -> None:
    """Save everything that the run needs to continue after epoch `epoch`, atomically."""
    ### BEGIN SOLUTION
    checkpoint = {
        "model": model.state_dict(),
        "optimizer": optimizer.state_dict(),
        "scheduler": scheduler.state_dict(),
        "epoch": epoch,
        "rng": torch.get_rng_state(),
    }
    temporary = Path(f"{path}.{os.getpid()}.tmp")
    try:
        torch.save(checkpoint, temporary)
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
    ### END SOLUTION


def load_checkpoint(
    path: str | Path,
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    scheduler: torch.optim.lr_scheduler.LRScheduler,
) -> int:
    """Restore model, optimizer, scheduler and generator; return the epoch to continue with."""
    ### BEGIN SOLUTION
    checkpoint = torch.load(path, map_location="cpu")
    model.load_state_dict(checkpoint["model"])
    optimizer.load_state_dict(checkpoint["optimizer"])
    scheduler.load_state_dict(checkpoint["scheduler"])
    torch.set_rng_state(checkpoint["rng"])
    return checkpoint["epoch"] + 1
    ### END SOLUTION


# %% check="resumable-checkpoint" points=2
"""Save, load into new objects, continue: bit for bit the same as a run that was never stopped."""
with check("resumable-checkpoint") as test:

    def new_run(seed):
        """A model with dropout, Adam and a schedule, from a seed."""
        torch.default_generator.manual_seed(seed)
        model = nn.Sequential(nn.Linear(3, 6), nn.Dropout(0.4), nn.Linear(6, 1))
        optimizer = torch.optim.Adam(model.parameters(), lr=0.125, foreach=False)
        return model, optimizer, torch.optim.lr_scheduler.StepLR(optimizer, 2, gamma=0.5)

    def epochs(run, number):
        """Some epochs of two shuffled batches each; the losses."""
        model, optimizer, scheduler = run
        x = torch.arange(12.0).reshape(4, 3) * 7 % 5 - 2
        losses = []
        for _ in range(number):
            for rows in torch.randperm(4).split(2):
                optimizer.zero_grad()
                loss = (model(x[rows]) - x[rows, :1]).square().mean()
                loss.backward()
                optimizer.step()
                losses.append(float(loss))
            scheduler.step()
        return losses

    def state_of(run):
        """All that the next step depends on."""
        model, optimizer, scheduler = run
        moments = [state.get(key) for state in optimizer.state.values() for key in ("exp_avg", "exp_avg_sq", "step")]
        return {
            "weights": [parameter.detach().clone() for parameter in model.parameters()],
            "moments": [moment.clone() for moment in moments if isinstance(moment, Tensor)],
            "rates": [[group["lr"] for group in optimizer.param_groups], scheduler.last_epoch],
            "generator": torch.get_rng_state(),
        }

    def story(save, load, stop, more, seed):
        """Train, save after `stop` steps and go on for `more`; a second run loads the file and goes on from there."""
        facts = {}
        with TemporaryDirectory() as folder:
            path = os.path.join(folder, "run.pt")
            run = new_run(1)
            epochs(run, stop)
            facts["saved"] = state_of(run)
            facts["save gave"] = type(save(path, *run, stop - 1)).__name__
            facts["files"] = sorted(os.listdir(folder))
            facts["went on"] = [epochs(run, more), state_of(run)]
            facts["is there"] = os.path.exists(path)
            if not facts["is there"]:
                return facts
            try:
                torch.load(path)
                facts["opens"] = "yes"
            except Exception as error:
                facts["opens"] = type(error).__name__
            other = new_run(seed)
            objects = [id(parameter) for parameter in other[0].parameters()]
            facts["epoch"] = load(path, *other)
            facts["loaded"] = state_of(other)
            held = [id(parameter) for group in other[1].param_groups for parameter in group["params"]]
            facts["holds"] = held == [id(parameter) for parameter in other[0].parameters()]
            facts["same objects"] = objects == [id(parameter) for parameter in other[0].parameters()]
            facts["resumed"] = [epochs(other, more), state_of(other)]
        straight = new_run(1)
        epochs(straight, stop)
        facts["straight"] = [epochs(straight, more), state_of(straight)]
        return facts

    def equal(came, wanted):
        """Whether two lists of tensors agree, bit for bit."""
        return len(came) == len(wanted) and all(torch.equal(a, b) for a, b in zip(came, wanted, strict=True))

    def same_end(came, wanted):
        """Whether two runs had the same losses and came to the same state."""
        return (
            came[0] == wanted[0]
            and all(equal(came[1][key], wanted[1][key]) for key in ("weights", "moments"))
            and came[1]["rates"] == wanted[1]["rates"]
            and torch.equal(came[1]["generator"], wanted[1]["generator"])
        )

    def judge(seen, stop):
        """Judge the run that was resumed, the file, the epoch, and the run that went on."""
        pickled = (
            "A bare torch.load(path) refuses the file ('Weights only load failed'): store state_dicts, not objects."
        )
        seen.expecting(
            mistake(pickled, raises="Weights only load failed|UnpicklingError"),
            mistake(
                "The optimizer or the scheduler got a state that is not its own: restore each from its state_dict.",
                raises="param_groups|KeyError",
            ),
        )
        seen.that(seen["is there"], "save_checkpoint wrote no file at `path`.")
        saved, loaded = seen["saved"], seen["loaded"]
        undisturbed = "Saving disturbed the run that saves: from then on its numbers are different."
        seen.that(
            same_end(seen["resumed"], seen["went on"]),
            "The run that was resumed does not continue as the one that was not stopped, although weights, moments, "
            "learning rate and generator are right after loading. So load_checkpoint changes something else, such as "
            "the train/eval flag.",
            mistake(undisturbed, when=lambda seen: same_end(seen["resumed"], seen["straight"])),
            mistake(
                "After loading, the weights are not those that were saved.",
                when=lambda seen: not equal(loaded["weights"], saved["weights"]),
            ),
            mistake(
                "load_checkpoint must restore the objects that it is given: now the optimizer has other parameters "
                "than the model.",
                when=lambda seen: not seen["holds"],
            ),
            mistake(
                "The run drifts after resuming although the weights are right: Adam's moments and step count are "
                "also state.",
                when=lambda seen: not equal(loaded["moments"], saved["moments"]),
            ),
            mistake(
                "The learning rate is not what it was: also save the scheduler's state_dict.",
                when=lambda seen: loaded["rates"] != saved["rates"],
            ),
            mistake(
                "Dropout masks or the shuffle differ: torch's generator state was not saved, or restored before "
                "something else drew numbers.",
                when=lambda seen: not torch.equal(loaded["generator"], saved["generator"]),
            ),
        )
        seen.that(seen["opens"] == "yes", pickled, stage="raised")
        seen.that(
            type(seen["epoch"]) is int and seen["epoch"] == stop,
            "load_checkpoint must return the epoch to continue WITH (saved epoch + 1).",
        )
        seen.that(seen["holds"], "The optimizer must still hold the model's parameters.", stage="aliasing")
        seen.that(seen["same objects"], "The model's parameter objects were replaced.", stage="aliasing")
        seen.that(same_end(seen["went on"], seen["straight"]), undisturbed)
        stayed = "You left another file in the folder of the checkpoint."
        seen.that(seen["files"] == ["run.pt"], stayed, stage="rule")

    test("3 epochs, save, load into new objects, 3 epochs: the same as 6 epochs, bit for bit")
    judge(observe_scenario(story, save_checkpoint, load_checkpoint, 3, 3, 5), 3)

    ### BEGIN HIDDEN TESTS
    test.hidden("another stopping point, another seed of the new objects")
    judge(observe_scenario(story, save_checkpoint, load_checkpoint, 1, 2, 11), 1)
    ### END HIDDEN TESTS

# %% check="resumable-checkpoint" points=1
"""Flags stay; pathlib; overwriting; a missing file; a save that fails half way leaves the old file."""
with check("resumable-checkpoint") as test:

    class Bomb:
        """An object that can't be pickled: it raises, or interrupts as Ctrl-C does."""

        def __init__(self, interrupts=False):
            self.interrupts = interrupts

        def __reduce__(self):
            raise KeyboardInterrupt if self.interrupts else OSError("no space left on device")

    class Extra(nn.Module):
        """A layer whose state_dict holds something more."""

        def __init__(self):
            super().__init__()
            self.layer, self.extra = nn.Linear(2, 1), None

        def get_extra_state(self):
            return {"extra": self.extra}

        def set_extra_state(self, state):
            self.extra = state["extra"]

    def new_run(shift=0.0):
        """A model, an optimizer and a schedule."""
        model = Extra()
        with torch.no_grad():
            model.layer.weight.fill_(1.5 + shift)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.5 + shift, momentum=0.5)
        return model, optimizer, torch.optim.lr_scheduler.StepLR(optimizer, 2)

    def facts_of(run):
        """A few numbers of a run."""
        model, optimizer, scheduler = run
        flags = [module.training for module in model.modules()]
        return [model.layer.weight.tolist(), optimizer.param_groups[0]["lr"], scheduler.last_epoch, flags, model.extra]

    def saved_and_loaded(save, load, as_path, training):
        """Save twice to the same path, then load."""
        with TemporaryDirectory() as folder:
            path = Path(folder) / "run.pt" if as_path else f"{folder}/run.pt"
            run, other = new_run(), new_run(2.0)
            run[0].train(not training)
            run[0].layer.train(training)
            run[0].extra, run[0].layer.weight.grad = 0.5, torch.ones(1, 2)
            other[0].train(training)
            other[0].layer.train(not training)
            save(path, *new_run(4.0), 3)
            save(path, *run, 7)
            gradient = run[0].layer.weight.grad
            facts = {"files": sorted(os.listdir(folder)), "run": facts_of(run)}
            facts["gradient same"] = gradient is not None and bool(gradient.eq(1).all())
            facts["epoch"] = load(path, *other)
            return facts | {"other": facts_of(other)}

    test("a second checkpoint replaces the first; training flags stay as they are")
    known = mistake(
        "A bare torch.load(path) refuses the file ('Weights only load failed'): store state_dicts, not objects.",
        raises="Weights only load failed|UnpicklingError|PicklingError",
    )
    for as_path, training in ((False, True), (True, False)):
        seen = observe_scenario(saved_and_loaded, save_checkpoint, load_checkpoint, as_path, training).expecting(
            known,
            mistake(
                "A state_dict may hold more than tensors: the model's has an entry `_extra_state`, here a dict, and an "
                "optimizer's holds dicts and lists. Save and load each state_dict as it is.",
                raises="'dict' object has no attribute '(cpu|clone|detach|to|numpy|data|dtype|shape|contiguous)'|"
                "must be Tensor, not dict",
            ),
            mistake("A path may be a string or a pathlib.Path: {detail}.", raises="TypeError|AttributeError"),
        )
        files = ", ".join(seen["files"])
        seen.that(seen["files"] == ["run.pt"], f"After two saves the folder should hold run.pt; it holds {files}.")
        seen.that(seen["other"][0] == seen["run"][0], "The second checkpoint is not what was loaded.")
        seen.that(
            seen["other"][4] == seen["run"][4],
            "After loading, the extra state of a layer is not what was saved: an entry of the state_dict that is no "
            "tensor belongs to what `get_extra_state` returned. Use `model.load_state_dict`.",
        )
        flags = [seen["run"][3], seen["other"][3]]
        seen.that(
            flags == [[not training, training], [training, not training]],
            "Saving or loading changed the train/eval flag.",
            mistake(
                "Saving or loading changed the train/eval flag of a part, although not that of the whole model. "
                "`model.eval()`, `model.train()` and `model.train(was)` give every part the same flag, and here a part "
                "was in another mode. Leave the flags alone.",
                when=lambda seen, training=training: (
                    [seen["run"][3][0], seen["other"][3][0]] == [not training, training]
                ),
            ),
            stage="rule",
        )
        seen.that(
            seen["gradient same"],
            "Saving deleted or changed the gradients of the run that saves, which may accumulate them further.",
        )
        seen.that(seen["epoch"] == 8, "load_checkpoint must return the epoch to continue WITH (saved epoch + 1).")

    def missing(save, load):
        """Load a file that does not exist."""
        with TemporaryDirectory() as folder:
            run = new_run()
            before, generator = facts_of(run), torch.get_rng_state()
            try:
                load(f"{folder}/nothing.pt", *run)
                raised = "nothing"
            except FileNotFoundError:
                raised = "FileNotFoundError"
            except Exception as error:
                raised = type(error).__name__
            same = facts_of(run) == before and torch.equal(torch.get_rng_state(), generator)
            return {"raised": raised, "same": same, "files": sorted(os.listdir(folder))}

    test("a missing file")
    seen = observe_scenario(missing, save_checkpoint, load_checkpoint)
    refused = "A missing file must raise FileNotFoundError."
    seen.that(seen["raised"] == "FileNotFoundError", refused, stage="raised")
    seen.that(seen["same"], "A missing file must raise before anything is changed.")
    seen.that(not seen["files"], "Loading a missing file must not make one.")

    ### BEGIN HIDDEN TESTS
    def from_elsewhere(save, load):
        """Save tensors of a device that is no longer there when the file is loaded."""

        def tag(storage):
            return "elsewhere:0"

        torch.serialization.register_package(0, tag, lambda storage, location: None)
        with TemporaryDirectory() as folder:
            path, run, other = f"{folder}/run.pt", new_run(), new_run(2.0)
            try:
                save(path, *run, 7)
            finally:
                registry = torch.serialization._package_registry
                registry[:] = [entry for entry in registry if entry[1] is not tag]
            return {"epoch": load(path, *other), "run": facts_of(run), "other": facts_of(other)}

    test.hidden("a file from a machine with a device that is missing here")
    seen = observe_scenario(from_elsewhere, save_checkpoint, load_checkpoint).expecting(
        mistake(
            "The file must load on a machine without the device that wrote it: use map_location='cpu'.",
            raises="restore data location|deserialize|device",
        )
    )
    seen.that(seen["other"] == seen["run"] and seen["epoch"] == 8, "The checkpoint is not what was loaded.")

    def fails_half_way(save, load, exists, interrupts=False):
        """Save something that can't be saved, or that Ctrl-C interrupts; where `exists` is true, a checkpoint lies
        there already."""
        with TemporaryDirectory() as folder:
            path = f"{folder}/run.pt"
            run = new_run()
            if exists:
                save(path, *run, 3)
            before = Path(path).read_bytes() if exists else b""
            run[0].extra = Bomb(interrupts)
            with torch.no_grad():
                run[0].layer.weight.fill_(9.0)
            try:
                save(path, *run, 4)
                raised = False
            except (Exception, KeyboardInterrupt):
                raised = True
            there = os.path.exists(path)
            now = Path(path).read_bytes() if there else b""
            return {"raised": raised, "there": there, "same": now == before, "files": sorted(os.listdir(folder))}

    not_atomic = (
        "After a failed save the old checkpoint is gone or damaged: write to a temporary file and os.replace it."
    )
    for idea, exists, *interrupts in (
        ("a save that fails half way", True),
        ("a first save that fails half way", False),
        ("a save that Ctrl-C interrupts", True, True),
    ):
        test.hidden(idea)
        seen = observe_scenario(fails_half_way, save_checkpoint, load_checkpoint, exists, *interrupts)
        seen.that(seen["there"] == exists, not_atomic if exists else "A failed save left a file.", stage="rule")
        seen.that(seen["same"], not_atomic, stage="rule")
        litter = "A partial temporary file was left behind after the failure."
        if interrupts:
            litter = (
                "Ctrl-C raises KeyboardInterrupt, which `except Exception` doesn't catch, and the partial temporary "
                "file was left behind. Remove it in a `finally`."
            )
        seen.that(seen["files"] == ["run.pt"] * exists, litter, stage="rule")
        seen.that(seen["raised"], "The exception of a failed save must reach the caller.", stage="raised")

    def over_an_old_one(save, load, refuse):
        """Save twice to the same path; the second time watch whether a file is there at every moment. Where `refuse` is
        true, no file can be renamed to `path`."""
        moves, gaps, refused = {name: getattr(os, name) for name in ("rename", "replace")}, [], []

        def renames(name):
            def move(source, target, **options):
                if refuse and Path(target).resolve() == Path(path).resolve():
                    refused.append(name)
                    raise PermissionError("the file is in use")
                return moves[name](source, target, **options)

            return move

        def watch(frame, event, called):
            if event == "c_return" and getattr(called, "__module__", "") == os.getpid.__module__:
                gaps.extend([] if os.path.exists(path) else [called.__name__])

        with TemporaryDirectory() as folder:
            path, run, other = f"{folder}/run.pt", new_run(), new_run(2.0)
            save(path, *new_run(4.0), 3)
            before, raised, profile = Path(path).read_bytes(), False, sys.getprofile()
            old = os.stat(path).st_ino
            for name in moves:
                setattr(os, name, renames(name))
            try:
                sys.setprofile(watch)
                save(path, *run, 7)
            except Exception:
                raised = True
            finally:
                sys.setprofile(profile)
                for name, move in moves.items():
                    setattr(os, name, move)
            there = os.path.exists(path)
            facts = {"raised": raised, "gaps": gaps, "there": there}
            facts["old"] = there and Path(path).read_bytes() == before
            facts["written into"] = there and not facts["old"] and os.stat(path).st_ino == old
            return facts | {"epoch": load(path, *other) if there else None}

    never_gone = (
        "For a moment there was no checkpoint at `path`: the old one was removed or renamed before the new one had its "
        "name. A process that is killed at that moment loses both. os.replace puts the new file in the place of the "
        "old one at once."
    )
    test.hidden("a second save: at every moment there is a file at path")
    seen = observe_scenario(over_an_old_one, save_checkpoint, load_checkpoint, False)
    seen.that(seen["there"] and not seen["gaps"], never_gone, stage="rule")

    def on_another_disk(save, load, path=None):
        """Save twice into a folder that is a disk of its own: nothing can be renamed into it from outside."""
        moves = {name: getattr(os, name) for name in ("replace", "rename")}

        def within(name):
            def move(source, target, **options):
                if Path(target).resolve().parent not in Path(source).resolve().parents:
                    raise OSError(18, "Invalid cross-device link")
                return moves[name](source, target, **options)

            return move

        with TemporaryDirectory() as folder:
            path, run, other = path or f"{folder}/run.pt", new_run(), new_run(2.0)
            save(path, *new_run(4.0), 3)
            old = os.stat(path).st_ino
            for name in moves:
                setattr(os, name, within(name))
            try:
                save(path, *run, 7)
            finally:
                for name, move in moves.items():
                    setattr(os, name, move)
            facts = {"in place": os.stat(path).st_ino == old, "epoch": load(path, *other)}
            return facts | {"run": facts_of(run), "other": facts_of(other)}

    def by_its_name(save, load):
        """Do the same in the working directory, where the path is the name of the file alone."""
        before = os.getcwd()
        with TemporaryDirectory() as folder:
            os.chdir(folder)
            try:
                return on_another_disk(save, load, "run.pt")
            finally:
                os.chdir(before)

    for idea, scenario in (
        ("a folder on a disk of its own; the old file is replaced, not written over", on_another_disk),
        ("a path without a folder", by_its_name),
    ):
        test.hidden(idea)
        seen = observe_scenario(scenario, save_checkpoint, load_checkpoint).expecting(
            mistake(
                "The temporary file was in another folder, which may be on another disk, and renaming works only "
                "within one disk: put it next to the checkpoint.",
                raises="cross-device",
            ),
            mistake(
                'os.path.dirname("run.pt") is "", and no folder has that name. Use `Path(path).parent`, which is `.`.',
                raises="FileNotFoundError.*: ''$",
            ),
        )
        seen.that(
            not seen["in place"],
            "The old checkpoint was overwritten in place: for a while neither it nor the new one is complete. Write a "
            "file next to it, then os.replace.",
            stage="rule",
        )
        seen.that(seen["other"] == seen["run"] and seen["epoch"] == 8, "The second checkpoint is not what was loaded.")

    test.hidden("a second save whose file can't be renamed")
    seen = observe_scenario(over_an_old_one, save_checkpoint, load_checkpoint, True)
    seen.that(seen["there"] and not seen["gaps"], never_gone, stage="rule")
    seen.that(
        not seen["written into"],
        "The new file could not be renamed, so your code wrote into the old one instead: a process that is killed "
        "meanwhile loses both. Let the exception reach the caller.",
        stage="rule",
    )
    seen.that(
        seen["epoch"] == 8 or seen["raised"],
        "The new file could not be renamed, so the old one is still at `path`, but the caller doesn't know: the "
        "exception must reach the caller.",
        stage="raised",
    )
    seen.that(seen["epoch"] == 8 or seen["old"], not_atomic, stage="rule")
    ### END HIDDEN TESTS
