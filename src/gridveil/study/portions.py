"""Tasks of one network that advance together, in batches or one by one in any process."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

from gridveil.bilevel.bulk import run_all
from gridveil.core.choices import BatchEngine
from gridveil.core.parallel import Failure, failure_of
from gridveil.solvers.backend import Backend
from gridveil.solvers.batch.engine import Engine
from gridveil.study.outcome import TaskOutcome
from gridveil.study.trial import PreparedNetwork, Rules, Task, TrialNetwork, run_trial


@dataclass(frozen=True, kw_only=True)
class Portion:
    """Tasks of one network that advance together, and their positions among all jobs."""

    network: TrialNetwork
    tasks: tuple[Task, ...]
    positions: tuple[int, ...]

    @property
    def buses(self) -> int:
        """Of all tasks."""
        return len(self.tasks) * self.network.buses

    def parts(self, most: int) -> list[Portion]:
        """The same in parts of so many tasks."""
        return [
            replace(self, tasks=self.tasks[begin : begin + most], positions=self.positions[begin : begin + most])
            for begin in range(0, len(self.tasks), most)
        ]


def portions_of(jobs: Sequence[tuple[TrialNetwork, Task]], most: int | None = None) -> list[Portion]:
    """The tasks of each network, ``most`` at a time; large networks first, as what they leave over takes longest."""
    by_network: dict[TrialNetwork, list[int]] = {}
    for position, (network, _) in enumerate(jobs):
        by_network.setdefault(network, []).append(position)
    found = []
    for network, positions in sorted(by_network.items(), key=lambda item: -item[0].buses):
        whole = Portion(
            network=network, tasks=tuple(jobs[position][1] for position in positions), positions=tuple(positions)
        )
        found += whole.parts(most or len(positions))
    return found


def run_portion(
    rules: Rules,
    prepared: PreparedNetwork,
    tasks: Sequence[Task],
    choice: BatchEngine | Engine,
    hand_over: Callable[[int], None],
) -> Iterator[tuple[int, TaskOutcome | Failure]]:
    """Yield (position among the tasks, row); a task to be run by itself is handed over instead, by its position."""
    work = [partial(_trial, rules, prepared, task) for task in tasks]
    for position, outcome in run_all(work, prepared.backend, prepared.model, choice, hand_over=hand_over):
        yield position, outcome.result or failure_of(outcome.error or RuntimeError())


def _trial(rules: Rules, prepared: PreparedNetwork, task: Task, backend: Backend) -> TaskOutcome:
    return run_trial(rules, replace(prepared, backend=backend), task)
