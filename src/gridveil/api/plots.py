"""Plots for notebooks. Each draws on the given matplotlib axes, or on new ones, and returns them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from gridveil.bilevel.run import ON_THE_PATH
from gridveil.core.extras import require
from gridveil.report.layout import graph_layout
from gridveil.report.style import PAPER, QUIET, Role, figure_style
from gridveil.sectors.case import Network
from gridveil.sectors.registry import sector_of
from gridveil.service.release import PublicRelease, Release

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Floats = NDArray[np.float64]

MOST_NAMES = 40  # sites whose names fit along an axis
SMALLEST, LARGEST = 6.0, 160.0  # of a node, in square points


@dataclass(frozen=True)
class CasePlots:
    """Plots of a case's public network."""

    _network: Network
    _name: str

    def network(self, ax: Axes | None = None) -> Axes:
        """Draw nodes and branches; rings mark supplies, filled nodes the sites of demands."""
        with _drawing(ax, (6.4, 4.8)) as axes:
            _draw_network(axes, self._network, None)
            axes.set_title(self._name)
        return axes


@dataclass(frozen=True)
class ReleasePlots:
    """Plots of a release, all of public quantities."""

    _release: PublicRelease

    def demand(self, ax: Axes | None = None) -> Axes:
        """Draw released (and noisy) active demands, or gas withdrawals, site by site."""
        release = self._release
        sector, base = sector_of(release.case.network), release.case.field.base
        part = sector.value_parts[0]
        released, noisy = base * release.released.values.real, base * release.draw.noisy.values.real
        sites = np.arange(1, len(released) + 1)
        with _drawing(ax, (6.4, 3.4)) as axes:
            axes.bar(sites, released, color=Role.RELEASED, alpha=0.75, label="released")
            axes.plot(sites, noisy, "_", color=Role.NOISY, markersize=9, markeredgewidth=2, label="noisy")
            if len(sites) <= MOST_NAMES:
                axes.set_xticks(sites, release.case.field.places, rotation=90)
            axes.set(
                title=self._title,
                xlabel=sector.node_word if len(sites) <= MOST_NAMES else "site",
                ylabel=f"{part.name} ({part.unit})",
            )
            axes.legend()
        return axes

    def convergence(self, ax: Axes | None = None) -> Axes:
        """Draw the optimal cost of each point tried, and the band around the target."""
        release, history = self._release, self._release.released.result.history
        target, costs = release.target, np.array([step.cost for step in history])
        steps = np.arange(1, len(history) + 1)
        inside = np.array([target.contains(cost) for cost in costs], dtype=bool)
        with _drawing(ax, (4.8, 3.4)) as axes:
            axes.axhspan(target.lower, target.upper, color=Role.BAND, alpha=0.18, linewidth=0, label="band")
            axes.plot(steps, costs, "-", color=Role.COST, linewidth=1)
            axes.plot(steps[inside], costs[inside], "o", color=Role.COST, label="in the band")
            if not inside.all():
                axes.plot(steps[~inside], costs[~inside], "o", color=Role.COST, markerfacecolor=PAPER, label="outside")
            axes.set(title="Convergence", xlabel="step", ylabel=f"optimal cost ({release.cost_unit})")
            axes.locator_params(axis="x", integer=True)
            axes.legend()
        return axes

    def monotonicity(self, ax: Axes | None = None) -> Axes:
        """Draw the optimal cost against the proxy m (total demand) along the search: it should never fall."""
        release = self._release
        path = [step for step in release.released.result.history if step.kind in ON_THE_PATH and np.isfinite(step.cost)]
        path.sort(key=lambda step: step.proxy)
        base, part = release.case.field.base, sector_of(release.case.network).value_parts[0]
        with _drawing(ax, (4.8, 3.4)) as axes:
            axes.plot([base * step.proxy for step in path], [step.cost for step in path], "o-", color=Role.COST)
            axes.set(
                title="Optimal cost against total demand",
                xlabel=f"total demand ({part.unit})",
                ylabel=f"optimal cost ({release.cost_unit})",
            )
        return axes

    def network(self, ax: Axes | None = None) -> Axes:
        """Draw the network; the area of a node grows with its released demand."""
        with _drawing(ax, (6.4, 4.8)) as axes:
            _draw_network(axes, self._release.case.network, self._release.released.values)
            axes.set_title(self._title)
        return axes

    @property
    def _title(self) -> str:
        return "Simulated release: protects nobody" if self._release.simulation else "Released demands"


@dataclass(frozen=True, repr=False)
class CuratorPlots:
    """Plots that show true demands: do not share them."""

    _release: Release

    def scatter(self, ax: Axes | None = None) -> Axes:
        """Draw true against released active demands, or gas withdrawals, with the strip of ±α."""
        release = self._release.public
        base, unit = release.case.field.base, sector_of(release.case.network).value_parts[0].unit
        rows = self._release.curator.curator.table(release.draw.noisy, release.values)
        true = base * np.array([true.real for _, true, _, _ in rows])
        released = base * np.array([released.real for _, _, _, released in rows])
        alpha = base * release.draw.noisy.mechanism.alpha
        ends = np.array([min(true.min(), released.min()), max(true.max(), released.max())])
        with _drawing(ax, (4.8, 4.2)) as axes:
            axes.fill_between(ends, ends - alpha, ends + alpha, color=Role.BAND, alpha=0.15, linewidth=0, label="±α")
            axes.plot(ends, ends, color=QUIET, linewidth=0.9)
            axes.plot(true, released, "o", color=Role.RELEASED, markeredgecolor=PAPER, label="one site")
            axes.set(title="TRUE DEMANDS: do not share", xlabel=f"true ({unit})", ylabel=f"released ({unit})")
            axes.legend()
        return axes


@contextmanager
def _drawing(ax: Axes | None, size: tuple[float, float]) -> Iterator[Axes]:
    """Return the given axes, or new ones of this size (inches) in gridveil's style that a notebook will display."""
    require("matplotlib")
    import matplotlib.pyplot as plt

    plt.draw_if_interactive()  # type: ignore[no-untyped-call]  # loads the backend, which turns interaction on; within the style that would be undone
    with figure_style():
        yield plt.subplots(figsize=size, layout="constrained")[1] if ax is None else ax


def _draw_network(axes: Axes, network: Network, sites: NDArray[Any] | None) -> None:
    from matplotlib.collections import LineCollection

    graph = sector_of(network).graph(network)
    n, place, supplied = graph.n, graph.place, graph.supplied
    position = graph_layout(n, graph.start, graph.end)
    lines = np.stack([position[graph.start], position[graph.end]], axis=1)
    axes.add_collection(LineCollection(list(lines), colors=QUIET, linewidths=0.8, zorder=1))
    drawn = np.zeros(n)
    np.add.at(drawn, place, np.ones(len(place)) if sites is None else np.abs(sites))
    area = SMALLEST + (LARGEST - SMALLEST) * drawn / (drawn.max() or 1.0) * min(1.0, 60 / n)
    colour = np.where(drawn > 0, str(Role.RELEASED), PAPER)
    x, y = position.T
    axes.scatter(x, y, s=area, c=colour.tolist(), edgecolors=QUIET, linewidths=0.6, zorder=2)
    axes.scatter(
        x[supplied], y[supplied], s=area[supplied] + 40, facecolors="none", edgecolors=Role.TRUE, linewidths=1.4, zorder=3
    )  # fmt: skip
    axes.set_aspect("equal")
    axes.autoscale_view()
    axes.set_axis_off()
