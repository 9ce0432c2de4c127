"""f̃ in its four modes, from what was drawn and public data."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

from gridveil.bilevel.cost_estimate import USUAL, derived_cost, estimate_cost
from gridveil.core.band import CostTarget
from gridveil.core.choices import CostTargetMode
from gridveil.core.errors import InputError, NoReleaseError
from gridveil.privacy.noisy import Draw, NoisySum
from gridveil.service.prepare import Prepared
from gridveil.service.settings import ReleaseSettings

NINETY_FIVE = 1.96  # standard deviations of a normal law; a Laplace law has a little less beyond it
SMALL = 0.1  # a share of the cost at made-up data: β is no share of less, in networks whose cost may vanish
LEAST_COST = 1e-3  # a share of the derived cost: no estimate goes below it, so that β can be a share of it


Derive = Callable[[], float]
"""Finds a cost that spends nothing."""


@dataclass(frozen=True, kw_only=True)
class Aim:
    """A cost band, and how far its centre may lie from the true optimal cost: at 95 %, None where nobody can say."""

    target: CostTarget
    error: float | None


def aim(prepared: Prepared, draw: Draw, settings: ReleaseSettings, derive: Derive | None = None) -> Aim:
    """The band that the released optimum must lie in; ``derive`` finds a derived cost where more is kept than the cost."""
    mode = settings.target.mode
    if mode is CostTargetMode.FORECAST and settings.target.forecast is not None:
        return Aim(target=band_around(prepared, settings, settings.target.forecast), error=None)
    if mode is CostTargetMode.PUBLIC:
        if draw.declared_cost is None:
            raise InputError("the draw to be reused was made without declaring the cost public; draw anew")
        return Aim(target=band_around(prepared, settings, draw.declared_cost), error=0.0)
    if mode is CostTargetMode.PRIVATE and draw.total is not None:
        return _private(prepared, draw, draw.total, settings)
    cost = derived_cost(prepared.model, prepared.solves, draw.noisy) if derive is None else derive()
    return Aim(target=_band(prepared, settings, cost, CostTargetMode.DERIVED), error=None)


def _private(prepared: Prepared, draw: Draw, total: NoisySum, settings: ReleaseSettings) -> Aim:
    estimate = estimate_cost(prepared.model, prepared.solves, draw.noisy, total)
    value = estimate.value
    if settings.beta.relative and not estimate.from_values < 0:
        scale = estimate.from_values if math.isfinite(estimate.from_values) else abs(value)
        value = max(value, LEAST_COST * abs(scale))
    error = NINETY_FIVE * estimate.deviation if math.isfinite(estimate.deviation) else None
    return Aim(target=_band(prepared, settings, value, CostTargetMode.PRIVATE), error=error)


def retreats(
    prepared: Prepared,
    draw: Draw,
    first: Aim,
    settings: ReleaseSettings,
    cost_in_reach: Derive | None = None,
) -> list[Aim]:
    """Bands to try, one after the other, if no values reach the first: ever nearer to what the noisy values allow.

    Only for estimates: a declared or forecast cost is kept or refused. ``cost_in_reach`` finds a cost that can be reached
    where more is kept than the cost: that is tried alone.
    """
    if first.target.source not in {CostTargetMode.PRIVATE, CostTargetMode.DERIVED}:
        return []
    if cost_in_reach is not None:
        return [replace(first, target=_band(prepared, settings, cost_in_reach(), first.target.source), error=None)]
    reachable = derived_cost(prepared.model, prepared.solves, draw.noisy)
    between = [reachable + share * (first.target.value - reachable) for share in USUAL.retreats]
    possible = [value for value in between if settings.beta.half_width(value, _least_cost(prepared, settings)) > 0]
    return [replace(first, target=_band(prepared, settings, value, first.target.source)) for value in possible]


def band_around(prepared: Prepared, settings: ReleaseSettings, cost: float) -> CostTarget:
    """The band around a cost that the curator states; an InputError if β is a share of nothing."""
    return settings.beta.around(cost, settings.target.mode, _least_cost(prepared, settings))


def _band(prepared: Prepared, settings: ReleaseSettings, value: float, mode: CostTargetMode) -> CostTarget:
    """The band around an estimate, which noise may have made zero: then β cannot be a share of it."""
    least = _least_cost(prepared, settings)
    if settings.beta.half_width(value, least) == 0:
        raise NoReleaseError(
            "the cost target came out at zero, and beta is a share of it; use the same draw again (--reuse) with beta as an "
            "amount"
        )
    return settings.beta.around(value, mode, least)


def _least_cost(prepared: Prepared, settings: ReleaseSettings) -> float:
    """The cost that β is a share of where the target is smaller: a public one. It is found only if β is a share."""
    scale = prepared.cost_scale if settings.beta.relative else None
    return 0.0 if scale is None else SMALL * scale.value
