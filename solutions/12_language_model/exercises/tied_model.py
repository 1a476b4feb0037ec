# %% [markdown]
# ### Exercise 12.3 · One weight, two places, and a mask that moves along
#
# fix · solid · 20 min · 2 points
#
# This model runs, and its output has the right shape. But an optimizer would miss all of its blocks, the mask would
# stay behind when the model moves to another device, and the head only looks tied. Fix it. This exercise builds on
# chapter 7; `torchkata.small_lm.Block` is given.
#
# **Contract**
#
# - `emb` is an Embedding, `head` is a Linear without bias, `norm` is a LayerNorm, and `blocks` is a container of
#   `layers` Blocks, so that the parameters are called `emb.weight`, `blocks.0.qkv.weight` and so on, as in `SmallLM`.
#   There are no other parameters.
# - `head.weight` and `emb.weight` are the same Parameter: `parameters()` counts it once, and it is still one object
#   after `copy.deepcopy`, `.double()` and `load_state_dict` (without `assign`).
# - `mask` is (length, length) bool. Its row t is True at the positions that position t may look at: itself and
#   everything before it. It follows the module to another device, is not in the state_dict, is not trained, and stays
#   bool after `.double()`.
# - `forward` takes ids (B, T), T <= length. It applies `emb`, all blocks in order, `norm` and `head`, in train mode and
#   in eval mode alike, and returns (B, T, vocab). Each block gets the first T rows and columns of `mask` as it is at
#   that moment: it may have been changed in place.
# - At the start, every matrix of every model is drawn anew from N(0, 0.02²), except those that write into the stream,
#   `out.weight` and `down.weight` of each block, which are drawn from N(0, 0.02² / (2 · layers)). All biases are 0, and
#   the weights of the norms are 1. The first loss is therefore close to log(vocab).
#
# **Rule.** Do not use `SmallLM` itself, because it is this model.
#
# <details><summary>Hint 1</summary>
#
# How often does `parameters()` list the weight after `head.weight.data = emb.weight.data`? And in which attributes does
# `.to()` look for tensors?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# Assign the Parameter itself, keep the blocks in an `nn.ModuleList`, and register the mask as a buffer with
# `persistent=False`. A norm also has parameters, but they are not matrices.
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# Walk through `named_parameters()`. The number of dimensions tells you which parameters are matrices, and the end of a
# name tells you which of them write into the stream and which parameters are biases. The rest, the weights of the
# norms, are already 1.
#
# </details>


# %% answer="tied-model"
class TinyLM(nn.Module):
    """ids (B, T) int64, T at most `length` -> logits (B, T, vocab).

    The head shares its weight with the embedding.
    """

    def __init__(self, vocab: int, width: int, layers: int, length: int) -> None:
        ### BEGIN SOLUTION
        super().__init__()
        self.emb = nn.Embedding(vocab, width)
        self.blocks = nn.ModuleList(Block(width) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocab, bias=False)
        self.head.weight = self.emb.weight
        mask = torch.ones(length, length, dtype=torch.bool).tril()
        self.register_buffer("mask", mask, persistent=False)
        for name, parameter in self.named_parameters():
            if parameter.dim() == 2:
                into_stream = name.endswith(("out.weight", "down.weight"))
                spread = 0.02 / math.sqrt(2 * layers) if into_stream else 0.02
                nn.init.normal_(parameter, std=spread)
            elif name.endswith("bias"):
                nn.init.zeros_(parameter)
        ### END SOLUTION
        ### BEGIN GIVEN
        # raise NotImplementedError  # fix the code below, then delete this line
        # super().__init__()
        # self.emb = nn.Embedding(vocab, width)
        # self.blocks = [Block(width) for _ in range(layers)]
        # self.norm = nn.LayerNorm(width)
        # self.head = nn.Linear(width, vocab, bias=False)
        # self.head.weight.data = self.emb.weight.data
        # self.mask = torch.ones(length, length, dtype=torch.bool).tril()
        # for p in self.parameters():
        #     nn.init.normal_(p, std=0.02)
        ### END GIVEN

    def forward(self, ids: Tensor) -> Tensor:
        """The logits of what follows each position."""
        x, mask = self.emb(ids), self.mask[: ids.shape[1], : ids.shape[1]]
        for block in self.blocks:
            x = block(x, mask)
        return self.head(self.norm(x))


# %% helpers="tied-model"
forgotten = mistake("super().__init__() comes first in __init__.", raises="before Module.__init__|super\\(\\)")


# %% check="tied-model" points=1
"""One Parameter in two places, all blocks registered, a mask that follows; the forward pass."""
with check("tied-model") as test:

    def what_is_registered(answer, vocab, width, layers, length):
        """Make TinyLM(vocab, width, layers, length) and list what it has registered."""
        made, build = [], SmallLM.__init__
        SmallLM.__init__ = lambda *sizes: (made.append(1), build(*sizes))[1]
        try:
            model = answer(vocab, width, layers, length)
        finally:
            SmallLM.__init__ = build
        emb, head = model.emb.weight, model.head.weight
        facts = {
            "the course's": isinstance(model, SmallLM) or bool(made),
            "tied": head is emb,
            "one memory": head.data_ptr() == emb.data_ptr(),
            "equal": torch.equal(head, emb),
            "parts": [isinstance(model.emb, nn.Embedding), isinstance(model.head, nn.Linear)],
            "parameters": {name: list(p.shape) for name, p in model.named_parameters(remove_duplicate=False)},
            "different": sum(name != "mask" for name, _ in model.named_parameters()),
            "trained": all(parameter.requires_grad for parameter in model.parameters()),
            "state": list(model.state_dict()),
            "mask": model.mask.clone(),
        }
        model.double()
        facts["mask after double"] = model.mask.dtype
        model.to("meta")
        facts["mask after to"] = model.mask.device.type
        return facts

    sizes = 50, 16, 2, 8
    expected = {name: list(p.shape) for name, p in SmallLM(*sizes).named_parameters(remove_duplicate=False)}

    test("head.weight and emb.weight are one Parameter, and every block is registered")
    seen = observe_scenario(what_is_registered, TinyLM, *sizes).expecting(forgotten)
    seen.that(
        not seen["the course's"],
        "Your model is, or uses, the course's SmallLM. Write the model yourself.",
        stage="rule",
    )
    seen.that(
        seen["tied"],
        "head.weight and emb.weight are two Parameters: assign the one to the other.",
        mistake(
            "`head` and `emb` share memory, but not the Parameter, so the optimizer steps it twice, and .to() or "
            "deepcopy separates them. Assign the Parameter itself.",
            when=lambda seen: seen["one memory"],
        ),
        mistake(
            "head.weight is a copy of emb.weight: after one step the two differ. Assign the Parameter itself.",
            when=lambda seen: seen["equal"],
        ),
        stage="aliasing",
    )
    seen.that(seen["parts"] == [True, True], "`emb` must be an nn.Embedding and `head` an nn.Linear.", stage="type")
    named = {name: shape for name, shape in seen["parameters"].items() if name != "mask"}
    missing = ", ".join([name for name in expected if name not in named][:3])
    unwanted = ", ".join([name for name in named if name not in expected][:3])
    seen.that(
        not missing,
        f"These parameters are missing: {missing}.",
        mistake(
            "The blocks are not registered, because parameters() and .to() don't look into a plain list. Use "
            "nn.ModuleList.",
            when=lambda seen: not any("qkv" in name for name in seen["parameters"]),
        ),
        stage="rule",
    )
    seen.that(
        not unwanted,
        f"There are parameters that the model should not have: {unwanted}.",
        mistake("The head must have no bias.", when=lambda seen: "head.bias" in seen["parameters"]),
        stage="rule",
    )
    seen.that(named == expected, "The parameters don't have the shapes that they have in SmallLM.", stage="shape")
    seen.that(
        seen["different"] == len(list(SmallLM(*sizes).parameters())),
        "The same Block is in `blocks` several times, so all layers share its weights. Make a new Block for each "
        "layer.",
        stage="aliasing",
    )

    test("the mask: bool, never trained, moved with the module, not saved")
    mask = seen["mask"]
    seen.that(
        "mask" not in seen["parameters"],
        "`mask` must not be a Parameter, because parameters are counted, given to optimizers, and trained after "
        "requires_grad_(True).",
        stage="rule",
    )
    seen.that(seen["trained"], "Every parameter must require grad.", stage="gradient")
    seen.that(isinstance(mask, Tensor) and mask.dtype == torch.bool, "`mask` must be a bool tensor.", stage="dtype")
    seen.that(
        seen["mask after double"] == torch.bool,
        "`mask` must stay bool after .double(). A buffer of bools does.",
        stage="dtype",
    )
    triangle = torch.tensor([[column <= row for column in range(8)] for row in range(8)])
    seen.that(mask.shape == triangle.shape, "`mask` must be (length, length).", stage="shape")
    seen.that(
        torch.equal(mask, triangle),
        "`mask` must be True where a position (row) may look (column): at itself and at everything before it.",
        mistake("`mask` is upside down.", when=lambda seen: torch.equal(seen["mask"], triangle.T)),
        mistake(
            "`mask` is True where a position may NOT look.", when=lambda seen: torch.equal(seen["mask"], ~triangle)
        ),
    )
    seen.that(
        seen["mask after to"] == "meta",
        "`mask` stayed behind when the module moved to another device. Register it as a buffer.",
        stage="device",
    )
    seen.that(
        "mask" not in seen["state"],
        "`mask` is in the state_dict, so a model with a different length could not load the checkpoint. Use "
        "persistent=False.",
        stage="rule",
    )
    seen.that(
        set(seen["state"]) == set(expected),
        "The state_dict must contain the model's weights and nothing else.",
        stage="rule",
    )

    ### BEGIN HIDDEN TESTS
    def after(answer, vocab, width, layers, length):
        """Look at the tie after deepcopy, .double() and load_state_dict."""
        model, other = answer(vocab, width, layers, length), answer(vocab, width, layers, length)
        tied = {}
        copied = copy.deepcopy(model)
        tied["copy.deepcopy"] = copied.head.weight is copied.emb.weight
        model.load_state_dict(other.state_dict())
        tied["load_state_dict"] = model.head.weight is model.emb.weight
        model.double()
        tied[".double()"] = model.head.weight is model.emb.weight
        return tied | {"loaded": torch.equal(model.emb.weight, other.emb.weight.double())}

    test.hidden("the tie after deepcopy, double and load_state_dict")
    seen = observe_scenario(after, TinyLM, *sizes)
    for way in ("copy.deepcopy", "load_state_dict", ".double()"):
        seen.that(seen[way], f"After {way} head.weight and emb.weight are two Parameters. Tie them once, in __init__.")
    seen.that(seen["loaded"], "After load_state_dict the model does not have the loaded weights.")

    def run(answer, ids, vocab, width, layers, length):
        """Make the model, call it with ids, and run a backward pass."""
        torch.set_num_threads(1)  # so small a model has no work for more
        model = answer(vocab, width, layers, length)
        dice = torch.Generator().manual_seed(3)
        with torch.no_grad():
            for count, parameter in enumerate(model.parameters()):
                parameter.add_(torch.randn(parameter.shape, generator=dice) / (count % 3 + 3))
        logits = model(ids)
        logits.square().sum().backward()
        without = [n for n, p in model.named_parameters() if p.grad is None or not p.grad.any()]
        with torch.no_grad():
            in_eval = model.eval()(ids)
            model.mask[0, 2] = model.mask[4, 6] = True
            opened = model(ids[:, :5])
        return {
            "state": dict(model.state_dict()),
            "logits": logits,
            "in eval mode": in_eval,
            "opened": opened,
            "mask": model.mask.clone(),
            "without": without,
            "of emb": model.emb.weight.grad,
        }

    generator = torch.Generator().manual_seed(12)
    for idea, layers, shape in [
        ("three blocks, the longest text", 3, (2, 8)),
        ("one block, one position", 1, (3, 1)),
    ]:
        test.hidden(idea)
        ids = torch.randint(50, shape, generator=generator)
        ids[0, 0], ids[1:, 0] = 0, 7
        seen = observe_scenario(run, TinyLM, ids, 50, 16, layers, 8).expecting(
            mistake(
                "Each block must get as many rows and columns of `mask` as there are ids: {detail}.",
                raises="must match|broadcast|expanded size",
            )
        )
        reference = SmallLM(50, 16, layers, 8)
        reference.load_state_dict(seen["state"])
        seen.that(
            isinstance(seen["logits"], Tensor) and seen["logits"].shape == (*shape, 50),
            "The logits must be (B, T, vocab).",
            stage="shape",
        )
        seen.that(
            torch.allclose(seen["logits"], reference(ids), rtol=1e-3, atol=1e-3),
            "The forward pass differs from the given one: emb, every block in order with the mask, norm, head.",
        )
        in_eval = seen["in eval mode"]
        seen.that(
            in_eval.shape == (*shape, 50) and torch.allclose(in_eval, seen["logits"], rtol=1e-3, atol=1e-3),
            "In eval mode the logits are others than in train mode. The forward pass must be the same in both.",
            mistake(
                f"In eval mode the logits have shape {tuple(in_eval.shape)}, in train mode {(*shape, 50)}. Apply the "
                "head to all positions in both modes.",
                when=lambda seen, in_eval=in_eval, shape=shape: in_eval.shape != (*shape, 50),
            ),
        )
        first = ids[:, :5]
        reference.mask.copy_(seen["mask"])
        of_first = reference(first)
        reference.mask[:5, :5] = seen["mask"][-5:, -5:]
        of_last = reference(first)
        seen.that(
            torch.allclose(seen["opened"], of_first, rtol=1e-3, atol=1e-3),
            "After `model.mask[0, 2] = model.mask[4, 6] = True` the blocks got another mask for 5 ids. Pass them the "
            "first 5 rows and columns of `self.mask`, not of a mask that `forward` makes.",
            mistake(
                "You pass the last 5 rows and columns of `mask` for 5 ids. The first id is at position 0, so pass the "
                "first 5.",
                when=lambda seen, of_last=of_last: torch.allclose(seen["opened"], of_last, rtol=1e-3, atol=1e-3),
            ),
        )
        reference.mask.copy_(torch.ones(8, 8).tril())
        reference(ids).square().sum().backward()
        of_emb = reference.emb.weight.grad
        seen.that(
            isinstance(seen["of emb"], Tensor) and torch.allclose(seen["of emb"], of_emb, rtol=1e-2, atol=1e-2),
            "The logits are right, but the gradient of the embedding's weight is wrong. Make `emb` without further "
            "options, such as `scale_grad_by_freq`.",
            mistake(
                "The embedding of id 0 gets no gradient, because an Embedding drops the gradient of padding_idx. "
                "Here 0 is an id like all others.",
                when=lambda seen, of_emb=of_emb: torch.allclose(seen["of emb"][1:], of_emb[1:], rtol=1e-2, atol=1e-2),
            ),
            stage="gradient",
        )
        if shape[1] > 1:  # the softmax of one score is 1, so nothing reaches queries and keys there
            lost = ", ".join(seen["without"][:3])
            seen.that(not lost, f"No gradient reaches {lost}.", stage="gradient")
    ### END HIDDEN TESTS

# %% check="tied-model" points=1
"""The start: the first loss, and the spread of every parameter."""
with check("tied-model") as test:

    def at_the_start(answer, vocab, width, layers, length):
        """Make TinyLM(vocab, width, layers, length) and look at its parameters and its first loss."""
        torch.set_num_threads(1)
        model = answer(vocab, width, layers, length)
        ids = (torch.arange(2 * (length + 1)) * 37 % vocab).reshape(2, length + 1)
        loss = F.cross_entropy(model(ids[:, :-1]).flatten(0, 1), ids[:, 1:].flatten())
        other = answer(vocab, width, layers, length)
        named = dict(model.named_parameters(remove_duplicate=False))
        first = {name: named.get(name.replace("blocks.1.", "blocks.0."), p) for name, p in named.items()}
        return {
            "loss": loss.item(),
            "parameters": {name: p.detach() for name, p in named.items()},
            "like block 0": [name for name, p in named.items() if first[name] is not p and p.equal(first[name])],
            "alike": torch.equal(model.emb.weight, other.emb.weight),
        }

    vocab, width, layers, length = 256, 32, 2, 16
    sizes = vocab, width, layers, length
    seen = observe_scenario(at_the_start, TinyLM, *sizes).expecting(forgotten)
    parameters = seen["parameters"]
    not_yet = "This check builds on the first one, which doesn't pass yet. Fix that first."
    names = [name for name, _ in SmallLM(*sizes).named_parameters()]

    test("the first loss is that of a model that knows nothing, log(vocab)")
    seen.that(all(name in parameters for name in names), not_yet, stage="rule")
    seen.that(
        abs(seen["loss"] - math.log(vocab)) < 0.1,
        f"The first loss is {seen['loss']:.2f}; it should be close to log({vocab}) = {math.log(vocab):.2f}.",
        mistake(
            "The embedding still has its default spread of 1. Because it is tied to the head, the logits have "
            "size sqrt(width), and the first loss is far above log(vocab).",
            when=lambda seen: seen["parameters"]["emb.weight"].std() > 0.5,
        ),
    )

    test("the weights of the norms are 1")
    for name in names:
        if name.endswith(("norm.weight", "before_attention.weight", "before_network.weight")):
            seen.that(
                bool((parameters[name] == 1).all()),
                f"{name}: the weights of the norms must start at 1. They are also parameters, but not matrices.",
            )

    ### BEGIN HIDDEN TESTS
    test.hidden("biases")
    for name in names:
        if name.endswith("bias"):
            seen.that(not parameters[name].any(), f"{name}: biases must start at 0.")

    test.hidden("the spread of every matrix")
    layers = 3
    sizes = vocab, width, layers, length
    seen = observe_scenario(at_the_start, TinyLM, *sizes)
    for name in [name for name, p in SmallLM(*sizes).named_parameters() if p.dim() == 2]:
        values = seen["parameters"][name]
        into_stream = name.endswith(("out.weight", "down.weight"))
        spread = 0.02 / math.sqrt(2 * layers) if into_stream else 0.02
        found = values.std().item()
        seen.that(
            0.88 * spread < found < 1.12 * spread,
            f"{name}: its spread must be 0.02, but it is {found:.4f}.",
            mistake(
                "`out` and `down` write into the residual stream, so their spread must be 0.02 / sqrt(2 * layers).",
                when=lambda seen, into_stream=into_stream: into_stream,
            ),
        )
        seen.that(
            name not in seen["like block 0"],
            f"{name} starts with the same numbers as in block 0. `copy.deepcopy` copies a block's weights, and a seed "
            "repeats them. Draw the matrices of each block anew.",
        )
        bell = values.mean().abs() < 6 * spread / math.sqrt(values.numel()) and values.abs().max() > 2.5 * spread
        seen.that(bool(bell), f"{name} must be drawn from a normal distribution around 0.")
    seen.that(
        not seen["alike"], "Two models have the same weights. Each must draw its own, so seed nothing in __init__."
    )
    ### END HIDDEN TESTS
