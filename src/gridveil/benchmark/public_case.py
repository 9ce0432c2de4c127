"""Cases of the benchmark: public files, whose demands are passed to every contestant."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from gridveil.benchmark.baseline import published_cost
from gridveil.benchmark.contestant import BenchProblem
from gridveil.core.errors import InputError
from gridveil.sectors.builtin import resolve_case
from gridveil.sectors.case import Case
from gridveil.sectors.power.case import power_network
from gridveil.sectors.power.network import PowerNetwork
from gridveil.sectors.registry import load_case


@dataclass(frozen=True, kw_only=True)
class BenchCase:
    """What the bench itself knows of a case: where it is, its size, and its published optimum if there is one."""

    source: str
    name: str
    buses: int
    published: float | None


def public_case(source: str) -> BenchCase:
    """Read and check a case; what is no power case is an InputError."""
    case, network = power_case_at(source)
    return BenchCase(
        source=source,
        name=case.name,
        buses=network.grid.n_bus,
        published=published_cost(resolve_case(source)),
    )


def at_file_demand(source: str, measure: Callable[[BenchProblem], None]) -> None:
    """Measure something at the demands of the file."""
    measure(file_problem(source))


def file_problem(source: str) -> BenchProblem:
    """A public file with its demands."""
    from gridveil.privacy.curator import published_values

    case, network = power_case_at(source)
    return BenchProblem(path=resolve_case(source), network=network, demand=published_values(case))


def power_case_at(source: str) -> tuple[Case, PowerNetwork]:
    """Read a power case; any other case is an InputError."""
    case = load_case(source)
    network = power_network(case)
    if network is None:
        raise InputError(
            f"{source}: is a {case.network.kind} network, and the bench compares power flows; name a power case"
        )
    return case, network
