"""What all processes of a test run inherit: one thread each, since several of them run side by side; and nothing of the
make that started the run, for tests that call make themselves."""

import os

_OPTIONS = ("AGAINST", "ANSWER", "ARGS", "CHAPTER", "EXTENT", "PYTHON", "TORCH")
for _name in (*_OPTIONS, "MAKEFLAGS", "MAKELEVEL", "MAKEOVERRIDES", "MFLAGS"):
    os.environ.pop(_name, None)

os.environ["OMP_NUM_THREADS"] = "1"
