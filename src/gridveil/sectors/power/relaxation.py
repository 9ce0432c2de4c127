"""The second-order-cone relaxation as a ``Relaxation``, and the relaxed cost with priced moves."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.polynomial import Polynomial
from numpy.typing import NDArray

from gridveil.core.band import CostTarget
from gridveil.core.lazy import lazy_module
from gridveil.programs.compilation import compilation_is_postponed
from gridveil.programs.conic import Affine, BoundStatus, ConeLayout, ConicProgram, SocBound
from gridveil.sectors.model import PricedCost
from gridveil.sectors.power.costs import GeneratorCosts
from gridveil.sectors.power.network import Grid
from gridveil.sectors.power.soc import check_sites, soc_distance_bound, soc_lower_bound
from gridveil.sectors.power.soc_costs import relaxed_powers
from gridveil.sectors.power.soc_model import (
    Block,
    Voltage,
    assemble,
    bus_pairs,
    constraint_cost_level,
    constraint_network,
    cost_scale,
    generation_box,
    variable_voltage,
)

if TYPE_CHECKING:
    from scipy import sparse

    from gridveil.sectors.power.soc_graph.lowering import LoweredGrid
else:
    sparse = lazy_module("scipy.sparse")

Floats = NDArray[np.float64]
Complexes = NDArray[np.complex128]

ROUGH_GAP = 1e-5  # relative: of a solve whose prices need not be exact
LARGEST_GAP = 1e-6  # relative, between both objectives of the conic solver: beyond it there is no value worth the name


@dataclass(frozen=True, eq=False)
class PowerRelaxation:
    """What the relaxation of a grid's AC optimal power flow can prove and estimate. d is P of all sites, then Q."""

    grid: Grid
    name: str = "second-order cone"

    def cost_bound(self, d: Floats) -> SocBound:
        """Bound O(d) from below."""
        demand, lowered = _complex(d), self._bounding_graph
        check_sites(self.grid, demand)
        if lowered is None:
            return soc_lower_bound(self.grid, demand)
        from gridveil.sectors.power.soc_graph.bound import cost_bound_on_graph

        return cost_bound_on_graph(lowered, demand)

    def relaxed_cost(self, d: Floats) -> float | None:
        """The relaxed cost at d as the solver on the bus graph found it; the bound where that one did not get there."""
        lowered = self._bounding_graph
        if lowered is not None:
            from gridveil.sectors.power.soc_graph.solve import solve_on_graph

            solution = solve_on_graph(lowered, _complex(d))
            if solution.accurate:
                return solution.value
        return self.cost_bound(d).value

    def distance_bound(
        self, noisy: Floats, band: CostTarget, d_lower: Floats, d_upper: Floats, *, reached: float | None = None
    ) -> SocBound:
        """Bound ‖d − d̃‖² from below for every d whose optimal cost lies in the band.

        First on the bus graph, where d has no limits and a distance that was ``reached`` is known; then by the conic solver.
        """
        demand = _complex(noisy)
        free = bool(np.all(np.isneginf(d_lower)) and np.all(np.isposinf(d_upper)))
        if reached is not None and reached > 0 and free and self._shifted_graph is not None:
            from gridveil.sectors.power.soc_graph.distance import distance_bound_on_graph

            check_sites(self.grid, demand)
            found = distance_bound_on_graph(self._shifted_graph, demand, band, reached)
            if found is not None and found.status is BoundStatus.SOLVED:
                return found
            conic = soc_distance_bound(self.grid, demand, band, d_lower, d_upper)
            # both are safe, so the larger holds
            return max(
                (bound for bound in (conic, found) if bound and bound.value is not None), key=_value, default=conic
            )
        return soc_distance_bound(self.grid, demand, band, d_lower, d_upper)

    def priced_cost(
        self, d: Floats, price: float, *, rough: bool = False, near: PricedCost | None = None
    ) -> PricedCost | None:
        """C_L(d): the least relaxed cost of serving d + s plus ``price``·Σ|s_i| over complex moves s_i of the sites.

        One convex function of d, whatever d is: finite wherever some d + s can be served, never above the relaxed cost,
        and of slope at most ``price`` per site. None if both solvers fail: first the one on the bus graph, then the conic one.
        ``rough``: slopes right to a thousandth or so will do. A solve that starts ``near`` another takes a quarter fewer
        iterations as a rule.
        """
        start = None if near is None else near.start
        found = self._priced_on_graph(d, price, rough, start) if start is not None else None
        return found or self._priced_on_graph(d, price, rough, None) or self._priced_by_cones(d, price)

    def _priced_on_graph(self, d: Floats, price: float, rough: bool = False, start: object = None) -> PricedCost | None:
        lowered = self._priced_graph
        if lowered is None:
            return None
        from gridveil.sectors.power.soc_graph.interior_point import GAP_TOLERANCE
        from gridveil.sectors.power.soc_graph.solve import Midway, solve_on_graph

        near, tolerance = start if isinstance(start, Midway) else None, ROUGH_GAP if rough else GAP_TOLERANCE
        solution = solve_on_graph(lowered, _complex(d), price, gap_tolerance=tolerance, near=near)
        if not (solution.within(2 * ROUGH_GAP, 2 * ROUGH_GAP) if rough else solution.accurate):
            return None
        # d enters the balance of its bus beside the flows, so the slope is the price there; no longer than moves allow
        slope = solution.prices[self.grid.load_bus]
        size = np.hypot(slope[:, 0], slope[:, 1])
        within = np.where(size > price, price / np.maximum(size, price), 1.0)
        slope = (slope * within[:, None]).T.ravel()
        return PricedCost(value=solution.value, slope=slope, start=solution.midway)

    def _priced_by_cones(self, d: Floats, price: float) -> PricedCost | None:
        template = self._priced
        linear = np.where(template.is_size, price, template.program.linear)
        rows = Affine(template.rows.matrix, template.rows.constant + template.effect @ d)
        solution = replace(template.program, linear=linear).solve(scale=template.scale, stacked=(rows, template.layout))
        if solution is None or solution.gap > LARGEST_GAP * max(1.0, abs(solution.value)):
            return None
        # The multipliers of the last family of cones, (size, Re s, Im s) of each site. With rows M·x + c(d) in the cones and
        # the Lagrangian f − zᵀ(M·x + c), d enters c just as s enters M·x in all rows of the network; s enters nothing else but
        # the tails of its own cone. So ∂L/∂s = 0 says that ∂L/∂d equals the multipliers of these tails, sign included.
        tails = solution.last_cones[:, 1:]
        return PricedCost(value=solution.value, slope=tails.T.ravel())

    @cached_property
    def _priced_graph(self) -> LoweredGrid | None:
        return _lowered(self.grid, moves=True, limit_losses=False)

    @cached_property
    def _bounding_graph(self) -> LoweredGrid | None:
        return _lowered(self.grid, moves=False, limit_losses=True)

    @cached_property
    def _shifted_graph(self) -> LoweredGrid | None:
        return _lowered(self.grid, moves=False, limit_losses=True, shifted=True)

    @cached_property
    def _priced(self) -> _PricedTemplate:
        return _priced_template(self.grid)

    @cached_property
    def dearest_price(self) -> float:
        """The largest marginal cost of any generator between its limits, $/h per unit, and of any DC line on top of it.

        A generator without a limit is taken up to what the branches at its bus can carry.
        """
        n, line = len(self.grid.load_bus), self.grid.dc_line
        box = generation_box(self.grid, np.zeros(n), np.zeros(n))
        by_line = _dearest(line.cost, line.p_min, line.p_max) if len(line.from_bus) else 0.0
        return _dearest(self.grid.generator.cost, *box) + max(by_line, 0.0)


def _lowered(grid: Grid, *, moves: bool, limit_losses: bool, shifted: bool = False) -> LoweredGrid | None:
    """The grid for the solver on the bus graph; None where the conic solver takes its place."""
    if compilation_is_postponed():
        return None
    from gridveil.sectors.power.soc_graph.lowering import lower_grid

    return lower_grid(grid, moves=moves, limit_losses=limit_losses, shifted=shifted)


@dataclass(frozen=True, eq=False, kw_only=True)
class _PricedTemplate:
    """The program of C_L without demand: only constants of its rows depend on d, and only the price of |s| on L."""

    program: ConicProgram
    rows: Affine
    layout: ConeLayout
    scale: float
    effect: Any
    """What d adds to the constants: scipy sparse, rows × data."""
    is_size: NDArray[np.bool_]
    """Which variables are the sizes |s| of moves."""


def _priced_template(grid: Grid) -> _PricedTemplate:
    """Set up the relaxed AC-OPF over (w, α, ω, η, powers, level, s, |s|) at no demand and a price of one.

    Generators keep the limits of the file, so that nothing but the constants of the balances depends on the demand.
    """
    n = len(grid.load_bus)
    powers = relaxed_powers(grid, grid.generator.p_min, grid.generator.p_max)
    cost = powers.convex
    scale = cost_scale(cost, powers.low, powers.high)
    pairs = bus_pairs(grid)
    free = np.full(2 * n, np.inf)
    program, (w, loss, sine, tilt, power, level, move, size) = assemble(
        [
            *variable_voltage(grid, pairs),
            Block(lower=powers.low, upper=powers.high, quadratic=2 * cost.quadratic, linear=cost.linear),
            Block(lower=cost.level_lower / scale, upper=cost.level_upper / scale, linear=scale),
            Block(lower=-free, upper=free),
            Block(lower=np.zeros(n), upper=free[:n], linear=1.0),
        ]
    )
    program.constant = cost.constant
    p_move, q_move = (move.pick(np.arange(n) + start) for start in (0, n))
    constraint_network(program, grid, pairs, Voltage(w, loss, sine, tilt), power, (p_move, q_move))
    constraint_cost_level(program, cost, power, level, scale)
    program.add_cones(size, p_move, q_move)
    rows, layout = program.stacked()
    variables = np.arange(len(program.linear))
    moves, sizes = len(variables) - 3 * n, len(variables) - n
    # In all rows of the network d stands beside s; the cones of s itself, which come last, know nothing of d.
    effect = sparse.csr_array(rows.matrix.to_scipy()[:, moves:sizes])
    beside = sparse.diags_array((np.arange(effect.shape[0]) < effect.shape[0] - 3 * n).astype(float))
    return _PricedTemplate(
        program=program,
        rows=rows,
        layout=layout,
        scale=scale,
        effect=sparse.csr_array(beside @ effect),
        is_size=variables >= sizes,
    )


def _dearest(cost: GeneratorCosts, low: Floats, high: Floats) -> float:
    """Largest marginal cost of all powers between their limits."""
    slopes = [_largest_slope(Polynomial(c), a, b) for c, a, b in zip(cost.polynomial.T, low, high, strict=True)]
    return float(max([*slopes, *cost.line_slope]))


def _largest_slope(cost: Polynomial, low: float, high: float) -> float:
    """Largest marginal cost between the limits: at one of them, or where the second derivative vanishes."""
    marginal = cost.deriv()
    turns = np.asarray(marginal.deriv().roots(), dtype=complex)
    inside = [float(p) for p in turns[turns.imag == 0].real if low < p < high]
    ends = [p for p in (low, high) if np.isfinite(p)]
    return max((float(marginal(p)) for p in [*ends, *inside]), default=float(marginal.coef[0]))


def _value(bound: SocBound) -> float:
    return -np.inf if bound.value is None else bound.value


def _complex(d: Floats) -> Complexes:
    n = len(d) // 2
    return np.array(d[:n] + 1j * d[n:], dtype=np.complex128)
