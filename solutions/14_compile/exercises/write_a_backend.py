# %% [markdown]
# ### Exercise 14.1 · A backend that replaces calls
#
# implement · solid · 15 min · 2 points
#
# Write a backend that looks at each graph, writes down the calls in it, and replaces some of them. With it, you could
# change every softmax of a model that you can't edit.
#
# **Contract**
#
# - `torch.compile(f, backend=swapping(swaps, seen))` behaves as `f` does, except for the calls that are replaced. That
#   includes what `f` writes into its arguments, and gradients.
# - For each graph, one list is appended to `seen` while the graph is compiled: the names of its calls, before any is
#   replaced, in the order of the graph. The name is `__name__` for a function, and the method's name for a method.
#   Inputs and the output are not calls.
# - A call of a function that is a key of `swaps` becomes a call of its value. So does a call of a method whose name (a
#   string) is a key. The new function gets the same arguments and keywords; for a method, the tensor comes first.
#   `torch.relu`, `F.relu` and the method `relu` are three different things.
# - Each call is replaced at most once: a function that you put into the graph stays there, even if it is a key itself.
#   `swaps` is not changed. All of this also holds if somebody has looked at the module's `code` before your backend
#   gets the module. Calls inside of a call (`torch.utils.checkpoint`, `torch.cond`) may be replaced or not.
# - Nothing of the graph is computed while it is compiled. Each later call runs the graph once, with that call's inputs.
#
# <details><summary>Hint 1</summary>
#
# Which kinds of nodes are calls, and what is `target` for each kind?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# Go through `list(graph_module.graph.nodes)`, because you change the graph on the way. A `call_function` node has a
# function as its target, and a `call_method` node a string.
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# With `graph.inserting_before(node)`, make a `call_function` node that has the old node's `args` and `kwargs`, let it
# replace all uses of the old node, and erase that one. What must then happen to the module's code, and what do you hand
# back?
#
# </details>


# %% answer="write-a-backend"
def swapping(swaps: dict, seen: list) -> Callable[[fx.GraphModule, list], Callable]:
    """A backend that notes the calls of each graph in `seen` and replaces those in `swaps`.

    swaps: {function, or name of a method: the function that takes its place}
    """

    ### BEGIN SOLUTION
    def backend(graph_module: fx.GraphModule, examples: list) -> Callable:
        graph, names = graph_module.graph, []
        for node in list(graph.nodes):
            if node.op not in ("call_function", "call_method"):
                continue
            names.append(node.target if node.op == "call_method" else node.target.__name__)
            if node.target in swaps:
                with graph.inserting_before(node):
                    new = graph.call_function(swaps[node.target], node.args, node.kwargs)
                node.replace_all_uses_with(new)
                graph.erase_node(node)
        seen.append(names)
        graph_module.recompile()
        return graph_module

    return backend
    ### END SOLUTION


# %% helpers="write-a-backend"
NO_CALLABLE = mistake(
    "The backend must return a callable. It gets the graph and examples of the inputs once, when it compiles; what it "
    "returns runs in each call, with the inputs of that call.",
    raises="callable|BackendCompilerFailed.*NoneType",
)


# %% check="write-a-backend" points=1
"""torch.relu is replaced, the names are noted, and a second call brings its own numbers."""
with check("write-a-backend") as test:

    def two_calls(swapping):
        """Compile torch.relu(x) + F.relu(x - 1) * x.relu(), torch.relu replaced by torch.neg, and call it twice."""
        seen = []

        def f(x):
            return torch.relu(x) + F.relu(x - 1) * x.relu()

        with fresh_compiler():
            compiled = torch.compile(f, backend=swapping({torch.relu: torch.neg}, seen))
            first, second = compiled(torch.tensor([3.0, -1.0])), compiled(torch.tensor([5.0, 2.0]))
        return {"seen": seen, "first": first, "second": second}

    test("the calls of the graph are noted as they came in")
    seen = observe_scenario(two_calls, swapping).expecting(NO_CALLABLE)
    names, calls = seen["seen"], ["relu", "sub", "relu", "relu", "mul", "add"]
    is_list = isinstance(names, list) and len(names) > 0
    first = names[0] if is_list else None
    seen.that(
        is_list and len(names) == 1 and first == calls,
        f"`seen` must hold one list, {calls}, but it is {names}.",
        mistake("Nothing was noted in `seen`: append one list per graph.", when=lambda seen: not is_list),
        mistake("`seen` gets one list per graph, not the names one by one.", when=lambda seen: isinstance(first, str)),
        mistake(
            "`seen` gets one list per graph, appended while the graph is compiled. After two calls of one graph there "
            "is more than one list: yours are appended when the graph runs.",
            when=lambda seen: len(names) == 2 and names[0] == names[1],
        ),
        mistake(
            f"`seen` gets one LIST per graph; you appended a {type(first).__name__}.",
            when=lambda seen: not isinstance(first, list),
        ),
        mistake("Note the calls as they came in, before you replace any.", when=lambda seen: "neg" in first),
        mistake(
            "You also noted nodes that are not calls. Inputs and the output are nodes of the graph, but no calls: "
            "node.op tells.",
            when=lambda seen: len(first) > len(calls),
        ),
        mistake(
            "You noted node.name, a label that is made unique (relu_1). The call is node.target.",
            when=lambda seen: "relu_1" in first,
        ),
        mistake(
            "A call of a method must be noted too: for it node.op is call_method, and node.target is its name.",
            when=lambda seen: len(first) == 5,
        ),
    )
    test("torch.relu alone is replaced")
    seen.that(
        torch.is_tensor(seen["first"]) and seen["first"].tolist() == [3.0, 1.0],
        "For x = [3, -1], -x + F.relu(x - 1) * x.relu() is [3, 1]. The compiled function returned something else.",
        mistake(
            "The compiled function still does what it did before. After changing a graph, call "
            "recompile() on its module, and return what is new.",
            when=lambda seen: seen["first"].tolist() == [9.0, 0.0],
        ),
        mistake(
            "Three different things are called relu here: torch.relu, F.relu and the method. Compare node.target "
            "itself, not a name.",
            when=lambda seen: seen["first"].tolist() in ([3.0, 3.0], [-9.0, 1.0]),
        ),
    )
    test("the second call computes with its own input")
    seen.that(
        seen["second"].tolist() == [15.0, 0.0],
        "The second call of the compiled function returned other numbers than -x + F.relu(x - 1) * x.relu().",
        mistake(
            "The second call returned the numbers of the first. The examples are there for compiling; every call "
            "brings its own inputs.",
            when=lambda seen: torch.equal(seen["second"], seen["first"]),
        ),
    )


# %% check="write-a-backend" points=1
"""Methods and keywords, functions that change places, in-place calls, gradients, and a second graph."""
with check("write-a-backend") as test:

    def keywords_and_methods(swapping):
        """Replace F.leaky_relu and the method clamp; call with an x that requires a gradient, then with another."""
        seen = []

        def steep(x, negative_slope, inplace=False):
            return x * negative_slope * 10

        def between(x, min, max):
            return x * min + max

        def f(x):
            return F.leaky_relu(x, negative_slope=0.5) + x.clamp(min=0, max=1) + torch.clamp(x, -2, 2) + x.clamp(3, 4)

        swaps = {F.leaky_relu: steep, "clamp": between}
        x = torch.tensor([1.0, -1.0, 0.5], requires_grad=True)
        with fresh_compiler():
            compiled = torch.compile(f, backend=swapping(swaps, seen))
            out = compiled(x)
            tracked = out.requires_grad
            if tracked:
                out.sum().backward()
            again = compiled(x.detach() / 2)
        return {
            "out": out,
            "tracked": tracked,
            "gradient": x.grad,
            "again": again,
            "graphs": seen,
            "swaps": len(swaps),
        }

    def changed_places(swapping):
        """Replace torch.sin by torch.cos and torch.cos by torch.sin in torch.sin(x) * 2 + torch.cos(x)."""
        with fresh_compiler():
            f = torch.compile(
                lambda x: torch.sin(x) * 2 + torch.cos(x),
                backend=swapping({torch.sin: torch.cos, torch.cos: torch.sin}, []),
            )
            return {"out": f(torch.zeros(2))}

    def names_of_methods(swapping):
        """Replace the method relu by torch.neg, and operator.add by torch.sub, in torch.relu(x) + x.relu() * 10."""
        with fresh_compiler():
            mine = swapping({"relu": torch.neg, operator.add: torch.sub}, [])
            return {"out": torch.compile(lambda x: torch.relu(x) + x.relu() * 10, backend=mine)(torch.ones(2))}

    def written_in_place(swapping):
        """With nothing to replace, compile a function that changes its argument by x.add_(1) and by F.relu(x,
        inplace=True) and returns the double; an operator in its graph notes when it runs on numbers."""
        seen, runs = [], []

        @torch.library.custom_op("torchkata::doubled", mutates_args=())
        def doubled(x: Tensor) -> Tensor:
            runs.append(1)
            return x * 2

        doubled.register_fake(torch.empty_like)

        def f(x):
            x.add_(1)
            F.relu(x, inplace=True)
            return doubled(x)

        x = torch.tensor([0.0, -3.0])
        with fresh_compiler():
            out = torch.compile(f, backend=swapping({}, seen))(x)
        return {"out": out, "x": x, "seen": seen, "runs": len(runs)}

    def broken(swapping):
        """With nothing to replace, compile a function with a graph break between an addition and a product."""
        seen = []

        def f(x):
            x = x + 1
            torch._dynamo.graph_break()
            return x * 2

        with fresh_compiler():
            out = torch.compile(f, backend=swapping({}, seen))(torch.ones(2))
        return {"out": out, "seen": seen}

    def code_looked_at(swapping):
        """Replace torch.relu by torch.neg in a graph module whose code was read before."""
        with fresh_compiler():
            mine = swapping({torch.relu: torch.neg}, [])
            f = torch.compile(torch.relu, backend=lambda module, examples: (module.code, mine(module, examples))[1])
            return {"out": f(torch.ones(2))}

    test("two graphs of a function that breaks")
    seen = observe_scenario(broken, swapping).expecting(NO_CALLABLE)
    seen.that(
        seen["seen"] == [["add"], ["mul"]] and seen["out"].tolist() == [4.0, 4.0],
        "A function that breaks between x + 1 and x * 2 has two graphs, so `seen` should be [['add'], ['mul']], and "
        "for x = 1 the result is 4.",
    )
    ### BEGIN HIDDEN TESTS
    test.hidden("keywords and methods")
    seen = observe_scenario(keywords_and_methods, swapping).expecting(NO_CALLABLE)
    seen.expecting(
        mistake(
            "The call of F.leaky_relu went to the new function of another key, that of the method clamp. A function "
            "that is defined in a loop sees the values that the loop's variables have at the end: give it the new "
            "function as a default argument, or use functools.partial.",
            raises=r"between\(\) got an unexpected keyword argument 'negative_slope'",
        ),
        mistake(
            "A new function must get the arguments of the old call, keywords included; for a method the tensor comes "
            "first.",
            raises=r"steep|between|missing \d+ required|unexpected keyword|positional argument",
        ),
        mistake(
            "A call of a method that is replaced must become a call of a function: node.op is call_function then.",
            raises="attribute name must be string|not str|call_method",
        ),
    )
    out = seen["out"]
    x = torch.tensor([1.0, -1.0, 0.5])
    with_methods = x * 5 + x * 4 + 5
    seen.that(
        torch.is_tensor(out) and torch.allclose(out.detach(), with_methods),
        "Here F.leaky_relu and both calls of the method clamp are replaced, and torch.clamp is not. The result is "
        "another one.",
        FIRST_CHECK_FIRST,
        mistake(
            "The calls of the method clamp were not replaced. Methods are replaced too: node.op is call_method, and "
            "the target is the method's name.",
            when=lambda seen: torch.allclose(out.detach(), x * 5 + x.clamp(0, 1) + x + x.clamp(3, 4)),
        ),
        mistake(
            "Only the first call of clamp was replaced. Every call whose target is a key is replaced.",
            when=lambda seen: torch.allclose(out.detach(), x * 5 + 1 + x + x.clamp(3, 4)),
        ),
    )
    test.hidden("gradients flow")
    seen.that(
        seen["tracked"] is True,
        "The result has no gradient, although x requires one. Let autograd record the graph's calls, as it would "
        "record those of f.",
        stage="gradient",
    )
    seen.that(seen["gradient"].tolist() == [9.0] * 3, "The gradient of x is another one than that of the calls.")
    test.hidden("calls of a second graph are replaced as well")
    seen.that(
        len(seen["graphs"]) == 2,
        "An x that requires no gradient needs a second graph, so `seen` should hold two lists.",
    )
    seen.that(
        torch.allclose(seen["again"], x / 2 * 9 + 5) and seen["swaps"] == 2,
        "In the first graph the calls were replaced, and in the second graph they weren't. Leave `swaps` as it is.",
    )
    test.hidden("two functions that change places")
    seen = observe_scenario(changed_places, swapping)
    seen.that(
        seen["out"].tolist() == [2.0, 2.0],
        "torch.sin and torch.cos should change places.",
        mistake(
            "torch.sin and torch.cos change places. You replaced a call that your backend had put in itself. Each call "
            "of the graph that came in is replaced once.",
            when=lambda seen: seen["out"].tolist() in ([0.0, 0.0], [1.0, 1.0], [3.0, 3.0]),
        ),
    )
    test.hidden("a string names a method, and + is a function")
    seen = observe_scenario(names_of_methods, swapping)
    seen.that(
        seen["out"].tolist() == [11.0, 11.0],
        "A string in `swaps` names a method. The function torch.relu, which has the same name, stays.",
        mistake(
            "`+` is a call of operator.add in the graph, and it was not replaced, although operator.add is a key. "
            "Compare the target of every call_function node. A mode that watches the graph run sees only torch's own "
            "functions.",
            when=lambda seen: seen["out"].tolist() == [-9.0, -9.0],
        ),
    )
    test.hidden("what f writes into its argument")
    seen = observe_scenario(written_in_place, swapping)
    seen.that(
        seen["x"].tolist() == [1.0, 0.0] and seen["out"].tolist() == [2.0, 0.0],
        "f changes its argument x = [0, -3] by x.add_(1) and by F.relu(x, inplace=True) and returns the double: x must "
        "be [1, 0] afterwards and the result [2, 0].",
        mistake(
            "f adds 1 to its argument in place, once. Here it happened twice: something of the graph ran while it was "
            "compiled, and a backend computes nothing.",
            when=lambda seen: seen["x"].tolist() == [2.0, 1.0],
        ),
        mistake(
            "f adds 1 to its argument in place, and this call was lost: nobody reads its result, but it is no dead "
            "code.",
            when=lambda seen: seen["out"].tolist() in ([0.0, -6.0], [0.0, 0.0]),
        ),
        mistake(
            "f changes its argument by F.relu(x, inplace=True), and this call was lost: nobody reads its result, but "
            "it is no dead code. Not every call that writes has a name that ends in an underscore.",
            when=lambda seen: seen["out"].tolist() == [2.0, -4.0],
        ),
        mistake(
            "f changes its argument in place, but the caller's x is unchanged: the graph must run on the very inputs "
            "of the call, not on copies.",
            when=lambda seen: seen["x"].tolist() == [0.0, -3.0],
        ),
    )
    seen.that(
        seen["runs"] == 1,
        f"The first call ran the graph {seen['runs']} times. Once is right, with that call's inputs; a run on copies "
        "while the graph is compiled computes something as well.",
    )
    test.hidden("a graph whose code was looked at")
    seen = observe_scenario(code_looked_at, swapping)
    seen.that(
        seen["out"].tolist() == [-1.0, -1.0],
        "Somebody had looked at the module's code before, and so your changes had no effect: the module still ran its "
        "old code. Call recompile() on the module after changing its graph.",
    )
    ### END HIDDEN TESTS
