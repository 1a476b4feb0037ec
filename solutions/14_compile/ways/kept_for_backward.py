# %% right: asks autograd what it saves
# For autograd, the compiled function is one node, and what crosses the cut is what this node saves. So the hooks of
# saved tensors see it from outside. They don't see the sizes that a graph with symbolic shapes also hands over.
def kept(fn, inputs, recompute):
    """What the node of the compiled function saves, and the sizes of both graphs."""
    counts, sizes = [], {}

    def compiler(graph_module, examples):
        counts.append(sum(node.op == "call_function" for node in graph_module.graph.nodes))
        return make_boxed_func(graph_module.forward)

    torch._dynamo.reset()
    partition = min_cut_rematerialization_partition if recompute else default_partition
    backend = aot_autograd(fw_compiler=compiler, bw_compiler=compiler, partition_fn=partition)
    leaves = [t.detach().requires_grad_(t.requires_grad) for t in inputs]
    places = {t.untyped_storage().data_ptr() for t in leaves}

    def pack(tensor):
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in places:
            sizes[storage.data_ptr()] = storage.nbytes()
        return tensor.detach()

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        out = torch.compile(fn, backend=backend)(*leaves)
    out.sum().backward()
    forward, backward = counts
    return {"kept": sum(sizes.values()), "forward": forward, "backward": backward}


# %% wrong: counts the result as well
# says: The first output of the forward graph is the result of fn.
# The caller gets the result whether or not there is a backward. Only what comes after it is for the backward graph.
def kept(fn, inputs, recompute):
    """The bytes of all outputs of the forward graph."""
    found = {}

    def count(graph_module):
        return sum(node.op == "call_function" for node in graph_module.graph.nodes)

    def compile_forward(graph_module, examples):
        found["forward"] = count(graph_module)

        def run(*args):
            outputs = graph_module(*args)
            places = {t.untyped_storage().data_ptr() for t in args if torch.is_tensor(t)}
            storages = [t.untyped_storage() for t in outputs if torch.is_tensor(t)]
            bytes_at = {s.data_ptr(): s.nbytes() for s in storages if s.data_ptr() not in places}
            found["kept"] = sum(bytes_at.values())
            return outputs

        return make_boxed_func(run)

    def compile_backward(graph_module, examples):
        found["backward"] = count(graph_module)
        return make_boxed_func(graph_module.forward)

    torch._dynamo.reset()
    backend = aot_autograd(
        fw_compiler=compile_forward,
        bw_compiler=compile_backward,
        partition_fn=min_cut_rematerialization_partition if recompute else default_partition,
    )
    leaves = [t.detach().requires_grad_(t.requires_grad) for t in inputs]
    torch.compile(fn, backend=backend)(*leaves).sum().backward()
    return found
