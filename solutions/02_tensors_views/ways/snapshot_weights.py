# %% right: a deep copy of the state_dict
# It is one call, and it also copies the dictionary's metadata, the version of each module, which the author's new
# dict doesn't have. Tensors that share memory also share it in the copy.
import copy


def snapshot(model):
    """A copy of the whole dictionary."""
    return copy.deepcopy(model.state_dict())


# %% right: saves to memory and loads
# A checkpoint is made in the same way. Every byte is copied twice, once when saving and once when loading, and
# nothing that is loaded can share memory with the model.
import io


def snapshot(model):
    """What a checkpoint of the model would hold."""
    file = io.BytesIO()
    torch.save(model.state_dict(), file)
    file.seek(0)
    return torch.load(file)


# %% wrong: copies the dictionary
# says: The snapshot changed when the model was trained
# `dict` makes a new dictionary, but its tensors still share the memory of the parameters, and the optimizer writes
# into that memory.
def snapshot(model):
    """New names for the memory that is trained."""
    return dict(model.state_dict())
