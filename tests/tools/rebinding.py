"""Beginnings of answers that take a demo's name (`factor`, `box`) and bind or change it themselves, by what they do.

As in a notebook, the demo has to be run before; afterwards `factor` is what it was.
"""

REBINDING = {
    "assigns": "factor = factor * 1",
    "adds": "factor += 0",
    "tries": "try:\n    factor\nexcept NameError:\n    factor = 0",
    "may-bind": "if box:\n    kept = factor\nfactor = kept",
    "sets-an-attribute": "box.size = factor\nfactor = box.size",
    "deletes": "del box",
    "in-a-comprehension": "factor = [factor for _ in range(1)][0]",
    "in-a-function": "def take():\n    return factor\nfactor = take()",
    "in-a-function-that-binds": "def take():\n    global factor\n    factor += 0\ntake()",
    "in-a-class": "class Kept:\n    factor = factor\nfactor = Kept.factor",
    "beside-a-magic": "%pwd\nfactor = factor * 1",
}
