"""Order, fill, block factorisation and inertia against dense linear algebra."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numba import njit
from numba.core.errors import TypingError

from gridveil.programs.bus_order import analyse
from gridveil.solvers.structured.blocks import (
    SINGULAR,
    factorise,
    invert_symmetric,
    substitute,
    subtract_matrix_product,
)
from gridveil.solvers.structured.vector import multiply


@st.composite
def graphs(draw) -> tuple[int, np.ndarray, np.ndarray, np.ndarray]:
    n = draw(st.integers(1, 9))
    pairs = [(i, j) for i in range(n) for j in range(n) if i != j]
    edges = draw(st.lists(st.sampled_from(pairs), max_size=20)) if pairs else []
    last = np.array(draw(st.lists(st.booleans(), min_size=n, max_size=n)))
    ends = np.array(edges, dtype=np.int64).reshape(-1, 2)
    return n, ends[:, 0].copy(), ends[:, 1].copy(), last


def dense(order, diag: np.ndarray, upper: np.ndarray) -> np.ndarray:
    n = len(diag)
    matrix = np.zeros((4 * n, 4 * n))
    for j in range(n):
        matrix[4 * j : 4 * j + 4, 4 * j : 4 * j + 4] = diag[j]
    for a, (i, j) in enumerate(zip(order.pattern.row, order.pattern.col, strict=True)):
        matrix[4 * j : 4 * j + 4, 4 * i : 4 * i + 4] = upper[a]
        matrix[4 * i : 4 * i + 4, 4 * j : 4 * j + 4] = upper[a].T
    return matrix


@settings(deadline=None)
@given(graphs())
def test_pattern_holds_exactly_the_fill(graph):
    n, ends_from, ends_to, last = graph
    order = analyse(n, ends_from, ends_to, last)
    assert sorted(order.bus_at) == list(range(n))
    assert not np.any(np.diff(last[order.bus_at].astype(int)) < 0)
    linked = np.zeros((n, n), bool)
    linked[order.position[ends_from], order.position[ends_to]] = True
    linked |= linked.T
    for j in range(n):
        later = np.flatnonzero(linked[j, j + 1 :]) + j + 1
        linked[np.ix_(later, later)] = True
    expected = {(i, j) for i in range(n) for j in range(i) if linked[i, j]}
    assert set(zip(order.pattern.row.tolist(), order.pattern.col.tolist(), strict=True)) == expected
    for branch, block in enumerate(order.branch_block):
        ends = {order.position[ends_from[branch]], order.position[ends_to[branch]]}
        assert ends == {order.pattern.row[block], order.pattern.col[block]}


def test_a_path_has_no_fill():
    order = analyse(50, np.arange(49), np.arange(1, 50), np.zeros(50, bool))
    assert len(order.pattern.row) == 49


@settings(deadline=None)
@given(graphs(), st.integers(0, 2**32 - 1))
def test_factorisation_solves_and_counts_negative_eigenvalues(graph, seed):
    n, ends_from, ends_to, last = graph
    order = analyse(n, ends_from, ends_to, last)
    rng = np.random.default_rng(seed)
    diag = rng.standard_normal((n, 4, 4))
    # Pivots of saddle-point form, as in the Newton system: two positive, two negative eigenvalues each.
    diag = diag + diag.transpose(0, 2, 1) + 6 * np.diag([1.0, 1.0, -1.0, -1.0])
    upper = rng.standard_normal((len(order.pattern.row), 4, 4))
    matrix = dense(order, diag, upper)
    x, rhs = rng.standard_normal((n, 4)), np.zeros((n, 4))
    subtract_matrix_product(order.pattern, diag, upper, x, rhs)
    assert -rhs.ravel() == pytest.approx(matrix @ x.ravel(), rel=1e-12, abs=1e-10)
    pivots, factor = diag.copy(), np.zeros_like(upper)
    negative = factorise(order.pattern, pivots, upper.copy(), factor)
    solution = -rhs
    substitute(order.pattern, pivots, factor, solution)
    eigenvalues = np.linalg.eigvalsh(matrix)
    if np.min(np.abs(eigenvalues)) > 1e-3:
        assert negative == np.sum(eigenvalues < 0)
        assert matrix @ solution.ravel() == pytest.approx(matrix @ x.ravel(), abs=1e-6)


def test_only_arrays_in_c_order_are_taken():
    """The products address rows directly: another order would read other entries."""

    @njit
    def product(blocks):
        multiply(blocks, 0, blocks, 0, blocks, 0)

    with pytest.raises(TypingError):
        product(np.asfortranarray(np.zeros((2, 4, 4))))
    with pytest.raises(TypingError):
        product(np.zeros((2, 4, 4), np.float32))


@settings(deadline=None)
@given(st.integers(1, 4), st.integers(0, 2**32 - 1), st.booleans())
def test_small_inverse_and_inertia(size, seed, hollow):
    """With a zero diagonal only 2×2 pivots can start."""
    rng = np.random.default_rng(seed)
    matrix = rng.standard_normal((size, size))
    matrix = matrix + matrix.T
    if hollow:
        np.fill_diagonal(matrix, 0.0)
    eigenvalues = np.linalg.eigvalsh(matrix)
    work = np.zeros((4, 4))
    work[:size, :size] = matrix
    negative = invert_symmetric(work, size)
    if np.min(np.abs(eigenvalues)) > 1e-6:
        assert negative == np.sum(eigenvalues < 0)
        assert work[:size, :size] @ matrix == pytest.approx(np.eye(size), abs=1e-7)


def test_a_zero_pivot_is_reported():
    assert invert_symmetric(np.zeros((4, 4)), 4) == SINGULAR
