# %% [markdown]
# ### Exercise 8.11 · The order of a step
#
# order · solid · 10 min · 1 point
#
# Here are two training loops in float16. The lines of a step are missing, and are given below each loop in alphabetical
# order, each with a name. Both loops begin with this:
#
#     model = nn.Linear(1, 1, bias=False)
#     optimizer = torch.optim.SGD(model.parameters(), lr=0.25)
#     scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
#
#     def loss_of(x, target):
#         with torch.autocast("cpu", dtype=torch.float16):
#             return F.mse_loss(model(x), target)
#
# **"pieces".** Each batch comes in two pieces. The optimizer takes one step for both, with gradients clipped to norm 1.
#
#     for x_1, target_1, x_2, target_2 in batches:
#         optimizer.zero_grad()
#         ...  # your order of these lines
#
#     clip      nn.utils.clip_grad_norm_(model.parameters(), 1.0)
#     first     scaler.scale(loss_of(x_1, target_1) / 2).backward()
#     second    scaler.scale(loss_of(x_2, target_2) / 2).backward()
#     step      scaler.step(optimizer)
#     unscale   scaler.unscale_(optimizer)
#     update    scaler.update()
#
# **"schedule".** The learning rate is halved after each step that the scaler didn't skip, and stays as it is after a
# skipped one.
#
#     scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=1, gamma=0.5)
#     for x, target in batches:
#         ...  # your order of these lines
#
#     backward  scaler.scale(loss_of(x, target)).backward()
#     old       old_scale = scaler.get_scale()
#     schedule  if scaler.get_scale() >= old_scale: scheduler.step()
#     step      scaler.step(optimizer)
#     update    scaler.update()
#     zero      optimizer.zero_grad()
#
# **Contract**
#
# - `orders` is a dict with the keys "pieces" and "schedule". Each value is a list of the six names of its loop. Each
#   list is worth half a point.
# - The check runs the loop with your order. Every order in which the weights come out right is right, and there are
#   several.
#
# <details><summary>Hint 1</summary>
#
# For each line, ask which other lines must have run so that it finds what it needs.
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# In which units are the gradients before and after `unscale_`, and in which must they be when you add another gradient
# to them, and when you clip them? Which line changes the scale?
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# All gradients of a step are added in scaled units, then unscaled together, then clipped, then used. `update` comes
# after `step` and halves the scale if the step was skipped, so you can see a skipped step by comparing the scale before
# `update` with the scale after it. `zero_grad` may be anywhere except between the backward and the step that uses its
# gradients.
#
# </details>

# %% answer="amp-in-order"
### BEGIN SOLUTION
orders = {
    "pieces": ["first", "second", "unscale", "clip", "step", "update"],
    "schedule": ["zero", "backward", "step", "old", "update", "schedule"],
}
### END SOLUTION
### BEGIN GIVEN
# orders = {
#     "pieces": ...,  # such as ["clip", "first", ...]
#     "schedule": ...,
# }
### END GIVEN

# %% check="amp-in-order" points=1
"""Each loop is run with your order; every right order earns its share."""
with check("amp-in-order") as test:
    lines_of_pieces = {
        "clip": "nn.utils.clip_grad_norm_(model.parameters(), 1.0)",
        "first": "scaler.scale(loss_of(x_1, target_1) / 2).backward()",
        "second": "scaler.scale(loss_of(x_2, target_2) / 2).backward()",
        "step": "scaler.step(optimizer)",
        "unscale": "scaler.unscale_(optimizer)",
        "update": "scaler.update()",
    }
    lines_of_schedule = {
        "backward": "scaler.scale(loss_of(x, target)).backward()",
        "old": "old_scale = scaler.get_scale()",
        "schedule": "if scaler.get_scale() >= old_scale: scheduler.step()",
        "step": "scaler.step(optimizer)",
        "update": "scaler.update()",
        "zero": "optimizer.zero_grad()",
    }

    def weight_after(program, batches):
        """The weight, from 0, when the program has run for each batch, a dict of numbers by the names of its parts."""
        model = nn.Linear(1, 1, bias=False)
        nn.init.zeros_(model.weight)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.25)
        space = {
            "nn": nn,
            "model": model,
            "optimizer": optimizer,
            "scaler": torch.amp.GradScaler("cpu", init_scale=1024.0),
            "scheduler": torch.optim.lr_scheduler.StepLR(optimizer, step_size=1, gamma=0.5),
        }

        def loss_of(x, target):
            with torch.autocast("cpu", dtype=torch.float16):
                return F.mse_loss(model(x), target)

        for batch in batches:
            space |= {"loss_of": loss_of} | {name: torch.tensor([[number]]) for name, number in batch.items()}
            exec(program, space)
        return model.weight.item()

    def pieces_work(names):
        """Gradients of -6, clipped, and of 0.5: the weight goes to 0.25, and back by 0.125."""
        batches = [
            {"x_1": 1.0, "target_1": 2.0, "x_2": 1.0, "target_2": 4.0},
            {"x_1": 1.0, "target_1": 0.5, "x_2": 1.0, "target_2": -0.5},
        ]
        program = ["optimizer.zero_grad()", *(lines_of_pieces[name] for name in names)]
        return math.isclose(weight_after("\n".join(program), batches), 0.125, abs_tol=1e-3)

    def schedule_works(names):
        """Gradients of -2, one that overflows, and -1, for a learning rate of 0.25 and then of 0.125."""
        batches = [{"x": 1.0, "target": 1.0}, {"x": 1.0, "target": 1000.0}, {"x": 1.0, "target": 1.0}]
        program = "\n".join(lines_of_schedule[name] for name in names)
        return math.isclose(weight_after(program, batches), 0.625, abs_tol=1e-3)

    test("each loop is run with your order")
    test.points = observe_value(orders).orders(
        {
            "pieces": ordering(
                lines_of_pieces,
                pieces_work,
                {
                    "`step` comes before a backward here. It needs the gradients of both pieces.": [
                        "step first",
                        "step second",
                    ],
                    "`clip` comes before a backward here, so it doesn't see the gradient of that piece.": [
                        "clip first",
                        "clip second",
                    ],
                    "`unscale_` comes before a backward here. That backward adds a gradient in scaled units. Unscale "
                    "after both pieces.": ["unscale first", "unscale second"],
                    "You clip before `unscale_`, so the norm is measured on gradients that are still multiplied by the "
                    "scale. Unscale first.": "clip unscale",
                    "`step` comes before `unscale_` here. It then unscales the gradients itself, and `unscale_` "
                    "comes too late.": "step unscale",
                    "You clip after `step`, which has used the gradients as they were.": "step clip",
                    "`update` comes before `step` here. It ends the scaler's step: it may change the scale, and it "
                    "forgets what `unscale_` has done. So it must be the last line.": "update step",
                },
            ),
            "schedule": ordering(
                lines_of_schedule,
                schedule_works,
                {
                    "`step` comes before `backward` here, when this batch has no gradients yet.": "step backward",
                    "`zero_grad` comes between `backward` and `step` here, so `step` finds no gradients.": (
                        "backward zero step"
                    ),
                    "`update` comes before `step` here. It needs to know whether the gradients had an inf, and `step` "
                    "looks for that.": "update step",
                    "`old_scale` is read after `update` here. Then it is the new scale, and the comparison doesn't see "
                    "that a step was skipped.": "update old",
                    "`schedule` comes before `old` here. In the first batch there is no `old_scale` yet to compare "
                    "with.": "schedule old",
                    "`schedule` comes before `update` here. Only `update` makes the scale smaller after a skipped "
                    "step, so the comparison comes too early.": "schedule update",
                },
            ),
        },
        points=1,
    )
test.points
