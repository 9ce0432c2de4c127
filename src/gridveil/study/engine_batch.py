"""Tasks of a study in batches: all of a network advance together on a GPU, or in native code on all cores."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

from gridveil.bilevel.bulk import run_all
from gridveil.core.choices import BatchEngine
from gridveil.core.parallel import failure_of
from gridveil.solvers.backend import Backend
from gridveil.study.outcome import TaskOutcome
from gridveil.study.trial import PreparedNetwork, Rows, Rules, Task, TrialNetwork, prepare, run_trial


@dataclass(frozen=True, kw_only=True)
class BatchTaskEngine:
    """One network after the other; what batches do not know is run one by one."""

    choice: BatchEngine
    workers: int = 1

    @property
    def name(self) -> str:
        """As in ``--engine``."""
        return self.choice.value

    def run(self, rules: Rules, jobs: Sequence[tuple[TrialNetwork, Task]]) -> Rows:
        """Yield (job index, row) as the jobs finish."""
        for network in dict.fromkeys(network for network, _ in jobs):
            chosen = [index for index, (other, _) in enumerate(jobs) if other == network]
            try:
                prepared = prepare(network)
            except Exception as error:
                failure = failure_of(error)
                yield from ((index, failure) for index in chosen)
                continue
            work = [partial(_trial, rules, prepared, jobs[index][1]) for index in chosen]
            for position, outcome in run_all(work, prepared.backend, prepared.model, self.choice):
                yield chosen[position], outcome.result or failure_of(outcome.error or RuntimeError())


def _trial(rules: Rules, prepared: PreparedNetwork, task: Task, backend: Backend) -> TaskOutcome:
    return run_trial(rules, replace(prepared, backend=backend), task)
