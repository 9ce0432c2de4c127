"""``verify``: check a released folder as an outsider, with nothing but the folder."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gridveil.cli.options import JsonOption, SolverOption
from gridveil.cli.output import announce_compilation, print_line, show, step
from gridveil.cli.progress import progress

FAILED = 1
WORDS = {True: "passed", False: "FAILED", None: "skipped"}


def verify(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="Public folder of a release, or its --out.")],
    solver: SolverOption = "structured",
    as_json: JsonOption = False,
) -> None:
    """Check a released folder as an outsider: files match the card, the card holds, the cost lies in its band.

    It needs nothing but the folder. The network is solved anew, by Ipopt too where that is quick. Hashes show what was
    changed by accident or in part; they are no signature.

    Example: gridveil verify released
    """
    from dataclasses import asdict

    from gridveil.report.card_page import card_page
    from gridveil.service.verify import verify_folder

    step(f"reading {folder}")
    announce_compilation(solver)
    with progress(f"verifying {folder}"):
        found = verify_folder(folder, solver=solver, card_page=card_page)
    if as_json:
        show({"passed": found.passed, **asdict(found)}, True, "")
    else:
        print_line(f"{'VERIFIED' if found.passed else 'NOT VERIFIED'}: {found.folder}")
        for one in found.findings:
            print_line(f"  {WORDS[one.passed]:7} {one.name}: {one.detail}")
    if not found.passed:
        raise typer.Exit(FAILED)
