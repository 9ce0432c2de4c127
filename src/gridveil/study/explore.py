"""Exploration of α, ε and β without the secret: a grid of settings on simulated or public demands."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from gridveil.bilevel.bulk import run_all
from gridveil.bilevel.methods import method_named
from gridveil.core.band import CostTarget, Tolerance
from gridveil.core.choices import BatchEngine, CostTargetMode
from gridveil.core.deadline import time_limit, usual_time_limit
from gridveil.core.errors import InputError, NoReleaseError
from gridveil.core.methods import Method, Solver
from gridveil.core.quantity import parse_distance, refuse_bare_distance, split_quantity
from gridveil.core.secret import Secret, SecretField, SecretValues
from gridveil.privacy.curator import Curator, published_values
from gridveil.privacy.mechanisms.exact_sampling import positive_fraction
from gridveil.privacy.mechanisms.simulation import simulate_noise
from gridveil.privacy.noisy import NoisyData
from gridveil.sectors.case import Case, Network
from gridveil.sectors.model import DataLayout, Model
from gridveil.sectors.registry import build_model, file_of, sector_of
from gridveil.solvers.backend import Backend
from gridveil.solvers.batch.backends import refuse_other_solver
from gridveil.solvers.registry import backend_entry, backend_for
from gridveil.solvers.solves import Solves
from gridveil.study.choices import DemandSource

Vector = NDArray[np.float64]

LOW, HIGH = 0.1, 0.9  # quantiles shown beside each mean


@dataclass(frozen=True, kw_only=True)
class ExploreGrid:
    """The settings to try: α with its unit and ε as exact text, β as a share (1%) or an amount, and seeds 1 … ``seeds``."""

    alphas: tuple[str, ...]
    epsilons: tuple[str, ...]
    betas: tuple[str, ...]
    seeds: int
    method: Method = Method.AUTO
    solver: Solver = Solver.STRUCTURED

    def __post_init__(self) -> None:
        for name, values in (("alpha", self.alphas), ("epsilon", self.epsilons), ("beta", self.betas)):
            if not values:
                raise InputError(f"no {name} to try; give at least one")
        method_named(self.method)
        backend_entry(self.solver)
        for alpha in self.alphas:
            refuse_bare_distance(alpha)
        for epsilon in self.epsilons:
            positive_fraction(epsilon, "epsilon")
        for beta in self.betas:
            Tolerance.parse(beta)
        if self.seeds < 1:
            raise InputError("there must be at least one seed; correct --seeds")

    @property
    def draws(self) -> int:
        """Number of noise draws: every β uses the same draws."""
        return len(self.alphas) * len(self.epsilons) * self.seeds

    @property
    def runs(self) -> int:
        """Number of releases tried."""
        return self.draws * len(self.betas)

    def per_unit(self, field: SecretField) -> list[Fraction]:
        """The values of α, per unit."""
        return [parse_distance(alpha, field) for alpha in self.alphas]

    def charge(self, alpha: str) -> Fraction:
        """Return the ε, for neighbours at one of the ``alphas``, that these draws would cost on secret demands.

        All of them must be stated in one unit: the case, and with it its base, is not known here.
        """
        amounts = [split_quantity(text, "alpha", example="10MVA")[0] for text in (alpha, *self.alphas)]
        losses = (Fraction(epsilon) * amounts[0] / a for a, epsilon in product(amounts[1:], self.epsilons))
        return self.seeds * sum(losses, Fraction(0))


@dataclass(frozen=True, kw_only=True)
class Spread:
    """Mean and two quantiles (10 % and 90 %) over runs."""

    mean: float
    low: float
    high: float


@dataclass(frozen=True, kw_only=True)
class ExploreRow:
    """Results of one setting: distances are ‖· − d‖/‖d‖, cost errors |O(d*) − f̃|/|f̃|, over the verified runs.

    There is no distance without a verified run, and no cost error where the target is zero.
    ``failures`` counts the other runs by reason. ``posterior`` is the most that somebody who held two values of one demand,
    α apart, for equally likely can believe in one of them after the release: e^ε/(1 + e^ε).
    """

    alpha: float
    epsilon: float
    beta: str
    posterior: float
    runs: int
    verified: int
    failures: Mapping[str, int]
    distance_noisy: Spread
    distance_released: Spread | None
    cost_error: Spread | None
    optimisations: float
    seconds: float


@dataclass(frozen=True, kw_only=True)
class Exploration:
    """All rows, and the demands that they are based on."""

    case: str
    source: DemandSource
    demands: str
    """What these demands are, in words."""
    sites: int
    unit: str
    """What α is measured in."""
    cost: float
    """O(d) at these demands: the cost target f̃."""
    cost_unit: str
    seeds: int
    rows: tuple[ExploreRow, ...]
    seconds: float


@dataclass(frozen=True, kw_only=True)
class _Run:
    ending: str
    verified: bool
    distance_noisy: float
    distance_released: float
    cost: float
    optimisations: int
    seconds: float


Advance = Callable[[], None]


def explore_simulated(
    network: Network,
    field: SecretField,
    name: str,
    grid: ExploreGrid,
    *,
    loading: float | None = None,
    advance: Advance = lambda: None,
    batch: BatchEngine = BatchEngine.STRUCTURED,
) -> Exploration:
    """Try the settings on demands made from the public network alone; see ``simulated_demand``."""
    model = build_model(network)
    backend = backend_for(model, grid.solver)
    demand, words = simulated_demand(network, field, model.layout, backend, loading=loading)
    case = Case(name=name, network=network, secret=Secret(field=field, values=demand), file_format="simulated")
    return _explore(case, model, backend, grid, DemandSource.SIMULATED, words, advance, batch)


def simulated_demand(
    network: Network,
    field: SecretField,
    layout: DataLayout,
    backend: Backend,
    *,
    seed: int = 0,
    loading: float | None = None,
) -> tuple[SecretValues, str]:
    """Simulate demands (per unit, one per site) that the network can serve, with a description; reproducible by seed.

    ``loading`` is a share of what the sector takes for the whole: of the total generator capacity, for example.
    """
    if loading is not None and not 0 < loading <= 1:
        raise InputError("the loading must be a share above 0 and up to 1, such as 0.5; correct --loading")
    solves, generator = Solves(backend), np.random.default_rng(seed)
    data, words = sector_of(network).simulate(network, field, solves.nearest_data, generator, loading)
    if not solves.afresh(data).converged:
        raise NoReleaseError("found no simulated demands that the network can serve; try another --loading")
    empty: NDArray[Any] = np.zeros(len(field), dtype=complex if field.is_complex else float)
    return SecretValues(layout.to_sites(data, empty)), words


def explore_public(
    case: Case,
    grid: ExploreGrid,
    *,
    advance: Advance = lambda: None,
    batch: BatchEngine = BatchEngine.STRUCTURED,
) -> Exploration:
    """Try the settings on the demands of a benchmark. The caller vouches that they are public."""
    model = build_model(case.network)
    backend = backend_for(model, grid.solver)
    return _explore(case, model, backend, grid, DemandSource.PUBLIC, "of the public benchmark", advance, batch)


def demands_to_use(source: str, wanted: DemandSource | None) -> DemandSource:
    """Choose public demands for a built-in or PGLib name, simulated ones for a file, whose demands may be secret."""
    benchmark = not Path(source).exists() or file_of(source) is None
    if wanted is DemandSource.PUBLIC and not benchmark:
        raise InputError(
            f"{source}: the demands of a file are taken for secret, only those of built-in names for public; "
            "use --demands simulated"
        )
    return wanted or (DemandSource.PUBLIC if benchmark else DemandSource.SIMULATED)


def refuse_true_demands(grid: ExploreGrid) -> NoReturn:
    """Explain why settings must not be tuned on true demands, and what that would cost."""
    stated = {alpha: split_quantity(alpha, "alpha", example="10MVA") for alpha in grid.alphas}
    cost = "with their full ε"
    if len({unit for _, unit in stated.values()}) == 1:
        ends = sorted(
            {min(stated, key=stated.__getitem__), max(stated, key=stated.__getitem__)}, key=stated.__getitem__
        )
        words = [f"ε = {float(grid.charge(alpha)):.4g} at α = {alpha}" for alpha in ends]
        cost = words[0] + (f" ({words[1]})" if len(words) > 1 else "") + " in total"
    raise InputError(
        "settings are not explored on the true demands: whichever you then chose would tell something about them; "
        f"the {grid.draws} draws of this grid would have to be paid for, {cost}. "
        "Use --demands simulated, which costs nothing"
    )


def _explore(
    case: Case,
    model: Model,
    backend: Backend,
    grid: ExploreGrid,
    source: DemandSource,
    words: str,
    advance: Advance,
    batch: BatchEngine,
) -> Exploration:
    refuse_other_solver(batch, grid.solver)
    clock = time.perf_counter()
    optimum = Solves(backend).afresh(model.layout.to_program(published_values(case)))
    if not optimum.converged:
        raise NoReleaseError(f"the optimal flow at the {source.value} demands was not solved ({optimum.status.value})")
    tolerances = [Tolerance.parse(beta) for beta in grid.betas]
    for tolerance in tolerances:
        tolerance.check_unit(model.program.cost_unit)
    bands = [tolerance.around(optimum.cost, CostTargetMode.PUBLIC) for tolerance in tolerances]
    jobs: list[Callable[[Backend], _Run]] = []
    places: list[list[_Run]] = []
    grouped: list[tuple[Fraction, str, str, list[_Run]]] = []
    for alpha, epsilon in product(grid.per_unit(case.field), grid.epsilons):
        tried: list[list[_Run]] = [[] for _ in bands]
        for seed in range(1, grid.seeds + 1):
            noisy = simulate_noise(case.secret, epsilon=float(Fraction(epsilon)), alpha=float(alpha), seed=seed)
            for runs, band in zip(tried, bands, strict=True):
                jobs.append(partial(_run, case, model, noisy, band, grid.method))
                places.append(runs)
        grouped += [(alpha, epsilon, beta, runs) for beta, runs in zip(grid.betas, tried, strict=True)]
    found = {}
    for index, outcome in run_all(jobs, backend, model, batch):
        found[index] = outcome.get()
        advance()
    for index, runs in enumerate(places):
        runs.append(found[index])
    rows = [_row(alpha, epsilon, beta, optimum.cost, runs) for alpha, epsilon, beta, runs in grouped]
    return Exploration(
        case=case.name,
        source=source,
        demands=words,
        sites=len(case.values),
        unit=case.field.unit_words,
        cost=optimum.cost,
        cost_unit=model.program.cost_unit,
        seeds=grid.seeds,
        rows=tuple(rows),
        seconds=time.perf_counter() - clock,
    )


def _run(case: Case, model: Model, noisy: NoisyData, band: CostTarget, method: Method, backend: Backend) -> _Run:
    data = model.layout.to_program(noisy.values)
    with time_limit(usual_time_limit(sector_of(case.network).size(case.network))):
        result = method_named(method)(backend, data, band)
    released = None if result.d is None else model.layout.to_sites(result.d, noisy.values)
    return _Run(
        ending=result.ending.value,
        verified=result.verified,
        distance_noisy=Curator(case).distance(noisy.values),
        distance_released=math.nan if released is None else Curator(case).distance(released),
        cost=result.cost,
        optimisations=result.optimisations,
        seconds=result.seconds,
    )


def _row(alpha: Fraction, epsilon: str, beta: str, target: float, runs: Sequence[_Run]) -> ExploreRow:
    verified = [run for run in runs if run.verified]
    loss = float(Fraction(epsilon))
    return ExploreRow(
        alpha=float(alpha),
        epsilon=loss,
        beta=beta,
        posterior=1 / (1 + math.exp(-loss)),
        runs=len(runs),
        verified=len(verified),
        failures=dict(Counter(run.ending for run in runs if not run.verified)),
        distance_noisy=_spread([run.distance_noisy for run in runs]),
        distance_released=_spread([run.distance_released for run in verified]) if verified else None,
        cost_error=_spread([abs(run.cost / target - 1) for run in verified]) if verified and target else None,
        optimisations=float(np.mean([run.optimisations for run in runs])),
        seconds=float(np.mean([run.seconds for run in runs])),
    )


def _spread(values: Sequence[float]) -> Spread:
    return Spread(
        mean=float(np.mean(values)), low=float(np.quantile(values, LOW)), high=float(np.quantile(values, HIGH))
    )
