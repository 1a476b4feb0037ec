# corners: empty

import os
import re
from collections import Counter, OrderedDict

from torch.nn.modules.utils import consume_prefix_in_state_dict_if_present


def checked(names, state, kind=dict):
    """The new dict, without a key lost."""
    names = list(names)
    if len(set(names)) != len(names):
        raise ValueError("collision")
    return kind(zip(names, state.values(), strict=True))


def without_compile(key):
    return ".".join(part for part in key.split(".") if part != "_orig_mod")


def front_stripped(names):
    names = list(names)
    while names and all(name.startswith("module.") for name in names):
        names = [name[len("module.") :] for name in names]
    return names


# %% right: anchored regular expressions and a loop
def strip_wrappers(state):
    names = [re.sub(r"(^|\.)(?:_orig_mod\.)+", r"\1", key) for key in state]
    while names and all(re.match(r"module\.", name) for name in names):
        names = [re.sub(r"\Amodule\.", "", name) for name in names]
    return checked(names, state)


# %% right: padded with a leading dot, replaced repeatedly, then removeprefix
def strip_wrappers(state):
    renamed = {}
    for key in state:
        padded = "." + key
        while "._orig_mod." in padded:
            padded = padded.replace("._orig_mod.", ".")
        renamed[key] = padded.removeprefix(".")
    while renamed and all(name.startswith("module.") for name in renamed.values()):
        renamed = {key: name.removeprefix("module.") for key, name in renamed.items()}
    result = {}
    for key, name in renamed.items():
        if name in result:
            raise ValueError(f"{name} came twice")
        result[name] = state[key]
    return result


# %% right: counts the leading wrappers of all names, cuts them once; an OrderedDict
def strip_wrappers(state):
    paths = [tuple(part for part in key.split(".") if part != "_orig_mod") for key in state]
    depth = 0
    while paths and {path[depth] if depth < len(path) else None for path in paths} == {"module"}:
        depth += 1
    names = [".".join(path[depth:]) for path in paths]
    if any(number > 1 for number in Counter(names).values()):
        raise ValueError(names)
    return OrderedDict(zip(names, state.values(), strict=True))


# %% right: recursion
def strip_wrappers(state):
    cleaned = checked(map(without_compile, state), state)
    if cleaned and all(name.split(".", 1)[0] == "module" for name in cleaned):
        return strip_wrappers({name.split(".", 1)[1]: tensor for name, tensor in cleaned.items()})
    return cleaned


# %% right: consume_prefix_in_state_dict_if_present on a copy
def strip_wrappers(state):
    copied = checked(map(without_compile, state), state)
    while copied and all(name.startswith("module.") for name in copied):
        order = [name.removeprefix("module.") for name in copied]
        consume_prefix_in_state_dict_if_present(copied, "module.")
        copied = {name: copied[name] for name in order}
    return copied


# %% wrong: replaces both words in the text
# says: A genuine name was damaged: replacing text also hits 'submodule.'. Compare whole path components.
# says: The model itself has a child named `module`, but not all keys start with it:
# earns: 0 of 2
# lesson
def strip_wrappers(state):
    return {key.replace("module.", "").replace("_orig_mod.", ""): tensor for key, tensor in state.items()}


# %% wrong: lstrip
# says: `lstrip` takes a set of characters, not a prefix: it removed letters of the layer name.
# earns: 0 of 2
# lesson
def strip_wrappers(state):
    return {key.lstrip("module."): tensor for key, tensor in state.items()}


# %% wrong: lstrip after `_orig_mod` has been replaced
# says: `lstrip` takes a set of characters, not a prefix
# earns: 0 of 2
def strip_wrappers(state):
    return {key.replace("_orig_mod.", "").lstrip("module."): tensor for key, tensor in state.items()}


# %% wrong: cuts seven characters from every key
# says: Wrappers nest: strip until nothing is left to strip.
# says: `_orig_mod` can be in the middle of a key (a compiled submodule inside the
# earns: 0 of 2
def strip_wrappers(state):
    return {key[7:]: tensor for key, tensor in state.items()}


# %% wrong: removes one module prefix
# says: Wrappers nest: strip until nothing is left to strip.
# says: `_orig_mod` can be in the middle of a key (a compiled submodule inside the
# earns: 0 of 2
# lesson
def strip_wrappers(state):
    return {key.removeprefix("module."): tensor for key, tensor in state.items()}


# %% wrong: removes each prefix once, module first
# says: Wrappers nest: strip until nothing is left to strip.
# says: `_orig_mod` can be in the middle of a key (a compiled submodule inside the
# earns: 0 of 2
def strip_wrappers(state):
    return {key.removeprefix("module.").removeprefix("_orig_mod."): tensor for key, tensor in state.items()}


# %% wrong: removes one module, after all `_orig_mod`
# says: Wrappers nest: strip until nothing is left to strip.
# earns: 1 of 2
# caught: hidden
def strip_wrappers(state):
    names = [without_compile(key) for key in state]
    if names and all(name.startswith("module.") for name in names):
        names = [name.removeprefix("module.") for name in names]
    return checked(names, state)


# %% wrong: strips both prefixes only at the front
# says: `_orig_mod` can be in the middle of a key (a compiled submodule inside the model).
# earns: 1 of 2
def strip_wrappers(state):
    names = list(state)
    while names and any(all(name.startswith(prefix) for name in names) for prefix in ("module.", "_orig_mod.")):
        names = [name.split(".", 1)[1] for name in names]
    return checked(names, state)


# %% wrong: strips a leading module from each key on its own
# says: The model itself has a child named `module`, but not all keys start with it: leave it.
# earns: 1 of 2
# lesson
def strip_wrappers(state):
    names = []
    for key in state:
        name = without_compile(key)
        while name.startswith("module."):
            name = name[7:]
        names.append(name)
    return checked(names, state)


# %% wrong: any in place of all
# says: The model itself has a child named `module`, but not all keys start with it: leave it.
# earns: 1 of 2
def strip_wrappers(state):
    names = [without_compile(key) for key in state]
    while any(name.startswith("module.") for name in names):
        names = [name.removeprefix("module.") for name in names]
    return checked(names, state)


# %% wrong: looks at the first key only
# says: The model itself has a child named `module`
# earns: 1 of 2
def strip_wrappers(state):
    names = [without_compile(key) for key in state]
    while names and names[0].startswith("module."):
        names = [name.removeprefix("module.") for name in names]
    return checked(names, state)


# %% wrong: module goes wherever it stands
# says: has a child named `module`, but not all keys start with it
# earns: 1 of 2
def strip_wrappers(state):
    names = [".".join(p for p in key.split(".") if p not in ("module", "_orig_mod")) for key in state]
    return checked(names, state)


# %% wrong: module goes wherever all names have it
# says: Remove `module` components only at the front: further in, `module` is the name of a child.
# earns: 1 of 2
# caught: hidden
def strip_wrappers(state):
    paths = [without_compile(key).split(".") for key in state]
    while paths and all("module" in path for path in paths):
        for path in paths:
            path.remove("module")
    return checked([".".join(path) for path in paths], state)


# %% wrong: consume_prefix_in_state_dict_if_present on the argument
# says: The argument was changed; the caller's state_dict must stay as it is.
# earns: 0 of 2
def strip_wrappers(state):
    consume_prefix_in_state_dict_if_present(state, "module.")
    return state


# %% wrong: pops from the argument
# says: The argument was changed; the caller's state_dict must stay as it is.
# earns: 0 of 2
def strip_wrappers(state):
    names = front_stripped(map(without_compile, state))
    return {name: state.pop(key) for key, name in zip(list(state), names, strict=True)}


# %% wrong: changes the metadata of the argument
# says: The argument was changed; the caller's state_dict must stay as it is.
# earns: 1 of 2
def strip_wrappers(state):
    if hasattr(state, "_metadata"):
        state._metadata.clear()
    return checked(front_stripped(map(without_compile, state)), state)


# %% wrong: a clean dict comes back itself
# says: Return a new dict: the caller may still use both.
# earns: 0 of 2
def strip_wrappers(state):
    names = front_stripped(map(without_compile, state))
    return state if names == list(state) else checked(names, state)


# %% wrong: clones the tensors
# says: The tensors must be the same objects; stripping names needs no copy.
# earns: 0 of 2
def strip_wrappers(state):
    names = front_stripped(map(without_compile, state))
    return {name: tensor.clone() for name, tensor in checked(names, state).items()}


# %% wrong: detaches the tensors
# says: The tensors must be the same objects; stripping names needs no copy.
# earns: 0 of 2
def strip_wrappers(state):
    names = front_stripped(map(without_compile, state))
    return {name: tensor.detach() for name, tensor in checked(names, state).items()}


# %% wrong: the data of parameters
# says: The tensors must be the same objects; stripping names needs no copy.
# earns: 1 of 2
# caught: hidden
def strip_wrappers(state):
    names = front_stripped(map(without_compile, state))
    return {name: t.data if t.requires_grad else t for name, t in checked(names, state).items()}


# %% wrong: a later key overwrites
# says: Two keys became the same name and one tensor was silently lost: raise ValueError.
# earns: 1 of 2
# caught: hidden
def strip_wrappers(state):
    return dict(zip(front_stripped(map(without_compile, state)), state.values(), strict=True))


# %% wrong: the first key wins
# says: Two keys became the same name and one tensor was silently lost: raise ValueError.
# earns: 1 of 2
# caught: hidden
def strip_wrappers(state):
    result = {}
    for name, tensor in zip(front_stripped(map(without_compile, state)), state.values(), strict=True):
        result.setdefault(name, tensor)
    return result


# %% wrong: sorted names
# says: The order must not change.
# earns: 0 of 2
def strip_wrappers(state):
    result = checked(front_stripped(map(without_compile, state)), state)
    return dict(sorted(result.items()))


# %% wrong: compares beginnings of text, not components
# says: A name that merely begins with `module`
# earns: 1 of 2
# caught: hidden
def strip_wrappers(state):
    names = [without_compile(key) for key in state]
    while names and all(name.startswith("module") for name in names):
        names = [name.removeprefix("module").removeprefix(".") for name in names]
    return checked(names, state)


# %% wrong: `_orig_mod.` replaced as text
# says: belong to the model: they stay.
# earns: 1 of 2
# caught: hidden
def strip_wrappers(state):
    return checked(front_stripped(key.replace("_orig_mod.", "") for key in state), state)


# %% wrong: an empty dict fails
# says: An empty dict gives an empty dict
# earns: 1 of 2
# corner: empty
def strip_wrappers(state):
    names = [without_compile(key) for key in state]
    while names[0].startswith("module.") and all(name.startswith("module.") for name in names):
        names = [name[7:] for name in names]
    return checked(names, state)


# %% wrong: refuses what has no wrapper
# says: Raise ValueError only if two keys become the same name; here none do.
# earns: 0 of 2
def strip_wrappers(state):
    names = front_stripped(map(without_compile, state))
    if names == list(state):
        raise ValueError("no wrapper")
    return checked(names, state)


# %% wrong: a list of names
# says: Return a dict from names to tensors.
# earns: 0 of 2
def strip_wrappers(state):
    return front_stripped(map(without_compile, state))


# %% wrong: nothing is returned
# says: Return a dict from names to tensors.
# earns: 0 of 2
def strip_wrappers(state):
    checked(front_stripped(map(without_compile, state)), state)


# %% right: the common beginning of all lists of components
def strip_wrappers(state):
    paths = [without_compile(key).split(".") for key in state]
    common = os.path.commonprefix(paths)
    number = next((place for place, part in enumerate(common) if part != "module"), len(common))
    return checked([".".join(path[number:]) for path in paths], state)


# %% wrong: strips two levels at most
# says: Wrappers nest: strip until nothing is left to strip.
# earns: 1 of 2
# caught: hidden
def strip_wrappers(state):
    names = [without_compile(key) for key in state]
    for _ in range(2):
        if names and all(name.startswith("module.") for name in names):
            names = [name.removeprefix("module.") for name in names]
    return checked(names, state)


# %% wrong: takes a child called model for a wrapper
# says: Names other than `module` and `_orig_mod` belong to the model: they stay.
# earns: 1 of 2
# caught: hidden
def strip_wrappers(state):
    names = front_stripped(without_compile(key) for key in state)
    while names and all(name.startswith("model.") for name in names):
        names = [name.removeprefix("model.") for name in names]
    return checked(names, state)


# %% wrong: strips what most names have in front
# says: The model itself has a child named `module`, but not all keys start with it: leave it.
# earns: 1 of 2
# caught: hidden
def strip_wrappers(state):
    names = [without_compile(key) for key in state]
    while sum(name.startswith("module.") for name in names) * 2 > len(names):
        names = [name.removeprefix("module.") for name in names]
    return checked(names, state)


# %% wrong: a KeyError for two names that become one
# says: Two keys that become the same name must raise a ValueError: your code raised KeyError.
# earns: 1 of 2
# caught: hidden
def strip_wrappers(state):
    try:
        return checked(front_stripped(without_compile(key) for key in state), state)
    except ValueError as error:
        raise KeyError("collision") from error


# %% wrong: cuts a prefix that may not be there
# says: Keys without a wrapper lost their first letters: look at what you cut off.
# earns: 0 of 2
def strip_wrappers(state):
    names = front_stripped(map(without_compile, state))
    return checked(names if names != list(state) else [key[7:] for key in state], state)


# %% wrong: the components from the end
# says: These are not the names of the bare model
# earns: 0 of 2
def strip_wrappers(state):
    names = front_stripped(map(without_compile, state))
    return checked([".".join(reversed(name.split("."))) for name in names], state)


# %% wrong: the tensors from the end
# says: Names and tensors don't belong together any more: the order was lost.
# earns: 0 of 2
def strip_wrappers(state):
    names = front_stripped(map(without_compile, state))
    return dict(zip(names, reversed(list(state.values()))))


# %% wrong: refuses two keys with one name only if their tensors differ
# says: Two keys that have the same tensor became the same name, and one of them was silently lost: raise ValueError
# earns: 1 of 2
# caught: hidden
def strip_wrappers(state):
    result = {}
    for name, tensor in zip(front_stripped(map(without_compile, state)), state.values()):
        if result.setdefault(name, tensor) is not tensor:
            raise ValueError(f"{name} came twice")
    return result


# %% wrong: never ends for an empty dict
# says: For an empty dict your code runs without end. `all()` of no names is True
# earns: 1 of 2
# corner: empty
def strip_wrappers(state):
    names = [without_compile(key) for key in state]
    while all(name.startswith("module.") for name in names):
        names = [name.removeprefix("module.") for name in names]
    return checked(names, state)
