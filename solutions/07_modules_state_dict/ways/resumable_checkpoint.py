# %% right: a temporary folder beside the file
# The folder is removed even if saving raises, so no half file is left; only a process that is killed leaves it
# behind. It is created beside the checkpoint because a file can be renamed atomically only within one file system.
import tempfile


def save_checkpoint(path, model, optimizer, scheduler, epoch):
    """Save into a folder of its own, then put the file in its place."""
    checkpoint = {
        "states": [one.state_dict() for one in (model, optimizer, scheduler)],
        "epoch": epoch,
        "rng": torch.get_rng_state(),
    }
    path = Path(path)
    with tempfile.TemporaryDirectory(dir=path.parent) as folder:
        torch.save(checkpoint, f"{folder}/checkpoint")
        os.replace(f"{folder}/checkpoint", path)


def load_checkpoint(path, model, optimizer, scheduler):
    """Restore all three and the generator; return the epoch to continue with."""
    checkpoint = torch.load(path, map_location="cpu")
    for one, state in zip((model, optimizer, scheduler), checkpoint["states"], strict=True):
        one.load_state_dict(state)
    torch.set_rng_state(checkpoint["rng"])
    return checkpoint["epoch"] + 1


# %% wrong: forgets the state of the generator
# says: Dropout masks or the shuffle differ: torch's generator state was not saved, or restored before something else
# The weights are right, but from the first shuffle or dropout mask on it is a different run.
def save_checkpoint(path, model, optimizer, scheduler, epoch):
    """Save all but the generator."""
    checkpoint = {"states": [one.state_dict() for one in (model, optimizer, scheduler)], "epoch": epoch}
    temporary = Path(f"{path}.tmp")
    try:
        torch.save(checkpoint, temporary)
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def load_checkpoint(path, model, optimizer, scheduler):
    """Restore all three."""
    checkpoint = torch.load(path, map_location="cpu")
    for one, state in zip((model, optimizer, scheduler), checkpoint["states"], strict=True):
        one.load_state_dict(state)
    return checkpoint["epoch"] + 1
