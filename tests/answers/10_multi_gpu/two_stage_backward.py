import torch
import torch.distributed as dist

# corners: none


# %% right: forward and backward of a micro-batch before the next one
def pipeline_step(stage, inputs, targets, loss_fn, hidden, n_micro):
    for p in stage.parameters():
        p.grad = None
    total = 0.0
    for i in range(n_micro):
        if dist.get_rank() == 0:
            h = stage(inputs[i])
            dist.send(h, 1)
            g = torch.zeros(hidden)
            dist.recv(g, 1)
            torch.autograd.backward(h, g)
        else:
            h = torch.zeros(hidden, requires_grad=True)
            dist.recv(h, 0)
            loss = loss_fn(stage(h), targets[i])
            (loss / n_micro).backward()
            dist.send(h.grad, 0)
            total += loss.detach()
    return float(total / n_micro) if dist.get_rank() else None


# %% right: isend and irecv with tags, autograd.grad on rank 1, the last gradient first
def pipeline_step(stage, inputs, targets, loss_fn, hidden, n_micro):
    stage.zero_grad(set_to_none=False)
    if dist.get_rank() == 0:
        gradients = [torch.empty(hidden) for _ in range(n_micro)]
        arriving = [dist.irecv(g, src=1, tag=100 + i) for i, g in enumerate(gradients)]
        activations, sent = [], []
        for i, x in enumerate(inputs):
            activations.append(stage(x))
            sent.append(dist.isend(activations[-1].detach().contiguous(), dst=1, tag=i))
        for i in reversed(range(n_micro)):
            arriving[i].wait()
            activations[i].backward(gradients[i])
        for work in sent:
            work.wait()
        return None
    received = [torch.empty(hidden) for _ in range(n_micro)]
    arriving = [dist.irecv(h, src=0, tag=i) for i, h in enumerate(received)]
    losses, sent = [], []
    parameters = list(stage.parameters())
    for i, h in enumerate(received):
        arriving[i].wait()
        h.requires_grad_()
        loss = loss_fn(stage(h), targets[i]) / n_micro
        of_h, *of_parameters = torch.autograd.grad(loss, [h, *parameters])
        for p, g in zip(parameters, of_parameters, strict=True):
            p.grad = g if p.grad is None else p.grad + g
        sent.append(dist.isend(of_h, dst=0, tag=100 + i))
        losses.append(loss.item())
    for work in sent:
        work.wait()
    return sum(losses)


# %% right: all micro-batches in one message, the mean of all losses backward at once
def pipeline_step(stage, inputs, targets, loss_fn, hidden, n_micro):
    stage.zero_grad()
    everything = torch.empty(n_micro, *hidden)
    if dist.get_rank() == 0:
        h = torch.stack([stage(x) for x in inputs])
        dist.send(h.detach(), dst=1)
        dist.recv(everything)
        (h * everything).sum().backward()
        return None
    dist.recv(everything)
    everything.requires_grad_()
    loss = torch.stack([loss_fn(stage(h), y) for h, y in zip(everything, targets, strict=True)]).mean()
    loss.backward()
    dist.send(everything.grad, dst=0)
    return loss.item()


# %% right: lists of objects, and the gradients divided at the end
def pipeline_step(stage, inputs, targets, loss_fn, hidden, n_micro):
    stage.zero_grad()
    losses = []
    for i in range(n_micro):
        if dist.get_rank() == 0:
            h = stage(inputs[i])
            dist.send_object_list([h.detach()], dst=1)
            box = [None]
            dist.recv_object_list(box, src=1)
            h.backward(box[0])
        else:
            box = [None]
            dist.recv_object_list(box, src=0)
            h = box[0].requires_grad_()
            losses.append(loss_fn(stage(h), targets[i]))
            losses[-1].backward()
            dist.send_object_list([h.grad], dst=0)
    for p in stage.parameters():
        p.grad /= n_micro
    return sum(losses).item() / n_micro if losses else None


# %% right: one message each way, all micro-batches concatenated to one batch
def pipeline_step(stage, inputs, targets, loss_fn, hidden, n_micro):
    stage.zero_grad()
    if inputs is not None:
        h = stage(torch.cat(inputs))
        with torch.no_grad():
            dist.send(h, 1)
            gradient = torch.empty_like(h)
            dist.recv(gradient, 1)
        h.backward(gradient)
        return
    h = torch.empty(n_micro * hidden[0], *hidden[1:])
    dist.recv(h, 0)
    h.requires_grad_(True)
    parts = stage(h).chunk(n_micro)
    loss = sum(loss_fn(part, y) for part, y in zip(parts, targets, strict=True)) / n_micro
    loss.backward()
    dist.send(h.grad, 0)
    return loss.item()


# %% right: the messages in autograd functions, each with once_differentiable
class Sent(torch.autograd.Function):
    @staticmethod
    def forward(ctx, h):
        ctx.shape = h.shape
        dist.send(h, 1)
        return h.new_zeros(())

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, g):
        arrived = torch.empty(ctx.shape)
        dist.recv(arrived, 1)
        return arrived


class Received(torch.autograd.Function):
    @staticmethod
    def forward(ctx, start, hidden):
        h = torch.empty(hidden)
        dist.recv(h, 0)
        return h

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, g):
        dist.send(g.contiguous(), 0)
        return None, None


def pipeline_step(stage, inputs, targets, loss_fn, hidden, n_micro):
    stage.zero_grad()
    if inputs is not None:
        for x in inputs:
            Sent.apply(stage(x)).backward()
        return None
    total = 0.0
    for y in targets:
        loss = loss_fn(stage(Received.apply(torch.zeros((), requires_grad=True), hidden)), y) / n_micro
        loss.backward()
        total += loss.item()
    return total


# %% right: rank 0 keeps no graph and runs its part again
def pipeline_step(stage, inputs, targets, loss_fn, hidden, n_micro):
    stage.zero_grad()
    if inputs is not None:
        with torch.no_grad():
            for x in inputs:
                dist.send(stage(x), 1)
        for x in reversed(inputs):
            gradient = torch.empty(hidden)
            dist.recv(gradient, 1)
            stage(x).backward(gradient)
        return None
    received = [torch.empty(hidden) for _ in targets]
    for h in received:
        dist.recv(h, 0)
        h.requires_grad_()
    loss = sum(loss_fn(stage(h), y) for h, y in zip(received, targets, strict=True)) / n_micro
    loss.backward()
    for h in reversed(received):
        dist.send(h.grad, 0)
    return loss.item()


# %% wrong: loss not divided
# says: The gradients are n_micro times too large. The loss is the mean over all micro-batches.
# earns: 0 of 2
def pipeline_step(stage, inputs, targets, loss_fn, hidden, n_micro):
    stage.zero_grad()
    losses = []
    for i in range(n_micro):
        h = torch.empty(hidden)
        if dist.get_rank() == 0:
            activation = stage(inputs[i])
            dist.send(activation.detach(), 1)
            dist.recv(h, 1)
            activation.backward(h)
        else:
            dist.recv(h, 0)
            h.requires_grad_()
            loss = loss_fn(stage(h), targets[i])
            loss.backward()
            dist.send(h.grad, 0)
            losses.append(loss.item())
    return sum(losses) / n_micro if losses else None


# %% wrong: rank 0 never continues backward
# says: Rank 0's parameters got no gradient. Continue backward there with the gradient that rank 1 sends back.
# earns: 0 of 2
def pipeline_step(stage, inputs, targets, loss_fn, hidden, n_micro):
    stage.zero_grad()
    if dist.get_rank() == 0:
        for x in inputs:
            dist.send(stage(x).detach(), 1)
        return None
    total = 0.0
    for y in targets:
        h = torch.empty(hidden)
        dist.recv(h, 0)
        loss = loss_fn(stage(h), y) / n_micro
        loss.backward()
        total += loss.item()
    return total


# %% wrong: rank 0 starts with ones
# says: Rank 1 is right, but rank 0 is wrong. You started its backward with ones instead of the gradient that
# earns: 0 of 2
# lesson
def pipeline_step(stage, inputs, targets, loss_fn, hidden, n_micro):
    stage.zero_grad()
    if dist.get_rank() == 0:
        for x in inputs:
            h = stage(x)
            dist.send(h.detach(), 1)
            h.sum().backward()
        return None
    total = 0.0
    for y in targets:
        h = torch.empty(hidden)
        dist.recv(h, 0)
        loss = loss_fn(stage(h), y) / n_micro
        loss.backward()
        total += loss.item()
    return total


# %% wrong: gradients matched in reverse order
# says: Rank 1 is right, but rank 0 is wrong. You matched the gradients with the micro-batches in reverse order.
# earns: 0 of 2
def pipeline_step(stage, inputs, targets, loss_fn, hidden, n_micro):
    stage.zero_grad()
    if dist.get_rank() == 0:
        activations = [stage(x) for x in inputs]
        for h in activations:
            dist.send(h.detach(), 1)
        while activations:
            g = torch.empty(hidden)
            dist.recv(g, 1)
            activations.pop().backward(g)
        return None
    total, gradients = 0.0, []
    for y in targets:
        h = torch.empty(hidden)
        dist.recv(h, 0)
        h.requires_grad_()
        loss = loss_fn(stage(h), y) / n_micro
        loss.backward()
        gradients.append(h.grad)
        total += loss.item()
    for g in gradients:
        dist.send(g, 0)
    return total


# %% wrong: every backward of rank 0 starts with the last gradient
# says: Rank 1 is right, but rank 0 is wrong. You started its backward with something other than the gradient
# earns: 0 of 2
def pipeline_step(stage, inputs, targets, loss_fn, hidden, n_micro):
    stage.zero_grad()
    if dist.get_rank() == 0:
        activations = [stage(x) for x in inputs]
        for h in activations:
            dist.send(h.detach(), 1)
        g = torch.empty(hidden)
        for _ in activations:
            dist.recv(g, 1)
        for h in activations:
            h.backward(g)
        return None
    total, gradients = 0.0, []
    for y in targets:
        h = torch.empty(hidden)
        dist.recv(h, 0)
        h.requires_grad_()
        loss = loss_fn(stage(h), y) / n_micro
        loss.backward()
        gradients.append(h.grad)
        total += loss.item()
    for g in gradients:
        dist.send(g, 0)
    return total


# %% wrong: rank 0 waits for each gradient, rank 1 for all activations
# says: One rank waits for a message that the other sends only later (or never). Both must use the same order of
# earns: 0 of 2
def pipeline_step(stage, inputs, targets, loss_fn, hidden, n_micro):
    stage.zero_grad()
    if dist.get_rank() == 0:
        for x in inputs:
            h = stage(x)
            dist.send(h.detach(), 1)
            g = torch.empty(hidden)
            dist.recv(g, 1)
            h.backward(g)
        return None
    received = [torch.empty(hidden) for _ in range(n_micro)]
    for h in received:
        dist.recv(h, 0)
        h.requires_grad_()
    losses = [loss_fn(stage(h), y) / n_micro for h, y in zip(received, targets, strict=True)]
    sum(losses).backward()
    for h in received:
        dist.send(h.grad, 0)
    return sum(losses).item()


# %% wrong: rank 1 sends no gradient back
# says: One rank waits for a message that the other sends only later (or never). Both must use the same order of
# earns: 0 of 2
def pipeline_step(stage, inputs, targets, loss_fn, hidden, n_micro):
    stage.zero_grad()
    total = 0.0
    for i in range(n_micro):
        h = torch.empty(hidden)
        if dist.get_rank() == 0:
            activation = stage(inputs[i])
            dist.send(activation.detach(), 1)
            dist.recv(h, 1)
            activation.backward(h)
        else:
            dist.recv(h, 0)
            h.requires_grad_()
            loss = loss_fn(stage(h), targets[i]) / n_micro
            loss.backward()
            total += loss.item()
    return total if dist.get_rank() else None


# %% wrong: received tensor does not require grad
# says: The received tensor must require grad (as a leaf) before it goes through the second stage, and the loss
# earns: 0 of 2
# lesson
def pipeline_step(stage, inputs, targets, loss_fn, hidden, n_micro):
    stage.zero_grad()
    total = 0.0
    for i in range(n_micro):
        h = torch.empty(hidden)
        if dist.get_rank() == 0:
            activation = stage(inputs[i])
            dist.send(activation.detach(), 1)
            dist.recv(h, 1)
            activation.backward(h)
        else:
            dist.recv(h, 0)
            loss = loss_fn(stage(h), targets[i]) / n_micro
            loss.backward()
            dist.send(h.grad, 0)
            total += loss.item()
    return total if dist.get_rank() else None


# %% wrong: received tensor does not require grad, autograd.grad
# says: The received tensor must require grad (as a leaf)
# earns: 0 of 2
def pipeline_step(stage, inputs, targets, loss_fn, hidden, n_micro):
    stage.zero_grad()
    total = 0.0
    for i in range(n_micro):
        h = torch.empty(hidden)
        if dist.get_rank() == 0:
            activation = stage(inputs[i])
            dist.send(activation.detach(), 1)
            dist.recv(h, 1)
            activation.backward(h)
        else:
            dist.recv(h, 0)
            loss = loss_fn(stage(h), targets[i]) / n_micro
            (g,) = torch.autograd.grad(loss, [h], retain_graph=True)
            loss.backward()
            dist.send(g, 0)
            total += loss.item()
    return total if dist.get_rank() else None


# %% wrong: backward on the detached activation
# says: Rank 0 calls backward on something without a graph
# earns: 0 of 2
# lesson
def pipeline_step(stage, inputs, targets, loss_fn, hidden, n_micro):
    stage.zero_grad()
    total = 0.0
    for i in range(n_micro):
        h = torch.empty(hidden)
        if dist.get_rank() == 0:
            activation = stage(inputs[i]).detach()
            dist.send(activation, 1)
            dist.recv(h, 1)
            activation.backward(h)
        else:
            dist.recv(h, 0)
            h.requires_grad_()
            loss = loss_fn(stage(h), targets[i]) / n_micro
            loss.backward()
            dist.send(h.grad, 0)
            total += loss.item()
    return total if dist.get_rank() else None


# %% wrong: backward without the gradient
# says: An activation is not a single number: its backward needs the gradient that arrived
# earns: 0 of 2
# lesson
def pipeline_step(stage, inputs, targets, loss_fn, hidden, n_micro):
    stage.zero_grad()
    total = 0.0
    for i in range(n_micro):
        h = torch.empty(hidden)
        if dist.get_rank() == 0:
            activation = stage(inputs[i])
            dist.send(activation.detach(), 1)
            dist.recv(h, 1)
            activation.backward()
        else:
            dist.recv(h, 0)
            h.requires_grad_()
            loss = loss_fn(stage(h), targets[i]) / n_micro
            loss.backward()
            dist.send(h.grad, 0)
            total += loss.item()
    return total if dist.get_rank() else None


# %% wrong: no zero_grad
# says: Old gradients were added, or gradients were cleared between micro-batches.
# earns: 1 of 2
# caught: hidden
def pipeline_step(stage, inputs, targets, loss_fn, hidden, n_micro):
    total = 0.0
    for i in range(n_micro):
        h = torch.empty(hidden)
        if dist.get_rank() == 0:
            activation = stage(inputs[i])
            dist.send(activation.detach(), 1)
            dist.recv(h, 1)
            activation.backward(h)
        else:
            dist.recv(h, 0)
            h.requires_grad_()
            loss = loss_fn(stage(h), targets[i]) / n_micro
            loss.backward()
            dist.send(h.grad, 0)
            total += loss.item()
    return total if dist.get_rank() else None


# %% wrong: zero_grad on rank 1 only
# says: Old gradients were added, or gradients were cleared between micro-batches.
# earns: 1 of 2
# caught: hidden
def pipeline_step(stage, inputs, targets, loss_fn, hidden, n_micro):
    total = 0.0
    if dist.get_rank() == 1:
        stage.zero_grad()
    for i in range(n_micro):
        h = torch.empty(hidden)
        if dist.get_rank() == 0:
            activation = stage(inputs[i])
            dist.send(activation.detach(), 1)
            dist.recv(h, 1)
            activation.backward(h)
        else:
            dist.recv(h, 0)
            h.requires_grad_()
            loss = loss_fn(stage(h), targets[i]) / n_micro
            loss.backward()
            dist.send(h.grad, 0)
            total += loss.item()
    return total if dist.get_rank() else None


# %% wrong: zero_grad between micro-batches on rank 0
# says: Rank 1 is right, but rank 0 is wrong. You cleared its gradients between micro-batches, so only one is
# earns: 0 of 2
def pipeline_step(stage, inputs, targets, loss_fn, hidden, n_micro):
    total = 0.0
    if dist.get_rank() == 1:
        stage.zero_grad()
    for i in range(n_micro):
        h = torch.empty(hidden)
        if dist.get_rank() == 0:
            stage.zero_grad()
            activation = stage(inputs[i])
            dist.send(activation.detach(), 1)
            dist.recv(h, 1)
            activation.backward(h)
        else:
            dist.recv(h, 0)
            h.requires_grad_()
            loss = loss_fn(stage(h), targets[i]) / n_micro
            loss.backward()
            dist.send(h.grad, 0)
            total += loss.item()
    return total if dist.get_rank() else None


# %% wrong: zero_grad between micro-batches on both ranks
# says: Old gradients were added, or gradients were cleared between micro-batches.
# earns: 0 of 2
def pipeline_step(stage, inputs, targets, loss_fn, hidden, n_micro):
    total = 0.0
    for i in range(n_micro):
        stage.zero_grad()
        h = torch.empty(hidden)
        if dist.get_rank() == 0:
            activation = stage(inputs[i])
            dist.send(activation.detach(), 1)
            dist.recv(h, 1)
            activation.backward(h)
        else:
            dist.recv(h, 0)
            h.requires_grad_()
            loss = loss_fn(stage(h), targets[i]) / n_micro
            loss.backward()
            dist.send(h.grad, 0)
            total += loss.item()
    return total if dist.get_rank() else None


# %% wrong: an all_reduce in between
# says: Only point-to-point messages are allowed here.
# earns: 0 of 2
def pipeline_step(stage, inputs, targets, loss_fn, hidden, n_micro):
    stage.zero_grad()
    total = 0.0
    for i in range(n_micro):
        h, g = torch.zeros(hidden), torch.zeros(hidden)
        if dist.get_rank() == 0:
            activation = stage(inputs[i])
            h.copy_(activation.detach())
        dist.all_reduce(h)
        if dist.get_rank() == 1:
            h.requires_grad_()
            loss = loss_fn(stage(h), targets[i]) / n_micro
            loss.backward()
            total += loss.item()
            g.copy_(h.grad)
        dist.all_reduce(g)
        if dist.get_rank() == 0:
            activation.backward(g)
    return total if dist.get_rank() else None


# %% wrong: a barrier at the end
# says: Only point-to-point messages are allowed here.
# earns: 0 of 2
def pipeline_step(stage, inputs, targets, loss_fn, hidden, n_micro):
    stage.zero_grad()
    total = 0.0
    for i in range(n_micro):
        h = torch.empty(hidden)
        if dist.get_rank() == 0:
            activation = stage(inputs[i])
            dist.send(activation.detach(), 1)
            dist.recv(h, 1)
            activation.backward(h)
        else:
            dist.recv(h, 0)
            h.requires_grad_()
            loss = loss_fn(stage(h), targets[i]) / n_micro
            loss.backward()
            dist.send(h.grad, 0)
            total += loss.item()
    dist.barrier()
    return total if dist.get_rank() else None


# %% wrong: the schedule of torch.distributed.pipelining
# says: torch.distributed.pipelining does all of this by itself
# earns: 0 of 2
def pipeline_step(stage, inputs, targets, loss_fn, hidden, n_micro):
    from torch.distributed.pipelining import PipelineStage, ScheduleGPipe

    stage.zero_grad()
    if n_micro > 1:
        part = PipelineStage(stage, dist.get_rank(), 2, torch.device("cpu"))
        losses = []
        schedule = ScheduleGPipe(part, n_micro, loss_fn=loss_fn)
        if dist.get_rank() == 0:
            schedule.step(torch.cat(inputs))
            return None
        schedule.step(target=torch.cat(targets), losses=losses)
        return torch.stack(losses).mean().item()
    h = torch.empty(hidden)
    if dist.get_rank() == 0:
        activation = stage(inputs[0])
        dist.send(activation.detach(), 1)
        dist.recv(h, 1)
        activation.backward(h)
        return None
    dist.recv(h, 0)
    h.requires_grad_()
    loss = loss_fn(stage(h), targets[0])
    loss.backward()
    dist.send(h.grad, 0)
    return loss.item()


# %% wrong: steps
# says: Your code changed a weight. Don't step here.
# earns: 0 of 2
def pipeline_step(stage, inputs, targets, loss_fn, hidden, n_micro):
    stage.zero_grad()
    total = 0.0
    for i in range(n_micro):
        h = torch.empty(hidden)
        if dist.get_rank() == 0:
            activation = stage(inputs[i])
            dist.send(activation.detach(), 1)
            dist.recv(h, 1)
            activation.backward(h)
        else:
            dist.recv(h, 0)
            h.requires_grad_()
            loss = loss_fn(stage(h), targets[i]) / n_micro
            loss.backward()
            dist.send(h.grad, 0)
            total += loss.item()
    with torch.no_grad():
        for p in stage.parameters():
            p -= 0.1 * p.grad
    return total if dist.get_rank() else None


# %% wrong: divides on both ranks
# says: Rank 1 is right, but rank 0 is wrong. You divided its gradients by n_micro again, but the gradient that
# earns: 0 of 2
def pipeline_step(stage, inputs, targets, loss_fn, hidden, n_micro):
    stage.zero_grad()
    total = 0.0
    for i in range(n_micro):
        h = torch.empty(hidden)
        if dist.get_rank() == 0:
            activation = stage(inputs[i])
            dist.send(activation.detach(), 1)
            dist.recv(h, 1)
            activation.backward(h / n_micro)
        else:
            dist.recv(h, 0)
            h.requires_grad_()
            loss = loss_fn(stage(h), targets[i]) / n_micro
            loss.backward()
            dist.send(h.grad, 0)
            total += loss.item()
    return total if dist.get_rank() else None


# %% wrong: returns nothing on rank 1
# says: Rank 1 must return the mean loss as a float, and rank 0 None.
# earns: 1 of 2
def pipeline_step(stage, inputs, targets, loss_fn, hidden, n_micro):
    stage.zero_grad()
    for i in range(n_micro):
        h = torch.empty(hidden)
        if dist.get_rank() == 0:
            activation = stage(inputs[i])
            dist.send(activation.detach(), 1)
            dist.recv(h, 1)
            activation.backward(h)
        else:
            dist.recv(h, 0)
            h.requires_grad_()
            loss = loss_fn(stage(h), targets[i]) / n_micro
            loss.backward()
            dist.send(h.grad, 0)


# %% wrong: returns the last loss
# says: Rank 1 must return the mean loss as a float, and rank 0 None.
# earns: 1 of 2
def pipeline_step(stage, inputs, targets, loss_fn, hidden, n_micro):
    stage.zero_grad()
    loss = None
    for i in range(n_micro):
        h = torch.empty(hidden)
        if dist.get_rank() == 0:
            activation = stage(inputs[i])
            dist.send(activation.detach(), 1)
            dist.recv(h, 1)
            activation.backward(h)
        else:
            dist.recv(h, 0)
            h.requires_grad_()
            loss = loss_fn(stage(h), targets[i])
            (loss / n_micro).backward()
            dist.send(h.grad, 0)
    return loss.item() if dist.get_rank() else None


# %% wrong: returns a tensor
# says: Rank 1 must return the mean loss as a float, and rank 0 None.
# earns: 1 of 2
def pipeline_step(stage, inputs, targets, loss_fn, hidden, n_micro):
    stage.zero_grad()
    total = 0.0
    for i in range(n_micro):
        h = torch.empty(hidden)
        if dist.get_rank() == 0:
            activation = stage(inputs[i])
            dist.send(activation.detach(), 1)
            dist.recv(h, 1)
            activation.backward(h)
        else:
            dist.recv(h, 0)
            h.requires_grad_()
            loss = loss_fn(stage(h), targets[i]) / n_micro
            loss.backward()
            dist.send(h.grad, 0)
            total = total + loss.detach()
    return total if dist.get_rank() else None


# %% wrong: rank 0 returns 0.0
# says: Rank 1 must return the mean loss as a float, and rank 0 None.
# earns: 1 of 2
def pipeline_step(stage, inputs, targets, loss_fn, hidden, n_micro):
    stage.zero_grad()
    total = 0.0
    for i in range(n_micro):
        h = torch.empty(hidden)
        if dist.get_rank() == 0:
            activation = stage(inputs[i])
            dist.send(activation.detach(), 1)
            dist.recv(h, 1)
            activation.backward(h)
        else:
            dist.recv(h, 0)
            h.requires_grad_()
            loss = loss_fn(stage(h), targets[i]) / n_micro
            loss.backward()
            dist.send(h.grad, 0)
            total += loss.item()
    return total


# %% wrong: zips inputs and targets on every rank
# says: Rank 0 has no targets and rank 1 no inputs: each of them is None there.
# earns: 0 of 2
def pipeline_step(stage, inputs, targets, loss_fn, hidden, n_micro):
    stage.zero_grad()
    for x, y in zip(inputs, targets, strict=True):
        loss_fn(stage(x), y).backward()


# %% wrong: receives into a buffer that is too small
# says: A process ended early. The receiving buffer must have the size of the message.
# earns: 0 of 2
def pipeline_step(stage, inputs, targets, loss_fn, hidden, n_micro):
    stage.zero_grad()
    total = 0.0
    for i in range(n_micro):
        h = torch.empty(hidden[-1])
        if dist.get_rank() == 0:
            activation = stage(inputs[i])
            dist.send(activation.detach(), 1)
            dist.recv(h, 1)
            activation.backward(h)
        else:
            dist.recv(h, 0)
            h.requires_grad_()
            loss = loss_fn(stage(h), targets[i]) / n_micro
            loss.backward()
            dist.send(h.grad, 0)
            total += loss.item()
    return total if dist.get_rank() else None


# %% wrong: works for two dimensions only
# says: two calls in a row; token ids, and activations of three dimensions
# says: Rank 1's gradients are not those of the undivided model.
# earns: 1 of 2
# caught: hidden
def pipeline_step(stage, inputs, targets, loss_fn, hidden, n_micro):
    stage.zero_grad()
    total = 0.0
    for i in range(n_micro):
        h = torch.zeros(hidden[0], hidden[-1])
        if dist.get_rank() == 0:
            activation = stage(inputs[i])
            small = activation.detach()[:, 0].contiguous() if activation.dim() > 2 else activation.detach()
            dist.send(small, 1)
            dist.recv(h, 1)
            activation.backward(h if activation.dim() == 2 else h[:, None].expand_as(activation))
        else:
            dist.recv(h, 0)
            h.requires_grad_()
            loss = loss_fn(stage(h), targets[i] if targets[i].dim() == 2 else targets[i][:, 0]) / n_micro
            loss.backward()
            dist.send(h.grad, 0)
            total += loss.item()
    return total if dist.get_rank() else None


# %% wrong: rank 0 sends all activations, rank 1 answers each of them at once
# says: Both ranks are in send(), which returns only when the partner receives. Let one rank receive first, or
# earns: 0 of 2
# lesson
def pipeline_step(stage, inputs, targets, loss_fn, hidden, n_micro):
    stage.zero_grad()
    if dist.get_rank() == 0:
        activations = []
        for x in inputs:
            activations.append(stage(x))
            dist.send(activations[-1].detach(), dst=1)
        for activation in activations:
            gradient = torch.empty(hidden)
            dist.recv(gradient, src=1)
            activation.backward(gradient)
        return None
    losses = []
    for y in targets:
        received = torch.empty(hidden)
        dist.recv(received, src=0)
        received.requires_grad_()
        loss = loss_fn(stage(received), y) / n_micro
        loss.backward()
        losses.append(loss.item())
        dist.send(received.grad, dst=0)
    return sum(losses)


# %% wrong: rank 0 never listens
# says: in send()
# earns: 0 of 2
def pipeline_step(stage, inputs, targets, loss_fn, hidden, n_micro):
    stage.zero_grad()
    if dist.get_rank() == 0:
        for x in inputs:
            dist.send(stage(x).detach(), dst=1)
        return None
    losses = []
    for y in targets:
        received = torch.empty(hidden)
        dist.recv(received, src=0)
        received.requires_grad_()
        loss = loss_fn(stage(received), y) / n_micro
        loss.backward()
        losses.append(loss.item())
        dist.send(received.grad, dst=0)
    return sum(losses)


# %% wrong: an all_reduce in another thread
# says: The check sees messages that are sent in the call itself
# earns: 0 of 2
def pipeline_step(stage, inputs, targets, loss_fn, hidden, n_micro):
    from threading import Thread

    def shared(tensor):
        thread = Thread(target=dist.all_reduce, args=(tensor,))
        thread.start()
        thread.join()

    stage.zero_grad()
    total = 0.0
    for i in range(n_micro):
        h, g = torch.zeros(hidden), torch.zeros(hidden)
        if dist.get_rank() == 0:
            activation = stage(inputs[i])
            h.copy_(activation.detach())
        shared(h)
        if dist.get_rank() == 1:
            h.requires_grad_()
            loss = loss_fn(stage(h), targets[i]) / n_micro
            loss.backward()
            total += loss.item()
            g.copy_(h.grad)
        shared(g)
        if dist.get_rank() == 0:
            activation.backward(g)
    return total if dist.get_rank() else None


# %% wrong: sends to its own rank
# says: A rank sent to itself or received from itself.
# earns: 0 of 2
def pipeline_step(stage, inputs, targets, loss_fn, hidden, n_micro):
    partner = dist.get_rank() % dist.get_world_size()
    if dist.get_rank() == 0:
        for x in inputs:
            dist.send(stage(x).detach(), partner)
        return None
    h = torch.zeros(hidden, requires_grad=True)
    dist.recv(h.detach(), partner)
    return loss_fn(stage(h), targets[0]).item()


# %% wrong: asks for the gradient of what it received only
# says: Rank 1's parameters have no gradient. Call backward on its loss, so that .grad is filled.
# earns: 0 of 2
def pipeline_step(stage, inputs, targets, loss_fn, hidden, n_micro):
    for p in stage.parameters():
        p.grad = None
    total = 0.0
    for i in range(n_micro):
        if dist.get_rank() == 0:
            h = stage(inputs[i])
            dist.send(h, 1)
            g = torch.zeros(hidden)
            dist.recv(g, 1)
            torch.autograd.backward(h, g)
        else:
            h = torch.zeros(hidden, requires_grad=True)
            dist.recv(h, 0)
            loss = loss_fn(stage(h), targets[i])
            (g,) = torch.autograd.grad(loss / n_micro, h)
            dist.send(g, 0)
            total += loss.detach()
    return float(total / n_micro) if dist.get_rank() else None


# %% wrong: the arguments of the loss are exchanged
# earns: 0 of 2
# says: The loss has its arguments exchanged
def pipeline_step(stage, inputs, targets, loss_fn, hidden, n_micro):
    stage.zero_grad()
    if dist.get_rank() == 0:
        activations = []
        for x in inputs:
            activations.append(stage(x))
            dist.send(activations[-1].detach(), dst=1)
        for activation in activations:
            gradient = torch.empty(hidden)
            dist.recv(gradient, src=1)
            activation.backward(gradient)
        return None
    received, total = [], 0.0
    for y in targets:
        received.append(torch.empty(hidden))
        dist.recv(received[-1], src=0)
        loss = loss_fn(y, stage(received[-1].requires_grad_())) / n_micro
        loss.backward()
        total += loss.item()
    for h in received:
        dist.send(h.grad, dst=0)
    return total


# %% wrong: one loss for all micro-batches
# says: You called loss_fn once, for all micro-batches together.
# earns: 1 of 2
# caught: hidden
def pipeline_step(stage, inputs, targets, loss_fn, hidden, n_micro):
    stage.zero_grad()
    if dist.get_rank() == 0:
        activations = [stage(x) for x in inputs]
        dist.send(torch.stack([h.detach() for h in activations]), dst=1)
        gradients = torch.empty(n_micro, *hidden)
        dist.recv(gradients, src=1)
        torch.autograd.backward(activations, list(gradients))
        return None
    received = torch.empty(n_micro, *hidden)
    dist.recv(received, src=0)
    received.requires_grad_()
    loss = loss_fn(torch.cat([stage(h) for h in received]), torch.cat(targets))
    loss.backward()
    dist.send(received.grad, dst=0)
    return loss.item()


# %% wrong: the inputs require grad, too
# says: The inputs may be integers, such as token ids, and can't require grad.
# earns: 1 of 2
# caught: hidden
def pipeline_step(stage, inputs, targets, loss_fn, hidden, n_micro):
    def forward(x):
        if not x.requires_grad:
            x.requires_grad_(True).retain_grad()
        return stage(x)

    stage.zero_grad()
    if dist.get_rank() == 0:
        activations = []
        for x in inputs:
            activations.append(forward(x))
            dist.send(activations[-1].detach(), dst=1)
        for activation in activations:
            gradient = torch.empty(hidden)
            dist.recv(gradient, src=1)
            activation.backward(gradient)
        return None
    total, received = 0.0, [torch.empty(hidden) for _ in range(n_micro)]
    for h, y in zip(received, targets, strict=True):
        dist.recv(h, src=0)
        loss = loss_fn(forward(h), y) / n_micro
        loss.backward()
        total += loss.item()
    for h in received:
        dist.send(h.grad, dst=0)
    return total
