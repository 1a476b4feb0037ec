import copy
import hashlib
import math

import torch


def asked(
    same=lambda a, b: torch.allclose(a, b, rtol=0, atol=0, equal_nan=True),
    copied=lambda w: w.detach().clone(),
    which=lambda weights: weights,
    finite=math.isfinite,
    low=lambda losses, floor: losses[-1] < floor,
    larger=lambda losses: losses[-1] > losses[0],
    compare="always",
    still_first=True,
    probe=False,
    last=0,
):
    """why_not, with other parts."""

    def why_not(step, weights, floor=0.01, max_steps=300):
        weights = which(weights)
        before, losses, moved = [copied(w) for w in weights], [], False
        if probe:
            step()
        for n in range(max_steps + last):
            losses.append(step())
            if compare == "always" or (compare == "first" and n == 0) or (compare == "last" and n == max_steps - 1):
                moved = moved or not all(same(w.detach(), old) for w, old in zip(weights, before))
            if low(losses, floor):
                return "fits"
            if not finite(losses[-1]):
                break
        if compare == "end":
            moved = not all(same(w.detach(), old) for w, old in zip(weights, before))
        if still_first and not moved:
            return "stands still"
        if losses and (not finite(losses[-1]) or larger(losses)):
            return "diverges"
        return "stuck" if moved else "stands still"

    return why_not


# corners: nan, empty, 0-d, members


# %% right: checksums of the bytes
def why_not(step, weights, floor=0.01, max_steps=300):
    def checksum():
        return [hashlib.sha256(w.detach().numpy().tobytes()).hexdigest() for w in weights]

    before, first, last, moved = checksum(), None, None, False
    for _ in range(max_steps):
        last = step()
        first = last if first is None else first
        moved |= checksum() != before
        if last < floor:
            return "fits"
        if last != last or abs(last) == float("inf"):
            return "diverges" if moved else "stands still"
    if not moved:
        return "stands still"
    return "diverges" if last > first else "stuck"


# %% right: nan_to_num and a mask before torch.equal, a while loop
def why_not(step, weights, floor=0.01, max_steps=300):
    old = [copy.deepcopy(w.data) for w in weights]
    count, verdict, losses = 0, None, []
    moved = False
    while count < max_steps and verdict is None:
        losses += [step()]
        count += 1
        for a, b in zip(old, weights):
            same = torch.equal(torch.nan_to_num(a), torch.nan_to_num(b.data))
            if not (same and torch.equal(a.isnan(), b.isnan())):
                moved = True
        if losses[-1] < floor:
            verdict = "fits"
        elif not math.isfinite(losses[-1]):
            verdict = "diverges"
    if verdict == "fits":
        return verdict
    if not moved:
        return "stands still"
    if verdict is None:
        verdict = "diverges" if losses[-1] > losses[0] else "stuck"
    return verdict


# %% right: differences under a mask, recursion
def why_not(step, weights, floor=0.01, max_steps=300, old=None, first=None, loss=None, moved=False):
    old = [w.tolist() for w in weights] if old is None else old
    if loss is not None and loss < floor:
        return "fits"
    if max_steps == 0 or (loss is not None and not math.isfinite(loss)):
        if not moved:
            return "stands still"
        return "stuck" if loss <= first else "diverges"
    loss = step()
    now = [w.tolist() for w in weights]
    return why_not(
        step, weights, floor, max_steps - 1, old, loss if first is None else first, loss, moved or str(now) != str(old)
    )


# %% wrong: compares the weights with themselves
# says: All weights change here. You compared the weights with themselves. Keep clones, not the tensors.
# says: This check builds on the first one
# earns: 0 of 2
# lesson
why_not = asked(copied=lambda w: w)


# %% wrong: detach alone is a copy
# says: All weights change here. You compared the weights with themselves. Keep clones, not the tensors.
# says: This check builds on the first one
# earns: 0 of 2
# lesson
why_not = asked(copied=lambda w: w.detach())


# %% wrong: judges standing still by the loss alone
# says: The loss changes because of dropout, but the weights don't change. Look at the weights, not only at the
# earns: 1 of 2
# lesson
def why_not(step, weights, floor=0.01, max_steps=300):
    losses = []
    for _ in range(max_steps):
        losses.append(step())
        if losses[-1] < floor:
            return "fits"
        if not math.isfinite(losses[-1]):
            return "diverges"
    if len(set(losses)) <= 1:
        return "stands still"
    return "diverges" if losses[-1] > losses[0] else "stuck"


# %% wrong: does not look at the weights at all
# says: The loss is constant because the weights don't change. Look at the weights, not only at the loss (with
# says: This check builds on the first one
# earns: 0 of 2
# lesson
why_not = asked(same=lambda a, b: False)


# %% wrong: looks at the first weight only
# says: All weights count, not only the first. A first layer that is frozen doesn't change in a network that
# earns: 1 of 2
# caught: hidden
# corner: members
why_not = asked(which=lambda weights: weights[:1])


# %% wrong: looks at the last weight only
# says: All weights count. If one of them doesn't change, the others may.
# earns: 1 of 2
# caught: hidden
why_not = asked(which=lambda weights: weights[-1:])


# %% wrong: all weights must have moved
# says: All weights count, not only the first. A first layer that is frozen doesn't change in a network that
# earns: 1 of 2
# caught: hidden
# corner: members
def why_not(step, weights, floor=0.01, max_steps=300):
    before, losses, moved = [w.detach().clone() for w in weights], [], set()
    for _ in range(max_steps):
        losses.append(step())
        moved |= {n for n, w in enumerate(weights) if not torch.allclose(w, before[n], rtol=0, atol=0, equal_nan=True)}
        if losses[-1] < floor:
            return "fits"
        if not math.isfinite(losses[-1]):
            break
    if len(moved) < len(weights) or not weights or not losses:
        return "stands still"
    return "diverges" if not losses[-1] <= losses[0] or math.isinf(losses[-1]) else "stuck"


# %% wrong: does not ask for nan and inf
# says: The loss became nan: nan < floor is False and nan > first is False. Ask for isfinite.
# says: This check builds on the first one
# earns: 0 of 2
# lesson
why_not = asked(finite=lambda loss: True)


# %% wrong: asks for nan, not for inf
# says: A loss of inf also ends the calls. Check with isfinite, not only for nan.
# earns: 1 of 2
# caught: hidden
# corner: nan
why_not = asked(finite=lambda loss: loss == loss)


# %% wrong: calls the first rise a divergence
# says: You judged by a rise or stopped early, but a loss may rise for a while and fall later.
# earns: 1 of 2
# lesson
def why_not(step, weights, floor=0.01, max_steps=300):
    before, losses, moved = [w.detach().clone() for w in weights], [], False
    for _ in range(max_steps):
        losses.append(step())
        moved = moved or not all(torch.allclose(w, b, rtol=0, atol=0, equal_nan=True) for w, b in zip(weights, before))
        if losses[-1] < floor:
            return "fits"
        if moved and (not math.isfinite(losses[-1]) or losses[-1] > losses[0]):
            return "diverges"
    return "stuck" if moved else "stands still"


# %% wrong: looks at floor only after all calls
# says: You call step too often. Stop after a loss that is below floor, nan or inf, and after max_steps calls.
# says: This check builds on the first one
# earns: 0 of 2
# lesson
def why_not(step, weights, floor=0.01, max_steps=300):
    before = [w.detach().clone() for w in weights]
    losses, moved = [], False
    for _ in range(max_steps):
        losses.append(step())
        moved = moved or not all(torch.allclose(w, b, rtol=0, atol=0, equal_nan=True) for w, b in zip(weights, before))
        if not math.isfinite(losses[-1]):
            break
    if losses and losses[-1] < floor:
        return "fits"
    if not moved:
        return "stands still"
    return "stuck" if losses[-1] <= losses[0] else "diverges"


# %% wrong: torch.equal on weights that hold nan
# says: Here a nan stays nan. Because nan != nan, torch.equal calls that a change.
# earns: 1 of 2
# caught: hidden
# corner: nan
why_not = asked(same=torch.equal)


# %% wrong: says "fits" when the loss has fallen to half
# says: The weights change and the loss falls, but never below floor, so it is 'stuck'
# says: This check builds on the first one
# earns: 0 of 2
# lesson
why_not = asked(low=lambda losses, floor: losses[-1] < losses[0] * 0.6)


# %% wrong: says "fits" when the loss has fallen to a fifth in the end
# says: The weights change and the loss falls, but never below floor, so it is 'stuck'.
# earns: 1 of 2
def why_not(step, weights, floor=0.01, max_steps=300):
    losses = []

    def noted():
        losses.append(step())
        return losses[-1]

    came = asked()(noted, weights, floor, max_steps)
    return "fits" if came == "stuck" and losses[-1] < losses[0] / 5 else came


# %% wrong: says "fits" as soon as the loss has fallen to a fifth
# says: You stopped early, but a loss may rise for a while and fall later. Before max_steps, only a loss that is
# says: This check builds on the first one
# earns: 0 of 2
why_not = asked(low=lambda losses, floor: losses[-1] < losses[0] / 5)


# %% wrong: falls, and so it is not stuck
# says: The weights change and the loss falls, but never below floor, so it is 'stuck'
# says: This check builds on the first one
# earns: 0 of 2
def why_not(step, weights, floor=0.01, max_steps=300):
    came = asked()(step, weights, floor, max_steps)
    return "fits" if came == "stuck" else came


# %% wrong: counts writes
# says: Only the values count. An update by zero changes nothing.
# earns: 1 of 2
# caught: hidden
def why_not(step, weights, floor=0.01, max_steps=300):
    before, losses, moved = [w._version for w in weights], [], False
    for _ in range(max_steps):
        losses.append(step())
        moved = moved or [w._version for w in weights] != before
        if losses[-1] < floor:
            return "fits"
        if not math.isfinite(losses[-1]):
            break
    if not moved:
        return "stands still"
    return "stuck" if losses[-1] <= losses[0] else "diverges"


# %% wrong: compares with a tolerance
# says: Even a small change counts. Compare exactly, in the weights' own dtype.
# earns: 1 of 2
# caught: hidden
why_not = asked(same=lambda a, b: torch.allclose(a, b, equal_nan=True))


# %% wrong: compares sums
# says: Changes can cancel in a sum, a mean or a norm. Compare element by element.
# earns: 1 of 2
# caught: hidden
why_not = asked(
    copied=lambda w: w.detach().double().sum(),
    same=lambda a, b: bool(torch.isclose(a.double().sum(), b, rtol=0, atol=0, equal_nan=True)),
)


# %% wrong: compares sums of squares
# says: Changes can cancel in a sum, a mean or a norm. Compare element by element.
# earns: 1 of 2
# caught: hidden
why_not = asked(
    copied=lambda w: w.detach().clone(),
    same=lambda a, b: (a.square().nansum(), a.isnan().sum()) == (b.square().nansum(), b.isnan().sum()),
)


# %% wrong: asks for differences above 0
# says: All weights became nan here, which is a change. A comparison such as `(new - old).abs() > 0` doesn't notice
# earns: 1 of 2
# caught: hidden
# corner: nan
why_not = asked(same=lambda a, b: not ((a - b).abs() > 0).any())


# %% wrong: nan_to_num before the comparison
# says: A weight went from 0 to nan here, which is a change. If you count nan as 0, as `nan_to_num` and `nansum` do,
# earns: 1 of 2
# caught: hidden
# corner: nan
why_not = asked(same=lambda a, b: torch.equal(torch.nan_to_num(a), torch.nan_to_num(b)))


# %% wrong: copies in float32
# says: Even a small change counts. Compare exactly, in the weights' own dtype.
# earns: 1 of 2
# caught: hidden
why_not = asked(
    copied=lambda w: w.detach().float().clone(),
    same=lambda a, b: torch.allclose(a.float(), b, rtol=0, atol=0, equal_nan=True),
)


# %% wrong: compares after the last call only
# says: The weights change and return to their old values at the end. Compare after each call, not only at the
# earns: 1 of 2
# caught: hidden
why_not = asked(compare="end")


# %% wrong: compares after the first call only
# says: The weights changed only later, because a schedule may start with a rate of zero.
# earns: 1 of 2
# caught: hidden
why_not = asked(compare="first")


# %% wrong: gives up when the first call moves nothing
# says: You stopped early, but a loss may rise for a while and fall later. Before max_steps, only a loss that is
# says: This check builds on the first one
# earns: 0 of 2
def why_not(step, weights, floor=0.01, max_steps=300):
    before = [w.detach().clone() for w in weights]
    losses = []
    for _ in range(max_steps):
        losses.append(step())
        if losses[-1] < floor:
            return "fits"
        if all(torch.allclose(w, b, rtol=0, atol=0, equal_nan=True) for w, b in zip(weights, before)):
            return "stands still"
        if not math.isfinite(losses[-1]):
            return "diverges"
    if not losses:
        return "stands still"
    return "diverges" if losses[-1] > losses[0] else "stuck"


# %% wrong: diverging goes before standing still
# says: 'stands still' comes before 'diverges', and no weight had changed when the loss became nan or larger.
# earns: 1 of 2
# caught: hidden
def why_not(step, weights, floor=0.01, max_steps=300):
    before, losses, moved = [w.detach().clone() for w in weights], [], False
    for _ in range(max_steps):
        losses.append(step())
        moved = moved or not all(torch.allclose(w, b, rtol=0, atol=0, equal_nan=True) for w, b in zip(weights, before))
        if losses[-1] < floor:
            return "fits"
        if not math.isfinite(losses[-1]):
            return "diverges"
    if not moved:
        return "stands still"
    return "diverges" if losses[-1] > losses[0] else "stuck"


# %% wrong: a larger loss goes before standing still
# says: 'stands still' comes before 'diverges', and no weight had changed when the loss became nan or larger.
# earns: 1 of 2
why_not = asked(still_first=False)


# %% wrong: one call before the loop
# says: You call step too often. Stop after a loss that is below floor, nan or inf, and after max_steps calls.
# says: This check builds on the first one
# earns: 0 of 2
why_not = asked(probe=True)


# %% wrong: one call too few
# says: You stopped early, but a loss may rise for a while and fall later. Before max_steps, only a loss that is
# says: This check builds on the first one
# earns: 0 of 2
why_not = asked(last=-1)


# %% wrong: one call too many
# says: You call step too often. Stop after a loss that is below floor, nan or inf, and after max_steps calls.
# says: This check builds on the first one
# earns: 0 of 2
why_not = asked(last=1)


# %% wrong: until it fits
# says: You call step too often. Stop after a loss that is below floor, nan or inf, and after max_steps calls.
# says: This check builds on the first one
# earns: 0 of 2
def why_not(step, weights, floor=0.01, max_steps=300):
    while (loss := step()) >= floor:
        pass
    return "fits" if loss < floor else "diverges"


# %% wrong: step under no_grad
# says: Each step trains, so it needs gradients. Don't call it under no_grad.
# says: This check builds on the first one
# earns: 0 of 2
@torch.no_grad()
def why_not(step, weights, floor=0.01, max_steps=300):
    return asked()(step, weights, floor, max_steps)


# %% wrong: puts the weights back
# says: Your function changed the weights, their gradients or their flags. Only read them.
# says: This check builds on the first one
# earns: 0 of 2
def why_not(step, weights, floor=0.01, max_steps=300):
    before = [w.detach().clone() for w in weights]
    came = asked()(step, weights, floor, max_steps)
    with torch.no_grad():
        for w, b in zip(weights, before):
            w.copy_(b)
    return came


# %% wrong: zeroes the gradients
# says: Your function changed the weights, their gradients or their flags. Only read them.
# says: This check builds on the first one
# earns: 0 of 2
def why_not(step, weights, floor=0.01, max_steps=300):
    came = asked()(step, weights, floor, max_steps)
    for w in weights:
        w.grad = None
    return came


# %% wrong: sets a seed
# says: Your function draws random numbers, which changes the next step.
# earns: 0 of 2
def why_not(step, weights, floor=0.01, max_steps=300):
    torch.manual_seed(1)
    return asked()(step, weights, floor, max_steps)


# %% wrong: at floor it fits
# says: A loss equal to floor is not below floor.
# earns: 1 of 2
# caught: hidden
why_not = asked(low=lambda losses, floor: losses[-1] <= floor)


# %% wrong: the floor is always 0.01
# says: The right answer is 'fits' (a loss came below floor), but you return 'stuck'.
# earns: 1 of 2
# caught: hidden
why_not = asked(low=lambda losses, floor: losses[-1] < 0.01)


# %% wrong: floor is not looked at in the last call
# says: A loss below floor in the last of max_steps calls also counts.
# earns: 1 of 2
# caught: hidden
def why_not(step, weights, floor=0.01, max_steps=300):
    before, losses, moved = [w.detach().clone() for w in weights], [math.inf], False
    for _ in range(max_steps):
        if losses[-1] < floor:
            return "fits"
        if not math.isfinite(losses[-1]) and len(losses) > 1:
            break
        losses.append(step())
        moved = moved or not all(torch.allclose(w, b, rtol=0, atol=0, equal_nan=True) for w, b in zip(weights, before))
    if not moved:
        return "stands still"
    return "stuck" if losses[-1] <= losses[1] and math.isfinite(losses[-1]) else "diverges"


# %% wrong: as large as the first diverges
# says: A last loss equal to the first is not larger.
# earns: 1 of 2
# caught: hidden
why_not = asked(larger=lambda losses: len(losses) > 1 and losses[-1] >= losses[0])


# %% wrong: the largest loss counts
# says: You judged by a rise or stopped early, but a loss may rise for a while and fall later.
# earns: 1 of 2
why_not = asked(larger=lambda losses: max(losses) > losses[0])


# %% wrong: the last two losses count
# says: Only the first and the last loss decide whether it diverges, not those in between.
# earns: 1 of 2
# caught: hidden
why_not = asked(larger=lambda losses: losses[-1] > losses[-2] if len(losses) > 1 else False)


# %% wrong: no call at all is an error
# says: With max_steps=0, step is never called and no weight changes, so it 'stands still'.
# earns: 1 of 2
# caught: hidden
# corner: empty
def why_not(step, weights, floor=0.01, max_steps=300):
    came = asked()(step, weights, floor, max_steps)
    return came if 1 / max_steps else came


# %% wrong: no weights are an error
# says: Without weights no weight changes, so it 'stands still'.
# earns: 1 of 2
# caught: hidden
# corner: empty
def why_not(step, weights, floor=0.01, max_steps=300):
    torch.cat([w.detach().flatten() for w in weights])
    return asked()(step, weights, floor, max_steps)


# %% wrong: the bytes of each last dimension
# says: Weights may have any shape, even that of a single number:
# earns: 1 of 2
# caught: hidden
# corner: 0-d
why_not = asked(
    copied=lambda w: w.detach().view(torch.uint8).clone(),
    same=lambda a, b: torch.equal(a.view(torch.uint8), b),
)


# %% wrong: compares the bits as int32
# says: Weights may have any shape, even that of a single number:
# earns: 1 of 2
# caught: hidden
# corner: 0-d
why_not = asked(
    copied=lambda w: w.detach().view(torch.int32).clone(),
    same=lambda a, b: torch.equal(a.view(torch.int32), b),
)


# %% wrong: what was nan counts as unchanged
# says: A weight went from nan to a number here, which is a change. Only a nan that is still nan has not changed.
# earns: 1 of 2
# caught: hidden
# corner: nan
why_not = asked(same=lambda a, b: not ((a != b) & ~b.isnan()).any())


# %% wrong: True or False
# says: Return one of the strings
# says: This check builds on the first one
# earns: 0 of 2
def why_not(step, weights, floor=0.01, max_steps=300):
    return asked()(step, weights, floor, max_steps) == "fits"


# %% wrong: prints
# says: Return one of the strings
# says: This check builds on the first one
# earns: 0 of 2
def why_not(step, weights, floor=0.01, max_steps=300):
    print(asked()(step, weights, floor, max_steps))


# %% wrong: looks at trainable weights only
# says: A frozen weight also counts. Here `step` changes a weight that doesn't require grad, as a running
# earns: 1 of 2
# caught: hidden
def why_not(step, weights, floor=0.01, max_steps=300):
    weights = [w for w in weights if w.requires_grad]
    before = [w.detach().clone() for w in weights]
    losses, moved = [], False
    while len(losses) < max_steps:
        losses.append(step())
        moved |= not all(
            torch.allclose(w, b, rtol=0, atol=0, equal_nan=True) for w, b in zip(weights, before, strict=True)
        )
        if losses[-1] < floor:
            return "fits"
        if not math.isfinite(losses[-1]):
            break
    if not moved:
        return "stands still"
    if not math.isfinite(losses[-1]) or losses[-1] > losses[0]:
        return "diverges"
    return "stuck"
