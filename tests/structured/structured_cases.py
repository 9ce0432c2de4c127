"""Networks and independent solves for the tests of the structured solver."""

from __future__ import annotations

from collections.abc import Callable

import casadi as ca
import numpy as np

from conftest import Matpower
from gridveil.core.choices import Formulation
from gridveil.programs import ParametricProgram
from gridveil.sectors.case import Case
from gridveil.sectors.registry import build_model
from gridveil.solvers.structured import Dispatch, Nearest, Push


def program_of(case: Case) -> tuple[ParametricProgram, np.ndarray]:
    """The same AC-OPF in CasADi, and the case's demands (P of all sites, then Q)."""
    model = build_model(case.network, Formulation.AC)
    return model.program, model.layout.to_program(case.values.reveal())


def dispatch_of(d: np.ndarray) -> Dispatch:
    half = len(d) // 2
    return Dispatch(demand_p=d[:half], demand_q=d[half:])


def solve_by_ipopt(program: ParametricProgram, task: Nearest | Push, start: np.ndarray) -> tuple[float, np.ndarray]:
    """Objective and demands of a task, written out once more for CasADi and Ipopt."""
    x, d = program.x, program.d
    half = d.numel() // 2
    target = np.concatenate([task.target_p, task.target_q])
    squares = ca.sumsqr(d - target)
    rows, lower, upper = (
        [program.g, program.cost],
        [program.g_lower, [task.cost_low]],
        [program.g_upper, [task.cost_high]],
    )
    if isinstance(task, Push):
        objective = -ca.sum1(d[:half])
        rows, lower, upper = [*rows, squares], [*lower, [-np.inf]], [*upper, [task.delta]]
    else:
        objective = squares
        if task.cut is not None:
            weight = np.concatenate([task.cut.weight_p, task.cut.weight_q])
            rows, lower, upper = [*rows, ca.dot(d, weight)], [*lower, [task.cut.least]], [*upper, [np.inf]]
    box = task.box
    d_low = np.full(2 * half, -np.inf) if box is None else np.concatenate([box.p_low, box.q_low])
    d_high = np.full(2 * half, np.inf) if box is None else np.concatenate([box.p_high, box.q_high])
    nlp = {"x": ca.vertcat(x, d), "f": objective, "g": ca.vertcat(*rows)}
    quiet = {"ipopt.print_level": 0, "print_time": 0, "ipopt.sb": "yes", "ipopt.tol": 1e-9}
    solver = ca.nlpsol("task", "ipopt", nlp, quiet)
    found = solver(
        x0=np.concatenate([start, np.clip(target, d_low, d_high)]),
        lbx=np.concatenate([program.x_lower, d_low]),
        ubx=np.concatenate([program.x_upper, d_high]),
        lbg=np.concatenate(lower),
        ubg=np.concatenate(upper),
    )
    assert solver.stats()["success"]
    return float(found["f"]), np.asarray(found["x"]).ravel()[x.numel() :]


def triangle() -> Matpower:
    """Three buses in a ring, two generators, two loads: every family below changes one thing."""
    net = Matpower()
    net.add_bus(1, kind=3)
    net.add_bus(2, pd=60.0, qd=20.0)
    net.add_bus(3, pd=90.0, qd=30.0, gs=2.0, bs=5.0)
    net.add_gen(1, p=(0.0, 200.0), q=(-100.0, 100.0), cost=(0.02, 12.0, 5.0))
    net.add_gen(2, p=(10.0, 120.0), q=(-60.0, 60.0), cost=(0.05, 20.0, 0.0))
    net.add_branch(1, 2, r=0.01, x=0.08, b=0.02)
    net.add_branch(2, 3, r=0.015, x=0.1, b=0.03)
    net.add_branch(1, 3, r=0.02, x=0.12)
    return net


def _flow_limit(net: Matpower) -> None:
    net.branch[2][5] = 45.0


def _angle_limit(net: Matpower) -> None:
    net.branch[2][-1] = 2.8


def _negative_angle_limit(net: Matpower) -> None:
    net.branch[2] = [3, 1, *net.branch[2][2:]]
    net.branch[2][-2] = -2.8


def _tap_and_shifter(net: Matpower) -> None:
    net.branch[0][8], net.branch[0][9] = 0.98, 1.0
    net.branch[2][5] = 55.0


def _parallel_lines(net: Matpower) -> None:
    net.add_branch(3, 1, r=0.01, x=0.2, rate=20.0)
    net.add_branch(1, 3, r=0.02, x=0.15, tap=1.03)


def _voltage_limit(net: Matpower) -> None:
    net.bus[2][11], net.bus[2][12] = 0.985, 0.98


def _fixed_voltage(net: Matpower) -> None:
    net.bus[1][11] = net.bus[1][12] = 1.01


def _piecewise_cost(net: Matpower) -> None:
    net.gen[0][8] = 150.0
    net.gencost[0] = [1, 0, 0, 4, 0.0, 0.0, 40.0, 300.0, 80.0, 800.0, 200.0, 3200.0]


def _fixed_generator(net: Matpower) -> None:
    net.gen[1][8] = net.gen[1][9] = 35.0


def _huge_reactive_range(net: Matpower) -> None:
    net.gen[1][3], net.gen[1][4] = 99999.0, -99999.0


def _negative_load(net: Matpower) -> None:
    net.bus[1][2], net.bus[1][3] = -15.0, -4.0


def _two_references(net: Matpower) -> None:
    net.bus[1][1] = 3


def _islands(net: Matpower) -> None:
    net.add_bus(7, pd=10.0, qd=1.0)
    net.add_bus(8)
    net.add_gen(8, p=(0.0, 50.0), q=(-20.0, 20.0), cost=(0.1, 30.0, 0.0))
    net.add_branch(7, 8, r=0.01)


def _linear_cost(net: Matpower) -> None:
    net.gencost = [[2, 0, 0, 3, 0.0, 12.0, 0.0], [2, 0, 0, 3, 0.0, 14.0, 0.0]]
    net.branch[2][5] = 45.0


def _dc_line(net: Matpower) -> None:
    """Over a congested line, with losses; DC lines are cheaper than what they relieve."""
    net.branch[2][5] = 45.0
    net.add_dcline(1, 3, p=(5.0, 30.0), q_from=(-10.0, 10.0), q_to=(-10.0, 10.0), loss=(0.5, 0.03), cost=(0.3, 0.0))


def _dc_lines_of_all_kinds(net: Matpower) -> None:
    """One backwards between islands with a piecewise-linear cost, one that has no choice, one out of service."""
    _islands(net)
    net.gencost[2] = [2, 0, 0, 3, 0.1, 2.0, 0.0]
    net.add_dcline(2, 8, p=(-25.0, 25.0), loss=(0.2, 0.01), cost=[(-25.0, 30.0), (-10.0, 0.0), (25.0, 0.0)])
    net.add_dcline(1, 2, p=(7.0, 7.0), loss=(0.1, 0.05), cost=[(0.0, 0.0), (10.0, 5.0)])
    net.add_dcline(1, 2, p=(0.0, 900.0), status=0, cost=(1.0, 0.0))


def _reactive_cost(net: Matpower) -> None:
    net.reactive_cost = [[2, 0, 0, 3, 0.05, 0.5, 1.0], [1, 0, 0, 3, -60.0, 60.0, 0.0, 0.0, 60.0, 90.0]]


def _compensator(net: Matpower) -> None:
    """Where reactive power is short: one at its limit, one between them, one that has no choice."""
    net.bus[2][3] = 95.0
    net.compensators = [[3, -10.0, 25.0, 1], [3, 4.0, 4.0, 1], [2, -80.0, 80.0, 1], [2, 500.0, 600.0, 0]]


def _compensator_at_a_fixed_voltage(net: Matpower) -> None:
    _compensator(net)
    net.bus[1][11] = net.bus[1][12] = 1.01


def _current_limit(net: Matpower) -> None:
    net.currents = [0.0, 0.0, 42.0]


def _limits_on_power_and_current(net: Matpower) -> None:
    net.branch[2][5] = net.branch[0][5] = 45.0
    net.branch[0][8] = 0.97
    net.currents = [44.0, 0.0, 42.0]


def _storage(net: Matpower) -> None:
    net.add_storage(3, charge=20.0, discharge=30.0, q=(-5.0, 5.0))


FAMILIES: dict[str, Callable[[Matpower], None]] = {
    "plain": lambda net: None,
    "flow limit": _flow_limit,
    "angle limit": _angle_limit,
    "angle limit from below": _negative_angle_limit,
    "tap and shifter": _tap_and_shifter,
    "parallel lines": _parallel_lines,
    "voltage limit": _voltage_limit,
    "fixed voltage": _fixed_voltage,
    "piecewise-linear cost": _piecewise_cost,
    "fixed generator": _fixed_generator,
    "huge reactive range": _huge_reactive_range,
    "negative load": _negative_load,
    "two references": _two_references,
    "islands": _islands,
    "linear cost": _linear_cost,
    "DC line": _dc_line,
    "DC lines of all kinds": _dc_lines_of_all_kinds,
    "reactive cost": _reactive_cost,
    "compensator": _compensator,
    "compensator at a fixed voltage": _compensator_at_a_fixed_voltage,
    "current limit": _current_limit,
    "limits on power and current": _limits_on_power_and_current,
    "storage": _storage,
}


def family(name: str) -> Matpower:
    net = triangle()
    FAMILIES[name](net)
    return net
