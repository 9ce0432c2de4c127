"""Parts of the solver on the bus graph against dense linear algebra."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gridveil.programs.bus_order import analyse
from gridveil.sectors.power.soc_graph.blocks import factorise, invert_symmetric, substitute
from gridveil.sectors.power.soc_graph.cones import apply_power, complementarity, longest_step, scale_cones
from gridveil.sectors.power.soc_graph.elimination import assemble, eliminate_two
from gridveil.sectors.power.soc_graph.interior_point import _room, _zeros
from gridveil.sectors.power.soc_graph.layout import Scaling
from gridveil.sectors.power.soc_graph.lowering import lower_grid
from gridveil.sectors.power.soc_graph.maps import add_transposed_balances, add_transposed_cone_rows, balances, cone_rows
from gridveil.sectors.power.soc_graph.newton import solve
from gridveil.sectors.registry import load_case

CONE = np.array([0, 1, 5, 8, 9])  # a half-line, a cone of four rows, one of three, a half-line
EXAMPLES = settings(max_examples=30, deadline=None)


@pytest.fixture(scope="module")
def lowered():
    return lower_grid(load_case("veil9").network.grid, moves=True, limit_losses=True)


def inside(rng, cone=CONE):
    v = rng.normal(size=cone[-1])
    for head, end in pairwise(cone):
        v[head] = np.linalg.norm(v[head + 1 : end]) + rng.uniform(0.01, 2)
    return v


def scaled(cone, s, z):
    scaling = Scaling(np.ones((4, len(cone) - 1, 2)), np.zeros(len(s)), np.zeros(len(s)))
    scale_cones(cone, s, z, scaling)
    return scaling


def applied(cone, scaling, power, v):
    out = np.zeros_like(v)
    apply_power(cone, scaling.powers[power], scaling.unit, v, out)
    return out


def columns(function, width, height):
    """The matrix of a linear map from what it does to unit vectors."""
    return np.stack([function(unit) for unit in np.eye(width)], axis=1).reshape(height, width)


@EXAMPLES
@given(seed=st.integers(0, 10_000), hollow=st.booleans())
def test_inverses_of_three_by_three(seed, hollow):
    rng = np.random.default_rng(seed)
    matrix = rng.normal(size=(3, 3)) * 10.0 ** rng.integers(-3, 4, size=3)
    matrix = matrix + matrix.T
    if hollow:
        np.fill_diagonal(matrix, [0.0, 0.0, matrix[2, 2]])
    inverse = matrix.copy()
    assert invert_symmetric(inverse)
    assert np.array_equal(inverse, inverse.T)
    assert inverse @ matrix == pytest.approx(np.eye(3), abs=1e-14 * np.linalg.cond(matrix) * 10)


def test_a_matrix_without_an_inverse_is_refused():
    assert not invert_symmetric(np.zeros((3, 3)))
    assert not invert_symmetric(np.full((3, 3), np.nan))


def test_factors_solve_what_a_dense_solver_does():
    rng = np.random.default_rng(1)
    ends = np.array([(0, 1), (1, 2), (2, 3), (3, 0), (3, 4), (5, 1)], dtype=np.int64)
    order = analyse(6, ends[:, 0].copy(), ends[:, 1].copy(), np.zeros(6, dtype=bool))
    pattern = order.pattern
    diagonal = rng.normal(size=(6, 3, 3)) + np.diag([9.0, -9.0, -9.0])
    diagonal = diagonal + diagonal.transpose(0, 2, 1)
    upper, factor = np.zeros((len(pattern.row), 3, 3)), np.zeros((len(pattern.row), 3, 3))
    upper[order.branch_block] = rng.normal(size=(len(ends), 3, 3))
    dense = np.zeros((18, 18))
    for b in range(6):
        dense[3 * b : 3 * b + 3, 3 * b : 3 * b + 3] = diagonal[b]
    for row, col, block in zip(pattern.row, pattern.col, upper, strict=True):
        dense[3 * col : 3 * col + 3, 3 * row : 3 * row + 3] = block
        dense[3 * row : 3 * row + 3, 3 * col : 3 * col + 3] = block.T
    right = rng.normal(size=(6, 3))
    found = right.copy()
    assert factorise(pattern, diagonal, upper, factor)
    substitute(pattern, diagonal, factor, found)
    assert found.ravel() == pytest.approx(np.linalg.solve(dense, right.ravel()), rel=1e-10)


@EXAMPLES
@given(seed=st.integers(0, 10_000))
def test_the_scaling_maps_both_points_to_one(seed):
    rng = np.random.default_rng(seed)
    s, z, v = inside(rng), inside(rng), rng.normal(size=9)
    scaling = scaled(CONE, s, z)
    assert applied(CONE, scaling, 0, z) == pytest.approx(applied(CONE, scaling, 1, s), rel=1e-9)
    assert scaling.point == pytest.approx(applied(CONE, scaling, 0, z))
    assert applied(CONE, scaling, 2, v) == pytest.approx(applied(CONE, scaling, 0, applied(CONE, scaling, 0, v)))
    assert applied(CONE, scaling, 3, applied(CONE, scaling, 2, v)) == pytest.approx(v, rel=1e-6, abs=1e-9)


def product(a, b):
    """The Jordan product cone by cone."""
    parts = [(slice(h, e), h) for h, e in pairwise(CONE)]
    return np.concatenate([np.append(a[c] @ b[c], a[h] * b[c][1:] + b[h] * a[c][1:]) for c, h in parts])


@EXAMPLES
@given(seed=st.integers(0, 10_000))
def test_the_wanted_change_of_products(seed):
    rng = np.random.default_rng(seed)
    point, ds, dz = inside(rng), rng.normal(size=9), rng.normal(size=9)
    out, unit = np.zeros(9), np.isin(np.arange(9), CONE).astype(float)
    complementarity(CONE, point, ds, dz, 0.3, 1.0, out)
    assert product(point, out) == pytest.approx(product(point, point) + product(ds, dz) - 0.3 * unit, abs=1e-8)


@EXAMPLES
@given(seed=st.integers(0, 10_000))
def test_the_longest_step_ends_on_the_boundary(seed):
    rng = np.random.default_rng(seed)
    v, dv = inside(rng), 3 * rng.normal(size=9)
    step = longest_step(CONE, v, dv, 1.0)

    def room(at):
        return min(at[h] - np.linalg.norm(at[h + 1 : e]) for h, e in pairwise(CONE))

    assert room(v + 0.999 * step * dv) > 0
    assert step == 1.0 or abs(room(v + step * dv)) <= 1e-9


@EXAMPLES
@given(seed=st.integers(0, 10_000))
def test_reflections_keep_all_products_of_columns(seed):
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(9, 4)) * 10.0 ** rng.integers(-4, 5, size=(9, 1))
    gram = rows.T @ rows
    first = eliminate_two(rows, 9)
    triangle = rows.copy()
    triangle[1:, first], triangle[2:, 1 - first] = 0.0, 0.0
    assert triangle.T @ triangle == pytest.approx(gram, rel=1e-9, abs=1e-12 * np.abs(gram).max())


def dense_maps(graph):
    """(A, G) and (Aᵀ, Gᵀ), each from its own product."""
    n, rows, n_bus = len(graph.linear), len(graph.offset), len(graph.shunt)

    def by_balances(x):
        out = np.zeros((n_bus, 2))
        balances(graph, x, out)
        return out.ravel()

    def by_rows(x):
        out = np.zeros(rows)
        cone_rows(graph, x, out)
        return out

    def back(function, v):
        out = np.zeros(n)
        function(graph, v, out)
        return out

    forward = columns(by_balances, n, 2 * n_bus), columns(by_rows, n, rows)
    return forward, (
        columns(lambda y: back(add_transposed_balances, y.reshape(n_bus, 2)), 2 * n_bus, n),
        columns(lambda z: back(add_transposed_cone_rows, z), rows, n),
    )


def test_transposes_are_transposes(lowered):
    (a, g), (a_t, g_t) = dense_maps(lowered.graph)
    assert np.array_equal(a.T, a_t) and np.array_equal(g.T, g_t)


def test_a_step_solves_the_full_system(lowered):
    """Against a dense solve, at a point where the cones are neither round nor flat."""
    graph, rng = lowered.graph, np.random.default_rng(5)
    (a, g), _ = dense_maps(graph)
    n, rows, n_bus = len(graph.linear), len(graph.offset), len(graph.shunt)
    scaling = scaled(graph.cone, inside(rng, graph.cone), inside(rng, graph.cone))
    square = columns(lambda v: applied(graph.cone, scaling, 2, v), rows, rows)
    full = np.zeros((n + 2 * n_bus + rows, n + 2 * n_bus + rows))
    full[:n, :n] = np.diag(graph.quadratic)
    full[n : n + 2 * n_bus, :n], full[n + 2 * n_bus :, :n] = a, g
    full += np.triu(full.T, 1)
    full[n + 2 * n_bus :, n + 2 * n_bus :] = -square
    room, right = _room(graph, lowered.order.pattern), _zeros(graph)
    right.x[:], right.y[:], right.z[:] = rng.normal(size=n), rng.normal(size=(n_bus, 2)), rng.normal(size=rows)
    assert assemble(graph, lowered.order.pattern, scaling, room.system)
    error = solve(graph, lowered.order.pattern, scaling, room.system, right, room.step, room.left, True)
    wanted = np.linalg.solve(full, np.concatenate([right.x, right.y.ravel(), right.z]))
    found = np.concatenate([room.step.x, room.step.y.ravel(), room.step.z])
    assert error <= 1e-10
    assert found == pytest.approx(wanted, rel=1e-6, abs=1e-7 * np.abs(wanted).max())
