"""pandapower's runopp on its own conversion of the case.

It limits currents rather than apparent power, leaves angle limits out, and its converter drops the charging of transformers:
where these matter, its optimum is that of another network, which the common check shows.
"""

from __future__ import annotations

import logging
import warnings
from typing import Any

import numpy as np
import pandapower
from pandapower.converter.pypower import from_ppc

from gridveil.benchmark.contestant import BenchProblem, Contestant, ContestantAnswer, Point
from gridveil.benchmark.peers.matpower_arrays import PIPS_OPTIONS, matpower_arrays


class PandapowerOpp(Contestant):
    """``build`` converts the case to pandapower's tables; ``runopp`` cannot be divided further."""

    def __init__(self, problem: BenchProblem) -> None:
        warnings.simplefilter("ignore")
        logging.disable()
        self._arrays = matpower_arrays(problem)
        self._network = problem.network
        self._net: Any
        self._converged = False

    def build(self) -> None:
        """Convert; the voltage of the slack may be chosen, as at any generator."""
        self._net = from_ppc(self._arrays, f_hz=60)
        self._net.ext_grid["controllable"] = True

    def solve(self) -> None:
        """Run the OPF from its flat start."""
        try:
            pandapower.runopp(self._net, init="flat", **PIPS_OPTIONS)
            self._converged = True
        except pandapower.OPFNotConverged:
            self._converged = False

    def answer(self) -> ContestantAnswer:
        """Read the result tables."""
        raw = self._net._ppc_opf.get("raw")
        return ContestantAnswer(
            converged=self._converged,
            detail="converged" if self._converged else "runopp did not converge",
            cost=float(self._net.res_cost) if self._converged else float("nan"),
            iterations=int(raw["output"]["iterations"]) if raw else None,
            point=self._point() if self._converged else None,
        )

    def _point(self) -> Point:
        """Voltages by bus id; generation from whichever table each generator went to."""
        network, net = self._network, self._net
        voltage = net.res_bus.loc[network.bus.id[~network.bus.isolated]]
        places = net._from_ppc_lookups["gen"]
        power = np.array(
            [
                net[f"res_{kind}"].loc[element, ["p_mw", "q_mvar"]].to_numpy(dtype=float)
                for element, kind in zip(places.element, places.element_type, strict=True)
            ]
        )[network.generator_on]
        return Point(
            va=np.deg2rad(voltage["va_degree"].to_numpy(dtype=float)),
            vm=voltage["vm_pu"].to_numpy(dtype=float),
            pg=power[:, 0] / network.base_mva,
            qg=power[:, 1] / network.base_mva,
        )
