"""Tasks over the cores of this machine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from gridveil.core.parallel import JobPool
from gridveil.core.worker_start import make_ready
from gridveil.solvers.registry import PRELOAD
from gridveil.study.trial import Rows, Rules, Task, TrialNetwork, prepare, run_trial


@dataclass(frozen=True, kw_only=True)
class LocalEngine:
    """Worker processes, each with the networks compiled that it works on. One worker means this process."""

    workers: int
    name: str = "local"

    def make_ready(self) -> None:
        """Let modules be imported while networks are read."""
        if self.workers > 1:
            make_ready((__name__, *PRELOAD))

    def run(self, rules: Rules, jobs: Sequence[tuple[TrialNetwork, Task]]) -> Rows:
        """Yield (job index, row) as the jobs finish."""
        pool = JobPool(prepare, partial(run_trial, rules), workers=self.workers, preload=PRELOAD)
        for index, (network, task) in enumerate(jobs):
            pool.add(index, network, task)
        pool.end()
        return pool.gathered()
