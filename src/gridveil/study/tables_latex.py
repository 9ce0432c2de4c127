"""Tables as LaTeX, for the packages booktabs and graphicx: per network our means, and below the paper's with the verdicts."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby, pairwise

from gridveil.study.tables import Cell, Table
from gridveil.study.tables_text import error_text, failure_text, mean_text, note_lines, paper_text, verdict_text

SPECIAL = {
    **{character: f"\\{character}" for character in "&%$#_{}"},
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    "α": r"$\alpha$",
    "β": r"$\beta$",
    "ε": r"$\varepsilon$",
    "±": r"$\pm$",
    "−": r"$-$",
}


def to_latex(tables: Sequence[Table]) -> str:
    """Render the tables as floats, one after the other."""
    return "\n\n".join(_latex(table) for table in tables) + "\n"


def _latex(table: Table) -> str:
    columns = "l" + "r" * len(table.columns)
    blocks = [list(block) for _, block in groupby(table.columns, key=lambda column: column.quantity.title)]
    heads = [f"\\multicolumn{{{len(block)}}}{{c}}{{{escape(block[0].quantity.title)}}}" for block in blocks]
    ends = [2 + sum(len(block) for block in blocks[:k]) for k in range(len(blocks) + 1)]
    rules = [f"\\cmidrule(lr){{{start}-{stop - 1}}}" for start, stop in pairwise(ends)]
    body = [line for row, cells in zip(table.rows, table.cells, strict=True) for line in _latex_row(row, cells)]
    return "\n".join(
        [
            r"\begin{table*}[tbp]",
            r"\centering\small",
            f"\\caption{{{escape(table.title)}. {escape(' '.join(note_lines(table)))}}}",
            f"\\label{{tab:gridveil-{table.layout.number}-{table.method}}}",
            r"\resizebox{\ifdim\width>\textwidth \textwidth\else \width\fi}{!}{%",
            f"\\begin{{tabular}}{{{columns}}}",
            r"\toprule",
            f"& {' & '.join(heads)} \\\\",
            " ".join(rules),
            f"network & {' & '.join(escape(column.setting) for column in table.columns)} \\\\",
            r"\midrule",
            *body,
            r"\bottomrule",
            r"\end{tabular}}",
            r"\end{table*}",
        ]
    )


def _latex_row(row: str, cells: Sequence[Cell | None]) -> list[str]:
    ours = [_latex_mean(cell) if cell else "--" for cell in cells]
    papers = [_latex_paper(cell) if cell else "" for cell in cells]
    lines = [[escape(row), *ours], ["", *papers]] if any(papers) else [[escape(row), *ours]]
    return [f"{' & '.join(line)} \\\\" for line in lines]


def _latex_mean(cell: Cell) -> str:
    mean = f"\\mathbf{{{mean_text(cell)}}}" if cell.violates else mean_text(cell)
    return f"${mean} \\pm {error_text(cell)}$".replace("–", r"\mbox{--}")


def _latex_paper(cell: Cell) -> str:
    parts = [escape(part) for part in (paper_text(cell), verdict_text(cell), failure_text(cell)) if part]
    return f"{{\\scriptsize {', '.join(parts)}}}" if parts else ""


def escape(text: str) -> str:
    """Escape plain text for LaTeX."""
    return "".join(SPECIAL.get(character, character) for character in text)
