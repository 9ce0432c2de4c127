"""From a case to a released one: noise on the curator's side, then post-processing that never sees the true demands."""

from __future__ import annotations

import time
from dataclasses import dataclass

from gridveil.bilevel.engine import Engine
from gridveil.bilevel.repair import ReleasedDemand, repair
from gridveil.errors import NoReleaseError
from gridveil.networks.case import Case
from gridveil.networks.formulation import Formulation
from gridveil.networks.model import Model, build_model
from gridveil.privacy.curator import Comparison, compare, solve_true
from gridveil.privacy.draw import draw, mechanism_for
from gridveil.privacy.noisy import CostTarget, NoisyDemand, TargetSource
from gridveil.privacy.simulation import simulate_laplace
from gridveil.release.settings import ReleaseSettings


@dataclass(frozen=True, eq=False, kw_only=True)
class Release:
    """A verified release, and apart from it what only the curator may see."""

    case: Case
    settings: ReleaseSettings
    model: Model
    noisy: NoisyDemand
    target: CostTarget
    released: ReleasedDemand
    curator: Comparison
    seconds: float


def make_release(case: Case, settings: ReleaseSettings) -> Release:
    """Run the whole pipeline in memory; nothing is written. Raises NoReleaseError when no verified release is found."""
    clock = time.perf_counter()
    model = build_model(case.network, Formulation.AC, settings.demand_bounds)
    engine = Engine(model.program)
    target = public_target(case, model, engine, settings)
    noisy = noisy_demand(case, settings)
    released = repair(engine, model.layout, noisy, target)
    return Release(
        case=case,
        settings=settings,
        model=model,
        noisy=noisy,
        target=target,
        released=released,
        curator=compare(case, model, noisy, released.highpoint.d, released.values),
        seconds=time.perf_counter() - clock,
    )


def public_target(case: Case, model: Model, engine: Engine, settings: ReleaseSettings) -> CostTarget:
    """f̃ = O(d°), taken as public knowledge (as after a market clearing); it is not protected by the noise."""
    true = solve_true(case, model, engine.solve_afresh)
    if not true.converged:
        raise NoReleaseError(
            f"the optimal power flow at the case's own demands was not solved ({true.status.value}); "
            "check the case with 'gridveil solve'"
        )
    return settings.beta.around(true.cost, TargetSource.PUBLIC)


def noisy_demand(case: Case, settings: ReleaseSettings) -> NoisyDemand:
    """Draw d̃: exact noise from operating-system entropy, or a seeded simulation."""
    mechanism = mechanism_for(case.demand, epsilon=settings.epsilon, alpha=settings.alpha)
    if settings.seed is None:
        return draw(case.demand, mechanism)
    epsilon, alpha = float(mechanism.epsilon), float(mechanism.alpha)
    return simulate_laplace(case.demand, epsilon=epsilon, alpha=alpha, seed=settings.seed)
