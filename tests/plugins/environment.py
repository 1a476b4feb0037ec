"""Tests that call make start it with nothing inherited from the make that started them."""

import os

for _name in ("ARGS", "CHAPTER", "EXTENT", "MAKEFLAGS", "MAKELEVEL", "MAKEOVERRIDES", "MFLAGS", "PYTHON", "TORCH"):
    os.environ.pop(_name, None)
