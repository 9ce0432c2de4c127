"""Estimate the true optimal cost from private numbers alone: post-processing, which spends nothing.

The optimal cost O(d°) is not Lipschitz, not even finite for every d°, so it has no finite sensitivity. A sum of the true
values with public weights has one: its largest weight (``privacy.weighted_sum``). This module chooses the weights and
turns the noisy sum into an estimate of O(d°), from the noisy values d̃ and public data:

1. *Denoise.* Values are shrunk towards their mean as far as the known variance of the noise suggests (James and Stein).
2. *Linearise.* At the shrunken values r the relaxed cost C_L, in which any participant may be moved at a price L, has the
   tangent C_L(r) + y·(d − r), with |y_i| ≤ L. L lies just above the median nodal price, so that congestion made by noise
   neither inflates the weights nor bends the tangent. Without a relaxation, y are the capped prices ∂O/∂d at the nearest
   feasible values.
3. *Correct.* A tangent of a convex function lies below it, and the relaxation below O. How far is found by replicas: take
   released values as if they were the truth, add fresh noise, linearise again, and compare with the optimum there.
4. *Combine* with what the noisy values tell by themselves, weighted by the variances that the replicas show.

Where the cost vanishes over a range of ordinary data (gas), prices at noisy values are zero or enormous and a tangent says
nothing. There all weights are one: the sum is the total, which says on which side of that range the truth lies, and the
estimate is the optimal cost of the shrunken values, scaled to this total.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gridveil.bilevel.methods.auto import solve_auto
from gridveil.core.band import CostTarget
from gridveil.core.choices import CostTargetMode
from gridveil.core.errors import NoReleaseError
from gridveil.privacy.noisy import MechanismFacts, NoisyData, NoisySum
from gridveil.sectors.model import Model, PartLayout
from gridveil.solvers.solves import Solves

Vector = NDArray[np.float64]
Values = NDArray[Any]

SERVED = 1e-9  # squared distance of values that can be served as they are
DUST = 1e-9  # of the cost, per unit of a value: smaller weights are the rounding of a solver, not prices
PSEUDO_BAND = 0.01  # half-width, as a share of the measured cost, of the band in which values pass for the truth


@dataclass(frozen=True, kw_only=True)
class EstimateSettings:
    """Rules of the estimate; chosen on case30, 57, 118 and 300 of PGLib, seeds 6000 to 7030."""

    price_cap: float = 1.1
    """Price of moves, in median nodal prices."""
    replica_budget: int = 3000
    """Replicas are as many as this over the number of data, within limits: on a large network a relaxation takes seconds."""
    fewest_replicas: int = 1
    most_replicas: int = 12
    retreats: tuple[float, ...] = (0.5, 0.25, 0.0)
    """Where between the derived cost (0) and the estimate (1) to aim next, if the estimate's band cannot be reached."""


USUAL = EstimateSettings()


@dataclass(frozen=True, eq=False, kw_only=True)
class LinearCost:
    """constant + Σ Re(conj(weights_i)·d_i): an estimate of the cost that is linear in the values of all participants."""

    constant: float
    weights: Values

    def at(self, values: Values) -> float:
        """The estimate for given values, one per participant."""
        return self.constant + float(np.sum((np.conj(self.weights) * values).real))


@dataclass(frozen=True, kw_only=True)
class CostEstimate:
    """An estimate of O(d°) and the standard deviation that replicas and the noise's own law suggest."""

    value: float
    deviation: float
    from_values: float
    """The cost that the noisy values alone suggest; NaN where it has no part in the estimate and was not found."""


def linear_cost(
    model: Model,
    solves: Solves,
    noisy: NoisyData,
    settings: EstimateSettings = USUAL,
    *,
    price: float | None = None,
) -> LinearCost | None:
    """Linearise the cost at the shrunken noisy values; None if that cannot be done or all weights vanish.

    ``price`` of moves, where it is known already, as for replicas, spares the search for it and a last digit or two. Where
    costs vanish: the total instead.
    """
    if model.cost_vanishes:
        return LinearCost(constant=0.0, weights=model.layout.served.astype(float))
    values = shrunk(noisy)
    found = _relaxed_tangent(model, values, settings, price) or _priced_tangent(model, solves, values, settings)
    if found is None:
        return None
    value, slope, at = found
    weights = model.layout.weights(slope, values)
    if not np.all(np.isfinite(weights)) or float(np.max(np.abs(weights))) <= DUST * max(1.0, abs(value)):
        return None
    served = np.where(model.layout.served, at, 0)
    return LinearCost(constant=value - float(np.sum((np.conj(weights) * served).real)), weights=weights)


def estimate_cost(
    model: Model,
    solves: Solves,
    noisy: NoisyData,
    total: NoisySum,
    settings: EstimateSettings = USUAL,
) -> CostEstimate:
    """Estimate O(d°) from the noisy values and the noisy sum."""
    if model.cost_vanishes:
        cost = _cost_found(model, solves, _with_total(shrunk(noisy), model.layout.served, total.value))
        return CostEstimate(value=cost, deviation=math.nan, from_values=cost)
    measured = total.offset + total.value
    noise = math.sqrt(total.mechanism.expected_square)
    pseudo, optimum = _pseudo_truth(model, solves, noisy, measured)
    count = replicas(model.program.n_d, settings)
    # One replica shows no spread by which the values could be weighed, so where there is but one they are left out.
    alone = cost_near(model, solves, shrunk(noisy)) if pseudo is None or count > 1 or measured <= 0 else math.nan
    if pseudo is None:
        value = measured if math.isnan(alone) else alone
        return CostEstimate(value=value, deviation=math.nan, from_values=alone)
    price = float(np.max(np.abs(total.weights)))
    by_sum, by_values = _replica_errors(model, solves, noisy, pseudo, optimum, price, settings)
    corrected, spread = _corrected(measured, by_sum)
    variance = noise**2 + spread**2
    value, deviation = corrected, math.sqrt(variance)
    if len(by_values) > 1 and math.isfinite(alone):
        other, other_spread = _corrected(alone, by_values)
        weight = other_spread**2 / (other_spread**2 + variance)
        value = weight * corrected + (1 - weight) * other
        deviation = math.sqrt(weight) * deviation
    return CostEstimate(value=value, deviation=deviation, from_values=alone)


def replicas(n_d: int, settings: EstimateSettings = USUAL) -> int:
    """How many replicas correct an estimate on this many data."""
    return min(max(settings.replica_budget // n_d, settings.fewest_replicas), settings.most_replicas)


def cost_by_tangent(model: Model, solves: Solves, noisy: NoisyData) -> float | None:
    """Estimate O(d°) from noisy values that have the right totals, without a sum of its own; None if that cannot be done.

    The tangent at the shrunken values, less what it misses at values that could be the truth: no replicas, as the sum that
    they would correct is not noisy here.
    """
    linear = linear_cost(model, solves, noisy)
    if linear is None:
        return None
    measured = linear.at(noisy.values)
    pseudo, optimum = _pseudo_truth(model, solves, noisy, measured)
    return measured if pseudo is None else measured + optimum - linear.at(pseudo)


def _with_total(values: Values, served: NDArray[np.bool_], total: float) -> Values:
    """Values scaled so that those served add up to a total; all alike where noise left nothing positive to scale."""
    found = float(values[served].sum())
    if found <= 0 or total <= 0:
        return np.where(served, max(total, 0.0) / int(served.sum()), values)
    return np.where(served, values * (total / found), values)


def cost_near(model: Model, solves: Solves, values: Values) -> float:
    """O at the feasible values nearest to given ones; NaN if they are not found."""
    nearest = solves.nearest_feasible(model.layout.to_program(values))
    if not nearest.converged:
        return math.nan
    # Values that can be served with room to spare say nothing about prices: the solver's own start is the better one.
    answer = solves.fresh(nearest.d) if model.arrays is not None and nearest.delta <= SERVED else None
    if answer is None or not answer.converged:
        answer = solves.follow(nearest, None)
    return answer.cost if answer.converged else math.nan


def derived_cost(model: Model, solves: Solves, noisy: NoisyData) -> float:
    """A cost target that spends nothing: the optimal cost of the feasible values nearest to d̃."""
    return _cost_found(model, solves, noisy.values)


def _cost_found(model: Model, solves: Solves, values: Values) -> float:
    cost = cost_near(model, solves, values)
    if math.isnan(cost):
        raise NoReleaseError(
            "no cost target could be derived from the noisy values; give a forecast of the cost instead"
        )
    return cost


def shrunk(noisy: NoisyData) -> Values:
    """Shrink noisy values towards their mean, part by part, as far as the variance of their noise suggests."""
    parts = noisy.mechanism.parts
    if parts:
        return np.concatenate([_shrunk(part.of(noisy.values), part.facts) for part in parts]).astype(complex)
    return _shrunk(noisy.values, noisy.mechanism)


def _shrunk(values: Values, facts: MechanismFacts) -> Values:
    variance = facts.expected_square
    if not np.iscomplexobj(values):
        return _shrunk_part(values, variance)
    return _shrunk_part(values.real, variance / 2) + 1j * _shrunk_part(values.imag, variance / 2)


def _shrunk_part(values: Vector, variance: float) -> Vector:
    mean = float(values.mean())
    signal = max(float(values.var()) - variance, 0.0)
    return mean + (values - mean) * (signal / (signal + variance) if signal > 0 else 0.0)


def _relaxed_tangent(
    model: Model, values: Values, settings: EstimateSettings, price: float | None
) -> tuple[float, Vector, Values] | None:
    """C_L and its slope at the values, with L just above the median nodal price; None without a relaxation."""
    relaxation = model.relaxation
    if relaxation is None:
        return None
    d = model.layout.to_program(values)
    if price is None:
        price = relaxation.dearest_price
        first = relaxation.priced_cost(d, price, rough=True)
        sizes = model.layout.sizes(first.slope) if first is not None else np.zeros(0)
        cap = settings.price_cap * float(np.median(sizes)) if len(sizes) else 0.0
        if 0 < cap < float(np.max(sizes, initial=0.0)):
            capped = relaxation.priced_cost(d, cap, near=first)
            if capped is not None:
                return capped.value, capped.slope, values
        cost = relaxation.priced_cost(d, price, near=first)
    else:
        cost = relaxation.priced_cost(d, price, rough=True)
    return None if cost is None else (cost.value, cost.slope, values)


def _priced_tangent(
    model: Model, solves: Solves, values: Values, settings: EstimateSettings
) -> tuple[float, Vector, Values] | None:
    """O and its capped prices at the feasible values nearest to given ones."""
    nearest = solves.nearest_feasible(model.layout.to_program(values))
    answer = solves.follow(nearest, None) if nearest.converged else None
    if answer is None or not answer.converged or answer.prices is None:
        return None
    sizes = model.layout.sizes(answer.prices)
    priced = sizes[sizes > 0]
    cap = settings.price_cap * float(np.median(priced)) if len(priced) else 0.0
    if isinstance(model.layout, PartLayout):
        cap = math.inf  # what an output or a rating is worth differs by its size, not by congestion
    factors = np.minimum(1.0, cap / np.maximum(sizes, np.finfo(float).tiny))
    slope = model.layout.scaled(answer.prices, factors)
    return answer.cost, slope, model.layout.to_sites(nearest.d, values)


def _pseudo_truth(model: Model, solves: Solves, noisy: NoisyData, cost: float) -> tuple[Values | None, float]:
    """Values that could be the truth, with their optimal cost: near the shrunken ones, at about the measured cost."""
    values = shrunk(noisy)
    band = CostTarget(
        value=cost, beta=max(PSEUDO_BAND * abs(cost), np.finfo(float).tiny), source=CostTargetMode.DERIVED
    )
    point = solve_auto(solves.backend, model.layout.to_program(values), band)
    return (None, math.nan) if point.d is None else (model.layout.to_sites(point.d, values), point.cost)


def _replica_errors(
    model: Model,
    solves: Solves,
    noisy: NoisyData,
    pseudo: Values,
    optimum: float,
    price: float,
    settings: EstimateSettings,
) -> tuple[list[float], list[float]]:
    """What the linear estimate and the values alone miss, on fresh noise around values whose optimal cost is known."""
    generator = np.random.default_rng(0)
    count = replicas(model.program.n_d, settings)
    by_sum, by_values = [], []
    for _ in range(count):
        replica = NoisyData(values=pseudo + _like_noise(noisy, generator), mechanism=noisy.mechanism, simulation=True)
        linear = linear_cost(model, solves, replica, settings, price=price)
        if linear is not None:
            by_sum.append(optimum - linear.at(pseudo))
        alone = cost_near(model, solves, shrunk(replica)) if count > 1 else math.nan
        if math.isfinite(alone):
            by_values.append(optimum - alone)
    return by_sum, by_values


def _like_noise(noisy: NoisyData, generator: np.random.Generator) -> Values:
    """Noise of the same variance from a public seed: Laplace in the plane or on the line."""
    parts = noisy.mechanism.parts
    if parts:
        return np.concatenate([_noise_of(one.of(noisy.values), one.facts, generator) for one in parts])
    return _noise_of(noisy.values, noisy.mechanism, generator)


def _noise_of(values: Values, facts: MechanismFacts, generator: np.random.Generator) -> Values:
    n, square = len(values), facts.expected_square
    if np.iscomplexobj(values):
        return np.asarray(
            generator.gamma(2.0, math.sqrt(square / 6), n) * np.exp(1j * generator.uniform(0.0, 2 * math.pi, n))
        )
    return np.asarray(generator.laplace(0.0, math.sqrt(square / 2), n))


def _corrected(value: float, errors: list[float]) -> tuple[float, float]:
    """A value with the median error of its replicas added, and the spread that they leave."""
    if not errors:
        return value, 0.0
    spread = float(np.std(errors, ddof=1)) * math.sqrt(1 + 1 / len(errors)) if len(errors) > 1 else 0.0
    return value + float(np.median(errors)), spread
