"""One release, from a case to values that may be published: prepare → draw → repair → certify.

The command line, the Python API, series, studies and the audit all come through here.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from gridveil.bilevel.certificate import Certificate, certify, distance_bound
from gridveil.bilevel.repair import ReleasedData
from gridveil.bilevel.result import BilevelResult
from gridveil.core.band import CostTarget
from gridveil.core.choices import CostTargetMode
from gridveil.core.deadline import time_limit, usual_time_limit
from gridveil.core.errors import InputError, NoReleaseError
from gridveil.core.kept import KeptSource
from gridveil.core.threads import Ahead, all_cores
from gridveil.privacy.curator import Comparison, Curator, CuratorSolution
from gridveil.privacy.limits import EqualNumber
from gridveil.privacy.noisy import Draw
from gridveil.sectors.case import Case
from gridveil.sectors.model import Model
from gridveil.sectors.registry import sector_of
from gridveil.service.account import Account, Spending
from gridveil.service.draw import NO_RECORD, Begun, DrawRecord, make_draw, prices, shares_of
from gridveil.service.guards import Confirm, ask, confirm_nothing, refuse_wrong_units
from gridveil.service.keeping import COST_ALONE, Keeping, cost_by_totals, cost_of_totals, keeping_of, repair_keeping
from gridveil.service.kept import groups_of
from gridveil.service.losses import refuse_losses
from gridveil.service.prepare import Prepared, PublicCase, prepare
from gridveil.service.publication import UNSTATED, Publication
from gridveil.service.secrets import with_secrets
from gridveil.service.settings import ReleaseSettings
from gridveil.service.target import Aim, aim, band_around, retreats
from gridveil.solvers.ipopt import QUICK_FOR_IPOPT

if TYPE_CHECKING:
    from gridveil.service.fidelity import Fidelity, PublicProfiles


@dataclass(frozen=True, eq=False, kw_only=True)
class PublicRelease:
    """A verified release: public data, private draws, and what was computed from them. Everything here may be published."""

    prepared: Prepared
    settings: ReleaseSettings
    draw: Draw
    target: CostTarget
    target_error: float | None
    """How far f̃ may lie from the true optimal cost, at 95 %; None where nobody can say."""
    released: ReleasedData
    spending: Spending | None
    publication: Publication = UNSTATED
    """What the publisher states."""
    keeping: Keeping = COST_ALONE
    """What is kept besides the cost."""
    distance_ahead: Ahead[float | None] | None = None
    """The longest part of the certificate, if it was begun."""

    @property
    def case(self) -> PublicCase:
        """What is public of the case."""
        return self.prepared.public

    @property
    def cost_unit(self) -> str:
        """Unit of the cost."""
        return self.prepared.model.program.cost_unit

    @cached_property
    def certificate(self) -> Certificate:
        """What can be proved of the release; found when it is first asked for, as it takes a few conic programs."""
        return certify(*self._to_certify, self.distance_ahead)

    @property
    def _to_certify(self) -> tuple[Model, NDArray[Any], CostTarget, BilevelResult]:
        model = self.prepared.model
        return model, model.layout.to_program(self.draw.noisy.values), self.target, self.released.result

    def certificate_begun(self) -> PublicRelease:
        """The release with its certificate begun beside what follows, where there is a processor for it and it takes a while.

        Whoever works on the truth afterwards asks for the certificate first, so that this never runs beside.
        """
        if self.prepared.model.program.n_x <= QUICK_FOR_IPOPT or all_cores() < 2:
            return self
        to_certify = self._to_certify
        return replace(self, distance_ahead=Ahead(lambda: distance_bound(*to_certify)))

    @cached_property
    def profiles(self) -> PublicProfiles | None:
        """What one reads off the optima of released, noisy and high-point demands; None for networks without such profiles."""
        from gridveil.service.fidelity import public_profiles

        return public_profiles(self)

    @property
    def values(self) -> NDArray[Any]:
        """d*: one value per participant, per unit."""
        return self.released.values

    @property
    def simulation(self) -> bool:
        """Whether the noise came from a seed, and protects nobody."""
        return self.draw.simulation


@dataclass(frozen=True, eq=False)
class CuratorRecord:
    """What only the curator may see of a release. No writer of public files accepts it."""

    curator: Curator
    comparison: Comparison
    solver: str

    @cached_property
    def optimum(self) -> CuratorSolution:
        """O(d°), found when it is first asked for: after everything public is complete."""
        return self.curator.optimum(solver=self.solver)

    @cached_property
    def equal_numbers(self) -> tuple[EqualNumber, ...]:
        """Public numbers that equal a true value, found when they are first asked for, as the optimum is."""
        return self.curator.equal_numbers()


@dataclass(frozen=True, eq=False, kw_only=True)
class Release:
    """The two sides of a release."""

    public: PublicRelease
    curator: CuratorRecord
    seconds: float

    @cached_property
    def fidelity(self) -> Fidelity | None:
        """What is kept of prices, congestion, losses and balances, against the truth: the curator's eyes only.

        Found when it is first asked for: after everything public is complete. None for networks without such profiles, and
        where the comparison fails: it solves at the true values, so how a command ends may not depend on it.
        """
        from gridveil.service.fidelity import curator_fidelity

        try:
            return curator_fidelity(self)
        except Exception:
            return None


def make_release(
    case: Case,
    settings: ReleaseSettings,
    account: Account,
    *,
    reuse: Draw | None = None,
    keep: Callable[[Draw], None] = lambda draw: None,
    prepared: Prepared | None = None,
    confirm: Confirm = confirm_nothing,
    record: DrawRecord = NO_RECORD,
) -> Release:
    """Release a case in memory; no file but the ledger is written.

    ``prepared`` is the public side of the same network, where it has been built already. ``reuse`` is the draw of an
    earlier release, which costs nothing again. ``keep`` gets the draw as soon as it is made, so that what was paid for is
    not lost if post-processing fails. ``confirm`` is asked before ε is spent on what a person should know, and ``record``
    holds what was announced before the first charge. Raises NoReleaseError when no verified release is found.
    """
    clock = time.perf_counter()
    case = with_secrets(case, settings.secrets)
    public, curator = PublicCase.of(case), Curator(case)
    refuse_undeclared_sites(public, settings)
    prepared = prepared or prepare(public, solver=settings.solver.value, bounds=settings.demand_bounds)
    refuse_wrong_units(prepared, settings)
    refuse_unknown_keep(prepared, settings)
    if reuse is not None:
        keep(reuse)
    draw = reuse or draw_for(curator, prepared, settings, account, confirm=confirm, record=record, keep=keep)
    made = finish(prepared, draw, settings, account.spending())
    high = prepared.model.layout.to_sites(made.released.highpoint.d, draw.noisy.values)
    kept = CuratorRecord(curator, curator.compare(draw.noisy, high, made.values), settings.solver.value)
    return Release(public=made, curator=kept, seconds=time.perf_counter() - clock)


def draw_for(
    curator: Curator,
    prepared: Prepared,
    settings: ReleaseSettings,
    account: Account,
    *,
    confirm: Confirm = confirm_nothing,
    record: DrawRecord = NO_RECORD,
    keep: Callable[[Draw], None] = lambda draw: None,
) -> Draw:
    """The curator's part: draw what the settings ask for, and find the true cost if it was declared public."""
    refuse_wrong_account(settings, account)
    declared = None
    refuse_share_of_nothing(prepared.public, settings)
    if settings.target.mode is CostTargetMode.PUBLIC:
        # Before the draw: a cost that the curator declares public but that does not exist, or that leaves β without a
        # meaning, costs no ε.
        declared = _declared_cost(curator, settings)
        band_around(prepared, settings, declared)
    declared_loss = None
    if settings.keep.loss is not None and settings.keep.loss.source is KeptSource.PUBLIC:
        declared_loss = _optimum_to_declare(curator, settings).losses
    begun = refuse_unconfirmed(curator, prepared, settings, account, confirm, record)
    begun = begun or record.announce(shares_of(prepared, settings))

    kept: list[Draw] = []

    def keep_whole(draw: Draw) -> None:
        kept.append(replace(draw, declared_cost=declared, declared_loss=declared_loss))
        keep(kept[-1])

    purpose = f"release of {prepared.public.name}"
    draw = make_draw(curator, prepared, settings, account, purpose, begun=begun, keep=keep_whole)
    return kept[-1] if kept else draw


def refuse_unconfirmed(
    curator: Curator,
    prepared: Prepared,
    settings: ReleaseSettings,
    account: Account,
    confirm: Confirm,
    record: DrawRecord = NO_RECORD,
) -> Begun | None:
    """Refuse a draw that the budget does not cover or that is not confirmed; return what was begun, if anything was.

    A draw that was begun and charged needs neither.
    """
    begun = record.found()
    if begun is None or not is_paid(begun, account):
        needed = prices(curator.field, settings, begun.shares if begun else shares_of(prepared, settings))
        account.check(curator.field, *needed)
        ask(prepared.public, settings, needed, account, confirm)
    return begun


def is_paid(begun: Begun, account: Account) -> bool:
    """Whether the values of a draw that was begun have been charged, or are there."""
    return begun.draw is not None or (begun.values_id is not None and account.paid(begun.values_id) is not None)


def finish(prepared: Prepared, draw: Draw, settings: ReleaseSettings, spending: Spending | None) -> PublicRelease:
    """Everything after the mechanism: aim, repair, certify. Sees d̃, the noisy sum and public data, and nothing else."""
    found, released, keeping = repaired_keeping(prepared, draw, settings, for_readers=True)
    return PublicRelease(
        prepared=prepared,
        settings=settings,
        draw=draw,
        target=found.target,
        target_error=found.error,
        released=released,
        spending=spending,
        keeping=keeping,
    )


def repaired(
    prepared: Prepared, draw: Draw, settings: ReleaseSettings, *, for_readers: bool = False
) -> tuple[Aim, ReleasedData]:
    """Repair at the first aim that can be reached; ``for_readers`` as in ``repair``."""
    found, released, _ = repaired_keeping(prepared, draw, settings, for_readers=for_readers)
    return found, released


def repaired_keeping(
    prepared: Prepared, draw: Draw, settings: ReleaseSettings, *, for_readers: bool = False
) -> tuple[Aim, ReleasedData, Keeping]:
    """Repair at the first aim that can be reached, with all that is kept.

    The clock of the time limit starts here, after the mechanism.
    """
    prepared.backend.prepare()
    network = prepared.public.network
    with time_limit(settings.time_limit or usual_time_limit(sector_of(network).size(network))):
        return _repaired_in_time(prepared, draw, settings, for_readers)


def _repaired_in_time(
    prepared: Prepared, draw: Draw, settings: ReleaseSettings, for_readers: bool
) -> tuple[Aim, ReleasedData, Keeping]:
    keeping, moved = keeping_of(prepared, draw, settings)
    telling = replace(draw, noisy=moved) if keeping.totals else draw
    derive = (lambda: cost_by_totals(prepared, telling, keeping)) if keeping.totals else None

    def repair_at(target: CostTarget) -> ReleasedData:
        return repair_keeping(prepared, draw, target, keeping, settings, for_readers=for_readers)

    first = aim(prepared, telling, settings, derive)
    try:
        return first, repair_at(first.target), keeping
    except NoReleaseError:
        reachable = (lambda: cost_of_totals(prepared, telling, keeping)) if keeping.totals else None
        for other in retreats(prepared, telling, first, settings, reachable):
            try:
                return other, repair_at(other.target), keeping
            except NoReleaseError:
                continue
        raise


def refuse_undeclared_sites(public: PublicCase, settings: ReleaseSettings) -> None:
    """Refuse a private release whose list of participants was read off the secret values."""
    if not public.sites_declared and settings.seed is None:
        raise InputError(
            f"{public.name}: which places have customers was read off their demands (a demand of zero would not count), so the "
            "list itself would tell; declare it with --sites all, or --sites FILE with one bus or junction per line"
        )


def refuse_share_of_nothing(public: PublicCase, settings: ReleaseSettings) -> None:
    """Refuse, before a ledger is made, a forecast of zero of which β shall be a share, where no public cost stands in."""
    if settings.target.forecast == 0 and settings.beta.relative:
        band_around(prepare(public, solver=settings.solver.value), settings, settings.target.forecast)


def refuse_unknown_keep(prepared: Prepared, settings: ReleaseSettings) -> None:
    """Refuse, before anything is charged, to keep what the network does not have."""
    groups_of(prepared.public, settings.keep)
    refuse_losses(prepared.public, prepared.model, settings.keep)


def refuse_wrong_account(settings: ReleaseSettings, account: Account) -> None:
    """Refuse a private draw that nobody pays for, and a charge for a simulation."""
    if (settings.seed is None) == account.simulation:
        raise InputError("a release without a seed must be charged to a ledger, and one with a seed to none")


def _declared_cost(curator: Curator, settings: ReleaseSettings) -> float:
    return _optimum_to_declare(curator, settings).cost


def _optimum_to_declare(curator: Curator, settings: ReleaseSettings) -> CuratorSolution:
    true = curator.optimum(solver=settings.solver.value)
    if not true.converged or not math.isfinite(true.cost):
        raise NoReleaseError(
            f"the optimal flow at the case's own values was not solved ({true.status.value}), so there is nothing to declare "
            "public; check the case with 'gridveil solve', or use the private cost target"
        )
    return true
