"""The check of a written network: read back as its reader would, and solved as readers would solve it."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gridveil.bilevel.repair import ReleasedData, refusal
from gridveil.core.band import CostTarget
from gridveil.core.errors import NoReleaseError
from gridveil.privacy.curator import published_values
from gridveil.sectors.model import Model
from gridveil.sectors.registry import sector_of
from gridveil.service.keeping import COST_ALONE, Keeping
from gridveil.service.kept import refuse_unkept
from gridveil.service.losses import losses_at
from gridveil.service.prepare import Prepared, PublicCase, prepare
from gridveil.solvers.backend import Effort, Start
from gridveil.solvers.checks import CheckedCost, same_cost

SAME_NUMBER = 1e-11  # relative and per unit: files state twelve digits


def verify_written(
    prepared: Prepared,
    released: ReleasedData,
    target: CostTarget,
    path: Path,
    *,
    solver: str,
    keeping: Keeping = COST_ALONE,
) -> ReleasedData:
    """Read the file back as its reader would, and insist that its optimum, as readers find it, lies in the band.

    A file that states the problem that was checked before writing is solved once more, from the optimum that was found;
    any other is checked from all starts. The released data are returned with the checks that hold for the file.
    """
    network = prepared.public.network
    back = sector_of(network).read_back(network, path)
    written = prepare(PublicCase.of(back), solver=solver)
    values = published_values(back)
    d = written.model.layout.to_program(values)
    if keeping.totals:
        _refuse_unkept(prepared.public, keeping, values)
    same = _states_same_problem(prepared.model, released, written, d)
    if same and released.checked is not None and _is_reproduced(released.checked, written, d):
        return released
    own = released.result.x
    checked = written.solves.released(d, own if own is not None and len(own) == written.model.program.n_x else None)
    if checked.holds_in(target):
        losses = keeping.losses
        if losses is not None and not losses.contains(losses_at(written.model, checked.answer.x, d)):
            raise NoReleaseError("the written file does not keep the losses; keep them less closely (--reuse)")
        return replace(released, checked=checked, result=replace(released.result, cost=checked.answer.cost))
    if same:
        raise NoReleaseError(refusal(checked, target))
    raise NoReleaseError(
        f"the written {prepared.public.file_format} file does not keep the optimum in the band: the format loses a part of the "
        "network; convert the case to another format first"
    )


def _refuse_unkept(public: PublicCase, keeping: Keeping, values: NDArray[Any]) -> None:
    """Add up the totals again from what the written file states, as its reader would."""
    if len(values) != len(public.field):
        raise NoReleaseError(
            f"the written {public.file_format} file lists other {public.field.participant}s, so its totals cannot be checked; "
            "convert the case to another format first"
        )
    refuse_unkept(keeping.totals, values, public.field)


def _states_same_problem(checked: Model, released: ReleasedData, written: Prepared, d: NDArray[np.float64]) -> bool:
    """Whether network and data of a written file equal those that were checked, up to the rounding of printed numbers."""
    released_d = checked.layout.to_program(released.values)
    if checked.arrays is None or written.model.arrays is None or released_d.shape != d.shape:
        return False
    before, after = asdict(checked.arrays(0.0)), asdict(written.model.arrays(0.0))
    pairs = [(released_d, d), *((before[name], after[name]) for name in before)]
    return all(a.shape == b.shape and np.allclose(a, b, rtol=SAME_NUMBER, atol=SAME_NUMBER) for a, b in pairs)


def _is_reproduced(checked: CheckedCost, written: Prepared, d: NDArray[np.float64]) -> bool:
    """Whether the cheapest optimum found before is an optimum of the written file too, at the same cost."""
    again = written.backend.dispatch(d, start=Start(checked.answer.x, d), effort=Effort.NEAR)
    return again.converged and abs(again.cost - checked.answer.cost) <= same_cost(checked.answer.cost)
