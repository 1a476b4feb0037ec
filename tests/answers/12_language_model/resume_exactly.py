import copy
import io
import os
import pickle
import shutil
import tempfile
from pathlib import Path

import torch

# corners: members, caller's modes


def parts(model, optimizer, step, sampler):
    return {
        "model": model.state_dict(),
        "optimizer": optimizer.state_dict(),
        "step": step,
        "sampler": sampler.get_state(),
        "dice": torch.get_rng_state(),
    }


def restore(run, model, optimizer, sampler):
    if "model" in run:
        model.load_state_dict(run["model"])
    if "optimizer" in run:
        optimizer.load_state_dict(run["optimizer"])
    if "sampler" in run:
        sampler.set_state(run["sampler"])
    if "dice" in run:
        torch.set_rng_state(run["dice"])
    return run["step"]


def write(run, path):
    torch.save(run, f"{path}.tmp")
    os.replace(f"{path}.tmp", path)


def save_run(path, model, optimizer, step, sampler):
    write(parts(model, optimizer, step, sampler), path)


def load_run(path, model, optimizer, sampler):
    return restore(torch.load(path, weights_only=True), model, optimizer, sampler)


# %% right: state_dicts, two generator states, os.replace
def save_run(path, model, optimizer, step, sampler):
    write(parts(model, optimizer, step, sampler), path)


# %% right: bytes written through BytesIO, then renamed
def save_run(path, model, optimizer, step, sampler):
    memory = io.BytesIO()
    torch.save(parts(model, optimizer, step, sampler), memory)
    unfinished = Path(path).with_suffix(".unfinished")
    unfinished.write_bytes(memory.getvalue())
    unfinished.rename(path)


def load_run(path, model, optimizer, sampler):
    return restore(torch.load(io.BytesIO(Path(path).read_bytes())), model, optimizer, sampler)


# %% wrong: keeps the old file and puts it back on failure
# says: For a moment there was no file at `path`, because you removed or renamed the old file before the new
# earns: 0 of 1
# caught: hidden
def save_run(path, model, optimizer, step, sampler):
    old = path + ".old"
    if os.path.exists(path):
        os.replace(path, old)
    try:
        torch.save(parts(model, optimizer, step, sampler), path)
    except BaseException:
        if os.path.exists(old):
            os.replace(old, path)
        raise


# %% right: a list in another order, copies, the generators' own methods, no file left behind
def save_run(path, model, optimizer, step, sampler):
    states = [torch.default_generator.get_state(), sampler.get_state(), step]
    states += [copy.deepcopy(one.state_dict()) for one in (optimizer, model)]
    try:
        with open(path + ".part", "wb") as file:
            torch.save(states, file)
            file.flush()
            os.fsync(file.fileno())
        shutil.move(path + ".part", path)
    finally:
        Path(path + ".part").unlink(missing_ok=True)


def load_run(path, model, optimizer, sampler):
    dice, drawn, step, for_optimizer, for_model = torch.load(path, map_location="cpu", weights_only=True)
    model.load_state_dict(for_model, strict=True)
    optimizer.load_state_dict(for_optimizer)
    sampler.set_state(drawn)
    torch.default_generator.set_state(dice)
    return step


# %% wrong: no optimizer state
# says: AdamW started again from zero. Save its moments and step counts in the file.
# earns: 0 of 1
# lesson
def save_run(path, model, optimizer, step, sampler):
    run = parts(model, optimizer, step, sampler)
    del run["optimizer"]
    write(run, path)


# %% wrong: no sampler state
# says: The batches differ, because the sampler's state was not restored.
# earns: 0 of 1
# lesson
def save_run(path, model, optimizer, step, sampler):
    run = parts(model, optimizer, step, sampler)
    del run["sampler"]
    write(run, path)


# %% wrong: sampler seeded again
# says: The batches differ, because the sampler's state was not restored.
# earns: 0 of 1
# lesson
def save_run(path, model, optimizer, step, sampler):
    write(parts(model, optimizer, step, sampler) | {"seed": sampler.initial_seed()}, path)


def load_run(path, model, optimizer, sampler):
    run = torch.load(path, weights_only=True)
    restore(run, model, optimizer, sampler)
    sampler.manual_seed(run["seed"])
    return run["step"]


# %% wrong: no global generator
# says: Dropout differs, because the global generator's state was not restored.
# earns: 0 of 1
# lesson
def save_run(path, model, optimizer, step, sampler):
    run = parts(model, optimizer, step, sampler)
    del run["dice"]
    write(run, path)


# %% wrong: draws a number after the generator is restored
# says: Dropout differs, because the global generator's state was not restored.
# earns: 0 of 1
def load_run(path, model, optimizer, sampler):
    run = torch.load(path, weights_only=True)
    restore(run, model, optimizer, sampler)
    torch.rand(1)
    return run["step"]


# %% wrong: returns step + 1
# says: load_run must return the saved step.
# earns: 0 of 1
def load_run(path, model, optimizer, sampler):
    return restore(torch.load(path, weights_only=True), model, optimizer, sampler) + 1


# %% wrong: returns nothing
# says: load_run must return the saved step.
# earns: 0 of 1
def load_run(path, model, optimizer, sampler):
    restore(torch.load(path, weights_only=True), model, optimizer, sampler)


# %% wrong: the step as a tensor
# says: load_run must return the saved step.
# earns: 0 of 1
def save_run(path, model, optimizer, step, sampler):
    write(parts(model, optimizer, torch.tensor(step), sampler), path)


# %% wrong: takes the step from the optimizer
# says: load_run must return the saved step.
# earns: 0 of 1
# caught: hidden
def load_run(path, model, optimizer, sampler):
    restore(torch.load(path, weights_only=True), model, optimizer, sampler)
    return int(max((state["step"] for state in optimizer.state.values()), default=0))


# %% wrong: saves the module itself
# says: The file does not load with weights_only=True. Save state_dicts, not objects.
# earns: 0 of 1
def save_run(path, model, optimizer, step, sampler):
    write(parts(model, optimizer, step, sampler) | {"model": model}, path)


def load_run(path, model, optimizer, sampler):
    run = torch.load(path, weights_only=False)
    return restore(run | {"model": run["model"].state_dict()}, model, optimizer, sampler)


# %% wrong: saves the module itself and loads with the default
# says: The file does not load with weights_only=True. Save state_dicts, not objects.
# earns: 0 of 1
def save_run(path, model, optimizer, step, sampler):
    write(parts(model, optimizer, step, sampler) | {"model": model}, path)


# %% wrong: pickle
# says: The file does not load with weights_only=True. Save state_dicts, not objects.
# earns: 0 of 1
def save_run(path, model, optimizer, step, sampler):
    data = pickle.dumps(parts(model, optimizer, step, sampler))
    Path(path + ".tmp").write_bytes(data)
    os.replace(path + ".tmp", path)


def load_run(path, model, optimizer, sampler):
    return restore(pickle.loads(Path(path).read_bytes()), model, optimizer, sampler)


# %% wrong: writes over the old file
# says: After a failed save the old file is gone or broken. Write another file first, then call os.replace.
# earns: 0 of 1
# caught: hidden
def save_run(path, model, optimizer, step, sampler):
    torch.save(parts(model, optimizer, step, sampler), path)


# %% wrong: removes the old file first
# says: After a failed save the old file is gone or broken. Write another file first, then call os.replace.
# earns: 0 of 1
# caught: hidden
def save_run(path, model, optimizer, step, sampler):
    if os.path.exists(path):
        os.remove(path)
    torch.save(parts(model, optimizer, step, sampler), path)


# %% wrong: into memory first, then over the old file
# says: You wrote into the old file. A process that is killed there leaves half a file. Write another file
# earns: 0 of 1
# caught: hidden
def save_run(path, model, optimizer, step, sampler):
    memory = io.BytesIO()
    torch.save(parts(model, optimizer, step, sampler), memory)
    Path(path).write_bytes(memory.getvalue())


# %% wrong: does not tell of a failed save
# says: The exception of a failed save must reach the caller.
# earns: 0 of 1
# caught: hidden
def save_run(path, model, optimizer, step, sampler):
    try:
        write(parts(model, optimizer, step, sampler), path)
    except OSError:
        print("could not save")


# %% wrong: keeps the first file
# says: A second save must replace the first.
# earns: 0 of 1
# caught: hidden
def save_run(path, model, optimizer, step, sampler):
    torch.save(parts(model, optimizer, step, sampler), path + ".tmp")
    if not os.path.exists(path):
        os.replace(path + ".tmp", path)


# %% wrong: seeds the global generator while saving
# says: Saving changed the run that continues.
# earns: 0 of 1
def save_run(path, model, optimizer, step, sampler):
    torch.manual_seed(step)
    write(parts(model, optimizer, step, sampler), path)


# %% wrong: turns dropout off for saving
# says: Saving changed the run that continues.
# earns: 0 of 1
# corner: caller's modes
def save_run(path, model, optimizer, step, sampler):
    model.eval()
    write(parts(model, optimizer, step, sampler), path)


# %% wrong: the parameters alone
# says: A buffer was not restored. A model has more than parameters.
# earns: 0 of 1
# corner: members
def save_run(path, model, optimizer, step, sampler):
    weights = [parameter.detach().clone() for parameter in model.parameters()]
    write(parts(model, optimizer, step, sampler) | {"model": weights}, path)


def load_run(path, model, optimizer, sampler):
    run = torch.load(path, weights_only=True)
    for parameter, weights in zip(model.parameters(), run.pop("model"), strict=True):
        parameter.data.copy_(weights)
    return restore(run, model, optimizer, sampler)


# %% wrong: sets every layer to training
# says: Loading changed a training flag of the model.
# earns: 0 of 1
def load_run(path, model, optimizer, sampler):
    step = restore(torch.load(path, weights_only=True), model, optimizer, sampler)
    model.train()
    return step


# %% wrong: the moments without the learning rate
# says: The learning rate was not restored. It is in the optimizer's state_dict.
# earns: 0 of 1
def load_run(path, model, optimizer, sampler):
    run = torch.load(path, weights_only=True)
    run["optimizer"]["param_groups"] = optimizer.state_dict()["param_groups"]
    return restore(run, model, optimizer, sampler)


# %% wrong: the weights are not loaded
# says: After loading, the weights differ from the saved weights.
# earns: 0 of 1
def save_run(path, model, optimizer, step, sampler):
    run = parts(model, optimizer, step, sampler)
    del run["model"]
    write(run, path)


# %% wrong: new parameters
# says: The optimizer no longer has the model's parameters. Load into the objects that you get as arguments.
# earns: 0 of 1
def load_run(path, model, optimizer, sampler):
    run = torch.load(path, weights_only=True)
    model.load_state_dict(run.pop("model"), assign=True)
    return restore(run, model, optimizer, sampler)


# %% wrong: keeps the last run in memory
# says: After loading, the weights differ from the saved weights.
# earns: 0 of 1
def save_run(path, model, optimizer, step, sampler):
    global last
    last = copy.deepcopy(parts(model, optimizer, step, sampler))
    write({"step": step}, path)


def load_run(path, model, optimizer, sampler):
    return restore(copy.deepcopy(last), model, optimizer, sampler)


# %% wrong: the optimizer in a file of its own
# says: Everything must be in the one file at `path`. Here the file is moved before it is loaded.
# earns: 0 of 1
def save_run(path, model, optimizer, step, sampler):
    run = parts(model, optimizer, step, sampler)
    write(run.pop("optimizer"), path + ".optimizer")
    write(run, path)


def load_run(path, model, optimizer, sampler):
    optimizer.load_state_dict(torch.load(path + ".optimizer", weights_only=True))
    return restore(torch.load(path, weights_only=True), model, optimizer, sampler)


# %% wrong: keeps the runs in memory, by their steps
# says: Everything must be in the one file at `path`, but this file is too small for the states of two
# earns: 0 of 1
runs = {}


def save_run(path, model, optimizer, step, sampler):
    runs[step] = copy.deepcopy(parts(model, optimizer, step, sampler))
    write({"step": step}, path)


def load_run(path, model, optimizer, sampler):
    run = copy.deepcopy(runs[torch.load(path, weights_only=True)["step"]])
    return restore(run, model, optimizer, sampler)


# %% wrong: writes nothing
# says: save_run wrote no file at `path`.
# earns: 0 of 1
def save_run(path, model, optimizer, step, sampler):
    parts(model, optimizer, step, sampler)


# %% wrong: unlink, then rename
# says: For a moment there was no file at `path`, because you removed or renamed the old file before the new
# earns: 0 of 1
# caught: hidden
def save_run(path, model, optimizer, step, sampler):
    torch.save(parts(model, optimizer, step, sampler), path + ".new")
    Path(path).unlink(missing_ok=True)
    os.rename(path + ".new", path)


# %% wrong: the old one to .bak
# says: For a moment there was no file at `path`, because you removed or renamed the old file before the new
# earns: 0 of 1
# caught: hidden
def save_run(path, model, optimizer, step, sampler):
    torch.save(parts(model, optimizer, step, sampler), path + ".new")
    if os.path.exists(path):
        os.replace(path, path + ".bak")
    os.rename(path + ".new", path)


# %% wrong: a temporary file in the system's folder for them
# says: The temporary file was in another folder, which may be on another disk, and renaming works only within
# earns: 0 of 1
# caught: hidden
def save_run(path, model, optimizer, step, sampler):
    new = os.path.join(tempfile.gettempdir(), f"{os.getpid()}.new")
    try:
        torch.save(parts(model, optimizer, step, sampler), new)
        os.replace(new, path)
    finally:
        Path(new).unlink(missing_ok=True)


# %% wrong: copies over
# says: You wrote into the old file. A process that is killed there leaves half a file. Write another file
# earns: 0 of 1
# caught: hidden
def save_run(path, model, optimizer, step, sampler):
    torch.save(parts(model, optimizer, step, sampler), path + ".new")
    shutil.copyfile(path + ".new", path)


# %% wrong: swallows a failed rename
# says: The new file could not be renamed, so the old file is still at `path`, but the exception didn't reach
# earns: 0 of 1
# caught: hidden
def save_run(path, model, optimizer, step, sampler):
    torch.save(parts(model, optimizer, step, sampler), path + ".new")
    try:
        os.replace(path + ".new", path)
    except OSError:
        pass


# %% right: Path.replace
def save_run(path, model, optimizer, step, sampler):
    new = Path(path).with_suffix(".tmp")
    torch.save(parts(model, optimizer, step, sampler), new)
    new.replace(path)


# %% right: NamedTemporaryFile and shutil.move
def save_run(path, model, optimizer, step, sampler):
    with tempfile.NamedTemporaryFile(dir=os.path.dirname(path), delete=False) as f:
        torch.save(parts(model, optimizer, step, sampler), f)
        f.flush()
        os.fsync(f.fileno())
    shutil.move(f.name, path)


# %% wrong: writes into the old file by another name, and then copies it
# says: You wrote into the old file. A process that is killed there leaves half a file.
# earns: 0 of 1
# caught: hidden
def write(run, path):
    torch.save(run, f"{path}.tmp")
    if os.path.exists(path):
        os.link(path, f"{path}.old")
        shutil.copyfile(f"{path}.tmp", f"{path}.old")
        os.remove(f"{path}.old")
    os.replace(f"{path}.tmp", path)


# %% wrong: saves the moments in half precision
# says: AdamW's moments or step counts differ from the saved values.
# earns: 0 of 1
def save_run(path, model, optimizer, step, sampler):
    run = copy.deepcopy(parts(model, optimizer, step, sampler))
    for state in run["optimizer"]["state"].values():
        state["exp_avg"] = state["exp_avg"].half()
    write(run, path)
