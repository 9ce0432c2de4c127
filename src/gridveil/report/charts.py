"""The figures of the curator's report, each as inline SVG."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray

from gridveil.bilevel.result import Step, StepKind
from gridveil.core.band import CostTarget
from gridveil.report.style import GRID, PAPER, QUIET, Colour, Role, figure_svg, new_figure
from gridveil.sectors.view import BarsBeforeAndAfter, Figure, SortedValues

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis

Floats = NDArray[np.float64]

MANY_POINTS = 3000  # from here points are drawn as pixels: an element each would be too much for a page
MOST_PAIRS = 16
LONGEST_NAME = 22


def demand_scatter(name: str, true: Floats, released: Floats, unit: str, alpha: float) -> Markup:
    """True against released demands, with the strip of ±α around equality."""
    figure, axes = new_figure()
    low, high = _range(np.concatenate([true, released]))
    ends = np.array([low, high])
    axes.fill_between(ends, ends - alpha, ends + alpha, color=Role.BAND, alpha=0.15, linewidth=0, label="±α")
    axes.plot(ends, ends, color=QUIET, linewidth=0.9)
    axes.plot(
        true, released, "o", color=Role.RELEASED, markersize=_marker_size(len(true)), markeredgecolor=PAPER,
        markeredgewidth=0.4, alpha=0.85, label="one site", rasterized=len(true) > MANY_POINTS,
    )  # fmt: skip
    axes.set(xlim=(low, high), ylim=(low, high), xlabel=f"true ({unit})", ylabel=f"released ({unit})", title=name)
    axes.legend(loc="upper left")
    return figure_svg(figure, f"{name}: true against released demands")


def change_histogram(changes: Mapping[str, Floats], unit: str, alpha: float) -> Markup:
    """Histograms of released less true demands."""
    figure, axes = new_figure()
    everything = np.concatenate(list(changes.values()))
    reach = max(float(np.max(np.abs(everything), initial=0.0)), alpha)
    edges = np.linspace(-reach, reach, 2 * min(20, max(5, int(np.sqrt(len(everything))))) + 2)
    for (name, values), colour, filled in zip(
        changes.items(), (Colour.BLUE, Colour.VERMILLION), (True, False), strict=False
    ):
        counts = np.histogram(values, bins=edges)[0]
        axes.stairs(counts, edges, color=colour, label=name, fill=filled, alpha=0.45 if filled else 1.0, linewidth=1.8)
    for sign, label in ((-1, None), (1, "±α")):
        axes.axvline(sign * alpha, color=Role.BAND, linestyle="--", linewidth=1.2, label=label)
    axes.set(xlabel=f"released less true ({unit})", ylabel="sites", title="Changes of demands")
    _whole_numbers(axes.yaxis)
    axes.legend()
    return figure_svg(figure, "Histogram of changes of demands")


def before_and_after(figure: Figure) -> Markup:
    """Draw what a sector describes of two operating points."""
    return _bars(figure) if isinstance(figure, BarsBeforeAndAfter) else _sorted_values(figure)


def _bars(shown: BarsBeforeAndAfter) -> Markup:
    """One line per item from before to after, over its range of limits; the items that changed most, if there are many."""
    before, after = shown.before, shown.after
    change = np.nan_to_num(np.abs(after - before))
    chosen = np.sort(np.argsort(-change, kind="stable")[:MOST_PAIRS])
    figure, axes = new_figure(height=max(1.6, 1.0 + 0.21 * len(chosen)))
    rows = np.arange(len(chosen))
    values = np.concatenate([before[chosen], after[chosen]])
    low, high = _range(values[np.isfinite(values)])
    lower, upper = (np.clip(np.nan_to_num(side[chosen], posinf=high, neginf=low), low, high) for side in shown.limits)
    axes.hlines(rows, lower, upper, color=GRID, linewidth=5, label="limits")
    axes.hlines(rows, before[chosen], after[chosen], color=QUIET, linewidth=1.2)
    axes.plot(before[chosen], rows, "o", color=Role.TRUE, label="true demands")
    axes.plot(after[chosen], rows, "D", color=Role.RELEASED, label="released demands")
    axes.set(xlabel=shown.axis, title=shown.title, xlim=(low, high), ylim=(len(chosen) - 0.4, -0.6))
    axes.set_yticks(rows, [_short(shown.labels[k]) for k in chosen])
    axes.grid(False, axis="y")
    _legend_below(axes)
    return figure_svg(figure, shown.title)


def _sorted_values(shown: SortedValues) -> Markup:
    """Two curves: the values from the largest to the smallest, at the true and at the released demands."""
    figure, axes = new_figure()
    for values, colour, style, name in (
        (shown.before, Role.TRUE, "-", "true demands"),
        (shown.after, Role.RELEASED, "--", "released demands"),
    ):
        ordered = np.sort(values[np.isfinite(values)])[::-1]
        axes.plot(np.arange(1, len(ordered) + 1), ordered, style, color=colour, label=name, drawstyle="steps-mid")
    if shown.limit is not None:
        axes.axhline(shown.limit, color=QUIET, linewidth=0.9, linestyle=":")
        axes.annotate(
            "limit",
            (1, shown.limit),
            xycoords=("axes fraction", "data"),
            ha="right",
            va="bottom",
            color=QUIET,
            fontsize=8,
        )
    axes.set(xlabel="from the largest to the smallest", ylabel=shown.axis, title=shown.title)
    _whole_numbers(axes.xaxis)
    axes.legend()
    return figure_svg(figure, shown.title)


def convergence(history: Sequence[Step], target: CostTarget, cost_unit: str) -> tuple[Markup, Markup]:
    """Cost with its band, and distance to the noisy demands, over the steps of the search."""
    step = np.arange(1, len(history) + 1)
    costs = np.array([one.cost for one in history])
    distances = np.sqrt(np.array([one.delta for one in history]))
    found = np.isfinite(costs)
    inside = found & (target.lower <= costs) & (costs <= target.upper)

    figure, axes = new_figure(height=2.9)
    axes.axhspan(target.lower, target.upper, color=Role.BAND, alpha=0.18, linewidth=0, label="band around the target")
    axes.axhline(target.value, color=Role.BAND, linewidth=1)
    _steps(axes, step, costs, inside, Role.COST)
    axes.set(xlabel="step", ylabel=f"optimal cost ({cost_unit})", title="Cost of the points tried")
    _legend_below(axes)
    cost_svg = figure_svg(figure, "Optimal cost of the points tried, with the band")

    figure, axes = new_figure(height=2.9)
    _steps(axes, step, distances, inside, Role.DISTANCE)
    axes.set(xlabel="step", ylabel="distance to noisy (p.u.)", title="Distance of the points tried", ylim=(0, None))
    _legend_below(axes)
    return cost_svg, figure_svg(figure, "Distance to the noisy demands of the points tried")


def step_names(history: Sequence[Step]) -> list[str]:
    """Describe what each step solved."""
    words = {
        StepKind.HIGHPOINT: "high-point relaxation",
        StepKind.DOUBLING: "push, radius doubled",
        StepKind.BISECTION: "push, bisection",
        StepKind.CUT: "price cut",
        StepKind.POLISH: "polish",
        StepKind.ROOT: "push, root search",
        StepKind.ANCHOR: "between the high point and public data",
        StepKind.VERIFICATION: "verification from a fresh start",
    }
    return [words[step.kind] for step in history]


def _steps(axes: Axes, step: NDArray[np.int64], values: Floats, inside: NDArray[np.bool_], colour: str) -> None:
    axes.plot(step, values, "-", color=colour, linewidth=1)
    axes.plot(step[~inside], values[~inside], "o", color=colour, markerfacecolor=PAPER, label="outside the band")
    axes.plot(step[inside], values[inside], "o", color=colour, label="in the band")
    axes.set_xlim(0.5, len(step) + 0.5)
    _whole_numbers(axes.xaxis)


def _whole_numbers(axis: Axis) -> None:
    from matplotlib.ticker import MaxNLocator

    axis.set_major_locator(MaxNLocator(nbins=8, integer=True))


def _legend_below(axes: Axes) -> None:
    figure = axes.get_figure()
    assert figure is not None
    figure.legend(loc="outside lower center", ncols=3)


def _range(values: Floats) -> tuple[float, float]:
    """The values' range with a margin."""
    low, high = (float(values.min()), float(values.max())) if values.size else (0.0, 1.0)
    margin = 0.06 * (high - low) or 0.1 * abs(high) or 1.0
    return low - margin, high + margin


def _marker_size(n: int) -> float:
    return float(np.clip(12 / max(n, 1) ** 0.2, 2.5, 7))


def _short(name: str) -> str:
    return name if len(name) <= LONGEST_NAME else f"{name[: LONGEST_NAME - 1]}…"
