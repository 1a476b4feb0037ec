# %% [markdown]
# ### Exercise 2.6 · The best weights that were never kept
#
# fix · warm-up · 8 min · 1 point
#
# Keeping the best weights of a training run takes a few lines in a training loop. In this loop, `best` contains the
# *last* weights at the end:
#
#     best_loss, best = float("inf"), None
#     for epoch in range(20):
#         loss = train_one_epoch(model)
#         if loss < best_loss:
#             best_loss, best = loss, snapshot(model)
#
# Fix `snapshot`.
#
# **Contract**
#
# - The snapshot contains everything that `model.state_dict()` contains: the parameters, and registered tensors that
#   aren't trained, such as the statistics of a batch norm. Keys, values, dtypes and devices are the same.
# - The tensors are copies: later training, in-place writes or `load_state_dict` on the model do not change them. They
#   don't require grad and keep no graph. Two snapshots are independent.
# - The model itself is not changed; `model.load_state_dict(snapshot)` restores it.
# - You may assume that no tensor has two names.
#
# <details><summary>Hint 1</summary>
#
# An optimizer step writes into the parameters in place. After detach, dict(...), contiguous and clone, which results
# still share the parameters' memory?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# `state_dict()` already contains everything you need, and its entries are detached. But `detach()` shares memory
# (section 2.3). What is missing is a copy of each entry's data.
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# Of the four in Hint 1, only one makes new cells. Use it in the given line in place of `detach`. It keeps dtype and
# device, and the entries of `state_dict()` don't require grad, so their copies don't either.
#
# </details>


# %% answer="snapshot-weights"
def snapshot(model: nn.Module) -> dict[str, Tensor]:
    """Copies of all of the model's state_dict, untouched by what happens to the model later."""
    ### BEGIN SOLUTION
    return {name: value.clone() for name, value in model.state_dict().items()}
    ### END SOLUTION
    ### BEGIN GIVEN
    # raise NotImplementedError  # fix the code below, then delete this line
    # return {name: value.detach() for name, value in model.state_dict().items()}
    ### END GIVEN


# %% helpers="snapshot-weights"
def small_model():
    """A model with batch norm, a float64 parameter, a bool buffer and a buffer that is not persistent. No float holds
    the number of batches that the batch norm has seen."""
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2))
    model.register_parameter("scale", nn.Parameter(torch.tensor([0.1, 0.7], dtype=torch.float64)))
    model[1].num_batches_tracked.fill_(2**53 + 1)
    model[1].register_buffer("visible", torch.tensor([[True, False], [True, True]]))
    model.register_buffer("scratch", torch.ones(2), persistent=False)
    return model


def train_a_step(model):
    """Change every parameter in place, as an optimizer does, and the statistics of batch norm."""
    model.train()
    with torch.no_grad():
        model(torch.arange(15.0).reshape(5, 3) / 10)
        for parameter in model.parameters():
            parameter.sub_(0.25)


def noted(tensors):
    """The dtypes and values of a dict of tensors at this moment."""
    return {name: [tensor.dtype, tensor.tolist()] for name, tensor in tensors.items()}


# %% check="snapshot-weights" points=0.5
"""The snapshot holds all that state_dict() holds, and training leaves it alone."""
with check("snapshot-weights") as test:

    def through_training(snapshot):
        """Take a snapshot, train a step, and look at both."""
        model = small_model()
        wanted, taken = noted(model.state_dict()), snapshot(model)
        entries = taken.values() if isinstance(taken, dict) else [taken]
        if no_tensors := [type(entry).__name__ for entry in entries if not isinstance(entry, Tensor)]:
            return {"no tensors": no_tensors}
        at_first = noted(taken)
        train_a_step(model)
        return {"wanted": wanted, "at first": at_first, "later": noted(taken)}

    test("a training step leaves the snapshot alone")
    seen = observe_scenario(through_training, snapshot)
    odd = ", ".join(dict.fromkeys(seen.value.get("no tensors", [])))
    seen.that(not odd, f"The snapshot must be a dict from names to tensors; found: {odd}.", stage="type")
    wanted, taken = seen["wanted"], seen["at first"]
    missing = ", ".join(name for name in wanted if name not in taken)
    seen.that(
        not missing,
        f"Entries are missing: {missing}.",
        mistake(
            f"Buffers are missing ({missing}): a model with batch norm is not restored by its parameters alone.",
            when=lambda seen: "1.running_mean" not in seen["at first"] and "0.weight" in seen["at first"],
        ),
    )
    overwritten = ", ".join(name for name in taken if taken[name] != seen["later"][name])
    seen.that(
        not overwritten,
        "The snapshot changed when the model was trained, because it has other names for the same memory and "
        f"not copies ({overwritten}).",
        stage="aliasing",
    )

# %% check="snapshot-weights" points=0.5
"""Exact copies without a graph, that can be loaded; the model stays as it is."""
with check("snapshot-weights") as test:

    def condition_of(model):
        """What a snapshot must not change."""
        return {
            "values": noted(model.state_dict()),
            "requires_grad": [parameter.requires_grad for parameter in model.parameters()],
            "gradients": noted({name: p.grad for name, p in model.named_parameters() if p.grad is not None}),
            "training": [module.training for module in model.modules()],
        }

    def memory_of(model):
        """Its parameters and buffers, with the addresses of their data."""
        return [(tensor, tensor.data_ptr()) for tensor in [*model.parameters(), *model.buffers()]]

    def moved(memory, model):
        """Whether a parameter or buffer is another object than before, or its data lie elsewhere."""
        pairs = zip(memory, memory_of(model), strict=True)
        return any(old is not new or place != now for (old, place), (new, now) in pairs)

    def through_training(snapshot):
        """Take a snapshot, train a step, and look at both."""
        model = small_model()
        before, memory = condition_of(model), memory_of(model)
        taken = snapshot(model)
        entries = taken.values() if isinstance(taken, dict) else [taken]
        if no_tensors := [type(entry).__name__ for entry in entries if not isinstance(entry, Tensor)]:
            return {"no tensors": no_tensors}
        after, replaced = condition_of(model), moved(memory, model)
        at_first = noted(taken)
        train_a_step(model)
        return {"before": before, "after": after, "replaced": replaced, "at first": at_first, "later": noted(taken)}

    def left_alone(seen):
        """Judge that taking the snapshot did not change the model."""
        changed = [name for name, old in seen["before"].items() if seen["after"][name] != old]
        changed += ["parameters or buffers got other memory"] * seen["replaced"]
        seen.that(
            not changed, f"Taking the snapshot changed the model itself: {', '.join(changed)}.", stage="arguments"
        )

    test("dtypes and values are those of the model, which is not changed")
    seen = observe_scenario(through_training, snapshot)
    again = (
        "It was right in the first check and is wrong here: does your code keep something from one call to the next?"
    )
    seen.that("no tensors" not in seen.value, again, FIRST_CHECK_FIRST)
    wanted, taken = seen["before"]["values"], seen["at first"]
    complete = all(name in taken for name in wanted)
    seen.that(complete and all(taken[name] == seen["later"][name] for name in taken), again, FIRST_CHECK_FIRST)
    for name, (kept, values) in wanted.items():
        came = taken[name][0]
        seen.that(
            came == kept,
            f"A snapshot must keep dtypes: {name} is {kept}, got {came}.",
            mistake(
                f"A snapshot must keep dtypes: {name} is {kept}, got {came}. Arithmetic such as `v + 0` or `v * 1` "
                "makes numbers of bools. `clone` copies every dtype as it is.",
                when=lambda seen, kept=kept, came=came: (kept, came) == (torch.bool, torch.int64),
            ),
            stage="dtype",
        )
        seen.that(taken[name][1] == values, f"Entry {name} was not copied as it is: the values or shapes differ.")
    left_alone(seen)

    def back_again(snapshot):
        """Take a snapshot, train, load the snapshot: the model's output before and after."""
        model, batch = small_model().eval(), torch.arange(6.0).reshape(2, 3)
        before = model(batch).tolist()
        taken = snapshot(model)
        train_a_step(model)
        extra = [name for name in taken if name not in model.state_dict()]
        if not extra:
            model.load_state_dict(taken)
        return {"extra": extra, "before": before, "after": model.eval()(batch).tolist()}

    test("load_state_dict(snapshot) brings the old outputs back")
    seen = observe_scenario(back_again, snapshot)
    extra = ", ".join(seen["extra"])
    seen.that(
        not extra,
        f"Keys that state_dict() does not have: {extra}. Non-persistent buffers do not belong in it.",
        stage="shape",
    )
    seen.that(seen["before"] == seen["after"], "Loading the snapshot does not restore the old outputs.")

    ### BEGIN HIDDEN TESTS
    def after_a_backward(snapshot):
        """A snapshot of a model with gradients, a frozen and an eval part: what is tracked, what changed."""
        model = small_model()
        model(torch.arange(15.0).reshape(5, 3)).square().sum().backward()
        model[0].weight.requires_grad_(False)
        model[1].eval()
        before, memory = condition_of(model), memory_of(model)
        taken = snapshot(model)
        return {
            "tracked": [name for name, value in taken.items() if value.requires_grad or value.grad_fn is not None],
            "before": before,
            "after": condition_of(model),
            "replaced": moved(memory, model),
        }

    test.hidden("no gradients, no graph in the snapshot")
    seen = observe_scenario(after_a_backward, snapshot)
    tracked = ", ".join(seen["tracked"])
    seen.that(
        not tracked,
        f"A snapshot that requires grad keeps the graph (and its memory) alive: {tracked}.",
        stage="gradient",
    )

    test.hidden("gradients, frozen parameters and modes of the model stay")
    left_alone(seen)

    def two_snapshots(snapshot):
        """Two snapshots with training in between; then the first is loaded."""
        model = small_model()
        first = snapshot(model)
        first_before = noted(first)
        train_a_step(model)
        second, trained = snapshot(model), noted(model.state_dict())
        second_before, first_after = noted(second), noted(first)
        model.load_state_dict(first)
        return {
            "first": [first_before, first_after],
            "trained": trained,
            "second": [second_before, noted(second)],
        }

    test.hidden("two snapshots are independent of each other, and of load_state_dict")
    seen = observe_scenario(two_snapshots, snapshot)
    (first, first_later), (second, second_later) = seen["first"], seen["second"]
    seen.that(second == seen["trained"], "The second snapshot does not hold the model's later weights.")
    seen.that(first == first_later, "A later snapshot changed an earlier one.", stage="aliasing")
    seen.that(second == second_later, "load_state_dict on the model changed the snapshot.", stage="aliasing")

    def on_another_device(snapshot):
        """The devices and shapes of a snapshot of a model on the meta device."""
        taken = snapshot(nn.BatchNorm1d(2, device="meta")).values()
        return [[str(value.device) for value in taken], [list(value.shape) for value in taken]]

    test.hidden("a model on another device (here: meta)")
    stay = mistake("The copies must stay on the devices of the originals: {detail}.", stage="raised")
    seen = observe_scenario(on_another_device, snapshot).expecting(stay)
    seen.that(seen.value[0] == ["meta"] * 5, "The copies must stay on the devices of the originals.", stage="device")
    seen.that(
        seen.value[1] == [[2], [2], [2], [2], []],
        "On the meta device some entries have the shape of another entry. There every data_ptr() is 0, and elsewhere "
        "a tensor and a view of it can begin at one address, so an address doesn't say which tensor it is.",
        stage="shape",
    )
    ### END HIDDEN TESTS
