"""A loaded case in a notebook: what is public can be looked at, what is secret stays inside."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path

import numpy as np

from gridveil.api.choices import Number, choose, exact_number, listed, tolerance_text
from gridveil.api.explored import ExploreResult
from gridveil.api.frames import Frames, public_frames
from gridveil.api.html import facts_html, facts_text
from gridveil.api.plots import CasePlots
from gridveil.api.released import ReleaseResult
from gridveil.api.solved import SolveResult, solve_case
from gridveil.core.band import Tolerance
from gridveil.core.choices import DemandBounds, Formulation
from gridveil.core.errors import InputError, NoReleaseError
from gridveil.core.methods import Method, Solver
from gridveil.privacy.ledger import Ledger
from gridveil.privacy.noisy import Draw
from gridveil.sectors.case import Case, Network
from gridveil.sectors.describe import describe_case
from gridveil.service.budget import ledger_path, open_or_create
from gridveil.service.choices import CostTargetMode
from gridveil.service.pipeline import make_release
from gridveil.service.reuse import kept_promise, load_draw
from gridveil.service.settings import CostTargetSettings, ReleaseSettings
from gridveil.study.explore import ExploreGrid, demands_to_use, explore_public, explore_simulated, refuse_true_demands
from gridveil.study.explore_choices import DemandSource

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
        """Give what the case holds, what of it is secret and what is public."""
        return describe_case(self.case)

    def to_pandas(self) -> Frames:
        """Give the public part as frames: buses, branches, generators, sites; or junctions, pipes, compressors, sites."""
        return public_frames(self.network)

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
        reuse: ReleaseResult | Draw | AnyPath | None = None,
        cost_target: CostTargetMode | str = CostTargetMode.PUBLIC,
        forecast_cost: float | None = None,
        cost_sensitivity: Number | None = None,
        cost_share: Number = "0.1",
        confidence: float = 0.95,
        method: Method | str = Method.AUTO,
        solver: Solver | str = Solver.STRUCTURED,
        demand_bounds: DemandBounds | str = DemandBounds.NONE,
    ) -> ReleaseResult:
        """Make the demands private and the network feasible at a cost within beta: see ``gridveil release --help``.

        ``epsilon`` and ``alpha`` (per unit) are the promise; ``beta`` is a share ("1%") or an amount ("250"). The draw is
        charged to the ``ledger``, by default the file beside the case; a ``seed`` makes a simulation that protects nobody.
        ``reuse`` takes the noise of an earlier release, its folder, or one of ``draws``, at no cost, and with it the
        promise. Nothing but the ledger is written: ``save(folder)`` of the result does that.
        """
        draw = self._reused(reuse, ledger)
        loss, distance = _promise(epsilon, alpha, draw)
        settings = ReleaseSettings(
            epsilon=loss,
            alpha=distance,
            beta=Tolerance.parse(tolerance_text(beta)),
            target=CostTargetSettings(
                mode=choose(CostTargetMode, cost_target, "the cost target"),
                forecast=forecast_cost,
                sensitivity=None if cost_sensitivity is None else exact_number(cost_sensitivity),
                share=exact_number(cost_share),
                confidence=confidence,
            ),
            seed=seed,
            method=choose(Method, method, "the method"),
            solver=choose(Solver, solver, "the solver"),
            demand_bounds=choose(DemandBounds, demand_bounds, "the demand bounds"),
        )
        charged = seed is None and draw is None
        book = self._ledger(ledger, settings.alpha, budget) if charged else None
        try:
            made = make_release(self.case, settings, book, draw, self._keep)
            return ReleaseResult(made, self.source, book)
        except NoReleaseError as error:
            if self.draws:
                error.add_note("the draw is kept: release(…, reuse=case.draws[-1]) uses it again at no cost")
            raise

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
            raise InputError("only the demands of built-in cases are taken for public; leave out demands='public'")
        return ExploreResult(exploration=explore_simulated(self.network, self.name, grid, loading=loading))

    def _ledger(self, ledger: AnyPath | Ledger | None, alpha: str, budget: Number | None) -> Ledger:
        if isinstance(ledger, Ledger):
            return ledger
        path = self._ledger_path(ledger)
        if path is None:
            raise InputError(
                "a release must be charged to a ledger: give ledger='name.ledger', or a seed for a simulation"
            )
        return open_or_create(path, alpha=alpha, cap=None if budget is None else exact_number(budget))

    def _ledger_path(self, ledger: AnyPath | None) -> Path | None:
        if ledger is not None:
            return Path(ledger)
        return None if self.source is None else ledger_path(self.source)

    def _reused(self, reuse: ReleaseResult | Draw | AnyPath | None, ledger: AnyPath | Ledger | None) -> Draw | None:
        """Give the draw to be used again, which must fit the case; one from a folder must be known to the ledger."""
        if reuse is None:
            return None
        if not isinstance(reuse, ReleaseResult | Draw):
            path = None if isinstance(ledger, Ledger) else self._ledger_path(ledger)
            book = ledger if isinstance(ledger, Ledger) else Ledger.open(path) if path and path.exists() else None
            return load_draw(Path(reuse), self.case, book)
        draw = reuse.draw if isinstance(reuse, ReleaseResult) else reuse
        values, demand = draw.noisy.values, self.case.demand
        if len(values) != len(demand) or np.iscomplexobj(values) != demand.is_complex:
            raise InputError("the draw to be reused was made from another case; its sites do not match")
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


def _promise(epsilon: Number | None, alpha: Number | None, draw: Draw | None) -> tuple[str, str]:
    """Give ε and α as exact text: those stated, or those of a draw that is used again, which nothing can change."""
    if draw is None:
        if epsilon is None or alpha is None:
            raise InputError("a release needs epsilon and alpha; give, for example, epsilon=1, alpha='0.1'")
        return exact_number(epsilon), exact_number(alpha)
    loss, distance = (None if stated is None else exact_number(stated) for stated in (epsilon, alpha))
    return kept_promise(draw, loss, distance)
