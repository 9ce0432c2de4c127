"""From a case to a released one: noise on the curator's side, then post-processing that never sees the true demands."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from gridveil.bilevel.certificate import Certificate, certify
from gridveil.bilevel.repair import ReleasedDemand, repair
from gridveil.core.band import CostTarget
from gridveil.core.errors import InputError
from gridveil.privacy.curator import Comparison, compare
from gridveil.privacy.draw import draw_cost, draw_demand, mechanism_for
from gridveil.privacy.ledger import Ledger
from gridveil.privacy.mechanisms.simulation import simulate_laplace
from gridveil.privacy.noisy import Draw
from gridveil.sectors.case import Case
from gridveil.sectors.model import build_model
from gridveil.service.choices import CostTargetMode
from gridveil.service.settings import ReleaseSettings
from gridveil.service.target import cost_target, true_cost
from gridveil.solvers.choose import engine_for


@dataclass(frozen=True, eq=False, kw_only=True)
class Release:
    """A verified release, and apart from it what only the curator may see."""

    case: Case
    settings: ReleaseSettings
    draw: Draw
    target: CostTarget
    released: ReleasedDemand
    certificate: Certificate
    curator: Comparison
    cost_unit: str
    seconds: float


def make_release(
    case: Case,
    settings: ReleaseSettings,
    ledger: Ledger | None,
    reuse: Draw | None = None,
    keep: Callable[[Draw], None] = lambda draw: None,
) -> Release:
    """Run the whole pipeline in memory; no file but the ledger is written.

    A seeded simulation needs no ledger. ``reuse`` is the draw of an earlier release, which costs nothing again.
    ``keep`` gets the draw as soon as it is made, so that what was paid for is not lost if post-processing fails.
    Raises NoReleaseError when no verified release is found.
    """
    clock = time.perf_counter()
    model = build_model(case.network, demand_bounds=settings.demand_bounds)
    engine = engine_for(case.network, model, settings.solver)
    cost = true_cost(case, model, engine, settings.target.mode)
    draw = reuse if reuse is not None else draw_for(case, settings, ledger, cost)
    keep(draw)
    target = cost_target(engine, model.layout, draw, settings, cost)
    released = repair(engine, model.layout, draw.noisy, target, settings.method)
    return Release(
        case=case,
        settings=settings,
        draw=draw,
        target=target,
        released=released,
        certificate=certify(case.network, model, model.layout.to_program(draw.noisy.values), target, released.result),
        curator=compare(case, model, draw.noisy, released.highpoint.d, released.values),
        cost_unit=model.program.cost_unit,
        seconds=time.perf_counter() - clock,
    )


def draw_for(case: Case, settings: ReleaseSettings, ledger: Ledger | None, cost: float | None) -> Draw:
    """Draw what the settings ask for: exact noise, charged to the ledger before it is drawn, or a seeded simulation."""
    private = settings.target.mode is CostTargetMode.PRIVATE
    mechanism = mechanism_for(case.demand, epsilon=settings.demand_epsilon, alpha=settings.alpha)
    if settings.seed is not None:
        if private:
            raise InputError("a simulation has no private cost; leave out --seed, or choose another --cost-target")
        epsilon, alpha = float(mechanism.epsilon), float(mechanism.alpha)
        return Draw(noisy=simulate_laplace(case.demand, epsilon=epsilon, alpha=alpha, seed=settings.seed))
    if ledger is None:
        raise InputError("a release without a seed must be charged to a ledger; name one with --ledger")
    noisy = draw_demand(case.demand, mechanism, ledger, purpose=f"release of {case.name}")
    if not private or cost is None or settings.target.sensitivity is None:
        return Draw(noisy=noisy)
    private_cost = draw_cost(
        cost,
        sensitivity=settings.target.sensitivity,
        epsilon=settings.cost_epsilon,
        alpha=mechanism.alpha,
        ledger=ledger,
    )
    return Draw(noisy=noisy, private_cost=private_cost)
