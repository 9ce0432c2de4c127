"""Options and arguments that several commands share."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer

from gridveil.cli.completion import complete_case, complete_preset
from gridveil.cli.output import Manner, speak
from gridveil.core.choices import DemandUnit
from gridveil.core.methods import Solver

if TYPE_CHECKING:
    from gridveil.sectors.gas.boundary import GasBoundary

CaseArgument = Annotated[
    str,
    typer.Argument(
        help="Path of a case file, or a built-in name such as veil9.", metavar="CASE", autocompletion=complete_case
    ),
]
SolverOption = Annotated[
    Solver, typer.Option("--solver", help="Our structured solver (AC power), or Ipopt for everything.")
]
PresetOption = Annotated[
    str | None,
    typer.Option("--preset", help="Gas: boundary conditions of our studies.", autocompletion=complete_preset),
]
SlackOption = Annotated[
    list[str] | None, typer.Option("--slack", help="Gas: JUNCTION=PRESSURE, such as 1=500psi. Repeatable.")
]
SpeedOption = Annotated[str | None, typer.Option("--sound-speed", help="Gas: speed of sound, such as 350m/s.")]
FlowOption = Annotated[
    str | None, typer.Option("--flow-base", help="Gas: what alpha and demands are measured in, kg/s.")
]
UnitOption = Annotated[DemandUnit | None, typer.Option("--demand-unit", help="Gas: whose demand is one datum.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON object on standard output and nothing else.")]
QuietOption = Annotated[
    bool, typer.Option("--quiet", "-q", help="Print nothing but errors (and what --json asks for).")
]
VerboseOption = Annotated[bool, typer.Option("--verbose", "-v", help="Say each step on standard error.")]


def boundary(
    preset: str | None, slack: list[str] | None, sound_speed: str | None, flow_base: str | None, unit: DemandUnit | None
) -> GasBoundary:
    """Give the gas boundary conditions of the command line: a preset, and whatever is stated on top of it."""
    from gridveil.sectors.gas.boundary import stated_boundary

    return stated_boundary(
        preset=preset, slack=slack or [], sound_speed=sound_speed, flow_base=flow_base, demand_unit=unit
    )


def speaking(command: Callable[..., None]) -> Callable[..., None]:
    """Give the command with --quiet and --verbose, which every command has; both and --json set how it speaks."""
    hints = get_type_hints(command, include_extras=True)
    extra = {"quiet": QuietOption, "verbose": VerboseOption}

    @functools.wraps(command)
    def speaker(*, quiet: bool, verbose: bool, **arguments: Any) -> None:
        speak(Manner(quiet=quiet, verbose=verbose, as_json=bool(arguments.get("as_json"))))
        command(**arguments)

    signature = inspect.signature(command)
    own = [parameter.replace(annotation=hints[name]) for name, parameter in signature.parameters.items()]
    more = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=False, annotation=hint)
        for name, hint in extra.items()
    ]
    speaker.__signature__ = signature.replace(parameters=[*own, *more])  # type: ignore[attr-defined]
    speaker.__annotations__ = hints | extra
    return speaker
