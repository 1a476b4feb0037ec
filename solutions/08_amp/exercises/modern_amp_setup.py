# %% [markdown]
# ### Exercise 8.3 · Old AMP names that warn and do nothing
#
# fix · warm-up · 12 min · 2 points
#
# Many training scripts contain lines like these. They only warn, and then compute in float32 on a laptop without CUDA.
# Fix them, for both kinds of devices.
#
# **Contract**
#
# - `make_amp(device, dtype=None)` returns a pair: `autocast`, a function without arguments, and a
#   `torch.amp.GradScaler`. `device` is `"cpu"` or `"cuda"`; an index as in `"cuda:1"` is allowed.
# - Every call of `autocast()` returns a fresh context manager for that device type; such regions may be nested.
# - The scaler belongs to the device type and is enabled for float16 only.
# - On the CPU, dtype None means bfloat16, whatever region the caller is in. On CUDA it means bfloat16 if
#   `torch.cuda.is_bf16_supported(including_emulation=False)` says so, and otherwise float16.
# - `dtype=torch.float32` switches autocast off, even inside a region in which it is on. Any dtype except float16,
#   bfloat16 and float32 raises ValueError.
# - If `"cuda"` is asked for but `torch.cuda.is_available()` is False, `make_amp` raises RuntimeError and says that CUDA
#   is missing.
# - No warning is issued.
#
# <details><summary>Hint 1</summary>
#
# Which argument tells `torch.amp.GradScaler` on which device it works, and what is its default? Which of the two 16-bit
# formats needs loss scaling?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# Make three decisions, in this order: the type of the device, without its index, and whether it is available; the
# dtype; whether region and scaler are on. A scaler takes `enabled=…`: what does that depend on?
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# The type of the device is what comes before the colon. When the dtype is settled, both switches follow from it: the
# region is on unless the dtype is float32, and the scaler is on only for float16. `autocast` must be a function that
# opens a new region in every call, not one region that is reused.
#
# </details>


# %% answer="modern-amp-setup"
def make_amp(
    device: str, dtype: torch.dtype | None = None
) -> tuple[Callable[[], AbstractContextManager], torch.amp.GradScaler]:
    """A function that gives autocast regions for a device, and the scaler that belongs to them."""
    ### BEGIN SOLUTION
    device_type = device.split(":")[0]
    if device_type == "cuda" and not torch.cuda.is_available():
        raise RuntimeError(f"{device} was asked for, but CUDA is not available here")
    if dtype is None:
        low = device_type == "cpu" or torch.cuda.is_bf16_supported(including_emulation=False)
        dtype = torch.bfloat16 if low else torch.float16
    if dtype not in (torch.float16, torch.bfloat16, torch.float32):
        raise ValueError(f"autocast knows float16 and bfloat16, and float32 for off; not {dtype}")

    def autocast() -> AbstractContextManager:
        if dtype is torch.float32:
            return torch.autocast(device_type, enabled=False)
        return torch.autocast(device_type, dtype=dtype)

    return autocast, torch.amp.GradScaler(device_type, enabled=dtype is torch.float16)
    ### END SOLUTION
    ### BEGIN GIVEN
    # raise NotImplementedError  # fix the code below, then delete this line
    # scaler = torch.cuda.amp.GradScaler()
    # autocast = lambda: torch.cuda.amp.autocast()
    # return autocast, scaler
    ### END GIVEN


# %% helpers="modern-amp-setup"
def on_machine(cuda, bf16):
    """Patches that let torch.cuda answer as on a machine with two GPUs, or with none."""

    def is_bf16_supported(including_emulation=True):
        return bf16 or (cuda and including_emulation)

    patches = ExitStack()
    for name, answer in {"is_available": cuda, "device_count": 2 * cuda}.items():
        patches.enter_context(mock.patch.object(torch.cuda, name, lambda *args, _answer=answer, **kwargs: _answer))
    patches.enter_context(mock.patch.object(torch.cuda, "is_bf16_supported", is_bf16_supported))
    return patches


def unpacked(made):
    """A pair's two parts and a note about its kind; no pair gives (None, None, its kind)."""
    if isinstance(made, (tuple, list)) and len(made) == 2:
        kinds = [
            "callable" if callable(made[0]) else type(made[0]).__name__,
            "GradScaler" if isinstance(made[1], torch.amp.GradScaler) else type(made[1]).__name__,
        ]
        return (*made, kinds)
    return None, None, [type(made).__name__]


def about_scaler(scaler):
    """Whether a scaler is on, where it works, and what it makes of a loss of 1."""
    on = scaler.is_enabled()
    facts = {"on": on, "device": scaler._device if on else "", "scaled": 0.0}
    if on and scaler._device == "cpu":
        facts["scaled"] = scaler.scale(torch.ones(())).item()
    return facts


def on_cpu(make_amp, *wish):
    """The dtype of a product inside, nested and after the region, and what the scaler is."""
    with on_machine(cuda=False, bf16=False):
        autocast, scaler, kinds = unpacked(make_amp(*wish))
        if kinds != ["callable", "GradScaler"]:
            return {"kinds": kinds}
        a, facts = torch.ones(2, 2), {"kinds": kinds}
        with autocast():
            facts["inside"] = str((a @ a).dtype)
            facts["on"] = torch.is_autocast_enabled("cpu")
        facts["after"] = str((a @ a).dtype)
        return facts | {"scaler": about_scaler(scaler)}


one_region = mistake(
    "The first part must be a function without arguments that returns a new context manager, not a context manager.",
    raises="TypeError.*__call__.*func",
)
no_op = "Nothing was autocast on this device: the context belongs to another device type, or is switched off."
deprecated = mistake(
    "FutureWarning: torch.cuda.amp.* is deprecated; use torch.amp.GradScaler(device) and "
    "torch.autocast(device_type=...).",
    when=lambda seen: any(category == "FutureWarning" for category, _ in seen.noted.warned),
)
scaler_fp16 = (
    "float16 without an enabled GradScaler: small gradients underflow. (GradScaler() without a device means cuda "
    "and disables itself elsewhere.)"
)
scaler_bf16 = "bfloat16 has the range of float32: a scaler is needed for float16 only."


def in_words(kind):
    """What stands in the place of a part."""
    return "missing (None)" if kind == "NoneType" else f"of type {kind}"


def judge_kinds(seen):
    """A function and a GradScaler came back."""
    seen.expecting(deprecated, one_region)
    kinds = seen["kinds"]
    nothing = "Nothing came back (None): is a `return` missing? Return the pair (autocast, scaler)."
    other = f"Return the pair (autocast, scaler), not a value of type {kinds[0]}."
    seen.that(len(kinds) == 2, nothing if kinds[0] == "NoneType" else other, stage="type")
    seen.that(
        kinds[0] == "callable",
        f"The first part must be a function that returns a context manager; yours is {in_words(kinds[0])}.",
        stage="type",
    )
    seen.that(
        kinds[1] == "GradScaler",
        "The second part must be a torch.amp.GradScaler (disabled where none is needed); "
        f"yours is {in_words(kinds[1])}.",
        stage="type",
    )


def judge_cpu(seen, dtype):
    """The region computes in the given dtype, and the scaler is on for float16 only."""
    judge_kinds(seen)
    seen.that(seen["inside"] != "torch.float32", no_op, stage="dtype")
    seen.that(seen["inside"] == dtype, f"A product inside must be {dtype}; it was {seen['inside']}.", stage="dtype")
    seen.that(seen["after"] == "torch.float32", "Autocast is still on after the region.", stage="dtype")
    judge_scaler(seen, "cpu" if dtype == "torch.float16" else "")


def judge_scaler(seen, device):
    """The scaler is on, for this device; or off, where device is empty."""
    if device:
        seen.that(seen["scaler"]["on"], scaler_fp16)
        other = f"The scaler works on {seen['scaler']['device']} and the region on {device}: name the device for both."
        seen.that(seen["scaler"]["device"] == device, other, stage="device")
        seen.that(device != "cpu" or seen["scaler"]["scaled"] > 1, "The scaler does not scale a loss.")
    else:
        seen.that(not seen["scaler"]["on"], scaler_bf16)


# %% check="modern-amp-setup" points=1
"""The region's dtype on the CPU, and the scaler that goes with it."""
with check("modern-amp-setup") as test:
    test("make_amp('cpu'): bfloat16, no scaling, no warning")
    seen = observe_scenario(on_cpu, make_amp, "cpu")
    judge_cpu(seen, "torch.bfloat16")
    seen.warned_nothing()

    test("make_amp('cpu', torch.float16): the scaler works")
    seen = observe_scenario(on_cpu, make_amp, "cpu", torch.float16)
    judge_cpu(seen, "torch.float16")
    seen.warned_nothing()


# %% check="modern-amp-setup" points=1
"""Without CUDA, on GPUs, with an index; regions in regions; float32 and what must be refused."""
with check("modern-amp-setup") as test:

    def refused(make_amp, cuda, *wish):
        """How a wish is refused: [the exception's kinds, its message], or what came in its place."""
        with on_machine(cuda=cuda, bf16=cuda):
            try:
                made = make_amp(*wish)
            except NotImplementedError:
                raise
            except Exception as error:
                return [[kind.__name__ for kind in type(error).__mro__], str(error)]
        return ["returned", type(made).__name__]

    def judge_no_cuda(seen):
        """RuntimeError, with the word CUDA in its message."""
        kinds, message = seen.expecting(deprecated).value
        seen.that(
            kinds != "returned",
            '"cuda" was asked for but is not available: raise RuntimeError instead of quietly computing in float32.',
            stage="raised",
        )
        seen.that("RuntimeError" in kinds, f"This must raise RuntimeError; it raised {kinds[0]}.", stage="raised")
        seen.that("cuda" in message.lower(), "The message must say that CUDA is missing.", stage="raised")
        seen.warned_nothing(mistake("Raise the error before you build anything: {detail}", stage="rule"))

    test("make_amp('cuda') on a machine without CUDA")
    judge_no_cuda(observe_scenario(refused, make_amp, False, "cuda"))
    judge_no_cuda(observe_scenario(refused, make_amp, False, "cuda", torch.float16))

    ### BEGIN HIDDEN TESTS
    def on_gpu(make_amp, bf16, *wish):
        """What the region sets for CUDA, on a machine that pretends to have two GPUs."""
        with on_machine(cuda=True, bf16=bf16):
            autocast, scaler, kinds = unpacked(make_amp(*wish))
            if kinds != ["callable", "GradScaler"]:
                return {"kinds": kinds}
            with autocast():
                inside = [torch.is_autocast_enabled("cuda"), str(torch.get_autocast_dtype("cuda"))]
            return {
                "kinds": kinds,
                "inside": inside,
                "after": torch.is_autocast_enabled("cuda"),
                "scaler": about_scaler(scaler),
            }

    def judge_gpu(seen, dtype, words):
        """The region is on with this dtype, and the scaler is on for float16 only."""
        judge_kinds(seen)
        on, chosen = seen["inside"]
        seen.that(on, no_op, stage="dtype")
        seen.that(chosen == dtype, words, stage="dtype")
        seen.that(not seen["after"], "Autocast is still on after the region.", stage="dtype")
        judge_scaler(seen, "cuda" if dtype == "torch.float16" else "")
        seen.warned_nothing()

    ask_gpu = "Ask the GPU: use bfloat16 if it computes in bfloat16, and float16 only if it does not."
    emulated = mistake(
        "A GPU without bfloat16 gets float16. is_bf16_supported() says yes where bfloat16 is only emulated: ask with "
        "including_emulation=False.",
        stage="dtype",
    )
    index = mistake(
        "A device with an index ('cuda:1') must be accepted; take its type for autocast and scaler.",
        when=lambda seen: bool(seen.error_text) or not seen["inside"][0] or seen["scaler"]["device"] == "cuda:1",
    )
    test.hidden("no CUDA, and float32 is asked for")
    seen = observe_scenario(refused, make_amp, False, "cuda", torch.float32)
    judge_no_cuda(
        seen.expecting(
            mistake(
                'make_amp("cuda", torch.float32) must also raise RuntimeError without CUDA: ask for CUDA first.',
                when=lambda seen: seen.value[0] == "returned",
            )
        )
    )

    test.hidden("a GPU with bfloat16 and one without")
    judge_gpu(observe_scenario(on_gpu, make_amp, True, "cuda"), "torch.bfloat16", ask_gpu)
    judge_gpu(
        observe_scenario(on_gpu, make_amp, False, "cuda").expecting(
            mistake(ask_gpu, raises="does not support bfloat16"), emulated
        ),
        "torch.float16",
        ask_gpu,
    )
    own_dtype = "The dtype that the caller asked for was not used."
    for wish in (torch.float16, torch.bfloat16):
        judge_gpu(observe_scenario(on_gpu, make_amp, True, "cuda", wish), str(wish), own_dtype)

    test.hidden("a device with an index")
    judge_gpu(
        observe_scenario(on_gpu, make_amp, True, "cuda:1", torch.float16).expecting(index), "torch.float16", own_dtype
    )
    judge_gpu(observe_scenario(on_gpu, make_amp, False, "cuda:1").expecting(index), "torch.float16", ask_gpu)
    judge_gpu(observe_scenario(on_gpu, make_amp, True, "cuda:0").expecting(index), "torch.bfloat16", ask_gpu)
    judge_no_cuda(observe_scenario(refused, make_amp, False, "cuda:1", torch.bfloat16).expecting(index))
    judge_cpu(observe_scenario(on_cpu, make_amp, "cpu:0", torch.float16).expecting(index), "torch.float16")

    def many_regions(make_amp, *wish):
        """Two regions, one in the other, twice. What is on after each step."""
        with on_machine(cuda=False, bf16=False):
            autocast, _, kinds = unpacked(make_amp(*wish))
            if kinds != ["callable", "GradScaler"]:
                return {"kinds": kinds}
            on = []
            for _ in range(2):
                with autocast():
                    on.append(torch.is_autocast_enabled("cpu"))
                    with autocast():
                        on.append(torch.is_autocast_enabled("cpu"))
                    on.append(torch.is_autocast_enabled("cpu"))
                on.append(torch.is_autocast_enabled("cpu"))
            return {"kinds": kinds, "on": on}

    test.hidden("fresh regions, one inside the other")
    reused = "autocast() must return a new context each time, so that regions can follow and contain each other."
    seen = observe_scenario(many_regions, make_amp, "cpu").expecting(
        mistake(reused, raises="generator|reentrant|args|func|enter|context")
    )
    judge_kinds(seen)
    seen.that(seen["on"] == [True, True, True, False] * 2, reused)

    test.hidden("float32 switches both off; other dtypes are refused")
    seen = observe_scenario(on_cpu, make_amp, "cpu", torch.float32)
    float32 = "dtype=torch.float32 means: autocast disabled, scaler disabled."
    seen.expecting(mistake(float32, when=lambda seen: bool(seen.error_text)))
    judge_kinds(seen)
    seen.that(seen["inside"] == "torch.float32" and not seen["on"] and not seen["scaler"]["on"], float32)
    seen.warned_nothing(because="autocast doesn't accept float32 and warns: switch it off with enabled=False.")

    def in_callers_region(make_amp, outer, *wish):
        """Make the pair and use its region inside of a region of the caller's."""
        a = torch.ones(2, 2)
        with torch.autocast("cpu", outer):
            autocast, scaler, kinds = unpacked(make_amp("cpu", *wish))
            if kinds != ["callable", "GradScaler"]:
                return {"kinds": kinds}
            with autocast():
                inside = str((a @ a).dtype)
            after = str((a @ a).dtype)
        return {"kinds": kinds, "inside": inside, "after": after, "scaler": about_scaler(scaler)}

    test.hidden("bfloat16 on the CPU inside of a float16 region of the caller's")
    seen = observe_scenario(in_callers_region, make_amp, torch.float16)
    judge_kinds(seen)
    of_the_caller = (
        "Inside of a float16 region of the caller's, a product in your region was float16. Without a dtype, "
        "`torch.autocast` takes the one that is set at that moment, and so does `torch.get_autocast_dtype`: None means "
        "bfloat16, so name it."
    )
    seen.that(seen["inside"] != "torch.float32", no_op, stage="dtype")
    seen.that(seen["inside"] == "torch.bfloat16", of_the_caller, stage="dtype")
    judge_scaler(seen, "")

    test.hidden("float32 switches autocast off inside of the caller's region")
    seen = observe_scenario(in_callers_region, make_amp, torch.bfloat16, torch.float32)
    judge_kinds(seen)
    still_on = (
        "Inside of a region in which autocast is on, float32 must switch it off: a context that does nothing can't."
    )
    seen.that(seen["inside"] == "torch.float32", still_on, stage="dtype")
    seen.that(
        seen["after"] == "torch.bfloat16", "After the region the caller's own region must be on again.", stage="dtype"
    )
    seen = observe_scenario(on_gpu, make_amp, True, "cuda", torch.float32)
    seen.expecting(mistake(float32, when=lambda seen: bool(seen.error_text)))
    judge_kinds(seen)
    seen.that(not seen["inside"][0] and not seen["scaler"]["on"], float32)
    seen.warned_nothing()
    for device, dtype in (("cpu", torch.float64), ("cpu", torch.int64), ("cuda", torch.float8_e5m2)):
        seen = observe_scenario(refused, make_amp, True, device, dtype)
        seen.that(
            "ValueError" in seen.value[0],
            "Only float16, bfloat16 and float32 make sense: raise ValueError for others.",
            stage="raised",
        )
    ### END HIDDEN TESTS
