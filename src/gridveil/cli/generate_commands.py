"""``generate``: a data set for learning from a released network."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gridveil.cli.case_commands import NOT_SOLVED
from gridveil.cli.options import JsonOption
from gridveil.cli.output import note, show, step, warn
from gridveil.cli.progress import progress
from gridveil.core.choices import BatchEngine, Outages, TableLayout
from gridveil.core.extras import require

if TYPE_CHECKING:
    from gridveil.core.cluster import Cluster


def generate(
    source: Annotated[str, typer.Argument(metavar="RELEASED", help="Folder of a release (its --out).")],
    out: Annotated[Path, typer.Option("--out", help="Folder for the data set; a stopped run goes on where it was.")],
    scenarios: Annotated[int, typer.Option(help="Number of scenarios.")] = 1000,
    loads: Annotated[
        str, typer.Option(help="How loads vary: lognormal:5%, or profile:FILE with factors, one row per time step.")
    ] = "lognormal:5%",
    outages: Annotated[
        Outages, typer.Option(help="n-1 switches one branch or generator off in nearly every scenario.")
    ] = Outages.NONE,
    layout: Annotated[
        TableLayout, typer.Option(help="Columns: pglearn, one row per scenario; gridfm, one per element.")
    ] = TableLayout.PGLEARN,
    seed: Annotated[
        int, typer.Option(help="Seed of loads and outages; a row depends on it and on its number alone.")
    ] = 0,
    engine: Annotated[
        BatchEngine, typer.Option(help="What solves: gpu, native (needs g++), structured; auto takes the fastest.")
    ] = BatchEngine.AUTO,
    retries: Annotated[
        int, typer.Option(help="Scenarios per file that the structured solver tries once more if they fail.")
    ] = 20,
    scheduler: Annotated[
        str | None,
        typer.Option(help="Address of a Dask scheduler, whose workers then solve: one worker per GPU, or per machine."),
    ] = None,
    not_private: Annotated[
        bool, typer.Option("--not-private", help="Accept a case with true demands; the data set is stamped as such.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Make a data set for learning: optimal power flows of many scenarios of a released network, as Parquet files.

    It is made from the files of the release alone, so it spends no ε. Every solution is checked; scenarios without one are
    listed with the reason.

    Example: gridveil generate released --scenarios 10000 --loads lognormal:5% --outages n-1 --out data
    """
    require("pyarrow", extra="generate")
    from gridveil.service.data_set import make_data_set
    from gridveil.service.data_set_source import DataSetRequest

    request = DataSetRequest(
        source=source,
        scenarios=scenarios,
        loads=loads,
        outages=outages,
        layout=layout,
        seed=seed,
        retries=retries,
        not_private=not_private,
    )
    step(f"reading {source}")
    with _cluster(scheduler) as cluster, progress(f"solving {scenarios} scenarios") as advance:
        made = make_data_set(request, out, engine, cluster=cluster, advance=advance)
    made.pop("buses")
    show(made, as_json, str(out))
    if not made["solved"]:
        warn(f"no scenario was solved; {made['folder']}/failures says how each ended")
        raise typer.Exit(NOT_SOLVED)
    if made["failed"]:
        note(f"{made['failed']} of {scenarios} scenarios have no solution; see {made['folder']}/failures")


def _cluster(scheduler: str | None) -> AbstractContextManager[Cluster | None]:
    """The workers behind a scheduler; none if it is not given."""
    if scheduler is None:
        return nullcontext()
    from gridveil.core.cluster import connected

    return connected(scheduler, note)
