# %% right: all facts in one tensor
# `score` reads all four numbers with one `tolist`, where the author's answer calls `item` up to four times. The facts
# must be float64, because not every place above 2**24 is a float32: 16,777,217 would become 16,777,216.
def core(x):
    """The result, and the spread, two flags and a place in one tensor."""
    spread = x.std().detach()
    flat = spread == 0
    z = (x - x.mean()) / spread.masked_fill(flat, 1.0)
    clipped = (z.abs() > 2).any()
    z = z.clamp(-2, 2)
    facts = torch.stack([fact.double() for fact in (spread, flat, clipped, z.argmax())])
    return z.tanh().masked_fill(flat, 0.0), facts


def score(x, log, core=core):
    """As score_as_it_was; reads four numbers at once."""
    result, facts = core(x)
    spread, flat, clipped, place = facts.tolist()
    print(f"spread {spread:.3f}")
    if flat:
        log.append("flat")
        return result
    if clipped:
        log.append("clipped")
    log.append(int(place))
    return result


# %% wrong: divides by the spread in any case
# says: With a flat x the result is nan: 0/0 is computed although where() does not choose it.
# A `where` over the result isn't enough either, because the gradient of the division by 0 is nan all the same. The
# divisor must be replaced.
def core(x):
    """All that is computed on tensors, but for a flat x."""
    spread = x.std().detach()
    z = (x - x.mean()) / spread
    clipped = (z.abs() > 2).any()
    z = z.clamp(-2, 2)
    return {
        "result": torch.tanh(z),
        "spread": spread,
        "flat": spread == 0,
        "clipped": clipped,
        "place": z.argmax(),
    }


def score(x, log, core=core):
    """As score_as_it_was; calls core once, reads from what it returns, prints and notes."""
    told = core(x)
    print(f"spread {told['spread'].item():.3f}")
    if told["flat"].item():
        log.append("flat")
        return told["result"]
    if told["clipped"].item():
        log.append("clipped")
    log.append(told["place"].item())
    return told["result"]
