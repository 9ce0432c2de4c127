"""The curator: the one object that holds true values after reading, and everything that is computed from them.

What leaves it is a noisy draw, or a type that no public writer accepts. It builds its own model and solver, so nothing
that has seen true values is used afterwards, and it hands true values to no callback.
"""

from __future__ import annotations

import hashlib
import hmac
import math
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gridveil.core.choices import Formulation
from gridveil.core.errors import InputError
from gridveil.core.secret import SecretField
from gridveil.privacy.group_sums import GroupSums
from gridveil.privacy.limits import EqualNumber, equal_numbers
from gridveil.privacy.mechanisms.lattice import LatticeMechanism
from gridveil.privacy.mechanisms.mechanism import Mechanism
from gridveil.privacy.mechanisms.scalar_laplace import ScalarLaplace
from gridveil.privacy.noisy import MechanismFacts, NoisyData, NoisySum
from gridveil.privacy.weighted_sum import WeightedSum
from gridveil.programs import Status
from gridveil.sectors.case import Case
from gridveil.sectors.power.case import power_network
from gridveil.sectors.power.profile import OperatingProfile, operating_profile, unsolved_profile
from gridveil.sectors.registry import build_model
from gridveil.solvers.registry import backend_for
from gridveil.solvers.solves import Solves

Vector = NDArray[np.float64]


@dataclass(frozen=True, eq=False, kw_only=True)
class CuratorSolution:
    """O(d°): cost (NaN unless converged), operating point and prices. It reveals true values: never to be published."""

    status: Status
    cost: float
    x: Vector
    prices: Vector
    program: str
    """Short name of the program that was solved."""
    cost_unit: str
    solver: str
    iterations: int
    build_seconds: float
    solve_seconds: float
    losses: float | None = None
    """Active power generated less demanded, per unit; None where nothing is lost."""

    @property
    def converged(self) -> bool:
        """Whether there is an optimum."""
        return self.status is Status.CONVERGED


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """Distances to the true values, ‖· − d°‖/‖d°‖ over all participants; NaN if d° is zero. Never to be published."""

    distance_noisy: float
    distance_highpoint: float
    distance_released: float


class Curator:
    """A case's true values, and what only the curator may do with them."""

    def __init__(self, case: Case) -> None:
        if case.over_time is not None and case.over_time.replace_values:
            raise InputError(
                f"{case.name}: has {len(case.over_time)} snapshots, and this needs one; release all of them with "
                "--series snapshots (release_series), or keep one in the file"
            )
        self.__case = case

    @property
    def field(self) -> SecretField:
        """What is hidden. Public."""
        return self.__case.field

    def draw(self, mechanism: Mechanism, *, charge_id: str | None) -> NoisyData:
        """d̃ = d° + noise. The caller has paid for it."""
        return NoisyData(
            values=mechanism.draw(self.__case.values.reveal()),
            mechanism=mechanism.facts(),
            simulation=not mechanism.is_private,
            charge_id=charge_id,
        )

    def draw_sum(
        self,
        query: WeightedSum,
        mechanism: ScalarLaplace,
        facts: MechanismFacts,
        *,
        offset: float,
        charge_id: str | None,
    ) -> NoisySum:
        """The weighted sum of true values with noise. The caller has paid for it."""
        return NoisySum(
            value=mechanism.draw_exact(query.exact_value(self.__case.values.reveal())),
            weights=query.weights,
            offset=offset,
            mechanism=facts,
            simulation=not mechanism.is_private,
            charge_id=charge_id,
        )

    def draw_group_sums(self, query: GroupSums, mechanism: LatticeMechanism) -> NDArray[Any]:
        """The sums of the true values of each group with noise, per unit. The caller has paid for them."""
        return mechanism.draw_exact_points(query.exact_values(self.__case.values.reveal()))

    def declared_sums(self, query: GroupSums) -> NDArray[Any]:
        """The true sums of each group, per unit, as they are: for sums that the curator declares public."""
        return query.sums(self.__case.values.reveal())

    def optimum(
        self, *, formulation: Formulation = Formulation.AC, solver: str = "structured", verbose: bool = False
    ) -> CuratorSolution:
        """O(d°) by a model and a solver that nobody else uses."""
        clock = time.perf_counter()
        model = build_model(self.__case.network, formulation)
        backend = backend_for(model, solver, verbose=verbose)
        backend.prepare()
        built = time.perf_counter()
        d = model.layout.to_program(self.__case.values.reveal())
        answer = Solves(backend).best(d)
        return CuratorSolution(
            status=answer.status,
            cost=answer.cost if answer.converged else math.nan,
            x=answer.x,
            prices=np.zeros(0) if answer.prices is None else answer.prices,
            program=model.program.name,
            cost_unit=model.program.cost_unit,
            solver=answer.solver,
            iterations=answer.iterations,
            build_seconds=built - clock,
            solve_seconds=time.perf_counter() - built,
            losses=None if model.losses is None else model.losses(answer.x, d),
        )

    def write_solved(self, solution: CuratorSolution, formulation: Formulation, path: Path, *, title: str) -> None:
        """Write a MATPOWER case with the true demands and the operating point. It reveals both: ``title`` must say so."""
        network = power_network(self.__case)
        if network is None:
            raise InputError("a solved MATPOWER case is for power networks; name a .csv or .parquet file for tables")
        from gridveil.sectors.power.solved_case import write_solved_case

        write_solved_case(network, self.__case.values.reveal(), formulation, solution.x, path, title=title)

    def profile(self, optimum: CuratorSolution, *, outages: tuple[int, ...] = ()) -> OperatingProfile:
        """What one reads off O(d°) of a power network, which is known. Never to be published."""
        network, model = power_network(self.__case), build_model(self.__case.network)
        if network is None:
            raise InputError(f"a {model.kind} network has no profile of prices and lines")
        d = model.layout.to_program(self.__case.values.reveal())
        if not optimum.converged or not len(optimum.prices):
            return unsolved_profile(network, d)
        return operating_profile(network, optimum.x, d, optimum.prices, optimum.cost, outages)

    def equal_numbers(self) -> tuple[EqualNumber, ...]:
        """Public numbers that equal a true value or a total of them. Never to be published."""
        return equal_numbers(self.__case)

    def distance(self, values: NDArray[Any]) -> float:
        """‖values − d°‖/‖d°‖; NaN if d° is zero. Never to be published."""
        truth, scale = self.__case.values.reveal(), self._scale
        size = float(np.linalg.norm(truth / scale))
        return float(np.linalg.norm((values - truth) / scale)) / size if size > 0 else math.nan

    @property
    def _scale(self) -> Vector:
        """What distances are measured in: one, or, of several secrets, each participant's α."""
        parts = self.field.parts
        if not parts:
            return np.ones(1)
        return np.concatenate([np.full(len(part.field), float(part.alpha)) for part in parts])

    def distances(self, values: NDArray[Any]) -> dict[str, float]:
        """Root mean square of the error of each secret's values, in its own unit. Never to be published."""
        truth = self.__case.values.reveal()
        return {
            part.field.name: part.field.base * float(np.sqrt(np.mean(np.abs(values - truth)[part.run] ** 2)))
            for part in self.field.parts
        }

    def compare(self, noisy: NoisyData, highpoint: NDArray[Any], released: NDArray[Any]) -> Comparison:
        """Measure how far noisy, high-point and released values are from the true ones."""
        return Comparison(
            distance_noisy=self.distance(noisy.values),
            distance_highpoint=self.distance(highpoint),
            distance_released=self.distance(released),
        )

    def table(self, noisy: NoisyData, released: NDArray[Any]) -> list[tuple[str, complex, complex, complex]]:
        """List (place, true, noisy, released) per participant, per unit. Never to be published."""
        columns = (self.__case.values.reveal(), noisy.values, released)
        return list(zip(self.field.places, *(column.tolist() for column in columns), strict=True))

    def digest(self, key: bytes) -> str:
        """Keyed digest of the true values in physical units: binds a stored draw to its data, and tells nothing without the key."""
        scaled = np.asarray(self.__case.values.reveal(), dtype=complex) * self.field.base
        # Twelve digits survive a change of unit or base; the file itself holds no more.
        text = ",".join(f"{value.real:.11e}:{value.imag:.11e}" for value in scaled.tolist())
        return hmac.new(key, text.encode(), hashlib.sha256).hexdigest()


def published_values(case: Case) -> NDArray[Any]:
    """Values that are no secret: of a file that a release has written, of a benchmark, or made up.

    A test lists the modules that may call this.
    """
    return case.values.reveal()
