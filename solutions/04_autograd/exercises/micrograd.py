# %% [markdown]
# ### Exercise 4.12 · Autograd from scratch, for single numbers
#
# implement · long · 35 min · 3 points
#
# Write a class of numbers that record how they were computed and can run backward. It does for single numbers what
# torch does for tensors. Write all the methods that the docstring names; `__init__` is only the first. It takes 40 to
# 80 lines.
#
# Python turns `a + b` into `a.__add__(b)`. It turns `2 + b` into `b.__radd__(2)`, because an int doesn't know how to
# add a Value. The other methods are called `__sub__`, `__mul__`, `__truediv__`, with an `r` for a Value on the
# right-hand side, and `__neg__`, `__pow__`.
#
# **Contract**
#
# - `.data` is the number that Python computes, up to rounding; `.grad` is 0.0 at first.
# - `backward()` adds the derivative of self with respect to v to `v.grad`, for every leaf v, that is, for every Value
#   made by `Value(number)`. A value that is used several times gets the sum over all its uses. As in torch, two calls
#   add up, whether on one expression or on two.
# - The `.grad` of an intermediate result may be anything, but it must not spoil a later backward. The derivative of
#   relu at 0 is 0; an exponent of 0 doesn't occur.
# - The work grows with the number of nodes, not of paths: `v = v + v`, thirty times, is thirty additions. (It may also
#   grow with the number of leaves, or with all nodes ever made.) Chains of 3000 operations work.
#
# **Rule.** No torch and no numpy inside the class; `math` is fine.
#
# <details><summary>Hint 1</summary>
#
# If v is used by two results, when may v pass its gradient on: after the first of them has sent its share, or after the
# last?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# Every result stores its inputs and the local derivatives. In backward, order all reachable nodes so that results come
# before their inputs, start with 1 for self, and let each node *add* gradient times local derivative to its inputs.
# Keep the running gradients of one call separate from the `.grad` of the leaves.
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# A result stores pairs (input, local derivative): `a * b` stores (a, b.data) and (b, a.data). To find the order without
# recursion, use a stack of (node, done). When you take a new node from the stack, push it back as done and push its
# inputs on top of it; when you take a node that is done, append it to the order. Walk that order backwards with a dict
# that contains the gradients of this call, and add what arrives at a Value without inputs to its `.grad`.
#
# </details>


# %% answer="micrograd"
class Value:
    """A number that remembers how it was computed.

    Attributes: data, the number; grad, the sum of all derivatives that reached it, 0.0 at first.
    Operators: +, -, *, / with Values and Python numbers on either side, unary -,
    ** with a Python number.
    Methods: tanh(), exp(), relu(), and backward(), which adds to the grad of every leaf.
    """

    def __init__(self, data: float):
        ### BEGIN SOLUTION
        self.data, self.grad = data, 0.0
        self._inputs = ()  # pairs: an input, and the derivative with respect to it

    @staticmethod
    def _result(data, *inputs):
        made = Value(data)
        made._inputs = inputs
        return made

    @staticmethod
    def _value(other):
        return other if isinstance(other, Value) else Value(other)

    def __add__(self, other):
        other = Value._value(other)
        return Value._result(self.data + other.data, (self, 1.0), (other, 1.0))

    def __mul__(self, other):
        other = Value._value(other)
        return Value._result(self.data * other.data, (self, other.data), (other, self.data))

    def __truediv__(self, other):
        other = Value._value(other)
        slope = -self.data / other.data**2
        return Value._result(self.data / other.data, (self, 1 / other.data), (other, slope))

    def __pow__(self, n):
        return Value._result(self.data**n, (self, n * self.data ** (n - 1)))

    def __neg__(self):
        return Value._result(-self.data, (self, -1.0))

    def __sub__(self, other):
        return self + -Value._value(other)

    def __rsub__(self, other):
        return Value._value(other) - self

    def __rtruediv__(self, other):
        return Value._value(other) / self

    __radd__, __rmul__ = __add__, __mul__

    def tanh(self):
        t = math.tanh(self.data)
        return Value._result(t, (self, 1 - t * t))

    def exp(self):
        e = math.exp(self.data)
        return Value._result(e, (self, e))

    def relu(self):
        return Value._result(max(self.data, 0.0), (self, float(self.data > 0)))

    def backward(self):
        order, seen, waiting = [], set(), [(self, False)]
        while waiting:
            node, is_done = waiting.pop()
            if is_done:
                order.append(node)  # after all of its inputs
            elif node not in seen:
                seen.add(node)
                waiting.append((node, True))
                waiting.extend((v, False) for v, _ in node._inputs)
        gradients = {self: 1.0}  # of this call
        for node in reversed(order):
            for v, slope in node._inputs:
                gradients[v] = gradients.get(v, 0.0) + gradients[node] * slope
            if not node._inputs:
                node.grad += gradients[node]
        ### END SOLUTION


# %% helpers="micrograd"
def alike(came, wanted):
    """Whether two lists of numbers, or lists of such lists, agree."""
    if isinstance(wanted, list):
        return len(came) == len(wanted) and all(alike(a, b) for a, b in zip(came, wanted, strict=True))
    return isinstance(came, (int, float)) and math.isclose(came, wanted, rel_tol=1e-6, abs_tol=1e-9)


def are_python_numbers(found):
    """Judges that all is made of Python's own numbers."""
    numbers = [n for item in found.value for n in (item if isinstance(item, list) else [item])]
    odd = [n for n in numbers if type(n) not in (int, float) and n != "too much work"]
    found.that(
        not odd,
        "The class must compute with Python floats, in data and in grad; here it gave another kind.",
        stage="type",
    )


missing = mistake(
    "A method is missing: {detail}. `a + b` needs __add__, -a needs __neg__, a ** 3 needs __pow__, and so on.",
    raises="unsupported operand|bad operand|has no attribute '(backward|tanh|exp|relu|grad)'",
)
wrapped = mistake(
    "A Python number on the right has no .data: make a Value of it first. ({detail})",
    raises="'(int|float)' object has no attribute",
)


def codes(function):
    """The code objects of a function, those of functions inside it too."""
    found = [function.__code__]
    for code in found:
        found += [inner for inner in code.co_consts if isinstance(inner, type(code))]
    return found


def libraries_in(Value):
    """The libraries that the methods of a class use, of torch and numpy; those of its base classes, and of functions
    and classes beside it that they use, too."""
    found, things = [], list(Value.__mro__[:-1])
    for thing in things:  # grows while it is gone through
        for member in list(vars(thing).values()) if isinstance(thing, type) else [thing]:
            member = getattr(member, "__func__", None) or getattr(member, "fget", None) or member
            if not hasattr(member, "__code__"):
                continue
            beside, used = member.__globals__, list(member.__defaults__ or ())
            for code in codes(member):
                for step in dis.get_instructions(code):
                    if step.opname == "IMPORT_NAME":
                        found.append(step.argval)
                    elif step.opname == "LOAD_GLOBAL":
                        used.append(beside.get(step.argval))
            found += [getattr(one, "__module__", None) or getattr(one, "__name__", "") for one in used]
            own = [one for one in used if isinstance(one, type) or hasattr(one, "__code__")]
            things += [one for one in own if one.__module__ == beside["__name__"] and one not in things]
    return sorted({root for root in (str(name).split(".")[0] for name in found) if root in ("torch", "numpy")})


def used_libraries(Value):
    """A small computation, and what the class is made of."""
    a = Value(0.5)
    (a.tanh() * a.exp() + a.relu() / 2).backward()
    return libraries_in(Value)


# %% check="micrograd" points=1
"""Values and derivatives of single operations, and the chain rule; by hand."""
with check("micrograd") as test:

    def operation(name, a, b):
        """One operation by its name, for Values and for tensors."""
        functions = {
            "a + b": lambda: a + b,
            "a - b": lambda: a - b,
            "a * b": lambda: a * b,
            "a / b": lambda: a / b,
            "-a": lambda: -a,
            "a ** 3": lambda: a**3,
            "a ** -1": lambda: a**-1,
            "a ** 0.5": lambda: a**0.5,
            "a.tanh()": lambda: a.tanh(),
            "b.tanh()": lambda: b.tanh(),
            "a.exp()": lambda: a.exp(),
            "a.relu()": lambda: a.relu(),
            "b.relu()": lambda: b.relu(),
            "a + 2": lambda: a + 2,
            "a - 2": lambda: a - 2,
            "a * 3": lambda: a * 3,
            "a / 4": lambda: a / 4,
            "a * b * 3": lambda: a * b * 3,
            "((a * 2 + b) * 3).tanh()": lambda: ((a * 2 + b) * 3).tanh(),
            "(a / b - a.exp()) ** 2": lambda: (a / b - a.exp()) ** 2,
        }
        return functions[name]()

    def results_of(Value, names, x, y):
        """Compute each operation and run backward: its value, and its derivatives by a and b."""
        facts = {}
        for name in names:
            a, b = Value(x), Value(y)
            out = operation(name, a, b)
            data = getattr(out, "data", out)
            out.backward()
            facts[name] = [data, a.grad, b.grad]
        return facts

    def in_torch(name, x, y):
        """The same by torch, in float64."""
        a, b = (torch.tensor(v, dtype=torch.float64, requires_grad=True) for v in (x, y))
        out = operation(name, a, b)
        grads = torch.autograd.grad(out, [a, b], materialize_grads=True)
        return [v.item() for v in (out.detach(), *grads)]

    def near(came, wanted):
        """Whether two numbers agree."""
        return math.isclose(came, wanted, rel_tol=1e-6, abs_tol=1e-9)

    def judge(seen, x, y, *mistakes):
        """Compare each operation with torch: the value first, then the derivatives."""
        for name, numbers in seen.value.items():
            odd = [type(n).__name__ for n in numbers if type(n) not in (int, float)]
            odd = odd and f"The class must compute with Python floats, in data and in grad; {name} gave another kind."
            seen.that(not odd, odd or "", stage="type")
            wanted = in_torch(name, x, y)
            words = f"The forward value of {name} is wrong: expected {wanted[0]:.6g}, got {numbers[0]:.6g}."
            seen.that(near(numbers[0], wanted[0]), words, *mistakes)
            right = near(numbers[1], wanted[1]) and near(numbers[2], wanted[2])
            words = f"The derivative of {name} is wrong."
            if not any(n for _, *grads in seen.value.values() for n in grads):
                words = "No gradient arrives: backward starts with d self / d self = 1."
            seen.that(right, words, *mistakes, stage="gradient")

    test("every operation on Values, at a = 0.75 and b = -1.25")
    names = ["a + b", "a * b", "a * b * 3", "-a", "a - b", "a ** 3", "a ** -1", "a ** 0.5", "a / b"]
    names += ["a.tanh()", "b.tanh()", "a.exp()", "a.relu()", "b.relu()"]
    no_chain = mistake(
        "The incoming gradient is missing: each local derivative is multiplied by the gradient of the result.",
        stage="gradient",
        when=lambda seen: near(seen["a * b * 3"][1], -1.25) and near(seen["a * b * 3"][2], 0.75),
    )
    seen = observe_scenario(results_of, Value, names, 0.75, -1.25)
    seen.expecting(missing)
    judge(seen, 0.75, -1.25, no_chain)

    test("Python numbers on the right: a + 2, a - 2, a * 3, a / 4")
    names = ["a + 2", "a - 2", "a * 3", "a / 4"]
    judge(observe_scenario(results_of, Value, names, 0.75, -1.25).expecting(wrapped, missing), 0.75, -1.25)

    test("the chain rule: ((a * 2 + b) * 3).tanh() and (a / b - a.exp()) ** 2")
    names = ["((a * 2 + b) * 3).tanh()", "(a / b - a.exp()) ** 2"]
    judge(observe_scenario(results_of, Value, names, 0.35, -0.8).expecting(missing), 0.35, -0.8)

    test("no torch and no numpy inside the class")
    seen = observe_scenario(used_libraries, Value)
    libraries = ", ".join(dict.fromkeys([*seen.value, *["torch"] * bool(seen.op_names())]))
    seen.that(not libraries, f"The class must do the work itself: {libraries} is used inside it.", stage="rule")

    ### BEGIN HIDDEN TESTS
    test.hidden("all of them at two other places")
    names = ["a + b", "a - b", "a * b", "a / b", "-a", "a ** 3", "a ** -1", "a.tanh()", "a.exp()", "a.relu()"]
    names += ["b.relu()", "a - 2", "a / 4", "((a * 2 + b) * 3).tanh()", "(a / b - a.exp()) ** 2"]
    for x, y in ((-0.5, 2.25), (2.0, 0.5)):
        seen = observe_scenario(results_of, Value, names, x, y)
        judge(seen, x, y)
        seen.that(not seen.op_names(), "The class must do the work itself: torch is used inside it.", stage="rule")

    ### END HIDDEN TESTS

# %% check="micrograd" points=1
"""Values that are used several times, in expressions of any form."""
with check("micrograd") as test:

    def built(steps, values):
        """The last of the values that one gets by a list of steps [operation, position, position]."""
        values = list(values)
        for kind, i, j in steps:
            a, b = values[i], values[j]
            functions = {
                "add": lambda a=a, b=b: a + b,
                "sub": lambda a=a, b=b: a - b,
                "mul": lambda a=a, b=b: a * b,
                "div": lambda a=a, b=b: a / (b * b + 1),
                "tanh": lambda a=a: a.tanh(),
                "relu": lambda a=a: a.relu(),
                "exp": lambda a=a: (-a * a).exp(),
                "neg": lambda a=a: -a,
                "pow": lambda a=a: a**2,
            }
            values.append(functions[kind]())
        return values[-1]

    def gradients_of(Value, programs, numbers):
        """The gradients of all leaves, for each of the programs."""
        found = []
        for steps in programs:
            leaves = [Value(n) for n in numbers]
            built(steps, leaves).backward()
            found.append([leaf.grad for leaf in leaves])
        return found

    def in_torch(programs, numbers):
        """The same by torch, in float64."""
        found = []
        for steps in programs:
            leaves = [torch.tensor(n, dtype=torch.float64, requires_grad=True) for n in numbers]
            built(steps, leaves).backward()
            found.append([0.0 if leaf.grad is None else leaf.grad.item() for leaf in leaves])
        return found

    test("values that are used twice: a * a + a, and (a + b) * (a - b)")
    twice_used = [
        [["mul", 0, 0], ["add", 2, 0]],
        [["add", 0, 1], ["sub", 0, 1], ["mul", 2, 3]],
    ]
    seen = observe_scenario(gradients_of, Value, twice_used, [3.0, 2.0]).expecting(missing, wrapped)
    are_python_numbers(seen)
    seen.that(
        alike(seen.value, [[7.0, 0.0], [6.0, -4.0]]),
        f"The derivatives are wrong: expected [7, 0] and [6, -4], got {seen.value}.",
        mistake(
            "No gradient arrives: backward starts with d self / d self = 1.",
            when=lambda seen: not any(n for grads in seen.value for n in grads),
        ),
        mistake(
            "The incoming gradient is missing: each local derivative is multiplied by the gradient of the result, and "
            "then added.",
            when=lambda seen: alike(seen.value, [[7.0, 0.0], [2.0, 0.0]]),
        ),
        mistake(
            "A value that is used twice must receive the sum of both contributions: you overwrite its gradient (=) "
            "instead of adding (+=).",
            when=lambda seen: abs(seen.value[0][0]) in (1, 3),
        ),
        stage="gradient",
    )

    test("a result in between that two branches of different length use")
    diamonds = [
        # c = a * b;  d = -c;  out = d * c  (and the other way round, and longer); at the end one without a branch
        [["mul", 0, 1], ["neg", 2, 2], ["mul", 3, 2]],
        [["mul", 0, 1], ["neg", 2, 2], ["mul", 2, 3]],
        [["mul", 0, 1], ["neg", 2, 2], ["neg", 3, 3], ["mul", 2, 4], ["mul", 5, 3], ["add", 6, 2]],
        [["mul", 0, 1], ["neg", 2, 2]],
    ]
    seen = observe_scenario(gradients_of, Value, diamonds, [0.5, -0.75]).expecting(missing, wrapped)
    seen.that(
        alike(seen.value, in_torch(diamonds, [0.5, -0.75])),
        "The derivatives of -(a * b) are wrong already: the check above says more.",
        mistake(
            "A node passed its gradient on before all of its users had reported: process results before their inputs "
            "(topological order).",
            when=lambda seen: alike(seen.value[-1], [0.75, -0.5]),
        ),
        stage="gradient",
    )

    ### BEGIN HIDDEN TESTS
    test.hidden("longer branches, with other operations")
    longer = [
        [["mul", 0, 1], ["tanh", 2, 2], ["mul", 3, 2]],
        [["add", 0, 1], ["mul", 2, 2], ["tanh", 3, 3], ["exp", 4, 4], ["sub", 5, 2], ["mul", 6, 2], ["add", 2, 7]],
    ]
    seen = observe_scenario(gradients_of, Value, longer, [0.5, -0.75]).expecting(missing, wrapped)
    differs = (
        "The derivatives of longer expressions differ from those of torch. Where a single operation is wrong, the "
        "check above says which."
    )
    seen.that(alike(seen.value, in_torch(longer, [0.5, -0.75])), differs, stage="gradient")

    test.hidden("30 random expressions, compared with torch")
    generator = torch.Generator().manual_seed(12)
    kinds = ["add", "sub", "mul", "div", "tanh", "relu", "exp", "neg", "tanh", "mul", "add", "pow"]
    programs = []
    for _ in range(30):
        steps = []
        for k in range(12):
            kind = "tanh" if k % 4 == 3 else kinds[int(torch.randint(len(kinds), (), generator=generator))]
            newest = torch.randint(max(0, k - 2), 3 + k, (2,), generator=generator).tolist()
            steps.append([kind, *newest])
        programs.append(steps)
    seen = observe_scenario(gradients_of, Value, programs, [0.7, -1.1, 0.4]).expecting(missing, wrapped)
    seen.that(
        alike(seen.value, in_torch(programs, [0.7, -1.1, 0.4])),
        differs,
        stage="gradient",
    )
    ### END HIDDEN TESTS

# %% check="micrograd" points=1
"""backward again, many paths, long chains, numbers on the left, and values that hold 0."""
with check("micrograd") as test:

    def again_and_again(Value):
        """backward twice on one expression, then on another one that shares a part with it, then on that part."""
        a, b = Value(3.0), Value(2.0)
        c = a * b
        first, second = c * c + a, c + b * b
        noted = []
        for out in (first, first, second, c):
            out.backward()
            noted.append([a.grad, b.grad])
        return noted

    test("backward again: on one expression, on another one, on a part of both")
    # d first = [25, 36], d second = [2, 7], d c = [2, 3]
    seen = observe_scenario(again_and_again, Value).expecting(missing, wrapped)
    are_python_numbers(seen)
    seen.that(
        alike(seen.value, [[25.0, 36.0], [50.0, 72.0], [52.0, 79.0], [54.0, 82.0]]),
        "A second backward goes wrong: gradients left over in intermediate results are counted again. Start every call "
        "from zero for them, and only add to leaves.",
        mistake(
            "Two backward calls must add up in the leaves' .grad; yours start again.",
            when=lambda seen: alike(seen.value[:2], [[25.0, 36.0]] * 2) or alike(seen.value[2], [2.0, 7.0]),
        ),
        mistake(
            "The first backward is wrong already: the check above says more.",
            when=lambda seen: not alike(seen.value[0], [25.0, 36.0]),
        ),
        stage="gradient",
    )

    class TooMuchWork(BaseException):
        """More lines were run than any walk over the nodes needs."""

    def watched(lines, action):
        """What action returns, or a note that it ran more than so many lines of Python; torch's own don't count."""
        left = [lines]

        def trace(frame, event, argument):
            if frame.f_globals.get("__name__", "").startswith("torch"):
                return None
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

    def thirty_doublings(Value):
        """Compute v = v + v thirty times and run backward: the gradient of the first v."""
        leaf = Value(0.5)

        def run():
            v = leaf
            for _ in range(30):
                v = v + v
            v.backward()
            return leaf.grad

        return watched(100_000, run)

    def long_chain(Value):
        """Add 1 to a leaf 3000 times and run backward: the result, and the gradient of the leaf."""
        leaf = Value(0.5)
        v = leaf
        for _ in range(3000):
            v = v + 1
        v.backward()
        return [v.data, leaf.grad]

    too_deep = mistake(
        "Recursion stops at about 1000 levels: build the order with a list.", raises="RecursionError|recursion depth"
    )
    test("v = v + v, thirty times")
    observe_scenario(thirty_doublings, Value).expecting(missing, wrapped).returns(
        2.0**30,
        mistake(
            "The work explodes: 30 times v = v + v has a billion paths but 30 nodes. Visit every node once.",
            when=lambda seen: seen.value == "too much work",
        ),
        because="The derivative of v = v + v, thirty times, is 2 ** 30.",
    )

    def operation(name, a):
        """One operation by its name, for Values and for tensors."""
        functions = {
            "2 + a": lambda: 2 + a,
            "2 - a": lambda: 2 - a,
            "3 * a": lambda: 3 * a,
            "1 / a": lambda: 1 / a,
            "a.relu()": lambda: a.relu(),
            "(a - 3) ** 2": lambda: (a + -3) ** 2,
            "a + 0": lambda: a + 0,
            "a * 2": lambda: a * 2,
            "a.tanh()": lambda: a.tanh(),
        }
        return functions[name]()

    def results_of(Value, names, x):
        """Compute each operation and run backward: its value, and its derivative."""
        facts = {}
        for name in names:
            a = Value(x)
            out = operation(name, a)
            data = getattr(out, "data", out)
            out.backward()
            facts[name] = [data, a.grad]
        return facts

    def in_torch(name, x):
        """The same by torch, in float64."""
        a = torch.tensor(x, dtype=torch.float64, requires_grad=True)
        out = operation(name, a)
        out.backward()
        return [out.item(), a.grad.item()]

    def judge(seen, x, *mistakes):
        """Compare each operation with torch: the value, then the derivative."""
        for name, numbers in seen.value.items():
            wanted = in_torch(name, x)
            seen.that(alike(numbers[0], wanted[0]), f"The value of {name} is wrong.", *mistakes)
            seen.that(alike(numbers[1], wanted[1]), f"The derivative of {name} is wrong.", *mistakes, stage="gradient")

    test("Python numbers on the left: 2 + a, 2 - a, 3 * a, 1 / a")
    left = "Python numbers on the left side need __radd__, __rmul__, __rsub__, __rtruediv__{detail}"
    seen = observe_scenario(results_of, Value, ["2 + a", "2 - a", "3 * a", "1 / a"], 0.75)
    seen.expecting(
        mistake(left.replace("{detail}", ": {detail}."), raises="unsupported operand|__r[a-z]+__|must be real number"),
        mistake(
            left.replace("{detail}", "; 2 - a is not a - 2, and 1 / a is not a / 1."),
            stage=("value", "gradient"),
            when=lambda seen: alike(seen["2 - a"][0], 0.75 - 2) or alike(seen["1 / a"][0], 0.75),
        ),
    )
    judge(seen, 0.75)

    ### BEGIN HIDDEN TESTS
    test.hidden("a chain of 3000 additions")
    observe_scenario(long_chain, Value).expecting(missing, wrapped).returns(
        [3000.5, 1.0], too_deep, because="The derivative of a chain of additions is 1."
    )

    def compared(Value):
        """400 additions, one after the other, where each comparison of two Values costs a line."""
        leaf, own = Value(0.5), Value.__eq__
        inherited = "__eq__" not in vars(Value)

        def run():
            v = leaf
            for _ in range(400):
                v = v + 1
            v.backward()
            return leaf.grad

        Value.__eq__ = lambda one, other: own(one, other)
        try:
            return watched(150_000, run)
        finally:
            if inherited:
                del Value.__eq__
            else:
                Value.__eq__ = own

    test.hidden("a chain of 400 additions: the work grows with the nodes, not with their square")
    observe_scenario(compared, Value).expecting(missing, wrapped).returns(
        1.0,
        mistake(
            "The work grows with the square of the number of nodes: to look for a node in a list is to go through all "
            "of the list. Keep the visited nodes in a set.",
            when=lambda seen: seen.value == "too much work",
        ),
        too_deep,
        because="The derivative of a chain of additions is 1.",
    )

    def unequal_branches(Value):
        """Add to a value its own product with 1, 200 times, and run backward: the gradient of the first value."""
        leaf = Value(0.5)

        def run():
            v = leaf
            for _ in range(100):
                v = v + v * 1
                v = v * 1 + v
            v.backward()
            return leaf.grad

        return watched(100_000, run)

    test.hidden("v = v + v * 1 and v = v * 1 + v, a hundred times each")
    seen = observe_scenario(unequal_branches, Value).expecting(missing, wrapped, too_deep)
    seen.that(
        seen.value != "too much work",
        "The work explodes: a node passes on a part of its gradient, and then again, whenever more has arrived. Let it "
        "wait until everything that used it has reported.",
    )

    def fresh(Value):
        """A leaf before and after two backward calls of its own, and one that nobody used."""
        v, other = Value(1.5), Value(2.5)
        noted = [v.grad]
        for _ in range(2):
            v.backward()
            noted.append(v.grad)
        return [*noted, v.data, other.grad]

    test.hidden("a leaf: grad is 0.0 at first, and each backward of its own adds 1")
    observe_scenario(fresh, Value).expecting(missing, wrapped).returns(
        [0.0, 1.0, 2.0, 1.5, 0.0],
        mistake(
            "A leaf's own backward adds 1 to its grad, each time: yours sets it to 1.",
            gives=[0.0, 1.0, 1.0, 1.5, 0.0],
        ),
        because="A fresh leaf has its number in data and 0.0 in grad; its own backward adds 1 to its grad.",
    )

    def zeros(Value):
        """Run backward from a * b, where a is 0: the gradients of a and b."""
        a, b = Value(0.0), Value(2.0)
        (a * b).backward()
        return [a.grad, b.grad]

    holds_0 = "A value that holds 0 is a value like any other: test what it is, not whether it is true."
    test.hidden("values that hold 0, and the number 0")
    observe_scenario(zeros, Value).expecting(missing, wrapped).returns([2.0, 0.0], because=holds_0)
    by_division = mistake(
        "The slope of x ** n is n * x ** (n - 1); as n * x ** n / x it divides by 0 where x is 0. ({detail})",
        raises="ZeroDivisionError",
    )
    seen = observe_scenario(results_of, Value, ["(a - 3) ** 2", "a + 0"], 3.0).expecting(by_division, missing)
    judge(seen, 3.0, mistake(holds_0, stage=("value", "gradient")))
    seen = observe_scenario(results_of, Value, ["2 + a", "a * 2"], 0.0).expecting(missing, wrapped)
    judge(seen, 0.0, mistake(holds_0, stage=("value", "gradient")))

    test.hidden("relu at exactly 0")
    seen = observe_scenario(results_of, Value, ["a.relu()"], 0.0).expecting(missing, wrapped)
    judge(seen, 0.0, mistake("The derivative of relu at 0 is 0, as in torch.", stage="gradient"))

    test.hidden("tanh far out")
    too_large = mistake(
        "`exp` overflows where tanh is already 1; math.tanh is safe. ({detail})", raises="OverflowError"
    )
    for x in (400.0, -800.0):
        judge(observe_scenario(results_of, Value, ["a.tanh()"], x).expecting(too_large, missing), x)

    test.hidden("no torch and no numpy inside the class (this must also hold here)")
    seen = observe_scenario(used_libraries, Value)
    libraries = ", ".join(dict.fromkeys([*seen.value, *["torch"] * bool(seen.op_names())]))
    seen.that(not libraries, f"The class must do the work itself: {libraries} is used inside it.", stage="rule")
    ### END HIDDEN TESTS
