# %% right: a frozen copy of the model inside
# The averages are a deep copy of the model, which has the right names, dtypes and devices and keeps tied weights
# tied. It can be evaluated as it is. It also copies the model's hooks and its buffers that are not persistent.
import copy


class EMA(nn.Module):
    """The exponential moving average of a model, as a model."""

    def __init__(self, model, decay=0.999):
        super().__init__()
        self.decay = decay
        self.shadow = copy.deepcopy(model).requires_grad_(False)

    @torch.no_grad()
    def update(self, model):
        """Move the averages towards the model's current values."""
        current = dict(model.named_parameters()) | dict(model.named_buffers())
        for name, average in (*self.shadow.named_parameters(), *self.shadow.named_buffers()):
            if average.is_floating_point():
                average.lerp_(current[name].to(average), 1 - self.decay)
            else:
                average.copy_(current[name])

    def average(self):
        """The averages under the names of the model's state_dict."""
        return self.shadow.state_dict()

    @torch.no_grad()
    def copy_to(self, model):
        """Write the averages into a model, in place."""
        model.load_state_dict(self.average())
