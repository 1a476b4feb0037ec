# %% [markdown]
# ### Exercise 1.8 · Why does this machine not use its GPU?
#
# debug · solid · 15 min · 2 points
#
# "It runs on the CPU, and I don't know why." The mail comes with a report like this one, from a server with four cards:
#
#     {"torch": "2.13.0", "needs_torch": "2.9", "built_cuda": None, "cuda_available": False,
#      "device_count": 0, "cudnn_enabled": True, "cudnn_version": None,
#      "visible_devices": None, "driver_cuda": "13.0", "cards": 4}
#
# Write the function that reads such a report and returns the reason.
#
# **Contract**
#
# - Return the first code that applies, in this order:
#   - `torch-too-old`: the version `torch` is below `needs_torch`;
#   - `cpu-build`: the binary was built without CUDA (`built_cuda`, that is `torch.version.cuda`, is None);
#   - `ok`: CUDA is available and there is at least one device;
#   - `no-driver`: there is no nvidia-smi (`driver_cuda`, the CUDA version that it shows, is None);
#   - `no-card`: there is a driver, but `cards` (the lines of `nvidia-smi -L`) is 0;
#   - `hidden-by-env`: `visible_devices` (CUDA_VISIBLE_DEVICES) leaves no card;
#   - `driver-too-old`: the major CUDA number of the driver is below that of the build;
#   - `unknown`: none of the above.
# - Versions look like `2.13.0`, `2.13.0+cpu` or `2.14.0.dev20260101+cu126`. `needs_torch` has two or three numbers. You
#   may assume that no report compares a dev build of 2.14 with 2.14 itself.
# - `visible_devices` is None (nothing is hidden) or a comma-separated list of different card numbers, with or without
#   spaces. Reading stops at the first entry that is not a card of this machine; an empty entry isn't one. So `''`,
#   `'-1'`, `'-1,0'` and, with two cards, `'5'` hide everything; `'0,5'` leaves card 0. (Clusters also use names such as
#   `GPU-8f…`; these reports don't.)
# - The dict is not modified, and other keys in it are ignored. A missing CUDA toolkit (nvcc) is never the reason,
#   because wheels bring their own CUDA libraries.
#
# <details><summary>Hint 1</summary>
#
# Which of these facts were fixed when the wheel was built, and which are only known when the program runs?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# Follow the order in the contract and use one fact per line: the version as numbers (not as text, not as a float),
# `built_cuda is None`, then the facts from the machine. What was built in and the switch `cudnn_enabled` prove nothing
# about the machine.
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# Cut off the tag and compare versions with `Version`, or compare tuples of the first numbers. For the variable, split
# at the commas and go through the entries until one is not a number from 0 to `cards - 1`. If the first entry isn't,
# everything is hidden.
#
# </details>


# %% answer="read-env-report"
def diagnose(report: dict[str, object]) -> str:
    """The code of the first reason that applies.

    report: "torch", "needs_torch": str; "built_cuda", "driver_cuda": str or None;
    "visible_devices": str or None; "cuda_available", "cudnn_enabled": bool;
    "device_count", "cards": int; "cudnn_version": int or None.
    """
    ### BEGIN SOLUTION
    if TorchVersion(report["torch"]) < report["needs_torch"]:
        return "torch-too-old"
    if report["built_cuda"] is None:
        return "cpu-build"
    if report["cuda_available"] and report["device_count"] > 0:
        return "ok"
    if report["driver_cuda"] is None:
        return "no-driver"
    if report["cards"] == 0:
        return "no-card"
    if report["visible_devices"] is not None:
        first = report["visible_devices"].split(",")[0].strip()
        if not first.isdigit() or int(first) >= report["cards"]:
            return "hidden-by-env"
    if int(report["driver_cuda"].split(".")[0]) < int(report["built_cuda"].split(".")[0]):
        return "driver-too-old"
    return "unknown"
    ### END SOLUTION


# %% helpers="read-env-report"
codes = ["torch-too-old", "cpu-build", "ok", "no-driver", "no-card", "hidden-by-env", "driver-too-old", "unknown"]
not_a_code = [
    mistake("The function must return one of the codes, as text: {detail}.", stage="type"),
    mistake(
        "That is none of the codes: write them exactly as the contract does.",
        stage="value",
        when=lambda seen: seen.value not in codes,
    ),
]


# %% check="read-env-report" points=1
"""Version, build, availability, driver, card: the first reason that applies."""
with check("read-env-report") as test:

    def judge(code, *mistakes, **changes):
        """Judge the diagnosis of a machine with two cards and these changes; it works, unless they say otherwise."""
        report = {"torch": "2.13.0", "needs_torch": "2.10", "built_cuda": "12.6", "cuda_available": True}
        report |= {"device_count": 2, "cudnn_enabled": True, "cudnn_version": 91002, "visible_devices": None}
        report |= {"driver_cuda": "12.6", "cards": 2} | changes
        seen = observe(diagnose, report).expecting(*not_a_code, *mistakes, none_hides, same_major)
        seen.returns(code, because="This report asks for another code: {detail}.")

    a_switch = mistake(
        "`cudnn_enabled` is a switch that is True by default, on CPU-only builds too, and `cudnn_version` says what "
        "was built in. Neither can tell you that the GPU works.",
        gives="ok",
    )
    trusts_smi = mistake(
        "You returned ok because nvidia-smi lists cards. Whether torch can use them is what `cuda_available` and "
        "`device_count` say.",
        gives="ok",
    )
    machine_first = [
        mistake(
            "You blamed driver or card first. A CPU build cannot see any card, whatever the driver: the build comes "
            "before the machine.",
            gives=code,
        )
        for code in ("no-driver", "no-card", "hidden-by-env", "driver-too-old")
    ]
    equal_numbers = (
        "The driver's CUDA number is the newest runtime it can serve, not the one you use: a newer driver runs older "
        "builds. Only a smaller major number is a problem, and only if CUDA is not available anyway."
    )
    none_hides = mistake("None means that the variable is not set: then nothing is hidden.", gives="hidden-by-env")
    same_major = mistake(
        "A driver serves every build of its own major number, and older ones: 12.6 is not too old for 12.6.",
        gives="driver-too-old",
        when=lambda seen: seen.args[0]["driver_cuda"] == seen.args[0]["built_cuda"],
    )
    nothing = {"cuda_available": False, "device_count": 0}
    unexplained = nothing | {"visible_devices": "0,1"}
    cpu_build = nothing | {"built_cuda": None, "cudnn_version": None}

    test("a working machine is ok")
    judge("ok")

    test("it is ok, too, if its driver is newer than the build")
    judge("ok", mistake(equal_numbers, stage=("raised", "value")), driver_cuda="13.0")

    test("the CPU wheel, tagged +cpu, on a laptop without a driver")
    judge("cpu-build", a_switch, *machine_first, **cpu_build, torch="2.13.0+cpu", driver_cuda=None, cards=0)

    test("the CPU wheel, tagged +cpu, on a server with four cards")
    judge("cpu-build", trusts_smi, *machine_first, **cpu_build, torch="2.13.0+cpu", driver_cuda="13.0", cards=4)

    test("the report of the exercise: a CPU build without a tag (as from conda-forge), four cards")
    by_tag = mistake(
        "You looked for '+cpu' in the version. The tag is a naming habit of the wheels (conda-forge builds have none): "
        "whether the binary has CUDA is what `built_cuda` says.",
        stage=("raised", "value"),
    )
    judge("cpu-build", by_tag, **cpu_build, driver_cuda="13.0", cards=4)

    test("a CUDA wheel on a laptop without a driver")
    judge("no-driver", a_switch, **nothing, driver_cuda=None, cards=0)

    test("a driver, but no card")
    judge("no-card", a_switch, **nothing, cards=0)

    test("torch 2.8.0 where 2.9 is needed, and no driver: the version comes first")
    version_first = mistake(
        "The report needs a newer torch, and `needs_torch` comes before all other reasons.", stage="value"
    )
    old_laptop = nothing | {"torch": "2.8.0", "needs_torch": "2.9", "driver_cuda": None, "cards": 0}
    judge("torch-too-old", version_first, **old_laptop)

    ### BEGIN HIDDEN TESTS
    test.hidden("an old CPU build")
    judge("torch-too-old", version_first, **old_laptop | {"torch": "2.8.0+cpu", "built_cuda": None})

    test.hidden("a working machine is ok, whatever nvidia-smi and the switch say")
    works = mistake(
        "CUDA is available and there is a device: this machine works, whatever nvidia-smi or a switch say.",
        stage=("raised", "value"),
    )
    judge("ok", works, driver_cuda=None, cards=0)
    judge("ok", works, built_cuda="13.0", driver_cuda="12.8")
    judge("ok", works, cudnn_enabled=False)
    judge("ok", works, cudnn_version=None)

    test.hidden("available with no device, and devices counted where CUDA is not available: neither is ok")
    both = mistake("`ok` needs both: CUDA available, and at least one device.", gives="ok")
    judge("no-card", both, cuda_available=True, device_count=0, cards=0)
    judge("unknown", both, **unexplained | {"device_count": 2})
    judge("no-driver", both, cuda_available=False, device_count=1, driver_cuda=None, cards=0)

    test.hidden("one device is enough")
    judge("ok", device_count=1, cards=1)

    test.hidden("a CPU build, whatever the environment variable says")
    judge("cpu-build", *machine_first, **cpu_build, visible_devices="")

    test.hidden("the driver is too old for the build, by its major number")
    as_text = mistake(
        "You compared CUDA versions as text: '9.2' > '12.6' there. Compare the major numbers as integers.",
        stage="value",
    )
    too_old = mistake("A driver for an older major number of CUDA cannot serve this build.", stage="value")
    judge("driver-too-old", too_old, **unexplained, driver_cuda="12.8", built_cuda="13.0")
    judge("driver-too-old", as_text, **unexplained, driver_cuda="9.2")

    test.hidden("the driver is not the cause")
    newer = mistake(equal_numbers, gives="driver-too-old")
    judge("unknown", newer, **unexplained, driver_cuda="13.0")
    judge("unknown", newer, **unexplained, driver_cuda="12.4")
    judge("unknown", newer, **unexplained)
    judge("unknown", as_text, **unexplained, driver_cuda="10.1", built_cuda="9.2")

    test.hidden("the order: driver and card come before the variable, the driver's age after it")
    order = mistake("The order of the contract decides: another reason comes first here.", stage=("raised", "value"))
    judge("no-driver", order, **nothing, visible_devices="", driver_cuda=None, cards=0)
    judge("no-card", order, **nothing, visible_devices="0", cards=0)
    judge("hidden-by-env", order, **nothing, visible_devices="", driver_cuda="12.8", built_cuda="13.0")
    judge("driver-too-old", order, **nothing, visible_devices="0", driver_cuda="12.8", built_cuda="13.0")

    test.hidden("other keys are ignored; a missing toolkit is no reason")
    judge("ok", nvcc=None, python="3.12", kernel=6)
    judge("unknown", **unexplained, nvcc=None, toolkit="not found")
    ### END HIDDEN TESTS

# %% check="read-env-report" points=1
"""Versions compare as numbers; CUDA_VISIBLE_DEVICES ends at its first bad entry."""
with check("read-env-report") as test:

    def judge_version(installed, needed, code, *mistakes, **changes):
        """Judge the diagnosis of a working machine with these versions and changes."""
        report = {"torch": installed, "needs_torch": needed, "built_cuda": "12.6", "cuda_available": True}
        report |= {"device_count": 2, "cudnn_enabled": True, "cudnn_version": 91002, "visible_devices": None}
        report |= {"driver_cuda": "12.6", "cards": 2} | changes
        seen = observe(diagnose, report).expecting(*not_a_code, *mistakes, *suffix)
        seen.returns(code, because="This report asks for another code: {detail}.")
        seen.leaves_arguments_alone()

    suffix = [
        mistake(
            "A version may carry more than numbers, as in 2.13.0+cpu or 2.14.0.dev20260101+cu126. Cut that off before "
            "you turn the parts into numbers.",
            raises="invalid literal|could not convert",
        )
    ]
    no_text = (
        "Versions are not text and not decimals: as text '2.13' < '2.9', as a number 2.13 < 2.9. Compare (2, 13) with "
        "(2, 9), or use torch's TorchVersion."
    )
    as_text_high = mistake(no_text, gives="torch-too-old")
    as_text_low = mistake(no_text, gives="ok")

    def judge_hiding(visible, hides, *mistakes, **changes):
        """Judge whether the variable is blamed, on a machine with two cards on which torch sees nothing, or as changed.

        Where it does not hide everything, any other code will do: the check above judges the other reasons.
        """
        report = {"torch": "2.13.0", "needs_torch": "2.10", "built_cuda": "12.6", "cuda_available": False}
        report |= {"device_count": 0, "cudnn_enabled": True, "cudnn_version": 91002, "visible_devices": visible}
        report |= {"driver_cuda": "12.6", "cards": 2} | changes
        seen = observe(diagnose, report).expecting(*not_a_code, *mistakes, *not_here)
        if hides:
            seen.returns("hidden-by-env", because="This report asks for another code: {detail}.")
        else:
            blames_others = seen.value in codes and seen.value != "hidden-by-env"
            seen.that(blames_others, "A card stays visible here: `hidden-by-env` is not the reason.")
        seen.leaves_arguments_alone()

    not_here = [
        mistake(
            "CUDA is not available in this report: whatever cuDNN or nvidia-smi say, that can't be `ok`.",
            gives="ok",
            when=lambda seen: not seen.args[0]["cuda_available"],
        ),
    ]

    test("torch 2.13.0 on a working machine that needs 2.9")
    judge_version("2.13.0", "2.9", "ok", as_text_high)

    test("torch 2.13.0+cu126 is not older than 2.9 either")
    judge_version("2.13.0+cu126", "2.9", "ok", as_text_high)

    test("CUDA_VISIBLE_DEVICES='' on a good machine hides everything")
    judge_hiding("", True, mistake("An empty entry is no card number: {detail}", raises="invalid literal"))

    test("no such variable: nothing is hidden")
    none_hides = [
        mistake("None means that the variable is not set: then nothing is hidden.", gives="hidden-by-env"),
        mistake("None means that the variable is not set: {detail}.", raises="NoneType"),
    ]
    judge_hiding(None, False, *none_hides)

    ### BEGIN HIDDEN TESTS
    test.hidden("an old torch on a working machine")
    ok_first = mistake(
        "You returned ok although the report needs a newer torch: `needs_torch` comes first.", gives="ok"
    )
    judge_version("2.8.0", "2.9", "torch-too-old", ok_first)

    test.hidden("2.9.1 where 2.10 is needed, 2.13 where 2.14 is needed")
    judge_version("2.9.1", "2.10", "torch-too-old", as_text_low)
    judge_version("2.13.0+cu126", "2.14", "torch-too-old", as_text_low)
    judge_version("2.13.0", "2.100", "torch-too-old", as_text_low)

    test.hidden("exactly the demanded version")
    exact = mistake("A version equal to needs_torch is not too old.", gives="torch-too-old")
    for installed, needed in (("2.13.0", "2.13"), ("2.13.0", "2.13.0"), ("2.13.0+cu126", "2.13"), ("2.9.1", "2.9.1")):
        judge_version(installed, needed, "ok", exact)

    test.hidden("the third number counts too")
    third = mistake("The third number of a version also counts: 2.9.0 is older than 2.9.1.", stage="value")
    judge_version("2.9.0", "2.9.1", "torch-too-old", third)
    judge_version("2.9.2", "2.9.1", "ok", third)
    judge_version("2.9.10", "2.9.9", "ok", as_text_high)
    judge_version("2.10.0", "2.9.1", "ok", as_text_high)

    test.hidden("another major number")
    major = mistake("The major number decides first: 3.0 is newer than 2.9, and 1.13 older than 2.0.", stage="value")
    judge_version("3.0.0", "2.9", "ok", major)
    judge_version("1.13.1", "2.0", "torch-too-old", major)

    test.hidden("a nightly build")
    judge_version("2.14.0.dev20260101", "2.9", "ok", as_text_high)
    judge_version("2.14.0.dev20260101+cu126", "2.13", "ok")
    judge_version("2.14.0.dev20260101", "2.15", "torch-too-old", as_text_low)

    test.hidden("'-1', '-1,0', and '5' on two cards hide everything")
    not_only_empty = mistake(
        "An empty CUDA_VISIBLE_DEVICES is not the only one that hides everything: '-1' also does, and so does"
        " any first entry that is not a card of this machine.",
        stage=("raised", "value"),
    )
    stops = mistake(
        "Reading CUDA_VISIBLE_DEVICES stops at the first invalid entry: valid ones that come after it are not read.",
        gives="unknown",
    )
    judge_hiding("-1", True, not_only_empty)
    judge_hiding("5", True, not_only_empty)
    judge_hiding("-1,0", True, stops)
    judge_hiding("5,0,1", True, stops)
    judge_hiding("-2", True, not_only_empty)
    judge_hiding(",0", True, mistake("An empty entry is no card: reading stops there.", stage=("raised", "value")))

    test.hidden("cards are numbered from 0")
    judge_hiding("2", True, mistake("With two cards the numbers are 0 and 1: there is no card 2.", stage="value"))
    judge_hiding("1", False)
    judge_hiding("0", False)

    test.hidden("'0,5' leaves card 0")
    one_bad = mistake(
        "Reading CUDA_VISIBLE_DEVICES stops at the first invalid entry; the valid ones before it stay visible "
        "('0,5' leaves card 0).",
        gives="hidden-by-env",
    )
    judge_hiding("0,5", False, one_bad)
    judge_hiding("0,-1", False, one_bad)
    judge_hiding("1,-1,0", False, one_bad)

    test.hidden("blanks around the entries, numbers with two digits")
    blanks = mistake("Blanks around an entry of CUDA_VISIBLE_DEVICES do not matter.", stage=("raised", "value"))
    judge_hiding(" 1 , 0", False, blanks)
    judge_hiding(" -1 , 0", True, blanks)
    whole_numbers = mistake("Entries are whole numbers: '12' is card 12.", stage="value")
    judge_hiding("12", False, whole_numbers, cards=16)
    judge_hiding("12", True, whole_numbers)

    test.hidden("a variable that hides one card of a working machine")
    working = {"cuda_available": True, "device_count": 1}
    still_ok = mistake("This machine works: CUDA is available, and one card is left. That is `ok`.", stage="value")
    judge_hiding("1", False, still_ok, **working)
    judge_hiding("0,5", False, still_ok, **working)

    ### END HIDDEN TESTS
