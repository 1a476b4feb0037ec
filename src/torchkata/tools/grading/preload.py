"""Imported once, by name, in the process that all graders are forked from: what each of them would load for itself."""

import gc

import torchkata.tools.grading.referee  # noqa: F401

gc.freeze()  # else each process that is forked would copy the pages of all that is loaded here, to collect none of it
