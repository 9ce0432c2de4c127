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
    dc_block: Ints
    """(H,) which block of the pattern couples the two buses of each DC line."""
    swapped: Bools
    data: GridData
    no_load: Floats
    """(N, 2) angles and magnitudes at which as little current as possible flows: where a cold start begins."""


def ordered_grid(arrays: OpfArrays) -> OrderedGrid:
    """Order the buses and build the arrays that all tasks on the network share."""
    fixed = np.zeros((arrays.n_bus, 2), bool)
    fixed[_angle_references(arrays), 0] = True
    fixed[:, 1] = arrays.v_max - arrays.v_min <= FIXED_WIDTH
    # The power of a DC line couples the balances of its two buses like a branch.
    joined_from = np.concatenate([arrays.branch_from, arrays.dc_from]).astype(np.int64)
    joined_to = np.concatenate([arrays.branch_to, arrays.dc_to]).astype(np.int64)
    n_branch, order = len(arrays.branch_from), analyse(arrays.n_bus, joined_from, joined_to, fixed[:, 0].copy())
    at_from, at_to = order.position[arrays.branch_from], order.position[arrays.branch_to]
    swapped = at_from < at_to
    flow = flow_coefficients(arrays.y_ff, arrays.y_ft, arrays.y_tf, arrays.y_tt)
    # Seen from the other end the flows change places and the angle its sign.
    flow[swapped] = flow[swapped][:, [2, 3, 0, 1], :] * np.array([1.0, 1.0, -1.0])
    on_current = np.isfinite(arrays.current)
    v_room, angle_room = RELAXATION * np.maximum(1.0, arrays.v_max), RELAXATION
    bus_at = order.bus_at
    admittance = 1.0 + np.abs(arrays.y_ft)
    ends = np.concatenate([arrays.branch_from, arrays.branch_to])
    around = np.ones(arrays.n_bus)
    np.add.at(around, ends, np.tile(admittance, 2))
    data = GridData(
        branch_from=np.where(swapped, at_to, at_from),
        branch_to=np.where(swapped, at_from, at_to),
        branch_block=order.branch_block[:n_branch],
        flow=flow,
        rate_squared=np.where(on_current, 0.0, arrays.rate**2) * (1.0 + RELAXATION),
        current_squared=np.where(on_current, arrays.current, 0.0) ** 2 * (1.0 + RELAXATION),
        flow_scale=1.0 / np.maximum(1.0, 2.0 * np.where(on_current, arrays.current, arrays.rate)),
        angle_low=np.where(swapped, -arrays.angle_max, arrays.angle_min) - angle_room,
        angle_high=np.where(swapped, -arrays.angle_min, arrays.angle_max) + angle_room,
        shunt=np.stack([arrays.shunt_g, -_fixed_susceptance(arrays)], axis=1)[bus_at],
        v_low=(arrays.v_min - v_room)[bus_at],
        v_high=(arrays.v_max + v_room)[bus_at],
        branch_admittance=admittance,
        bus_admittance=around[bus_at],
        fixed=fixed[bus_at],
    )
    no_load = _no_load_voltages(arrays, order, fixed[:, 0])
    return OrderedGrid(order=order, dc_block=order.branch_block[n_branch:], swapped=swapped, data=data, no_load=no_load)


def _fixed_susceptance(arrays: OpfArrays) -> Floats:
    """Susceptance of the shunts at each bus, with compensators whose limits leave no choice."""
    fixed = arrays.svc_max - arrays.svc_min <= FIXED_WIDTH
    total = arrays.shunt_b.copy()
    np.add.at(total, arrays.svc_bus[fixed], 0.5 * (arrays.svc_min + arrays.svc_max)[fixed])
    return total


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
    """Outputs split where a cost is piecewise linear: output k is the sum of its segments."""

    output: Ints
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
    with_lines = set(arrays.line_output.tolist())
    limits = np.array(
        [
            np.concatenate([arrays.p_min, arrays.q_min, arrays.dc_min]),
            np.concatenate([arrays.p_max, arrays.q_max, arrays.dc_max]),
        ]
    )
    for k, (low, high) in enumerate(limits.T.tolist()):
        c1, c2 = float(arrays.cost_1[k]), float(arrays.cost_2[k])
        if k not in with_lines:
            pieces.append((k, low, high, c1, c2))
            continue
        mine = arrays.line_output == k
        slopes, starts, intercept = upper_envelope(arrays.line_slope[mine], arrays.line_intercept[mine], low, high)
        constant += intercept
        ends = np.append(starts[1:], high)
        pieces.append((k, low, float(ends[0]), float(slopes[0]) + c1, c2))
        pieces += [
            (k, 0.0, float(end - start), float(steeper) + c1, c2)
            for steeper, start, end in zip(slopes[1:], starts[1:], ends[1:], strict=True)
        ]
    table = np.array(pieces, dtype=float).reshape(-1, 5)
    output = table[:, 0].astype(np.int64)
    lows, highs, slope, curvature = (table[:, column].copy() for column in range(1, 5))
    return Segments(output=output, low=lows, high=highs, slope=slope, curvature=curvature, constant=constant)


def split_outputs(segments: Segments, outputs: Floats) -> Floats:
    """Split all outputs over their segments, cheapest first."""
    left, split = outputs.copy(), np.empty(len(segments.output))
    for s, k in enumerate(segments.output.tolist()):
        last = s + 1 == len(segments.output) or segments.output[s + 1] != k
        split[s] = left[k] if last else min(left[k], segments.high[s])
        left[k] -= split[s]
    return split
