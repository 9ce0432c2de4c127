"""The four problems of a power network for many callers at once: requests in, answers of the solver contract out.

What is asked of the kernels is what the structured solver would try first, from the same starts; a request that they do not
solve is left to the caller, whose own backend knows what to try next.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gridveil.core.band import CostTarget
from gridveil.core.errors import InputError
from gridveil.programs import ParametricProgram, Status
from gridveil.sectors.model import Model
from gridveil.solvers.backend import Answer, Effort, HalfSpace, Start
from gridveil.solvers.batch.contract import BatchAnswer, JointPoints, JointTasks, Scenarios
from gridveil.solvers.batch.engine import Engine
from gridveil.solvers.batch.joint import JointSolver, lower_tasks, merged
from gridveil.solvers.batch.layout import MOST_KEPT, solver_settings
from gridveil.solvers.batch.network import BatchNetwork, lower_network, opf_arrays
from gridveil.solvers.batch.power_rows import PowerRows
from gridveil.solvers.batch.settings import JOINT_TOLERANCE
from gridveil.solvers.batch.solver import BatchSolver
from gridveil.solvers.batch.starts import StartKind, Starts
from gridveil.solvers.batch.warm_rows import PointLayout
from gridveil.solvers.structured.backend import STRUCTURED, own_start, primal_start, warmest
from gridveil.solvers.structured.problem import COST, MINUS_DEMAND, SQUARED_DISTANCE, WarmStart, kept_name
from gridveil.solvers.structured.settings import INTERIOR
from gridveil.solvers.structured.solver import StructuredSolver

Vector = NDArray[np.float64]
_Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False, kw_only=True)
class Request:
    """One problem that somebody waits for; ``data`` is d of a dispatch, d̃ of the others."""

    data: Vector
    start: Start | None
    effort: Effort
    band: CostTarget | None = None
    half_space: HalfSpace | None = None
    delta: float | None = None
    is_dispatch: bool = False

    @property
    def n_kept(self) -> int:
        """How many totals it keeps."""
        return 0 if self.band is None or self.band.rows is None else len(self.band.rows.lower)

    @property
    def kind(self) -> str:
        """Requests of one kind that keep as many totals can share a batch."""
        if self.is_dispatch:
            return COST
        if self.delta is not None:
            return MINUS_DEMAND
        return SQUARED_DISTANCE if self.half_space is None else "cut"

    @property
    def objective(self) -> str:
        """Name of the objective, as the structured solver has it."""
        return SQUARED_DISTANCE if self.kind == "cut" else self.kind


class PowerBatches:
    """Batches of the problems of one power model, by one engine."""

    def __init__(
        self, program: ParametricProgram, dispatches: BatchNetwork, joint: BatchNetwork, engine: Engine
    ) -> None:
        """From a program and its network, lowered for dispatches and, with room at its limits, for joint tasks."""
        self.program = program
        self._engine, self._joints = engine, {0: JointSolver(joint, engine)}
        self._dispatch = BatchSolver(dispatches, engine, tolerance=JOINT_TOLERANCE, soften=False, give_up=False)
        self._layouts: dict[BatchNetwork, PointLayout] = {}
        self._solvers: dict[bool, StructuredSolver] = {}
        unbounded = np.all(np.isinf(program.d_lower)) and np.all(np.isinf(program.d_upper))
        self._box: dict[str, Any] = {} if unbounded else {"low": program.d_lower, "high": program.d_upper}

    @classmethod
    def of_model(cls, model: Model, engine: Engine) -> PowerBatches:
        """Lower a model's network; an InputError names what the kernels do not know."""
        if model.arrays is None:
            raise InputError(f"batches do not know {model.program.name}: only power networks with AC flows")
        joint = lower_network(model.arrays(INTERIOR), joint=True)
        return cls(model.program, lower_network(model.arrays(0.0)), joint, engine)

    @cached_property
    def rows(self) -> PowerRows:
        """The same problems for whole arrays of releases."""
        return PowerRows(self._dispatch.network, self._joint(0).network, self._engine, self._box)

    def _joint(self, kept: int) -> JointSolver:
        """The solver of joint tasks that keep so many totals."""
        if kept not in self._joints:
            self._joints[kept] = JointSolver(self._joints[0].network.keeping(kept), self._engine)
        return self._joints[kept]

    def _layout(self, network: BatchNetwork) -> PointLayout:
        if network not in self._layouts:
            self._layouts[network] = PointLayout(network)
        return self._layouts[network]

    def _solver(self, dispatch: bool) -> StructuredSolver:
        """The structured solver of a network, which turns points of other solvers into starts."""
        if dispatch not in self._solvers:
            network = (self._dispatch if dispatch else self._joints[0]).network
            self._solvers[dispatch] = StructuredSolver(opf_arrays(vars(network.grid)))
        return self._solvers[dispatch]

    @staticmethod
    def takes(request: Request) -> bool:
        """Whether the kernels have something to try: not from a mere guess, nor after they have had their try."""
        if request.is_dispatch and np.abs(request.data).sum() < 1.0:
            return False  # the tolerance of a dispatch shrinks with such a demand
        if request.n_kept > MOST_KEPT:
            return False
        if request.start is None:
            return request.effort in {Effort.FULL, Effort.BRIEF}
        return request.effort in {Effort.NEAR, Effort.WARM, Effort.BRIEF}

    def answer(self, requests: Sequence[Request]) -> list[Answer]:
        """One answer per request, in their order; requests of a kind are one batch."""
        found: list[Answer | None] = [None] * len(requests)
        kinds = [(request.kind, request.n_kept) for request in requests]
        for kind in dict.fromkeys(kinds):
            chosen = [i for i, one in enumerate(kinds) if one == kind]
            some = [requests[i] for i in chosen]
            answers = self._dispatched(some) if kind[0] == COST else self._joined(some)
            for i, one in zip(chosen, answers, strict=True):
                found[i] = one
        return [one for one in found if one is not None]

    def _dispatched(self, requests: list[Request]) -> list[Answer]:
        demand = np.stack([request.data for request in requests])
        half = demand.shape[1] // 2
        scenarios = Scenarios(demand_p=demand[:, :half], demand_q=demand[:, half:])
        network = self._dispatch.network
        scale = np.full(len(requests), network.objective_scale)
        rows = np.tile([1.0, 0.0, 0.0, 0.0], (len(requests), 1))
        starts = self._starts(requests, network, demand, scale, np.ones((len(requests), 2)))
        found = self._dispatch.dispatch(scenarios, starts=starts)
        return self._answers(requests, network, found, demand, scale, rows, {COST: 0})

    def _joined(self, requests: list[Request]) -> list[Answer]:
        tasks = self._tasks(requests)
        joint = self._joint(tasks.n_kept)
        lowered = lower_tasks(joint.network, tasks)
        target = np.concatenate([tasks.target_p, tasks.target_q], axis=1)
        starts = self._starts(requests, joint.network, target, lowered.objective_scale, lowered.row_scale)
        found = joint.solve_lowered(tasks, lowered, starts)
        again = self._second_starts(requests, joint.network, found, starts)
        if again is not None:
            left, starts = again
            found = merged(found, joint.solve_lowered(tasks.rows(left), lowered.some(left), starts), left)
        prices = _raw_rows(joint.network, found) * np.repeat(lowered.row_scale, 2, axis=1)
        prices /= lowered.objective_scale[:, None]
        names = {name: 2 * k for k, name in enumerate(_row_names(requests[0]))}
        if requests[0].band is None:
            names.pop(COST)
        return self._answers(requests, joint.network, found, target, lowered.objective_scale, prices, names)

    def _tasks(self, requests: list[Request]) -> JointTasks:
        target = np.stack([request.data for request in requests])
        half = target.shape[1] // 2
        bands = [request.band for request in requests]
        more: dict[str, Any] = {}
        if requests[0].half_space is not None:
            spaces = [request.half_space for request in requests if request.half_space is not None]
            normal = np.stack([space.normal for space in spaces])
            offset = np.array([space.offset for space in spaces])
            more = {"weight_p": normal[:, :half], "weight_q": normal[:, half:], "least": offset}
        if requests[0].delta is not None:
            more = {"delta": np.array([request.delta for request in requests], float)}
        kept = [band.rows for band in bands if band is not None and band.rows is not None]
        if kept:
            more |= {"kept": np.stack([rows.matrix for rows in kept])}
            more |= {"kept_low": np.stack([rows.lower for rows in kept])}
            more |= {"kept_high": np.stack([rows.upper for rows in kept])}
        return JointTasks(
            target_p=target[:, :half],
            target_q=target[:, half:],
            cost_low=np.array([-np.inf if band is None else band.lower for band in bands]),
            cost_high=np.array([np.inf if band is None else band.upper for band in bands]),
            **more,
            **self._box,
        )

    def _starts(
        self, requests: list[Request], network: BatchNetwork, target: _Floats, scale: _Floats, row_scale: _Floats
    ) -> Starts:
        """As ``StructuredBackend`` would begin each: cold, warm where multipliers say something, else near the point."""
        setting, layout = solver_settings(), self._layout(network)
        known = [self._known(request) for request in requests]
        factor = np.array([_conversion(request, warm) for request, warm in zip(requests, known, strict=True)])
        choice = np.empty((len(requests), 6))
        for i, (request, warm) in enumerate(zip(requests, known, strict=True)):
            choice[i] = _choice(request, warm, factor[i], setting)
        if all(warm is None for warm in known):
            return Starts(choice)
        point = np.zeros((len(requests), layout.n_point))
        there = [i for i, warm in enumerate(known) if warm is not None]
        warms = [warm for warm in known if warm is not None]
        names = _row_names(requests[0])
        point[there] = layout.to_raw(warms, target[there], factor[there] * scale[there], row_scale[there], names)
        return Starts(choice, point)

    def _known(self, request: Request) -> WarmStart | None:
        """The point that a request starts from."""
        if request.start is None:
            return None
        own = own_start(request.start)
        if not request.is_dispatch or request.effort is not Effort.WARM:
            return own or primal_start(self._solver(request.is_dispatch), request.start.x, request.start.d)
        last = None if request.start.last is None else own_start(request.start.last)
        return warmest(own, last, request.data) or primal_start(self._solver(True), request.start.x, request.data)

    def _second_starts(
        self, requests: list[Request], network: BatchNetwork, found: BatchAnswer, starts: Starts
    ) -> tuple[NDArray[np.int64], Starts] | None:
        """Joint tasks that failed and may be tried once more.

        Near the point, if its multipliers led nowhere; cold ones with a held barrier parameter.
        """
        setting = solver_settings()
        first = starts.choice[:, 0]
        feasible = found.feasible if found.feasible is not None else np.zeros(len(requests), bool)
        stay = feasible | np.array([request.objective == MINUS_DEMAND for request in requests])
        cold = first == float(StartKind.COLD)
        distance = np.array([request.objective == SQUARED_DISTANCE for request in requests])
        left = np.flatnonzero(~found.converged & ((stay & ~cold) | (cold & distance)))
        if not len(left):
            return None
        choice = starts.choice[left].copy()
        for row, i in enumerate(left):
            near = StartKind.NEAR if first[i] == float(StartKind.WARM) else StartKind.NEAR_HELD
            one = (float(StartKind.HELD), *choice[row, 1:3]) if cold[i] else (float(near), *_near(requests[i], setting))
            choice[row] = [*one, *one]
        point = None if starts.point is None else self._layout(network).without_multipliers(starts.point[left])
        return left, Starts(choice, point)

    def _answers(
        self,
        requests: list[Request],
        network: BatchNetwork,
        found: BatchAnswer,
        target: _Floats,
        scale: _Floats,
        rows: _Floats,
        names: dict[str, int],
    ) -> list[Answer]:
        """Answers with starts that the structured solver can go on from; ``rows`` (B, 4 + 2 K) are multipliers, by ``names``."""
        points, dispatch = found.points, requests[0].is_dispatch
        if points is None or found.raw is None:
            raise RuntimeError("the points of a batch are missing")
        warms = self._layout(network).from_raw(found.raw, target, scale, rows, names, requests[0].objective)
        x = np.concatenate([points.va, points.vm, points.pg, points.qg], axis=1)
        demand = (
            np.concatenate([points.demand_p, points.demand_q], axis=1) if isinstance(points, JointPoints) else target
        )
        at_load = self._dispatch.network.grid.load_bus
        prices = np.concatenate([points.price_p[:, at_load], points.price_q[:, at_load]], axis=1) if dispatch else None
        half = demand.shape[1] // 2
        proxy, away = demand[:, :half].sum(axis=1), np.sum((demand - target) ** 2, axis=1)
        return [
            Answer(
                status=Status.CONVERGED if found.status[i] == 0 else Status.FAILED,
                x=x[i],
                d=requests[i].data if dispatch else demand[i],
                cost=float(found.cost[i]),
                delta=float(away[i]),
                proxy=float(proxy[i]),
                start=Start(x[i], requests[i].data if dispatch else demand[i], STRUCTURED, warms[i]),
                solver=STRUCTURED,
                prices=None if prices is None else prices[i],
                iterations=int(found.iterations[i]),
                detail="converged" if found.status[i] == 0 else "not solved in its batch",
            )
            for i in range(len(requests))
        ]


def _row_names(request: Request) -> list[str]:
    """Names of the dense rows in their order, as the structured solver has them; a second row that is not there is a cut."""
    second = "ball" if request.delta is not None else "cut"
    return [COST, second, *(kept_name(r) for r in range(request.n_kept))]


def _raw_rows(network: BatchNetwork, found: BatchAnswer) -> _Floats:
    """(B, 4 + 2 K) multipliers of the dense rows as the kernels wrote them."""
    if found.raw is None:
        raise RuntimeError("the points of a batch are missing")
    return found.raw[:, -2 * network.rows :]


def _conversion(request: Request, warm: WarmStart | None) -> float:
    """Factor from the multipliers of an earlier objective to those of the request's; zero if none is there or wanted."""
    if warm is None or (request.is_dispatch and request.effort is not Effort.WARM):
        return 0.0
    if warm.objective == request.objective:
        return 1.0
    return 1.0 / warm.cost_weight if request.is_dispatch and warm.priced else 0.0


def _near(request: Request, setting: dict[str, float]) -> tuple[float, float]:
    """Distance from bounds and barrier parameter near a known point."""
    name = {COST: "COST", SQUARED_DISTANCE: "DISTANCE", MINUS_DEMAND: "DEMAND"}[request.objective]
    return setting[f"NEAR_{name}_PUSH"], setting[f"NEAR_{name}_MU"]


def _choice(request: Request, warm: WarmStart | None, factor: float, setting: dict[str, float]) -> list[float]:
    """The start of one request: see ``Starts.choice``."""
    if warm is None:
        has_rows = request.band is not None or request.half_space is not None or request.delta is not None
        cold = [float(StartKind.COLD), setting["START_PUSH"], setting["MU_BAND" if has_rows else "MU_DISPATCH"]]
        return [*cold, *cold]
    near = [float(StartKind.NEAR), *_near(request, setting)]
    if request.is_dispatch and request.effort is not Effort.WARM:
        return [*near, *near]
    if factor != 0.0:
        kept = [float(StartKind.WARM), setting["FEASIBLE_PUSH"], setting["FEASIBLE_MU"]]
        return [*kept, float(StartKind.WARM), setting["WARM_PUSH"], setting["WARM_MU"]]
    if request.objective == MINUS_DEMAND:
        return [*near, *near]
    return [*near, float(StartKind.AT_POINT), setting["START_PUSH"], setting["PRIMAL_MU"]]
