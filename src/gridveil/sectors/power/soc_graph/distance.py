"""A safe lower bound on the distance of any release, from a few solves on the bus graph.

Some flow serves d at a cost of at most f̃ + β, and its chords reach f̃ − β. With a weight κ on what the flow exceeds the upper
end by (or, for κ < 0, falls short of the lower one by), the relaxed problem

    g(κ) = min ‖d − d̃‖² + κ·(cost − f̃ − β)        for κ ≥ 0
    g(κ) = min ‖d − d̃‖² − κ·(f̃ − β − chords)      for κ < 0

has no row that couples all buses, and demands are local variables of their buses. Every g(κ) is a lower bound. g is concave: its
slope is the excess of the cost for κ > 0, and what the chords have to spare for κ < 0, which is more, as chords lie above
costs. The best κ is bracketed and found by secants. Two tangents bound what more could be gained, and so does the distance of
any point that is known: the search ends as soon as that is little. `ConicProgram` works the bound out from the multipliers of
the best solve, so it holds however that ended.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gridveil.core.band import CostTarget
from gridveil.programs.conic import BoundStatus, SocBound
from gridveil.sectors.power.soc import weighed_distance_model
from gridveil.sectors.power.soc_costs import ConvexCosts, convex_costs
from gridveil.sectors.power.soc_graph.lowering import LoweredGrid
from gridveil.sectors.power.soc_graph.multipliers import program_multipliers
from gridveil.sectors.power.soc_graph.solve import GraphSolution, Midway, solve_graph

Floats = NDArray[np.float64]
Complexes = NDArray[np.complex128]

ENOUGH = 9e-5
"""Of a known distance: what the best weight may still promise when the search ends."""
WIDEST_MARGIN = 4e-5
"""Of a known distance: what a bound may lose to make it safe."""
GAP_TOLERANCE = 1e-6
"""Of each solve, beside the objective: a hundredth of what is enough."""
LARGEST_GAP, LARGEST_RESIDUAL = 1e-3, 1e-4
"""Relative, of a solve whose slope is believed; the bound is worked out from its multipliers and believes nothing."""
MOST_SOLVES = 12
LEAST_GROWTH, GROWTH = 2.0, 30.0
"""Factors on the weight while the best one is not bracketed; most are within 30 times the first."""
BEYOND = 1.2
"""How far a step towards the best weight goes while that is not bracketed, so that it soon is."""
FIRST_UNIT = 0.1
"""The objective of a solve is measured in its weight, but in no less than this share of one that would move all demands by the
known distance."""
USUAL_EXCESS = 0.02
"""Of f̃: with so much to spare, the first weight changes g by no more than what is enough."""
INSIDE = 0.05
"""Share of the bracket that a secant keeps from its ends."""
FAR = 50.0
"""Ratio of two weights from which on the solve of one does not start from that of the other: it would take longer."""
WIDE = 10.0
"""Ratio of its ends from which a bracket counts as wide."""


@dataclass(frozen=True, eq=False, kw_only=True)
class _WeightTrial:
    """One solve: its κ in units of the lowered grid's scale, g and its slope there, and what the chords lack."""

    weight: float
    value: float
    slope: float
    lacking: float
    solution: GraphSolution
    midway: Midway | None
    """What other weights may start from."""

    @property
    def sound(self) -> bool:
        return self.solution.within(LARGEST_GAP, LARGEST_RESIDUAL) and math.isfinite(self.slope)


def distance_bound_on_graph(
    lowered: LoweredGrid, noisy: Complexes, target: CostTarget, reached: float
) -> SocBound | None:
    """Bound ‖d − d̃‖² from below for every d whose optimal cost lies in the band; None if no solve got anywhere.

    The grid is lowered with shifted demands, on which there are no limits. ``reached`` is the distance of a point that
    is known to satisfy the high-point relaxation.
    """
    clock = time.perf_counter()
    search = _WeightSearch(lowered, noisy, target, reached)
    best, is_best = search.run()
    if best is None:
        return None
    value = _proved(lowered, noisy, target, best)
    margin = best.value - value
    tight = is_best and margin <= WIDEST_MARGIN * reached
    return SocBound(
        value=max(value, 0.0),
        status=BoundStatus.SOLVED if tight else BoundStatus.INACCURATE,
        seconds=time.perf_counter() - clock,
        iterations=search.iterations,
        margin=margin,
    )


class _WeightSearch:
    """The search for the best weight."""

    def __init__(self, lowered: LoweredGrid, noisy: Complexes, target: CostTarget, reached: float) -> None:
        self._lowered, self._noisy, self._target, self._reached = lowered, noisy, target, reached
        generator = lowered.grid.generator
        self._cost: ConvexCosts = convex_costs(generator.cost, generator.p_min, generator.p_max)
        self._has_chords = bool(np.all(np.isfinite(self._cost.secant_intercept)))
        self._sites = np.bincount(lowered.grid.load_bus, minlength=lowered.grid.n_bus)
        self._below: _WeightTrial | None = None
        self._above: _WeightTrial | None = None
        self._trust = {True: 1.0, False: 1.0}
        self._steepness = max(abs(float(lowered.start_y[0, 0])), 1e-3) * math.sqrt(max(len(noisy), 1))
        self._least_unit = FIRST_UNIT * math.sqrt(reached) / self._steepness
        excess = USUAL_EXCESS * max(abs(target.value), target.beta) / lowered.scale
        self._little = ENOUGH * reached / excess
        self._usual_iterations = 0
        self.iterations = 0

    def run(self) -> tuple[_WeightTrial | None, bool]:
        """The best trial, if any is sound, and whether no weight is better by more than a little.

        The first weight is as good as none. Its slope tells whether the upper end of the band has any; if not, and the chords
        fall short there, the lower end has.
        """
        best: _WeightTrial | None = None
        for _ in range(MOST_SOLVES):
            trial = self._try(self._next())
            if not trial.sound:
                break
            best = trial if best is None or trial.value > best.value else best
            rises = trial.slope > 0
            if rises:
                self._below = trial
            else:
                self._above = trial
            self._trust[rises], self._trust[not rises] = 1.0, self._trust[not rises] / 2
            # that no distance is negative is known without a proof
            if self._most(trial) - max(best.value, 0.0) <= ENOUGH * self._reached:
                return best, True
        return best, False

    def _most(self, last: _WeightTrial) -> float:
        """What g can be at most: a known distance, that of a point in the band, or where two tangents meet."""
        most = self._reached
        if last.weight > 0 and last.slope <= 0 and last.lacking <= 0:
            most = min(most, last.value - last.weight * last.slope)
        below, above = self._below, self._above
        if below is not None and above is not None and below.slope > above.slope:
            meeting = (above.value - below.value + below.slope * below.weight - above.slope * above.weight) / (
                below.slope - above.slope
            )
            most = min(most, below.value + below.slope * (meeting - below.weight))
        return most

    def _next(self) -> float:
        below, above = self._below, self._above
        if below is not None and above is not None:
            # regula falsi; the end that stays where it is counts for less and less (Illinois)
            low, high = below.weight, above.weight
            rise, fall = self._trust[True] * below.slope, -self._trust[False] * above.slope
            share = min(max(rise / (rise + fall), INSIDE), 1 - INSIDE)
            if low > 0 and high > WIDE * low:
                return float(
                    low * (high / low) ** share
                )  # prices level off, so the slope is straighter over the logarithm
            return low + share * (high - low)
        last = below or above
        if last is None:
            return self._little
        if above is not None and last.weight > 0:
            return -self._little
        # the slope falls by half the squared prices per unit of weight
        step = BEYOND * last.slope / (0.5 * self._steepness**2)
        return last.weight * float(np.clip(1 + step / last.weight, LEAST_GROWTH, GROWTH))

    def _try(self, weight: float) -> _WeightTrial:
        lowered, target, scale = self._lowered, self._target, self._lowered.scale
        graph, local = lowered.graph, lowered.local
        is_shift = (local.generator < 0) & np.isinf(local.lower) & np.isinf(local.upper)
        above, below = max(weight, 0.0), max(-weight, 0.0)
        unit = max(above, below, self._least_unit)
        first = len(graph.linear) - 3 * len(graph.move_bus) - len(local.bus)
        quadratic, linear = np.zeros_like(graph.quadratic), np.zeros_like(graph.linear)
        own = slice(first, first + len(local.bus))
        # several sites at one bus share its shift equally
        quadratic[own] = np.where(is_shift, 2 / unit / np.maximum(self._sites[local.bus], 1), 0.0)
        quadratic[own] += above / unit * local.curvature / scale
        linear[own] = (above * local.slope - below * self._chord_slopes(local.generator)) / unit / scale
        constant = above * (lowered.constant - target.upper) / scale
        if below:
            constant += below * (target.lower - self._chords_at_zero) / scale
        for near in (self._midway_near(weight), None):
            solution = solve_graph(
                lowered,
                graph._replace(quadratic=quadratic, linear=linear),
                self._noisy,
                scale=unit,
                constant=constant,
                gap_tolerance=GAP_TOLERANCE,
                near=near,
            )
            self.iterations += solution.iterations
            if near is None or solution.within(LARGEST_GAP, LARGEST_RESIDUAL):
                break
        self._usual_iterations = self._usual_iterations or solution.iterations
        # a start that saved nothing is not passed on
        passed_on = near is None or solution.iterations < self._usual_iterations
        u = solution.local
        cost = lowered.constant + float(np.sum((local.slope + 0.5 * local.curvature * u) * u))
        lacking = -math.inf
        if self._has_chords:
            lacking = target.lower - self._chords_at_zero - float(np.sum(self._chord_slopes(local.generator) * u))
        slope = (cost - target.upper if weight > 0 else -lacking) / scale
        return _WeightTrial(
            weight=weight,
            value=solution.value,
            slope=slope,
            lacking=lacking,
            solution=solution,
            midway=solution.midway if passed_on else None,
        )

    def _midway_near(self, weight: float) -> Midway | None:
        """Where to start from: an end of the bracket on the same side of zero, the nearer one."""
        known = [one for one in (self._below, self._above) if one is not None and one.weight * weight > 0]
        nearest = min(known, key=lambda one: abs(math.log(one.weight / weight)), default=None)
        if nearest is None or abs(math.log(nearest.weight / weight)) > math.log(FAR):
            return None
        return nearest.midway

    def _chord_slopes(self, generator: NDArray[np.int64]) -> Floats:
        return np.where(generator >= 0, self._cost.secant_slope[np.maximum(generator, 0)], 0.0)

    @property
    def _chords_at_zero(self) -> float:
        """All chords where no local variable of the graph feeds anything."""
        fixed = self._lowered.fixed
        middle = 0.5 * (fixed.lower + fixed.upper)
        return float(np.sum(self._cost.secant_intercept) + np.sum(self._chord_slopes(fixed.generator) * middle))


def _proved(lowered: LoweredGrid, noisy: Complexes, target: CostTarget, trial: _WeightTrial) -> float:
    """What the multipliers of a trial prove; −inf at worst."""
    model = weighed_distance_model(lowered.grid, noisy, target, trial.weight / lowered.scale)
    rows, layout = model.program.stacked()
    z = program_multipliers(lowered, trial.solution, model, rows, layout)
    return model.program.safe_value(rows, z)
