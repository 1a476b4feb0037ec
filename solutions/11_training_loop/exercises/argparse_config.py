# %% [markdown]
# ### Exercise 11.9 · --amp False switches AMP on
#
# fix · warm-up · 12 min · 2 points
#
# A training script reads its options, and nearly every value is wrong: `--amp False` switches AMP on, `--lr 0.1` is a
# text, `--layers 128` a list of letters, and in a notebook the script stops because of options that nobody gave. Repair
# `parse_config`; `Config` may stay as it is.
#
# **Contract**
#
# - Parses exactly `argv`, a sequence of words, and returns a `Config`, with values of the types that stand in
#   `Config` and with its defaults.
# - The options: `--data-dir` (required), `--lr` (a float), `--epochs` (an int, 1 or more), `--amp` and `--no-amp`
#   (default: on), `--layers 128 64 32` (one or more ints), `--resume PATH`. Where an option is given twice, the last
#   one counts, of `--amp` and `--no-amp` too.
# - An unknown option, a missing `--data-dir`, a word that is no number and epochs below 1 end the program with status
#   2: SystemExit, as argparse does it.
# - Two calls never return the same list of layers.
#
# <details><summary>Hint 1</summary>
#
# What is `bool("False")`? And what does `list("128")` give?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# `type=float` and `type=int`; `nargs="+"` together with `type=int`; `action=argparse.BooleanOptionalAction`;
# `required=True`; `p.error(...)` for the epochs; and hand `argv` to `parse_args`.
#
# </details>


# %% answer="argparse-config"
@dataclass
class Config:
    """The settings of a training run."""

    data_dir: str
    lr: float = 1e-3
    epochs: int = 10
    amp: bool = True
    layers: list[int] = field(default_factory=lambda: [64, 64])
    resume: str | None = None


def parse_config(argv: Sequence[str]) -> Config:
    """The settings that the words of a command line ask for; ends the program (status 2) if they make no sense."""
    ### BEGIN SOLUTION
    p = argparse.ArgumentParser()
    p.add_argument("--data-dir", required=True)
    p.add_argument("--lr", type=float, default=1e-3)
    p.add_argument("--epochs", type=int, default=10)
    p.add_argument("--amp", action=argparse.BooleanOptionalAction, default=True)
    p.add_argument("--layers", type=int, nargs="+", default=[64, 64])
    p.add_argument("--resume")
    options = p.parse_args(argv)
    if options.epochs < 1:
        p.error("--epochs must be 1 or more")
    return Config(**vars(options))
    ### END SOLUTION
    ### BEGIN GIVEN
    # raise NotImplementedError  # repair the code below, then delete this line
    # p = argparse.ArgumentParser()
    # p.add_argument("--data_dir")
    # p.add_argument("--lr", default=1e-3)
    # p.add_argument("--epochs", default=10)
    # p.add_argument("--amp", type=bool, default=True)
    # p.add_argument("--layers", type=list, default=[64, 64])
    # p.add_argument("--resume", default=None)
    # return Config(**vars(p.parse_args()))
    ### END GIVEN


# %% helpers="argparse-config"
def kind_of(value):
    """The type of a setting; for a list the types of its items."""
    return [type(item).__name__ for item in value] if isinstance(value, list) else type(value).__name__


def parsed(parse_config, argv):
    """Call parse_config with these words of a command line."""
    told, before = io.StringIO(), sys.argv
    sys.argv = ["train.py", "--data-dir", "from-sys-argv"]
    try:
        with contextlib.redirect_stderr(told):
            config = parse_config(argv)
    except SystemExit as stop:
        return {"exit": stop.code if isinstance(stop.code, int) else 1, "told": told.getvalue()[:2000]}
    finally:
        sys.argv = before
    names = ("data_dir", "lr", "epochs", "amp", "layers", "resume")
    values = {name: getattr(config, name, "missing") for name in names}
    kinds = {name: kind_of(value) for name, value in values.items()}
    return {"exit": None, "told": "", "kind": type(config).__name__, "kinds": kinds, "values": values}


def used_sys_argv(seen):
    """Whether the words of sys.argv turn up."""
    return "from-sys-argv" in seen["told"] or (seen["exit"] is None and "from-sys-argv" in seen["values"].values())


known = (
    mistake("parse_args() without argument reads sys.argv, not argv.", when=used_sys_argv),
    mistake(
        "The option is spelt --data-dir; argparse turns the dash into data_dir.",
        when=lambda seen: "--data_dir" in seen["told"],
    ),
)
list_of_ints = "--layers takes one or more ints: nargs='+' with type=int (type=list turns '128' into ['1', '2', '8'])."


def shown(kind):
    """A type in words, where it is one of the usual types."""
    if isinstance(kind, list):
        return "a list"
    names = {"str": "a text", "int": "an int", "float": "a float", "bool": "a bool", "NoneType": "None"}
    return names.get(kind, "of another type")


def judge(seen, *mistakes, defaults=False, **expected):
    """A Config came, with values of these types; where the defaults are meant, all else has its default."""
    expected = {"data_dir": "photos", **expected}
    ended = "This command line makes sense, and it ended the program."
    seen.that(seen["exit"] is None, ended, *known, *mistakes, stage="raised")
    seen.that(seen["kind"] == "Config", "Return a Config, with the values in it.", *known, stage="type")
    rest = {"lr": 1e-3, "epochs": 10, "amp": True, "layers": [64, 64], "resume": None}
    for name, value in ({**rest, **expected} if defaults else expected).items():
        came, kind = seen["values"][name], seen["kinds"][name]
        if name == "layers" and kind != "tuple":
            seen.that(kind == kind_of(value), list_of_ints, stage="type")
        as_asked = kind == kind_of(value)
        seen.that(
            as_asked or isinstance(value, bool) or (defaults and came is None),
            f"A value has the wrong type: {name} is {shown(kind)}, not {shown(kind_of(value))}.",
            *known,
            stage="type",
        )
        is_default = defaults and name not in expected
        default = "Without options the values must be the defaults of Config (amp is on)."
        sentence = default if is_default else f"The value of {name} is not the one of the command line."
        seen.that(as_asked and came == value, sentence, *known, *mistakes)


# %% check="argparse-config" points=1
"""Values of the right type from exactly this command line."""
with check("argparse-config") as test:
    test("--data-dir photos, and the defaults for the rest")
    judge(observe_scenario(parsed, parse_config, ["--data-dir", "photos"]), defaults=True)

    test("--data-dir photos --lr 0.05 --epochs 3 --resume last.pt")
    words = ["--data-dir", "photos", "--lr", "0.05", "--epochs", "3", "--resume", "last.pt"]
    judge(observe_scenario(parsed, parse_config, words), lr=0.05, epochs=3, resume="last.pt", defaults=True)

    test("--data-dir photos --layers 128 64 32")
    words = ["--data-dir", "photos", "--layers", "128", "64", "32"]
    seen = observe_scenario(parsed, parse_config, words)
    judge(seen, mistake(list_of_ints, stage=("raised", "value")), layers=[128, 64, 32], defaults=True)

    test("--amp and --no-amp")
    takes_text = observe_scenario(parsed, parse_config, ["--data-dir", "photos", "--amp", "False"])
    any_text = mistake(
        "bool('False') is True: any text switches it on. Use a switch: --amp / --no-amp.",
        when=lambda seen: takes_text["exit"] is None and takes_text["values"]["amp"] is True,
    )
    for word, on in (("--no-amp", False), ("--amp", True)):
        switch = mistake(f"{word} must switch amp {'on' if on else 'off'}.", stage=("raised", "value"))
        judge(observe_scenario(parsed, parse_config, ["--data-dir", "photos", word]), any_text, switch, amp=on)


# %% check="argparse-config" points=1
"""What makes no sense stops with status 2; options given twice; lists of their own."""
with check("argparse-config") as test:

    def layers_of_two(parse_config, argv):
        """Parse these words, change the layers of the result, then parse the same words again."""
        with contextlib.redirect_stderr(io.StringIO()):
            first = parse_config(list(argv))
            if not isinstance(first.layers, list):
                return {"same": False, "second": None}
            first.layers.append(7)
            second = parse_config(list(argv))
        return {"same": first.layers is second.layers, "second": list(second.layers)}

    def judge_refused(words, sentence):
        """The program ended with status 2."""
        seen = observe_scenario(parsed, parse_config, words)
        other = mistake(sentence + " Another exception came.", stage="raised")
        seen.expecting(*known, other).that(seen["exit"] == 2, sentence, stage="value")

    test("without --data-dir")
    for words in ([], ["--lr", "0.1", "--epochs", "4"], ["--data-dir"]):
        judge_refused(words, "Without --data-dir the program must stop with status 2.")

    test("epochs below 1")
    for words in (
        ["--epochs", "0"],
        ["--epochs", "-3"],
        ["--epochs=-1", "--lr", "1"],
        ["--epochs", "2", "--epochs", "0"],
    ):
        judge_refused(["--data-dir", "photos", *words], "Epochs below 1 must be refused with status 2.")
    judge(observe_scenario(parsed, parse_config, ["--data-dir", "photos", "--epochs", "1"]), epochs=1)

    ### BEGIN HIDDEN TESTS
    test.hidden("unknown options and words")
    for words in (["--batch-size", "3"], ["--verbose"], ["slow"], ["--lr", "0.1", "0.2"]):
        judge_refused(
            ["--data-dir", "photos", *words], "Unknown options must be refused (parse_known_args lets typos pass)."
        )

    test.hidden("words that are no numbers, values where none is meant")
    for words in (
        ["--lr", "fast"],
        ["--epochs", "many"],
        ["--epochs", "2.5"],
        ["--layers", "12", "wide"],
        ["--layers", "12.5"],
        ["--layers", "12,13"],
        ["--lr"],
        ["--resume"],
    ):
        judge_refused(
            ["--data-dir", "photos", *words], "A word that is no number (or is missing) must be refused with status 2."
        )
    for words in (["--amp", "False"], ["--amp=False"], ["--amp", "on"]):
        judge_refused(["--data-dir", "photos", *words], "--amp is a switch: a value after it must be refused.")

    test.hidden("--layers without a number")
    for words in (["--layers"], ["--layers", "--amp"]):
        judge_refused(["--data-dir", "photos", *words], list_of_ints)

    test.hidden("the layers of two results are independent")
    shared = "Two calls returned the same list object: changing one config changes the other."
    for words, wanted in (
        (["--data-dir", "photos"], [64, 64]),
        (["--data-dir", "photos", "--layers", "5", "6"], [5, 6]),
    ):
        seen = observe_scenario(layers_of_two, parse_config, words)
        seen.expecting(mistake(list_of_ints, raises="SystemExit"))
        no_list = mistake("`layers` must be a list.", when=lambda seen: seen["second"] is None)
        seen.that(not seen["same"] and seen["second"] == wanted, shared, no_list, stage="aliasing")

    test.hidden("an option that is given twice: the last one counts")
    words = ["--data-dir", "a", "--lr", "3", "--layers", "1", "2", "--amp", "--epochs", "4", "--no-amp", "--lr=0.25"]
    words += ["--layers", "8", "--data-dir=photos", "--epochs", "6", "--resume", "a", "--resume", "b.pt"]
    last_counts = "Where an option is given twice, the last one counts."
    twice = (
        mistake(last_counts, stage="value"),
        mistake(last_counts, when=lambda seen: seen["kinds"]["layers"] in (["int"] * 2, ["int"] * 3)),
    )
    for some_words in (words, tuple(words)):
        seen = observe_scenario(parsed, parse_config, some_words).expecting(*twice)
        judge(seen, lr=0.25, epochs=6, amp=False, layers=[8], resume="b.pt")
    judge(observe_scenario(parsed, parse_config, ["--no-amp", "--data-dir", "photos", "--amp"]), amp=True)

    test.hidden("one layer, whole numbers for the rate")
    seen = observe_scenario(parsed, parse_config, ["--layers", "16", "--lr", "2", "--data-dir", "photos"])
    judge(seen, lr=2.0, layers=[16], defaults=True)
    ### END HIDDEN TESTS
