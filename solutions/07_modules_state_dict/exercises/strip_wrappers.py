# %% [markdown]
# ### Exercise 7.5 · Missing key(s), Unexpected key(s)
#
# debug · warm-up · 12 min · 2 points
#
# A training script wrapped its model twice and saved a checkpoint, which now doesn't load:
#
#     RuntimeError: Error(s) in loading state_dict for Net:
#         Missing key(s) in state_dict: "encoder.0.weight", "encoder.0.bias", "submodule.weight", "head.bias".
#         Unexpected key(s) in state_dict: "module._orig_mod.encoder.0.weight",
#             "module._orig_mod.encoder.0.bias", "module._orig_mod.submodule.weight", "module._orig_mod.head.bias".
#
# Wrappers add components to the path of a name: `nn.DataParallel` and `DistributedDataParallel` store the model as
# `module`, `torch.compile` stores it as `_orig_mod`. Write the function that restores the names of the bare model.
#
# **Contract**
#
# - Returns a new dict with the same tensor objects in the same order; the argument is not changed.
# - `_orig_mod` components are removed wherever they are in a name, because any submodule may have been compiled.
# - After that, `module` components are removed, only at the front, again and again while *all* names begin with
#   `module`, because a model may have a child that is called module.
# - Only whole components count: a name that merely contains these words, such as `submodule`, stays. No parameter is
#   called `module` or `_orig_mod` itself.
# - If two keys become the same name, raise ValueError. An empty dict gives an empty dict.
#
# <details><summary>Hint 1</summary>
#
# What does `str.lstrip("module.")` strip: a prefix or a set of characters? And what does `replace` do to
# "submodule.weight"?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# Wrappers are whole components of a path, so split each key at its dots and compare components, not letters. You can
# decide about `_orig_mod` key by key. For which of the two must you look at all keys before you cut anything?
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# Work on one list of components for each key. First drop every `_orig_mod`. Then, as long as there are keys and every
# list begins with `module`, drop the first component of each. Join the components again, and compare the number of
# different names with the number of keys before you build the new dict.
#
# </details>


# %% answer="strip-wrappers"
def strip_wrappers(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """A new dict with the same tensors under the names of the model without its wrappers."""
    ### BEGIN SOLUTION
    paths = [[part for part in key.split(".") if part != "_orig_mod"] for key in state]
    while paths and all(path[0] == "module" for path in paths):
        paths = [path[1:] for path in paths]
    names = [".".join(path) for path in paths]
    if len(set(names)) < len(names):
        raise ValueError("two keys have the same name without wrappers")
    return dict(zip(names, state.values(), strict=True))
    ### END SOLUTION


# %% helpers="strip-wrappers"
class Endless(BaseException):
    """More lines were run than an empty dict needs."""


def patiently(answer, state, lines=10_000):
    """What the answer returns; raises Endless if it runs more than so many lines of Python."""
    left = [lines]

    def trace(frame, event, argument):
        left[0] -= 1
        if left[0] < 0:
            raise Endless
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        return answer(state)
    finally:
        sys.settrace(before)


def stripped(answer, keys, kind="dict"):
    """Strip the wrappers' names from a state_dict with these keys; if tied, all of them have the same tensor."""
    tensors = [torch.full((2,), float(number)) for number in range(len(keys))]
    state = (OrderedDict if kind == "state_dict" else dict)(zip(keys, tensors, strict=True))
    if kind == "state_dict":
        state._metadata = OrderedDict({key.rpartition(".")[0]: {"version": 1} for key in keys})
        metadata = copy.deepcopy(state._metadata)
    if kind == "parameters":
        state = {key: nn.Parameter(tensor) for key, tensor in state.items()}
    if kind == "tied":
        state = dict.fromkeys(keys, tensors[0])
    before = list(state.items())
    try:
        came = answer(state) if keys else patiently(answer, state)
    except Endless:
        return {"endless": True}
    except ValueError as error:
        came = f"ValueError: {error}"
    now = list(state.items())
    same = len(now) == len(before) and all(a[0] == b[0] and a[1] is b[1] for a, b in zip(now, before, strict=True))
    if kind == "state_dict":
        same = same and state._metadata == metadata
    facts = {"endless": False, "kind": type(came).__name__, "argument same": same, "new": came is not state}
    facts["refused"] = isinstance(came, str) and came.startswith("ValueError")
    if not isinstance(came, dict):
        return facts | {"names": None}
    place = {id(tensor): number for number, (_, tensor) in enumerate(before)}
    facts["places"] = [place.get(id(tensor)) for tensor in came.values()]
    return facts | {"names": [str(name) for name in came]}


def names_by(rename):
    """Whether the names are those that a wrong way of renaming gives."""
    return lambda seen: seen["names"] == list(dict.fromkeys(rename(key) for key in seen.args[1]))


def front_only(key):
    """Strips both prefixes, but only at the front."""
    while key.startswith(("module.", "_orig_mod.")):
        key = key.removeprefix("module.").removeprefix("_orig_mod.")
    return key


def each_on_its_own(key):
    """Strips a leading module from one key, whatever the others are."""
    parts = [part for part in key.split(".") if part != "_orig_mod"]
    while parts[0] == "module":
        parts = parts[1:]
    return ".".join(parts)


def eaten(key):
    """Strips the letters of `module` and the dot, whatever their order."""
    while key[0] in "module.":
        key = key[1:]
    return key


def eaten_later(key):
    """The same, after `_orig_mod` is gone."""
    return eaten(key.replace("_orig_mod.", ""))


def everywhere(key):
    """Strips both words wherever they stand."""
    return ".".join(part for part in key.split(".") if part not in ("module", "_orig_mod"))


def damaged_by(*renames):
    """Whether one of these ways of renaming gives the names, and a component that was not there before."""

    def fits(seen):
        came = {part for name in seen["names"] for part in name.split(".")}
        own = {part for key in seen.args[1] for part in key.split(".")}
        return not came <= own and any(names_by(rename)(seen) for rename in renames)

    return fits


known = [
    mistake(
        "A name that merely begins with `module`, such as module1 or modules, was cut: compare whole components.",
        when=lambda seen: any(
            part != "module" and part.startswith("module") and part.removeprefix("module") in name.split(".")
            for key, name in zip(seen.args[1], seen["names"], strict=True)
            for part in key.split(".")
        ),
    ),
    mistake(
        "`lstrip` takes a set of characters, not a prefix: it removed letters of the layer name.",
        when=damaged_by(eaten, eaten_later),
    ),
    mistake(
        "A genuine name was damaged: replacing text also hits 'submodule.'. Compare whole path components.",
        when=damaged_by(
            lambda key: key.replace("module.", ""),
            lambda key: key.replace("module.", "").replace("_orig_mod.", ""),
            lambda key: key.replace("_orig_mod.", "").replace("module.", ""),
        ),
    ),
    mistake(
        "`_orig_mod` can be in the middle of a key (a compiled submodule inside the model).",
        when=lambda seen: any("._orig_mod." in name for name in seen["names"]),
    ),
    mistake(
        "Wrappers nest: strip until nothing is left to strip.",
        when=lambda seen: (
            all(name.startswith(("module.", "_orig_mod.")) for name in seen["names"])
            or (
                names_by(lambda key: key[7:])(seen)
                and all(key.startswith(("module.", "_orig_mod.")) for key in seen.args[1])
            )
        ),
    ),
    mistake(
        "Keys without a wrapper lost their first letters: look at what you cut off.",
        when=lambda seen: any(names_by(lambda key, n=n: key[n:])(seen) for n in (7, 10, 17)),
    ),
    mistake(
        "The model itself has a child named `module`, but not all keys start with it: leave it.",
        when=lambda seen: names_by(front_only)(seen) or names_by(each_on_its_own)(seen),
    ),
    mistake(
        "Remove `module` components only at the front: further in, `module` is the name of a child.",
        when=names_by(everywhere),
    ),
    mistake(
        "Names other than `module` and `_orig_mod` belong to the model: they stay.",
        when=lambda seen: any(
            {*key.split(".")} - {"module", "_orig_mod"} - {*name.split(".")}
            for key, name in zip(seen.args[1], seen["names"], strict=True)
        ),
    ),
]


def judge(seen, *names, hidden=False):
    """Judge names, order, objects and the argument; hidden: the sentences don't show the names that came."""
    names = list(names)
    seen.that(not seen["refused"], "Raise ValueError only if two keys become the same name; here none do.")
    seen.that(seen["names"] is not None, "Return a dict from names to tensors.", stage="type")
    seen.that(seen["argument same"], "The argument was changed; the caller's state_dict must stay as it is.")
    seen.that(seen["new"], "Return a new dict: the caller may still use both.", stage="aliasing")
    reordered = mistake("The order must not change.", when=lambda seen: sorted(seen["names"]) == sorted(names))
    found = "" if hidden else f": {', '.join(seen['names'])}"
    seen.that(seen["names"] == names, f"These are not the names of the bare model{found}.", reordered, *known)
    seen.that(
        None not in seen["places"],
        "The tensors must be the same objects; stripping names needs no copy.",
        stage="aliasing",
    )
    in_place = seen["places"] == list(range(len(names)))
    seen.that(in_place, "Names and tensors don't belong together any more: the order was lost.")


# %% check="strip-wrappers" points=1
"""The names of the bare model, in order, with the same tensors; the argument is left alone."""
with check("strip-wrappers") as test:
    test("DistributedDataParallel: `module` in front of every name")
    wrapped = ["module.encoder.0.weight", "module.encoder.0.bias", "module.submodule.weight", "module.mode.bias"]
    bare = ["encoder.0.weight", "encoder.0.bias", "submodule.weight", "mode.bias"]
    judge(observe_scenario(stripped, strip_wrappers, wrapped), *bare)

    test("torch.compile around it, and the other way round")
    both = [f"_orig_mod.{key}" for key in wrapped]
    judge(observe_scenario(stripped, strip_wrappers, both), *bare)
    other = [f"module._orig_mod.{key}" for key in bare]
    judge(observe_scenario(stripped, strip_wrappers, other), *bare)

    test("without wrappers the names stay; an empty dict stays empty")
    judge(observe_scenario(stripped, strip_wrappers, bare), *bare)
    empty = mistake("An empty dict gives an empty dict; here it raised: {detail}.", stage="raised")
    seen = observe_scenario(stripped, strip_wrappers, []).expecting(empty)
    seen.that(
        not seen["endless"],
        "For an empty dict your code runs without end. `all()` of no names is True, so a loop that runs while all "
        "names begin with `module` needs a second condition: that there are names.",
        stage="value",
    )
    judge(seen)


# %% check="strip-wrappers" points=1
"""Wrappers anywhere and several times; children that are called module; names that collide."""
with check("strip-wrappers") as test:
    wrapped = ["module.encoder.0.weight", "module.encoder.0.bias", "module.submodule.weight", "module.mode.bias"]
    bare = ["encoder.0.weight", "encoder.0.bias", "submodule.weight", "mode.bias"]

    for idea, keys, names in [
        (
            "a compiled submodule in the middle",
            ["module.encoder._orig_mod.0.weight", "module.head.bias"],
            ["encoder.0.weight", "head.bias"],
        ),
        ("a child that is really called module", ["module.weight", "head.weight"], ["module.weight", "head.weight"]),
    ]:
        test(idea)
        judge(observe_scenario(stripped, strip_wrappers, keys), *names)

    test("an OrderedDict with metadata, as state_dict() returns it")
    judge(observe_scenario(stripped, strip_wrappers, wrapped, "state_dict"), *bare, hidden=True)
    judge(observe_scenario(stripped, strip_wrappers, bare, "state_dict"), *bare, hidden=True)

    ### BEGIN HIDDEN TESTS
    for idea, keys, names in [
        (
            "compiled submodules, without any wrapper in front",
            ["encoder._orig_mod.0._orig_mod.weight", "head._orig_mod.bias", "last.bias"],
            ["encoder.0.weight", "head.bias", "last.bias"],
        ),
        (
            "wrapped three times",
            ["_orig_mod.module._orig_mod.module.weight", "_orig_mod.module._orig_mod.module.bias"],
            ["weight", "bias"],
        ),
        (
            "wrapped four times by one kind of wrapper",
            ["module.module.module.module.a.weight", "module.module.module.module.b.bias"],
            ["a.weight", "b.bias"],
        ),
        (
            "a child called module that holds nearly everything",
            ["module.0.weight", "module.0.bias", "module.1.weight", "head.weight"],
            ["module.0.weight", "module.0.bias", "module.1.weight", "head.weight"],
        ),
        (
            "a child called model, which is no wrapper",
            ["module.model.weight", "module.model.bias"],
            ["model.weight", "model.bias"],
        ),
        (
            "one compiled inside another, directly",
            ["a._orig_mod._orig_mod.weight", "b.weight"],
            ["a.weight", "b.weight"],
        ),
        (
            "a child that is really called module, in a wrapped model",
            ["module.module.weight", "module.head.weight", "module.head.bias"],
            ["module.weight", "head.weight", "head.bias"],
        ),
        (
            "a child that is called module further in",
            ["module.net.module.weight", "module.net.module.bias"],
            ["net.module.weight", "net.module.bias"],
        ),
        (
            "a compiled part of a model with a child called module",
            ["_orig_mod.module.weight", "_orig_mod.head.weight"],
            ["module.weight", "head.weight"],
        ),
        (
            "a wrapper that only shows when `_orig_mod` is gone",
            ["_orig_mod.module.weight", "module.bias"],
            ["weight", "bias"],
        ),
        (
            "names that contain the words",
            ["modules.0.weight", "module_list.weight", "my_module.bias", "submodule.module_", "x_orig_mod._orig_mods"],
            ["modules.0.weight", "module_list.weight", "my_module.bias", "submodule.module_", "x_orig_mod._orig_mods"],
        ),
        (
            "names that contain the words, in a wrapped model",
            ["module.modules.0.weight", "module.module_list._orig_mod.weight"],
            ["modules.0.weight", "module_list.weight"],
        ),
        (
            "names that merely begin with the word",
            ["module1.weight", "module2.weight"],
            ["module1.weight", "module2.weight"],
        ),
        ("one entry", ["module.weight"], ["weight"]),
        ("another order than that of the alphabet", ["module.z", "module.a", "module.m"], ["z", "a", "m"]),
    ]:
        test.hidden(idea)
        judge(observe_scenario(stripped, strip_wrappers, keys), *names, hidden=True)

    test.hidden("parameters stay the objects that they are")
    judge(observe_scenario(stripped, strip_wrappers, wrapped, "parameters"), *bare, hidden=True)

    for keys, kind in (
        (["a._orig_mod.weight", "a.weight"], "dict"),
        (["module.a", "module._orig_mod.a"], "dict"),
        (["b", "a", "_orig_mod.b"], "dict"),
        (["a._orig_mod.weight", "a.weight"], "tied"),
    ):
        test.hidden("two keys that become the same name" + ", with the same tensor" * (kind == "tied"))
        lost = "Two keys became the same name and one tensor was silently lost: raise ValueError."
        if kind == "tied":
            lost = (
                "Two keys that have the same tensor became the same name, and one of them was silently lost: raise "
                "ValueError, whether or not their tensors are the same."
            )
        other = mistake("Two keys that become the same name must raise a ValueError: {detail}.", stage="raised")
        seen = observe_scenario(stripped, strip_wrappers, keys, kind)
        if seen.noted.raised:
            seen.expecting(other)
        seen.that(seen["refused"], lost, stage="raised")
        seen.that(seen["argument same"], "The argument was changed; the caller's state_dict must stay as it is.")
    ### END HIDDEN TESTS
