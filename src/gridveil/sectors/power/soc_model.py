"""The second-order-cone relaxation of Model 1 (Jabr's variables, W = V·Vᴴ on the edges), family by family.

A voltage pair enters the AC model only through w_i = |V_i|², wr = Re(V_i·conj(V_j)) and wi = Im(V_i·conj(V_j)), in which
power flows are linear. The relaxation keeps wr² + wi² ≤ w_i·w_j and drops that angles add up to zero around loops. Like
PowerModels' SOCWRPowerModel it adds, for each pair of buses, the two lifted nonlinear cuts of Coffrin, Hijazi and Van
Hentenryck (arXiv:1512.04644); that model's limits on wr and wi follow from the cone, the cuts and the angle rows.
Reactive generation without a cost is the sum at each bus. Angles of reference buses have no image. A compensator's b·|V|² is
anything between b_min·w and b_max·w, and a limit on a current, |S|² ≤ current²·w, is a cone: both are exact in these variables.

wr and w are nearly equal across a short line, and their difference times a large admittance is the flow: hopeless for a
solver of limited precision. So the variables of a pair are the small quantities themselves, in a unit z of the pair's own:

    α = ½|V_i/τ − V_j|²/z²,   ω = Im(V_i/τ·conj(V_j))/z,   η = ½(w_i/|τ|² − w_j)/z,

with τ the turns ratio. They are an exact linear image of (w_i, w_j, wr, wi), and the cone becomes
ω² + η² ≤ α·(w_i/|τ|² + w_j − z²α).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gridveil.programs.conic import Affine, ConicProgram
from gridveil.programs.sparse_rows import SparseRows
from gridveil.sectors.power.network import Grid
from gridveil.sectors.power.soc_costs import ConvexCosts, RelaxedPowers, relaxed_powers

Floats = NDArray[np.float64]
Complexes = NDArray[np.complex128]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


@dataclass(frozen=True, eq=False, kw_only=True)
class BusPairs:
    """Pairs of buses i < j joined by one branch or more, and the angle limits of θ_i − θ_j that all of them obey."""

    i: Ints
    j: Ints
    angle_min: Floats
    angle_max: Floats
    ratio: Complexes
    """τ with V_i/τ near V_j: the turns ratio of the pair's strongest branch."""
    drop: Floats
    """What |V_i/τ − V_j| cannot exceed for the limits on voltages and on that branch's flow."""
    unit: Floats
    """z: between that limit and the impedance, so that neither its variables nor its flows are of extreme size."""
    of_branch: Ints
    along: Bools
    """Over branches: whether the branch runs from i to j."""


def bus_pairs(grid: Grid) -> BusPairs:
    """Return the pairs of connected buses."""
    low, high = np.minimum(grid.from_bus, grid.to_bus), np.maximum(grid.from_bus, grid.to_bus)
    keys, of_branch = np.unique(low * grid.n_bus + high, return_inverse=True)
    along = grid.from_bus < grid.to_bus
    angle_min, angle_max = np.full(len(keys), -np.inf), np.full(len(keys), np.inf)
    np.maximum.at(angle_min, of_branch, np.where(along, grid.angle_min, -grid.angle_max))
    np.minimum.at(angle_max, of_branch, np.where(along, grid.angle_max, -grid.angle_min))
    strongest = np.lexsort((np.abs(grid.y_ft), of_branch))[np.cumsum(np.bincount(of_branch)) - 1]
    ratio = _turns_ratio(grid, strongest, along[strongest])
    drop = _largest_drop(grid, strongest, along[strongest], ratio)
    return BusPairs(
        i=keys // grid.n_bus,
        j=keys % grid.n_bus,
        angle_min=angle_min,
        angle_max=angle_max,
        ratio=ratio,
        drop=drop,
        unit=np.sqrt(drop * np.minimum(1.0, 1 / np.abs(grid.y_ft[strongest]))),
        of_branch=of_branch,
        along=along,
    )


def _turns_ratio(grid: Grid, branch: Ints, along: Bools) -> Complexes:
    """τ of the pairs of these branches. Any τ is right; one of unusual size would only spoil the scaling, so it is one then."""
    with np.errstate(divide="ignore", invalid="ignore"):
        turns = -grid.y_tt[branch] / grid.y_tf[branch]
        ratio = np.where(along, turns, 1 / turns)
    return np.where((np.abs(ratio) > 0.5) & (np.abs(ratio) < 2.0), ratio, 1.0)


def _largest_drop(grid: Grid, branch: Ints, along: Bools, ratio: Complexes) -> Floats:
    """Limit |V_i/τ − V_j| for the pairs of these branches.

    The current at the from end is y_ft·(V_t − k·V_f) with k = −y_ff/y_ft, and at most rate/v_min.
    """
    v_min, v_max = np.maximum(grid.bus.v_min, 0.0), grid.bus.v_max
    source, sink = grid.from_bus[branch], grid.to_bus[branch]
    k = -grid.y_ff[branch] / grid.y_ft[branch]
    turns = np.where(along, ratio, 1 / ratio)
    with np.errstate(divide="ignore"):
        by_current = (
            grid.rate[branch] / v_min[source] / np.abs(grid.y_ft[branch]) + np.abs(k - 1 / turns) * v_max[source]
        )
    by_voltage = v_max[source] / np.abs(turns) + v_max[sink]
    # seen from the from bus it is |V_f/turns − V_t|; for a branch against its pair, |V_t·turns − V_f| is |turns| times that
    return np.minimum(by_current, by_voltage) * np.where(along, 1.0, np.abs(turns))


@dataclass(frozen=True, eq=False, kw_only=True)
class Block:
    """Limits of one family of variables, and the diagonal quadratic and linear terms of the objective in it."""

    lower: Floats
    upper: Floats
    quadratic: Floats | float = 0.0
    linear: Floats | float = 0.0


@dataclass(frozen=True, eq=False)
class RelaxedFlows:
    """Power entering each branch at its two ends."""

    p_from: Affine
    q_from: Affine
    p_to: Affine
    q_to: Affine


@dataclass(frozen=True, eq=False)
class Voltage:
    """w over buses; α, ω and η over pairs."""

    w: Affine
    loss: Affine
    sine: Affine
    tilt: Affine


@dataclass(frozen=True, eq=False)
class Products:
    """wr and wi over pairs, written with the w of bus i and then, one below the other, with the w of bus j.

    Both are the same numbers; the flow at an end has no large coefficients if written with the w of that end.
    """

    real: Affine
    imaginary: Affine

    def at_end(self, pairs: BusPairs, *, from_end: bool) -> tuple[Affine, Affine]:
        """|V_f||V_t|·cos and sin of θ_f − θ_t of each branch, written with the w of one of its ends."""
        seen_by_j = pairs.along != from_end
        rows = pairs.of_branch + np.where(seen_by_j, len(pairs.i), 0)
        return self.real.pick(rows), self.imaginary.pick(rows).times(np.where(pairs.along, 1.0, -1.0))


def assemble(blocks: list[Block]) -> tuple[ConicProgram, list[Affine]]:
    """Create an empty program over these variables, and each family of them as an expression."""
    sizes = [len(block.lower) for block in blocks]
    starts = np.cumsum([0, *sizes])
    identity = SparseRows.identity(int(starts[-1]))
    program = ConicProgram(
        lower=np.concatenate([block.lower for block in blocks]),
        upper=np.concatenate([block.upper for block in blocks]),
        quadratic=np.concatenate([np.broadcast_to(b.quadratic, n) for b, n in zip(blocks, sizes, strict=True)]),
        linear=np.concatenate([np.broadcast_to(b.linear, n) for b, n in zip(blocks, sizes, strict=True)]),
    )
    variables = [
        Affine(identity.pick(np.arange(start, start + size)), np.zeros(size))
        for start, size in zip(starts, sizes, strict=False)
    ]
    return program, variables


def largest_flows(grid: Grid) -> tuple[Floats, Floats]:
    """What |S| cannot exceed at the from and to ends of each branch, whatever its rate: voltages at their upper limits."""
    v_from, v_to = grid.bus.v_max[grid.from_bus], grid.bus.v_max[grid.to_bus]
    at_from = v_from * (np.abs(grid.y_ff) * v_from + np.abs(grid.y_ft) * v_to)
    at_to = v_to * (np.abs(grid.y_tt) * v_to + np.abs(grid.y_tf) * v_from)
    return at_from, at_to


def generation_box(grid: Grid, load_min: Floats, load_max: Floats) -> tuple[Floats, Floats]:
    """Limits of active generation; where the network states none, what the bus can take from it or bring to it."""
    generator, n = grid.generator, grid.n_bus
    at_from, at_to = largest_flows(grid)
    flow = np.bincount(grid.from_bus, at_from, n) + np.bincount(grid.to_bus, at_to, n)
    shunt = np.abs(grid.bus.shunt.real) * grid.bus.v_max**2
    reach = flow + _dc_line_reach(grid)
    most = reach + shunt + np.bincount(grid.load_bus, load_max, n)
    least = -reach - shunt + np.bincount(grid.load_bus, load_min, n)
    low, high = generator.p_min, generator.p_max
    with np.errstate(invalid="ignore"):
        implied_high = (most - np.bincount(generator.bus, low, n))[generator.bus] + low
        implied_low = (least - np.bincount(generator.bus, high, n))[generator.bus] + high
    return (
        np.where(np.isneginf(low) & np.isfinite(implied_low), implied_low, low),
        np.where(np.isposinf(high) & np.isfinite(implied_high), implied_high, high),
    )


def _dc_line_reach(grid: Grid) -> Floats:
    """What DC lines can draw from a bus or feed into it at most."""
    line, n = grid.dc_line, grid.n_bus
    carried = np.maximum(np.abs(line.p_min), np.abs(line.p_max))
    delivered = (1 - line.loss_1) * carried + np.abs(line.loss_0)
    return np.asarray(np.bincount(line.from_bus, carried, n) + np.bincount(line.to_bus, delivered, n), dtype=float)


def variable_voltage(grid: Grid, pairs: BusPairs) -> list[Block]:
    """Limits of w, α, ω and η: with D = V_i/τ − V_j, zω = Im(D·conj(V_j)) and 2zη = Re(D·conj(V_i/τ + V_j))."""
    v_min, v_max = np.maximum(grid.bus.v_min, 0.0), grid.bus.v_max
    v_i, v_j, drop = v_max[pairs.i] / np.abs(pairs.ratio), v_max[pairs.j], pairs.drop / pairs.unit
    sine, tilt = drop * np.minimum(v_i, v_j), drop * (v_i + v_j) / 2
    return [
        Block(lower=v_min**2, upper=v_max**2),
        Block(lower=np.zeros(len(drop)), upper=drop**2 / 2),
        Block(lower=-sine, upper=sine),
        Block(lower=-tilt, upper=tilt),
    ]


def expression_voltage_product(pairs: BusPairs, v: Voltage) -> Products:
    """V_i·conj(V_j) = τ·(w_i/|τ|² − zη − z²α + j·zω) = τ·(w_j + zη − z²α + j·zω)."""
    tilt, loss, sine = v.tilt.times(pairs.unit), v.loss.times(pairs.unit**2), v.sine.times(pairs.unit)
    by_i = v.w.pick(pairs.i).times(1 / np.abs(pairs.ratio) ** 2) - tilt - loss
    real, imaginary = by_i.above(v.w.pick(pairs.j) + tilt - loss), sine.above(sine)
    tau = np.tile(pairs.ratio, 2)
    return Products(real.times(tau.real) - imaginary.times(tau.imag), real.times(tau.imag) + imaginary.times(tau.real))


def constraint_voltage_limits(program: ConicProgram, grid: Grid, w: Affine) -> None:
    """(3): v_min² ≤ w ≤ v_max²."""
    constraint_between(program, w, np.maximum(grid.bus.v_min, 0.0) ** 2, grid.bus.v_max**2)


def constraint_voltage_product(program: ConicProgram, pairs: BusPairs, v: Voltage) -> None:
    """wr² + wi² ≤ w_i·w_j, as ‖(2ω, 2η, m − α)‖ ≤ m + α with m = w_i/|τ|² + w_j − z²α."""
    w_i, w_j = v.w.pick(pairs.i).times(1 / np.abs(pairs.ratio) ** 2), v.w.pick(pairs.j)
    program.add_zero((w_i - w_j).times(0.5) - v.tilt.times(pairs.unit))
    other = w_i + w_j - v.loss.times(pairs.unit**2)
    program.add_cones(other + v.loss, other - v.loss, v.sine.times(2.0), v.tilt.times(2.0))


def constraint_angle_difference(program: ConicProgram, pairs: BusPairs, wr: Affine, wi: Affine) -> None:
    """(4): tan(θ_min)·wr ≤ wi ≤ tan(θ_max)·wr, times the cosines; a case keeps its limits within ±90 degrees."""
    low, high = pairs.angle_min, pairs.angle_max
    program.add_nonnegative(wr.times(np.sin(high)) - wi.times(np.cos(high)))
    program.add_nonnegative(wi.times(np.cos(low)) - wr.times(np.sin(low)))


def constraint_lifted_cuts(
    program: ConicProgram, grid: Grid, pairs: BusPairs, w: Affine, wr: Affine, wi: Affine
) -> None:
    """The lifted nonlinear cuts.

    With θ within δ of φ, the middle of its limits, cos(φ)wr + sin(φ)wi ≥ cos(δ)·v_i·v_j; and v_i·v_j is bounded from below
    by two planes in (w_i, w_j), each of which meets it in three corners of the box of (v_i, v_j).
    """
    v_min, v_max = np.maximum(grid.bus.v_min, 0.0), grid.bus.v_max
    i_min, i_max, j_min, j_max = v_min[pairs.i], v_max[pairs.i], v_min[pairs.j], v_max[pairs.j]
    sum_i, sum_j = i_min + i_max, j_min + j_max
    middle, half = (pairs.angle_max + pairs.angle_min) / 2, (pairs.angle_max - pairs.angle_min) / 2
    projected = wr.times(np.cos(middle)) + wi.times(np.sin(middle))
    spread = i_max * j_max - i_min * j_min
    w_i, w_j = w.pick(pairs.i), w.pick(pairs.j)
    for v_i, v_j, side in ((i_max, j_max, 1.0), (i_min, j_min, -1.0)):
        plane = w_i.times(v_j / sum_i) + w_j.times(v_i / sum_j)
        plane = plane.plus(-side * v_i * v_j * spread / (sum_i * sum_j))
        program.add_nonnegative(projected - plane.times(np.cos(half)))


def expression_ohms_law(grid: Grid, pairs: BusPairs, w: Affine, products: Products) -> RelaxedFlows:
    """(8): S_ij = conj(Y_ii)w_i + conj(Y_ij)(wr + j·wi), for both ends of each branch."""
    w_i, w_j = w.pick(grid.from_bus), w.pick(grid.to_bus)
    y_ii, y_ij, y_ji, y_jj = grid.y_ff, grid.y_ft, grid.y_tf, grid.y_tt
    cos_i, sin_i = products.at_end(pairs, from_end=True)
    cos_j, sin_j = products.at_end(pairs, from_end=False)
    return RelaxedFlows(
        p_from=w_i.times(y_ii.real) + cos_i.times(y_ij.real) + sin_i.times(y_ij.imag),
        q_from=w_i.times(-y_ii.imag) - cos_i.times(y_ij.imag) + sin_i.times(y_ij.real),
        p_to=w_j.times(y_jj.real) + cos_j.times(y_ji.real) - sin_j.times(y_ji.imag),
        q_to=w_j.times(-y_jj.imag) - cos_j.times(y_ji.imag) - sin_j.times(y_ji.real),
    )


def constraint_power_balance(
    program: ConicProgram,
    grid: Grid,
    w: Affine,
    flows: RelaxedFlows,
    power: Affine,
    reactive_of: Ints,
    load: tuple[Affine, Affine],
) -> None:
    """(7) and the reactive half of (5): what leaves a bus is what its generators and other elements, within limits, give.

    ``reactive_of`` are the generators whose Q is among the powers.
    """
    n, generator, line = grid.n_bus, grid.generator, grid.dc_line
    n_gen, n_line = len(generator.bus), len(line.from_bus)
    p_gen, carried = power.pick(np.arange(n_gen)), power.pick(n_gen + np.arange(n_line))
    q_gen = power.pick(n_gen + n_line + np.arange(len(reactive_of)))
    active = flows.p_from.sum_at(grid.from_bus, n) + flows.p_to.sum_at(grid.to_bus, n)
    active += w.times(grid.bus.shunt.real) + load[0].sum_at(grid.load_bus, n)
    active += carried.sum_at(line.from_bus, n)
    delivered = carried.times(1 - line.loss_1).plus(-line.loss_0)
    program.add_zero(active - p_gen.sum_at(generator.bus, n) - delivered.sum_at(line.to_bus, n))
    reactive = flows.q_from.sum_at(grid.from_bus, n) + flows.q_to.sum_at(grid.to_bus, n)
    reactive += w.times(-grid.bus.shunt.imag) + load[1].sum_at(grid.load_bus, n)
    reactive = reactive - q_gen.sum_at(generator.bus[reactive_of], n)
    least, most = np.zeros(n), np.zeros(n)
    others = np.setdiff1d(np.arange(n_gen), reactive_of)
    np.add.at(least, generator.bus[others], generator.q_min[others])
    np.add.at(most, generator.bus[others], generator.q_max[others])
    # A compensator gives b·w, whatever b: anything between its two limits times w.
    compensator = grid.compensator
    b_min, b_max = np.zeros(n), np.zeros(n)
    np.add.at(b_min, compensator.bus, compensator.b_min)
    np.add.at(b_max, compensator.bus, compensator.b_max)
    chosen = b_min != b_max
    constraint_between(program, (reactive - w.times(b_min)).pick(~chosen), least[~chosen], most[~chosen])
    infinite = np.full(int(chosen.sum()), np.inf)
    constraint_between(program, (reactive - w.times(b_min)).pick(chosen), least[chosen], infinite)
    constraint_between(program, (reactive - w.times(b_max)).pick(chosen), -infinite, most[chosen])


def constraint_thermal_limit(program: ConicProgram, grid: Grid, flows: RelaxedFlows) -> None:
    """(6): |S| ≤ rate at both ends, where the voltage limits alone do not see to it."""
    largest_from, largest_to = largest_flows(grid)
    for p, q, largest in ((flows.p_from, flows.q_from, largest_from), (flows.p_to, flows.q_to, largest_to)):
        tight = np.flatnonzero(grid.rate < largest)
        limit = Affine(SparseRows.empty(len(tight), p.matrix.n_columns), grid.rate[tight])
        program.add_cones(limit, p.pick(tight), q.pick(tight))


def constraint_current_limit(program: ConicProgram, grid: Grid, flows: RelaxedFlows, w: Affine) -> None:
    """|S|² ≤ current²·w at both ends, as ‖(2P, 2Q, c − c·w)‖ ≤ c + c·w with the limit c."""
    limited = np.flatnonzero(np.isfinite(grid.current))
    c = grid.current[limited]
    ends = ((flows.p_from, flows.q_from, grid.from_bus), (flows.p_to, flows.q_to, grid.to_bus))
    for p, q, bus in ends:
        square = w.pick(bus[limited]).times(c)
        head, difference = square.plus(c), square.times(-1.0).plus(c)
        program.add_cones(head, p.pick(limited).times(2.0), q.pick(limited).times(2.0), difference)


def constraint_powers(program: ConicProgram, power: Affine, stated: RelaxedPowers) -> None:
    """The active half of (5), limits of DC lines, and the reactive half of (5) where reactive power has a cost."""
    constraint_between(program, power, stated.low, stated.high)


def constraint_cost_level(program: ConicProgram, cost: ConvexCosts, power: Affine, level: Affine, scale: float) -> None:
    """Each level, in units of ``scale``, is above all its lines."""
    lines = power.pick(cost.line_generator).times(cost.line_slope).plus(cost.line_intercept)
    program.add_nonnegative(level.pick(cost.line_level) - lines.times(1 / scale))


def cost_scale(cost: ConvexCosts, low: Floats, high: Floats) -> float:
    """A typical size of marginal costs in $/h per unit between these limits, for the solver's sake."""
    largest = np.nan_to_num(np.maximum(np.abs(low), np.abs(high)), posinf=1.0)
    marginal = np.abs(cost.linear) + 2 * cost.quadratic * largest
    return float(max(np.max(marginal, initial=0.0), np.max(np.abs(cost.line_slope), initial=0.0))) or 1.0


def constraint_network(
    program: ConicProgram, grid: Grid, pairs: BusPairs, v: Voltage, power: Affine, load: tuple[Affine, Affine]
) -> None:
    """Model 1 without its objective; ``power`` is that of ``relaxed_powers``, ``load`` is (P, Q) of each site."""
    stated = relaxed_powers(grid, grid.generator.p_min, grid.generator.p_max)
    products, by_i = expression_voltage_product(pairs, v), np.arange(len(pairs.i))
    wr, wi = products.real.pick(by_i), products.imaginary.pick(by_i)
    flows = expression_ohms_law(grid, pairs, v.w, products)
    constraint_voltage_limits(program, grid, v.w)
    constraint_voltage_product(program, pairs, v)
    constraint_angle_difference(program, pairs, wr, wi)
    constraint_lifted_cuts(program, grid, pairs, v.w, wr, wi)
    constraint_power_balance(program, grid, v.w, flows, power, stated.reactive, load)
    constraint_thermal_limit(program, grid, flows)
    constraint_current_limit(program, grid, flows, v.w)
    constraint_powers(program, power, stated)


def constraint_between(program: ConicProgram, rows: Affine, lower: Floats, upper: Floats) -> None:
    """Lower ≤ rows ≤ upper: an equation where both are the same, nothing where a limit is infinite."""
    fixed = lower == upper
    program.add_zero(rows.pick(fixed).plus(-lower[fixed]))
    below, above = ~fixed & np.isfinite(lower), ~fixed & np.isfinite(upper)
    program.add_nonnegative(rows.pick(below).plus(-lower[below]))
    program.add_nonnegative(rows.pick(above).times(-1.0).plus(upper[above]))
