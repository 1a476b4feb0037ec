# %% [markdown]
# ### Exercise 5.8 · c times the identity, without the identity
#
# implement · solid · 18 min · 2 points
#
# `c * torch.eye(n)` stores n² numbers where one would be enough. Write a class that represents this matrix, that torch
# functions accept, and that never builds it. It is a plain class, not a subclass of Tensor.
#
# **Contract**
#
# - `E = ScaledEye(n, c)` has the attributes n and c; c is a float or a 0-d tensor.
# - These work, with the results of the dense matrix: `torch.matmul(E, t)`, `torch.matmul(t, E)`, `E @ t`, `t @ E` and
#   `t.matmul(E)` for t of shape (n,), (n, m) or (m, n), as it fits; `torch.trace(E)` and `torch.diagonal(E)`, which are
#   tensors. A float64 t gives a float64 result (c may have been rounded to float32).
# - `torch.add(E, F)` and `torch.matmul(E, F)` of two ScaledEyes give a ScaledEye. What `torch.add` does with anything
#   else is up to you.
# - You needn't support further arguments, such as `alpha` of `torch.add` or `offset` of `torch.diagonal`, but you must
#   not ignore them: they raise TypeError, or the result is right.
# - If c requires grad, gradients reach it.
# - A size that does not fit raises ValueError or RuntimeError. You may assume that t has one or two dimensions.
# - Every other torch function raises TypeError. Leave that to the protocol: if `__torch_function__` returns
#   NotImplemented, torch asks the classes of the other arguments, and raises if they also return NotImplemented. There
#   is no deprecation warning.
#
# **Rule.** No tensor of n · n elements is made: this is recorded, and n = 100,000 occurs in the tests.
#
# <details><summary>Hint 1</summary>
#
# `torch.matmul(E, t)` asks E's class what to do: with which four arguments, and what do you return for functions that
# you don't support?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# Write a classmethod with a table from torch functions to your own. `t @ E` arrives as a different function object from
# `torch.matmul` (print func), and `E @ t` first goes through Python's own protocol. If your functions get all of `args`
# and `kwargs`, Python itself raises TypeError for arguments that they don't have.
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# Multiplying by this matrix is multiplying by c, after you have compared the sizes; two ScaledEyes multiply or add
# their c. The diagonal is c, seen n times without being stored n times (chapter 2), and the trace needs no diagonal.
# Both of torch's names for a product need an entry in the table, and the class needs the one method that Python calls
# for `@`, which can call torch in turn.
#
# </details>


# %% answer="scaled-eye"
class ScaledEye:
    """Represents c * torch.eye(n) in torch functions; stores only n and c (float or 0-d tensor)."""

    ### BEGIN SOLUTION
    def __init__(self, n: int, c: float | Tensor):
        self.n, self.c = n, c

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        if kwargs:
            return NotImplemented
        if func in (torch.matmul, Tensor.matmul):
            return cls._product(*args)
        if func is torch.add and all(isinstance(arg, cls) for arg in args):
            return cls._combined(*args, args[0].c + args[1].c)
        if func is torch.diagonal and len(args) == 1:
            return torch.as_tensor(args[0].c).expand(args[0].n)
        if func is torch.trace:
            return torch.as_tensor(args[0].c * args[0].n)
        return NotImplemented

    @classmethod
    def _product(cls, left, right):
        if isinstance(left, cls) and isinstance(right, cls):
            return cls._combined(left, right, left.c * right.c)
        if isinstance(left, cls):
            eye, t, size = left, right, right.shape[:1]
        else:
            eye, t, size = right, left, left.shape[-1:]
        if size != (eye.n,):
            raise ValueError(f"{eye.n} × {eye.n} does not fit a tensor of shape {tuple(t.shape)}")
        return eye.c * t

    @classmethod
    def _combined(cls, left, right, c):
        if left.n != right.n:
            raise ValueError(f"the sizes {left.n} and {right.n} do not fit")
        return cls(left.n, c)

    def __matmul__(self, other):
        return torch.matmul(self, other)

    ### END SOLUTION
    ### BEGIN GIVEN
    # def __init__(self, n: int, c: float | Tensor):
    #     raise NotImplementedError  # your code here
    ### END GIVEN


# %% helpers="scaled-eye"
def product(ScaledEye, spelling, n, c, t):
    """With E = ScaledEye(n, c), compute the product as spelled."""
    E = ScaledEye(n, c)
    if spelling == "torch.matmul(E, t)":
        return torch.matmul(E, t)
    if spelling == "torch.matmul(t, E)":
        return torch.matmul(t, E)
    if spelling == "E @ t":
        return E @ t
    return t @ E if spelling == "t @ E" else t.matmul(E)


refused = mistake(
    "torch functions refuse the object: it needs a classmethod __torch_function__(cls, func, types, args=(), "
    "kwargs=None).",
    raises="must be Tensor, not ",
)


def dense(seen, n):
    """The operations that made a tensor of n * n elements or more."""
    return ", ".join(dict.fromkeys(op["name"] for op in seen.noted.ops if op["elements"] >= n * n))


# %% check="scaled-eye" points=1
"""Products with a tensor, from both sides, without a dense matrix."""
with check("scaled-eye") as test:

    def handler(ScaledEye):
        """What kind of thing ScaledEye is."""
        is_class = isinstance(ScaledEye, type)
        return {"class": is_class, "tensor": is_class and issubclass(ScaledEye, Tensor)}

    vector = torch.tensor([1.0, -2.0, 4.0])
    matrix = torch.tensor([[1.0, 2.0], [3.0, 5.0], [-4.0, 7.0]])

    test("ScaledEye is a plain class, no subclass of Tensor")
    seen = observe_scenario(handler, ScaledEye)
    seen.that(seen["class"], "ScaledEye must be a class.", stage="type")
    seen.that(not seen["tensor"], "ScaledEye must be a plain class, not a subclass of Tensor.", stage="rule")

    test("torch.matmul(E, t) for a vector and a matrix, n = 3 and c = 2.5")
    seen = observe_scenario(product, ScaledEye, "torch.matmul(E, t)", 3, 2.5, vector)
    seen.returns(torch.tensor([2.5, -5.0, 10.0]), refused)
    seen.leaves_arguments_alone()
    seen = observe_scenario(product, ScaledEye, "torch.matmul(E, t)", 3, 2.5, matrix)
    seen.returns(torch.tensor([[2.5, 5.0], [7.5, 12.5], [-10.0, 17.5]]), refused)

    one_sided = mistake("The product must work from both sides: {detail}", stage=("raised", "type", "shape", "value"))
    test("torch.matmul(t, E) for a vector and a matrix")
    seen = observe_scenario(product, ScaledEye, "torch.matmul(t, E)", 3, 2.5, vector)
    seen.returns(torch.tensor([2.5, -5.0, 10.0]), one_sided)
    seen = observe_scenario(product, ScaledEye, "torch.matmul(t, E)", 3, 2.5, matrix.t())
    seen.returns(torch.tensor([[2.5, 7.5, -10.0], [5.0, 12.5, 17.5]]), one_sided)

    test("n = 1000: no n × n tensor")
    long = torch.arange(1000.0)
    for seen, expected in [
        (observe_scenario(product, ScaledEye, "torch.matmul(E, t)", 1000, 2.0, long), 2 * long),
        (observe_scenario(product, ScaledEye, "torch.matmul(t, E)", 1000, 2.0, long), 2 * long),
    ]:
        made = dense(seen, 1000)
        seen.that(
            not made,
            "A dense n x n tensor was made, by {detail}. c * t is all that a product needs.",
            stage="rule",
            detail=made,
        )
        seen.returns(expected)

    ### BEGIN HIDDEN TESTS
    test.hidden("other numbers, n = 3")
    for c in (-0.75, 4.0):
        seen = observe_scenario(product, ScaledEye, "torch.matmul(E, t)", 3, c, matrix)
        seen.returns(c * matrix, because="The product is not that of the dense matrix.")
    ### END HIDDEN TESTS

# %% check="scaled-eye" points=1
"""Trace, diagonal, operators, two ScaledEyes; unknown functions and further arguments; gradients of c."""
with check("scaled-eye") as test:

    def handler(ScaledEye):
        """Look up `__torch_function__` in the class, and tensors in an object; does torch warn when it meets one?"""
        is_class = isinstance(ScaledEye, type)
        facts = {"class": is_class, "tensor": is_class and issubclass(ScaledEye, Tensor)}
        if facts["tensor"]:
            return facts
        E = ScaledEye(30, 2.5)
        torch.matmul(E, torch.ones(30))
        stored = [t for t in getattr(E, "__dict__", {}).values() if isinstance(t, Tensor)]
        found = inspect.getattr_static(ScaledEye, "__torch_function__", None)
        return facts | {
            "kind": type(found).__name__,
            "stored": max([t.untyped_storage().nbytes() // t.element_size() for t in stored], default=0),
        }

    vector = torch.tensor([1.0, -2.0, 4.0])
    matrix = torch.tensor([[1.0, 2.0], [3.0, 5.0], [-4.0, 7.0]])

    test("__torch_function__ is a classmethod, torch does not warn, and an object stores n and c only")
    seen = observe_scenario(handler, ScaledEye).expecting(refused)
    seen.that(seen["class"], "ScaledEye must be a class.", stage="type")
    seen.that(not seen["tensor"], "ScaledEye must be a plain class, not a subclass of Tensor.", stage="rule")
    plain = "`__torch_function__` is a plain method: deprecated. Make it a classmethod."
    seen.that(seen["kind"] != "function", plain, stage="rule")
    seen.warned_nothing(because="torch warns about the class: {detail}")
    seen.that(
        seen["stored"] < 30,
        f"ScaledEye(30, 2.5) stores a tensor of {seen['stored']} numbers, where n and c are enough. Such a tensor "
        "also keeps its old numbers when c is changed in place. Compute results from c when they are asked for.",
        stage="rule",
    )

    test("also E @ t, t @ E and t.matmul(E)")
    for spelling in ("E @ t", "t @ E", "t.matmul(E)"):
        must_work = mistake(
            f"{spelling} must also work: {{detail}}. The operators arrive as function objects other than "
            f"torch.matmul, and E @ t starts with Python's own __matmul__.",
            raises="^TypeError",
        )
        seen = observe_scenario(product, ScaledEye, spelling, 3, 2.5, vector)
        seen.returns(
            torch.tensor([2.5, -5.0, 10.0]),
            refused,
            must_work,
            mistake(f"The product must work from both sides, here {spelling}: {{detail}}", raises="."),
        )

    def applied(ScaledEye, function, n, c):
        """Call this torch function on ScaledEye(n, c)."""
        E = ScaledEye(n, c)
        return torch.trace(E) if function == "trace" else torch.diagonal(E)

    no_trace = mistake(
        "The trace is the sum of the diagonal, n times c, as a 0-d tensor: {detail}", stage=("type", "shape", "value")
    )
    no_diagonal = mistake("The diagonal has n entries, each of them c: {detail}", stage=("type", "shape", "value"))
    test("trace and diagonal of 2.5 times the identity, n = 3: tensors")
    observe_scenario(applied, ScaledEye, "trace", 3, 2.5).returns(torch.tensor(7.5), refused, no_trace)
    observe_scenario(applied, ScaledEye, "diagonal", 3, 2.5).returns(
        torch.tensor([2.5, 2.5, 2.5]), refused, no_diagonal
    )

    def combined(ScaledEye, function, n, c, m, d):
        """Call this torch function on ScaledEye(n, c) and ScaledEye(m, d); then multiply the result by ones."""
        E, F = ScaledEye(n, c), ScaledEye(m, d)
        out = torch.add(E, F) if function == "add" else torch.matmul(E, F)
        if not isinstance(out, ScaledEye):
            return {"kind": type(out).__name__}
        times_ones = torch.matmul(out, torch.ones(n)) if n < 9 else None
        return {"kind": "ScaledEye", "n": out.n, "c": float(out.c), "times ones": times_ones}

    again = mistake(
        "The sum (or product) of two ScaledEyes is a ScaledEye again: {detail}",
        when=lambda seen: seen.noted.raised or seen["kind"] != "ScaledEye",
    )
    test("torch.add and torch.matmul of two, with the factors 2.5 and 4 and n = 3")
    seen = observe_scenario(combined, ScaledEye, "add", 3, 2.5, 3, 4.0)
    seen.returns({"kind": "ScaledEye", "n": 3, "c": 6.5, "times ones": torch.full((3,), 6.5)}, again)
    seen = observe_scenario(combined, ScaledEye, "matmul", 3, 2.5, 3, 4.0)
    seen.returns(
        {"kind": "ScaledEye", "n": 3, "c": 10.0, "times ones": torch.full((3,), 10.0)},
        mistake(
            "The product of two ScaledEyes multiplies their factors: {detail}",
            when=lambda seen: seen["c"] == 6.5,
        ),
        again,
    )

    def unknown(ScaledEye, name):
        """Call a torch function that ScaledEye does not know."""
        E = ScaledEye(3, 2.5)
        function = {"torch.exp": torch.exp, "torch.linalg.inv": torch.linalg.inv, "torch.sum": torch.sum}.get(name)
        try:
            out = function(E) if function else torch.sub(E, E)
        except Exception as error:
            return {"outcome": f"it raised {type(error).__name__}", "kinds": [t.__name__ for t in type(error).__mro__]}
        return {"outcome": f"it returned an object of type {type(out).__name__}", "kinds": []}

    def ends_in_type_error(seen, name):
        """Judge what came of an unknown function."""
        seen.that(
            "TypeError" in seen["kinds"],
            f"An unknown function must end in TypeError; return NotImplemented from __torch_function__. For {name} "
            f"{seen['outcome']}.",
        )

    test("torch.exp(E) and torch.linalg.inv(E) raise TypeError")
    for name in ("torch.exp", "torch.linalg.inv"):
        ends_in_type_error(observe_scenario(unknown, ScaledEye, name), name)

    ### BEGIN HIDDEN TESTS
    spellings = "torch.matmul(E, t)", "torch.matmul(t, E)", "E @ t", "t @ E", "t.matmul(E)"
    other_dtype = mistake(
        "t may also be float64, and then the result must be float64: {detail}. c * t keeps the dtype of t.",
        raises="same dtype|expected scalar type",
    )
    for spelling in spellings:
        test.hidden(spelling)
        must_work = mistake(
            f"{spelling} must also work: {{detail}}. The operators arrive as function objects other than "
            f"torch.matmul, and E @ t starts with Python's own __matmul__.",
            stage=("raised", "type"),
        )
        from_left = spelling.index("E") < spelling.rindex("t")
        for t in (
            vector,
            matrix if from_left else matrix.t(),
            vector.double(),
            torch.empty((3, 0)[:: 1 if from_left else -1]),
        ):
            seen = observe_scenario(product, ScaledEye, spelling, 3, -0.75, t)
            seen.returns(
                -0.75 * t, other_dtype, must_work, mistake("The dtype of t must be kept: {detail}", stage="dtype")
            )
            seen.warned_nothing(because="torch warns about the class: {detail}")

    for n in (12, 1000, 100_000):
        test.hidden(f"n = {n:,}: no n × n tensor")
        t = torch.arange(2.0 * n).reshape(n, 2)
        for spelling in spellings:
            from_left = spelling.index("E") < spelling.rindex("t")
            seen = observe_scenario(product, ScaledEye, spelling, n, 2.0, t if from_left else t.t())
            made = dense(seen, n)
            seen.that(
                not made,
                "A dense n x n tensor was made, by {detail}. c * t is all that the product needs.",
                stage="rule",
                detail=made,
            )
            seen.returns(2 * (t if from_left else t.t()))

    def no_gradient_of_c(sentence):
        """What a learner reads where c gets no gradient."""
        return mistake(
            f"No gradient reaches c{sentence}.",
            stage="gradient",
            when=lambda seen: list(seen.noted.gradients.values())[:1] in ([], [None]),
        )

    lost = no_gradient_of_c(": it was converted to a Python number")
    t = vector.clone().requires_grad_()
    g = incoming_gradient(t)
    for spelling in spellings:
        test.hidden(f"{spelling}: gradients reach c and t")
        for number in (1.5, 1.0, 0.0):
            special = no_gradient_of_c(f" where c is {number:g}: a special case for this number leaves c out")
            seen = observe_scenario(product, ScaledEye, spelling, 3, torch.tensor(number, requires_grad=True), t)
            seen.returns(number * t.detach())
            names = list(seen.noted.arguments)
            seen.gives_gradients(
                {names.index("c"): (g * t).sum().detach(), names.index("t"): number * g},
                lost if number == 1.5 else special,
            )

    for spelling in spellings:
        test.hidden(f"{spelling}: a size that does not fit is refused")
        from_left = spelling.index("E") < spelling.rindex("t")
        for size in (
            (4,),
            (1,),
            (2,),
            (4, 2),
            (1, 3) if from_left else (3, 1),
            (2, 3) if from_left else (3, 2),
            (4, 4),
        ):
            seen = observe_scenario(product, ScaledEye, spelling, 3, 2.5, torch.ones(size))
            seen.raises(
                ValueError,
                RuntimeError,
                because=f"A size that does not fit must raise ValueError or RuntimeError: {spelling} with n = 3 and "
                f"t of shape {size}.",
            )

    for name in ("torch.sum", "torch.sub"):
        test.hidden(f"{name} raises TypeError")
        ends_in_type_error(observe_scenario(unknown, ScaledEye, name), name)

    def with_more(ScaledEye, call):
        """With E = ScaledEye(3, 2.5) and F = ScaledEye(3, 4.0), make this call."""
        E, F = ScaledEye(3, 2.5), ScaledEye(3, 4.0)
        try:
            if call == "torch.add(E, F, alpha=2)":
                return float(torch.add(E, F, alpha=2).c)
            if call == "torch.matmul(E, t, out=given)":
                given = torch.zeros(3)
                torch.matmul(E, torch.ones(3), out=given)
                return given.tolist()
            return (torch.diagonal(E, offset=1) if "=" in call else torch.diagonal(E, 1)).tolist()
        except TypeError:
            return "TypeError"

    for call, right in [
        ("torch.add(E, F, alpha=2)", 10.5),
        ("torch.diagonal(E, offset=1)", [0.0, 0.0]),
        ("torch.diagonal(E, 1)", [0.0, 0.0]),
        ("torch.matmul(E, t, out=given)", [2.5, 2.5, 2.5]),
    ]:
        test.hidden(f"{call}: TypeError, or right")
        seen = observe_scenario(with_more, ScaledEye, call)
        seen.that(
            seen.value in ("TypeError", right),
            f"{call}: the additional argument was ignored, and the result is wrong. Raise TypeError for arguments that "
            "you don't support.",
        )

    def in_company(ScaledEye):
        """Call a torch function that ScaledEye does not know, but the class of the other argument does."""

        class Willing:
            @classmethod
            def __torch_function__(cls, func, types, args=(), kwargs=None):
                return "asked"

        return torch.atan2(ScaledEye(3, 2.5), Willing())

    test.hidden("an unknown function is left to the class of the other argument")
    observe_scenario(in_company, ScaledEye).returns(
        "asked",
        mistake(
            "An unknown function must end in the protocol's own TypeError: where __torch_function__ returns "
            "NotImplemented, torch also asks the class of the other argument. Here it was not asked.",
            stage=("raised", "type", "value"),
        ),
    )

    for n in (12, 1000, 100_000):
        test.hidden(f"n = {n:,}: no n × n tensor")
        for seen, expected in [
            (observe_scenario(applied, ScaledEye, "trace", n, -0.5), torch.tensor(-0.5 * n)),
            (observe_scenario(applied, ScaledEye, "diagonal", n, -0.5), torch.full((n,), -0.5)),
        ]:
            made = dense(seen, n)
            seen.that(not made, "A dense n x n tensor was made, by {detail}.", stage="rule", detail=made)
            seen.returns(expected)
        for function, c in (("add", 1.75), ("matmul", -1.5)):
            seen = observe_scenario(combined, ScaledEye, function, n, -0.5 if function == "matmul" else -1.25, n, 3.0)
            made = dense(seen, n)
            seen.that(not made, "A dense n x n tensor was made, by {detail}.", stage="rule", detail=made)
            seen.returns({"kind": "ScaledEye", "n": n, "c": c, "times ones": None}, again)

    lost = mistake(
        "No gradient reaches c: it was converted to a Python number.",
        stage="gradient",
        when=lambda seen: not seen.noted.gradients or None in seen.noted.gradients.values(),
    )
    c = torch.tensor(1.5, requires_grad=True)
    for function, value, factor in [("trace", torch.tensor(6.0), 4), ("diagonal", torch.full((4,), 1.5), 1)]:
        test.hidden(f"torch.{function}: gradients reach c")
        seen = observe_scenario(applied, ScaledEye, function, 4, c)
        seen.returns(value)
        seen.gives_gradients({2: incoming_gradient(value).sum() * factor}, lost)

    def factor_of(ScaledEye, function, c, d):
        """Call this torch function on ScaledEye(5, c) and ScaledEye(5, d), and read c of the result."""
        E, F = ScaledEye(5, c), ScaledEye(5, d)
        return (torch.add(E, F) if function == "add" else torch.matmul(E, F)).c

    for function, value, slopes in [("add", 3.5, (1, 1)), ("matmul", 3.0, (2, 1.5))]:
        test.hidden(f"torch.{function} of two: gradients reach both factors")
        pair = torch.tensor(1.5, requires_grad=True), torch.tensor(2.0, requires_grad=True)
        seen = observe_scenario(factor_of, ScaledEye, function, *pair)
        seen.returns(torch.tensor(value))
        g = incoming_gradient(torch.tensor(value))
        seen.gives_gradients({1: g * slopes[0], 2: g * slopes[1]}, lost)

    test.hidden("two of different sizes are refused")
    for function in ("add", "matmul"):
        for n, m in ((3, 4), (4, 3), (1, 3)):
            seen = observe_scenario(combined, ScaledEye, function, n, 2.5, m, 4.0)
            seen.raises(
                ValueError,
                RuntimeError,
                because=f"A size that does not fit must raise: torch.{function} of two with n = {n} and n = {m}.",
            )
    ### END HIDDEN TESTS
