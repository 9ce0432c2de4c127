"""The iteration log: one line per iteration, only where it was asked for."""

from __future__ import annotations

import numpy as np
import pytest

from gridveil.sectors.power.arrays import OpfArrays
from gridveil.solvers.structured import Dispatch, SolveStatus, StructuredSolver
from gridveil.solvers.structured.iteration_log import HEADER, Run, format_log, format_runs
from gridveil.solvers.structured.layout import History


def two_buses() -> OpfArrays:
    """A generator, a line and a load."""
    one, zero, none = np.ones(1), np.zeros(1), np.zeros(0)
    no_bus, costly = np.zeros(0, np.int64), np.array([1.0, 0.0])
    y = np.array([1 / (0.01 + 0.1j)])
    return OpfArrays(
        branch_from=np.array([0]), branch_to=np.array([1]), y_ff=y, y_ft=-y, y_tf=-y, y_tt=y, rate=one,
        angle_min=-one, angle_max=one, shunt_g=np.zeros(2), shunt_b=np.zeros(2), v_min=np.full(2, 0.9),
        v_max=np.full(2, 1.1), reference=np.array([0]), gen_bus=np.array([0]), p_min=zero, p_max=2 * one, q_min=-one,
        q_max=one, cost_0=np.zeros(2), cost_1=costly, cost_2=costly, line_output=no_bus, line_slope=none,
        line_intercept=none, load_bus=np.array([1]), current=np.inf * one, dc_from=no_bus, dc_to=no_bus, dc_min=none,
        dc_max=none, dc_loss_0=none, dc_loss_1=none, svc_bus=no_bus, svc_min=none, svc_max=none,
    )  # fmt: skip


def served(p: float) -> Dispatch:
    return Dispatch(demand_p=np.array([p]), demand_q=np.array([0.1]))


def rows(log: str) -> list[str]:
    return [line for line in log.splitlines() if line[:4].strip().isdigit()]


def history(**columns: list[float]) -> History:
    nothing = [np.nan] * 4
    return History(**{name: np.array(columns.get(name, nothing)) for name in History._fields})


def test_a_line_shows_errors_and_step():
    known = history(
        primal=[0.25, 3e-9, np.nan, np.nan],
        dual=[1.5, 4e-8, np.nan, np.nan],
        product=[0.1, 1e-8, np.nan, np.nan],
        mu=[1.0, 1e-6, np.nan, np.nan],
        shift=[1e-4, np.nan, np.nan, np.nan],
        primal_length=[0.5, np.nan, np.nan, np.nan],
        dual_length=[0.75, np.nan, np.nan, np.nan],
        factorisations=[2.0, np.nan, np.nan, np.nan],
    )
    assert format_log(known).splitlines() == [
        HEADER,
        "   0  2.50e-01  1.50e+00  1.00e-01     0.0    -4.0  7.50e-01  5.00e-01     2",
        "   1  3.00e-09  4.00e-08  1.00e-08    -6.0       -         -         -     -",
    ]
    assert {len(line) for line in format_log(known).splitlines()} == {len(HEADER)}


def test_no_shift_is_a_dash():
    known = history(
        primal=[1.0] * 4, dual=[1.0] * 4, product=[1.0] * 4, mu=[1.0] * 4, shift=[0.0] * 4, primal_length=[1.0] * 4,
        dual_length=[1.0] * 4, factorisations=[1.0] * 4,
    )  # fmt: skip
    assert {line.split()[5] for line in rows(format_log(known))} == {"-"}


def test_runs_are_titled_and_end_with_their_status():
    runs = [
        Run(free=True, mu=10.0, tolerance=1e-7, status=SolveStatus.STALLED, history=history()),
        Run(free=False, mu=0.1, tolerance=1e-5, status=SolveStatus.CONVERGED, history=history()),
    ]
    first, second = format_runs(runs).split("\n\n")
    assert first.splitlines() == [
        "run 1: free barrier parameter from 10, tolerance 1e-07", HEADER, SolveStatus.STALLED.value
    ]  # fmt: skip
    assert second.startswith("run 2: held barrier parameter from 0.1, tolerance 1e-05")


def test_a_verbose_solve_logs_every_iterate():
    solution = StructuredSolver(two_buses(), verbose=True).solve(served(0.5))
    assert solution.converged
    lines = rows(solution.log)
    assert len(lines) == solution.iterations + 1
    primal, dual, product = (float(word) for word in lines[-1].split()[1:4])
    assert max(primal, dual, product) <= 1e-7
    assert solution.log.endswith(SolveStatus.CONVERGED.value)


def test_a_solve_that_tries_everything_logs_all_runs():
    solution = StructuredSolver(two_buses(), verbose=True).solve(served(5.0))
    assert solution.status is SolveStatus.INFEASIBLE
    assert solution.log.count("run ") >= 3
    steps = [line for line in rows(solution.log) if not line.endswith(" -")]
    assert len(steps) == solution.iterations


@pytest.mark.parametrize("p", [0.5, 5.0])
def test_a_quiet_solve_logs_nothing_and_does_the_same(p):
    quiet, loud = (StructuredSolver(two_buses(), verbose=verbose).solve(served(p)) for verbose in (False, True))
    assert quiet.log == ""
    assert (quiet.status, quiet.iterations, quiet.cost) == (loud.status, loud.iterations, loud.cost)
