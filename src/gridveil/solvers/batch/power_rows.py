"""The problems of a power network for many releases at once: rows of arrays in, rows of numbers out.

Each row starts where ``PowerBatches`` would start its request; the rules are the same, written for whole arrays. Nothing here
is an object per row, and points stay in the engine's memory: what is done with them between two solves is compiled
(kernels/releases.cuh), so that a look at what has ended takes the host a few calls, whatever the number of rows.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gridveil.core.errors import InputError
from gridveil.solvers.batch.compiled_check import check_rows, demands_in, weights_in
from gridveil.solvers.batch.contract import BatchStatus
from gridveil.solvers.batch.engine import Array, Engine, RunOptions
from gridveil.solvers.batch.joint import joint_options
from gridveil.solvers.batch.lowering import read_points
from gridveil.solvers.batch.network import BatchNetwork
from gridveil.solvers.batch.row_kernels import (
    ANSWERED,
    OF_TASK,
    PLACES,
    WIDE,
    Operation,
    row_tables,
    start_of,
    warm_start,
)
from gridveil.solvers.batch.settings import JOINT_TOLERANCE
from gridveil.solvers.batch.solver import host, verdict
from gridveil.solvers.batch.starts import StartKind
from gridveil.solvers.batch.stream import RowNumbers

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

DISPATCH_OPTIONS = RunOptions(tolerance=JOINT_TOLERANCE, give_up=False)
"""Demands that a row asks about can be served, if only just."""


class Kind(IntEnum):
    """Of a joint problem."""

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
class JointAsked:
    """B joint problems, and where they start."""

    kind: Ints
    """(B,) of ``Kind``."""
    cost_low: Floats
    cost_high: Floats
    base: Ints
    """(B,) place of the point to cut at."""
    missing: Floats
    """(B,) of cuts: what O lacks there to the cost they ask for."""
    steepness: Floats
    """(B,) of cuts: length of the prices there."""
    delta: Floats
    """(B,) of pushes."""
    start: Ints
    """(B,) place of the joint point to start from, unless they start cold."""
    start_kind: Ints
    """(B,) of the problem that this point solved."""
    attempt: Ints
    """(B,) of ``StartRank``."""


@dataclass(frozen=True, eq=False, kw_only=True)
class RowAnswers(RowNumbers):
    """Checked answers."""

    solved: Bools


class PowerRows:
    """Joint problems and dispatches of one power network for rows of releases, every answer checked."""

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
        self.dispatches, self.joint, self._box = dispatches, joint, box
        self.n_joint, self.n_dispatch = (net.sizes(False)["n_point"] for net in (joint, dispatches))
        self.tables = row_tables(dispatches, joint, box, engine.xp)

    @property
    def place_width(self) -> int:
        """Numbers at a place: see ``Place`` in releases.cuh."""
        return self.n_joint + self.n_dispatch + 3 * self.n_d + 2

    @property
    def bytes_per_row(self) -> int:
        """Memory that a release takes: its places, and what goes into its problems and comes out of them."""
        problems = 2 * self.n_joint + 2 * self.n_dispatch + 5 * self.joint.n_local
        return 8 * (PLACES * self.place_width + problems + self.n_dispatch + 4 * self.n_d)

    @property
    def box(self) -> dict[str, Any]:
        """Bounds on demands, for the check."""
        return {name: self.tables[name] for name in ("low", "high")}

    def suited(self, count: int) -> PowerRows:
        """These problems on the engine that is for so many rows."""
        origin = self._origin or self
        engine = origin.engine.suited(self.dispatches, count)
        if engine is self.engine:
            return self
        return PowerRows(self.dispatches, self.joint, engine, self._box, origin)

    def open(self, noisy: Floats) -> RowProblems:
        """Room for the problems of rows with these noisy demands (n, 2 D)."""
        return RowProblems(self, noisy)

    def program_x(self, raw: Array) -> Floats:
        """(B, n_x) points of dispatches as the program's x, in the caller's memory."""
        xp = self.engine.xp
        points = read_points(self.dispatches, raw, xp)
        x: Floats = host(xp, xp.concatenate([points.va, points.vm, points.pg, points.qg], axis=1))
        return x


class RowProblems:
    """The problems of all rows that are under way, of which a row has at most one; and the points of all rows."""

    def __init__(self, power: PowerRows, noisy: Floats) -> None:
        self._power, self._engine, count = power, power.engine, len(noisy)
        xp, width = power.engine.xp, power.place_width
        joint, dispatches = power.joint, power.dispatches
        places = xp.zeros((count, PLACES, width))
        self._joint = power.engine.open(joint, count, joint_options())
        self._dispatch = power.engine.open(dispatches, count, DISPATCH_OPTIONS)
        given, found = (
            [getattr(one.arrays, name) for one in (self._joint, self._dispatch)] for name in ("given", "made")
        )
        self._state = {
            "places": places,
            "noisy": xp.ascontiguousarray(xp.asarray(noisy)),
            "solution": xp.zeros((count, power.n_dispatch)),
            "normal": xp.zeros((count, power.n_d)),
            "task": xp.zeros((count, OF_TASK)),
            "scale": xp.ones(count),
            "row_scale": xp.ones((count, 2)),
            "local": given[0].local,
            "rows": given[0].rows,
        }
        for name, one, made in zip(("joint", "dispatch"), given, found, strict=True):
            self._state |= {f"{name}_p": one.demand_p, f"{name}_q": one.demand_q, f"{name}_start": one.start}
            self._state |= {f"{name}_from": one.warm, f"{name}_found": made["point"]}
        self._checks = {True: self._check_of_joint(), False: self._check_of_dispatches()}

    def attended(self) -> AbstractContextManager[None]:
        """While a caller begins problems and looks at answers."""
        return self._engine.attending([self._joint, self._dispatch])

    def advance(self) -> tuple[Ints, Ints]:
        """Work until some have ended: the rows of joint problems, and of dispatches."""
        self._engine.advance([self._joint, self._dispatch])
        return self._joint.ended(), self._dispatch.ended()

    def begin_joint(self, rows: Ints, asked: JointAsked) -> None:
        """Begin joint problems of all kinds."""
        warm, choice = _joint_choices(asked)
        same_row, cold = warm & (asked.kind == asked.start_kind), asked.attempt >= StartRank.COLD
        numbers = (asked.kind, asked.start, asked.base, warm, same_row, cold, asked.cost_low, asked.cost_high)
        self._do(
            Operation.BEGIN_JOINT,
            rows,
            *numbers,
            asked.missing,
            asked.steepness,
            asked.delta,
            *np.moveaxis(choice, 1, 0),
        )
        self._joint.begin(rows)

    def joint_answers(self, rows: Ints) -> RowAnswers:
        """Checked answers to joint problems."""
        return self._answers(rows, joint=True)

    def keep_joint(self, rows: Ints, place: Ints, same_point: Floats) -> tuple[Floats, Floats, Floats]:
        """Keep points at places: δ, the sum of active demands, and of all demands by size; (R,) each.

        One that is no farther than ``same_point`` (squared) from d̃ becomes d̃.
        """
        told = self._do(Operation.KEEP_JOINT, rows, place, same_point, answered=True)
        return told[:, 0], told[:, 1], told[:, 2]

    def begin_dispatches(self, rows: Ints, place: Ints, last: Ints, has_last: Bools, rank: Ints) -> None:
        """Begin O at the demands of the points at places, by ``StartRank``; ``last`` are the places of the last dispatches."""
        self._do(Operation.BEGIN_DISPATCH, rows, place, last, has_last, rank)
        self._dispatch.begin(rows)

    def dispatch_answers(self, rows: Ints) -> RowAnswers:
        """Checked answers to dispatches."""
        return self._answers(rows, joint=False)

    def began_near(self, rows: Ints) -> Bools:
        """Whether the last dispatches of some rows began near their joint points, without multipliers, if these are feasible."""
        xp = self._engine.xp
        kinds = host(xp, self._state["dispatch_start"][xp.asarray(rows), 0])
        return np.asarray(kinds == float(StartKind.NEAR))

    def keep_dispatches(self, rows: Ints, place: Ints, other: Ints) -> tuple[Floats, Floats]:
        """Keep O with its prices at places: how steep these are, and how far they have turned from those of others, (R,)."""
        told = self._do(Operation.KEEP_DISPATCH, rows, place, other, answered=True)
        return told[:, 0], told[:, 1]

    def end(self, rows: Ints, place: Ints, fresh: Bools) -> None:
        """Rows that end with the fresh dispatch, or with O as it was known at a place."""
        self._do(Operation.END_ROW, rows, place, fresh)

    def demands(self, rows: Ints, place: Ints) -> Floats:
        """(R, 2 D) of points, in the caller's memory."""
        xp, begin = self._engine.xp, self._power.n_joint + self._power.n_dispatch
        at = (xp.asarray(rows), xp.asarray(place), slice(begin, begin + self._power.n_d))
        found: Floats = host(xp, self._state["places"][at])
        return found

    def solutions(self, rows: Ints) -> Floats:
        """(R, n_x) what rows ended with, as the program's x."""
        return self._power.program_x(self._state["solution"][self._engine.xp.asarray(rows)])

    def moved(self, power: PowerRows, left: Ints) -> RowProblems:
        """The same rows with another engine; of points only those of the rows that are left, and no problem under way."""
        xp, n, there = self._engine.xp, len(self._state["noisy"]), power.engine.xp
        noisy = np.zeros((n, power.n_d))
        noisy[left] = host(xp, self._state["noisy"][xp.asarray(left)])
        new = RowProblems(power, noisy)
        new._state["places"][there.asarray(left)] = there.asarray(host(xp, self._state["places"][xp.asarray(left)]))
        return new

    def _do(self, operation: Operation, rows: Ints, *numbers: Any, answered: bool = False) -> Floats:
        """An operation on some rows; ``numbers`` are (R,) each."""
        xp, asked = self._engine.xp, np.zeros((len(rows), WIDE))
        for column, values in enumerate((rows, *numbers)):
            asked[:, column] = values
        told = xp.zeros((len(rows), ANSWERED))
        if len(rows):
            self._engine.on_rows(operation, self._power.tables, self._state, xp.asarray(asked), told)
        found: Floats = host(xp, told) if answered else np.zeros((0, ANSWERED))
        return found

    def _answers(self, rows: Ints, *, joint: bool) -> RowAnswers:
        power, xp, stream = self._power, self._engine.xp, self._joint if joint else self._dispatch
        network = power.joint if joint else power.dispatches
        constant, numbers = float(network.constants.sum()), stream.numbers(rows)
        at = xp.asarray(rows.astype(np.int32))
        residuals = host(xp, check_rows(self._engine, network, at, self._checks[joint], constant))
        solved = verdict(np, numbers.status, residuals) == int(BatchStatus.CONVERGED)
        cost = numbers.cost + constant
        return RowAnswers(**vars(replace(numbers, cost=cost)), solved=solved)

    def _check_of_joint(self) -> dict[str, Any]:
        """Where the check finds joint problems and their answers: demands are to be near d̃ itself."""
        state, half, xp = self._state, self._power.n_d // 2, self._engine.xp
        task = {
            name: state["task"][:, k:] for k, name in enumerate(("kind", "cost_low", "cost_high", "delta", "least"))
        }
        return {
            **self._found(self._joint),
            **demands_in(state["noisy"][:, :half], state["noisy"][:, half:]),
            **weights_in(state["normal"][:, :half], state["normal"][:, half:]),
            **task,
            "task_step": OF_TASK,
            "scale": state["scale"],
            "row_scale": state["row_scale"],
            **{name: None if bound is None else xp.asarray(bound) for name, bound in self._power.box.items()},
        }

    def _check_of_dispatches(self) -> dict[str, Any]:
        given = self._dispatch.arrays.given
        return {**self._found(self._dispatch), **demands_in(given.demand_p, given.demand_q)}

    @staticmethod
    def _found(stream: Any) -> dict[str, Any]:
        return {"point": stream.arrays.made["point"], "cost": stream.arrays.made["cost"]}


def _joint_choices(asked: JointAsked) -> tuple[Bools, Floats]:
    """Which start with multipliers; (B, 6) starts, as ``PowerBatches`` chooses them.

    Cold; warm where multipliers are of the same objective; else near the point.
    """
    choice, push, attempt = np.empty((len(asked.kind), 6)), asked.kind == Kind.PUSH, asked.attempt
    warm = (attempt == StartRank.FIRST) & _alike(asked.kind, asked.start_kind)
    near_distance, near_demand = (
        start_of(StartKind.NEAR, f"NEAR_{objective}_PUSH", f"NEAR_{objective}_MU")
        for objective in ("DISTANCE", "DEMAND")
    )
    choice[~push], choice[push] = 2 * near_distance, 2 * near_demand
    first = (attempt == StartRank.FIRST) & ~push
    choice[first] = [*near_distance, *start_of(StartKind.AT_POINT, "START_PUSH", "PRIMAL_MU")]
    choice[warm] = warm_start()
    choice[attempt >= StartRank.COLD] = 2 * start_of(StartKind.COLD, "START_PUSH", "MU_BAND")
    for held, start in ((StartRank.NEAR_HELD, StartKind.NEAR_HELD), (StartRank.HELD, StartKind.HELD)):
        choice[np.ix_(attempt == held, [0, 3])] = float(start)
    return np.asarray(warm), choice


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
