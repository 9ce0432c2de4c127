"""Products with A, G and their transposes, pair by pair."""

import numpy as np
from numpy.typing import NDArray

from gridveil.programs.kernel import compiled
from gridveil.sectors.power.soc_graph.layout import ConeGraph

Floats = NDArray[np.float64]


@compiled
def cone_rows(graph: ConeGraph, x: Floats, out: Floats) -> None:
    """out = G x."""
    n_bus, n_pair = len(graph.shunt), len(graph.pair_i)
    for e in range(n_pair):
        alpha, omega = x[n_bus + 2 * e], x[n_bus + 2 * e + 1]
        w_i, w_j = x[graph.pair_i[e]], x[graph.pair_j[e]]
        for r in range(graph.pair_row[e], graph.pair_row[e + 1]):
            row = graph.rows[r]
            out[r] = row[0] * alpha + row[1] * omega + row[2] * w_i + row[3] * w_j
    first = graph.pair_row[n_pair]
    for k in range(len(graph.own_column)):
        out[first + k] = graph.own_sign[k] * x[graph.own_column[k]]


@compiled
def add_transposed_cone_rows(graph: ConeGraph, z: Floats, out: Floats) -> None:
    """out += Gᵀ z."""
    n_bus, n_pair = len(graph.shunt), len(graph.pair_i)
    for e in range(n_pair):
        alpha, omega, w_i, w_j = 0.0, 0.0, 0.0, 0.0
        for r in range(graph.pair_row[e], graph.pair_row[e + 1]):
            row = graph.rows[r]
            alpha += row[0] * z[r]
            omega += row[1] * z[r]
            w_i += row[2] * z[r]
            w_j += row[3] * z[r]
        out[n_bus + 2 * e] += alpha
        out[n_bus + 2 * e + 1] += omega
        out[graph.pair_i[e]] += w_i
        out[graph.pair_j[e]] += w_j
    first = graph.pair_row[n_pair]
    for k in range(len(graph.own_column)):
        out[graph.own_column[k]] += graph.own_sign[k] * z[first + k]


@compiled
def balances(graph: ConeGraph, x: Floats, out: Floats) -> None:
    """out (N, 2) = A x: what leaves each bus, less what its generators feed, plus its move."""
    n_bus, n_pair = len(graph.shunt), len(graph.pair_i)
    for b in range(n_bus):
        out[b, 0] = graph.shunt[b, 0] * x[b]
        out[b, 1] = graph.shunt[b, 1] * x[b]
    for e in range(n_pair):
        i, j, block = graph.pair_i[e], graph.pair_j[e], graph.balance[e]
        for k in range(4):
            value = x[n_bus + 2 * e + k] if k < 2 else (x[i] if k == 2 else x[j])
            out[i, 0] += block[0, k] * value
            out[i, 1] += block[1, k] * value
            out[j, 0] += block[2, k] * value
            out[j, 1] += block[3, k] * value
    local = n_bus + 2 * n_pair
    for k in range(len(graph.local_bus)):
        out[graph.local_bus[k], graph.local_row[k]] -= x[local + k]
    move = local + len(graph.local_bus)
    for k in range(len(graph.move_bus)):
        out[graph.move_bus[k], 0] += x[move + 3 * k + 1]
        out[graph.move_bus[k], 1] += x[move + 3 * k + 2]


@compiled
def add_transposed_balances(graph: ConeGraph, y: Floats, out: Floats) -> None:
    """out += Aᵀ y."""
    n_bus, n_pair = len(graph.shunt), len(graph.pair_i)
    for b in range(n_bus):
        out[b] += graph.shunt[b, 0] * y[b, 0] + graph.shunt[b, 1] * y[b, 1]
    for e in range(n_pair):
        i, j, block = graph.pair_i[e], graph.pair_j[e], graph.balance[e]
        for k in range(4):
            value = block[0, k] * y[i, 0] + block[1, k] * y[i, 1] + block[2, k] * y[j, 0] + block[3, k] * y[j, 1]
            out[n_bus + 2 * e + k if k < 2 else (i if k == 2 else j)] += value
    local = n_bus + 2 * n_pair
    for k in range(len(graph.local_bus)):
        out[local + k] -= y[graph.local_bus[k], graph.local_row[k]]
    move = local + len(graph.local_bus)
    for k in range(len(graph.move_bus)):
        out[move + 3 * k + 1] += y[graph.move_bus[k], 0]
        out[move + 3 * k + 2] += y[graph.move_bus[k], 1]
