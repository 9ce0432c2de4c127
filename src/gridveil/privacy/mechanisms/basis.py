"""Public shapes of a profile: which hours share one value, and how that value is spread over them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gridveil.core.errors import InputError

# Indices are clamped here before hours are added up: 2^16 of them stay below 2^62.
LARGEST_HOUR_INDEX = 2**46
MOST_HOURS = 2**16


@dataclass(frozen=True, eq=False, kw_only=True)
class Basis:
    """A public partition of the hours into blocks. A profile is known by its mean over each block.

    ``labels``, shape (hours,), are the blocks 0, 1, … of the hours. ``shape``, (hours,), has mean one over every block: an
    hour is given the mean of its block times its own shape. All of it is public.
    """

    name: str
    labels: NDArray[np.int64]
    shape: NDArray[np.float64]

    def __post_init__(self) -> None:
        if not 0 < self.hours <= MOST_HOURS:
            raise InputError(f"a series must have between 1 and {MOST_HOURS} hours; split a longer one")
        if self.labels.min() != 0 or not np.all(np.bincount(self.labels)):
            raise InputError("the blocks of a basis must be numbered 0, 1, … without a gap")
        if self.shape.shape != self.labels.shape or not np.allclose(self.means(self.shape[:, None]), 1.0):
            raise InputError("the shape of a basis must have mean one over every block")

    @property
    def hours(self) -> int:
        """T."""
        return len(self.labels)

    @cached_property
    def counts(self) -> NDArray[np.int64]:
        """Hours of each block."""
        return np.bincount(self.labels).astype(np.int64)

    @property
    def blocks(self) -> int:
        """k."""
        return len(self.counts)

    @property
    def is_hourly(self) -> bool:
        """Whether every hour is a block of its own."""
        return self.blocks == self.hours

    def means(self, values: NDArray[Any]) -> NDArray[Any]:
        """Float means over blocks, shape (k, n), of public or noisy values, shape (hours, n)."""
        return self._sums(values) / self.counts[:, None]

    def mean_index(self, index: NDArray[np.int64]) -> NDArray[np.int64]:
        """Round the mean index of every block to the nearest integer, exactly: shape (hours, …) to (k, …)."""
        sums = self._sums(index.clip(-LARGEST_HOUR_INDEX, LARGEST_HOUR_INDEX))
        count = self.counts.reshape(-1, *[1] * (index.ndim - 1))
        # The same as (2·sums + count) // (2·count), which would leave 64 bits where all of the longest series is clamped.
        rounded: NDArray[np.int64] = (sums + count // 2) // count
        return rounded

    def spread(self, blocks: NDArray[Any]) -> NDArray[Any]:
        """Give every hour the value of its block times its shape: shape (k, n) to (hours, n)."""
        return np.asarray(blocks[self.labels] * self.shape[:, None])

    def _sums(self, values: NDArray[Any]) -> NDArray[Any]:
        sums = np.zeros((self.blocks, *values.shape[1:]), dtype=values.dtype)
        np.add.at(sums, self.labels, values)
        return sums


def hourly_basis(hours: int) -> Basis:
    """Every hour by itself."""
    return Basis(name="hours", labels=np.arange(hours), shape=np.ones(hours))


def block_basis(name: str, keys: NDArray[Any], weights: NDArray[np.float64] | None = None) -> Basis:
    """Hours with equal keys share a block; public positive ``weights`` give its shape."""
    labels = np.unique(keys, return_inverse=True)[1].astype(np.int64)
    flat = Basis(name=name, labels=labels, shape=np.ones(len(labels)))
    if weights is None:
        return flat
    if len(weights) != len(labels) or not np.all(np.isfinite(weights)) or np.any(weights <= 0):
        raise InputError("a public shape needs one positive number for every hour of the series")
    mean = flat.means(np.asarray(weights, dtype=float)[:, None])[:, 0]
    return Basis(name=name, labels=labels, shape=weights / mean[labels])
