"""The review page of the website: the course's questions as cards that the page asks, and remembers in the browser."""

from __future__ import annotations

import json
from collections.abc import Mapping
from html import escape

from torchkata.facts.cards import Asked, asked_in
from torchkata.facts.look import prose_html
from torchkata.facts.orders import Order
from torchkata.facts.questions import Question
from torchkata.tools.site.folklore_pages import Sections

SOURCE = "src/torchkata/tools/site/review_page.py"
CARDS = "cards.js"  # loaded by the page alone; a script, since pages from the file system may fetch nothing else
PAGE = """\
---
hide-toc: true
---

# Review

This page asks ten questions about what you have read. A card has a statement (is it so, not so, or only partly so?), a
few lines of code (what do they print?), two short functions (do they ever return different results?) or lines to put in
order. After each answer you see what is true, and which section teaches it. A card that you knew comes back after a
longer time, a card that you didn't know tomorrow.

Your answers are stored in this browser and sent nowhere. In your workbook, `torchkata review` and `review.ipynb` ask
the same cards, and also run the proofs.

<form id="ask" class="review" hidden>
<label>Chapter <select name="chapter"><option value="">those that I have begun, or any</option>
{chapters}</select></label>
<button type="submit">Begin</button>
</form>
<div id="card" class="card" aria-live="polite"></div>
<noscript><p>The cards need JavaScript.</p></noscript>
<script defer src="{cards}"></script>
"""


def review_page(titles: Mapping[str, str]) -> str:
    """The page as MyST Markdown. titles: of the chapters, by name."""
    options = "".join(f'<option value="{name}">{escape(title)}</option>' for name, title in titles.items())
    return PAGE.format(chapters=options, cards=CARDS)


def cards_script(titles: Mapping[str, str], sections: Sections) -> str:
    """The cards of all chapters as a script, for review.js."""
    cards = [_card(one, name, sections) for name in titles for one in asked_in(name)]
    return f"const torchkataCards = {json.dumps(cards, ensure_ascii=False, separators=(',', ':'))};\n"


def _card(asked: Asked, chapter: str, sections: Sections) -> dict[str, object]:
    page, anchor, title = sections.get(asked.fact.id, ("", "", ""))
    return {
        "id": asked.id,
        "chapter": chapter,
        "asks": prose_html(asked.asks),
        "code": asked.code,
        "choices": asked.choices,
        "answer": asked.answer,
        "because": prose_html(asked.because),
        "proof": f"folklore/{chapter}.html#{asked.fact.id}" if isinstance(asked, Question) else "",
        "fold": None if isinstance(asked, Question) else [asked.shown_title, asked.shown],
        "lines": [[name, asked.lines[name]] for name in asked.offered] if isinstance(asked, Order) else None,
        "wrong": [[prose_html(told), *signs] for told, *signs in asked.wrong] if isinstance(asked, Order) else None,
        "taught": [f"{page}.html#{anchor}", title] if anchor else None,
    }
