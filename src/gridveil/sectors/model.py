"""The model of a network: its program, how secret values enter it, and optional extras for solvers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from gridveil.core.band import CostTarget
from gridveil.core.choices import DemandBounds, Formulation
from gridveil.programs import ParametricProgram
from gridveil.programs.conic import SocBound
from gridveil.sectors.power.arrays import OpfArrays

Vector = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class DataLayout:
    """Maps one value per participant to the program's d and back.

    Participants that take no part in the flow are not in d: the program cannot tell anything about them.
    """

    served: NDArray[np.bool_]
    """Whether each participant takes part."""
    with_reactive: bool
    """Whether d holds the real parts of all served values and then their imaginary parts."""

    def to_program(self, sites: NDArray[Any]) -> Vector:
        """Lay out d: real parts of the served values, then, if the program has them, their imaginary parts."""
        values = np.asarray(sites)[self.served]
        return np.concatenate([values.real, values.imag]) if self.with_reactive else np.array(values.real)

    def to_sites(self, d: Vector, others: NDArray[Any]) -> NDArray[Any]:
        """Lay out one value per participant with d in place; what d does not determine is taken from ``others``."""
        sites = np.array(others)
        n = int(self.served.sum())
        reactive = d[n:] if self.with_reactive else sites.imag[self.served]
        sites[self.served] = d[:n] + 1j * reactive if np.iscomplexobj(sites) else d[:n]
        return sites


@dataclass(frozen=True, eq=False, kw_only=True)
class PricedCost:
    """A convex lower estimate of the optimal cost near one d: its value there and its slope, both in the cost's unit.

    ``slope`` has one entry per entry of d; per participant it is at most the price that moves were charged.
    """

    value: float
    slope: Vector


class Relaxation(Protocol):
    """What a convex relaxation of a network's program can prove and estimate; all of it from public data."""

    @property
    def name(self) -> str:
        """Which relaxation it is, for the certificate."""
        ...

    def cost_bound(self, d: Vector) -> SocBound:
        """Bound O(d) from below."""
        ...

    def relaxed_cost(self, d: Vector) -> float | None:
        """The relaxed cost at d as a solver found it, which is close to ``cost_bound`` but not proved; None if not found."""
        ...

    def distance_bound(self, noisy: Vector, band: CostTarget, d_lower: Vector, d_upper: Vector) -> SocBound:
        """Bound ‖d − d̃‖² from below for every d whose optimal cost lies in the band."""
        ...

    def priced_cost(self, d: Vector, price: float) -> PricedCost | None:
        """Relaxed cost of serving d where moving any participant's value costs ``price`` per unit; None if not solved."""
        ...

    @property
    def dearest_price(self) -> float:
        """The largest marginal cost of any supply, per unit."""
        ...


@dataclass(frozen=True, eq=False, kw_only=True)
class Model:
    """A program, the layout of its data, and, where the sector has them, arrays for our solvers and a relaxation."""

    kind: str
    formulation: Formulation
    program: ParametricProgram
    layout: DataLayout
    arrays: Callable[[float], OpfArrays] | None = None
    """The network as plain arrays, every range of limits narrowed by the argument; None where it has no such form."""
    relaxation: Relaxation | None = None
    supply: float | None = None
    """Total supply that the network states, per unit of the secret's base; None where it states none."""
    cost_vanishes: bool = False
    """Whether the optimal cost is zero over a range of ordinary data: a share of it, and prices, may then be nothing."""
    losses: Callable[[Vector, Vector], float] | None = None
    """From x and d to active power generated less demanded, per unit; None where nothing is lost."""

    @property
    def starts(self) -> tuple[Vector, ...]:
        """Public x from which to solve O(d) too, where it has several local optima; none where one start is enough."""
        return self.program.starts

    def bounded(self, bounds: DemandBounds) -> Model:
        """The same model with bounds on the real parts of the data."""
        if bounds is DemandBounds.NONE:
            return self
        active = np.arange(self.program.n_d) < self.layout.served.sum()
        return replace(self, program=replace(self.program, d_lower=np.where(active, 0.0, -np.inf)))
