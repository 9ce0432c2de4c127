"""``bench``: compare the speed of solvers."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from gridveil.cli.options import JsonOption, split_list
from gridveil.cli.output import announce_compilation, make_folder, note, show, show_rows
from gridveil.core.choices import BatchEngine
from gridveil.core.errors import InputError
from gridveil.core.extras import require
from gridveil.core.methods import Solver


def bench(
    context: typer.Context,
    cases: Annotated[
        str,
        typer.Option(
            help="Public power cases, separated by commas: built-in names or paths. [default: small ones; of batches case118_ieee]"
        ),
    ] = "",
    solvers: Annotated[
        str,
        typer.Option(
            help="Any of structured, ipopt, pyoptinterface, pandapower, pypower, separated by commas. "
            "[default: those installed]"
        ),
    ] = "",
    repeats: Annotated[int, typer.Option(help="Number of solves; the shortest time counts.")] = 3,
    limit: Annotated[
        float,
        typer.Option(help="Time limit in seconds for each solver on each case, and for the releases of each case."),
    ] = 120.0,
    releases: Annotated[bool, typer.Option(help="Also time complete releases, relative to one O(d) by Ipopt.")] = True,
    seeds: Annotated[int, typer.Option(help="Releases of each case at each alpha.")] = 20,
    growth: Annotated[
        bool,
        typer.Option(
            "--growth", help="Fit how time grows with size; without --cases, on 14 to 13 659 buses (takes hours)."
        ),
    ] = False,
    command: Annotated[
        bool, typer.Option(help="Also time the whole command, from its start to the published folder.")
    ] = True,
    cold: Annotated[
        bool, typer.Option("--cold", help="Time the first case's command without compiled kernels too (minutes).")
    ] = False,
    gpu: Annotated[
        bool, typer.Option("--gpu", help="Instead: batches of O(d) on a GPU, beside the structured solver.")
    ] = False,
    batch: Annotated[
        BatchEngine | None,
        typer.Option("--batch", help="Instead: batches by native, gpu or auto; --gpu is --batch gpu."),
    ] = None,
    scenarios: Annotated[int, typer.Option(min=1, help="Batches: scenarios, each load shaken by 10 %.")] = 1000,
    out: Annotated[
        Path | None, typer.Option(help="Folder for results.json, results.md and the plot; of batches batches.json.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Time gridveil's solvers and others on the same public files, and check every solution.

    Example: gridveil bench --cases case118_ieee,case300_ieee --solvers structured,ipopt --out bench-out
    """
    if gpu and batch not in (None, BatchEngine.GPU):
        raise InputError("--gpu is --batch gpu; leave one of them out")
    engine = BatchEngine.GPU if gpu else batch
    _refuse_without_effect(
        context, OF_SOLVERS if engine else OF_BATCHES, "without --batch or --gpu" if engine else "with --batch or --gpu"
    )
    if engine is not None:
        _bench_batches(split_list(cases), engine, scenarios, out, as_json)
        return
    from gridveil.benchmark.growth import GROWTH_CASES
    from gridveil.benchmark.registry import installed
    from gridveil.benchmark.run import BenchSettings, default_cases, run_bench

    settings = BenchSettings(
        cases=list(split_list(cases)) or (GROWTH_CASES if growth else default_cases()),
        solvers=list(split_list(solvers)) or installed(),
        repeats=repeats,
        limit=limit,
        releases=releases,
        seeds=seeds,
        growth=growth,
        command=command,
        cold=cold,
    )
    if out is not None:
        require("matplotlib")
        make_folder(out)
    if settings.compiled_code:
        announce_compilation(Solver.STRUCTURED)
    found = run_bench(settings, note)
    if out is not None:
        from gridveil.report.bench_plot import write_bench_plot

        for path in [*found.write(out), *write_bench_plot(found, out)]:
            note(f"wrote {path}")
    if as_json:
        show(found.as_dict(), as_json, "bench")
        return
    for table in found.brief_tables():
        show_rows(table.headings, table.rows, table.title)


BESIDE = 20  # scenarios that the structured solver is asked for, beside a batch
OF_SOLVERS = ("solvers", "repeats", "limit", "releases", "seeds", "growth", "command", "cold")
OF_BATCHES = ("scenarios",)


def _refuse_without_effect(context: typer.Context, names: Sequence[str], where: str) -> None:
    """Refuse options that were given and would change nothing."""
    sources = ((name, context.get_parameter_source(name)) for name in names)
    given = [f"--{name}" for name, source in sources if source is not None and source.name == "COMMANDLINE"]
    if given:
        raise InputError(f"{', '.join(given)}: only {where}")


def _bench_batches(cases: Sequence[str], engine: BatchEngine, scenarios: int, out: Path | None, as_json: bool) -> None:
    from gridveil.benchmark.batches import HEADINGS, LEGEND, bench_batches

    announce_compilation(Solver.STRUCTURED)
    rows = [bench_batches(case, engine, scenarios, min(BESIDE, scenarios)) for case in cases or ("case118_ieee",)]
    report = {"batches": [row.as_dict() for row in rows]}
    if out is not None:
        make_folder(out)
        (out / "batches.json").write_text(json.dumps(report, allow_nan=False) + "\n", encoding="utf-8")
        note(f"wrote {out / 'batches.json'}")
    if as_json:
        show(report, as_json, "batches")
        return
    show_rows(HEADINGS, [row.cells() for row in rows], f"batches by {rows[0].engine}")
    for line in (*(row.failed for row in rows if row.failed), LEGEND):
        note(line)
