"""What a learner gets in place of a solution: the stub, or the code that the exercise gives."""

from __future__ import annotations

import re

STUB = "raise NotImplementedError  # your code here"
SOLUTION = re.compile(r"^( *)### BEGIN SOLUTION\n.*?^ *### END SOLUTION$", re.M | re.S)
GIVEN = re.compile(r"^( *)### BEGIN GIVEN\n(.*?)^ *### END GIVEN\n?", re.M | re.S)
HIDDEN = re.compile(r"^ *### BEGIN HIDDEN TESTS\n.*?^ *### END HIDDEN TESTS\n?", re.M | re.S)


def learners_version(source: str) -> str:
    """The source of an answer cell as it is released."""
    given = GIVEN.search(source)
    if given is None:
        return SOLUTION.sub(lambda match: match[1] + STUB, source)
    text = _uncommented(given[2], given[1])
    without = GIVEN.sub("", source).rstrip("\n")
    return SOLUTION.sub(lambda match: text, without)


def without_hidden_tests(source: str) -> str:
    """The source of a check cell as it is released."""
    return HIDDEN.sub("", source).rstrip("\n")


def _uncommented(block: str, indent: str) -> str:
    lines = [re.sub(rf"^{indent}# ?", indent, line).rstrip() for line in block.rstrip("\n").split("\n")]
    return "\n".join(lines)
