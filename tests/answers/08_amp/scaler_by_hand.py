# corners: nan

import weakref


def grads_of(optimizer):
    return [p.grad for group in optimizer.param_groups for p in group["params"] if p.grad is not None]


class Base:
    """A right answer with parts to replace."""

    def __init__(self, init_scale=65536.0, growth_factor=2.0, backoff_factor=0.5, growth_interval=2000):
        self.now, self.good = init_scale, 0
        self.growth, self.backoff, self.interval = growth_factor, backoff_factor, growth_interval
        self.found, self.stepped = {}, set()

    def scale(self, loss):
        return loss * self.now

    def bad(self, grads):
        return any(not g.isfinite().all() for g in grads)

    def unscale_(self, optimizer):
        if id(optimizer) in self.found:
            raise RuntimeError("unscaled already")
        grads = grads_of(optimizer)
        for g in grads:
            g.div_(self.now)
        self.found[id(optimizer)] = self.bad(grads)

    def step(self, optimizer):
        if id(optimizer) in self.stepped:
            raise RuntimeError("stepped already")
        if id(optimizer) not in self.found:
            self.unscale_(optimizer)
        self.stepped.add(id(optimizer))
        if self.found[id(optimizer)]:
            return False
        optimizer.step()
        return True

    def update(self):
        if any(self.found.values()):
            self.now *= self.backoff
            self.good = 0
        else:
            self.good += 1
            if self.good == self.interval:
                self.now *= self.growth
                self.good = 0
        self.found, self.stepped = {}, set()

    def get_scale(self):
        return self.now

    def state_dict(self):
        return {"scale": self.now, "good": self.good}

    def load_state_dict(self, state):
        self.now, self.good = state["scale"], state["good"]


# %% right: a dictionary of found_inf per optimizer
LossScaler = Base


# %% right: non-finite by the sum of all gradients, multiplication by the inverse scale, stages by name
class LossScaler:
    def __init__(self, init_scale=65536.0, growth_factor=2.0, backoff_factor=0.5, growth_interval=2000):
        self._s = float(init_scale)
        self._settings = (growth_factor, backoff_factor, growth_interval)
        self._left = growth_interval
        self._stage, self._trouble = {}, False

    def scale(self, loss):
        return torch.mul(loss, self._s)

    def unscale_(self, optimizer):
        if optimizer in self._stage:
            raise RuntimeError("unscale_ was called before")
        inverse, total = 1.0 / self._s, 0.0
        for group in optimizer.param_groups:
            for p in group["params"]:
                if p.grad is not None:
                    p.grad *= inverse
                    total += p.grad.double().sum().item()
        self._stage[optimizer] = "fine" if math.isfinite(total) else "bad"
        self._trouble = self._trouble or not math.isfinite(total)

    def step(self, optimizer):
        if self._stage.get(optimizer) == "stepped":
            raise RuntimeError("step was called before")
        if optimizer not in self._stage:
            self.unscale_(optimizer)
        fine = self._stage[optimizer] == "fine"
        if fine:
            optimizer.step()
        self._stage[optimizer] = "stepped"
        return fine

    def update(self):
        growth, backoff, interval = self._settings
        self._left = interval if self._trouble else self._left - 1
        self._s *= backoff if self._trouble else growth if self._left == 0 else 1.0
        self._left = self._left or interval
        self._stage, self._trouble = {}, False

    def get_scale(self):
        return self._s

    def state_dict(self):
        return {"scale": self._s, "to_go": self._left}

    def load_state_dict(self, state):
        self._s, self._left = state["scale"], state["to_go"]


# %% right: torch._foreach_mul_ over all gradients, state in a WeakKeyDictionary, the scale in a tensor
class LossScaler(Base):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.now = torch.tensor(float(self.now), dtype=torch.float64)
        self.seen = weakref.WeakKeyDictionary()
        self.done = weakref.WeakSet()

    def scale(self, loss):
        return loss * self.now.to(loss.dtype)

    def unscale_(self, optimizer):
        if optimizer in self.seen:
            raise RuntimeError("again")
        grads = grads_of(optimizer)
        if grads:
            torch._foreach_mul_(grads, self.now.reciprocal().item())
        self.seen[optimizer] = bool(sum((~g.isfinite()).sum().item() for g in grads))

    def step(self, optimizer):
        if optimizer in self.done:
            raise RuntimeError("again")
        if optimizer not in self.seen:
            self.unscale_(optimizer)
        self.done.add(optimizer)
        if not self.seen[optimizer]:
            optimizer.step()
        return not self.seen[optimizer]

    def update(self):
        self.found = dict.fromkeys(map(id, self.seen), False) | {id(o): bad for o, bad in self.seen.items()}
        super().update()
        self.seen.clear()
        self.done.clear()

    def get_scale(self):
        return self.now.item()

    def state_dict(self):
        return {"scale": self.get_scale(), "count": self.good}

    def load_state_dict(self, state):
        self.now, self.good = torch.tensor(state["scale"], dtype=torch.float64), state["count"]


# %% right: finds inf before it divides; keeps all settings in the state
class LossScaler(Base):
    def unscale_(self, optimizer):
        if id(optimizer) in self.found:
            raise RuntimeError("unscaled already")
        grads = grads_of(optimizer)
        self.found[id(optimizer)] = any(bool(torch.isnan(g).any() or torch.isinf(g).any()) for g in grads)
        with torch.no_grad():
            for g in grads:
                g.copy_(g / self.now)

    def state_dict(self):
        names = ("now", "good", "growth", "backoff", "interval")
        return {name: getattr(self, name) for name in names}

    def load_state_dict(self, state):
        vars(self).update(state)


# %% wrong: wraps torch.amp.GradScaler
# says: That is the library's scaler: write it yourself.
# earns: 0 of 3
class LossScaler:
    def __init__(self, init_scale=65536.0, growth_factor=2.0, backoff_factor=0.5, growth_interval=2000):
        self.inner = torch.amp.GradScaler("cpu", init_scale, growth_factor, backoff_factor, growth_interval)

    def scale(self, loss):
        return self.inner.scale(loss)

    def unscale_(self, optimizer):
        self.inner.unscale_(optimizer)

    def step(self, optimizer):
        before = optimizer.steps
        self.inner.step(optimizer)
        return optimizer.steps > before

    def update(self):
        self.inner.update()

    def get_scale(self):
        return self.inner.get_scale()

    def state_dict(self):
        return self.inner.state_dict()

    def load_state_dict(self, state):
        self.inner.load_state_dict(state)


# %% wrong: inherits from torch.amp.GradScaler
# says: That is the library's scaler: write it yourself.
# earns: 0 of 3
class LossScaler(torch.amp.GradScaler):
    def __init__(self, *args, **kwargs):
        super().__init__("cpu", *args, **kwargs)


# %% wrong: unscales with the library's function
# says: That is the library's scaler: write it yourself.
# earns: 1 of 3
class LossScaler(Base):
    def unscale_(self, optimizer):
        if id(optimizer) in self.found:
            raise RuntimeError("unscaled already")
        found = torch.zeros(1)
        torch._amp_foreach_non_finite_check_and_unscale_(grads_of(optimizer), found, torch.tensor([1 / self.now]))
        self.found[id(optimizer)] = bool(found)


# %% wrong: steps in any case
# says: The step must be skipped when a gradient is inf or nan.
# says: A step was taken although one of the optimizer's gradients is inf or nan: every
# earns: 0 of 3
# lesson
class LossScaler(Base):
    def step(self, optimizer):
        if id(optimizer) in self.stepped:
            raise RuntimeError("stepped already")
        if id(optimizer) not in self.found:
            self.unscale_(optimizer)
        self.stepped.add(id(optimizer))
        optimizer.step()
        return not self.found[id(optimizer)]


# %% wrong: checks isinf only
# says: `isinf` alone misses nan: check `isfinite`.
# says: A step was taken although one of the optimizer's gradients is inf or nan: every
# earns: 0 of 3
# lesson
# corner: nan
class LossScaler(Base):
    def bad(self, grads):
        return any(g.isinf().any() for g in grads)


# %% wrong: checks isnan only
# says: The step must be skipped when a gradient is inf or nan.
# says: A step was taken although one of the optimizer's gradients is inf or nan: every
# earns: 0 of 3
class LossScaler(Base):
    def bad(self, grads):
        return any(g.isnan().any() for g in grads)


# %% wrong: looks for inf, not for -inf
# says: The step must be skipped when a gradient is inf or nan.
# says: A step was taken although one of the optimizer's gradients is inf or nan: every
# earns: 0 of 3
class LossScaler(Base):
    def bad(self, grads):
        return any((g.isnan() | (g == math.inf)).any() for g in grads)


# %% wrong: step always unscales
# says: The gradients were divided twice: step must not unscale again after unscale_.
# says: The gradients or weights are not those of torch.amp.GradScaler: unscale_
# earns: 0 of 3
# lesson
class LossScaler(Base):
    def step(self, optimizer):
        if id(optimizer) in self.stepped:
            raise RuntimeError("stepped already")
        self.found.pop(id(optimizer), None)
        Base.unscale_(self, optimizer)
        self.stepped.add(id(optimizer))
        if self.found[id(optimizer)]:
            return False
        optimizer.step()
        return True


# %% wrong: unscale_ divides, notes nothing
# says: A second unscale_ (or step) before update must raise RuntimeError.
# says: `step` has already unscaled the gradients, so an `unscale_` that comes after it must raise RuntimeError
# earns: 0 of 3
class LossScaler(Base):
    def unscale_(self, optimizer):
        self.found.pop(id(optimizer), None)
        super().unscale_(optimizer)


# %% wrong: a second step is let pass
# says: A second unscale_ (or step) before update must raise RuntimeError.
# earns: 0 of 3
class LossScaler(Base):
    def step(self, optimizer):
        self.stepped.clear()
        return super().step(optimizer)


# %% wrong: a second call returns quietly
# says: A second unscale_ (or step) before update must raise RuntimeError.
# says: `step` has already unscaled the gradients, so an `unscale_` that comes after it must raise RuntimeError
# earns: 0 of 3
class LossScaler(Base):
    def unscale_(self, optimizer):
        if id(optimizer) not in self.found:
            super().unscale_(optimizer)


# %% wrong: a second call raises ValueError
# says: A second unscale_ (or step) before update must raise RuntimeError and no other error
# earns: 0 of 3
class LossScaler(Base):
    def unscale_(self, optimizer):
        if id(optimizer) in self.found:
            raise ValueError("unscaled already")
        super().unscale_(optimizer)


# %% wrong: one found_inf for all optimizers
# says: One optimizer's inf must not keep the other from stepping, but it does shrink the scale
# earns: 2 of 3
# lesson
class LossScaler(Base):
    def step(self, optimizer):
        if id(optimizer) in self.stepped:
            raise RuntimeError("stepped already")
        if id(optimizer) not in self.found:
            self.unscale_(optimizer)
        self.stepped.add(id(optimizer))
        if any(self.found.values()):
            return False
        optimizer.step()
        return True


# %% wrong: the last optimizer decides about the scale
# says: One optimizer's inf must not keep the other from stepping, but it does shrink the scale
# earns: 2 of 3
class LossScaler(Base):
    def update(self):
        last = list(self.found.values())[-1:]
        self.found = dict(enumerate(last))
        super().update()


# %% wrong: shrinks once for each optimizer
# says: it does shrink the scale (once per iteration)
# earns: 2 of 3
# caught: hidden
class LossScaler(Base):
    def update(self):
        more = max(sum(self.found.values()) - 1, 0)
        super().update()
        self.now *= self.backoff**more


# %% wrong: the count survives a skip
# says: The scale must grow only after growth_interval good iterations IN A ROW; a skipped one restarts the count.
# earns: 2 of 3
# caught: hidden
class LossScaler(Base):
    def update(self):
        good = self.good
        bad = any(self.found.values())
        super().update()
        self.good = good if bad else self.good


# %% wrong: the count is not reset after growth
# says: The scale must grow only after growth_interval good iterations IN A ROW
# earns: 2 of 3
# caught: hidden
class LossScaler(Base):
    def update(self):
        if any(self.found.values()):
            self.now *= self.backoff
            self.good = 0
        else:
            self.good += 1
            if self.good >= self.interval:
                self.now *= self.growth
        self.found, self.stepped = {}, set()


# %% wrong: grows one iteration late
# says: The scale grows too late
# earns: 2 of 3
# caught: hidden
class LossScaler(Base):
    def update(self):
        self.interval += 1
        super().update()
        self.interval -= 1


# %% wrong: assigns a new .grad
# says: Divide the gradients in place, because other code may refer to the same tensor.
# earns: 0 of 3
class LossScaler(Base):
    def unscale_(self, optimizer):
        if id(optimizer) in self.found:
            raise RuntimeError("unscaled already")
        for group in optimizer.param_groups:
            for p in group["params"]:
                if p.grad is not None:
                    p.grad = p.grad / self.now
        self.found[id(optimizer)] = self.bad(grads_of(optimizer))


# %% wrong: scales the loss in place
# says: `scale` must keep the graph and must not change the loss tensor.
# earns: 0 of 3
class LossScaler(Base):
    def scale(self, loss):
        return loss.mul_(self.now)


# %% wrong: scale detaches
# says: `scale` must keep the graph and must not change the loss tensor.
# earns: 0 of 3
class LossScaler(Base):
    def scale(self, loss):
        return loss.detach() * self.now


# %% wrong: scale returns a number
# says: `scale` must keep the graph and must not change the loss tensor.
# earns: 0 of 3
class LossScaler(Base):
    def scale(self, loss):
        return loss.item() * self.now


# %% wrong: a detached loss that requires grad
# says: `scale` must keep the graph and must not change the loss tensor.
# earns: 0 of 3
class LossScaler(Base):
    def scale(self, loss):
        return (loss.detach() * self.now).requires_grad_()


# %% wrong: no check for None gradients
# says: Parameters without gradient must simply be ignored.
# earns: 2 of 3
# caught: hidden
class LossScaler(Base):
    def unscale_(self, optimizer):
        if id(optimizer) in self.found:
            raise RuntimeError("unscaled already")
        grads = [p.grad for group in optimizer.param_groups for p in group["params"]]
        for g in grads:
            g.div_(self.now)
        self.found[id(optimizer)] = self.bad(grads)


# %% wrong: the first group only
# says: After step the gradients must be the unscaled ones.
# says: A step was taken although one of the optimizer's gradients is inf or nan: every
# earns: 0 of 3
class LossScaler(Base):
    def unscale_(self, optimizer):
        if id(optimizer) in self.found:
            raise RuntimeError("unscaled already")
        grads = [p.grad for p in optimizer.param_groups[0]["params"] if p.grad is not None]
        for g in grads:
            g.div_(self.now)
        self.found[id(optimizer)] = self.bad(grads)


# %% wrong: the last gradient decides
# says: every one of them counts.
# earns: 2 of 3
class LossScaler(Base):
    def bad(self, grads):
        return not grads[-1].isfinite().all()


# %% wrong: saves the scale only
# says: The growth count belongs to the state: after loading, growth must come at the same iteration.
# earns: 2 of 3
# caught: hidden
class LossScaler(Base):
    def state_dict(self):
        return {"scale": self.now}

    def load_state_dict(self, state):
        self.now = state["scale"]


# %% wrong: saves the count only
# says: The growth count belongs to the state
# earns: 2 of 3
# caught: hidden
class LossScaler(Base):
    def state_dict(self):
        return {"good": self.good}

    def load_state_dict(self, state):
        self.good = state["good"]


# %% wrong: gives its own dict as state
# says: `state_dict` must return a dict of plain numbers.
# earns: 2 of 3
# caught: hidden
class LossScaler(Base):
    def state_dict(self):
        return dict(vars(self))

    def load_state_dict(self, state):
        vars(self).update(state)


# %% wrong: the state is a tuple
# says: `state_dict` must return a dict of plain numbers.
# earns: 2 of 3
# caught: hidden
class LossScaler(Base):
    def state_dict(self):
        return self.now, self.good

    def load_state_dict(self, state):
        self.now, self.good = state


# %% wrong: step returns nothing
# says: `step` returns True if the optimizer stepped, False if it was skipped. Yours returned
# earns: 0 of 3
class LossScaler(Base):
    def step(self, optimizer):
        super().step(optimizer)


# %% wrong: step returns the opposite
# says: A good step must be taken, once.
# says: `step` returns True if the optimizer stepped, False if it was skipped.
# earns: 0 of 3
class LossScaler(Base):
    def step(self, optimizer):
        return not super().step(optimizer)


# %% wrong: shrinks the scale inside step
# says: Gradients must be divided by the scale they were multiplied with: the scale changes only in update().
# earns: 2 of 3
class LossScaler(Base):
    def step(self, optimizer):
        stepped = super().step(optimizer)
        if not stepped:
            self.now *= self.backoff
            self.shrunk = True
        return stepped

    def update(self):
        now, shrunk = self.now, any(self.found.values())
        super().update()
        self.now = now if shrunk else self.now


# %% wrong: other defaults
# says: The defaults are init_scale 65536, growth_factor 2, backoff_factor 0.5, growth_interval 2000.
# earns: 2 of 3
# caught: hidden
class LossScaler(Base):
    def __init__(self, init_scale=65536.0, growth_factor=2.0, backoff_factor=0.5, growth_interval=1000):
        super().__init__(init_scale, growth_factor, backoff_factor, growth_interval)


# %% wrong: get_scale gives a tensor
# says: get_scale returns a float, not a Tensor.
# earns: 0 of 3
class LossScaler(Base):
    def get_scale(self):
        return torch.tensor(self.now)


# %% wrong: a method is missing
# says: A method is missing or can't be called
# earns: 0 of 3
class LossScaler(Base):
    update = property()


# %% right: a class with slots; unscale_ returns whether an inf was found
class LossScaler:
    __slots__ = ("backoff", "found", "good", "growth", "interval", "now", "stepped")
    __init__, scale, bad, step, update = Base.__init__, Base.scale, Base.bad, Base.step, Base.update
    get_scale, state_dict, load_state_dict = Base.get_scale, Base.state_dict, Base.load_state_dict

    def unscale_(self, optimizer):
        Base.unscale_(self, optimizer)
        return self.found[id(optimizer)]


# %% wrong: one state for all scalers
# says: Each scaler must have its own state: an inf in one must not change the other.
# earns: 2 of 3
# caught: hidden
class LossScaler(Base):
    seen = {}

    def __init__(self, *settings, **named):
        super().__init__(*settings, **named)
        self.found = self.seen

    def update(self):
        super().update()
        self.seen.clear()
        self.found = self.seen


# %% wrong: a step that was skipped may be repeated
# says: A second unscale_ (or step) before update must raise RuntimeError.
# earns: 2 of 3
# caught: hidden
class LossScaler(Base):
    def step(self, optimizer):
        stepped = super().step(optimizer)
        if not stepped:
            self.stepped.discard(id(optimizer))
        return stepped


# %% wrong: step unscales without a note of it
# says: `step` has already unscaled the gradients, so an `unscale_` that comes after it must raise RuntimeError
# earns: 2 of 3
# caught: hidden
class LossScaler(Base):
    met = False

    def step(self, optimizer):
        stepped = super().step(optimizer)
        self.met |= self.found.pop(id(optimizer))
        return stepped

    def update(self):
        self.found["any"] = self.met
        super().update()
        self.met = False


# %% wrong: leaves gradients scaled where one is inf
# says: unscale_ divides every gradient of its optimizer once, even if one of them is inf or nan.
# earns: 2 of 3
class LossScaler(Base):
    def unscale_(self, optimizer):
        if id(optimizer) in self.found:
            raise RuntimeError("unscaled already")
        bad = self.bad(grads_of(optimizer))
        for g in grads_of(optimizer):
            g.div_(1 if bad else self.now)
        self.found[id(optimizer)] = bad


# %% wrong: always halves and doubles
# says: The scale changes when it should, but not by the right factor
# earns: 2 of 3
# caught: hidden
class LossScaler(Base):
    def __init__(self, init_scale=65536.0, growth_factor=2.0, backoff_factor=0.5, growth_interval=2000):
        super().__init__(init_scale, 2.0, 0.5, growth_interval)


# %% wrong: update forgets who has stepped
# says: After update the next iteration must work like the first one.
# earns: 0 of 3
class LossScaler(Base):
    def update(self):
        stepped = self.stepped
        super().update()
        self.stepped = stepped


# %% wrong: saves a whole number
# says: The growth count belongs to the state
# earns: 2 of 3
# caught: hidden
class LossScaler(Base):
    def state_dict(self):
        return {"scale": int(self.now), "good": self.good}


# %% wrong: inf is looked for in the sum of the squares
# says: Gradients of 1e20 are finite: check each of them
# earns: 2 of 3
# caught: hidden
class LossScaler(Base):
    def bad(self, grads):
        return not torch.stack([g.pow(2).sum() for g in grads]).sum().isfinite()


# %% wrong: inf is looked for in the norm
# says: Gradients of 1e20 are finite: check each of them
# earns: 2 of 3
# caught: hidden
class LossScaler(Base):
    def bad(self, grads):
        return any(not g.norm().isfinite() for g in grads)


# %% wrong: inf is looked for in the sum
# says: Gradients of 3e38 are finite: check each of them
# earns: 2 of 3
# caught: hidden
class LossScaler(Base):
    def bad(self, grads):
        return any(not g.sum().isfinite() for g in grads)


# %% wrong: isnan of the sum
# says: Gradients of 3e38 are finite: check each of them, not their sum or norm, which overflows.
# earns: 2 of 3
# caught: hidden
class LossScaler:
    def __init__(self, init_scale=65536.0, growth_factor=2.0, backoff_factor=0.5, growth_interval=2000):
        self.s, self.good = init_scale, 0
        self.g, self.b, self.n = growth_factor, backoff_factor, growth_interval
        self.bad, self.done = {}, set()

    def scale(self, loss):
        return loss * self.s

    def unscale_(self, optimizer):
        if optimizer in self.bad:
            raise RuntimeError("again")
        grads = [p.grad for g in optimizer.param_groups for p in g["params"] if p.grad is not None]
        for g in grads:
            g.mul_(1 / self.s)
        self.bad[optimizer] = not math.isfinite(sum(g.sum().item() for g in grads))

    def step(self, optimizer):
        if optimizer in self.done:
            raise RuntimeError("again")
        if optimizer not in self.bad:
            self.unscale_(optimizer)
        self.done.add(optimizer)
        if self.bad[optimizer]:
            return False
        optimizer.step()
        return True

    def update(self):
        if any(self.bad.values()):
            self.s, self.good = self.s * self.b, 0
        else:
            self.good += 1
            if self.good == self.n:
                self.s, self.good = self.s * self.g, 0
        self.bad, self.done = {}, set()

    def get_scale(self):
        return self.s

    def state_dict(self):
        return {"s": self.s, "good": self.good}

    def load_state_dict(self, state):
        self.s, self.good = state["s"], state["good"]


# %% wrong: step says what it did in words
# says: Yours returned
# earns: 0 of 3
class LossScaler(Base):
    def step(self, optimizer):
        return "stepped" if super().step(optimizer) else "skipped"


# %% wrong: grows after each good iteration
# says: After one good iteration the scale must still be the same.
# says: The scale must grow only after growth_interval good iterations IN A ROW; a skipped one restarts the count.
# earns: 0 of 3
class LossScaler(Base):
    def __init__(self, init_scale=65536.0, growth_factor=2.0, backoff_factor=0.5, growth_interval=2000):
        super().__init__(init_scale, growth_factor, backoff_factor, 1)


# %% wrong: quarters the scale
# says: The scale must be halved each time; it was
# says: One optimizer's inf must not keep the other from stepping, but it does shrink the scale (once per iteration).
# earns: 0 of 3
class LossScaler(Base):
    def update(self):
        if any(self.found.values()):
            self.now *= self.backoff
        super().update()


# %% wrong: a refused unscale_ divides before it refuses
# says: A refused second call, or step after unscale_, has changed the gradients.
# says: The gradients or weights are not those of torch.amp.GradScaler: unscale_ divides every gradient of its optimizer once, even if one of them is inf or nan.
# earns: 0 of 3
class LossScaler(Base):
    def unscale_(self, optimizer):
        for g in grads_of(optimizer) if id(optimizer) in self.found else []:
            g.div_(2)
        super().unscale_(optimizer)


# %% wrong: steps twice where unscale_ came first
# says: Your scaler called `optimizer.step()` twice in one iteration.
# earns: 0 of 3
class LossScaler(Base):
    def step(self, optimizer):
        if id(optimizer) in self.found and id(optimizer) not in self.stepped and not self.found[id(optimizer)]:
            optimizer.step()
        return super().step(optimizer)


# %% wrong: a step that is half as long again
# says: The weights are not those of a step with the unscaled gradients.
# says: The gradients or weights are not those of torch.amp.GradScaler: unscale_ divides every gradient of its optimizer once, even if one of them is inf or nan.
# earns: 0 of 3
class LossScaler(Base):
    def step(self, optimizer):
        if id(optimizer) not in self.found:
            self.unscale_(optimizer)
        kept = [g.clone() for g in grads_of(optimizer)]
        for g in grads_of(optimizer):
            g.mul_(1.5)
        done = super().step(optimizer)
        for g, old in zip(grads_of(optimizer), kept):
            g.copy_(old)
        return done


# %% wrong: takes its settings in another order
# says: The settings were given by position: init_scale, growth_factor, backoff_factor and growth_interval, in this
# earns: 2 of 3
# caught: hidden
class LossScaler(Base):
    def __init__(self, init_scale=65536.0, growth_interval=2000, growth_factor=2.0, backoff_factor=0.5):
        super().__init__(init_scale, growth_factor, backoff_factor, growth_interval)


# %% wrong: skips a step where a parameter has no gradient
# says: Parameters without gradient must simply be ignored.
# earns: 2 of 3
# caught: hidden
class LossScaler(Base):
    def unscale_(self, optimizer):
        super().unscale_(optimizer)
        params = [p for group in optimizer.param_groups for p in group["params"]]
        self.found[id(optimizer)] |= any(p.grad is None for p in params)


# %% right: a state with all settings and a flag
class LossScaler(Base):
    def state_dict(self):
        return super().state_dict() | {"interval": self.interval, "enabled": True}

    def load_state_dict(self, state):
        super().load_state_dict(state)
        self.interval = state["interval"]


# %% wrong: looks at the gradients once more when it steps
# says: `step` was called with finite gradients, but unscale_ had met an inf or nan in them.
# earns: 2 of 3
# caught: hidden
class LossScaler(Base):
    def step(self, optimizer):
        if id(optimizer) in self.stepped:
            raise RuntimeError("stepped already")
        if id(optimizer) not in self.found:
            self.unscale_(optimizer)
        self.stepped.add(id(optimizer))
        if self.bad(grads_of(optimizer)):
            return False
        optimizer.step()
        return True


# %% wrong: the state holds text
# says: `state_dict` must return a dict of plain numbers.
# earns: 2 of 3
# caught: hidden
class LossScaler(Base):
    def state_dict(self):
        return super().state_dict() | {"version": "1"}


# %% wrong: the state is the scaler's own dict
# says: `state_dict` returned a dict that your scaler itself goes on changing
# earns: 2 of 3
# caught: hidden
class LossScaler(Base):
    def __init__(self, init_scale=65536.0, growth_factor=2.0, backoff_factor=0.5, growth_interval=2000):
        self.state = {"scale": init_scale, "good": 0}
        super().__init__(init_scale, growth_factor, backoff_factor, growth_interval)

    now = property(lambda self: self.state["scale"], lambda self, scale: self.state.update(scale=scale))
    good = property(lambda self: self.state["good"], lambda self, good: self.state.update(good=good))

    def state_dict(self):
        return self.state


# %% wrong: a first unscale_ after step returns quietly
# says: `step` has already unscaled the gradients, so an `unscale_` that comes after it must raise RuntimeError
# earns: 2 of 3
# caught: hidden
class LossScaler(Base):
    def __init__(self, *settings, **named):
        super().__init__(*settings, **named)
        self.asked = set()

    def unscale_(self, optimizer):
        if id(optimizer) in self.stepped and id(optimizer) not in self.asked:
            self.asked.add(id(optimizer))
            return
        super().unscale_(optimizer)
        self.asked.add(id(optimizer))

    def step(self, optimizer):
        asked = set(self.asked)
        stepped = super().step(optimizer)
        self.asked = asked
        return stepped

    def update(self):
        super().update()
        self.asked.clear()


# %% wrong: load_state_dict keeps the caller's dict
# says: `load_state_dict` kept the caller's dict, and your scaler goes on changing it
# earns: 2 of 3
# caught: hidden
class LossScaler(Base):
    def __init__(self, init_scale=65536.0, growth_factor=2.0, backoff_factor=0.5, growth_interval=2000):
        self.state = {"scale": init_scale, "good": 0}
        super().__init__(init_scale, growth_factor, backoff_factor, growth_interval)

    now = property(lambda self: self.state["scale"], lambda self, scale: self.state.update(scale=scale))
    good = property(lambda self: self.state["good"], lambda self, good: self.state.update(good=good))

    def load_state_dict(self, state):
        self.state = state


# %% wrong: looks for inf and nan when it unscales, and once more when it steps
# says: `step` was called with a nan that came after unscale_, and your scaler skipped the step.
# earns: 2 of 3
# corner: nan
# caught: hidden
class LossScaler(Base):
    def step(self, optimizer):
        if id(optimizer) in self.found and self.bad(grads_of(optimizer)):
            self.found[id(optimizer)] = True
        return super().step(optimizer)


# %% wrong: the scale never falls below 1
# says: Your scale never falls below 1. GradScaler's has no lower limit
# earns: 2 of 3
# caught: hidden
class LossScaler(Base):
    def update(self):
        super().update()
        self.now = max(self.now, 1.0)
