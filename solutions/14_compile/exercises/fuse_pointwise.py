# %% [markdown]
# ### Exercise 14.9 · Write less
#
# implement · long · 25 min · 3 points
#
# Be the part of a compiler that decides which calls become one kernel, and count the bytes that it saves.
#
# **Contract**
#
# - `fuse(graph, pointwise, size)` returns `(groups, before, after)`: a list of lists of node names, and two ints.
#   `pointwise` holds targets (functions, and names of methods) that work element by element. `size` gives the bytes of
#   each node's result by the node's name.
# - Every call (`call_function` or `call_method`) belongs to exactly one group; all other nodes (placeholders,
#   attributes, the output) belong to none.
# - A reader of a call is any node that uses its result, including the output. A node that uses it twice is still one
#   reader. If a pointwise call has exactly one reader, which is also a pointwise call, it is in the reader's group.
#   Every other call is the last of its group.
# - Groups come in any order. Within a group the names are in the order of the graph.
# - `before` and `after` are bytes. Before, each call reads each different node among its arguments once (keywords,
#   lists and slices included) and writes its result. After, each group reads each different node from outside once, and
#   writes only the result of its last call.
# - The graph is not changed.
#
# <details><summary>Hint 1</summary>
#
# Which results must be in memory when the next kernel starts?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# Go through the calls from the last to the first: then the group of the reader is known. `node.users` is a dict of
# readers, each of them once. `node.all_input_nodes` lists each different argument once, whatever it is inside of.
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# The last member of a group in the graph's order is the one that is written. The bytes read are those of the union of
# all members' inputs, less …?
#
# </details>


# %% answer="fuse-pointwise"
def fuse(graph: fx.Graph, pointwise: set, size: dict[str, int]) -> tuple[list[list[str]], int, int]:
    """Group the calls of a graph into kernels; say how many bytes move before and after.

    pointwise: targets (functions, names of methods) that work element by element
    size: {name of a node: bytes of its result}
    """
    ### BEGIN SOLUTION
    calls = [node for node in graph.nodes if node.op in ("call_function", "call_method")]
    last = {}  # of the group of each call
    for node in reversed(calls):
        readers = list(node.users)
        joins = len(readers) == 1 and readers[0] in last
        joins = joins and {node.target, readers[0].target} <= pointwise
        last[node] = last[readers[0]] if joins else node
    groups = {}
    for node in calls:
        groups.setdefault(last[node], []).append(node)

    def moved(members: list[fx.Node]) -> int:
        read = {arg for node in members for arg in node.all_input_nodes} - set(members)
        return size[members[-1].name] + sum(size[node.name] for node in read)

    before, after = sum(moved([node]) for node in calls), sum(map(moved, groups.values()))
    return [[node.name for node in members] for members in groups.values()], before, after
    ### END SOLUTION


# %% helpers="fuse-pointwise"
def kinds():
    """The kinds of calls by name: (target, whether it is pointwise)."""
    return {
        "add": (torch.add, True),
        "mul": (torch.mul, True),
        "relu": (torch.relu, True),
        "neg": (torch.neg, True),
        "where": (torch.where, True),
        "sigmoid": ("sigmoid", True),
        "exp": ("exp", True),
        "tanh": (torch.tanh, False),
        "negative": ("neg", False),
        "matmul": (torch.matmul, False),
        "cat": (torch.cat, False),
        "sum": ("sum", False),
        "part": ("__getitem__", False),
    }


def graph_of(story):
    """A graph from plain data, (inputs, calls, outputs), where a call is [name, kind, arguments, keywords].

    The input "weight" is an attribute, and {"until": name} a slice that ends at this node.
    """
    graph, nodes = fx.Graph(), {}

    def known(value):
        """The nodes in place of their names."""
        if isinstance(value, (list, tuple)):
            return [known(one) for one in value]
        if isinstance(value, dict):
            return slice(None, known(value["until"]))
        return nodes.get(value, value) if isinstance(value, str) else value

    inputs, calls, outputs = story
    for name in inputs:
        nodes[name] = graph.get_attr(name) if name == "weight" else graph.placeholder(name)
    for name, kind, args, kwargs in calls:
        target = kinds()[kind][0]
        make = graph.call_method if isinstance(target, str) else graph.call_function
        nodes[name] = make(target, tuple(map(known, args)), {key: known(value) for key, value in kwargs.items()})
        nodes[name].name = name
    graph.output(tuple(known(name) for name in outputs))
    return graph


def pointwise_targets():
    """The targets that work element by element."""
    return {target for target, is_pointwise in kinds().values() if is_pointwise}


def fused(fuse, story, size):
    """Fuse the graph of a story."""
    graph = graph_of(story)
    before = str(graph)
    groups, bytes_before, bytes_after = fuse(graph, pointwise_targets(), dict(size))
    return {"groups": groups, "before": bytes_before, "after": bytes_after, "same": str(graph) == before}


def judge_fused(seen, story, truth, name):
    """The groups, then the bytes, each with a sentence on the first thing that is wrong."""
    groups, before, after = truth
    came, order = seen["groups"], [call[0] for call in story[1]]
    is_form = isinstance(came, (list, tuple)) and all(
        isinstance(one, (list, tuple)) and all(isinstance(node, str) for node in one) for one in came
    )
    seen.that(
        is_form and type(seen["before"]) is int and type(seen["after"]) is int,
        "The function returns (groups, before, after): a list of lists of node names, and two ints.",
        stage="type",
    )
    other = [node for one in came for node in one if node in story[0]]
    seen.that(
        all(came) and sorted(node for one in came for node in one) == sorted(order),
        f"{name}: every call belongs to exactly one group, alone if it must, and all other nodes to none.",
        mistake(
            f"{name}: {other[0] if other else ''} is in a group, although it isn't a call. A node's `op` says what "
            "it is: a placeholder may have the name of a method, and a get_attr node may come between two calls.",
            when=lambda seen: bool(other),
        ),
    )
    seen.that(
        all(list(one) == sorted(one, key=order.index) for one in came),
        f"{name}: within a group the names are in the order of the graph.",
    )
    if sorted(map(list, came)) != sorted(groups):
        own = {node: one for one in came for node in one}
        right = {node: one for one in groups for node in one}
        is_pointwise = {call[0]: kinds()[call[1]][1] for call in story[1]}
        mixed = next((one for one in came if len(one) > 1 and not all(is_pointwise[node] for node in one)), None)
        seen.that(
            mixed is None,
            f"{name}: {', '.join(mixed or [])} are in one group, but not all of it is pointwise. A target is a "
            "function or the name of a method, and `pointwise` holds targets.",
        )
        reads = {call[0]: str([call[2], call[3]]) for call in story[1]}
        for node in order:
            readers = [other for other in order if f"'{node}'" in reads[other]]
            readers += ["the output"] if node in story[2] else []
            outside = [one for one in readers if one not in own[node]]
            seen.that(
                len(own[node]) == 1 or own[node][-1] == node or not outside,
                f"{name}: {node} is also read by {outside[0] if outside else ''}, outside of its group. It must be "
                "written, so it ends its group.",
            )
        small = next((node for node in order if len(right[node]) > len(own[node])), order[0])
        seen.that(
            False,
            f"{name}: more can be fused. {', '.join(right[small])} are one group.",
            mistake(
                f"{name}: {', '.join(next((list(one) for one in came if list(one) not in groups), []))} are in one "
                "group, although not each of them is read by the next only.",
                when=lambda seen: len(right[small]) <= len(own[small]),
            ),
        )
    seen.that(
        seen["before"] == before,
        f"{name}: before fusing, {before} bytes move, not {seen['before']}. A call reads each different input once and "
        "writes its result.",
    )
    seen.that(
        seen["after"] == after,
        f"{name}: after fusing, {after} bytes move, not {seen['after']}. A group reads what comes from outside, "
        "each node once, and writes its last result only.",
    )
    seen.that(seen["same"], f"{name}: the graph was changed. It must be left as it is.")


def two_graphs():
    """The two graphs of the first check, the bytes of their nodes, and groups and bytes as they should be."""
    chain = (
        ["x", "w", "b"],
        [
            ["product", "matmul", ["x", "w"], {}],
            ["shifted", "add", ["product", "b"], {}],
            ["kept", "relu", ["shifted"], {}],
            ["square", "mul", ["kept", "kept"], {}],
        ],
        ["square"],
    )
    readers = (
        ["x", "b"],
        [
            ["up", "exp", ["x"], {}],
            ["product", "matmul", ["up", "up"], {}],
            ["both", "add", ["up", "b"], {}],
            ["down", "neg", ["both"], {}],
        ],
        ["product", "down"],
    )
    of_chain = {"x": 400, "w": 1600, "b": 40, "product": 800, "shifted": 800, "kept": 800, "square": 800}
    of_readers = {"x": 400, "b": 400, "up": 400, "product": 1600, "both": 400, "down": 400}
    truth_of_chain = [["product"], ["shifted", "kept", "square"]], 7640, 4440
    truth_of_readers = [["up"], ["product"], ["both", "down"]], 4800, 4000
    return [
        ("the first graph", chain, of_chain, truth_of_chain),
        ("the second graph", readers, of_readers, truth_of_readers),
    ]


# %% check="fuse-pointwise" points=1
"""A chain behind a product, and a result with two readers: groups, bytes before and bytes after."""
with check("fuse-pointwise") as test:
    for name, story, size, truth in two_graphs():
        test(f"{name}: groups and bytes")
        judge_fused(observe_scenario(fused, fuse, story, size), story, truth, name)


# %% check="fuse-pointwise" points=2
"""No calls, a returned result, keywords and lists, calls without readers, and sixty random graphs."""
with check("fuse-pointwise") as test:
    test("a graph without calls")
    story = (["x"], [], ["x"])
    seen = observe_scenario(fused, fuse, story, {"x": 100}).expecting(FIRST_CHECK_FIRST)
    judge_fused(seen, story, ([], 0, 0), "no calls")
    ### BEGIN HIDDEN TESTS

    def truth_of(story, size):
        """Groups, bytes before and bytes after, by a table of readers."""
        _, calls, outputs = story

        def names_in(value):
            """The names of nodes in an argument."""
            value = list(value.values()) if isinstance(value, dict) else value
            if isinstance(value, (list, tuple)):
                return [name for one in value for name in names_in(one)]
            return [value] if isinstance(value, str) else []

        reads = {name: set(names_in([args, list(kwargs.values())])) for name, _, args, kwargs in calls}
        fusible = {name: kinds()[kind][1] for name, kind, _, _ in calls}
        readers = {name: [other for other in reads if name in reads[other]] for name in reads}
        group = {name: name for name in reads}
        for name in reversed(list(reads)):
            mine = readers[name]
            if len(mine) == 1 and name not in outputs and fusible[name] and fusible[mine[0]]:
                group[name] = group[mine[0]]
        groups = {}
        for name in reads:
            groups.setdefault(group[name], []).append(name)
        before = sum(size[name] + sum(size[one] for one in reads[name]) for name in reads)
        after = 0
        for last, members in groups.items():
            outside = set().union(*(reads[name] for name in members)) - set(members)
            after += size[last] + sum(size[one] for one in outside)
        return list(groups.values()), before, after

    for name, story, size, truth in two_graphs():
        test.hidden(f"{name}, first of all")
        judge_fused(observe_scenario(fused, fuse, story, size).expecting(FIRST_CHECK_FIRST), story, truth, name)

    returned = (["x"], [["a", "neg", ["x"], {}], ["b", "relu", ["a"], {}]], ["a", "b"])
    arms = (
        ["x", "y"],
        [
            ["small", "exp", ["y"], {}],
            ["large", "neg", ["x"], {}],
            ["both", "add", ["large"], {"other": "small"}],
            ["total", "sum", ["both"], {}],
        ],
        ["total"],
    )
    targets = (
        ["x"],
        [["a", "tanh", ["x"], {}], ["b", "negative", ["a"], {}], ["c", "neg", ["b"], {}], ["neg_1", "relu", ["c"], {}]],
        ["neg_1"],
    )
    dead = (["x"], [["a", "neg", ["x"], {}], ["b", "relu", ["a"], {}]], ["x"])
    lists = (["x", "y"], [["c", "cat", [["x", "y"]], {}]], ["c"])
    slices = (["x", "n"], [["part", "part", ["x", {"until": "n"}], {}]], ["part"])
    attribute = (["x", "weight"], [["a", "add", ["x", "weight"], {}]], ["a"])
    method = (["exp"], [["a", "neg", ["exp"], {}]], ["a"])
    for idea, story, size in (
        ("a result that is returned", returned, {"x": 100, "a": 100, "b": 100}),
        ("two arms and a keyword", arms, {"x": 400, "y": 4, "small": 4, "large": 400, "both": 400, "total": 4}),
        ("functions and methods of one name", targets, {"x": 10, "a": 10, "b": 10, "c": 10, "neg_1": 10}),
        ("a call that nobody reads", dead, {"x": 100, "a": 100, "b": 100}),
        ("arguments in a list", lists, {"x": 100, "y": 100, "c": 100}),
        ("an argument in a slice, x[:n]", slices, {"x": 100, "n": 8, "part": 50}),
        ("an attribute, the node `weight`", attribute, {"x": 100, "weight": 100, "a": 100}),
        ("an input that is called exp", method, {"exp": 100, "a": 100}),
    ):
        test.hidden(idea)
        judge_fused(observe_scenario(fused, fuse, story, size), story, truth_of(story, size), idea)

    def random_story(dice):
        """A graph of 14 calls, and the bytes of its nodes."""
        names, calls = ["x", "y"], []
        for number in range(14):
            kind = dice.choice(["add", "mul", "relu", "neg", "sigmoid", "exp", "matmul", "sum"])
            count = 2 if kind in ("add", "mul", "matmul") else 1
            args = [dice.choice(names[-4:]) if dice.random() < 0.8 else dice.choice(names) for _ in range(count)]
            calls.append([f"n{number:02}", kind, args, {}])
            names.append(f"n{number:02}")
        ends = [name for name in names[2:] if not any(name in call[2] for call in calls)]
        outputs = ends + [name for name in names[2:] if name not in ends and dice.random() < 0.05]
        return (["x", "y"], calls, outputs), {name: dice.choice([4, 40, 400]) for name in names}

    test.hidden("sixty random graphs")
    dice = random.Random(7)
    for number in range(60):
        story, size = random_story(dice)
        truth = truth_of(story, size)
        judge_fused(observe_scenario(fused, fuse, story, size), story, truth, f"random graph {number + 1}")
    ### END HIDDEN TESTS
