"""The figures of the curator's report, each as inline SVG."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray

from gridveil.bilevel.result import Step, StepKind
from gridveil.core.band import CostTarget
from gridveil.core.text import number
from gridveil.report.style import GRID, QUIET, Colour, Role
from gridveil.report.svg import Chart, Scale, span
from gridveil.sectors.view import BarsBeforeAndAfter, Figure, SortedValues

Floats = NDArray[np.float64]

MOST_PAIRS = 16
LONGEST_NAME = 22
DASHED, DOTTED = "6 4", "1.5 3"
WIDE, RULER_HEIGHT = 940.0, 118.0  # px: a figure over the whole width
SITES = "sites-data"
"""The page's table of sites, which tells the numbers of a dot."""
HEIGHT_OF_TWO = 278.0  # px: figures that stand side by side


def cost_ruler(target: CostTarget, true_cost: float, tried: float, released: float, unit: str) -> Markup:
    """One line of costs: the band, its target, and where the true, the high point's and the released cost lie."""
    costs = np.array([true_cost, tried, released])
    low, high = span(costs, include=(target.lower, target.upper), margin=0.12)
    chart = Chart(
        title="Optimal cost", x=Scale(low=low, high=high, label=unit), y=Scale(low=-1.0, high=1.0, names=()),
        width=WIDE, height=RULER_HEIGHT,
    )  # fmt: skip
    chart.area(
        np.array([target.lower, target.upper, target.upper, target.lower]),
        np.array([-1.0, -1.0, 1.0, 1.0]),
        colour=Role.BAND,
        opacity=0.2,
        label="band",
    )
    chart.upright(target.value, colour=Role.BAND, label="target")
    marks = (
        ("true demands", true_cost, Role.TRUE),
        ("high point", tried, Role.HIGHPOINT),
        ("released", released, Role.RELEASED),
    )
    for name, cost, colour in marks:
        tip = f"{name}: {number(cost, 7)} {unit}"
        chart.points(
            np.array([cost]), np.array([0.0]), colour=colour, size=12.0, label=name, tips=[tip],
            diamond=colour is Role.RELEASED, hollow=colour is Role.HIGHPOINT,
        )  # fmt: skip
    return chart.drawn("The optimal cost at the true and at the released demands, with the band")


def demand_scatter(name: str, true: Floats, released: Floats, unit: str, alpha: float, noise: float) -> Markup:
    """True against released demands, with strips of ±α and of the typical noise around equality."""
    low, high = span(np.concatenate([true, released]))
    chart = Chart(
        title=name,
        x=Scale(low=low, high=high, label=f"true ({unit})"),
        y=Scale(low=low, high=high, label=f"released ({unit})"),
    )
    ends = np.array([low, high])
    for half, colour, label in ((noise, Role.NOISY, "± typical noise"), (alpha, Role.BAND, "±α")):
        corners = np.concatenate([ends - half, ends[::-1] + half])
        chart.area(np.array([low, high, high, low]), corners, colour=colour, opacity=0.16, label=label)
    chart.line(ends, ends, colour=QUIET, width=1.2)
    chart.points(
        true, released, colour=Role.RELEASED, size=_marker_size(len(true)), opacity=0.85, label="one site", tips=SITES
    )
    return chart.drawn(f"{name}: true against released demands")


def change_histogram(changes: Mapping[str, Floats], unit: str, alpha: float, noise: float) -> Markup:
    """Histograms of released less true demands, with ±α and the typical noise."""
    everything = np.concatenate(list(changes.values()))
    reach = max(float(np.max(np.abs(everything), initial=0.0)), alpha, noise)
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
    strips = ((alpha, Role.BAND, DASHED, "±α"), (noise, Role.NOISY, DOTTED, "± typical noise"))
    for half, role, dashes, words in strips:
        for sign, label in ((-1, ""), (1, words)):
            chart.upright(sign * half, colour=role, dashes=dashes, label=label)
    return chart.drawn("Histogram of changes of demands")


def before_and_after(figure: Figure) -> Markup:
    """Draw what a sector describes of two operating points."""
    return _bars(figure) if isinstance(figure, BarsBeforeAndAfter) else _sorted_values(figure)


def _bars(shown: BarsBeforeAndAfter) -> Markup:
    """One line per item from before to after, over its whole range of limits; those that changed most, the largest on top."""
    before, after = shown.before, shown.after
    change = np.nan_to_num(np.abs(after - before))
    chosen = np.argsort(-change, kind="stable")[:MOST_PAIRS]
    rows = np.arange(len(chosen), dtype=float)
    limits = [side[chosen] for side in shown.limits]
    finite = np.concatenate([side[np.isfinite(side)] for side in limits])
    low, high = span(np.concatenate([before[chosen], after[chosen], finite]))
    lower, upper = (np.nan_to_num(side, nan=np.nan, posinf=high, neginf=low) for side in limits)
    tips = [f"{shown.labels[k]}: {number(before[k])} → {number(after[k])} {shown.axis}" for k in chosen]
    chart = Chart(
        title=shown.title,
        x=Scale(low=low, high=high, label=shown.axis),
        y=Scale(low=-0.6, high=len(chosen) - 0.4, names=[_short(shown.labels[k]) for k in chosen]),
        height=76.0 + 20.0 * max(len(chosen), 2),
        turned=True,
    )
    chart.spans(rows, lower, upper, colour=GRID, width=7.0, label="limits")
    chart.spans(rows, before[chosen], after[chosen], colour=QUIET)
    chart.points(before[chosen], rows, colour=Role.TRUE, label="true demands", tips=tips)
    chart.points(after[chosen], rows, colour=Role.RELEASED, diamond=True, label="released demands", tips=tips)
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
            np.arange(1, len(curve) + 1, dtype=float),
            curve,
            colour=colour,
            dashes=dashes,
            label=name,
            steps=True,
            read=True,
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
    names = [f"step {k}, {name}" for k, name in enumerate(step_names(history), 1)]
    _steps(cost, costs, inside, Role.COST, _told(names, costs, cost_unit))

    distance = Chart(
        title="Distance of the points tried",
        x=steps,
        y=Scale(low=0.0, high=span(distances, include=(0.0,))[1], label="distance to noisy (p.u.)"),
        height=HEIGHT_OF_TWO,
    )
    _steps(distance, distances, inside, Role.DISTANCE, _told(names, distances, "p.u."))
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


def _steps(chart: Chart, values: Floats, inside: NDArray[np.bool_], colour: str, tips: Sequence[str]) -> None:
    step = np.arange(1, len(values) + 1, dtype=float)
    chart.line(step, values, colour=colour, width=1.3)
    for which, hollow, label in ((~inside, True, "outside the band"), (inside, False, "in the band")):
        told = [tip for tip, kept in zip(tips, which, strict=True) if kept]
        chart.points(step[which], values[which], colour=colour, hollow=hollow, label=label, tips=told)


def _told(names: Sequence[str], values: Floats, unit: str) -> list[str]:
    return [f"{name}: {number(float(value), 7)} {unit}" for name, value in zip(names, values, strict=True)]


def _marker_size(n: int) -> float:
    return float(np.clip(16 / max(n, 1) ** 0.2, 3.3, 9.3))


def _short(name: str) -> str:
    return name if len(name) <= LONGEST_NAME else f"{name[: LONGEST_NAME - 1]}…"
