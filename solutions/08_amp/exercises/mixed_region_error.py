# %% [markdown]
# ### Exercise 8.4 · mat1 and mat2 must have the same dtype
#
# debug · solid · 12 min · 2 points
#
# The backbone should be fast, the head should be exact. So the backbone runs under autocast and the head doesn't. But
# the code below fails:
#
#     RuntimeError: mat1 and mat2 must have the same dtype, but got BFloat16 and Float
#
# **Contract**
#
# - `forward_mixed(backbone, head, x)` runs `backbone` once under CPU autocast in bfloat16, and `head` once in true
#   float32: every matrix product of the head has float32 inputs and a float32 result. It returns float32, and gradients
#   reach x and all parameters.
# - This also holds if the caller is inside an autocast region of any kind, even a float16 region in which the backbone
#   is used before and afterwards.
# - Neither module is changed: every parameter keeps its dtype and its values, and a later call of either module follows
#   the region that it is made in.
# - The autocast state of the caller is the same afterwards, even if one of the modules raises.
#
# <details><summary>Hint 1</summary>
#
# What dtype does h have when the block ends, and does leaving the block convert anything? What would the head do if
# someone else had switched autocast on around your function, and which copies of the weights would autocast have kept?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# Use two regions, one for each part. Which of them needs `enabled=False`, and what must happen to h between them? And
# which of them must not keep copies of weights?
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# Convert h yourself before it goes into the head, and run the head in a hole, so that no outer region casts it down
# again. The backbone's region must work without the cache: autocast keeps copies of weights until the outermost region
# ends, and uses them whatever their dtype.
#
# </details>


# %% answer="mixed-region-error"
def forward_mixed(backbone: nn.Module, head: nn.Module, x: Tensor) -> Tensor:
    """head(backbone(x)), the backbone under bfloat16 autocast, the head in float32.

    x: (B, D) float32; returns what head returns, in float32.
    """
    ### BEGIN SOLUTION
    with torch.autocast("cpu", dtype=torch.bfloat16, cache_enabled=False):
        h = backbone(x)
    with torch.autocast("cpu", enabled=False):
        return head(h.float())
    ### END SOLUTION
    ### BEGIN GIVEN
    # raise NotImplementedError  # fix the code below, then delete this line
    # with torch.autocast("cpu", dtype=torch.bfloat16):
    #     h = backbone(x)
    # return head(h)
    ### END GIVEN


# %% helpers="mixed-region-error"
class Products(TorchDispatchMode):
    """Notes the matrix products that run while it is on: [part of the model, dtypes that go in, dtype out]."""

    def __init__(self):
        super().__init__()
        self.found, self.part, self.runs, self.under, self.fails = [], "", [], {}, ""

    @classmethod
    def _should_skip_dynamo(cls):
        return False

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        name = func._schema.name.split("::")[-1]
        if name in ("mm", "addmm", "bmm", "baddbmm", "mv", "addmv", "linear", "mkldnn_linear"):
            dtypes = sorted({str(a.dtype) for a in args if isinstance(a, Tensor)})
            self.found.append([self.part, dtypes, str(out.dtype)])
        return out


class Part(nn.Module):
    """A backbone or a head that says when it runs."""

    def __init__(self, name, products, *layers):
        super().__init__()
        self.name, self.products, self.layers = name, products, nn.Sequential(*layers)

    def forward(self, x):
        self.products.part = self.name
        self.products.runs.append(self.name)
        self.products.under[self.name] = torch.is_autocast_enabled("cpu")
        if self.products.fails == self.name:
            raise ArithmeticError(f"the {self.name} has raised, as it was told to")
        out = self.layers(x)
        self.products.part = "between"
        return out


def parts(products):
    """The backbone and the head with fixed weights."""
    backbone = Part("backbone", products, nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 8))
    head = Part("head", products, nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 3))
    with torch.no_grad():
        for shift, p in enumerate([*backbone.parameters(), *head.parameters()]):
            p.copy_((torch.arange(p.numel()) * 37 % 101 / 101 - 0.45 + shift / 64).reshape(p.shape))
    return backbone, head


def state():
    """Whether autocast is on, and in which dtype."""
    return [torch.is_autocast_enabled("cpu"), str(torch.get_autocast_dtype("cpu"))]


def named_parameters(*modules):
    """Every parameter of the backbone and the head under a name."""
    return {f"{module.name}.{name}": p for module in modules for name, p in module.named_parameters()}


def told(forward_mixed, x, surroundings, evaluating, used=""):
    """Run it in the given surroundings; note the products, the result, the gradients and what has changed.

    used: "before" or "after", when the backbone runs there by itself too; or "backbone" or "head", which then raises.
    """
    products = Products()
    backbone, head = parts(products)
    products.fails = used
    if evaluating:
        backbone.eval(), head.eval()
    parameters = named_parameters(backbone, head)
    before = {name: p.detach().clone() for name, p in parameters.items()}
    x.requires_grad_()
    with ExitStack() as outer:
        if surroundings:
            outer.enter_context(torch.autocast("cpu", **surroundings))
        if used == "before":
            backbone(x)
        states = [state()]
        try:
            with products:
                out = forward_mixed(backbone, head, x)
        except ArithmeticError as error:
            return {"raised": str(error), "states": [*states, state()]}
        states.append(state())
        runs, under = [*products.runs], dict(products.under)
        if used == "after":
            backbone(x)
    now = named_parameters(backbone, head)
    later, recast = {}, [f"{name}: {p.dtype}" for name, p in now.items() if p.dtype != torch.float32]
    if not used and not recast:
        with torch.no_grad():
            later["backbone"] = str(backbone(x.detach()).dtype)
            with torch.autocast("cpu", torch.bfloat16):
                later["head"] = str(head(torch.zeros(1, 8)).dtype)
    facts = {
        "products": products.found,
        "runs": runs,
        "under": under,
        "later": later,
        "raised": "",
        "states": states,
        "recast": recast,
        "changed": [name for name in before if name not in now or not torch.equal(now[name], before[name])],
        "kind": type(out).__name__ if not isinstance(out, Tensor) else "Tensor",
    }
    if not isinstance(out, Tensor):
        return facts
    facts |= {"out": out.detach().clone(), "tracked": out.requires_grad}
    if out.requires_grad:
        out.float().square().sum().backward()
    grads = {"x": x.grad} | {name: p.grad for name, p in now.items()}
    return facts | {"grads": {name: None if g is None else g.float() for name, g in grads.items()}}


def reference(x):
    """The result and the gradients: bfloat16 by hand in the backbone, float32 in the head."""
    backbone, head = parts(Products())
    x = x.clone().requires_grad_()
    h = x
    for layer in backbone.layers:
        if isinstance(layer, nn.Linear):
            h = F.linear(h.bfloat16(), layer.weight.bfloat16(), layer.bias.bfloat16())
        else:
            h = layer(h)
    out = head.layers(h.float())
    out.square().sum().backward()
    grads = {"x": x.grad} | {name: p.grad for name, p in named_parameters(backbone, head).items()}
    return out.detach(), grads


still_error = (
    "h is still bfloat16 after the region, because nothing converts it back; the float32 head cannot multiply it."
)
head_low = (
    "The head ran in bfloat16: its products rounded to 8 significant bits. Casting the result to float32 "
    "afterwards does not bring the digits back."
)
weights_cast = "The {part}'s parameters changed dtype: convert the activation, not the weights."
backbone_full = "The backbone no longer runs in bfloat16."
autocast_off = (
    "The backbone ran in bfloat16, but with autocast off. Autocast casts for some operations, such as matrix products, "
    "and keeps others in float32, such as losses: open a bfloat16 region for the backbone."
)
no_gradient = "The backbone gets no gradient: you detached h."


def dtypes_of(seen, part):
    """The dtypes that went into and came out of the products of a part."""
    return {dtype for where, into, out in seen["products"] if where == part for dtype in [*into, out]}


def judge_precision(seen, *mistakes):
    """The parameters' dtypes first, then those of the products, then of the result."""
    seen.expecting(
        *mistakes,
        mistake(still_error, raises="same dtype.* (BFloat16|Half) and Float"),
        mistake(
            "The input of the head must have the dtype of its weights, float32: {detail}.",
            raises="same dtype.* and Float",
        ),
    )
    recast = ", ".join(seen["recast"])
    cast = weights_cast.replace("{part}", "head" if "head" in recast else "backbone")
    seen.that(not recast, f"{cast} ({recast})", stage="dtype")
    runs = seen["runs"]
    for part in ("backbone", "head"):
        seen.that(runs.count(part) > 0, f"The {part} itself was never called.", stage="rule")
    seen.that(dtypes_of(seen, "backbone") == {"torch.bfloat16"}, backbone_full, stage="dtype")
    seen.that(dtypes_of(seen, "head") == {"torch.float32"}, head_low, stage="dtype")
    seen.that(seen["under"]["backbone"], autocast_off, stage="dtype")
    seen.that(
        seen["kind"] == "Tensor",
        f"Return the head's result, a tensor; not a value of type {seen['kind']}.",
        stage="type",
    )
    seen.that(seen["out"].dtype == torch.float32, "Return float32.", stage="dtype")


def judge_rest(seen, expected, gradients):
    """Values, gradients, and what must be as it was."""
    seen.that(
        seen["out"].shape == expected.shape,
        f"The result has the wrong shape, {tuple(seen['out'].shape)}.",
        stage="shape",
    )
    seen.that(
        torch.allclose(seen["out"], expected, rtol=1e-4, atol=1e-4),
        "The result is not that of the backbone in bfloat16 and the head in float32.",
    )
    changed = ", ".join(seen["changed"])
    seen.that(not changed, f"Parameters were changed: {changed}.", stage="arguments")
    missing = [name for name, gradient in seen["grads"].items() if gradient is None]
    words = no_gradient if any(n.startswith("backbone") for n in missing) else "No gradient reaches some tensors"
    seen.that(not missing, f"{words} (without: {', '.join(missing)})", stage="gradient")
    off = [n for n, g in seen["grads"].items() if not torch.allclose(g, gradients[n], rtol=0.05, atol=0.05)]
    seen.that(not off, f"The gradient is wrong: {', '.join(off)}.", stage="gradient")


# %% check="mixed-region-error" points=1
"""The dtype of every product, the result, the gradients."""
with check("mixed-region-error") as test:
    test("every product has the right dtype, and the result is float32")
    some_x = torch.arange(24.0).reshape(4, 6) * 7 % 11 / 4 - 1.2
    expected, gradients = reference(some_x)
    seen = observe_scenario(told, forward_mixed, some_x, {}, False)
    judge_precision(seen)

    test("the values; gradients reach x and the backbone; the parameters are as they were")
    judge_rest(seen, expected, gradients)


# %% check="mixed-region-error" points=1
"""The same inside of other autocast regions, whose state stays; each part runs once."""
with check("mixed-region-error") as test:
    some_x = torch.arange(24.0).reshape(4, 6) * 7 % 11 / 4 - 1.2
    expected, gradients = reference(some_x)

    def judge_state(seen):
        """The caller's autocast state."""
        before, after = seen["states"]
        seen.that(before == after, "The autocast state of the caller was changed.", stage="rule")

    outer_region = mistake(
        "Called inside someone's autocast region the head runs in bfloat16 again: .float() is not enough, autocast "
        "casts it back. Disable autocast for the head.",
        when=lambda seen: dtypes_of(seen, "head") != {"torch.float32"} == dtypes_of(alone, "head"),
    )
    low_anyway = mistake(head_low, when=lambda seen: "torch.bfloat16" in dtypes_of(alone, "head"))
    unconverted = mistake(still_error, when=lambda seen: "BFloat16 and Float" in alone.error_text)
    test("inside someone's bfloat16 region")
    alone = observe_scenario(told, forward_mixed, some_x, {}, False)
    seen = observe_scenario(told, forward_mixed, some_x, {"dtype": torch.bfloat16}, False)
    judge_precision(seen, outer_region, low_anyway, unconverted)
    judge_rest(seen, expected, gradients)
    judge_state(seen)

    ### BEGIN HIDDEN TESTS
    test.hidden("inside a region that is switched off, and inside a float16 region")
    own_dtype = mistake(
        "Inside a float16 region the backbone ran in float16: torch.autocast without a dtype uses the dtype that is "
        "set at that moment. Name bfloat16.",
        when=lambda seen: "torch.float16" in dtypes_of(seen, "backbone"),
    )
    in_float16 = mistake(
        "Inside a float16 region the head did not run in float32: disable autocast for it.",
        when=lambda seen: dtypes_of(seen, "head") != {"torch.float32"} == dtypes_of(alone, "head"),
    )
    remembered = mistake(
        "autocast keeps its copies of the weights until the outermost region ends, whatever their dtype: in a "
        "caller's float16 region the backbone used float16 copies. Use cache_enabled=False for your own region.",
        raises="same dtype.*(BFloat16 and Half|Half and BFloat16|Half != .*BFloat16|BFloat16 != .*Half)",
    )
    for surroundings in ({"enabled": False}, {"dtype": torch.float16}):
        seen = observe_scenario(told, forward_mixed, some_x, surroundings, False)
        judge_precision(seen, own_dtype, in_float16)
        judge_rest(seen, expected, gradients)
        judge_state(seen)

    for used in ("before", "after"):
        test.hidden(f"inside a float16 region in which the backbone is also used {used}")
        seen = observe_scenario(told, forward_mixed, some_x, {"dtype": torch.float16}, False, used)
        judge_precision(seen, remembered, own_dtype)
        judge_rest(seen, expected, gradients)

    test.hidden("each part runs once, even in eval mode; nothing is left switched on")
    seen = observe_scenario(told, forward_mixed, some_x, {}, True)
    judge_precision(seen)
    judge_rest(seen, expected, gradients)
    judge_state(seen)
    seen.that(seen["runs"] == ["backbone", "head"], "Each of the two parts must be run once.", stage="rule")
    wrapped = (
        "The {part} no longer follows the region that it is called in: your function put something of its own into the "
        "module and left it there. Open regions around the calls, and leave the modules as they are."
    )
    for part, dtype in (("backbone", "torch.float32"), ("head", "torch.bfloat16")):
        seen.that(seen["later"][part] == dtype, wrapped.replace("{part}", part), stage="arguments")

    test.hidden("the backbone raises, or the head does: the caller's state is the same afterwards")
    for part in ("backbone", "head"):
        seen = observe_scenario(told, forward_mixed, some_x, {"dtype": torch.float16}, False, part)
        seen.that(seen["raised"] != "", f"What the {part} raises must reach the caller.", stage="raised")
        left = f"If the {part} raises, the caller's autocast state must be restored: regions do that by themselves."
        before, after = seen["states"]
        seen.that(before == after, left, stage="rule")
    ### END HIDDEN TESTS
