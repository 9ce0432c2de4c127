"""``inspect`` and ``solve``: describe a case, and compute its optimum."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gridveil.cli.compile_command import solver_now
from gridveil.cli.options import (
    CaseArgument,
    GasOptions,
    JsonOption,
    SolverNowOption,
)
from gridveil.cli.output import show, step
from gridveil.cli.progress import progress
from gridveil.core.choices import Formulation
from gridveil.core.errors import InputError

NOT_SOLVED = 3


def inspect(
    case: CaseArgument = "",
    names: Annotated[bool, typer.Option("--list", help="List the built-in names instead.")] = False,
    as_json: JsonOption = False,
    *,
    gas: GasOptions,
) -> None:
    """Describe a case: its size, what is secret and what is public.

    Example: gridveil inspect veil9
    """
    from gridveil.sectors.registry import describe_case, list_names, load_case

    if names:
        show({"cases": list_names()}, as_json, "built-in cases")
        return
    if not case:
        raise InputError("name a case, such as veil9, or use --list")
    step(f"reading {case}")
    show(describe_case(load_case(case, gas.boundary)), as_json, case)


def solve(
    case: CaseArgument,
    formulation: Annotated[
        Formulation, typer.Option(help="AC: Model 1 of the paper. DC: lossless approximation.")
    ] = Formulation.AC,
    solver: SolverNowOption = None,
    solver_log: Annotated[
        bool,
        typer.Option("--solver-log", help="Show the solver's own output, which reveals parts of the true demands."),
    ] = False,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", help="File for dispatch, prices and flows: .csv or .parquet (a table each), or .m (a solved case)."
        ),
    ] = None,
    as_json: JsonOption = False,
    *,
    gas: GasOptions,
) -> None:
    """Solve the optimal power or gas flow at the demands in the file.

    What --out writes is marked as not private, unless the demands are those of a built-in case or of a release.

    Example: gridveil solve veil9 --formulation dc --json
    """
    from gridveil.privacy.curator import Curator
    from gridveil.sectors.registry import load_case, sector_of
    from gridveil.service.solved_files import demands_are_public, refuse_ending, write_solution

    if out is not None:
        refuse_ending(out)
    step(f"reading {case}")
    loaded = load_case(case, gas.boundary)
    chosen = solver_now(solver, loaded.network)
    with progress(f"solving {loaded.name}"):
        step("building the program and solving it at the demands of the file")
        solution = Curator(loaded).optimum(formulation=formulation, solver=chosen, verbose=solver_log and not as_json)
    sector = sector_of(loaded.network)
    report: dict[str, object] = {
        "case": loaded.name,
        "formulation": formulation.value if len(sector.formulations) > 1 else solution.program.lower(),
        "solver": solution.solver,
        "status": solution.status.value,
        "cost": solution.cost if solution.converged else None,
        "iterations": solution.iterations,
        "build_seconds": solution.build_seconds,
        "solve_seconds": solution.solve_seconds,
        "units": {"cost": solution.cost_unit, "build_seconds": "s", "solve_seconds": "s"},
    }
    if out is not None and solution.converged:
        public = demands_are_public(case)
        form = formulation if len(sector.formulations) > 1 else sector.formulations[0]
        files = write_solution(loaded, solution, form, out, public=public)
        report |= {"files": files, "may_be_published": public}
    show(report, as_json, case)
    if not solution.converged:
        raise typer.Exit(NOT_SOLVED)
