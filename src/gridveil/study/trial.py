"""One task of a study: simulated noise on one network, its repair, and what only a simulation may measure."""

from __future__ import annotations

import json
import math
import os
import platform
import time
import zlib
from collections.abc import Generator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cache
from importlib import metadata
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from gridveil import __version__
from gridveil.bilevel.methods import method_named
from gridveil.bilevel.result import BilevelResult, Step
from gridveil.core.band import Tolerance
from gridveil.core.choices import CostTargetMode
from gridveil.core.deadline import time_limit, usual_time_limit
from gridveil.core.errors import NoReleaseError
from gridveil.core.methods import Method, Solver
from gridveil.core.parallel import Failure, failure_of
from gridveil.core.secret_choice import stated_secrets
from gridveil.privacy.curator import Curator, published_values
from gridveil.privacy.mechanisms.simulation import NoiseSites, simulate_noise
from gridveil.privacy.noisy import NoisyData
from gridveil.sectors.gas.boundary import preset_boundary
from gridveil.sectors.registry import build_model, load_case, sector_of
from gridveil.service.kept import AIMS, KeptTarget, kept_rows
from gridveil.service.secrets import with_secrets
from gridveil.solvers.backend import Backend
from gridveil.solvers.registry import backend_for
from gridveil.solvers.solves import Solves
from gridveil.study.measures import fidelity_columns, study_keep, true_targets, worst_total
from gridveil.study.outcome import FAILED, TaskOutcome
from gridveil.study.study_file import NetworkEntry

if TYPE_CHECKING:
    from gridveil.sectors.case import Case
    from gridveil.sectors.model import Model

Vector = NDArray[np.float64]
Rows = Generator[list[tuple[int, TaskOutcome | Failure]], None, None]
"""What an engine gives: positions of jobs, and their rows or why there are none; all that it knows of at the same time."""
PACKAGES = ("numpy", "casadi", "numba")


@dataclass(frozen=True, kw_only=True)
class TrialNetwork:
    """A network of a study before it is compiled."""

    entry: NetworkEntry
    solver: Solver
    """What solves it: gas networks are always Ipopt's."""
    kind: str
    buses: int
    sites: int


@dataclass(frozen=True, kw_only=True)
class Task:
    """The settings of one row, besides its network."""

    alpha: float
    beta: float
    epsilon: float
    seed: int
    method: Method


@dataclass(frozen=True, kw_only=True)
class Rules:
    """Settings common to all tasks: which sites receive noise, and the time limit of a release.

    ``task_seconds``: None chooses the limit by the size of the network, as for any release. ``keep`` names totals that every
    release keeps; ``fidelity`` asks for the comparison of prices, congestion, losses and balances.
    """

    sites: NoiseSites
    task_seconds: float | None
    keep: str = ""
    fidelity: bool = False

    def seconds(self, buses: int) -> float:
        """The time limit of a release."""
        return self.task_seconds or usual_time_limit(buses)


@dataclass(frozen=True, eq=False, kw_only=True)
class PreparedNetwork:
    """A compiled network and its true optimum: the state that a worker keeps."""

    network: TrialNetwork
    case: Case
    model: Model
    backend: Backend
    true_cost: float
    true_seconds: float


def load_network(entry: NetworkEntry) -> Case:
    """Read a network of a study."""
    case = load_case(entry.source, preset_boundary(entry.preset) if entry.preset is not None else None)
    return with_secrets(case, stated_secrets(entry.secret))


def inspect_network(entry: NetworkEntry, solver: Solver) -> TrialNetwork:
    """Read and check a network, and determine its size."""
    case = load_network(entry)
    sector = sector_of(case.network)
    return TrialNetwork(
        entry=entry,
        solver=solver if sector.structured else Solver.IPOPT,
        kind=sector.kind,
        buses=sector.size(case.network),
        sites=len(case.values),
    )


def prepare(network: TrialNetwork) -> PreparedNetwork:
    """Compile a network and solve O(d°), twice: the first solve ever also loads compiled code, so the second is timed."""
    case = load_network(network.entry)
    model = build_model(case.network)
    backend = backend_for(model, network.solver)
    d = model.layout.to_program(published_values(case))
    Solves(backend).afresh(d)
    true = Solves(backend).afresh(d)
    if not true.converged:
        raise NoReleaseError(f"the optimal flow at the network's own demands was not solved ({true.status.value})")
    return PreparedNetwork(
        network=network, case=case, model=model, backend=backend, true_cost=true.cost, true_seconds=true.seconds
    )


def noise_stream(label: str, seed: int) -> int:
    """Seed a separate stream per network: with a common one, a lucky draw would repeat in every row of a table.

    α, β and method do not enter: all of them see the same noise, scaled by α.
    """
    return zlib.crc32(f"{label} {seed}".encode())


def run_trial(rules: Rules, prepared: PreparedNetwork, task: Task) -> TaskOutcome:
    """Draw simulated noise, repair it, and measure. A failed repair becomes a row with its reason."""
    noisy = simulate_noise(
        prepared.case.secret,
        epsilon=task.epsilon,
        alpha=task.alpha,
        seed=noise_stream(prepared.network.entry.label, task.seed),
        sites=rules.sites,
    )
    known: dict[str, float | None] = {
        "true_cost": prepared.true_cost,
        "true_seconds": prepared.true_seconds,
        "noisy_distance": Curator(prepared.case).distance(noisy.values),
    }
    targets = true_targets(prepared.case.network, published_values(prepared.case), study_keep(rules.keep))
    known["noisy_kept_error"] = worst_total(targets, noisy.values)
    clock = time.perf_counter()
    try:
        result = _solve(rules, prepared, task, noisy, targets)
    except Exception as error:
        seconds = time.perf_counter() - clock
        return failed_outcome(prepared.network, task, failure_of(error).reason, seconds=seconds, **known)
    measured = _measured(prepared, noisy, result, targets)
    if rules.fidelity and result.d is not None:
        measured |= _compared(prepared, noisy, result, rules.seconds(prepared.network.buses))
    return _row(prepared.network, task, **known, **measured)


def failed_outcome(network: TrialNetwork, task: Task, reason: str, **known: Any) -> TaskOutcome:
    """Build the row of a task without a result; ``known`` holds the fields that are known nevertheless."""
    empty = {
        "verified": False,
        "ending": FAILED,
        "reason": reason,
        "true_cost": None,
        "cost": None,
        "highpoint_cost": None,
        "delta": None,
        "highpoint_delta": None,
        "noisy_distance": None,
        "highpoint_distance": None,
        "released_distance": None,
        "optimisations": 0,
        "seconds": 0.0,
        "true_seconds": 0.0,
        "monotone": True,
        "rank_correlation": None,
        "worst_violation": None,
        "history": "[]",
    }
    return _row(network, task, **(empty | known))


def _solve(
    rules: Rules, prepared: PreparedNetwork, task: Task, noisy: NoisyData, targets: tuple[KeptTarget, ...]
) -> BilevelResult:
    target = Tolerance(task.beta, relative=True).around(prepared.true_cost, CostTargetMode.PUBLIC)
    layout, method = prepared.model.layout, method_named(task.method)
    with time_limit(rules.seconds(prepared.network.buses)):
        for share in AIMS if targets else (1.0,):
            rows = kept_rows(targets, layout, noisy.values, share)
            result = method(prepared.backend, layout.to_program(noisy.values), replace(target, rows=rows))
            if result.verified:
                break
        return result


def _compared(prepared: PreparedNetwork, noisy: NoisyData, result: BilevelResult, seconds: float) -> dict[str, Any]:
    """What the release, noise alone and the high point are worth beside the truth."""
    if result.d is None or result.highpoint is None:
        return {}
    demands = {
        "released": (result.d, result.x),
        "noisy": (prepared.model.layout.to_program(noisy.values), None),
        "highpoint": (result.highpoint.d, None),
    }
    truth, model = prepared.model.layout.to_program(published_values(prepared.case)), prepared.model
    return dict(fidelity_columns(prepared.case.network, model, prepared.backend, truth, demands, seconds))


def _measured(
    prepared: PreparedNetwork, noisy: NoisyData, result: BilevelResult, targets: tuple[KeptTarget, ...]
) -> dict[str, Any]:
    layout, high = prepared.model.layout, result.highpoint

    def distance(d: Any) -> float:
        return Curator(prepared.case).distance(layout.to_sites(d, noisy.values))

    return {
        "verified": result.verified,
        "ending": result.ending.name,
        "reason": "" if result.verified else result.ending.value,
        "cost": _number(result.cost),
        "highpoint_cost": _number(high.cost) if high else None,
        "delta": _number(result.delta),
        "highpoint_delta": _number(high.delta) if high else None,
        "highpoint_distance": distance(high.d) if high else None,
        "released_distance": distance(result.d) if result.d is not None else None,
        "kept_error": None if result.d is None else worst_total(targets, layout.to_sites(result.d, noisy.values)),
        "optimisations": result.optimisations,
        "seconds": result.seconds,
        "monotone": result.monotonicity.holds,
        "rank_correlation": _number(result.monotonicity.rank_correlation),
        "worst_violation": _number(result.monotonicity.worst_violation),
        "history": json.dumps([_step(step) for step in result.history], allow_nan=False),
    }


def _row(network: TrialNetwork, task: Task, **measured: Any) -> TaskOutcome:
    return TaskOutcome(
        network=network.entry.label,
        kind=network.kind,
        buses=network.buses,
        sites=network.sites,
        alpha=task.alpha,
        beta=task.beta,
        epsilon=task.epsilon,
        seed=task.seed,
        method=task.method.value,
        solver=network.solver.value,
        versions=versions(),
        finished=datetime.now(UTC).isoformat(timespec="milliseconds"),
        worker=f"process {os.getpid()}",
        **measured,
    )


def _step(step: Step) -> dict[str, Any]:
    return {
        "kind": step.kind.value,
        "radius": _number(step.radius),
        "delta": _number(step.delta),
        "proxy": _number(step.proxy),
        "joint_cost": _number(step.joint_cost),
        "cost": _number(step.cost),
        "joint_status": step.joint_status.value,
        "follower_status": step.follower_status.value,
        "seconds": step.seconds,
    }


def _number(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None


@cache
def versions() -> str:
    """Return the versions of the software that computes the numbers, as JSON."""
    found = {"gridveil": __version__, "python": platform.python_version()}
    return json.dumps(found | {name: metadata.version(name) for name in PACKAGES})
