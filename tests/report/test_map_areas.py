"""Maps of large networks: areas that are connected, discs that do not overlap, and nodes inside their own."""

from __future__ import annotations

import numpy as np
import pytest

from gridveil.report.drawn_graph import DrawnGraph
from gridveil.report.map_areas import GAP, LARGEST, find_areas


def grid(rows: int, columns: int) -> tuple[int, np.ndarray, np.ndarray]:
    """A mesh of lines, and beside it an island of three nodes and one lonely node."""
    at = np.arange(rows * columns).reshape(rows, columns)
    n = rows * columns
    start = np.concatenate([at[:, :-1].ravel(), at[:-1].ravel(), [n, n + 1]])
    end = np.concatenate([at[:, 1:].ravel(), at[1:].ravel(), [n + 1, n + 2]])
    return n + 4, start, end


@pytest.fixture(scope="module")
def mesh():
    n, start, end = grid(30, 40)
    return n, start, end, find_areas(n, start, end)


def test_every_area_is_connected_and_none_is_much_larger_than_the_rest(mesh):
    n, start, end, areas = mesh
    graph = DrawnGraph.of(n, start, end)
    size = np.bincount(areas.member)
    assert len(areas.member) == n and size.min() >= 1 and 20 <= len(areas) <= 60
    for area in range(len(areas)):
        nodes = np.flatnonzero(areas.member == area)
        assert len(graph.among(nodes).islands()) == 1
    assert size.max() <= 1.5 * LARGEST * size.mean()


def test_discs_stand_apart_and_hold_their_nodes(mesh):
    _, _, _, areas = mesh
    gap = np.hypot(*(areas.centre[:, None] - areas.centre[None]).transpose(2, 0, 1))
    np.fill_diagonal(gap, np.inf)
    assert np.all(gap >= areas.radius[:, None] + areas.radius[None] + 0.9 * GAP)
    away = np.hypot(*(areas.position - areas.centre[areas.member]).T)
    assert np.all(away <= areas.radius[areas.member])


def test_neighbouring_areas_are_drawn_near(mesh):
    """Of a mesh the drawing keeps the order: areas with a common line are nearer than others by far."""
    _, start, end, areas = mesh
    first, second = areas.member[start], areas.member[end]
    tied = first != second
    length = np.hypot(*(areas.centre[first[tied]] - areas.centre[second[tied]]).T)
    everywhere = np.hypot(*(areas.centre[:, None] - areas.centre[None]).transpose(2, 0, 1))
    assert np.median(length) < 0.4 * np.median(everywhere[everywhere > 0])


def test_the_same_network_gives_the_same_areas(mesh):
    n, start, end, areas = mesh
    again = find_areas(n, start, end)
    assert np.array_equal(again.member, areas.member) and np.array_equal(again.position, areas.position)


def test_given_coordinates_are_kept():
    n, start, end = grid(30, 40)
    given = np.random.default_rng(1).normal(size=(n, 2))
    areas = find_areas(n, start, end, given)
    assert areas.position is given
    assert areas.centre[3] == pytest.approx(given[areas.member == 3].mean(axis=0))
