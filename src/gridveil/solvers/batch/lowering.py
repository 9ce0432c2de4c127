"""From scenarios to the kernels' arrays, and from the kernels' points back to the network's order."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gridveil.core.errors import InputError
from gridveil.solvers.batch.contract import MOST_OUTAGES, Points, Scenarios
from gridveil.solvers.batch.layout import solver_settings
from gridveil.solvers.batch.network import BatchNetwork, relaxed_bounds

Floats = NDArray[np.float64]

_OF_GENERATORS = ("cost_1", "cost_2", "p_min", "p_max", "q_min", "q_max")


def refuse_unfit(network: BatchNetwork, scenarios: Scenarios) -> None:
    """Refuse scenarios that the kernels cannot represent."""
    grid = network.grid
    if scenarios.demand_p.shape[1] != len(grid.load_bus) or scenarios.demand_q.shape != scenarios.demand_p.shape:
        raise InputError(f"the network has {len(grid.load_bus)} load sites: give one column of P and of Q for each")
    changed = [scenarios.cost_1, scenarios.cost_2, scenarios.p_min, scenarios.p_max]
    if len(grid.line_gen) and any(array is not None for array in changed):
        raise InputError("a generator's cost is piecewise linear: scenarios cannot change costs or active limits here")
    for listed, count in ((scenarios.branch_out, len(grid.branch_from)), (scenarios.gen_out, len(grid.gen_bus))):
        if listed is not None and (listed.min(initial=-1) < -1 or listed.max(initial=-1) >= count):
            raise InputError("an outage names a branch or generator that the network does not have")


def outage_table(scenarios: Scenarios) -> NDArray[np.int32] | None:
    """(B, 2) branches out, −1 for none."""
    if scenarios.branch_out is None:
        return None
    table = np.full((len(scenarios), MOST_OUTAGES), -1, np.int32)
    table[:, : scenarios.branch_out.shape[1]] = scenarios.branch_out
    return table


def gen_on(network: BatchNetwork, scenarios: Scenarios) -> NDArray[np.bool_]:
    """(B, G) which generators take part."""
    on = np.ones((len(scenarios), len(network.grid.gen_bus)), bool)
    if scenarios.gen_out is not None:
        for listed in scenarios.gen_out.T:
            some = np.flatnonzero(listed >= 0)
            on[some, listed[some]] = False
    return on


def local_table(network: BatchNetwork, scenarios: Scenarios, xp: Any = np) -> Any:
    """(B, 4, n) low, high, quadratic, linear of every local variable, or None if all are as in the network.

    In the memory of ``xp``, where it is also written unless limits or costs are given: outages alone are sent as one row.
    """
    if not scenarios.varied:
        return None
    n_scenarios, n_segment, n = len(scenarios), len(network.segment_gen), network.n_local
    at = network.place_of_local
    given = any(getattr(scenarios, name) is not None for name in _OF_GENERATORS)
    table = np.empty((n_scenarios if given else 1, 4, n))
    table[:] = network.tables["local"].reshape(n, 4).T
    on, width = gen_on(network, scenarios), solver_settings()["FIXED_WIDTH"]
    active, reactive = at[:n_segment], at[n_segment:]
    own = np.arange(len(network.grid.gen_bus))
    for rows, of, low, high in ((active, network.segment_gen, "p_min", "p_max"), (reactive, own, "q_min", "q_max")):
        limits = {name: getattr(scenarios, name) for name in (low, high)}
        if all(array is None for array in limits.values()):
            continue
        least, most = (
            (np.broadcast_to(getattr(network.grid, name), on.shape) if array is None else array)[:, of]
            for name, array in limits.items()
        )
        table[:, 0, rows], table[:, 1, rows] = relaxed_bounds(least, most, most - least > width)
    scale = network.objective_scale
    for array, place, factor in ((scenarios.cost_2, 2, 2.0 * scale), (scenarios.cost_1, 3, scale)):
        if array is not None:
            table[:, place, active] = factor * array[:, network.segment_gen]
    off = xp.asarray(np.concatenate([~on[:, network.segment_gen], ~on], axis=1)[:, network.local_of])
    base, whole = xp.asarray(table), xp.empty((n_scenarios, 4, n))
    whole[:, :2] = xp.where(off[:, None], 0.0, base[:, :2])
    whole[:, 2:] = base[:, 2:]
    return whole


def cost_constants(network: BatchNetwork, scenarios: Scenarios) -> Floats:
    """(B,) cost at no output of the generators that take part."""
    if scenarios.gen_out is None:
        return np.full(len(scenarios), float(network.constants.sum()))
    constants: Floats = gen_on(network, scenarios) @ network.constants
    return constants


class _Places:
    """Where the kernels have what the network has, in the memory of ``xp``, to which it is sent once."""

    def __init__(self, network: BatchNetwork, xp: Any) -> None:
        n_load = len(network.grid.load_bus)
        self.bus, self.branch = xp.asarray(network.position), xp.asarray(network.branch_place.reshape(-1))
        self.load_bus = xp.asarray(network.position[network.grid.load_bus])
        self.local, self.flow_scale = xp.asarray(network.place_of_local), xp.asarray(network.flow_scale)
        self.bounds = xp.asarray(network.tables["local"].reshape(network.n_local, 4)[:, :2].T.copy())
        self.demand = xp.asarray(network.place_of_local[network.n_local - 2 * n_load :])
        """Of the demands, which are the last local variables of joint tasks."""


places = lru_cache(maxsize=32)(_Places)


def read_points(network: BatchNetwork, raw: Any, xp: Any = np, scale: Any = None) -> Points:
    """(B, n_point) as the kernels write them, to the network's order and units; ``xp`` is NumPy or CuPy.

    ``scale`` (B, 1) is the objective's, if that is not the network's cost.
    """
    grid = network.grid
    n_bus, n, n_segment, n_gen = grid.n_bus, network.n_local, len(network.segment_gen), len(grid.gen_bus)
    n_branch = len(grid.branch_from)
    scale = network.objective_scale if scale is None else scale
    there = places(network, xp)
    bus = raw[:, : 4 * n_bus].reshape(len(raw), n_bus, 4)[:, there.bus]
    local = raw[:, 4 * n_bus : 4 * n_bus + n][:, there.local]
    limit = raw[:, 4 * n_bus + 3 * n :]  # those of dense rows, if there are any, stand last
    branch = limit[:, there.branch].reshape(len(raw), n_branch, 4)
    flow_scale = there.flow_scale
    first = np.searchsorted(network.segment_gen, np.arange(n_gen))
    last = np.searchsorted(network.segment_gen, np.arange(n_gen), side="right") - 1
    pg = xp.zeros((len(raw), n_gen))
    for s in range(int((last - first).max(initial=0)) + 1):
        own = np.flatnonzero(first + s <= last)
        pg[:, xp.asarray(own)] += local[:, xp.asarray((first + s)[own])]
    return Points(
        va=bus[:, :, 0],
        vm=bus[:, :, 1],
        pg=pg,
        qg=local[:, n_segment : n_segment + n_gen],
        price_p=bus[:, :, 2] / scale,
        price_q=bus[:, :, 3] / scale,
        flow_from=branch[:, :, 0] / scale * flow_scale,
        flow_to=branch[:, :, 1] / scale * flow_scale,
        angle_above=branch[:, :, 2] / scale,
        angle_below=branch[:, :, 3] / scale,
    )
