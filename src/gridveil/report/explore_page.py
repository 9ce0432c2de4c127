"""The page and files of an exploration: table, figure and guidance. Nothing here is secret."""

from __future__ import annotations

import json
from pathlib import Path

from gridveil.core.text import number, percent
from gridveil.report.explore_figure import explore_figure, half_figures
from gridveil.report.explore_table import HEADINGS, plain_exploration, table_rows
from gridveil.report.page import render
from gridveil.report.style import figure_svg, save_figure
from gridveil.study.explore import Exploration

STEM = "explore"


def explore_page(exploration: Exploration) -> str:
    """Render the page as HTML."""
    distances, costs = half_figures(exploration)
    failed = sum(row.runs - row.verified for row in exploration.rows)
    reasons = {reason: 0 for row in exploration.rows for reason in row.failures}
    for row in exploration.rows:
        for reason, count in row.failures.items():
            reasons[reason] += count
    return render(
        "explore.html",
        title=f"Choosing α, ε and β for {exploration.case}",
        facts=[
            ("Network", exploration.case),
            ("Demands", exploration.demands),
            ("Sites", exploration.sites),
            ("Optimal cost there", f"{number(exploration.cost)} {exploration.cost_unit}"),
            ("α is measured", exploration.unit),
            ("Runs per setting", exploration.seeds),
        ],
        unit=exploration.unit,
        distances=figure_svg(distances, "Distance of the released demands for each setting"),
        costs=figure_svg(costs, "Error of the optimal cost for each setting"),
        headings=HEADINGS,
        rows=table_rows(exploration),
        failed=failed,
        reasons=[f"{count} × {reason}" for reason, count in reasons.items()],
        promises=[
            (row.epsilon, percent(row.posterior)) for row in {row.epsilon: row for row in exploration.rows}.values()
        ],
    )


def write_exploration(exploration: Exploration, folder: Path) -> list[str]:
    """Write the page, the figure (PNG, SVG) and the rows (JSON) into a folder; return the names of the files."""
    folder.mkdir(parents=True, exist_ok=True)
    figures = save_figure(explore_figure(exploration), folder / STEM, ("png", "svg"))
    page, rows = folder / f"{STEM}.html", folder / f"{STEM}.json"
    page.write_text(explore_page(exploration), encoding="utf-8")
    rows.write_text(json.dumps(plain_exploration(exploration), indent=2, allow_nan=False) + "\n", encoding="utf-8")
    return [path.name for path in (page, *figures, rows)]
