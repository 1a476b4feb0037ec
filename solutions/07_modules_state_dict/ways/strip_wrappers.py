# %% right: one wrapper at a time, by recursion
# The function removes one `module.` from every name and calls itself with the result, where the author's answer
# loops. Each call builds a new dict and splits all names again.
def strip_wrappers(state):
    """The names without `_orig_mod` and without what wraps the whole model."""
    names = [".".join(part for part in key.split(".") if part != "_orig_mod") for key in state]
    if len(set(names)) < len(names):
        raise ValueError("two keys have the same name without wrappers")
    if names and all(name.startswith("module.") for name in names):
        names = [name.removeprefix("module.") for name in names]
        return strip_wrappers(dict(zip(names, state.values(), strict=True)))
    return dict(zip(names, state.values(), strict=True))


# %% wrong: lstrip
# says: `lstrip` takes a set of characters, not a prefix: it removed letters of the layer name.
# "module.fc" comes out right, "module.linear" becomes "inear", and "module.embed" becomes "bed". `removeprefix` does
# what is meant.
def strip_wrappers(state):
    """Strips letters."""
    return {key.lstrip("module."): tensor for key, tensor in state.items()}
