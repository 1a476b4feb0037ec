# %% right: finishes each micro-batch before the next
# Rank 0 has the graph of one micro-batch at a time, where the author's answer keeps all of them until the gradients
# come. But the ranks take turns: while one of them computes, the other one waits.
def pipeline_step(stage, inputs, targets, loss_fn, hidden, n_micro):
    """Forward and backward of one micro-batch after the other."""
    stage.zero_grad()
    total = 0.0
    for i in range(n_micro):
        if dist.get_rank() == 0:
            activation = stage(inputs[i])
            dist.send(activation.detach(), dst=1)
            gradient = torch.empty(hidden)
            dist.recv(gradient, src=1)
            activation.backward(gradient)
        else:
            received = torch.empty(hidden)
            dist.recv(received, src=0)
            received.requires_grad_()
            loss = loss_fn(stage(received), targets[i]) / n_micro
            loss.backward()
            dist.send(received.grad, dst=0)
            total += loss.item()
    return total if dist.get_rank() == 1 else None


# %% right: one message each way
# The activations of all micro-batches are stacked, so there are two messages instead of two for each micro-batch. Both
# ranks keep the graphs of all micro-batches, and rank 1 waits until rank 0 has finished all its forward passes.
def pipeline_step(stage, inputs, targets, loss_fn, hidden, n_micro):
    """Forward of all micro-batches, then backward of all."""
    stage.zero_grad()
    if dist.get_rank() == 0:
        activations = torch.stack([stage(x) for x in inputs])
        dist.send(activations.detach(), dst=1)
        gradients = torch.empty_like(activations)
        dist.recv(gradients, src=1)
        activations.backward(gradients)
        return None
    received = torch.empty(n_micro, *hidden)
    dist.recv(received, src=0)
    received.requires_grad_()
    losses = [loss_fn(stage(one), y) for one, y in zip(received, targets, strict=True)]
    loss = torch.stack(losses).mean()
    loss.backward()
    dist.send(received.grad, dst=0)
    return loss.item()


# %% wrong: what was received doesn't require grad
# says: The received tensor must require grad (as a leaf) before it goes through the second stage
# A tensor from another process is data. Rank 1 would train, but it has no gradient to send back.
def pipeline_step(stage, inputs, targets, loss_fn, hidden, n_micro):
    """A step that has nothing to send back."""
    stage.zero_grad()
    total = 0.0
    for i in range(n_micro):
        if dist.get_rank() == 0:
            activation = stage(inputs[i])
            dist.send(activation.detach(), dst=1)
            gradient = torch.empty(hidden)
            dist.recv(gradient, src=1)
            activation.backward(gradient)
        else:
            received = torch.empty(hidden)
            dist.recv(received, src=0)
            loss = loss_fn(stage(received), targets[i]) / n_micro
            loss.backward()
            dist.send(received.grad, dst=0)
            total += loss.item()
    return total if dist.get_rank() == 1 else None
