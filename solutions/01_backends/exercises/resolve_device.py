# %% [markdown]
# ### Exercise 1.1 · Choose the device once, properly
#
# implement · solid · 12 min · 3 points
#
# `"cuda" if torch.cuda.is_available() else "cpu"` is copied into every script. It knows only one kind of accelerator,
# its result never equals `tensor.device`, and a GPU that doesn't exist is noticed only when the first tensor is created
# there. Write the function that decides once, at the start.
#
# `counts` says how many devices of each kind the machine has, such as `{"cuda": 2}`, `{"mps": 1}` or `{}`; `current` is
# the index of the current device of the kind that is asked for. This makes it possible to test the function without a
# GPU.
#
# **Contract**
#
# - `spec=None`: the first of cuda, xpu, mps of which there is at least one, otherwise the CPU.
# - The result is a torch.device that equals `.device` of a tensor allocated there. So cuda, xpu and mps without an
#   index get the index `current`, and the CPU and `meta`, which always exist, have no index, even if written as `cpu:0`
#   or `meta:0`.
# - Raise ValueError with the spec in its message if the kind is unknown, if there is no device of that kind, or if the
#   index is negative, too large or not a number. A device that was asked for is never replaced by the CPU.
# - Strings and torch.device objects are accepted. Don't call `torch.cuda` or `torch.accelerator`, and don't change
#   `counts` or the default device.
# - You may assume that indices are at most 127 (torch keeps them in 8 bits and reads "cuda:257" as cuda:1), and that
#   strings such as "CUDA", "cuda:", "cuda:01" and "cpu:x" don't occur. `current` is below the count of its kind,
#   if there is a device of that kind.
#
# **Rule.** No tensor is created (the check records operations): the first one on a GPU starts CUDA, which takes time
# and memory.
#
# <details><summary>Hint 1</summary>
#
# If you only write `torch.device(spec)`, which requirements of the contract are already met, and which does a device
# object simply not check?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# Create the torch.device first (turning its RuntimeError into a ValueError), then look at `.type` and `.index`. The
# index is None for `cuda`, which is where you put `current`, and otherwise you compare the index with the count.
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# There are three cases after that. For `cpu` and `meta`, return the device without an index. For every other type, look
# up the count, with 0 as the default, and refuse if it is 0 or if the index isn't below it. Then return a device with
# that type, and with `current` if there was no index.
#
# </details>


# %% answer="resolve-device"
def resolve_device(
    spec: str | torch.device | None,
    counts: Mapping[str, int],
    current: int = 0,
) -> torch.device:
    """The concrete device that spec means, on a machine with that many devices of each kind."""
    ### BEGIN SOLUTION
    if spec is None:
        spec = next((kind for kind in ("cuda", "xpu", "mps") if counts.get(kind, 0) > 0), "cpu")
    try:
        device = torch.device(spec)
    except RuntimeError:
        raise ValueError(f"{spec!r} is no device") from None
    if device.type in ("cpu", "meta"):
        return torch.device(device.type)
    index = current if device.index is None else device.index
    if index >= counts.get(device.type, 0):
        raise ValueError(f"{spec} does not exist here, there are only {dict(counts)}")
    return torch.device(device.type, index)
    ### END SOLUTION


# %% helpers="resolve-device"
known = (
    mistake(
        "You returned a device without an index. It works for allocation, but it never equals `tensor.device` "
        "(such as cuda:0): put the current index in.",
        when=lambda seen: seen.value.type in ("cuda", "xpu", "mps") and seen.value.index is None,
    ),
    mistake(
        "A torch.device is asked for, not its name.",
        when=lambda seen: isinstance(seen.value, str),
    ),
    mistake(
        "Nothing may be allocated to find out whether a device exists: `counts` says what there is.",
        raises="not compiled with|not linked with|NVIDIA driver|CUDA driver|invalid device ordinal",
    ),
    mistake(
        "The CPU and meta have no index here: `tensor.device` says `cpu`, or `meta`.",
        when=lambda seen: seen.value.type in ("cpu", "meta") and seen.value.index is not None,
    ),
    mistake(
        "`counts` lists only the kinds that the machine has: a kind that is missing has no device.",
        raises="^KeyError",
    ),
)
not_zero = mistake(
    "You used index 0; a spec without an index means the *current* device, which the caller passes as `current`.",
    when=lambda seen: seen.value.index == 0 and seen.kwargs.get("current", 0) > 0,
)
keeps_index = mistake(
    "The spec names an index: `current` is only for a spec without one.",
    when=lambda seen: seen.value.index != torch.device(seen.args[0]).index,
)


# %% check="resolve-device" points=1
"""A concrete device: the right kind, the current index, no tensor made to find out."""
with check("resolve-device") as test:
    cpu = torch.device("cpu")

    def judge(seen, device, *mistakes):
        """Judge the device, and that no tensor was made on the way."""
        seen.expecting(*mistakes, *known).returns(torch.device(device), because="That is another device: {detail}.")
        made = ", ".join(dict.fromkeys(seen.op_names(level="aten")))
        allocated = "Nothing may be allocated to find out; these operations ran: {detail}."
        seen.that(not made, allocated, stage="rule", detail=made)

    test("spec None: cuda if there is one, else the CPU")
    here_not_there = mistake(
        "Your function returned the CPU although there are CUDA devices. `counts` says what there is, not the"
        " machine on which this runs.",
        gives=cpu,
    )
    judge(observe(resolve_device, None, {"cuda": 2}), "cuda:0", here_not_there)
    judge(observe(resolve_device, None, {}), "cpu")

    test("'cuda' is the current device, 'cuda:1' the second one")
    judge(observe(resolve_device, "cuda", {"cuda": 2}, current=1), "cuda:1", not_zero, here_not_there)
    judge(observe(resolve_device, "cuda:1", {"cuda": 2}), "cuda:1", keeps_index)

    test("'cpu' and 'meta' need no count")
    no_count = mistake(
        "The CPU and meta exist on every machine; `counts` does not list them.",
        when=lambda seen: bool(seen.error_text) or seen.value.index is None,
    )
    judge(observe(resolve_device, "cpu", {"cuda": 2}, current=1), "cpu", no_count)
    judge(observe(resolve_device, "meta", {}), "meta", no_count)

# %% check="resolve-device" points=1
"""What cannot work raises ValueError and names the spec."""
with check("resolve-device") as test:

    def judge(spec, counts, because, *mistakes):
        """Judge that this wish is refused."""
        seen = observe(resolve_device, spec, counts)
        fell_back = mistake(
            "The caller asked for a device that does not exist here and got the CPU. A wish that cannot be met must "
            "raise; falling back is only right for spec=None.",
            gives=torch.device("cpu"),
        )
        objects = mistake(
            "torch.device objects are valid specs too, and this one must raise ValueError: {detail}.",
            raises="AttributeError|TypeError",
            when=lambda seen: isinstance(seen.args[0], torch.device),
        )
        seen.raises(ValueError, mistakes=[fell_back, objects, *mistakes], because=because)

    test("'cuda' on a machine without one")
    missing = "There is no CUDA device here: this must raise ValueError."
    judge("cuda", {}, missing)
    judge("cuda", {"xpu": 1}, missing)

    ### BEGIN HIDDEN TESTS
    unchecked = (
        "torch.device('cuda:7') is only a label: nobody checked that device 7 exists. Compare the index with the count."
    )
    test.hidden("'cuda:7' of two")
    judge("cuda:7", {"cuda": 2}, unchecked)
    judge(torch.device("cuda:7"), {"cuda": 1}, unchecked)

    test.hidden("'cuda:2' of two, 'mps:1' of one")
    from_zero = "Devices are numbered from 0: with two of them there is no number 2. This must raise ValueError."
    judge("cuda:2", {"cuda": 2}, from_zero)
    judge(torch.device("cuda:1"), {"cuda": 1}, from_zero)
    judge("mps:1", {"mps": 1}, from_zero)

    test.hidden("a kind of which there is none")
    none_here = "A kind with no device here must raise ValueError."
    judge("xpu", {"cuda": 2}, none_here)
    judge("mps", {"mps": 0}, none_here)
    judge("cuda", {"cuda": 0}, none_here)
    judge("cuda:0", {}, none_here)
    judge(torch.device("xpu"), {}, none_here)

    test.hidden("names that are no device")
    not_torchs = mistake(
        "An unknown name must end as ValueError naming the spec; you let torch's RuntimeError through.",
        raises="^(RuntimeError|AcceleratorError|DeferredCudaCallError)",
    )
    for unknown in ("gpu", "gpu:0", "", "cuda:x"):
        judge(unknown, {"cuda": 2}, "An unknown name must raise ValueError.", not_torchs)

    test.hidden("a negative index")
    negative = mistake(
        "An index of -1 was taken for another one: devices are numbered from 0, and nothing is counted from the end.",
        stage="raised",
        when=lambda seen: not seen.error_text,
    )
    for spec in ("cuda:-1", "cuda:-2"):
        judge(spec, {"cuda": 2}, "A negative index must raise ValueError.", negative, not_torchs)

    def refused(resolve_device, spec, counts):
        """The message with which a spec is refused."""
        try:
            resolve_device(spec, counts)
        except ValueError as error:
            return str(error)

    test.hidden("the message names the spec")
    two_cards = [(spec, {"cuda": 2}) for spec in ("gpu", "xpu", "cuda:7", "cuda:x")]
    for spec, counts in (*two_cards, ("mps:1", {"mps": 1})):
        seen = observe_scenario(refused, resolve_device, spec, counts)
        seen.that(spec in str(seen.value), "The message must name the spec that the caller asked for.", stage="rule")
    ### END HIDDEN TESTS

# %% check="resolve-device" points=1
"""Every kind in its order, device objects, cpu:0, an index beside `current`; nothing else is asked."""
with check("resolve-device") as test:
    cpu = torch.device("cpu")

    def judge(seen, device, *mistakes):
        """Judge the device, and that no tensor was made on the way."""
        seen.expecting(*mistakes, *known).returns(torch.device(device), because="That is another device: {detail}.")
        made = ", ".join(dict.fromkeys(seen.op_names(level="aten")))
        allocated = "Nothing may be allocated to find out; these operations ran: {detail}."
        seen.that(not made, allocated, stage="rule", detail=made)
        seen.leaves_arguments_alone(because="The counts belong to the caller: they must stay as they are.")

    test("None, 'cuda' and 'meta', on machines with two cards and with none; the counts are not changed")
    observe(resolve_device, "cuda", {"cuda": 2}, current=1).returns(torch.device("cuda:1"), FIRST_CHECK_FIRST)
    observe(resolve_device, None, {}).returns(cpu, FIRST_CHECK_FIRST)
    observe(resolve_device, "meta", {}).returns(torch.device("meta"), FIRST_CHECK_FIRST)
    seen = observe(resolve_device, None, {"cuda": 2})
    seen.returns(torch.device("cuda:0"), FIRST_CHECK_FIRST)
    made = ", ".join(dict.fromkeys(seen.op_names(level="aten")))
    allocated = "Nothing may be allocated to find out; these operations ran: {detail}."
    seen.that(not made, allocated, FIRST_CHECK_FIRST, stage="rule", detail=made)
    seen.leaves_arguments_alone(because="The counts belong to the caller: they must stay as they are.")

    ### BEGIN HIDDEN TESTS
    test.hidden("spec None with current=1")
    judge(observe(resolve_device, None, {"cuda": 2}, current=1), "cuda:1", not_zero)

    test.hidden("machines with mps or xpu")
    others = mistake(
        "You considered cuda and cpu only; this machine has another accelerator (mps or xpu).",
        stage=("raised", "value"),
        when=lambda seen: bool(seen.error_text) or seen.value.type in ("cpu", "cuda"),
    )
    judge(observe(resolve_device, None, {"mps": 1}), "mps:0", others)
    judge(observe(resolve_device, None, {"xpu": 3}, current=2), "xpu:2", others, not_zero)
    judge(observe(resolve_device, "mps", {"mps": 1}), "mps:0", others)
    judge(observe(resolve_device, "xpu", {"xpu": 3, "cuda": 1}, current=2), "xpu:2", others, not_zero)
    judge(observe(resolve_device, "xpu:1", {"xpu": 2}), "xpu:1", others)

    test.hidden("the order of preference: cuda, xpu, mps, of which there is at least one")
    order = mistake(
        "The order is cuda, xpu, mps, whatever the order in `counts`; a kind with a count of 0 is not there.",
        stage=("raised", "value"),
    )
    judge(observe(resolve_device, None, {"mps": 1, "xpu": 1, "cuda": 1}), "cuda:0", order)
    judge(observe(resolve_device, None, {"mps": 1, "xpu": 2}, current=1), "xpu:1", order)
    judge(observe(resolve_device, None, {"cuda": 0, "mps": 1}), "mps:0", order)
    judge(observe(resolve_device, None, {"cuda": 0, "xpu": 0}), "cpu", order)

    test.hidden("an index of its own wins over `current`")
    judge(observe(resolve_device, "cuda:0", {"cuda": 2}, current=1), "cuda:0", keeps_index)

    test.hidden("torch.device objects")
    objects = mistake("torch.device objects are valid specs too.", stage="raised")
    judge(observe(resolve_device, torch.device("cuda"), {"cuda": 2}, current=1), "cuda:1", objects)
    judge(observe(resolve_device, torch.device("cuda", 1), {"cuda": 2}), "cuda:1", objects)
    judge(observe(resolve_device, torch.device("cpu"), {}), "cpu", objects)
    judge(observe(resolve_device, torch.device("meta"), {"cuda": 1}), "meta", objects)

    test.hidden("cpu:0 is the CPU")
    one_cpu = mistake(
        "`cpu:0` and `cpu` are the same place, and `tensor.device` says `cpu`: return torch.device('cpu').",
        gives=torch.device("cpu:0"),
    )
    for cpu_spec in ("cpu:0", torch.device("cpu", 0)):
        judge(observe(resolve_device, cpu_spec, {}), "cpu", one_cpu)
        judge(observe(resolve_device, cpu_spec, {"cuda": 2}, current=1), "cpu", one_cpu)

    test.hidden("the result agrees with tensor.device on this machine")
    for here_spec in ("cpu", "meta", "cpu:0"):
        judge(observe(resolve_device, here_spec, {}), torch.empty(0, device=here_spec).device)
    accelerator = torch.accelerator.current_accelerator(check_available=True)  # without: what was built in
    if accelerator is not None and accelerator.type in ("cuda", "xpu", "mps"):
        here = {accelerator.type: torch.accelerator.device_count()}
        now = torch.accelerator.current_device_index()
        judge(
            observe(resolve_device, None, here, current=now), torch.empty(0, device=accelerator.type).device, not_zero
        )

    def counts_after(resolve_device, spec, counts):
        """The counts after a spec was refused."""
        try:
            resolve_device(spec, counts)
        except Exception:  # how it refuses is another test
            return counts
        return "it was accepted"

    test.hidden("the counts are left alone where a spec is refused, too")
    for spec in ("xpu", "mps:3", "gpu"):
        seen = observe_scenario(counts_after, resolve_device, spec, {"cuda": 2})
        seen.that(
            seen.value in ({"cuda": 2}, "it was accepted"),  # whether it is refused is another test
            "The counts belong to the caller: they must stay as they are, also where the spec is refused.",
            stage="arguments",
        )

    def side_effects(resolve_device):
        """Which questions are asked of torch.cuda and torch.accelerator, and the default device before and after."""
        places = [torch.cuda, torch.accelerator]
        questions = ["is_available", "device_count", "current_device", "current_device_index", "current_accelerator"]
        questions += ["get_device_name", "init", "set_device", "set_device_index", "synchronize"]
        asked = []

        def listening(name, function):
            """The function, which notes that it was called."""

            def call(*args, **kwargs):
                asked.append(name)
                return function(*args, **kwargs)

            return call

        kept = [(place, name, vars(place)[name]) for place in places for name in questions if name in vars(place)]
        before = str(torch.get_default_device())
        try:
            for place, name, function in kept:
                setattr(place, name, listening(f"{place.__name__}.{name}", function))
            for spec, counts in (("cuda", {"cuda": 1}), (None, {"cuda": 2}), (None, {}), ("meta", {})):
                resolve_device(spec, counts)
            with torch.device("meta"):
                beside = str(resolve_device(None, {}))
            for spec, counts in (("cuda", {}), ("cuda:7", {"cuda": 2}), ("gpu", {"cuda": 2})):
                try:
                    resolve_device(spec, counts)
                except Exception:
                    asked.append("")  # how it refuses is another test
        finally:
            for place, name, function in kept:
                setattr(place, name, function)
        after = str(torch.get_default_device())
        return {
            "asked": sorted(set(asked) - {""}),
            "default device": [before, after],
            "where meta is the default": beside,
        }

    test.hidden("the default device stays, and torch.cuda and torch.accelerator are not asked")
    seen = observe_scenario(side_effects, resolve_device)
    before, after = seen["default device"]
    seen.that(before == after, "The default device was changed. Only the result of the function may be new.")
    seen.that(
        not seen["asked"],
        "torch.cuda or torch.accelerator was asked, but `counts` and `current` say all that is needed.",
        stage="rule",
    )
    seen.that(
        seen["where meta is the default"] == "cpu",
        "You took the default device where there is no accelerator. It may be another one (here `meta`, by a `with "
        "torch.device(...)`), and asked for is the CPU.",
        stage="value",
    )
    ### END HIDDEN TESTS
