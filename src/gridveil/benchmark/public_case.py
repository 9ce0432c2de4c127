"""Cases of the bench. They are public benchmark files: the bench hands their demands to every contestant."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from gridveil.benchmark.baseline import published_cost
from gridveil.benchmark.contestant import Problem
from gridveil.core.errors import InputError
from gridveil.sectors.builtin import resolve_case
from gridveil.sectors.case import Case
from gridveil.sectors.load import load_case
from gridveil.sectors.power.network import PowerNetwork


@dataclass(frozen=True, kw_only=True)
class PublicCase:
    """What the bench itself knows of a case: where it is, its size, and its published optimum if there is one."""

    source: str
    name: str
    buses: int
    published: float | None


def public_case(source: str) -> PublicCase:
    """Read and check a case; what is no power case is an InputError."""
    case, network = power_case_at(source)
    return PublicCase(
        source=source,
        name=case.name,
        buses=network.grid.n_bus,
        published=published_cost(resolve_case(source)),
    )


def at_file_demand(source: str, measure: Callable[[Problem], None]) -> None:
    """Measure something at the demands of the file."""
    from gridveil.privacy.curator import solve_at

    case, network = power_case_at(source)
    path = resolve_case(source)

    def measure_at(demand: NDArray[Any]) -> None:
        measure(Problem(path=path, network=network, demand=demand))

    solve_at(case.demand, measure_at)


def power_case_at(source: str) -> tuple[Case, PowerNetwork]:
    """Read a power case; a gas case is an InputError."""
    case = load_case(source)
    if not isinstance(case.network, PowerNetwork):
        raise InputError(f"{source}: is a gas network, and the bench compares power flows; name a power case")
    return case, case.network
