# %% [markdown]
# ### Exercise 12.7 · AdamW and its schedule by hand
#
# implement · solid · 25 min · 2 points
#
# Write the step that trains your model, and the learning rate that it uses.
#
# **Contract**
#
# - `learning_rate(step, peak, warmup, total, floor)` returns a float. In the steps 0 … warmup - 1 it climbs evenly,
#   from peak / warmup in step 0 to peak in step warmup - 1. Then it falls along half a cosine, from peak in step warmup
#   to floor in step total, and stays there. With warmup 0 it starts at peak. 0 ≤ warmup < total. (nanoGPT divides by
#   warmup + 1, and reaches peak a step later.)
# - `adamw_step(params, state, lr, betas, eps, weight_decay)` changes params in place as `torch.optim.AdamW` does, and
#   returns None. Only parameters with two or more dimensions decay. The decay comes first, from the old weight, and
#   does not go through the moments.
# - `state` is an empty dict before the first call. Keep what the next call needs in it, under the parameter's index,
#   and nothing anywhere else. `copy.deepcopy(state)` must work.
# - A parameter whose `.grad` is None is skipped: it doesn't decay, and this call doesn't count in its t.
# - Nothing is added to a graph, and gradients are not changed.
#
# **Rule.** Do not use `torch.optim`, neither its optimizers nor the functions in its modules.
#
# <details><summary>Hint 1</summary>
#
# What would the rate of step 0 be if the climb started at zero? How far has a moment that started at zero come after
# one step?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# Keep two moments and a count for each parameter. In a parameter's t-th step, divide the moments by 1 - beta1 ** t and
# 1 - beta2 ** t. The cosine's progress is (step - warmup) / (total - warmup), at most 1.
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# Work without a graph. For each parameter with a gradient, first shrink it by lr · weight_decay of itself if it has two
# or more dimensions. Then count, move the first moment towards g and the second towards g², and subtract lr · m̂ / (√v̂
# + eps), where m̂ and v̂ are the corrected moments. Half a cosine goes from 1 to 0 as (1 + cos(π · progress)) / 2;
# stretch it to the range between floor and peak.
#
# </details>


# %% answer="adamw-by-hand"
def learning_rate(step: int, peak: float, warmup: int, total: int, floor: float) -> float:
    """The rate of a step, counted from 0: up to peak, then along half a cosine down to floor."""
    ### BEGIN SOLUTION
    if step < warmup:
        return peak * (step + 1) / warmup
    progress = min(1.0, (step - warmup) / (total - warmup))
    return floor + (peak - floor) * (1 + math.cos(math.pi * progress)) / 2
    ### END SOLUTION


def adamw_step(
    params: list[Tensor],
    state: dict[int, dict],
    lr: float,
    betas: tuple[float, float],
    eps: float,
    weight_decay: float,
) -> None:
    """One step of AdamW, in place; each parameter has its .grad.

    state holds moments and counts by index.
    """
    ### BEGIN SOLUTION
    with torch.no_grad():
        for index, p in enumerate(params):
            if p.grad is None:
                continue
            if index not in state:
                state[index] = {"t": 0, "m": torch.zeros_like(p), "v": torch.zeros_like(p)}
            own = state[index]
            own["t"] += 1
            own["m"].lerp_(p.grad, 1 - betas[0])
            own["v"].lerp_(p.grad.square(), 1 - betas[1])
            mean = own["m"] / (1 - betas[0] ** own["t"])
            square = own["v"] / (1 - betas[1] ** own["t"])
            if p.dim() > 1:
                p.mul_(1 - lr * weight_decay)
            p.sub_(lr * mean / (square.sqrt() + eps))
    ### END SOLUTION


# %% helpers="adamw-by-hand"
def rates(learning_rate, steps, peak, warmup, total, floor):
    """Ask for the rates of these steps."""
    found = [learning_rate(step, peak, warmup, total, floor) for step in steps]
    others = {type(rate).__name__ for rate in found if not isinstance(rate, (int, float)) or isinstance(rate, bool)}
    return {"types": sorted(others), "rates": found if others else [float(rate) for rate in found]}


def judge_rates(seen):
    """They are numbers."""
    seen.that(not seen["types"], f"The rate must be a float, not of type {', '.join(seen['types'])}.", stage="type")


def near(a, b):
    """Whether two numbers agree."""
    return abs(a - b) < 1e-4


def gradients(shapes, steps, zoom=1.0):
    """For each step a gradient for each shape, without zeros or equal values."""
    sizes = [math.prod(shape) for shape in shapes]
    return [
        [
            ((torch.arange(float(size)) * (7 - 2 * k) + (3 - k) * t) % (11 - 4 * k) / (4 - k) - 1.1 + k / 5).mul(zoom)
            for k, size in enumerate(sizes)
        ]
        for t in range(steps)
    ]


def stepped(adamw_step, start, grads, lr, betas, eps, weight_decay):
    """Make parameters and, step by step, set their gradients and call `adamw_step`; note the values after each step."""
    params, state, values, by_torch = [nn.Parameter(p.clone()) for p in start], {}, [], []
    places, kept = [p.data_ptr() for p in params], True

    def note(module, name):
        """Note one call of a function."""
        if module.startswith("torch.optim"):
            by_torch.append(name)

    for of_step in grads:
        for p, grad in zip(params, of_step, strict=True):
            p.grad = None if grad is None else grad.clone().reshape(p.shape)
        with noting_calls(note) as unseen:
            came = adamw_step(params, state, lr, betas, eps, weight_decay)
        by_torch += unseen
        values.append([p.detach().clone() for p in params])
        for p, grad in zip(params, of_step, strict=True):
            same = p.grad is None if grad is None else p.grad is not None and torch.equal(p.grad.flatten(), grad)
            kept = kept and same
    return {
        "values": values,
        "came": came,
        "gradients kept": kept,
        "in place": places == [p.data_ptr() for p in params] and all(p.requires_grad and p.is_leaf for p in params),
        "torch.optim": bool(by_torch),
    }


def by_torch(start, grads, lr, betas, eps, weight_decay):
    """The values after each step of torch's own AdamW, with decay for two and more dimensions only. An optimizer calls
    this function, too; to make the first optimizer takes half a second."""
    adamw = sys.modules["torch.optim.adamw"].adamw  # torch.optim hides its modules
    params, values = [p.clone() for p in start], []
    kept = [([torch.zeros_like(p)], [torch.zeros_like(p)], [], [torch.tensor(0.0)]) for p in params]
    how = {"lr": lr, "beta1": betas[0], "beta2": betas[1], "eps": eps}
    how |= {"amsgrad": False, "maximize": False, "foreach": False}
    for of_step in grads:
        for p, grad, state in zip(params, of_step, kept, strict=True):
            if grad is not None:
                decay = weight_decay if p.dim() > 1 else 0.0
                adamw([p], [grad.reshape(p.shape)], *state, **how, weight_decay=decay)
        values.append([p.clone() for p in params])
    return values


def judge_steps(seen, right, *mistakes, because=""):
    """The values after each step."""
    seen.that(seen["came"] is None, "Return nothing: the parameters change in place.", stage="type")
    own = "Write AdamW yourself, without torch.optim."
    seen.that(not seen["torch.optim"], own, stage="rule")
    seen.avoided("_fused_adamw_", "_fused_adam_", because=own)
    pairs = [pair for a, b in zip(seen["values"], right, strict=True) for pair in zip(a, b, strict=True)]
    same = all(a.dtype == b.dtype and torch.allclose(a, b, rtol=1e-4, atol=1e-6) for a, b in pairs)
    seen.that(same, because or "The parameters differ from those of torch.optim.AdamW.", *mistakes)
    seen.that(
        seen["in place"],
        "The parameters have different memory, or are no longer leaves that require grad. Update them in place.",
        stage="aliasing",
    )
    seen.that(seen["gradients kept"], "Your code changed a gradient. Only read gradients.", stage="arguments")


under_no_grad = mistake(
    "Update the parameters in place, under no_grad.",
    raises="leaf Variable that requires grad|a view of a leaf|does not require grad",
)


# %% check="adamw-by-hand" points=1
"""The rate climbs to peak and falls to floor; four steps equal those of torch.optim.AdamW."""
with check("adamw-by-hand") as test:
    test("peak 0.8, four steps of warm-up, 10 steps in all, floor 0.2: the climb")
    seen = observe_scenario(rates, learning_rate, list(range(11)), 0.8, 4, 10, 0.2)
    judge_rates(seen)
    climb = [round(rate, 4) for rate in seen["rates"][:4]]
    later = [step for step in range(4) if not near(climb[step], 0.8 * (step + 1) / 5)]
    seen.that(
        all(map(near, climb, [0.2, 0.4, 0.6, 0.8])),
        f"In steps 0 to 3 the rate is 0.2, 0.4, 0.6, 0.8, but you return {', '.join(map(str, climb))}.",
        mistake(
            "The rate of step 0 must be peak / warmup: with 0 the first step is wasted.",
            when=lambda seen: seen["rates"][0] == 0,
        ),
        mistake(
            "You divide by warmup + 1, so the climb ends one step too late. The rate must be peak in step warmup - 1.",
            when=lambda seen: not later,
        ),
    )

    test("the same rate: the top in step 4, the middle in step 7, floor in step 10")
    top, middle, end = (round(seen["rates"][step], 4) for step in (4, 7, 10))
    fall = [0.8, 0.7598, 0.65, 0.5, 0.35, 0.2402, 0.2]  # in the steps 4 to 10
    line = [0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2]
    off = [step for step, rate in enumerate(fall, 4) if not near(seen["rates"][step], rate)]

    def listed(numbers):
        """Numbers as a text."""
        return ", ".join(str(round(number, 4)) for number in numbers)

    seen.that(
        not off,
        f"In steps {listed(off)} the rate is {listed(fall[step - 4] for step in off)}, but you return "
        f"{listed(seen['rates'][step] for step in off)}.",
        mistake(
            "Your rate falls along a straight line. It should fall along half a cosine: slowly at first, fastest "
            "in the middle, slowly again at the end.",
            when=lambda seen: all(map(near, seen["rates"][4:11], line)),
        ),
        mistake(
            "The cosine starts at peak after the warm-up. Don't count its steps from step 0.",
            when=lambda seen: near(top, 0.5927),
        ),
        mistake(
            "The fall takes total - warmup steps, not total, because it must end in step total.",
            when=lambda seen: near(end, 0.4073),
        ),
        mistake(
            "The cosine has the height peak - floor, but yours starts above peak.", when=lambda seen: near(top, 1.0)
        ),
        mistake(
            "Your cosine falls to zero and is cut off at floor, so it gets there too early. It must end at floor.",
            when=lambda seen: near(middle, 0.4) and near(end, 0.2),
        ),
        mistake("The cosine must end at floor.", when=lambda seen: near(top, 0.8) and near(end, 0.0)),
    )

    test("four steps of a matrix and a bias: the same as torch.optim.AdamW, with decay for the matrix only")
    shapes, settings = [(2, 3), (3,)], (0.1, (0.8, 0.9), 0.05, 0.5)  # lr, betas, eps, weight_decay
    start = [torch.tensor([[1.0, -2.0, 0.5], [3.0, -0.25, 1.5]]), torch.tensor([0.8, -1.2, 0.4])]
    seen = observe_scenario(stepped, adamw_step, start, gradients(shapes, 4), *settings)
    seen.expecting(under_no_grad)

    def ends(weight, bias):
        """Whether the first values of matrix and bias are these in the end."""
        return lambda seen: all(
            abs(p.flatten()[0].item() - wrong) < 2e-4
            for p, wrong in zip(seen["values"][-1], (weight, bias), strict=True)
        )

    judge_steps(
        seen,
        by_torch(start, gradients(shapes, 4), *settings),
        mistake(
            "The parameters haven't changed, because `p = p - …` makes a new tensor. Change them in place.",
            when=lambda seen: all(map(torch.equal, seen["values"][-1], start)),
        ),
        mistake(
            "You divide by 0: 1 - beta ** t is 0 for t = 0. The first step counts as t = 1.",
            when=lambda seen: not seen["values"][0][0].isfinite().all(),
        ),
        mistake(
            "You add the decay to the gradient, as Adam does. AdamW shrinks the weight itself.",
            when=ends(1.0149, 0.9581),
        ),
        mistake(
            "Moments that start at zero are too small at first. Divide both by 1 - beta ** t.",
            when=lambda seen: ends(0.9201, 0.8969)(seen) or ends(1.2204, 1.2114)(seen),
        ),
        mistake("Your count is one too small. The first step counts as t = 1.", when=ends(1.0008, 0.984)),
        mistake("Add `eps` after the square root, not inside.", when=ends(0.9782, 0.9613)),
        mistake(
            "Add `eps` last, to the root of the corrected moment. You correct `eps` along with the moment.",
            when=ends(0.9614, 0.9419),
        ),
        mistake(
            "Parameters with fewer than two dimensions must not decay.",
            when=lambda seen: ends(0.9745, 0.7877)(seen) or ends(1.1831, 0.7877)(seen),
        ),
        mistake("The decay must come before the step and use the old weight.", when=ends(0.9665, 0.9581)),
        mistake("The decay of a step is lr * weight_decay, not weight_decay alone.", when=ends(0.0851, 0.9581)),
        mistake("The matrix does not decay.", when=ends(1.1831, 0.9581)),
    )


# %% check="adamw-by-hand" points=1
"""No warm-up; steps after the end; missing and tiny gradients, other shapes, a copied state."""
with check("adamw-by-hand") as test:
    test("the rate in steps 0, 3, 4, 7 and 10, and one step of a matrix (here both must be right, too)")
    seen = observe_scenario(rates, learning_rate, [0, 3, 4, 7, 10], 0.8, 4, 10, 0.2).expecting(FIRST_CHECK_FIRST)
    judge_rates(seen)
    seen.that(all(map(near, seen["rates"], [0.2, 0.8, 0.8, 0.5, 0.2])), "")
    usual = (0.1, (0.8, 0.9), 0.05, 0.5)  # lr, betas, eps, weight_decay
    start = [torch.tensor([[1.0, -2.0, 0.5], [3.0, -0.25, 1.5]]), torch.tensor([0.8, -1.2, 0.4])]
    grads = gradients([(2, 3), (3,)], 2)
    seen = observe_scenario(stepped, adamw_step, start, grads, *usual).expecting(under_no_grad, FIRST_CHECK_FIRST)
    judge_steps(seen, by_torch(start, grads, *usual))

    ### BEGIN HIDDEN TESTS
    test.hidden("a rate without warm-up")
    seen = observe_scenario(rates, learning_rate, [0, 5, 10], 0.6, 0, 10, 0.0)
    seen.expecting(mistake("With warmup 0 the rate begins at peak: {detail}", raises="ZeroDivisionError"))
    judge_rates(seen)
    seen.that(all(map(near, seen["rates"], [0.6, 0.3, 0.0])), "With warmup 0 the rate begins at peak, and falls.")

    test.hidden("a rate after the last step")
    seen = observe_scenario(rates, learning_rate, [12, 13, 20, 35], 0.6, 2, 12, 0.1)
    judge_rates(seen)
    seen.that(
        all(near(rate, 0.1) for rate in seen["rates"]),
        "After total the rate must stay at floor.",
        mistake(
            "After total the rate must stay at floor, but your cosine continues and rises again.",
            when=lambda seen: near(seen["rates"][0], 0.1) and max(seen["rates"]) > 0.11,
        ),
    )

    def by_hand(start, grads, lr, betas, eps, weight_decay, shared="", decays=False, as_zeros=False):
        """The values after the last step, with misconceptions on parameters without gradient: all share the number of
        calls, or of the first parameter's steps."""
        values = []
        for k, p in enumerate(start):
            p, m, v, t = p.clone(), torch.zeros_like(p), torch.zeros_like(p), 0
            for count, of_step in enumerate(grads, 1):
                grad = of_step[k]
                skipped = grad is None and not as_zeros
                if not skipped or decays:
                    p *= 1 - lr * weight_decay * (p.dim() > 1)
                if not skipped:
                    grad, t = torch.zeros_like(p) if grad is None else grad.reshape(p.shape), t + 1
                    m, v = betas[0] * m + (1 - betas[0]) * grad, betas[1] * v + (1 - betas[1]) * grad**2
                    of_first = sum(one[0] is not None for one in grads[:count])
                    n = {"": t, "calls": count, "first": max(of_first, 1)}[shared]
                    p -= lr * (m / (1 - betas[0] ** n)) / ((v / (1 - betas[1] ** n)).sqrt() + eps)
            values.append(p)
        return values

    def looks_like(**misconception):
        """Whether the last values are those of a misconception."""

        def asked(seen):
            wrong = by_hand(start, grads, *usual, **misconception)
            return all(torch.allclose(a, b, rtol=1e-3) for a, b in zip(seen["values"][-1], wrong, strict=True))

        return asked

    test.hidden("gradients that are missing in some steps, or always")
    start.append(torch.tensor([[2.0, -1.5]]))
    has = [(True, False), (True, True), (False, True), (False, False), (True, False), (True, True)]
    full = gradients([(2, 3), (3,)], 6)
    grads = [
        [*(grad if there else None for grad, there in zip(of_step, flags, strict=True)), None]
        for of_step, flags in zip(full, has, strict=True)
    ]
    seen = observe_scenario(stepped, adamw_step, start, grads, *usual)
    seen.expecting(mistake("A parameter whose .grad is None is skipped: {detail}", stage="raised"))
    judge_steps(
        seen,
        by_torch(start, grads, *usual),
        mistake(
            "Each parameter has its own step count. Don't correct a skipped parameter as if it had taken that step.",
            when=lambda seen: looks_like(shared="calls")(seen) or looks_like(shared="first")(seen),
        ),
        mistake("A parameter whose .grad is None must not change, not even by decay.", when=looks_like(decays=True)),
        mistake("A missing gradient is not a gradient of zeros. Skip the parameter.", when=looks_like(as_zeros=True)),
        because="If gradients are missing, the parameters differ from those of torch.optim.AdamW.",
    )

    shapes = [(2, 2, 2), (), (1, 4)]
    odd = [(torch.arange(float(math.prod(shape))) * 3 % 7 / 2 - 1.25).reshape(shape).double() for shape in shapes]
    usual_of_lm = (0.02, (0.9, 0.95), 1e-8, 0.1)
    for idea, zoom, settings in (
        ("a scalar, and three dimensions, in float64", 1.0, usual_of_lm),
        ("float64 gradients of 1e25, whose squares are inf in float32", 1e25, usual_of_lm),
        ("gradients as small as eps", 1e-8, usual_of_lm),
        ("gradients of zeros", 0.0, usual_of_lm),
        ("no decay", 1.0, (0.02, (0.9, 0.95), 1e-8, 0.0)),
    ):
        test.hidden(idea)
        grads = [[grad.double() for grad in of_step] for of_step in gradients(shapes, 3, zoom)]
        seen = observe_scenario(stepped, adamw_step, odd, grads, *settings)
        judge_steps(
            seen,
            by_torch(odd, grads, *settings),
            because=f"The parameters differ from those of torch.optim.AdamW: {idea}.",
        )

    def two_runs(adamw_step, start, grads, others, lr, betas, eps, weight_decay):
        """Make two steps, copy parameters and state, and go on with both in turn, with different gradients."""
        runs, settings = [([nn.Parameter(p.clone()) for p in start], {})], (lr, betas, eps, weight_decay)
        for t, (of_step, of_other) in enumerate(zip(grads, others, strict=True)):
            if t == 2:
                params, state = runs[0]
                try:
                    runs.append(([nn.Parameter(p.detach().clone()) for p in params], copy.deepcopy(state)))
                except Exception:
                    return []
            for (params, state), one in zip(runs, (of_step, of_other), strict=False):
                for p, grad in zip(params, one, strict=True):
                    p.grad = grad.clone().reshape(p.shape)
                adamw_step(params, state, *settings)
        return [[p.detach().clone() for p in params] for params, _ in runs]

    test.hidden("a copy of parameters and state goes on by itself")
    shapes, start = [(2, 3), (3,)], start[:2]
    grads = gradients(shapes, 4)
    others = [*grads[:2], *([grad * 0.5 - 0.3 for grad in of_step] for of_step in grads[2:])]
    expected = [by_torch(start, one, *usual)[-1] for one in (grads, others)]
    seen = observe_scenario(two_runs, adamw_step, start, grads, others, *usual)
    no_copy = "`copy.deepcopy(state)` raises an exception. Keep tensors, numbers and plain dicts or lists in `state`."
    seen.that(seen.value != [], no_copy, stage="raised")
    seen.returns(
        expected,
        because=(
            "A copy of params and state must continue like the original, and without it. Keep everything that the "
            "next call needs in `state`, under the parameter's index."
        ),
    )

    def with_graph(adamw_step, start, grads, lr, betas, eps, weight_decay):
        """Make steps with gradients that have a graph, as after backward(create_graph=True)."""
        params, state = [nn.Parameter(p.clone()) for p in start], {}
        for of_step in grads:
            for p, grad in zip(params, of_step, strict=True):
                p.grad = (grad.clone().requires_grad_() * 1.0).reshape(p.shape)
            adamw_step(params, state, lr, betas, eps, weight_decay)
        return any(isinstance(t, Tensor) and t.requires_grad for t in tree_leaves(state))

    test.hidden("gradients that have a graph of their own")
    seen = observe_scenario(with_graph, adamw_step, start, grads, *usual).expecting(under_no_grad)
    seen.that(
        seen.value is False, "The tensors in state belong to a graph, which grows in each step. Update under no_grad."
    )

    test.hidden("no parameters")
    seen = observe_scenario(stepped, adamw_step, [], [[], []], *usual)
    judge_steps(seen, [[], []])
    ### END HIDDEN TESTS
