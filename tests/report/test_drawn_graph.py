"""The graph of a drawing and its distances, against scipy's."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components, dijkstra
from scipy.spatial import cKDTree

from gridveil.report.drawn_graph import DrawnGraph
from gridveil.report.layout import ALL_PAIRS, _all_distances, _edge_lengths, _nearer_than, graph_layout

N = 60


@pytest.fixture
def edges():
    """Random edges with loops and doubles, and nodes that have none."""
    rng = np.random.default_rng(5)
    return rng.integers(0, N - 4, 80), rng.integers(0, N - 4, 80)


@pytest.fixture
def matrix(edges):
    found = np.zeros((N, N))
    found[edges] = found[edges[::-1]] = 1
    np.fill_diagonal(found, 0)
    return found


def dense(graph):
    found = csr_array((np.ones(len(graph.other)), graph.other, graph.first), shape=(len(graph), len(graph)))
    return found.toarray()


def test_neighbours_islands_and_parts_are_those_of_the_matrix(edges, matrix):
    graph = DrawnGraph.of(N, *edges)
    assert np.array_equal(dense(graph), matrix)
    count, label = connected_components(matrix)
    islands = graph.islands()
    assert len(islands) == count and sorted(map(len, islands), reverse=True) == [len(nodes) for nodes in islands]
    assert all(len(set(label[nodes])) == 1 for nodes in islands)
    part, nodes = graph.among(islands[0]), islands[0]
    assert np.array_equal(dense(part), matrix[nodes][:, nodes])


def test_walks_take_the_fewest_edges(edges, matrix):
    graph, sources = DrawnGraph.of(N, *edges), np.array([7, 3, 30])
    alone = dijkstra(matrix, indices=sources, unweighted=True)
    distance, nearest, before = graph.walk(sources)
    assert np.array_equal(distance, alone.min(axis=0))
    reached = np.isfinite(distance)
    assert np.array_equal(alone[nearest[reached], np.flatnonzero(reached)], distance[reached])
    on_the_way = np.flatnonzero(reached & (distance > 0))
    assert np.array_equal(distance[before[on_the_way]] + 1, distance[on_the_way])
    assert np.array_equal(graph.hops(3), dijkstra(matrix, indices=3, unweighted=True))


def test_edges_are_longer_where_their_ends_share_few_neighbours_and_ways_are_shortest(edges, matrix):
    graph = DrawnGraph.of(N, *edges)
    length = _edge_lengths(graph)
    apart = [
        np.sum((matrix[i] != 0) ^ (matrix[j] != 0)) for i, j in zip(graph.row, graph.other, strict=True)
    ]  # neighbours of one end alone
    assert length == pytest.approx(np.sqrt(np.maximum(apart, 1) / 2))
    weights = csr_array((length, graph.other, graph.first), shape=(N, N))
    assert _all_distances(graph, length) == pytest.approx(dijkstra(weights))


def test_near_pairs_are_those_of_a_tree():
    position = np.random.default_rng(2).normal(size=(200, 2))
    position[11] = position[5]
    i, j = _nearer_than(position, 0.3)
    assert {frozenset(pair) for pair in zip(i, j, strict=True)} == {
        frozenset(pair) for pair in cKDTree(position).query_pairs(0.3)
    }
    assert len(i) == len(cKDTree(position).query_pairs(0.3))


def test_a_mesh_of_more_nodes_than_all_pairs_is_laid_out_as_a_mesh():
    side = 22
    assert side**2 > ALL_PAIRS
    at = np.arange(side**2).reshape(side, side)
    start, end = (np.concatenate([a.ravel(), b.ravel()]) for a, b in ((at[:, :-1], at[:-1]), (at[:, 1:], at[1:])))
    position = graph_layout(side**2, start, end)
    length = np.hypot(*(position[start] - position[end]).T)
    assert length.max() < 3 * length.min()
