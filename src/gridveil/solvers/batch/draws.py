"""Random numbers by scenario: row i depends on the seed and i alone, whoever draws it and with whatever others."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

_PER_COUNT = 4  # random words that one count of Philox4x64 yields


def uniform_rows(seed: int, stream: int, begin: int, end: int, columns: int) -> Floats:
    """(end − begin, columns) numbers in [0, 1) of rows begin … end − 1; ``stream`` separates purposes."""
    counts = -(-columns // _PER_COUNT)
    source = np.random.Philox(key=np.array([seed, stream], np.uint64)).advance(begin * counts)
    rows: Floats = np.random.Generator(source).random((end - begin, counts * _PER_COUNT))
    return rows[:, :columns]


def normal_rows(seed: int, stream: int, begin: int, end: int, columns: int) -> Floats:
    """Standard normal numbers, two from each pair of uniform ones (Box and Muller)."""
    pairs = -(-columns // 2)
    uniform = uniform_rows(seed, stream, begin, end, 2 * pairs)
    radius, angle = np.sqrt(-2.0 * np.log1p(-uniform[:, :pairs])), 2.0 * np.pi * uniform[:, pairs:]
    return np.concatenate([radius * np.cos(angle), radius * np.sin(angle)], axis=1)[:, :columns]
