# corners: none
import torch


def flops(
    vocab,
    width,
    heads,
    hidden,
    length,
    batch,
    trained,
    train_read,
    two=2,
    attention=lambda b, n, w, h: 4 * b * n * n * w,
    head=lambda n, w, v: 2 * n * w * v,
    rows=lambda b, n: b * n,
    back=(3, 2, 3, 1),  # trained, linear layers of a frozen one behind trained ones, its attention, without these
    head_back=(3, 2),
    flag=True,
):
    """What the answers below change in places."""
    tokens = rows(batch, length)
    linear = two * tokens * (4 * width * width + 2 * width * hidden)
    att = attention(batch, length, width, heads) * two // 2
    total, before = 0, train_read
    for one in trained:
        if one:
            total += back[0] * (linear + att)
        elif before or not flag:
            total += back[1] * linear + back[2] * att
        else:
            total += back[3] * (linear + att)
        before = before or one
    return total + head_back[0 if before else 1] * head(tokens, width, vocab) * two // 2


# %% right: a list of products
def step_flops(vocab, width, heads, hidden, length, batch, trained, train_read):
    rows, head_width = batch * length, width // heads
    products = []  # rows, inner, columns, left needs, right needs
    needs = train_read
    for one in trained:
        first = needs or one  # behind the norm
        products += [(rows, width, 3 * width, first, one)]
        products += [(batch * heads * length, head_width, length, first, first)]
        products += [(batch * heads * length, length, head_width, first, first)]
        products += [(rows, width, width, first, one)]
        second = first or one
        products += [(rows, width, hidden, second, one), (rows, hidden, width, second, one)]
        needs = second
    products += [(rows, width, vocab, needs, True)]
    return sum(2 * r * i * c * (1 + bool(left) + bool(right)) for r, i, c, left, right in products)


# %% right: from the first that is trained
def step_flops(vocab, width, heads, hidden, length, batch, trained, train_read):
    n = len(trained)
    start = 0 if train_read else next((k for k, one in enumerate(trained) if one), n)
    tokens = length * batch
    dense = tokens * width * (4 * width + 2 * hidden)
    dots = 2 * batch * length**2 * width
    forward = n * (dense + dots)
    activations = (n - start) * (dense + 2 * dots)
    weights = sum(trained) * dense
    head = tokens * width * vocab * (2 + (start < n or train_read))
    return 2 * (forward + activations + weights + head)


# %% right: the shared one as it is
def step_flops(*sizes):
    return flops(*sizes)


# %% wrong: one FLOP per multiply-add
# says: This is half of the right number: a multiplication and an addition are two FLOPs.
# says: This check builds on the first one
# earns: 0 of 2
# lesson
def step_flops(*sizes):
    return flops(*sizes) // 2


# %% wrong: 6ND with all parameters
# says: 6 times parameters times tokens is a good rule of thumb.
# says: This check builds on the first one
# earns: 0 of 2
# lesson
def step_flops(vocab, width, heads, hidden, length, batch, trained, train_read):
    block = 4 * width * width + 2 * width * hidden + 4 * width + hidden + width + 4 * width
    return 6 * batch * length * (len(trained) * block + 2 * vocab * width)


# %% wrong: 6ND with the weights alone, the embedding among them
# says: 6 times parameters times tokens is a good rule of thumb.
# says: This check builds on the first one
# earns: 0 of 2
def step_flops(vocab, width, heads, hidden, length, batch, trained, train_read):
    return 6 * batch * length * (len(trained) * (4 * width * width + 2 * width * hidden) + 2 * vocab * width)


# %% wrong: 6ND without the embedding
# says: Attention multiplies twice without any weights
# says: This check builds on the first one
# earns: 0 of 2
# lesson
def step_flops(vocab, width, heads, hidden, length, batch, trained, train_read):
    return 6 * batch * length * (len(trained) * (4 * width * width + 2 * width * hidden) + vocab * width)


# %% wrong: no attention
# says: Attention multiplies twice without any weights
# says: This check builds on the first one
# earns: 0 of 2
def step_flops(*sizes):
    return flops(*sizes, attention=lambda b, n, w, h: 0)


# %% wrong: half of attention, for the mask
# says: The mask saves nothing: the whole product is computed.
# says: This check builds on the first one
# earns: 0 of 2
def step_flops(*sizes):
    return flops(*sizes, attention=lambda b, n, w, h: 2 * b * n * n * w)


# %% wrong: one of attention's two products
# says: Attention multiplies twice without any weights
# says: This check builds on the first one
# earns: 0 of 2
def step_flops(*sizes):
    return flops(*sizes, attention=lambda b, n, w, h: 2 * b * n * n * w)


# %% wrong: attention without the batch
# says: Attention multiplies twice without any weights
# says: This check builds on the first one
# earns: 0 of 2
def step_flops(*sizes):
    return flops(*sizes, attention=lambda b, n, w, h: 4 * n * n * w)


# %% wrong: attention times heads
# says: With more heads each head is narrower
# says: This check builds on the first one
# earns: 0 of 2
def step_flops(*sizes):
    return flops(*sizes, attention=lambda b, n, w, h: 4 * b * h * n * n * w)


# %% wrong: backward costs as much as forward
# says: Backward costs twice as much as forward
# says: This check builds on the first one
# earns: 0 of 2
def step_flops(*sizes):
    return flops(*sizes, back=(2, 2, 2, 1), head_back=(2, 2))


# %% wrong: forward only
# says: Backward costs twice as much as forward
# says: This check builds on the first one
# earns: 0 of 2
def step_flops(*sizes):
    return flops(*sizes, back=(1, 1, 1, 1), head_back=(1, 1))


# %% wrong: no head
# says: The product with the vocabulary also counts.
# says: This check builds on the first one
# earns: 0 of 2
def step_flops(*sizes):
    return flops(*sizes, head=lambda n, w, v: 0)


# %% wrong: a product for the embedding
# says: The embedding is looked up, which is not a product.
# says: This check builds on the first one
# earns: 0 of 2
def step_flops(*sizes):
    return flops(*sizes, head=lambda n, w, v: 4 * n * w * v)


# %% wrong: a product for the embedding, without a gradient of its ids
# says: The embedding is looked up, which is not a product.
# says: This check builds on the first one
# earns: 0 of 2
def step_flops(vocab, width, heads, hidden, length, batch, trained, train_read):
    more = 2 * batch * length * width * vocab * (1 + train_read)
    return flops(vocab, width, heads, hidden, length, batch, trained, train_read) + more


# %% wrong: a product for the embedding, forward only
# says: The embedding is looked up, which is not a product.
# says: This check builds on the first one
# earns: 0 of 2
def step_flops(vocab, width, heads, hidden, length, batch, trained, train_read):
    more = 2 * batch * length * width * vocab
    return flops(vocab, width, heads, hidden, length, batch, trained, train_read) + more


# %% wrong: batch without length
# says: There are batch * length tokens.
# says: This check builds on the first one
# earns: 0 of 2
def step_flops(*sizes):
    return flops(*sizes, rows=lambda b, n: b)


# %% wrong: length without batch
# says: There are batch * length tokens.
# says: This check builds on the first one
# earns: 0 of 2
def step_flops(*sizes):
    return flops(*sizes, rows=lambda b, n: n)


# %% wrong: hidden is four times the width
# says: `hidden` is given; it need not be four times the width.
# says: This check builds on the first one
# earns: 0 of 2
def step_flops(vocab, width, heads, hidden, length, batch, trained, train_read):
    return flops(vocab, width, heads, 4 * width, length, batch, trained, train_read)


# %% wrong: frozen blocks cost nothing
# says: A frozen block is still run forward.
# earns: 1 of 2
def step_flops(*sizes):
    return flops(*sizes, back=(3, 0, 0, 0))


# %% wrong: frozen blocks have no backward
# says: A frozen block after something trained passes the gradient on
# earns: 1 of 2
def step_flops(*sizes):
    return flops(*sizes, back=(3, 1, 1, 1))


# %% wrong: frozen blocks cost like others
# says: `trained` changes nothing in your result.
# earns: 1 of 2
def step_flops(*sizes):
    return flops(*sizes[:-2], [True] * len(sizes[-2]), True)


# %% wrong: every frozen block passes gradients on
# says: A frozen block needs no backward if nothing before it is trained:
# earns: 1 of 2
def step_flops(*sizes):
    return flops(*sizes, flag=False)


# %% wrong: attention of a frozen block saves too
# says: In attention both factors are activations, so nothing is saved there.
# earns: 1 of 2
def step_flops(*sizes):
    return flops(*sizes, back=(3, 2, 2, 1))


# %% wrong: the head always costs three
# says: If nothing before the head is trained, its input needs no gradient.
# earns: 1 of 2
# caught: hidden
def step_flops(*sizes):
    return flops(*sizes, head_back=(3, 3))


# %% wrong: the first product of the first trained block needs no gradient of its input
# says: The norm of a trained block is also trained
# earns: 1 of 2
def step_flops(vocab, width, heads, hidden, length, batch, trained, train_read):
    total = flops(vocab, width, heads, hidden, length, batch, trained, train_read)
    first_trained = any(trained) and not train_read
    return total - 2 * batch * length * width * 3 * width * first_trained


# %% wrong: the embedding's flag is not asked
# says: Here the embedding is frozen as well (`train_read` is False).
# earns: 1 of 2
def step_flops(*sizes):
    return flops(*sizes[:-1], True)


# %% wrong: the embedding never counts as trained
# says: The embedding is trained here (`train_read` is True), so everything after it needs a gradient
# earns: 1 of 2
def step_flops(*sizes):
    return flops(*sizes[:-1], False)


# %% wrong: the embedding's flag counts for the first block and not for the head
# says: The embedding is trained here (`train_read` is True), so everything after it needs a gradient
# earns: 1 of 2
# caught: hidden
def step_flops(vocab, width, heads, hidden, length, batch, trained, train_read):
    total = flops(vocab, width, heads, hidden, length, batch, trained, train_read)
    return total - 2 * batch * length * width * vocab * (train_read and not any(trained))


# %% wrong: a float
# says: Return an int.
# says: This check builds on the first one
# earns: 0 of 2
def step_flops(*sizes):
    return float(flops(*sizes))


# %% wrong: builds and counts it
# says: Compute it from numbers only
# says: This check builds on the first one
# earns: 0 of 2
def step_flops(vocab, width, heads, hidden, length, batch, trained, train_read):
    from torch.utils.flop_counter import FlopCounterMode

    from torchkata.instruments.counted_gpt import GPT

    model = GPT(vocab, width, heads, hidden, len(trained)).to("meta")
    model.read.requires_grad_(train_read)
    for block, flag in zip(model.blocks, trained):
        block.requires_grad_(flag)
    with FlopCounterMode(display=False) as counter:
        logits = model(torch.zeros(batch, length, dtype=torch.int64, device="meta"))
        logits.backward(torch.empty_like(logits))
    return counter.get_total_flops()


# %% wrong: builds and counts it in a thread
# says: This check watches which operations run, but part of your code's work ran where it can't watch
# says: This check builds on the first one
# earns: 0 of 2
def step_flops(vocab, width, heads, hidden, length, batch, trained, train_read):
    from concurrent.futures import ThreadPoolExecutor

    from torch.utils.flop_counter import FlopCounterMode

    from torchkata.instruments.counted_gpt import GPT

    def count():
        model = GPT(vocab, width, heads, hidden, len(trained))
        model.read.requires_grad_(train_read)
        for block, flag in zip(model.blocks, trained):
            block.requires_grad_(flag)
        with FlopCounterMode(display=False) as counter:
            logits = model(torch.zeros(batch, length, dtype=torch.int64))
            logits.backward(torch.ones_like(logits))
        return counter.get_total_flops()

    with ThreadPoolExecutor(1) as pool:
        return pool.submit(count).result()


# %% wrong: builds and counts it in a thread, without memory
# says: This check watches which operations run, but part of your code's work ran where it can't watch
# says: This check builds on the first one
# earns: 0 of 2
def step_flops(vocab, width, heads, hidden, length, batch, trained, train_read):
    from concurrent.futures import ThreadPoolExecutor

    from torch.utils.flop_counter import FlopCounterMode

    from torchkata.instruments.counted_gpt import GPT

    def count():
        with torch.device("meta"):
            model = GPT(vocab, width, heads, hidden, len(trained))
            model.read.requires_grad_(train_read)
            for block, flag in zip(model.blocks, trained):
                block.requires_grad_(flag)
            with FlopCounterMode(display=False) as counter:
                logits = model(torch.zeros(batch, length, dtype=torch.int64))
                logits.backward(torch.ones_like(logits))
        return counter.get_total_flops()

    with ThreadPoolExecutor(1) as pool:
        return pool.submit(count).result()


# %% wrong: computes in floats
# says: For large sizes your result is off in its last digits
# earns: 1 of 2
def step_flops(vocab, width, heads, hidden, length, batch, trained, train_read):
    return int(flops(float(vocab), float(width), heads, hidden, length, batch, trained, train_read))


# %% wrong: multiplies tensors
# says: Compute it from numbers only
# says: This check builds on the first one
# earns: 0 of 2
def step_flops(*sizes):
    return int(torch.tensor(flops(*sizes)))


# %% wrong: an addition for each number of a residual connection
# says: FlopCounterMode counts
# says: This check builds on the first one, which doesn't pass yet. Fix that first.
# earns: 0 of 2
def step_flops(*sizes):
    return flops(*sizes) + sizes[4] * sizes[5] * sizes[1]


# %% wrong: 64 bits
# says: With these sizes, a step takes
# says: This check builds on the first one, which doesn't pass yet. Fix that first.
# earns: 0 of 2
def step_flops(*sizes):
    return (flops(*sizes) + 2**63) % 2**64 - 2**63


# %% wrong: counts the numbers of a buffer as large as the activations
# says: No machine has memory for these sizes. Compute the FLOPs from numbers only: build no network.
# says: This check builds on the first one
# earns: 0 of 2
def step_flops(vocab, width, heads, hidden, length, batch, trained, train_read):
    tokens = len(bytearray(batch * length * width)) // width
    return flops(vocab, width, heads, hidden, length, tokens // length, trained, train_read)
