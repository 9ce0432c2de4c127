"""Compile everything on a network of two buses: on first use ever in two processes, later from disk in a fraction of a second."""

from __future__ import annotations

import subprocess
import sys

import numpy as np

from gridveil.programs.compilation import compiled_before
from gridveil.programs.graph_walk import walk
from gridveil.sectors.power.arrays import OpfArrays
from gridveil.sectors.registry import build_model, load_case
from gridveil.solvers.structured.problem import Dispatch, Nearest
from gridveil.solvers.structured.solver import StructuredSolver

RELAXATION = "from gridveil.solvers.structured.warm_up import warm_up_relaxation; warm_up_relaxation()"


def warm_up() -> None:
    """Compile (or load from disk) all kernels, so that the next solve takes only its own time."""
    beside = None if compiled_before() else subprocess.Popen([sys.executable, "-c", RELAXATION])
    try:
        _warm_up_solver()
        if beside is not None:
            beside.wait()
        warm_up_relaxation()  # from disk by now; compiled here if the other process could not
    finally:
        if beside is not None:
            beside.kill()
            beside.wait()


def warm_up_relaxation() -> None:
    """The kernels of the relaxation on the bus graph, and of other walks over it."""
    relaxation = build_model(load_case("veil2").network).relaxation
    if relaxation is not None:
        relaxation.priced_cost(np.array([0.5, 0.1]), relaxation.dearest_price)
        relaxation.cost_bound(np.array([0.5, 0.1]))
    walk(np.array([0, 1, 2]), np.array([1, 0]), np.array([0]))  # for the maps of reports


def _warm_up_solver() -> None:
    one, zero = np.ones(1), np.zeros(1)
    none, no_bus = np.zeros(0), np.zeros(0, np.int64)
    admittance = np.array([1 / (0.01 + 0.1j)])
    solver = StructuredSolver(
        OpfArrays(
            branch_from=np.array([0]),
            branch_to=np.array([1]),
            y_ff=admittance,
            y_ft=-admittance,
            y_tf=-admittance,
            y_tt=admittance,
            rate=one,
            current=np.full(1, np.inf),
            angle_min=-one,
            angle_max=one,
            shunt_g=np.zeros(2),
            shunt_b=np.zeros(2),
            v_min=np.full(2, 0.9),
            v_max=np.full(2, 1.1),
            reference=np.array([0]),
            gen_bus=np.array([0]),
            p_min=zero,
            p_max=2 * one,
            q_min=-one,
            q_max=one,
            dc_from=no_bus,
            dc_to=no_bus,
            dc_min=none,
            dc_max=none,
            dc_loss_0=none,
            dc_loss_1=none,
            svc_bus=no_bus,
            svc_min=none,
            svc_max=none,
            cost_0=np.zeros(2),
            cost_1=np.array([1.0, 0.0]),
            cost_2=np.array([1.0, 0.0]),
            line_output=no_bus,
            line_slope=none,
            line_intercept=none,
            load_bus=np.array([1]),
        )
    )
    dispatch = solver.solve(Dispatch(demand_p=0.5 * one, demand_q=0.1 * one))
    band = Nearest(target_p=one, target_q=zero, cost_low=0.9 * dispatch.cost, cost_high=1.1 * dispatch.cost)
    solver.solve(band, warm=dispatch.warm)
