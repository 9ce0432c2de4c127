"""The figures of the curator's report, each as inline SVG."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray

from gridveil.bilevel.result import Step, StepKind
from gridveil.core.band import CostTarget
from gridveil.report.style import GRID, QUIET, Colour, Role
from gridveil.report.svg import Chart, Scale, span
from gridveil.sectors.view import BarsBeforeAndAfter, Figure, SortedValues

Floats = NDArray[np.float64]

MOST_PAIRS = 16
LONGEST_NAME = 22
DASHED, DOTTED = "6 4", "1.5 3"
HEIGHT_OF_TWO = 278.0  # px: figures that stand side by side


def demand_scatter(name: str, true: Floats, released: Floats, unit: str, alpha: float) -> Markup:
    """True against released demands, with the strip of ±α around equality."""
    low, high = span(np.concatenate([true, released]))
    chart = Chart(
        title=name,
        x=Scale(low=low, high=high, label=f"true ({unit})"),
        y=Scale(low=low, high=high, label=f"released ({unit})"),
    )
    ends = np.array([low, high])
    chart.area(
        np.array([low, high, high, low]),
        np.concatenate([ends - alpha, ends[::-1] + alpha]),
        colour=Role.BAND,
        opacity=0.15,
        label="±α",
    )
    chart.line(ends, ends, colour=QUIET, width=1.2)
    chart.points(true, released, colour=Role.RELEASED, size=_marker_size(len(true)), opacity=0.85, label="one site")
    return chart.drawn(f"{name}: true against released demands")


def change_histogram(changes: Mapping[str, Floats], unit: str, alpha: float) -> Markup:
    """Histograms of released less true demands."""
    everything = np.concatenate(list(changes.values()))
    reach = max(float(np.max(np.abs(everything), initial=0.0)), alpha)
    edges = np.linspace(-reach, reach, 2 * min(20, max(5, int(np.sqrt(len(everything))))) + 2)
    counts = {name: np.histogram(values, bins=edges)[0] for name, values in changes.items()}
    most = max(int(np.max(count, initial=1)) for count in counts.values())
    low, high = span(edges, margin=0.03)
    chart = Chart(
        title="Changes of demands",
        x=Scale(low=low, high=high, label=f"released less true ({unit})"),
        y=Scale(low=0.0, high=1.06 * most, label="sites", whole=True),
    )
    for (name, count), colour, filled in zip(
        counts.items(), (Colour.BLUE, Colour.VERMILLION), (True, False), strict=False
    ):
        chart.bars(edges, count, colour=colour, label=name, filled=filled)
    for sign, label in ((-1, ""), (1, "±α")):
        chart.upright(sign * alpha, colour=Role.BAND, dashes=DASHED, label=label)
    return chart.drawn("Histogram of changes of demands")


def before_and_after(figure: Figure) -> Markup:
    """Draw what a sector describes of two operating points."""
    return _bars(figure) if isinstance(figure, BarsBeforeAndAfter) else _sorted_values(figure)


def _bars(shown: BarsBeforeAndAfter) -> Markup:
    """One line per item from before to after, over its range of limits; the items that changed most, if there are many."""
    before, after = shown.before, shown.after
    change = np.nan_to_num(np.abs(after - before))
    chosen = np.sort(np.argsort(-change, kind="stable")[:MOST_PAIRS])
    rows = np.arange(len(chosen), dtype=float)
    low, high = span(np.concatenate([before[chosen], after[chosen]]))
    lower, upper = (np.clip(np.nan_to_num(side[chosen], posinf=high, neginf=low), low, high) for side in shown.limits)
    chart = Chart(
        title=shown.title,
        x=Scale(low=low, high=high, label=shown.axis),
        y=Scale(low=-0.6, high=len(chosen) - 0.4, names=[_short(shown.labels[k]) for k in chosen]),
        height=76.0 + 20.0 * max(len(chosen), 2),
        turned=True,
    )
    chart.spans(rows, lower, upper, colour=GRID, width=7.0, label="limits")
    chart.spans(rows, before[chosen], after[chosen], colour=QUIET)
    chart.points(before[chosen], rows, colour=Role.TRUE, label="true demands")
    chart.points(after[chosen], rows, colour=Role.RELEASED, diamond=True, label="released demands")
    return chart.drawn(shown.title)


def _sorted_values(shown: SortedValues) -> Markup:
    """Two curves: the values from the largest to the smallest, at the true and at the released demands."""
    curves = [np.sort(values[np.isfinite(values)])[::-1] for values in (shown.before, shown.after)]
    longest = max(len(curve) for curve in curves)
    low, high = span(np.concatenate(curves), include=() if shown.limit is None else (shown.limit,))
    chart = Chart(
        title=shown.title,
        x=Scale(low=0.5, high=max(longest, 1) + 0.5, label="from the largest to the smallest", whole=True),
        y=Scale(low=low, high=high, label=shown.axis),
    )
    for curve, colour, dashes, name in zip(
        curves, (Role.TRUE, Role.RELEASED), ("", DASHED), ("true demands", "released demands"), strict=True
    ):
        chart.line(
            np.arange(1, len(curve) + 1, dtype=float), curve, colour=colour, dashes=dashes, label=name, steps=True
        )
    if shown.limit is not None:
        chart.across(shown.limit, colour=QUIET, dashes=DOTTED, note="limit")
    return chart.drawn(shown.title)


def convergence(history: Sequence[Step], target: CostTarget, cost_unit: str) -> tuple[Markup, Markup]:
    """Cost with its band, and distance to the noisy demands, over the steps of the search."""
    costs = np.array([one.cost for one in history])
    distances = np.sqrt(np.array([one.delta for one in history]))
    inside = np.isfinite(costs) & (target.lower <= costs) & (costs <= target.upper)
    steps = Scale(low=0.5, high=len(history) + 0.5, label="step", whole=True)

    low, high = span(costs, include=(target.lower, target.upper))
    cost = Chart(
        title="Cost of the points tried",
        x=steps,
        y=Scale(low=low, high=high, label=f"optimal cost ({cost_unit})"),
        height=HEIGHT_OF_TWO,
    )
    sides = np.array([steps.low, steps.high, steps.high, steps.low])
    band = np.array([target.lower, target.lower, target.upper, target.upper])
    cost.area(sides, band, colour=Role.BAND, opacity=0.18, label="band around the target")
    cost.across(target.value, colour=Role.BAND)
    _steps(cost, costs, inside, Role.COST)

    distance = Chart(
        title="Distance of the points tried",
        x=steps,
        y=Scale(low=0.0, high=span(distances, include=(0.0,))[1], label="distance to noisy (p.u.)"),
        height=HEIGHT_OF_TWO,
    )
    _steps(distance, distances, inside, Role.DISTANCE)
    return (
        cost.drawn("Optimal cost of the points tried, with the band"),
        distance.drawn("Distance to the noisy demands of the points tried"),
    )


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


def _steps(chart: Chart, values: Floats, inside: NDArray[np.bool_], colour: str) -> None:
    step = np.arange(1, len(values) + 1, dtype=float)
    chart.line(step, values, colour=colour, width=1.3)
    chart.points(step[~inside], values[~inside], colour=colour, hollow=True, label="outside the band")
    chart.points(step[inside], values[inside], colour=colour, label="in the band")


def _marker_size(n: int) -> float:
    return float(np.clip(16 / max(n, 1) ** 0.2, 3.3, 9.3))


def _short(name: str) -> str:
    return name if len(name) <= LONGEST_NAME else f"{name[: LONGEST_NAME - 1]}…"
