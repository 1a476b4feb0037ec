"""The text of a Markdown cell as blocks, and blocks in boxes with a look of their own."""

from __future__ import annotations

import re

BLANK = re.compile(r"\n[ \t]*\n+")
# the words in bold that begin a box, by its look; look.js, for JupyterLab, has the same ones
ASKS = "Predict|By hand|Find the|Which is right|Sort them|Complete the table|Change (it|one)|Four stories"
BEGINS = {"predict": ASKS, "contract": "Contract", "rule": "Rule", "know": "Now you know"}
BOLD = re.compile(r"\*\*([^*]+)\*\*")
NO_PARAGRAPH = re.compile(r"#|[-+|<>]|\d+\. | {4}")
# a part of an exercise is one paragraph or a paragraph and its list; these go on to the next part
GOES_ON = ("contract", "predict")


def blocks(text: str) -> list[str]:
    """The paragraphs, lists, headings and folded hints of a cell, in order; a hint is one block."""
    found: list[str] = []
    for part in filter(None, (part.rstrip() for part in BLANK.split(text.strip("\n")))):
        if found and found[-1].startswith("<details") and "</details>" not in found[-1]:
            found[-1] += f"\n\n{part}"
        else:
            found.append(part)
    return found


def is_heading(block: str) -> bool:
    return re.match(r"#{1,6} ", block) is not None


def box_of(block: str) -> str:
    """The look that a block begins: predict, contract, rule or know; "" for none. A question may come after a sentence
    that leads to it."""
    bold = BOLD.search(block)
    if bold is None or NO_PARAGRAPH.match(block):
        return ""
    words = " ".join(bold[1].split())
    kind = next((kind for kind, begins in BEGINS.items() if re.match(rf"({begins})\b", words)), "")
    return kind if kind == "predict" or bold.start() == 0 else ""


def ends_answer(block: str) -> bool:
    """Whether what answers a question, and is folded away, ends before this block: what a reader should know stays."""
    return is_heading(block) or box_of(block) in ("predict", "know")


def boxed(kind: str, parts: list[str]) -> str:
    """Blocks in a box of this kind. No block of a chapter begins with as many colons."""
    return "\n\n".join([f"::::::{{container}} box {kind}", *parts, "::::::"])


def with_boxes(parts: list[str]) -> list[str]:
    """The same blocks; those that belong to a Predict, Contract, Rule or "Now you know" stand in boxes."""
    done: list[str] = []
    at = 0
    while at < len(parts):
        kind, end = box_of(parts[at]), at + 1
        if kind in GOES_ON:
            while end < len(parts) and not _ends_box(parts[end]):
                end += 1
        done.append(boxed(kind, parts[at:end]) if kind else parts[at])
        at = end
    return done


def _ends_box(block: str) -> bool:
    return bool(box_of(block)) or is_heading(block) or block.startswith("<details")
