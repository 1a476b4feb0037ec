# %% [markdown]
# ### Exercise 4.11 · The penalty that penalised nothing
#
# fix · long · 15 min · 2 points
#
# The slope of a critic (the scoring network of a GAN) should be 1 everywhere, so its loss contains a penalty for how
# far the slope is from 1. The code below trains without an error, exactly as if lam were 0. Fix it; there is more than
# one mistake.
#
# **Contract**
#
# - `penalised_loss(model, x, y, lam)` is the mean squared error of `model(x)` and y, plus lam times the mean over the
#   samples b of `(norm_b - 1) ** 2`. Here `norm_b` is the norm of the derivative of `model(x)[b]` with respect to
#   `x[b]`, taken over all dimensions of that sample. The result is 0-d.
# - The penalty is part of the loss: `loss.backward()` also gives the parameters the gradient of the penalty. A sample
#   whose derivative is zero causes no nan, and one whose derivative is 1e-9 counts like any other.
# - Until that backward, no `.grad` is filled or changed. x keeps its values and its `requires_grad`, whether True or
#   False. model is called once.
#
# <details><summary>Hint 1</summary>
#
# What kind of tensor is g: does it have a graph that leads back to the parameters?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# Ask four questions about the lines below `out = model(x)`. Does g have a graph? What does the mean do to the
# derivative of a single sample? Over which numbers is the norm taken? What is the slope of the root at 0? And for the
# line above them: whose x does it mark?
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# Give the model a marked x of your own that shares the numbers with the caller's. Differentiate the *sum* of the
# outputs, so that each output counts fully, and record that computation. Then take one norm for each sample, over all
# its other dimensions, with the function of section 4.8 whose gradient at 0 is 0. The penalty is the mean of the
# squared distances from 1.
#
# </details>


# %% answer="gradient-penalty"
def penalised_loss(model: Callable[[Tensor], Tensor], x: Tensor, y: Tensor, lam: float) -> Tensor:
    """Mean squared error plus lam times the mean of (norm of a sample's input gradient - 1) ** 2.

    x: (B, ...), at least two dimensions; model(x) and y: (B,); returns a 0-d tensor.
    """
    ### BEGIN SOLUTION
    x = x.detach().requires_grad_()
    out = model(x)
    # samples don't influence each other, so one call gives all their gradients
    (g,) = torch.autograd.grad(out.sum(), x, create_graph=True)
    norms = torch.linalg.vector_norm(g.flatten(1), dim=1)  # its own gradient at 0 is 0
    return F.mse_loss(out, y) + lam * (norms - 1).square().mean()
    ### END SOLUTION
    ### BEGIN GIVEN
    # raise NotImplementedError  # fix the code below, then delete this line
    # x.requires_grad_()
    # out = model(x)
    # # without retain_graph: RuntimeError: Trying to backward through the graph a second time
    # (g,) = torch.autograd.grad(out.mean(), x, retain_graph=True)
    # penalty = (g.pow(2).sum().sqrt() - 1) ** 2
    # return F.mse_loss(out, y) + lam * penalty
    ### END GIVEN


# %% helpers="gradient-penalty"
def followed(penalised_loss, parameters, model, x, y, lam):
    """Call it, note what it left behind, then run backward and note the gradients."""
    calls = []

    def counted(v):
        calls.append(type(v).__name__)
        return model(v)

    x_before = [x.requires_grad, x.detach().clone(), copied(x.grad)]
    before = [copied(p.grad) for p in parameters]
    loss = penalised_loss(counted, x, y, lam)
    recording = torch.is_grad_enabled()
    torch.set_grad_enabled(True)
    if not isinstance(loss, Tensor):
        return {"type": type(loss).__name__}
    facts = {
        "type": "Tensor",
        "loss": loss.detach().clone(),
        "tracked": loss.requires_grad,
        "calls": len(calls),
        "x": [x_before, [x.requires_grad, x.detach().clone(), copied(x.grad)]],
        "filled": [before, [copied(p.grad) for p in parameters]],
        "recording": recording,
        "raised": "",
    }
    for p in parameters:
        p.grad = None
    if loss.requires_grad and loss.dim() == 0:
        try:
            loss.backward()
        except RuntimeError as error:
            facts["raised"] = str(error)
    return facts | {"gradients": [copied(p.grad) for p in parameters]}


def copied(gradient):
    """A copy of a gradient, or None."""
    return None if gradient is None else gradient.detach().clone()


def judge_loss(seen, expected, *mistakes, where="", shown=False):
    """The value of the loss; `where`: words for the case, `shown`: its numbers are told."""
    came = seen.value.get("loss")
    seen.that(isinstance(came, Tensor), f"Return a 0-d tensor; yours is of type {seen['type']}.", stage="type")
    seen.that(came.dim() == 0, f"The loss must be 0-d, not of shape {tuple(came.shape)}.", stage="shape")
    seen.that(
        not came.isnan(),
        "A sample with zero gradient gives nan: nan came out as the loss.",
    )
    near = torch.allclose(came.double(), torch.as_tensor(expected).double(), rtol=1e-5)
    numbers = f": expected {float(expected):.6g}, got {float(came):.6g}" if shown else ""
    seen.that(near, f"The loss is wrong{where}{numbers}.", *mistakes)


def judge_gradients(seen, expected, without_penalty):
    """What the parameters get; `without_penalty` is what they get from the data term."""
    seen.that(
        "second time" not in seen["raised"],
        "The inner grad call freed the graph that loss.backward() still needs: create_graph=True keeps it (and "
        "records the gradient, which is what you want here).",
        stage="gradient",
    )
    seen.that(not seen["raised"], f"The call of loss.backward() raised: {seen['raised']}", stage="gradient")
    came = seen["gradients"]
    seen.that(
        not came or any(g is None for g in came) == all(g is None for g in came),
        "Some parameters get no gradient: the data term is missing or detached, or the graph is cut off somewhere.",
        stage="gradient",
    )
    seen.that(
        seen["tracked"] and all(g is not None for g in came),
        "No gradient reaches the parameters.",
        stage="gradient",
    )
    seen.that(
        not any(g.isnan().any() for g in came),
        "A sample with zero gradient gives nan: the slope of the root at 0 is infinite.",
        stage="gradient",
    )
    near = [torch.allclose(g, e, rtol=1e-4, atol=1e-6) for g, e in zip(came, expected, strict=True)]
    as_data = [torch.allclose(g, e, rtol=1e-4, atol=1e-6) for g, e in zip(came, without_penalty, strict=True)]
    words = "The gradient of the parameters is not that of the formula."
    if all(as_data):
        words = (
            "The penalty is a constant for autograd: torch.autograd.grad without create_graph=True returns plain "
            "numbers, so the parameters never feel it. (.item(), .data, detach and no_grad do the same.)"
        )
    seen.that(all(near), words, stage="gradient")


# %% check="gradient-penalty" points=1
"""The loss, and what the parameters get from it: they feel the penalty."""
with check("gradient-penalty") as test:

    def bowl(a, x):
        """A model with one parameter for each input: half the sum of a * x ** 2. Its slope is a * x."""
        return (a * x.square()).flatten(1).sum(1) / 2

    def trained(penalised_loss, a, x, y, lam):
        """The loss for the bowl, what there was before its backward, and the gradient of a after it."""
        return followed(penalised_loss, [a.requires_grad_()], lambda v: bowl(a, v), x, y, lam)

    test("a model with slope a * x, three samples, lam = 2: the loss")
    some_a = torch.tensor([0.5, 2.0], dtype=torch.float64)
    some_x = torch.tensor([[1.0, 2.0], [3.0, -1.0], [-2.0, 0.5]], dtype=torch.float64)
    some_y = torch.tensor([4.0, 3.0, 1.0], dtype=torch.float64)
    slopes = some_a * some_x
    norms = slopes.square().sum(1).sqrt()
    data_term = (bowl(some_a, some_x) - some_y).square().mean()
    seen = observe_scenario(trained, penalised_loss, some_a, some_x, some_y, 2.0)

    def with_penalty(penalty):
        """Whether the loss is the data term plus lam times this penalty."""
        return lambda seen: torch.allclose(seen["loss"].double(), data_term + 2 * penalty, rtol=1e-4)

    one_norm = "You took one norm over the whole batch; each sample has its own norm."
    judge_loss(
        seen,
        data_term + 2 * (norms - 1).square().mean(),
        mistake(one_norm, when=with_penalty(((slopes / 3).square().sum().sqrt() - 1) ** 2)),
        mistake(one_norm, when=with_penalty((slopes.square().sum().sqrt() - 1) ** 2)),
        mistake(
            "The gradient of out.mean() is 1/B of each sample's gradient: differentiate the sum of the outputs "
            "(samples do not influence each other).",
            when=with_penalty((norms / 3 - 1).square().mean()),
        ),
        mistake(
            "The norm is missing its square root: (|g|^2 - 1)^2 is another penalty.",
            when=with_penalty((norms.square() - 1).square().mean()),
        ),
        mistake(
            "The penalty is averaged over the samples, not summed.",
            when=with_penalty((norms - 1).square().sum()),
        ),
        mistake(
            "The norm is that of the derivative of the outputs; you differentiated the mean squared error.",
            when=with_penalty(
                ((slopes * (bowl(some_a, some_x) - some_y)[:, None] * 2 / 3).norm(dim=1) - 1).square().mean()
            ),
        ),
        mistake(
            "The difference from 1 is squared: you took its absolute value.",
            when=with_penalty((norms - 1).abs().mean()),
        ),
        mistake(
            "The data term is the *mean* squared error; you took the sum.",
            when=lambda seen: torch.allclose(seen["loss"], 3 * data_term + 2 * (norms - 1).square().mean()),
        ),
        mistake(
            "Every output was compared with every y, by broadcasting: out and y both have shape (B,), and out[b] "
            "belongs to y[b].",
            when=lambda seen: torch.allclose(
                seen["loss"],
                (bowl(some_a, some_x)[:, None] - some_y).square().mean() + 2 * (norms - 1).square().mean(),
            ),
        ),
        mistake("The norm is compared with 1.", when=with_penalty(norms.square().mean())),
        mistake("The norm is compared with 1.", when=with_penalty(norms.mean())),
        mistake(
            "The data term is missing or detached.",
            when=lambda seen: torch.allclose(seen["loss"], 2 * (norms - 1).square().mean()),
        ),
        mistake(
            "The penalty is missing: that is the mean squared error alone.",
            when=lambda seen: torch.allclose(seen["loss"], data_term),
        ),
        mistake(
            "The penalty is multiplied by lam.",
            when=lambda seen: torch.allclose(seen["loss"], data_term + (norms - 1).square().mean()),
        ),
        mistake(
            "The norm is not exact: a number was added to the squares under the root. The root of a sum of squares "
            "needs care at 0 only.",
            when=lambda seen: torch.allclose(seen["loss"], data_term + 2 * (norms - 1).square().mean(), rtol=1e-2),
        ),
        shown=True,
    )

    test("the parameters feel the penalty: their gradient, and not that of lam = 0")
    own_a = some_a.clone().requires_grad_()
    own_norms = (own_a * some_x).square().sum(1).sqrt()
    own_data = (bowl(own_a, some_x) - some_y).square().mean()
    expected = torch.autograd.grad(own_data + 2 * (own_norms - 1).square().mean(), own_a, retain_graph=True)
    only_data = torch.autograd.grad(own_data, own_a, retain_graph=True)
    only_penalty = torch.autograd.grad(2 * (own_norms - 1).square().mean(), own_a)
    seen.expecting(
        mistake(
            "The data term is missing or detached.",
            when=lambda seen: torch.allclose(seen["gradients"][0], only_penalty[0], rtol=1e-4),
        )
    )
    judge_gradients(seen, expected, only_data)

    ### BEGIN HIDDEN TESTS
    test.hidden("other numbers")
    generator = torch.Generator().manual_seed(3)
    some_a = torch.rand(3, generator=generator, dtype=torch.float64) + 0.5
    some_x = torch.randn(4, 3, generator=generator, dtype=torch.float64)
    some_y = torch.randn(4, generator=generator, dtype=torch.float64)
    own_a = some_a.clone().requires_grad_()
    own_data = (bowl(own_a, some_x) - some_y).square().mean()
    whole = own_data + 0.5 * ((own_a * some_x).square().sum(1).sqrt() - 1).square().mean()
    seen = observe_scenario(trained, penalised_loss, some_a, some_x, some_y, 0.5)
    above = (((some_a * some_x).square().sum(1).sqrt() - 1).clamp(min=0)).square().mean()
    judge_loss(
        seen,
        whole.detach(),
        mistake(
            "A norm below 1 is also penalised; you cut the difference off at 0.",
            when=lambda seen: torch.allclose(seen["loss"], own_data.detach() + 0.5 * above),
        ),
    )
    expected = torch.autograd.grad(whole, own_a, retain_graph=True)
    judge_gradients(seen, expected, torch.autograd.grad(own_data, own_a))
    ### END HIDDEN TESTS

# %% check="gradient-penalty" points=1
"""Networks and images, a slope of zero; nothing is filled or changed, and model is called once."""
with check("gradient-penalty") as test:

    def same(old, new):
        """Whether two notes about gradients and flags agree."""
        if isinstance(old, list):
            return all(same(a, b) for a, b in zip(old, new, strict=True))
        return torch.equal(old, new) if isinstance(old, Tensor) and isinstance(new, Tensor) else old is new

    def judge_manners(seen):
        """What must be as it was before backward."""
        seen.that(
            same(*seen["filled"]),
            "The .grad of a parameter was filled while the penalty was computed: backward() fills every leaf. "
            "Use torch.autograd.grad.",
            stage="arguments",
        )
        (flag, values, grad), (flag_now, values_now, grad_now) = seen["x"]
        seen.that(
            flag == flag_now,
            "x.requires_grad was changed: work on a detached copy that requires grad.",
            stage="arguments",
        )
        seen.that(torch.equal(values, values_now), "The values of x were changed.", stage="arguments")
        seen.that(same(grad, grad_now), "The .grad of x was changed before backward.", stage="arguments")
        seen.that(
            seen["calls"] == 1,
            f"Your code called model {seen['calls']} times; once is enough (dropout would give different numbers).",
            stage="rule",
        )
        seen.that(seen["recording"], "Gradient recording was switched off and not on again.", stage="rule")

    def network(name, weights):
        """A small model by name, and its parameters with the given numbers."""
        if name == "relu":
            layers = [nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 1), nn.Flatten(0)]
        elif name == "image":
            layers = [nn.Conv2d(2, 3, 2), nn.Tanh(), nn.Flatten(1), nn.Linear(12, 1), nn.Flatten(0)]
        else:
            layers = [nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 4), nn.Softplus(), nn.Linear(4, 1), nn.Flatten(0)]
        model = nn.Sequential(*layers).double()
        with torch.no_grad():
            start = 0
            for p in model.parameters():
                p.copy_(weights[start : start + p.numel()].view(p.shape))
                start += p.numel()
        return model

    def with_network(penalised_loss, name, weights, x, y, lam):
        """The loss for a network, what there was before its backward, and the gradients after it."""
        model = network(name, weights)
        return followed(penalised_loss, list(model.parameters()), model, x, y, lam)

    def with_old_gradients(penalised_loss, weights, x, y, lam):
        """x requires grad and has a .grad already, and so has every parameter."""
        model = network("tanh", weights)
        for p in model.parameters():
            p.grad = torch.full_like(p, 3.0)
        x.requires_grad_().grad = torch.full_like(x, 7.0)
        return followed(penalised_loss, list(model.parameters()), model, x, y, lam)

    def reference(model, x, y, lam):
        """Sample by sample: the loss and the gradients of the parameters, with and without the penalty."""
        penalties = []
        for sample in x.detach().unbind():
            sample = sample[None].requires_grad_()
            (slope,) = torch.autograd.grad(model(sample).sum(), sample, create_graph=True)
            flat = slope.flatten()
            penalties.append((flat.norm() - 1) ** 2 if flat.any() else flat.sum() * 0 + 1)
        data = F.mse_loss(model(x.detach()), y)
        loss = data + lam * sum(penalties) / len(x)
        parameters = list(model.parameters())
        kept = {"retain_graph": True, "materialize_grads": True}
        gradients = torch.autograd.grad(loss, parameters, **kept)
        return loss.detach(), gradients, torch.autograd.grad(data, parameters, **kept)

    def over_one_dimension(seen):
        """Whether the loss is that of norms over a single dimension, whichever it is."""
        _, name, weights, x, y, lam = seen.args
        model, x = network(name, weights), x.clone().requires_grad_()
        out = model(x)
        (slope,) = torch.autograd.grad(out.sum(), x)
        penalties = [(slope.norm(dim=dim) - 1).square().mean() for dim in range(1, x.dim())]
        data = F.mse_loss(out, y)
        return any(torch.allclose(seen["loss"], data + lam * penalty) for penalty in penalties)

    refused_by_view = mistake(
        "x may have any layout, and its derivative then has that layout, too; view refuses it. Use flatten or reshape. "
        "({detail})",
        raises="view size is not compatible",
    )
    bounded = mistake(
        "The gradient of the penalty is wrong where the slopes are about 1e-9: a number that is added under the root, "
        "or a bound on the norm, hides slopes as small as these. Only a slope of exactly 0 needs care.",
        stage="gradient",
        when=lambda seen: not any(g.isnan().any() for g in seen["gradients"]),
    )

    test("before backward nothing is filled or changed; model is called once")
    generator = torch.Generator().manual_seed(4)
    weights = torch.randn(60, generator=generator, dtype=torch.float64)
    some_x = torch.randn(3, 3, generator=generator, dtype=torch.float64)
    some_y = torch.randn(3, generator=generator, dtype=torch.float64)
    seen = observe_scenario(with_network, penalised_loss, "tanh", weights, some_x, some_y, 0.7)
    loss, gradients, data_gradients = reference(network("tanh", weights), some_x, some_y, 0.7)
    judge_loss(seen, loss, where=", even for an ordinary network: see the check above")
    judge_manners(seen)
    judge_gradients(seen, gradients, data_gradients)

    ### BEGIN HIDDEN TESTS
    generator = torch.Generator().manual_seed(11)
    weights = torch.randn(60, generator=generator, dtype=torch.float64)
    dead = weights.clone()
    dead[12:16] = torch.tensor([-9.0, 0.5, -9.0, -9.0])  # only one unit of four is ever active
    some_x = torch.randn(5, 3, generator=generator, dtype=torch.float64)
    some_x[1] = -4 * dead[3:6]  # and not for this sample
    flat = weights.clone()
    flat[36:40] *= 1e-9  # of the last layer
    some_images = torch.randn(3, 2, 3, 3, generator=generator, dtype=torch.float64)
    for idea, name, numbers, x, lam in [
        ("a network", "tanh", weights, torch.randn(5, 3, generator=generator, dtype=torch.float64), 0.7),
        ("a model that is constant around a sample (dead relu)", "relu", dead, some_x, 1.5),
        ("images", "image", weights, some_images, 2.0),
        ("a batch of one", "tanh", weights, torch.randn(1, 3, generator=generator, dtype=torch.float64), 2.0),
        ("lam = 0", "tanh", weights, torch.randn(4, 3, generator=generator, dtype=torch.float64), 0.0),
        ("slopes of 1e-9", "tanh", flat, torch.randn(4, 3, generator=generator, dtype=torch.float64), 1.5),
        ("images in channels_last", "image", weights, some_images.to(memory_format=torch.channels_last), 2.0),
    ]:
        test.hidden(idea)
        y = torch.randn(len(x), generator=generator, dtype=torch.float64)
        seen = observe_scenario(with_network, penalised_loss, name, numbers, x, y, lam).expecting(refused_by_view)
        loss, gradients, data_gradients = reference(network(name, numbers), x, y, lam)
        if numbers is flat:
            seen.expecting(bounded)
        judge_loss(
            seen,
            loss,
            mistake(
                "The norm was taken over one dimension of an image only: `norm(2, dim=1)` is over the channels there, "
                "one norm for each pixel. A sample has one norm, over all its dimensions: flatten it first.",
                when=lambda seen: seen.args[1] == "image" and over_one_dimension(seen),
            ),
            where=f" for {idea}",
        )
        judge_manners(seen)
        judge_gradients(seen, gradients, data_gradients if lam else [torch.full_like(g, torch.inf) for g in gradients])

    test.hidden("x requires grad already, and everything has a .grad")
    x, y = torch.randn(4, 3, generator=generator, dtype=torch.float64), torch.randn(4, generator=generator).double()
    seen = observe_scenario(with_old_gradients, penalised_loss, weights, x, y, 1.5)
    loss, gradients, data_gradients = reference(network("tanh", weights), x, y, 1.5)
    judge_loss(seen, loss, where=" where gradients are there already")
    judge_manners(seen)
    judge_gradients(seen, gradients, data_gradients)
    ### END HIDDEN TESTS
