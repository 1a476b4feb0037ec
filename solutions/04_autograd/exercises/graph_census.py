# %% [markdown]
# ### Exercise 4.3 · Count what autograd recorded
#
# measure · solid · 12 min · 1 point
#
# If memory grows with every iteration, the usual cause is a graph that something still refers to. Write the instrument
# that shows it: the names of all nodes of a graph, and how many there are of each. Then use it, although the check
# grades only the instrument: print `census(total).total()` in a loop with `total = total + loss` and in a loop with
# `total = total + loss.detach()`. Also print `census(loss).total()` in the three steps of section 4.5, once with
# `retain_graph=True` and once with `detach()`.
#
# **Contract**
#
# - `census(t)` counts every node that can be reached from `t.grad_fn` through `next_functions`, including `t.grad_fn`
#   itself, by the name of its type, such as `MulBackward0`. Leaves that require grad appear as `AccumulateGrad` (with
#   or without the namespace that `node.name()` writes before it); untracked inputs don't appear.
# - Each node counts once, however many paths lead to it, and is visited once: `y = y + y`, thirty times, has 31 nodes
#   and a billion paths. Graphs with thousands of nodes in a row also work.
# - A tensor without `grad_fn` gives an empty Counter.
# - The function only inspects the graph: it runs no backward pass and fills no gradient, and the graph can still be
#   used afterwards.
#
# <details><summary>Hint 1</summary>
#
# In `y = x * x + x`, how many paths lead from y to x, and how many nodes represent x?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# Keep a list of nodes to visit and a set of the nodes already seen; nodes are hashable. `next_functions` contains pairs
# (node, input number), and the node may be None.
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# Start with `t.grad_fn` in both the list and the set, unless it is None. While the list is not empty, take a node from
# it and go through its `next_functions`. A node that is neither None nor in the set goes into both. At the end, count
# the type names over the set.
#
# </details>


# %% answer="graph-census"
def census(t: Tensor) -> Counter[str]:
    """How many nodes of each name (e.g. "MulBackward0") belong to the graph that ends in t."""
    ### BEGIN SOLUTION
    waiting = [] if t.grad_fn is None else [t.grad_fn]
    seen = set(waiting)
    while waiting:
        for node, _ in waiting.pop().next_functions:
            if node is not None and node not in seen:
                seen.add(node)
                waiting.append(node)
    return Counter(type(node).__name__ for node in seen)
    ### END SOLUTION


# %% helpers="graph-census"
def taken(census, t):
    """The census of t, with all nodes of its graph held meanwhile: on torch 2.11 and 2.12, a node that nobody holds
    comes back as another Python object, and the id of the first may belong to another node by then."""
    held = [t.grad_fn] if t.grad_fn is not None else []
    known = set(held)
    for node in held:
        new = {after for after, _ in node.next_functions if after is not None} - known
        known |= new
        held += new
    return census(t)


def as_facts(counts):
    """A census as plain facts; names that the documentation writes in full lose their C++ namespace."""
    if not isinstance(counts, Counter):
        return {"type": type(counts).__name__}
    named = {key.split("::")[-1] if isinstance(key, str) else str(key): n for key, n in counts.items()}
    return {"type": "Counter", "counts": {key: n for key, n in named.items() if n != 0}}


def total_of(counts):
    """All nodes of a census. Recording goes on, for what is computed next."""
    torch.set_grad_enabled(True)
    return sum(counts.values()) if isinstance(counts, dict) else type(counts).__name__


def judge_numbers(seen, expected, where, *first):
    """The numbers of nodes of some graphs; `where` is a node that is used twice."""
    seen.expecting(*first)
    pairs = [(n, right) for n, right in zip(seen.value, expected, strict=True) if right and isinstance(n, int)]
    seen.returns(
        expected,
        mistake("The result must be a Counter.", stage="type"),
        *first,
        mistake(
            "One node is missing in every graph: t.grad_fn itself, or the AccumulateGrad of the leaf.",
            when=lambda seen: all(n == right - 1 for n, right in pairs),
        ),
        mistake(
            f"You counted paths, not nodes: a node that is used twice (here by {where}) must be counted once. "
            "Remember which nodes you have seen.",
            when=lambda seen: any(n > right for n, right in pairs),
        ),
        mistake(
            "Nodes are missing: from t.grad_fn all entries of next_functions are followed, then those of the nodes "
            "found there, until there are no more.",
            when=lambda seen: any(n < right for n, right in pairs),
        ),
    )


# %% check="graph-census" points=0.5
"""Every kind of node and every branch is found; each node counts once; nothing for untracked inputs."""
with check("graph-census") as test:

    def judge(seen, expected, *mistakes):
        """A Counter with exactly the expected entries."""
        none_counted = mistake(
            "An edge to None (an input that is not tracked) is no node.",
            when=lambda seen: any("None" in name for name in seen["counts"]),
        )
        none_raises = mistake(
            "An edge to None (an input that is not tracked) is no node: {detail}.",
            raises="'NoneType' object has no attribute 'n",
        )
        other_names = mistake(
            "Count by the name of each node's type, a text such as 'MulBackward0': type(node).__name__.",
            when=lambda seen: seen["counts"] and set(expected) & set(seen["counts"]) <= {"AccumulateGrad"},
        )
        seen.expecting(none_raises, *mistakes, none_counted, other_names)
        seen.that(
            seen["type"] == "Counter", f"The result must be a Counter; yours is of type {seen['type']}.", stage="type"
        )
        names = [*dict.fromkeys([*expected, *seen["counts"]])]
        off = [f"{expected.get(name, 0)} of {name}, you counted {seen['counts'].get(name, 0)}" for name in names]
        off = [
            words for words, name in zip(off, names, strict=True) if expected.get(name, 0) != seen["counts"].get(name)
        ]
        seen.that(not off, f"The counts are wrong. There are {'; '.join(off)}.")

    def two_products(census):
        """Take the census of (w * x).sum() + (b * 3).mean(), with an untracked x."""
        w, x = torch.tensor([1.0, 2], requires_grad=True), torch.tensor([3.0, 4])
        b = torch.tensor([5.0, 6, 7], requires_grad=True)
        return as_facts(taken(census, (w * x).sum() + (b * 3).mean()))

    test("(w * x).sum() + (b * 3).mean() with an untracked x")
    judge(
        observe_scenario(two_products, census),
        {"AddBackward0": 1, "SumBackward0": 1, "MeanBackward0": 1, "MulBackward0": 2, "AccumulateGrad": 2},
        mistake(
            "Different nodes may have the same name: mark nodes as seen, not names.",
            when=lambda seen: len(seen["counts"]) == 5 and set(seen["counts"].values()) == {1},
        ),
        mistake(
            "t.grad_fn itself is missing.",
            when=lambda seen: "AddBackward0" not in seen["counts"] and "SumBackward0" in seen["counts"],
        ),
        mistake(
            "The AccumulateGrad nodes (the leaves) are missing.",
            when=lambda seen: "MulBackward0" in seen["counts"] and "AccumulateGrad" not in seen["counts"],
        ),
        mistake(
            "The walk stops too early: the nodes in next_functions have next_functions of their own.",
            when=lambda seen: set(seen["counts"]) == {"AddBackward0", "SumBackward0", "MeanBackward0"},
        ),
        mistake(
            "Whole branches are missing: a node has one entry in next_functions per input, you followed only one.",
            when=lambda seen: len({"SumBackward0", "MeanBackward0"} & set(seen["counts"])) == 1,
        ),
    )

    none_raises = mistake(
        "An edge to None (an input that is not tracked) is no node: {detail}.",
        raises="'NoneType' object has no attribute 'n",
    )

    def twice_used(census):
        """Take the census of a leaf used three times, of the same graph again, and of a result used by two branches."""
        x = torch.tensor([1.0, 2], requires_grad=True)
        y = x * x + x
        h = x.exp()
        return [total_of(taken(census, t)) for t in (y, y, (h * 2 + h.sin()).sum())]

    test("x * x + x, counted twice, and a result that two branches use")
    judge_numbers(
        observe_scenario(twice_used, census),
        [3, 3, 6],
        "x * x",
        none_raises,
        mistake(
            "The same graph, counted again, gives another number: something is kept from call to call, such as a set "
            "that is made only once. Begin every call with an empty one.",
            when=lambda seen: seen.value[0] != seen.value[1],
        ),
    )

    ### BEGIN HIDDEN TESTS
    def counted(t):
        """The census of the check: breadth first, level by level."""
        levels, known = [{t.grad_fn}], set()
        while levels[-1]:
            known |= levels[-1]
            levels.append({f for node in levels[-1] for f, _ in node.next_functions if f is not None} - known)
        return dict(Counter(type(node).__name__ for node in known))

    def mixed_graph(name):
        """A graph of each kind, by name."""
        w = torch.tensor([1.0, 2, 3], requires_grad=True)
        if name == "in place":
            h = w * 2
            h.add_(1).exp_()
            return h[1:].sum()
        if name in ("custom", "after backward"):
            y = Doubled.apply(Doubled.apply(w)).sum()
            if name == "after backward":
                y.backward()
            return y
        if name == "concatenation":
            leaves = [torch.ones(2, requires_grad=True) for _ in range(5)]
            return torch.cat([leaf * 2 for leaf in leaves] + [torch.ones(2)]).norm()
        torch.manual_seed(0)
        layers = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 4, bias=False), nn.Tanh(), nn.Linear(4, 1))
        layers[2].weight.requires_grad_(False)
        return layers(torch.ones(2, 3)).square().mean()

    class Doubled(torch.autograd.Function):
        """Twice the input."""

        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g * 2

    def mixed(census, name):
        return as_facts(taken(census, mixed_graph(name)))

    freed = mistake(
        "You read what the nodes have saved, and after a backward that is freed. Counting needs next_functions only. "
        "({detail})",
        raises="backward through the graph a second time",
    )
    for idea, name in [
        ("operations in place", "in place"),
        ("a custom Function", "custom"),
        ("a custom Function, after the backward", "after backward"),
        ("a node with six inputs, one of them untracked", "concatenation"),
        ("a small network with a frozen layer", "network"),
    ]:
        test.hidden(idea)
        judge(observe_scenario(mixed, census, name), counted(mixed_graph(name)), freed)
    ### END HIDDEN TESTS

# %% check="graph-census" points=0.5
"""Tensors without history, deep graphs, many paths; nothing is touched."""
with check("graph-census") as test:

    def without_history(census):
        """Take the census of four tensors that no recorded operation made."""
        w = torch.tensor([1.0, 2], requires_grad=True)
        with torch.no_grad():
            unrecorded = w * 2
        return [as_facts(census(t)) for t in (w, torch.ones(2) * 3, (w * 2).detach(), unrecorded)]

    test("tensors without grad_fn: leaves, untracked results, detached ones")
    observe_scenario(without_history, census).returns(
        [{"type": "Counter", "counts": {}}] * 4,
        mistake("A leaf has no grad_fn: the answer is an empty Counter ({detail}).", raises="NoneType"),
        mistake("A tensor without grad_fn gives an empty Counter.", stage=("type", "shape", "value")),
    )

    def both_loops(census):
        """Add up the loss of three rounds, the loss itself and its item(); take the census after each round."""
        w = torch.tensor([1.0, 2], requires_grad=True)
        total, number = torch.zeros(()), torch.zeros(())
        kept, let_go = [], []
        for i in range(3):
            loss = (w * torch.tensor([3.0, i])).sum()
            total, number = total + loss, number + loss.item()
            kept.append(total_of(taken(census, total)))
            let_go.append(total_of(taken(census, number)))
        return kept + let_go

    test("total = total + loss keeps 3 more nodes in every round, total += loss.item() keeps none")
    judge_numbers(
        observe_scenario(both_loops, census),
        [4, 7, 10, 0, 0, 0],
        "w in every round",
        mistake(
            "Nodes are missing: different nodes may have the same name. Keep the nodes themselves in your set.",
            when=lambda seen: seen.value[:3] == [4, 4, 4],
        ),
        mistake(
            "An edge to None (an input that is not tracked) is no node.",
            when=lambda seen: seen.value[:3] in ([5, 8, 11], [6, 10, 14]),
        ),
        mistake(
            "Something is kept from call to call, such as a set that is made only once: of each graph only the new "
            "nodes are counted. Begin every call with an empty one.",
            when=lambda seen: seen.value[:3] == [4, 3, 3],
        ),
        mistake(
            "Neither an edge to None nor a tensor without grad_fn has nodes to count: {detail}.",
            raises="'NoneType' object has no attribute 'n",
        ),
    )

    ### BEGIN HIDDEN TESTS
    def several_outputs(census):
        """Take the census of two and three outputs of one node."""
        w = torch.tensor([1.0, 2, 3], requires_grad=True)
        first, second, _ = w.unbind()
        parts = w.exp().split([1, 2])
        return [total_of(taken(census, t)) for t in (first * second + first.exp(), torch.cat([*parts, *parts]))]

    test.hidden("several outputs of one node")
    judge_numbers(observe_scenario(several_outputs, census), [5, 4], "two of its outputs")

    def many_in_a_row(census):
        """Take the census of 3000 additions, one after the other."""
        h = torch.tensor([1.0], requires_grad=True)
        for _ in range(3000):
            h = h + 1
        return as_numbers(taken(census, h))

    def as_numbers(counts):
        """The sorted numbers of a census."""
        return sorted(counts.values()) if isinstance(counts, dict) else type(counts).__name__

    test.hidden("thousands of additions in a row")
    observe_scenario(many_in_a_row, census).returns(
        [1, 3000],
        mistake(
            "Recursion is limited to about 1000 levels; graphs are deeper. Use a list as a stack.",
            raises="RecursionError|recursion depth",
        ),
        because="The chain has 3000 AddBackward0 and one AccumulateGrad.",
    )

    class TooMuchWork(BaseException):
        """More lines were run than any walk over the nodes needs."""

    def watched(lines, action):
        """What action returns, or a note that it ran more than so many lines of Python."""
        left = [lines]

        def trace(frame, event, argument):
            left[0] -= 1
            if left[0] < 0:
                raise TooMuchWork
            return trace

        before = sys.gettrace()
        sys.settrace(trace)
        try:
            return action()
        except TooMuchWork:
            return "too much work"
        finally:
            sys.settrace(before)

    def thirty_doublings(census):
        """Take the census of y = y + y, thirty times."""
        y = torch.tensor([1.0], requires_grad=True)
        for _ in range(30):
            y = y + y
        counts = watched(50_000, lambda: taken(census, y))
        return counts if isinstance(counts, str) else as_numbers(counts)

    test.hidden("y = y + y, thirty times")
    observe_scenario(thirty_doublings, census).returns(
        [1, 30],
        mistake(
            "The number of visits explodes: 30 times `y = y + y` is 31 nodes but a billion paths. "
            "Remember which nodes you have seen.",
            when=lambda seen: seen.value == "too much work",
        ),
        because="30 times `y = y + y` has 30 AddBackward0 and one AccumulateGrad.",
    )

    def looked_at(census):
        """What a census does to the graph: gradients, backward passes, the values; and one after y.mul_(2)."""
        w, b = torch.tensor([1.0, 2], requires_grad=True), torch.tensor([3.0, 4], requires_grad=True)
        b.grad = torch.tensor([5.0, 6])
        passes = []
        w.register_hook(passes.append)
        h = w.exp() * b
        y = h.sum()
        counts = taken(census, y)
        facts = {"passes": len(passes), "w": w.grad is None, "b": b.grad.tolist(), "recording": torch.is_grad_enabled()}
        facts["numbers"] = [total_of(counts)]
        try:
            y.backward()
        except RuntimeError:
            return facts | {"usable": False}
        if not facts["passes"]:
            y.mul_(2)
            facts["numbers"].append(total_of(taken(census, y)))
        return facts | {"usable": True}

    test.hidden("no gradient is filled, the graph can still be used, and y.mul_(2) adds a node")
    observe_scenario(looked_at, census).returns(
        {"passes": 0, "w": True, "b": [5.0, 6.0], "recording": True, "numbers": [5, 6], "usable": True},
        mistake(
            "The census of a tensor, taken again after an operation in place, is the old one: something is kept from "
            "call to call, such as a cache by tensor. Count the graph anew in every call.",
            when=lambda seen: seen["numbers"] == [5, 5],
        ),
        mistake(
            "Gradient recording was switched off and not on again.",
            when=lambda seen: not seen["recording"],
        ),
        because="Counting must not run backward or fill .grad.",
    )
    ### END HIDDEN TESTS
