"""The interface between bilevel methods and solvers: four problems of one program, and their answers.

A backend solves; in which order starts are tried, and what is done about a failure, is decided in ``gridveil.solvers.solves``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from gridveil.core.band import CostTarget
from gridveil.programs import ParametricProgram, Status
from gridveil.sectors.model import Model

Vector = NDArray[np.float64]


class Effort(Enum):
    """What the caller knows about the start, and what it does next if the solve fails.

    FULL: whatever it takes; a start, if there is one, is a guess that must be kept to.
    BRIEF: a guess that leads to the answer soon or hardly ever; the caller has something better to try than a long solve.
    NEAR: x and d of the start are close to the answer, feasible or nearly so; its multipliers are of no use.
    WARM: close, multipliers included; where this fails the caller goes on without them.
    AGAIN: like NEAR, after a warm solve has failed.
    OTHERWISE: the usual way led nowhere from this start; take another way, if there is one.
    READER: as somebody would who has nothing but the data: Ipopt, from the flat start, whatever it takes.
    """

    FULL = "full"
    BRIEF = "brief"
    NEAR = "near"
    WARM = "warm"
    AGAIN = "again"
    OTHERWISE = "otherwise"
    READER = "reader"


@dataclass(frozen=True, eq=False, repr=False)
class Start:
    """A place to start from. Any backend can use x and d; the rest only the one that is named as its maker.

    ``replace(start, x=…, d=…)`` moves a start and keeps what its maker knows of it.
    """

    x: Vector
    d: Vector
    maker: str = ""
    own: Any = None
    """Multipliers and whatever else the maker wants back; nobody else may look at it."""
    last: Start | None = None
    """Where the last dispatch ended: its multipliers may serve a dispatch better than those of a joint problem."""

    def after(self, last: Start | None) -> Start:
        """This start, combined with the end of the last dispatch."""
        return replace(self, last=last)


@dataclass(frozen=True, eq=False, kw_only=True)
class Answer:
    """The answer to any of the four problems; a result only if it converged.

    ``delta`` is ‖d − d̃‖² (zero for a dispatch, which keeps to its d), ``proxy`` is m(d) and ``cost`` is f(x).
    """

    status: Status
    x: Vector
    d: Vector
    cost: float
    delta: float
    proxy: float
    start: Start
    solver: str
    """Name of the backend that found it."""
    prices: Vector | None = None
    """∂O/∂d; None for all problems but the dispatch."""
    iterations: int = 0
    seconds: float = 0.0
    detail: str = ""
    """How the solve ended, in the solver's own words."""
    from_x_alone: bool = False
    """Whether it was found from x and d of a joint point without multipliers: the same solve again would say the same."""

    @property
    def converged(self) -> bool:
        """Whether the answer may move a bracket, become a result or enter a table."""
        return self.status is Status.CONVERGED

    def moved(self, d: Vector, delta: float) -> Answer:
        """The same x at other data, which the caller knows to differ by rounding alone."""
        return replace(self, d=d, delta=delta, start=replace(self.start, d=d))


@dataclass(frozen=True, eq=False)
class HalfSpace:
    """The data d with normalᵀd ≥ offset; the normal has length one, so that the row is well scaled."""

    normal: Vector
    offset: float


@dataclass(frozen=True, kw_only=True)
class Capabilities:
    """What a backend can do, known before one is built."""

    accepts: Callable[[Model], bool]
    """Whether it can solve the problems of a model."""
    restarts: bool = True
    """Whether a push that failed is worth another try from another start."""
    guesses: bool = False
    """Whether the start of an HPR that failed is one that another backend should try first."""


class Backend(Protocol):
    """Four problems of one program, for any data and any band. An unsolved problem is an answer, not an error.

    The data of the three joint problems satisfy ``band.rows`` as well, where the band has any.
    """

    @property
    def name(self) -> str:
        """Short name, as in ``--solver``."""
        ...

    @property
    def capabilities(self) -> Capabilities:
        """What it can do."""
        ...

    @property
    def program(self) -> ParametricProgram:
        """The program whose problems it solves."""
        ...

    def prepare(self) -> None:
        """Build now what dispatches share, rather than in the first of them."""
        ...

    def dispatch(self, d: Vector, *, start: Start | None = None, effort: Effort | None = None) -> Answer:
        """O(d), with prices. Without an effort: FULL, or NEAR if there is a start."""
        ...

    def nearest(
        self, noisy: Vector, band: CostTarget | None, *, start: Start | None = None, effort: Effort | None = None
    ) -> Answer:
        """HPR: the data nearest to d̃ that have some feasible x with a cost in the band; without a band, any feasible x."""
        ...

    def cut(
        self, noisy: Vector, band: CostTarget, half_space: HalfSpace, *, start: Start, effort: Effort = Effort.NEAR
    ) -> Answer:
        """HPR within a half-space."""
        ...

    def push(
        self, noisy: Vector, band: CostTarget, delta: float, *, start: Start, effort: Effort = Effort.NEAR
    ) -> Answer:
        """O↑(δ): the data of largest proxy m(d) within δ of d̃ that have some feasible x with a cost in the band."""
        ...

    def portable(self, start: Start) -> bool:
        """Whether the start holds multipliers of this backend that serve all of its problems, not just the one they are of."""
        ...


def usual_effort(start: Start | None, effort: Effort | None) -> Effort:
    """The effort of a dispatch or HPR for which the caller named none."""
    return effort or (Effort.FULL if start is None else Effort.NEAR)
