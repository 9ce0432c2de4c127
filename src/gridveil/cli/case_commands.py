"""``inspect`` and ``solve``: what is in a case, and its optimum."""

from __future__ import annotations

import time
from typing import Annotated

import typer

from gridveil.cli.options import (
    CaseArgument,
    FlowOption,
    JsonOption,
    PresetOption,
    SlackOption,
    SolverOption,
    SpeedOption,
    UnitOption,
    boundary,
)
from gridveil.cli.output import announce_compilation, show, step
from gridveil.cli.progress import progress
from gridveil.core.choices import Formulation
from gridveil.core.errors import InputError
from gridveil.core.methods import Solver

NOT_SOLVED = 3


def inspect(
    case: CaseArgument = "",
    preset: PresetOption = None,
    slack: SlackOption = None,
    sound_speed: SpeedOption = None,
    flow_base: FlowOption = None,
    demand_unit: UnitOption = None,
    as_json: JsonOption = False,
    names: Annotated[bool, typer.Option("--list", help="List the built-in names instead.")] = False,
) -> None:
    """Show what is in a case file: what is secret, and what is public.

    Example: gridveil inspect veil9
    """
    from gridveil.sectors.describe import describe_case, list_names
    from gridveil.sectors.load import load_case

    if names:
        show({"cases": list_names()}, as_json, "built-in cases")
        return
    if not case:
        raise InputError("name a case, such as veil9, or use --list")
    step(f"reading {case}")
    show(describe_case(load_case(case, boundary(preset, slack, sound_speed, flow_base, demand_unit))), as_json, case)


def solve(
    case: CaseArgument,
    formulation: Annotated[
        Formulation, typer.Option(help="AC: Model 1 of the paper; DC: lossless approximation.")
    ] = Formulation.AC,
    solver: SolverOption = Solver.STRUCTURED,
    solver_log: Annotated[
        bool, typer.Option("--solver-log", help="Show the solver's own output, which holds parts of true demands.")
    ] = False,
    preset: PresetOption = None,
    slack: SlackOption = None,
    sound_speed: SpeedOption = None,
    flow_base: FlowOption = None,
    demand_unit: UnitOption = None,
    as_json: JsonOption = False,
) -> None:
    """Solve the optimal flow of power or gas at the demands of the file.

    Example: gridveil solve veil9 --formulation dc --json
    """
    from gridveil.privacy.curator import solve_true
    from gridveil.sectors.load import load_case
    from gridveil.sectors.model import build_model
    from gridveil.sectors.power.network import PowerNetwork
    from gridveil.solvers.choose import engine_for
    from gridveil.solvers.structured_backend import BY_STRUCTURE

    step(f"reading {case}")
    loaded = load_case(case, boundary(preset, slack, sound_speed, flow_base, demand_unit))
    announce_compilation(solver)
    with progress(f"solving {loaded.name}"):
        step("building the program")
        model = build_model(loaded.network, formulation)
        engine = engine_for(loaded.network, model, solver, verbose=solver_log and not as_json)
        build_seconds = engine.follower.build_seconds
        step("solving it at the demands of the file")
        clock = time.perf_counter()
        solution = solve_true(loaded, model, engine.solve_afresh)
        solve_seconds = time.perf_counter() - clock
    report = {
        "case": loaded.name,
        "formulation": formulation.value if isinstance(loaded.network, PowerNetwork) else "ogf",
        "solver": (Solver.STRUCTURED if solution.detail == BY_STRUCTURE else Solver.IPOPT).value,
        "status": solution.status.value,
        "cost": solution.cost if solution.converged else None,
        "iterations": solution.iterations,
        "build_seconds": build_seconds,
        "solve_seconds": solve_seconds,
    }
    show(report, as_json, case)
    if not solution.converged:
        raise typer.Exit(NOT_SOLVED)
