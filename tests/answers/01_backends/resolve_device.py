# corners: zeros, second name, chance order, caller's modes

import torch

KINDS = ("cuda", "xpu", "mps")


def first_kind(counts):
    return next((kind for kind in KINDS if counts.get(kind, 0)), "cpu")


# %% right: parses the string by hand
def resolve_device(spec, counts, current=0):
    if spec is None:
        spec = "cpu"
        for kind in ("mps", "xpu", "cuda"):
            if counts.get(kind, 0) >= 1:
                spec = kind
    kind, _, number = str(spec).partition(":")
    if kind in ("cpu", "meta"):
        return torch.device(kind)
    if kind not in KINDS or kind not in counts:
        raise ValueError(f"no such device: {spec}")
    if number and not number.isdigit():
        raise ValueError(f"no such device: {spec}")
    index = int(number) if number else current
    if not 0 <= index < counts[kind]:
        raise ValueError(f"there are only {counts[kind]} of {kind}, so no {spec}")
    return torch.device(f"{kind}:{index}")


# %% right: the table of all legal devices
def resolve_device(spec, counts, current=0):
    legal = {"cpu": torch.device("cpu"), "cpu:0": torch.device("cpu"), "meta": torch.device("meta")}
    for kind in KINDS:
        for i in range(counts.get(kind, 0)):
            legal[f"{kind}:{i}"] = torch.device(kind, i)
        if counts.get(kind, 0):
            legal[kind] = torch.device(kind, current)
    wish = first_kind(counts) if spec is None else str(spec)
    if wish not in legal:
        raise ValueError(f"{wish} is none of {sorted(legal)}")
    return legal[wish]


# %% right: catches everything, an error class of its own
class NoSuchDevice(ValueError):
    pass


def resolve_device(spec=None, counts=None, current=0):
    try:
        device = torch.device(first_kind(counts) if spec is None else spec)
        if device.type == "cpu" or device.type == "meta":
            return torch.device(device.type)
        index = device.index if device.index is not None else current
        assert index in range(counts[device.type])
        return torch.device(device.type, index)
    except Exception as error:
        raise NoSuchDevice(repr(spec)) from error


# %% wrong: returns the spec's device object as it is
# says: You returned a device without an index
# says: An unknown name must end as ValueError
# says: This check builds on the first one
# earns: 0 of 3
# lesson
def resolve_device(spec, counts, current=0):
    device = torch.device(first_kind(counts) if spec is None else spec)
    if device.type not in ("cpu", "meta") and (device.index or 0) >= counts.get(device.type, 0):
        raise ValueError(f"no {spec}")
    return device


# %% wrong: the one-line idiom with torch.device(...) and nothing else
# says: You returned a device without an index.
# says: There is no CUDA device here
# says: This check builds on the first one
# earns: 0 of 3
# lesson
def resolve_device(spec, counts, current=0):
    return torch.device(spec or ("cuda" if counts.get("cuda") else "cpu"))


# %% wrong: asks this machine
# says: Your function returned the CPU although there are CUDA devices.
# says: There is no CUDA device here
# says: This check builds on the first one
# earns: 0 of 3
def resolve_device(spec, counts, current=0):
    if spec is None:
        spec = "cuda:0" if torch.cuda.device_count() > 99 else "cpu"
    return torch.device(spec)


# %% wrong: checks the kind but not the index
# says: torch.device('cuda:7') is only a label: nobody checked that device 7 exists.
# earns: 2 of 3
# caught: hidden
def resolve_device(spec, counts, current=0):
    try:
        device = torch.device(first_kind(counts) if spec is None else spec)
    except RuntimeError:
        raise ValueError(f"{spec!r} is unknown") from None
    if device.type in ("cpu", "meta"):
        return torch.device(device.type)
    if not counts.get(device.type):
        raise ValueError(f"no {spec}")
    return torch.device(device.type, current if device.index is None else device.index)


# %% wrong: is off by one at the last index
# says: Devices are numbered from 0: with two of them there is no number 2.
# earns: 2 of 3
# caught: hidden
def resolve_device(spec, counts, current=0):
    try:
        device = torch.device(first_kind(counts) if spec is None else spec)
    except RuntimeError:
        raise ValueError(f"{spec!r} is unknown") from None
    if device.type in ("cpu", "meta"):
        return torch.device(device.type)
    index = current if device.index is None else device.index
    if not counts.get(device.type) or index > counts[device.type]:
        raise ValueError(f"no {spec}")
    return torch.device(device.type, index)


# %% wrong: falls back to the CPU for any spec that is not available
# says: The caller asked for a device that does not exist here and got the CPU.
# earns: 2 of 3
def resolve_device(spec, counts, current=0):
    device = torch.device(first_kind(counts) if spec is None else spec)
    index = current if device.index is None else device.index
    if device.type == "meta":
        return device
    return torch.device(device.type, index) if index < counts.get(device.type, 0) else torch.device("cpu")


# %% wrong: lets torch.device('gpu') raise RuntimeError
# says: An unknown name must end as ValueError naming the spec; you let torch's RuntimeError through.
# earns: 2 of 3
# caught: hidden
def resolve_device(spec, counts, current=0):
    device = torch.device(first_kind(counts) if spec is None else spec)
    if device.type in ("cpu", "meta"):
        return torch.device(device.type)
    index = current if device.index is None else device.index
    if index >= counts.get(device.type, 0):
        raise ValueError(f"no {spec}")
    return torch.device(device.type, index)


# %% wrong: uses index 0 in place of the current one
# says: You used index 0; a spec without an index means the *current* device
# says: This check builds on the first one
# earns: 1 of 3
def resolve_device(spec, counts, current=0):
    try:
        device = torch.device(first_kind(counts) if spec is None else spec)
    except RuntimeError:
        raise ValueError(f"{spec!r} is unknown") from None
    if device.type in ("cpu", "meta"):
        return torch.device(device.type)
    index = device.index or 0
    if index >= counts.get(device.type, 0):
        raise ValueError(f"no {spec}")
    return torch.device(device.type, index)


# %% wrong: `current` wins over index 0
# says: The spec names an index: `current` is only for a spec without one.
# earns: 2 of 3
# caught: hidden
def resolve_device(spec, counts, current=0):
    try:
        device = torch.device(first_kind(counts) if spec is None else spec)
    except RuntimeError:
        raise ValueError(f"{spec!r} is unknown") from None
    if device.type in ("cpu", "meta"):
        return torch.device(device.type)
    index = device.index or current
    if index >= counts.get(device.type, 0):
        raise ValueError(f"no {spec}")
    return torch.device(device.type, index)


# %% wrong: an empty spec counts as None
# says: got the CPU. A wish that cannot be met must raise
# earns: 2 of 3
# caught: hidden
def resolve_device(spec, counts, current=0):
    try:
        device = torch.device(spec or "cpu") if spec is not None or not counts else torch.device(first_kind(counts))
    except RuntimeError:
        raise ValueError(f"{spec!r} is unknown") from None
    if device.type in ("cpu", "meta"):
        return torch.device(device.type)
    index = current if device.index is None else device.index
    if index >= counts.get(device.type, 0):
        raise ValueError(f"no {spec}")
    return torch.device(device.type, index)


# %% wrong: knows cuda and cpu only
# says: You considered cuda and cpu only; this machine has another accelerator (mps or xpu).
# earns: 2 of 3
# caught: hidden
def resolve_device(spec, counts, current=0):
    if spec is None:
        spec = "cuda" if counts.get("cuda", 0) else "cpu"
    try:
        device = torch.device(spec)
    except RuntimeError:
        raise ValueError(f"{spec!r} is unknown") from None
    if device.type in ("cpu", "meta"):
        return torch.device(device.type)
    index = current if device.index is None else device.index
    if device.type != "cuda" or index >= counts.get("cuda", 0):
        raise ValueError(f"no {spec}")
    return torch.device("cuda", index)


# %% wrong: takes the first kind that counts lists
# says: The order is cuda, xpu, mps, whatever the order in `counts`
# earns: 2 of 3
# corner: chance order
# caught: hidden
def resolve_device(spec, counts, current=0):
    if spec is None:
        spec = next(iter(counts), "cpu")
    try:
        device = torch.device(spec)
    except RuntimeError:
        raise ValueError(f"{spec!r} is unknown") from None
    if device.type in ("cpu", "meta"):
        return torch.device(device.type)
    index = current if device.index is None else device.index
    if index >= counts.get(device.type, 0):
        raise ValueError(f"no {spec}")
    return torch.device(device.type, index)


# %% wrong: a kind that is listed with count 0 is there
# says: a kind with a count of 0 is not there.
# earns: 2 of 3
# corner: zeros
# caught: hidden
def resolve_device(spec, counts, current=0):
    if spec is None:
        spec = next((kind for kind in KINDS if kind in counts), "cpu")
    try:
        device = torch.device(spec)
    except RuntimeError:
        raise ValueError(f"{spec!r} is unknown") from None
    if device.type in ("cpu", "meta"):
        return torch.device(device.type)
    index = current if device.index is None else device.index
    if index >= counts.get(device.type, 0):
        raise ValueError(f"no {spec}")
    return torch.device(device.type, index)


# %% wrong: fails for torch.device objects
# says: torch.device objects are valid specs too.
# says: torch.device objects are valid specs too, and this one
# earns: 1 of 3
# caught: hidden
def resolve_device(spec, counts, current=0):
    kind, _, number = (first_kind(counts) if spec is None else spec).partition(":")
    if kind in ("cpu", "meta"):
        return torch.device(kind)
    index = int(number or current) if (number or "0").isdigit() else 99
    if index >= counts.get(kind, 0):
        raise ValueError(f"no {spec}")
    return torch.device(kind, index)


# %% wrong: tries out the device with a small tensor
# says: Nothing may be allocated to find out
# says: There is no CUDA device here
# says: This check builds on the first one
# earns: 0 of 3
# lesson
def resolve_device(spec, counts, current=0):
    try:
        device = torch.device(first_kind(counts) if spec is None else spec)
    except RuntimeError:
        raise ValueError(f"no {spec}") from None
    return torch.zeros(1, device=device).device  # without a card the error's class depends on how torch was built


# %% wrong: tries out what does exist
# says: Nothing may be allocated to find out; these operations ran: empty.
# says: Nothing may be allocated to find out; these operations ran: operations that a hidden test doesn't name.
# earns: 1 of 3
def resolve_device(spec, counts, current=0):
    try:
        device = torch.device(first_kind(counts) if spec is None else spec)
    except RuntimeError:
        raise ValueError(f"{spec!r} is unknown") from None
    if device.type in ("cpu", "meta"):
        return torch.empty(0, device=device).device
    index = current if device.index is None else device.index
    if index >= counts.get(device.type, 0):
        raise ValueError(f"no {spec}")
    return torch.device(device.type, index)


# %% wrong: raises ValueError('not available') without the spec
# says: The message must name the spec that the caller asked for.
# earns: 2 of 3
# caught: hidden
def resolve_device(spec, counts, current=0):
    try:
        device = torch.device(first_kind(counts) if spec is None else spec)
    except RuntimeError:
        raise ValueError("not available") from None
    if device.type in ("cpu", "meta"):
        return torch.device(device.type)
    index = current if device.index is None else device.index
    if index >= counts.get(device.type, 0):
        raise ValueError("not available")
    return torch.device(device.type, index)


# %% wrong: returns cpu:0 for 'cpu:0'
# says: `cpu:0` and `cpu` are the same place, and `tensor.device` says `cpu`
# earns: 2 of 3
# corner: second name
# caught: hidden
def resolve_device(spec, counts, current=0):
    try:
        device = torch.device(first_kind(counts) if spec is None else spec)
    except RuntimeError:
        raise ValueError(f"{spec!r} is unknown") from None
    if device.type in ("cpu", "meta"):
        return device
    index = current if device.index is None else device.index
    if index >= counts.get(device.type, 0):
        raise ValueError(f"no {spec}")
    return torch.device(device.type, index)


# %% wrong: a kind that is not counted is a KeyError
# says: There is no CUDA device here: this must raise ValueError.
# earns: 2 of 3
def resolve_device(spec, counts, current=0):
    try:
        device = torch.device(first_kind(counts) if spec is None else spec)
    except RuntimeError:
        raise ValueError(f"{spec!r} is unknown") from None
    if device.type in ("cpu", "meta"):
        return torch.device(device.type)
    index = current if device.index is None else device.index
    if index >= counts[device.type]:
        raise ValueError(f"no {spec}")
    return torch.device(device.type, index)


# %% wrong: knows no meta device
# says: The CPU and meta exist on every machine; `counts` does not list them.
# says: This check builds on the first one
# earns: 1 of 3
def resolve_device(spec, counts, current=0):
    try:
        device = torch.device(first_kind(counts) if spec is None else spec)
    except RuntimeError:
        raise ValueError(f"{spec!r} is unknown") from None
    if device.type == "cpu":
        return torch.device("cpu")
    index = current if device.index is None else device.index
    if index >= counts.get(device.type, 0):
        raise ValueError(f"no {spec}")
    return torch.device(device.type, index)


# %% wrong: returns names
# says: A torch.device is asked for, not its name.
# says: There is no CUDA device here
# says: This check builds on the first one
# earns: 0 of 3
def resolve_device(spec, counts, current=0):
    kind = first_kind(counts) if spec is None else str(spec)
    return kind if kind in ("cpu", "meta") or ":" in kind else f"{kind}:{current}"


# %% wrong: makes the device the default
# says: The default device was changed.
# earns: 2 of 3
# caught: hidden
def resolve_device(spec, counts, current=0):
    try:
        device = torch.device(first_kind(counts) if spec is None else spec)
    except RuntimeError:
        raise ValueError(f"{spec!r} is unknown") from None
    if device.type in ("cpu", "meta"):
        device = torch.device(device.type)
    else:
        index = current if device.index is None else device.index
        if index >= counts.get(device.type, 0):
            raise ValueError(f"no {spec}")
        device = torch.device(device.type, index)
    if device.type != "cpu":
        torch.set_default_device(device)
    return device


# %% wrong: asks torch.cuda besides
# says: torch.cuda or torch.accelerator was asked
# earns: 2 of 3
# caught: hidden
def resolve_device(spec, counts, current=0):
    try:
        device = torch.device(first_kind(counts) if spec is None else spec)
    except RuntimeError:
        raise ValueError(f"{spec!r} is unknown") from None
    if device.type in ("cpu", "meta"):
        return torch.device(device.type)
    index = current if device.index is None else device.index
    if index >= max(counts.get(device.type, 0), torch.cuda.device_count()):
        raise ValueError(f"no {spec}")
    return torch.device(device.type, index)


# %% wrong: fills in the missing counts
# says: The counts belong to the caller: they must stay as they are.
# earns: 2 of 3
def resolve_device(spec, counts, current=0):
    for kind in KINDS:
        counts.setdefault(kind, 0)
    try:
        device = torch.device(first_kind(counts) if spec is None else spec)
    except RuntimeError:
        raise ValueError(f"{spec!r} is unknown") from None
    if device.type in ("cpu", "meta"):
        return torch.device(device.type)
    index = current if device.index is None else device.index
    if index >= counts.get(device.type, 0):
        raise ValueError(f"no {spec}")
    return torch.device(device.type, index)


# %% wrong: returns None
# says: expected a device, got None
# says: There is no CUDA device here
# says: This check builds on the first one
# earns: 0 of 3
def resolve_device(spec, counts, current=0):
    print(torch.device(spec or "cpu"))


# %% right: a match statement, with the string cut in two
def resolve_device(spec: str | torch.device | None, counts: Mapping[str, int], current: int = 0) -> torch.device:
    match spec:
        case None:
            for kind in ("cuda", "xpu", "mps"):
                if counts.get(kind, 0):
                    return torch.device(kind, current)
            return torch.device("cpu")
        case torch.device():
            spec = str(spec)
    kind, _, index = spec.partition(":")
    if kind in ("cpu", "meta"):
        return torch.device(kind)
    if kind not in ("cuda", "xpu", "mps") or kind not in counts:
        raise ValueError(f"unknown device: {spec!r}")
    try:
        number = int(index) if index else current
    except ValueError:
        raise ValueError(f"unknown device: {spec!r}") from None
    if not 0 <= number < counts[kind]:
        raise ValueError(f"{spec}: there are only {counts[kind]}")
    return torch.device(kind, number)


# %% wrong: takes the last device for an index that is too large
# says: torch.device('cuda:7') is only a label: nobody checked that device 7 exists.
# earns: 2 of 3
# caught: hidden
def resolve_device(spec: str | torch.device | None, counts: Mapping[str, int], current: int = 0) -> torch.device:
    if spec is None:
        spec = next((kind for kind in ("cuda", "xpu", "mps") if counts.get(kind, 0) > 0), "cpu")
    try:
        device = torch.device(spec)
    except RuntimeError:
        raise ValueError(f"{spec!r} is no device") from None
    if device.type in ("cpu", "meta"):
        return torch.device(device.type)
    if not counts.get(device.type, 0):
        raise ValueError(f"{spec} does not exist here")
    index = current if device.index is None else device.index
    return torch.device(device.type, min(index, counts[device.type] - 1))


# %% wrong: gives the CPU the current index as well
# says: The CPU and meta have no index here: `tensor.device` says `cpu`, or `meta`.
# says: This check builds on the first one
# earns: 1 of 3
def resolve_device(spec: str | torch.device | None, counts: Mapping[str, int], current: int = 0) -> torch.device:
    if spec is None:
        spec = next((kind for kind in ("cuda", "xpu", "mps") if counts.get(kind, 0) > 0), "cpu")
    try:
        device = torch.device(spec)
    except RuntimeError:
        raise ValueError(f"{spec!r} is no device") from None
    index = current if device.index is None else device.index
    if index >= counts.get(device.type, 0) and device.type not in ("cpu", "meta"):
        raise ValueError(f"{spec} does not exist here")
    return torch.device(device.type, index)


# %% wrong: expects each kind in counts
# says: `counts` lists only the kinds that the machine has: a kind that is missing has no device.
# says: There is no CUDA device here
# says: This check builds on the first one
# earns: 0 of 3
def resolve_device(spec: str | torch.device | None, counts: Mapping[str, int], current: int = 0) -> torch.device:
    if spec is None:
        spec = next((kind for kind in ("cuda", "xpu", "mps") if counts[kind] > 0), "cpu")
    device = torch.device(spec)
    return torch.device(device.type, current if device.index is None else device.index)


# %% wrong: asks torch.cuda before it refuses
# says: torch.cuda or torch.accelerator was asked
# earns: 2 of 3
# caught: hidden
def resolve_device(spec: str | torch.device | None, counts: Mapping[str, int], current: int = 0) -> torch.device:
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
        raise ValueError(f"{spec} does not exist here; CUDA is available: {torch.cuda.is_available()}")
    return torch.device(device.type, index)


# %% wrong: the current index is for cuda only
# says: You used index 0; a spec without an index means the *current* device
# earns: 2 of 3
# caught: hidden
def resolve_device(spec, counts, current=0):
    try:
        device = torch.device(first_kind(counts) if spec is None else spec)
    except RuntimeError:
        raise ValueError(f"{spec!r} is unknown") from None
    if device.type in ("cpu", "meta"):
        return torch.device(device.type)
    index = device.index
    if index is None:
        index = current if device.type == "cuda" else 0
    if index >= counts.get(device.type, 0):
        raise ValueError(f"no {spec}")
    return torch.device(device.type, index)


# %% wrong: reads the index without its sign
# says: An index of -1 was taken for another one
# earns: 2 of 3
# caught: hidden
def resolve_device(spec, counts, current=0):
    if spec is None:
        spec = next((kind for kind in ("cuda", "xpu", "mps") if counts.get(kind, 0) > 0), "cpu")
    kind, _, index = str(spec).partition(":")
    if kind in ("cpu", "meta"):
        return torch.device(kind)
    digits = "".join(letter for letter in index if letter.isdigit())
    if kind not in ("cuda", "xpu", "mps") or (index and not digits):
        raise ValueError(f"no such device: {spec!r}")
    number = int(digits) if digits else current
    if number >= counts.get(kind, 0):
        raise ValueError(f"no such device: {spec!r}")
    return torch.device(kind, number)


# %% wrong: notes a count of 0 in the caller's dict
# says: also where the spec is refused
# earns: 2 of 3
# caught: hidden
def resolve_device(spec, counts, current=0):
    if spec is None:
        spec = next((kind for kind in ("cuda", "xpu", "mps") if counts.get(kind, 0) > 0), "cpu")
    try:
        device = torch.device(spec)
    except RuntimeError as error:
        raise ValueError(f"no such device: {spec!r}") from error
    if device.type in ("cpu", "meta"):
        return torch.device(device.type)
    number = current if device.index is None else device.index
    if number >= counts.setdefault(device.type, 0):
        raise ValueError(f"no such device: {spec!r}")
    return torch.device(device.type, number)


# %% wrong: takes another accelerator where the kind is missing
# says: A kind with no device here must raise ValueError.
# earns: 2 of 3
# caught: hidden
def resolve_device(spec, counts, current=0):
    kinds = [kind for kind in ("cuda", "xpu", "mps") if counts.get(kind, 0) > 0]
    if spec is None:
        spec = kinds[0] if kinds else "cpu"
    try:
        device = torch.device(spec)
    except RuntimeError:
        raise ValueError(str(spec)) from None
    if device.type in ("cpu", "meta"):
        return torch.device(device.type)
    kind = device.type if counts.get(device.type, 0) or not kinds or device.type == "cuda" else kinds[0]
    index = current if device.index is None else device.index
    if not 0 <= index < counts.get(kind, 0):
        raise ValueError(str(spec))
    return torch.device(kind, index)


# %% wrong: an unknown name means the best device
# says: An unknown name must raise ValueError.
# earns: 2 of 3
# caught: hidden
def resolve_device(spec, counts, current=0):
    best = next((kind for kind in ("cuda", "xpu", "mps") if counts.get(kind, 0) > 0), "cpu")
    try:
        device = torch.device(best if spec is None else spec)
    except RuntimeError:
        device = torch.device(best)
    if "-" in str(spec):
        raise ValueError(str(spec))
    if device.type in ("cpu", "meta"):
        return torch.device(device.type)
    index = current if device.index is None else device.index
    if not 0 <= index < counts.get(device.type, 0):
        raise ValueError(str(spec))
    return torch.device(device.type, index)


# %% wrong: an IndexError for a negative index
# says: A negative index must raise ValueError.
# earns: 2 of 3
# caught: hidden
def resolve_device(spec, counts, current=0):
    best = next((kind for kind in ("cuda", "xpu", "mps") if counts.get(kind, 0) > 0), "cpu")
    if "-" in str(spec):
        raise IndexError(str(spec))
    try:
        device = torch.device(best if spec is None else spec)
    except RuntimeError:
        raise ValueError(str(spec)) from None
    if device.type in ("cpu", "meta"):
        return torch.device(device.type)
    index = current if device.index is None else device.index
    if not 0 <= index < counts.get(device.type, 0):
        raise ValueError(str(spec))
    return torch.device(device.type, index)


# %% wrong: the last device where none is named
# says: That is another device:
# says: This check builds on the first one, which doesn't pass yet. Fix that f
# earns: 1 of 3
def resolve_device(spec, counts, current=0):
    best = next((kind for kind in ("cuda", "xpu", "mps") if counts.get(kind, 0) > 0), "cpu")
    try:
        device = torch.device(best if spec is None else spec)
    except RuntimeError:
        raise ValueError(str(spec)) from None
    if device.type in ("cpu", "meta"):
        return torch.device(device.type)
    index = current if device.index is None else device.index
    if spec is None:
        index = counts[best] - 1
    if not 0 <= index < counts.get(device.type, 0):
        raise ValueError(str(spec))
    return torch.device(device.type, index)


# %% wrong: int() complains of the index, not of the spec
# says: The message must name the spec that the caller asked for.
# earns: 2 of 3
# caught: hidden
def resolve_device(spec, counts, current=0):
    if spec is None:
        return torch.device(first_kind(counts), current) if any(counts.values()) else torch.device("cpu")
    kind, _, index = str(spec).partition(":")
    if kind in ("cpu", "meta"):
        return torch.device(kind)
    if kind not in KINDS or not counts.get(kind, 0):
        raise ValueError(f"device {spec} is not available")
    number = int(index) if index else current
    if not 0 <= number < counts[kind]:
        raise ValueError(f"device {spec}: index out of range")
    return torch.device(kind, number)


# %% wrong: the default device where there is no accelerator
# says: You took the default device where there is no accelerator
# earns: 2 of 3
# corner: caller's modes
# caught: hidden
def resolve_device(spec, counts, current=0):
    if spec is None:
        kind = first_kind(counts)
        return torch.get_default_device() if kind == "cpu" else torch.device(kind, current)
    try:
        device = torch.device(spec)
    except RuntimeError:
        raise ValueError(f"{spec!r} is no device") from None
    if device.type in ("cpu", "meta"):
        return torch.device(device.type)
    index = current if device.index is None else device.index
    if index >= counts.get(device.type, 0):
        raise ValueError(f"{spec} does not exist here")
    return torch.device(device.type, index)
