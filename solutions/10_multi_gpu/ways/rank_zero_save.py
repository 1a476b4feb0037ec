# %% right: writes beside the file, and adds up the failures
# If writing fails, an older file at the path stays whole, because the new one is renamed only when it is complete; what
# was written of it is left beside it. The ranks add up one number, so the others hear that rank 0 has failed, but not
# why.
def save_and_reload(ddp, path):
    """Replace the file in one go; return what it contains."""
    failures, error = torch.zeros((), dtype=torch.int64), None
    if dist.get_rank() == 0:
        try:
            torch.save(ddp.module.state_dict(), f"{path}.new")
            os.replace(f"{path}.new", path)
        except Exception as caught:
            error = caught
            failures += 1
    dist.all_reduce(failures)
    if failures:
        raise error or RuntimeError("rank 0 could not save")
    return torch.load(path, weights_only=True)


# %% wrong: save, barrier, load
# says: Rank 0 failed to write and left, and the other ranks wait for it. Broadcast the outcome to them.
# It works until the disk is full. Then rank 0 raises before the barrier, and the other ranks wait in it.
def save_and_reload(ddp, path):
    """Save, wait for each other, and load."""
    if dist.get_rank() == 0:
        torch.save(ddp.module.state_dict(), path)
    dist.barrier()
    return torch.load(path, weights_only=True)
