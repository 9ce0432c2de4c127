"""Sparse matrices by rows, against scipy's."""

import numpy as np
import pytest
from scipy import sparse

from gridveil.programs.sparse_rows import SparseRows


def rows_of(dense):
    """Rows with every entry in two terms, one column out of order: nothing may rely on merged or sorted terms."""
    found = sparse.csr_array(dense)
    once = SparseRows(found.indptr.astype(np.int64), found.indices.astype(np.int64), found.data, dense.shape[1])
    backwards = [np.arange(low, high)[::-1] for low, high in zip(found.indptr, found.indptr[1:], strict=False)]
    term = np.concatenate(backwards).astype(np.int64)
    twice = SparseRows(once.first, once.column[term], once.value[term], once.n_columns)
    return once.scaled(np.full(len(dense), 0.25)) + twice.scaled(np.full(len(dense), 0.75))


@pytest.fixture
def dense():
    rng = np.random.default_rng(3)
    return [rng.normal(size=(6, 5)) * (rng.random((6, 5)) < 0.5) for _ in range(2)]


def test_sparse_rows_do_what_scipy_does(dense):
    one, two = (rows_of(matrix) for matrix in dense)
    factors, place, x, z = np.arange(6.0), np.array([2, 0, 2, 3, 0, 2]), np.arange(5.0), np.arange(6.0) - 2
    summed = np.zeros((5, 5))
    np.add.at(summed, place, dense[0])
    for found, wanted in (
        (one, dense[0]),
        (one + two, dense[0] + dense[1]),
        (one - two, dense[0] - dense[1]),
        (one.scaled(factors), factors[:, None] * dense[0]),
        (one.pick(np.array([4, 1, 1])), dense[0][[4, 1, 1]]),
        (one.pick(factors > 3), dense[0][factors > 3]),
        (one.sum_at(place, 5), summed),
        (SparseRows.stacked([one, SparseRows.empty(2, 5), two]), np.vstack([dense[0], np.zeros((2, 5)), dense[1]])),
        (SparseRows.identity(5), np.eye(5)),
    ):
        assert found.to_scipy().toarray() == pytest.approx(wanted, abs=1e-15)
    assert one @ x == pytest.approx(dense[0] @ x)
    assert one.transposed_times(z) == pytest.approx(dense[0].T @ z)


def test_merging_adds_up_the_terms_of_a_column(dense):
    merged = rows_of(dense[0]).merged()
    assert len(merged.value) == np.count_nonzero(dense[0])
    assert all(np.all(np.diff(merged.column[a:b]) > 0) for a, b in zip(merged.first, merged.first[1:], strict=False))
    assert merged.to_scipy().toarray() == pytest.approx(dense[0])
    assert merged.sizes().terms_of_columns().tolist() == np.count_nonzero(dense[0], axis=0).tolist()
