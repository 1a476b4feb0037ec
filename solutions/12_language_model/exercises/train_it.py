# %% [markdown]
# ### Exercise 12.11 · Train it
#
# implement · long · 25 min · 2 points
#
# Write the loop that trains a model of bytes, with everything you know: windows, shifted targets, a rate that warms up,
# clipping, its own random generator.
#
# **Contract**
#
# - `train` trains all parameters of `model` in place on `ids` (N,) and returns a list with the loss of every step, as
#   Python floats. It runs in float32, without autocast.
# - In each step the model gets `batch` windows of `model.length` ids, (batch, length). `train` draws them at random
#   from the whole text, seeded with `seed` (a generator of its own is simplest), and each of the N - length windows is
#   equally likely. Going through all windows in a new random order, epoch after epoch, is also fine. `batch` is at
#   most N - length.
# - The loss is the mean cross-entropy over all positions of the batch, each of which predicts the id that follows in
#   the text. Each entry of the list is the loss before that step's update.
# - There is one update for each loss, from the gradient of that loss alone, clipped to a norm of 1 over all parameters.
#   Nothing but the optimizer's steps changes the weights. Before the first step no parameter has a gradient.
# - The rate is the same for all parameters. It climbs to `peak` over the first 5 % of the steps (in the first step it
#   may be 0, as with PyTorch's own schedulers). Then it falls to a fifth of `peak` or less. `steps` is 40 or more.
# - All training flags are on during the steps. Afterwards the model is in train mode or eval mode as before.
# - Equal seeds give equal weights to the last bit, and different seeds different weights. `train` leaves torch's global
#   generator alone. You may assume that the model draws no random numbers, so it has no dropout.
#
# **Rule.** Use `torch.optim.AdamW` as the optimizer.
#
# The first check watches every step of a toy model. The second lets you train a `SmallLM` of one block, width 32 and 24
# bytes of context on the course's text, with 200 steps of 16 windows and `peak` 0.02, which takes about a second. Its
# loss on bytes that `train` has never seen must end below 2.5 nats, the loss of the table of pairs. The model must
# still be causal, and earlier bytes must help it.
#
# <details><summary>Hint 1</summary>
#
# If the training loss is nearly zero after seconds, what has the model seen that it should not see? If the loss stays
# above 3, does what you computed ever reach the optimizer?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# `ids.unfold(0, model.length + 1, 1)` has a row for each window, with its last target. Draw rows with
# `torch.randint(..., generator=...)`. The inputs are all columns but the last, the targets all but the first. The rate
# is a function of the step; write it into each group of `optimizer.param_groups`.
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# Before the loop, remember the mode of the model, switch to train mode, and make the generator and the optimizer. In
# each step, set the rate (a climb as in 12.7, then half a cosine), draw windows, and make the five calls of chapter 11
# with clipping before the step. `F.cross_entropy` takes two-dimensional logits, so flatten batch and time into one
# dimension. At the end, restore the mode.
#
# </details>


# %% answer="train-it"
def train(
    model: nn.Module,
    ids: Tensor,
    steps: int,
    batch: int,
    peak: float,
    seed: int,
) -> list[float]:
    """Train model, (B, model.length) ids -> (B, model.length, vocab) logits, on ids (N,) int64.

    Returns each step's loss.
    """
    ### BEGIN SOLUTION
    windows = ids.unfold(0, model.length + 1, 1)
    dice = torch.Generator().manual_seed(seed)
    optimizer = torch.optim.AdamW(model.parameters(), lr=peak)
    warmup, losses, was = max(1, steps // 20), [], model.training
    model.train()
    for n in range(steps):
        climbed, fallen = (n + 1) / warmup, (n - warmup) / (steps - warmup)
        rate = peak * (climbed if n < warmup else (1 + math.cos(math.pi * fallen)) / 2)
        for group in optimizer.param_groups:
            group["lr"] = rate
        rows = windows[torch.randint(len(windows), (batch,), generator=dice)]
        optimizer.zero_grad()
        loss = F.cross_entropy(model(rows[:, :-1]).flatten(0, 1), rows[:, 1:].flatten())
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses.append(loss.item())
    model.train(was)
    return losses
    ### END SOLUTION


# %% helpers="train-it"
def judge_losses(seen, steps):
    """One float for each step came back."""
    losses = seen["losses"]
    wanted = "Return one loss for each step, in a list of Python floats."
    seen.that(isinstance(losses, list) and all(type(loss) is float for loss in losses), wanted, stage="type")
    seen.that(len(losses) == steps, f"{wanted} Here {len(losses)} came for {steps} steps.", stage="shape")


side_by_side = (
    "The windows of each step are neighbours in the text, so they overlap almost wholly, and a step sees little of the "
    "text. Draw a random place for each window, not one for the whole batch."
)


# %% check="train-it" points=1
"""Every step of a toy model: windows, loss, gradient and rate; then flags, seeds, generator."""
with check("train-it") as test:

    def watched(train, count, steps, batch, seed, scale=1.0, training=True, world=0, aside=True):
        """Train a toy model of 4 ids at a time on a text of `count` ids, peak 0.05, and watch every step."""
        torch.set_num_threads(1)  # more threads would only wait for one another
        text = torch.arange(count) * 7 % 37  # what follows an id is 7 more, around 37
        passes, updates, kept = [], [], []

        class Toy(nn.Module):
            def __init__(self):
                super().__init__()
                self.length = 4
                self.emb, self.head = nn.Embedding(37, 8), nn.Linear(8, 37)
                dice = torch.Generator().manual_seed(1)
                with torch.no_grad():
                    for p in self.parameters():
                        p.copy_(torch.randn(p.shape, generator=dice) * scale)

            def forward(self, ids):
                if torch.is_grad_enabled():
                    self.note(ids)
                return self.head(self.emb(ids))

            def note(self, ids):
                """What the model is given and how; if asked for, the loss of these ids and its gradient, too."""
                flags = all(module.training for module in self.modules())
                passes.append({"ids": ids.detach().clone(), "training": flags, "moved": moved()})
                if aside:
                    logits = self.head(self.emb(ids)).flatten(0, -2)
                    passes[-1]["float32"] = logits.dtype == torch.float32
                    logs = logits.log_softmax(-1)
                    sums = [F.nll_loss(logs, (ids + 7 * k).flatten() % 37, reduction="sum") for k in range(3)]
                    gradient = torch.autograd.grad(sums[1], list(self.parameters()))
                    passes[-1]["gradient"] = torch.cat([part.flatten() for part in gradient])
                    passes[-1]["sums"] = [one.item() for one in sums]

        model = Toy().train(training)
        before = {name: p.detach().clone() for name, p in model.named_parameters()}

        def weights_now():
            return torch.cat([model.get_parameter(name).detach().flatten() for name in before])

        def moved():
            """Whether the weights have changed since the step before."""
            return bool(kept) and not torch.allclose(weights_now(), kept[-1], rtol=0, atol=0, equal_nan=True)

        def note_step(optimizer, args, kwargs):
            """What a step has used."""
            given = [p.grad for p in model.parameters()]
            held = [p for group in optimizer.param_groups for p in group["params"]]
            own = {id(p) for p in model.parameters()}
            groups = [group for group in optimizer.param_groups if own & {id(p) for p in group["params"]}]
            used = None if any(part is None for part in given) else torch.cat([part.flatten() for part in given])
            adamw, steps = torch.optim.AdamW, next(kind for kind in type(optimizer).__mro__ if "step" in vars(kind))
            updates.append(
                {
                    "passes": list(passes),
                    "used": used,
                    "rates": sorted(float(group["lr"]) for group in groups),
                    "adamw": isinstance(optimizer, adamw) and issubclass(adamw, steps),
                    "bare": all(p.grad is None for p in held),
                    "of model": bool(groups),
                }
            )
            passes.clear()
            kept[:] = [weights_now()]

        torch.optim.AdamW([torch.ones(1, requires_grad=True)])  # torch wraps the step of a class that has none wrapped
        torch.default_generator.manual_seed(world)
        dice = torch.get_rng_state()
        handle = register_optimizer_step_post_hook(note_step)
        with torch.overrides._pop_mode_temporarily(), torch.utils._python_dispatch._disable_current_modes():
            losses = train(model, text, steps, batch, 0.05, seed)
        handle.remove()
        return {
            "losses": losses,
            "updates": [update for update in updates if update["passes"]],
            "more": sum(update["of model"] and not update["passes"] for update in updates),
            "flags": [module.training for module in model.modules()],
            "same dice": torch.equal(dice, torch.get_rng_state()),
            "same text": torch.equal(text, torch.arange(count) * 7 % 37),
            "still": [name for name, old in before.items() if torch.equal(model.get_parameter(name), old)],
            "weights": weights_now(),
            "moved in the end": moved(),
        }

    lost = (
        "When the optimizer stepped, a parameter had no gradient. Call `backward` before `step`, and don't clear "
        "the gradients in between."
    )

    def judge_steps(seen, steps):
        """An optimizer has stepped as often as asked for, and it is AdamW."""
        number = len(seen["updates"])
        seen.that(
            number == steps,
            f"{steps} steps were asked for. An optimizer of torch has stepped {number} times after the model had run.",
            stage="rule",
        )
        seen.that(
            not seen["more"],
            f"The optimizer stepped {number + seen['more']} times for {steps} losses, but there is one update for each "
            "loss.",
            stage="rule",
        )
        still = "The weights haven't changed. The optimizer must step the parameters of the given model."
        seen.that(
            len(seen["still"]) < 3,
            still,
            mistake(lost, when=lambda seen: all(update["bare"] for update in seen["updates"])),
        )
        is_adamw = all(update["adamw"] for update in seen["updates"])
        seen.that(is_adamw, "The optimizer must be torch.optim.AdamW.", stage="rule")
        some = " and ".join(f"`{name}`" for name in seen["still"])
        every = "Give the optimizer all parameters of the model, and each of its groups the rate."
        seen.that(not some, f"No step has changed {some}. {every}")

    def judge_inputs(seen, batch):
        """Each step got `batch` pieces of the text, 4 ids each."""
        for update in seen["updates"]:
            given = [one["ids"] for one in update["passes"]]
            shapes = " and ".join(str(tuple(ids.shape)) for ids in given)
            seen.that(
                all(ids.dim() == 2 and ids.shape[1] == 4 for ids in given) and sum(map(len, given)) == batch,
                f"In each step the model must get ({batch}, 4) ids here, batch and model.length. It got {shapes}.",
                mistake(
                    f"The model ran {len(given)} times for one step, each time on all ({batch}, 4) ids. One pass gives "
                    "the loss that you return and the gradient.",
                    when=lambda seen, given=given: len(given) > 1 and all(ids.shape == (batch, 4) for ids in given),
                ),
                stage="shape",
            )
            seen.that(
                all(one.get("float32", True) for one in update["passes"]),
                "The model's logits are not float32. Run it without autocast here.",
                stage="dtype",
            )
            rows = torch.cat(given)
            seen.that(
                torch.equal(rows[:, 1:], (rows[:, :-1] + 7) % 37),
                "A window must be a piece of the text, so neighbours in the window are neighbours in the text, "
                "in the same order.",
            )

    def judge_draws(seen, count):
        """Each window of the text had its turns."""
        drawn = []
        for update in seen["updates"]:
            firsts = torch.cat([one["ids"][:, 0] for one in update["passes"]])
            drawn.append(sorted((firsts * 16 % 37).tolist()))  # places in the text: 16 times 7 is 1, around 37
        hits = [sum(starts.count(place) for starts in drawn) for place in range(count - 4)]
        never = [place for place, number in enumerate(hits) if number == 0]
        seen.that(
            not never,
            f"Of the {count - 4} windows of this text {len(never)} were never drawn. Each must be equally likely.",
            mistake(
                "You use the same windows in every step. Draw new windows in each step, from the whole text.",
                when=lambda seen: all(starts == drawn[0] for starts in drawn),
            ),
            mistake(
                "The last window is never drawn. There are N - length windows that have a target at each position.",
                when=lambda seen: never == [count - 5],
            ),
        )
        mean, first, others = sum(hits) / len(hits), sum(hits[:4]) / 4, sum(hits[4:]) / len(hits[4:])
        spread = sum((number - mean) ** 2 for number in hits) / mean  # by chance about as large as len(hits)
        seen.that(
            max(hits) < 3 * mean and spread < 2 * len(hits) + 60,
            "Some windows come much more often than others. Each must be equally likely.",
            mistake(
                side_by_side,
                when=lambda seen: all(starts == list(range(starts[0], starts[-1] + 1)) for starts in drawn),
            ),
            mistake(
                f"The first 4 windows come {first / others:.1f} times as often as the others, as with `%`, which maps "
                "places beyond the last window to the first ones. Draw numbers below N - length.",
                when=lambda seen: 1.7 < first / others < 2.4 and max(hits[4:]) < min(hits[:4]),
            ),
        )

    def judge_curve(seen):
        """The losses are those of the steps, as they were before their updates."""
        positions = [sum(one["ids"].numel() for one in update["passes"]) for update in seen["updates"]]
        of_inputs, right, of_second = (
            [
                sum(one["sums"][shift] for one in update["passes"]) / number
                for update, number in zip(seen["updates"], positions, strict=True)
            ]
            for shift in range(3)
        )
        losses = seen["losses"]

        def are(wanted):
            return torch.allclose(torch.tensor(losses), torch.tensor(wanted), rtol=1e-3, atol=1e-3, equal_nan=True)

        seen.that(
            are(right),
            f"The mean loss before the update is {right[0]:.3f} in the first step and {right[-1]:.3f} in the "
            f"last. You return {losses[0]:.3f} and {losses[-1]:.3f}.",
            mistake(
                "The targets are the inputs themselves, so the model learns to copy. Shift them by one.",
                when=lambda seen: are(of_inputs),
            ),
            mistake(
                "The targets are two ids ahead, but each position predicts the NEXT id.",
                when=lambda seen: are(of_second),
            ),
            mistake(
                "You return the same loss again and again. Each step has its own.",
                when=lambda seen: len(losses) > 1 and len(set(losses)) == 1,
            ),
            mistake(
                "You return a sum. Return the mean loss of each step.",
                when=lambda seen: are([one * number for one, number in zip(right, positions, strict=True)]),
            ),
        )

    def judge_gradients(seen):
        """Each step has used the gradient of its own loss, clipped, and nothing else has changed the weights."""
        for number, update in enumerate(seen["updates"], 1):
            positions = sum(one["ids"].numel() for one in update["passes"])
            own, used = sum(one["gradient"] for one in update["passes"]) / positions, update["used"]
            seen.that(used is not None, lost, stage="gradient")
            with_old = own + seen["updates"][number - 2]["used"] if number > 1 else own

            def is_used(wanted, clipped, used=used):
                scale = 1 / max(1.0, wanted.norm().item()) if clipped else 1.0
                return torch.allclose(used, wanted * scale, rtol=1e-2, atol=1e-4, equal_nan=True)

            seen.that(
                is_used(own, clipped=True),
                f"Step {number} uses a gradient of norm {used.norm():.3f}; that of its mean loss has norm "
                f"{own.norm():.3f}. Use that one, clipped to a norm of 1 over all parameters.",
                mistake(
                    "The gradient is not clipped. When the optimizer steps, its norm over all parameters may be "
                    "at most 1.",
                    when=lambda seen, is_used=is_used, own=own: is_used(own, clipped=False),
                ),
                mistake(
                    f"Step {number} still uses gradients of the step before. Clear them in every step.",
                    when=lambda seen, is_used=is_used, old=with_old: is_used(old, True) or is_used(old, False),
                ),
                mistake(
                    f"Step {number} uses a gradient that is as long as it should be, but not that of the loss you "
                    "return. Is something added to the loss before `backward`, or is the gradient changed after it?",
                    when=lambda seen, used=used, own=own: math.isclose(used.norm(), min(1, own.norm()), rel_tol=1e-3),
                ),
                stage="gradient",
            )
        later = [number for number, update in enumerate(seen["updates"], 1) if update["passes"][0]["moved"]]
        seen.that(
            not later,
            f"Your code changed the weights between step {later[0] - 1 if later else 0} and the next pass. Only the "
            "optimizer's step may change them.",
        )
        seen.that(
            not seen["moved in the end"],
            "After the last step your code changed the weights, for example to a mean or to those of an earlier step. "
            "Leave them as the last step made them.",
        )

    def judge_rates(seen, steps):
        """The rate climbs to 0.05 in 5 % of the steps and then falls."""
        for number, update in enumerate(seen["updates"], 1):
            low, *_, high = update["rates"] * 2
            seen.that(
                high - low < 1e-6,
                f"In step {number} the rate is {high:.3g} for some parameters and {low:.3g} for others. Write it into "
                "each group of the optimizer.",
                stage="rule",
            )
        rates = [update["rates"][-1] for update in seen["updates"]]
        top = rates.index(max(rates))
        climbs = 0 <= rates[0] < 0.9 * rates[top] and rates[: top + 1] == sorted(set(rates[: top + 1]))
        in_time = steps // 20 - 1 <= top <= steps // 20 + 1
        falls = rates[top:] == sorted(rates[top:], reverse=True) and rates[-1] <= 0.21 * 0.05
        seen.that(
            climbs and in_time and falls and 0.8 * 0.05 <= rates[top] <= 1.001 * 0.05,
            f"The rate must climb over {steps // 20} of {steps} steps to 0.05 and then fall to 0.01 or less. It is "
            f"{rates[0]:.3g} in the first step, {rates[top]:.3g} at its highest in step {top + 1}, {rates[-1]:.3g} in "
            "the last.",
            mistake(
                f"The rate is {rates[0]:.3g} in every step. Write the rate that you compute into the optimizer's "
                "groups.",
                when=lambda seen: len(set(rates)) == 1,
            ),
            stage="rule",
        )

    test("40 steps of 16 windows")
    seen = observe_scenario(watched, train, 30, 40, 16, 3)
    judge_losses(seen, 40)
    judge_steps(seen, 40)
    judge_inputs(seen, 16)
    judge_curve(seen)
    judge_draws(seen, 30)
    judge_rates(seen, 40)
    judge_gradients(seen)

    test("the training flag is on in the steps; afterwards it is as it was, and so is the text")
    again = observe_scenario(watched, train, 30, 40, 16, 3, 1.0, False, 1, False)
    for one, training in ((seen, True), (again, False)):
        on = all(each["training"] for update in one["updates"] for each in update["passes"])
        one.that(on, "The training flag is off in a step, so dropout would do nothing.", stage="rule")
        before = "in train mode" if training else "in eval mode"
        one.that(
            one["flags"] == [training] * len(one["flags"]),
            f"The model was {before} before the call, and must be afterwards.",
            stage="arguments",
        )
        one.that(one["same text"], "The text has changed.", stage="arguments")

    test("equal seeds and other seeds, whatever the global generator does")
    again.that(
        torch.equal(seen["weights"], again["weights"]),
        "Equal seeds must give equal weights. Draw the windows from your own generator with that seed, not from "
        "torch's global generator.",
    )
    again.that(
        again["same dice"], "Your code drew from torch's global generator or seeded it. Leave it alone.", stage="rule"
    )
    other = observe_scenario(watched, train, 30, 40, 16, 4, 1.0, True, 0, False)
    differ = "A different seed gives the same weights. Seed the generator with `seed`, and draw the windows with it."
    other.that(not torch.equal(seen["weights"], other["weights"]), differ)

    ### BEGIN HIDDEN TESTS
    test.hidden("110 steps of 15 windows, with small gradients")
    seen = observe_scenario(watched, train, 20, 110, 15, 8, 0.3)
    judge_losses(seen, 110)
    judge_steps(seen, 110)
    judge_inputs(seen, 15)
    judge_curve(seen)
    judge_draws(seen, 20)
    judge_rates(seen, 110)
    judge_gradients(seen)
    ### END HIDDEN TESTS


# %% check="train-it" points=1
"""A small model, 200 steps: its loss on text that `train` never saw; causal; helped by earlier bytes."""
with check("train-it") as test:

    def trained(train, steps):
        """Train a SmallLM on the course's text."""
        torch.set_num_threads(1)
        model = SmallLM(width=32, layers=1, length=24)
        for p in model.parameters():
            if p.dim() > 1:
                nn.init.normal_(p, std=0.2)  # so narrow a model gets going sooner from here
        windows, opened, neighbours, as_given = set(), set(), set(), []
        before = [p.detach().clone() for p in model.parameters()]

        def note(module, args):
            if not as_given:
                as_given.append(all(map(torch.equal, module.parameters(), before)))
            windows.update(bytes(row) for ids in args for row in ids.flatten(0, -2).tolist())
            opened.add(bool(module.mask.triu(1).any()))
            neighbours.update(torch.equal(ids[1:, :-1], ids[:-1, 1:]) for ids in args if min(ids.shape) > 1)

        handle = model.register_forward_pre_hook(note)
        with torch.overrides._pop_mode_temporarily(), torch.utils._python_dispatch._disable_current_modes():
            losses = train(model, reference_ids()[0], steps, 16, 0.02, 7)
        handle.remove()
        weights = {name: p.detach() for name, p in model.named_parameters()}
        return {
            "losses": losses,
            "weights": weights,
            "mask": model.mask,
            "as given": all(as_given),
            "windows": len(windows),
            "opened": sorted(opened),
            "neighbours": sorted(neighbours),
        }

    def nats(logits, targets):
        """Mean loss of logits (..., 256) for targets (...)."""
        return F.cross_entropy(logits.flatten(0, -2), targets.flatten()).item()

    torch.set_num_threads(1)
    test("200 steps on the course's text; then the loss is measured on its last tenth, which `train` did not get")
    seen = observe_scenario(trained, train, 200)
    judge_losses(seen, 200)

    seen.that(
        seen["as given"],
        "Before the first pass your code changed the weights, so what a trained model has learnt would be lost. Train "
        "the weights that the model comes with.",
        stage="arguments",
    )
    model = SmallLM(width=32, layers=1, length=24)
    named = dict(model.named_parameters())
    same_parts = seen["weights"].keys() == named.keys() and isinstance(seen["mask"], Tensor)
    same_parts = same_parts and all(seen["weights"][name].shape == p.shape for name, p in named.items())
    seen.that(
        same_parts and seen["mask"].shape == model.mask.shape,
        "Your code changed the model's modules.",
        stage="arguments",
    )
    model.load_state_dict(seen["weights"] | {"head.weight": seen["weights"]["emb.weight"]})
    model.mask.copy_(seen["mask"])

    rest = reference_ids()[1]
    windows = rest.unfold(0, 26, 72)
    x, later = windows[:, :24], windows[:, :24].clone()
    later[:, -1] = x[:, -1].flip(0)
    alone = x[:, -1:]
    with torch.no_grad():
        logits, moved, without = model(x), model(later), model(alone)
    seen.that(
        torch.allclose(logits[:, :-1], moved[:, :-1], atol=1e-4, equal_nan=True),
        "A later byte changes earlier outputs, because your code opened the mask. Such a loss means nothing.",
    )
    by_shift = [nats(logits, windows[:, k : k + 24]) for k in range(3)]
    from_one = nats(without[:, -1], windows[:, 24])
    helped = from_one - nats(logits[:, -1], windows[:, 24])
    no_use = "The model predicts as well from the last byte alone, so it doesn't use the earlier bytes."
    lately = sum(seen["losses"][-20:]) / 20
    seen.that(
        by_shift[1] < 2.5,
        f"On text that it never saw the model has {by_shift[1]:.2f} nats per byte, but must get below 2.5. It "
        "learnt too little in these steps. Does the optimizer use your rate, are old gradients cleared, is every "
        "parameter stepped?",
        mistake(
            "The loss became nan in training. Is the rate the one in the contract?",
            when=lambda seen: math.isnan(by_shift[1]),
        ),
        mistake(
            f"The model learnt to copy: its loss is {by_shift[0]:.2f} nats for the current byte and "
            f"{by_shift[1]:.2f} for the next. The targets are the inputs themselves, so shift them by one.",
            when=lambda seen: by_shift[0] < 1,
        ),
        mistake(
            f"The model learnt to predict the byte after the next: its loss for that byte is {by_shift[2]:.2f} "
            f"nats, and for the next byte {by_shift[1]:.2f}. Check the shift of the targets.",
            when=lambda seen: by_shift[2] < min(3.0, by_shift[1]),
        ),
        mistake(
            "During training the model could look at later bytes, because your code opened the mask.",
            when=lambda seen: True in seen["opened"],
        ),
        mistake(side_by_side, when=lambda seen: seen["neighbours"] == [True]),
        mistake(no_use, when=lambda seen: from_one < 3 and helped < 0.01),
        mistake(
            f"The model knows a few windows by heart: {lately:.2f} nats in training, {by_shift[1]:.2f} on new "
            "text. Draw new windows in each step, from the whole text.",
            when=lambda seen: lately < by_shift[1] - 1 and 0 < seen["windows"] < 2000,
        ),
    )

    test("earlier bytes help")
    seen.that(helped > 0.05, no_use)
