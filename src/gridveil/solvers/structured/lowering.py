"""From a network to the arrays of the compiled code that all its tasks share."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gridveil.core.graph import components
from gridveil.programs.bus_order import BusOrder, analyse
from gridveil.programs.potentials import fit_potentials
from gridveil.sectors.power.arrays import OpfArrays
from gridveil.sectors.power.costs import upper_envelope
from gridveil.solvers.structured.branch_flows import flow_coefficients
from gridveil.solvers.structured.layout import GridData
from gridveil.solvers.structured.settings import (
    ANGLE_PULL,
    FIXED_WIDTH,
    MAGNITUDE_PULL,
    REFERENCE_PULL,
    RELAXATION,
)

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class OrderedGrid:
    """A network in elimination order, every branch oriented from its later to its earlier bus."""

    order: BusOrder
    swapped: Bools
    data: GridData
    no_load: Floats
    """(N, 2) angles and magnitudes at which as little current as possible flows: where a cold start begins."""


def ordered_grid(arrays: OpfArrays) -> OrderedGrid:
    """Order the buses and build the arrays that all tasks on the network share."""
    fixed = np.zeros((arrays.n_bus, 2), bool)
    fixed[_angle_references(arrays), 0] = True
    fixed[:, 1] = arrays.v_max - arrays.v_min <= FIXED_WIDTH
    order = analyse(
        arrays.n_bus, arrays.branch_from.astype(np.int64), arrays.branch_to.astype(np.int64), fixed[:, 0].copy()
    )
    at_from, at_to = order.position[arrays.branch_from], order.position[arrays.branch_to]
    swapped = at_from < at_to
    flow = flow_coefficients(arrays.y_ff, arrays.y_ft, arrays.y_tf, arrays.y_tt)
    # Seen from the other end the flows change places and the angle its sign.
    flow[swapped] = flow[swapped][:, [2, 3, 0, 1], :] * np.array([1.0, 1.0, -1.0])
    v_room, angle_room = RELAXATION * np.maximum(1.0, arrays.v_max), RELAXATION
    bus_at = order.bus_at
    admittance = 1.0 + np.abs(arrays.y_ft)
    ends = np.concatenate([arrays.branch_from, arrays.branch_to])
    around = np.ones(arrays.n_bus)
    np.add.at(around, ends, np.tile(admittance, 2))
    data = GridData(
        branch_from=np.where(swapped, at_to, at_from),
        branch_to=np.where(swapped, at_from, at_to),
        branch_block=order.branch_block,
        flow=flow,
        rate_squared=arrays.rate**2 * (1.0 + RELAXATION),
        flow_scale=1.0 / np.maximum(1.0, 2.0 * arrays.rate),
        angle_low=np.where(swapped, -arrays.angle_max, arrays.angle_min) - angle_room,
        angle_high=np.where(swapped, -arrays.angle_min, arrays.angle_max) + angle_room,
        shunt=np.stack([arrays.shunt_g, -arrays.shunt_b], axis=1)[bus_at],
        v_low=(arrays.v_min - v_room)[bus_at],
        v_high=(arrays.v_max + v_room)[bus_at],
        branch_admittance=admittance,
        bus_admittance=around[bus_at],
        fixed=fixed[bus_at],
    )
    no_load = _no_load_voltages(arrays, order, fixed[:, 0])
    return OrderedGrid(order=order, swapped=swapped, data=data, no_load=no_load)


def _no_load_voltages(arrays: OpfArrays, order: BusOrder, angle_fixed: Bools) -> Floats:
    """Fit log V_f − log V_t to the ratio at which no current enters each branch, weighted by admittance.

    A flat start sends hundreds of times its rating through a low impedance behind a tap or a phase shifter. The voltages are
    in elimination order.
    """
    ratio = np.log(-arrays.y_ft / arrays.y_ff)
    weight = np.abs(arrays.y_ft)
    start, end = order.position[arrays.branch_from], order.position[arrays.branch_to]
    # A pull to the flat start holds what the branches leave open; references are pulled hard.
    fixed = angle_fixed[order.bus_at]
    magnitude_pull = np.full(arrays.n_bus, MAGNITUDE_PULL)
    angle_pull = np.where(fixed, REFERENCE_PULL, ANGLE_PULL)
    log_v = fit_potentials(order, start, end, weight=weight, difference=ratio.real, pull=magnitude_pull)
    angle = fit_potentials(order, start, end, weight=weight, difference=ratio.imag, pull=angle_pull)
    return np.stack([np.where(fixed, 0.0, angle), np.exp(log_v)], axis=1)


def _angle_references(arrays: OpfArrays) -> Ints:
    island = components(arrays.n_bus, arrays.branch_from, arrays.branch_to)
    lacking = np.setdiff1d(island, island[arrays.reference])
    _, first_of_island = np.unique(island, return_index=True)
    return np.union1d(arrays.reference, first_of_island[lacking]).astype(np.int64)


@dataclass(frozen=True, eq=False, kw_only=True)
class Segments:
    """Active generation split where a cost is piecewise linear: generator k produces the sum of its segments."""

    gen: Ints
    low: Floats
    high: Floats
    slope: Floats
    curvature: Floats
    """cost = slope · w + curvature · w²"""
    constant: float


def cost_segments(arrays: OpfArrays) -> Segments:
    """Split each convex piecewise-linear cost into one linear variable per line of its upper envelope."""
    pieces: list[tuple[int, float, float, float, float]] = []
    constant = float(arrays.cost_0.sum())
    with_lines = set(arrays.line_gen.tolist())
    for k in range(len(arrays.gen_bus)):
        low, high = float(arrays.p_min[k]), float(arrays.p_max[k])
        c1, c2 = float(arrays.cost_1[k]), float(arrays.cost_2[k])
        if k not in with_lines:
            pieces.append((k, low, high, c1, c2))
            continue
        mine = arrays.line_gen == k
        slopes, starts, intercept = upper_envelope(arrays.line_slope[mine], arrays.line_intercept[mine], low, high)
        constant += intercept
        ends = np.append(starts[1:], high)
        pieces.append((k, low, float(ends[0]), float(slopes[0]) + c1, c2))
        pieces += [
            (k, 0.0, float(end - start), float(steeper) + c1, c2)
            for steeper, start, end in zip(slopes[1:], starts[1:], ends[1:], strict=True)
        ]
    table = np.array(pieces, dtype=float).reshape(-1, 5)
    gen = table[:, 0].astype(np.int64)
    lows, highs, slope, curvature = (table[:, column].copy() for column in range(1, 5))
    return Segments(gen=gen, low=lows, high=highs, slope=slope, curvature=curvature, constant=constant)


def split_generation(segments: Segments, pg: Floats) -> Floats:
    """Split active generation (G) over its segments, cheapest first."""
    left, split = pg.copy(), np.empty(len(segments.gen))
    for s, gen in enumerate(segments.gen.tolist()):
        last = s + 1 == len(segments.gen) or segments.gen[s + 1] != gen
        split[s] = left[gen] if last else min(left[gen], segments.high[s])
        left[gen] -= split[s]
    return split
