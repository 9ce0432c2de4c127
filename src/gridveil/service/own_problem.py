"""For people with another problem: x, d, f and g in CasADi symbols in, private data d* out."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from gridveil.bilevel.methods.algorithm1 import ETA, solve_bilevel
from gridveil.bilevel.methods.auto import solve_auto
from gridveil.bilevel.result import BilevelResult
from gridveil.core.band import TargetSource, Tolerance
from gridveil.core.errors import InputError, NoReleaseError
from gridveil.core.methods import Method
from gridveil.core.secret import SecretDemand
from gridveil.privacy.curator import solve_at
from gridveil.privacy.draw import draw_demand, mechanism_for
from gridveil.privacy.ledger import Ledger
from gridveil.privacy.mechanisms.simulation import simulate_laplace
from gridveil.programs import ParametricProgram
from gridveil.solvers.ipopt import Engine


def protect(
    program: ParametricProgram,
    data: ArrayLike,
    *,
    epsilon: str,
    alpha: str,
    beta: str,
    cost_target: float | None = None,
    ledger: Ledger | None = None,
    seed: int | None = None,
    method: Method = Method.AUTO,
    eta: float = ETA,
) -> BilevelResult:
    """Make the sensitive data of a program private: one entry of d is one participant, hidden up to ±alpha.

    ``epsilon`` and ``alpha`` are exact text ("1", "0.1"); ``beta`` is a share ("1%") or an amount ("250") of the cost.
    ``cost_target`` is a public or forecast cost; without it, O at the true data is taken as public knowledge.
    The draw is charged to the ``ledger`` of the data set. A ``seed`` makes a simulation that protects nobody instead.
    ``eta`` is how nearly the method BISECTION closes its bracket on the squared distance.
    The result's ``d`` is None, with the reason in ``ending``, when no data with a verified cost in the band was found.
    """
    secret = SecretDemand(np.asarray(data, dtype=float))
    if len(secret) != program.n_d:
        raise InputError(
            f"program {program.name} has {program.n_d} data, but {len(secret)} were given; check the order of d"
        )
    engine = Engine(program)
    source = TargetSource.PUBLIC if cost_target is None else TargetSource.FORECAST
    if cost_target is None:
        true = solve_at(secret, engine.solve_afresh)
        if not true.converged:
            raise NoReleaseError(
                f"O at the given data was not solved ({true.status.value}); check the program and x_start"
            )
        cost_target = true.cost
    band = Tolerance.parse(beta).around(cost_target, source)
    mechanism = mechanism_for(secret, epsilon=epsilon, alpha=alpha)
    if seed is not None:
        noisy = simulate_laplace(secret, epsilon=float(mechanism.epsilon), alpha=float(mechanism.alpha), seed=seed)
    elif ledger is not None:
        noisy = draw_demand(secret, mechanism, ledger, purpose=f"data of {program.name}")
    else:
        raise InputError("a draw must be charged: give a ledger, or a seed for a simulation that protects nobody")
    if method is Method.AUTO:
        return solve_auto(engine, noisy.values, band)
    return solve_bilevel(engine, noisy.values, band, eta=eta)
