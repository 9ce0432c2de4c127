"""HTML representation of results in notebooks, with all text escaped."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from markupsafe import Markup

FRAME = Markup(
    '<div style="max-width:44em"><table style="border-collapse:collapse;text-align:left"><caption '
    'style="caption-side:top;text-align:left;font-weight:bold;padding:.2em 0">{title}</caption><tbody>{rows}</tbody></table>'
    "{note}</div>"
)
ROW = Markup(
    '<tr><th scope="row" style="text-align:left;font-weight:normal;opacity:.75;padding:.1em 1.5em .1em 0;'
    'vertical-align:top">{name}</th><td style="text-align:left">{value}</td></tr>'
)
HEAD = Markup('<th style="text-align:right;padding:.1em .6em">{}</th>')
CELL = Markup('<td style="text-align:right;padding:.1em .6em">{}</td>')
NOTE = Markup('<p style="border-left:3px solid #D55E00;padding-left:.6em;margin:.4em 0">{}</p>')


def facts_html(title: str, facts: Mapping[str, object], note: str = "") -> str:
    """Render a table of names and values, with ``note`` as a warning below it."""
    rows = Markup().join(ROW.format(name=name, value=words(value)) for name, value in facts.items())
    return _framed(title, rows, note)


def grid_html(title: str, headings: Sequence[str], rows: Sequence[Sequence[str]], note: str = "") -> str:
    """Render a table with a row of headings."""
    lines = [Markup().join(map(HEAD.format, headings))] + [Markup().join(map(CELL.format, row)) for row in rows]
    body = Markup().join(Markup("<tr>{}</tr>").format(line) for line in lines)
    return _framed(title, body, note)


def _framed(title: str, rows: Markup, note: str) -> str:
    return str(FRAME.format(title=title, rows=rows, note=NOTE.format(note) if note else ""))


def facts_text(kind: str, facts: Mapping[str, object]) -> str:
    """Format the same facts as one line of text."""
    return f"{kind}({', '.join(f'{name}: {words(value)}' for name, value in facts.items())})"


def words(value: object) -> str:
    """Format a value: numbers to six digits, lists separated by commas."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, Mapping):
        return ", ".join(f"{key}: {words(item)}" for key, item in value.items()) or "none"
    if isinstance(value, list | tuple):
        return ", ".join(map(words, value)) or "none"
    return "–" if value is None else str(value)
