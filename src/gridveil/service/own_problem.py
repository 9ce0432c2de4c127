"""For people with another problem: x, d, f and g in CasADi symbols in, private data d* out."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from gridveil.bilevel.result import BilevelResult
from gridveil.core.band import Tolerance
from gridveil.core.choices import CostTargetMode
from gridveil.core.errors import InputError
from gridveil.core.methods import Method, Solver
from gridveil.core.secret import Secret, SecretValues
from gridveil.privacy.ledger import Ledger
from gridveil.programs import ParametricProgram
from gridveil.sectors.case import Case
from gridveil.sectors.program import ProgramNetwork
from gridveil.service.account import LedgerAccount, NoAccount
from gridveil.service.guards import confirm_all, confirm_nothing
from gridveil.service.release import make_release
from gridveil.service.settings import CostTargetSettings, ReleaseSettings

UNIT = "unit"


def protect(
    program: ParametricProgram,
    data: ArrayLike,
    *,
    epsilon: str,
    alpha: str,
    beta: str,
    forecast_cost: float | None = None,
    declare_cost_public: bool = False,
    cost_target: str = CostTargetMode.PRIVATE.value,
    cost_share: str | None = None,
    ledger: Ledger | None = None,
    seed: int | None = None,
    method: Method = Method.AUTO,
    confirm: bool = False,
) -> BilevelResult:
    """Make the sensitive data of a program private: one entry of d is one participant, hidden up to ±alpha.

    ``epsilon`` and ``alpha`` are exact text ("1", "0.1", in the unit of the data); ``beta`` is a share ("1%") or an amount in
    the program's cost unit ("250cost"). The cost target is derived from the noisy data, unless ``cost_share`` (such as "1/5")
    spends that share of ε on a weighted sum of the data, from which it is then estimated: a program comes without a relaxation
    that would tell which share is right. ``forecast_cost`` gives the target, and ``declare_cost_public`` takes O at the true
    data, which then is no secret any more. Draws are charged to the ``ledger`` of the data set; ``confirm`` a further draw on
    the same data. A ``seed`` makes a simulation that protects nobody instead.
    Raises NoReleaseError when no data with a verified cost in the band are found.
    """
    network = ProgramNetwork(program)
    values = SecretValues(np.asarray(data, dtype=float))
    if len(values) != program.n_d:
        raise InputError(
            f"program {program.name} has {program.n_d} data, but {len(values)} were given; check the order of d"
        )
    if (seed is None) == (ledger is None):
        raise InputError("a draw must be charged: give a ledger, or a seed for a simulation that protects nobody")
    mode = CostTargetMode.PUBLIC if declare_cost_public else CostTargetMode(cost_target)
    if forecast_cost is not None:
        mode = CostTargetMode.FORECAST
    settings = ReleaseSettings(
        epsilon=epsilon,
        alpha=alpha,
        beta=Tolerance.parse(beta),
        target=CostTargetSettings(mode=mode, forecast=forecast_cost, share=cost_share),
        seed=seed,
        method=method,
        solver=Solver.IPOPT,
    )
    field = network.field(UNIT if ledger is None else ledger.unit)
    case = Case(name=program.name, network=network, secret=Secret(field=field, values=values), file_format="none")
    account = NoAccount() if ledger is None else LedgerAccount(ledger)
    asked = confirm_all if confirm else confirm_nothing
    return make_release(case, settings, account, confirm=asked).public.released.result
