import contextlib
import copy
import io
import itertools
import warnings

import torch
import torch.nn.functional as F
from torch import nn


class Loop:
    """A right loop in small parts; the wrong answers replace one of them."""

    def load(self, resume, model, optimizer, scheduler):
        resume = copy.deepcopy(resume)
        model.load_state_dict(resume["model"])
        optimizer.load_state_dict(resume["optimizer"])
        scheduler.load_state_dict(resume["scheduler"])
        self.draws(resume)
        return resume["losses"]

    def draws(self, resume):
        torch.set_rng_state(resume["random"])

    def groups(self, batches, accumulate):
        for epoch in itertools.count():
            parts = batches(epoch)
            for start in range(0, len(parts), accumulate):
                self.last_of_epoch = start + accumulate >= len(parts)
                yield parts[start : start + accumulate]

    def skip(self, groups, losses):
        return itertools.islice(groups, len(losses), None)

    def mode(self, model):
        model.train()

    def grad(self):
        return torch.enable_grad()

    def zero(self, model, optimizer):
        optimizer.zero_grad()

    def share(self, loss, y, group, accumulate):
        """The loss of a micro-batch, which is a mean, as a part of the step's."""
        return loss * len(y) / sum(len(y) for _, y in group)

    def forward(self, model, x, y):
        return F.cross_entropy(model(x), y)

    def gradients(self, model, group, accumulate, max_norm):
        mean = 0.0
        for x, y in group:
            share = self.share(self.forward(model, x, y), y, group, accumulate)
            share.backward()
            mean += share.item()
            self.after_part(model, max_norm)
        return mean

    def after_part(self, model, max_norm):
        pass

    def clip(self, model, max_norm):
        if max_norm is not None:
            nn.utils.clip_grad_norm_(model.parameters(), max_norm)

    def steps(self, optimizer, scheduler, group):
        optimizer.step()
        scheduler.step()

    def enough(self, losses, steps, before):
        return len(losses) >= steps

    def reported(self, losses, before):
        return losses

    def state(self, model, optimizer, scheduler, losses):
        state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "scheduler": scheduler.state_dict()}
        return state | {"random": torch.get_rng_state(), "losses": losses, "step": len(losses)}

    def copied(self, state):
        return copy.deepcopy(state)

    def train(self, model, optimizer, scheduler, batches, *, steps, accumulate=1, max_norm=None, resume=None):
        losses = [] if resume is None else self.load(resume, model, optimizer, scheduler)
        before = len(losses)
        self.mode(model)
        with self.grad():
            for group in self.skip(self.groups(batches, accumulate), losses):
                if self.enough(losses, steps, before):
                    break
                self.zero(model, optimizer)
                mean = self.gradients(model, group, accumulate, max_norm)
                self.clip(model, max_norm)
                self.steps(optimizer, scheduler, group)
                losses.append(mean)
        return self.copied(self.state(model, optimizer, scheduler, self.reported(losses, before)))


# corners: caller's modes, members, empty, zeros


# %% right: adds sums, divides the gradients before clipping; the position as epoch and index
def train(model, optimizer, scheduler, batches, *, steps, accumulate=1, max_norm=None, resume=None):
    at = {"step": 0, "losses": [], "epoch": 0, "index": 0}
    if resume is not None:
        at = {key: copy.copy(resume[key]) for key in at}
        for part, key in ((model, "net"), (optimizer, "opt"), (scheduler, "plan")):
            part.load_state_dict(copy.deepcopy(resume[key]))
        torch.set_rng_state(resume["rng"])
    grad_mode = torch.is_grad_enabled()
    torch.set_grad_enabled(True)
    try:
        model.train()
        while at["step"] < steps:
            parts = batches(at["epoch"])
            count, total = 0, 0.0
            for p in model.parameters():
                p.grad = None
            while at["index"] < len(parts) and count < accumulate * 10**9:
                x, y = parts[at["index"]]
                loss = F.cross_entropy(model(x), y, reduction="sum")
                loss.backward()
                total, count = total + loss.item(), count + len(y)
                at["index"] += 1
                if at["index"] % accumulate == 0:
                    break
            grads = [p.grad for p in model.parameters() if p.grad is not None]
            for g in grads:
                g /= count
            if max_norm is not None:
                norm = torch.stack([g.pow(2).sum() for g in grads]).sum().sqrt()
                if norm > max_norm:
                    for g in grads:
                        g *= max_norm / norm
            optimizer.step()
            scheduler.step()
            at["step"] += 1
            at["losses"].append(total / count)
            if at["index"] >= len(parts):
                at["epoch"], at["index"] = at["epoch"] + 1, 0
    finally:
        torch.set_grad_enabled(grad_mode)
    live = {"net": model.state_dict(), "opt": optimizer.state_dict(), "plan": scheduler.state_dict()}
    return copy.deepcopy(live) | at | {"rng": torch.get_rng_state()}


# %% right: groups from a generator, the state through a file and back
def through_a_file(state):
    file = io.BytesIO()
    torch.save(state, file)
    return torch.load(io.BytesIO(file.getvalue()))


def train(model, optimizer, scheduler, batches, *, steps, accumulate=1, max_norm=None, resume=None):
    loop = Loop()
    loop.copied = through_a_file
    resume = None if resume is None else through_a_file(resume)
    return loop.train(
        model, optimizer, scheduler, batches, steps=steps, accumulate=accumulate, max_norm=max_norm, resume=resume
    )


# %% right: clones of parameters and buffers, which still have a graph
class WithGraph(Loop):
    def load(self, resume, model, optimizer, scheduler):
        detached = {name: t.detach() for name, t in resume["model"].items()}
        return super().load(resume | {"model": detached}, model, optimizer, scheduler)

    def copied(self, state):
        own = {name: t.clone() for name, t in [*self.model.named_parameters(), *self.model.named_buffers()]}
        return super().copied({key: value for key, value in state.items() if key != "model"}) | {"model": own}

    def mode(self, model):
        super().mode(model)
        self.model = model


train = WithGraph().train


# %% right: one step at a time by recursion, log_softmax and gather
@torch.enable_grad()
def train(
    model, optimizer, scheduler, batches, *, steps, accumulate=1, max_norm=None, resume=None, epoch=0, index=0, top=True
):
    if top and resume is not None:
        model.load_state_dict(resume["all"][0])
        optimizer.load_state_dict(copy.deepcopy(resume["all"][1]))
        scheduler.load_state_dict(copy.deepcopy(resume["all"][2]))
        torch.random.set_rng_state(resume["all"][3])
        epoch, index = resume["all"][4]
    losses = [] if resume is None else list(resume["losses"])
    if len(losses) >= steps:
        parts = [model.state_dict(), optimizer.state_dict(), scheduler.state_dict(), torch.get_rng_state()]
        return {"step": len(losses), "losses": losses, "all": [*copy.deepcopy(parts), [epoch, index]]}
    model.train()
    parts = batches(epoch)
    group = parts[index : index + accumulate]
    samples = torch.tensor([len(y) for _, y in group]).sum()
    model.zero_grad(set_to_none=True)
    total = []
    for x, y in group:
        loss = -model(x).log_softmax(1).gather(1, y[:, None]).sum() / samples
        loss.backward()
        total.append(float(loss))
    if max_norm is not None:
        torch.nn.utils.clip_grad_norm_([p for g in optimizer.param_groups for p in g["params"]], max_norm)
    optimizer.step()
    scheduler.step()
    epoch, index = (epoch, index + accumulate) if index + accumulate < len(parts) else (epoch + 1, 0)
    return train(
        model,
        optimizer,
        scheduler,
        batches,
        steps=steps,
        accumulate=accumulate,
        max_norm=max_norm,
        resume={"losses": [*losses, sum(total)]},
        epoch=epoch,
        index=index,
        top=False,
    )


# %% wrong: divides each mean by the number of micro-batches
# says: You averaged the means of the micro-batches. They have different sizes: weight each by its number of samples.
# says: This check builds on the first two, which don't pass yet. Fix those first.
# earns: 1 of 3
# lesson
class Mine(Loop):
    def share(self, loss, y, group, accumulate):
        return loss / len(group)


train = Mine().train


# %% wrong: divides each mean by accumulate
# says: You averaged the means of the micro-batches. They have different sizes
# says: This check builds on the first two, which don't pass yet. Fix those first.
# earns: 1 of 3
# lesson
class Mine(Loop):
    def share(self, loss, y, group, accumulate):
        return loss / accumulate


train = Mine().train


# %% wrong: adds the means up without dividing
# says: You added the gradients of the micro-batches but didn't average them, so with n micro-batches the step
# says: This check builds on the first two, which don't pass yet. Fix those first.
# earns: 1 of 3
# lesson
class Mine(Loop):
    def share(self, loss, y, group, accumulate):
        return loss


train = Mine().train


# %% wrong: adds the sums up without dividing
# says: Your gradient is that of the sum over the samples, not of their mean. Divide by the number of samples of
# says: This check builds on the first two, which don't pass yet. Fix those first.
# earns: 1 of 3
class Mine(Loop):
    def share(self, loss, y, group, accumulate):
        return loss * len(y)


train = Mine().train


# %% wrong: a step for each micro-batch
# says: You stepped after each micro-batch, but `accumulate` micro-batches make one step.
# says: This check builds on the first two, which don't pass yet. Fix those first.
# earns: 1 of 3
class Mine(Loop):
    def groups(self, batches, accumulate):
        return super().groups(batches, 1)


def train(model, optimizer, scheduler, batches, *, steps, accumulate=1, max_norm=None, resume=None):
    return Mine().train(model, optimizer, scheduler, batches, steps=steps, max_norm=max_norm, resume=resume)


# %% wrong: drops the last incomplete group
# says: The last step of an epoch has fewer micro-batches. Don't drop them or carry them into the next epoch,
# earns: 2 of 3
# caught: hidden
class Mine(Loop):
    def groups(self, batches, accumulate):
        for epoch in range(100):
            parts = batches(epoch)
            for start in range(0, len(parts) - accumulate + 1, accumulate):
                yield parts[start : start + accumulate]


train = Mine().train


# %% wrong: carries the last incomplete group into the next epoch
# says: The last step of an epoch has fewer micro-batches. Don't drop them or carry them into the next epoch,
# earns: 2 of 3
# caught: hidden
class Mine(Loop):
    def groups(self, batches, accumulate):
        endless = (part for epoch in itertools.count() for part in batches(epoch))
        while True:
            yield list(itertools.islice(endless, accumulate))


train = Mine().train


# %% wrong: the samples of a step are accumulate times those of its first micro-batch
# says: The weights are wrong: each step must use the mean gradient over its own samples.
# says: This check builds on the first two, which don't pass yet. Fix those first.
# earns: 1 of 3
class Mine(Loop):
    def share(self, loss, y, group, accumulate):
        return loss * len(y) / (len(group[0][1]) * accumulate)


train = Mine().train


# %% wrong: in the last group, too, divides by accumulate full micro-batches
# says: The last step of an epoch has fewer micro-batches. Don't drop them or carry them into the next epoch,
# earns: 2 of 3
# caught: hidden
class Mine(Loop):
    def share(self, loss, y, group, accumulate):
        return super().share(loss, y, group, accumulate) * len(group) / accumulate


train = Mine().train


# %% wrong: clips after every micro-batch
# says: You clipped after each micro-batch. Limit the norm of the whole step's gradient, once, just before the step.
# earns: 2 of 3
# lesson
class Mine(Loop):
    def after_part(self, model, max_norm):
        super().clip(model, max_norm)

    def clip(self, model, max_norm):
        pass


train = Mine().train


# %% wrong: clips after the step
# says: You didn't clip the gradient (or clipped it after the step, when it is too late).
# earns: 2 of 3
# lesson
class Mine(Loop):
    def gradients(self, model, group, accumulate, max_norm):
        self.late = model, max_norm
        return super().gradients(model, group, accumulate, max_norm)

    def clip(self, model, max_norm):
        pass

    def steps(self, optimizer, scheduler, group):
        super().steps(optimizer, scheduler, group)
        super().clip(*self.late)


train = Mine().train


# %% wrong: does not clip
# says: You didn't clip the gradient (or clipped it after the step, when it is too late).
# earns: 2 of 3
class Mine(Loop):
    def clip(self, model, max_norm):
        pass


train = Mine().train


# %% wrong: limits each number
# says: You clipped each number of the gradient. Clip its norm, which preserves the direction.
# earns: 2 of 3
class Mine(Loop):
    def clip(self, model, max_norm):
        if max_norm is not None:
            nn.utils.clip_grad_value_(model.parameters(), max_norm)


train = Mine().train


# %% wrong: limits each parameter
# says: You clipped each parameter's gradient separately. All of them together are one gradient.
# earns: 2 of 3
class Mine(Loop):
    def clip(self, model, max_norm):
        for p in model.parameters():
            if max_norm is not None:
                nn.utils.clip_grad_norm_(p, max_norm)


train = Mine().train


# %% wrong: limits each group of the optimizer
# says: You clipped the gradient of each of the optimizer's groups separately. All groups together have one gradient
# earns: 2 of 3
class EachGroup(Loop):
    def zero(self, model, optimizer):
        super().zero(model, optimizer)
        self.groups_of_optimizer = optimizer.param_groups

    def clip(self, model, max_norm):
        for group in self.groups_of_optimizer if max_norm is not None else []:
            nn.utils.clip_grad_norm_(group["params"], max_norm)


train = EachGroup().train


# %% wrong: limits the first group of the optimizer
# says: You clipped only the gradient of the optimizer's first group. An optimizer may have several groups: clip the
# earns: 2 of 3
class FirstGroup(Loop):
    def zero(self, model, optimizer):
        super().zero(model, optimizer)
        self.first = optimizer.param_groups[0]["params"]

    def clip(self, model, max_norm):
        if max_norm is not None:
            nn.utils.clip_grad_norm_(self.first, max_norm)


train = FirstGroup().train


# %% wrong: gives the gradient the norm of the limit
# says: You changed a gradient whose norm is below max_norm. It must stay the same.
# earns: 2 of 3
# caught: hidden
class Mine(Loop):
    def clip(self, model, max_norm):
        if max_norm is not None:
            grads = [p.grad for p in model.parameters() if p.grad is not None]
            norm = torch.cat([g.flatten() for g in grads]).norm()
            for g in grads:
                g *= max_norm / norm


train = Mine().train


# %% wrong: no limit means a limit of 1
# says: The weights are wrong: each step must use the mean gradient over its own samples.
# says: This check builds on the first two, which don't pass yet. Fix those first.
# earns: 1 of 3
class Mine(Loop):
    def clip(self, model, max_norm):
        super().clip(model, max_norm or 0.01)


train = Mine().train


# %% wrong: a limit of zero is none
# says: A max_norm of 0 is also a limit. Check whether max_norm is None.
# earns: 2 of 3
# caught: hidden
# corner: zeros
class Mine(Loop):
    def clip(self, model, max_norm):
        super().clip(model, max_norm or None)


train = Mine().train


# %% wrong: scheduler once per epoch
# says: Step the scheduler once per optimizer step, not per epoch or per micro-batch.
# earns: 2 of 3
# lesson
class Mine(Loop):
    def steps(self, optimizer, scheduler, group):
        optimizer.step()
        if self.last_of_epoch:
            scheduler.step()


train = Mine().train


# %% wrong: scheduler per micro-batch
# says: Step the scheduler once per optimizer step, not per epoch or per micro-batch.
# earns: 2 of 3
# lesson
class Mine(Loop):
    def steps(self, optimizer, scheduler, group):
        optimizer.step()
        for _ in group:
            scheduler.step()


train = Mine().train


# %% wrong: scheduler before the optimizer
# says: Step the scheduler after the optimizer, so that the first step uses the first rate.
# earns: 2 of 3
class Mine(Loop):
    def steps(self, optimizer, scheduler, group):
        scheduler.step()
        optimizer.step()


train = Mine().train


# %% wrong: no scheduler
# says: Step the scheduler
# earns: 2 of 3
class Mine(Loop):
    def steps(self, optimizer, scheduler, group):
        optimizer.step()


train = Mine().train


# %% wrong: zero_grad only after each step
# says: Gradients from before the call were added to the first step.
# earns: 2 of 3
# caught: hidden
class Mine(Loop):
    def zero(self, model, optimizer):
        pass

    def steps(self, optimizer, scheduler, group):
        super().steps(optimizer, scheduler, group)
        optimizer.zero_grad()


train = Mine().train


# %% wrong: never zeroes gradients
# says: The gradients of earlier steps were added. Clear them before each step.
# says: After resuming, the losses differ from those of the uninterrupted run.
# says: This check builds on the first two, which don't pass yet. Fix those first.
# earns: 0 of 3
class Mine(Loop):
    def zero(self, model, optimizer):
        pass


train = Mine().train


# %% wrong: gradients of zeros
# says: A parameter that gets no gradient has changed. With a gradient of zeros or an old gradient it still
# earns: 2 of 3
# caught: hidden
# corner: members
class Mine(Loop):
    def zero(self, model, optimizer):
        optimizer.zero_grad(set_to_none=False)


train = Mine().train


# %% wrong: zeroes only what requires grad
# says: A parameter that gets no gradient has changed. With a gradient of zeros or an old gradient it still
# earns: 2 of 3
# caught: hidden
# corner: members
class Mine(Loop):
    def zero(self, model, optimizer):
        for p in model.parameters():
            if p.requires_grad:
                p.grad = None


train = Mine().train


# %% wrong: all parameters have gradients
# says: A parameter may have no gradient (if it is frozen or unused):
# earns: 2 of 3
class Mine(Loop):
    def clip(self, model, max_norm):
        if max_norm is not None:
            norm = torch.cat([p.grad.flatten() for p in model.parameters()]).norm()
            for p in model.parameters():
                p.grad *= min(1.0, max_norm / norm.item())


train = Mine().train


# %% wrong: restores everything but the random state
# says: After resuming, dropout draws different numbers. Save and restore the random state.
# says: This check builds on the first two, which don't pass yet. Fix those first.
# earns: 1 of 3
# lesson
class Mine(Loop):
    def draws(self, resume):
        pass


train = Mine().train


# %% wrong: a fixed seed at the start
# says: After resuming, dropout draws different numbers. Save and restore the random state.
# says: This check builds on the first two, which don't pass yet. Fix those first.
# earns: 1 of 3
# lesson
def train(*args, **kwargs):
    torch.manual_seed(0)
    loop = Loop()
    loop.draws = lambda resume: None
    return loop.train(*args, **kwargs)


# %% wrong: begins with epoch 0 after a resume
# says: After resuming, the data start at the wrong place. The epoch must continue where it stopped, not start
# says: This check builds on the first two, which don't pass yet. Fix those first.
# earns: 1 of 3
# lesson
class Mine(Loop):
    def skip(self, groups, losses):
        return groups


train = Mine().train


# %% wrong: begins the epoch anew after a resume
# says: After resuming, the data start at the wrong place. The epoch must continue where it stopped, not start
# says: This check builds on the first two, which don't pass yet. Fix those first.
# earns: 1 of 3
# lesson
def train(model, optimizer, scheduler, batches, *, steps, accumulate=1, max_norm=None, resume=None):
    per_epoch = -(-len(batches(0)) // accumulate)
    loop = Loop()
    loop.skip = lambda groups, losses: itertools.islice(groups, len(losses) // per_epoch * per_epoch, None)
    return loop.train(
        model, optimizer, scheduler, batches, steps=steps, accumulate=accumulate, max_norm=max_norm, resume=resume
    )


# %% wrong: all epochs are as long as the first
# says: After resuming, the data start at the wrong place. The epoch must continue where it stopped, not start
# earns: 2 of 3
# caught: hidden
def train(model, optimizer, scheduler, batches, *, steps, accumulate=1, max_norm=None, resume=None):
    per_epoch = -(-len(batches(0)) // accumulate)
    first = 0 if resume is None else resume["step"] // per_epoch

    def groups(batches, accumulate):
        for epoch in itertools.count(first):
            parts = batches(epoch)
            yield from (parts[start : start + accumulate] for start in range(0, len(parts), accumulate))

    loop = Loop()
    loop.groups = groups
    loop.skip = lambda groups, losses: itertools.islice(groups, len(losses) % per_epoch, None)
    return loop.train(
        model, optimizer, scheduler, batches, steps=steps, accumulate=accumulate, max_norm=max_norm, resume=resume
    )


# %% wrong: runs what was done again, in order to skip it
# says: Run one forward and then its backward for each micro-batch, and none for micro-batches of steps already
# says: This check builds on the first two, which don't pass yet. Fix those first.
# earns: 1 of 3
def train(model, optimizer, scheduler, batches, *, steps, accumulate=1, max_norm=None, resume=None):
    if resume is not None:
        groups = Loop().groups(batches, accumulate)
        for group in itertools.islice(groups, resume["step"]):
            for x, _ in group:
                model(x)
    return Loop().train(
        model, optimizer, scheduler, batches, steps=steps, accumulate=accumulate, max_norm=max_norm, resume=resume
    )


# %% wrong: does not load the model
# says: After resuming, the model doesn't have the weights and buffers of the state.
# says: This check builds on the first two, which don't pass yet. Fix those first.
# earns: 1 of 3
class Mine(Loop):
    def load(self, resume, model, optimizer, scheduler):
        own = copy.deepcopy(model.state_dict())
        losses = super().load(resume, model, optimizer, scheduler)
        model.load_state_dict(own)
        return losses


train = Mine().train


# %% wrong: loads the parameters, not the buffers
# says: After resuming, the model doesn't have the weights and buffers of the state.
# says: This check builds on the first two, which don't pass yet. Fix those first.
# earns: 1 of 3
# corner: members
class Mine(Loop):
    def load(self, resume, model, optimizer, scheduler):
        own = copy.deepcopy(dict(model.named_buffers()))
        losses = super().load(resume, model, optimizer, scheduler)
        model.load_state_dict(own, strict=False)
        return losses


train = Mine().train


# %% wrong: does not load the optimizer
# says: After resuming, the optimizer or the scheduler has forgotten its state.
# says: This check builds on the first two, which don't pass yet. Fix those first.
# earns: 1 of 3
# lesson
class Mine(Loop):
    def load(self, resume, model, optimizer, scheduler):
        rate = optimizer.param_groups[0]["lr"]
        own = copy.deepcopy(optimizer.state_dict())
        losses = super().load(resume, model, optimizer, scheduler)
        optimizer.load_state_dict(own)
        optimizer.param_groups[0]["lr"] = rate
        return losses


train = Mine().train


# %% wrong: saves the rate of the first group only
# says: After resuming, all groups of the optimizer have the rate of the first. Save and load the optimizer's
# earns: 2 of 3
# caught: hidden
class OneRate(Loop):
    def load(self, resume, model, optimizer, scheduler):
        settings = optimizer.state_dict()["param_groups"]
        for group in settings:
            group["lr"] = resume["optimizer"]["rate"]
        memory = {"state": resume["optimizer"]["state"], "param_groups": settings}
        return super().load(resume | {"optimizer": memory}, model, optimizer, scheduler)

    def state(self, model, optimizer, scheduler, losses):
        memory = {"state": optimizer.state_dict()["state"], "rate": optimizer.param_groups[0]["lr"]}
        return super().state(model, optimizer, scheduler, losses) | {"optimizer": memory}


train = OneRate().train


# %% wrong: does not load the scheduler
# says: After resuming, the optimizer or the scheduler has forgotten its state.
# says: This check builds on the first two, which don't pass yet. Fix those first.
# earns: 1 of 3
# lesson
class Mine(Loop):
    def load(self, resume, model, optimizer, scheduler):
        own = copy.deepcopy(scheduler.state_dict())
        losses = super().load(resume, model, optimizer, scheduler)
        scheduler.load_state_dict(own)
        return losses


train = Mine().train


# %% wrong: counts the scheduler on instead of loading its state
# says: After resuming, the scheduler's count is right but its next rate isn't. Some schedulers remember more than a count
# earns: 2 of 3
# caught: hidden
class Mine(Loop):
    def load(self, resume, model, optimizer, scheduler):
        own = copy.deepcopy(scheduler.state_dict())
        losses = super().load(resume, model, optimizer, scheduler)
        scheduler.load_state_dict(own)
        scheduler.last_epoch, scheduler._step_count = len(losses), len(losses) + 1
        return losses


train = Mine().train


# %% wrong: saves only the parameters that require grad, and the buffers
# says: After resuming, the frozen parameters don't have the values of the first run: the fresh model may have others
# earns: 2 of 3
# caught: hidden
# corner: members
class Mine(Loop):
    def load(self, resume, model, optimizer, scheduler):
        own = {name: t.detach().clone() for name, t in model.state_dict().items()}
        return super().load(resume | {"model": own | resume["model"]}, model, optimizer, scheduler)

    def state(self, model, optimizer, scheduler, losses):
        some = {name: p.detach() for name, p in model.named_parameters() if p.requires_grad}
        some |= dict(model.named_buffers())
        return super().state(model, optimizer, scheduler, losses) | {"model": some}


train = Mine().train


# %% right: walks the schedule again on the fresh objects, then loads the optimizer
class Again(Loop):
    def load(self, resume, model, optimizer, scheduler):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for _ in resume["losses"]:
                scheduler.step()
        model.load_state_dict(resume["model"])
        optimizer.load_state_dict(copy.deepcopy(resume["optimizer"]))
        self.draws(resume)
        return list(resume["losses"])


train = Again().train


# %% wrong: returns the live state_dicts
# says: The state changed while training continued, because it contains the live tensors, not copies.
# says: This check builds on the first two, which don't pass yet. Fix those first.
# earns: 1 of 3
# lesson
class Mine(Loop):
    def copied(self, state):
        return state


train = Mine().train


# %% wrong: copies the dicts, not the tensors in them
# says: The state changed while training continued, because it contains the live tensors, not copies.
# says: This check builds on the first two, which don't pass yet. Fix those first.
# earns: 1 of 3
class Mine(Loop):
    def copied(self, state):
        return {key: copy.copy(value) for key, value in state.items()}


train = Mine().train


# %% wrong: copies the model's state only
# says: The state changed while training continued, because it contains the live tensors, not copies.
# says: This check builds on the first two, which don't pass yet. Fix those first.
# earns: 1 of 3
class Mine(Loop):
    def copied(self, state):
        return state | {"model": copy.deepcopy(state["model"])}


train = Mine().train


# %% wrong: keeps the optimizer and the scheduler themselves
# says: torch.load(weights_only=True) refuses the state. Keep only tensors, numbers, strings, lists and dicts in
# earns: 2 of 3
# caught: hidden
class Mine(Loop):
    def load(self, resume, model, optimizer, scheduler):
        parts = {key: resume[key].state_dict() for key in ("optimizer", "scheduler")}
        return super().load(resume | parts, model, optimizer, scheduler)

    def state(self, model, optimizer, scheduler, losses):
        parts = {"optimizer": copy.deepcopy(optimizer), "scheduler": copy.deepcopy(scheduler)}
        parts["optimizer"]._optimizer_step_pre_hooks.clear()
        return super().state(model, optimizer, scheduler, losses) | parts


train = Mine().train


# %% wrong: a NumPy number in the state
# says: torch.load(weights_only=True) refuses the state. Keep only tensors, numbers, strings, lists and dicts in
# earns: 2 of 3
# caught: hidden
class Mine(Loop):
    def state(self, model, optimizer, scheduler, losses):
        state = super().state(model, optimizer, scheduler, losses)
        return state | {"random of NumPy": __import__("numpy").random.get_state()[1]}


train = Mine().train


# %% wrong: keeps the state in a global, and returns a key
# says: The state is smaller than the weights, so what it needs is stored elsewhere and lost when this process
# earns: 2 of 3
# caught: hidden
KEPT = []


def train(*args, resume=None, **kwargs):
    state = Loop().train(*args, resume=None if resume is None else KEPT[resume["key"]], **kwargs)
    KEPT.append(state)
    return {"step": state["step"], "losses": list(state["losses"]), "key": len(KEPT) - 1}


# %% wrong: losses only since the resume
# says: must have one float per step, the mean over its samples, from the very first step on (even after
# says: This check builds on the first two, which don't pass yet. Fix those first.
# earns: 1 of 3
# lesson
class Mine(Loop):
    def state(self, model, optimizer, scheduler, losses):
        return super().state(model, optimizer, scheduler, losses) | {"losses": losses[self.before :]}

    def load(self, resume, model, optimizer, scheduler):
        self.before = resume["step"]
        return [0.0] * self.before if super().load(resume, model, optimizer, scheduler) else []

    def train(self, *args, **kwargs):
        self.before = 0
        return super().train(*args, **kwargs)


def train(*args, **kwargs):
    return Mine().train(*args, **kwargs)


# %% wrong: the mean of the micro-batches' means
# says: must have one float per step, the mean over its samples, from the very first step on (even after
# earns: 2 of 3
class Mine(Loop):
    def gradients(self, model, group, accumulate, max_norm):
        self.means = []
        super().gradients(model, group, accumulate, max_norm)
        return sum(self.means) / len(self.means)

    def forward(self, model, x, y):
        loss = super().forward(model, x, y)
        self.means.append(loss.item())
        return loss


train = Mine().train


# %% wrong: the loss of the last micro-batch
# says: must have one float per step, the mean over its samples, from the very first step on (even after
# earns: 2 of 3
class Mine(Loop):
    def gradients(self, model, group, accumulate, max_norm):
        super().gradients(model, group, accumulate, max_norm)
        return self.last

    def forward(self, model, x, y):
        loss = super().forward(model, x, y)
        self.last = loss.item()
        return loss


train = Mine().train


# %% wrong: losses of micro-batches
# says: must have one float per step, the mean over its samples, from the very first step on (even after
# earns: 2 of 3
class Mine(Loop):
    def forward(self, model, x, y):
        loss = super().forward(model, x, y)
        self.parts.append(loss.item())
        return loss

    def state(self, model, optimizer, scheduler, losses):
        return super().state(model, optimizer, scheduler, losses) | {"parts": losses, "losses": self.parts}

    def load(self, resume, model, optimizer, scheduler):
        self.parts = list(resume["losses"])
        return super().load(resume | {"losses": resume["parts"]}, model, optimizer, scheduler)


def train(*args, **kwargs):
    loop = Mine()
    loop.parts = []
    return loop.train(*args, **kwargs)


# %% wrong: losses are tensors
# says: The losses must be a list of Python floats, because a tensor may keep its graph alive.
# earns: 2 of 3
class Mine(Loop):
    def gradients(self, model, group, accumulate, max_norm):
        return torch.tensor(super().gradients(model, group, accumulate, max_norm))


train = Mine().train


# %% wrong: takes steps as additional
# says: `steps` is a total. After 4 steps, steps=9 means 5 more.
# says: This check builds on the first two, which don't pass yet. Fix those first.
# earns: 1 of 3
# lesson
class Mine(Loop):
    def enough(self, losses, steps, before):
        return len(losses) >= steps + before


train = Mine().train


# %% wrong: one step at least
# says: The total is already reached, so nothing may be trained, and everything must be as the earlier call left
# earns: 2 of 3
# caught: hidden
# corner: empty
class Mine(Loop):
    def enough(self, losses, steps, before):
        return len(losses) >= max(steps, before + 1)


train = Mine().train


# %% wrong: returns at once when the total is reached, without loading
# says: The total is already reached, so nothing may be trained, and everything must be as the earlier call left
# earns: 2 of 3
# caught: hidden
def train(*args, steps, resume=None, **kwargs):
    if resume is not None and resume["step"] >= steps:
        return copy.deepcopy(resume)
    return Loop().train(*args, steps=steps, resume=resume, **kwargs)


# %% wrong: no step at all is an error
# says: The total is already reached, so nothing may be trained, and everything must be as the earlier call left
# earns: 2 of 3
# caught: hidden
# corner: empty
class Mine(Loop):
    def state(self, model, optimizer, scheduler, losses):
        return super().state(model, optimizer, scheduler, losses) | {"lowest": min(losses)}


train = Mine().train


# %% wrong: never calls model.train()
# says: The model must train in training mode.
# earns: 2 of 3
# caught: hidden
# corner: caller's modes
class Mine(Loop):
    def mode(self, model):
        pass


train = Mine().train


# %% wrong: raises in the caller's no_grad
# says: Under the caller's no_grad your code couldn't train, or it changed the grad mode.
# earns: 2 of 3
# caught: hidden
# corner: caller's modes
class Mine(Loop):
    def grad(self):
        return contextlib.nullcontext()


train = Mine().train


# %% wrong: leaves grad mode switched on
# says: Under the caller's no_grad your code couldn't train, or it changed the grad mode.
# earns: 2 of 3
# caught: hidden
# corner: caller's modes
class Mine(Loop):
    def grad(self):
        torch.set_grad_enabled(True)
        return contextlib.nullcontext()


train = Mine().train


# %% wrong: gives the loaded state to load_state_dict without a copy
# says: Resuming from a state changed the state, because optimizer.load_state_dict keeps the very tensors that
# earns: 2 of 3
# caught: hidden
class Mine(Loop):
    def load(self, resume, model, optimizer, scheduler):
        model.load_state_dict(resume["model"])
        optimizer.load_state_dict(resume["optimizer"])
        scheduler.load_state_dict(resume["scheduler"])
        self.draws(resume)
        return list(resume["losses"])


train = Mine().train


# %% wrong: appends to the state's losses
# says: Resuming from a state changed its list of losses. Append to a copy.
# earns: 2 of 3
# caught: hidden
class Mine(Loop):
    def load(self, resume, model, optimizer, scheduler):
        super().load(resume, model, optimizer, scheduler)
        return resume["losses"]


train = Mine().train


# %% wrong: one backward for the sum of the losses
# says: Run one backward for each micro-batch. A sum of losses keeps the graphs of all micro-batches until the
# earns: 2 of 3
class Mine(Loop):
    def gradients(self, model, group, accumulate, max_norm):
        loss = sum(self.share(self.forward(model, x, y), y, group, accumulate) for x, y in group)
        loss.backward()
        return loss.item()


train = Mine().train


# %% wrong: one large batch
# says: You joined the micro-batches into one batch, which needs the memory that accumulation should save.
# earns: 2 of 3
class Mine(Loop):
    def gradients(self, model, group, accumulate, max_norm):
        x, y = (torch.cat(tensors) for tensors in zip(*group))
        loss = self.forward(model, x, y)
        loss.backward()
        return loss.item()


train = Mine().train


# %% wrong: a second forward for the loss
# says: Run one forward and then its backward for each micro-batch, and none for micro-batches of steps already
# earns: 2 of 3
class Mine(Loop):
    def gradients(self, model, group, accumulate, max_norm):
        super().gradients(model, group, accumulate, max_norm)
        with torch.no_grad():
            losses = [F.cross_entropy(model(x), y, reduction="sum").item() for x, y in group]
        return sum(losses) / sum(len(y) for _, y in group)


train = Mine().train


# %% wrong: returns the losses
# says: Return a dict with "step", "losses" and everything that is needed to continue.
# says: This check builds on the first two, which don't pass yet. Fix those first.
# earns: 0 of 3
class Mine(Loop):
    def copied(self, state):
        return state["losses"]


train = Mine().train


# %% wrong: "step" is the number of steps of this call
# says: "step" is the number of steps made, an int: 9 here
# says: This check builds on the first two, which don't pass yet. Fix those first.
# earns: 1 of 3
def train(*args, resume=None, **kwargs):
    state = Loop().train(*args, resume=resume, **kwargs)
    return state | {"step": len(state["losses"]) - (0 if resume is None else len(resume["losses"]))}


# %% wrong: makes one step more
# says: You made 2 steps of the optimizer, not 1.
# says: After 0 steps, steps=4 means 4 more, but you made 5.
# says: This check builds on the first two, which don't pass yet. Fix those first.
# earns: 0 of 3
class OneMore(Loop):
    def enough(self, losses, steps, before):
        return len(losses) > steps


train = OneMore().train


# %% wrong: takes a step's micro-batches from the end
# says: Each step must use the next `accumulate` micro-batches of the epoch, and no others.
# earns: 2 of 3
class FromTheEnd(Loop):
    def groups(self, batches, accumulate):
        for group in super().groups(batches, accumulate):
            yield group[::-1]


train = FromTheEnd().train


# %% wrong: measures the gradient in units of max_norm
# says: With a limit of 0 the weights became nan or inf.
# earns: 2 of 3
# caught: hidden
class InUnits(Loop):
    def clip(self, model, max_norm):
        if max_norm is not None:
            grads = [p.grad for p in model.parameters() if p.grad is not None]
            for g in grads:
                g /= max_norm
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            for g in grads:
                g *= max_norm


train = InUnits().train


# %% wrong: returns the losses in a tuple
# says: The losses must be a list of Python floats, because a tensor may keep its graph alive.
# says: The losses must be Python floats, in a list.
# says: This check builds on the first two, which don't pass yet. Fix those first.
# earns: 0 of 3
class InATuple(Loop):
    def load(self, resume, model, optimizer, scheduler):
        return list(super().load(resume, model, optimizer, scheduler))

    def copied(self, state):
        return copy.deepcopy(state | {"losses": tuple(state["losses"])})


train = InATuple().train


# %% wrong: gives torch another seed when it has saved its state
# says: In the end torch's random numbers are not bit for bit those of the uninterrupted run.
# says: This check builds on the first two, which don't pass yet. Fix those first.
# earns: 1 of 3
class NewSeed(Loop):
    def copied(self, state):
        state = super().copied(state)
        torch.seed()
        return state


train = NewSeed().train
