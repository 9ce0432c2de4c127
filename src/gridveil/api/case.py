"""A loaded case in a notebook: the public part is accessible, the secret part is not."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gridveil.api.choices import Number, choose, exact_number, listed, tolerance_text
from gridveil.api.explored import ExploreResult
from gridveil.api.html import facts_html, facts_text
from gridveil.api.plots import CasePlots
from gridveil.api.released import ReleaseResult
from gridveil.api.series import SeriesResult
from gridveil.api.solved import SolveResult, solve_case
from gridveil.core.band import Tolerance
from gridveil.core.choices import (
    DEFAULT_ALPHA,
    DEFAULT_BETA,
    DEFAULT_EPSILON,
    BatchEngine,
    CostTargetMode,
    DemandBounds,
    Formulation,
    Protects,
)
from gridveil.core.errors import InputError, NoReleaseError
from gridveil.core.kept import NOTHING_KEPT, Kept, agreed_beta, parse_keep
from gridveil.core.methods import Method, Solver
from gridveil.core.secret_choice import SecretChoice, demand_alpha, split_off_demand, stated_secrets
from gridveil.privacy.curator import Curator
from gridveil.privacy.ledger import Ledger
from gridveil.privacy.mechanisms import LAPLACE
from gridveil.privacy.noisy import Draw
from gridveil.privacy.series_curator import SeriesCurator
from gridveil.sectors.case import Case, Network
from gridveil.sectors.registry import describe_case, sector_of
from gridveil.sectors.series_table import named_series, series_of
from gridveil.sectors.view import Frames
from gridveil.service.account import LedgerAccount, NoAccount
from gridveil.service.budget import ledger_to_charge, registered_ledger
from gridveil.service.guards import Confirm, confirm_all, confirm_nothing, refuse_wrong_units
from gridveil.service.preflight import RUNS, SECONDS, Preflight, preflight
from gridveil.service.prepare import PublicCase, prepare
from gridveil.service.publish import CURATOR
from gridveil.service.release import make_release, refuse_share_of_nothing
from gridveil.service.reuse import kept_promise, load_draw
from gridveil.service.secrets import with_secrets
from gridveil.service.series import release_series
from gridveil.service.series_settings import SeriesSettings
from gridveil.service.series_store import SeriesStore
from gridveil.service.settings import CostTargetSettings, ReleaseSettings
from gridveil.solvers.batch.backends import engine_beside
from gridveil.study.choices import DemandSource
from gridveil.study.explore import ExploreGrid, demands_to_use, explore_public, explore_simulated, refuse_true_demands

if TYPE_CHECKING:
    import pandas as pd

AnyPath = str | PathLike[str]


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class GridCase:
    """A power or gas case. ``source`` is the path or name it was loaded from; None for objects of other packages.

    ``draws`` holds the draws of this session, the newest last: what was paid for is not lost when a release fails.
    """

    case: Case
    source: str | None = None
    draws: list[Draw] = field(default_factory=list)

    @property
    def name(self) -> str:
        """The case's name."""
        return self.case.name

    @property
    def network(self) -> Network:
        """The public part: topology, limits, costs and the sites of demands, per unit."""
        return self.case.network

    @property
    def plot(self) -> CasePlots:
        """Plots of the public network."""
        return CasePlots(self.network, self.name)

    def describe(self) -> dict[str, object]:
        """Describe the case: what it holds, which part is secret and which is public."""
        return describe_case(self.case)

    def to_pandas(self) -> Frames:
        """Return the public part as frames: buses, branches, generators, sites; or junctions, pipes, compressors, sites."""
        return sector_of(self.network).public_frames(self.network)

    def solve(
        self, *, formulation: Formulation | str = Formulation.AC, solver: Solver | str = Solver.STRUCTURED
    ) -> SolveResult:
        """Solve the optimal flow O(d°) at the case's own demands. For gas the formulation does not matter."""
        return solve_case(self.case, formulation, solver, secret=True)

    def release(
        self,
        *,
        beta: str | None = None,
        epsilon: Number | None = None,
        alpha: Number | None = None,
        seed: int | None = None,
        ledger: AnyPath | Ledger | None = None,
        budget: Number | None = None,
        dataset: str | None = None,
        reuse: ReleaseResult | Draw | AnyPath | None = None,
        cost_target: CostTargetMode | str = CostTargetMode.PRIVATE,
        forecast_cost: float | None = None,
        cost_share: Number | None = None,
        declare_cost_public: bool = False,
        mechanism: str = LAPLACE,
        method: Method | str = Method.AUTO,
        solver: Solver | str = Solver.STRUCTURED,
        demand_bounds: DemandBounds | str = DemandBounds.NONE,
        time_limit: float | None = None,
        confirm: bool = False,
        secret: str | Mapping[str, str] | None = None,
        keep: str | Mapping[str, str] | None = None,
        declare_public: Sequence[str] = (),
        forecasts: Mapping[str, str] | None = None,
        totals_share: Number | None = None,
    ) -> ReleaseResult:
        """Release the case with private demands that are feasible at a cost near the target: see ``gridveil release --help``.

        ``epsilon`` (1) and ``alpha`` ("0.1pu", or an amount such as "10MVA") are the promise; ``beta`` is a share ("1%") or an
        amount ("250$/h"). Draws are charged to the data set's ledger, which ``budget`` creates; a ``seed`` makes a simulation
        that protects nobody. ``confirm`` answers beforehand what the command line would ask: an α larger than most demands, or
        a further draw on the same data. ``reuse`` takes the noise of an earlier release, its folder, or one of ``draws``, at no
        cost, and with it the promise. Nothing but the ledger is written: ``save(folder)`` of the result does that. ``secret``
        states what is hidden and how far, instead of ``alpha``: {"demand": "0.1MVA", "cost": "2$/MWh", "limit": "20MVA",
        "impedance": "5%"}.

        ``keep`` says what else is kept: "total=0.5%,zones=1%", or a mapping of the same; its ``cost`` is ``beta``. ``forecasts``
        ("total": "7300MW") and ``declare_public`` give targets; totals are private otherwise.
        """
        loss, distance = (None if stated is None else exact_number(stated) for stated in (epsilon, alpha))
        if secret is not None and distance is not None:
            raise InputError("secret states what is hidden and how far; leave out alpha")
        demand_alone, secrets = split_off_demand(stated_secrets(secret))
        distance = distance or demand_alone
        # What is stated badly is told before a ledger is made or opened.
        tolerance, kept = _beta_and_kept(beta, keep, declare_public, forecasts, totals_share)
        settings = _settings(
            loss,
            distance,
            tolerance,
            cost_target=cost_target,
            forecast_cost=forecast_cost,
            cost_share=cost_share,
            declare_cost_public=declare_cost_public,
            mechanism=mechanism,
            seed=seed,
            method=method,
            solver=solver,
            demand_bounds=demand_bounds,
            time_limit=time_limit,
            secrets=secrets,
            keep=kept,
        )
        case = with_secrets(self.case, secrets)
        public = PublicCase.of(case)
        prepared = prepare(public, solver=settings.solver.value, bounds=settings.demand_bounds)
        refuse_wrong_units(prepared, settings)
        refuse_share_of_nothing(public, settings)
        asked = confirm_all if confirm else confirm_nothing
        curator, book = Curator(case), None
        if seed is None:
            book = self._ledger(ledger, settings, budget, dataset, asked)
        draw = self._reused(reuse, curator, book)
        if draw is not None:
            paid_loss, paid_distance = kept_promise(draw, case.field, book, loss, distance)
            settings = replace(settings, epsilon=paid_loss, alpha=paid_distance)
        account = NoAccount() if book is None else LedgerAccount(book)
        try:
            made = make_release(case, settings, account, reuse=draw, keep=self._keep, prepared=prepared, confirm=asked)
            return ReleaseResult(made, case, self.source, book)
        except (NoReleaseError, KeyboardInterrupt) as error:
            if self.draws:
                error.add_note("the draw is kept: release(…, reuse=case.draws[-1]) uses it again at no cost")
            raise

    def preflight(
        self,
        *,
        beta: str = DEFAULT_BETA,
        epsilon: Number | None = None,
        alpha: Number | None = None,
        seed: int | None = None,
        ledger: AnyPath | Ledger | None = None,
        budget: Number | None = None,
        dataset: str | None = None,
        runs: int = RUNS,
        seconds: float = SECONDS,
        **choices: Any,
    ) -> Preflight:
        """Look at a release before it is drawn, as ``gridveil release --check`` does: nothing is charged or made.

        Takes the arguments of ``release``, and the number of simulated releases and the seconds that they may take. The
        result is for the curator: it may name true demands.
        """
        loss, distance = (None if stated is None else exact_number(stated) for stated in (epsilon, alpha))
        settings = _settings(loss, distance, Tolerance.parse(tolerance_text(beta)), seed=seed, **choices)
        path = ledger.path if isinstance(ledger, Ledger) else ledger
        book = None if seed is not None else registered_ledger(self.case, name=dataset, path=path)
        cap = None if budget is None else exact_number(budget)
        return preflight(self.case, settings, book, cap=cap, runs=runs, seconds=seconds)

    def release_series(
        self,
        frame: pd.DataFrame | str,
        *,
        protects: Protects | str,
        epsilon: Number = DEFAULT_EPSILON,
        alpha: Number = DEFAULT_ALPHA,
        beta: str = DEFAULT_BETA,
        basis: str | None = None,
        noise: str | None = None,
        delta: Number | None = None,
        seed: int | None = None,
        ledger: AnyPath | Ledger | None = None,
        budget: Number | None = None,
        dataset: str | None = None,
        folder: AnyPath | None = None,
        cost_target: CostTargetMode | str = CostTargetMode.DERIVED,
        forecast_cost: float | None = None,
        cost_share: Number | None = None,
        power_factor: float | None = None,
        solver: Solver | str = Solver.STRUCTURED,
        demand_bounds: DemandBounds | str = DemandBounds.NONE,
        workers: int = 1,
        batch: BatchEngine | str = BatchEngine.STRUCTURED,
        confirm: bool = False,
    ) -> SeriesResult:
        """Release hourly demands, timestamp × site, long or wide: see ``gridveil release --help`` and the guide to series.

        In place of a frame, "snapshots" stands for those of the case itself: a PyPSA network, or pandapower's profiles.
        ``protects`` says what ``epsilon`` and ``alpha`` hide: one "hour" or the whole "profile" of one customer. The series is
        one charge. With a ``folder`` its draws are stored there before the repair, and found again by the same call. ``batch``
        repairs all hours together, with "native" or on a "gpu".
        """
        target = CostTargetSettings(
            mode=choose(CostTargetMode, cost_target, "the cost target"),
            forecast=forecast_cost,
            share=None if cost_share is None else exact_number(cost_share),
        )
        settings = SeriesSettings(
            release=ReleaseSettings(
                epsilon=exact_number(epsilon),
                alpha=exact_number(alpha),
                beta=Tolerance.parse(tolerance_text(beta)),
                target=target,
                seed=seed,
                solver=Solver(solver),
                demand_bounds=choose(DemandBounds, demand_bounds, "the demand bounds"),
            ),
            protects=choose(Protects, protects, "what the promise protects"),
            mechanism=noise,
            basis=basis,
            delta=None if delta is None else exact_number(delta),
        )
        engine = choose(BatchEngine, batch, "the engine of batches")
        engine_beside(engine, settings.release.solver)  # what it lacks is said before a ledger is made
        series = (
            named_series(Path(frame), self.case, power_factor)
            if isinstance(frame, str)
            else series_of(frame, self.case, power_factor)
        )
        curator = SeriesCurator(self.case, series.hours)
        store = None if folder is None else SeriesStore(Path(folder) / CURATOR, curator, settings)
        begun = store is not None and store.exists
        account: LedgerAccount | NoAccount = NoAccount()
        asked = confirm_all if confirm or begun else confirm_nothing
        if seed is None:
            cap = None if begun else budget
            account = LedgerAccount(self._ledger(ledger, settings.release, cap, dataset, asked, settings.protects))
        made = release_series(
            series,
            settings,
            account,
            workers=workers,
            reuse=store.load(account) if store is not None and begun else None,
            keep=(lambda draw: None) if store is None else store.keep,
            announce=(lambda: None) if store is None else store.announce,
            confirm=asked,
            batch=engine,
        )
        return SeriesResult(made, curator, None if folder is None else Path(folder))

    def explore(
        self,
        *,
        alpha: Number | Iterable[Number] = ("0.01pu", "0.1pu", "1pu"),
        epsilon: Number | Iterable[Number] = "1",
        beta: str | Iterable[str] = ("0.1%", "1%", "10%"),
        seeds: int = 10,
        demands: DemandSource | str | None = None,
        loading: float | None = None,
        secret: str | Mapping[str, str] | None = None,
        batch: BatchEngine | str = BatchEngine.STRUCTURED,
    ) -> ExploreResult:
        """Try settings on values that are not secret: see ``gridveil explore --help``.

        With ``secret``, as in ``release``, the values of ``alpha`` are multiples of what it states. ``batch`` makes all
        releases together, with "native" or on a "gpu".
        """
        engine = choose(BatchEngine, batch, "the engine of batches")
        betas = (beta,) if isinstance(beta, str) else tuple(map(tolerance_text, beta))
        grid = ExploreGrid(alphas=listed(alpha), epsilons=listed(epsilon), betas=betas, seeds=seeds)
        wanted = None if demands is None else choose(DemandSource, demands, "the demands")
        if wanted is DemandSource.TRUE:
            refuse_true_demands(grid)
        if self.source is not None and demands_to_use(self.source, wanted) is DemandSource.PUBLIC:
            public = with_secrets(self.case, stated_secrets(secret))
            return ExploreResult(exploration=explore_public(public, grid, batch=engine))
        if wanted is DemandSource.PUBLIC:
            raise InputError("only the demands of built-in cases are known to be public; omit demands='public'")
        case = with_secrets(self.case, stated_secrets(secret))
        found = explore_simulated(case.network, case.field, self.name, grid, loading=loading, batch=engine)
        return ExploreResult(exploration=found)

    def _ledger(
        self,
        ledger: AnyPath | Ledger | None,
        settings: ReleaseSettings,
        budget: Number | None,
        dataset: str | None,
        confirm: Confirm,
        protects: Protects = Protects.PROFILE,
    ) -> Ledger:
        """Return the ledger of the data set; a given one must be the registered one."""
        path = ledger.path if isinstance(ledger, Ledger) else ledger
        cap = None if budget is None else exact_number(budget)
        return ledger_to_charge(self.case, settings, confirm, name=dataset, path=path, cap=cap, protects=protects)

    def _reused(
        self, reuse: ReleaseResult | Draw | AnyPath | None, curator: Curator, ledger: Ledger | None
    ) -> Draw | None:
        """Return the draw to reuse: from this session, or from a folder, where it must be bound to the same data."""
        if reuse is None:
            return None
        if not isinstance(reuse, ReleaseResult | Draw):
            return load_draw(Path(reuse), curator, ledger)
        draw = reuse.draw if isinstance(reuse, ReleaseResult) else reuse
        if draw not in self.draws:
            raise InputError(
                "the draw to be reused was not made from this case in this session; name its folder instead"
            )
        return draw

    def _keep(self, draw: Draw) -> None:
        """Keep a draw; one that is complete now takes the place of its first part."""
        if self.draws and self.draws[-1].noisy is draw.noisy:
            self.draws[-1] = draw
        elif draw not in self.draws:
            self.draws.append(draw)

    def __repr__(self) -> str:
        facts = {
            key: value for key, value in self.describe().items() if key not in ("case", "secret", "public", "notes")
        }
        return facts_text("GridCase", {"case": self.name} | facts)

    def _repr_html_(self) -> str:
        facts = {key.replace("_", " "): value for key, value in self.describe().items() if key != "case"}
        return facts_html(self.name, facts)


def _settings(
    epsilon: str | None,
    alpha: str | None,
    beta: Tolerance,
    *,
    cost_target: CostTargetMode | str = CostTargetMode.PRIVATE,
    forecast_cost: float | None = None,
    cost_share: Number | None = None,
    declare_cost_public: bool = False,
    mechanism: str = LAPLACE,
    seed: int | None = None,
    method: Method | str = Method.AUTO,
    solver: Solver | str = Solver.STRUCTURED,
    demand_bounds: DemandBounds | str = DemandBounds.NONE,
    time_limit: float | None = None,
    secrets: tuple[SecretChoice, ...] = (),
    keep: Kept = NOTHING_KEPT,
) -> ReleaseSettings:
    """Settings of one release from Python's arguments; the defaults are those of the command line."""
    mode = choose(CostTargetMode, cost_target, "the cost target")
    if mode is CostTargetMode.PUBLIC:
        raise InputError("a public cost target must be declared: use declare_cost_public=True instead")
    return ReleaseSettings(
        epsilon=epsilon or DEFAULT_EPSILON,
        alpha=alpha or demand_alpha(secrets) or DEFAULT_ALPHA,
        beta=beta,
        target=CostTargetSettings(
            mode=CostTargetMode.PUBLIC if declare_cost_public else mode,
            forecast=forecast_cost,
            share=None if cost_share is None else exact_number(cost_share),
        ),
        mechanism=mechanism,
        seed=seed,
        method=Method(method),
        solver=Solver(solver),
        demand_bounds=choose(DemandBounds, demand_bounds, "the demand bounds"),
        time_limit=time_limit,
        secrets=secrets,
        keep=keep,
    )


def _beta_and_kept(
    beta: str | None,
    keep: str | Mapping[str, str] | None,
    declared: Sequence[str],
    forecasts: Mapping[str, str] | None,
    share: Number | None,
) -> tuple[Tolerance, Kept]:
    """β and all else that is kept, from what a caller states."""
    text = keep if isinstance(keep, str) else ",".join(f"{name}={amount}" for name, amount in (keep or {}).items())
    cost, kept = parse_keep(
        text,
        declared=declared,
        forecasts=[f"{name}={quantity}" for name, quantity in (forecasts or {}).items()],
        share=None if share is None else exact_number(share),
    )
    agreed = agreed_beta(None if beta is None else Tolerance.parse(tolerance_text(beta)), cost)
    return agreed or Tolerance.parse(DEFAULT_BETA), kept
