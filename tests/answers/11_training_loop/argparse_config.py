import argparse
import sys
from dataclasses import dataclass, field
from typing import Optional


@dataclass
class Config:
    data_dir: str
    lr: float = 1e-3
    epochs: int = 10
    amp: bool = True
    layers: list[int] = field(default_factory=lambda: [64, 64])
    resume: Optional[str] = None


DEFAULT = [64, 64]


def parser_with(**changes):
    """The right parser, with other settings for some of its options."""
    options = {
        "--data-dir": {"required": True},
        "--lr": {"type": float, "default": 1e-3},
        "--epochs": {"type": int, "default": 10},
        "--amp": {"action": argparse.BooleanOptionalAction, "default": True},
        "--layers": {"type": int, "nargs": "+", "default": [64, 64]},
        "--resume": {"default": None},
    }
    parser = argparse.ArgumentParser()
    for option, settings in options.items():
        name = option.removeprefix("--").replace("-", "_")
        if changes.get(name, {}) is not None:
            parser.add_argument(option, **changes.get(name, settings))
    return parser


def parsing(**changes):
    """parse_config with other settings for some options."""

    def parse_config(argv):
        parser = parser_with(**changes)
        options = parser.parse_args(argv)
        if int(options.epochs) < 1:
            parser.error("epochs")
        return Config(**vars(options))

    return parse_config


# corners: empty


# %% right: a pair of switches, a type of its own for the epochs
def at_least_one(text):
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text} is below 1")
    return number


def parse_config(argv):
    p = argparse.ArgumentParser(prog="train")
    p.add_argument("--data-dir", required=True, type=str)
    p.add_argument("--lr", type=float, default=0.001)
    p.add_argument("--epochs", type=at_least_one, default=10)
    p.add_argument("--amp", dest="amp", action="store_true", default=True)
    p.add_argument("--no-amp", dest="amp", action="store_false")
    p.add_argument("--layers", type=int, nargs="+")
    p.add_argument("--resume", type=str)
    args = p.parse_args(argv)
    if args.layers is None:
        args.layers = [64, 64]
    return Config(**vars(args))


# %% right: the defaults are left to the dataclass
def parse_config(argv):
    p = argparse.ArgumentParser(argument_default=argparse.SUPPRESS, allow_abbrev=False)
    p.add_argument("--data-dir", required=True)
    p.add_argument("--lr", type=float)
    p.add_argument("--epochs", type=int)
    p.add_argument("--amp", action=argparse.BooleanOptionalAction)
    p.add_argument("--layers", type=int, nargs="+")
    p.add_argument("--resume")
    config = Config(**vars(p.parse_args(argv)))
    if config.epochs < 1:
        p.error("at least one epoch")
    return config


# %% right: one parser for all calls, the list is copied, the status by sys.exit
PARSER = parser_with()


def parse_config(argv):
    options = PARSER.parse_args(list(argv))
    if options.epochs <= 0:
        print("epochs must be positive", file=sys.stderr)
        sys.exit(2)
    options.layers = list(options.layers)
    return Config(options.data_dir, options.lr, options.epochs, options.amp, options.layers, options.resume)


# %% right: read by hand
def parse_config(argv):
    found, words = {}, list(argv)
    kinds = {"--lr": float, "--epochs": int, "--data-dir": str, "--resume": str}
    try:
        while words:
            word, sign, value = words.pop(0).partition("=")
            if word in ("--amp", "--no-amp") and not sign:
                found["amp"] = word == "--amp"
            elif word == "--layers":
                found["layers"] = []
                while words and not words[0].startswith("--"):
                    found["layers"].append(int(words.pop(0)))
                if not found["layers"]:
                    raise ValueError
            else:
                found[word[2:].replace("-", "_")] = kinds[word](value if sign else words.pop(0))
        config = Config(**found)
        if config.epochs < 1:
            raise ValueError
    except (KeyError, ValueError, IndexError, TypeError):
        raise SystemExit(2) from None
    return config


# %% wrong: the given code
# says: parse_args() without argument reads sys.argv, not argv.
# earns: 0 of 2
# lesson
def parse_config(argv):
    p = argparse.ArgumentParser()
    p.add_argument("--data_dir")
    p.add_argument("--lr", default=1e-3)
    p.add_argument("--epochs", default=10)
    p.add_argument("--amp", type=bool, default=True)
    p.add_argument("--layers", type=list, default=[64, 64])
    p.add_argument("--resume", default=None)
    return Config(**vars(p.parse_args()))


# %% wrong: the right parser without argv
# says: parse_args() without argument reads sys.argv, not argv.
# earns: 0 of 2
def parse_config(argv):
    return Config(**vars(parser_with().parse_args()))


# %% wrong: amp with type=bool
# says: bool('False') is True: any text switches it on. Use a switch: --amp / --no-amp.
# says: --amp is a switch: a value after it must be refused.
# earns: 0 of 2
# lesson
parse_config = parsing(amp={"type": bool, "default": True})


# %% wrong: amp with type=bool and an optional value
# says: bool('False') is True: any text switches it on.
# says: --amp is a switch: a value after it must be refused.
# earns: 0 of 2
parse_config = parsing(amp={"type": bool, "default": True, "nargs": "?", "const": True})


# %% wrong: store_true, off by default
# says: Without options the values must be the defaults of Config (amp is on).
# says: This command line makes sense, and it ended the program.
# earns: 0 of 2
parse_config = parsing(amp={"action": "store_true"})


# %% wrong: store_true, on by default
# says: --no-amp must switch amp off.
# says: This command line makes sense, and it ended the program.
# earns: 0 of 2
parse_config = parsing(amp={"action": "store_true", "default": True})


# %% wrong: a switch without a default
# says: Without options the values must be the defaults of Config (amp is on).
# earns: 0 of 2
parse_config = parsing(amp={"action": argparse.BooleanOptionalAction})


# %% wrong: a text that is compared
# says: --no-amp must switch amp off.
# says: --amp is a switch: a value after it must be refused.
# earns: 0 of 2
parse_config = parsing(amp={"type": lambda text: text == "True", "default": True})


# %% wrong: the option with an underscore
# says: The option is spelt --data-dir; argparse turns the dash into data_dir.
# earns: 0 of 2
def parse_config(argv):
    parser = parser_with(data_dir=None)
    parser.add_argument("--data_dir", required=True)
    return Config(**vars(parser.parse_args(argv)))


# %% wrong: the folder is optional
# says: Without --data-dir the program must stop with status 2.
# earns: 1 of 2
parse_config = parsing(data_dir={"default": "."})


# %% wrong: the rate without a type
# says: A value has the wrong type: lr is a text, not a float
# says: A word that is no number (or is missing) must be refused with status 2.
# earns: 0 of 2
parse_config = parsing(lr={"default": 1e-3})


# %% wrong: the epochs as float
# says: A value has the wrong type: epochs is a float, not an int
# earns: 0 of 2
parse_config = parsing(epochs={"type": float, "default": 10})


# %% wrong: the epochs as text
# says: A value has the wrong type: epochs is a text
# earns: 0 of 2
parse_config = parsing(epochs={"default": 10})


# %% wrong: type=list
# says: --layers takes one or more ints: nargs='+' with type=int (type=list turns '128' into ['1', '2', '8']).
# says: A word that is no number (or is missing) must be refused with status 2.
# earns: 0 of 2
# lesson
parse_config = parsing(layers={"type": list, "default": [64, 64]})


# %% wrong: type=list and nargs
# says: --layers takes one or more ints
# says: A word that is no number (or is missing) must be refused with status 2.
# earns: 0 of 2
parse_config = parsing(layers={"type": list, "nargs": "+", "default": [64, 64]})


# %% wrong: the layers as texts
# says: --layers takes one or more ints
# says: A word that is no number (or is missing) must be refused with status 2.
# earns: 0 of 2
parse_config = parsing(layers={"nargs": "+", "default": [64, 64]})


# %% wrong: layers between commas
# says: --layers takes one or more ints
# says: A word that is no number (or is missing) must be refused with status 2.
# earns: 0 of 2
parse_config = parsing(layers={"type": lambda text: [int(n) for n in text.split(",")], "default": [64, 64]})


# %% wrong: a single layer
# says: --layers takes one or more ints
# says: Two calls returned the same list object: changing one config changes the other.
# earns: 0 of 2
parse_config = parsing(layers={"type": int, "default": [64, 64]})


# %% wrong: layers may be empty
# says: --layers takes one or more ints
# earns: 1 of 2
# caught: hidden
# corner: empty
parse_config = parsing(layers={"type": int, "nargs": "*", "default": [64, 64]})


# %% wrong: layers add up
# says: Where an option is given twice, the last one counts.
# earns: 1 of 2
# caught: hidden
def parse_config(argv):
    parser = parser_with(layers={"type": int, "nargs": "+", "action": "extend"})
    options = parser.parse_args(argv)
    if options.epochs < 1:
        parser.error("epochs")
    options.layers = options.layers or [64, 64]
    return Config(**vars(options))


# %% wrong: parse_known_args
# says: Unknown options must be refused (parse_known_args lets typos pass).
# earns: 1 of 2
# caught: hidden
def parse_config(argv):
    parser = parser_with()
    options, _ = parser.parse_known_args(argv)
    if options.epochs < 1:
        parser.error("epochs")
    return Config(**vars(options))


# %% wrong: no check of the epochs
# says: Epochs below 1 must be refused with status 2.
# earns: 1 of 2
# lesson
def parse_config(argv):
    return Config(**vars(parser_with().parse_args(argv)))


# %% wrong: ValueError for the epochs
# says: Epochs below 1 must be refused with status 2. Another exception came.
# earns: 1 of 2
def parse_config(argv):
    options = parser_with().parse_args(argv)
    if options.epochs < 1:
        raise ValueError("epochs")
    return Config(**vars(options))


# %% wrong: status 1 for the epochs
# says: Epochs below 1 must be refused with status 2.
# earns: 1 of 2
def parse_config(argv):
    options = parser_with().parse_args(argv)
    if options.epochs < 1:
        sys.exit("epochs must be 1 or more")
    return Config(**vars(options))


# %% wrong: epochs clamped
# says: Epochs below 1 must be refused with status 2.
# earns: 1 of 2
def parse_config(argv):
    options = parser_with().parse_args(argv)
    options.epochs = max(options.epochs, 1)
    return Config(**vars(options))


# %% wrong: more than one epoch
# says: This command line makes sense, and it ended the program.
# earns: 1 of 2
def parse_config(argv):
    parser = parser_with()
    options = parser.parse_args(argv)
    if options.epochs <= 1:
        parser.error("epochs")
    return Config(**vars(options))


# %% wrong: one default list for all calls
# says: Two calls returned the same list object: changing one config changes the other.
# earns: 1 of 2
# caught: hidden
parse_config = parsing(layers={"type": int, "nargs": "+", "default": DEFAULT})


# %% wrong: choices by eval
# says: A word that is no number (or is missing) must be refused with status 2.
# earns: 1 of 2
# caught: hidden
def number(text):
    try:
        return float(text)
    except ValueError:
        return 0.0


parse_config = parsing(lr={"type": number, "default": 1e-3})


# %% wrong: returns the namespace
# says: Return a Config, with the values in it.
# says: Epochs below 1 must be refused with status 2.
# earns: 0 of 2
def parse_config(argv):
    return parser_with().parse_args(argv)


# %% wrong: returns nothing
# says: Return a Config, with the values in it.
# says: Epochs below 1 must be refused with status 2.
# earns: 0 of 2
def parse_config(argv):
    parser_with().parse_args(argv)


# %% wrong: resume is a list
# says: A value has the wrong type: resume is a list, not a text
# says: A value has the wrong type: resume is a list
# earns: 0 of 2
parse_config = parsing(resume={"nargs": 1})


# %% right: another class of the same name, frozen, with slots
@dataclass(frozen=True, slots=True)
class Config:
    data_dir: str
    lr: float = 1e-3
    epochs: int = 10
    amp: bool = True
    layers: list[int] = field(default_factory=lambda: [64, 64])
    resume: Optional[str] = None


def parse_config(argv):
    parser = parser_with()
    options = parser.parse_args(argv)
    if options.epochs < 1:
        parser.exit(2, "one epoch at least")
    return Config(**vars(options))


# %% wrong: argv, or the words of the program
# says: parse_args() without argument reads sys.argv, not argv.
# earns: 1 of 2
# corner: empty
def parse_config(argv):
    parser = parser_with()
    options = parser.parse_args(argv or None)
    if options.epochs < 1:
        parser.error("epochs")
    return Config(**vars(options))


# %% wrong: exactly three layers
# says: --layers takes one or more ints
# earns: 1 of 2
# caught: hidden
def parse_config(argv):
    return parsing(layers={"type": int, "nargs": 3, "default": [64, 64]})(argv)


# %% wrong: a tuple of layers
# says: A value has the wrong type: layers is of another type, not a list
# says: `layers` must be a list.
# earns: 0 of 2
def parse_config(argv):
    parser = parser_with()
    options = parser.parse_args(argv)
    if options.epochs < 1:
        parser.error("epochs")
    options.layers = tuple(options.layers)
    return Config(**vars(options))


# %% wrong: epochs below 1 become 1
# says: Epochs below 1 must be refused with status 2.
# earns: 1 of 2
def parse_config(argv):
    options = parser_with().parse_args(argv)
    options.epochs = max(1, options.epochs)
    return Config(**vars(options))


# %% wrong: fractions of epochs are cut off
# says: A word that is no number (or is missing) must be refused with status 2.
# earns: 1 of 2
# caught: hidden
parse_config = parsing(epochs={"type": lambda text: int(float(text)), "default": 10})


# %% wrong: --resume is a switch
# says: A value has the wrong type: resume is a bool, not None
# says: A word that is no number (or is missing) must be refused with status 2.
# earns: 0 of 2
parse_config = parsing(resume={"action": "store_true"})


# %% wrong: the first word is left out
# says: This command line makes sense, and it ended the program.
# earns: 0 of 2
def parse_config(argv):
    return parsing()(argv[1:])
