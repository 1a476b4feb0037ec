# %% right: changes the nodes themselves
# A node's `op` and `target` can be set, so no node is inserted or erased, and its arguments and readers stay. So does
# its name: in the printed graph, the result of the new function is still called `relu`.
def swapping(swaps, seen):
    """A backend that gives nodes another target."""

    def backend(graph_module, examples):
        calls = [n for n in graph_module.graph.nodes if n.op in ("call_function", "call_method")]
        seen.append([getattr(node.target, "__name__", node.target) for node in calls])
        for node in calls:
            if node.target in swaps:
                node.op, node.target = "call_function", swaps[node.target]
        graph_module.recompile()
        return graph_module

    return backend


# %% right: an interpreter that chooses while it runs
# `fx.Interpreter` runs a graph node by node and calls a method for each kind of node, so nothing is rewritten. But each
# call of the compiled function goes through all nodes in Python, and a later change of `swaps` changes what it does.
def swapping(swaps, seen):
    """A backend that replaces calls while the graph runs."""

    class Swapping(fx.Interpreter):
        def call_function(self, target, args, kwargs):
            return swaps.get(target, target)(*args, **kwargs)

        def call_method(self, target, args, kwargs):
            if target in swaps:
                return swaps[target](*args, **kwargs)
            return super().call_method(target, args, kwargs)

    def backend(graph_module, examples):
        calls = [n for n in graph_module.graph.nodes if n.op in ("call_function", "call_method")]
        seen.append([getattr(node.target, "__name__", node.target) for node in calls])
        return Swapping(graph_module).run

    return backend


# %% wrong: compares names
# says: Three different things are called relu here: torch.relu, F.relu and the method.
# `torch.relu`, `F.relu` and the method `relu` have the same name. A target is the function itself, or a string for a
# method, and dict keys compare these.
def swapping(swaps, seen):
    """A backend that takes equal names for equal functions."""
    by_name = {getattr(key, "__name__", key): new for key, new in swaps.items()}

    def backend(graph_module, examples):
        names = []
        for node in graph_module.graph.nodes:
            if node.op in ("call_function", "call_method"):
                names.append(getattr(node.target, "__name__", node.target))
                if names[-1] in by_name:
                    node.op, node.target = "call_function", by_name[names[-1]]
        seen.append(names)
        graph_module.recompile()
        return graph_module

    return backend
