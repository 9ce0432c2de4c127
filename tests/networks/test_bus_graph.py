"""Islands and potentials of the bus graph, against scipy and against dense algebra."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from gridveil.core.graph import components
from gridveil.programs.bus_order import analyse
from gridveil.programs.potentials import fit_potentials


@pytest.mark.parametrize(("n", "edges"), [(1, 0), (7, 0), (10, 5), (400, 250), (400, 900)])
def test_components_are_those_of_scipy_numbered_by_their_first_node(n, edges):
    start, end = np.random.default_rng(n + edges).integers(0, n, (2, edges))
    part = components(n, start, end)
    _, expected = connected_components(coo_array((np.ones(edges), (start, end)), shape=(n, n)), directed=False)
    assert len(set(zip(part, expected, strict=True))) == len(set(part)) == len(set(expected))
    assert np.all(np.diff(np.unique(part, return_index=True)[1]) > 0)


def test_components_of_a_long_shuffled_chain():
    order = np.random.default_rng(3).permutation(5000)
    assert np.all(components(5000, order[:-1], order[1:]) == 0)
    assert components(5000, order[:-2], order[1:-1]).max() == 1


@pytest.mark.parametrize("seed", range(3))
def test_potentials_against_dense_normal_equations(seed):
    generator = np.random.default_rng(seed)
    n, m = 30, 55
    branch_from, branch_to = generator.integers(0, n, (2, m))
    branch_to[0], branch_from[1], branch_to[1] = branch_from[0], branch_from[2], branch_to[2]  # a loop, and a parallel
    weight, difference, pull = generator.uniform(0.1, 50, m), generator.normal(0, 1, m), generator.uniform(1e-3, 1e3, n)
    order = analyse(n, branch_from, branch_to, np.zeros(n, dtype=bool))
    start, end = order.position[branch_from], order.position[branch_to]
    found = fit_potentials(order, start, end, weight=weight, difference=difference, pull=pull)
    incidence = np.zeros((m, n))
    np.add.at(incidence, (np.arange(m), start), 1.0)
    np.add.at(incidence, (np.arange(m), end), -1.0)
    matrix = incidence.T @ (weight[:, None] * incidence) + np.diag(pull)
    assert found == pytest.approx(np.linalg.solve(matrix, incidence.T @ (weight * difference)), rel=1e-9, abs=1e-12)
