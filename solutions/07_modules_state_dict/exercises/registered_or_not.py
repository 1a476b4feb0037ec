# %% [markdown]
# ### Exercise 7.1 · Registered or not?
#
# predict · warm-up · 8 min · 2 points
#
# Here are ten attributes, and three questions about each. Read this class and answer without running it.
#
#     class M(nn.Module):
#         def __init__(self):
#             super().__init__()
#             self.a = nn.Parameter(torch.ones(2))
#             self.b = torch.ones(2, requires_grad=True)
#             self.c = [nn.Parameter(torch.ones(2))]
#             self.d = nn.Buffer(torch.ones(2))
#             self.register_buffer("e", torch.ones(2), persistent=False)
#             self.f = nn.ParameterList([torch.ones(2)])  # a plain tensor inside
#             self.g = [nn.Linear(2, 2)]
#             self.h = nn.ModuleDict({"x": nn.Linear(2, 2)})
#             self.i = nn.Parameter(torch.ones(2), requires_grad=False)
#             self.j = torch.ones(2)
#
# **Contract**
#
# - For each attribute write the letters that apply, in any order: `p` if it (or what it contains) is in `parameters()`,
#   `s` if it is in `state_dict()`, `m` if `model.double()` changes its dtype.
# - If none applies, write the empty string `""`. A list of letters is as good as a string.
# - The check builds an M and looks; every right item earns a tenth of the points.
#
# <details><summary>Hint 1</summary>
#
# Which of these assignments can `Module.__setattr__` recognise? What does it see when you assign a Python list?
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# Parameter, Buffer and Module are recognised on assignment, also inside the nn containers; lists and plain tensors are
# not. `persistent=False` removes only the s; `requires_grad=False` removes nothing.
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# Go through the attributes by kind. Python lists, `c` and `g`: nothing in them is registered. Plain tensors, `b` and
# `j`: whether they require grad makes no difference. Buffers, `d` and `e`: never in `parameters()`, and one of them is
# not saved. nn containers, `f` and `h`: a plain tensor that you put into a ParameterList becomes a Parameter. The rest
# are Parameters, and a frozen Parameter is no exception.
#
# </details>

# %% answer="registered-or-not"
### BEGIN SOLUTION
letters = {
    "a": "psm",
    "b": "",
    "c": "",
    "d": "sm",
    "e": "m",
    "f": "psm",
    "g": "",
    "h": "psm",
    "i": "psm",
    "j": "",
}
### END SOLUTION
### BEGIN GIVEN
# letters = {
#     "a": ...,
#     "b": ...,
#     "c": ...,
#     "d": ...,
#     "e": ...,
#     "f": ...,
#     "g": ...,
#     "h": ...,
#     "i": ...,
#     "j": ...,
# }
### END GIVEN

# %% check="registered-or-not" points=2
"""Each attribute is compared with a real module; every right item earns its share."""
with check("registered-or-not") as test:

    class M(nn.Module):
        """The module of the exercise."""

        def __init__(self):
            super().__init__()
            self.a = nn.Parameter(torch.ones(2))
            self.b = torch.ones(2, requires_grad=True)
            self.c = [nn.Parameter(torch.ones(2))]
            self.d = nn.Buffer(torch.ones(2))
            self.register_buffer("e", torch.ones(2), persistent=False)
            self.f = nn.ParameterList([torch.ones(2)])
            self.g = [nn.Linear(2, 2)]
            self.h = nn.ModuleDict({"x": nn.Linear(2, 2)})
            self.i = nn.Parameter(torch.ones(2), requires_grad=False)
            self.j = torch.ones(2)

    def tensors_of(attribute):
        """The tensors that an attribute is or holds."""
        if isinstance(attribute, Tensor):
            return [attribute]
        if isinstance(attribute, nn.Module):
            return list(attribute.parameters())
        return [tensor for item in attribute for tensor in tensors_of(item)]

    def found_in(name):
        """The letters that apply to an attribute of a new M."""
        model = M()
        registered = {id(parameter) for parameter in model.parameters()}
        trained = any(id(tensor) in registered for tensor in tensors_of(getattr(model, name)))
        saved = any(key.split(".")[0] == name for key in model.state_dict())
        model.double()
        moved = any(tensor.dtype == torch.float64 for tensor in tensors_of(getattr(model, name)))
        return "p" * trained + "s" * saved + "m" * moved

    def letters_in(value):
        """The letters that somebody wrote, as a set; None for anything else."""
        parts = value if isinstance(value, (list, tuple)) else [value]
        if not all(isinstance(part, str) for part in parts):
            return None
        return set("".join(parts).lower()) - set(", ")

    plain_list = (
        "A Python list hides its contents: no parameter, no state, no move - and the optimizer never sees it. "
        "Use ModuleList or ParameterList."
    )
    container = (
        "nn containers register what you put into them (in a ParameterList, even a plain tensor becomes a Parameter)."
    )
    buffer = "Buffers are saved and moved but are not in parameters(); an optimizer never gets them."
    tensor = "A plain tensor attribute is neither saved nor moved, and not in parameters()."
    sentences = {
        "a": "A Parameter that is assigned as an attribute is registered: in parameters(), saved and moved.",
        "b": "requires_grad=True does not make a tensor a parameter; a plain tensor attribute is neither saved nor "
        "moved.",
        "c": plain_list,
        "d": buffer,
        "e": "persistent=False keeps the buffer out of state_dict(), but it still moves with the module.",
        "f": container,
        "g": plain_list,
        "h": container,
        "i": "requires_grad=False freezes, it does not unregister: still in parameters() and state_dict(), still "
        "moved.",
        "j": tensor,
    }

    test("every attribute is compared with a real module")
    seen = observe_value(letters)
    given = seen.value if isinstance(seen.value, dict) else {}
    items = {}
    for name, sentence in sentences.items():
        came, truth = letters_in(given.get(name)), found_in(name)
        if came is not None and not came <= set("psm"):
            sentence = "The letters are p, s and m; write the empty string for none of them."
        elif came is None:
            sentence = "Write the letters as a string, such as 'sm', or as a list of letters."
        elif name == "e" and "p" in came:
            sentence = buffer
        # any spelling of the right letters is right: the truth is spelled as the answer spells it
        items[name] = prediction(given[name] if came == set(truth) else truth, because=sentence)
    test.points = seen.predicts(items, points=2)
test.points
