"""Starts of the structured solver as rows of a batch, and back: the same numbers in another order and scale."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from gridveil.solvers.batch.layout import solver_settings
from gridveil.solvers.batch.network import BatchNetwork
from gridveil.solvers.structured.problem import WarmStart

Floats = NDArray[np.float64]


class PointLayout:
    """Where the parts of a structured solver's start stand in a point of the kernels (B, n_point), for one network."""

    def __init__(self, network: BatchNetwork) -> None:
        grid = network.grid
        n_bus, n_branch = grid.n_bus, len(grid.branch_from)
        self._n_bus, self._n, self._rows = n_bus, network.n_local, network.rows
        self._local_of, self._n_generation = network.local_of, len(network.segment_gen) + len(grid.gen_bus)
        self._n_load = len(grid.load_bus)
        of_branch = (np.arange(4)[None, :] * n_branch + np.arange(n_branch)[:, None]).reshape(-1)
        of_bus = (np.arange(2)[None, :] * n_bus + np.arange(n_bus)[:, None]).reshape(-1)
        self._limit_of = np.concatenate([of_branch, 4 * n_branch + of_bus])
        self.n_point = network.sizes(False)["n_point"]
        bounds = network.tables["local"].reshape(-1, 4)[np.argsort(network.local_of)]
        width = bounds[: self._n_generation, 1] - bounds[: self._n_generation, 0]
        loads = np.full(2 * self._n_load, self._rows > 0)
        self._free = np.concatenate([width > 0.0, loads, [False]])
        steepest = np.abs(bounds[: self._n_generation, 3]).max(initial=0.0) / network.objective_scale
        self._steepest = float(max(steepest, 1.0))

    def to_raw(
        self, warms: Sequence[WarmStart], target: Floats, scale: Floats, row_scale: Floats, names: Sequence[str]
    ) -> Floats:
        """Points for tasks with these targets (B, 2 D); multipliers times ``scale`` (B,), which is zero for none.

        ``names`` are those of the dense rows, ``row_scale`` (B, 2 + K) their scales.
        """
        count, n_bus, n = len(warms), self._n_bus, self._n
        factor = scale[:, None]
        raw = np.zeros((count, self.n_point))
        bus = raw[:, : 4 * n_bus].reshape(count, n_bus, 4)
        bus[:, :, :2] = np.stack([warm.x for warm in warms])
        bus[:, :, 2:] = np.stack([warm.price for warm in warms]) * factor[:, :, None]
        u = np.stack([warm.u for warm in warms])
        at_load = slice(self._n_generation, self._n_generation + 2 * self._n_load)
        loads_free = np.stack([warm.free[at_load] for warm in warms])
        u[:, at_load] = np.where(loads_free, u[:, at_load], 0.0) + np.stack([warm.target for warm in warms]) - target
        bound = np.stack([warm.u_bound for warm in warms])
        local = raw[:, 4 * n_bus : 4 * n_bus + 3 * n].reshape(count, 3, n)
        local[:, 0] = u[:, self._local_of]
        local[:, 1:] = np.moveaxis(bound[:, self._local_of], 2, 1) * factor[:, :, None]
        limit = np.stack([warm.limit for warm in warms])[:, self._limit_of]
        begin = 4 * n_bus + 3 * n
        raw[:, begin : begin + len(self._limit_of)] = limit * factor
        if self._rows:
            pairs = [[warm.rows.get(name, (0.0, 0.0)) for name in names] for warm in warms]
            raw[:, -2 * self._rows :] = (np.array(pairs) * (factor / row_scale)[:, :, None]).reshape(count, -1)
        return raw

    def without_multipliers(self, raw: Floats) -> Floats:
        """The same primal points with multipliers of zero."""
        n_bus, n = self._n_bus, self._n
        kept = np.zeros_like(raw)
        kept[:, : 4 * n_bus].reshape(-1, n_bus, 4)[:, :, :2] = raw[:, : 4 * n_bus].reshape(-1, n_bus, 4)[:, :, :2]
        kept[:, 4 * n_bus : 4 * n_bus + n] = raw[:, 4 * n_bus : 4 * n_bus + n]
        return kept

    def from_raw(
        self, raw: Floats, target: Floats, scale: Floats, rows: Floats, names: dict[str, int], objective: str
    ) -> list[WarmStart]:
        """Starts of the structured solver; ``rows`` (B, 4 + 2 K) are multipliers in units of the objective, at ``names``."""
        count, n_bus, n = len(raw), self._n_bus, self._n
        by_scale = 1.0 / scale[:, None]
        bus = raw[:, : 4 * n_bus].reshape(count, n_bus, 4)
        price = bus[:, :, 2:] * by_scale[:, :, None]
        local = raw[:, 4 * n_bus : 4 * n_bus + 3 * n].reshape(count, 3, n)
        n_all = self._n_generation + 2 * self._n_load + 1
        u, bound = np.zeros((count, n_all)), np.zeros((count, n_all, 2))
        u[:, self._local_of] = local[:, 0]
        bound[:, self._local_of] = np.moveaxis(local[:, 1:], 1, 2) * by_scale[:, :, None]
        begin = 4 * n_bus + 3 * n
        limit = np.empty((count, len(self._limit_of)))
        limit[:, self._limit_of] = raw[:, begin : begin + len(self._limit_of)] * by_scale
        weight = rows[:, 0] - rows[:, 1]
        least = solver_settings()["LEAST_COST_WEIGHT"]
        dispatch = not self._rows
        return [
            WarmStart(
                x=bus[i, :, :2],
                price=price[i],
                limit=limit[i],
                u=u[i],
                u_bound=bound[i],
                free=self._free,
                rows={}
                if dispatch
                else {name: (float(rows[i, k]), float(rows[i, k + 1])) for name, k in names.items()},
                target=target[i],
                objective=objective,
                cost_weight=1.0 if dispatch else float(weight[i]),
                priced=bool((1.0 if dispatch else weight[i]) * self._steepest > least),
            )
            for i in range(count)
        ]
