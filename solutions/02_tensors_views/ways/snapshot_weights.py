# %% right: a deep copy of the state_dict
# One call, and it keeps what hangs on the dictionary: its metadata with the versions of the modules. Tensors that
# share memory share it in the copy too.
import copy


def snapshot(model):
    """A copy of the whole dictionary."""
    return copy.deepcopy(model.state_dict())


# %% right: saves to memory and loads
# The way that a checkpoint takes anyway. It writes every byte once more than a copy does, and nothing that is loaded
# can be tied to the model.
import io


def snapshot(model):
    """What a checkpoint of the model would hold."""
    file = io.BytesIO()
    torch.save(model.state_dict(), file)
    file.seek(0)
    return torch.load(file)


# %% wrong: copies the dictionary
# says: The snapshot changed when the model was trained
# A new dictionary with the old tensors in it. The optimizer writes into those tensors.
def snapshot(model):
    """New names for the memory that is trained."""
    return dict(model.state_dict())
