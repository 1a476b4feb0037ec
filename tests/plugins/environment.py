"""What all processes of a test run inherit: one thread each, since several of them run side by side; and nothing of the
make that started the run, for tests that call make themselves."""

import os

for _name in ("ARGS", "CHAPTER", "EXTENT", "MAKEFLAGS", "MAKELEVEL", "MAKEOVERRIDES", "MFLAGS", "PYTHON", "TORCH"):
    os.environ.pop(_name, None)

os.environ["OMP_NUM_THREADS"] = "1"
