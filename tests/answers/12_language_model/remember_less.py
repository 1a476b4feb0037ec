# corners: members
import copy

import torch
from torch.utils.checkpoint import checkpoint


class Lean(torch.autograd.Function):
    """A right one; wrong ones below change a part of it."""

    @staticmethod
    def forward(ctx, block, x, *parameters):
        ctx.block, ctx.state = block, torch.get_rng_state()
        ctx.save_for_backward(x)
        return block(x)

    @classmethod
    def again(cls, ctx):
        (x,) = ctx.saved_tensors
        x = x.detach().requires_grad_()
        with torch.random.fork_rng(), torch.enable_grad():
            torch.set_rng_state(ctx.state)
            return x, ctx.block(x)

    @classmethod
    def gradients(cls, ctx, x, out, g):
        parameters = list(ctx.block.parameters())
        wanted = [x, *[p for p in parameters if p.requires_grad]]
        found = dict(zip(map(id, wanted), torch.autograd.grad(out, wanted, g, allow_unused=True), strict=True))
        return [found.get(id(t)) for t in (x, *parameters)]

    @classmethod
    def backward(cls, ctx, g):
        return None, *cls.gradients(ctx, *cls.again(ctx), g)


# %% right: one Function, its state set by hand
class Own(torch.autograd.Function):
    @staticmethod
    def forward(block, state, x, *parameters):
        return block(x)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.block, ctx.state, x, *parameters = inputs
        ctx.save_for_backward(x, *parameters)

    @staticmethod
    def backward(ctx, g):
        x, *parameters = ctx.saved_tensors
        now = torch.get_rng_state()
        torch.set_rng_state(ctx.state)
        try:
            with torch.enable_grad():
                x = x.detach().requires_grad_(x.requires_grad)
                out = ctx.block(x)
        finally:
            torch.set_rng_state(now)
        places = [n for n, t in enumerate((x, *parameters)) if t.requires_grad]
        wanted = [(x, *parameters)[n] for n in places]
        found = torch.autograd.grad(out, wanted, g, allow_unused=True)
        grads = [None] * (1 + len(parameters))
        for n, grad in zip(places, found, strict=True):
            grads[n] = grad
        return None, None, *grads


def remember_less(block, x):
    return Own.apply(block, torch.get_rng_state(), x, *block.parameters())


# %% right: fork_rng, only the parameters that are trained are handed over
class Trained(torch.autograd.Function):
    @staticmethod
    def forward(ctx, block, x, *trained):
        ctx.block, ctx.x, ctx.trained, ctx.state = block, x, trained, torch.random.get_rng_state()
        with torch.no_grad():
            return block(x)

    @staticmethod
    def backward(ctx, g):
        x = ctx.x.detach().requires_grad_()
        with torch.random.fork_rng(), torch.enable_grad():
            torch.random.set_rng_state(ctx.state)
            out = ctx.block(x)
        return None, *torch.autograd.grad(out, (x, *ctx.trained), g, allow_unused=True)


def remember_less(block, x):
    return Trained.apply(block, x, *[p for p in block.parameters() if p.requires_grad])


# %% right: torch.func.vjp of functional_call
class ByVjp(torch.autograd.Function):
    @staticmethod
    def forward(ctx, block, names, x, *values):
        ctx.block, ctx.names, ctx.state = block, names, torch.get_rng_state()
        ctx.save_for_backward(x, *values)
        return block(x)

    @staticmethod
    def backward(ctx, g):
        x, *values = (t.detach() for t in ctx.saved_tensors)
        with torch.random.fork_rng():
            torch.set_rng_state(ctx.state)

            def run(x, values):
                return torch.func.functional_call(ctx.block, values, (x,))

            _, back = torch.func.vjp(run, x, dict(zip(ctx.names, values, strict=True)))
        of_x, of_values = back(g)
        return None, None, of_x, *[of_values[name] for name in ctx.names]


def remember_less(block, x):
    named = {name: p for name, p in block.named_parameters() if p.requires_grad and name != "spare"}
    return ByVjp.apply(block, list(named), x, *named.values())


# %% wrong: plain block(x)
# says: bytes in addition to x and the block. Run the forward pass without a graph, and keep nothing that it
# says: This check builds on the first one
# earns: 0 of 2
def remember_less(block, x):
    return block(x)


# %% wrong: dice not restored
# says: The second run drew different random numbers, so the gradients belong to a different dropout mask. Save
# says: This check builds on the first one
# earns: 0 of 2
# lesson
class OtherDice(Lean):
    @classmethod
    def again(cls, ctx):
        (x,) = ctx.saved_tensors
        x = x.detach().requires_grad_()
        with torch.random.fork_rng(), torch.enable_grad():
            return x, ctx.block(x)


def remember_less(block, x):
    return OtherDice.apply(block, x, *block.parameters())


# %% wrong: the state is not put back
# says: Backward changed the state of the global generator. The second run must leave no trace, so restore the
# earns: 1 of 2
class NotPutBack(Lean):
    @classmethod
    def again(cls, ctx):
        (x,) = ctx.saved_tensors
        x = x.detach().requires_grad_()
        torch.set_rng_state(ctx.state)
        with torch.enable_grad():
            return x, ctx.block(x)


def remember_less(block, x):
    return NotPutBack.apply(block, x, *block.parameters())


# %% wrong: the first run in fork_rng
# says: After the forward pass, the global generator is not in the state in which block(x) leaves it.
# earns: 1 of 2
class Forked(Lean):
    @staticmethod
    def forward(ctx, block, x, *parameters):
        with torch.random.fork_rng():
            return Lean.forward(ctx, block, x, *parameters)


def remember_less(block, x):
    return Forked.apply(block, x, *block.parameters())


# %% wrong: a seed of its own in both runs
# says: The result is not block(x).
# says: This check builds on the first one
# earns: 0 of 2
class Seeded(Lean):
    @staticmethod
    def forward(ctx, block, x, *parameters):
        torch.manual_seed(0)
        return Lean.forward(ctx, block, x, *parameters)


def remember_less(block, x):
    return Seeded.apply(block, x, *block.parameters())


# %% wrong: the gradient of x only
# says: The parameters got no gradient. Pass them to apply() and return their gradients as well.
# says: This check builds on the first one
# earns: 0 of 2
class OnlyX(Lean):
    @classmethod
    def backward(cls, ctx, g):
        x, out = cls.again(ctx)
        return None, *torch.autograd.grad(out, x, g)


def remember_less(block, x):
    return OnlyX.apply(block, x)


# %% wrong: backward() inside backward, parameters not handed over
# says: If x needs no gradient, your result has no graph. Pass the parameters to apply() as well.
# earns: 1 of 2
# caught: hidden
class NoGraph(Lean):
    @classmethod
    def backward(cls, ctx, g):
        x, out = cls.again(ctx)
        out.backward(g)
        return None, x.grad


def remember_less(block, x):
    return NoGraph.apply(block, x)


# %% wrong: backward() inside backward, parameters handed over
# says: torch.autograd.grad changed a .grad
# earns: 1 of 2
# caught: hidden
class SideEffect(Lean):
    @classmethod
    def backward(cls, ctx, g):
        x, out = cls.again(ctx)
        out.backward(g)
        return None, x.grad, *[None for _ in ctx.block.parameters()]


def remember_less(block, x):
    return SideEffect.apply(block, x, *block.parameters())


# %% wrong: autograd.grad without allow_unused
# says: Frozen or unused parameters must be allowed
# earns: 1 of 2
# caught: hidden
# corner: members
class AllUsed(Lean):
    @classmethod
    def backward(cls, ctx, g):
        x, out = cls.again(ctx)
        return None, *torch.autograd.grad(out, [x, *ctx.block.parameters()], g)


def remember_less(block, x):
    return AllUsed.apply(block, x, *block.parameters())


# %% wrong: allows unused parameters, not frozen ones
# says: Frozen or unused parameters must be allowed
# earns: 1 of 2
# caught: hidden
# corner: members
class NoneFrozen(Lean):
    @classmethod
    def backward(cls, ctx, g):
        x, out = cls.again(ctx)
        return None, *torch.autograd.grad(out, [x, *ctx.block.parameters()], g, allow_unused=True)


def remember_less(block, x):
    return NoneFrozen.apply(block, x, *block.parameters())


# %% wrong: the incoming gradient is left out
# says: The result is right, but the gradient of x and 0.weight and 0.bias and 3.weight and 3.bias is wrong.
# says: This check builds on the first one
# earns: 0 of 2
class NoIncoming(Lean):
    @classmethod
    def backward(cls, ctx, g):
        return super().backward(ctx, torch.ones_like(g))


def remember_less(block, x):
    return NoIncoming.apply(block, x, *block.parameters())


# %% wrong: torch.utils.checkpoint
# says: Write the Function yourself, without torch.utils.checkpoint.
# says: This check builds on the first one
# earns: 0 of 2
def remember_less(block, x):
    return checkpoint(block, x, use_reentrant=False)


# %% wrong: torch.utils.checkpoint behind a Function that does nothing
# says: Write the Function yourself, without torch.utils.checkpoint.
# says: This check builds on the first one
# earns: 0 of 2
class Same(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.view_as(x)

    @staticmethod
    def backward(ctx, g):
        return g


def remember_less(block, x):
    return Same.apply(checkpoint(block, x, use_reentrant=False))


# %% wrong: torch.utils.checkpoint with its own Function
# says: Write the Function yourself, without torch.utils.checkpoint.
# says: This check builds on the first one
# earns: 0 of 2
def remember_less(block, x):
    return checkpoint(block, x, use_reentrant=True)


# %% wrong: the intermediate results hang on ctx
# says: bytes in addition to x and the block. Run the forward pass without a graph, and keep nothing that it
# says: This check builds on the first one
# earns: 0 of 2
class Hoarder(torch.autograd.Function):
    @staticmethod
    def forward(ctx, block, x, *parameters):
        with torch.enable_grad():
            ctx.x = x.detach().requires_grad_()
            ctx.out = block(ctx.x)
        ctx.parameters = parameters
        return ctx.out.detach()

    @staticmethod
    def backward(ctx, g):
        wanted = [t for t in (ctx.x, *ctx.parameters) if t.requires_grad]
        found = dict(zip(map(id, wanted), torch.autograd.grad(ctx.out, wanted, g, allow_unused=True), strict=True))
        return None, *[found.get(id(t)) for t in (ctx.x, *ctx.parameters)]


def remember_less(block, x):
    return Hoarder.apply(block, x, *block.parameters())


# %% wrong: keeps a copy of x
# says: bytes in addition to x and the block. Run the forward pass without a graph, and keep nothing that it
# says: This check builds on the first one
# earns: 0 of 2
class Copied(Lean):
    @staticmethod
    def forward(ctx, block, x, *parameters):
        out = Lean.forward(ctx, block, x, *parameters)
        ctx.save_for_backward(x.detach().clone())
        return out


def remember_less(block, x):
    return Copied.apply(block, x, *block.parameters())


# %% wrong: switches the gradient of x itself on
# says: Your code changed the caller's x. Run the block on x.detach().
# earns: 1 of 2
# caught: hidden
def remember_less(block, x):
    return Lean.apply(block, x.requires_grad_() if x.is_leaf else x, *block.parameters())


# %% wrong: x and the dice are stored in the block
# says: With several calls in one graph, a gradient is wrong. Each call needs its own x and its own random state.
# earns: 1 of 2
# caught: hidden
class InBlock(Lean):
    @staticmethod
    def forward(ctx, block, x, *parameters):
        ctx.block = block
        block.x, block.state = x, torch.get_rng_state()
        return block(x)

    @classmethod
    def again(cls, ctx):
        x = ctx.block.x.detach().requires_grad_()
        with torch.random.fork_rng(), torch.enable_grad():
            torch.set_rng_state(ctx.block.state)
            return x, ctx.block(x)


def remember_less(block, x):
    return InBlock.apply(block, x, *block.parameters())


# %% wrong: train mode for the second run
# says: Your code changed the block's training flags or hooks. Leave them alone, even in the second run.
# earns: 1 of 2
# caught: hidden
class Trains(Lean):
    @classmethod
    def again(cls, ctx):
        ctx.block.train()
        return super().again(ctx)


def remember_less(block, x):
    return Trains.apply(block, x, *block.parameters())


# %% wrong: the second run is that of a copy of the block
# says: The parameters got no gradient. Pass them to apply() and return their gradients as well.
# says: This check builds on the first one
# earns: 0 of 2
class OfCopy(Lean):
    @classmethod
    def again(cls, ctx):
        ctx.block = copy.deepcopy(ctx.block)
        return super().again(ctx)

    @classmethod
    def backward(cls, ctx, g):
        x, out = cls.again(ctx)
        out.backward(g)
        return None, x.grad, *[None for _ in ctx.block.parameters()]


def remember_less(block, x):
    return OfCopy.apply(block, x, *block.parameters())


# %% right: Megatron's name
class CheckpointFunction(torch.autograd.Function):
    @staticmethod
    def forward(ctx, run_function, x, *params):
        ctx.run_function = run_function
        ctx.fwd_cpu_rng_state = torch.get_rng_state()
        ctx.save_for_backward(x)
        with torch.no_grad():
            outputs = run_function(x)
        return outputs

    @staticmethod
    def backward(ctx, g):
        ctx.block, ctx.state = ctx.run_function, ctx.fwd_cpu_rng_state
        return None, *Lean.gradients(ctx, *Lean.again(ctx), g)


def remember_less(block, x):
    return CheckpointFunction.apply(block, x, *block.parameters())


# %% right: Tanh in its name
class RecomputedTanhBlock(Lean):
    pass


def remember_less(block, x):
    return RecomputedTanhBlock.apply(block, x, *block.parameters())


# %% wrong: result on ctx
# says: You keep the result for backward, which computes it again and doesn't need it. Save only x, and put the
# earns: 0 of 2
class Recomputed(Lean):
    @staticmethod
    def forward(ctx, block, x, *parameters):
        ctx.block, ctx.state = block, torch.get_rng_state()
        ctx.save_for_backward(x)
        ctx.y = block(x)
        return ctx.y

    @classmethod
    def backward(cls, ctx, g):
        return None, *cls.gradients(ctx, *cls.again(ctx), g)


def remember_less(block, x):
    return Recomputed.apply(block, x, *block.parameters())


# %% wrong: result saved
# says: You keep the result for backward, which computes it again and doesn't need it. Save only x, and put the
# earns: 0 of 2
class Recomputed(Lean):
    @staticmethod
    def forward(ctx, block, x, *parameters):
        ctx.block, ctx.state = block, torch.get_rng_state()
        y = block(x)
        ctx.save_for_backward(x, y)
        return y

    @classmethod
    def again(cls, ctx):
        x, y = ctx.saved_tensors
        x = x.detach().requires_grad_()
        with torch.random.fork_rng(), torch.enable_grad():
            torch.set_rng_state(ctx.state)
            return x, ctx.block(x)


def remember_less(block, x):
    return Recomputed.apply(block, x, *block.parameters())


# %% wrong: x not detached
# says: The second run must start from x.detach().requires_grad_(): the saved x still belongs to the graph
# earns: 1 of 2
# caught: hidden
class Recomputed(Lean):
    @classmethod
    def again(cls, ctx):
        (x,) = ctx.saved_tensors
        with torch.random.fork_rng(), torch.enable_grad():
            torch.set_rng_state(ctx.state)
            return x, ctx.block(x)


def remember_less(block, x):
    return Recomputed.apply(block, x, *block.parameters())


# %% wrong: without enable_grad
# says: Inside `backward` gradients are switched off, so what you compute there has no graph. Run the block, and
# says: This check builds on the first one
# earns: 0 of 2
class Recomputed(Lean):
    @classmethod
    def again(cls, ctx):
        (x,) = ctx.saved_tensors
        x = x.detach().requires_grad_()
        with torch.random.fork_rng():
            torch.set_rng_state(ctx.state)
            return x, ctx.block(x)


def remember_less(block, x):
    return Recomputed.apply(block, x, *block.parameters())


# %% wrong: dice of the first call on the class
# says: With several calls in one graph, a gradient is wrong. Each call needs its own x and its own random state.
# earns: 1 of 2
# caught: hidden
class Recomputed(Lean):
    @staticmethod
    def forward(ctx, block, x, *parameters):
        Recomputed.last = torch.get_rng_state()
        ctx.block = block
        ctx.save_for_backward(x)
        return block(x)

    @classmethod
    def again(cls, ctx):
        ctx.state = Recomputed.last
        return super().again(ctx)


def remember_less(block, x):
    return Recomputed.apply(block, x, *block.parameters())


# %% wrong: a Function that calls torch.utils.checkpoint's
# says: Write the Function yourself, without torch.utils.checkpoint.
# says: This check builds on the first one
# earns: 0 of 2
class Borrowed(torch.autograd.Function):
    @staticmethod
    def forward(ctx, block, x, *parameters):
        ctx.count = len(parameters)
        return torch.utils.checkpoint.CheckpointFunction.forward(ctx, block, True, x)

    @staticmethod
    def backward(ctx, g):
        _, _, of_x = torch.utils.checkpoint.CheckpointFunction.backward(ctx, g)
        return None, of_x, *[None] * ctx.count


def remember_less(block, x):
    return Borrowed.apply(block, x, *block.parameters())


# %% wrong: returns a tuple
# says: Return the result of the block, a tensor.
# says: This check builds on the first one
# earns: 0 of 2
def remember_less(block, x):
    return (Lean.apply(block, x, *block.parameters()),)


# %% wrong: runs the block under no_grad
# says: The result has no graph, so nothing gets a gradient.
# says: This check builds on the first one
# earns: 0 of 2
def remember_less(block, x):
    with torch.no_grad():
        return Lean.apply(block, x, *block.parameters())


# %% wrong: keeps the state of the random numbers only for an x that needs a gradient
# says: If x needs no gradient, a gradient of the parameters is wrong.
# earns: 1 of 2
# caught: hidden
class OnlyForX(Lean):
    @classmethod
    def again(cls, ctx):
        if ctx.needs_input_grad[1]:
            return super().again(ctx)
        (x,) = ctx.saved_tensors
        x = x.detach().requires_grad_()
        with torch.random.fork_rng(), torch.enable_grad():
            return x, ctx.block(x)


def remember_less(block, x):
    return OnlyForX.apply(block, x, *block.parameters())


# %% wrong: zeros for parameters that the block does not use
# says: With frozen or unused parameters, a gradient is wrong, or should be None and isn't.
# earns: 1 of 2
# caught: hidden
class WithZeros(Lean):
    @classmethod
    def gradients(cls, ctx, x, out, g):
        found = super().gradients(ctx, x, out, g)
        return [torch.zeros_like(t) if own is None else own for t, own in zip((x, *ctx.block.parameters()), found)]


def remember_less(block, x):
    return WithZeros.apply(block, x, *block.parameters())


# %% wrong: block.forward in both passes
# says: The block has a forward hook, but it did not run in both passes. `block.forward(x)` skips the hooks of the
# earns: 1 of 2
# caught: hidden
class NoCall(Lean):
    @staticmethod
    def forward(ctx, block, x, *parameters):
        ctx.block, ctx.state = block, torch.get_rng_state()
        ctx.save_for_backward(x)
        return block.forward(x)

    @classmethod
    def again(cls, ctx):
        (x,) = ctx.saved_tensors
        x = x.detach().requires_grad_()
        with torch.random.fork_rng(), torch.enable_grad():
            torch.set_rng_state(ctx.state)
            return x, ctx.block.forward(x)


def remember_less(block, x):
    return NoCall.apply(block, x, *block.parameters())


# %% wrong: block.forward when the block runs again
# says: The block has a forward hook, but it did not run in both passes. `block.forward(x)` skips the hooks of the
# earns: 1 of 2
# caught: hidden
class NoSecondCall(Lean):
    @classmethod
    def again(cls, ctx):
        (x,) = ctx.saved_tensors
        x = x.detach().requires_grad_()
        with torch.random.fork_rng(), torch.enable_grad():
            torch.set_rng_state(ctx.state)
            return x, ctx.block.forward(x)


def remember_less(block, x):
    return NoSecondCall.apply(block, x, *block.parameters())


# %% wrong: a dummy that requires grad, so that there is a graph
# says: You pass a tensor of your own that requires grad to apply(), and the graph keeps it: 4 bytes in addition to x
# earns: 0 of 2
class Dummy(Lean):
    @staticmethod
    def forward(ctx, block, dummy, x):
        return Lean.forward(ctx, block, x)

    @classmethod
    def backward(cls, ctx, g):
        x, out = cls.again(ctx)
        out.backward(g)
        return None, None, x.grad


def remember_less(block, x):
    return Dummy.apply(block, torch.zeros(1, requires_grad=True), x)


# %% wrong: multiplies by the incoming gradient after enable_grad
# says: Inside `backward` gradients are switched off, so what you compute there has no graph. Run the block, and
# says: This check builds on the first one
# earns: 0 of 2
class Weighted(Lean):
    @classmethod
    def backward(cls, ctx, g):
        x, out = cls.again(ctx)
        parameters = list(ctx.block.parameters())
        wanted = [t for t in (x, *parameters) if t.requires_grad]
        found = dict(zip(map(id, wanted), torch.autograd.grad((out * g).sum(), wanted, allow_unused=True), strict=True))
        return None, *[found.get(id(t)) for t in (x, *parameters)]


def remember_less(block, x):
    return Weighted.apply(block, x, *block.parameters())


# %% wrong: plain block(x) in eval mode
# says: Here you return block(x) as it is, and its graph keeps the intermediate results. The parameters need
# earns: 1 of 2
# caught: hidden
def remember_less(block, x):
    return Lean.apply(block, x, *block.parameters()) if block.training else block(x)


# %% wrong: plain block(x) for an x that needs no gradient
# says: Here you return block(x) as it is, and its graph keeps the intermediate results. The parameters need
# earns: 1 of 2
# caught: hidden
def remember_less(block, x):
    return Lean.apply(block, x, *block.parameters()) if x.requires_grad else block(x)


# %% wrong: keeps the state of the random numbers only where there is a layer for dropout
# says: This block draws random numbers in its forward, by F.dropout, and the second run drew different ones. Save
# earns: 1 of 2
# caught: hidden
class OnlyForDropout(Lean):
    @classmethod
    def again(cls, ctx):
        if any(isinstance(module, torch.nn.Dropout) for module in ctx.block.modules()):
            return super().again(ctx)
        (x,) = ctx.saved_tensors
        x = x.detach().requires_grad_()
        with torch.random.fork_rng(), torch.enable_grad():
            return x, ctx.block(x)


def remember_less(block, x):
    return OnlyForDropout.apply(block, x, *block.parameters())


# %% wrong: frees the state of the random numbers in backward
# says: The first torch.autograd.grad had retain_graph=True, and the second one gave other gradients. Every backward
# earns: 1 of 2
# caught: hidden
class Freed(Lean):
    @classmethod
    def again(cls, ctx):
        (x,) = ctx.saved_tensors
        x = x.detach().requires_grad_()
        with torch.random.fork_rng(), torch.enable_grad():
            if ctx.state is not None:
                torch.set_rng_state(ctx.state)
                ctx.state = None
            return x, ctx.block(x)


def remember_less(block, x):
    return Freed.apply(block, x, *block.parameters())


# %% wrong: deletes x in backward
# says: The first torch.autograd.grad had retain_graph=True, but the second one raised AttributeError. Don't
# earns: 1 of 2
# caught: hidden
class Deleted(Lean):
    @staticmethod
    def forward(ctx, block, x, *parameters):
        ctx.block, ctx.state, ctx.inputs = block, torch.get_rng_state(), [x]
        return block(x)

    @classmethod
    def again(cls, ctx):
        x = ctx.inputs[0].detach().requires_grad_()
        del ctx.inputs
        with torch.random.fork_rng(), torch.enable_grad():
            torch.set_rng_state(ctx.state)
            return x, ctx.block(x)


def remember_less(block, x):
    return Deleted.apply(block, x, *block.parameters())
