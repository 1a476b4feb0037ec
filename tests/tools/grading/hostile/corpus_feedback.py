"""Script and other injection into what students and teachers look at."""

from __future__ import annotations

from tests.tools.grading.hostile.handin import HandIn, attack

SCRIPT = "<script>alert('@TOKEN')</script><img src=x onerror=alert(1)>"
CLOSING = f"</code></pre></details></section></body>{SCRIPT}<style>*{{display:none}}</style><!-- ]]> --> "
TEMPLATE = "{{ 7 * 7 }}{% for x in () %}{{ config }}"


@attack()
def script_in_the_source(it: HandIn):
    """Closes the page's elements in its source, and begins a script."""
    it.answer_all(f"# {CLOSING}\ntext = '''{CLOSING} {TEMPLATE} javascript:alert(1)'''")
    it.own_cell(f"# {CLOSING}", before=it.rest[0])


@attack()
def script_in_messages(it: HandIn):
    """Raises messages, and warns and prints, with scripts, templates, links and entities."""
    it.answer_all(
        "import warnings",
        f"print({CLOSING!r})\nwarnings.warn({CLOSING!r})\nraise ValueError({CLOSING + TEMPLATE!r} + '&lt;script&gt;')",
    )


@attack()
def script_in_names(it: HandIn):
    """Uses scripts as names of classes, of dict keys and of items."""
    it.answer_all("", f"return type({SCRIPT!r}, (), {{}})()")
    task = next(task for task in it.tasks if task.has_items)
    name, items = task.items
    it.answer(task, f"{name} = {{item: {CLOSING!r} for item in {items!r}}}")


@attack()
def unreadable_characters(it: HandIn):
    """Writes control characters, escape sequences of terminals, marks that turn text around, broken surrogates."""
    text = "\\x1b[2J\\x1b]0;title\\x07\\x00\\u202e\\u2066\\ud800\\U000e0001\\r\\x08"
    it.answer_all("", f"raise ValueError('{text}' * 100)")
    it.own_cell("# \x1b[2J \u202e \u2066 \x7f \ufeff")
    it.notebook["cells"][-1]["source"] = "broken \ud800 surrogate"


@attack()
def formulas(it: HandIn):
    """Begins messages like formulas of a spreadsheet."""
    it.answer_all("", "raise type('=cmd', (ValueError,), {})('=HYPERLINK(\"http://127.0.0.1:@PORT\")')")
    for task in [task for task in it.rest if task.functions][:2]:
        it.answer(task, f"class {task.functions[0].name}: pass\n{task.functions[0].name} = '@SUM(1+9)*cmd|A0'")


@attack()
def script_in_metadata(it: HandIn):
    """Puts scripts into metadata, attachments, outputs, widget state, the kernel's name and Markdown cells."""
    it.notebook["metadata"] |= {
        "title": SCRIPT,
        "kernelspec": {"name": f"python3{SCRIPT}", "display_name": SCRIPT, "language": "python"},
        "widgets": {"application/vnd.jupyter.widget-state+json": {"state": {SCRIPT: {}}}},
        "authors": [{"name": SCRIPT}],
    }
    for cell in it.notebook["cells"]:
        if cell["cell_type"] == "markdown":
            cell["source"] = f"{SCRIPT}\n\n[link](javascript:alert(1))\n{cell['source']}"
            cell["attachments"] = {"x.svg": {"image/svg+xml": SCRIPT}}
        else:
            data = {"text/html": SCRIPT, "application/javascript": "alert(1)", "image/svg+xml": f"<svg>{SCRIPT}</svg>"}
            cell["outputs"] = [{"output_type": "display_data", "data": data, "metadata": {}}]


@attack()
def script_as_a_student(it: HandIn):
    """Hands in as a student whose name is a script."""
    it.student += "<script>alert(1)"
    it.refused = True


@attack()
def markdown_in_notes(it: HandIn):
    """Tries to break out of the teacher's page by fences, links and HTML in names and own cells."""
    it.files = {f"```{name}`.md": b"x" for name in ("a", "<b onclick=alert(1)>")}
    it.own_cell("''''```\n<script>alert(1)</script>\n```'''\nimport time\ntime.sleep(1000)", before=it.last)
