"""The problems of a power network for many releases at once: rows of arrays in, rows of arrays out, in the engine's memory.

Each row starts where ``PowerBatches`` would start its request; the rules are the same, written for whole arrays. Nothing here
is an object per row, and points leave the engine's memory only if somebody asks for them. Problems are begun for some rows, and
answered as they end: no row waits for another.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gridveil.core.errors import InputError
from gridveil.solvers.batch.contract import JointTasks
from gridveil.solvers.batch.engine import Array, Engine, EngineAnswer, RawInput
from gridveil.solvers.batch.joint import JointSolver, LoweredTasks, lower_tasks
from gridveil.solvers.batch.layout import solver_settings
from gridveil.solvers.batch.lowering import read_points
from gridveil.solvers.batch.network import BatchNetwork
from gridveil.solvers.batch.settings import JOINT_TOLERANCE
from gridveil.solvers.batch.solver import BatchSolver, host
from gridveil.solvers.batch.starts import StartKind, Starts

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


class Kind(IntEnum):
    """Of a joint problem. A batch holds the kinds one after the other."""

    NEAREST = 0
    CUT = 1
    PUSH = 2


class StartRank(IntEnum):
    """Which of its starts a problem is at: those of ``structured.strategy``, in their order."""

    FIRST = 0
    """With multipliers, if those of the point are of the same objective."""
    NEAR = 1
    NEAR_HELD = 2
    COLD = 3
    HELD = 4
    THIN = 5
    """Of dispatches alone: near the point, with hardly any room to bounds."""
    SOFTENED = 6
    """Of dispatches alone: cold, by way of soft balances."""


@dataclass(frozen=True, eq=False, kw_only=True)
class JointRows:
    """B joint problems, sorted by kind, and where they start."""

    kind: Ints
    """(B,) of ``Kind``; the only array of these that is NumPy's."""
    target: Array
    """(B, 2 D) noisy demands."""
    cost_low: Array
    cost_high: Array
    normal: Array
    """(cuts, 2 D)"""
    offset: Array
    """(cuts,)"""
    delta: Array
    """(pushes,)"""


@dataclass(frozen=True, eq=False, kw_only=True)
class JointStarts:
    """Joint points that problems start from, unless they start cold."""

    raw: Array
    """(B, n_point)"""
    row_scale: Array
    """(B,) of the point's cut or ball; zero if it has none."""
    kind: Ints
    """(B,) of the problem that the point solved."""
    attempt: Ints
    """(B,) of ``StartRank``."""


@dataclass(frozen=True, eq=False, kw_only=True)
class DispatchStarts:
    """What a dispatch at the demands of a joint point starts from, unless it starts from scratch."""

    raw: Array
    """(B, n_point) the joint point."""
    scale: Array
    """(B,) of the objective of its problem."""
    last: Array
    """(B, n_point of a dispatch) where the last dispatch of the same row ended."""
    last_demand: Array
    """(B, 2 D) its demands."""
    has_last: Bools
    attempt: Ints
    """(B,) of ``StartRank``: FIRST, NEAR or THIN; from scratch COLD or SOFTENED."""


class PowerRows:
    """Joint problems and dispatches of one power network in batches, every answer checked."""

    def __init__(
        self,
        dispatches: BatchNetwork,
        joint: BatchNetwork,
        engine: Engine,
        box: dict[str, Any],
        origin: PowerRows | None = None,
    ) -> None:
        """``origin`` has the engine that chose this one."""
        if not np.array_equal(dispatches.position, joint.position):
            raise InputError("the network is ordered differently for dispatches and joint tasks")
        self._origin, self.engine, self.n_d = origin, engine, 2 * len(joint.grid.load_bus)
        self.joint = JointSolver(joint, engine)
        self.dispatch = BatchSolver(dispatches, engine, tolerance=JOINT_TOLERANCE, soften=False, give_up=False)
        self._box, self._setting = box, solver_settings()
        self._networks = {True: dispatches, False: joint}
        self.n_joint, self.n_dispatch = (net.sizes(False)["n_point"] for net in (joint, dispatches))
        # Where the variables of a dispatch stand in a joint point.
        self._generation = engine.xp.asarray(joint.place_of_local[dispatches.local_of])
        linear = np.abs(dispatches.tables["local"].reshape(-1, 4)[:, 3]).max(initial=0.0)
        self._steepest = float(max(linear / dispatches.objective_scale, 1.0))

    @property
    def xp(self) -> Any:
        """The engine's array module."""
        return self.engine.xp

    def suited(self, count: int) -> PowerRows:
        """These problems on the engine that is for so many rows."""
        origin = self._origin or self
        engine = origin.engine.suited(self._networks[True], count)
        if engine is self.engine:
            return self
        return PowerRows(self._networks[True], self._networks[False], engine, self._box, origin)

    def open(self, count: int) -> RowProblems:
        """Room for the problems of so many rows."""
        return RowProblems(self, count)

    def lowered(self, asked: JointRows, starts: JointStarts) -> tuple[RawInput, LoweredTasks]:
        """Joint problems of all kinds as the kernels take them."""
        parts = self.tasks(asked)
        lowered = LoweredTasks.joined([lower_tasks(self.joint.network, part, self.xp) for part in parts], self.xp)
        chosen = self._joint_starts(asked.kind, starts, lowered.row_scale[:, 1])
        return self.joint.given_rows(parts, lowered, chosen), lowered

    def tasks(self, asked: JointRows) -> list[JointTasks]:
        """Joint problems, a part for each kind."""
        half, parts = self.n_d // 2, []
        ends = np.searchsorted(asked.kind, [*Kind, len(Kind)])
        for kind, begin, end in zip(Kind, ends[:-1], ends[1:], strict=True):
            if begin == end:
                continue
            more: dict[str, Any] = {}
            if kind is Kind.CUT:
                more = {"weight_p": asked.normal[:, :half], "weight_q": asked.normal[:, half:], "least": asked.offset}
            elif kind is Kind.PUSH:
                more = {"delta": asked.delta}
            target = asked.target[begin:end]
            parts.append(
                JointTasks(
                    target_p=target[:, :half],
                    target_q=target[:, half:],
                    cost_low=asked.cost_low[begin:end],
                    cost_high=asked.cost_high[begin:end],
                    **more,
                    **self._box,
                )
            )
        return parts

    def _joint_starts(self, kind: Ints, starts: JointStarts, row_scale: Array) -> Starts:
        """As ``PowerBatches`` chooses them: cold, warm where multipliers are of the same objective, else near the point."""
        xp, choice, push, attempt = self.xp, np.empty((len(kind), 6)), kind == Kind.PUSH, starts.attempt
        warm = (attempt == StartRank.FIRST) & _alike(kind, starts.kind)
        near_distance, near_demand = self._near("DISTANCE"), self._near("DEMAND")
        choice[~push], choice[push] = 2 * near_distance, 2 * near_demand
        first = (attempt == StartRank.FIRST) & ~push
        choice[first] = [*near_distance, *self._kept(StartKind.AT_POINT, "START_PUSH", "PRIMAL_MU")]
        choice[warm] = [*self._kept(StartKind.WARM, "FEASIBLE_PUSH", "FEASIBLE_MU"), *self._warm]
        choice[attempt >= StartRank.COLD] = 2 * self._kept(StartKind.COLD, "START_PUSH", "MU_BAND")
        for held, start in ((StartRank.NEAR_HELD, StartKind.NEAR_HELD), (StartRank.HELD, StartKind.HELD)):
            choice[np.ix_(attempt == held, [0, 3])] = float(start)
        if np.all(attempt >= StartRank.COLD):
            return Starts(choice)
        point = self._with_multipliers(starts.raw, self._networks[False], xp.where(xp.asarray(warm), 1.0, 0.0))
        # A row that the earlier problem did not have, or had in another form, has no multipliers.
        same_row = xp.asarray(warm & (kind == starts.kind))
        point[:, -2:] *= xp.where(same_row, starts.row_scale / row_scale, 0.0)[:, None]
        return Starts(choice, point)

    @property
    def _warm(self) -> list[float]:
        return self._kept(StartKind.WARM, "WARM_PUSH", "WARM_MU")

    def _near(self, objective: str) -> list[float]:
        return self._kept(StartKind.NEAR, f"NEAR_{objective}_PUSH", f"NEAR_{objective}_MU")

    def _kept(self, kind: StartKind, push: str, mu: str) -> list[float]:
        return [float(kind), self._setting[push], self._setting[mu]]

    def _with_multipliers(self, raw: Array, network: BatchNetwork, factor: Array) -> Array:
        """A copy of points with their multipliers times ``factor`` (B,)."""
        n_bus, n, point = network.grid.n_bus, network.n_local, raw.copy()
        for price in (2, 3):
            point[:, price : 4 * n_bus : 4] *= factor[:, None]
        point[:, 4 * n_bus + n :] *= factor[:, None]
        return point

    def dispatch_starts(self, demand: Array, starts: DispatchStarts) -> Starts:
        """As ``structured.backend.warmest`` says: the joint point's own multipliers, or those of the last dispatch."""
        xp, dispatches, joint = self.xp, self._networks[True], self._networks[False]
        weight = (starts.raw[:, -4] - starts.raw[:, -3]) * joint.objective_scale / starts.scale
        priced = host(xp, weight * self._steepest > self._setting["LEAST_COST_WEIGHT"])
        moved = host(xp, xp.abs(demand - starts.last_demand).max(axis=1))
        first = starts.attempt == StartRank.FIRST
        staying = first & starts.has_last & (moved < self._setting["NEARBY"])
        of_last = first & starts.has_last & ~priced & ~staying
        own = first & priced & ~staying
        choice = np.empty((len(demand), 6))
        choice[:] = [*self._near("COST"), *self._kept(StartKind.AT_POINT, "START_PUSH", "PRIMAL_MU")]
        choice[own | of_last | staying] = [*self._kept(StartKind.WARM, "FEASIBLE_PUSH", "FEASIBLE_MU"), *self._warm]
        choice[starts.attempt == StartRank.NEAR] = 2 * self._near("COST")
        choice[starts.attempt == StartRank.THIN] = 2 * self._kept(StartKind.THIN, "THIN_PUSH", "THIN_MU")
        choice[starts.attempt == StartRank.COLD] = 2 * self._kept(StartKind.COLD, "START_PUSH", "MU_DISPATCH")
        choice[starts.attempt == StartRank.SOFTENED] = 2 * self._kept(StartKind.SOFTENED, "START_PUSH", "MU_SOFTENED")
        factor = xp.where(xp.asarray(own), dispatches.objective_scale / (starts.scale * weight), 0.0)
        point = self._with_multipliers(self._as_dispatch(starts.raw), dispatches, factor)
        n_bus, n = dispatches.grid.n_bus, dispatches.n_local
        there = xp.asarray(np.flatnonzero(of_last))
        mixed = starts.last[there]
        for primal in (slice(0, 4 * n_bus, 4), slice(1, 4 * n_bus, 4), slice(4 * n_bus, 4 * n_bus + n)):
            mixed[:, primal] = point[there, primal]
        point[there] = mixed
        there = xp.asarray(np.flatnonzero(staying))
        point[there] = starts.last[there]
        return Starts(choice, point)

    def _as_dispatch(self, raw: Array) -> Array:
        """Joint points as points of a dispatch: without demands and dense rows."""
        xp, joint, n_bus = self.xp, self._networks[False], self._networks[False].grid.n_bus
        local = [raw[:, 4 * n_bus + k * joint.n_local + self._generation] for k in range(3)]
        return xp.concatenate([raw[:, : 4 * n_bus], *local, raw[:, 4 * n_bus + 3 * joint.n_local : -4]], axis=1)

    def program_x(self, raw: Array) -> Floats:
        """(B, n_x) points of dispatches as the program's x, in the caller's memory."""
        points = read_points(self._networks[True], raw, self.xp)
        x: Floats = host(self.xp, self.xp.concatenate([points.va, points.vm, points.pg, points.qg], axis=1))
        return x


class RowProblems:
    """The problems of all rows that are under way; a row has at most one."""

    def __init__(self, power: PowerRows, count: int) -> None:
        self._power, self._engine, xp = power, power.engine, power.xp
        solvers = (power.joint, power.dispatch)
        self._joint, self._dispatch = (power.engine.open(one.network, count, one.options) for one in solvers)
        self._scale, self._row_scale = xp.ones(count), xp.ones((count, 2))
        self._demand = xp.zeros((count, power.n_d))
        self._near = np.zeros(count, bool)

    def attended(self) -> AbstractContextManager[None]:
        """While a caller begins problems and looks at answers."""
        return self._engine.attending([self._joint, self._dispatch])

    def begin_joint(self, rows: Ints, asked: JointRows, starts: JointStarts) -> None:
        """Begin joint problems of all kinds."""
        given, lowered = self._power.lowered(asked, starts)
        at = self._power.xp.asarray(rows)
        self._scale[at], self._row_scale[at] = lowered.objective_scale, lowered.row_scale
        self._joint.put(rows, given)

    def begin_dispatches(self, rows: Ints, demand: Array, starts: DispatchStarts) -> None:
        """Begin O(d) at the demands of some rows."""
        chosen = self._power.dispatch_starts(demand, starts)
        self._demand[self._power.xp.asarray(rows)] = demand
        self._near[rows] = chosen.choice[:, 0] == float(StartKind.NEAR)
        self._dispatch.put(rows, self._power.dispatch.given_rows(demand, chosen))

    def advance(self) -> tuple[Ints, Ints]:
        """Work until some have ended: the rows of joint problems, and of dispatches."""
        self._engine.advance([self._joint, self._dispatch])
        return self._joint.ended(), self._dispatch.ended()

    def joint_answers(self, rows: Ints, asked: JointRows) -> tuple[EngineAnswer, Array, Array]:
        """Checked answers to joint problems that were asked so; the scales of their objectives, and of cut or ball."""
        at = self._power.xp.asarray(rows)
        scale, row_scale = self._scale[at], self._row_scale[at]
        found = self._power.joint.checked_rows(self._power.tasks(asked), scale, row_scale, self._joint.take(rows))
        return found, scale, row_scale[:, 1]

    def without_multipliers(self, rows: Ints) -> Bools:
        """Whether the last dispatches of some rows began near their joint points, without multipliers, if these are feasible."""
        return self._near[rows]

    def dispatch_answers(self, rows: Ints) -> EngineAnswer:
        """Checked answers to dispatches."""
        return self._power.dispatch.checked_rows(self._demand[self._power.xp.asarray(rows)], self._dispatch.take(rows))


def next_attempt(kind: Ints, started_from: Ints, attempt: Ints, feasible: Bools) -> Ints:
    """(B,) the start that follows a failed one, −1 if there is none here.

    Multipliers that led nowhere are left out, if the point is feasible or the problem a push; others begin cold. The structured
    solver has more to try after all of these.
    """
    near = np.where(_alike(kind, started_from), StartRank.NEAR, StartRank.NEAR_HELD)
    after_first = np.where(feasible | (kind == Kind.PUSH), near, StartRank.COLD)
    after_cold = np.where(kind == Kind.PUSH, -1, StartRank.HELD)
    steps = [after_first, np.full(len(kind), StartRank.NEAR_HELD), np.full(len(kind), StartRank.COLD), after_cold]
    return np.choose(attempt, [*steps, np.full(len(kind), -1)])


def _alike(kind: Ints, other: Ints) -> Bools:
    """Whether problems have the same objective."""
    return np.asarray((kind == Kind.PUSH) == (other == Kind.PUSH))
