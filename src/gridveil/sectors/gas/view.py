"""A gas network before and after a release: supplies, compressors, pressures, pipe flows and drawing."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from gridveil.core.text import limits_words, number
from gridveil.sectors.gas.network import GasNetwork
from gridveil.sectors.gas.operating import PASCAL_PER_BAR, GasState
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


def gas_before_and_after(
    network: GasNetwork, sites: Sites, before: GasState, after: GasState, title: Callable[[str], str]
) -> BeforeAndAfter:
    """Compare two operating points; ``title`` formats the id of a junction."""
    names = [title(junction) for junction in network.junction.id]
    tabs = [
        _supplies(network, names, before, after),
        _pressures(network, names, before, after),
        _pipes(network, names, before, after),
    ]
    if network.compressor.id:
        tabs.insert(0, _compressors(network, names, before, after))
    return BeforeAndAfter(facts=_facts(sites, before, after), tabs=tabs, view=_view(network, sites, before, after))


def _facts(sites: Sites, before: GasState, after: GasState) -> list[tuple[str, str]]:
    rows = [
        ("Total demand", sites.true.sum(), sites.released.sum(), "kg/s"),
        ("Supply of regulated junctions", before.supply.sum(), after.supply.sum(), "kg/s"),
        ("Lowest pressure", before.pressure.min(), after.pressure.min(), "bar"),
        ("Highest pressure", before.pressure.max(), after.pressure.max(), "bar"),
    ]
    return [(name, f"{number(float(first))} → {number(float(second))} {unit}") for name, first, second, unit in rows]


def _compressors(network: GasNetwork, names: list[str], before: GasState, after: GasState) -> Tab:
    table = network.compressor
    at = [
        f"{name}: {names[i]} → {names[j]}"
        for name, i, j in zip(table.id, table.from_junction, table.to_junction, strict=True)
    ]
    first, second = before.compressor_ratio, after.compressor_ratio
    columns = {
        "compressor": at,
        "ratio before": first,
        "ratio after": second,
        "change": second - first,
        "ratio limits": [limits_words(low, high) for low, high in zip(table.ratio_min, table.ratio_max, strict=True)],
        "flow before (kg/s)": before.compressor_flow,
        "flow after (kg/s)": after.compressor_flow,
    }
    return Tab(
        name="Compressors",
        figure=BarsBeforeAndAfter(
            title="Pressure ratios of compressors",
            labels=table.id,
            before=first,
            after=second,
            limits=(table.ratio_min, table.ratio_max),
            axis="outlet over inlet pressure",
        ),
        caption="How much the compressors lift the pressure, at the true and at the released demands.",
        table=ChangeTable(id="compressors", columns=columns, change=second - first),
    )


def _supplies(network: GasNetwork, names: list[str], before: GasState, after: GasState) -> Tab:
    receipt = network.receipt
    at = [f"{names[k]} (regulated)" for k in network.slack] + [f"{names[k]} (fixed)" for k in receipt.junction]
    first, second = (np.concatenate([state.supply, receipt.injection]) for state in (before, after))
    unlimited = np.full(len(at), np.nan), np.full(len(at), np.nan)
    columns = {
        "supply at junction": at,
        "before (kg/s)": first,
        "after (kg/s)": second,
        "change (kg/s)": second - first,
    }
    return Tab(
        name="Supplies",
        figure=BarsBeforeAndAfter(
            title="Supplies", labels=at, before=first, after=second, limits=unlimited, axis="supply (kg/s)"
        ),
        caption="Regulated junctions feed in whatever the network needs; fixed supplies do not change.",
        table=ChangeTable(id="supplies", columns=columns, change=second - first),
    )


def _pressures(network: GasNetwork, names: list[str], before: GasState, after: GasState) -> Tab:
    change = after.pressure - before.pressure
    low, high = network.junction.p_min / PASCAL_PER_BAR, network.junction.p_max / PASCAL_PER_BAR
    columns = {
        "junction": names,
        "before (bar)": before.pressure,
        "after (bar)": after.pressure,
        "change (bar)": change,
        "limits (bar)": [limits_words(first, second) for first, second in zip(low, high, strict=True)],
    }
    return Tab(
        name="Pressures",
        figure=SortedValues(
            title="Pressures", before=before.pressure, after=after.pressure, axis="absolute pressure (bar)"
        ),
        caption="Absolute pressures of all junctions.",
        table=ChangeTable(id="pressures", columns=columns, change=change),
    )


def _pipes(network: GasNetwork, names: list[str], before: GasState, after: GasState) -> Tab:
    pipe = network.pipe
    ends = [
        f"{name}: {names[i]} → {names[j]}"
        for name, i, j in zip(pipe.id, pipe.from_junction, pipe.to_junction, strict=True)
    ]
    change = after.pipe_flow - before.pipe_flow
    columns = {
        "pipe": ends,
        "before (kg/s)": before.pipe_flow,
        "after (kg/s)": after.pipe_flow,
        "change (kg/s)": change,
    }
    return Tab(
        name="Pipe flows",
        figure=SortedValues(
            title="Flows in pipes",
            before=np.abs(before.pipe_flow),
            after=np.abs(after.pipe_flow),
            axis="flow, either way (kg/s)",
        ),
        caption="Mass flows of all pipes; in the table a negative flow runs against the pipe's direction.",
        table=ChangeTable(id="pipes", columns=columns, change=change),
    )


def _view(network: GasNetwork, sites: Sites, before: GasState, after: GasState) -> NetworkView:
    n = network.n_junction
    true, noisy, released = (
        np.bincount(network.site_junction, values, n) for values in (sites.true, sites.noisy, sites.released)
    )
    has_site = np.bincount(network.site_junction, minlength=n) > 0
    supplied = np.isin(np.arange(n), np.concatenate([network.slack, network.receipt.junction]))
    supply = [network.injection.copy() for _ in range(2)]
    for total, state in zip(supply, (before, after), strict=True):
        total[network.slack] += state.supply
    details = []
    for k in range(n):
        rows = []
        if has_site[k]:
            rows += [
                (f"{kind} demand", _flow(values[k]))
                for kind, values in (("True", true), ("Noisy", noisy), ("Released", released))
            ]
        if supplied[k]:
            rows += [("Supply before", _flow(supply[0][k])), ("Supply after", _flow(supply[1][k]))]
        rows.append(("Pressure before, after", f"{number(before.pressure[k])}, {number(after.pressure[k])} bar"))
        details.append(rows)
    tables = (network.pipe, network.link, network.compressor, network.regulator)
    kinds = np.repeat(["Pipe", "Link", "Compressor", "Regulator"], [len(table.id) for table in tables])
    start = np.concatenate([table.from_junction for table in tables])
    end = np.concatenate([table.to_junction for table in tables])
    other = np.full(len(network.link.id), np.nan)
    flows = [
        np.concatenate([state.pipe_flow, other, state.compressor_flow, np.full(len(network.regulator.id), np.nan)])
        for state in (before, after)
    ]
    titles = [
        f"{kind} {name}: {number(first)} → {number(second)} kg/s"
        for kind, name, first, second in zip(
            kinds, (name for table in tables for name in table.id), *flows, strict=True
        )
    ]
    return NetworkView(
        ids=list(network.junction.id),
        weight=np.abs(true),
        supplied=supplied,
        start=start,
        end=end,
        marked=np.isin(kinds, ["Compressor", "Regulator"]),
        marked_words="compressors and regulators",
        edge_titles=titles,
        details=details,
        changes=[
            Changes(
                name="Change of demand",
                unit="kg/s",
                of_edges=False,
                values=np.where(has_site, released - true, np.nan),
                adds_up=True,
            ),
            Changes(name="Change of pressure", unit="bar", of_edges=False, values=after.pressure - before.pressure),
            Changes(name="Change of flow", unit="kg/s", of_edges=True, values=flows[1] - flows[0]),
        ],
    )


def _flow(value: float) -> str:
    return f"{number(value)} kg/s"
