"""PYPOWER's AC optimal power flow with its default solver PIPS, modelling and solving timed separately."""

from __future__ import annotations

import copy
import warnings
from typing import Any

import numpy as np
from pypower.api import ext2int, ppoption
from pypower.idx_brch import MU_ANGMAX
from pypower.idx_bus import MU_VMIN, VA, VM
from pypower.idx_gen import MU_QMIN, PG, QG
from pypower.opf_args import opf_args2
from pypower.opf_execute import opf_execute
from pypower.opf_setup import opf_setup

from gridveil.benchmark.contestant import BenchProblem, Contestant, ContestantAnswer, Point
from gridveil.benchmark.peers.matpower_arrays import PIPS_OPTIONS, matpower_arrays


class PypowerOpf(Contestant):
    """What ``pypower.api.opf`` does, in its two halves."""

    def __init__(self, problem: BenchProblem) -> None:
        warnings.simplefilter("ignore")
        self._arrays = matpower_arrays(problem)
        self._base = problem.network.base_mva
        self._options = ppoption(VERBOSE=0, OUT_ALL=0, **PIPS_OPTIONS)
        self._model: Any
        self._result: dict[str, Any]
        self._success: bool
        self._raw: dict[str, Any]

    def build(self) -> None:
        """Number buses without gaps and set up the OPF model."""
        case, _ = opf_args2(copy.deepcopy(self._arrays), self._options)
        for table, last_column in (("bus", MU_VMIN), ("gen", MU_QMIN), ("branch", MU_ANGMAX)):
            rows, columns = case[table].shape
            case[table] = np.hstack([case[table], np.zeros((rows, max(0, last_column + 1 - columns)))])
        self._model = opf_setup(ext2int(case), self._options)

    def solve(self) -> None:
        """Run PIPS from the middle of the bounds."""
        self._result, self._success, self._raw = opf_execute(self._model, self._options)

    def answer(self) -> ContestantAnswer:
        """Read the internal arrays: their buses are those in service, in file order; generators are sorted by bus."""
        bus, generator = self._result["bus"], self._result["gen"][self._result["order"]["gen"]["i2e"]]
        return ContestantAnswer(
            converged=bool(self._success),
            detail="converged" if self._success else "PIPS did not converge",
            cost=float(self._result["f"]),
            iterations=int(self._raw["output"]["iterations"]),
            point=Point(
                va=np.deg2rad(bus[:, VA]),
                vm=bus[:, VM].copy(),
                pg=generator[:, PG] / self._base,
                qg=generator[:, QG] / self._base,
            ),
        )
