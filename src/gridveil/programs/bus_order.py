"""Elimination order and fill of the bus graph, found once per network (docs/structured-solver.md, "Order")."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gridveil.programs.kernel import compiled, entry

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


class Pattern(NamedTuple):
    """The block pattern of L. Column j (a bus, in elimination order) has row blocks ``col_ptr[j]:col_ptr[j+1]``.

    ``target`` lists, column by column and for each pair of row blocks a < b, where their update lands.
    """

    col_ptr: Ints
    row: Ints
    col: Ints
    target: Ints


class BusOrder(NamedTuple):
    """``bus_at[p]`` is the bus eliminated p-th, ``position`` its inverse; ``branch_block`` locates each branch in L."""

    bus_at: Ints
    position: Ints
    pattern: Pattern
    branch_block: Ints


def analyse(n_bus: int, branch_from: Ints, branch_to: Ints, last: Bools) -> BusOrder:
    """Order the buses by minimum degree, those marked ``last`` after all others, and find the fill."""
    neighbour_ptr, neighbours = _adjacency(n_bus, branch_from, branch_to)
    bus_at, column_ptr, members = _minimum_degree(n_bus, neighbour_ptr, neighbours, last)
    position = np.empty(n_bus, np.int64)
    position[bus_at] = np.arange(n_bus)
    col = np.repeat(np.arange(n_bus, dtype=np.int64), np.diff(column_ptr))
    row = position[members]
    row = row[np.lexsort((row, col))]
    pattern = Pattern(col_ptr=column_ptr, row=row, col=col, target=_update_targets(n_bus, column_ptr, row))
    ends = np.stack([position[branch_from], position[branch_to]])
    # Blocks are sorted by (column, row), so one search over the combined key finds every branch.
    branch_block = np.searchsorted(col * n_bus + row, ends.min(axis=0) * n_bus + ends.max(axis=0))
    return BusOrder(bus_at=bus_at, position=position, pattern=pattern, branch_block=branch_block.astype(np.int64))


def _adjacency(n_bus: int, branch_from: Ints, branch_to: Ints) -> tuple[Ints, Ints]:
    both = np.concatenate([branch_from * n_bus + branch_to, branch_to * n_bus + branch_from])
    owner, neighbour = np.divmod(np.unique(both), n_bus)
    proper = owner != neighbour
    counts = np.bincount(owner[proper], minlength=n_bus)
    return np.concatenate([[0], np.cumsum(counts)]).astype(np.int64), neighbour[proper].astype(np.int64)


@entry
def _minimum_degree(n_bus: int, ptr: Ints, neighbours: Ints, last: Bools) -> tuple[Ints, Ints, Ints]:
    """Exact minimum degree on explicit elimination graphs, with buckets of equal degree as linked lists."""
    adjacency = [neighbours[ptr[bus] : ptr[bus + 1]].copy() for bus in range(n_bus)]
    n_buckets = 2 * n_bus + 1
    head = np.full(n_buckets, -1)
    after = np.full(n_bus, -1)
    before = np.full(n_bus, -1)
    bucket = np.empty(n_bus, np.int64)
    for bus in range(n_bus):
        _enter_bucket(bus, len(adjacency[bus]) + n_bus * last[bus], bucket, head, after, before)
    bus_at = np.empty(n_bus, np.int64)
    column_ptr = np.zeros(n_bus + 1, np.int64)
    columns = [neighbours[:0].copy()]
    mark = np.full(n_bus, -1)
    lowest = 0
    for step in range(n_bus):
        while head[lowest] < 0:
            lowest += 1
        bus = head[lowest]
        _leave_bucket(bus, bucket, head, after, before)
        bus_at[step] = bus
        clique = adjacency[bus]
        columns.append(clique)
        column_ptr[step + 1] = column_ptr[step] + len(clique)
        for member in clique:
            old = adjacency[member]
            merged = np.empty(len(old) + len(clique), np.int64)
            size = 0
            mark[member] = member + n_bus * step
            for other in old:
                if other != bus:
                    mark[other] = member + n_bus * step
                    merged[size] = other
                    size += 1
            for other in clique:
                if mark[other] != member + n_bus * step:
                    merged[size] = other
                    size += 1
            adjacency[member] = merged[:size].copy()
            _leave_bucket(member, bucket, head, after, before)
            _enter_bucket(member, size + n_bus * last[member], bucket, head, after, before)
            lowest = min(lowest, bucket[member])
        adjacency[bus] = neighbours[:0].copy()
    members = np.empty(column_ptr[n_bus], np.int64)
    for step in range(n_bus):
        members[column_ptr[step] : column_ptr[step + 1]] = columns[step + 1]
    return bus_at, column_ptr, members


@compiled
def _enter_bucket(bus: int, key: int, bucket: Ints, head: Ints, after: Ints, before: Ints) -> None:
    bucket[bus] = key
    before[bus] = -1
    after[bus] = head[key]
    if head[key] >= 0:
        before[head[key]] = bus
    head[key] = bus


@compiled
def _leave_bucket(bus: int, bucket: Ints, head: Ints, after: Ints, before: Ints) -> None:
    if before[bus] >= 0:
        after[before[bus]] = after[bus]
    else:
        head[bucket[bus]] = after[bus]
    if after[bus] >= 0:
        before[after[bus]] = before[bus]


@entry
def _update_targets(n_bus: int, col_ptr: Ints, row: Ints) -> Ints:
    """Block index of (row b, column row a) for each pair a < b of row blocks in each column."""
    total = 0
    for j in range(n_bus):
        height = col_ptr[j + 1] - col_ptr[j]
        total += height * (height - 1) // 2
    target = np.empty(total, np.int64)
    where = np.empty(n_bus, np.int64)
    k = 0
    for j in range(n_bus):
        for a in range(col_ptr[j], col_ptr[j + 1]):
            column = row[a]
            for block in range(col_ptr[column], col_ptr[column + 1]):
                where[row[block]] = block
            for b in range(a + 1, col_ptr[j + 1]):
                target[k] = where[row[b]]
                k += 1
    return target
