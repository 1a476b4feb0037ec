# %% [markdown]
# ### Exercise 13.2 · An honest ledger
#
# implement · long · 30 min · 3 points
#
# Build the instrument of this section. It runs any function once and reports how much memory was needed at the worst
# moment, and after which operation that was. The demos use the course's own `Ledger`. The check doesn't accept it, so
# write yours without it.
#
# **Contract**
#
# - `memory_of(call)` runs `call()` exactly once and returns a pair: the very object that the call returned, and a dict
#   with the three keys `"peak"`, `"left"` and `"at"`. Peak and left are plain Python ints.
# - If the call raises, its exception propagates, even a KeyboardInterrupt. Either way, nothing that you switched on
#   (such as a dispatch mode, section 1.2) stays on.
# - Count the storages that operations create while the call runs, in forward, backward and the optimizer alike. Each
#   storage counts once, with the size in bytes that it has when it is created, for as long as anything refers to it: a
#   name, the graph, `.grad` or the optimizer's state.
# - What existed before the call never counts. You recognize it as an argument of an operation that no operation of this
#   call has created. This includes inputs, parameters, what operations write into them (also by `out=`), and what an
#   earlier call of `memory_of` created.
# - `"peak"` is the largest sum right after an operation. `"at"` is the name of the operation after which that sum was
#   reached first, as in `func.overloadpacket.__name__`; it is `""` if nothing was alive after any operation. `"left"`
#   is the sum when the call has returned and its result still exists.
# - The instrument itself keeps nothing alive, neither results nor inputs. It doesn't run Python's garbage collector
#   either, so a storage that only a reference cycle keeps is still alive, and counts.
# - Operations may return lists or tuples of tensors. All tensors are dense. Tensors that PyTorch makes from Python
#   numbers (`torch.tensor(0.0)`) may count or not.
#
# <details><summary>Hint 1</summary>
#
# Which object disappears at the very moment when the memory is freed, the Python tensor or the storage? And what sees
# every operation that runs, including those of backward?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# A `TorchDispatchMode` sees every operation with its arguments and its results. A
# `StorageWeakRef(tensor.untyped_storage())` refers to a storage without keeping it alive, and `expired()` says whether
# it is gone. The number `storage._cdata` identifies a storage for as long as you keep a StorageWeakRef to it.
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# In `__torch_dispatch__`, remember the storages of all arguments that you haven't seen being created
# (`tree_leaves((args, kwargs))` also finds tensors in lists). Run `func`. Add the storages of the results that are not
# among those, each as a pair of weak reference and nbytes. Then remove what has expired, add up the rest and compare it
# with the peak.
#
# </details>


# %% answer="peak-ledger"
### BEGIN SOLUTION
class Watching(TorchDispatchMode):
    """Counts the storages that operations make."""

    def __init__(self) -> None:
        super().__init__()
        self.made: dict[int, tuple[StorageWeakRef, int]] = {}
        self.older: dict[int, StorageWeakRef] = {}
        self.peak, self.at = 0, ""

    def alive(self) -> int:
        self.made = {name: one for name, one in self.made.items() if not one[0].expired()}
        return sum(size for _, size in self.made.values())

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        for value in tree_leaves((args, kwargs)):
            if isinstance(value, Tensor) and value.untyped_storage()._cdata not in self.made:
                storage = value.untyped_storage()
                self.older.setdefault(storage._cdata, StorageWeakRef(storage))
        out = func(*args, **(kwargs or {}))
        for value in tree_leaves(out):
            if isinstance(value, Tensor):
                storage = value.untyped_storage()
                if storage._cdata not in self.older:
                    new = (StorageWeakRef(storage), storage.nbytes())
                    self.made.setdefault(storage._cdata, new)
        if self.alive() > self.peak:
            self.peak, self.at = self.alive(), func.overloadpacket.__name__
        return out


def memory_of(call: Callable[[], Any]) -> tuple[Any, dict[str, int | str]]:
    """Run call() once; returns its result and a dict of "peak", "left" and "at"."""
    watching = Watching()
    with watching:
        result = call()
    return result, {"peak": watching.peak, "left": watching.alive(), "at": watching.at}


### END SOLUTION
### BEGIN GIVEN
# def memory_of(call: Callable[[], Any]) -> tuple[Any, dict[str, int | str]]:
#     """Run call() once; returns its result and a dict of "peak", "left" and "at"."""
#     raise NotImplementedError  # your code here
### END GIVEN


# %% helpers="peak-ledger"
def small_step(foreach):
    """A model, its optimizer with a state, and a batch."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(50, 40), nn.Tanh(), nn.Linear(40, 30))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01, foreach=foreach)
    return model, optimizer, torch.randn(20, 50)


def program(kind):
    """A function to be measured. What it uses was made before."""
    x = torch.linspace(0.1, 0.9, 1000)
    w = torch.linspace(0.2, 0.8, 1000).requires_grad_()
    buffer, whole = torch.empty(1000), torch.linspace(0, 1, 3000).view(3, 1000)
    model, optimizer, batch = small_step(kind == "a step with lists")

    def backward():
        (w * x).tanh().exp().sum().backward()

    def step():
        optimizer.zero_grad()
        model(batch).square().mean().backward()
        optimizer.step()

    def turns():
        for _ in range(30):
            y = x.exp().sin()
        return y

    def in_place():
        y = x.exp()
        y.mul_(2).add_(1)
        x.mul_(1.5)
        return y

    def halves():
        low, high = whole.aminmax(dim=0)
        return low, high.clone()

    def grown():
        y = torch.zeros(500)
        y.resize_(2000)
        return y

    spare = [torch.ones(1000) for _ in range(40)] if kind == "inputs freed" else []

    def inputs_freed():
        while spare:
            y = spare.pop()
            s = y.sum()
            del y, s
        return [torch.ones(1000) for _ in range(80)]

    box = [torch.ones(1000)]

    def input_of_a_chain():
        y = box.pop().exp()
        z = y.sin()
        w = z.cos()
        v = w.tanh()
        return v, y, z, w

    def one_input_freed():
        y = box.pop()
        s = y.sum()
        del y, s
        return [torch.ones(1000) for _ in range(5)]

    def cycle():
        a = [x.exp()]
        a.append(a)

    def wrong():
        x.exp()
        raise KeyError("such a key")

    def interrupted():
        x.exp()
        raise KeyboardInterrupt("by hand")

    return {
        "four": lambda: x.exp().sin().cos().tanh(),
        "recorded": lambda: w.exp().exp().exp().sum(),
        "backward": backward,
        "a step": step,
        "a step with lists": step,
        "turns": turns,
        "views": lambda: [x.exp()[10:20], x.sum().expand(5000)],
        "in place": in_place,
        "into a buffer": lambda: torch.add(x, 1, out=buffer),
        "a view of x": lambda: whole[1].view(10, 100).t(),
        "into lists": lambda: torch._foreach_mul([x, whole], 2.0),
        "halves": halves,
        "new and written": lambda: torch._C._nn.rrelu_with_noise(x, buffer, 0.1, 0.3, True),
        "other dtypes": lambda: (x.double().exp(), x > 0.5),
        "grown": grown,
        "inputs freed": inputs_freed,
        "input of a chain": input_of_a_chain,
        "one input freed": one_input_freed,
        "a cycle": cycle,
        "with gaps": lambda: torch.empty_strided((4, 4), (1000, 1)),
        "a number": lambda: (x.exp(), 7)[1],
        "a dict": lambda: {"of": x.exp()},
        "nothing": lambda: None,
        "looks only": lambda: x.view(10, 100),
        "one number": lambda: x.sum(),
        "wrong": wrong,
        "interrupted": interrupted,
    }[kind]


def modes_on():
    """The modes that see operations, and how many see calls of torch's functions."""
    stack = torch.utils._python_dispatch._get_current_dispatch_mode_stack()
    return stack, torch._C._len_torch_function_stack()


def ledger_of(memory_of, kind):
    """Measure a small program, and note what came back and how often the program ran."""
    call, ids, lent, collected = program(kind), [], [], []

    def note_collection(*args):
        collected.append(1)

    def counted():
        lent.append(any(isinstance(mode, Ledger) for mode in modes_on()[0]))
        result = call()
        ids.append(id(result))
        return result

    raised, came = "", None
    before = modes_on()
    gc.disable()  # a cycle counts as alive
    gc.callbacks.append(note_collection)
    try:
        came = memory_of(counted)
    except (KeyError, KeyboardInterrupt) as error:
        raised = repr(error)
    finally:
        gc.callbacks.remove(note_collection)
        collector_on = gc.isenabled()
        gc.enable()
    pair = came if isinstance(came, (tuple, list)) and len(came) == 2 else (None, None)
    report = dict(pair[1]) if isinstance(pair[1], dict) else None
    same = bool(ids) and id(pair[0]) == ids[0]
    left_on = modes_on() != before
    return {
        "report": report,
        "ran": len(ids),
        "same": same,
        "raised": raised,
        "left on": left_on,
        "collector on": collector_on,
        "lent": any(lent),
        "collected": bool(collected),
    }


def truth_of(kind):
    """What an honest ledger says of a program."""
    return told_by(Ledger(), kind)


def told_by(ledger, kind):
    """What a ledger says of a program."""
    call = program(kind)
    with ledger:
        result = call()
    report = {"peak": ledger.peak, "left": ledger.bytes_alive(), "at": ledger.peak_at}
    del result
    return report


def judge_form(seen):
    """A pair came back, with a dict of the three keys; the program ran once."""
    report = seen["report"]
    seen.that(
        report is not None and {"peak", "left", "at"} <= set(report),
        'Return a pair: the result of the call, and a dict with the keys "peak", "left" and "at".',
        stage="type",
    )
    numbers = [report["peak"], report["left"]]
    seen.that(
        all(isinstance(n, (int, float)) and not isinstance(n, bool) for n in numbers) and isinstance(report["at"], str),
        '"peak" and "left" are numbers of bytes, plain Python ints. "at" is the name of an operation, a str.',
        stage="type",
    )
    seen.that(seen["ran"] == 1, f"`call` must run exactly once; it ran {seen['ran']} times.", stage="rule")
    seen.that(
        not seen["lent"], "This is the course's own Ledger. The exercise asks you to write one yourself.", stage="rule"
    )
    seen.that(seen["same"], "The first of the two things that you return must be the result of the call itself.")
    seen.that(not seen["left on"], "After the call your mode is still switched on: use `with`.", stage="rule")


def judge_numbers(seen, right, sentence, *mistakes, slack=0):
    """Peak, what is left, and the operation."""
    report = seen["report"]
    off = [name for name in ("peak", "left") if abs(report[name] - right[name]) > slack]
    told = f"expected peak {right['peak']} and left {right['left']}, got {report['peak']} and {report['left']}"
    seen.that(not off, f"{sentence} ({told})", *mistakes)
    seen.that(
        report["at"] == right["at"],
        f'"at" is the operation after which the peak was reached FIRST: {right["at"]}, not {report["at"]}.',
        mistake('"at" must be "" if nothing was alive after any operation.', when=lambda seen: right["at"] == ""),
    )


arguments_count = "Memory that existed before the call (inputs, parameters) doesn't count."
counted_twice = "A storage was counted more than once: views and in-place operations make no new memory."
size_of_view = (
    "Count untyped_storage().nbytes(), not the view's own size: a slice keeps its whole storage alive, and an expanded "
    "tensor has more elements than memory."
)
number_reused = (
    "A storage that existed before may die during the call, and its number is given to a new one. The number is good "
    "only for as long as you keep a StorageWeakRef."
)
single_number = "A tensor of a single number also takes memory, four bytes in float32. Your result leaves it out."
in_lists = "An operation may return a list or a tuple of tensors (topk, torch._foreach_mul): look inside it."


# %% check="peak-ledger" points=2
"""Peak, left and at: without a graph, with one, in backward, in a step of Adam, at reused addresses."""
with check("peak-ledger") as test:
    here = "These are not the bytes of the storages that are alive."

    def told_without_lists(kind):
        """What a ledger says that misses the results in lists."""

        class OneTensorOnly(Ledger):
            def __torch_dispatch__(self, func, types, args=(), kwargs=None):
                self._note_older(tree_leaves((args, kwargs)))
                out = func(*args, **(kwargs or {}))
                if isinstance(out, Tensor):
                    self._count(out)
                self.curve.append((func.overloadpacket.__name__, self.bytes_alive()))
                return out

        return told_by(OneTensorOnly(), kind)

    keeps_the_last = (
        "Your instrument keeps tensors alive: at cos it still counts the result of exp, although nothing in the call "
        "refers to it any more. Keep no arguments and no results between two operations, only weak references."
    )

    kept_too_long = (
        "The peak counts memory that had already been freed: hold weak references (StorageWeakRef), "
        "not tensors or sizes."
    )

    only_the_graph = (
        "Memory that only the graph holds is missing: the Python tensor dies with its name, but its storage lives on. "
        "Watch "
        "storages, not tensor objects."
    )

    not_seen = (
        "The operations that run in backward or in the optimizer are missing. A TorchDispatchMode sees them; a "
        "TorchFunctionMode or saved_tensors_hooks does not."
    )

    not_right_after = (
        "The peak is the largest sum right AFTER an operation, while its input and its output are both alive; yours "
        "misses that moment."
    )

    def reads(peak, left):
        """Whether these numbers were reported."""
        return lambda seen: (seen["report"]["peak"], seen["report"]["left"]) == (peak, left)

    def reads_peak(*peaks):
        """Whether one of these peaks was reported."""
        return lambda seen: seen["report"]["peak"] in peaks

    test("x.exp().sin().cos().tanh() without a graph; each result takes 4000 bytes")
    seen = observe_scenario(ledger_of, memory_of, "four")
    judge_form(seen)
    judge_numbers(
        seen,
        {"peak": 8000, "left": 4000, "at": "sin"},
        "Two results are alive at the worst moment, and one is left.",
        mistake(keeps_the_last, when=lambda seen: reads(12000, 8000)(seen) and seen["report"]["at"] == "cos"),
        mistake(arguments_count, when=reads(12000, 8000)),
        mistake(kept_too_long, when=reads_peak(16000, 20000)),
        mistake(not_right_after, when=reads(4000, 4000)),
        mistake(
            "You say that nothing is left, but the result is still held. Measure 'left' before you let go of it; and "
            "follow its storage, since a weak reference to a tensor object and an address (data_ptr) don't.",
            when=lambda seen: seen["report"]["left"] == 0 and seen["report"]["peak"],
        ),
        mistake(not_seen, when=reads_peak(0)),
    )

    test("w.exp().exp().exp().sum() with a graph, which keeps three results")
    seen = observe_scenario(ledger_of, memory_of, "recorded")
    judge_form(seen)
    judge_numbers(
        seen,
        {"peak": 12004, "left": 12004, "at": "sum"},
        single_number,
        mistake(arguments_count, when=reads_peak(16004, 16000)),
        mistake(only_the_graph, when=lambda seen: seen["report"]["left"] < 12000),
        mistake(counted_twice, when=lambda seen: seen["report"]["peak"] > 12004),
    )

    test("backward: the peak lies in the middle, and only the gradient is left")
    seen = observe_scenario(ledger_of, memory_of, "backward")
    judge_form(seen)
    right = truth_of("backward")
    judge_numbers(
        seen,
        right,
        here,
        mistake(not_seen, when=lambda seen: seen["report"]["left"] == 0 or seen["report"]["peak"] < right["peak"] - 4),
        mistake(size_of_view, when=lambda seen: 0 < seen["report"]["peak"] - right["peak"] < 4004),
        mistake(counted_twice, when=lambda seen: seen["report"]["left"] > right["left"]),
    )

    for kind, what in (("a step", "a step of Adam"), ("a step with lists", "a step of Adam with foreach=True")):
        test(f"{what}, forward and backward included; its counters may count or not")
        seen = observe_scenario(ledger_of, memory_of, kind)
        judge_form(seen)
        right, misses_lists = truth_of(kind), told_without_lists(kind)
        judge_numbers(
            seen,
            right,
            here,
            mistake(
                in_lists,
                when=lambda seen, peak=misses_lists["peak"]: abs(seen["report"]["peak"] - peak) <= 64,
            ),
            mistake(counted_twice, when=lambda seen, right=right: seen["report"]["left"] > right["left"] + 64),
            mistake(
                f"Something that the step made is not counted. Perhaps this is why: {number_reused}",
                when=lambda seen, right=right: seen["report"]["peak"] <= right["peak"] + 64,
            ),
            slack=64,
        )

    test("thirty times y = x.exp().sin(): memory is freed, and its address is used again")
    seen = observe_scenario(ledger_of, memory_of, "turns")
    judge_form(seen)
    judge_numbers(
        seen,
        {"peak": 12000, "left": 4000, "at": "sin"},
        here,
        mistake(kept_too_long, when=lambda seen: seen["report"]["peak"] > 100_000),
    )


# %% check="peak-ledger" points=1
"""Views, in-place operations, out=, lists, other dtypes; a call that raises; nothing is held."""
with check("peak-ledger") as test:

    def input_held(memory_of):
        """Measure a call that lets go of one of its two inputs. Then let go of the other: which are still there?"""
        box, other = [torch.ones(1000)], [torch.ones(1000)]
        first, second = StorageWeakRef(box[0].untyped_storage()), StorageWeakRef(other[0].untyped_storage())
        during = []

        def call():
            y = box.pop().exp()
            during.append(not first.expired())
            return y, other[0].exp()

        gc.disable()
        try:
            memory_of(call)
            other.clear()
            return {"during": any(during), "after": not second.expired()}
        finally:
            gc.enable()

    def second_call(memory_of):
        """Measure torch.ones(1000).exp(), keep its result y, and measure y.sin(), then a call that measures another."""
        y, _ = memory_of(lambda: torch.ones(1000).exp())
        _, report = memory_of(lambda: y.sin())

        def outer():
            z = y.exp()
            memory_of(lambda: z.sin())
            return z, z.cos()

        _, around = memory_of(outer)
        return {"peak": report["peak"], "left": report["left"], "around": [around["peak"], around["left"]]}

    not_yet = mistake(
        "This check builds on the first one, which doesn't pass yet. Fix that first.", when=lambda seen: True
    )

    test("x.exp().sin().cos().tanh() without a graph")
    seen = observe_scenario(ledger_of, memory_of, "four").expecting(not_yet)
    judge_form(seen)
    judge_numbers(seen, {"peak": 8000, "left": 4000, "at": "sin"}, "", not_yet)

    test("a call that makes nothing: peak 0, left 0, at ''")
    seen = observe_scenario(ledger_of, memory_of, "nothing")
    judge_form(seen)
    judge_numbers(seen, {"peak": 0, "left": 0, "at": ""}, "Nothing was made.")

    ### BEGIN HIDDEN TESTS
    moved = (
        "You took a storage that grows for another one: when it grows, its address changes, so data_ptr doesn't "
        "identify it."
    )
    for kind, idea, sentence in (
        ("looks only", "a view of x", arguments_count),
        ("input of a chain", "an input that is freed after the first of four operations", number_reused),
        ("one input freed", "an input that is freed, and then five tensors", number_reused),
        ("inputs freed", "inputs that are freed during the call", number_reused),
        ("one number", "a sum, which is a single number", single_number),
        ("views", "a slice, and a scalar that is expanded", size_of_view),
        ("in place", "in-place operations on a result and on x", counted_twice),
        ("a view of x", "views of views of what existed before", arguments_count),
        ("into a buffer", "out= writes into a tensor from before", f"{arguments_count} That includes out=."),
        ("into lists", "results in lists", in_lists),
        ("halves", "an operation with two results", in_lists),
        (
            "new and written",
            "an operation that writes into an argument and returns a new tensor",
            "An operation that writes into one of its arguments may also return a new tensor. rrelu_with_noise, for "
            "example, writes its noise. Look at the results of every operation.",
        ),
        ("other dtypes", "float64 and bool", "Count bytes: a float64 takes eight, a bool takes one."),
        (
            "grown",
            "a storage that grows later",
            "A storage counts with the size that it has when it is made, even if it grows later.",
        ),
        ("with gaps", "a tensor with gaps between its rows", size_of_view),
    ):
        test.hidden(idea)
        seen = observe_scenario(ledger_of, memory_of, kind)
        judge_form(seen)
        right = truth_of(kind)
        judge_numbers(
            seen,
            right,
            sentence,
            mistake(counted_twice, when=lambda seen, right=right: seen["report"]["peak"] == 2 * right["peak"] > 0),
            mistake(
                counted_twice,
                when=lambda seen, right=right, kind=kind: (
                    kind == "views" and seen["report"]["peak"] == right["peak"] + 4000
                ),
            ),
            mistake(moved, when=lambda seen, kind=kind: kind == "grown" and seen["report"]["peak"] == 10000),
        )

    test.hidden("the result is a number: the tensor is freed, and the instrument must not hold it")
    seen = observe_scenario(ledger_of, memory_of, "a number")
    judge_form(seen)
    judge_numbers(
        seen,
        {"peak": 4000, "left": 0, "at": "exp"},
        "Your instrument keeps a tensor alive: nothing else refers to the result of the last operation any more.",
    )

    test.hidden("the result is a dict")
    seen = observe_scenario(ledger_of, memory_of, "a dict")
    judge_form(seen)
    judge_numbers(seen, {"peak": 4000, "left": 4000, "at": "exp"}, "The tensor in the result is still held.")

    test.hidden("a second call, with a result of the first")
    seen = observe_scenario(second_call, memory_of)
    seen.that(
        (seen["peak"], seen["left"]) == (4000, 4000),
        "What an earlier call of memory_of made existed before the next one and doesn't count: begin each call with "
        f"an empty record. (expected peak 4000 and left 4000, got {seen['peak']} and {seen['left']})",
    )

    test.hidden("a call that calls memory_of itself")
    seen.that(
        seen["around"] == [8000, 8000],
        "The outer call has made two tensors of 4000 bytes, and calls memory_of for a third one in between. That call "
        "has changed its record. Each call needs a separate one. (expected peak 8000 and left 8000, got "
        f"{seen['around'][0]} and {seen['around'][1]})",
    )

    test.hidden("inputs are freed during and after the call")
    seen = observe_scenario(input_held, memory_of)
    seen.that(
        not seen["after"],
        "Your instrument keeps an input alive after the call has returned. Use weak references to what existed before.",
        stage="rule",
    )
    seen.that(
        not seen["during"],
        "Your instrument keeps an input alive that nothing in the call refers to any more. Use weak references to "
        "what existed before.",
        stage="rule",
    )

    test.hidden("the call raises a KeyError")
    seen = observe_scenario(ledger_of, memory_of, "wrong")
    seen.that(seen["raised"] == "KeyError('such a key')", "The exception of the call must propagate unchanged.")
    seen.that(
        not seen["left on"], "After the call has raised, your mode is still switched on: use `with`.", stage="rule"
    )

    test.hidden("the call is interrupted by a KeyboardInterrupt")
    seen = observe_scenario(ledger_of, memory_of, "interrupted")
    seen.that(seen["raised"] == "KeyboardInterrupt('by hand')", "A KeyboardInterrupt must propagate unchanged.")
    seen.that(
        not seen["left on"],
        "A KeyboardInterrupt is not an Exception: after it your mode is still switched on. Use `with`.",
        stage="rule",
    )

    test.hidden("a reference cycle holds the only result")
    seen = observe_scenario(ledger_of, memory_of, "a cycle")
    judge_form(seen)
    seen.that(
        not seen["collector on"],
        "You switched Python's garbage collector on. The caller had switched it off: if you disable it, put back what "
        "gc.isenabled() said before.",
        stage="rule",
    )
    judge_numbers(
        seen,
        {"peak": 4000, "left": 4000, "at": "exp"},
        "A storage that a reference cycle holds is alive until Python's garbage collector runs. Your instrument must "
        "not run it.",
    )
    seen.that(
        not seen["collected"],
        "Your instrument runs Python's garbage collector. That frees what others left, and takes its time.",
        stage="rule",
    )
    ### END HIDDEN TESTS
