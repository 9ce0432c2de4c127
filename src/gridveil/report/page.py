"""Pages that open offline in any browser: one file, nothing loaded, every value escaped.

How to make a page:

1. Write ``templates/NAME.html`` that extends ``base.html`` and fills its blocks::

       {% extends "base.html" %}
       {% import "parts.html" as parts %}
       {% block banner %}<p>Contains true demands. Do not share.</p>{% endblock %}   (optional; sticky, and on every sheet)
       {% block lead %}<p>One or two sentences under the title.</p>{% endblock %}      (optional)
       {% block content %}
       <section id="costs">
         <h2>Costs</h2>
         {{ parts.facts([("Cost before", "5 310 $/h"), ("Cost after", "5 290 $/h")]) }}
         <div class="figures">{{ parts.figure(svg, "What the figure shows.") }}</div>
         {{ parts.table("sites", ["site", "true (MW)"], rows, filter="Find a site") }}
       </section>
       {% endblock %}

2. Call ``render("NAME.html", title="…", rows=…, svg=figure_svg(figure, "…"))``. ``title`` is needed. Sections with an id and an
   ``h2`` are linked from the contents at the top.

Values are escaped; only ``Markup`` is not, and only ``style.figure_svg`` should make any. Data for a script goes into the page by
``{{ parts.data("id", value) }}``, which is JSON that cannot end its own element; scripts of your own are files of
``static/``, named by ``scripts=("page.js", "mine.js")``. The page's security policy names their hashes, so no other script
runs even if a template forgets to escape.

Working parts, made by ``static/page.js``; without scripts, and on paper, everything is simply shown:

- ``parts.table(id, headings, rows, filter="…", limit=10)``: sortable by its headings, numbers to the right, filter box, and
  only ``limit`` rows until "show all". A cell is a text, a number (shown by the filter ``number``, sorted as it is), None, or
  a pair (number, text to show);
- ``<div class="tabs">`` with ``<section data-tab="Name">`` inside: tabs;
- ``parts.term("α")``: a word that is explained where a reader points at it, by ``glossary.py``;
- ``parts.verdict(verdict)``: the answer of a page, with its reasons and numbers (``verdict.py``);
- ``class="figures"``: figures side by side where there is room; ``class="note"`` and ``class="warning"``: boxed texts.

Filters: ``x | number`` (four significant digits, thin spaces), ``x | percent``, ``x | plain`` (any value of a card in words).
"""

from __future__ import annotations

import base64
import hashlib
import os
import sys
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import cast

from jinja2 import BytecodeCache, Environment, FileSystemBytecodeCache, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from gridveil import __version__
from gridveil.core.text import number, percent
from gridveil.report.glossary import GLOSSARY

HERE = Path(__file__).parent
STATIC = HERE / "static"
SCRIPTS = ("page.js", "charts.js")


def render(template: str, *, title: str, scripts: Sequence[str] = SCRIPTS, **values: object) -> str:
    """Render a page from ``templates/``. ``scripts`` are files in ``static/``, inlined in this order."""
    sources = [_static(name) for name in scripts]
    return (
        _environment()
        .get_template(template)
        .render(
            title=title,
            version=__version__,
            policy=_policy(sources),
            style=Markup(_static("page.css")),
            scripts=[Markup(source) for source in sources],
            **values,
        )
    )


def plain(value: object) -> str:
    """Format any value of a card."""
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float | int):
        return number(value, 6)
    if isinstance(value, str):
        return value
    return ", ".join(map(plain, value)) if isinstance(value, Iterable) else str(value)


def table_rows(rows: Iterable[Sequence[object]]) -> Markup:
    """The rows of a table. Not in the template: calls of a macro for each cell would take longest of all on a page."""
    return Markup("\n".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in rows))


def _cell(value: object) -> str:
    if isinstance(value, tuple):
        return f'<td class="n" data-value="{escape(value[0])}">{escape(value[1])}</td>'
    if value is None:
        return '<td class="n">–</td>'
    if _is_number(value):
        return f'<td class="n" data-value="{escape(value)}">{number(cast(float, value))}</td>'
    return f"<td>{escape(value)}</td>"


def _is_number(value: object) -> bool:
    return isinstance(value, float | int) and not isinstance(value, bool)


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(HERE / "templates"),
        bytecode_cache=_bytecode_cache(),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.policies["json.dumps_kwargs"] = {"separators": (",", ":"), "allow_nan": False}
    environment.filters |= {"number": number, "percent": percent, "plain": plain, "table_rows": table_rows}
    environment.globals["glossary"] = GLOSSARY
    environment.tests["numeric"] = _is_number
    environment.tests["pair"] = lambda value: isinstance(value, tuple)
    return environment


def _bytecode_cache() -> BytecodeCache | None:
    """Compiled templates beside the compiled modules, where Python itself would put them and may."""
    folder = HERE / "__pycache__"
    if sys.dont_write_bytecode or not os.access(folder, os.W_OK):
        return None
    return FileSystemBytecodeCache(str(folder))


@cache
def _static(name: str) -> str:
    return (STATIC / name).read_text(encoding="utf-8")


def _policy(scripts: Sequence[str]) -> str:
    """Content security policy: no loading, and no scripts but these (by their hashes)."""
    digests = (base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in scripts)
    allowed = " ".join(f"'sha256-{digest}'" for digest in digests) or "'none'"
    return (
        f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )
