"""The trade-off between privacy, distance and cost as figures: one column of points per (α, ε), one series per β."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from gridveil.report.style import MARKERS, QUIET, SERIES, figure_style, new_figure
from gridveil.study.explore import Exploration, ExploreRow, Spread

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

HALF, HEIGHT = 4.8, 3.6  # inches
NUDGE = 0.12  # between the series of one column
MANY_LEVELS = 6  # that fit with labels of the usual size


def explore_figure(exploration: Exploration) -> Figure:
    """Draw distances and cost errors side by side."""
    from matplotlib.figure import Figure

    with figure_style():
        figure = Figure(figsize=(2 * HALF, HEIGHT + 0.2), layout="constrained")
        left, right = figure.subplots(1, 2)
        draw_distances(left, exploration)
        draw_cost_errors(right, exploration)
        handles, labels = left.get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=min(4, len(labels)))
    return figure


def half_figures(exploration: Exploration) -> tuple[Figure, Figure]:
    """Draw distances and cost errors as figures of their own, which a narrow page shows one below the other."""
    with figure_style():
        figures = []
        for draw in (draw_distances, draw_cost_errors):
            figure, axes = new_figure(HALF, HEIGHT)
            draw(axes, exploration)
            handles, labels = axes.get_legend_handles_labels()
            figure.legend(handles, labels, loc="outside lower center", ncols=min(2, len(labels)))
            figures.append(figure)
    return figures[0], figures[1]


def draw_distances(axes: Axes, exploration: Exploration) -> None:
    """Draw means and quantiles (10 %, 90 %) of the released distance, and the mean of the noise; hollow: some runs failed."""
    levels = _series(axes, exploration.rows, [row.distance_released for row in exploration.rows])
    noise = {(row.alpha, row.epsilon): row.distance_noisy.mean for row in exploration.rows}
    axes.plot(range(len(levels)), [noise[level] for level in levels], "_", color=QUIET, ms=26, label="noise alone")
    axes.set_title("Distance to the demands")
    axes.set_ylabel("‖d* − d‖ / ‖d‖")


def draw_cost_errors(axes: Axes, exploration: Exploration) -> None:
    """Draw means and quantiles (10 %, 90 %) of the relative error of the optimal cost."""
    _series(axes, exploration.rows, [row.cost_error for row in exploration.rows])
    axes.set_title("Error of the optimal cost")
    axes.set_ylabel("|O(d*) − O(d)| / O(d)")


def _series(axes: Axes, rows: Sequence[ExploreRow], values: Sequence[Spread | None]) -> list[tuple[float, float]]:
    """Draw one series per β, and return the columns: pairs (α, ε) from the least to the most noise."""
    levels = sorted({(row.alpha, row.epsilon) for row in rows}, key=lambda level: (level[0] / level[1], level))
    betas = list(dict.fromkeys(row.beta for row in rows))
    for k, beta in enumerate(betas):
        colour, marker = str(SERIES[k % len(SERIES)]), MARKERS[k % len(MARKERS)]
        axes.plot([], [], marker=marker, color=colour, linestyle="none", label=f"released, β = {beta}")
        for row, value in zip(rows, values, strict=True):
            if row.beta != beta or value is None:
                continue
            place = levels.index((row.alpha, row.epsilon)) + NUDGE * (k - (len(betas) - 1) / 2)
            face = colour if row.verified == row.runs else "none"
            axes.plot([place, place], [value.low, value.high], color=colour, linewidth=1.2)
            axes.plot([place], [value.mean], marker=marker, color=colour, markerfacecolor=face)
    _share_axis(axes, values)
    axes.set_xticks(range(len(levels)), [f"α {alpha:g}\nε {epsilon:g}" for alpha, epsilon in levels])
    axes.set_xlim(-0.5, len(levels) - 0.5)
    axes.set_xlabel("more privacy →")
    if len(levels) > MANY_LEVELS:
        axes.tick_params(axis="x", labelsize=9 * MANY_LEVELS / len(levels))
    return levels


def _share_axis(axes: Axes, values: Sequence[Spread | None]) -> None:
    """Percentages; a logarithmic scale where no value is zero."""
    from matplotlib.ticker import FuncFormatter, MaxNLocator, NullFormatter

    if all(value is None or value.low > 0 for value in values):
        axes.set_yscale("log")
        low, high = axes.get_ylim()
        if high < 10 * low:  # powers of ten would leave one label or none
            axes.yaxis.set_major_locator(MaxNLocator(5))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{100 * value:.4g} %"))
    axes.yaxis.set_minor_formatter(NullFormatter())
