"""Imported once, by name, in the process that all graders are forked from: what each of them would load for itself."""

from torchkata.loading import loading

with loading():
    import torch._dynamo  # noqa: F401 # any optimizer loads it

    import torchkata.tools.grading.referee  # noqa: F401
