# corners: none
RIGHT = {
    "pieces": ["first", "second", "unscale", "clip", "step", "update"],
    "schedule": ["zero", "backward", "step", "old", "update", "schedule"],
}


# %% right: the second piece first, zero_grad at the end, tuples
orders = {
    "pieces": ("second", "first", "unscale", "clip", "step", "update"),
    "schedule": ("old", "backward", "step", "update", "schedule", "zero"),
}


# %% right: zero_grad right after the step
orders = RIGHT | {"schedule": ["backward", "old", "step", "zero", "update", "schedule"]}


# %% right: zero_grad before the learning rate is changed
orders = RIGHT | {"schedule": ["backward", "step", "old", "update", "zero", "schedule"]}


# %% wrong: unscales after each piece
# says: `unscale_` comes before a backward here. That backward adds a gradient in scaled units. Unscale after both pieces.
# earns: 0.5 of 1
# lesson
orders = RIGHT | {"pieces": ["first", "unscale", "second", "clip", "step", "update"]}


# %% wrong: clips scaled gradients
# says: You clip before `unscale_`, so the norm is measured on gradients that are still multiplied by the scale.
# earns: 0.5 of 1
# lesson
orders = RIGHT | {"pieces": ["first", "second", "clip", "unscale", "step", "update"]}


# %% wrong: unscales for the next time
# says: `step` comes before `unscale_` here. It then unscales the gradients itself, and `unscale_` comes too late.
# earns: 0.5 of 1
orders = RIGHT | {"pieces": ["first", "second", "step", "unscale", "clip", "update"]}


# %% wrong: clips before there is a gradient
# says: `clip` comes before a backward here, so it doesn't see the gradient of that piece.
# earns: 0.5 of 1
orders = RIGHT | {"pieces": ["clip", "first", "second", "unscale", "step", "update"]}


# %% wrong: a step for each piece
# says: `step` comes before a backward here. It needs the gradients of both pieces.
# earns: 0.5 of 1
orders = RIGHT | {"pieces": ["first", "unscale", "clip", "step", "second", "update"]}


# %% wrong: the schedule of the batch before
# says: `schedule` comes before `old` here. In the first batch there is no `old_scale` yet to compare with.
# earns: 0.5 of 1
orders = RIGHT | {"schedule": ["schedule", "old", "zero", "backward", "step", "update"]}


# %% wrong: clips after the step
# says: You clip after `step`, which has used the gradients as they were.
# earns: 0.5 of 1
# lesson
orders = RIGHT | {"pieces": ["first", "second", "unscale", "step", "clip", "update"]}


# %% wrong: updates before the step
# says: `update` comes before `step` here. It ends the scaler's step: it may change the scale, and it forgets what
# earns: 0.5 of 1
# lesson
orders = RIGHT | {"pieces": ["first", "second", "unscale", "clip", "update", "step"]}


# %% wrong: without unscaling
# says: Your list lacks unscale.
# earns: 0.5 of 1
# lesson
orders = RIGHT | {"pieces": ["first", "second", "clip", "step", "update"]}


# %% wrong: the step of the batch before
# says: `step` comes before `backward` here, when this batch has no gradients yet.
# earns: 0.5 of 1
orders = RIGHT | {"schedule": ["step", "zero", "backward", "old", "update", "schedule"]}


# %% wrong: clears the gradients before they are used
# says: `zero_grad` comes between `backward` and `step` here, so `step` finds no gradients.
# earns: 0.5 of 1
# lesson
orders = RIGHT | {"schedule": ["backward", "zero", "step", "old", "update", "schedule"]}


# %% wrong: updates before it has looked for an inf
# says: `update` comes before `step` here. It needs to know whether the gradients had an inf, and `step` looks for that.
# earns: 0.5 of 1
orders = RIGHT | {"schedule": ["zero", "backward", "old", "update", "step", "schedule"]}


# %% wrong: compares the new scale with itself
# says: `old_scale` is read after `update` here. Then it is the new scale, and the comparison doesn't see that a step was skipped.
# earns: 0.5 of 1
# lesson
orders = RIGHT | {"schedule": ["zero", "backward", "step", "update", "old", "schedule"]}


# %% wrong: compares before update
# says: `schedule` comes before `update` here. Only `update` makes the scale smaller after a skipped step
# earns: 0.5 of 1
# lesson
orders = RIGHT | {"schedule": ["zero", "old", "backward", "step", "schedule", "update"]}


# %% wrong: lines of the other loop
# says: None of the items is right yet.
# earns: 0 of 1
orders = {"pieces": RIGHT["schedule"], "schedule": RIGHT["pieces"]}


# %% wrong: a name twice
# says: Your list has update twice. Each name may be in it once.
# earns: 0.5 of 1
orders = RIGHT | {"pieces": ["first", "update", "second", "unscale", "clip", "step", "update"]}


# %% wrong: one is left open
# says: There is no order yet: write yours in place of the `...`.
# earns: 0.5 of 1
orders = RIGHT | {"schedule": ...}


# %% wrong: one list for both
# says: The answer must be a dict from item names to orders
# earns: 0 of 1
orders = RIGHT["pieces"]
