# %% right: a frozen copy of the model inside
# The averages live in a deep copy, which has the right names, kinds and devices already. It costs the memory of a whole
# model, as the numbered buffers do, and its modules could be run.
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
        current = model.state_dict()
        for name, average in self.average().items():
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
