"""The polar AC optimal power flow in PyOptInterface, with derivatives compiled by LLVM, and the Ipopt of the casadi wheel.

Flows are not variables: each bus has its two balances in voltages and generation, each limited branch end |S|² ≤ rate². That
is the smaller program, and the quicker one by far (compiling takes longer).
"""

from __future__ import annotations

import re
import tempfile
from pathlib import Path
from typing import Any

import casadi
import numpy as np
import pyoptinterface as poi
from pyoptinterface import ipopt, nl
from scipy.sparse import coo_array

from gridveil.benchmark.contestant import (
    BenchProblem,
    Contestant,
    ContestantAnswer,
    Floats,
    NotApplicableError,
    Point,
    refuse_elements,
)
from gridveil.sectors.power.network import Grid

MOST_ITERATIONS = 500
OPTIONS: dict[str, Any] = {"print_level": 0, "sb": "yes", "tol": 1e-7, "constr_viol_tol": 1e-6}
LIBRARIES = ("libipopt.so", "libipopt.3.dylib", "libipopt.dylib", "libipopt-3.dll")


class PyOptInterfaceIpopt(Contestant):
    """The same Ipopt with the same options as CasADi's, on derivatives of another kind."""

    def __init__(self, problem: BenchProblem) -> None:
        folder = Path(casadi.__file__).parent
        if not any(ipopt.load_library(str(folder / name)) for name in LIBRARIES if (folder / name).exists()):
            raise NotApplicableError("the casadi wheel has no Ipopt library that PyOptInterface can load")
        refuse_elements(problem.network)
        self._grid = problem.network.grid
        if np.any(self._grid.generator.cost.polynomial[3:] != 0):
            raise NotApplicableError("costs of degree above two are not implemented here")
        self._demand = problem.served_demand
        self._report = tempfile.NamedTemporaryFile(suffix=".txt")  # noqa: SIM115 (lives as long as the contestant)
        self._model: Any
        self._va: list[Any]
        self._vm: list[Any]
        self._pg: list[Any]
        self._qg: list[Any]

    def build(self) -> None:
        """Build and compile the model, which happens in the first call of ``optimize``: here without iterations."""
        self._model = ipopt.Model(jit="LLVM")
        # The summary is the only place that states the number of iterations.
        report: dict[str, Any] = {"output_file": self._report.name, "file_print_level": 3}
        for name, value in (OPTIONS | report | {"max_iter": 0}).items():
            self._model.set_raw_parameter(name, value)
        self._variables()
        self._constraint_power_balance()
        self._constraint_branches()
        self._objective()
        self._model.optimize()
        self._model.set_raw_parameter("max_iter", MOST_ITERATIONS)

    def solve(self) -> None:
        """Run Ipopt from the flat start."""
        self._model.optimize()

    def answer(self) -> ContestantAnswer:
        """Read the variables, and the iterations from the summary."""
        status = self._model.get_model_attribute(poi.ModelAttribute.TerminationStatus)
        count = re.findall(r"Number of Iterations\.*: *(\d+)", Path(self._report.name).read_text())
        return ContestantAnswer(
            converged=status == poi.TerminationStatusCode.LOCALLY_SOLVED,
            detail=status.name.lower().replace("_", " "),
            cost=float(self._model.get_model_attribute(poi.ModelAttribute.ObjectiveValue)),
            iterations=int(count[-1]) if count else None,
            point=Point(
                va=self._read(self._va), vm=self._read(self._vm), pg=self._read(self._pg), qg=self._read(self._qg)
            ),
        )

    def _read(self, variables: list[Any]) -> Floats:
        return np.array([self._model.get_value(variable) for variable in variables])

    def _variables(self) -> None:
        grid, generator = self._grid, self._grid.generator
        free = np.full(grid.n_bus, np.inf)
        free[grid.reference] = 0.0
        v_min = np.maximum(grid.bus.v_min, 0.0)
        self._va = self._add(-free, free, np.zeros(grid.n_bus))
        self._vm = self._add(v_min, grid.bus.v_max, np.clip(1.0, v_min, grid.bus.v_max))
        self._pg = self._add(generator.p_min, generator.p_max, _middle(generator.p_min, generator.p_max))
        self._qg = self._add(generator.q_min, generator.q_max, _middle(generator.q_min, generator.q_max))

    def _add(self, low: Floats, high: Floats, start: Floats) -> list[Any]:
        triples = zip(low.tolist(), high.tolist(), start.tolist(), strict=True)
        return [self._model.add_variable(lb=lb, ub=ub, start=at) for lb, ub, at in triples]

    def _constraint_power_balance(self) -> None:
        """Per bus, in one graph: products are written out each time, because the library changes those it is given again."""
        grid = self._grid
        matrix = _admittance(grid)
        (p_load, q_load), generators = self._loads(), _lists(grid.generator.bus, grid.n_bus)
        for i in range(grid.n_bus):
            entries = slice(matrix.indptr[i], matrix.indptr[i + 1])
            with nl.graph():
                vm, own, p, q = self._vm[i], 0j, p_load[i], q_load[i]
                active = reactive = 0.0
                for j, y in zip(matrix.indices[entries].tolist(), matrix.data[entries].tolist(), strict=True):
                    if j == i:
                        own = y
                        continue
                    across = self._va[i] - self._va[j]
                    cos, sin = nl.cos(across), nl.sin(across)
                    active = active + self._vm[j] * (y.real * cos + y.imag * sin)
                    reactive = reactive + self._vm[j] * (y.real * sin - y.imag * cos)
                active, reactive = vm * (own.real * vm + active) + p, vm * (-own.imag * vm + reactive) + q
                for k in generators[i]:
                    active, reactive = active - self._pg[k], reactive - self._qg[k]
                self._model.add_nl_constraint(active == 0.0)
                self._model.add_nl_constraint(reactive == 0.0)

    def _constraint_branches(self) -> None:
        grid = self._grid
        for k in range(len(grid.from_bus)):
            i, j, rate = int(grid.from_bus[k]), int(grid.to_bus[k]), float(grid.rate[k])
            across = self._va[i] - self._va[j]
            self._model.add_linear_constraint(across, (float(grid.angle_min[k]), float(grid.angle_max[k])))
            if not np.isfinite(rate):
                continue
            ff, ft, tf, tt = (complex(y[k]) for y in (grid.y_ff, grid.y_ft, grid.y_tf, grid.y_tt))
            vi, vj = self._vm[i], self._vm[j]
            with nl.graph():
                cos, sin = nl.cos(across), nl.sin(across)
                p_from = ff.real * vi + vj * (ft.real * cos + ft.imag * sin)
                q_from = -ff.imag * vi + vj * (-ft.imag * cos + ft.real * sin)
                p_to = tt.real * vj + vi * (tf.real * cos - tf.imag * sin)
                q_to = -tt.imag * vj + vi * (-tf.imag * cos - tf.real * sin)
                self._model.add_nl_constraint(vi * vi * (p_from**2 + q_from**2) <= rate**2)
                self._model.add_nl_constraint(vj * vj * (p_to**2 + q_to**2) <= rate**2)

    def _objective(self) -> None:
        """Polynomials up to degree two, and a level above the lines of each piecewise-linear cost."""
        cost = self._grid.generator.cost
        constant, slope, curvature = cost.polynomial[:3].tolist()
        total = poi.ExprBuilder(sum(constant))
        for k, power in enumerate(self._pg):
            total += slope[k] * power
            if curvature[k]:
                total += curvature[k] * power * power
        level = {k: self._model.add_variable(start=0.0) for k in cost.piecewise.tolist()}
        for variable in level.values():
            total += variable
        lines = zip(cost.line_generator.tolist(), cost.line_slope.tolist(), cost.line_intercept.tolist(), strict=True)
        for k, gradient, intercept in lines:
            above = level[k] - gradient * self._pg[k]
            self._model.add_linear_constraint(above, poi.ConstraintSense.GreaterEqual, intercept)
        self._model.set_objective(total)

    def _loads(self) -> tuple[list[float], list[float]]:
        n_bus, site = self._grid.n_bus, self._grid.load_bus
        p, q = np.split(self._demand, 2)
        return np.bincount(site, p, n_bus).tolist(), np.bincount(site, q, n_bus).tolist()


def _admittance(grid: Grid) -> Any:
    """Bus admittance matrix in compressed rows, with an entry on every diagonal."""
    own = np.arange(grid.n_bus)
    row = np.concatenate([grid.from_bus, grid.to_bus, grid.from_bus, grid.to_bus, own])
    column = np.concatenate([grid.from_bus, grid.to_bus, grid.to_bus, grid.from_bus, own])
    entry = np.concatenate([grid.y_ff, grid.y_tt, grid.y_ft, grid.y_tf, grid.bus.shunt])
    return coo_array((entry, (row, column)), shape=(grid.n_bus, grid.n_bus)).tocsr()


def _lists(bus: np.ndarray[Any, Any], n_bus: int) -> list[list[int]]:
    """What stands at each bus."""
    found: list[list[int]] = [[] for _ in range(n_bus)]
    for k, i in enumerate(bus.tolist()):
        found[i].append(k)
    return found


def _middle(low: Floats, high: Floats) -> Floats:
    lower = np.where(np.isfinite(low), low, np.where(np.isfinite(high), high, 0.0))
    return np.asarray((lower + np.where(np.isfinite(high), high, lower)) / 2)
