"""Scenarios of a shard that its batch leaves unsolved, once more by the structured solver.

This takes as long as thousands of scenarios in a batch but needs no engine and holds no lock, so that the thread which writes a
shard does it while the engine solves the next.
"""

from __future__ import annotations

from dataclasses import fields, replace

import numpy as np
from numpy.typing import NDArray

from gridveil.service.data_set_pglearn import solution_vectors
from gridveil.service.data_set_tables import Solved
from gridveil.solvers.batch.contract import BatchAnswer, Points
from gridveil.solvers.batch.leftovers import Leftovers, most_promising
from gridveil.solvers.batch.network import BatchNetwork

Ints = NDArray[np.int64]

_BY_ROW = ("cost", "status", "iterations", "factorisations", "residuals", "by_cpu")


def retried(solved: Solved, most: int) -> Solved:
    """The shard with what the structured solver makes of scenarios without a solution, unless it has had them."""
    before = solved.answer
    left = most_promising(before, most)
    if not len(left):
        return solved
    scenarios = solved.scenarios.rows(left)
    again = Leftovers(network=solved.lowered, most=most).solve(scenarios, _unsolved(solved.lowered, before, left))
    good, points = np.flatnonzero(again.converged), again.points
    assert points is not None
    answer = _merged(before, again, left)
    if before.points is not None:
        whole = {f.name: getattr(before.points, f.name).copy() for f in fields(points)}
        for name, array in whole.items():
            array[left[good]] = getattr(points, name)[good]
        return replace(solved, answer=replace(answer, points=Points(**whole)))
    if not len(good):
        return replace(solved, answer=answer)
    found = solution_vectors(solved.lowered, scenarios, points, good)
    at = np.searchsorted(np.flatnonzero(before.converged), left[good])
    vectors = {name: np.insert(array, at, found[name], axis=0) for name, array in solved.vectors.items()}
    return replace(solved, answer=answer, vectors=vectors)


def _unsolved(network: BatchNetwork, answer: BatchAnswer, left: Ints) -> BatchAnswer:
    """The answers of some scenarios, with room for their points."""
    grid, count = network.grid, len(left)
    widths = dict.fromkeys(("va", "vm", "price_p", "price_q"), grid.n_bus)
    widths |= dict.fromkeys(("pg", "qg"), len(grid.gen_bus))
    widths |= dict.fromkeys(("flow_from", "flow_to", "angle_above", "angle_below"), len(grid.branch_from))
    points = Points(**{name: np.zeros((count, width)) for name, width in widths.items()})
    return BatchAnswer(**{name: getattr(answer, name)[left] for name in _BY_ROW}, points=points)


def _merged(answer: BatchAnswer, again: BatchAnswer, left: Ints) -> BatchAnswer:
    whole = {name: getattr(answer, name).copy() for name in _BY_ROW}
    for name, array in whole.items():
        array[left] = getattr(again, name)
    return replace(answer, **whole)
