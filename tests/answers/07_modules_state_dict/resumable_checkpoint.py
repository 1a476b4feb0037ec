# corners: caller's modes

import io
import os
import pathlib
import pickle
import shutil
import tempfile

import torch


def parts(model, optimizer, scheduler, epoch):
    return {
        "model": model.state_dict(),
        "optimizer": optimizer.state_dict(),
        "scheduler": scheduler.state_dict(),
        "epoch": epoch,
        "rng": torch.get_rng_state(),
    }


def write(checkpoint, path):
    """Writes atomically."""
    temporary = f"{path}.tmp"
    try:
        torch.save(checkpoint, temporary)
        os.replace(temporary, path)
    except BaseException:
        if os.path.exists(temporary):
            os.remove(temporary)
        raise


def restore(checkpoint, model, optimizer, scheduler, rng=True):
    model.load_state_dict(checkpoint["model"])
    if "optimizer" in checkpoint:
        optimizer.load_state_dict(checkpoint["optimizer"])
    if "scheduler" in checkpoint:
        scheduler.load_state_dict(checkpoint["scheduler"])
    if rng and "rng" in checkpoint:
        torch.set_rng_state(checkpoint["rng"])
    return checkpoint["epoch"] + 1


def save_checkpoint(path, model, optimizer, scheduler, epoch):
    write(parts(model, optimizer, scheduler, epoch), path)


def load_checkpoint(path, model, optimizer, scheduler):
    return restore(torch.load(path, map_location="cpu", weights_only=True), model, optimizer, scheduler)


# %% right: one dict, a temporary file and os.replace
def save_checkpoint(path, model, optimizer, scheduler, epoch):
    write(parts(model, optimizer, scheduler, epoch), os.fspath(path))


# %% right: a temporary file object in the same folder, the generator through torch.random
def save_checkpoint(path, model, optimizer, scheduler, epoch):
    path = pathlib.Path(path)
    checkpoint = parts(model, optimizer, scheduler, epoch) | {"rng": torch.random.get_rng_state()}
    with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as file:
        try:
            torch.save(checkpoint, file)
        except BaseException:
            os.unlink(file.name)
            raise
    pathlib.Path(file.name).replace(path)


def load_checkpoint(path, model, optimizer, scheduler):
    checkpoint = torch.load(pathlib.Path(path), map_location=torch.device("cpu"))
    epoch = restore(checkpoint, model, optimizer, scheduler, rng=False)
    torch.random.set_rng_state(checkpoint["rng"])
    return epoch


# %% right: serialised into memory first, then written and replaced; a list; the generator's own methods
def save_checkpoint(path, model, optimizer, scheduler, epoch):
    buffer = io.BytesIO()
    states = [x.state_dict() for x in (model, optimizer, scheduler)]
    torch.save([*states, torch.default_generator.get_state(), epoch + 1], buffer)
    temporary = os.fspath(path) + ".new"
    with open(temporary, "wb") as file:
        file.write(buffer.getvalue())
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, path)


def load_checkpoint(path, model, optimizer, scheduler):
    with open(path, "rb") as file:
        *states, generator, epoch = torch.load(file, map_location="cpu")
    for x, state in zip((model, optimizer, scheduler), states, strict=True):
        x.load_state_dict(state)
    torch.default_generator.set_state(generator)
    return epoch


# %% wrong: the optimizer's state not saved
# says: The run drifts after resuming although the weights are right: Adam's moments and step count are also state.
# says: The checkpoint is not what was loaded.
# earns: 0 of 3
# lesson
def save_checkpoint(path, model, optimizer, scheduler, epoch):
    checkpoint = parts(model, optimizer, scheduler, epoch)
    del checkpoint["optimizer"]
    write(checkpoint, path)


# %% wrong: the optimizer saved and not restored
# says: Adam's moments and step count are also state.
# says: The checkpoint is not what was loaded.
# earns: 0 of 3
def load_checkpoint(path, model, optimizer, scheduler):
    checkpoint = torch.load(path, map_location="cpu")
    del checkpoint["optimizer"]
    return restore(checkpoint, model, optimizer, scheduler)


# %% wrong: the scheduler not saved
# says: The learning rate is not what it was: also save the scheduler's state_dict.
# earns: 1 of 3
# lesson
def save_checkpoint(path, model, optimizer, scheduler, epoch):
    checkpoint = parts(model, optimizer, scheduler, epoch)
    del checkpoint["scheduler"]
    write(checkpoint, path)


# %% wrong: the optimizer is restored from the scheduler's rate only
# says: Adam's moments
# earns: 1 of 3
def save_checkpoint(path, model, optimizer, scheduler, epoch):
    checkpoint = parts(model, optimizer, scheduler, epoch)
    checkpoint["optimizer"]["state"] = {}
    write(checkpoint, path)


# %% wrong: the generator's state not saved
# says: Dropout masks or the shuffle differ: torch's generator state was not saved, or restored before something else
# earns: 1 of 3
# lesson
def save_checkpoint(path, model, optimizer, scheduler, epoch):
    checkpoint = parts(model, optimizer, scheduler, epoch)
    del checkpoint["rng"]
    write(checkpoint, path)


# %% wrong: the generator restored first, numbers drawn afterwards
# says: restored before something else drew numbers.
# earns: 1 of 3
def load_checkpoint(path, model, optimizer, scheduler):
    checkpoint = torch.load(path, map_location="cpu")
    torch.set_rng_state(checkpoint["rng"])
    for module in model.modules():
        if hasattr(module, "reset_parameters"):
            module.reset_parameters()
    return restore(checkpoint, model, optimizer, scheduler, rng=False)


# %% wrong: manual_seed(0) in place of the saved state
# says: Dropout masks or the shuffle differ
# earns: 1 of 3
def load_checkpoint(path, model, optimizer, scheduler):
    epoch = restore(torch.load(path, map_location="cpu"), model, optimizer, scheduler, rng=False)
    torch.default_generator.manual_seed(0)
    return epoch


# %% wrong: the initial seed is saved in place of the state
# says: Dropout masks or the shuffle differ
# earns: 1 of 3
def save_checkpoint(path, model, optimizer, scheduler, epoch):
    write(parts(model, optimizer, scheduler, epoch) | {"rng": torch.initial_seed()}, path)


def load_checkpoint(path, model, optimizer, scheduler):
    checkpoint = torch.load(path, map_location="cpu")
    epoch = restore(checkpoint, model, optimizer, scheduler, rng=False)
    torch.default_generator.manual_seed(checkpoint["rng"])
    return epoch


# %% wrong: reseeds both runs when it saves
# says: Saving disturbed the run that saves: from then on its numbers are different.
# earns: 1 of 3
def save_checkpoint(path, model, optimizer, scheduler, epoch):
    torch.default_generator.manual_seed(epoch)
    write(parts(model, optimizer, scheduler, epoch), path)


# %% wrong: the weights are not restored
# says: After loading, the weights are not those that were saved.
# says: The second checkpoint is not what was loaded.
# earns: 0 of 3
def load_checkpoint(path, model, optimizer, scheduler):
    checkpoint = torch.load(path, map_location="cpu")
    return restore(checkpoint | {"model": model.state_dict()}, model, optimizer, scheduler)


# %% wrong: pickles the model object, loads with weights_only=False
# says: A bare torch.load(path) refuses the file ('Weights only load failed'): store state_dicts, not objects.
# earns: 1 of 3
def save_checkpoint(path, model, optimizer, scheduler, epoch):
    write(parts(model, optimizer, scheduler, epoch) | {"object": model}, path)


def load_checkpoint(path, model, optimizer, scheduler):
    return restore(torch.load(path, map_location="cpu", weights_only=False), model, optimizer, scheduler)


# %% wrong: pickles the model object, loads as usual
# says: A bare torch.load(path) refuses the file ('Weights only load failed')
# earns: 0 of 3
# lesson
def save_checkpoint(path, model, optimizer, scheduler, epoch):
    write(parts(model, optimizer, scheduler, epoch) | {"object": model}, path)


# %% wrong: torch.save straight onto path
# says: After a failed save the old checkpoint is gone or damaged: write to a temporary file and os.replace it.
# earns: 2 of 3
# caught: hidden
def save_checkpoint(path, model, optimizer, scheduler, epoch):
    torch.save(parts(model, optimizer, scheduler, epoch), path)


# %% wrong: deletes the old file before writing the temporary one
# says: After a failed save the old checkpoint is gone or damaged
# earns: 2 of 3
# caught: hidden
def save_checkpoint(path, model, optimizer, scheduler, epoch):
    if os.path.exists(path):
        os.remove(path)
    write(parts(model, optimizer, scheduler, epoch), path)


# %% wrong: keeps the old file as a backup
# says: You left another file in the folder of the checkpoint.
# says: After two saves the folder should hold run.pt
# earns: 0 of 3
def save_checkpoint(path, model, optimizer, scheduler, epoch):
    write(parts(model, optimizer, scheduler, epoch), path)
    with open(path, "rb") as file, open(f"{path}.bak", "wb") as backup:
        backup.write(file.read())


# %% wrong: the temporary file is not removed on failure
# says: A partial temporary file was left behind after the failure.
# earns: 2 of 3
# caught: hidden
def save_checkpoint(path, model, optimizer, scheduler, epoch):
    torch.save(parts(model, optimizer, scheduler, epoch), f"{path}.tmp")
    os.replace(f"{path}.tmp", path)


# %% wrong: swallows the failure
# says: The exception of a failed save must reach the caller.
# earns: 2 of 3
# caught: hidden
def save_checkpoint(path, model, optimizer, scheduler, epoch):
    try:
        write(parts(model, optimizer, scheduler, epoch), path)
    except OSError:
        print("could not save")


# %% wrong: returns the saved epoch
# says: load_checkpoint must return the epoch to continue WITH (saved epoch + 1).
# earns: 0 of 3
def load_checkpoint(path, model, optimizer, scheduler):
    return restore(torch.load(path, map_location="cpu"), model, optimizer, scheduler) - 1


# %% wrong: returns nothing
# says: load_checkpoint must return the epoch to continue WITH (saved epoch + 1).
# earns: 0 of 3
def load_checkpoint(path, model, optimizer, scheduler):
    restore(torch.load(path, map_location="cpu"), model, optimizer, scheduler)


# %% wrong: calls model.train() after loading
# says: changed the train/eval flag of a part
# earns: 2 of 3
# corner: caller's modes
def load_checkpoint(path, model, optimizer, scheduler):
    epoch = restore(torch.load(path, map_location="cpu"), model, optimizer, scheduler)
    model.train()
    return epoch


# %% wrong: calls model.eval() while saving
# says: Saving disturbed the run that saves
# says: changed the train/eval flag of a part
# earns: 0 of 3
def save_checkpoint(path, model, optimizer, scheduler, epoch):
    model.eval()
    write(parts(model, optimizer, scheduler, epoch), path)


# %% wrong: a missing file counts as a new start
# says: A missing file must raise FileNotFoundError.
# earns: 2 of 3
def load_checkpoint(path, model, optimizer, scheduler):
    if not os.path.exists(path):
        return 0
    return restore(torch.load(path, map_location="cpu"), model, optimizer, scheduler)


# %% wrong: changes the generator before it looks for the file
# says: A missing file must raise before anything is changed.
# earns: 2 of 3
def load_checkpoint(path, model, optimizer, scheduler):
    torch.default_generator.manual_seed(7)
    return restore(torch.load(path, map_location="cpu"), model, optimizer, scheduler)


# %% wrong: takes strings only
# says: A path may be a string or a pathlib.Path
# earns: 2 of 3
def save_checkpoint(path, model, optimizer, scheduler, epoch):
    write(parts(model, optimizer, scheduler, epoch), path + "")


# %% wrong: never overwrites
# says: The second checkpoint is not what was loaded.
# earns: 2 of 3
def save_checkpoint(path, model, optimizer, scheduler, epoch):
    if not os.path.exists(path):
        write(parts(model, optimizer, scheduler, epoch), path)


# %% wrong: adds an ending to the name
# says: save_checkpoint wrote no file at `path`.
# says: FileNotFoundError
# earns: 0 of 3
def save_checkpoint(path, model, optimizer, scheduler, epoch):
    write(parts(model, optimizer, scheduler, epoch), f"{path}.pt")


# %% wrong: assigns the loaded tensors, which the optimizer does not know
# says: parameters
# earns: 1 of 3
def load_checkpoint(path, model, optimizer, scheduler):
    checkpoint = torch.load(path, map_location="cpu")
    model.load_state_dict(checkpoint["model"], assign=True)
    optimizer.load_state_dict(checkpoint["optimizer"])
    scheduler.load_state_dict(checkpoint["scheduler"])
    torch.set_rng_state(checkpoint["rng"])
    return checkpoint["epoch"] + 1


# %% wrong: no map_location
# says: The file must load on a machine without the device that wrote it: use map_location='cpu'.
# earns: 2 of 3
# caught: hidden
def load_checkpoint(path, model, optimizer, scheduler):
    return restore(torch.load(path), model, optimizer, scheduler)


# %% right: a temporary folder beside the file
def save_checkpoint(path, model, optimizer, scheduler, epoch):
    path = pathlib.Path(path)
    with tempfile.TemporaryDirectory(dir=path.parent) as folder:
        torch.save(parts(model, optimizer, scheduler, epoch), f"{folder}/file")
        os.replace(f"{folder}/file", path)


# %% wrong: Python's pickle in place of torch.save
# says: A bare torch.load(path) refuses the file
# says: The file must load on a machine without the device
# earns: 0 of 3
def save_checkpoint(path, model, optimizer, scheduler, epoch):
    pathlib.Path(path).write_bytes(pickle.dumps(parts(model, optimizer, scheduler, epoch)))


def load_checkpoint(path, model, optimizer, scheduler):
    return restore(pickle.loads(pathlib.Path(path).read_bytes()), model, optimizer, scheduler)


# %% wrong: the generator in a file of its own
# says: You left another file in the folder of the checkpoint.
# says: After two saves the folder should hold run.pt
# earns: 0 of 3
def save_checkpoint(path, model, optimizer, scheduler, epoch):
    torch.save(torch.get_rng_state(), f"{path}.rng")
    write(parts(model, optimizer, scheduler, epoch), path)


# %% wrong: a fork of the generator takes the restored state back
# says: Dropout masks or the shuffle differ
# earns: 1 of 3
def load_checkpoint(path, model, optimizer, scheduler):
    with torch.random.fork_rng():
        return restore(torch.load(path, map_location="cpu"), model, optimizer, scheduler)


# %% wrong: the temporary file lies in the system's folder for such files
# says: The temporary file was in another folder
# earns: 2 of 3
# caught: hidden
def save_checkpoint(path, model, optimizer, scheduler, epoch):
    temporary = os.path.join(tempfile.gettempdir(), f"checkpoint-{os.getpid()}")
    try:
        torch.save(parts(model, optimizer, scheduler, epoch), temporary)
        os.replace(temporary, path)
    finally:
        if os.path.exists(temporary):
            os.remove(temporary)


# %% wrong: moves the temporary file from another disk, which copies it
# says: The old checkpoint was overwritten in place
# earns: 2 of 3
# caught: hidden
def save_checkpoint(path, model, optimizer, scheduler, epoch):
    with tempfile.TemporaryDirectory() as folder:
        torch.save(parts(model, optimizer, scheduler, epoch), f"{folder}/file")
        shutil.move(f"{folder}/file", path)


# %% wrong: serialised into memory first, then written over the old file
# says: The old checkpoint was overwritten in place
# earns: 2 of 3
# caught: hidden
def save_checkpoint(path, model, optimizer, scheduler, epoch):
    buffer = io.BytesIO()
    torch.save(parts(model, optimizer, scheduler, epoch), buffer)
    pathlib.Path(path).write_bytes(buffer.getvalue())


# %% right: os.replace, imported by its name
def save_checkpoint(path, model, optimizer, scheduler, epoch):
    from os import replace

    descriptor, temporary = tempfile.mkstemp(dir=os.path.dirname(os.path.abspath(path)))
    try:
        with os.fdopen(descriptor, "wb") as file:
            torch.save(parts(model, optimizer, scheduler, epoch), file)
        replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


# %% wrong: removes the old file, then renames
# says: For a moment there was no checkpoint at `path`: the old one was removed or renamed before the new
# earns: 2 of 3
# caught: hidden
def save_checkpoint(path, model, optimizer, scheduler, epoch):
    temporary = f"{path}.tmp"
    try:
        torch.save(parts(model, optimizer, scheduler, epoch), temporary)
        if os.path.exists(path):
            os.remove(path)
        os.rename(temporary, path)
    finally:
        Path(temporary).unlink(missing_ok=True)


# %% wrong: the old file to .bak first
# says: For a moment there was no checkpoint at `path`: the old one was removed or renamed before the new
# earns: 2 of 3
# caught: hidden
def save_checkpoint(path, model, optimizer, scheduler, epoch):
    path = Path(path)
    temporary, backup = path.with_name("t.tmp"), path.with_name("old.bak")
    try:
        torch.save(parts(model, optimizer, scheduler, epoch), temporary)
        if path.exists():
            path.rename(backup)
        temporary.rename(path)
        backup.unlink(missing_ok=True)
    finally:
        temporary.unlink(missing_ok=True)


# %% wrong: Path.unlink, then replace
# says: For a moment there was no checkpoint at `path`: the old one was removed or renamed before the new
# earns: 2 of 3
# caught: hidden
def save_checkpoint(path, model, optimizer, scheduler, epoch):
    path = Path(path)
    temporary = path.with_name("t.tmp")
    try:
        torch.save(parts(model, optimizer, scheduler, epoch), temporary)
        path.unlink(missing_ok=True)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


# %% wrong: swallows a failed rename
# says: The new file could not be renamed, so the old one is still at `path`, but the caller doesn't know: the
# earns: 2 of 3
# caught: hidden
def save_checkpoint(path, model, optimizer, scheduler, epoch):
    temporary = f"{path}.tmp"
    try:
        torch.save(parts(model, optimizer, scheduler, epoch), temporary)
        try:
            os.replace(temporary, path)
        except PermissionError:
            print("could not replace the checkpoint")
    finally:
        Path(temporary).unlink(missing_ok=True)


# %% right: NamedTemporaryFile beside it, fsync, os.replace
def save_checkpoint(path, model, optimizer, scheduler, epoch):
    with tempfile.NamedTemporaryFile(dir=os.path.dirname(path), suffix=".tmp", delete=False) as file:
        try:
            torch.save(parts(model, optimizer, scheduler, epoch), file)
            file.flush()
            os.fsync(file.fileno())
            os.replace(file.name, path)
        except BaseException:
            os.unlink(file.name)
            raise


# %% wrong: the optimizer gets the scheduler's state
# says: The optimizer or the scheduler got a state that is not its own: restore each from its state_dict.
# says: Your code raised KeyError: 'param_groups'.
# earns: 0 of 3
def load_checkpoint(path, model, optimizer, scheduler):
    checkpoint = torch.load(path, map_location="cpu", weights_only=True)
    checkpoint["optimizer"], checkpoint["scheduler"] = checkpoint["scheduler"], checkpoint["optimizer"]
    return restore(checkpoint, model, optimizer, scheduler)


# %% wrong: the loaded tensors become parameters, which the optimizer gets
# says: The model's parameter objects were replaced.
# earns: 1 of 3
def load_checkpoint(path, model, optimizer, scheduler):
    checkpoint = torch.load(path, map_location="cpu", weights_only=True)
    model.load_state_dict(checkpoint["model"], assign=True)
    optimizer.param_groups[0]["params"] = list(model.parameters())
    optimizer.load_state_dict(checkpoint["optimizer"])
    scheduler.load_state_dict(checkpoint["scheduler"])
    torch.set_rng_state(checkpoint["rng"])
    return checkpoint["epoch"] + 1


# %% wrong: makes a file to see whether there is one
# says: Loading a missing file must not make one.
# earns: 2 of 3
def load_checkpoint(path, model, optimizer, scheduler):
    with open(path, "ab") as file:
        size = file.tell()
    if not size:
        raise FileNotFoundError(path)
    return restore(torch.load(path, map_location="cpu", weights_only=True), model, optimizer, scheduler)


# %% wrong: writes to the path where there is no old file
# says: A failed save left a file.
# earns: 2 of 3
# caught: hidden
def save_checkpoint(path, model, optimizer, scheduler, epoch):
    checkpoint = parts(model, optimizer, scheduler, epoch)
    write(checkpoint, path) if os.path.exists(path) else torch.save(checkpoint, path)


# %% wrong: calls model.eval() after loading
# says: So load_checkpoint changes something else, such as the train/eval flag.
# says: changed the train/eval flag.
# earns: 0 of 3
def load_checkpoint(path, model, optimizer, scheduler):
    epoch = restore(torch.load(path, map_location="cpu"), model, optimizer, scheduler)
    model.eval()
    return epoch


# %% wrong: copies over the old file if renaming fails
# says: The new file could not be renamed, so your code wrote into the old one instead
# earns: 2 of 3
# caught: hidden
def save_checkpoint(path, model, optimizer, scheduler, epoch):
    temporary = f"{path}.tmp"
    try:
        torch.save(parts(model, optimizer, scheduler, epoch), temporary)
        try:
            os.replace(temporary, path)
        except OSError:
            shutil.copyfile(temporary, path)
    finally:
        Path(temporary).unlink(missing_ok=True)


# %% wrong: lets shutil.move try if renaming is refused
# says: The new file could not be renamed, so your code wrote into the old one instead
# earns: 2 of 3
# caught: hidden
def save_checkpoint(path, model, optimizer, scheduler, epoch):
    temporary = f"{path}.tmp"
    try:
        torch.save(parts(model, optimizer, scheduler, epoch), temporary)
        try:
            Path(temporary).replace(path)
        except PermissionError:
            shutil.move(temporary, path)
    finally:
        Path(temporary).unlink(missing_ok=True)


# %% wrong: removes the temporary file after an Exception only
# says: Ctrl-C raises KeyboardInterrupt, which `except Exception` doesn't catch
# earns: 2 of 3
# caught: hidden
def save_checkpoint(path, model, optimizer, scheduler, epoch):
    temporary = Path(f"{path}.tmp")
    try:
        torch.save(parts(model, optimizer, scheduler, epoch), temporary)
        temporary.replace(path)
    except Exception:
        temporary.unlink(missing_ok=True)
        raise


# %% right: another ending for the temporary name
def save_checkpoint(path, model, optimizer, scheduler, epoch):
    temporary = Path(path).with_suffix(".tmp")
    try:
        torch.save(parts(model, optimizer, scheduler, epoch), temporary)
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


# %% wrong: the system's folder where the path has no folder
# says: The temporary file was in another folder
# earns: 2 of 3
# caught: hidden
def save_checkpoint(path, model, optimizer, scheduler, epoch):
    with tempfile.NamedTemporaryFile(dir=os.path.dirname(path) or None, delete=False) as file:
        try:
            torch.save(parts(model, optimizer, scheduler, epoch), file)
            os.replace(file.name, path)
        except BaseException:
            os.unlink(file.name)
            raise


# %% wrong: makes the folder, which may be named ''
# says: os.path.dirname("run.pt") is "", and no folder has that name
# earns: 2 of 3
# caught: hidden
def save_checkpoint(path, model, optimizer, scheduler, epoch):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    write(parts(model, optimizer, scheduler, epoch), path)


# %% wrong: takes every entry of the state_dict for a tensor
# says: A state_dict may hold more than tensors
# earns: 2 of 3
def save_checkpoint(path, model, optimizer, scheduler, epoch):
    checkpoint = parts(model, optimizer, scheduler, epoch)
    write(checkpoint | {"model": {name: value.cpu() for name, value in checkpoint["model"].items()}}, path)


# %% wrong: copies the tensors of the state_dict into the model, and nothing else
# says: After loading, the extra state of a layer is not what was saved
# earns: 2 of 3
def load_checkpoint(path, model, optimizer, scheduler):
    checkpoint = torch.load(path, map_location="cpu")
    own = model.state_dict()
    for name, value in checkpoint["model"].items():
        if torch.is_tensor(value):
            own[name].copy_(value)
    return restore(checkpoint | {"model": own}, model, optimizer, scheduler)


# %% wrong: eval mode while saving, then train(was)
# says: Saving or loading changed the train/eval flag of a part, although not that of the whole model.
# earns: 2 of 3
def save_checkpoint(path, model, optimizer, scheduler, epoch):
    was = model.training
    model.eval()
    write(parts(model, optimizer, scheduler, epoch), path)
    model.train(was)


# %% wrong: eval mode while loading, then train(was)
# says: Saving or loading changed the train/eval flag of a part, although not that of the whole model.
# earns: 2 of 3
def load_checkpoint(path, model, optimizer, scheduler):
    checkpoint, was = torch.load(path, map_location="cpu"), model.training
    model.eval()
    epoch = restore(checkpoint, model, optimizer, scheduler)
    model.train(was)
    return epoch


# %% wrong: zero_grad before saving
# says: Saving deleted or changed the gradients of the run that saves
# earns: 2 of 3
def save_checkpoint(path, model, optimizer, scheduler, epoch):
    optimizer.zero_grad()
    write(parts(model, optimizer, scheduler, epoch), path)
