"""Options and arguments that several commands share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from gridveil.bilevel.method import Solver
from gridveil.networks.formulation import DemandUnit

if TYPE_CHECKING:
    from gridveil.networks.gas_boundary import GasBoundary

CaseArgument = Annotated[
    str, typer.Argument(help="Path of a case file, or a built-in name such as veil9.", metavar="CASE")
]
SolverOption = Annotated[
    Solver, typer.Option("--solver", help="Our structured solver (AC power), or Ipopt for everything.")
]
PresetOption = Annotated[str | None, typer.Option("--preset", help="Gas: boundary conditions of our studies.")]
SlackOption = Annotated[
    list[str] | None, typer.Option("--slack", help="Gas: JUNCTION=PRESSURE, such as 1=500psi. Repeatable.")
]
SpeedOption = Annotated[str | None, typer.Option("--sound-speed", help="Gas: speed of sound, such as 350m/s.")]
FlowOption = Annotated[
    str | None, typer.Option("--flow-base", help="Gas: what alpha and demands are measured in, kg/s.")
]
UnitOption = Annotated[DemandUnit | None, typer.Option("--demand-unit", help="Gas: whose demand is one datum.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON object on standard output and nothing else.")]


def boundary(
    preset: str | None, slack: list[str] | None, sound_speed: str | None, flow_base: str | None, unit: DemandUnit | None
) -> GasBoundary:
    """Give the gas boundary conditions of the command line: a preset, and whatever is stated on top of it."""
    from gridveil.networks.gas_boundary import stated_boundary

    return stated_boundary(
        preset=preset, slack=slack or [], sound_speed=sound_speed, flow_base=flow_base, demand_unit=unit
    )
