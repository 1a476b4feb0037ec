"""Copies of a chapter's notebook that sync services leave beside it, where two computers have changed it."""

from __future__ import annotations

import re

from torchkata.tools.course import Chapter

BY_JUPYTER = re.compile(r"-Copy\d+$")  # made on purpose


def about_copies(chapter: Chapter) -> list[str]:
    """What a learner should know of the copies beside their notebook, in one sentence or none."""
    own = chapter.workbook
    found = sorted(path.name for path in own.parent.glob(f"{own.stem}*.ipynb") if path.name != own.name)
    copies = [name for name in found if not BY_JUPYTER.search(name.removesuffix(".ipynb"))]
    if not copies:
        return []
    lies, it = ("lies", "It is") if len(copies) == 1 else ("lie", "They are")
    return [
        f"Beside {own.name} {lies} {', '.join(copies)}. Sync services make such copies when a notebook was changed on "
        f"two computers. {it} not read: copy what you need into {own.name}, then delete the rest."
    ]
