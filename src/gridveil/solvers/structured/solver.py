"""The front door: one solver per network, any task, a verdict that an independent check has confirmed.

Compiled code is imported on first use, so that importing gridveil stays quick.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from time import perf_counter
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from gridveil.sectors.power.arrays import OpfArrays
from gridveil.solvers.structured.kkt_check import Candidate, check
from gridveil.solvers.structured.problem import (
    Dispatch,
    Multipliers,
    Residuals,
    Solution,
    SolveStatus,
    Task,
    WarmStart,
)
from gridveil.solvers.structured.settings import CHECK_TOLERANCE, LEAST_COST_WEIGHT, LEAST_DEMAND, SOUND, TOLERANCE

if TYPE_CHECKING:
    from gridveil.solvers.structured.layout import Iterate
    from gridveil.solvers.structured.lowering import OrderedGrid, Segments
    from gridveil.solvers.structured.strategy import Attempt
    from gridveil.solvers.structured.tasks import LoweredTask

Floats = NDArray[np.float64]


class StructuredSolver:
    """Solves tasks on one network; what depends on the network alone is prepared once.

    With ``verbose``, solutions carry an iteration log.
    """

    def __init__(self, arrays: OpfArrays, *, verbose: bool = False) -> None:
        self.arrays = arrays
        self._verbose = verbose

    @cached_property
    def _grid(self) -> OrderedGrid:
        from gridveil.solvers.structured.lowering import ordered_grid

        return ordered_grid(self.arrays)

    @cached_property
    def _segments(self) -> Segments:
        from gridveil.solvers.structured.lowering import cost_segments

        return cost_segments(self.arrays)

    @cached_property
    def _idle_dispatch(self) -> LoweredTask:
        """The dispatch at demands of zero, which all others are made from."""
        from gridveil.solvers.structured.tasks import lower_task

        nothing = np.zeros(len(self.arrays.load_bus))
        return lower_task(self.arrays, self._grid, self._segments, Dispatch(demand_p=nothing, demand_q=nothing))

    def prepare(self) -> None:
        """Find order and fill now rather than in the first solve."""
        _ = self._grid, self._segments, self._idle_dispatch

    def _lower(self, task: Task) -> LoweredTask:
        from gridveil.solvers.structured.tasks import lower_dispatch, lower_task

        if isinstance(task, Dispatch):
            return lower_dispatch(self._idle_dispatch, self._grid.order.position[self.arrays.load_bus], task)
        return lower_task(self.arrays, self._grid, self._segments, task)

    def solve(self, task: Task, *, warm: WarmStart | None = None, thorough: bool = True) -> Solution:
        """Solve a task; the answer is CONVERGED only if the independent check agrees.

        A solve that is not thorough gives up where another solver may well be quicker.
        """
        from gridveil.solvers.structured.strategy import attempt

        def run(grid: OrderedGrid, lowered: LoweredTask) -> Attempt:
            def near_enough(point: Iterate) -> bool:
                found = check(self.arrays, task, self._answer(lowered, point, _outputs(lowered, point)))
                return found.largest <= CHECK_TOLERANCE

            return attempt(grid, lowered, warm, _tolerance(task), thorough, near_enough)

        return self._run(task, run)

    def solve_warm(self, task: Task, warm: WarmStart) -> Solution:
        """Solve a task from an earlier point and its multipliers, or not at all."""
        from gridveil.solvers.structured.strategy import attempt_warm

        return self._run(task, lambda grid, lowered: attempt_warm(grid, lowered, warm, TOLERANCE))

    def solve_near(self, task: Task, known: WarmStart) -> Solution:
        """Solve a task from an earlier primal point that is feasible for it or nearly so, without its multipliers."""
        from gridveil.solvers.structured.strategy import attempt_near

        return self._run(task, lambda grid, lowered: attempt_near(grid, lowered, known, _tolerance(task)))

    def start_from(
        self, *, va: Floats, vm: Floats, outputs: Floats, susceptance: Floats, demand_p: Floats, demand_q: Floats
    ) -> WarmStart:
        """Turn a point that another solver found into a start without multipliers."""
        from gridveil.solvers.structured.lowering import split_outputs

        self.prepare()
        x = np.empty((self.arrays.n_bus, 2))
        x[self._grid.order.position] = np.column_stack([va, vm])
        u = np.concatenate([split_outputs(self._segments, outputs), susceptance, np.zeros(2 * len(demand_p) + 1)])
        idle = np.arange(len(u)) == len(u) - 1
        return WarmStart(
            x=x,
            price=np.zeros_like(x),
            limit=np.zeros(4 * len(self.arrays.branch_from) + 2 * self.arrays.n_bus),
            u=u,
            u_bound=np.zeros((len(u), 2)),
            free=~idle,
            rows={},
            target=np.concatenate([demand_p, demand_q]),
            objective="none",
            cost_weight=0.0,
            priced=False,
        )

    def _run(self, task: Task, attempt: Callable[[OrderedGrid, LoweredTask], Attempt]) -> Solution:
        self.prepare()
        begin = perf_counter()
        lowered = self._lower(task)
        run = attempt(self._grid, lowered)
        u = _outputs(lowered, run.point)
        answer = self._answer(lowered, run.point, u)
        residuals = check(self.arrays, task, answer)
        status = _verdict(run.status, residuals)
        multipliers = answer.multipliers
        return Solution(
            status=status,
            objective=lowered.objective.value(u) + lowered.objective_constant,
            cost=answer.cost,
            va=answer.va,
            vm=answer.vm,
            pg=answer.pg,
            qg=answer.qg,
            dc=answer.dc,
            susceptance=answer.susceptance,
            demand_p=answer.demand_p,
            demand_q=answer.demand_q,
            site_price_p=multipliers.price_p[self.arrays.load_bus],
            site_price_q=multipliers.price_q[self.arrays.load_bus],
            multipliers=multipliers,
            residuals=residuals,
            iterations=run.iterations,
            factorisations=run.factorisations,
            seconds=perf_counter() - begin,
            warm=_warm_start(lowered, run.point, u),
            log=self._log(run),
        )

    def _log(self, run: Attempt) -> str:
        if not self._verbose:
            return ""
        from gridveil.solvers.structured.iteration_log import format_runs

        return format_runs(run.runs)

    def _answer(self, lowered: LoweredTask, point: Iterate, u: Floats) -> Candidate:
        """Read primal variables and multipliers back in the order and units of the network and the task."""
        arrays, grid = self.arrays, self._grid
        n_bus, n_branch = arrays.n_bus, len(arrays.branch_from)
        n_segment, n_gen, n_load = len(self._segments.output), len(arrays.gen_bus), len(arrays.load_bus)
        n_chosen = n_segment + len(arrays.svc_bus)
        position = grid.order.position
        price = point.price[position] / lowered.objective.scale
        limit = point.limit / lowered.objective.scale
        branch = limit[: 4 * n_branch].reshape(4, n_branch)
        # A branch that was turned round has its ends and the sign of its angle exchanged.
        branch = np.where(grid.swapped, branch[[1, 0, 3, 2]], branch)
        flow = branch[:2] * grid.data.flow_scale
        n_rows = len(lowered.rows)
        dense = limit[4 * n_branch + 2 * n_bus :].reshape(2, n_rows)
        rows = {row.name: float(row.scale * (dense[0, r] - dense[1, r])) for r, row in enumerate(lowered.rows)}
        outputs = np.zeros(2 * n_gen + len(arrays.dc_from))
        np.add.at(outputs, self._segments.output, u[:n_segment])
        return Candidate(
            va=point.x[position, 0],
            vm=point.x[position, 1],
            pg=outputs[:n_gen],
            qg=outputs[n_gen : 2 * n_gen],
            dc=outputs[2 * n_gen :],
            susceptance=u[n_segment:n_chosen].copy(),
            demand_p=lowered.target_p + u[n_chosen : n_chosen + n_load],
            demand_q=lowered.target_q + u[n_chosen + n_load : -1],
            cost=lowered.cost.value(u) + lowered.cost_constant,
            multipliers=Multipliers(
                price_p=price[:, 0],
                price_q=price[:, 1],
                flow_from=flow[0],
                flow_to=flow[1],
                angle_above=branch[2],
                angle_below=branch[3],
                rows=rows,
            ),
        )


def _outputs(lowered: LoweredTask, point: Iterate) -> Floats:
    """All local variables of a task at a point, those that are fixed included."""
    u = lowered.start.copy()
    u[lowered.free] = point.u
    return u


def _tolerance(task: Task) -> float:
    """ε_tol in proportion to the demand of a dispatch, where all of it together is below one."""
    if not isinstance(task, Dispatch):
        return TOLERANCE
    demand = float(np.abs(task.demand_p).sum() + np.abs(task.demand_q).sum())
    return TOLERANCE * min(1.0, max(demand, LEAST_DEMAND))


def _verdict(claimed: SolveStatus, residuals: Residuals) -> SolveStatus:
    """The engine's status as far as the independent check agrees, which overrules it both ways."""
    if claimed is SolveStatus.CONVERGED:
        return claimed if residuals.largest <= CHECK_TOLERANCE else SolveStatus.CHECK_FAILED
    return SolveStatus.CONVERGED if residuals.largest <= SOUND else claimed


def _warm_start(lowered: LoweredTask, point: Iterate, u: Floats) -> WarmStart:
    scale = lowered.objective.scale
    n_rows = len(lowered.rows)
    n_shared = len(point.limit) - 2 * n_rows
    dense = point.limit[n_shared:].reshape(2, n_rows) / scale
    u_bound = np.zeros((len(u), 2))
    u_bound[lowered.free] = point.u_bound / scale
    rows = {
        row.name: (float(dense[0, r] * row.scale), float(dense[1, r] * row.scale)) for r, row in enumerate(lowered.rows)
    }
    above, below = rows.get("cost", (1.0 if lowered.objective is lowered.cost else 0.0, 0.0))
    return WarmStart(
        x=point.x.copy(),
        price=point.price / scale,
        limit=point.limit[:n_shared] / scale,
        u=u,
        u_bound=u_bound,
        free=lowered.free,
        rows=rows,
        target=np.concatenate([lowered.target_p, lowered.target_q]),
        objective=lowered.objective.name,
        cost_weight=above - below,
        priced=(above - below) * float(np.max(np.abs(lowered.cost.linear), initial=0.0)) > LEAST_COST_WEIGHT,
    )
