"""The joint problems without their network: steps from noisy data that know nothing but limits on the data."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gridveil.solvers.backend import HalfSpace

Vector = NDArray[np.float64]

HALVINGS = 100  # of a step: to the last digit
DOUBLINGS = 200  # of a step, before it counts as leading nowhere


@dataclass(frozen=True, eq=False)
class BoxedData:
    """Noisy data d̃ and the limits that released data keep to."""

    noisy: Vector
    lower: Vector
    upper: Vector

    @property
    def inside(self) -> Vector:
        """The data nearest to d̃ within the limits: d̃ itself, where it keeps to them."""
        kept = bool(np.all((self.lower <= self.noisy) & (self.noisy <= self.upper)))
        return self.noisy if kept else np.clip(self.noisy, self.lower, self.upper)

    def moved(self, step: float, direction: Vector) -> Vector:
        """d̃ moved along a direction, and into the limits."""
        return np.clip(self.noisy + step * direction, self.lower, self.upper)

    def distance(self, d: Vector) -> float:
        """‖d − d̃‖²."""
        return float(np.sum((d - self.noisy) ** 2))

    def nearest(self, half_space: HalfSpace) -> Vector | None:
        """The data nearest to d̃ in a half-space; None where the limits keep all data out of it.

        They are d̃ + t·normal within the limits, with the least t ≥ 0 that gets there.
        """
        normal = half_space.normal
        step = _first(lambda t: float(normal @ self.moved(t, normal)) >= half_space.offset)
        return None if step is None else self.moved(step, normal)

    def farthest(self, direction: Vector, delta: float) -> Vector | None:
        """The data farthest along a direction within ‖d − d̃‖² ≤ δ; None where the limits leave none.

        They are d̃ + t·direction within the limits, with the largest t that stays in the ball.
        """
        if self.distance(self.inside) > delta:
            return None
        beyond = _first(lambda t: self.distance(self.moved(t, direction)) > delta)
        return self.moved(1.0 / np.finfo(float).eps if beyond is None else np.nextafter(beyond, 0.0), direction)


def _first(holds: Callable[[float], bool]) -> float | None:
    """The least t ≥ 0 for which something holds that holds for every larger t; None if it never does."""
    if holds(0.0):
        return 0.0
    low, high = 0.0, 1e-6
    for _ in range(DOUBLINGS):
        if holds(high):
            break
        low, high = high, 2 * high
    else:
        return None
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high
