"""Options and arguments shared by several commands."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer

from gridveil.cli.completion import complete_case, complete_mechanism, complete_method, complete_preset, complete_solver
from gridveil.cli.keep_options import KeepOptions
from gridveil.cli.output import OutputMode, set_output_mode
from gridveil.core.choices import BatchEngine, DemandUnit, Names, Protects
from gridveil.core.errors import InputError

if TYPE_CHECKING:
    from gridveil.sectors.gas.boundary import GasBoundary
    from gridveil.sectors.sites import SiteRule

CaseArgument = Annotated[
    str,
    typer.Argument(
        help="Path of a case file, or a built-in name such as veil9.", metavar="CASE", autocompletion=complete_case
    ),
]
SOLVER_HELP = "structured (AC power, with Ipopt as fallback), ipopt, or a plug-in's."
SolverOption = Annotated[str, typer.Option("--solver", help=SOLVER_HELP, autocompletion=complete_solver)]
SolverNowOption = Annotated[
    str | None,
    typer.Option(
        "--solver",
        help=SOLVER_HELP,
        show_default="structured; ipopt for small networks while nothing is compiled",
        autocompletion=complete_solver,
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON object on standard output and nothing else.")]
QuietOption = Annotated[
    bool, typer.Option("--quiet", "-q", help="Print nothing but errors (and what --json asks for).")
]
VerboseOption = Annotated[bool, typer.Option("--verbose", "-v", help="Report each step on standard error.")]
SitesOption = Annotated[
    str | None,
    typer.Option("--sites", help="Where customers are: all, or a file with one bus or junction per line."),
]
YesOption = Annotated[
    bool,
    typer.Option(
        "--yes", "-y", help="Confirm beforehand what would be asked: a large α, a further draw on the same data."
    ),
]
TimeLimitOption = Annotated[
    float | None,
    typer.Option(
        "--time-limit",
        help="Most seconds for the repair; then the best verified demands are published, or none (exit code 3). "
        "[default: 60, and 0.02 for each bus or junction]",
    ),
]
SecretOption = Annotated[
    str | None,
    typer.Option(
        "--secret",
        help="What is hidden, each with the change that ε hides, instead of --alpha: "
        "demand=0.1MVA,cost=2$/MWh,limit=20MVA,impedance=5%. What is left out is public.",
        show_default="demand alone",
    ),
]
NamesOption = Annotated[
    Names | None,
    typer.Option("--names", help="Names of buses and loads: keep publishes them; else numbers take their place."),
]
MethodOption = Annotated[
    str,
    typer.Option(
        "--method",
        help="How the bilevel problem is solved: auto, bisection, or a plug-in's.",
        autocompletion=complete_method,
    ),
]
MechanismOption = Annotated[
    str,
    typer.Option(
        "--mechanism",
        help="Noise on single values: laplace, or a plug-in's, which the card then names as not audited.",
        autocompletion=complete_mechanism,
    ),
]
DatasetOption = Annotated[
    str | None, typer.Option("--dataset", help="Name of the data set, if the network alone does not identify it.")
]
LedgerOption = Annotated[Path | None, typer.Option("--ledger", help="Ledger of the data set, if it is kept elsewhere.")]


@dataclass(frozen=True, kw_only=True)
class GasOptions:
    """Boundary conditions of gas networks; a command with a parameter ``gas: GasOptions`` has them as options."""

    preset: Annotated[
        str | None,
        typer.Option("--preset", help="Gas: boundary conditions of a shipped study.", autocompletion=complete_preset),
    ] = None
    slack: Annotated[
        list[str] | None, typer.Option("--slack", help="Gas: JUNCTION=PRESSURE, such as 1=500psi. Repeatable.")
    ] = None
    sound_speed: Annotated[str | None, typer.Option("--sound-speed", help="Gas: speed of sound, such as 350m/s.")] = (
        None
    )
    flow_base: Annotated[
        str | None, typer.Option("--flow-base", help="Gas: base for per-unit flows and alpha, in kg/s.")
    ] = None
    demand_unit: Annotated[
        DemandUnit | None,
        typer.Option("--demand-unit", help="Gas: what one protected value is: a delivery, or a junction's total."),
    ] = None

    @property
    def boundary(self) -> GasBoundary | None:
        """The preset, overridden by whatever is stated; None where nothing is."""
        from gridveil.sectors.gas.boundary import stated_boundary

        if self == GasOptions():
            return None
        return stated_boundary(
            preset=self.preset,
            slack=self.slack or [],
            sound_speed=self.sound_speed,
            flow_base=self.flow_base,
            demand_unit=self.demand_unit,
        )


@dataclass(frozen=True, kw_only=True)
class SeriesOptions:
    """Choices for a time series; a command with a parameter ``series: SeriesOptions`` has them as options."""

    file: Annotated[
        Path | None,
        typer.Option(
            "--series",
            help="Series: table of hourly demands to release, timestamp × site (.csv, .parquet); or snapshots: those of the case.",
        ),
    ] = None
    protects: Annotated[
        Protects | None,
        typer.Option("--protects", help="Series: what ε and α hide: one hour, or the whole profile, of one customer."),
    ] = None
    basis: Annotated[
        str | None,
        typer.Option(
            "--basis", help="Series: public basis of profiles: hours, level, parts, week, or a table of one shape."
        ),
    ] = None
    noise: Annotated[
        str | None,
        typer.Option("--noise", help="Series: noise on profiles: k-norm, shared-shape, gaussian or laplace."),
    ] = None
    delta: Annotated[str | None, typer.Option("--delta", help="Series: δ of Gaussian noise, such as 1e-6.")] = None
    power_factor: Annotated[
        float | None, typer.Option("--power-factor", help="Series: power factor, if the table has no reactive power.")
    ] = None
    workers: Annotated[
        int | None, typer.Option("--workers", help="Series: number of processes. [default: one per core]")
    ] = None
    batch: Annotated[
        BatchEngine | None,
        typer.Option("--batch", help="Series: solve all hours together, on a gpu or by native code. [default: not]"),
    ] = None


# Parameters of commands that stand for a group of options.
GROUPS: dict[str, type[GasOptions] | type[SeriesOptions] | type[KeepOptions]] = {
    "kept": KeepOptions,
    "gas": GasOptions,
    "series": SeriesOptions,
}


def case_options(gas: GasOptions, names: Names | None) -> GasBoundary | Names | None:
    """What is stated beyond the file: boundary conditions of a gas network, or the names of a power network."""
    boundary = gas.boundary
    if names is not None and boundary is not None:
        raise InputError("--names is for power networks, and boundary conditions are for gas; give one of the two")
    return boundary if names is None else names


def split_list(text: str) -> tuple[str, ...]:
    """Split a comma-separated option."""
    return tuple(part.strip() for part in text.split(",") if part.strip())


def sites_rule(sites: str | None) -> SiteRule:
    """Return the declared list of participants; without one, what the file states."""
    from gridveil.sectors.sites import AS_STATED, site_rule

    return AS_STATED if sites is None else site_rule(sites)


def with_shared_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add --quiet and --verbose to a command, and replace its ``kept``, ``gas`` and ``series`` parameters by their options."""
    hints = get_type_hints(command, include_extras=True)
    groups = {name: kind for name, kind in GROUPS.items() if hints.pop(name, None)}
    group_hints = {name: get_type_hints(kind, include_extras=True) for name, kind in groups.items()}
    more = {"quiet": (QuietOption, False), "verbose": (VerboseOption, False)}

    @functools.wraps(command)
    def wrapped(*, quiet: bool, verbose: bool, **arguments: Any) -> None:
        set_output_mode(OutputMode(quiet=quiet, verbose=verbose, as_json=bool(arguments.get("as_json"))))
        for group, kind in groups.items():
            arguments[group] = kind(**{name: arguments.pop(name) for name in group_hints[group]})
        command(**arguments)

    signature = inspect.signature(command)
    own = [
        parameter.replace(annotation=hints[name]) for name, parameter in signature.parameters.items() if name in hints
    ]
    added = {name: (hint, None) for group in group_hints.values() for name, hint in group.items()} | more
    others = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=hint)
        for name, (hint, default) in added.items()
    ]
    wrapped.__signature__ = signature.replace(parameters=[*own, *others])  # type: ignore[attr-defined]
    wrapped.__annotations__ = hints | {name: hint for name, (hint, _) in added.items()}
    return wrapped
