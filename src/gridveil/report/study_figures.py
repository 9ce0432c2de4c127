"""The figures of the paper's evaluation: convergence, monotonicity, and distances compared with the paper's."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from gridveil.bilevel.result import StepKind
from gridveil.report.study_runs import FigureKind, NetworkRuns, Trace, path, typical_trace
from gridveil.report.style import INK, PAPER, QUIET, Colour, Role, figure_style, new_figure
from gridveil.study.tables import Cell, Table

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COST_LABELS = {"power": "OPF cost ($/h)", "gas": "OGF cost (kg/s)"}
PAPER_MEANS = "paper"
DISTANCE_LABEL = "distance to the noisy demands (p.u.)"
STEP_MARKERS = {
    StepKind.HIGHPOINT.value: ("o", "high point"),
    StepKind.DOUBLING.value: ("s", "doubling"),
    StepKind.BISECTION.value: ("^", "bisection"),
    StepKind.CUT.value: ("D", "price cut"),
    StepKind.POLISH.value: ("P", "polish"),
    StepKind.ROOT.value: ("v", "root search"),
    StepKind.ANCHOR.value: ("X", "public data"),
}
METHOD_LOOKS = {"bilevel": (Role.RELEASED, "o"), "highpoint": (Role.HIGHPOINT, "s"), "laplace": (Role.NOISY, "^")}
LegendPlace = Literal["outside upper right", "outside lower center"]
DOTTED, DASHED = (0, (1.5, 1.5)), (0, (5, 3))
CURVES = "viridis"
CURVE_RANGE = (0.2, 0.92)  # the ends would vanish on a dark page or on white paper


def draw(kind: FigureKind, runs: NetworkRuns) -> Figure:
    """Draw one of the paper's kinds of figures for a network."""
    return convergence_figure(runs) if kind is FigureKind.CONVERGENCE else monotonicity_figure(runs)


def convergence_figure(runs: NetworkRuns) -> Figure:
    """Cost (left) and distance to d̃ (right) over the iterations of a typical run; iteration 0 is the high point."""
    trace = typical_trace(runs)
    steps = np.array([kind != StepKind.VERIFICATION.value for kind in trace.kinds])
    iterations = np.arange(int(steps.sum()))
    kinds = np.array(trace.kinds)[steps]
    with figure_style():
        figure = _blank(9.6, 3.7)
        left, right = figure.subplots(1, 2)
        _shade_band(left, runs)
        left.plot(
            iterations,
            trace.joint_costs[steps],
            color=QUIET,
            linewidth=1.2,
            linestyle=DOTTED,
            label="f(x) of HPR and O↑",
        )
        left.plot(iterations, trace.costs[steps], color=Role.COST, label="optimal cost O(d)")
        right.step(
            iterations,
            trace.radii[steps],
            where="mid",
            color=QUIET,
            linewidth=1.2,
            linestyle=DOTTED,
            label="allowed distance √δ",
        )
        right.plot(iterations, trace.distances[steps], color=Role.DISTANCE, label="distance of d")
        for axes, values in ((left, trace.costs[steps]), (right, trace.distances[steps])):
            _mark_steps(axes, iterations, values, kinds)
            axes.set_xlabel("iteration")
            axes.xaxis.get_major_locator().set_params(integer=True)
        _mark_release(left, right, trace)
        left.set_ylabel(COST_LABELS[runs.kind])
        right.set_ylabel(DISTANCE_LABEL)
        left.set_title(f"{runs.network}, seed {trace.seed}")
        _add_setting(right, runs.setting)
        _add_percent_axis(left, runs)
        _add_common_legend(figure, "outside lower center", columns=5)
    return figure


def monotonicity_figure(runs: NetworkRuns) -> Figure:
    """Optimal cost against distance to d̃, one curve per run over the points of HPR and O↑; lone points need no search."""
    from matplotlib import colormaps

    paths = [(x, y) for x, y in map(path, runs.traces) if len(x)]
    with figure_style():
        figure, axes = new_figure(4.8, 3.4)
        _shade_band(axes, runs)
        for lone in (False, True):  # each has the whole scale of colours
            drawn = sorted(((x, y) for x, y in paths if (len(x) == 1) is lone), key=lambda pair: pair[1][0])
            shades = colormaps[CURVES](np.linspace(*CURVE_RANGE, len(drawn)))
            for (x, y), shade in zip(drawn, shades, strict=True):
                size = 3.6 if lone else 2.2
                axes.plot(x, y, color=shade, linewidth=1.0, marker="o", markersize=size, markeredgewidth=0, gid="run")
        axes.set_xlabel(DISTANCE_LABEL)
        axes.set_ylabel(COST_LABELS[runs.kind])
        axes.set_title(runs.network)
        count = f"{len(paths)} runs" if len(paths) == runs.tasks else f"{len(paths)} of {runs.tasks} runs"
        _add_setting(axes, f"{runs.setting}, {count}")
        _add_percent_axis(axes, runs)
        axes.legend(loc="best")
    return figure


def distance_figure(table: Table) -> Figure:
    """Tables V and VI at a glance: our means with standard errors (filled), the paper's (hollow), one panel per α."""
    settings = list(dict.fromkeys(column.setting for column in table.columns))
    places = np.arange(len(table.rows))[::-1]
    with figure_style():
        figure = _blank(9.6, 1.4 + 0.3 * len(table.rows))
        panels = figure.subplots(1, len(settings), sharex=True, sharey=True, squeeze=False)[0]
        for panel, setting in zip(panels, settings, strict=True):
            for place, cells in zip(places, table.cells, strict=True):
                for column, cell in zip(table.columns, cells, strict=True):
                    if cell is not None and column.setting == setting:
                        _mark_distance(panel, float(place), column.quantity.method, column.quantity.title, cell)
            panel.set_title(setting)
            panel.grid(visible=False, axis="y")
            _make_logarithmic(panel)
        figure.supxlabel("relative distance to the true demands", fontsize="medium")
        means = [cell.mean for _, _, cell in table.filled if cell.mean > 0]
        panels[0].set_xlim(10 ** math.floor(math.log10(min(means))), 10 ** math.ceil(math.log10(max(means))))
        panels[0].set_yticks(places, table.rows)
        panels[0].set_ylim(-0.6, len(table.rows) - 0.4)
        _add_common_legend(figure, "outside upper right", columns=4)
    return figure


def _blank(width: float, height: float) -> Figure:
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def _shade_band(axes: Axes, runs: NetworkRuns) -> None:
    """The costs that a release may have, and the target in their middle."""
    low, high = runs.target - runs.half_width, runs.target + runs.half_width
    axes.axhspan(low, high, color=Role.BAND, alpha=0.16, linewidth=0, label="feasible costs")
    axes.axhline(runs.target, color=Role.BAND, linewidth=1.0, linestyle=DASHED, label="cost target")


def _add_percent_axis(axes: Axes, runs: NetworkRuns) -> None:
    target = runs.target
    functions = (
        lambda cost: 100 * (np.asarray(cost) / target - 1),
        lambda share: target * (1 + np.asarray(share) / 100),
    )
    second = axes.secondary_yaxis("right", functions=functions)
    second.set_ylabel("difference from the target (%)", color=QUIET)
    second.spines["right"].set_visible(False)


def _add_setting(axes: Axes, text: str) -> None:
    axes.set_title(text, loc="right", fontweight="normal", fontsize=8, color=QUIET)


def _add_common_legend(figure: Figure, place: LegendPlace, columns: int) -> None:
    """One legend for all panels, outside of them; what has a name in several of them is listed once."""
    pairs = [pair for axes in figure.axes for pair in zip(*axes.get_legend_handles_labels(), strict=True)]
    handles = {label: handle for handle, label in reversed(pairs)}
    names = sorted(dict.fromkeys(label for _, label in pairs), key=lambda name: name == PAPER_MEANS)
    figure.legend([handles[name] for name in names], names, loc=place, ncols=columns)


def _mark_steps(axes: Axes, x: np.ndarray, y: np.ndarray, kinds: np.ndarray) -> None:
    for kind, (marker, name) in STEP_MARKERS.items():
        here = kinds == kind
        if here.any():
            look: dict[str, Any] = {
                "marker": marker,
                "markerfacecolor": PAPER,
                "markeredgecolor": INK,
                "markeredgewidth": 0.9,
            }
            axes.plot(x[here], y[here], linestyle="none", label=name, **look)


def _mark_release(left: Axes, right: Axes, trace: Trace) -> None:
    """Ring the step whose point was released: the one that the last verification looked at."""
    if not trace.verified:
        return
    last = len(trace.kinds) - 1
    released = next(step for step in range(last + 1) if trace.distances[step] == trace.distances[last])
    look: dict[str, Any] = {
        "marker": "o",
        "markersize": 11,
        "markerfacecolor": "none",
        "markeredgecolor": Colour.VERMILLION,
    }
    for axes, values in ((left, trace.costs), (right, trace.distances)):
        axes.plot(released, values[released], linestyle="none", markeredgewidth=1.5, label="released", **look)


def _mark_distance(panel: Axes, place: float, method: str, title: str, cell: Cell) -> None:
    if not math.isfinite(cell.mean):
        return
    colour, marker = METHOD_LOOKS[method]
    height = place + 0.25 * (1 - list(METHOD_LOOKS).index(method))
    error = cell.standard_error if math.isfinite(cell.standard_error) else 0.0
    panel.errorbar(cell.mean, height, xerr=error, fmt=marker, color=colour, markersize=3.6, elinewidth=1, label=title)
    if cell.published is not None:
        ring: dict[str, Any] = {"marker": marker, "markersize": 6.5, "markerfacecolor": "none", "markeredgecolor": INK}
        panel.plot(cell.published.value, height, linestyle="none", markeredgewidth=0.7, label=PAPER_MEANS, **ring)


def _make_logarithmic(panel: Axes) -> None:
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    panel.set_xscale("log")
    panel.xaxis.set_major_locator(LogLocator())
    panel.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    panel.xaxis.set_minor_formatter(NullFormatter())
