# corners: none
import torch
from torch import fx


def rewriting(
    swaps,
    seen,
    name_of=lambda node: node.target if node.op == "call_method" else node.target.__name__,
    is_call=lambda node: node.op in ("call_function", "call_method"),
    new_for=lambda node, swaps: swaps.get(node.target),
    args_of=lambda node: (node.args, node.kwargs),
    note=lambda seen, names: seen.append(names),
    before=lambda module: None,
    finish=lambda module, examples: (module.recompile(), module)[1],
):
    """What most answers below change in one place."""

    def backend(module, examples):
        before(module)
        names = []
        for node in list(module.graph.nodes):
            if not is_call(node):
                continue
            names.append(name_of(node))
            new = new_for(node, swaps) if node.op in ("call_function", "call_method") else None
            if new:
                with module.graph.inserting_before(node):
                    put = module.graph.call_function(new, *args_of(node))
                node.replace_all_uses_with(put)
                module.graph.erase_node(node)
        note(seen, names)
        return finish(module, examples)

    return backend


# %% right: target and op set in place
def swapping(swaps, seen):
    def backend(module, examples):
        calls = [n for n in module.graph.nodes if n.op.startswith("call_")]
        seen.append([getattr(n.target, "__name__", n.target) for n in calls])
        for node in calls:
            if node.target in swaps:
                node.op, node.target = "call_function", swaps[node.target]
        module.recompile()
        return module.forward

    return backend


# %% right: an Interpreter
def swapping(swaps, seen):
    class Swapper(fx.Interpreter):
        def call_function(self, target, args, kwargs):
            return swaps.get(target, target)(*args, **kwargs)

        def call_method(self, target, args, kwargs):
            if target in swaps:
                return swaps[target](*args, **kwargs)
            return super().call_method(target, args, kwargs)

    def backend(module, examples):
        seen.append(
            [
                n.target if n.op == "call_method" else n.target.__name__
                for n in module.graph.nodes
                if n.op in ("call_function", "call_method")
            ]
        )
        return Swapper(module).run

    return backend


# %% right: a Transformer
def swapping(swaps, seen):
    class Swapper(fx.Transformer):
        def call_function(self, target, args, kwargs):
            return super().call_function(swaps.get(target, target), args, kwargs)

        def call_method(self, target, args, kwargs):
            if target in swaps:
                return super().call_function(swaps[target], args, kwargs)
            return super().call_method(target, args, kwargs)

    def backend(module, examples):
        seen.append([getattr(n.target, "__name__", n.target) for n in module.graph.nodes if n.op.startswith("call_")])
        return Swapper(module).transform()

    return backend


# %% right: a new graph by node_copy
def swapping(swaps, seen):
    def backend(module, examples):
        graph, known, names = fx.Graph(), {}, []
        for node in module.graph.nodes:
            new = known[node] = graph.node_copy(node, lambda n: known[n])
            if node.op in ("call_function", "call_method"):
                names.append(node.target if node.op == "call_method" else node.target.__name__)
                if node.target in swaps:
                    new.op, new.target = "call_function", swaps[node.target]
        seen.append(names)
        return fx.GraphModule(module, graph)

    return backend


# %% right: a class with a loop of its own
class swapping:
    def __init__(self, swaps, seen):
        self.swaps, self.seen = swaps, seen

    def __call__(self, module, examples):
        nodes = list(module.graph.nodes)
        self.seen.append([getattr(n.target, "__name__", n.target) for n in nodes if n.op.startswith("call_")])

        def run(*inputs):
            given, values = iter(inputs), {}
            for node in nodes:
                args, kwargs = fx.node.map_arg((node.args, node.kwargs), lambda n: values[n])
                if node.op == "placeholder":
                    values[node] = next(given)
                elif node.op == "output":
                    return args[0]
                elif node.target in self.swaps:
                    values[node] = self.swaps[node.target](*args, **kwargs)
                elif node.op == "call_method":
                    values[node] = getattr(args[0], node.target)(*args[1:], **kwargs)
                else:
                    values[node] = node.target(*args, **kwargs)

        return run

    __name__ = "swapping"


# %% right: notes the shapes of the changed graph with FakeTensors
def swapping(swaps, seen):
    from torch._dynamo.utils import detect_fake_mode
    from torch.fx.passes.shape_prop import ShapeProp

    def finish(module, examples):
        module.recompile()
        mode = detect_fake_mode(examples) or torch._subclasses.FakeTensorMode(allow_non_fake_inputs=True)
        ShapeProp(module, fake_mode=mode).propagate(*examples)
        return module

    return rewriting(swaps, seen, finish=finish)


# %% right: hands the changed graph to aot_eager
def swapping(swaps, seen):
    def finish(module, examples):
        module.recompile()
        return torch._dynamo.lookup_backend("aot_eager")(module, examples)

    return rewriting(swaps, seen, finish=finish)


# %% wrong: returns the result of the graph
# says: The backend must return a callable.
# earns: 0 of 2
# lesson
def swapping(swaps, seen):
    return rewriting(swaps, seen, finish=lambda module, examples: (module.recompile(), module(*examples))[1])


# %% wrong: later calls compute with the examples
# says: The second call returned the numbers of the first.
# earns: 1 of 2
# lesson
def swapping(swaps, seen):
    def finish(module, examples):
        module.recompile()
        return lambda *args: module(*examples)

    return rewriting(swaps, seen, finish=finish)


# %% wrong: compares names
# says: Three different things are called relu here
# says: This check builds on the first one
# earns: 0 of 2
# lesson
def swapping(swaps, seen):
    by_name = {getattr(key, "__name__", key): value for key, value in swaps.items()}
    return rewriting(swaps, seen, new_for=lambda node, _: by_name.get(getattr(node.target, "__name__", node.target)))


# %% wrong: notes after the exchange
# says: Note the calls as they came in, before you replace any.
# earns: 1 of 2
# lesson
def swapping(swaps, seen):
    def backend(module, examples):
        rewriting(swaps, [])(module, examples)
        seen.append([getattr(n.target, "__name__", n.target) for n in module.graph.nodes if n.op.startswith("call_")])
        return module

    return backend


# %% wrong: notes inputs and output too
# says: You also noted nodes that are not calls.
# says: A function that breaks between
# earns: 0 of 2
# lesson
def swapping(swaps, seen):
    return rewriting(
        swaps, seen, is_call=lambda node: True, name_of=lambda node: getattr(node.target, "__name__", node.target)
    )


# %% wrong: notes node.name
# says: You noted node.name, a label that is made unique
# says: A function that breaks between
# earns: 0 of 2
# lesson
def swapping(swaps, seen):
    return rewriting(swaps, seen, name_of=lambda node: node.name)


# %% wrong: one flat list
# says: `seen` gets one list per graph, not the names one by one.
# says: A function that breaks between
# earns: 0 of 2
# lesson
def swapping(swaps, seen):
    return rewriting(swaps, seen, note=lambda seen, names: seen.extend(names))


# %% wrong: tuples in the list
# says: `seen` gets one LIST per graph; you appended a tuple.
# says: A function that breaks between
# earns: 0 of 2
def swapping(swaps, seen):
    return rewriting(swaps, seen, note=lambda seen, names: seen.append(tuple(names)))


# %% wrong: notes when the graph runs
# says: appended when the graph runs
# earns: 1 of 2
# lesson
def swapping(swaps, seen):
    def backend(module, examples):
        names = []
        run = rewriting(swaps, names)(module, examples)

        def noting(*args):
            seen.append(names[0])
            return run(*args)

        return noting

    return backend


# %% wrong: notes targets as text
# says: `seen` must hold one list
# says: A function that breaks between
# earns: 0 of 2
def swapping(swaps, seen):
    return rewriting(swaps, seen, name_of=lambda node: str(node.target))


# %% wrong: what it hands out returns zeros
# says: The compiled function returned something else.
# says: A function that breaks between
# earns: 0 of 2
def swapping(swaps, seen):
    def finish(module, examples):
        module.recompile()
        return lambda *args: [out * 0 for out in module(*args)]

    return rewriting(swaps, seen, finish=finish)


# %% wrong: exchanges in the first run only
# says: The second call of the compiled function returned other numbers
# says: This check builds on the first one
# earns: 0 of 2
def swapping(swaps, seen):
    left = dict(swaps)

    class Swapper(fx.Interpreter):
        def call_function(self, target, args, kwargs):
            return left.pop(target, target)(*args, **kwargs)

        def call_method(self, target, args, kwargs):
            if target in left:
                return left.pop(target)(*args, **kwargs)
            return super().call_method(target, args, kwargs)

    def backend(module, examples):
        rewriting({}, seen)(module, examples)
        return Swapper(module).run

    return backend


# %% wrong: notes nothing
# says: Nothing was noted in `seen`
# says: A function that breaks between
# earns: 0 of 2
def swapping(swaps, seen):
    return rewriting(swaps, [])


# %% wrong: notes functions only
# says: A call of a method must be noted too
# earns: 1 of 2
def swapping(swaps, seen):
    def note(seen, names):
        seen.append([name for name in names if name])

    return rewriting(swaps, seen, name_of=lambda n: n.target.__name__ if n.op == "call_function" else "", note=note)


# %% wrong: prints gm.code, changes targets, no recompile
# says: The compiled function still does what it did before.
# says: This check builds on the first one
# earns: 0 of 2
# lesson
def swapping(swaps, seen):
    return rewriting(swaps, seen, before=lambda module: module.code, finish=lambda module, examples: module)


# %% wrong: notes equal lists once
# says: An x that requires no gradient needs a second graph
# earns: 1 of 2
# caught: hidden
def swapping(swaps, seen):
    return rewriting(swaps, seen, note=lambda seen, names: seen.append(names) if names not in seen else None)


# %% wrong: no recompile
# says: Call recompile() on the module after changing its graph.
# earns: 1 of 2
# caught: hidden
def swapping(swaps, seen):
    return rewriting(swaps, seen, finish=lambda module, examples: module)


# %% wrong: leaves methods alone
# says: The calls of the method clamp were not replaced.
# earns: 1 of 2
# caught: hidden
def swapping(swaps, seen):
    return rewriting(
        swaps, seen, new_for=lambda node, swaps: swaps.get(node.target) if node.op == "call_function" else None
    )


# %% wrong: gives a method node a function as its target
# says: A call of a method that is replaced must become a call of a function
# earns: 1 of 2
# caught: hidden
def swapping(swaps, seen):
    def backend(module, examples):
        calls = [n for n in module.graph.nodes if n.op.startswith("call_")]
        seen.append([getattr(n.target, "__name__", n.target) for n in calls])
        for node in calls:
            node.target = swaps.get(node.target, node.target)
        module.recompile()
        return module

    return backend


# %% wrong: exchanges the first call only
# says: Only the first call of clamp was replaced.
# earns: 1 of 2
# caught: hidden
def swapping(swaps, seen):
    def backend(module, examples):
        left = dict(swaps)
        return rewriting(left, seen, new_for=lambda node, left: left.pop(node.target, None))(module, examples)

    return backend


# %% wrong: a key is gone after the first graph
# says: In the first graph the calls were replaced, and in the second graph they weren't.
# earns: 1 of 2
# caught: hidden
def swapping(swaps, seen):
    def backend(module, examples):
        out = rewriting(swaps, seen)(module, examples)
        swaps.clear()
        return out

    return backend


# %% wrong: a string in swaps matches functions too
# says: A string in `swaps` names a method.
# earns: 1 of 2
# caught: hidden
def swapping(swaps, seen):
    def new_for(node, swaps):
        if node.target is torch.clamp:
            return None
        return swaps.get(node.target) or swaps.get(getattr(node.target, "__name__", None))

    return rewriting(swaps, seen, new_for=new_for)


# %% wrong: one exchange after the other over the whole graph
# says: You replaced a call that your backend had put in itself.
# earns: 1 of 2
# caught: hidden
def swapping(swaps, seen):
    def backend(module, examples):
        calls = [n for n in module.graph.nodes if n.op.startswith("call_")]
        seen.append([getattr(n.target, "__name__", n.target) for n in calls])
        for old, new in swaps.items():
            for node in calls:
                if node.target == old:
                    node.op, node.target = "call_function", new
        module.recompile()
        return module

    return backend


# %% wrong: a TorchFunctionMode that exchanges functions while the graph runs
# says: The calls of the method clamp were not replaced.
# earns: 1 of 2
# caught: hidden
def swapping(swaps, seen):
    class Swapper(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            with torch._C.DisableTorchFunction():
                return swaps.get(func, func)(*args, **(kwargs or {}))

    def backend(module, examples):
        rewriting({}, seen)(module, examples)

        def run(*args):
            with Swapper():
                return module(*args)

        return run

    return backend


# %% wrong: a TorchFunctionMode that exchanges methods as well
# says: `+` is a call of operator.add in the graph, and it was not replaced
# earns: 1 of 2
# caught: hidden
def swapping(swaps, seen):
    class Swapper(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            name = getattr(func, "__name__", None)
            is_method = getattr(torch.Tensor, name or "", None) is func
            with torch._C.DisableTorchFunction():
                return swaps.get(name if is_method and name in swaps else func, func)(*args, **(kwargs or {}))

    def backend(module, examples):
        rewriting({}, seen)(module, examples)

        def run(*args):
            with Swapper():
                return module(*args)

        return run

    return backend


# %% wrong: functions defined in the loop, which all call the last of the new ones
# says: The call of F.leaky_relu went to the new function of another key, that of the method clamp.
# earns: 1 of 2
# caught: hidden
def swapping(swaps, seen):
    def backend(module, examples):
        seen.append([])
        for node in module.graph.nodes:
            if node.op in ("call_function", "call_method"):
                seen[-1].append(getattr(node.target, "__name__", node.target))
                if node.target in swaps:
                    new = swaps[node.target]
                    node.op, node.target = "call_function", lambda *args, **kwargs: new(*args, **kwargs)
        module.recompile()
        return module

    return backend


# %% wrong: drops the old keywords
# says: A new function must get the arguments of the old call, keywords included
# earns: 1 of 2
# caught: hidden
def swapping(swaps, seen):
    return rewriting(swaps, seen, args_of=lambda node: (node.args,))


# %% wrong: a method loses its keywords
# says: A new function must get the arguments of the old call, keywords included
# earns: 1 of 2
# caught: hidden
def swapping(swaps, seen):
    return rewriting(swaps, seen, args_of=lambda node: (node.args, node.kwargs if node.op == "call_function" else {}))


# %% wrong: the arguments in reverse
# says: F.leaky_relu and both calls of the method clamp are replaced, and torch.clamp is not.
# earns: 1 of 2
# caught: hidden
def swapping(swaps, seen):
    def args_of(node):
        first, *others = node.args
        return ((first, *reversed(others)), node.kwargs)

    return rewriting(swaps, seen, args_of=args_of)


# %% wrong: the new functions get detached tensors
# says: The gradient of x is another one than that of the calls.
# earns: 1 of 2
# caught: hidden
def swapping(swaps, seen):
    def detaching(new):
        return lambda x, *args, **kwargs: new(x.detach(), *args, **kwargs)

    return rewriting({old: detaching(new) for old, new in swaps.items()}, seen)


# %% wrong: runs under no_grad
# says: The result has no gradient, although x requires one.
# earns: 1 of 2
# caught: hidden
def swapping(swaps, seen):
    return rewriting(
        swaps, seen, finish=lambda module, examples: (module.recompile(), torch.no_grad()(module.forward))[1]
    )


# %% wrong: tries the graph out while compiling
# says: Here it happened twice
# earns: 1 of 2
# caught: hidden
def swapping(swaps, seen):
    def finish(module, examples):
        module.recompile()
        module(*examples)
        return module

    return rewriting(swaps, seen, finish=finish)


# %% wrong: tries the graph as it came in
# says: Here it happened twice
# earns: 1 of 2
# caught: hidden
def swapping(swaps, seen):
    return lambda module, examples: (module(*examples), rewriting(swaps, seen)(module, examples))[1]


# %% wrong: tries the graph as it came in, on copies
# says: The first call ran the graph 2 times.
# earns: 1 of 2
# caught: hidden
def swapping(swaps, seen):
    def backend(module, examples):
        module(*[one.clone() for one in examples])
        return rewriting(swaps, seen)(module, examples)

    return backend


# %% wrong: eliminates dead code
# says: and this call was lost
# earns: 1 of 2
# caught: hidden
def swapping(swaps, seen):
    def finish(module, examples):
        module.graph.eliminate_dead_code()
        module.recompile()
        return module

    return rewriting(swaps, seen, finish=finish)


# %% wrong: eliminates dead code, but spares names that end in an underscore
# says: F.relu(x, inplace=True), and this call was lost
# earns: 1 of 2
# caught: hidden
def swapping(swaps, seen):
    def finish(module, examples):
        module.graph.eliminate_dead_code(
            is_impure_node=lambda node: node.is_impure() or getattr(node.target, "__name__", node.target).endswith("_")
        )
        module.recompile()
        return module

    return rewriting(swaps, seen, finish=finish)


# %% wrong: runs on copies of the inputs
# says: but the caller's x is unchanged
# earns: 1 of 2
# caught: hidden
def swapping(swaps, seen):
    def finish(module, examples):
        module.recompile()
        return lambda *args: module(*[a.clone() for a in args])

    return rewriting(swaps, seen, finish=finish)


# %% wrong: all relus are one
# says: Three different things are called relu here
# says: This check builds on the first one
# earns: 0 of 2
def swapping(swaps, seen):
    def new_for(node, swaps):
        name = getattr(node.target, "__name__", node.target)
        return next((new for old, new in swaps.items() if name in str(old)), None)

    return rewriting(swaps, seen, new_for=new_for)
