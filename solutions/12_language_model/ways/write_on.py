# %% right: one random number for each id
# A uniform number up to the total of the nucleus falls into the share of one id, which `searchsorted` finds. The
# generator advances by one number for each id. For a vocabulary of 20, `multinomial` advances it by 40.
def write_on(logits, prompt, n, length, top_p, temperature, generator):
    """Append n ids, each found by its share of a uniform number."""
    out = prompt
    for _ in range(n):
        with torch.no_grad():
            scores = logits(out[None, -length:])[0, -1]
        if temperature == 0:
            new = scores.argmax(keepdim=True)
        else:
            p, order = (scores / temperature).softmax(-1).sort(descending=True)
            reached = p.cumsum(-1)
            kept = min((reached < top_p).sum().item() + 1, len(p))
            share = torch.rand(1, generator=generator) * reached[kept - 1]
            new = order[torch.searchsorted(reached[:kept], share, right=True).clamp(max=kept - 1)]
        out = torch.cat([out, new])
    return out


# %% right: takes the memory first, and draws with exponential noise
# If p is divided by exponential noise, entry i is the largest with a probability in proportion to p[i]. `multinomial`
# does the same on the CPU: from equal generators, both wrote the same 30 texts. The text is written into one tensor,
# where the author's `cat` copies it for each id.
def write_on(logits, prompt, n, length, top_p, temperature, generator):
    """Fill the text after the prompt, one largest quotient after the other."""
    out = torch.cat([prompt, prompt.new_empty(n)])
    for end in range(len(prompt), len(out)):
        with torch.no_grad():
            scores = logits(out[None, max(0, end - length) : end])[0, -1]
        if temperature == 0:
            out[end] = scores.argmax()
        else:
            p, order = (scores / temperature).softmax(-1).sort(descending=True)
            p[p.cumsum(-1) - p >= top_p] = 0
            noise = torch.empty_like(p).exponential_(generator=generator)
            out[end] = order[(p / noise).argmax()]
    return out


# %% wrong: the nucleus ends before top_p is reached
# says: The id that crosses top_p belongs to the nucleus (otherwise nothing is left if the first id is very likely).
# If the first id has a probability of 0.95 and `top_p` is 0.9, nothing is left, and multinomial raises.
def write_on(logits, prompt, n, length, top_p, temperature, generator):
    """Append n ids from a nucleus that is one id too small."""
    out = prompt
    for _ in range(n):
        with torch.no_grad():
            scores = logits(out[None, -length:])[0, -1]
        if temperature == 0:
            new = scores.argmax(keepdim=True)
        else:
            p, order = (scores / temperature).softmax(-1).sort(descending=True)
            p[p.cumsum(-1) > top_p] = 0
            new = order[torch.multinomial(p, 1, generator=generator)]
        out = torch.cat([out, new])
    return out
