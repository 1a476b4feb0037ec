"""The folklore pages: an index of all beliefs, which site.js filters, and the same as folklore.json."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from html import escape

from torchkata.facts.faults import VERDICTS
from torchkata.facts.look import prose_html
from torchkata.tools.site.proved import Told

MEANING = {
    "holds": "true",
    "partly": "true with limits",
    "outdated": "was true once",
    "wrong": "not true",
    "opinion": "no program can decide it",
}
SOURCE = "src/torchkata/tools/site/folklore_pages.py"
Sections = Mapping[str, tuple[str, str, str]]  # by the fact's id: page, anchor, name of the section that teaches it


def index_page(facts: Sequence[Told], titles: Mapping[str, str], report: str) -> str:
    """The index as MyST Markdown. titles: by chapter; report: how to report a belief."""
    chapters = "\n".join(f"{title} <{name}>" for name, title in titles.items())
    return "\n".join(
        [
            "---\nhide-toc: true\n---",
            "# Folklore, checked",
            "",
            f"{len(facts)} things that people say about PyTorch, and what is true. Each has a proof: a few lines of "
            "code that run without an error only if the fact holds. Open a chapter, or filter the list. Click on a "
            "belief to see its proof.",
            "",
            _filters(facts, titles),
            "",
            '<div id="beliefs">',
            *(_group(name, title, facts) for name, title in titles.items()),
            "</div>",
            '<p id="no-belief" hidden>No belief fits. Remove a word, or choose all chapters and all verdicts.</p>',
            "",
            "## Report one",
            "",
            report,
            "",
            'All of it for programs: <a href="folklore.json">folklore.json</a>.',
            "",
            f"```{{toctree}}\n:hidden:\n\n{chapters}\n```",
            "",
        ]
    )


def _filters(facts: Sequence[Told], titles: Mapping[str, str]) -> str:
    chapters = "".join(f'<option value="{name}">{escape(title)}</option>' for name, title in titles.items())
    counts = {verdict: sum(told.fact.verdict == verdict for told in facts) for verdict in VERDICTS}
    verdicts = "".join(f'<option value="{v}">{v}: {MEANING[v]} ({counts[v]})</option>' for v in VERDICTS)
    return (
        '<form id="filter" class="filter" role="search" aria-label="Beliefs">'
        '<label>Words <input type="search" name="words" autocomplete="off"></label>'
        f'<label>Chapter <select name="chapter"><option value="">all</option>{chapters}</select></label>'
        f'<label>Verdict <select name="verdict"><option value="">all</option>{verdicts}</select></label>'
        f'<output aria-live="polite">{len(facts)} beliefs</output></form>'
    )


def _group(chapter: str, title: str, facts: Sequence[Told]) -> str:
    """The beliefs of a chapter, folded until somebody opens or filters them."""
    rows = [_row(told) for told in facts if told.chapter == chapter]
    summary = f'<summary>{escape(title)} <span class="size">{len(rows)} beliefs</span></summary>'
    listed = "\n".join(['<ul class="beliefs">', *rows, "</ul>"])
    return f'<details class="fold" data-chapter="{chapter}">{summary}\n{listed}\n</details>'


def _row(told: Told) -> str:
    fact = told.fact
    link = f'<a href="{told.chapter}.html#{fact.id}">{prose_html(fact.belief)}</a>'
    verdict = f'<span class="verdict {fact.verdict}">{fact.verdict}</span>'
    return f'<li data-verdict="{fact.verdict}">{verdict} {link}<span class="holds">{prose_html(fact.fact)}</span></li>'


def chapter_page(chapter: str, title: str) -> str:
    """The page with a chapter's beliefs and their proofs; the directive `beliefs` fills it (beliefs.py)."""
    lead = f"What is said about the topic of [{title}](../chapters/{chapter}.ipynb), and what is so."
    return f"---\nhide-toc: true\n---\n\n# Folklore: {title}\n\n{lead}\n\n```{{beliefs}} {chapter}\n```\n"


def as_json(facts: Sequence[Told], sections: Sections) -> str:
    """All facts for programs, with the address of each, relative to the folder of the file."""
    return json.dumps([_entry(told, sections) for told in facts], ensure_ascii=False, indent=1) + "\n"


def _entry(told: Told, sections: Sections) -> dict[str, object]:
    page, anchor, _ = sections.get(told.fact.id, ("", "", ""))
    return {
        "id": told.fact.id,
        "chapter": told.chapter,
        "belief": told.fact.belief,
        "needs": list(told.fact.needs),
        "address": f"{told.chapter}.html#{told.fact.id}",
        "taught_in": f"../{page}.html#{anchor}" if anchor else None,
        "proved_on_torch": told.proved_on or None,
        "holds": [
            {
                "torch": variant.releases or None,
                "verdict": variant.fact.verdict,
                "fact": variant.fact.fact,
                "trap": variant.fact.trap or None,
                "proof": variant.fact.proof,
            }
            for variant in told.variants
        ],
    }
