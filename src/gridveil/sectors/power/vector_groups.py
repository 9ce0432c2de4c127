"""Vector groups of transformers: turns of 60° and more, which the assumed angle limits would not let pass.

The connection of a Dyn5 transformer turns all angles behind it by 150°. That changes no power: with the angles behind it
measured from another zero, the same network has no turn. It is left as it is where two paths turn by different amounts, where
two reference buses would get different zeros, and where the file states an angle limit.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace

import numpy as np

from gridveil.core.graph import components
from gridveil.core.text import ranges
from gridveil.sectors.power.tables import Bools, BranchTable, Floats, Ints, PowerTables

SMALLEST = 60.0  # degrees: what is assumed where a file states no angle limit
EXACT = 1e-9  # degrees


def without_vector_groups(tables: PowerTables, unlimited: Bools) -> PowerTables:
    """Measure angles behind turning transformers from a zero of their own; ``unlimited`` are branches without angle limit."""
    branch, bus = tables.branch, tables.bus
    turning = branch.in_service & unlimited & (np.abs(branch.shift) >= SMALLEST)
    known = np.isin(branch.from_id, bus.id).all() and np.isin(branch.to_id, bus.id).all()
    if not (turning.any() and known):
        return tables
    zero = _zeros(bus.id, branch, turning)
    if zero is None or len(np.unique(zero[bus.reference & ~bus.isolated])) > 1:
        return tables
    rows = ranges((np.flatnonzero(turning) + 1).tolist())
    note = f"turns by vector groups (branches {rows}): angles behind them are measured from another zero, which changes no power"
    return replace(
        tables, branch=replace(branch, shift=np.where(turning, 0.0, branch.shift)), notes=(*tables.notes, note)
    )


def _zeros(bus_id: Ints, branch: BranchTable, turning: Bools) -> Floats | None:
    """Zero of each bus's angle in degrees, 0 where an island begins; None where two paths disagree."""
    order = np.argsort(bus_id)
    from_bus, to_bus = (order[np.searchsorted(bus_id[order], ids)] for ids in (branch.from_id, branch.to_id))
    plain = branch.in_service & ~turning
    part = components(len(bus_id), from_bus[plain], to_bus[plain])
    steps: dict[int, list[tuple[int, float]]] = defaultdict(list)
    turns = list(
        zip(part[from_bus[turning]].tolist(), part[to_bus[turning]].tolist(), branch.shift[turning], strict=True)
    )
    for one, other, turn in turns:
        steps[one].append((other, -turn))
        steps[other].append((one, turn))
    zero = np.full(part.max() + 1, np.nan)
    for start in range(len(zero)):
        reached = [start] if np.isnan(zero[start]) else []
        zero[reached] = 0.0
        while reached:
            here = reached.pop()
            for far, step in steps[here]:
                if np.isnan(zero[far]):
                    zero[far] = zero[here] + step
                    reached.append(far)
    agree = all(abs((zero[one] - zero[other] - turn + 180) % 360 - 180) < EXACT for one, other, turn in turns)
    return np.asarray(zero[part]) if agree else None
