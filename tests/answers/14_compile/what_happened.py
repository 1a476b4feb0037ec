# corners: none
import copy

import torch
import torch._dynamo


def counted(
    fn,
    calls,
    first=torch._dynamo.reset,
    last=lambda: None,
    each=lambda: None,
    pair=lambda made, ran: (made, ran),
    args_of=lambda args: args,
    totals=False,
    **options,
):
    """What most answers below change in one place."""
    count = [0, 0]

    def backend(module, examples):
        count[0] += 1

        def run(*args):
            count[1] += 1
            return module(*args)

        return run

    first()
    compiled, pairs = torch.compile(fn, backend=backend, **options), []
    for args in calls:
        each()
        made, ran = (0, 0) if totals else count
        compiled(*args_of(args))
        pairs.append(pair(count[0] - made, count[1] - ran))
    last()
    return pairs


def shared_backend(module, examples):
    SHARED[0] += 1

    def run(*args):
        SHARED[1] += 1
        return module(*args)

    return run


SHARED = [0, 0]


# %% wrong: the pair the other way round
# says: Sizes 5, 5, 6, 7 give
# says: This check builds on the first one
# earns: 0 of 2
def what_happened(fn, calls):
    return counted(fn, calls, pair=lambda made, ran: (ran, made))


# %% wrong: at least one graph runs in each call
# says: the two calls beyond the limit run without any, and the first string still finds its graph.
# earns: 1 of 2
# caught: hidden
def what_happened(fn, calls):
    return counted(fn, calls, pair=lambda made, ran: (made, max(1, ran)))


# %% wrong: no calls, no list
# says: A function that computes nothing on tensors has no graph: (0, 0). Without calls the list is empty.
# earns: 1 of 2
# caught: hidden
def what_happened(fn, calls):
    return counted(fn, calls) or None


# %% right: a class as backend, lists for pairs
class Ledger:
    def __init__(self):
        self.made = self.ran = 0

    def __call__(self, module, examples):
        self.made += 1
        return lambda *args: self.run(module, args)

    def run(self, module, args):
        self.ran += 1
        return module(*args)


def what_happened(fn, calls):
    torch._dynamo.reset()
    backend, out = Ledger(), []
    compiled = torch.compile(fn, backend=backend)
    for args in calls:
        made, ran = backend.made, backend.ran
        compiled(*args)
        out.append([backend.made - made, backend.ran - ran])
    torch._dynamo.reset()
    return out


# %% right: marks in a list
def what_happened(fn, calls):
    marks = []

    def backend(module, examples):
        marks.append("m")
        return lambda *args: (marks.append("r"), module(*args))[1]

    torch.compiler.reset()
    compiled, out = torch.compile(backend=backend)(fn), []
    for args in calls:
        marks.clear()
        compiled(*args)
        out.append((marks.count("m"), marks.count("r")))
    return out


# %% right: torch's own counter for what was made
def what_happened(fn, calls):
    from torch._dynamo.utils import counters

    ran = [0]

    def backend(module, examples):
        def run(*args):
            ran[0] += 1
            return module(*args)

        return run

    torch._dynamo.reset()
    compiled, out = torch.compile(fn, backend=backend), []
    for args in calls:
        before = counters["stats"]["unique_graphs"], ran[0]
        compiled(*args)
        out.append((counters["stats"]["unique_graphs"] - before[0], ran[0] - before[1]))
    return out


# %% wrong: no reset, one backend for all
# says: What the first time left behind was still there
# says: The function had been compiled before
# earns: 0 of 2
# lesson
def what_happened(fn, calls):
    compiled, out = torch.compile(fn, backend=shared_backend), []
    for args in calls:
        before = list(SHARED)
        compiled(*args)
        out.append((SHARED[0] - before[0], SHARED[1] - before[1]))
    return out


# %% wrong: no reset, a new backend
# says: What the first time left behind was still there
# says: The function had been compiled before
# earns: 0 of 2
# lesson
def what_happened(fn, calls):
    return counted(fn, calls, first=lambda: None)


# %% wrong: resets only at the end
# says: The function had been compiled before
# earns: 1 of 2
# caught: hidden
def what_happened(fn, calls):
    return counted(fn, calls, first=lambda: None, last=torch._dynamo.reset)


# %% wrong: resets before every call
# says: You compiled anew for every call.
# says: This check builds on the first one
# earns: 0 of 2
# lesson
def what_happened(fn, calls):
    return counted(fn, calls, each=torch._dynamo.reset)


# %% wrong: explain for every call
# says: You compiled anew for every call.
# says: This check builds on the first one
# earns: 0 of 2
# lesson
def what_happened(fn, calls):
    counts = [torch._dynamo.explain(fn)(*args).graph_count for args in calls]
    return [(count, count) for count in counts]


# %% wrong: dynamic=False
# says: You compiled for every size.
# says: This check builds on the first one
# earns: 0 of 2
# lesson
def what_happened(fn, calls):
    return counted(fn, calls, dynamic=False)


# %% wrong: dynamic=True
# says: The graph was made with symbols from the start.
# says: This check builds on the first one
# earns: 0 of 2
# lesson
def what_happened(fn, calls):
    return counted(fn, calls, dynamic=True)


# %% wrong: ran is what was made
# says: A call that finds its graph still runs it
# says: This check builds on the first one
# earns: 0 of 2
# lesson
def what_happened(fn, calls):
    return counted(fn, calls, pair=lambda made, ran: (made, made))


# %% wrong: totals instead of differences
# says: Those are totals.
# says: This check builds on the first one
# earns: 0 of 2
# lesson
def what_happened(fn, calls):
    return counted(fn, calls, totals=True)


# %% wrong: ran is always 1
# says: A break cuts the function into two graphs
# says: This check builds on the first one
# earns: 0 of 2
# lesson
def what_happened(fn, calls):
    return counted(fn, calls, pair=lambda made, ran: (made, 1))


# %% wrong: whether, not how many
# says: A break cuts the function into two graphs
# says: This check builds on the first one
# earns: 0 of 2
# lesson
def what_happened(fn, calls):
    return counted(fn, calls, pair=lambda made, ran: (int(made > 0), int(ran > 0)))


# %% wrong: True and False
# says: The function returns a list with one pair of ints
# says: This check builds on the first one
# earns: 0 of 2
def what_happened(fn, calls):
    return counted(fn, calls, pair=lambda made, ran: (made > 0, ran > 0))


# %% wrong: a generator
# says: The function returns a list with one pair of ints
# says: This check builds on the first one
# earns: 0 of 2
def what_happened(fn, calls):
    yield from counted(fn, calls)


# %% wrong: one pair for all calls
# says: Here there are four.
# says: This check builds on the first one
# earns: 0 of 2
def what_happened(fn, calls):
    pairs = counted(fn, calls)
    return [(sum(made for made, _ in pairs), sum(ran for _, ran in pairs))]


# %% wrong: calls fn once before
# says: `fn` was called 6 times for 3 entries
# earns: 1 of 2
# caught: hidden
def what_happened(fn, calls):
    for args in calls:
        fn(*args)
    return counted(fn, calls)


# %% wrong: raises the limit
# says: recompile_limit is part of what happens
# earns: 1 of 2
# caught: hidden
def what_happened(fn, calls):
    with torch._dynamo.config.patch(recompile_limit=64):
        return counted(fn, calls)


# %% wrong: sets a setting and leaves it
# says: You changed settings of the compiler and left them changed: verbose.
# earns: 1 of 2
# caught: hidden
def what_happened(fn, calls):
    torch._dynamo.config.verbose = True
    return counted(fn, calls)


# %% wrong: captures scalars
# says: leave all settings of the compiler as they are
# earns: 1 of 2
# caught: hidden
def what_happened(fn, calls):
    with torch._dynamo.config.patch(capture_scalar_outputs=True):
        return counted(fn, calls)


# %% wrong: specializes ints
# says: leave all settings of the compiler as they are
# earns: 1 of 2
# caught: hidden
def what_happened(fn, calls):
    with torch._dynamo.config.patch(specialize_int=True):
        return counted(fn, calls)


# %% wrong: specializes floats
# says: leave all settings of the compiler as they are
# earns: 1 of 2
# caught: hidden
def what_happened(fn, calls):
    with torch._dynamo.config.patch(specialize_float=True):
        return counted(fn, calls)


# %% wrong: detaches the arguments
# says: requires_grad is guarded
# earns: 1 of 2
# caught: hidden
def what_happened(fn, calls):
    return counted(
        fn, calls, args_of=lambda args: [a.detach_() if isinstance(a, torch.Tensor) and a.is_leaf else a for a in args]
    )


# %% wrong: copies the tensors
# says: pass these very arguments, not copies
# earns: 1 of 2
# caught: hidden
def what_happened(fn, calls):
    def own(a):
        return a.detach().clone().requires_grad_(a.requires_grad) if isinstance(a, torch.Tensor) else a

    return counted(fn, calls, args_of=lambda args: [own(a) for a in args])


# %% wrong: copies everything
# says: `fn` did not get the list itself
# earns: 1 of 2
# caught: hidden
def what_happened(fn, calls):
    return counted(fn, calls, args_of=copy.deepcopy)


# %% wrong: calls under no_grad
# says: `fn` must run in the caller's grad mode.
# earns: 1 of 2
# caught: hidden
def what_happened(fn, calls):
    with torch.no_grad():
        return counted(fn, calls)


# %% wrong: fullgraph
# says: raised
# earns: 0 of 2
def what_happened(fn, calls):
    return counted(fn, calls, fullgraph=True)


# %% wrong: the chapter's own instrument
# says: `Counting` did the counting.
# earns: 0 of 2
def what_happened(fn, calls):
    torch._dynamo.reset()
    backend, pairs = Counting(), []
    compiled = torch.compile(fn, backend=backend)
    for args in calls:
        made, ran = len(backend.graphs), backend.runs
        compiled(*args)
        pairs.append((len(backend.graphs) - made, backend.runs - ran))
    return pairs


# %% wrong: the chapter's own instrument for what is made
# says: `Counting` did the counting.
# earns: 0 of 2
class Mine(Counting):
    def __init__(self):
        self.graphs, self.runs = [], 0


def what_happened(fn, calls):
    torch._dynamo.reset()
    backend, pairs = Mine(), []
    compiled = torch.compile(fn, backend=backend)
    for args in calls:
        made, ran = len(backend.graphs), backend.runs
        compiled(*args)
        pairs.append((len(backend.graphs) - made, backend.runs - ran))
    return pairs


# %% wrong: runs the graph on the examples as well
# says: something ran it while it was compiled.
# earns: 1 of 2
# caught: hidden
def what_happened(fn, calls):
    count = [0, 0]

    def backend(module, examples):
        count[0] += 1
        module(*examples)

        def run(*args):
            count[1] += 1
            return module(*args)

        return run

    torch._dynamo.reset()
    compiled, pairs = torch.compile(fn, backend=backend), []
    for args in calls:
        made, ran = count
        compiled(*args)
        pairs.append((count[0] - made, count[1] - ran))
    return pairs


# %% wrong: counts no runs under no_grad
# says: Under no_grad
# earns: 1 of 2
# caught: hidden
def what_happened(fn, calls):
    grad = torch.is_grad_enabled()
    return counted(fn, calls, pair=lambda made, ran: (made, ran if grad else 0))


# %% right: hands each graph to aot_eager
def what_happened(fn, calls):
    count = [0, 0]

    def backend(module, examples):
        count[0] += 1
        traced = torch._dynamo.lookup_backend("aot_eager")(module, examples)

        def run(*args):
            count[1] += 1
            return traced(*args)

        return run

    torch._dynamo.reset()
    compiled, pairs = torch.compile(fn, backend=backend), []
    for args in calls:
        made, ran = count
        compiled(*args)
        pairs.append((count[0] - made, count[1] - ran))
    return pairs


# %% wrong: suppresses the compiler's errors
# says: While `fn` ran, a setting of the compiler was another one than before: suppress_errors.
# earns: 1 of 2
# caught: hidden
def what_happened(fn, calls):
    with torch._dynamo.config.patch(suppress_errors=True):
        return counted(fn, calls)
