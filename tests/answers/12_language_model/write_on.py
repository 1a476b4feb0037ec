import random

import torch

# corners: maximum, empty, caller's modes


def shares(scores, top_p, temperature):
    """The nucleus: probabilities from the largest to the smallest, with zeros outside, and the ids in that order."""
    p, order = (scores / temperature).softmax(-1).sort(descending=True)
    p[p.cumsum(-1) - p >= top_p] = 0
    return p, order


def drawn_from(scores, top_p, temperature, generator):
    if temperature == 0:
        return scores.argmax(keepdim=True)
    p, order = shares(scores, top_p, temperature)
    return order[torch.multinomial(p, 1, generator=generator)]


def writer(draw, window=lambda out, length: out[-length:]):
    """A writer that is right but for how it draws, or for what it shows to the model."""

    @torch.no_grad()
    def write_on(logits, prompt, n, length, top_p, temperature, generator):
        out = prompt
        for _ in range(n):
            out = torch.cat([out, draw(logits(window(out, length)[None])[0, -1], top_p, temperature, generator)])
        return out

    return write_on


# %% right: sort, cumsum without the own probability, generator
write_on = writer(drawn_from)


# %% right: one uniform number and searchsorted in the nucleus
def draw(scores, top_p, temperature, generator):
    if temperature == 0:
        return scores.topk(1).indices
    p, order = (scores / temperature).softmax(-1).sort(descending=True)
    reached = p.cumsum(-1)
    kept = min(int((reached < top_p).sum()) + 1, len(p))
    place = torch.rand(1, generator=generator) * reached[kept - 1]
    return order[torch.searchsorted(reached[:kept], place).clamp(max=kept - 1)]


write_on = writer(draw)


# %% right: logits outside the nucleus set to -inf in the original order
@torch.inference_mode()
def write_on(logits, prompt, n, length, top_p, temperature, generator):
    ids = prompt.tolist()
    for _ in range(n):
        scores = logits(torch.tensor([ids[-length:]]))[0, -1].clone()
        if temperature == 0:
            ids.append(int(scores.argmax()))
            continue
        scores = scores / temperature
        order = scores.argsort(descending=True)
        p = scores.softmax(-1)[order]
        scores[order[(p.cumsum(-1) - p) >= top_p]] = -torch.inf
        ids.append(int(torch.multinomial(scores.softmax(-1), 1, generator=generator)))
    return torch.tensor(ids)


# %% right: one tensor for the whole text; exponential noise in place of multinomial
def write_on(logits, prompt, n, length, top_p, temperature, generator):
    out = torch.cat([prompt, prompt.new_zeros(n)])
    with torch.no_grad():
        for end in range(len(prompt), len(out)):
            scores = logits(out[None, max(0, end - length) : end])[0, -1]
            if temperature == 0:
                out[end] = scores.argmax()
                continue
            p, order = shares(scores, top_p, temperature)
            out[end] = order[(p / torch.empty_like(p).exponential_(generator=generator)).argmax()]
    return out


# %% right: throws all dice before it writes
@torch.no_grad()
def write_on(logits, prompt, n, length, top_p, temperature, generator):
    out = prompt
    for place in torch.rand(n, generator=generator):
        scores = logits(out[None, -length:])[0, -1]
        if temperature == 0:
            out = torch.cat([out, scores.argmax()[None]])
            continue
        p, order = shares(scores, top_p, temperature)
        reached = p.cumsum(0)
        out = torch.cat([out, order[(reached <= place * reached[-1]).sum().clamp(max=int((p > 0).sum()) - 1)][None]])
    return out


# %% wrong: another seed before the loop
# says: You seed the generator, so the random numbers are no longer those of the caller.
# earns: 0 of 1
right = writer(drawn_from)


def write_on(logits, prompt, n, length, top_p, temperature, generator):
    generator.seed()
    return right(logits, prompt, n, length, top_p, temperature, generator)


# %% wrong: manual_seed(0) in the loop
# says: You seed the generator for every id, so it gives the same number each time.
# earns: 0 of 1
# lesson
def draw(scores, top_p, temperature, generator):
    return drawn_from(scores, top_p, temperature, generator.manual_seed(0))


write_on = writer(draw)


# %% wrong: its own seed in the loop
# says: You seed the generator for every id, so it gives the same number each time.
# earns: 0 of 1
# lesson
def draw(scores, top_p, temperature, generator):
    return drawn_from(scores, top_p, temperature, generator.manual_seed(generator.initial_seed()))


write_on = writer(draw)


# %% wrong: manual_seed(0) before the loop
# says: You seed the generator, so the random numbers are no longer those of the caller.
# earns: 0 of 1
# lesson
right = writer(drawn_from)


def write_on(logits, prompt, n, length, top_p, temperature, generator):
    return right(logits, prompt, n, length, top_p, temperature, generator.manual_seed(0))


# %% wrong: its own seed before the loop
# says: The second text with one generator is the first again.
# earns: 0 of 1
# lesson
right = writer(drawn_from)


def write_on(logits, prompt, n, length, top_p, temperature, generator):
    generator.manual_seed(generator.initial_seed())
    return right(logits, prompt, n, length, top_p, temperature, generator)


# %% wrong: the given code with the seed taken out
# says: You append a rank in the sorted list, not an id. Look up the id in the order of the sort.
# earns: 0 of 1
# lesson
def write_on(logits, prompt, n, length, top_p, temperature, generator):
    out = prompt
    for _ in range(n):
        p = (logits(out[None, :length])[0, -1] * temperature).softmax(-1)
        p, order = p.sort(descending=True)
        p[p.cumsum(-1) > top_p] = 0
        out = torch.cat([out, torch.multinomial(p, 1, generator=generator)])
    return out


# %% wrong: multinomial without the generator
# says: You drew from torch's global generator. Draw from the given generator.
# earns: 0 of 1
# lesson
def draw(scores, top_p, temperature, generator):
    return drawn_from(scores, top_p, temperature, None)


write_on = writer(draw)


# %% wrong: Python's dice
# says: The same state of the generator gave another text.
# earns: 0 of 1
def draw(scores, top_p, temperature, generator):
    if temperature == 0:
        return scores.argmax(keepdim=True)
    p, order = shares(scores, top_p, temperature)
    return torch.tensor(random.choices(order.tolist(), p.tolist()))


write_on = writer(draw)


# %% wrong: appends the rank
# says: You append a rank in the sorted list, not an id. Look up the id in the order of the sort.
# earns: 0 of 1
# lesson
def draw(scores, top_p, temperature, generator):
    return torch.multinomial(shares(scores, top_p, temperature or 1)[0], 1, generator=generator)


write_on = writer(draw)


# %% wrong: cuts at cumsum > top_p
# says: The id that crosses top_p belongs to the nucleus (otherwise nothing is left if the first id is very
# earns: 0 of 1
# lesson
def draw(scores, top_p, temperature, generator):
    p, order = (scores / temperature).softmax(-1).sort(descending=True)
    p[p.cumsum(-1) > top_p] = 0
    return order[torch.multinomial(p, 1, generator=generator)]


write_on = writer(draw)


# %% wrong: one id too many
# says: You drew ids that are not needed to reach top_p. Either your nucleus is too wide, or its probabilities
# earns: 0 of 1
def draw(scores, top_p, temperature, generator):
    p, order = (scores / temperature).softmax(-1).sort(descending=True)
    before = p.cumsum(-1) - p
    p[torch.cat([before[:1], before[:-1]]) >= top_p] = 0
    return order[torch.multinomial(p, 1, generator=generator)]


write_on = writer(draw)


# %% wrong: top_p not used
# says: You drew ids that are not needed to reach top_p. Either your nucleus is too wide, or its probabilities
# earns: 0 of 1
def draw(scores, top_p, temperature, generator):
    return torch.multinomial((scores / temperature).softmax(-1), 1, generator=generator)


write_on = writer(draw)


# %% wrong: all of the nucleus alike
# says: The ids of the nucleus are not drawn in proportion to their probabilities. Likelier ids must come more
# earns: 0 of 1
def draw(scores, top_p, temperature, generator):
    p, order = shares(scores, top_p, temperature or 1)
    return order[torch.multinomial((p > 0).float(), 1, generator=generator)]


write_on = writer(draw)


# %% wrong: always the likeliest
# says: Nothing was drawn, because you take the same id each time.
# earns: 0 of 1
def draw(scores, top_p, temperature, generator):
    return scores.argmax(keepdim=True)


write_on = writer(draw)


# %% wrong: no id reaches 1
# says: IndexError
# earns: 0 of 1
# caught: hidden
# corner: maximum
def draw(scores, top_p, temperature, generator):
    if temperature == 0:
        return scores.argmax(keepdim=True)
    p, order = (scores / temperature).softmax(-1).sort(descending=True)
    crossing = (p.cumsum(-1) > top_p).nonzero()[0, 0]
    return order[torch.multinomial(p[: crossing + 1], 1, generator=generator)]


write_on = writer(draw)


# %% wrong: multiplied by the temperature
# says: Divide the logits by the temperature.
# earns: 0 of 1
# caught: hidden
def draw(scores, top_p, temperature, generator):
    if temperature == 0:
        return scores.argmax(keepdim=True)
    return drawn_from(scores, top_p, 1 / temperature, generator)


write_on = writer(draw)


# %% wrong: temperature not used
# says: The nucleus must be that of the distribution at this temperature. Divide the logits first.
# earns: 0 of 1
# caught: hidden
def draw(scores, top_p, temperature, generator):
    return drawn_from(scores, top_p, min(temperature, 1) and 1, generator)


write_on = writer(draw)


# %% wrong: the nucleus first, then the temperature
# says: The nucleus must be that of the distribution at this temperature. Divide the logits first.
# earns: 0 of 1
# caught: hidden
def draw(scores, top_p, temperature, generator):
    if temperature == 0:
        return scores.argmax(keepdim=True)
    p, order = shares(scores, top_p, 1.0)
    return order[torch.multinomial(p ** (1 / temperature), 1, generator=generator)]


write_on = writer(draw)


# %% wrong: divides by temperature 0
# says: Temperature 0 must take the most likely id.
# earns: 0 of 1
# caught: hidden
def draw(scores, top_p, temperature, generator):
    p, order = shares(scores, top_p, temperature)
    return order[torch.multinomial(p, 1, generator=generator)]


write_on = writer(draw)


# %% wrong: temperature 0 as 1
# says: Temperature 0 must take the most likely id.
# earns: 0 of 1
# caught: hidden
def draw(scores, top_p, temperature, generator):
    return drawn_from(scores, top_p, temperature or 1.0, generator)


write_on = writer(draw)


# %% wrong: the first `length` ids
# says: The model must see the LAST `length` ids.
# earns: 0 of 1
# caught: hidden
write_on = writer(drawn_from, lambda out, length: out[:length])


# %% wrong: all ids
# says: The model must see the LAST `length` ids.
# earns: 0 of 1
# caught: hidden
write_on = writer(drawn_from, lambda out, length: out)


# %% wrong: one id too few
# says: The model must see the LAST `length` ids.
# earns: 0 of 1
# caught: hidden
write_on = writer(drawn_from, lambda out, length: out[-(length - 1) :])


# %% wrong: the prompt is cut to the window
# says: The model must see the LAST `length` ids.
# earns: 0 of 1
# caught: hidden
write_on = writer(drawn_from, lambda out, length: out[max(0, min(len(out) - length, 1)) :])


# %% wrong: without no_grad
# says: Your code built a graph. Run the model under no_grad.
# earns: 0 of 1
# caught: hidden
def write_on(logits, prompt, n, length, top_p, temperature, generator):
    out = prompt
    for _ in range(n):
        scores = logits(out[None, -length:])[0, -1].detach()
        out = torch.cat([out, drawn_from(scores, top_p, temperature, generator)])
    return out


# %% wrong: leaves gradients switched off
# says: After the call, gradients are no longer recorded.
# earns: 0 of 1
# caught: hidden
# corner: caller's modes
right = writer(drawn_from)


def write_on(logits, prompt, n, length, top_p, temperature, generator):
    torch.set_grad_enabled(False)
    return right(logits, prompt, n, length, top_p, temperature, generator)


# %% wrong: without the prompt
# says: The text must be int64, (T0 + n,): the prompt followed by n ids.
# earns: 0 of 1
right = writer(drawn_from)


def write_on(logits, prompt, n, length, top_p, temperature, generator):
    return right(logits, prompt, n, length, top_p, temperature, generator)[len(prompt) :]


# %% wrong: one id at least
# says: The text must be int64, (T0 + n,): the prompt followed by n ids.
# earns: 0 of 1
# caught: hidden
# corner: empty
right = writer(drawn_from)


def write_on(logits, prompt, n, length, top_p, temperature, generator):
    return right(logits, prompt, max(n, 1), length, top_p, temperature, generator)


# %% wrong: asks the model twice
# says: Call the model once for each new id.
# earns: 0 of 1
# caught: hidden
@torch.no_grad()
def write_on(logits, prompt, n, length, top_p, temperature, generator):
    out = prompt
    for _ in range(n):
        logits(out[None, -length:])
        out = torch.cat([out, drawn_from(logits(out[None, -length:])[0, -1], top_p, temperature, generator)])
    return out


# %% wrong: keeps an id where those before it add up to top_p exactly
# says: An id is also left out if the ids before it add up to exactly top_p. Compare with >=.
# earns: 0 of 1
# caught: hidden
@torch.no_grad()
def write_on(logits, prompt, n, length, top_p, temperature, generator):
    out = prompt
    for _ in range(n):
        scores = logits(out[None, -length:])[0, -1]
        if temperature == 0:
            drawn = scores.argmax()[None]
        else:
            p, order = (scores / temperature).softmax(-1).sort(descending=True)
            p[p.cumsum(-1) - p > top_p] = 0
            drawn = order[torch.multinomial(p, 1, generator=generator)]
        out = torch.cat([out, drawn])
    return out


# %% wrong: small temperature is greedy
# says: At temperature 0.01 all equally likely ids must be drawn. Only temperature 0 chooses the likeliest id.
# earns: 0 of 1
# caught: hidden
def draw(scores, top_p, temperature, generator):
    if temperature <= 0.05:
        return scores.argmax(keepdim=True)
    return drawn_from(scores, top_p, temperature, generator)


write_on = writer(draw)


# %% wrong: prompt made int32
# says: The model must be called with int64 ids. one_hot, for example, accepts no other dtype.
# earns: 0 of 1
# caught: hidden
_w = writer(drawn_from)


def write_on(logits, prompt, *args):
    return _w(logits, prompt.int(), *args)


# %% wrong: the prompt goes on at its beginning
# says: The text must begin with the prompt, unchanged.
# earns: 0 of 1
def write_on(logits, prompt, n, length, top_p, temperature, generator):
    text = writer(drawn_from)(logits, prompt, n, length, top_p, temperature, generator)
    return torch.cat([text[len(prompt) :], prompt])


# %% wrong: at temperature 1 the first of several equally likely ids
# says: Two of four equally likely ids add up to 0.5, so two can be drawn.
# earns: 0 of 1
# caught: hidden
def draw(scores, top_p, temperature, generator):
    if temperature == 1 and (scores == scores.max()).sum() > 2:
        return scores.argmax(keepdim=True)
    return drawn_from(scores, top_p, temperature, generator)


write_on = writer(draw)


# %% wrong: the ids of the nucleus in turn
# says: Nothing was drawn from the generator.
# earns: 0 of 1
def write_on(logits, prompt, n, length, top_p, temperature, generator):
    turns = iter(range(10**6))

    def draw(scores, top_p, temperature, generator):
        p, order = shares(scores, top_p, temperature)
        kept = order[p > 0]
        return kept[next(turns) % len(kept)][None]

    return writer(draw)(logits, prompt, n, length, top_p, temperature, generator)


# %% wrong: the likeliest id is left out
# says: You drew ids outside the nucleus, or not all ids of the nucleus.
# earns: 0 of 1
def draw(scores, top_p, temperature, generator):
    p, order = shares(scores, top_p, temperature or 1.0)
    if len(p[p > 0]) > 1:
        p[0] = 0
    return order[torch.multinomial(p, 1, generator=generator)]


write_on = writer(draw)


# %% wrong: takes the logits of the first position
# says: The text doesn't follow from the logits of the last position.
# earns: 0 of 1
# caught: hidden
@torch.no_grad()
def write_on(logits, prompt, n, length, top_p, temperature, generator):
    out = prompt
    for _ in range(n):
        scores = logits(out[-length:][None])[0, 0]
        out = torch.cat([out, drawn_from(scores, top_p, temperature, generator)])
    return out


# %% right: the warpers of transformers, from the least likely id to the likeliest
def draw(scores, top_p, temperature, generator):
    if temperature == 0:
        return scores.argmax(-1, keepdim=True)
    scores = scores / temperature
    in_order, order = torch.sort(scores, descending=False)
    remove = in_order.softmax(-1).cumsum(-1) <= 1 - top_p
    remove[-1:] = False
    scores = scores.masked_fill(remove.scatter(-1, order, remove), -torch.inf)
    return torch.multinomial(scores.softmax(-1), 1, generator=generator)


write_on = writer(draw)


# %% wrong: a temperature below 1e-5 is taken for 0
# says: You drew the same id in each step, as at temperature 0. But at temperature 1e-20 two ids whose logits differ
# earns: 0 of 1
# caught: hidden
def draw(scores, top_p, temperature, generator):
    return drawn_from(scores, top_p, 0 if temperature < 1e-5 else temperature, generator)


write_on = writer(draw)


# %% wrong: a temperature of 1e-5 at least
# says: You divide by more than the temperature. At 1e-20 a logit that is ahead by 2e-20 must make its id 7.4 times as
# earns: 0 of 1
# caught: hidden
def draw(scores, top_p, temperature, generator):
    return drawn_from(scores, top_p, temperature and max(temperature, 1e-5), generator)


write_on = writer(draw)


# %% wrong: a small number is added to the temperature
# says: You divide by more than the temperature. At 1e-20 a logit that is ahead by 2e-20 must make its id 7.4 times as
# earns: 0 of 1
# caught: hidden
def draw(scores, top_p, temperature, generator):
    return drawn_from(scores, top_p, temperature and temperature + 1e-8, generator)


write_on = writer(draw)


# %% wrong: a temperature below 1e-5 counts twice
# says: At temperature 1e-20 a logit that is ahead by 2e-20 makes its id 7.4 times as likely, so it is drawn in 88 %
# earns: 0 of 1
# caught: hidden
def draw(scores, top_p, temperature, generator):
    return drawn_from(scores, top_p, temperature * (2 if 0 < temperature < 1e-5 else 1), generator)


write_on = writer(draw)


# %% wrong: keeps all ids that are as likely as the last one
# says: You also keep all ids that are as likely as the last one of the nucleus. Cut at a place in the sorted order,
# earns: 0 of 1
# caught: hidden
def draw(scores, top_p, temperature, generator):
    if temperature == 0:
        return scores.argmax(keepdim=True)
    p = (scores / temperature).softmax(-1)
    in_order = p.sort(descending=True).values
    last = int((in_order.cumsum(-1) < top_p - 1e-6).sum())
    p = torch.where(p >= in_order[min(last, len(p) - 1)], p, 0)
    return torch.multinomial(p, 1, generator=generator)


write_on = writer(draw)


# %% wrong: the fifty likeliest ids at most, as transformers does unless told otherwise
# says: In 400 draws from 1000 about equally likely ids only
# earns: 0 of 1
# caught: hidden
def draw(scores, top_p, temperature, generator):
    scores = scores.masked_fill(scores < scores.topk(min(50, len(scores))).values[-1], -torch.inf)
    return drawn_from(scores, top_p, temperature, generator)


write_on = writer(draw)


# %% wrong: switches gradients off and on
# says: Your code switches gradients on, though the caller had them off. Restore the grad mode.
# earns: 0 of 1
# caught: hidden
# corner: caller's modes
right = writer(drawn_from)


def write_on(logits, prompt, n, length, top_p, temperature, generator):
    torch.set_grad_enabled(False)
    text = right(logits, prompt, n, length, top_p, temperature, generator)
    torch.set_grad_enabled(True)
    return text


# %% right: one pass before the loop and one after each id, as with a cache of keys
@torch.no_grad()
def write_on(logits, prompt, n, length, top_p, temperature, generator):
    out = prompt
    scores = logits(out[None, -length:])[0, -1]
    for _ in range(n):
        out = torch.cat([out, drawn_from(scores, top_p, temperature, generator)])
        scores = logits(out[None, -length:])[0, -1]
    return out


# %% wrong: the two hundred likeliest ids at most
# says: In 400 draws from 1000 about equally likely ids only
# earns: 0 of 1
# caught: hidden
def draw(scores, top_p, temperature, generator):
    scores = scores.masked_fill(scores < scores.topk(min(200, len(scores))).values[-1], -torch.inf)
    return drawn_from(scores, top_p, temperature, generator)


write_on = writer(draw)


# %% wrong: ids below a twentieth of the likeliest are left out
# says: In 100 draws from an id of probability 0.5 and fifty of 0.01 only 1 of the 51 ids came. Those of 0.01 also
# earns: 0 of 1
# caught: hidden
def draw(scores, top_p, temperature, generator):
    if temperature == 0:
        return scores.argmax(keepdim=True)
    p, order = shares(scores, top_p, temperature)
    p[p < 0.05 * p[0]] = 0
    return order[torch.multinomial(p, 1, generator=generator)]


write_on = writer(draw)


# %% wrong: the logits go through 30 tanh(z / 30)
# says: You don't draw with the softmax of these logits. All of them are larger by 60 here, which doesn't change their
# earns: 0 of 1
# caught: hidden
def draw(scores, top_p, temperature, generator):
    return drawn_from(30 * (scores / 30).tanh() if temperature else scores, top_p, temperature, generator)


write_on = writer(draw)


# %% wrong: the logits of ids that have come are divided by 1.1
# says: You drew ids that are not needed to reach top_p. Either your nucleus is too wide, or its probabilities are not
# earns: 0 of 1
@torch.no_grad()
def write_on(logits, prompt, n, length, top_p, temperature, generator):
    out = prompt
    for _ in range(n):
        scores, before = logits(out[None, -length:])[0, -1].clone(), out[-64:].unique()
        scores[before] = torch.where(scores[before] > 0, scores[before] / 1.1, scores[before] * 1.1)
        out = torch.cat([out, drawn_from(scores, top_p, temperature, generator)])
    return out
