"""How a method asks for its whole result, where many releases are made at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from gridveil.bilevel.result import BilevelResult
from gridveil.core.band import CostTarget
from gridveil.core.methods import Method
from gridveil.solvers.backend import Backend


@dataclass(frozen=True, eq=False)
class Asked:
    """A release that somebody waits for: the method that asks, d̃ and the band."""

    method: Method
    noisy: NDArray[np.float64]
    target: CostTarget


@runtime_checkable
class OffersReleases(Protocol):
    """A backend that may know a whole result."""

    def released_together(self, asked: Asked) -> BilevelResult | None:
        """The result of the method with its usual settings; None where it has to run by itself."""
        ...


def ask_together(backend: Backend, asked: Asked) -> BilevelResult | None:
    """The whole result, where the backend knows it."""
    return backend.released_together(asked) if isinstance(backend, OffersReleases) else None
