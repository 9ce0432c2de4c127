"""Scenarios with their solutions, and as the Arrow tables of gridfm-datakit.

Column names and units are those of that project (docs/guides/data-sets.md). Buses, branches, generators and loads stand in the
order of the network's energised part.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from gridveil.solvers.batch.contract import BatchAnswer, Points, Scenarios
from gridveil.solvers.batch.lowering import gen_on
from gridveil.solvers.batch.network import BatchNetwork

if TYPE_CHECKING:
    from gridveil.sectors.power.network import PowerNetwork

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False, kw_only=True)
class Solved:
    """Scenarios ``first`` … with their answers."""

    network: PowerNetwork
    lowered: BatchNetwork
    first: int
    scenarios: Scenarios
    answer: BatchAnswer
    """With points only if a layout is made of them."""
    vectors: dict[str, NDArray[np.float32]] = field(default_factory=dict)
    """PGLearn's columns of the solved scenarios, if these are wanted instead."""

    @property
    def points(self) -> Points:
        """Points of all scenarios, solved or not."""
        assert self.answer.points is not None
        return self.answer.points

    @cached_property
    def branch_on(self) -> NDArray[np.bool_]:
        """(B, L) branches that take part."""
        on = np.ones((len(self.scenarios), len(self.lowered.grid.branch_from)), bool)
        out = self.scenarios.branch_out
        for listed in () if out is None else out.T:
            some = np.flatnonzero(listed >= 0)
            on[some, listed[some]] = False
        return on

    @cached_property
    def gen_on(self) -> NDArray[np.bool_]:
        """(B, G) generators that take part."""
        return gen_on(self.lowered, self.scenarios)

    @cached_property
    def flows(self) -> tuple[NDArray[np.complex128], NDArray[np.complex128]]:
        """(B, L) complex power into each branch at its from and to ends, per unit."""
        grid = self.lowered.grid
        voltage = self.points.vm * np.exp(1j * self.points.va)
        at_from, at_to = voltage[:, grid.branch_from], voltage[:, grid.branch_to]
        from_end = at_from * np.conj(grid.y_ff * at_from + grid.y_ft * at_to)
        to_end = at_to * np.conj(grid.y_tf * at_from + grid.y_tt * at_to)
        return from_end * self.branch_on, to_end * self.branch_on


def gridfm_tables(solved: Solved) -> dict[str, pa.Table]:
    """The tables bus_data, gen_data, branch_data and y_bus_data of the solved scenarios, one row per element."""
    chosen = np.flatnonzero(solved.answer.converged)
    return {
        "bus_data": _gridfm_buses(solved, chosen),
        "gen_data": _gridfm_generators(solved, chosen),
        "branch_data": _gridfm_branches(solved, chosen),
        "y_bus_data": _gridfm_admittances(solved, chosen),
    }


def _stacked(solved: Solved, chosen: NDArray[np.int64], columns: dict[str, Any]) -> pa.Table:
    """Columns given per element, or per scenario and element, one under the other."""
    count = max(array.shape[-1] for array in columns.values())
    scenario = np.repeat(solved.first + chosen, count)
    rows = {
        name: np.tile(array, len(chosen)) if array.ndim == 1 else array[chosen].reshape(-1)
        for name, array in columns.items()
    }
    return pa.table({"scenario": scenario, "load_scenario_idx": scenario.astype(float), **rows})


def _gridfm_buses(solved: Solved, chosen: NDArray[np.int64]) -> pa.Table:
    grid, base = solved.network.grid, solved.network.base_mva
    arrays, points = solved.lowered.grid, solved.points
    n_bus, count = grid.n_bus, len(points.vm)
    demand, generation = np.zeros((n_bus, count), complex), np.zeros((n_bus, count), complex)
    np.add.at(demand, arrays.load_bus, (solved.scenarios.demand_p + 1j * solved.scenarios.demand_q).T)
    np.add.at(generation, arrays.gen_bus, (points.pg + 1j * points.qg).T)
    reference, feeding = np.isin(np.arange(n_bus), arrays.reference), np.zeros((n_bus, count), bool)
    np.logical_or.at(feeding, arrays.gen_bus, solved.gen_on.T)
    feeding = feeding.T  # a bus whose generators are all out holds no voltage
    columns = {
        "bus": np.arange(n_bus),
        "Pd": base * demand.T.real,
        "Qd": base * demand.T.imag,
        "Pg": base * generation.T.real,
        "Qg": base * generation.T.imag,
        "Vm": points.vm,
        "Va": np.degrees(points.va),
        "PQ": (~reference & ~feeding).astype(float),
        "PV": (~reference & feeding).astype(float),
        "REF": reference.astype(float),
        "vn_kv": grid.bus.base_kv,
        "min_vm_pu": arrays.v_min,
        "max_vm_pu": arrays.v_max,
        "GS": arrays.shunt_g,
        "BS": arrays.shunt_b,
    }
    return _stacked(solved, chosen, columns)


def _gridfm_generators(solved: Solved, chosen: NDArray[np.int64]) -> pa.Table:
    base, arrays, points = solved.network.base_mva, solved.lowered.grid, solved.points
    columns = {
        "idx": np.arange(len(arrays.gen_bus)).astype(float),
        "bus": arrays.gen_bus,
        "p_mw": base * points.pg,
        "q_mvar": base * points.qg,
        "min_p_mw": base * arrays.p_min,
        "max_p_mw": base * arrays.p_max,
        "min_q_mvar": base * arrays.q_min,
        "max_q_mvar": base * arrays.q_max,
        "cp0_eur": arrays.cost_0,
        "cp1_eur_per_mw": arrays.cost_1 / base,
        "cp2_eur_per_mw2": arrays.cost_2 / base**2,
        "in_service": solved.gen_on.astype(float),
        "is_slack_gen": np.isin(arrays.gen_bus, arrays.reference).astype(float),
    }
    return _stacked(solved, chosen, columns)


def _gridfm_branches(solved: Solved, chosen: NDArray[np.int64]) -> pa.Table:
    network, arrays = solved.network, solved.lowered.grid
    base, branch, on = network.base_mva, network.branch, network.branch_on
    from_end, to_end = solved.flows
    status = solved.branch_on.astype(float)
    admittances = {
        f"{name}_{part}": status * (array.real if part == "r" else array.imag)
        for name, array in (("Yff", arrays.y_ff), ("Yft", arrays.y_ft), ("Ytf", arrays.y_tf), ("Ytt", arrays.y_tt))
        for part in ("r", "i")
    }
    columns = {
        "idx": np.arange(len(arrays.branch_from)).astype(float),
        "from_bus": arrays.branch_from,
        "to_bus": arrays.branch_to,
        "pf": base * from_end.real,
        "qf": base * from_end.imag,
        "pt": base * to_end.real,
        "qt": base * to_end.imag,
        "r": branch.impedance[on].real,
        "x": branch.impedance[on].imag,
        "b": (branch.shunt_from + branch.shunt_to)[on].imag,
        **admittances,
        "tap": np.abs(branch.tap[on]),
        "shift": np.degrees(np.angle(branch.tap[on])),
        "ang_min": np.degrees(arrays.angle_min),
        "ang_max": np.degrees(arrays.angle_max),
        "rate_a": base * arrays.rate,
        "br_status": status,
    }
    return _stacked(solved, chosen, columns)


def _gridfm_admittances(solved: Solved, chosen: NDArray[np.int64]) -> pa.Table:
    """The entries of the bus admittance matrix of each scenario; without its outages, that of the whole network."""
    arrays, n_bus = solved.lowered.grid, solved.lowered.grid.n_bus
    ends = (arrays.branch_from, arrays.branch_from, arrays.branch_to, arrays.branch_to)
    others = (arrays.branch_from, arrays.branch_to, arrays.branch_from, arrays.branch_to)
    own = np.arange(n_bus)
    place = np.concatenate([*(i * n_bus + j for i, j in zip(ends, others, strict=True)), own * (n_bus + 1)])
    keys, at = np.unique(place, return_inverse=True)
    tables = []
    shunt = arrays.shunt_g + 1j * arrays.shunt_b
    for s in chosen.tolist():
        on = solved.branch_on[s]
        values = np.concatenate([*(on * y for y in (arrays.y_ff, arrays.y_ft, arrays.y_tf, arrays.y_tt)), shunt])
        total = np.zeros(len(keys), complex)
        np.add.at(total, at, values)
        there = np.flatnonzero(total)
        tables.append((np.full(len(there), solved.first + s), keys[there], total[there]))
    scenario, key, total = (
        np.concatenate(parts) if tables else np.zeros(0, kind)
        for parts, kind in zip(zip(*tables, strict=True) if tables else ((), (), ()), (int, int, complex), strict=True)
    )
    index1, index2 = np.divmod(key, n_bus)
    return pa.table(
        {
            "scenario": scenario,
            "load_scenario_idx": scenario.astype(float),
            "index1": index1,
            "index2": index2,
            "G": total.real,
            "B": total.imag,
        }
    )
