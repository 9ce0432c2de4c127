"""A worker looks for true demands in the memory that it has from the process which starts it.

Hours of a private series are repaired by workers, which the curator's process starts when it has read the true demands. Were
they forked from it, all of that would lie in their memory. They are forked from a server that was started from scratch.
"""

from __future__ import annotations

import multiprocessing

import held_values
import pytest
from held_values import look

from gridveil.core import worker_start
from gridveil.core.parallel import run_many


def forked_from_the_curator(given, preload):
    """The planted fault: a worker that begins as a copy of the process that starts it."""
    process = multiprocessing.get_context("fork").Process(target=worker_start._run, args=given, daemon=True)
    process.start()
    return process


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
@pytest.mark.skipif(not worker_start.can_fork(), reason="workers start from scratch here")
def test_a_worker_holds_nothing_of_the_process_that_starts_it(monkeypatch):
    true_demand = 41.75
    monkeypatch.setattr(held_values, "HELD", [true_demand])
    assert dict(run_many(str, look, [("a", "b")], workers=2)) == {0: []}
    monkeypatch.setattr(worker_start, "_forked", forked_from_the_curator)
    assert dict(run_many(str, look, [("a", "b")], workers=2)) == {0: [true_demand]}
