# %% [markdown]
# ### Exercise 7.3 · How big is this model?
#
# measure · warm-up · 10 min · 1 point
#
# This report is easy to get wrong: how many numbers are trained, how many are frozen, how many are in buffers, and how
# much memory do they take?
#
# **Contract**
#
# - Returns a dict of four plain ints. `trainable`, `frozen` and `buffers` count elements; `bytes` is the sum of number
#   of elements times element size, over all parameters and buffers.
# - Each tensor object counts once, however many names it has. Non-persistent buffers also count. No Parameter is also
#   registered as a buffer.
# - The model is not changed, and the function allocates no tensor of the model's size: the report must work on the meta
#   device.
#
# <details><summary>Hint 1</summary>
#
# Which of `parameters()`, `state_dict()` and `modules()` lists a tied weight once, twice, or several times?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# `parameters()` and `buffers()` already walk the tree and skip duplicates; `element_size()` returns the bytes of an
# element.
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# Each of the first three numbers is a sum of element counts over one of the two walks: `trainable` and `frozen` split
# the parameters by their flag, `buffers` needs the other walk. For `bytes`, multiply the element counts of both walks
# by the element sizes. None of this reads a value, so it also works on the meta device.
#
# </details>


# %% answer="param-report"
def param_report(model: nn.Module) -> dict[str, int]:
    """The numbers of elements that are trainable, frozen and in buffers, and the bytes of all."""
    ### BEGIN SOLUTION
    parameters, buffers = list(model.parameters()), list(model.buffers())
    return {
        "trainable": sum(tensor.numel() for tensor in parameters if tensor.requires_grad),
        "frozen": sum(tensor.numel() for tensor in parameters if not tensor.requires_grad),
        "buffers": sum(tensor.numel() for tensor in buffers),
        "bytes": sum(tensor.numel() * tensor.element_size() for tensor in parameters + buffers),
    }
    ### END SOLUTION


# %% check="param-report" points=1
"""Elements and bytes of each tensor, once; nothing is changed or allocated."""
with check("param-report") as test:

    def state_of(model):
        """What must stay: objects, flags, modes and values."""
        tensors = [*model.named_parameters(), *model.named_buffers()]
        return [
            [
                (name, id(tensor), str(tensor.dtype), tensor.requires_grad, tensor.grad is None)
                for name, tensor in tensors
            ],
            [module.training for module in model.modules()],
            [tensor.tolist() for _, tensor in tensors if tensor.device.type == "cpu" and tensor.numel() < 100],
        ]

    def watched(answer, model):
        """The report on a model, and whether the model changed. Two calls of lgamma frame what the answer runs."""
        before = state_of(model)
        torch.lgamma(torch.ones(1))
        report = answer(model)
        torch.lgamma(torch.ones(1))
        return {"report": report, "changed": state_of(model) != before}

    def on_nested(answer):
        """Report on a model of two Linear layers, one of them in a container."""
        return watched(answer, nn.Sequential(nn.Sequential(nn.Linear(3, 2), nn.ReLU()), nn.Linear(2, 3)))

    def on_batch_norm(answer):
        """Report on a batch norm."""
        return watched(answer, nn.BatchNorm1d(3))

    sentences = {
        "nested": "Counted over modules() with their own parameters(): every nested parameter is counted once per "
        "level.",
        "tied": "A shared weight was counted under each of its names: state_dict() lists both, and `.to('meta')` "
        "unties them.",
        "tied buffers": "A shared buffer was counted under each of its names: buffers() lists it once.",
        "non-persistent": "Non-persistent buffers also take memory, although state_dict() does not list them.",
        "top level": "Only direct attributes or certain layer types were counted; walk the whole tree.",
        "buffers": "Buffers belong in `buffers` and `bytes`, not in trainable or frozen.",
        "own buffers": "The buffers of the model itself were not counted: buffers() of the model also lists them.",
        "element size": "Not every element takes 4 bytes: use element_size() of each tensor.",
        "frozen": "Frozen parameters must be separated by requires_grad.",
        "storage": "`bytes` is elements times element size: the larger memory behind a view does not count.",
        "addresses": "On the meta device every address is 0: tell tensors apart by identity, not by data_ptr().",
        "no buffers": "`bytes` is the memory of all parameters and buffers.",
    }

    def largest_made(seen):
        """The number of elements of the largest tensor that the answer made."""
        frames = [place for place, op in enumerate(seen.noted.ops) if op["name"] == "lgamma" and op["level"] == "aten"]
        inside = seen.noted.ops[frames[0] + 1 : frames[-1]]
        return max(
            [op["elements"] for op in inside if op["level"] == "aten" and not op["view"] and op["device"] != "meta"],
            default=0,
        )

    def judge(seen, trainable, frozen, buffers, size, betrayed):
        """Judge the four numbers; `betrayed` holds (key, wrong number) pairs by the misconception that they betray."""
        none = "A name may be registered with None (a Linear without bias has one): there is nothing to count then."
        some = "torch.finfo and torch.iinfo know no complex dtypes: element_size() gives the bytes of every dtype."
        seen.expecting(mistake(none, raises="NoneType"), mistake(some, raises="finfo|iinfo"))
        report = seen["report"]
        expected = {"trainable": trainable, "frozen": frozen, "buffers": buffers, "bytes": size}
        seen.that(
            isinstance(report, dict) and set(report) == set(expected),
            "Return a dict with the keys trainable, frozen, buffers and bytes.",
            stage="type",
        )
        plain = all(type(number) is int for number in report.values())
        seen.that(plain, "The four numbers must be plain ints.", stage="type")
        for key, number in expected.items():
            came = report[key]
            named = [
                mistake(sentences[name], when=lambda seen, pairs=pairs, pair=(key, came): pair in pairs)
                for name, pairs in betrayed.items()
            ]
            seen.that(came == number, f"`{key}` should be {number}; it is {came}.", *named)
        seen.that(not seen["changed"], "The report changed the model.", stage="arguments")
        frugal = largest_made(seen) <= 1000
        seen.that(frugal, "Tensors of the model's size were made: count, don't copy.", stage="rule")

    test("layers in containers: 17 trainable parameters, 68 bytes")
    judge(
        observe_scenario(on_nested, param_report),
        trainable=17,
        frozen=0,
        buffers=0,
        size=68,
        betrayed={
            "nested": [("trainable", n) for n in (42, 34)] + [("bytes", n) for n in (168, 136)],
            "top level": [("trainable", n) for n in (0, 9)],
            "element size": [("bytes", 17)],
        },
    )

    test("batch norm: running_mean, running_var and a counter of 8 bytes are buffers")
    judge(
        observe_scenario(on_batch_norm, param_report),
        trainable=6,
        frozen=0,
        buffers=7,
        size=56,
        betrayed={
            "buffers": [("trainable", 13), ("frozen", 7)],
            "own buffers": [("buffers", 0)],
            "top level": [("trainable", 0)],
            "element size": [("bytes", n) for n in (52, 13, 104)],
            "no buffers": [("bytes", 24)],
        },
    )

    class Tied(nn.Module):
        """A weight, a layer and a buffer with several names; a bare parameter; a non-persistent buffer."""

        def __init__(self):
            super().__init__()
            self.embedding = nn.Embedding(5, 3)
            self.head = nn.Linear(3, 5, bias=False)
            self.head.weight = self.embedding.weight
            self.scale = nn.Parameter(torch.ones(4))
            self.first = nn.Linear(2, 2)
            self.again = self.first
            self.register_buffer("mask", torch.ones(7, dtype=torch.bool), persistent=False)
            self.register_buffer("table", torch.ones(3, dtype=torch.float64))
            self.first.register_buffer("same_table", self.table)

    def on_tied(answer):
        """Report on a model in which a weight, a layer and a buffer have several names."""
        return watched(answer, Tied())

    test("a weight, a layer and a buffer with several names; a bare parameter; a non-persistent buffer")
    judge(
        observe_scenario(on_tied, param_report),
        trainable=25,
        frozen=0,
        buffers=10,
        size=131,
        betrayed={
            "tied": [("trainable", n) for n in (40, 46, 31)] + [("bytes", n) for n in (256, 263)],
            "tied buffers": [("buffers", n) for n in (13, 16)] + [("bytes", 155)],
            "nested": [("trainable", n) for n in (61, 55, 50)],
            "top level": [("trainable", n) for n in (0, 4, 6, 12, 15, 21, 27, 36, 42)] + [("buffers", 7)],
            "non-persistent": [("buffers", n) for n in (3, 6, 9)] + [("bytes", 124)],
            "element size": [("bytes", 140)],
        },
    )

    ### BEGIN HIDDEN TESTS
    def on_partly_frozen(answer):
        """Report on a bfloat16 model with a frozen layer and a frozen bias."""
        model = nn.Sequential(nn.Linear(3, 2), nn.Conv1d(2, 2, 3), nn.LayerNorm(5)).to(torch.bfloat16)
        model[0].requires_grad_(False)
        model[2].bias.requires_grad_(False)
        return watched(answer, model.eval())

    def on_meta(answer):
        """Report on a layer of a million by a million, on the meta device."""
        layers = nn.Linear(10**6, 10**6, device="meta"), nn.BatchNorm1d(10**6, device="meta")
        return watched(answer, nn.Sequential(*layers))

    def on_large(answer):
        """Report on a layer; no copy of its weights may be made."""
        return watched(answer, nn.Sequential(nn.Linear(100, 100), nn.ReLU()))

    def on_nothing(answer):
        """Report on a model without parameters."""
        return watched(answer, nn.Sequential(nn.ReLU(), nn.Flatten()))

    def on_bare(answer):
        """Report on a module with a column of a larger tensor, int8 and complex buffers, names that hold nothing."""
        model = nn.Module()
        model.weight = nn.Parameter(torch.ones(6, 4)[:, 1:2])
        model.register_buffer("codes", torch.ones(5, dtype=torch.int8))
        model.register_buffer("phases", torch.ones(3, dtype=torch.complex64))
        model.register_buffer("nothing", None)
        model.register_parameter("bias", None)
        return watched(answer, model)

    test.hidden("a frozen layer, a frozen bias, half precision, eval mode")
    judge(
        observe_scenario(on_partly_frozen, param_report),
        trainable=19,
        frozen=13,
        buffers=0,
        size=64,
        betrayed={
            "frozen": [("trainable", n) for n in (0, 24, 32)] + [("frozen", n) for n in (0, 8)],
            "element size": [("bytes", 128)],
        },
    )

    test.hidden("a model that nobody could hold, on the meta device")
    judge(
        observe_scenario(on_meta, param_report),
        trainable=10**12 + 3 * 10**6,
        frozen=0,
        buffers=2 * 10**6 + 1,
        size=4 * (10**12 + 5 * 10**6) + 8,
        betrayed={"addresses": [("trainable", n) for n in (10**6, 10**12, 0)]},
    )

    test.hidden("a layer of 10,100 parameters: nothing of that size is made")
    judge(observe_scenario(on_large, param_report), trainable=10100, frozen=0, buffers=0, size=40400, betrayed={})

    test.hidden("a module without parameters")
    judge(observe_scenario(on_nothing, param_report), trainable=0, frozen=0, buffers=0, size=0, betrayed={})

    test.hidden("a parameter that is a column of something larger; int8 and complex buffers; names that hold nothing")
    judge(
        observe_scenario(on_bare, param_report),
        trainable=6,
        frozen=0,
        buffers=8,
        size=53,
        betrayed={
            "top level": [("trainable", 0)],
            "storage": [("bytes", 125)],
            "element size": [("bytes", n) for n in (56, 41, 68)],
        },
    )
    ### END HIDDEN TESTS
