"""The model of a network: its program, how secret values enter it, and optional extras for solvers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from gridveil.core.band import CostTarget
from gridveil.core.choices import DemandBounds, Formulation
from gridveil.core.secret import SecretPart
from gridveil.core.secret_choice import DEMAND
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

    @property
    def active(self) -> NDArray[np.bool_]:
        """Which entries of d are active demands: those that bounds on demands are for."""
        n = int(self.served.sum())
        return np.arange(n * (1 + self.with_reactive)) < n

    def sizes(self, slope: Vector) -> Vector:
        """Absolute slope of each served participant, for a slope with respect to d."""
        if not self.with_reactive:
            return np.abs(slope)
        n = len(slope) // 2
        return np.hypot(slope[:n], slope[n:])

    def scaled(self, slope: Vector, factors: Vector) -> Vector:
        """A slope with respect to d, times one factor per served participant."""
        return slope * (np.tile(factors, 2) if self.with_reactive else factors)

    def weights(self, slope: Vector, like: NDArray[Any]) -> NDArray[Any]:
        """A slope with respect to d as one weight per participant; those that are not served have weight zero."""
        return self.to_sites(slope, np.zeros(len(self.served), dtype=like.dtype))


@dataclass(frozen=True, eq=False)
class PartLayout(DataLayout):
    """The layout of several quantities that are hidden together: d holds one part after the other, in units of its α.

    So ‖d − d̃‖² weighs every quantity by its own α. Of a complex part d holds the real parts, then the imaginary ones.
    Values are complex, those of real parts without an imaginary part. ``with_reactive`` is not used.
    """

    parts: tuple[SecretPart, ...] = ()

    def to_program(self, sites: NDArray[Any]) -> Vector:
        """Lay out d."""
        return np.concatenate([np.zeros(0), *(self._entries(part, sites) / float(part.alpha) for part in self.parts)])

    def _entries(self, part: SecretPart, sites: NDArray[Any]) -> Vector:
        values = sites[part.run][self.served[part.run]]
        return np.concatenate([values.real, values.imag]) if part.field.is_complex else np.array(values.real)

    def to_sites(self, d: Vector, others: NDArray[Any]) -> NDArray[Any]:
        """Lay out one value per participant with d in place; what d does not determine is taken from ``others``."""
        sites = np.array(others, dtype=complex)
        for part, entries in self.split(d):
            sites[part.run][self.served[part.run]] = float(part.alpha) * self._joined(part, entries)
        return sites

    def split(self, d: Vector) -> list[tuple[SecretPart, Vector]]:
        """Each part with its entries of d, still in units of α."""
        ends = np.cumsum([int(self.served[part.run].sum()) * part.field.dimension for part in self.parts])
        return list(zip(self.parts, np.split(d, ends[:-1]), strict=True))

    @staticmethod
    def _joined(part: SecretPart, entries: Vector) -> NDArray[Any]:
        if not part.field.is_complex:
            return entries
        n = len(entries) // 2
        return entries[:n] + 1j * entries[n:]

    @property
    def active(self) -> NDArray[np.bool_]:
        """The real parts of what is laid out first, if that is the demand."""
        n = sum(int(self.served[part.run].sum()) * part.field.dimension for part in self.parts)
        first = self.parts[0]
        return np.arange(n) < (int(self.served[first.run].sum()) if first.field.name == DEMAND else 0)

    def sizes(self, slope: Vector) -> Vector:
        """Absolute slope of each served participant, per α of its part."""
        return np.concatenate([np.abs(self._joined(part, entries)) for part, entries in self.split(slope)])

    def scaled(self, slope: Vector, factors: Vector) -> Vector:
        """A slope with respect to d, times one factor per served participant."""
        counts = np.cumsum([int(self.served[part.run].sum()) for part in self.parts])
        own = np.split(factors, counts[:-1])
        return np.concatenate(
            [
                entries * np.tile(factor, part.field.dimension)
                for (part, entries), factor in zip(self.split(slope), own, strict=True)
            ]
        )

    def weights(self, slope: Vector, like: NDArray[Any]) -> NDArray[Any]:
        """A slope with respect to d as one weight per participant and unit of its value."""
        weights = np.zeros(len(self.served), dtype=complex)
        for part, entries in self.split(slope):
            weights[part.run][self.served[part.run]] = self._joined(part, entries) / float(part.alpha)
        return weights


@dataclass(frozen=True, eq=False, kw_only=True)
class PricedCost:
    """A convex lower estimate of the optimal cost near one d: its value there and its slope, both in the cost's unit.

    ``slope`` has one entry per entry of d; per participant it is at most the price that moves were charged.
    """

    value: float
    slope: Vector
    start: object = None
    """What its solver likes to start from when it is asked for a similar one."""


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

    def distance_bound(
        self, noisy: Vector, band: CostTarget, d_lower: Vector, d_upper: Vector, *, reached: float | None = None
    ) -> SocBound:
        """Bound ‖d − d̃‖² from below for every d whose optimal cost lies in the band.

        ``reached`` is the distance of a point that satisfies the high-point relaxation, if one is known: no bound exceeds it.
        """
        ...

    def priced_cost(
        self, d: Vector, price: float, *, rough: bool = False, near: PricedCost | None = None
    ) -> PricedCost | None:
        """Relaxed cost of serving d where moving any participant's value costs ``price`` per unit; None if not solved.

        ``rough``: the caller needs slopes to a thousandth or so, and no more. ``near`` is one of similar data or price.
        """
        ...

    @property
    def dearest_price(self) -> float:
        """The largest marginal cost of any supply, per unit."""
        ...


@dataclass(frozen=True, eq=False, kw_only=True)
class PricedFlow:
    """An optimal power flow and its multipliers, in the order of OpfArrays: what the slope of its cost follows from."""

    va: Vector
    vm: Vector
    pg: Vector
    price_p: Vector
    price_q: Vector
    """Per bus, in $/h: what a unit drawn more there costs."""
    flow_from: Vector
    flow_to: Vector
    """Per branch: multipliers of |S|² ≤ rate² or of |S|² ≤ current² |V|² at either end."""


class OrdinaryForm(Protocol):
    """How a model whose data are more than demands reads where they are fixed: an ordinary power network."""

    def at(self, d: Vector) -> tuple[Model, Vector]:
        """The model of the network with these data, and the demands of its program."""
        ...

    def prices(self, d: Vector, flow: PricedFlow) -> Vector:
        """∂O/∂d at an optimal flow of that network."""
        ...

    def eased(self, d: Vector) -> Vector | None:
        """The same data with every limit among them as wide as it may be; None where there is no limit among them."""
        ...

    def raised(self, d: Vector, x: Vector) -> Vector:
        """The same data with every limit among them raised to what the flow x needs, and a little more."""
        ...

    @property
    def growth(self) -> Vector:
        """The gradient of the proxy m, which is linear in d."""
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
    ordinary: OrdinaryForm | None = None
    """Where d is more than demands, and O(d) a problem that such arrays can state; else None."""
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
        lower = np.where(self.layout.active, np.maximum(self.program.d_lower, 0.0), self.program.d_lower)
        return replace(self, program=replace(self.program, d_lower=lower))
