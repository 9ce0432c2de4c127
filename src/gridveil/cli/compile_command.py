"""``compile``: compile the kernels now; and which solver a command uses as long as they are not compiled."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from gridveil.cli.options import JsonOption
from gridveil.cli.output import announce_compilation, note, show
from gridveil.cli.progress import progress
from gridveil.core.methods import Solver

if TYPE_CHECKING:
    from gridveil.sectors.case import Network

SMALL = 300  # nodes up to which general solvers are quicker than a compilation


def compile_kernels(as_json: JsonOption = False) -> None:
    """Compile the structured solver and the relaxation, once, so that later commands start at full speed.

    Example: gridveil compile
    """
    from gridveil.programs.compilation import compiled_before
    from gridveil.solvers.structured.warm_up import warm_up

    before, clock = compiled_before(), time.perf_counter()
    with progress("compiling the structured solver and the relaxation"):
        warm_up()
    show({"compiled_before": before, "seconds": round(time.perf_counter() - clock, 1)}, as_json, "kernels")


def solver_now(stated: str | None, network: Network) -> Solver:
    """The solver for one release or solve: as stated, else the structured one.

    While nothing is compiled yet, a small network is solved by Ipopt, and its relaxation by Clarabel: that takes seconds
    instead of minutes.
    """
    from gridveil.programs.compilation import compiled_before, postpone_compilation
    from gridveil.sectors.registry import sector_of

    if stated is not None:
        announce_compilation(stated)
        return Solver(stated)
    sector = sector_of(network)
    if not sector.structured or compiled_before():
        return Solver.STRUCTURED
    if sector.size(network) > SMALL:
        announce_compilation(Solver.STRUCTURED)
        return Solver.STRUCTURED
    note(
        "nothing is compiled yet, so Ipopt and Clarabel solve this small network; "
        "run 'gridveil compile' once (one to two minutes) for the faster solver"
    )
    postpone_compilation()
    return Solver.IPOPT
