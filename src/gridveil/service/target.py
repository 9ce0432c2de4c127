"""f̃ in its four modes. Only the public and the private one look at the true cost, on the curator's side."""

from __future__ import annotations

import math

from gridveil.bilevel.repair import derived_cost
from gridveil.core.band import CostTarget, TargetSource
from gridveil.core.errors import InputError, NoReleaseError
from gridveil.privacy.curator import solve_true
from gridveil.privacy.noisy import Draw
from gridveil.sectors.case import Case
from gridveil.sectors.model import DemandLayout, Model
from gridveil.service.choices import CostTargetMode
from gridveil.service.settings import ReleaseSettings
from gridveil.solvers.ipopt import Engine


def true_cost(case: Case, model: Model, engine: Engine, mode: CostTargetMode) -> float | None:
    """O(d°), for the modes that need it: found before anything is drawn, so that a failure costs no ε."""
    if mode not in {CostTargetMode.PUBLIC, CostTargetMode.PRIVATE}:
        return None
    true = solve_true(case, model, engine.solve_afresh)
    if not true.converged:
        raise NoReleaseError(
            f"the optimal flow at the case's own demands was not solved ({true.status.value}); "
            "check the case with 'gridveil solve'"
        )
    return true.cost


def cost_target(
    engine: Engine, layout: DemandLayout, draw: Draw, settings: ReleaseSettings, public_cost: float | None
) -> CostTarget:
    """Give f̃ and β. A private cost widens β, so that the true cost lies in the band at the stated confidence."""
    mode = settings.target.mode
    if mode is CostTargetMode.DERIVED:
        return settings.beta.around(derived_cost(engine, layout, draw.noisy), TargetSource.DERIVED)
    if mode is CostTargetMode.PRIVATE:
        if draw.private_cost is None:
            raise InputError("the draw to be reused holds no private cost; choose another --cost-target or draw anew")
        if settings.beta.relative and draw.private_cost.value <= 0:
            raise NoReleaseError(
                "the private cost came out negative; use the same draw (--reuse) with --beta as an amount"
            )
        band = settings.beta.around(draw.private_cost.value, TargetSource.PRIVATE)
        return band.widened(draw.private_cost.scale * math.log(1 / (1 - settings.target.confidence)))
    value, source = (public_cost, TargetSource.PUBLIC)
    if mode is CostTargetMode.FORECAST:
        value, source = settings.target.forecast, TargetSource.FORECAST
    if value is None:
        raise InputError("the cost target has no value; give --forecast-cost")
    return settings.beta.around(value, source)
