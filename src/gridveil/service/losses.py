"""Kept losses: generation less demand at the optimum, active power, per unit.

Losses are an outcome of O(d), not a sum over participants. One demand can change them without bound (it can make the flow
infeasible, or turn a line's flow round), so noise of a bounded size hides nothing: there is no private target. What
remains is a forecast, a declaration, or what the noisy values tell. They are no linear row in d either; they are verified at
the optimum, and where that fails a linear row is added: the losses' tangent at the point found.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from gridveil.core.band import CostTarget, DataRows
from gridveil.core.errors import InputError, NoReleaseError
from gridveil.core.kept import Kept, KeptSource
from gridveil.core.quantity import parse_distance
from gridveil.privacy.noisy import Draw, NoisyData
from gridveil.sectors.model import Model
from gridveil.sectors.power.arrays import OpfArrays
from gridveil.service.prepare import Prepared, PublicCase
from gridveil.solvers.structured.backend import StructuredBackend

Vector = NDArray[np.float64]

PRICE_STEP = 0.01  # of the median price: how much dearer generation is made to see what losses weigh


@dataclass(frozen=True, kw_only=True)
class LossTarget:
    """Losses that are kept, and how far they may be off, both per unit."""

    value: float
    half_width: float
    source: KeptSource

    def contains(self, losses: float) -> bool:
        """Whether losses are kept."""
        return abs(losses - self.value) <= self.half_width


def refuse_losses(public: PublicCase, model: Model, kept: Kept) -> None:
    """Refuse to keep losses of a network that has none, or whose sensitivities nobody computes; and a forecast in no unit."""
    if kept.loss is None:
        return
    if model.losses is None or model.arrays is None:
        raise InputError("losses can be kept in AC power networks with costs up to degree two; leave out loss")
    for _, quantity in kept.loss.forecast:
        parse_distance(quantity, public.field, "a forecast")


def loss_target(prepared: Prepared, draw: Draw, noisy: NoisyData, kept: Kept) -> LossTarget | None:
    """The target of kept losses: forecast, declared, or those at the feasible values nearest to the noisy ones."""
    number = kept.loss
    if number is None:
        return None
    if number.source is KeptSource.FORECAST:
        value = float(parse_distance(number.forecast[0][1], prepared.public.field, "a forecast"))
    elif number.source is KeptSource.PUBLIC:
        if draw.declared_loss is None:
            raise InputError("the draw to be reused was made without declaring losses public; draw anew")
        value = draw.declared_loss
    else:
        nearest = prepared.solves.nearest_feasible(prepared.model.layout.to_program(noisy.values))
        answer = prepared.solves.follow(nearest, None) if nearest.converged else nearest
        if not answer.converged:
            raise NoReleaseError("no losses could be derived from the noisy values; give a forecast of them instead")
        value = losses_at(prepared.model, answer.x, answer.d)
    return LossTarget(value=value, half_width=number.tolerance.half_width(value), source=number.source)


def losses_at(model: Model, x: Vector, d: Vector) -> float:
    """Generation less demand at a point of the program."""
    if model.losses is None:
        raise InputError(f"{model.program.name} has no losses")
    return float(model.losses(x, d))


def loss_gradient(model: Model, d: Vector) -> Vector | None:
    """∂L/∂d at the optimum of d; None if it is not found.

    Let V(t, d) be the optimal cost where every unit generated costs t more. Then ∂V/∂t is total generation G and ∂V/∂d are
    the prices, so ∂G/∂d = ∂prices/∂t: a difference of the prices of two dispatches.
    """
    if model.arrays is None:
        return None
    usual = StructuredBackend(model).dispatch(d)
    if not usual.converged or usual.prices is None:
        return None
    step = PRICE_STEP * max(float(np.median(np.abs(usual.prices[: len(d) // 2]))), 1.0)
    dearer = StructuredBackend(_dearer(model, step)).dispatch(d, start=usual.start)
    if not dearer.converged or dearer.prices is None:
        return None
    active = np.arange(len(d)) < len(d) // 2
    return (dearer.prices - usual.prices) / step - active


def _dearer(model: Model, step: float) -> Model:
    arrays_of = model.arrays
    if arrays_of is None:
        raise InputError("sensitivities of losses need the arrays of an AC network")

    def arrays(interior: float) -> OpfArrays:
        plain = arrays_of(interior)
        active = np.arange(len(plain.cost_1)) < len(plain.gen_bus)
        return replace(plain, cost_1=plain.cost_1 + step * active)

    return replace(model, arrays=arrays)


def with_loss_row(
    band: CostTarget, target: LossTarget, gradient: Vector, d: Vector, losses: float, aim: float
) -> CostTarget:
    """The band with the losses' tangent at d as one more row, within a share ``aim`` of what they may be off."""
    reached, half = float(gradient @ d) - losses, aim * target.half_width
    row = DataRows(
        matrix=gradient[None, :],
        lower=np.array([target.value + reached - half]),
        upper=np.array([target.value + reached + half]),
    )
    return replace(band, rows=row if band.rows is None else band.rows.joined(row))
