"""``app``: release a network in a browser on this computer."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path
from typing import Annotated

import typer

from gridveil.cli.completion import complete_case
from gridveil.core.choices import BatchEngine
from gridveil.core.errors import InputError

CONTAINER = "GRIDVEIL_CONTAINER"  # set to 1 by the Containerfile, and by nobody else


def app(
    case: Annotated[
        str | None,
        typer.Argument(
            help="Path of a case file, or a built-in name such as veil9.", metavar="CASE", autocompletion=complete_case
        ),
    ] = None,
    port: Annotated[int, typer.Option(help="Port of this computer. [default: a free one]", show_default=False)] = 0,
    data: Annotated[Path, typer.Option(help="Folder for case files and releases; it will hold true demands.")] = Path(
        "gridveil-data"
    ),
    batch: Annotated[
        BatchEngine | None,
        typer.Option(
            help="Engine for 500 more simulated releases, made together after the first ones; structured leaves them out. "
            "[default: gpu where there is one, else structured]"
        ),
    ] = None,
) -> None:
    """Release a network in a browser: case, secret, promise, simulation, release, publishing.

    The app listens on this computer alone and loads nothing from elsewhere. Open the link that it prints; stop it with
    Ctrl-C. A release that was stopped is offered to be finished at the next start.

    Example: gridveil app veil9 --data gridveil-data
    """
    if importlib.util.find_spec("shiny") is None:
        raise InputError("the app needs the extra app; install gridveil[app]")
    from gridveil.app.data_folder import DataFolder
    from gridveil.app.run import serve
    from gridveil.app.work import engine_of_simulations
    from gridveil.sectors.registry import load_case

    engine = engine_of_simulations(batch)
    if case is not None:
        load_case(case)  # what cannot be read is told here, rather than in the browser
    serve(
        DataFolder(data.resolve(), given=case),
        engine,
        port=port,
        in_container=os.environ.get(CONTAINER) == "1",
        ready=lambda url: typer.echo(f"open {url}"),
    )
