"""``study``: run many simulated releases from one file into a resumable store."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gridveil.cli.options import JsonOption, with_shared_options
from gridveil.cli.output import INTERRUPTED, note, show
from gridveil.cli.progress import progress
from gridveil.core.errors import InputError
from gridveil.study.choices import EngineChoice

if TYPE_CHECKING:
    from gridveil.study.runner import TaskEngine
    from gridveil.study.store import StoreSummary
    from gridveil.study.study_file import Study

study_app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    help="Many simulated releases from one file into a resumable store.",
)

StudyArgument = Annotated[str, typer.Argument(help="Name of a shipped study, or path to a TOML file.", metavar="STUDY")]
StoreArgument = Annotated[Path, typer.Argument(help="Store written by 'study run'.", metavar="STORE")]


def run(
    study: StudyArgument,
    store: Annotated[Path | None, typer.Option(help="Store to create or resume. [default: STUDY.sqlite]")] = None,
    data: Annotated[
        Path | None, typer.Option(help="Folder with the study's networks. [default: GRIDVEIL_DATA]")
    ] = None,
    workers: Annotated[int | None, typer.Option(min=1, help="Number of processes. [default: one per core]")] = None,
    engine: Annotated[EngineChoice, typer.Option(help="Where tasks run.")] = EngineChoice.LOCAL,
    scheduler: Annotated[
        str | None, typer.Option(help="Address of the Dask scheduler, for --engine dask, gpu or native.")
    ] = None,
    retry_failed: Annotated[bool, typer.Option("--retry-failed", help="Rerun failed tasks.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Run or resume a study: tasks that already have a row in the store are skipped.

    Example: gridveil study run small --store small.sqlite
    """
    from gridveil.study.runner import run_study
    from gridveil.study.store import summarise
    from gridveil.study.study_file import find_study, read_study

    chosen = read_study(find_study(study), data)
    path = store or Path(f"{chosen.name}.sqlite")
    try:
        with _engine(engine, workers, scheduler, chosen) as ready:
            report = run_study(chosen, path, ready, retry_failed=retry_failed, watch=progress)
    except KeyboardInterrupt:
        note(f"stopped; finished tasks are saved in {path}: run the same command again to resume")
        raise typer.Exit(INTERRUPTED) from None
    summary = summarise(path)
    last = summary.sessions[-1].seconds if report.computed else 0.0
    show(_counts(path, summary) | {"computed_now": report.computed, "seconds_now": last}, as_json, chosen.name)


def list_studies(as_json: JsonOption = False) -> None:
    """List the shipped studies.

    Example: gridveil study list
    """
    from gridveil.study.study_file import describe_shipped

    found = describe_shipped()
    report = {"studies": found} if as_json else {str(study["name"]): study["about"] for study in found}
    show(report, as_json, "studies")


def status(store: StoreArgument, as_json: JsonOption = False) -> None:
    """Summarise a store, even while a study is running.

    Example: gridveil study status small.sqlite
    """
    from dataclasses import asdict

    from gridveil.study.store import summarise

    summary = summarise(store)
    report = _counts(store, summary)
    if as_json:
        sessions: list[object] = [asdict(session) for session in summary.sessions]
        report |= {"settings": summary.settings, "sessions": sessions}
    else:
        cells = [f"alpha {alpha:g}, beta {100 * beta:g} %" for alpha, beta in summary.settings["cells"]]
        report |= {
            "networks": ", ".join(summary.settings["networks"]),
            "cells": cells,
            "methods": ", ".join(summary.settings["methods"]),
            "seeds": len(summary.settings["seeds"]),
            "sessions": [
                f"{session.start}: {session.tasks} tasks in {session.seconds:.1f} s, {session.workers} workers "
                f"({session.engine}, {session.cores} cores)"
                for session in summary.sessions
            ],
        }
    show(report, as_json, str(store))


def export(
    store: StoreArgument,
    parquet: Annotated[Path, typer.Option(help="Parquet file to write.")],
    as_json: JsonOption = False,
) -> None:
    """Export all rows of a store to a Parquet file, for pandas or DuckDB.

    Example: gridveil study export small.sqlite --parquet small.parquet
    """
    from gridveil.study.store import NOTE, export_parquet

    rows = export_parquet(store, parquet)
    show({"file": str(parquet), "rows": rows, "note": NOTE}, as_json, str(store))


study_app.command("run")(with_shared_options(run))
study_app.command("list")(with_shared_options(list_studies))
study_app.command("status")(with_shared_options(status))
study_app.command("export")(with_shared_options(export))


@contextmanager
def _engine(choice: EngineChoice, workers: int | None, scheduler: str | None, study: Study) -> Iterator[TaskEngine]:
    """Create the engine selected by the options."""
    from gridveil.core.choices import BatchEngine
    from gridveil.solvers.batch.backends import refuse_other_solver

    batches = BatchEngine(choice.value) if choice in (EngineChoice.GPU, EngineChoice.NATIVE) else BatchEngine.STRUCTURED
    refuse_other_solver(batches, study.solver)
    if scheduler is not None:
        with _cluster_engine(choice, workers, scheduler) as ready:
            yield ready
        return
    if choice is EngineChoice.DASK:
        raise InputError("--engine dask needs --scheduler ADDRESS")
    from gridveil.core.threads import all_cores
    from gridveil.study.engine_local import LocalEngine

    _compile_once(study)
    processes = workers or study.limits.workers or all_cores()
    if choice is EngineChoice.LOCAL:
        yield LocalEngine(workers=processes)
        return
    from gridveil.study.engine_batch import BatchTaskEngine

    yield BatchTaskEngine(choice=batches, workers=processes)


@contextmanager
def _cluster_engine(choice: EngineChoice, workers: int | None, scheduler: str) -> Iterator[TaskEngine]:
    """Connect to a cluster, whose workers run single tasks or batches."""
    if choice is EngineChoice.LOCAL:
        raise InputError("--scheduler requires --engine dask, gpu or native; add one of these or omit --scheduler")
    if workers is not None:
        raise InputError("a cluster has its own workers: omit --workers, or --scheduler")
    from gridveil.core.choices import BatchEngine
    from gridveil.study.engine_dask import dask_engine

    batches = None if choice is EngineChoice.DASK else BatchEngine(choice.value)
    with dask_engine(scheduler, note, batches) as ready:
        yield ready


def _compile_once(study: Study) -> None:
    """Compile the structured solver before the workers start, so that they need not each do so."""
    from gridveil.core.methods import Solver
    from gridveil.programs.compilation import compiled_before
    from gridveil.solvers.structured.warm_up import warm_up

    if study.solver is Solver.STRUCTURED and not compiled_before():
        note("compiling the structured solver, once, for one to two minutes")
        warm_up()


def _counts(path: Path, summary: StoreSummary) -> dict[str, object]:
    from gridveil.study.store import NOTE

    return {
        "study": summary.settings["name"],
        "store": str(path),
        "note": NOTE,
        "tasks": summary.tasks,
        "done": summary.done,
        "verified": summary.verified,
        "failed": summary.done - summary.verified,
        "reasons": summary.reasons,
        "seconds": summary.seconds,
    }
