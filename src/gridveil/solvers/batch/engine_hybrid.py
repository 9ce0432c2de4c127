"""A GPU that leaves small batches to the processor: a round of nearly idle kernels takes longer than a few scenarios there."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any

import numpy as np

from gridveil.core.threads import all_cores
from gridveil.solvers.batch.engine import Array, Engine, RawInput, RawOutput, RunOptions, Stream, converted
from gridveil.solvers.batch.network import BatchNetwork

BUSES_PER_CORE = 200
"""Buses, of all scenarios, that a core takes through an iteration while a GPU is through the kernels of a round."""


STREAM_BUSES_PER_CORE = 500
"""The same for streams: between two rounds a GPU's host looks at what has ended, which takes it some milliseconds."""


class HybridEngine:
    """The kernels on a GPU, and small batches of the same kernels on all cores; arrays are the GPU's in either case."""

    def __init__(self, large: Engine, small: Engine, cores: int | None = None) -> None:
        self._large, self._small, self._cores = large, small, cores or all_cores()
        self.name, self.send = large.name, large.send
        self.wait: Callable[[], None] = getattr(large, "wait", lambda: None)

    @property
    def xp(self) -> Any:
        """The GPU's array module."""
        return self._large.xp

    @property
    def state_bytes(self) -> int:
        """As on the GPU."""
        return self._large.state_bytes

    @property
    def last(self) -> dict[str, Any]:
        """Facts of the last run on the GPU."""
        return dict(getattr(self._large, "last", {}))

    @property
    def most_memory(self) -> int:
        """Bytes that slots on the GPU took at most."""
        return int(getattr(self._large, "most_memory", 0))

    def is_short_of_memory(self, network: BatchNetwork, given: RawInput) -> bool:
        """Whether the GPU is, if it is asked."""
        return not self._is_small(network, given) and self._large.is_short_of_memory(network, given)

    def run(self, network: BatchNetwork, given: RawInput, options: RunOptions) -> RawOutput:
        """Solve a batch where it takes less time."""
        if not self._is_small(network, given):
            return self._large.run(network, given, options)
        if given.rest is not None:
            given.rest()
        raw = self._small.run(network, converted(given, self.xp.ndarray, self.xp.asnumpy), options)
        return converted(raw, np.ndarray, self.xp.asarray)

    def check(self, net: dict[str, Any], batch: dict[str, Any]) -> None:
        """On the GPU, where the answers are."""
        self._large.check(net, batch)

    def on_rows(self, operation: int, net: dict[str, Any], state: dict[str, Any], asked: Array, told: Array) -> None:
        """On the GPU."""
        self._large.on_rows(operation, net, state, asked, told)

    def suited(self, network: BatchNetwork, rows: int) -> Engine:
        """The processor where its cores are through an iteration of all rows before the host has looked at the device's."""
        small = rows * network.grid.n_bus <= self._cores * STREAM_BUSES_PER_CORE
        return self._small if small else self._large

    def open(self, network: BatchNetwork, rows: int, options: RunOptions) -> Stream:
        """A stream on the GPU; see ``suited``."""
        return self._large.open(network, rows, options)

    def advance(self, streams: Sequence[Stream]) -> None:
        """As on the GPU."""
        self._large.advance(streams)

    def attending(self, streams: Sequence[Stream]) -> AbstractContextManager[None]:
        """As on the GPU."""
        return self._large.attending(streams)

    def _is_small(self, network: BatchNetwork, given: RawInput) -> bool:
        """Whether all cores are done before a GPU is."""
        return len(given.demand_p) * network.grid.n_bus <= self._cores * BUSES_PER_CORE
