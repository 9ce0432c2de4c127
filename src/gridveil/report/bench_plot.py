"""Log-log plot of time against size for every contestant of a benchmark."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from gridveil.benchmark.command import WARM
from gridveil.benchmark.results import BenchResults, seconds_text
from gridveil.report.style import Colour, figure_style, new_figure, save_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LOOK = {
    "structured": (Colour.VERMILLION, "o"),
    "ipopt": (Colour.BLUE, "s"),
    "pyoptinterface": (Colour.GREEN, "^"),
    "pandapower": (Colour.ORANGE, "D"),
    "pypower": (Colour.PURPLE, "v"),
    "follower": (Colour.BLACK, "P"),
}
"""Colour and marker of each contestant."""
RELEASES = Colour.SKY
LABEL_STEP = 0.05  # of the axis, between two labels


@dataclass(frozen=True, kw_only=True)
class Series:
    """Points of one line; ``doubtful`` ones were answered, but not with the right optimum."""

    label: str
    colour: str
    marker: str
    dashes: str
    points: Sequence[tuple[int, float]]
    doubtful: Sequence[tuple[int, float]] = ()


def bench_series(found: BenchResults) -> list[Series]:
    """One series per contestant, one per α of the releases, and one of the whole command."""
    lines = []
    for solver, (colour, marker) in LOOK.items():
        rows = [row for row in found.results if row.solver == solver and row.solve_seconds and row.cost is not None]
        right = [(row.buses, row.solve_seconds or 0.0) for row in rows if row.status == "converged"]
        wrong = [(row.buses, row.solve_seconds or 0.0) for row in rows if row.status != "converged"]
        if right or wrong:
            lines.append(Series(label=solver, colour=colour, marker=marker, dashes="-", points=right, doubtful=wrong))
    for alpha, dashes in zip(sorted({row.alpha for row in found.releases}), ("--", ":", "-."), strict=False):
        points = [
            (row.buses, row.median_seconds) for row in found.releases if row.alpha == alpha and row.median_seconds
        ]
        if points:
            lines.append(
                Series(label=f"release, α = {alpha:g}", colour=RELEASES, marker="X", dashes=dashes, points=points)
            )
    published = [(row.buses, row.public_seconds) for row in found.commands if row.public_seconds and row.caches == WARM]
    if published:
        lines.append(Series(label="command, published", colour=Colour.BLACK, marker="s", dashes="--", points=published))
    return lines


def bench_figure(found: BenchResults) -> Figure:
    """Draw solve time against buses, each line labelled at its end; hollow markers are answers that are not the optimum."""
    lines = bench_series(found)
    with figure_style():
        figure, axes = new_figure(7.2, 4.6)
        for line in lines:
            _draw(axes, line)
        doubtful = "; hollow: not at the optimum" if any(line.doubtful for line in lines) else ""
        axes.set(xscale="log", yscale="log", xlabel=f"buses{doubtful}", ylabel="time of one solve or release")
        _plain_ticks(axes)
        axes.set_title(
            "One cold AC optimal power flow, and whole releases" if found.releases else "One cold AC optimal power flow"
        )
        _label_ends(axes, lines)
    return figure


def write_bench_plot(found: BenchResults, folder: Path) -> list[Path]:
    """Write bench.svg and bench.png into a folder; nothing if there is no time to show."""
    if not bench_series(found):
        return []
    return save_figure(bench_figure(found), folder / "bench", ("svg", "png"))


def _draw(axes: Axes, line: Series) -> None:
    if line.points:
        buses, seconds = zip(*sorted(line.points), strict=True)
        axes.plot(buses, seconds, line.dashes, color=line.colour, marker=line.marker)
    if line.doubtful:
        buses, seconds = zip(*line.doubtful, strict=True)
        axes.plot(buses, seconds, linestyle="none", color=line.colour, marker=line.marker, fillstyle="none")


def _plain_ticks(axes: Axes) -> None:
    """Name powers of ten only, in words: matplotlib's own labels are formulas."""
    from matplotlib.ticker import FuncFormatter, NullFormatter

    axes.xaxis.set_major_formatter(FuncFormatter(lambda buses, _: f"{buses:,.0f}".replace(",", " ")))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda seconds, _: seconds_text(seconds)))
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.yaxis.set_minor_formatter(NullFormatter())


def _label_ends(axes: Axes, lines: Sequence[Series]) -> None:
    """Put each label right of its line's last point, moved up where two would overlap."""
    low, high = np.log(axes.get_ylim())
    ends = sorted([(*max([*line.points, *line.doubtful]), line) for line in lines], key=lambda end: end[1])
    height = -np.inf
    for buses, seconds, line in ends:
        height = max((np.log(seconds) - low) / (high - low), height + LABEL_STEP)
        axes.annotate(
            line.label,
            xy=(buses, np.exp(low + height * (high - low))),
            xytext=(7, 0),
            textcoords="offset points",
            color=line.colour,
            va="center",
            annotation_clip=False,
        )
