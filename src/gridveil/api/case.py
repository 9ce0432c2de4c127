"""A loaded case in a notebook: the public part is accessible, the secret part is not."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

from gridveil.api.choices import Number, choose, exact_number, listed, tolerance_text
from gridveil.api.explored import ExploreResult
from gridveil.api.html import facts_html, facts_text
from gridveil.api.plots import CasePlots
from gridveil.api.released import ReleaseResult
from gridveil.api.series import SeriesResult
from gridveil.api.solved import SolveResult, solve_case
from gridveil.core.band import Tolerance
from gridveil.core.choices import CostTargetMode, DemandBounds, Formulation, Protects
from gridveil.core.errors import InputError, NoReleaseError
from gridveil.core.methods import Method, Solver
from gridveil.privacy.curator import Curator
from gridveil.privacy.ledger import Ledger
from gridveil.privacy.mechanisms import LAPLACE
from gridveil.privacy.noisy import Draw
from gridveil.privacy.series_curator import SeriesCurator
from gridveil.sectors.case import Case, Network
from gridveil.sectors.registry import describe_case, sector_of
from gridveil.sectors.series_table import series_of
from gridveil.sectors.view import Frames
from gridveil.service.account import LedgerAccount, NoAccount
from gridveil.service.budget import ledger_of
from gridveil.service.prepare import PublicCase
from gridveil.service.publish import CURATOR
from gridveil.service.release import make_release, refuse_share_of_nothing
from gridveil.service.reuse import kept_promise, load_draw
from gridveil.service.series import release_series
from gridveil.service.series_settings import SeriesSettings
from gridveil.service.series_store import SeriesStore
from gridveil.service.settings import CostTargetSettings, ReleaseSettings
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
        beta: str,
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
    ) -> ReleaseResult:
        """Release the case with private demands that are feasible at a cost near the target: see ``gridveil release --help``.

        ``epsilon`` and ``alpha`` ("10MVA", or per unit) are the promise; ``beta`` is a share ("1%") or an amount ("250").
        Draws are charged to the data set's ledger, which ``budget`` creates; a ``seed`` makes a simulation that protects
        nobody. ``reuse`` takes the noise of an earlier release, its folder, or one of ``draws``, at no cost, and with it the
        promise. Nothing but the ledger is written: ``save(folder)`` of the result does that.
        """
        mode = choose(CostTargetMode, cost_target, "the cost target")
        if mode is CostTargetMode.PUBLIC:
            raise InputError("a public cost target must be declared: use declare_cost_public=True instead")
        loss, distance = (None if stated is None else exact_number(stated) for stated in (epsilon, alpha))
        if reuse is None and (loss is None or distance is None):
            raise InputError("a release needs epsilon and alpha; give, for example, epsilon=1, alpha='10MVA'")
        # What is stated badly is told before a ledger is made or opened.
        settings = ReleaseSettings(
            epsilon=loss or "1",
            alpha=distance or "1",
            beta=Tolerance.parse(tolerance_text(beta)),
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
        )
        refuse_share_of_nothing(PublicCase.of(self.case), settings)
        curator, book = Curator(self.case), None
        if seed is None:
            book = self._ledger(ledger, alpha, budget, dataset)
        draw = self._reused(reuse, curator, book)
        if draw is not None:
            paid_loss, paid_distance = kept_promise(draw, self.case.field, book, loss, distance)
            settings = replace(settings, epsilon=paid_loss, alpha=paid_distance)
        account = NoAccount() if book is None else LedgerAccount(book)
        try:
            made = make_release(self.case, settings, account, reuse=draw, keep=self._keep)
            return ReleaseResult(made, self.case, self.source, book)
        except NoReleaseError as error:
            if self.draws:
                error.add_note("the draw is kept: release(…, reuse=case.draws[-1]) uses it again at no cost")
            raise

    def release_series(
        self,
        frame: pd.DataFrame,
        *,
        protects: Protects | str,
        epsilon: Number,
        alpha: Number,
        beta: str,
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
    ) -> SeriesResult:
        """Release hourly demands, timestamp × site, long or wide: see ``gridveil release --help`` and the guide to series.

        ``protects`` says what ``epsilon`` and ``alpha`` hide: one "hour" or the whole "profile" of one customer. The series is
        one charge. With a ``folder`` its draws are stored there before the repair, and found again by the same call.
        """
        chosen = choose(Protects, protects, "what the promise protects")
        settings = SeriesSettings(
            release=ReleaseSettings(
                epsilon=exact_number(epsilon),
                alpha=exact_number(alpha),
                beta=Tolerance.parse(tolerance_text(beta)),
                target=CostTargetSettings(
                    mode=choose(CostTargetMode, cost_target, "the cost target"),
                    forecast=forecast_cost,
                    share=None if cost_share is None else exact_number(cost_share),
                ),
                seed=seed,
                solver=Solver(solver),
                demand_bounds=choose(DemandBounds, demand_bounds, "the demand bounds"),
            ),
            protects=chosen,
            mechanism=noise,
            basis=basis,
            delta=None if delta is None else exact_number(delta),
        )
        series = series_of(frame, self.case, power_factor)
        curator = SeriesCurator(self.case, series.hours)
        store = None if folder is None else SeriesStore(Path(folder) / CURATOR, curator, settings)
        begun = store is not None and store.exists
        account: LedgerAccount | NoAccount = NoAccount()
        if seed is None:
            account = LedgerAccount(self._ledger(ledger, alpha, None if begun else budget, dataset, chosen))
        made = release_series(
            series,
            settings,
            account,
            workers=workers,
            reuse=store.load(account) if store is not None and begun else None,
            keep=(lambda draw: None) if store is None else store.keep,
            announce=(lambda: None) if store is None else store.announce,
        )
        return SeriesResult(made, curator, None if folder is None else Path(folder))

    def explore(
        self,
        *,
        alpha: Number | Iterable[Number] = ("0.01", "0.1", "1"),
        epsilon: Number | Iterable[Number] = "1",
        beta: str | Iterable[str] = ("0.1%", "1%", "10%"),
        seeds: int = 10,
        demands: DemandSource | str | None = None,
        loading: float | None = None,
    ) -> ExploreResult:
        """Try settings on demands that are not secret: see ``gridveil explore --help``."""
        betas = (beta,) if isinstance(beta, str) else tuple(map(tolerance_text, beta))
        grid = ExploreGrid(alphas=listed(alpha), epsilons=listed(epsilon), betas=betas, seeds=seeds)
        wanted = None if demands is None else choose(DemandSource, demands, "the demands")
        if wanted is DemandSource.TRUE:
            refuse_true_demands(grid)
        if self.source is not None and demands_to_use(self.source, wanted) is DemandSource.PUBLIC:
            return ExploreResult(exploration=explore_public(self.case, grid))
        if wanted is DemandSource.PUBLIC:
            raise InputError("only the demands of built-in cases are known to be public; omit demands='public'")
        return ExploreResult(
            exploration=explore_simulated(self.network, self.case.field, self.name, grid, loading=loading)
        )

    def _ledger(
        self,
        ledger: AnyPath | Ledger | None,
        alpha: Number | None,
        budget: Number | None,
        dataset: str | None,
        protects: Protects = Protects.PROFILE,
    ) -> Ledger:
        """Return the ledger of the data set; a given one must be the registered one."""
        path = ledger.path if isinstance(ledger, Ledger) else ledger
        cap = None if budget is None else exact_number(budget)
        reference = None if alpha is None else exact_number(alpha)
        return ledger_of(self.case, name=dataset, path=path, alpha=reference, cap=cap, protects=protects)

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
        if draw not in self.draws:
            self.draws.append(draw)

    def __repr__(self) -> str:
        facts = {
            key: value for key, value in self.describe().items() if key not in ("case", "secret", "public", "notes")
        }
        return facts_text("GridCase", {"case": self.name} | facts)

    def _repr_html_(self) -> str:
        facts = {key.replace("_", " "): value for key, value in self.describe().items() if key != "case"}
        return facts_html(self.name, facts)
