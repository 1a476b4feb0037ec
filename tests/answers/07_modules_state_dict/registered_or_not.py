# corners: none

RIGHT = {"a": "psm", "b": "", "c": "", "d": "sm", "e": "m", "f": "psm", "g": "", "h": "psm", "i": "psm", "j": ""}


# %% right: capitals in another order
letters = RIGHT | {"a": "MPS", "d": "ms", "h": "Smp"}


# %% right: lists and tuples of letters
letters = {name: list(text) for name, text in RIGHT.items()} | {"e": ("m",), "i": ("s", "m", "p")}


# %% right: letters with commas, built in another order
letters = {name: ", ".join(text) for name, text in reversed(RIGHT.items())}


# %% wrong: a Linear in a Python list is believed to be registered
# says: g = 'psm': A Python list hides its contents: no parameter, no state, no move - and the optimizer never sees it.
# earns: 1.8 of 2
letters = RIGHT | {"g": "psm"}


# %% wrong: a Parameter in a Python list is believed to be registered
# says: c = 'p': A Python list hides its contents
# says: Use ModuleList or ParameterList.
# earns: 1.8 of 2
# lesson
letters = RIGHT | {"c": "p"}


# %% wrong: a tensor with requires_grad counted as parameter
# says: requires_grad=True does not make a tensor a parameter; a plain tensor attribute is neither saved nor moved.
# earns: 1.8 of 2
# lesson
letters = RIGHT | {"b": "p"}


# %% wrong: a plain tensor believed to move
# says: j = 'm': A plain tensor attribute is neither saved nor moved
# earns: 1.8 of 2
letters = RIGHT | {"j": "m"}


# %% wrong: a plain tensor that requires grad believed to move
# says: a plain tensor attribute is neither saved nor moved.
# earns: 1.8 of 2
letters = RIGHT | {"b": "m"}


# %% wrong: a buffer counted as parameter
# says: Buffers are saved and moved but are not in parameters(); an optimizer never gets them.
# earns: 1.8 of 2
# lesson
letters = RIGHT | {"d": "psm"}


# %% wrong: a non-persistent buffer counted as parameter
# says: e = 'pm': Buffers are saved and moved but are not in parameters()
# earns: 1.8 of 2
letters = RIGHT | {"e": "pm"}


# %% wrong: a non-persistent buffer believed to be saved
# says: persistent=False keeps the buffer out of state_dict(), but it still moves with the module.
# earns: 1.8 of 2
# lesson
letters = RIGHT | {"e": "sm"}


# %% wrong: a non-persistent buffer believed not to move
# says: persistent=False keeps the buffer out of state_dict(), but it still moves with the module.
# earns: 1.8 of 2
letters = RIGHT | {"e": ""}


# %% wrong: a frozen parameter believed to be out of parameters()
# says: requires_grad=False freezes, it does not unregister
# earns: 1.8 of 2
letters = RIGHT | {"i": "sm"}


# %% wrong: a tensor in a ParameterList believed constant
# says: nn containers register what you put into them (in a ParameterList, even a plain tensor becomes a Parameter).
# earns: 1.8 of 2
letters = RIGHT | {"f": ""}


# %% wrong: a ModuleDict taken for a dict
# says: h = '': nn containers register what you put into them
# earns: 1.8 of 2
letters = RIGHT | {"h": ""}


# %% wrong: a parameter not saved
# says: A Parameter that is assigned as an attribute is registered
# earns: 1.8 of 2
letters = RIGHT | {"a": "pm"}


# %% wrong: other letters
# says: The letters are p, s and m; write the empty string for none of them.
# earns: 1.8 of 2
letters = RIGHT | {"a": "yes"}


# %% wrong: a dash for none
# says: The letters are p, s and m; write the empty string for none of them.
# earns: 1.8 of 2
letters = RIGHT | {"j": "-"}


# %% wrong: None for none
# says: Write the letters as a string
# earns: 1.8 of 2
letters = RIGHT | {"j": None}


# %% wrong: one item left open
# says: a = ...: There is no prediction yet
# earns: 1.8 of 2
letters = RIGHT | {"a": ...}


# %% wrong: one item deleted
# says: f = ...: There is no prediction yet
# earns: 1.8 of 2
letters = {name: text for name, text in RIGHT.items() if name != "f"}


# %% wrong: everything is registered
# says: A Python list hides its contents
# earns: 0.8 of 2
letters = dict.fromkeys("abcdefghij", "psm")


# %% wrong: nothing is right
# says: None of the items is right yet.
# earns: 0 of 2
letters = {name: "p" if text != "p" else "" for name, text in RIGHT.items()}


# %% wrong: a list of letters in place of the dict
# says: The answer must be a dict
# earns: 0 of 2
letters = list(RIGHT.values())
