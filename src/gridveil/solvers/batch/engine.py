"""What runs the kernels: the same structures for either engine, which differ in where arrays live and who launches."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from gridveil.solvers.batch.layout import NET_INTS, NET_REALS, STRUCTURES
from gridveil.solvers.batch.network import BatchNetwork
from gridveil.solvers.batch.settings import (
    COLD_ITERATIONS,
    CORRECT_UNTIL_AGAIN,
    GIVE_UP_AFTER,
    GIVE_UP_PRICE,
    MAX_ITERATIONS,
    MOST_TRADE,
    REFILL,
    REFILL_AT_ONCE,
    REFILL_ROUNDS,
    TRIALS,
    TRIALS_AGAIN,
)

if TYPE_CHECKING:
    from gridveil.solvers.batch.stream import RowNumbers, StreamArrays

Ints = NDArray[np.int64]
Array = Any
"""An array of the engine: NumPy's or CuPy's."""

N_COUNTERS = 3  # of the enumeration Counter in start.cuh
_OF_STREAMS = ("queue", "ended", "working")  # fields of ``Batch`` that are for streams alone


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """What distinguishes one batch from another."""

    tolerance: float
    max_iterations: int = MAX_ITERATIONS
    """Of any run."""
    cold_iterations: int = COLD_ITERATIONS
    """Of runs from a cold start, or from where soft balances ended."""
    left: float = 0.0
    """Share of the scenarios that may be left at the iteration limit as soon as all others have ended. A few can take many
    times the rounds of the others; an engine that runs every scenario by itself has no need to leave any."""
    soften: bool = False
    """Whether scenarios are solved by way of soft balances, instead of from a cold or warm start."""
    lean: bool = False
    """Whether slots do without second-order corrections and soft balances, which take a third of their memory."""
    again: bool = False
    """Whether the scenarios have failed before."""
    give_up: bool = True
    """Whether runs end early that get no nearer to the balances while prices soar: right if most such cannot be served, wrong of
    demands at the very edge of what can be."""
    slots: int | None = None
    """Scenarios worked on at the same time; as many as fit if None."""


@dataclass(frozen=True, eq=False, kw_only=True)
class RawInput:
    """Arrays of a batch as the kernels take them, in the engine's memory."""

    demand_p: Array
    demand_q: Array
    local: Array | None
    outage: Array | None
    warm: Array | None = None
    """(n_point,) one point for all scenarios, or (B, n_point) one for each."""
    rows: Array | None = None
    """(B, 5 + 2 K) of joint tasks: bounds above and below of every dense row, and what curves the second in the demands."""
    start: Array | None = None
    """(B, 6) attempt, push and barrier parameter for a start that is feasible, and for one that is not."""
    rest: Callable[[], None] | None = None
    """Brings the demands that have not been sent yet: all but those of the first scenarios."""

    def some(self, chosen: Array) -> RawInput:
        """Some of the scenarios, without their starts."""
        return RawInput(
            demand_p=self.demand_p[chosen],
            demand_q=self.demand_q[chosen],
            local=None if self.local is None else self.local[chosen],
            outage=None if self.outage is None else self.outage[chosen],
            rows=None if self.rows is None else self.rows[chosen],
        )


@dataclass(frozen=True, eq=False, kw_only=True)
class RawOutput:
    """Arrays of a batch as the kernels leave them, in the engine's memory."""

    cost: Array
    point: Array
    status: Array
    iterations: Array
    factorisations: Array
    feasible: Array
    """Whether a chosen start was feasible."""
    seconds: float
    """Time of the kernels alone."""


class Stream(Protocol):
    """Problems of one network that come and go: each belongs to a row, which may have its next as soon as its last has ended.

    A batch ends with its slowest problem. Releases ask for one problem after the other, and only a few of them have slow ones;
    in a stream nobody waits for these but the release itself. Arrays are of the engine's module.
    """

    arrays: StreamArrays

    @property
    def busy(self) -> int:
        """How many are under way."""
        ...

    def begin(self, rows: Ints) -> None:
        """Begin a problem for each of some rows that have none under way, from what stands in their rows of ``arrays``."""
        ...

    def ended(self) -> Ints:
        """Rows whose problems have ended since this was asked last, as far as the engine has advanced."""
        ...

    def numbers(self, rows: Ints) -> RowNumbers:
        """What the last problems of some rows came to; points stand in ``arrays``."""
        ...


class Engine(Protocol):
    """Runs the kernels on one kind of processor."""

    name: str

    @property
    def state_bytes(self) -> int:
        """Memory that a caller may take for what it keeps between batches."""
        ...

    @property
    def xp(self) -> Any:
        """The array module: NumPy or CuPy."""
        ...

    def send(self, *arrays: Array) -> tuple[list[Array], Callable[[], None] | None]:
        """Arrays with one row per scenario in the engine's memory, and what brings the rest of them (``RawInput.rest``)."""
        ...

    def is_short_of_memory(self, network: BatchNetwork, given: RawInput) -> bool:
        """Whether slots that are not lean would be too few to keep the processor busy."""
        ...

    def run(self, network: BatchNetwork, given: RawInput, options: RunOptions) -> RawOutput:
        """Solve a batch."""
        ...

    def check(self, net: dict[str, Any], batch: dict[str, Any]) -> None:
        """Run the independent check on answers in the engine's memory; see compiled_check.py."""
        ...

    def on_rows(self, operation: int, net: dict[str, Any], state: dict[str, Any], asked: Array, told: Array) -> None:
        """Run an operation on rows of releases; see row_kernels.py."""
        ...

    def suited(self, network: BatchNetwork, rows: int) -> Engine:
        """The engine for streams of so many rows, where one engine is several."""
        ...

    def open(self, network: BatchNetwork, rows: int, options: RunOptions) -> Stream:
        """A stream for so many rows; of joint tasks, if the network is lowered for them."""
        ...

    def advance(self, streams: Sequence[Stream]) -> None:
        """Work on streams until some of their problems have ended."""
        ...

    def attending(self, streams: Sequence[Stream]) -> AbstractContextManager[None]:
        """While a caller works with streams; at the end nothing is under way, and their memory may be used by others."""
        ...


Arrays = TypeVar("Arrays", RawInput, RawOutput)


def converted(given: Arrays, kind: type, convert: Callable[[Any], Array]) -> Arrays:
    """The same with every array of a kind converted."""
    found = {f.name: getattr(given, f.name) for f in fields(given)}
    return replace(given, **{name: convert(array) for name, array in found.items() if isinstance(array, kind)})


def net_values(network: BatchNetwork, tables: dict[str, Array], varied: bool, options: RunOptions) -> dict[str, Any]:
    """The fields of ``Net``."""
    return {
        **network.sizes(varied, options.lean),
        **{name: tables[name] for name in (*NET_INTS, *NET_REALS)},
        "varied": int(varied),
        "lean": int(options.lean),
        "soften": int(options.soften),
        "max_iterations": options.max_iterations,
        "cold_iterations": options.cold_iterations,
        "give_up_after": GIVE_UP_AFTER if options.give_up else options.max_iterations,
        "refill": REFILL,
        "refill_at_once": REFILL_AT_ONCE,
        "refill_rounds": REFILL_ROUNDS,
        "trials": TRIALS_AGAIN if options.again else TRIALS,
        "correct_until": CORRECT_UNTIL_AGAIN if options.again else options.max_iterations,
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
        "feasible": xp.zeros(n_scenarios, xp.int32),
        "counter": xp.zeros(N_COUNTERS, xp.int32),
    }


def batch_values(given: RawInput, made: dict[str, Array]) -> dict[str, Any]:
    """The fields of ``Batch``."""
    inputs = {
        name: getattr(given, name) for name in ("demand_p", "demand_q", "local", "outage", "warm", "rows", "start")
    }
    more = {"n_scenarios": len(given.demand_p), "warm_each": int(given.warm is not None and given.warm.ndim == 2)}
    values = dict.fromkeys(_OF_STREAMS) | inputs | made | more
    return {name: values[name] for name, _ in STRUCTURES["Batch"]}
