"""Result of a solve, for notebooks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from gridveil.api.choices import choose
from gridveil.api.html import facts_html, facts_text
from gridveil.core.choices import Formulation
from gridveil.core.errors import NoReleaseError
from gridveil.privacy.curator import Curator, CuratorSolution
from gridveil.sectors.case import Case, Network
from gridveil.sectors.registry import sector_of
from gridveil.sectors.view import Frames

if TYPE_CHECKING:
    import pandas as pd

SECRET_NOTE = "The operating point reveals true demands: keep dispatch and to_pandas() to yourself."


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class SolveResult:
    """O(d): how the solve ended, its cost (None unless it converged) and the operating point.

    ``secret`` says that d are true demands, which the operating point reveals.
    """

    case: str
    network: Network
    formulation: Formulation
    secret: bool
    solution: CuratorSolution

    @property
    def cost_unit(self) -> str:
        """Unit of the cost."""
        return self.solution.cost_unit

    @property
    def solver(self) -> str:
        """The solver used."""
        return self.solution.solver

    @property
    def seconds(self) -> float:
        """Solve time, excluding building the model."""
        return self.solution.solve_seconds

    @property
    def converged(self) -> bool:
        """Whether the solve converged to an optimum."""
        return self.solution.converged

    @property
    def status(self) -> str:
        """How the solve ended: "converged", "infeasible" and so on."""
        return self.solution.status.value

    @property
    def cost(self) -> float | None:
        """The optimal cost, in ``cost_unit``."""
        return self.solution.cost if self.converged else None

    @property
    def dispatch(self) -> pd.DataFrame:
        """What each generator in service produces (MW, MVAr), or each compressor does (kg/s and pressure ratio)."""
        return next(iter(self.to_pandas().values()))

    def to_pandas(self) -> Frames:
        """Return the operating point: frames of generators, buses and branches, or of compressors, junctions and other edges."""
        if not self.converged:
            raise NoReleaseError(f"{self.case} was not solved ({self.status}), so there is no operating point")
        return sector_of(self.network).solution_frames(self.network, self.formulation, self.solution.x)

    def _facts(self) -> dict[str, object]:
        sector = sector_of(self.network)
        return {
            "status": self.status,
            "cost": None if self.cost is None else f"{self.cost:.8g} {self.cost_unit}",
            "formulation": self.formulation.value.upper() if len(sector.formulations) > 1 else sector.flow_words,
            "solver": self.solver,
            "iterations": self.solution.iterations,
            "seconds": self.seconds,
        }

    def __repr__(self) -> str:
        return facts_text("SolveResult", {"case": self.case} | self._facts())

    def _repr_html_(self) -> str:
        return facts_html(f"Optimal flow of {self.case}", self._facts(), SECRET_NOTE if self.secret else "")


def solve_case(case: Case, formulation: Formulation | str, solver: str, *, secret: bool) -> SolveResult:
    """Solve O at a case's own demands; ``secret`` states whether these are true demands."""
    form = choose(Formulation, formulation, "the formulation")
    solution = Curator(case).optimum(formulation=form, solver=solver)
    return SolveResult(case=case.name, network=case.network, formulation=form, secret=secret, solution=solution)
