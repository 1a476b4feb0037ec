# %% [markdown]
# ### Exercise 14.8 · What crosses the cut
#
# measure · long · 25 min · 2 points
#
# How many bytes does a compiled function keep between forward and backward, and how much does it compute again to keep
# so few? Measure both, for either way of cutting.
#
# **Contract**
#
# - `kept(fn, inputs, recompute)` returns a dict of three ints, "kept", "forward" and "backward". `fn` takes the tensors
#   of `inputs`, which are contiguous. It changes nothing and returns one new tensor. At least one input requires a
#   gradient.
# - Compile `fn` with AOTAutograd and with default settings, cut by `default_partition`, or by
#   `min_cut_rematerialization_partition` if `recompute` is true. Run it forward and backward once.
# - "forward" and "backward" are the numbers of `call_function` nodes in the two graphs.
# - "kept" is the number of bytes that the forward graph hands to the backward graph. Every storage counts once and
#   whole. The storage of an input doesn't count, because it is alive anyway. The result of `fn` is the first output of
#   the forward graph; its storage counts only if the graph also hands it over for backward.
# - The tensors that `fn` gets require a gradient exactly where the caller's do, and the caller's tensors keep the
#   `.grad` that they have. Neither graphs nor sizes from earlier compilations count.
#
# **Rule.** Write the backend and its two compilers yourself, without `cut_of`, which this section measures with.
#
# <details><summary>Hint 1</summary>
#
# Two compilers get two graphs. When does the second one get its graph?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# `aot_autograd(fw_compiler=…, bw_compiler=…, partition_fn=…)` is a backend. Each compiler returns
# `make_boxed_func(callable)`. In the callable of the forward one you see arguments and outputs when it runs.
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# A dict from `t.untyped_storage().data_ptr()` to `.nbytes()`, without the places of the arguments, counts each storage
# once. Some outputs are None or numbers.
#
# </details>


# %% answer="kept-for-backward"
def kept(fn: Callable, inputs: list[Tensor], recompute: bool) -> dict[str, int]:
    """{"kept": bytes, "forward": operations, "backward": operations} of fn, compiled."""
    ### BEGIN SOLUTION
    found = {}

    def count(graph_module: fx.GraphModule) -> int:
        return sum(node.op == "call_function" for node in graph_module.graph.nodes)

    def compile_forward(graph_module: fx.GraphModule, examples: list) -> Callable:
        found["forward"] = count(graph_module)

        def run(*args):
            outputs = graph_module(*args)
            places = {t.untyped_storage().data_ptr() for t in args if torch.is_tensor(t)}
            storages = [t.untyped_storage() for t in outputs[1:] if torch.is_tensor(t)]
            bytes_at = {s.data_ptr(): s.nbytes() for s in storages if s.data_ptr() not in places}
            found["kept"] = sum(bytes_at.values())
            return outputs

        return make_boxed_func(run)

    def compile_backward(graph_module: fx.GraphModule, examples: list) -> Callable:
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
    ### END SOLUTION


# %% helpers="kept-for-backward"
def chain(x):
    """Three sines and a sum."""
    return x.sin().sin().sin().sum(0)


def measured_chain(kept, recompute, dtype):
    """Measure three sines and a sum over 100 rows of 3 numbers."""
    x = torch.linspace(0.1, 1.0, 300, dtype=getattr(torch, dtype)).reshape(100, 3).requires_grad_()
    with fresh_compiler(), instruments_used() as used:
        found = kept(chain, [x], recompute)
    return {"found": found, "used": sorted(used)}


def numbers_of(cut):
    """What `kept` should return for a cut."""
    return {"kept": cut.kept, "forward": len(cut.forward), "backward": len(cut.backward)}


FORM = "The function returns a dict of three ints: kept, forward and backward."
OWN = (
    "`cut_of` did the measuring. It is the chapter's instrument, and this exercise asks for one of your own, a backend "
    "with two compilers."
)


def judge_form(seen, value):
    """Three ints under three names."""
    seen.that(isinstance(value, dict), FORM, stage="type")
    lacks = [name for name in ("kept", "forward", "backward") if name not in value]
    seen.that(
        not lacks and all(type(value[name]) is int for name in ("kept", "forward", "backward")),
        FORM,
        mistake(
            f"{FORM} Yours lacks backward: its compiler gets a graph at the first backward().",
            when=lambda seen: lacks == ["backward"],
        ),
        stage="type",
    )


# %% check="kept-for-backward" points=1
"""Three sines and a sum, cut in both ways."""
with check("kept-for-backward") as test:
    x = torch.linspace(0.1, 1.0, 300).reshape(100, 3).requires_grad_()

    test("three sines, cut by the default partition: 2400 bytes")
    plain, again = numbers_of(cut_of(chain, [x], False)), numbers_of(cut_of(chain, [x], True))
    seen = observe_scenario(measured_chain, kept, False, "float32")
    seen.that("cut_of" not in seen["used"], OWN)
    found = seen["found"]
    judge_form(seen, found)
    bytes_kept, graphs = found["kept"], [found["forward"], found["backward"]]
    seen.that(
        bytes_kept == 2400,
        f"Three sines of 300 numbers keep x and two results. Of these, 2400 bytes are not an input's; you say "
        f"{bytes_kept}.",
        mistake(
            "`x` itself is kept as well, but x is there anyway: inputs don't count.",
            when=lambda seen: bytes_kept in (3600, 3612),
        ),
        mistake(
            "The first output of the forward graph is the result of fn. What is kept for backward comes after it.",
            when=lambda seen: bytes_kept == 2412,
        ),
        mistake(
            "With recompute=False you say that nothing is kept, which is so for the min-cut. Which partitioner was "
            "used?",
            when=lambda seen: bytes_kept == 0 and graphs == [again["forward"], again["backward"]],
        ),
        mistake(
            "With recompute=False you say that nothing is kept, although your two graphs are those of the default "
            "partition. The backward graph hands over nothing; count the outputs of the forward graph only. Without "
            "bw_compiler, the backward graph goes to fw_compiler as well.",
            when=lambda seen: bytes_kept == 0 and graphs == [plain["forward"], plain["backward"]],
        ),
    )
    seen.that(
        graphs == [plain["forward"], plain["backward"]],
        f"With recompute=False the two graphs have {plain['forward']} and {plain['backward']} calls; you say "
        f"{graphs[0]} and {graphs[1]}.",
        mistake(
            "You counted all nodes. Count calls (node.op is call_function), not inputs and outputs.",
            when=lambda seen: graphs[0] > plain["forward"],
        ),
    )
    test("three sines, cut by the min-cut: nothing is kept but x")
    seen = observe_scenario(measured_chain, kept, True, "float32")
    found = seen["found"]
    judge_form(seen, found)
    came = {name: found[name] for name in again}
    seen.that(
        came == again,
        f"With recompute=True it must be {again}: x alone is kept, and two sines are computed again. You say {came}.",
    )


# %% check="kept-for-backward" points=1
"""Views of inputs, a kept result, a mask, float64, which inputs learn, and earlier compilations."""
with check("kept-for-backward") as test:

    def stories(kept):
        """Measure five functions: sines, two products, exp, a product in which one input learns, a masked exp."""
        row = torch.linspace(0.1, 1.0, 50)
        x, w, v = torch.ones(8, 16), torch.ones(16, 16, requires_grad=True), torch.ones(16, 4, requires_grad=True)
        learns, fixed = row.clone().requires_grad_(), row.clone()
        many = torch.linspace(0.1, 1.0, 300).reshape(100, 3).requires_grad_()
        with fresh_compiler():
            return {
                "sines, False": kept(chain, [many], False)["kept"],
                "sines, True": kept(chain, [many], True)["kept"],
                "products": kept(lambda x, w, v: torch.relu(x @ w) @ v, [x, w, v], False)["kept"],
                "relu(x @ w) @ v, True": kept(lambda x, w, v: torch.relu(x @ w) @ v, [x, w, v], True)["kept"],
                "exp": kept(lambda x: x.exp(), [learns], False)["kept"],
                "one learns": kept(lambda x, g: x.sin().sin() * g, [fixed, learns], False)["kept"],
                "a mask": kept(lambda x: torch.where(x > 0.5, x, 0.1).exp(), [learns], False)["kept"],
            }

    def column(kept):
        """Measure x.sin()[:, 1].cos(), with 90 rows and then eight times with 100."""

        def of_a_column(x):
            return x.sin()[:, 1].cos()

        with fresh_compiler():
            kept(of_a_column, [torch.ones(90, 3, requires_grad=True)], False)
            found = [kept(of_a_column, [torch.ones(100, 3, requires_grad=True)], False) for _ in range(8)]
        return {"second": found[0], "ninth": found[-1]}

    def two_columns(kept):
        """Measure a product of two columns of x.sin()."""

        def of_two(x):
            s = x.sin()
            return s[:, 0].cos() * s[:, 1].cos()

        with fresh_compiler():
            return kept(of_two, [torch.ones(100, 3, requires_grad=True)], False)

    def largest(kept):
        """Measure x.sin().max(0).values * x.sum(0)."""
        with fresh_compiler():
            x = torch.linspace(0.1, 1.0, 60).reshape(20, 3).requires_grad_()
            return kept(lambda x: x.sin().max(0).values * x.sum(0), [x], False)

    def gradients_left(kept):
        """Measure a function whose inputs have gradients, or none, before."""
        x, y = torch.ones(3, requires_grad=True), torch.ones(3, requires_grad=True)
        x.grad = before = torch.full((3,), 7.0)
        with fresh_compiler(), instruments_used() as used:
            kept(lambda x, y: x.sin() * y, [x, y], False)
        return {
            "same": x.grad is before and before.tolist() == [7.0] * 3,
            "none": y.grad is None,
            "used": sorted(used),
        }

    def constant(kept):
        """Measure x.sin() * torch.tensor([1.0, 2.0, 3.0]), and F.gelu(x)."""
        x = torch.ones(3, requires_grad=True)
        with fresh_compiler():
            return {
                "times a constant": kept(lambda x: x.sin() * torch.tensor([1.0, 2.0, 3.0]), [x], False),
                "gelu": kept(lambda x: F.gelu(x), [x], False),
            }

    test("the caller's gradients")
    seen = observe_scenario(gradients_left, kept)
    seen.that("cut_of" not in seen["used"], OWN)
    seen.that(
        seen["same"] and seen["none"],
        "The gradients of the caller's tensors were touched. Work on leaves of your own.",
    )
    ### BEGIN HIDDEN TESTS
    test.hidden("sines, products, a kept result, inputs that don't learn, a mask")
    seen = observe_scenario(stories, kept).expecting(FIRST_CHECK_FIRST)
    for name, wanted, sentence in (
        (
            "one learns",
            200,
            "Where only g learns, x.sin().sin() * g keeps 200 bytes: requires_grad must be as the caller has it.",
        ),
        (
            "products",
            512,
            "relu(x @ w) @ v hands out one result of 512 bytes, perhaps twice, and views of inputs such as w.t(): "
            "count each storage once, and none of an input.",
        ),
        (
            "exp",
            200,
            "`exp` keeps its own result, 200 bytes. That one counts, although it is the result of fn as well.",
        ),
        ("a mask", 250, "A mask of 50 booleans takes 50 bytes, and exp keeps 200: count bytes, not numbers."),
    ):
        came = seen[name]
        seen.that(came == wanted, f"{sentence} You say {came}.")
    for name, recompute, wanted in (("sines", False, 2400), ("sines", True, 0), ("relu(x @ w) @ v", True, 512)):
        came = seen[f"{name}, {recompute}"]
        seen.that(
            came == wanted,
            f"With recompute={recompute} {name} must keep {wanted} bytes besides the inputs, not {came}.",
        )
    test.hidden("float64")
    seen = observe_scenario(measured_chain, kept, False, "float64")
    came = seen["found"]["kept"]
    seen.that(came == 4800, f"In float64 three sines keep 4800 bytes, not {came}: a number takes 8 bytes.")
    test.hidden("a column, after another number of rows, and for the ninth time")
    x = torch.ones(100, 3, requires_grad=True)
    ninth = (
        "You were asked about one function nine times in one process, and the last time nothing was compiled. Every "
        "question has a backend of its own, and after eight compilations of a function Dynamo gives up: call "
        "torch._dynamo.reset() first."
    )
    seen = observe_scenario(column, kept).expecting(mistake(ninth, stage="raised", raises="KeyError"))
    wanted, found = numbers_of(cut_of(lambda x: x.sin()[:, 1].cos(), [x], False)), seen["second"]
    judge_form(seen, found)
    seen.that(
        found["kept"] == wanted["kept"],
        f"x.sin()[:, 1].cos() keeps a view, and with it the whole storage of {wanted['kept']} bytes, not "
        f"{found['kept']}.",
    )
    graphs, calls = [found["forward"], found["backward"]], [wanted["forward"], wanted["backward"]]
    seen.that(
        graphs == calls,
        f"The two graphs of x.sin()[:, 1].cos() have {calls[0]} and {calls[1]} calls; you say {graphs[0]} and "
        f"{graphs[1]}.",
        mistake(
            "The graphs have symbols for sizes. Earlier compilations don't count, and torch.compile's own settings do: "
            "call torch._dynamo.reset() first.",
            when=lambda seen: graphs == [calls[0] + 1, calls[1] + 1],
        ),
    )
    seen.that(seen["ninth"] == found, ninth)
    test.hidden("a call with two results")
    x = torch.linspace(0.1, 1.0, 60).reshape(20, 3).requires_grad_()
    seen = observe_scenario(largest, kept)
    wanted = numbers_of(cut_of(lambda x: x.sin().max(0).values * x.sum(0), [x], False))
    seen.that(
        seen["forward"] == wanted["forward"],
        f"x.sin().max(0).values * x.sum(0) has {wanted['forward']} calls in forward: getitem, which takes a result out "
        f"of two, is a call_function node as well. You say {seen['forward']}.",
    )
    test.hidden("two views of one storage")
    seen = observe_scenario(two_columns, kept)
    judge_form(seen, seen.value)
    seen.that(
        seen["kept"] == 2000,
        "Of s = x.sin(), two columns are kept, which are views of one storage of 1200 bytes, and twice 400 bytes: 2000 "
        f"in all. You say {seen['kept']}. Count each storage once, whatever the tensors' own addresses are.",
    )
    test.hidden("a constant in the graph, and gelu")
    x = torch.ones(3, requires_grad=True)
    seen = observe_scenario(constant, kept)
    wanted = numbers_of(cut_of(lambda x: x.sin() * torch.tensor([1.0, 2.0, 3.0]), [x], False))
    found = seen["times a constant"]
    judge_form(seen, found)
    seen.that(
        found["forward"] == wanted["forward"],
        f"x.sin() * torch.tensor([1.0, 2.0, 3.0]) has {wanted['forward']} calls in forward, and you say "
        f"{found['forward']}. The node get_attr is a constant of the graph, which is no call.",
    )
    came = seen["gelu"]["backward"]
    seen.that(
        came == 1,
        f"With default settings the backward graph of F.gelu(x) has 1 call, gelu_backward. You say {came}. "
        "Decompositions take it apart: pass none to aot_autograd.",
    )
    ### END HIDDEN TESTS
