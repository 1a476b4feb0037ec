import torch

RIGHT = {
    "zero-backward-step": -2.0,
    "backward-step": -3.0,
    "backward-zero-step": 0.0,
    "grad after zero_grad": "none",
    "batches": 8,
    "last batch": 104,
    "first Adam step": -0.1,
    "lr via defaults": -0.1,
    "loss of a perfect logit": 0.0,
    "softmax twice": 0.31,
}

# corners: none


# %% right: None, integers and more decimals
answers = RIGHT | {"zero-backward-step": -2, "grad after zero_grad": None, "batches": 8.0, "softmax twice": 0.3132617}


# %% right: tensors and texts
answers = {name: str(value) for name, value in RIGHT.items()} | {
    "backward-step": torch.tensor(-3.0),
    "last batch": torch.tensor(104),
    "first Adam step": torch.tensor(-0.1, dtype=torch.float64),
    "grad after zero_grad": " None ",
    "softmax twice": torch.tensor(0.3133),
}


# %% right: in another order, with an item that was not asked for
answers = dict(reversed(RIGHT.items())) | {"notes": "done without running"}


# %% wrong: backward overwrites
# says: backward-step = -2.0: backward() adds to .grad, so without zero_grad the second step uses 2 + 2.
# earns: 1.8 of 2
# lesson
answers = RIGHT | {"backward-step": -2.0}


# %% wrong: zero_grad too early
# says: zero_grad between backward and step throws the gradient away, so nothing is learned.
# earns: 1.8 of 2
# lesson
answers = RIGHT | {"backward-zero-step": -2.0}


# %% wrong: zeros after zero_grad
# says: zero_grad() sets .grad to None (set_to_none=True is the default), not to zeros.
# earns: 1.8 of 2
answers = RIGHT | {"grad after zero_grad": 0.0}


# %% wrong: the text zero after zero_grad
# says: zero_grad() sets .grad to None
# earns: 1.8 of 2
answers = RIGHT | {"grad after zero_grad": "zero"}


# %% wrong: complete batches only
# says: The part has 1000 samples, and the incomplete last batch is kept by default: 7 * 128 = 896, then one of 104.
# earns: 1.8 of 2
answers = RIGHT | {"batches": 7}


# %% wrong: the last batch is complete
# says: The part has 1000 samples, and the incomplete last batch is kept by default: 7 * 128 = 896, then one of 104.
# earns: 1.8 of 2
answers = RIGHT | {"last batch": 128}


# %% wrong: Adam steps like SGD
# says: Adam divides by the root of the second moment: the first step is about lr, however large the gradient is,
# earns: 1.8 of 2
# lesson
answers = RIGHT | {"first Adam step": -50.0}


# %% wrong: Adam steps by the clipped gradient
# says: however large the gradient is, clipped or not.
# earns: 1.8 of 2
answers = RIGHT | {"first Adam step": -1.0}


# %% wrong: the defaults are in use
# says: optimizer.defaults is only the template for new groups; the rate in use is param_groups[i]['lr'], which
# earns: 1.8 of 2
answers = RIGHT | {"lr via defaults": -9.0}


# %% wrong: a second softmax changes nothing
# says: cross_entropy takes logits. After a softmax the inputs are in [0, 1], and with 2 classes the loss cannot
# earns: 1.8 of 2
# lesson
answers = RIGHT | {"softmax twice": 0.0}


# %% wrong: one iteration, or one micro-batch, forgotten
# says: The two backwards add up to a gradient of 2, and one SGD step is w - lr * grad: -1 per iteration here.
# earns: 1.8 of 2
answers = RIGHT | {"zero-backward-step": -1.0}


# %% wrong: the rate forgotten
# says: zero-backward-step = -4.0: The two backwards add up to a gradient of 2, and one SGD step is w - lr * grad
# earns: 1.8 of 2
answers = RIGHT | {"zero-backward-step": -4.0}


# %% wrong: uphill
# says: A step goes against the gradient, which is positive here: the result is negative.
# earns: 1.8 of 2
answers = RIGHT | {"zero-backward-step": 2.0}


# %% wrong: large logits give a large loss
# says: cross_entropy takes a log-softmax, and the log-softmax of log-probabilities changes nothing.
# earns: 1.8 of 2
answers = RIGHT | {"loss of a perfect logit": 1000.0}


# %% wrong: True for a number
# says: loss of a perfect logit = False
# earns: 1.8 of 2
answers = RIGHT | {"loss of a perfect logit": False}


# %% wrong: an item left open
# says: batches = ...: There is no prediction yet
# earns: 1.8 of 2
answers = RIGHT | {"batches": ...}


# %% wrong: a list
# says: The answer must be a dict
# earns: 0 of 2
answers = list(RIGHT.values())


# %% wrong: nan and a list in place of numbers
# says: last batch = [104]
# earns: 1.6 of 2
answers = RIGHT | {"softmax twice": float("nan"), "last batch": [104]}
