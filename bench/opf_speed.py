"""Time of building and solving one AC-OPF, beside pandapower's runopp and PYPOWER's opf: same files, same run.

Run with ``make bench``. Best of several runs. Every tool has the case in memory beforehand, so reading is not timed;
building the model is. A peer that does not converge is shown with the time until it gave up.
"""

from __future__ import annotations

import copy
import resource
import time
import warnings
from collections.abc import Callable

import pandapower
import powerio
from pandapower.converter.pypower import from_ppc
from pypower.api import opf, ppoption

from gridveil.formats.builtin import resolve_case
from gridveil.networks.formulation import Formulation
from gridveil.networks.load import load_case
from gridveil.networks.model import build_model
from gridveil.privacy.curator import solve_true
from gridveil.programs import Follower

CASES = ["case118_ieee", "case300_ieee", "case1354_pegase"]
LARGE = "case9241_pegase"
REPEATS = 3


def gridveil_run(name: str) -> Callable[[], float]:
    """Build the program and solve it; NaN if not converged."""
    case = load_case(name)

    def run() -> float:
        model = build_model(case.network, Formulation.AC)
        solution = solve_true(case, model, Follower(model.program).solve)
        return solution.cost if solution.converged else float("nan")

    return run


def pypower_run(name: str) -> Callable[[], float]:
    """PYPOWER's opf with its default solver."""
    case = powerio.parse(str(resolve_case(name))).value.to_ppc()

    def run() -> float:
        result = opf(copy.deepcopy(case), ppoption(VERBOSE=0, OUT_ALL=0))
        return float(result["f"]) if result["success"] else float("nan")

    return run


def pandapower_run(name: str) -> Callable[[], float]:
    """pandapower's runopp on its own conversion of the case."""
    net = from_ppc(powerio.parse(str(resolve_case(name))).value.to_ppc(), f_hz=60)

    def run() -> float:
        try:
            pandapower.runopp(net, calculate_voltage_angles=True)
        except pandapower.OPFNotConverged:
            return float("nan")
        return float(net.res_cost)

    return run


def best_of(run: Callable[[], float]) -> tuple[float, float]:
    """Give cost and the shortest time of several runs."""
    times = []
    for _ in range(REPEATS):
        clock = time.perf_counter()
        cost = run()
        times.append(time.perf_counter() - clock)
    return cost, min(times)


def main() -> None:
    """Print one row per case and tool, and the time relative to ours."""
    warnings.simplefilter("ignore")
    print(f"{'case':18} {'tool':12} {'cost':>14} {'seconds':>9} {'ratio':>7}")
    for name in CASES:
        reference = 0.0
        for tool, prepare in (("gridveil", gridveil_run), ("PYPOWER", pypower_run), ("pandapower", pandapower_run)):
            cost, seconds = best_of(prepare(name))
            reference = reference or seconds
            print(f"{name:18} {tool:12} {cost:14.2f} {seconds:9.3f} {seconds / reference:7.1f}", flush=True)
    run = gridveil_run(LARGE)
    clock = time.perf_counter()
    cost = run()
    seconds = time.perf_counter() - clock
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"{LARGE:18} {'gridveil':12} {cost:14.2f} {seconds:9.3f}   (peak memory of this whole process {peak:.2f} GB)")


if __name__ == "__main__":
    main()
