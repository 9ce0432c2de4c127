"""The interface of a solver in the benchmark."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from gridveil.sectors.power.network import PowerNetwork

Floats = NDArray[np.float64]
Complexes = NDArray[np.complex128]


class NotApplicableError(Exception):
    """The solver cannot represent this case; the message says why."""


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class BenchProblem:
    """A public case in memory: its file, its network, and the demand of each load site (per unit)."""

    path: Path
    network: PowerNetwork
    demand: Complexes

    @property
    def served_demand(self) -> Floats:
        """Active, then reactive demand of the sites that take part in the flow: the d of the AC program."""
        served = self.demand[self.network.served]
        return np.concatenate([served.real, served.imag])


@dataclass(frozen=True, eq=False, kw_only=True)
class Point:
    """Voltages per energised bus (radians, per unit) and generation (per unit) of what feeds power, in the order of Grid.

    That is generators in service, storage units, from ends and to ends of DC lines.
    """

    va: Floats
    vm: Floats
    pg: Floats
    qg: Floats
    dc: Floats = field(default_factory=lambda: np.zeros(0))
    """Power that each DC line in service draws at its from end."""
    susceptance: Floats = field(default_factory=lambda: np.zeros(0))
    """Of each compensator in service."""


def refuse_elements(network: PowerNetwork) -> None:
    """Raise for a network with elements that most solvers compared have no counterpart of."""
    grid = network.grid
    elements = len(grid.dc_line.from_bus) + len(grid.compensator.bus) + int(network.storage_on.sum())
    if elements or grid.generator.reactive_cost.stated or np.any(np.isfinite(grid.current)):
        raise NotApplicableError(
            "DC lines, storage, compensators, reactive costs and current limits are not implemented"
        )


@dataclass(frozen=True, eq=False, kw_only=True)
class ContestantAnswer:
    """How one solve ended: cost in $/h, and the point unless there is none."""

    converged: bool
    detail: str
    cost: float
    iterations: int | None
    point: Point | None


class Contestant(ABC):
    """One solver on one problem. Making it imports packages and reads files, and is not timed."""

    @abstractmethod
    def __init__(self, problem: BenchProblem) -> None: ...

    @abstractmethod
    def build(self) -> None:
        """Build everything that solves share."""

    @abstractmethod
    def solve(self) -> None:
        """Solve once, from a flat start."""

    @abstractmethod
    def answer(self) -> ContestantAnswer:
        """Read what the last solve found; not timed."""
