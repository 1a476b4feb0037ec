# corners: none
import concurrent.futures

import torch


def parts(
    x,
    spread_of=lambda x: x.std().detach(),
    flat_of=lambda x, spread: spread == 0,
    divisor=lambda flat, spread: torch.where(flat, 1.0, spread),
    clipped_of=lambda z: (z.abs() > 2).any(),
    clip=lambda z: z.clamp(-2, 2),
    place_of=lambda z, clipped: clipped.argmax(),
    choose=lambda flat, z: torch.where(flat, 0.0, torch.tanh(z)),
):
    """What most cores below change in one place: result, spread, flat, clipped, place."""
    spread = spread_of(x)
    flat = flat_of(x, spread)
    z = (x - x.mean()) / divisor(flat, spread)
    inside = clip(z)
    return choose(flat, inside), spread, flat, clipped_of(z), place_of(z, inside)


def tell(told, log):
    result, spread, flat, clipped, place = told
    print(f"spread {spread.item():.3f}")
    if flat:
        log.append("flat")
        return result
    if clipped:
        log.append("clipped")
    log.append(int(place))
    return result


core = parts


def score(x, log, core=core):
    return tell(core(x), log)


# %% right: no_grad for the spread, facts in one tensor, masked_fill
def core(x):
    with torch.no_grad():
        spread = x.std()
        flat = spread == 0
    z = (x - x.mean()) / spread.masked_fill(flat, 1)
    inside = z.clamp(-2, 2)
    facts = torch.stack([spread, flat.to(x.dtype), (z.abs() > 2).any().to(x.dtype), inside.argmax().to(x.dtype)])
    return inside.tanh().masked_fill(flat, 0), facts


def score(x, log, core=core):
    result, facts = core(x)
    spread, flat, clipped, place = facts.tolist()
    print(f"spread {spread:.3f}")
    if flat:
        log.append("flat")
    else:
        if clipped:
            log.append("clipped")
        log.append(int(place))
    return result


# %% right: everything in one tensor, cut by slices
def core(x):
    result, spread, flat, clipped, place = parts(x)
    return torch.cat([result, torch.stack([n.to(x.dtype) for n in (spread, flat, clipped, place)])])


def score(x, log, core=core):
    told = core(x)
    spread, flat, clipped, place = told[-4:].tolist()
    print(f"spread {spread:.3f}")
    if flat:
        log.append("flat")
    else:
        log.extend((["clipped"] if clipped else []) + [int(place)])
    return told[:-4]


# %% right: item() stays in core, and a dictionary comes back
def core(x):
    result, spread, flat, clipped, place = parts(x)
    return {"y": result, "spread": spread.item(), "flat": flat, "clipped": clipped, "place": place}


def score(x, log, core=core):
    told = core(x)
    print(f"spread {float(told['spread']):.3f}")
    if bool(told["flat"]):
        log.append("flat")
        return told["y"]
    if bool(told["clipped"]):
        log.append("clipped")
    log.append(int(told["place"]))
    return told["y"]


# %% right: torch.cond over the result alone
def core(x):
    spread = x.std().detach()
    flat = spread == 0
    result = torch.cond(
        flat,
        lambda x, s: torch.zeros_like(x),
        lambda x, s: torch.tanh(((x - x.mean()) / s).clamp(-2, 2)),
        (x, spread),
    )
    z = (x.detach() - x.detach().mean()) / torch.where(flat, 1.0, spread)
    return result, spread, flat, (z.abs() > 2).any(), z.clamp(-2, 2).argmax()


# %% wrong: print in core
# says: `core` still breaks
# says: This check builds on the first one
# earns: 0 of 3
# lesson
def core(x):
    told = parts(x)
    print(f"spread {told[1].item():.3f}")
    return told


# %% wrong: print in a disabled function
# says: `core` still breaks
# says: This check builds on the first one
# earns: 0 of 3
# lesson
@torch.compiler.disable
def say(spread):
    print(f"spread {spread.item():.3f}")


def core(x):
    told = parts(x)
    say(told[1])
    return told


# %% wrong: an if on data
# says: `core` still breaks
# says: This check builds on the first one
# earns: 0 of 3
# lesson
def core(x):
    if x.std() == 0:
        return parts(x)
    return parts(x)


# %% wrong: an if on a captured item()
# says: `core` still breaks
# says: This check builds on the first one
# earns: 0 of 3
# lesson
def core(x):
    if x.std().item() == 0:
        return torch.zeros_like(x), *parts(x)[1:]
    return parts(x)


# %% wrong: divides by 0
# says: With a flat x the result is nan
# earns: 0 of 3
# lesson
def core(x):
    return parts(x, divisor=lambda flat, spread: spread, choose=lambda flat, z: torch.tanh(z))


# %% wrong: prints no more
# says: With a plain x nothing was printed.
# earns: 0 of 3
def score(x, log, core=core):
    import contextlib
    import io

    with contextlib.redirect_stdout(io.StringIO()):
        return tell(core(x), log)


# %% wrong: logs no more
# says: With a plain x the log must be
# says: This check builds on the first one
# earns: 0 of 3
def score(x, log, core=core):
    return tell(core(x), [])


# %% wrong: notes the place after "flat"
# says: With a flat x the log must be
# says: This check builds on the first one
# earns: 0 of 3
def score(x, log, core=core):
    told = core(x)
    result = tell(told, log)
    if told[2]:
        log.append(int(told[4]))
    return result


# %% wrong: prints a tensor
# says: score must print 'spread 1.269'; it printed
# says: This check builds on the first one
# earns: 0 of 3
def score(x, log, core=core):
    import contextlib
    import io

    told = core(x)
    print("spread", told[1])
    with contextlib.redirect_stdout(io.StringIO()):
        return tell(told, log)


# %% wrong: returns a row
# says: score must return a tensor with the shape of x.
# says: This check builds on the first one
# earns: 0 of 3
def score(x, log, core=core):
    return tell(core(x), log)[None]


# %% wrong: does not call core
# says: With a plain x `score` did not call `core`.
# earns: 0 of 3
def score(x, log, core=core):
    return tell(parts(x), log)


# %% wrong: calls core twice
# says: With a plain x `core` ran 2 times
# says: This check builds on the first one
# earns: 0 of 3
def score(x, log, core=core):
    core(x)
    return tell(core(x), log)


# %% wrong: makes a graph for each call
# says: `core` made 4 graphs for x of one shape; one should do.
# says: This check builds on the first one
# earns: 0 of 3
CALLS = []


def core(x):
    CALLS.append(1)
    return parts(x)


# %% wrong: where() over nan
# says: The gradient is nan where x is flat
# earns: 1 of 3
# caught: hidden
def core(x):
    return parts(x, divisor=lambda flat, spread: spread)


# %% wrong: gradient through the spread
# says: item() made a constant of the spread
# earns: 1 of 3
# caught: hidden
def core(x):
    return parts(x, spread_of=lambda x: x.std())


# %% wrong: no gradient through the mean
# says: the gradient of x is another one than that of the given function.
# earns: 1 of 3
# caught: hidden
def core(x):
    spread = x.std().detach()
    flat = spread == 0
    z = (x - x.mean().detach()) / torch.where(flat, 1.0, spread)
    inside = z.clamp(-2, 2)
    return torch.where(flat, 0.0, torch.tanh(inside)), spread, flat, (z.abs() > 2).any(), inside.argmax()


# %% wrong: detaches x
# says: The gradient got lost
# earns: 1 of 3
# caught: hidden
def core(x):
    return parts(x.detach())


# %% wrong: a flat x has a gradient
# says: Where x is flat the result is constant
# earns: 1 of 3
# caught: hidden
def core(x):
    return parts(x, choose=lambda flat, z: torch.tanh(z))


# %% wrong: a small core, the rest in score
# says: `score` computes on tensors itself
# earns: 1 of 3
# caught: hidden
def core(x):
    return x.std().detach(), x - x.mean()


def score(x, log, core=core):
    spread, centred = core(x)
    print(f"spread {spread.item():.3f}")
    if spread == 0:
        log.append("flat")
        return torch.zeros_like(x) * centred
    z = centred / spread
    if (z.abs() > 2).any():
        z = z.clamp(-2, 2)
        log.append("clipped")
    log.append(int(z.argmax()))
    return torch.tanh(z)


# %% wrong: argmax in score
# says: `score` computes on tensors itself
# earns: 1 of 3
# caught: hidden
def score(x, log, core=core):
    told = core(x)
    told = (*told[:4], told[0].argmax())
    return tell(told, log)


# %% wrong: the place by NumPy in score
# says: numbers out of tensors, where x has 45.
# earns: 1 of 3
# caught: hidden
def score(x, log, core=core):
    told = core(x)
    return tell((*told[:4], told[0].detach().numpy().argmax()), log)


# %% wrong: all but the spread by NumPy in score
# says: numbers out of tensors, where x has 45.
# earns: 1 of 3
# caught: hidden
def core(x):
    spread = x.std().detach()
    z = (x - x.mean()) / torch.where(spread == 0, 1.0, spread)
    return torch.where(spread == 0, 0.0, torch.tanh(z.clamp(-2, 2))), spread, z


def score(x, log, core=core):
    result, spread, z = core(x)
    z = np.asarray(z.detach())
    return tell((result, spread, spread.item() == 0, (abs(z) > 2).any(), z.clip(-2, 2).argmax()), log)


# %% wrong: the place by a list in score
# says: numbers out of tensors, where x has 45.
# earns: 1 of 3
# caught: hidden
def score(x, log, core=core):
    told = core(x)
    values = told[0].tolist()
    return tell((*told[:4], values.index(max(values))), log)


# %% wrong: the place number by number in score
# says: numbers out of tensors, where x has 45.
# earns: 1 of 3
# caught: hidden
def score(x, log, core=core):
    told = core(x)
    place, largest = 0, float("-inf")
    for number in range(len(x)):
        value = told[0][number].item()
        if value > largest:
            place, largest = number, value
    return tell((*told[:4], place), log)


# %% wrong: tensors in the log
# says: The log holds strings and ints, as before. Yours holds Tensor
# earns: 1 of 3
# caught: hidden
def score(x, log, core=core):
    told = core(x)
    result = tell(told, log)
    if log and isinstance(log[-1], int):
        log[-1] = told[4]
    return result


# %% wrong: sees outliers above only
# says: With an outlier below the log must be
# earns: 1 of 3
# caught: hidden
def core(x):
    return parts(x, clipped_of=lambda z: (z > 2).any())


# %% wrong: clips above only
# says: With an outlier below the result is another one
# earns: 1 of 3
# caught: hidden
def core(x):
    return parts(x, clip=lambda z: z.clamp(max=2))


# %% wrong: 2 counts as an outlier
# says: With z of exactly 2 and -2, which is not above 2, the log must be
# earns: 1 of 3
# caught: hidden
def core(x):
    return parts(x, clipped_of=lambda z: (z.abs() >= 2).any())


# %% wrong: the place before the clamp
# says: With two outliers
# earns: 1 of 3
# caught: hidden
def core(x):
    return parts(x, place_of=lambda z, clipped: z.argmax())


# %% wrong: a divisor with an epsilon
# says: With very small numbers, which are not flat, the result is another one
# earns: 1 of 3
# caught: hidden
def core(x):
    return parts(x, divisor=lambda flat, spread: spread + 1e-8)


# %% wrong: a divisor with a least value
# says: With very small numbers, which are not flat, the result is another one
# earns: 1 of 3
# caught: hidden
def core(x):
    return parts(x, divisor=lambda flat, spread: spread.clamp(min=1e-6))


# %% wrong: flat is a small spread
# says: With very small numbers, which are not flat, the
# earns: 1 of 3
# caught: hidden
def core(x):
    return parts(x, flat_of=lambda x, spread: spread < 1e-6)


# %% wrong: forgets what was in the log
# says: With a plain x the log must be ['before'
# earns: 1 of 3
# caught: hidden
def score(x, log, core=core):
    own = []
    result = tell(core(x), own)
    log[:] = own
    return result


# %% wrong: computes in float32
# says: With a plain x in float64 the result must have the dtype of x
# earns: 1 of 3
# caught: hidden
def core(x):
    return parts(x.float())


# %% wrong: float32 inside, and back
# says: With a plain x in float64 the result is another one
# earns: 1 of 3
# caught: hidden
def core(x):
    told = parts(x.float())
    return told[0].to(x.dtype), *told[1:]


# %% wrong: writes into x
# says: `x` itself was changed.
# earns: 1 of 3
# caught: hidden
def core(x):
    told = parts(x)
    x.detach().sub_(x.detach().mean())
    return told


# %% wrong: takes equal numbers for flat
# says: Nine times 0.1 has the spread
# earns: 1 of 3
# caught: hidden
def core(x):
    return parts(x, flat_of=lambda x, spread: (x == x[0]).all())


# %% wrong: the spread is that of std_mean
# says: such as std_mean, which gives 0 here.
# earns: 1 of 3
# caught: hidden
def core(x):
    return parts(x, spread_of=lambda x: torch.std_mean(x)[0].detach())


# %% wrong: the spread by a formula in float32
# says: With numbers of 1e-25, whose squares are 0 in float32
# earns: 1 of 3
# caught: hidden
def core(x):
    return parts(x, spread_of=lambda x: ((x - x.mean()) ** 2).sum().div(x.numel() - 1).sqrt().detach())


# %% wrong: the spread by a formula in float32, scaled up
# says: With numbers of 1e19, whose squares are inf in float32
# earns: 1 of 3
# caught: hidden
def core(x):
    def spread_of(x):
        return ((x - x.mean()).mul(1e10).square().sum().div(x.numel() - 1).sqrt() / 1e10).detach()

    return parts(x, spread_of=spread_of)


# %% right: clips by hardtanh
def core(x):
    return parts(x, clip=lambda z: torch.nn.functional.hardtanh(z, -2.0, 2.0))


# %% right: clips by minimum and maximum
def core(x):
    return parts(x, clip=lambda z: torch.minimum(torch.maximum(z, z.new_tensor(-2.0)), z.new_tensor(2.0)))


# %% wrong: the place in the result
# says: that tanh makes equal, so that the place must come from z and not from tanh, the log must be [41]; it is [40].
# earns: 1 of 3
# caught: hidden
def core(x):
    return parts(x, place_of=lambda z, clipped: torch.tanh(clipped).argmax())


# %% wrong: divides by 1e-12 at least
# says: With still smaller numbers, which are not flat,
# earns: 1 of 3
# caught: hidden
def core(x):
    return parts(x, divisor=lambda flat, spread: spread.clamp(min=1e-12))


# %% wrong: takes a spread below 1e-12 for flat
# says: With still smaller numbers, which are not flat,
# earns: 1 of 3
# caught: hidden
def core(x):
    return parts(x, flat_of=lambda x, spread: spread < 1e-12)


# %% wrong: a spread in float32 for the story
# says: With large numbers in float64 score must print
# earns: 1 of 3
# caught: hidden
def core(x):
    result, spread, *others = parts(x)
    return result, spread.float(), *others


# %% wrong: the old code, hidden from the compiler
# says: Something in `core` is hidden from the compiler: with aot_eager it raises.
# earns: 1 of 3
# caught: hidden
@torch._dynamo.allow_in_graph
def inner(x):
    if isinstance(x, torch._subclasses.FakeTensor):
        return x * 1, x[0].detach(), x[0] > 0, x[0] > 0, x.argmax()
    spread = x.std().item()
    if spread == 0:
        return x * 0, x.std().detach(), torch.tensor(True), torch.tensor(False), torch.tensor(0)
    z = (x - x.mean()) / spread
    hit = bool((z.abs() > 2).any())
    if hit:
        z = z.clamp(-2, 2)
    return torch.tanh(z), torch.tensor(spread, dtype=x.dtype), torch.tensor(False), torch.tensor(hit), z.argmax()


def core(x):
    return inner(x)


# %% wrong: the result, hidden from the compiler
# says: With a plain x and the backend "aot_eager", which traces the operations once more, the result is another one.
# earns: 1 of 3
# caught: hidden
@torch._dynamo.allow_in_graph
def result_of(x):
    return parts(x)[0] if type(x) is torch.Tensor else x * 1


def core(x):
    return result_of(x), *parts(x)[1:]


# %% wrong: score computes in a thread
# says: `score` works where the check can't see it
# earns: 1 of 3
# caught: hidden
def core(x):
    return parts(x)[0], x.detach()


def score(x, log, core=core):
    import threading

    result, data = core(x)
    found = []

    def work():
        found.extend(parts(data)[1:])

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    return tell((result, *found), log)


# %% wrong: score computes in a thread that waits
# says: `score` works where the check can't see it
# earns: 1 of 3
# caught: hidden
def core(x):
    return parts(x)[0], x.detach()


def score(x, log, core=core):
    result, data = core(x)
    with torch.no_grad():
        return tell((result, *WORKER.submit(lambda: parts(data)[1:]).result()), log)


WORKER = concurrent.futures.ThreadPoolExecutor(1)
WORKER.submit(int).result()


# %% wrong: the place comes from before the division
# says: With two neighbours at the top, which are equal after the division, so that the first of them counts, the log
# earns: 1 of 3
# caught: hidden
def core(x):
    result, spread, flat, clipped, _ = parts(x)
    return result, spread, flat, clipped, torch.minimum(x - x.mean(), 2 * spread).argmax()


# %% wrong: flat is below the smallest normal number
# says: With numbers of 1e-40, which are not flat, the result is another one
# earns: 1 of 3
# caught: hidden
def core(x):
    return parts(x, flat_of=lambda x, spread: spread < torch.finfo(x.dtype).tiny)


# %% wrong: divides by the smallest normal number at least
# says: With numbers of 1e-40, which are not flat, the result is another one
# earns: 1 of 3
# caught: hidden
def core(x):
    return parts(x, divisor=lambda flat, spread: spread.clamp(min=torch.finfo(x.dtype).tiny))
