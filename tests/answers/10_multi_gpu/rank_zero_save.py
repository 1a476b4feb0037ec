import contextlib
import io
import os
import time

import torch
import torch.distributed as dist

# corners: none


# %% right: a flag tensor broadcast in finally
def save_and_reload(ddp, path):
    if dist.get_rank() == 0:
        ok = torch.zeros(1)
        try:
            torch.save(ddp.module.state_dict(), path)
            ok += 1
        finally:
            dist.broadcast(ok, src=0)
    else:
        ok = torch.empty(1)
        dist.broadcast(ok, src=0)
        if not ok.item():
            raise RuntimeError("rank 0 could not save")
    return torch.load(path)


# %% right: every rank contributes its success to an all_reduce; atomic replace
def save_and_reload(ddp, path):
    failed, error = torch.zeros(1, dtype=torch.int64), None
    if dist.get_rank() == 0:
        try:
            torch.save(ddp.module.state_dict(), path + ".tmp")
            os.replace(path + ".tmp", path)
        except Exception as caught:
            error = caught
            failed += 1
    dist.all_reduce(failed)
    if failed.item():
        raise error or RuntimeError("saving failed on rank 0")
    return torch.load(path, map_location="cpu", weights_only=True)


# %% right: removes the prefix from the wrapper's state_dict
def save_and_reload(ddp, path):
    outcome = [None]
    if dist.get_rank() == 0:
        try:
            state = {key.removeprefix("module."): value for key, value in ddp.state_dict().items()}
            torch.save(state, path)
        except BaseException as error:
            outcome[0] = repr(error)
            dist.broadcast_object_list(outcome, src=0)
            raise
    dist.broadcast_object_list(outcome, src=0)
    if outcome[0]:
        raise RuntimeError(outcome[0])
    return torch.load(path)


# %% wrong: every rank saves
# says: Every rank wrote the file, and two writers can mix their bytes. Only rank 0 may write.
# says: The other ranks must raise RuntimeError.
# earns: 0 of 1
# lesson
def save_and_reload(ddp, path):
    torch.save(ddp.module.state_dict(), path)
    dist.barrier()
    return torch.load(path)


# %% wrong: the given code
# says: Every rank wrote the file, and two writers can mix their bytes. Only rank 0 may write.
# says: The other ranks must raise RuntimeError.
# earns: 0 of 1
def save_and_reload(ddp, path):
    torch.save(ddp.state_dict(), path)
    return torch.load(path)


# %% wrong: no barrier
# says: A rank loaded before the file was complete. The other ranks must wait for rank 0 (with a barrier, or a
# says: A failed save must raise on every rank.
# earns: 0 of 1
# lesson
def save_and_reload(ddp, path):
    if dist.get_rank() == 0:
        torch.save(ddp.module.state_dict(), path)
    return torch.load(path)


# %% wrong: waits until the file exists
# says: A failed save must raise on every rank.
# earns: 0.5 of 1
def save_and_reload(ddp, path):
    if dist.get_rank() == 0:
        torch.save(ddp.module.state_dict(), path)
    while not os.path.exists(path):
        time.sleep(0.01)
    time.sleep(0.1)
    return torch.load(path)


# %% wrong: barrier before saving
# says: A rank loaded before the file was complete. The other ranks must wait for rank 0 (with a barrier, or a
# says: A failed save must raise on every rank.
# earns: 0 of 1
def save_and_reload(ddp, path):
    dist.barrier()
    if dist.get_rank() == 0:
        torch.save(ddp.module.state_dict(), path)
    return torch.load(path)


# %% wrong: barrier under if rank == 0
# says: A rank waits in a collective that the other rank never reaches. All ranks must call barrier.
# says: A failed save must raise on every rank.
# earns: 0 of 1
def save_and_reload(ddp, path):
    if dist.get_rank() == 0:
        torch.save(ddp.module.state_dict(), path)
        dist.barrier()
        return torch.load(path)
    return ddp.module.state_dict()


# %% wrong: saves ddp.state_dict()
# says: The keys start with 'module.'. Save ddp.module.state_dict().
# says: Rank 0 failed to write and left, and the other ranks wait for it. Broadcast the outcome to them.
# earns: 0 of 1
# lesson
def save_and_reload(ddp, path):
    if dist.get_rank() == 0:
        torch.save(ddp.state_dict(), path)
    dist.barrier()
    return torch.load(path)


# %% wrong: saves the whole module
# says: The file must contain the bare model's state_dict.
# says: Rank 0 must raise the exception that stopped the writing.
# earns: 0 of 1
def save_and_reload(ddp, path):
    status = [None]
    if dist.get_rank() == 0:
        try:
            torch.save(list(ddp.module.state_dict().values()), path)
        except Exception as error:
            status = [str(error)]
    dist.broadcast_object_list(status, src=0)
    if status[0]:
        raise RuntimeError(status[0])
    return dict(enumerate(torch.load(path)))


# %% wrong: save, barrier, load; no error handling
# says: Rank 0 failed to write and left, and the other ranks wait for it. Broadcast the outcome to them.
# earns: 0.5 of 1
# lesson
def save_and_reload(ddp, path):
    if dist.get_rank() == 0:
        torch.save(ddp.module.state_dict(), path)
    dist.barrier()
    return torch.load(path)


# %% wrong: ignores the error
# says: A failed save must raise on every rank.
# earns: 0.5 of 1
def save_and_reload(ddp, path):
    if dist.get_rank() == 0:
        with contextlib.suppress(Exception):
            torch.save(ddp.module.state_dict(), path)
    dist.barrier()
    return torch.load(path)


# %% wrong: only rank 0 raises
# says: A failed save must raise on every rank.
# earns: 0.5 of 1
def save_and_reload(ddp, path):
    error = None
    if dist.get_rank() == 0:
        try:
            torch.save(ddp.module.state_dict(), path)
        except Exception as caught:
            error = caught
    dist.barrier()
    if error:
        raise error
    return torch.load(path)


# %% wrong: rank 0 raises RuntimeError in place of its own exception
# says: Rank 0 must raise the exception that stopped the writing.
# earns: 0.5 of 1
def save_and_reload(ddp, path):
    status = [None]
    if dist.get_rank() == 0:
        try:
            torch.save(ddp.module.state_dict(), path)
        except Exception as error:
            status = [str(error)]
    dist.broadcast_object_list(status, src=0)
    if status[0]:
        raise RuntimeError(status[0])
    return torch.load(path)


# %% wrong: the others raise OSError
# says: The other ranks must raise RuntimeError.
# earns: 0.5 of 1
def save_and_reload(ddp, path):
    status = [None]
    if dist.get_rank() == 0:
        try:
            torch.save(ddp.module.state_dict(), path)
        except Exception as error:
            status = [str(error)]
    dist.broadcast_object_list(status, src=0)
    if status[0]:
        raise OSError(28, status[0])
    return torch.load(path)


# %% wrong: only rank 0 loads
# says: Every rank must return what it read from the file.
# says: Rank 0 failed to write and left, and the other ranks wait for it. Broadcast the outcome to them.
# earns: 0 of 1
def save_and_reload(ddp, path):
    if dist.get_rank() == 0:
        torch.save(ddp.module.state_dict(), path)
    dist.barrier()
    if dist.get_rank() == 0:
        return torch.load(path)
    return ddp.module.state_dict()


# %% wrong: only rank 0 returns
# says: Every rank must return what it read from the file.
# says: Rank 0 failed to write and left, and the other ranks wait for it. Broadcast the outcome to them.
# earns: 0 of 1
def save_and_reload(ddp, path):
    if dist.get_rank() == 0:
        torch.save(ddp.module.state_dict(), path)
    dist.barrier()
    if dist.get_rank() == 0:
        return torch.load(path)


# %% wrong: never saves
# says: Nobody called torch.save.
# says: A failed save must raise on every rank.
# earns: 0 of 1
def save_and_reload(ddp, path):
    return ddp.module.state_dict()


# %% wrong: rank 1 saves
# says: torch.save must be called once, on rank 0.
# says: Rank 0 failed to write and left, and the other ranks wait for it. Broadcast the outcome to them.
# earns: 0 of 1
def save_and_reload(ddp, path):
    if dist.get_rank() == 1:
        torch.save(ddp.module.state_dict(), path)
    dist.barrier()
    return torch.load(path)


# %% right: through a buffer, and everybody hears of it by objects
def save_and_reload(ddp, path):
    error = None
    if dist.get_rank() == 0:
        try:
            buffer = io.BytesIO()
            torch.save(ddp.module.state_dict(), buffer)
            with open(path, "wb") as file:
                file.write(buffer.getvalue())
        except Exception as caught:
            error = caught
    outcomes = [None] * dist.get_world_size()
    dist.all_gather_object(outcomes, repr(error) if error else None)
    if any(outcomes):
        raise error or RuntimeError(outcomes[0])
    state = torch.load(path)
    dist.all_gather_object(outcomes, state)  # just to look at them
    return state


# %% wrong: rank 0 reads and broadcasts
# says: Every rank must return what it read from the file.
# says: Rank 0 failed to write and left, and the other ranks wait for it. Broadcast the outcome to them.
# earns: 0 of 1
def save_and_reload(ddp, path):
    box = [None]
    if dist.get_rank() == 0:
        torch.save(ddp.module.state_dict(), path)
        box = [torch.load(path)]
    dist.broadcast_object_list(box, src=0)
    return box[0]


# %% wrong: the whole module in the file
# says: The file must contain the bare model's state_dict.
# says: Rank 0 failed to write and left, and the other ranks wait for it. Broadcast the outcome to them.
# earns: 0 of 1
def save_and_reload(ddp, path):
    if dist.get_rank() == 0:
        torch.save(ddp.module, path)
    dist.barrier()
    return torch.load(path, weights_only=False).state_dict()


# %% wrong: sleeps instead of waiting
# says: A failed save must raise on every rank.
# earns: 0.5 of 1
def save_and_reload(ddp, path):
    if dist.get_rank() == 0:
        torch.save(ddp.module.state_dict(), path)
    else:
        time.sleep(1.5)
    return torch.load(path)


# %% wrong: the values are lost
# says: A rank returned something other than what was saved.
# says: Rank 0 failed to write and left, and the other ranks wait for it. Broadcast the outcome to them.
# earns: 0 of 1
def save_and_reload(ddp, path):
    if dist.get_rank() == 0:
        torch.save(ddp.module.state_dict(), path)
    dist.barrier()
    return dict.fromkeys(torch.load(path))


# %% wrong: catches OSError only
# says: A TypeError from torch.save (something can't be pickled) stopped rank 0, and the other ranks wait for it.
# earns: 0.5 of 1
# caught: hidden
def save_and_reload(ddp, path):
    status = [None]
    if dist.get_rank() == 0:
        try:
            torch.save(ddp.module.state_dict(), path)
        except OSError as error:
            status = [error]
    dist.broadcast_object_list(status, src=0)
    if status[0] is not None:
        raise status[0] if dist.get_rank() == 0 else RuntimeError("rank 0 could not save")
    return torch.load(path, weights_only=True)


# %% wrong: catches what a full disk raises, OSError or RuntimeError
# says: A TypeError from torch.save (something can't be pickled) stopped rank 0, and the other ranks wait for it.
# earns: 0.5 of 1
# caught: hidden
def save_and_reload(ddp, path):
    failed, error = torch.zeros(1), None
    if dist.get_rank() == 0:
        try:
            torch.save(ddp.module.state_dict(), path)
        except (OSError, RuntimeError) as caught:
            error = caught
            failed += 1
    dist.broadcast(failed, src=0)
    if failed.item():
        raise error or RuntimeError("rank 0 could not save")
    return torch.load(path)


# %% wrong: removes the prefix wherever it occurs
# says: You removed 'module.' inside a name, too: here a layer is called `submodule`.
# earns: 0.5 of 1
# caught: hidden
def save_and_reload(ddp, path):
    outcome, error = [None], None
    if dist.get_rank() == 0:
        try:
            torch.save({key.replace("module.", ""): value for key, value in ddp.state_dict().items()}, path)
        except Exception as caught:
            outcome, error = [repr(caught)], caught
    dist.broadcast_object_list(outcome, src=0)
    if outcome[0] is not None:
        raise error or RuntimeError(outcome[0])
    return torch.load(path, map_location="cpu", weights_only=True)


# %% wrong: renames the file outside of the try
# says: The path was a folder, so rank 0 could not write there, and it left while the other ranks wait for it.
# earns: 0.5 of 1
# caught: hidden
def save_and_reload(ddp, path):
    status, error = [""], None
    if dist.get_rank() == 0:
        try:
            torch.save(ddp.module.state_dict(), f"{path}.tmp")
        except Exception as caught:
            status, error = [repr(caught)], caught
        if error is None:
            os.replace(f"{path}.tmp", path)
    dist.broadcast_object_list(status, src=0)
    if status[0]:
        raise error or RuntimeError(status[0])
    return torch.load(path, weights_only=True)
