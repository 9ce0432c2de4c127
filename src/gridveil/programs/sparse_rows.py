"""Sparse matrices by rows, in NumPy alone: what conic programs are written and bounded with.

scipy says the same, but takes longer to import than the relaxation of a small network to solve.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from scipy import sparse

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Picked = Ints | NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class SparseRows:
    """A matrix whose row i has the terms from ``first[i]`` up to ``first[i + 1]``; terms of one column add up."""

    first: Ints
    """(rows + 1,)"""
    column: Ints
    value: Floats
    n_columns: int

    @staticmethod
    def identity(n: int) -> SparseRows:
        """The unit matrix."""
        return SparseRows(np.arange(n + 1), np.arange(n), np.ones(n), n)

    @staticmethod
    def empty(n_rows: int, n_columns: int) -> SparseRows:
        """Rows without a term."""
        return SparseRows(np.zeros(n_rows + 1, np.int64), np.zeros(0, np.int64), np.zeros(0), n_columns)

    @staticmethod
    def stacked(parts: Sequence[SparseRows]) -> SparseRows:
        """One below the other."""
        before = np.cumsum([0, *(len(part.value) for part in parts)])
        return SparseRows(
            np.concatenate([[0], *(part.first[1:] + start for part, start in zip(parts, before, strict=False))]),
            np.concatenate([part.column for part in parts]),
            np.concatenate([part.value for part in parts]),
            parts[0].n_columns,
        )

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(self.first) - 1

    @cached_property
    def row(self) -> Ints:
        """The row of each term."""
        return np.repeat(np.arange(self.n_rows), np.diff(self.first))

    def __add__(self, other: SparseRows) -> SparseRows:
        n = len(self.value) + len(other.value)
        mine = np.arange(len(self.value)) + other.first[self.row]
        others = np.arange(len(other.value)) + self.first[1:][other.row]
        column, value = np.empty(n, np.int64), np.empty(n)
        column[mine], column[others] = self.column, other.column
        value[mine], value[others] = self.value, other.value
        return SparseRows(self.first + other.first, column, value, self.n_columns)

    def __sub__(self, other: SparseRows) -> SparseRows:
        return self + SparseRows(other.first, other.column, -other.value, other.n_columns)

    def __matmul__(self, x: Floats) -> Floats:
        return np.asarray(np.bincount(self.row, self.value * x[self.column], self.n_rows), dtype=float)

    def scaled(self, factors: Floats) -> SparseRows:
        """Each row times its factor."""
        return SparseRows(self.first, self.column, self.value * factors[self.row], self.n_columns)

    def pick(self, rows: Picked) -> SparseRows:
        """Some rows, in the given order."""
        rows = np.flatnonzero(rows) if rows.dtype == np.bool_ else rows
        length = self.first[rows + 1] - self.first[rows]
        first = np.concatenate([[0], np.cumsum(length)])
        term = np.arange(first[-1]) + np.repeat(self.first[rows] - first[:-1], length)
        return SparseRows(first, self.column[term], self.value[term], self.n_columns)

    def sum_at(self, place: Ints, n_places: int) -> SparseRows:
        """Add up the rows that share a place."""
        order = np.argsort(place, kind="stable")
        sorted_rows = self.pick(order)
        ends = np.searchsorted(place[order], np.arange(n_places + 1))
        return SparseRows(sorted_rows.first[ends], sorted_rows.column, sorted_rows.value, self.n_columns)

    def merged(self) -> SparseRows:
        """The same matrix with one term for each column of a row, columns in order."""
        key = self.row * self.n_columns + self.column
        order = np.argsort(key, kind="stable")
        key = key[order]
        starts = np.flatnonzero(np.diff(key, prepend=-1))
        value = np.add.reduceat(self.value[order], starts) if len(starts) else np.zeros(0)
        first = np.searchsorted(key[starts], np.arange(self.n_rows + 1) * self.n_columns)
        return SparseRows(first, key[starts] % self.n_columns, value, self.n_columns)

    def transposed_times(self, z: Floats) -> Floats:
        """Sums over each column of its terms times z of their rows."""
        return np.asarray(np.bincount(self.column, self.value * z[self.row], self.n_columns), dtype=float)

    def sizes(self) -> SparseRows:
        """The absolute values of all terms."""
        return SparseRows(self.first, self.column, np.abs(self.value), self.n_columns)

    def terms_of_columns(self) -> Ints:
        """How many terms each column has."""
        return np.bincount(self.column, minlength=self.n_columns)

    def to_scipy(self) -> sparse.csr_array:
        """The same matrix for libraries that take scipy's."""
        from scipy import sparse

        merged = self.merged()
        return sparse.csr_array((merged.value, merged.column, merged.first), shape=(self.n_rows, self.n_columns))
