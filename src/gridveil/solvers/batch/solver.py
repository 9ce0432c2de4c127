"""Batches on one network: kernels, then the independent check of every scenario, then the structured solver for the rest."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from time import perf_counter
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from gridveil.solvers.batch.compiled_check import check_scenarios
from gridveil.solvers.batch.contract import BatchAnswer, BatchStatus, JointPoints, JointTasks, Points, Scenarios
from gridveil.solvers.batch.engine import Array, Engine, RawInput, RawOutput, RunOptions
from gridveil.solvers.batch.layout import solver_settings
from gridveil.solvers.batch.lowering import (
    cost_constants,
    local_table,
    outage_table,
    read_points,
    refuse_unfit,
)
from gridveil.solvers.batch.network import BatchNetwork
from gridveil.solvers.batch.settings import BATCH_CHECK, BATCH_TOLERANCE
from gridveil.solvers.batch.starts import Starts

if TYPE_CHECKING:
    from gridveil.solvers.batch.leftovers import Leftovers

Batch = TypeVar("Batch", Points, JointPoints, Scenarios, JointTasks)

Demands = tuple[NDArray[np.float64], NDArray[np.float64]]
"""(D,) active and reactive power of each load site."""


@dataclass(frozen=True)
class Timing:
    """Seconds of the last batch."""

    kernels: float
    transfers: float
    """To the engine's memory and back."""
    check: float
    total: float


class BatchSolver:
    """Solves batches of dispatches on one network with one engine; see ``BatchBackend``."""

    def __init__(
        self,
        network: BatchNetwork,
        engine: Engine,
        *,
        tolerance: float = BATCH_TOLERANCE,
        slots: int | None = None,
        soften: bool = True,
        leftovers: Leftovers | None = None,
        usual: Demands | None = None,
        give_up: bool = True,
    ) -> None:
        """With ``usual`` demands, scenarios start at the optimum for these, which is all that a start depends on.

        ``give_up`` is that of the options.
        """
        self.network = network
        self.name = engine.name
        self._engine = engine
        self.options = RunOptions(tolerance=tolerance, slots=slots, give_up=give_up)
        self._soften = soften
        self._leftovers = leftovers
        self._usual = usual
        self._optimum: tuple[Array | None] | None = None
        self.timing = Timing(0.0, 0.0, 0.0, 0.0)

    @property
    def xp(self) -> Any:
        """The module of the arrays in the engine's memory."""
        return self._engine.xp

    def dispatch(
        self, scenarios: Scenarios, *, keep: bool = True, starts: Starts | None = None, at_home: bool = True
    ) -> BatchAnswer:
        """O(d) of every scenario; ``keep`` the points as well as the costs.

        With ``starts`` every scenario is run once, as its start says, and nothing is tried after a failure. Unless ``at_home``,
        points stay in the engine's memory, and what fails is not left to the structured solver.
        """
        refuse_unfit(self.network, scenarios)
        xp, clock = self._engine.xp, Clock(self._engine)
        given = self._given(scenarios)
        sent = clock.lap()
        if starts is not None:
            raw = self._engine.run(self.network, self._started(given, starts), self.options)
        else:
            raw = self._from_scratch(given) if self._usual is None else self._from_usual(given, self._usual)
        clock.lap()
        cost = raw.cost + xp.asarray(cost_constants(self.network, scenarios))
        residuals = check_scenarios(self._engine, self.network, scenarios, cost, raw.point)
        status = verdict(xp, raw.status, residuals)
        checked = clock.lap()
        points = read_points(self.network, raw.point, xp) if keep else None
        answer = BatchAnswer(
            cost=host(xp, cost),
            status=host(xp, status),
            iterations=host(xp, raw.iterations),
            factorisations=host(xp, raw.factorisations),
            residuals=host(xp, residuals),
            by_cpu=np.zeros(len(scenarios), bool),
            points=at_hand(xp, points) if points is not None and at_home else points,
            feasible=None if starts is None else host(xp, raw.feasible).astype(bool),
            raw=None if starts is None else host(xp, raw.point),
        )
        self.timing = Timing(raw.seconds, sent + clock.lap(), checked, clock.total())
        return self._leftovers.solve(scenarios, answer) if self._leftovers is not None and at_home else answer

    def _given(self, scenarios: Scenarios) -> RawInput:
        """The arrays of a batch in the engine's memory."""
        xp = self._engine.xp
        (demand_p, demand_q), rest = self._engine.send(scenarios.demand_p, scenarios.demand_q)
        return RawInput(
            demand_p=demand_p,
            demand_q=demand_q,
            rest=rest,
            local=contiguous(xp, local_table(self.network, scenarios, xp)),
            outage=contiguous(xp, outage_table(scenarios)),
        )

    def _started(self, given: RawInput, starts: Starts) -> RawInput:
        xp = self._engine.xp
        return replace(given, start=contiguous(xp, starts.choice), warm=contiguous(xp, starts.point))

    def _from_usual(self, given: RawInput, usual: Demands) -> RawOutput:
        """Solve from the optimum for usual demands; what fails, by way of soft balances, and unless these buy power, cold.

        The first run is lean: from a point so near hardly a scenario needs more, and those that cannot be served, which would
        keep whole warps busy with second-order corrections, end early.
        """
        point, seconds = self._usual_optimum(usual)
        if point is None:
            return self._from_scratch(given)
        raw = self._engine.run(self.network, replace(given, warm=point), replace(self.options, lean=True))
        raw = replace(raw, seconds=raw.seconds + seconds)
        if self._soften:
            raw = self._again(raw, given, _failed(raw), replace(self.options, soften=True))
        return self._again(raw, given, _failed(raw) & (raw.status != int(BatchStatus.UNBALANCED)), self.options)

    def _usual_optimum(self, usual: Demands) -> tuple[Array | None, float]:
        """(n_point,) the optimum for usual demands, None if it is not found; and the seconds it took now."""
        seconds = 0.0
        if self._optimum is None:
            demand_p, demand_q = (np.asarray(half, np.float64)[None] for half in usual)
            raw = self._from_scratch(self._given(Scenarios(demand_p=demand_p, demand_q=demand_q)))
            self._optimum, seconds = (None if bool(_failed(raw)[0]) else raw.point[0],), raw.seconds
        return self._optimum[0], seconds

    def _from_scratch(self, given: RawInput) -> RawOutput:
        """Solve from a cold start; what fails, once more by way of soft balances, all such scenarios together.

        Where memory is short the first run is lean; what fails in it, unless hopelessly, is then repeated in full.
        """
        options = self.options
        lean = self._engine.is_short_of_memory(self.network, given)
        raw = self._engine.run(self.network, given, replace(options, lean=lean))
        if lean:
            raw = self._again(raw, given, _failed(raw) & (raw.status != int(BatchStatus.STALLED)), options)
        return self._again(raw, given, _failed(raw), replace(options, soften=True)) if self._soften else raw

    def _again(self, raw: RawOutput, given: RawInput, which: Any, options: RunOptions) -> RawOutput:
        """Some of the scenarios once more, with other options and without their starts."""
        left = self._engine.xp.flatnonzero(which)
        if not len(left):
            return raw
        again = self._engine.run(self.network, given.some(left), replace(options, again=True))
        for name in ("cost", "point", "status"):
            getattr(raw, name)[left] = getattr(again, name)
        raw.iterations[left] += again.iterations
        raw.factorisations[left] += again.factorisations
        return replace(raw, seconds=raw.seconds + again.seconds)


def _failed(raw: RawOutput) -> Any:
    """Which scenarios have ended without a point that the check might confirm."""
    return (raw.status != int(BatchStatus.CONVERGED)) & (raw.status != int(BatchStatus.ROUNDED))


def verdict(xp: Any, claimed: Any, residuals: Any) -> Any:
    """The kernels' status as far as the check agrees, which overrules it both ways."""
    largest, sound = residuals.max(axis=1), solver_settings()["SOUND"]
    believed = (claimed == int(BatchStatus.CONVERGED)) | (claimed == int(BatchStatus.ROUNDED))
    status = xp.where(believed & ~(largest <= BATCH_CHECK), int(BatchStatus.CHECK_FAILED), claimed)
    solved = (believed & (largest <= BATCH_CHECK)) | (largest <= sound)
    return xp.where(solved, int(BatchStatus.CONVERGED), status).astype(xp.int32)


def contiguous(xp: Any, array: Any) -> Any:
    """An array in the engine's memory, row after row."""
    return None if array is None else xp.ascontiguousarray(xp.asarray(array))


def host(xp: Any, array: Any) -> Any:
    """An array of the engine as one of NumPy."""
    return array if xp is np or isinstance(array, np.ndarray) else xp.asnumpy(array)


def at_hand(xp: Any, batch: Batch) -> Batch:
    """Points, scenarios or tasks with all of their arrays in the caller's memory."""
    given = {f.name: getattr(batch, f.name) for f in fields(batch)}
    return replace(batch, **{name: host(xp, array) for name, array in given.items() if array is not None})


class Clock:
    """Seconds between laps, with whatever the engine still has under way included."""

    def __init__(self, engine: Engine) -> None:
        self._wait = getattr(engine, "wait", lambda: None)
        self._first = self._last = perf_counter()

    def lap(self) -> float:
        """Since the last lap."""
        self._wait()
        now = perf_counter()
        passed, self._last = now - self._last, now
        return passed

    def total(self) -> float:
        """Up to the last lap."""
        return self._last - self._first
