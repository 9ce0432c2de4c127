"""What runs the kernels: the same structures for either engine, which differ in where arrays live and who launches."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from gridveil.solvers.batch.layout import NET_INTS, NET_REALS, STRUCTURES
from gridveil.solvers.batch.network import BatchNetwork
from gridveil.solvers.batch.settings import (
    GIVE_UP_AFTER,
    GIVE_UP_PRICE,
    MAX_ITERATIONS,
    MOST_TRADE,
    REFILL,
    REFILL_AT_ONCE,
    REFILL_ROUNDS,
)

Array = Any
"""An array of the engine: NumPy's or CuPy's."""


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """What distinguishes one batch from another."""

    tolerance: float
    max_iterations: int = MAX_ITERATIONS
    soften: bool = False
    """Whether scenarios are solved by way of soft balances, instead of from a cold or warm start."""
    slots: int | None = None
    """Scenarios worked on at the same time; as many as fit if None."""


@dataclass(frozen=True, eq=False, kw_only=True)
class RawInput:
    """Arrays of a batch as the kernels take them, in the engine's memory."""

    demand_p: Array
    demand_q: Array
    local: Array | None
    outage: Array | None
    warm: Array | None
    """(n_point,) one point for all scenarios, or (B, n_point) one for each."""

    def rows(self, chosen: Array) -> RawInput:
        """Some of the scenarios, without their warm starts."""
        return RawInput(
            demand_p=self.demand_p[chosen],
            demand_q=self.demand_q[chosen],
            local=None if self.local is None else self.local[chosen],
            outage=None if self.outage is None else self.outage[chosen],
            warm=None,
        )


@dataclass(frozen=True, eq=False, kw_only=True)
class RawOutput:
    """Arrays of a batch as the kernels leave them, in the engine's memory."""

    cost: Array
    point: Array
    status: Array
    iterations: Array
    factorisations: Array
    seconds: float
    """Time of the kernels alone."""


class Engine(Protocol):
    """Runs the kernels on one kind of processor."""

    name: str

    @property
    def xp(self) -> Any:
        """The array module: NumPy or CuPy."""
        ...

    def run(self, network: BatchNetwork, given: RawInput, options: RunOptions) -> RawOutput:
        """Solve a batch."""
        ...


def net_values(network: BatchNetwork, tables: dict[str, Array], varied: bool, options: RunOptions) -> dict[str, Any]:
    """The fields of ``Net``."""
    return {
        **network.sizes(varied),
        **{name: tables[name] for name in (*NET_INTS, *NET_REALS)},
        "varied": int(varied),
        "soften": int(options.soften),
        "max_iterations": options.max_iterations,
        "give_up_after": GIVE_UP_AFTER,
        "refill": REFILL,
        "refill_at_once": REFILL_AT_ONCE,
        "refill_rounds": REFILL_ROUNDS,
        "give_up_price": GIVE_UP_PRICE,
        "most_trade": MOST_TRADE,
        "tolerance": options.tolerance,
        "objective_scale": network.objective_scale,
    }


def outputs(xp: Any, n_scenarios: int, n_point: int) -> dict[str, Array]:
    """Arrays for the kernels to fill."""
    return {
        "cost": xp.full(n_scenarios, xp.nan),
        "point": xp.empty((n_scenarios, n_point)),
        "status": xp.full(n_scenarios, -1, xp.int32),
        "iterations": xp.zeros(n_scenarios, xp.int32),
        "factorisations": xp.zeros(n_scenarios, xp.int32),
        "counter": xp.zeros(4, xp.int32),
    }


def batch_values(given: RawInput, made: dict[str, Array]) -> dict[str, Any]:
    """The fields of ``Batch``."""
    inputs = {name: getattr(given, name) for name in ("demand_p", "demand_q", "local", "outage", "warm")}
    more = {"n_scenarios": len(given.demand_p), "warm_each": int(given.warm is not None and given.warm.ndim == 2)}
    values = inputs | made | more
    return {name: values[name] for name, _ in STRUCTURES["Batch"]}
