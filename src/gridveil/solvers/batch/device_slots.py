"""Slots in the memory of a GPU."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from gridveil.solvers.batch.device_kernels import WARP
from gridveil.solvers.batch.engine import Array


def per_tile_of(lanes: int) -> int:
    """Slots that share a warp."""
    return max(1, WARP // lanes)


@dataclass(frozen=True, eq=False)
class Slots:
    """Slots in the device's memory, and the kernels for their number of lanes."""

    kernels: dict[str, Any]
    memory: Array
    softness: Array
    work: Any
    """The structure ``Work``."""

    @property
    def lanes(self) -> int:
        """Threads that share a slot."""
        return int(self.kernels["lanes"])

    @property
    def per_tile(self) -> int:
        """Slots that share a warp."""
        return per_tile_of(self.lanes)

    @property
    def on_its_own(self) -> bool:
        """Whether a slot has a warp or a block to itself, and goes through its rounds at its own pace."""
        return self.lanes >= WARP

    @property
    def tiles(self) -> int:
        """Tiles at work."""
        return int(self.work["n_tiles"][0])


class Plain:
    """Stands for a graph where kernels are launched one by one."""

    def __init__(self, launch: Any) -> None:
        self._launch = launch

    def launch(self, stream: Any) -> None:
        """Launch everything."""
        self._launch()
