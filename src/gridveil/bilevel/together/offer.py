"""How a method asks for its whole result, where many releases are made at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from gridveil.bilevel.result import BilevelResult
from gridveil.core.band import CostTarget


@dataclass(frozen=True, eq=False)
class Asked:
    """A release that somebody waits for: d̃ and the band."""

    noisy: NDArray[np.float64]
    target: CostTarget


@runtime_checkable
class OffersReleases(Protocol):
    """A backend that may know a whole result."""

    def released_together(self, asked: Asked) -> BilevelResult | None:
        """The result of ``auto`` with its usual settings; None where the method has to run by itself."""
        ...
