"""Imported once, in the process that all graders are forked from: the referee, and what torch loads at first use. Where
the zygote is to be forked from it, too, all that this needs."""

import os

from torchkata.huge_pages import gather_pages
from torchkata.loading import loading
from torchkata.tools.grading import understudy
from torchkata.tools.grading.pool import COMPILES

compiles = os.environ.pop(COMPILES, "0") == "1"
with loading():
    import torch

    import torchkata.tools.grading.referee
    from torchkata.tools.grading.lazy_compiler import load_compiler
    from torchkata.verdicts import observe

    load_compiler(compiles)
    observe(torch.neg, torch.ones(2)).returns(torch.full((2,), -1.0000001))
    observe(torch.neg, torch.ones(2, requires_grad=True)).returns(-torch.ones(2))  # a backward pass loads sympy
    if understudy.is_wanted():
        import torchkata.tools.grading.zygote  # noqa: F401
        from torchkata.tools.grading.practice import practise

        practise()

gather_pages()
understudy.wait_for_part()
