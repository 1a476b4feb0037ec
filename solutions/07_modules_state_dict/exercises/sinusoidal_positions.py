# %% [markdown]
# ### Exercise 7.2 · A table that moves but is not saved
#
# implement · solid · 15 min · 2 points
#
# A transformer adds a fixed table of sines and cosines to its input, one row for each position. Write the module. The
# formula is the smaller part of the exercise; the larger part is where you store the table.
#
# **Contract**
#
# - `forward(x)` adds to every sample of x (N, T, d) the first T rows of a table with pe[t, 2i] = sin(t / 10000^(2i/d))
#   and pe[t, 2i+1] = cos(t / 10000^(2i/d)). An odd d_model is allowed.
# - The result has the dtype of x; x is not changed, and gradients pass to it.
# - The table of max_len rows is made once, in `__init__`. It moves and casts with the module (`.double()`,
#   `.to("meta")`), it is not trained, and it is not in the state_dict: a checkpoint of a model with max_len 512 loads
#   into a model with max_len 1024.
# - T > max_len raises a ValueError that names both numbers. T = max_len and T = 0 are fine.
#
# In Exercise 12.3 the mask of a language model is also such a buffer.
#
# <details><summary>Hint 1</summary>
#
# Which of Parameter, plain tensor attribute, buffer and non-persistent buffer moves but is not saved?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# Multiply positions (max_len, 1) by frequencies (ceil(d/2),) in float32. Sines go into the even columns and cosines
# into the odd columns; for odd d there is one cosine less. In forward, take the first T rows and cast them to the dtype
# of x.
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# Step through the even numbers below d_model to get the exponents; you can compute the frequencies as powers, or as
# `exp` of a product with the logarithm of 10000. Fill a table by slices with step 2, and cut the angles to d_model // 2
# columns for the cosines. Register the table as the one kind of tensor that moves and is not saved. In forward, compare
# the length of x with that of the table before you add.
#
# </details>


# %% answer="sinusoidal-positions"
class SinusoidalPositions(nn.Module):
    """Adds a fixed table of sines and cosines to x (N, T, d_model), in shape and dtype of x."""

    def __init__(self, d_model: int, max_len: int = 512) -> None:
        ### BEGIN SOLUTION
        super().__init__()
        position = torch.arange(max_len).unsqueeze(1)
        frequency = torch.exp(torch.arange(0, d_model, 2) * (-math.log(10000.0) / d_model))
        angle = position * frequency
        table = torch.empty(max_len, d_model)
        table[:, 0::2] = angle.sin()
        table[:, 1::2] = angle[:, : d_model // 2].cos()
        self.register_buffer("table", table, persistent=False)
        ### END SOLUTION

    def forward(self, x: Tensor) -> Tensor:
        """x plus the first T rows of the table."""
        ### BEGIN SOLUTION
        length = x.size(1)
        if length > len(self.table):
            raise ValueError(f"{length} positions, but the table has max_len={len(self.table)}")
        return x + self.table[:length].to(x.dtype)
        ### END SOLUTION


# %% helpers="sinusoidal-positions"
forgotten = mistake("Call super().__init__() first in __init__.", raises="before Module.__init__")


# %% check="sinusoidal-positions" points=1
"""The values: sines and cosines in turn, for every sample; odd d, T up to max_len; x untouched."""
with check("sinusoidal-positions") as test:

    def added(answer, sizes, x):
        """Make SinusoidalPositions of these sizes and call it with x."""
        return answer(*sizes)(x)

    def column(k, d, length):
        """One column of the table, position by position."""
        function = math.cos if k % 2 else math.sin
        return [function(t / 10000 ** (k // 2 * 2 / d)) for t in range(length)]

    def table_of(d, length):
        """The table, column by column."""
        return torch.tensor([column(k, d, length) for k in range(d)], dtype=torch.float64).T.reshape(length, d)

    def halves_of(d, length):
        """The table with all sines first."""
        table = table_of(d, length)
        return torch.cat([table[:, 0::2], table[:, 1::2]], dim=1)

    def exchanged(d, length):
        """The table with cosines in even columns."""
        angles = torch.arange(length).double()[:, None] / 10000 ** (torch.arange(d) // 2 * 2 / d)
        return torch.where(torch.arange(d) % 2 == 1, angles.sin(), angles.cos())

    def exponent_i(d, length):
        """The table with the exponent i/d, or with one exponent for every column."""
        angles = torch.arange(length).double()[:, None] / 10000 ** (torch.arange(d) // 2 / d)
        return torch.where(torch.arange(d) % 2 == 0, angles.sin(), angles.cos())

    def exponent_k(d, length):
        """The table with an exponent of its own for every column."""
        angles = torch.arange(length).double()[:, None] / 10000 ** (torch.arange(d) / d)
        return torch.where(torch.arange(d) % 2 == 0, angles.sin(), angles.cos())

    angles_off = (
        "The angles are off: the exponent is 2i/d with i the PAIR index, the position is not scaled, and 10000 is "
        "the base."
    )
    along_batch = "You sliced or broadcast along the batch: position is dimension 1 of x."
    odd = mistake(
        "For odd d_model there is one cosine column fewer.",
        raises="expanded size of the tensor|must match the size|stack expects each tensor|shape mismatch",
        when=lambda seen: seen.args[1][0] % 2 == 1,
    )

    def scaled(came, wanted):
        """Whether one factor, other than 1, leads from what is wanted to what came, but for zeros."""
        common = (came.abs() > 1e-6) & (wanted.abs() > 1e-2)
        factors = (came / wanted)[common]
        return bool(factors.numel() > 1 and factors.max() - factors.min() < 1e-2 and (factors - 1).abs().min() > 1e-2)

    def starts_right(added, d):
        """Whether what was added is a table of sines and cosines that begins with angles of zero."""
        start = (torch.arange(d) % 2).double().expand(len(added), d)
        return added.shape[1] > 0 and torch.allclose(added[:, 0], start, atol=1e-3) and bool(added.abs().max() < 1.001)

    def in_halves(added, d):
        """Whether the first row of what was added is zeros and then ones, or the other way round: sin(0) and cos(0)."""
        return (
            d > 3
            and added.numel() > 0
            and any(
                torch.allclose(added[0, 0], torch.tensor(row, dtype=torch.float64), atol=1e-3)
                for k in (d // 2, d - d // 2)
                for row in (
                    [0.0] * k + [1.0] * (d - k),
                    [1.0] * k + [0.0] * (d - k),
                    [0.0] * k + [1.0] * (d // 2) + [0.0] * (d - k - d // 2),
                )
            )
        )

    def judge(seen):
        """Judge the sum of x and the table."""
        x = seen.args[2]
        n, t, d = x.shape
        table = table_of(d, t)
        known = [
            mistake(
                "You put all sines first; sines and cosines alternate column by column.",
                gives=lambda *asked: x + halves_of(d, t),
            ),
            mistake(
                "Your table has sines in one half and cosines in the other, as in some implementations; here they "
                "alternate column by column.",
                when=lambda seen: in_halves(seen.value.double() - x, d),
            ),
            mistake(
                "Sines and cosines are exchanged: even columns contain sines.", gives=lambda *asked: x + exchanged(d, t)
            ),
            mistake(angles_off, gives=lambda *asked: x + exponent_i(d, t)),
            mistake(angles_off, gives=lambda *asked: x + exponent_k(d, t)),
            mistake("You returned the table; add it to x.", gives=lambda *asked: table.expand(n, t, d)),
            mistake(
                "The first T rows of the table are added, not the last ones.",
                gives=lambda *asked: x + table_of(d, [*seen.args[1], 512][1])[-t:],
            ),
            mistake("T = max_len and T = 0 are fine: only T > max_len is refused.", raises="ValueError"),
            mistake("Positions count from 0.", gives=lambda *asked: x + table_of(d, t + 1)[1:]),
            mistake(
                along_batch,
                when=lambda seen: torch.allclose(seen.value.double(), x + table_of(d, n)[:, None], atol=1e-4),
            ),
            mistake(
                along_batch,
                when=lambda seen: torch.allclose(seen.value.double(), x + table_of(d, 1), atol=1e-4),
            ),
            odd,
            mistake(along_batch, raises=r"size of tensor .* must match"),
            mistake("The result must keep x's dtype (a float32 table promotes half precision input).", stage="dtype"),
            mistake("The result has the shape of x: {detail}.", stage="shape"),
            mistake(
                "Your sum is scaled, or has zeros in it: return x plus the table, without dropout.",
                when=lambda seen: scaled(seen.value.double(), x + table),
            ),
            mistake(
                "You scaled x: add the table to x as it is.",
                when=lambda seen: scaled(seen.value.double() - table, x.double()),
            ),
            mistake(angles_off, when=lambda seen: starts_right(seen.value.double() - x, d)),
        ]
        seen.returns((x + table).to(x.dtype), *known, rtol=1e-4, atol=1e-4)
        changed = torch.equal(seen.noted.arguments["x"].detach(), x.detach())
        seen.that(changed, "x was changed in place.", stage="arguments")

    def some(n, t, d):
        """Some x."""
        return (torch.arange(n * t * d) * 37 % 101 / 50 - 1).reshape(n, t, d)

    test("d = 4, three positions: sines in columns 0 and 2, cosines in columns 1 and 3")
    expected = torch.tensor(
        [[[0.0, 1.0, 0.0, 1.0], [0.84147, 0.54030, 0.01000, 0.99995], [0.90930, -0.41615, 0.02000, 0.99980]]]
    )
    zeros = observe_scenario(added, SinusoidalPositions, [4, 8], torch.zeros(1, 3, 4)).expecting(forgotten)
    judge(zeros)
    zeros.returns(expected, rtol=0, atol=1e-4)

    test("an odd d_model: one cosine fewer")
    judge(observe_scenario(added, SinusoidalPositions, [5, 8], some(2, 4, 5)))

    test("a batch larger than the sequence: every sample gets the same rows")
    judge(observe_scenario(added, SinusoidalPositions, [6, 8], some(5, 3, 6)))

    ### BEGIN HIDDEN TESTS
    for idea, sizes, shape in [
        ("as many samples as positions", [6, 8], (4, 4, 6)),
        ("one sample, one position", [6, 8], (1, 1, 6)),
        ("T = max_len", [6, 7], (2, 7, 6)),
        ("a batch of as many samples as the table has rows", [4, 5], (5, 3, 4)),
        ("max_len = 1", [4, 1], (2, 1, 4)),
        ("d = 1", [1, 4], (2, 3, 1)),
        ("d = 2", [2, 4], (2, 3, 2)),
        ("d = 7", [7, 4], (1, 4, 7)),
        ("an empty batch", [4, 5], (0, 3, 4)),
        ("T = 0", [4, 5], (2, 0, 4)),
        ("max_len is 512 if it is not given", [6], (1, 512, 6)),
    ]:
        test.hidden(idea)
        judge(observe_scenario(added, SinusoidalPositions, sizes, some(*shape)))

    def far_out(answer, d, length):
        """Call the module with zeros and look at the last rows."""
        return answer(d, length)(torch.zeros(1, length, d))[0, -3:]

    test.hidden("a long table with many columns stays accurate")
    far = torch.tensor(
        [
            [(math.cos if k % 2 else math.sin)(t / 10000 ** (k // 2 * 2 / 16)) for k in range(16)]
            for t in (1997, 1998, 1999)
        ]
    )
    inexact = mistake("The angles are inexact far out: compute them in float32 at least.", stage="value")
    observe_scenario(far_out, SinusoidalPositions, 16, 2000).returns(far, inexact, rtol=0, atol=5e-3)

    test.hidden("two calls, x as a view")
    judge(observe_scenario(added, SinusoidalPositions, [4, 9], some(3, 4, 6)[:, :, 1:5]))

    def refused(answer, sizes, length):
        """Call the module of these sizes with a sequence of this length."""
        module = answer(*sizes)
        try:
            came = module(torch.zeros(2, length, sizes[0]))
        except Exception as error:
            return {"refused": isinstance(error, ValueError), "message": str(error)}
        return {"refused": False, "message": "", "shape": list(came.shape) if isinstance(came, Tensor) else None}

    too_long = "Longer sequences must raise ValueError naming T and max_len, not fail in broadcasting or wrap around."
    for idea, sizes, length in [
        ("one position too many", [4, 6], 7),
        ("many positions too many", [4, 6], 29),
        ("one more than the default of 512", [4], 513),
        ("a table of one row does not spread", [4, 1], 3),
    ]:
        test.hidden(idea)
        seen = observe_scenario(refused, SinusoidalPositions, sizes, length)
        seen.that(seen["refused"], too_long, stage="raised")
        names = str(length) in seen["message"] and str([*sizes, 512][1]) in seen["message"]
        seen.that(names, too_long, stage="raised")
    ### END HIDDEN TESTS

# %% check="sinusoidal-positions" points=1
"""The table is not trained and not saved, moves and casts with the module; dtypes and gradients."""
with check("sinusoidal-positions") as test:

    def attributes_of(module):
        """What hangs on a module beside what nn.Module itself keeps there."""
        return [kept for name, kept in vars(module).items() if name not in vars(nn.Module())]

    def plain_tensors(module):
        """The tensors among a module's plain attributes."""
        return [kept for kept in attributes_of(module) if isinstance(kept, Tensor)]

    def where_it_lives(answer, sizes):
        """List what the module has registered, before and after a cast and a move of a model that contains it."""
        module = answer(*sizes)
        facts = {
            "module": isinstance(module, nn.Module),
            "parameters": [name for name, _ in module.named_parameters()],
            "state": list(module.state_dict()),
            "buffers": sum(buffer.numel() * (1 + buffer.is_complex()) for buffer in module.buffers()),
            "unmade": all(buffer is None for buffer in module._buffers.values()) and len(module._buffers) > 0,
            "tracked": any(buffer.requires_grad for buffer in module.buffers()),
            "plain": any(isinstance(kept, (Tensor, list, tuple, dict)) for kept in attributes_of(module)),
            "own": any(name in vars(answer) for name in ("to", "double")),
        }
        model = nn.Sequential(module)
        model.double()
        facts["dtypes"] = sorted({str(b.dtype) for b in module.buffers() if b.is_floating_point() or b.is_complex()})
        model.to("meta")
        facts["devices"] = sorted({buffer.device.type for buffer in module.buffers()})
        moved = [kept for kept in plain_tensors(module) if kept.is_meta and kept.dtype == torch.float64]
        facts["moved by hand"] = sum(kept.numel() for kept in moved)  # the module's own _apply can do so
        facts["tracked"] |= any(kept.requires_grad for kept in moved)
        return facts

    trained = (
        "The table is a Parameter: it is counted in parameters() and passed to optimizers, and requires_grad_(True) "
        "on the model makes it trainable even if it is frozen now."
    )
    saved = "The table is in state_dict: checkpoints of other lengths will not load. Use persistent=False."
    not_moved = "After .double() or .to(device) the table has not changed: a plain attribute is not registered."

    test("no parameters, nothing in the state_dict; the table follows .double() and .to('meta')")
    seen = observe_scenario(where_it_lives, SinusoidalPositions, [6, 10]).expecting(forgotten)
    seen.that(not seen["parameters"], trained, stage="rule")
    seen.that(not seen["state"], saved, stage="rule")
    made_later = mistake(
        "The table of max_len rows and d_model columns is made once, in __init__.", when=lambda seen: seen["unmade"]
    )
    alone = mistake(
        "A model that contains your module never calls the `double()` or `to()` of your class, so the table stays "
        "where it is. Register it as a buffer.",
        when=lambda seen: seen["plain"] and seen["own"],
    )
    stayed = mistake(not_moved, when=lambda seen: seen["plain"])
    size = seen["buffers"] or seen["moved by hand"]
    seen.that(
        size > 0,
        "The table is in no buffer: make it once, in __init__, and register it there.",
        made_later,
        alone,
        stayed,
        stage="device",
    )
    seen.that(size >= 60, "The table of max_len rows and d_model columns is made once, in __init__.", stage="rule")
    complex_table = mistake(
        "`double()` leaves complex buffers as they are, so your table is still complex64. Register the sines and "
        "cosines as real numbers.",
        when=lambda seen: "torch.complex64" in seen["dtypes"],
    )
    follows = not seen["buffers"] or (seen["dtypes"] == ["torch.float64"] and seen["devices"] == ["meta"])
    seen.that(follows, not_moved, complex_table, stage="device")
    seen.that(not seen["tracked"], "The table must not require grad.", stage="gradient")

    ### BEGIN HIDDEN TESTS
    def in_dtypes(answer, cast, x):
        """Cast the module, then call it with x."""
        return answer(6, 12).to(cast)(x)

    x = (torch.arange(30) * 37 % 101 / 50 - 1).reshape(1, 5, 6)
    table = torch.tensor(
        [[(math.cos if k % 2 else math.sin)(t / 10000 ** (k // 2 * 2 / 6)) for k in range(6)] for t in range(5)]
    )
    whole_table = mistake("Only the first T rows of the table are added to x.", raises="size of tensor")
    first_check = "The result is not x plus the table of the first check, in the dtype of x."
    keep_dtype = mistake(
        "The result must keep x's dtype (a float32 table promotes half precision input).", stage="dtype"
    )
    for idea, cast, given, tolerance in [
        ("bfloat16 goes in, bfloat16 comes out", torch.float32, torch.bfloat16, 2e-2),
        ("float16 goes in, float16 comes out", torch.float32, torch.float16, 3e-3),
        ("float64 after .double(), with float32's accuracy at least", torch.float64, torch.float64, 1e-6),
        ("a float64 x, a float32 module", torch.float32, torch.float64, 1e-6),
        ("a float32 x, a float64 module", torch.float64, torch.float32, 1e-6),
        ("a half precision module and x", torch.bfloat16, torch.bfloat16, 3e-2),
    ]:
        test.hidden(idea)
        expected = (x.to(given) + table.to(given)).to(given)
        seen = observe_scenario(in_dtypes, SinusoidalPositions, cast, x.to(given))
        seen.returns(expected, keep_dtype, whole_table, rtol=0, atol=tolerance, because=first_check)

    def with_gradient(answer, x):
        """Set all parameters of the model to be trained, then call a deep copy of it with x."""
        model = nn.Sequential(answer(6, 12))
        return copy.deepcopy(model.requires_grad_(True).train())(x)

    test.hidden("gradients pass to x; a deep copy works; x stays as it was")
    seen = observe_scenario(with_gradient, SinusoidalPositions, x.clone().requires_grad_()).expecting(
        mistake("x was changed in place.", raises="leaf Variable that requires grad"),
    )
    seen.returns(x + table, rtol=0, atol=1e-5)
    seen.gives_gradients({0: incoming_gradient(x)})

    def loads(answer, saved, own):
        """Load the state_dict of a model with one max_len into a model with another one."""
        models = [nn.Sequential(nn.Embedding(3, 6), answer(6, max_len=n), nn.Linear(6, 2)) for n in (saved, own)]
        try:
            models[1].load_state_dict(models[0].state_dict())
        except RuntimeError as error:
            return str(error)
        return ""

    asked_for = mistake(
        "Loading raises `Missing key(s)`: the table is registered as a persistent buffer, so loading asks for it "
        "although the state_dict doesn't have it. Use persistent=False.",
        when=lambda seen: "Missing key" in seen.value and "size mismatch" not in seen.value,
    )
    for lengths in ((4, 9), (9, 4)):
        test.hidden("a checkpoint loads into a model of another max_len")
        seen = observe_scenario(loads, SinusoidalPositions, *lengths)
        seen.that(not seen.value, saved, asked_for, stage="rule")

    def used_twice(answer, x):
        """Call one module twice and another one once."""
        module, other = answer(6, 12), answer(6, 12)
        first = module(x)
        second = module(x)
        return [torch.equal(first, second), torch.equal(first, other(x))]

    test.hidden("two calls give the same")
    seen = observe_scenario(used_twice, SinusoidalPositions, x)
    seen.that(seen.value == [True, True], "A second call gives a different result: forward must not change the table.")

    def called_again(answer, x):
        """Call one module in several dtypes, then move it to the meta device and call it there."""
        module = answer(6, 12)
        given = [torch.float32, torch.float16, torch.float64, torch.float32]
        came = [module(x.to(dtype)) for dtype in given]
        facts = {"kept": [y.dtype == dtype for y, dtype in zip(came, given, strict=True)], "moved": True}
        facts["same"] = torch.equal(came[0], came[-1])
        module.to("meta")
        try:
            facts["moved"] = module(x.to("meta")).device.type == "meta"
        except RuntimeError as error:
            facts |= {"moved": False, "error": str(error)}
        return facts

    test.hidden("one module, called in several dtypes, then moved and called again")
    seen = observe_scenario(called_again, SinusoidalPositions, x)
    seen.that(
        all(seen["kept"]),
        "Called again with as many rows in another dtype, the module answers in the dtype of an earlier call: what it "
        "kept from that call is used again. Slice and cast the buffer in each call.",
        stage="dtype",
    )
    seen.that(
        seen["same"],
        "Called with float32, float16, float64 and the same float32 again, the module answers differently the last "
        "time: it keeps the table that an earlier call has cast, without the digits that float16 lacks. Cast the "
        "rows that you add, and leave the buffer as it is.",
        stage="dtype",
    )
    seen.that(
        seen["moved"],
        "After .to('meta') the module still uses a table on the CPU, which an earlier call kept: only buffers and "
        "parameters move. Slice the buffer in each call.",
        stage="device",
    )

    def without_its_buffer(answer, x):
        """Cast a module to float64, set its buffers, or the table in its attributes, to 0 and call it with x."""
        module = answer(6, 12).double()
        for buffer in list(module.buffers()) or plain_tensors(module):
            buffer.zero_()
        return module(x)

    test.hidden("forward adds what is in the buffer")
    seen = observe_scenario(without_its_buffer, SinusoidalPositions, x.double())
    seen.that(
        not torch.allclose(seen.value, x.double() + table, rtol=0, atol=1e-4),
        "`forward` doesn't read the buffer: with a buffer of zeros it adds the same sines and cosines as before. They "
        "come from a list or another plain attribute, which neither moves nor casts with the module.",
        stage="device",
    )
    ### END HIDDEN TESTS
