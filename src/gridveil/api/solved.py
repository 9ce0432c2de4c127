"""What a solve gives back to a notebook."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gridveil.api.choices import choose
from gridveil.api.frames import Frames, solution_frames
from gridveil.api.html import facts_html, facts_text
from gridveil.core.choices import Formulation
from gridveil.core.errors import NoReleaseError
from gridveil.core.methods import Solver
from gridveil.privacy.curator import solve_true
from gridveil.programs import FollowerSolution
from gridveil.sectors.case import Case, Network
from gridveil.sectors.gas.network import GasNetwork
from gridveil.sectors.model import build_model
from gridveil.solvers.choose import engine_for
from gridveil.solvers.structured_backend import BY_STRUCTURE

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
    solver: str
    cost_unit: str
    seconds: float
    secret: bool
    solution: FollowerSolution

    @property
    def converged(self) -> bool:
        """Whether there is an optimum."""
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
        return self.to_pandas()["compressors" if isinstance(self.network, GasNetwork) else "generators"]

    def to_pandas(self) -> Frames:
        """Give the operating point: frames of buses, generators and branches, or of junctions, pipes and stations."""
        if not self.converged:
            raise NoReleaseError(f"{self.case} was not solved ({self.status}), so there is no operating point")
        return solution_frames(self.network, self.formulation, self.solution.x)

    def _facts(self) -> dict[str, object]:
        gas = isinstance(self.network, GasNetwork)
        return {
            "status": self.status,
            "cost": None if self.cost is None else f"{self.cost:.8g} {self.cost_unit}",
            "formulation": "gas flow" if gas else self.formulation.value.upper(),
            "solver": self.solver,
            "iterations": self.solution.iterations,
            "seconds": self.seconds,
        }

    def __repr__(self) -> str:
        return facts_text("SolveResult", {"case": self.case} | self._facts())

    def _repr_html_(self) -> str:
        return facts_html(f"Optimal flow of {self.case}", self._facts(), SECRET_NOTE if self.secret else "")


def solve_case(case: Case, formulation: Formulation | str, solver: Solver | str, *, secret: bool) -> SolveResult:
    """Solve O at a case's own demands. ``secret`` says whether these are true ones."""
    form = choose(Formulation, formulation, "the formulation")
    model = build_model(case.network, form)
    engine = engine_for(case.network, model, choose(Solver, solver, "the solver"))
    clock = time.perf_counter()
    solution = solve_true(case, model, engine.solve_afresh)
    return SolveResult(
        case=case.name,
        network=case.network,
        formulation=form,
        solver=(Solver.STRUCTURED if solution.detail == BY_STRUCTURE else Solver.IPOPT).value,
        cost_unit=model.program.cost_unit,
        seconds=time.perf_counter() - clock,
        secret=secret,
        solution=solution,
    )
