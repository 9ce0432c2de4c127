"""``explore``: try settings of α, ε and β on demands that are not secret."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gridveil.cli.options import (
    CaseArgument,
    GasOptions,
    JsonOption,
    MethodOption,
    SecretOption,
    SolverOption,
    split_list,
)
from gridveil.cli.output import announce_compilation, print_result, show, show_rows, step
from gridveil.cli.progress import progress
from gridveil.core.choices import BatchEngine
from gridveil.core.errors import InputError
from gridveil.core.extras import require
from gridveil.core.methods import Method, Solver
from gridveil.study.choices import DemandSource


def explore(
    case: CaseArgument,
    alpha: Annotated[str, typer.Option(help="Values of α to try, with their unit, separated by commas.")] = (
        "0.01pu,0.1pu,1pu"
    ),
    epsilon: Annotated[str, typer.Option(help="Values of ε to try, separated by commas.")] = "1",
    beta: Annotated[str, typer.Option(help="Values of β to try: shares (1%) or amounts (250$/h).")] = "0.1%,1%,10%",
    seeds: Annotated[int, typer.Option(help="Number of runs per setting.")] = 10,
    demands: Annotated[
        DemandSource | None,
        typer.Option(help="Demands to use. [default: public for built-in names, simulated for files]"),
    ] = None,
    loading: Annotated[
        float | None,
        typer.Option(help="Total of simulated demands as a share of capacity. [default: 0.5; gas: 0.9]"),
    ] = None,
    out: Annotated[Path | None, typer.Option("--out", help="Folder for the page, figure and table.")] = None,
    method: MethodOption = "auto",
    solver: SolverOption = "structured",
    batch: Annotated[
        BatchEngine, typer.Option(help="Solve all runs together: on a gpu or by native code; structured: one by one.")
    ] = BatchEngine.STRUCTURED,
    as_json: JsonOption = False,
    secret: SecretOption = None,
    *,
    gas: GasOptions,
) -> None:
    """Show the trade-off between α, ε and β on demands that are not secret.

    The demands are those of a public benchmark, or simulated from the public part of a file, so that settings are never
    tuned on secret data. With --secret the values of α are multiples of what it states.

    Example: gridveil explore veil9 --alpha 1MVA,10MVA --beta 1%,10% --seeds 5 --out explored
    """
    from gridveil.core.secret_choice import stated_secrets
    from gridveil.report.explore_page import write_exploration
    from gridveil.report.explore_table import HEADINGS, plain_exploration, text_rows
    from gridveil.sectors.registry import load_case
    from gridveil.service.secrets import with_secrets
    from gridveil.study.explore import (
        ExploreGrid,
        demands_to_use,
        explore_public,
        explore_simulated,
        refuse_true_demands,
    )

    if out is not None:
        require("matplotlib")
    grid = ExploreGrid(
        alphas=split_list(alpha),
        epsilons=split_list(epsilon),
        betas=split_list(beta),
        seeds=seeds,
        method=Method(method),
        solver=Solver(solver),
    )
    if demands is DemandSource.TRUE:
        refuse_true_demands(grid)
    step(f"reading {case}")
    loaded = with_secrets(load_case(case, gas.boundary), stated_secrets(secret))
    source = demands_to_use(case, demands)
    if out is not None and out.exists() and not out.is_dir():
        raise InputError(f"{out}: is not a folder; choose another --out")
    announce_compilation(solver)
    step(f"trying {grid.runs} releases on {source.value} demands")
    with progress(f"exploring {loaded.name}", grid.runs) as advance:
        if source is DemandSource.SIMULATED:
            found = explore_simulated(
                loaded.network, loaded.field, loaded.name, grid, loading=loading, advance=advance, batch=batch
            )
        else:
            found = explore_public(loaded, grid, advance=advance, batch=batch)
    report = plain_exploration(found)
    if out is not None:
        step(f"writing {out}")
        report["files"] = write_exploration(found, out)
    if as_json:
        show(report, as_json, case)
        return
    show_rows(HEADINGS, text_rows(found), f"{found.case}, on demands {found.demands}")
    failed = sum(row.runs - row.verified for row in found.rows)
    if failed:
        print_result(f"{failed} of {grid.runs} runs produced no release; a larger beta makes this less likely")
    if out is not None:
        print_result(f"see {out / 'explore.html'}")
