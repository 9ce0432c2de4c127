"""Repair with everything that is kept: bands of totals as rows on the data, losses verified and corrected."""

from __future__ import annotations

from dataclasses import dataclass, replace

from gridveil.bilevel.cost_estimate import cost_by_tangent, derived_cost, shrunk
from gridveil.bilevel.repair import ReleasedData, repair
from gridveil.core.band import CostTarget
from gridveil.core.choices import CostTargetMode
from gridveil.core.deadline import OutOfTimeError
from gridveil.core.errors import NoReleaseError
from gridveil.privacy.noisy import Draw, NoisyData
from gridveil.service.kept import AIMS, KeptTarget, kept_rows, kept_targets, moved_to_totals, refuse_unkept
from gridveil.service.losses import LossTarget, loss_gradient, loss_target, losses_at, with_loss_row
from gridveil.service.prepare import Prepared
from gridveil.service.settings import ReleaseSettings

MOST_CORRECTIONS = 6  # tangents of the losses, each from the point that the last one led to
ANY_COST = 10.0  # times a usual cost: as far as the cost may be off where it is still to be found
LOSS_AIM = 0.5  # share of the losses' band that a tangent aims at: the tangent misses by its curvature


@dataclass(frozen=True, eq=False, kw_only=True)
class Keeping:
    """The targets of everything that a release keeps besides its cost."""

    totals: tuple[KeptTarget, ...] = ()
    losses: LossTarget | None = None

    @property
    def nothing(self) -> bool:
        """Whether the cost alone is kept."""
        return not self.totals and self.losses is None


COST_ALONE = Keeping()
"""Nothing but the cost is kept."""


def keeping_of(prepared: Prepared, draw: Draw, settings: ReleaseSettings) -> tuple[Keeping, NoisyData]:
    """Targets from what was drawn and public data, and the noisy values moved to the totals, which tell the cost."""
    totals = kept_targets(prepared.public, draw, settings.keep)
    noisy = moved_to_totals(totals, prepared.model.layout, draw.noisy)
    return Keeping(totals=totals, losses=loss_target(prepared, draw, noisy, settings.keep)), noisy


def cost_by_totals(prepared: Prepared, draw: Draw, keeping: Keeping) -> float:
    """A derived cost target from noisy values that were moved to the totals.

    Weighted by prices, which hardly differ within a group, their sum is nearly as good as one that was drawn.
    """
    model = prepared.model
    found = None if model.relaxation is None else cost_by_tangent(model, prepared.solves, draw.noisy)
    return cost_of_totals(prepared, draw, keeping) if found is None else found


def cost_of_totals(prepared: Prepared, draw: Draw, keeping: Keeping) -> float:
    """A cost that can be reached: the optimum of feasible values with the target totals, near the shrunken noisy ones.

    A target that disagrees with the totals would have to be made up for by moving demand within groups, where prices hardly
    differ. Noise as it is would congest the network; shrunken values do so less.
    """
    model, solves = prepared.model, prepared.solves
    shrunken = moved_to_totals(keeping.totals, model.layout, replace(draw.noisy, values=shrunk(draw.noisy)))
    if model.relaxation is None or model.supply is None:
        scale = abs(derived_cost(model, solves, shrunken))
    else:
        scale = model.relaxation.dearest_price * model.supply
    scale = max(scale, 1.0)
    d = model.layout.to_program(shrunken.values)
    for share in AIMS:
        rows = kept_rows(keeping.totals, model.layout, shrunken.values, share)
        anywhere = CostTarget(value=scale, beta=ANY_COST * scale, source=CostTargetMode.DERIVED, rows=rows)
        nearest = solves.highpoint(d, anywhere)
        answer = solves.follow(nearest, None) if nearest.converged else nearest
        if answer.converged:
            return answer.cost
    raise NoReleaseError("no release: no demands that the network can serve have the totals that shall be kept")


def repair_keeping(
    prepared: Prepared,
    draw: Draw,
    target: CostTarget,
    keeping: Keeping,
    settings: ReleaseSettings,
    *,
    for_readers: bool = False,
) -> ReleasedData:
    """Repair in the band around f̃ with all that is kept; first near the targets, then anywhere within their bands."""

    def repair_near(share: float) -> ReleasedData:
        rows = kept_rows(keeping.totals, prepared.model.layout, draw.noisy.values, share)
        return _with_losses(prepared, draw, replace(target, rows=rows), keeping, settings, for_readers)

    for share in AIMS[:-1] if keeping.totals else ():
        try:
            return repair_near(share)
        except OutOfTimeError:
            raise
        except NoReleaseError:
            continue
    return repair_near(AIMS[-1])


def _with_losses(
    prepared: Prepared, draw: Draw, band: CostTarget, keeping: Keeping, settings: ReleaseSettings, for_readers: bool
) -> ReleasedData:
    """Repair; while losses at the optimum are not kept, again with their tangent at the point that was found."""
    layout, model = prepared.model.layout, prepared.model
    limited = band
    for _ in range(MOST_CORRECTIONS):
        found = repair(prepared.backend, layout, draw.noisy, limited, settings.method, for_readers=for_readers)
        refuse_unkept(keeping.totals, found.values, prepared.public.field)
        if keeping.losses is None:
            return found
        d, x = layout.to_program(found.values), found.result.x
        losses = losses_at(model, x, d) if x is not None else float("nan")
        if keeping.losses.contains(losses):
            return found
        gradient = loss_gradient(model, d)
        if gradient is None:
            break
        limited = with_loss_row(band, keeping.losses, gradient, d, losses, LOSS_AIM)
    raise NoReleaseError("no release: losses could not be kept near their target; keep them less closely (--reuse)")
