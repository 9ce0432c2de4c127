"""A power network before and after a release: dispatch, line loadings, voltages and drawing."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from gridveil.core.text import limits_words, number, percent
from gridveil.sectors.power.network import Grid, PowerNetwork
from gridveil.sectors.power.operating import PowerState
from gridveil.sectors.view import (
    BarsBeforeAndAfter,
    BeforeAndAfter,
    Changes,
    ChangeTable,
    NetworkView,
    Sites,
    SortedValues,
    Tab,
)

Floats = NDArray[np.float64]
Complexes = NDArray[np.complex128]


def power_before_and_after(
    network: PowerNetwork,
    sites: Sites,
    before: PowerState,
    after: PowerState,
    title: Callable[[str], str],
) -> BeforeAndAfter:
    """Compare two dispatches; ``title`` formats the id of a bus."""
    grid = network.grid
    names = [title(str(bus)) for bus in grid.bus.id]
    return BeforeAndAfter(
        facts=_facts(network, sites, before, after),
        tabs=[
            _generators(network, names, before, after),
            _loadings(network, names, before, after),
            _voltages(grid, names, before, after),
        ],
        view=_view(network, sites, before, after, title),
    )


def _facts(network: PowerNetwork, sites: Sites, before: PowerState, after: PowerState) -> list[tuple[str, str]]:
    demand = [float(values[network.served].real.sum()) for values in (sites.true, sites.released)]
    generation = [float(state.generation.real.sum()) for state in (before, after)]
    lost = [made - used for made, used in zip(generation, demand, strict=True)]
    rows = [("Total demand", demand), ("Total generation", generation), ("Losses and shunts", lost)]
    if len(before.dc_power):
        rows.append(("Power over DC lines", [float(np.abs(state.dc_power).sum()) for state in (before, after)]))
    facts = [(name, f"{number(first)} → {number(second)} MW") for name, (first, second) in rows]
    fullest = [_most(state.loading) for state in (before, after)]
    if np.any(np.isfinite(fullest)):
        facts.append(("Highest loading", " → ".join(percent(value) for value in fullest)))
    low = [number(float(np.min(state.voltage)), 4) for state in (before, after)]
    high = [number(float(np.max(state.voltage)), 4) for state in (before, after)]
    return [*facts, ("Voltages (p.u.)", f"{low[0]}–{high[0]} → {low[1]}–{high[1]}")]


def _generators(network: PowerNetwork, names: list[str], before: PowerState, after: PowerState) -> Tab:
    grid, base = network.grid, network.base_mva
    units = slice(grid.n_unit)
    at = [names[bus] for bus in grid.generator.bus[units]]
    first, second = before.generation, after.generation
    limits = base * grid.generator.p_min[units], base * grid.generator.p_max[units]
    figure = BarsBeforeAndAfter(
        title="Active power of generators",
        labels=at,
        before=first.real,
        after=second.real,
        limits=limits,
        axis="active power (MW)",
    )
    columns = {
        "generator at bus": at,
        "P before (MW)": first.real,
        "P after (MW)": second.real,
        "change (MW)": (second - first).real,
        "P limits (MW)": [limits_words(low, high) for low, high in zip(*limits, strict=True)],
        "Q before (MVAr)": first.imag,
        "Q after (MVAr)": second.imag,
    }
    return Tab(
        name="Generators",
        figure=figure,
        caption="Dispatch at the true and at the released demands: the generators whose output changed most.",
        table=ChangeTable(id="generators", columns=columns, change=(second - first).real),
    )


def _loadings(network: PowerNetwork, names: list[str], before: PowerState, after: PowerState) -> Tab:
    grid = network.grid
    ends = [f"{names[i]} – {names[j]}" for i, j in zip(grid.from_bus, grid.to_bus, strict=True)]
    change = 100 * (after.loading - before.loading)
    figure = SortedValues(
        title="Loading of branches",
        before=100 * before.loading,
        after=100 * after.loading,
        axis="per cent of the rating",
        limit=100.0,
    )
    columns = {
        "branch": ends,
        "rating (MVA)": network.base_mva * grid.rate,
        "before (%)": 100 * before.loading,
        "after (%)": 100 * after.loading,
        "change (points)": change,
        "flow before (MVA)": before.flow,
        "flow after (MVA)": after.flow,
    }
    return Tab(
        name="Line loadings",
        figure=figure,
        caption="Flow at the fuller end of each line or transformer as a share of its rating.",
        table=ChangeTable(id="loadings", columns=columns, change=change),
    )


def _voltages(grid: Grid, names: list[str], before: PowerState, after: PowerState) -> Tab:
    change = after.voltage - before.voltage
    columns = {
        "bus": names,
        "before (p.u.)": before.voltage,
        "after (p.u.)": after.voltage,
        "change (p.u.)": change,
        "limits (p.u.)": [limits_words(low, high) for low, high in zip(grid.bus.v_min, grid.bus.v_max, strict=True)],
    }
    return Tab(
        name="Voltages",
        figure=SortedValues(
            title="Voltages", before=before.voltage, after=after.voltage, axis="voltage magnitude (p.u.)"
        ),
        caption="Voltage magnitudes of all energised buses.",
        table=ChangeTable(id="voltages", columns=columns, change=change),
    )


def _view(
    network: PowerNetwork, sites: Sites, before: PowerState, after: PowerState, title: Callable[[str], str]
) -> NetworkView:
    grid, on = network.grid, ~network.bus.isolated
    n = len(network.bus.id)
    true, noisy, released = (
        _at_buses(values, network.load.bus, n) for values in (sites.true, sites.noisy, sites.released)
    )
    shown = true.tolist(), noisy.tolist(), released.tolist()  # Python's own numbers are quicker to format
    has_load = np.bincount(network.load.bus, minlength=n) > 0
    change = np.where(has_load, (released - true).real, np.nan)
    place = np.flatnonzero(on)
    v_before, v_after = np.full((2, n), np.nan)
    v_before[place], v_after[place] = before.voltage, after.voltage
    at_generator = place[grid.generator.bus[: grid.n_unit]]
    g_before, g_after = (_at_buses(state.generation, at_generator, n) for state in (before, after))
    supplied = np.bincount(at_generator, minlength=n) > 0
    v_shown = v_before.tolist(), v_after.tolist()
    details = []
    for k in range(n):
        rows = []
        if has_load[k]:
            rows += [
                ("True demand", _power(shown[0][k])),
                ("Noisy demand", _power(shown[1][k])),
                ("Released demand", _power(shown[2][k])),
            ]
        if supplied[k]:
            rows += [("Generation before", _power(g_before[k])), ("Generation after", _power(g_after[k]))]
        rows += (
            [("Voltage before, after", f"{number(v_shown[0][k])}, {number(v_shown[1][k])} p.u.")]
            if on[k]
            else [("Voltage", "isolated")]
        )
        details.append(rows)
    ids = [str(bus) for bus in network.bus.id]
    line = grid.dc_line
    start, end = (
        place[np.concatenate(buses)] for buses in ((grid.from_bus, line.from_bus), (grid.to_bus, line.to_bus))
    )
    limit = network.base_mva * np.maximum(np.abs(line.p_min), np.abs(line.p_max))
    loading = [
        np.concatenate(
            [state.loading, np.abs(state.dc_power) / np.where(np.isfinite(limit) & (limit > 0), limit, np.nan)]
        )
        for state in (before, after)
    ]
    is_line = np.arange(len(start)) >= len(grid.from_bus)
    titles = [
        f"{title(ids[i])} – {title(ids[j])}{', DC line' if dc else ''}: {percent(first)} → {percent(second)} of its rating"
        for i, j, dc, first, second in zip(start, end, is_line, *(shares.tolist() for shares in loading), strict=True)
    ]
    return NetworkView(
        ids=ids,
        weight=np.abs(true),
        supplied=supplied,
        start=start,
        end=end,
        marked=is_line,
        marked_words="DC lines" if np.any(is_line) else "",
        edge_titles=titles,
        details=details,
        changes=[
            Changes(name="Change of active demand", unit="MW", of_edges=False, values=change, adds_up=True),
            Changes(name="Change of voltage", unit="p.u.", of_edges=False, values=v_after - v_before),
            Changes(
                name="Change of line loading", unit="points", of_edges=True, values=100 * (loading[1] - loading[0])
            ),
        ],
    )


def _at_buses(values: NDArray[np.complex128], bus: NDArray[np.int64], n: int) -> Complexes:
    total = np.zeros(n, dtype=complex)
    np.add.at(total, bus, values)
    return total


def _power(value: complex) -> str:
    return f"{number(value.real)} MW, {number(value.imag)} MVAr"


def _most(values: Floats) -> float:
    return float(np.nanmax(values)) if np.any(np.isfinite(values)) else float("nan")
