# %% right: a list of all products, and one rule
# Each product of two matrices says which of its factors need a gradient, and costs its forward once more for each. The
# rule also holds for other networks, but the list must follow the code of the network product by product.
def step_flops(vocab, width, heads, hidden, length, batch, trained, train_read):
    """FLOPs of one training step, product by product."""
    tokens, pairs, per_head = batch * length, batch * heads * length, width // heads
    products = []  # rows, inner, columns; does the left factor need a gradient, and the right one?
    needs = train_read
    for block in trained:
        needs = needs or block
        products += [
            (tokens, width, 3 * width, needs, block),  # queries, keys and values
            (pairs, per_head, length, needs, needs),  # scores
            (pairs, length, per_head, needs, needs),  # weighted values
            (tokens, width, width, needs, block),
            (tokens, width, hidden, needs, block),
            (tokens, hidden, width, needs, block),
        ]
    products.append((tokens, width, vocab, needs, True))
    return sum(2 * n * k * m * (1 + left + right) for n, k, m, left, right in products)


# %% wrong: six times parameters times tokens
# says: 6 times parameters times tokens is a good rule of thumb.
# The rule counts a product for the embedding, which is a lookup, none for the attention, which has no parameters, and a
# gradient for every weight, frozen or not.
def step_flops(vocab, width, heads, hidden, length, batch, trained, train_read):
    """An estimate for large, fully trained models with short texts."""
    of_block = 4 * width * width + 2 * width * hidden + 4 * width + hidden + width + 4 * width
    return 6 * batch * length * (len(trained) * of_block + 2 * vocab * width)
