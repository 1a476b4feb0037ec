# corners: none
import torch
import torch._dynamo
from functorch.compile import default_partition, make_boxed_func, min_cut_rematerialization_partition
from torch._dynamo.backends.common import aot_autograd


def measured(
    fn,
    inputs,
    recompute,
    count=lambda module: sum(n.op == "call_function" for n in module.graph.nodes),
    outputs=lambda outs: outs[1:],
    place=lambda t: t.untyped_storage().data_ptr(),
    size=lambda t: t.untyped_storage().nbytes(),
    without_inputs=True,
    partition=lambda recompute: min_cut_rematerialization_partition if recompute else default_partition,
    leaf=lambda t: t.detach().requires_grad_(t.requires_grad),
    reset=torch._dynamo.reset,
    backward=lambda out: out.sum().backward(),
    decompositions=None,
    **options,
):
    """What most answers below change in one place."""
    found = {}

    def forward(module, examples):
        found["forward"] = count(module)

        def run(*args):
            outs = module(*args)
            inside = {place(t) for t in args if isinstance(t, torch.Tensor)} if without_inputs else set()
            sizes = {place(t): size(t) for t in outputs(outs) if isinstance(t, torch.Tensor)}
            found["kept"] = sum(n for where, n in sizes.items() if where not in inside)
            return outs

        return make_boxed_func(run)

    def backward_compiler(module, examples):
        found["backward"] = count(module)
        return make_boxed_func(module.forward)

    reset()
    backend = aot_autograd(
        fw_compiler=forward,
        bw_compiler=backward_compiler,
        partition_fn=partition(recompute),
        decompositions=decompositions,
    )
    leaves = [leaf(t) for t in inputs]
    backward(torch.compile(fn, backend=backend, **options)(*leaves))
    return found


# %% right: saved_tensors_hooks around the compiled call
def kept(fn, inputs, recompute):
    sizes, counts = {}, []

    def compiler(module, examples):
        counts.append(len([n for n in module.graph.nodes if n.op == "call_function"]))
        return make_boxed_func(module.forward)

    cut = min_cut_rematerialization_partition if recompute else default_partition
    torch.compiler.reset()
    compiled = torch.compile(fn, backend=aot_autograd(fw_compiler=compiler, bw_compiler=compiler, partition_fn=cut))
    own = [t.detach().clone().requires_grad_(t.requires_grad) for t in inputs]
    inside = {t.untyped_storage().data_ptr() for t in own}

    def pack(t):
        storage = t.untyped_storage()
        if storage.data_ptr() not in inside:
            sizes[storage.data_ptr()] = storage.nbytes()
        return t

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
        out = compiled(*own)
    out.backward(torch.ones_like(out))
    return {"kept": sum(sizes.values()), "forward": counts[0], "backward": counts[1]}


# %% right: aot_function, without Dynamo in front
def kept(fn, inputs, recompute):
    from functorch.compile import aot_function

    found = {}

    def forward(module, examples):
        found["forward"] = sum(n.op == "call_function" for n in module.graph.nodes)

        def run(*args):
            outs = module(*args)
            inside = {t.untyped_storage().data_ptr() for t in args}
            sizes = {
                t.untyped_storage().data_ptr(): t.untyped_storage().nbytes()
                for t in outs[1:]
                if isinstance(t, torch.Tensor)
            }
            found["kept"] = sum(size for where, size in sizes.items() if where not in inside)
            return outs

        return make_boxed_func(run)

    def backward(module, examples):
        found["backward"] = sum(n.op == "call_function" for n in module.graph.nodes)
        return make_boxed_func(module.forward)

    cut = min_cut_rematerialization_partition if recompute else default_partition
    compiled = aot_function(fn, fw_compiler=forward, bw_compiler=backward, partition_fn=cut)
    compiled(*[t.detach().requires_grad_(t.requires_grad) for t in inputs]).sum().backward()
    return found


# %% right: autograd.grad in place of backward
def kept(fn, inputs, recompute):
    leaves = []

    def leaf(t):
        leaves.append(t.detach().requires_grad_(t.requires_grad))
        return leaves[-1]

    def backward(out):
        torch.autograd.grad(out.sum(), [t for t in leaves if t.requires_grad])

    return measured(fn, inputs, recompute, leaf=leaf, backward=backward)


# %% wrong: counts the inputs
# says: inputs don't count.
# says: This check builds on the first one
# earns: 0 of 2
# lesson
def kept(fn, inputs, recompute):
    return measured(fn, inputs, recompute, without_inputs=False)


# %% wrong: takes the result for something kept
# says: The first output of the forward graph is the result of fn.
# says: This check builds on the first one
# earns: 0 of 2
# lesson
def kept(fn, inputs, recompute):
    return measured(fn, inputs, recompute, outputs=lambda outs: outs)


# %% wrong: drops two outputs too many
# says: 2400 bytes are not an input's; you say 1200.
# says: This check builds on the first one
# earns: 0 of 2
def kept(fn, inputs, recompute):
    return measured(fn, inputs, recompute, outputs=lambda outs: outs[3:])


# %% wrong: always the min-cut
# says: Which partitioner was used?
# says: This check builds on the first one
# earns: 0 of 2
# lesson
def kept(fn, inputs, recompute):
    return measured(fn, inputs, True)


# %% wrong: the two exchanged
# says: Which partitioner was used?
# says: This check builds on the first one
# earns: 0 of 2
# lesson
def kept(fn, inputs, recompute):
    return measured(fn, inputs, not recompute)


# %% wrong: never the min-cut
# says: x alone is kept, and two sines are computed again.
# says: This check builds on the first one
# earns: 0 of 2
# lesson
def kept(fn, inputs, recompute):
    return measured(fn, inputs, False)


# %% wrong: counts all nodes
# says: You counted all nodes.
# says: The two graphs of x.sin()[:, 1].cos() have 3 and 6 calls; you say 5 and 10.
# earns: 0 of 2
# lesson
def kept(fn, inputs, recompute):
    return measured(fn, inputs, recompute, count=lambda module: len(module.graph.nodes))


# %% wrong: counts functions, not calls
# says: With recompute=False the two graphs have
# says: The two graphs of x.sin()[:, 1].cos() have 3 and 6 calls; you say 3 and 5.
# earns: 0 of 2
def kept(fn, inputs, recompute):
    def count(module):
        return len({node.target for node in module.graph.nodes if node.op == "call_function"})

    return measured(fn, inputs, recompute, count=count)


# %% wrong: nothing is kept with the min-cut
# says: With recompute=True relu(x @ w) @ v must keep 512 bytes besides the inputs, not 0.
# earns: 1 of 2
# caught: hidden
def kept(fn, inputs, recompute):
    found = measured(fn, inputs, recompute)
    return found | {"kept": 0} if recompute else found


# %% wrong: never calls backward
# says: Yours lacks backward: its compiler gets a graph at the first backward().
# earns: 0 of 2
# lesson
def kept(fn, inputs, recompute):
    return measured(fn, inputs, recompute, backward=lambda out: None)


# %% wrong: a tuple
# says: The function returns a dict of three ints
# says: This check builds on the first one
# earns: 0 of 2
def kept(fn, inputs, recompute):
    found = measured(fn, inputs, recompute)
    return found["kept"], found["forward"], found["backward"]


# %% wrong: bytes of tensors, not of storages
# says: count each storage once, and none of an input.
# earns: 1 of 2
# caught: hidden
def kept(fn, inputs, recompute):
    return measured(fn, inputs, recompute, place=id, size=lambda t: t.nbytes)


# %% wrong: bytes of the tensor at its storage's place
# says: keeps a view, and with it the whole storage of 1200 bytes, not 400.
# earns: 1 of 2
# caught: hidden
def kept(fn, inputs, recompute):
    return measured(fn, inputs, recompute, size=lambda t: t.nbytes)


# %% wrong: four bytes a number
# says: In float64 three sines keep 4800 bytes, not 2400
# earns: 1 of 2
# caught: hidden
def kept(fn, inputs, recompute):
    def size(t):
        return t.untyped_storage().nbytes() // t.element_size() * (4 if t.dtype != torch.bool else 1)

    return measured(fn, inputs, recompute, size=size)


# %% wrong: a mask takes four bytes a number
# says: A mask of 50 booleans takes 50 bytes
# earns: 1 of 2
# caught: hidden
def kept(fn, inputs, recompute):
    def size(t):
        return t.untyped_storage().nbytes() // t.element_size() * max(4, t.element_size())

    return measured(fn, inputs, recompute, size=size)


# %% wrong: all inputs learn
# says: requires_grad must be as the caller has it.
# says: You say 400.
# earns: 1 of 2
# caught: hidden
def kept(fn, inputs, recompute):
    return measured(fn, inputs, recompute, leaf=lambda t: t.detach().requires_grad_())


# %% wrong: leaves out what is the result too
# says: `exp` keeps its own result, 200 bytes.
# earns: 1 of 2
# caught: hidden
def kept(fn, inputs, recompute):
    def outputs(outs):
        first = outs[0].untyped_storage().data_ptr()
        return [t for t in outs[1:] if isinstance(t, torch.Tensor) and t.untyped_storage().data_ptr() != first]

    return measured(fn, inputs, recompute, outputs=outputs)


# %% wrong: no reset
# says: The graphs have symbols for sizes.
# earns: 1 of 2
# caught: hidden
def kept(fn, inputs, recompute):
    return measured(fn, inputs, recompute, reset=lambda: None)


# %% wrong: dynamic=False in place of a reset
# says: the last time nothing was compiled.
# earns: 1 of 2
# caught: hidden
def kept(fn, inputs, recompute):
    return measured(fn, inputs, recompute, reset=lambda: None, dynamic=False)


# %% wrong: dynamic=False in place of a reset, and a number that isn't there
# says: the last time nothing was compiled.
# earns: 1 of 2
# caught: hidden
def kept(fn, inputs, recompute):
    found = measured(fn, inputs, recompute, reset=lambda: None, dynamic=False)
    return {"kept": found["kept"], "forward": found["forward"], "backward": found["backward"]}


# %% wrong: with decompositions
# says: Decompositions take it apart: pass none to aot_autograd.
# earns: 1 of 2
# caught: hidden
def kept(fn, inputs, recompute):
    from functorch.compile import default_decompositions

    return measured(fn, inputs, recompute, decompositions=default_decompositions)


# %% wrong: dynamic=True
# says: The graphs have symbols for sizes.
# earns: 1 of 2
def kept(fn, inputs, recompute):
    return measured(fn, inputs, recompute, dynamic=True)


# %% wrong: leaves out getitem
# says: getitem, which takes a result out of two, is a call_function node as well
# earns: 1 of 2
# caught: hidden
def kept(fn, inputs, recompute):
    def count(module):
        return sum(n.op == "call_function" and "getitem" not in str(n.target) for n in module.graph.nodes)

    return measured(fn, inputs, recompute, count=count)


# %% wrong: backward on the caller's tensors
# says: The gradients of the caller's tensors were touched.
# earns: 1 of 2
def kept(fn, inputs, recompute):
    return measured(fn, inputs, recompute, leaf=lambda t: t)


# %% wrong: backward on the caller's tensors, then their gradients are dropped
# says: The gradients of the caller's tensors were touched.
# earns: 1 of 2
def kept(fn, inputs, recompute):
    found = measured(fn, inputs, recompute, leaf=lambda t: t)
    for t in inputs:
        t.grad = None
    return found


# %% wrong: tells storages apart by the addresses of tensors
# says: Count each storage once, whatever the tensors' own addresses are.
# earns: 1 of 2
# caught: hidden
def kept(fn, inputs, recompute):
    return measured(fn, inputs, recompute, place=lambda t: t.data_ptr())


# %% wrong: the chapter's own instrument
# says: `cut_of` did the measuring.
# earns: 0 of 2
def kept(fn, inputs, recompute):
    cut = cut_of(fn, inputs, recompute)
    return {"kept": cut.kept, "forward": len(cut.forward), "backward": len(cut.backward)}


# %% wrong: counts constants as calls
# says: a constant of the graph, which is no call
# earns: 1 of 2
# caught: hidden
def kept(fn, inputs, recompute):
    return measured(
        fn, inputs, recompute, count=lambda m: sum(n.op not in ("placeholder", "output") for n in m.graph.nodes)
    )


# %% wrong: one compiler is given, and it gets both halves
# says: Without bw_compiler, the backward graph goes to fw_compiler as well.
# says: This check builds on the first one
# earns: 0 of 2
# lesson
def kept(fn, inputs, recompute):
    found = {}

    def forward(module, examples):
        calls = sum(n.op == "call_function" for n in module.graph.nodes)
        found["forward" if "forward" not in found else "backward"] = calls

        def run(*args):
            outs = module(*args)
            inside = {t.untyped_storage().data_ptr() for t in args if isinstance(t, torch.Tensor)}
            storages = [t.untyped_storage() for t in outs[1:] if isinstance(t, torch.Tensor)]
            found["kept"] = sum({s.data_ptr(): s.nbytes() for s in storages if s.data_ptr() not in inside}.values())
            return outs

        return make_boxed_func(run)

    torch._dynamo.reset()
    partition = min_cut_rematerialization_partition if recompute else default_partition
    leaves = [t.detach().requires_grad_(t.requires_grad) for t in inputs]
    backend = aot_autograd(fw_compiler=forward, partition_fn=partition)
    torch.compile(fn, backend=backend)(*leaves).sum().backward()
    return found
