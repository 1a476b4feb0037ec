# %% [markdown]
# ### Exercise 12.9 · Stop, resume, and end in the same place
#
# implement · solid · 20 min · 1 point
#
# Your run takes minutes, and a notebook can be closed at any time. Write one function that saves the run and one that
# resumes it. Only one test is worth anything: the run that was stopped must end with exactly the same weights as a run
# that wasn't. This exercise builds on chapters 7 and 11.
#
# **Contract**
#
# - `load_run` restores four things to their state when `save_run` was called: the model with its buffers, the
#   optimizer, `sampler`, and torch's global CPU generator. It returns `step`, an int. Training flags are not changed.
# - Its arguments are objects that were built anew, from other seeds. A run that continues with them ends with weights
#   equal bit for bit to those of a run that was never stopped: with dropout, with AdamW, with a learning rate that
#   changes in each step, and with batches drawn from `sampler`.
# - Saving changes nothing in the run that continues.
# - Everything is in the one file at `path`, which `torch.load(path, weights_only=True)` opens. `step` may be any
#   integer; it need not be the optimizer's own count.
# - If saving fails half-way, or the new file can't be renamed, the exception reaches the caller, and the old file at
#   `path` is still there and whole. Once there is a file at `path`, there is one at every moment. You may leave other
#   files in the folder of `path`. Write only into that folder, because another folder may be on another disk.
#
# **Rule.** Never write into the old file: a process that is killed while it writes must not leave half a file.
#
# <details><summary>Hint 1</summary>
#
# Besides the weights, four things determine the next steps. Which? And what is left of the old file if the power fails
# while the new file is written in its place?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# Model and optimizer have a `state_dict()`, a generator has `get_state()`, and torch's own generator has
# `torch.get_rng_state()`. A broken file under another name does no harm, because nobody reads it.
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# Save one dict with the two state_dicts, the step and the two generator states under another name in the same folder.
# Then one call, `os.replace`, puts it in place of the old file. When you load, set torch's own random state last, so
# that nothing draws from it afterwards.
#
# </details>


# %% answer="resume-exactly"
def save_run(
    path: str,
    model: nn.Module,
    optimizer: Optimizer,
    step: int,
    sampler: torch.Generator,
) -> None:
    """Write all that decides how a run goes on to one file, whole or not at all."""
    ### BEGIN SOLUTION
    run = {
        "model": model.state_dict(),
        "optimizer": optimizer.state_dict(),
        "step": step,
        "sampler": sampler.get_state(),
        "dice": torch.get_rng_state(),
    }
    torch.save(run, path + ".new")
    os.replace(path + ".new", path)
    ### END SOLUTION


def load_run(path: str, model: nn.Module, optimizer: Optimizer, sampler: torch.Generator) -> int:
    """Bring model, optimizer, sampler and torch's generator to where they were; return the step."""
    ### BEGIN SOLUTION
    run = torch.load(path, weights_only=True)
    model.load_state_dict(run["model"])
    optimizer.load_state_dict(run["optimizer"])
    sampler.set_state(run["sampler"])
    torch.set_rng_state(run["dice"])
    return run["step"]
    ### END SOLUTION


# %% check="resume-exactly" points=1
"""A resumed run ends with the same bits; the file has plain data and is replaced whole or not at all."""
with check("resume-exactly") as test:

    def new_run(seed):
        """A model with dropout and a buffer, AdamW, and a sampler."""
        torch.default_generator.manual_seed(seed)
        model = nn.Sequential(nn.Linear(3, 6), nn.Dropout(0.4), nn.Linear(6, 1))
        model[2].eval().register_buffer("scale", torch.rand(1))
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.125, foreach=False)
        return model, optimizer, torch.Generator().manual_seed(seed)

    def steps(run, number):
        """Some steps on rows that the sampler draws; the rate falls with each."""
        model, optimizer, sampler = run
        x = torch.arange(24.0).reshape(8, 3) * 7 % 5 - 2
        for _ in range(number):
            rows = torch.randint(8, (4,), generator=sampler)
            optimizer.zero_grad()
            (model(x[rows]) * model[2].scale - x[rows, :1]).square().mean().backward()
            optimizer.step()
            optimizer.param_groups[0]["lr"] *= 0.75

    def state_of(run):
        """All that the next step depends on."""
        model, optimizer, sampler = run
        moments = [state.get(key) for state in optimizer.state.values() for key in ("exp_avg", "exp_avg_sq", "step")]
        return {
            "weights": [parameter.detach().clone() for parameter in model.parameters()],
            "buffers": [buffer.clone() for buffer in model.buffers()],
            "flags": [module.training for module in model.modules()],
            "moments": [torch.as_tensor(moment).clone() for moment in moments if moment is not None],
            "rate": optimizer.param_groups[0]["lr"],
            "sampler": sampler.get_state(),
            "dice": torch.get_rng_state(),
        }

    def story(save, load, stop, more, seed, step):
        """Train and save; go on and save elsewhere; then load the first file into new objects and go on with these."""
        facts = {"opens": ""}
        with TemporaryDirectory() as folder:
            path, moved = os.path.join(folder, "run.pt"), os.path.join(folder, "moved.pt")
            run = new_run(1)
            steps(run, stop)
            facts["saved"] = state_of(run)
            save(path, run[0], run[1], step, run[2])
            facts["is there"] = os.path.exists(path)
            if not facts["is there"]:
                return facts
            steps(run, more)
            facts["went on"] = state_of(run)
            save(os.path.join(folder, "later.pt"), run[0], run[1], step + more, run[2])
            os.replace(path, moved)
            facts["bytes"] = os.path.getsize(moved)
            other = new_run(seed)
            facts["step"] = load(moved, *other)
            facts["loaded"] = state_of(other)
            held = [id(parameter) for group in other[1].param_groups for parameter in group["params"]]
            facts["holds"] = held == [id(parameter) for parameter in other[0].parameters()]
            steps(other, more)
            facts["resumed"] = state_of(other)
            try:
                torch.load(moved, weights_only=True)
            except Exception as error:
                facts["opens"] = type(error).__name__
        straight = new_run(1)
        steps(straight, stop + more)
        facts["straight"] = state_of(straight)
        return facts

    def equal(came, wanted):
        """Whether two states, or parts of them, agree bit for bit."""
        if isinstance(wanted, dict):
            return all(equal(came[key], part) for key, part in wanted.items())
        if isinstance(wanted, list):
            return len(came) == len(wanted) and all(equal(a, b) for a, b in zip(came, wanted, strict=True))
        return torch.equal(came, wanted) if isinstance(wanted, Tensor) else came == wanted

    plain_data = "The file does not load with weights_only=True. Save state_dicts, not objects."

    def differ(part):
        """A condition: right after loading, this part is not what it was when the run was saved."""
        return lambda seen: not equal(seen["loaded"][part], seen["saved"][part])

    def judge(seen, step):
        """Judge the run that went on, the one that was resumed, the step, and the file."""
        seen.expecting(
            mistake(plain_data, raises="Weights only load failed|UnpicklingError"),
            mistake(
                "Everything must be in the one file at `path`. Here the file is moved before it is loaded.",
                raises="FileNotFoundError",
            ),
        )
        seen.that(seen["is there"], "save_run wrote no file at `path`.")
        seen.that(equal(seen["went on"], seen["straight"]), "Saving changed the run that continues.")
        seen.that(
            equal(seen["resumed"], seen["straight"]),
            "The resumed run does not end like the run that was never stopped.",
            mistake("After loading, the weights differ from the saved weights.", when=differ("weights")),
            mistake("A buffer was not restored. A model has more than parameters.", when=differ("buffers")),
            mistake("Loading changed a training flag of the model.", when=differ("flags")),
            mistake(
                "The optimizer no longer has the model's parameters. Load into the objects that you get as arguments.",
                when=lambda seen: not seen["holds"],
            ),
            mistake(
                "AdamW started again from zero. Save its moments and step counts in the file.",
                when=lambda seen: not seen["loaded"]["moments"] and bool(seen["saved"]["moments"]),
            ),
            mistake("AdamW's moments or step counts differ from the saved values.", when=differ("moments")),
            mistake("The learning rate was not restored. It is in the optimizer's state_dict.", when=differ("rate")),
            mistake("The batches differ, because the sampler's state was not restored.", when=differ("sampler")),
            mistake("Dropout differs, because the global generator's state was not restored.", when=differ("dice")),
        )
        seen.that(
            type(seen["step"]) is int and seen["step"] == step, "load_run must return the saved step.", stage="value"
        )
        seen.that(not seen["opens"], plain_data, stage="rule")
        states = 2 * len(torch.get_rng_state())
        seen.that(
            seen["bytes"] > states,
            "Everything must be in the one file at `path`, but this file is too small for the states of two "
            "generators.",
            stage="rule",
        )

    test("3 steps, save, load into new objects, 3 steps: the same as 6 steps, bit for bit")
    judge(observe_scenario(story, save_run, load_run, 3, 3, 5, 3), 3)

    ### BEGIN HIDDEN TESTS
    test.hidden("a step number that the optimizer does not know; before the first step")
    judge(observe_scenario(story, save_run, load_run, 2, 1, 8, 4_000_000_001), 4_000_000_001)
    judge(observe_scenario(story, save_run, load_run, 0, 2, 3, 0), 0)

    class Bomb:
        """An object that can't be written."""

        def __reduce__(self):
            raise OSError("no space left on device")

    def fails_half_way(save, load):
        """Save twice to the same path, then save something that can't be written."""
        with TemporaryDirectory() as folder:
            path, link = os.path.join(folder, "run.pt"), os.path.join(folder, "link")
            model, optimizer, sampler = new_run(1)
            save(path, model, optimizer, 3, sampler)
            try:
                os.link(path, link)
            except OSError:  # a file system without links
                Path(link).touch()
            old = Path(link).read_bytes()
            save(path, model, optimizer, 4, sampler)
            in_place = os.path.samefile(path, link) or Path(link).read_bytes() != old
            facts = {"in place": in_place, "second": load(path, *new_run(2)), "raised": False}
            before = Path(path).read_bytes()
            optimizer.param_groups[0]["note"] = Bomb()
            try:
                save(path, model, optimizer, 5, sampler)
            except Exception:
                facts["raised"] = True
            return facts | {"kept": os.path.exists(path) and Path(path).read_bytes() == before}

    test.hidden("a second save, and one that fails half-way")
    seen = observe_scenario(fails_half_way, save_run, load_run)
    seen.that(
        seen["kept"],
        "After a failed save the old file is gone or broken. Write another file first, then call os.replace.",
        stage="rule",
    )
    seen.that(seen["raised"], "The exception of a failed save must reach the caller.", stage="raised")
    seen.that(seen["second"] == 4, "A second save must replace the first.")
    seen.that(
        not seen["in place"],
        "You wrote into the old file. A process that is killed there leaves half a file. Write another file "
        "first, then call os.replace.",
        stage="rule",
    )

    def over_an_old_one(save, load, refuse):
        """Save twice to the same path, in a folder that is a disk of its own; the second time watch what happens there.
        Where `refuse` is true, no file can be renamed to `path`."""
        moves, gaps, refused = {name: getattr(os, name) for name in ("rename", "replace")}, [], []

        def renames(name):
            def move(source, target, **options):
                if Path(target).resolve().parent != Path(source).resolve().parent:
                    raise OSError(18, "Invalid cross-device link")
                if refuse and Path(target).resolve() == Path(path).resolve():
                    refused.append(name)
                    raise PermissionError("the file is in use")
                return moves[name](source, target, **options)

            return move

        def watch(frame, event, called):
            if event == "c_return" and getattr(called, "__module__", "") == os.getpid.__module__:
                gaps.extend([] if os.path.exists(path) else [called.__name__])

        with TemporaryDirectory() as folder:
            path = os.path.join(folder, "run.pt")
            model, optimizer, sampler = new_run(1)
            save(path, model, optimizer, 3, sampler)
            before, raised, profile = Path(path).read_bytes(), "", sys.getprofile()
            for name in moves:
                setattr(os, name, renames(name))
            try:
                sys.setprofile(watch)
                save(path, model, optimizer, 4, sampler)
            except Exception as error:
                raised = f"{type(error).__name__}: {error}"
            finally:
                sys.setprofile(profile)
                for name, move in moves.items():
                    setattr(os, name, move)
            there = os.path.exists(path)
            facts = {"raised": raised, "refused": bool(refused), "gaps": gaps, "there": there}
            facts["old"] = there and Path(path).read_bytes() == before
            return facts | {"step": load(path, *new_run(2)) if there else None}

    never_gone = (
        "For a moment there was no file at `path`, because you removed or renamed the old file before the new "
        "file had its name. If the process is killed then, there is no checkpoint at `path`. os.replace replaces "
        "the old file in one step."
    )
    test.hidden("a second save: at every moment there is a file at path")
    seen = observe_scenario(over_an_old_one, save_run, load_run, False)
    elsewhere = (
        "The temporary file was in another folder, which may be on another disk, and renaming works only within "
        "one disk. Put it next to `path`."
    )
    seen.that("cross-device" not in seen["raised"], elsewhere, stage="rule")
    seen.that(seen["there"] and not seen["gaps"], never_gone, stage="rule")
    seen.that(not seen["raised"] and seen["step"] == 4, "A second save must replace the first.")

    test.hidden("a second save whose file can't be renamed")
    seen = observe_scenario(over_an_old_one, save_run, load_run, True)
    seen.that(seen["there"] and not seen["gaps"], never_gone, stage="rule")
    seen.that(
        seen["step"] == 4 or seen["raised"] != "",
        "The new file could not be renamed, so the old file is still at `path`, but the exception didn't reach "
        "the caller.",
        stage="raised",
    )
    seen.that(seen["step"] == 4 or seen["old"], "After a failed save the old file is gone or broken.", stage="rule")
    ### END HIDDEN TESTS
