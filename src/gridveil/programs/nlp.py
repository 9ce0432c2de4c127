"""Nonlinear programs by CasADi and the Ipopt inside its wheel: compiled once, solved many times with other data."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from enum import Enum
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from gridveil.core.deadline import check_time
from gridveil.core.lazy import lazy_module

if TYPE_CHECKING:
    import casadi as ca
else:
    ca = lazy_module("casadi")

Vector = NDArray[np.float64]

BRIEF_ITERATIONS = 60
FEASIBILITY_TOLERANCE = 1e-6  # on rows and bounds, each relative to its own size where that exceeds 1


class Trust(Enum):
    """How good a start is.

    ROUGH: a guess. BRIEF: a guess that works soon or hardly ever, given up early. NEAR: a point close to the solution.
    PROBED: a guess from which the usual barrier went round in circles: another rule for the barrier finds another way.
    """

    ROUGH = "rough"
    PROBED = "probed"
    BRIEF = "brief"
    NEAR = "near"


class Status(Enum):
    """How a solve ended. Only CONVERGED may move a bracket, become a result or enter a table."""

    CONVERGED = "converged"
    ACCEPTABLE = "acceptable only"
    INFEASIBLE = "infeasible"
    ITERATION_LIMIT = "iteration limit"
    FAILED = "numerical failure"


_IPOPT_STATUS = {
    "Solve_Succeeded": Status.CONVERGED,
    "Solved_To_Acceptable_Level": Status.ACCEPTABLE,
    "Infeasible_Problem_Detected": Status.INFEASIBLE,
    "Maximum_Iterations_Exceeded": Status.ITERATION_LIMIT,
}

_STOPPED = "User_Requested_Stop"

_IPOPT_OPTIONS: dict[str, Any] = {
    "ipopt.sb": "yes",
    "ipopt.max_iter": 500,
    "ipopt.tol": 1e-7,
    "ipopt.constr_viol_tol": 1e-6,
    "print_time": False,
    "show_eval_warnings": False,  # a point where a function is not defined is one of a search: Ipopt steps back from it
    "calc_lam_p": False,
    "error_on_fail": False,
}

# Near: the start is a good point, feasible or nearly so, and must not be pushed off its bounds: where the feasible set is
# small, Ipopt's usual push of 1 % leaves it and never finds back.
_NEAR_OPTIONS: dict[str, Any] = {
    "ipopt.max_iter": 100,  # from a good point more is crawling along the edge of feasibility, and each step is slow there
    "ipopt.max_resto_iter": 20,  # a restoration that takes longer leads nowhere, at seconds per step
    "ipopt.mu_init": 1e-2,
    "ipopt.bound_push": 1e-6,
    "ipopt.bound_frac": 1e-6,
    "ipopt.slack_bound_push": 1e-6,
    "ipopt.slack_bound_frac": 1e-6,
}

# Warm: stay where the given primal-dual point is, with a barrier small enough not to push it away again.
_WARM_OPTIONS: dict[str, Any] = {
    "ipopt.max_iter": 100,
    "ipopt.warm_start_init_point": "yes",
    "ipopt.mu_init": 1e-6,
    "ipopt.warm_start_bound_push": 1e-8,
    "ipopt.warm_start_bound_frac": 1e-8,
    "ipopt.warm_start_slack_bound_push": 1e-8,
    "ipopt.warm_start_slack_bound_frac": 1e-8,
    "ipopt.warm_start_mult_bound_push": 1e-8,
}

# Fine: from a converged point on, for rows whose terms are far below one.
_FINE_OPTIONS: dict[str, Any] = _WARM_OPTIONS | {"ipopt.tol": 1e-10, "ipopt.constr_viol_tol": 1e-10}


@dataclass(frozen=True, eq=False)
class NlpSolution:
    """One solve: the point, its multipliers (CasADi's sign: ∇f + Σλ∇g + λ_x = 0) and how it ended."""

    status: Status
    x: Vector
    objective: float
    bound_multipliers: Vector
    row_multipliers: Vector
    iterations: int
    seconds: float
    detail: str

    @property
    def converged(self) -> bool:
        """Whether the point may be used as a result."""
        return self.status is Status.CONVERGED


@dataclass(frozen=True, eq=False, kw_only=True)
class Bounds:
    """Bounds of one solve: on x and on the rows g."""

    x_lower: Vector
    x_upper: Vector
    g_lower: Vector
    g_upper: Vector


class NlpSolver:
    """min f(x, p) subject to bounds on x and g(x, p), for parameters p and bounds that change from solve to solve."""

    def __init__(
        self, name: str, *, x: ca.MX, p: ca.MX, f: ca.MX, g: ca.MX, adaptive: bool = False, verbose: bool = False
    ) -> None:
        self._name = name
        self._barrier = "adaptive" if adaptive else "monotone"
        self._problem: dict[str, Any] = {"x": x, "p": p, "f": ca.densify(f), "g": g}
        self._print_level = 5 if verbose else 0
        from gridveil.programs.interrupt import InterruptWatch  # its base class is CasADi's

        self._watch = InterruptWatch(n_x=x.numel(), n_g=g.numel(), n_p=p.numel())

    @cached_property
    def _cold(self) -> ca.Function:
        return self._build({})

    @cached_property
    def _warm(self) -> ca.Function:
        return self._build(_WARM_OPTIONS | self._derivatives)

    @cached_property
    def _fine(self) -> ca.Function:
        return self._build(_FINE_OPTIONS | self._derivatives)

    @cached_property
    def _near(self) -> ca.Function:
        return self._build(_NEAR_OPTIONS | self._derivatives)

    @cached_property
    def _brief(self) -> ca.Function:
        return self._build({"ipopt.max_iter": BRIEF_ITERATIONS} | self._derivatives)

    @cached_property
    def _probed(self) -> ca.Function:
        probing = {"ipopt.mu_strategy": "adaptive", "ipopt.mu_oracle": "probing"}
        return self._build(probing | self._derivatives)

    def _variant(self, trust: Trust) -> ca.Function:
        match trust:
            case Trust.NEAR:
                return self._near
            case Trust.BRIEF:
                return self._brief
            case Trust.PROBED:
                return self._probed
        return self._cold

    @property
    def _derivatives(self) -> dict[str, ca.Function]:
        """Derivatives of the first solver that was built: they take most of the time to build."""
        return {
            "grad_f": self._cold.get_function("nlp_grad_f"),
            "jac_g": self._cold.get_function("nlp_jac_g"),
            "hess_lag": self._cold.get_function("nlp_hess_l"),
        }

    def _build(self, extra: dict[str, Any]) -> ca.Function:
        own = {
            "ipopt.print_level": self._print_level,
            "ipopt.mu_strategy": self._barrier,
            "iteration_callback": self._watch,
        }
        options = _IPOPT_OPTIONS | own | extra
        return ca.nlpsol(self._name, "ipopt", self._problem, options)

    @cached_property
    def _rows(self) -> ca.Function:
        return ca.Function("rows", [self._problem["x"], self._problem["p"]], [self._problem["g"]])

    def compile(self) -> None:
        """Build derivatives and solver now instead of at the first solve."""
        _ = self._cold

    def refine(self, p: Vector, bounds: Bounds, found: NlpSolution) -> NlpSolution:
        """Go on from a converged point to a far smaller error; the point itself if that leads nowhere."""
        finer = self._call(self._fine, p, bounds, found.x, found)
        total = replace(finer, iterations=found.iterations + finer.iterations, seconds=found.seconds + finer.seconds)
        return total if finer.converged else found

    def solve(
        self, p: Vector, bounds: Bounds, start: Vector, warm: NlpSolution | None = None, trust: Trust = Trust.ROUGH
    ) -> NlpSolution:
        """Solve from ``start``, or from the primal-dual point ``warm`` of an earlier solve of the same program.

        Raises OutOfTimeError if the time limit ends before the solve does.
        """
        return self._call(self._variant(trust) if warm is None else self._warm, p, bounds, start, warm)

    def _call(
        self, function: ca.Function, p: Vector, bounds: Bounds, start: Vector, warm: NlpSolution | None
    ) -> NlpSolution:
        check_time()
        call: dict[str, Any] = {
            "x0": start if warm is None else warm.x,
            "p": p,
            "lbx": bounds.x_lower,
            "ubx": bounds.x_upper,
            "lbg": bounds.g_lower,
            "ubg": bounds.g_upper,
        }
        if warm is not None:
            call |= {"lam_x0": warm.bound_multipliers, "lam_g0": warm.row_multipliers}
        clock = time.perf_counter()
        with self._watch.watching():
            result = function(**call)
        seconds = time.perf_counter() - clock
        stats = function.stats()
        if stats["return_status"] == _STOPPED:
            check_time()
        x = _vector(result["x"])
        status = _IPOPT_STATUS.get(stats["return_status"], Status.FAILED)
        detail = str(stats["return_status"])
        if status is Status.CONVERGED:
            violation = self.violation(x, p, bounds)
            if not violation <= FEASIBILITY_TOLERANCE:
                status, detail = Status.FAILED, f"reported optimal, but violates its constraints by {violation:.1e}"
        return NlpSolution(
            status=status,
            x=x,
            objective=float(result["f"]),
            bound_multipliers=_vector(result["lam_x"]),
            row_multipliers=_vector(result["lam_g"]),
            iterations=int(stats["iter_count"]),
            seconds=seconds,
            detail=detail,
        )

    def violation(self, x: Vector, p: Vector, bounds: Bounds) -> float:
        """Return the largest violation of a bound or row at x, relative to the size of the bound where that exceeds 1."""
        rows = _vector(self._rows(x, p))
        return max(
            _excess(x, bounds.x_lower, bounds.x_upper),
            _excess(rows, bounds.g_lower, bounds.g_upper),
        )


def _vector(value: ca.DM) -> Vector:
    return np.asarray(value, dtype=float).ravel()


def _excess(value: Vector, lower: Vector, upper: Vector) -> float:
    below = (lower - value)[np.isfinite(lower)] / np.maximum(1.0, np.abs(lower[np.isfinite(lower)]))
    above = (value - upper)[np.isfinite(upper)] / np.maximum(1.0, np.abs(upper[np.isfinite(upper)]))
    worst = np.concatenate([below, above, np.zeros(1)])
    return float("inf") if np.any(np.isnan(worst)) else float(worst.max())
